"""Every image as a row of its own (append): by an INSERT where that is sure to be right, else by a
MERGE.

It is sure if every change lies above everything that was applied and the target's log shows no
write that gold did not record: then no copy of a change can be there. Otherwise a MERGE adds what
is missing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ingest.codes import Code
from ingest.sql.fold import append
from ingest.sql.fold.reconstruction import with_keys
from ingest.sql.projection import events
from pipelines.apply.batch import Applied, TableBatch
from pipelines.apply.frames import Frames
from pipelines.apply.merge import run_insert, run_merge
from pipelines.apply.rejects import misfit_rejects
from pipelines.apply.surprise import Surprise, surprises
from pipelines.apply.watermarks import applied_watermarks
from pipelines.targets.rejects import have_rejects


def fast_suffices(batch: TableBatch) -> bool:
    """See `pipelines.apply.modes.TargetMode`."""
    return not batch.overlaps


def fast(frames: Frames, batch: TableBatch) -> Applied:
    """See `pipelines.apply.modes.TargetMode`."""
    if not _images_expected(batch):
        return _applied(frames, batch, Counter())
    if batch.maybe_written:
        raise Surprise
    new = append.rows(batch.projection, _images(batch), checked=True)
    with surprises():
        statement = append.insert_sql(batch.target_table, batch.projection, new)
        done = run_insert(frames, batch.target, statement)
    return _applied(frames, batch, done)


def exact(frames: Frames, batch: TableBatch) -> Applied:
    """See `pipelines.apply.modes.TargetMode`."""
    if not _images_expected(batch):
        return _applied(frames, batch, Counter())
    images = _images(batch)
    counts = Counter(rejected=misfit_rejects(frames, batch, events(batch.projection, images)))
    new = append.rows(batch.projection, images, checked=False)
    # By arrival a copy has the same position as the row that is there.
    around = "false" if batch.projection.by_arrival else batch.around
    earlier = batch.earlier(f"{append.IMAGES} AND {around}")
    statement = append.merge_sql(batch.target_table, batch.projection, new, earlier=earlier)
    done = run_merge(frames, statement)
    # A row that moves to a lower pos is no new one.
    counts["inserted"] += done["inserted"] - done["deleted"]
    # A run that was cut off may have set some aside; these are not new then.
    source, code = batch.projection.source, Code.TYPE_MISMATCH.value
    unfit = have_rejects(frames.warehouse, source, batch.target, code=code)
    return _applied(frames, batch, counts)._replace(unfit=unfit)


def fast_history(frames: Frames, batch: TableBatch) -> str | None:
    """See `pipelines.apply.modes.TargetMode`."""
    return None


def exact_history(frames: Frames, batch: TableBatch) -> str:
    """See `pipelines.apply.modes.TargetMode`."""
    images = append.rows(batch.projection, batch.history(append.IMAGES), checked=False)
    return with_keys(batch.projection, images)


def _applied(frames: Frames, batch: TableBatch, counts: Counter[str]) -> Applied:
    """The watermarks of the source table once the batch is applied, and the counts. Deletes and
    truncates are counted too, although they leave no row."""
    counts["deleted"] += batch.total("deletes") + batch.total("truncates")
    version = frames.warehouse.last_commit("gold", batch.target).version
    return Applied(replace(applied_watermarks(batch), version=version), counts)


def _images_expected(batch: TableBatch) -> bool:
    """Whether some change of the batch leaves a row."""
    return batch.total("changes") > batch.total("deletes") + batch.total("truncates")


def _images(batch: TableBatch) -> str:
    return batch.brought(append.IMAGES)
