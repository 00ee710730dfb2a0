"""What of silver's statements is a schema change: those of a snapshot say how tables are."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.config.sources import Source
from ingest.ddl.parse import Statement, TableName, parse
from ingest.limits import Limits
from ingest.names import SourceTable
from ingest.position import SNAPSHOT, STREAMED
from pipelines.ledger.entries import Entry
from pipelines.ledger.statements import _read, statement_of

SHOP = Source.model_validate({"name": "shop", "format": "debezium", "files": {"path": "x"}})


def row(statement: str, phase: int) -> dict[str, Any]:
    return {
        **{"db": "shop", "schema": None, "table": "orders", "ddl": statement, "op": "ddl"},
        **{"dialect": "mysql", "format": "debezium", "micros": 1_700_000_000_000_000},
        "pos": [0, phase, 3, 500, 0, 0, 0, 7, 1, 0, 1],
    }


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        ("ALTER TABLE other.orders ADD COLUMN c int", ["other.orders"]),
        ("ALTER TABLE ORDERS ADD COLUMN c int", ["shop.orders"]),
        ("ALTER TABLE shop.orders ADD COLUMN c int", ["shop.orders"]),
        ("DROP TABLE shop.orders, other.orders", ["shop.orders", "other.orders"]),
        (
            "RENAME TABLE shop.orders TO bak.orders, stage.orders TO shop.orders",
            ["shop.orders", "stage.orders"],
        ),
    ],
)
def test_67_what_a_statement_names_wins(statement: str, tables: list[str]) -> None:
    found = [entry.table for entry, _ in _read(SHOP, row(statement, STREAMED))]
    assert [f"{table.db}.{table.table}" for table in found] == tables


def test_67_a_message_that_names_no_table_is_of_the_one_in_its_statement() -> None:
    unnamed = {**row("ALTER TABLE crop ADD COLUMN sown date", STREAMED), "table": None}
    [(entry, _)] = _read(SHOP, unnamed)
    assert (entry.table.db, entry.table.table) == ("shop", "crop")


def test_67_a_message_that_names_no_database_is_of_the_table_all_the_same() -> None:
    unnamed = {**row("ALTER TABLE shop.orders ADD COLUMN c int", STREAMED), "db": None}
    [(entry, _)] = _read(SHOP, unnamed)
    assert (entry.table.db, entry.table.table) == (None, "orders")


@pytest.mark.parametrize(
    ("statement", "in_snapshot"),
    [
        ("DROP TABLE IF EXISTS `shop`.`orders`", False),
        ("CREATE TABLE `orders` (`id` int NOT NULL, PRIMARY KEY (`id`))", True),
        ("USE `shop`", False),
        ("SET character_set_server=utf8mb4, collation_server=utf8mb4_bin", False),
        ("ALTER TABLE orders ADD COLUMN x int", False),
    ],
)
def test_of_a_snapshot_only_a_create_is_entered(statement: str, in_snapshot: bool) -> None:
    assert bool(_read(SHOP, row(statement, SNAPSHOT))) == in_snapshot
    assert len(_read(SHOP, row(statement, STREAMED))) == 1


def test_a_statement_of_many_tables_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"Table_{number}" for number in range(500)]
    text = f"DROP TABLE shop.{', shop.'.join(names)}"
    read: list[str] = []

    def parsed(text: str, **given: Any) -> Statement:
        read.append(text)
        return parse(text, **given)

    monkeypatch.setattr("pipelines.ledger.statements.parse.parse", parsed)
    for name in names:
        entry = Entry(id=name, table=SourceTable("s", "shop", None, name.lower()), statement=text)
        [clause] = statement_of(entry, Limits(), [entry.table]).clauses
        assert (clause.kind, clause.table) == ("drop_table", TableName("shop", None, name))
    assert read == [text]
