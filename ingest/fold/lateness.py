"""Which keys of a batch need the exact fold (semantics.md, "Late events").

Every event is classified before the batch is folded, and one late event makes its key late. An
event is late

- if it moves its key, or is tied with another of the key by the source's order;
- with the row present: if it equals the row's position on the source's own part only (43); if it
  lies below the row and is partial, or partial images have come before (44, 45), or the row is a
  deleted one that is kept: what it held lies below its position (30); if it lies above the row but
  below a change that was skipped because it changed nothing (38);
- with the row absent: if it is partial and no whole image of the batch stands before it. If it
  lies below some delete or key change that was applied, the key is in doubt: it is late if such a
  change names it (41, 49), which only silver can tell.

Everything else the MERGE settles by comparing positions. Nothing here depends on the order of
arrival.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingest.fold.fold import Change, identity
from ingest.position import SOURCE_PART, Pos
from ingest.sql.projection import Projection, as_text, column


class Floors(NamedTuple):
    """What gold remembers of the source table; see `pipelines.targets.progress.Watermarks`.
    `partials` counts the batch itself."""

    skipped: Pos | None = None
    removed: Pos | None = None
    partials: bool = False
    orphans: Pos | None = None


class Verdict(NamedTuple):
    """What is to be done with one key of a batch.

    `late`: fold it again from history. `doubtful`: late if a removal above `lowest` names it.
    `stale`: how many of its events lie below the stored row. `passed`: gold will rightly not
    change, because all its events are stale or only delete what is absent.
    """

    late: bool
    doubtful: bool
    lowest: Pos
    stale: int
    passed: bool


def classify(
    events: Sequence[Change], stored: Pos | None, floors: Floors, *, marked: bool = False
) -> Verdict:
    """Judge one key by its events of the batch (any order) and its stored row's position.

    `marked`: the stored row is a soft-deleted one.
    """
    ordered = sorted(events, key=lambda event: event.pos)
    lowest = ordered[0].pos
    late = any(moves(event) for event in ordered) or tied(ordered)
    doubtful = False
    if stored is None:
        late = late or baseless(ordered)
        doubtful = any(floor is not None and lowest < floor for floor in floors[1:4:2])
        passed = ordered[-1].op == "delete"
    else:
        late = late or any(_overtaken(event, stored, floors) for event in ordered)
        late = late or (marked and lowest < stored)
        passed = ordered[-1].pos < stored
    # A partial image after a delete of the same batch needs to know that nothing is there.
    late = late or (
        any(event.partial for event in ordered) and any(e.op == "delete" for e in ordered)
    )
    stale = 0 if stored is None else sum(event.pos < stored for event in ordered)
    return Verdict(late, doubtful and not late, lowest, stale, passed and not late)


def moves(event: Change) -> bool:
    return event.key_before is not None and event.key_before != event.key


def tied(ordered: Sequence[Change]) -> bool:
    """Whether two different changes stand at one place of the source's log."""
    if ordered[0].by_arrival:
        return False
    parts = {event.pos[:SOURCE_PART] for event in ordered}
    return len(parts) < len({identity(event) for event in ordered})


def _overtaken(event: Change, stored: Pos, floors: Floors) -> bool:
    if event.pos == stored:
        return False
    if not event.by_arrival and event.pos[:SOURCE_PART] == stored[:SOURCE_PART]:
        return True
    if event.pos < stored:
        return event.partial or floors.partials
    return floors.skipped is not None and event.pos < floors.skipped


def baseless(ordered: Sequence[Change]) -> bool:
    """Whether the first thing that sets values is a partial image."""
    for event in ordered:
        if event.op != "delete":
            return event.partial
    return False


def stored_rows(target: str, shape: Projection, *, soft: bool) -> str:
    """SQL of the target's keys as text, with each row's position and source table.

    `marked`: the row is a soft-deleted one.
    """
    parts = ", ".join(as_text(column(key), shape.columns[key]) for key in shape.keys)
    marked = "_deleted_at IS NOT NULL" if soft else "false"
    return f"SELECT array({parts}) AS key, _pos, _source_table, {marked} AS marked FROM {target}"
