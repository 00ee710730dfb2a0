"""The statement that writes a batch, as far as it is the same in all modes: a MERGE, or an INSERT
if the target was made for the batch."""

from __future__ import annotations

from collections import Counter

from ingest.sql.fold.truncates import MergedTruncates
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames


def merged_truncates(batch: TableBatch) -> MergedTruncates:
    """The truncates of the batch as its MERGE takes them."""
    projection = batch.projection
    return MergedTruncates(
        label=projection.label, by_arrival=projection.by_arrival, times=batch.new_truncates
    )


def run_merge(frames: Frames, statement: str) -> Counter[str]:
    """Run a MERGE; gives how many rows it inserted, updated and deleted."""
    done = frames.warehouse.execute(statement).first()
    assert done is not None
    result = done.asDict()
    written = ("inserted", "updated", "deleted")
    return Counter({name: int(result.get(f"num_{name}_rows") or 0) for name in written})


def run_insert(frames: Frames, target: str, statement: str) -> Counter[str]:
    """Run an INSERT into a target; gives how many rows it inserted."""
    frames.warehouse.execute(statement)
    metrics = frames.warehouse.last_commit("gold", target).metrics
    return Counter(inserted=int(metrics.get("numOutputRows") or 0))
