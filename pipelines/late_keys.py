"""The changes that late keys are folded from.

All that a key ever had, or, where that comes to the same, what it had from a change on that leaves
nothing of what was before: so that the cost of a late key does not grow with its history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest.fold import Key
from ingest.order import Pos
from ingest.shape import events
from pipelines.key_history import array_of, not_below, since, starts, unfounded
from pipelines.traces import Traces, hashes, of_keys, trace
from pipelines.work import Work


class Found(NamedTuple):
    """Rows of `ingest.shape.events` with their group (`component`), and how many files of silver
    were looked through for them."""

    changes: DataFrame | pa.Table
    files: int


def changes_of(
    work: Work,
    components: Mapping[Key, int],
    bounds: Mapping[Key, Pos],
    traces: Traces | None,
) -> Found:
    """The changes of the keys, each with its group's number in `components`.

    `bounds`: only below its bound may the fold of a key of the batch start: what the batch has of
    it may depend on that. `traces`: what silver has of these keys and perhaps more.
    """
    known = hashes(work, components)
    below = _alone(components, bounds) if based(work) else {}
    moved = len({*components.values()}) < len(components)
    if known is None or not below:
        chosen = _chosen(work, components, work.history(of_keys(known)), moved=moved)
        return Found(chosen, len(chosen.inputFiles()))
    if traces is None or len(below) < len(components) or not traces.searched >= {*components}:
        traces = trace(work, known, below)
    begun = starts(traces, known)
    read = _chosen(work, components, since(work, known, begun), moved=moved).toArrow()
    read = read.filter(pa.array(not_below(read, begun), pa.bool_()))
    anew = unfounded(read, begun, soft=work.soft)
    if anew:
        missed = {key: components[key] for key in anew}
        whole = work.history(of_keys({key: known[key] for key in anew}))
        kept = pa.array([tuple(key) not in anew for key in read["key"].to_pylist()], pa.bool_())
        rest = _chosen(work, missed, whole, moved=moved).toArrow()
        read = pa.concat_tables([read.filter(kept), rest])
    return Found(read, begun.files)


def based(work: Work) -> bool:
    """Whether rows are what a whole image and the changes above it make them, nothing else.

    Not where a partial image further down may turn out to have no base: that is recorded.
    """
    partials = work.marks.partials or work.partial
    if work.marks.orphans is not None or (work.cuts and partials):
        return False
    return work.mode == "scd1" and not work.shape.by_arrival and not work.shape.sequence


def _alone(components: Mapping[Key, int], bounds: Mapping[Key, Pos]) -> dict[Key, Pos]:
    """The keys of the batch that no change links to another, with their bounds."""
    kin = Counter(components.values())
    alone = (key for key, number in components.items() if kin[number] == 1)
    return {key: bounds[key] for key in alone if key in bounds}


def _chosen(work: Work, components: Mapping[Key, int], changes: str, *, moved: bool) -> DataFrame:
    wanted = pa.table(
        {"key": array_of(components), "component": pa.array(map(str, components.values()))}
    )
    read = "h.*"
    if not moved:
        # Before images count only where keys were changed, and are as large as after images.
        read = "h.* EXCEPT (before), CAST(NULL AS map<string, string>) AS before"
    return work.warehouse.session.sql(
        f"SELECT /*+ BROADCAST(l) */ {read}, l.component FROM ({events(work.shape, changes)}) h "
        f"JOIN {work.view(wanted)} l ON l.key = h.key WHERE size(h.misfits) = 0"
    )
