"""Names in statements, and the views of a catalog."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from ingest.config.load import load
from ingest.config.settings import Schemas, Settings
from ingest.errors import LeaseHeld, LeaseLost
from pipelines.operations.views import named, publish
from pipelines.platform import leases
from pipelines.platform.leases import (
    Holder,
    Patience,
    TableLog,
    check,
    lease,
    lease_on_all,
    lease_on_part,
)
from pipelines.platform.rows import records
from pipelines.platform.warehouse import Warehouse, create_silver
from tests.support.project import Project
from tests.support.tables import tables_of

SCHEMAS = ("bronze", "silver", "gold", "history")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM gold.a JOIN silver.cdc USING (id)", [("gold", "a"), ("silver", "cdc")]),
        ("select `Gold`.`a b` from `GOLD`.`a b`", [("gold", "a b")]),
        ("SELECT 'gold.a' AS text -- silver.cdc", []),
        ("WITH x AS (SELECT * FROM history.a) SELECT * FROM x", [("history", "a")]),
        ("SHOW TABLES IN gold", [("gold", "*")]),
        ("SHOW VIEWS IN silver;", [("silver", "*")]),
        ("EXPLAIN SELECT * FROM gold.a", [("gold", "a")]),
        ("OPTIMIZE gold.a", [("gold", "a")]),
        ("DESCRIBE HISTORY gold.a", [("gold", "a")]),
        ("SELECT * FROM other.a", []),
        ("SELECT 'open", []),
    ],
)
def test_names_are_found_in_any_statement(query: str, expected: list[tuple[str, str]]) -> None:
    assert named(query, SCHEMAS) == expected


def test_views_are_created_in_a_catalog(
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "conf" / "sources").mkdir(parents=True)
    (tmp_path / "conf" / "sources" / "shop.yml").write_text(
        "name: shop\nformat: canal\norder: source\nfiles: {path: a}\n"
    )
    names = {layer: f"published_{layer}" for layer in SCHEMAS}
    settings = {
        **{"catalog": "spark_catalog", "schemas": names},
        "checkpoints": str(tmp_path / "checkpoints"),
    }
    config = load(tmp_path / "conf", overrides=settings, environ={})
    warehouse = Warehouse(config, spark)
    publish(warehouse)
    create_silver(warehouse)
    control = "kind, source, op, tx_id, topic, partition, offset, row"
    change = f"{control}, format, db, `table`, pos, value_hash, after, batch, event_time"
    at = "timestamp'2024-01-01 00:00:00Z'"

    def row(offset: int, half: int) -> str:
        pos = f"array(0L,1L,7L,1L,0L,0L,0L,0L,{offset}L,0L,{half}L)"
        return (
            f"('change','shop','insert','t1','topic',0,{offset},0,'canal','db','items',{pos},"
            f"42L,map('id','1'),1L,{at})"
        )

    table = warehouse.name("silver", "cdc")
    spark.sql(f"INSERT INTO {table} ({change}) VALUES {row(1, 1)}, {row(5, 1)}, {row(6, 0)}")
    spark.sql(
        f"INSERT INTO {table} ({control}) VALUES ('control','shop','commit','t1','topic',0,7,0), "
        "('control','shop','begin','t2','topic',0,8,0)"
    )
    publish(warehouse)
    spark.sql("DROP VIEW published_silver.ddl")
    created = []
    asked = SparkSession.sql

    def noting(self: SparkSession, text: str) -> DataFrame:
        created.extend([text] if text.startswith("CREATE OR REPLACE VIEW") else [])
        return asked(self, text)

    with monkeypatch.context() as patch:
        patch.setattr(type(spark), "sql", noting)
        publish(warehouse)
    # Only what is not there as it should be.
    assert [text.split()[4] for text in created] == ["`spark_catalog`.`published_silver`.`ddl`"]
    columns = "op, id, pos[8] AS offset"
    found = spark.sql(f"SELECT {columns} FROM published_history.db_items ORDER BY pos")
    # The delivery at offset 5 is the one at offset 1; the other half is a change of its own.
    assert records(found) == [
        {"op": "insert", "id": "1", "offset": 1},
        {"op": "insert", "id": "1", "offset": 6},
    ]
    columns = "tx_id, begin_time, end_time, complete, rolled_back, events, tables"
    found = spark.sql(f"SELECT {columns} FROM published_silver.transactions ORDER BY tx_id")
    empty = {"begin_time": None, "end_time": None, "rolled_back": False}
    assert records(found) == [
        {"tx_id": "t1", "complete": True, "events": 2, "tables": ["db.items"], **empty},
        {"tx_id": "t2", "complete": False, "events": 0, "tables": [], **empty},
    ]
    for view, rows in (("changes", 3), ("ddl", 0), ("rejects", 0), ("schemas", 0)):
        assert spark.table(f"published_silver.{view}").count() == rows
    # And by the command, whose catalog need not be the session's.
    (tmp_path / "conf" / "ingest.yml").write_text(json.dumps(settings))
    project = Project(tmp_path, capsys.readouterr)
    answer = project.ingest("sql", "--json", "SELECT count(*) AS n FROM published_silver.changes")
    assert (answer.code, answer.records) == (0, [{"n": 3}]), answer.err


def test_a_lease_on_tables_of_a_catalog(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies in a table; Delta lets one of two take it."""
    # Signs of life would be in the way of what is tried here.
    monkeypatch.setattr(leases, "BEAT", 3600)
    settings = Settings(
        catalog="spark_catalog",
        # The session's own schemas are those of other tests.
        schemas=Schemas(bronze="leased_bronze", silver="leased_silver", gold="leased_gold"),
        checkpoints=str(tmp_path),
    )
    tables = tables_of(settings, spark)
    log = TableLog(tables, "gold")
    with lease(tables, "gold"):
        check(tables)
        other = tables_of(settings, spark)
        other.patience = Patience(most=0)
        with pytest.raises(LeaseHeld, match=f"gold is held by process {os.getpid()} on "):
            with lease(other, "gold"):
                raise AssertionError("two have it")
        with lease(other, "silver"):
            pass
        with lease_on_part(tables, "bronze", "shop"):
            with pytest.raises(LeaseHeld, match="bronze/shop is held by process"):
                with lease_on_all(other, "bronze"):
                    raise AssertionError("two have it")
        log.beat(1, 5)
        assert log.newest().beat == "5"
        assert log.create_record(2, Holder("another", 1, "2024-01-01T00:00:00Z", "", {}))
        assert not log.create_record(2, None)
        for one in leases._held["spark_catalog.leased_bronze"]:
            one._seen -= 60
        with pytest.raises(LeaseLost):
            check(tables)
    assert (log.newest().number, log.newest().free) == (2, False)
    rounds, free = 3, Holder.here()
    for number in range(3, 3 + rounds):
        with ThreadPoolExecutor(4) as pool:
            taken = list(pool.map(lambda _, n=number: log.create_record(n, free), range(4)))
        assert sum(taken) == 1
