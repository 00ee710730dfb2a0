"""The MERGE that writes a batch, as far as it is the same for rows and for versions."""

from __future__ import annotations

from collections import Counter

from ingest.position import outermost
from ingest.sql.fold.merge import Truncate
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames


def merged_truncates(batch: TableBatch) -> tuple[Truncate, ...]:
    """The truncates of the batch as its MERGE takes them, a clause each: where rows go without a
    trace, those alone that take what the others take."""
    by_arrival, new = batch.projection.by_arrival, batch.new_truncates
    marking = batch.soft or batch.keeps.versions
    return tuple(
        Truncate(label=batch.projection.label, pos=pos, by_arrival=by_arrival, time=new[pos])
        for pos in (sorted(new) if marking else outermost(new, by_arrival=by_arrival))
    )


def run_merge(frames: Frames, statement: str) -> Counter[str]:
    """Run a MERGE; gives how many rows it inserted, updated and deleted."""
    done = frames.warehouse.execute(statement).first()
    assert done is not None
    result = done.asDict()
    written = ("inserted", "updated", "deleted")
    return Counter({name: int(result.get(f"num_{name}_rows") or 0) for name in written})
