"""One batch of an append target: an append where that is sure to be right, else a MERGE.

It is sure where every change lies above all that was applied and the target's log shows no write
that gold did not record: then no copy of a change can be there. Else a MERGE adds what is not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ingest.sql import append
from ingest.sql.projection import events
from pipelines.apply.batch import TableBatch
from pipelines.apply.commits import certain, commits
from pipelines.apply.rows import surprised, widest
from pipelines.apply.set_aside import misfit_rejects
from pipelines.targets.progress import Watermarks, highest


def apply(work: TableBatch) -> tuple[Watermarks, Counter[str]]:
    """Bring the target forward; gives the new marks of the source table and what to count."""
    unseen = work.total("deletes") + work.total("truncates")
    counts = Counter(
        events=work.total("changes"), zero_dates=work.total("zero_dates"), deleted=unseen
    )
    try:
        appended = False
        if work.total("changes") > unseen:
            appended = certain(work) is not None and _appended(work)
            if not appended:
                _merge(work, counts)
    finally:
        work.forget()
    last = commits(work, 1)[0]
    if appended:
        counts["inserted"] = last.rows
    applied = highest([work.marks.applied, *(slice_.highest for slice_ in work.slices)])
    marks = replace(
        work.marks,
        applied=applied,
        version=last.version,
        changes=work.history_changes,
        widest=widest(work),
    )
    return marks, counts


def _appended(work: TableBatch) -> bool:
    """Append the batch's rows; whether all could be."""
    new = append.rows(work.shape, _images(work), checked=True)
    frame = work.warehouse.session.sql(append.named_rows(work.shape, new))
    try:
        work.warehouse.append(frame, "gold", work.target)
    except Exception as error:
        if surprised(error):
            return False
        raise
    return True


def _merge(work: TableBatch, counts: Counter[str]) -> None:
    """Set aside what does not fit and add what is not there."""
    images, session = _images(work), work.warehouse.session
    counts["rejected"] += misfit_rejects(work, events(work.shape, images))
    new = append.rows(work.shape, images, checked=False)
    earlier = work.earlier(f"{append.IMAGES} AND {_around(work)}")
    done = session.sql(append.merge_sql(work.target_name, work.shape, new, earlier=earlier)).first()
    assert done is not None
    # A row that moves to a lower pos is no new one.
    counts["inserted"] += int(done["num_inserted_rows"]) - int(done["num_deleted_rows"])


def _images(work: TableBatch) -> str:
    return work.brought(append.IMAGES)


def _around(work: TableBatch) -> str:
    """SQL that is true where an earlier copy can be: copies share the source's order key."""
    if work.shape.by_arrival:
        return "false"
    bounds = [(s.lowest[2], s.highest[2]) for s in work.slices if s.lowest and s.highest]
    if len({pos[:2] for s in work.slices for pos in (s.lowest, s.highest) if pos}) > 1:
        return "true"
    return f"s1 BETWEEN {min(low for low, _ in bounds)} AND {max(high for _, high in bounds)}"
