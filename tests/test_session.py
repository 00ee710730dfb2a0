"""The embedded session: its settings hold, and what prevents it is said in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ingest.errors import PlatformError
from pipelines import session

ROOT = Path(__file__).parent.parent


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


SCRIPT = """
import sys
from pathlib import Path
from pipelines.session import connect_kafka, spark
from pyspark.errors import IllegalArgumentException

place = Path(sys.argv[1])
session = spark(warehouse=place)
session.range(2).write.format("delta").save(str(place / "t"))
session.sql(f"MERGE INTO delta.`{place}/t` t USING (SELECT 7L id) s ON t.id = s.id"
            " WHEN NOT MATCHED THEN INSERT *").collect()
connect_kafka(session)
try:
    session.read.format("kafka").load().schema
except IllegalArgumentException:
    known = True
rows = session.read.format("delta").load(str(place / "t")).orderBy("id").collect()
print(type(session).__module__, [row.id for row in rows], known, session.conf.get(
    "spark.sql.session.timeZone"))
session.stop()
"""


@pytest.mark.connect
@pytest.mark.slow
def test_spark_connect_with_a_server_of_its_own(tmp_path: Path) -> None:
    """In a process of its own: a process has one kind of session. Warnings are errors there too."""
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path / "warehouse")],
        env={**os.environ, "SPARK_REMOTE": "local[2]", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert answer.stdout == "pyspark.sql.connect.session [0, 1, 7] True UTC\n", answer.stderr[
        -3000:
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["warehouse"]
