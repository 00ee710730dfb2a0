"""Rows as they are, one a key (SCD 1): a batch folded to one row a key, and one MERGE."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa

from ingest.fold import lateness
from ingest.fold.arrow import SCHEMA, Run, fold_history, judge_rows
from ingest.fold.fold import Key
from ingest.position import may_follow
from ingest.sql.fold.late_keys import any_above, rows_above, rows_below, stored_rows
from ingest.sql.fold.latest import latest
from ingest.sql.fold.merge import Merge, insert_sql
from ingest.sql.fold.merge import sql as merge_sql
from ingest.sql.fold.reconstruction import changes_of_other_keys, keys_to_fold_exactly
from ingest.sql.fold.states import leaving_rows, no_states, not_gone
from ingest.sql.fold.truncates import MergedTruncates
from ingest.sql.projection import events
from ingest.sql.query import union_all
from ingest.sql.silver import ROW_CHANGES, after_pos
from pipelines.apply import bounds
from pipelines.apply.batch import Applied, TableBatch
from pipelines.apply.copies import without_copies
from pipelines.apply.exact import Refolded, fold_late, folded_history, on_time
from pipelines.apply.frames import Frames
from pipelines.apply.late_keys import LateKeys, late_keys
from pipelines.apply.merge import merged_truncates, run_insert, run_merge
from pipelines.apply.surprise import surprises
from pipelines.apply.verdicts import Judged, judge
from pipelines.apply.watermarks import watermarks_after


def fast_suffices(batch: TableBatch) -> bool:
    """See `pipelines.apply.modes.TargetMode`."""
    return batch.folds_in_sql


def fast(frames: Frames, batch: TableBatch) -> Applied:
    """See `pipelines.apply.modes.TargetMode`."""
    rows = latest(batch.projection, batch.changes(), sets=batch.sets, image=batch.image)
    with surprises():
        counts = _merge(
            frames,
            batch,
            f"({rows})",
            exact=False,
            sparing=bool(batch.total("no_ops")),
            truncates=merged_truncates(batch),
        )
    affected = counts["inserted"] + counts["updated"] + counts["deleted"]
    unwritten = affected < batch.total("changes") and (
        bool(batch.total("no_ops")) or _left_keys_out(frames, batch, affected=affected)
    )
    return Applied(watermarks_after(batch, unwritten=unwritten, partial=batch.partial), counts)


def exact(frames: Frames, batch: TableBatch) -> Applied:
    """See `pipelines.apply.modes.TargetMode`."""
    # If only one source table feeds the target, every row is its own, whatever the table was called
    # when the row came.
    of_another = "t.of_another" if batch.shared else "false"
    columns = f"t._pos AS stored, t.marked, {of_another} AS of_another"
    judged = judge(frames, batch, lambda _: _stored(batch), columns=columns, run=_run(batch))
    put_back = _put_back_by_truncates(frames, batch)
    late = late_keys(frames, batch, judged, overtaking=_overtaking(batch), forced_keys=put_back)
    states, expected = _on_time(frames, batch, judged=judged, late=late)
    refolded = fold_late(frames, batch, late, run=history_run(batch))
    if refolded.states:
        states.append(batch.typed_states(refolded.of_kind("state"), exact=True))
    expected += refolded.rows
    counts = judged.counts + refolded.counts
    if states or batch.new_truncates:
        rows = union_all(states) or _none(frames, batch)
        counts += _merge(
            frames,
            batch,
            f"({rows})",
            exact=True,
            # Late changes mostly lose: what is folded again is often as it was.
            sparing=bool(batch.total("no_ops") or late.keys),
            truncates=merged_truncates(batch),
        )
    written = counts["inserted"] + counts["updated"]
    # A truncate that leaves rows behind marks them, and how many cannot be told from the rest.
    unwritten = written < expected or (batch.soft and bool(batch.new_truncates))
    watermarks = watermarks_after(
        batch,
        unwritten=unwritten,
        partial=batch.partial,
        last_baseless=refolded.last_baseless,
    )
    return Applied(watermarks, counts, judged.unfit)


def merge_folded(frames: Frames, batch: TableBatch, refolded: Refolded) -> Counter[str]:
    """See `pipelines.apply.modes.KeyedMode`."""
    if not refolded.states:
        return Counter()
    rows = batch.typed_states(refolded.of_kind("state"), exact=True)
    # Rows that stay as they were are written too, so that each stands at its newest change: late
    # changes are compared with that.
    return _merge(frames, batch, f"({rows})", exact=True, sparing=False)


def fast_history(frames: Frames, batch: TableBatch) -> str | None:
    """See `pipelines.apply.modes.TargetMode`.

    SQL gives the rows of keys that never changed and of which every image is whole and has all
    columns that any has; the others are folded event by event.
    """
    if batch.whole:
        rows = batch.as_states(latest(batch.projection, batch.changes(), sets=batch.sets))
        return not_gone(rows)
    odd = _odd_keys(frames, batch) if not batch.reread else None
    if odd is None:
        return None
    keys = frames.key_view(odd)
    changes = batch.projection.masked(batch.changes())
    plain = changes_of_other_keys(changes, batch.projection, keys)
    rows = batch.as_states(latest(replace(batch.projection, masks={}), plain, sets=batch.sets))
    return not_gone(union_all([rows, _history_states(frames, batch, keys)]) if odd else rows)


def exact_history(frames: Frames, batch: TableBatch) -> str:
    """See `pipelines.apply.modes.TargetMode`."""
    return not_gone(_history_states(frames, batch))


def history_run(batch: TableBatch) -> Run:
    """See `pipelines.apply.modes.KeyedMode`."""
    by_arrival = batch.projection.by_arrival
    return fold_history(soft=batch.soft, by_arrival=by_arrival, truncates=batch.truncates)


def _stored(batch: TableBatch) -> str:
    """SQL of the stored rows by key, those that a truncate takes left out."""
    stored = stored_rows(batch.target_table, batch.projection, soft=batch.soft)
    return rows_above(stored, batch.below_truncates("_pos")) if batch.all_truncates else stored


def _run(batch: TableBatch) -> Run:
    watermarks = batch.watermarks
    return judge_rows(
        soft=batch.soft,
        by_arrival=batch.projection.by_arrival,
        fresh=batch.fresh,
        truncates=batch.truncates,
        bounds=lateness.LatenessBounds(
            last_noop=watermarks.last_noop,
            last_removal=watermarks.last_removal,
            partials=watermarks.partials or batch.partial,
            last_baseless=watermarks.last_baseless,
            last_narrow=watermarks.last_narrow,
        ),
    )


def _overtaking(batch: TableBatch) -> str:
    baseless = batch.watermarks.last_baseless is not None
    return "op = 'delete'" + (" OR after_image = 'partial'" if baseless else "")


def _put_back_by_truncates(frames: Frames, batch: TableBatch) -> list[str]:
    """SQL of the keys that a late truncate affects beside those of the rows it removes; none if
    there is no such truncate.

    A change above the truncate may have been skipped because it changed nothing (38): after the
    truncate it brings the row back. And if some image did not have all columns, a row above the
    truncate still has values from below it, from its own key or from the key that it had before.
    """
    known, first = batch.watermarks, min(batch.new_truncates, default=None)
    if first is None:
        return []
    stored = stored_rows(batch.target_table, batch.projection, soft=batch.soft)
    below, below_changes = batch.below_truncates("_pos"), batch.below_truncates("pos")
    found: list[str] = []
    by_arrival = batch.projection.by_arrival
    after = after_pos(first, by_arrival=by_arrival)
    if known.last_noop is not None and may_follow(known.last_noop, first, by_arrival=by_arrival):
        later = batch.earlier(f"{ROW_CHANGES} AND {after}")
        found.append(rows_below(stored, batch.projection, below=below, above=later))
    narrow = known.partials or batch.partial or known.last_narrow is not None
    late = narrow and not batch.soft and bool(batch.first_truncates)
    # A run that was cut off may have written rows of this very batch above the truncate.
    if late and not frames.sql(any_above(stored, below)).isEmpty():
        of_before = batch.history(f"{ROW_CHANGES} AND ({below_changes})")
        moved = batch.earlier(f"{batch.projection.may_change_key} AND {after}")
        found += [
            rows_below(stored, batch.projection, below=f"NOT ({below})", above=changes)
            for changes in (of_before, moved)
        ]
    return found


def _on_time(
    frames: Frames, batch: TableBatch, *, judged: Judged, late: LateKeys
) -> tuple[list[str], int]:
    """SQL of the states of the keys on time, and an upper bound on the rows that they leave."""
    if judged.large is not None and batch.whole:
        unless = late.relation or frames.view(SCHEMA.empty_table())
        changes = without_copies(batch, batch.changes())
        rows = latest(batch.projection, changes, sets=batch.sets, unless=unless)
        return [batch.as_states(rows)], batch.total("changes")
    states, left = on_time(frames, batch, judged=judged, late=late)
    return ([batch.typed_states(states, exact=False)] if states is not None else []), left


def _history_states(frames: Frames, batch: TableBatch, among: str | None = None) -> str:
    """SQL of the states that history leads to, for all keys or for those of the relation
    `among`."""
    folded = folded_history(frames, batch, history_run(batch), among=among)
    return batch.typed_states(leaving_rows(folded), exact=True)


def _odd_keys(frames: Frames, batch: TableBatch) -> set[Key] | None:
    """The keys that SQL alone cannot fold; None if there are too many to name."""
    few = batch.total("partials") + batch.total("key_changes")
    few += batch.total("deletes") if batch.soft else 0
    # With soft deletes truncates mark the rows that were there; only the fold knows which ones.
    if few > bounds.KEYS or (batch.soft and batch.all_truncates):
        return None
    lacking = len(batch.projection.columns) - len(batch.sets)
    changed = events(batch.projection, batch.changes())
    tied = batch.beside_truncates("pos")
    odd = keys_to_fold_exactly(changed, lacking=lacking, soft=batch.soft, tied=tied)
    return frames.few_keys(odd)


def _none(frames: Frames, batch: TableBatch) -> str:
    """SQL of no rows at all, for a MERGE that only truncates."""
    projection = batch.projection
    nobody = {
        "kind": "state",
        "key": [""] * len(projection.keys),
        "gone": True,
        "whole": False,
        "label": projection.label,
    }
    view = frames.view(pa.Table.from_pylist([nobody], SCHEMA))
    return no_states(projection, view)


def _merge(
    frames: Frames,
    batch: TableBatch,
    rows: str,
    *,
    exact: bool,
    sparing: bool,
    truncates: MergedTruncates | None = None,
) -> Counter[str]:
    merge = Merge(
        target=batch.target_table,
        rows=rows,
        keys=batch.projection.keys,
        columns=batch.projection.columns,
        sets=tuple(batch.projection.columns) if exact else batch.sets,
        source=batch.projection.source,
        soft=batch.soft,
        mixed=exact,
        own=batch.shared,
        sparing=sparing,
        truncates=truncates,
    )
    if batch.fresh:
        return run_insert(frames, batch.target, insert_sql(merge))
    return run_merge(frames, merge_sql(merge))


def _left_keys_out(frames: Frames, batch: TableBatch, *, affected: int) -> bool:
    """Whether the fast way had more keys to deal with than rows it changed. Of a MERGE the target's
    own log tells that; an INSERT leaves out the keys that end with a delete."""
    if batch.fresh:
        return bool(batch.total("deletes"))
    metrics = frames.warehouse.last_commit("gold", batch.target).metrics
    return affected < int(metrics.get("numSourceRows") or 0)
