"""Which statements make a new generation of a table (semantics.md, 77), and of which table."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.ddl.changes import AddColumn, FreezeTable, RecreateTable
from ingest.ddl.parse import parse
from ingest.names import SourceTable
from pipelines.ledger.coming_statements import known_as
from pipelines.ledger.entries import Entry
from pipelines.ledger.generations import (
    columns_as_clauses,
    dropped_before,
    drops,
    frozen,
    replaces,
)

TABLE = SourceTable("s", "shop", None, "crate")


def entry(id_: str, *pos: int, **given: Any) -> Entry:
    return Entry(id=id_, table=TABLE, pos=pos, **given)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("DROP TABLE crate", (True, False, False)),
        ("CREATE TABLE crate (id int)", (False, True, False)),
        ("CREATE TABLE IF NOT EXISTS crate LIKE box", (False, True, False)),
        ("DROP TABLE IF EXISTS crate; CREATE TABLE crate (id int)", (False, True, True)),
        ("CREATE OR REPLACE TABLE crate (id int)", (False, True, True)),
        ("CREATE TABLE crate (id int); DROP TABLE crate", (True, True, False)),
        ("ALTER TABLE crate ADD COLUMN a int", (False, False, False)),
        # A step of an online schema change is no table of the source.
        ("DROP TABLE IF EXISTS _crate_gho", (False, False, False)),
    ],
)
def test_statements(statement: str, found: tuple[bool, bool, bool]) -> None:
    read = parse(statement, db="shop")
    assert (drops(read), read.creates_table, replaces(read)) == found


def test_a_create_makes_good_the_drop_before_it() -> None:
    drop, create, again = entry("d", 4), entry("c", 5, effects=(RecreateTable(),)), entry("e", 8)
    assert dropped_before(create, [(drop, True), (create, False)]) == drop
    assert dropped_before(create, []) is None
    # Once it is created again, another CREATE TABLE IF NOT EXISTS does nothing.
    assert dropped_before(again, [(drop, True), (create, False)]) is None
    second = entry("d2", 7)
    known = [(second, True), (drop, True), (create, False)]
    assert dropped_before(again, known) == second
    assert dropped_before(entry("x", 6), [(second, True)]) is None


def test_a_table_is_frozen_until_it_is_created_again() -> None:
    drop = entry("d", 4, status="applied", effects=(FreezeTable(),))
    waiting = entry("c", 5, effects=(RecreateTable(), AddColumn("a", "int")))
    assert frozen([drop, waiting]) == {TABLE}
    thawed = entry("c", 5, status="applied", effects=waiting.effects)
    assert frozen([thawed, drop]) == set()
    later = entry("e", 9, status="applied", effects=(FreezeTable(),))
    assert frozen([later, thawed, drop]) == {TABLE}


def test_columns_of_the_new_table() -> None:
    read = parse("CREATE TABLE crate (ID bigint, size int DEFAULT 7)", db="shop")
    clauses = columns_as_clauses(read, {"id": "int"}).clauses
    assert [(c.kind, c.column and (c.column.name, c.column.default)) for c in clauses] == [
        ("modify_column", ("ID", None)),
        ("add_column", ("size", None)),
    ]
    (bare,) = columns_as_clauses(parse("CREATE TABLE crate LIKE box"), {"id": "int"}).clauses
    assert bare.kind == "create_table"


@pytest.mark.parametrize(
    ("shadow", "known", "meant"),
    [
        ("_crate_new", ["crate"], "crate"),
        ("__crate_new", ["crate"], "crate"),
        ("___crate_gho", ["Crate"], "Crate"),
        # A table's own name may begin so.
        ("__crate_new", ["_crate", "crate"], "_crate"),
        ("__crate_new", ["box"], "_crate"),
    ],
)
def test_a_shadow_table_with_more_underscores(shadow: str, known: list[str], meant: str) -> None:
    """pt-online-schema-change puts underscores before the name until that is free."""
    read = parse(f"ALTER TABLE {shadow} ADD COLUMN a int", db="shop")
    named = TABLE._replace(table=read.table.name or "")
    tables = [TABLE._replace(table=name) for name in known]
    spelt = {tuple((part or "").lower() for part in table): table for table in tables}
    assert known_as(named, read, spelt).table == meant
