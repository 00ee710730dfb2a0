"""The embedded session: its settings hold, and what prevents it is said in a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ingest.errors import PlatformError
from pipelines import session


def test_settings_hold_and_delta_is_there(spark: SparkSession, warehouse: Path) -> None:
    assert {name: spark.conf.get(name) for name in session.SETTINGS} == session.SETTINGS
    table = str(warehouse / "numbers")
    spark.range(3).write.format("delta").save(table)
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING (SELECT 2L id UNION ALL SELECT 3L) s ON t.id = s.id"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    found = spark.read.format("delta").load(table).orderBy("id").collect()
    assert [tuple(row) for row in found] == [(0,), (1,), (3,)]


def test_a_second_call_gives_the_same_session(spark: SparkSession, tmp_path: Path) -> None:
    assert session.spark(warehouse=tmp_path / "other") is spark
    assert not (tmp_path / "other").exists()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has no session yet."""
    monkeypatch.setattr(SparkSession, "getActiveSession", staticmethod(lambda: None))


def test_warehouse_that_cannot_be_written(fresh: None, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PlatformError) as caught:
        session.spark(warehouse=tmp_path / "file" / "warehouse")
    assert str(caught.value) == (
        f"cannot write to the warehouse {tmp_path}/file/warehouse: Not a directory;"
        " choose another with --warehouse."
    )


def test_wrong_java(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PlatformError, match="Spark needs Java 17 or 21, but JAVA_HOME="):
        session.spark(warehouse=tmp_path / "warehouse")
    assert not (tmp_path / "warehouse").exists()
