"""The changes of a pass, read from silver once for all its targets if they are few.

Delta plans the source of a MERGE twice, and each time looks through silver's log for the files that
may hold it. For a batch of few changes that is a fifth of what gold costs, and more if there are
many tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from ingest.sql.pending import changes_of_batches
from pipelines.apply import bounds
from pipelines.gold.advance import TargetBatch
from pipelines.platform.scratch import cached_view
from pipelines.platform.session import planned
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import BatchStats, PendingChanges, spanned


@contextmanager
def staged_changes(
    warehouse: Warehouse,
    batches: Mapping[str, TargetBatch],
    pending: PendingChanges,
    *,
    source: str,
    above: int,
) -> Iterator[Mapping[str, TargetBatch]]:
    """The batches, each with the name of a relation that holds the changes of the source in
    silver's batches above a number; the relation lasts until the end. Batches that lag behind the
    number stay as they are, and so do all of them if the changes are many, or if Spark's tasks run
    elsewhere: then what is held would be lost with an executor."""
    new = [stats for stats in pending.stats if stats.first > above]
    even = {name for name, batch in batches.items() if min(batch.above.values()) >= above}
    if not even or not new or not warehouse.in_one_process or not _few(new):
        yield batches
        return
    silver = warehouse.name("silver", "cdc")
    changes = changes_of_batches(silver, source=source, batches=spanned(new))
    with cached_view(planned(warehouse.session.sql(changes))) as staged:
        yield {
            name: replace(batch, staged=staged) if name in even else batch
            for name, batch in batches.items()
        }


def _few(stats: list[BatchStats]) -> bool:
    changes = sum(each.changes for each in stats)
    size = sum(each.image_bytes for each in stats) + changes * bounds.OF_A_ROW
    return changes <= bounds.CHANGES and size <= bounds.BYTES
