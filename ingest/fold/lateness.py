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

Of versions (31) a key is on time where all its events lie above everything that was applied to it:
its next versions then go on from its open one. Every other key is late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingest.fold.fold import Change, identity, voided
from ingest.position import SOURCE_PART, Pos
from ingest.sql.projection import Projection, as_text, column


class LatenessBounds(NamedTuple):
    """What gold remembers of the source table; see `pipelines.targets.progress.Watermarks`.
    `partials` counts the batch itself."""

    last_noop: Pos | None = None
    last_removal: Pos | None = None
    partials: bool = False
    last_baseless: Pos | None = None


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
    events: Sequence[Change], stored: Pos | None, bounds: LatenessBounds, *, marked: bool = False
) -> Verdict:
    """Judge one key by its events of the batch (any order) and its stored row's position.

    `marked`: the stored row is a soft-deleted one.
    """
    ordered = sorted(events, key=lambda event: event.pos)
    lowest = ordered[0].pos
    late = any(changes_key(event) for event in ordered) or tied(ordered)
    doubtful = False
    if stored is None:
        late = late or baseless(ordered)
        bounds_of_none = (bounds.last_removal, bounds.last_baseless)
        doubtful = any(bound is not None and lowest < bound for bound in bounds_of_none)
        passed = ordered[-1].op == "delete"
    else:
        late = late or any(_overtaken(event, stored, bounds) for event in ordered)
        late = late or (marked and lowest < stored)
        passed = ordered[-1].pos < stored
    # A partial image after a delete of the same batch needs to know that nothing is there.
    late = late or (
        any(event.partial for event in ordered) and any(e.op == "delete" for e in ordered)
    )
    stale = 0 if stored is None else sum(event.pos < stored for event in ordered)
    return Verdict(late, doubtful and not late, lowest, stale, passed and not late)


class History(NamedTuple):
    """What is stored of the versions of a key. `newest`: where the newest began; `opened`: a row is
    there; `ended`: none is, though there were some, and the batch may be what ended them, applied
    before. `truncates`: those that there were."""

    newest: Pos | None
    opened: bool
    ended: bool
    truncates: Sequence[Change]


class VersionsVerdict(NamedTuple):
    """What is to be done with the versions of one key; `late`, `doubtful` and `lowest` as of
    `Verdict`. `newer`: the events that its next versions come from, in order."""

    late: bool
    doubtful: bool
    lowest: Pos
    newer: list[Change]


def classify_versions(
    events: Sequence[Change], stored: History, bounds: LatenessBounds
) -> VersionsVerdict:
    """Judge one key by its events of the batch (any order) and its versions."""
    ordered = sorted(events, key=lambda event: event.pos)
    lowest = ordered[0].pos
    # The very delivery that the newest version began with says nothing new.
    newer = [event for event in ordered if event.pos != stored.newest]
    partial = any(event.partial for event in ordered)
    late = (
        any(changes_key(event) for event in ordered)
        or tied(ordered)
        or any(voided(event, stored.truncates) for event in ordered)
        or any(_at_or_below(event, stored.newest) for event in newer)
        or (not stored.opened and baseless(ordered))
        or (partial and any(event.op == "delete" for event in ordered))
        # What began no version then would begin one now, below where the last one ended.
        or (stored.ended and any(event.op != "delete" for event in newer))
    )
    hidden = (bounds.last_noop, bounds.last_removal, bounds.last_baseless)
    doubtful = any(bound is not None and lowest < bound for bound in hidden)
    return VersionsVerdict(late, doubtful, lowest, newer)


def _at_or_below(event: Change, newest: Pos | None) -> bool:
    if newest is None:
        return False
    if event.by_arrival:
        return event.pos < newest
    return event.pos[:SOURCE_PART] <= newest[:SOURCE_PART]


def changes_key(event: Change) -> bool:
    return event.key_before is not None and event.key_before != event.key


def tied(ordered: Sequence[Change]) -> bool:
    """Whether two different changes stand at one place of the source's log."""
    if ordered[0].by_arrival:
        return False
    parts = {event.pos[:SOURCE_PART] for event in ordered}
    return len(parts) < len({identity(event) for event in ordered})


def _overtaken(event: Change, stored: Pos, bounds: LatenessBounds) -> bool:
    if event.pos == stored:
        return False
    if not event.by_arrival and event.pos[:SOURCE_PART] == stored[:SOURCE_PART]:
        return True
    if event.pos < stored:
        return event.partial or bounds.partials
    return bounds.last_noop is not None and event.pos < bounds.last_noop


def baseless(ordered: Sequence[Change]) -> bool:
    """Whether the first thing that sets values is a partial image."""
    for event in ordered:
        if event.op != "delete":
            return event.partial
    return False


def stored_rows(target: str, projection: Projection, *, soft: bool) -> str:
    """SQL of the target's keys as text, with each row's position and source table.

    `marked`: the row is a soft-deleted one.
    """
    parts = ", ".join(as_text(column(key), projection.columns[key]) for key in projection.keys)
    marked = "_deleted_at IS NOT NULL" if soft else "false"
    return f"SELECT array({parts}) AS key, _pos, _source_table, {marked} AS marked FROM {target}"
