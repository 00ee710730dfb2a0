"""Events that gold sets aside when it applies a batch, each with its reason."""

from __future__ import annotations

from ingest.codes import Code
from ingest.sql.projection import LEAVES_KEY, NAMES_OLD_KEY, as_today, events
from ingest.sql.query import select, union_all
from ingest.sql.rejects import reasons, waiting
from ingest.sql.rejects.rows import as_rejects, is_open, without_insert
from ingest.sql.sequence import sequence_position
from ingest.sql.silver import ROW_CHANGES, silver_changes
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.targets.rejects import (
    append,
    change_rejects,
    claimed,
    have_rejects,
    left_aside,
    table_of,
)


def missing_order_key(batch: TableBatch, narrowed: str) -> str:
    """SQL of reasons: the changes of the source table, narrowed, that have no value to order them
    by."""
    where = f"{narrowed} AND ({sequence_position(batch.projection)}) IS NULL AND NOT {LEAVES_KEY}"
    if not batch.projection.truncates:
        where += f" AND {ROW_CHANGES}"
    changes = silver_changes(batch.silver, batch.names, where, renamed=batch.projection.renamed)
    found = [
        reasons.missing_order_key(batch.projection, batch.projection.masked(changes, as_sent=True))
    ]
    if batch.total("key_changes"):
        found.append(reasons.without_insert(_without_insert(batch, narrowed)))
    return union_all(found)


def _without_insert(batch: TableBatch, narrowed: str) -> str:
    """SQL of the deletes of key changes in two messages, narrowed, whose inserts have not come."""
    inserts = _as_today(batch, f"{_until(batch)} AND {NAMES_OLD_KEY}")
    deletes = _as_today(batch, f"{narrowed} AND {LEAVES_KEY}")
    return without_insert(batch.projection, deletes, inserts)


def _until(batch: TableBatch) -> str:
    return f"batch <= {batch.last} AND {batch.only}"


def _as_today(batch: TableBatch, where: str) -> str:
    """SQL of the source table's changes, narrowed, under today's names."""
    changes = silver_changes(batch.silver, batch.names, where, renamed=batch.projection.renamed)
    return as_today(batch.projection, changes)


def misfit_rejects(frames: Frames, batch: TableBatch, events: str) -> int:
    """Set aside the events whose key is NULL or whose values do not fit; gives how many there
    are."""
    return _append(frames, batch, reasons.unfit(batch.projection, events))


def conflict_rejects(frames: Frames, batch: TableBatch, events: str, *, stored: str) -> int:
    """Set aside the events whose key another source table's row holds (27); gives how many there
    are."""
    return _append(frames, batch, reasons.of_others(events, stored))


def resolve_free(frames: Frames, batch: TableBatch, events: str, *, stored: str) -> None:
    """Resolve such conflicts among the batch's events, if no other source table's row (`stored`)
    holds the key any more: a run that was cut off had not handed the key over yet, and now it is
    applied with the batch."""
    claims = claimed(frames.warehouse, batch.projection.source, batch.target)
    if claims is None:
        return
    held = reasons.of_others(events, stored)
    free = waiting.resolved(waiting.without_same(waiting.of_events(claims, events), held))
    if not frames.sql(free).isEmpty():
        change_rejects(frames.warehouse, free)


def without_set_aside(
    frames: Frames, batch: TableBatch, events: str, *, freed: str | None = None
) -> str:
    """SQL of the events (`ingest.sql.projection.that_fit`) without those that are set aside
    although they fit: a fold applies nothing that gold has not applied (34). Those that wait for
    the keys `freed` (SQL) stay."""
    source, target = batch.projection.source, batch.target
    aside = left_aside(frames.warehouse, source, target, shared=batch.shared)
    return events if aside is None else waiting.without_set_aside(events, aside, freed=freed)


def baseless_rejects(frames: Frames, batch: TableBatch, baseless: str) -> int:
    """Set aside the partial images without a base, a relation of results of `ingest.fold.arrow`.
    They are resolved by themselves when the base comes."""
    return _append(frames, batch, reasons.baseless(baseless))


def horizon_rejects(frames: Frames, batch: TableBatch) -> int:
    """Set aside the changes that cannot be placed any more because the history above them was
    trimmed; gives how many."""
    beyond = batch.beyond()
    if beyond is None:
        return 0
    masked = batch.projection.masked(beyond, as_sent=True)
    return _append(frames, batch, reasons.beyond_horizon(masked))


def order_key_rejects(frames: Frames, batch: TableBatch) -> int:
    """Set aside the changes without a value in the columns that order the rows; gives how many."""
    return _append(frames, batch, missing_order_key(batch, batch.span))


def resolve_deletes(frames: Frames, batch: TableBatch) -> None:
    """Mark as resolved the rejects of deletes of key changes in two messages whose inserts have
    come."""
    source, target, code = batch.projection.source, batch.target, Code.ORDER_KEY_MISSING.value
    if not have_rejects(frames.warehouse, source, target, code=code):
        return
    opened = select(table_of(frames.warehouse), is_open(source, target, code))
    deletes = _as_today(batch, f"{_until(batch)} AND {LEAVES_KEY}")
    found = waiting.of_deliveries(opened, deletes)
    resolved = waiting.resolved(waiting.without_same(found, _without_insert(batch, _until(batch))))
    if not frames.sql(resolved).isEmpty():
        change_rejects(frames.warehouse, resolved)


def resolve_rejects(
    frames: Frames,
    batch: TableBatch,
    keys: str | None,
    *,
    code: Code,
    where: str,
    still: str | None = None,
) -> None:
    """Mark as resolved the rejects with `code` of changes of the relation `keys`, or of all changes
    that fit; those in `still`, a relation of results of `ingest.fold.arrow`, stay open.

    `where` narrows silver to the changes that can have been rejected with this code.
    """
    warehouse = frames.warehouse
    changes = events(batch.projection, batch.history(where))
    wanted = is_open(batch.projection.source, batch.target, code.value)
    opened = select(table_of(warehouse), wanted)
    found = (
        waiting.of_events(opened, changes)
        if keys is None
        else waiting.of_keys(opened, changes, keys=keys)
    )
    if still is not None:
        found = waiting.without_results(found, still)
    resolved = waiting.resolved(found)
    if not frames.sql(resolved).isEmpty():
        change_rejects(warehouse, resolved)


def _append(frames: Frames, batch: TableBatch, set_aside: str) -> int:
    """Set aside changes, given as SQL with their reasons; gives how many are new."""
    rejects = as_rejects(set_aside, source=batch.projection.source, target=batch.target)
    return append(frames.warehouse, frames.sql(rejects))
