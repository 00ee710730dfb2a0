"""Versions of rows (SCD 2): one MERGE ends and begins them (`ingest.sql.fold.scd2`).

The fast way takes the batch's own changes as the steps, in SQL, and continues from the open
versions. The exact way makes all versions of late keys anew from silver, and the next versions of
the other keys from the batch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

from ingest.fold.arrow import SCHEMA, Run, fold_history, judge_versions
from ingest.fold.lateness import LatenessBounds
from ingest.position import EPOCH, PHASE, STREAMED, Pos, highest
from ingest.sql.fold import scd2
from ingest.sql.fold.late_keys import of_kinds, stored_versions, versions_below
from ingest.sql.fold.states import typed_keys
from ingest.sql.fold.truncates import MergedTruncates
from ingest.sql.query import union_all
from ingest.sql.silver import ROW_CHANGES, above_pos, after_pos
from pipelines.apply.batch import Applied, TableBatch
from pipelines.apply.exact import Refolded, fold_late, folded_history, on_time
from pipelines.apply.frames import Frames
from pipelines.apply.late_keys import late_keys
from pipelines.apply.merge import merged_truncates, run_insert, run_merge
from pipelines.apply.surprise import Surprise, surprises
from pipelines.apply.verdicts import judge
from pipelines.apply.watermarks import watermarks_after
from pipelines.targets.progress import Watermarks


def fast_suffices(batch: TableBatch) -> bool:
    """See `pipelines.apply.modes.TargetMode`."""
    return batch.folds_in_sql


def fast(frames: Frames, batch: TableBatch) -> Applied:
    """See `pipelines.apply.modes.TargetMode`."""
    if batch.maybe_written:
        raise Surprise
    steps = scd2.changes_as_steps(
        batch.projection, batch.changes(), sets=batch.sets, image=batch.image
    )
    if batch.fresh:
        relation = scd2.beside_nothing(batch.projection, steps)
    else:
        stored = scd2.stored_versions(
            batch.projection, batch.target_table, timely=batch.timely, keys=steps
        )
        relation = scd2.beside(batch.projection, steps, stored)
    with surprises():
        rows = scd2.rows(batch.projection, relation, sets=batch.sets)
        counts = _merge(frames, batch, rows, exact=False, truncates=merged_truncates(batch))
    return Applied(_watermarks(frames, batch, counts), counts)


def exact(frames: Frames, batch: TableBatch) -> Applied:
    """See `pipelines.apply.modes.TargetMode`."""
    judged = judge(
        frames,
        batch,
        lambda changes: stored_versions(batch.target_table, batch.projection, changes=changes),
        columns="t.newest AS stored, t.opened",
        run=_run(batch),
    )
    put_back = _put_back_by_truncates(batch)
    late = late_keys(frames, batch, judged, overtaking=_overtaking(batch), forced_keys=put_back)
    states, _ = on_time(frames, batch, judged=judged, late=late)
    rows = [_rows(batch, states, exact=False)] if states is not None else []
    refolded = fold_late(frames, batch, late, run=history_run(batch))
    if late.keys:
        rows += _versions(batch, refolded)
    counts = judged.counts + refolded.counts
    if rows or batch.new_truncates:
        merged = union_all(rows) or _of_history(batch, frames.view(SCHEMA.empty_table()))
        truncates = merged_truncates(batch)
        counts += _merge(frames, batch, f"({merged})", exact=True, truncates=truncates)
    after = _watermarks(frames, batch, counts, last_baseless=refolded.last_baseless)
    return Applied(after, counts, judged.unfit)


def merge_folded(frames: Frames, batch: TableBatch, refolded: Refolded) -> Counter[str]:
    """See `pipelines.apply.modes.KeyedMode`."""
    rows = f"({union_all(_versions(batch, refolded))})"
    return _merge(frames, batch, rows, exact=True)


def fast_history(frames: Frames, batch: TableBatch) -> str | None:
    """See `pipelines.apply.modes.TargetMode`."""
    if not batch.whole:
        return None
    steps = scd2.changes_as_steps(batch.projection, batch.changes(), sets=batch.sets)
    beside = scd2.beside_nothing(batch.projection, steps)
    return scd2.rows(batch.projection, beside, sets=batch.sets)


def exact_history(frames: Frames, batch: TableBatch) -> str:
    """See `pipelines.apply.modes.TargetMode`."""
    folded = folded_history(frames, batch, history_run(batch))
    return _of_history(batch, f"({of_kinds(folded, ['state'])})")


def history_run(batch: TableBatch) -> Run:
    """See `pipelines.apply.modes.KeyedMode`."""
    by_arrival = batch.projection.by_arrival
    return fold_history(soft=False, by_arrival=by_arrival, truncates=batch.truncates, versions=True)


def _of_history(batch: TableBatch, states: str) -> str:
    """SQL of the versions that a whole history leads to; `states`: a relation of every state that
    each key had."""
    return _rows(batch, states, exact=True)


def _run(batch: TableBatch) -> Run:
    watermarks, truncates = batch.watermarks, batch.truncates
    # A killed run may have applied the batch already. Then any change from before the batch may by
    # now be one that changes nothing, and no count tells which.
    applied = watermarks.applied if batch.maybe_written else None
    last_noop = highest([watermarks.last_noop, applied])
    return judge_versions(
        by_arrival=batch.projection.by_arrival,
        bounds=LatenessBounds(
            last_noop=last_noop,
            last_removal=watermarks.last_removal,
            last_baseless=watermarks.last_baseless,
        ),
        truncates=truncates,
        new_truncates=[truncate for truncate in truncates if truncate.pos in batch.new_truncates],
        again=batch.maybe_written,
    )


def _overtaking(batch: TableBatch) -> str:
    """True for every earlier change: any of them may have changed nothing, or removed the row."""
    lowest = batch.lowest
    if lowest is None or lowest[PHASE] != STREAMED or batch.projection.sequence:
        return ROW_CHANGES
    after = after_pos(lowest, by_arrival=batch.projection.by_arrival)
    return f"{ROW_CHANGES} AND epoch >= {lowest[EPOCH]} AND {after}"


def _put_back_by_truncates(batch: TableBatch) -> list[str]:
    """SQL of the keys that have versions below a late truncate and changes above it.

    If another truncate lies above it, that one is such a change of every key. Versions of this very
    batch that a killed run ended count as applied.
    """
    applied, again = batch.watermarks.applied, batch.maybe_written
    late = batch.first_truncates
    if not again and applied is not None:
        late = [truncate for truncate in late if truncate <= applied]
    below = partial(versions_below, batch.target_table, batch.projection)
    keys: list[str] = []
    last = max(batch.all_truncates, default=None)
    if followed := [truncate for truncate in late if truncate != last]:
        keys.append(below(truncate=followed[-1], above=None))
    if last is not None and last in late:
        where = f"{ROW_CHANGES} AND {above_pos(last)}"
        later = batch.history(where) if again else batch.earlier(where)
        keys.append(below(truncate=last, above=later))
    return keys


def _versions(batch: TableBatch, refolded: Refolded) -> list[str]:
    """SQL of the versions of keys that were folded again, and of those that they no longer have."""
    rows = _of_history(batch, refolded.of_kind("state"))
    keys = typed_keys(batch.projection, refolded.results)
    gone = scd2.unknown(batch.projection, batch.target_table, keys=keys, known=rows)
    return [rows, gone]


def _rows(batch: TableBatch, states: str, *, exact: bool) -> str:
    """SQL of the rows that states lead to. `exact`: they are not based on anything stored."""
    projection = batch.projection
    steps = batch.typed_states(states, exact=exact)
    if exact:
        beside = scd2.beside_nothing(projection, steps)
    else:
        keys = typed_keys(projection, states)
        stored = scd2.stored_versions(projection, batch.target_table, timely=False, keys=keys)
        beside = scd2.beside(projection, steps, stored)
    return scd2.rows(projection, scd2.with_open_values(projection, beside))


def _merge(
    frames: Frames,
    batch: TableBatch,
    rows: str,
    *,
    exact: bool,
    truncates: MergedTruncates | None = None,
) -> Counter[str]:
    merge = scd2.Merge(
        target=batch.target_table,
        rows=rows,
        projection=batch.projection,
        soft=batch.soft,
        timely=not exact,
        truncates=truncates,
    )
    if batch.fresh:
        return run_insert(frames, batch.target, scd2.insert_sql(merge))
    return run_merge(frames, scd2.merge_sql(merge))


def _watermarks(
    frames: Frames, batch: TableBatch, counts: Counter[str], *, last_baseless: Pos | None = None
) -> Watermarks:
    """What gold remembers after the batch."""
    upserts = batch.total("changes") - batch.total("deletes") - batch.total("truncates")
    unwritten = counts["inserted"] < upserts
    partial = bool(batch.total("partials"))
    after = watermarks_after(
        batch, unwritten=unwritten, partial=partial, last_baseless=last_baseless
    )
    if counts["keys_refolded"]:
        # A change above a late one may have begun a version, and now only repeat what the late one
        # says.
        after = replace(after, last_noop=after.applied)
    if batch.version is None or batch.fresh or counts["keys_refolded"]:
        # Versions that stay as they were are written as copies, which no count shows; and an INSERT
        # is a commit of its own, even without any row.
        return replace(after, version=frames.warehouse.last_commit("gold", batch.target).version)
    # The worst that an unforeseen commit does is to have the next batch applied exactly.
    wrote = bool(counts["inserted"] or counts["updated"] or counts["deleted"])
    return replace(after, version=batch.version + wrote)
