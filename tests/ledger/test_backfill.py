"""When a schema change has rows folded again from history, as its entry alone tells."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ingest.ddl.changes import AddColumn, AlterColumnType, DropColumn, RecreateTable, RenameColumn
from ingest.names import SourceTable
from ingest.position import Pos
from pipelines.ledger.backfill import backfill_needed, fill_defaults, masked_default
from pipelines.ledger.entries import Entry

TABLE = SourceTable("s", "shop", None, "crate")
ADD = AddColumn("a", "int")
WITH_DEFAULT = AddColumn("a", "int", "7")
WIDER = AlterColumnType("a", "bigint", True)
BELOW, ABOVE = (4,), (6,)


def change(*effects: Any, proposed: tuple[Any, ...] | None = None) -> Entry:
    own = effects if proposed is None else proposed
    return Entry(id="e", table=TABLE, pos=(5,), effects=effects, proposed=own)


@pytest.mark.parametrize(
    ("entry", "applied", "needed"),
    [
        (change(ADD), None, False),
        (change(ADD), BELOW, False),
        # Rows of a snapshot have it, which stand below all that was streamed.
        (replace(change(ADD), waiting_rows=1), BELOW, True),
        (replace(change(WITH_DEFAULT), waiting_rows=1), BELOW, True),
        (replace(change(WIDER), waiting_rows=1), BELOW, False),
        (change(ADD), ABOVE, True),
        # The table has it already.
        (change(ADD, proposed=()), ABOVE, False),
        (change(WITH_DEFAULT), BELOW, False),
        (change(WITH_DEFAULT, proposed=()), ABOVE, True),
        (change(DropColumn("a")), ABOVE, False),
        # It begins anew as another type, whatever was applied.
        (change(AlterColumnType("a", "int", False), proposed=(DropColumn("a"), ADD)), None, True),
        (change(WIDER), BELOW, False),
        (change(DropColumn("a"), RenameColumn("b", "a")), None, True),
        # What came since the table was made anew waits for it.
        (change(RecreateTable(), WITH_DEFAULT), ABOVE, False),
    ],
)
def test_history_is_folded_where_rows_lack_what_the_column_had(
    entry: Entry, applied: Pos | None, needed: bool
) -> None:
    assert backfill_needed(entry, applied) is needed


@pytest.mark.parametrize(
    ("new", "lacks", "folded", "asked"),
    [
        ({"a"}, True, False, ["UPDATE"]),
        # It was begun before: what is NULL by now may have been sent so.
        (set(), True, True, ["SELECT"]),
        (set(), False, False, ["SELECT"]),
    ],
)
def test_a_default_fills_only_a_column_that_is_new(
    new: set[str], lacks: bool, folded: bool, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def sql(text: str) -> Any:
        said.append(text.split()[0])
        return SimpleNamespace(isEmpty=lambda: not lacks)

    monkeypatch.setattr("pipelines.ledger.backfill.columns_of", lambda *_: {"A": "int"})
    warehouse: Any = SimpleNamespace(
        name=lambda *_: "gold.t", execute=sql, session=SimpleNamespace(sql=sql)
    )
    entry = replace(change(WITH_DEFAULT), target="t")
    found = fill_defaults(warehouse, entry, (), new=new, label="shop.crate", zone=None)
    assert (found, said) == (folded, asked)


def test_a_default_is_masked_where_its_column_is() -> None:
    assert masked_default(change(WITH_DEFAULT), ["A"])
    assert not masked_default(change(WITH_DEFAULT), ["b"])
    assert not masked_default(change(ADD), ["a"])
