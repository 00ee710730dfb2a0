"""What of silver's statements is a schema change: those of a snapshot say how tables are."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.config.sources import Source
from ingest.ddl.parse import Statement, TableName, parse
from ingest.decode.truncates import truncated_tables
from ingest.events import Event
from ingest.limits import Limits
from ingest.names import SourceTable
from ingest.position import SNAPSHOT, STREAMED
from pipelines.ledger.entries import Entry
from pipelines.ledger.statements import _read, statement_of, types_after

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


@pytest.mark.parametrize("order", ["source", "arrival"])
def test_76_what_comes_again_in_a_new_epoch_is_a_statement_of_its_own(order: str) -> None:
    """A table that was dropped and created again is so there, too: what the new epoch brings from
    before that stands above the first CREATE."""
    shop = SHOP.model_copy(update={"order": order})
    first = row("CREATE TABLE orders (id int)", STREAMED)
    [(once, _)] = _read(shop, first)
    [(again, _)] = _read(shop, {**first, "pos": [1, *first["pos"][1:]]})
    [(copy, _)] = _read(shop, {**first, "pos": [*first["pos"][:7], 9, 9, 0, 1]})
    assert again.id != once.id == copy.id


def test_67_a_message_that_names_no_table_is_of_the_one_in_its_statement() -> None:
    unnamed = {**row("ALTER TABLE crop ADD COLUMN sown date", STREAMED), "table": None}
    [(entry, _)] = _read(SHOP, unnamed)
    assert (entry.table.db, entry.table.table) == ("shop", "crop")


def test_67_a_message_that_names_no_database_is_of_the_table_all_the_same() -> None:
    unnamed = {**row("ALTER TABLE shop.orders ADD COLUMN c int", STREAMED), "db": None}
    [(entry, _)] = _read(SHOP, unnamed)
    assert (entry.table.db, entry.table.table) == (None, "orders")


@pytest.mark.parametrize(
    ("statement", "op"),
    [
        ("TRUNCATE orders; ALTER TABLE orders DROP COLUMN c", "truncate"),
        ("ALTER TABLE orders DROP COLUMN c; TRUNCATE orders", "ddl"),
    ],
)
def test_57_a_statement_beside_a_truncate_is_entered(statement: str, op: str) -> None:
    event = Event(op=op, db="shop", table="orders", ddl=statement)
    made = truncated_tables(event, default=None)
    assert sorted(each.op for each in made) == ["ddl", "truncate"]
    # Those of one message have one id, and the first counts.
    (first, read), *_ = _read(SHOP, {**row(statement, STREAMED), "op": made[0].op})
    assert (first.kind, read.kind) == ("unparsed", "drop_column")


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


def test_types_that_columns_have_after_statements() -> None:
    types: dict[str, str] = {}
    for statement, expected in (
        ("CREATE TABLE IF NOT EXISTS t (id int, A varchar(9))", {"id": "int", "a": "varchar(9)"}),
        ("ALTER TABLE t MODIFY a varchar(20)", {"id": "int", "a": "varchar(20)"}),
        # As programs do when they start.
        ("CREATE TABLE IF NOT EXISTS t (id int, A varchar(9))", {"id": "int", "a": "varchar(20)"}),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS A text", {"id": "int", "a": "varchar(20)"}),
        ("ALTER TABLE t RENAME COLUMN a TO b", {"id": "int", "b": "varchar(20)"}),
        (
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS a text, ADD COLUMN IF NOT EXISTS b text",
            {"id": "int", "b": "varchar(20)", "a": "text"},
        ),
        ("ALTER TABLE t DROP COLUMN b", {"id": "int", "a": "text"}),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS b int", {"id": "int", "a": "text", "b": "int"}),
        ("ALTER TABLE t CHANGE IF EXISTS c a int", {"id": "int", "a": "text", "b": "int"}),
        ("ALTER TABLE t CHANGE IF EXISTS B c bigint", {"id": "int", "a": "text", "c": "bigint"}),
        ("DROP TABLE t", {}),
        ("CREATE TABLE IF NOT EXISTS t (id bigint)", {"id": "bigint"}),
    ):
        types = types_after(parse(statement), types)
        assert types == expected, statement
