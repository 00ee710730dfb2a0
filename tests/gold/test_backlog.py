"""What a target lags behind, from what progress says of it; the ledger reads no table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ingest.config.modes import TargetContract
from ingest.config.routes import Route
from ingest.names import SourceTable
from pipelines.gold.backlog import applied_batches, applied_beyond, backlog_of, last_batches
from pipelines.ledger.entries import Entry
from pipelines.ledger.store import Ledger
from pipelines.silver.pending import BatchStats, PendingChanges
from pipelines.targets.progress import Names, Progress, ProgressByTarget, SourceCursor, Watermarks

ITEM, RENAMED = (SourceTable("shop", "db", None, name) for name in ("item", "goods"))
MADE = TargetContract("scd2", ("id",), ())


class _Ledger(Ledger):
    """One that reads no table: progress and the names are given, and all leads to one target."""

    def __init__(
        self,
        progress: ProgressByTarget,
        *,
        keys: tuple[str, ...] | None = None,
        closed: Collection[SourceTable] = (),
    ) -> None:
        config = SimpleNamespace(sources={"shop": SimpleNamespace(keys={})})
        warehouse: Any = SimpleNamespace(config=config)
        super().__init__(warehouse, "shop", progress_by_target=progress)
        self._first_names = {RENAMED: ITEM}
        way = SimpleNamespace(
            source="shop", target="item", keys=keys, stored_as_scd_type=2, shard_column=None
        )
        self._route = cast("Route", way)
        self._closed = closed

    def route(self, table: SourceTable) -> Route | None:
        return self._route

    def closed(
        self, coming: Iterable[Entry] = (), *, changed: Collection[SourceTable] = ()
    ) -> set[SourceTable]:
        return set(self._closed)


def _batches(by_name: dict[str, int]) -> dict[Names, int]:
    return {("db", None, name): batch for name, batch in by_name.items()}


def _cursor(**last: int) -> SourceCursor:
    return SourceCursor(source="shop", batch=9, tables=_batches(last))


def _target(contract: TargetContract | None = MADE, **applied: int) -> ProgressByTarget:
    row = Progress(
        target="item",
        source="shop",
        batch=9,
        contract=contract,
        tables=_batches(applied),
        watermarks={"db.item": Watermarks()} if contract is not None else {},
    )
    return {("shop", "item"): row}


@pytest.mark.parametrize(
    ("progress", "cursor", "expected"),
    [
        # All applied; some not; none, as of a target that was parked from the first.
        (_target(item=7), _cursor(item=7), {}),
        (_target(item=4), _cursor(item=7), {ITEM: 4}),
        ({}, _cursor(item=7), {ITEM: 0}),
        # All names of a table are taken up together, from where the first of them lags.
        (_target(item=4, goods=3), _cursor(item=4, goods=8), {ITEM: 3}),
        (_target(item=2, goods=8), _cursor(item=4, goods=8), {ITEM: 2}),
        # Another run brought the target alone further than the cursor is.
        (_target(item=12), _cursor(item=7), {}),
    ],
)
def test_what_lags_is_taken_from_where_it_does(
    progress: ProgressByTarget, cursor: SourceCursor, expected: dict[SourceTable, int]
) -> None:
    assert backlog_of(_Ledger(progress), cursor) == expected
    assert backlog_of(_Ledger(progress, closed=[ITEM]), cursor) == {}


def test_a_key_that_is_declared_at_last_takes_all_there_was() -> None:
    """Until then every change was a reject for want of a key, without which there are no
    versions."""
    progress, cursor = _target(None, item=7), _cursor(item=7)
    assert backlog_of(_Ledger(progress), cursor) == {}
    assert backlog_of(_Ledger(progress, keys=("id",)), cursor) == {ITEM: 0}


def test_what_was_applied_beyond_the_cursor_is_known_by_every_name() -> None:
    ledger = _Ledger(_target(item=12, goods=3))
    assert applied_beyond(ledger, _cursor(item=7)) == {ITEM: 12, RENAMED: 12}


def test_the_cursor_passes_what_was_looked_through() -> None:
    def stats(table: SourceTable, changed: int | None) -> BatchStats:
        counts = dict.fromkeys(BatchStats._fields, 0)
        return BatchStats(**{**counts, "table": table, "changed": changed})  # type: ignore[arg-type]

    other = SourceTable("shop", "db", None, "other")
    # Batch 12 is not to be published yet; of `other` nothing but a schema came.
    pending = PendingChanges(11, [stats(ITEM, 10), stats(RENAMED, 12), stats(other, None)], {}, {})
    assert last_batches(_cursor(item=7, goods=8), pending) == {
        ("db", None, "goods"): 8,
        ("db", None, "item"): 10,
        ("db", None, "other"): 0,
    }


def test_a_target_is_as_far_as_each_name_that_feeds_it() -> None:
    [progress] = _target(item=4, goods=3).values()
    last = _batches({"item": 10, "other": 11})
    assert applied_batches(progress, [ITEM, RENAMED], last) == {
        ("db", None, "item"): 10,
        ("db", None, "goods"): 3,
    }
