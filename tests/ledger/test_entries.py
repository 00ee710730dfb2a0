"""What an entry of the ledger holds, as the row that keeps it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    DropColumn,
    FreezeTable,
    RecreateTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
)
from ingest.names import SourceTable
from pipelines.ledger.entries import DDL, Entry, Overtaken, Reason, SentAgain, entry_of

EFFECTS = (
    AddColumn("c", "int", "7"),
    DropColumn("d"),
    RenameColumn("e", "f"),
    AlterColumnType("g", "bigint", in_place=True),
    ChangeKey(("a", "b")),
    RenameTable(None, "s", "u"),
    FreezeTable(),
    RecreateTable(),
)


@pytest.mark.parametrize("effects", [EFFECTS, ()])
@pytest.mark.parametrize("reason", [Overtaken("e2"), SentAgain(), None])
@pytest.mark.parametrize("refold", [True, False])
def test_an_entry_comes_back_as_it_was(
    effects: tuple[SchemaChange, ...], reason: Reason | None, refold: bool
) -> None:
    entry = Entry(
        id="e1",
        table=SourceTable("s", "db", None, "t"),
        target="t",
        proposed=(DropColumn("a`b"), AddColumn("c", "int")) if effects else (),
        pos=(0, 1, 2),
        effects=effects,
        reason=reason,
        refold=refold,
    )
    row = dict(zip([name for name, _ in DDL], entry.row(datetime.now(UTC), "`t`"), strict=True))
    assert (row["effects"] is None) == (not effects and reason is None and not refold)
    assert entry_of({**row, "version": 0}) == entry
    proposed = "ALTER TABLE `t` DROP COLUMN `a``b`;\nALTER TABLE `t` ADD COLUMNS (`c` int)"
    assert row["proposed"] == (proposed if effects else None)


def test_the_reason_is_said_to_people() -> None:
    entry = Entry(id="e1", table=SourceTable("s", "db", None, "t"))
    settled = entry.with_status("superseded", why=Overtaken("e2"))
    assert (settled.why, settled.reason) == ("overtaken by e2", Overtaken("e2"))
    again = settled.with_status("approved", by="ada", why="ours")
    assert (again.why, again.reason) == ("ours", None)
