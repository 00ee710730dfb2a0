"""All of a source table's history folded event by event, in Spark's workers."""

from __future__ import annotations

from ingest.fold.arrow import OUTPUT, Run
from ingest.sql.fold import reconstruction as texts
from ingest.sql.projection import events
from ingest.sql.silver import ROW_CHANGES
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.apply.linked_keys import linked_keys
from pipelines.apply.verdicts import by_component


def folded_history(frames: Frames, batch: TableBatch, run: Run, *, among: str | None = None) -> str:
    """A relation of what `run` gives of the history of all keys, or of those of the relation
    `among`."""
    listed = events(batch.projection, batch.history(ROW_CHANGES))
    linked = linked_keys(frames, batch)
    chosen = texts.events_that_fit(listed, among=among, linked=linked)
    return frames.view(by_component(frames.sql(chosen)).mapInArrow(run, OUTPUT))
