"""How far a schema change came whose columns take each other's names, by the target's log."""

from __future__ import annotations

import json

import pytest

from ingest.ddl.changes import AddColumn, DropColumn, RenameColumn, SchemaChange, takes_over
from ingest.names import SourceTable
from pipelines.ledger.alter import MARK, Alteration, carried_out
from pipelines.ledger.entries import Entry

STEPS = (
    RenameColumn("a", "_renaming_a"),
    RenameColumn("b", "a"),
    RenameColumn("_renaming_a", "b"),
    AddColumn("c.d", "int"),
    AddColumn("e", "int"),
)
ENTRY = Entry(id="e1", table=SourceTable("s", "db", None, "t"), proposed=STEPS)


def mark(id_: str) -> Alteration:
    return Alteration("SET TBLPROPERTIES", {"properties": json.dumps({MARK: id_})})


def rename(old: str, new: str) -> Alteration:
    return Alteration("RENAME COLUMN", {"oldColumnPath": old, "newColumnPath": new})


@pytest.mark.parametrize(
    ("log", "done"),
    [
        ([], None),
        ([rename("a", "_renaming_a")], None),
        ([mark("e0"), rename("a", "_renaming_a")], None),
        ([mark("e1")], 0),
        ([rename("a", "_renaming_a"), mark("e1"), rename("a", "_renaming_a")], 1),
        ([mark("e1"), rename("`a`", "`_renaming_a`"), rename("b", "a")], 2),
        # Another change came between: a rename is known by its names.
        ([mark("e1"), rename("x", "y"), mark("e0"), rename("a", "_renaming_a")], 1),
        (
            [
                *[mark("e1"), rename("a", "_renaming_a"), rename("b", "a")],
                *[rename("_renaming_a", "b"), Alteration("ADD COLUMNS", {}), rename("p", "q")],
            ],
            4,
        ),
    ],
)
def test_what_was_carried_out(log: list[Alteration], done: int | None) -> None:
    assert carried_out(ENTRY, log) == done


@pytest.mark.parametrize(
    ("changes", "over"),
    [
        ([RenameColumn("a", "b")], False),
        ([RenameColumn("a", "b"), RenameColumn("c", "d")], False),
        ([DropColumn("a"), AddColumn("b", "int")], False),
        ([RenameColumn("b", "c"), RenameColumn("A", "B")], True),
        ([DropColumn("a"), AddColumn("a", "int")], True),
    ],
)
def test_whether_names_are_taken_over(changes: list[SchemaChange], over: bool) -> None:
    assert takes_over(changes) is over
