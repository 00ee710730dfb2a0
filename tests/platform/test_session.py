"""The embedded session: its settings hold, and what prevents it is said in a sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.errors import PlatformError, TableError
from ingest.sql.quoting import sql_text, sql_texts
from pipelines.platform import session


def test_settings_hold_and_delta_is_there(as_shipped: SparkSession, warehouse: Path) -> None:
    spark = as_shipped
    assert {name: spark.conf.get(name) for name in session.SETTINGS} == session.SETTINGS
    table = str(warehouse / "numbers")
    spark.range(3).write.format("delta").save(table)
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING (SELECT 2L id UNION ALL SELECT 3L) s ON t.id = s.id"
        " WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    found = spark.read.format("delta").load(table).orderBy("id").collect()
    assert [tuple(row) for row in found] == [(0,), (1,), (3,)]


def test_workers_import_nothing_from_the_current_folder(spark: SparkSession) -> None:
    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            here = bool({"", "."} & set(sys.path))
            yield pa.RecordBatch.from_pydict({"safe": [sys.flags.safe_path], "here": [here]})

    found = spark.range(1, numPartitions=1).mapInArrow(told, "safe boolean, here boolean").collect()
    assert [tuple(row) for row in found] == [(True, False)]


OWN, UNSET, STATIC = "spark.sql.shuffle.partitions", "parquet.some.setting", "spark.sql.extensions"
CANARIES = ("${env:HOME}", "${name}", "${system:user.dir}", "${spark.app.name}", "'\\\\${env:HOME}")


def test_nothing_in_a_statement_is_replaced(spark: SparkSession) -> None:
    names = ", ".join(f"{sql_text(text)} AS `{text}`" for text in CANARIES)
    (row,) = spark.sql(f"SELECT {names}").collect()
    assert row.asDict() == {text: text for text in CANARIES}
    # A literal is safe where the platform replaces what it finds, too.
    before = spark.conf.get(session.SUBSTITUTION)
    spark.conf.set(session.SUBSTITUTION, "true")
    try:
        (row,) = spark.sql(f"SELECT {sql_texts(CANARIES)}").collect()
    finally:
        spark.conf.set(session.SUBSTITUTION, str(before))
    assert tuple(row) == CANARIES


def test_where_the_platform_replaces_a_name_is_refused() -> None:
    class Settings:
        def set(self, name: str, value: str) -> None:
            raise PySparkException(f"{name} cannot be {value} here")

        def get(self, name: str, default: str) -> str:
            return default

    class Platform:
        conf = Settings()

        def sql(self, query: str) -> str:
            return query

    given: Any = Platform()
    for _ in range(2):
        assert session.literal(given) is given
    assert given.sql(f"SELECT {sql_text('${env:A}')}") == r"SELECT '\u0024{env:A}'"
    assert given.sql("SELECT `$` AS `{a}`, `${a b}`") == "SELECT `$` AS `{a}`, `${a b}`"
    with pytest.raises(TableError, match=r"expected names without \$\{…\}, got \$\{env:A\}: this"):
        given.sql("SELECT 1 AS `a${env:A}`")


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
        " set another `warehouse` in conf/ingest.yml."
    )


def test_wrong_java(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PlatformError, match="Spark needs Java 17 or 21, but JAVA_HOME="):
        session.spark(warehouse=tmp_path / "warehouse")
    assert not (tmp_path / "warehouse").exists()


def test_settings_are_what_they_were_afterwards(spark: SparkSession) -> None:
    before = spark.conf.get(OWN), spark.conf.get(STATIC)
    with pytest.raises(KeyError), session.having(spark, {OWN: "7", STATIC: "none", UNSET: "1"}):
        assert (spark.conf.get(OWN), spark.conf.get(UNSET)) == ("7", "1")
        # Nobody may change that one.
        assert spark.conf.get(STATIC) == before[1]
        raise KeyError
    assert (spark.conf.get(OWN), spark.conf.get(STATIC)) == before
    assert spark.conf.get(UNSET, None) is None


def test_a_platform_that_knows_a_setting_not_even_to_read_goes_on() -> None:
    class Settings:
        def get(self, name: str, default: str | None) -> str:
            raise PySparkException(f"{name} is not available")

    class Platform:
        conf = Settings()

    given: Any = Platform()
    with session.having(given, {OWN: "7"}):
        pass
