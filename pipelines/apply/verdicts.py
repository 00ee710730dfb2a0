"""Every key of a batch judged: on time, late or in doubt (`ingest.fold.lateness`).

A small batch (`TableBatch.small`) is judged in the driver. A larger one is judged in Spark's
workers, by the same function; then only keys and positions come to the driver, never images, and
only if they are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from ingest.fold.arrow import OUTPUT, SCHEMA, Run
from ingest.sql.fold.late_keys import named_verdicts, of_kinds, to_judge
from ingest.sql.projection import events
from ingest.sql.query import select
from pipelines.apply import bounds
from pipelines.apply.batch import TableBatch
from pipelines.apply.copies import UNFIT, without_copies
from pipelines.apply.frames import Frames
from pipelines.apply.rejects import conflict_rejects, horizon_rejects, misfit_rejects, resolve_free

_NAMED = ("late", "doubtful")
_OTHERS = ("passed", "stale", "unfit")


class Judged(NamedTuple):
    """A batch whose keys are judged.

    `verdicts`: results of `ingest.fold.arrow`. Those of a small batch are all here. For a larger
    one the relation `large` has all of them; the states of keys on time are only there, and so are
    the late and doubtful keys if these are `too_many` for the driver. `counts`: how many events
    were set aside, and how many are stale. `unfit`: some value does not fit its column, whether or
    not it was set aside before.
    """

    verdicts: pa.Table
    large: str | None
    too_many: bool
    counts: Counter[str]
    unfit: bool

    def late_or_doubtful(self, frames: Frames) -> str:
        """A relation of the late and doubtful keys: `kind`, `key`, `pos`."""
        columns = ["kind", "key", "pos"]
        if self.large is None:
            named = pc.is_in(self.verdicts["kind"], pa.array(_NAMED))
            return frames.view(self.verdicts.filter(named).select(columns))
        listed = of_kinds(self.large, _NAMED, ", ".join(columns))
        return frames.set_down(frames.sql(listed))


def judge(
    frames: Frames, batch: TableBatch, stored: Callable[[str], str], *, columns: str, run: Run
) -> Judged:
    """Judge every key of the batch by `run`, and set aside what cannot be placed or does not fit.

    `stored` takes SQL of the batch's events and gives SQL of what is stored of their keys;
    `columns` are those of it that `run` gets to see.
    """
    counts = Counter(rejected=horizon_rejects(frames, batch))
    all_events = events(batch.projection, batch.changes())
    others = batch.held_by_others if batch.shared else None
    if others is not None:
        first = select(f"({all_events})", f"NOT {batch.applied_before}")
        counts["rejected"] += conflict_rejects(frames, batch, first, stored=others)
        resolve_free(frames, batch, all_events, stored=others)
    new = without_copies(batch, all_events, digest="digest", kept=UNFIT)
    judged = frames.sql(to_judge(new, stored(all_events), columns=columns, others=others))
    large = None
    if batch.small:
        verdicts, too_many = run_here(run, judged.toArrow()), False
    else:
        large = frames.view(by_component(judged).mapInArrow(run, OUTPUT))
        verdicts, too_many = _verdicts_of(frames, large)
    unfit = bool(pc.any(pc.equal(verdicts["kind"], "unfit")).as_py())
    if unfit:
        counts["rejected"] += misfit_rejects(frames, batch, all_events)
    stale = verdicts.filter(pc.is_in(verdicts["kind"], pa.array(["stale", "passed"])))
    counts["stale"] += pc.sum(stale["stale"]).as_py() or 0
    return Judged(verdicts, large, too_many, counts, unfit)


def _verdicts_of(frames: Frames, judged: str) -> tuple[pa.Table, bool]:
    """The results of a relation without their images: one row for each late or doubtful key, and
    one row a kind for all others. Also whether the late and doubtful keys are too many for the
    driver; then their rows are left out."""
    found = frames.sql(
        named_verdicts(
            judged,
            kinds=_NAMED + _OTHERS,
            named=_NAMED,
            most=bounds.KEYS,
            bytes_most=bounds.KEY_BYTES,
        )
    ).toArrow()
    schema = pa.schema([SCHEMA.field(name) for name in ("kind", "key", "pos", "whole", "stale")])
    found = found.cast(schema) if found.num_rows else schema.empty_table()
    named = pc.is_in(found["kind"], pa.array(_NAMED))
    late = found.filter(named)
    if late.num_rows > bounds.KEYS or late["key"].null_count:
        return found.filter(pc.invert(named)), True
    return found, False


def by_component(events: DataFrame) -> DataFrame:
    """The events spread over Spark's workers, with those side by side that fold together."""
    return events.repartition("component").sortWithinPartitions("component")


def run_here(run: Run, table: pa.Table) -> pa.Table:
    """`run` over all rows at once, here."""
    if not table.num_rows:
        return SCHEMA.empty_table()
    batches = table.sort_by("component").to_batches()
    return pa.Table.from_batches(run(iter(batches)), SCHEMA)
