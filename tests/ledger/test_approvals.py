"""What an approval notes of a target, whoever sees it through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ingest.ddl.changes import AddColumn, DropColumn, SchemaChange
from ingest.names import SourceTable
from pipelines.gold import approvals
from pipelines.ledger.entries import Entry


@pytest.mark.parametrize(
    ("effect", "backfilled", "steps"),
    [
        (AddColumn("a", "int"), False, ["column", "noted", "misfits"]),
        # Values that were set aside come in once the column is known to be new, and so do rows.
        (AddColumn("a", "int"), True, ["column", "noted", "rows", "misfits", "noted"]),
        (DropColumn("a"), True, ["column", "rows", "misfits"]),
    ],
)
def test_an_added_column_is_noted_before_the_entry_is_applied(
    effect: SchemaChange, backfilled: bool, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def step(name: str, result: object = None) -> Any:
        return lambda *_: (done.append(name), result)[1]

    monkeypatch.setattr(approvals, "carry_out", step("column", backfilled))
    monkeypatch.setattr(approvals, "note_widened", step("noted"))
    monkeypatch.setattr(approvals, "backfill", step("rows"))
    monkeypatch.setattr(approvals, "replay_misfits", step("misfits"))
    ledger: Any = SimpleNamespace(
        route=lambda _: SimpleNamespace(target="crate"),
        of=lambda _: [],
        warehouse=SimpleNamespace(exists=lambda *_: True),
        save_entry=step("saved"),
    )
    table = SourceTable("s", "shop", None, "crate")
    entry = Entry(id="e", table=table, pos=(5,), effects=(effect,), status="approved")
    # What a killed run left is seen through by the next one, from the beginning.
    approvals.finish(ledger, entry)
    assert done == [*steps, "saved"]
