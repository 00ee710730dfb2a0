"""One batch of one target: plan, fold, one MERGE.

The fast plan folds the batch in SQL and merges it; it holds while every event is newer than what
was applied and every image is whole. Whatever the statistics rule out, or Spark meets on the way (a
misfit, a tie, a null key: SURPRISE), goes the careful way (`pipelines.apply.exact`): late keys are
folded again from all of silver, the others from the batch, and one MERGE applies both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ingest.position import outermost
from ingest.sql.latest import SURPRISE, latest
from ingest.sql.merge import Merge, Truncate
from ingest.sql.merge import sql as merge_sql
from pipelines.apply.batch import TableBatch
from pipelines.apply.exact import Careful
from pipelines.platform.failures import mentions
from pipelines.platform.leases import check
from pipelines.targets.progress import Watermarks, highest


def apply(work: TableBatch) -> tuple[Watermarks, Counter[str]]:
    """Bring the target forward; gives the new marks of the source table and what to count."""
    counts: Counter[str] = Counter()
    careful = None
    try:
        if not work.simple or not _merge_fast(work, counts):
            careful = Careful(work)
            rows = careful.rows()
            counts.update(careful.counts)
            if rows is not None or work.new_cuts:
                merge(work, rows or careful.nothing(), counts, exact=True)
    finally:
        work.forget()
    counts["events"] = work.total("changes")
    counts["zero_dates"] = work.total("zero_dates")
    return _new_marks(work, counts, careful), counts


def _merge_fast(work: TableBatch, counts: Counter[str]) -> bool:
    rows = latest(work.shape, work.changes(), sets=work.sets, image=work.image)
    try:
        merge(work, f"({rows})", counts, exact=False)
    except Exception as error:
        if surprised(error):
            return False
        raise
    return True


def surprised(error: Exception) -> bool:
    """Whether Spark met SURPRISE."""
    return mentions(error, SURPRISE)


def merge(work: TableBatch, rows: str, counts: Counter[str], *, exact: bool) -> None:
    statement = merge_sql(
        Merge(
            target=work.target_name,
            rows=rows,
            keys=work.shape.keys,
            columns=work.shape.columns,
            sets=tuple(work.shape.columns) if exact else work.sets,
            source=work.shape.source,
            soft=work.soft,
            mixed=exact,
            own=work.shared,
            # Late changes mostly lose: what is folded again is often as it was.
            sparing=bool(work.total("no_ops") or counts["keys_refolded"]),
            cuts=tuple(
                Truncate(
                    label=work.shape.label,
                    pos=cut,
                    by_arrival=work.shape.by_arrival,
                    time=work.cut_times.get(cut, 0),
                )
                for cut in work.new_cuts
            ),
        )
    )
    carry_out(work, statement, counts)


def carry_out(work: TableBatch, statement: str, counts: Counter[str]) -> None:
    """Run a MERGE, and count the rows that it inserted, updated and deleted."""
    check(work.warehouse)
    done = work.warehouse.session.sql(statement).first()
    assert done is not None
    result = done.asDict()
    for name in ("inserted", "updated", "deleted"):
        counts[name] += int(result.get(f"num_{name}_rows") or 0)


def _new_marks(work: TableBatch, counts: Counter[str], careful: Careful | None) -> Watermarks:
    if careful is not None:
        # A truncate that leaves rows behind marks them, and how many cannot be told from the rest.
        written = counts["inserted"] + counts["updated"]
        skipped = written < careful.expected or (work.soft and bool(work.new_cuts))
    else:
        affected = counts["inserted"] + counts["updated"] + counts["deleted"]
        skipped = affected < work.total("changes") and (
            bool(work.total("no_ops")) or affected < _source_rows(work)
        )
    return marked(work, careful, skipped=skipped, partial=work.partial)


def marked(
    work: TableBatch, careful: Careful | None, *, skipped: bool, partial: bool
) -> Watermarks:
    """The marks of the source table after the batch.

    `skipped`: some change may not have been written because it changed nothing; `partial`: some
    image left columns as they were.
    """
    marks = work.marks
    told = any(slice_.keyless or slice_.key_columns for slice_ in work.slices)
    top = highest(slice_.highest for slice_ in work.slices)
    applied = highest([marks.applied, top])
    cuts = {*marks.cuts, *work.new_cuts}
    if work.mode == "scd1" and not work.soft:
        # Rows that a truncate took leave nothing; elsewhere each tells when some ended.
        cuts = {*outermost(cuts, by_arrival=work.shape.by_arrival)}
    return replace(
        marks,
        applied=applied,
        tops=marks.topped(work.above, work.last, applied),
        removed=highest([marks.removed, *(slice_.removed for slice_ in work.slices)]),
        skipped=highest([marks.skipped, top]) if skipped else marks.skipped,
        cuts=tuple(sorted(cuts)),
        partials=marks.partials or partial,
        orphans=highest([marks.orphans, *(careful.orphans if careful is not None else ())]),
        unhashed=marks.unhashed or bool(work.total("unhashed")),
        changes=work.history_changes,
        widest=widest(work),
        foreign=marks.foreign or (told and not work.shape.native),
    )


def widest(work: TableBatch) -> int | None:
    """The bytes of the values of the widest change so far; None: not known."""
    before = work.marks.widest
    return None if before is None else max([before, *(s.widest for s in work.slices)])


def _source_rows(work: TableBatch) -> int:
    """How many keys the fast MERGE had to deal with, from the target's own log."""
    metrics = work.warehouse.last_commit("gold", work.target).metrics
    return int(metrics.get("numSourceRows") or 0)
