"""Which keys of a batch have to be folded again from history (semantics.md, "Late events").

A MERGE compares positions: a change that is newer than the stored row is written, an older one is
left out. That is right for most keys. It is not where the outcome depends on changes that the batch
does not hold. Such a key is *late*, and one late event is enough. Each event is looked at before
the batch is folded:

| the stored row | an event makes its key late |
|---|---|
| there or not | that changes the key, or is a half of such a change |
| there or not | that shares its place in the source's log with another change of the key |
| there or not | that is a partial image, where the batch also deletes the key |
| there or not | at the place of a truncate in the source's log (43) |
| there | at the row's place in the source's log, but as another delivery (43) |
| there | below the row, if it is a partial image or partial images came before (44, 45) |
| there | below the row, if that came before the target had all its columns (28) |
| there, soft-deleted | below the row: what it held is decided by what lies below the delete (30) |
| there, soft-deleted, of another source table | in any case: that row is no base (27) |
| there | above the row, but below a change that was not written as it changed nothing (38) |
| not there | that is a partial image, with no whole image of the batch before it |

Where no row is stored, an event may also lie below a delete, a key change or a truncate that was
applied before and left nothing behind, or below a partial image that found no base. Such a key is
*doubtful*: only silver can tell whether one of them names it (41, 49), and then it is late. "Below"
compares places in the source's log: of two changes at one place each counts as below the other.

In a table that keeps versions (31), a key is on time only if every event lies above everything that
was applied to it: its next versions then continue from the open one.

The order in which events arrive plays no part in any of this.

Most batches never come here. `TableBatch.folds_in_sql`, which asks `TableBatch.overlaps`
(`pipelines/apply/batch.py`), decides that from the statistics of the batch alone; every batch that
holds an event of the table above must be sent here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ingest.fold.fold import Change, identity
from ingest.fold.truncates import Truncates
from ingest.position import HALF, SOURCE_PART, Pos, may_follow


class LatenessBounds(NamedTuple):
    """What gold remembers of the source table; for each field see
    `pipelines.targets.progress.Watermarks`. `partials` is also true if the batch has partial
    images."""

    last_noop: Pos | None = None
    last_removal: Pos | None = None
    partials: bool = False
    last_baseless: Pos | None = None
    last_narrow: Pos | None = None


class Verdict(NamedTuple):
    """What is to be done with one key of a batch.

    `late`: fold it again from history. `doubtful`: do so if a change above `lowest`, the position
    of its first event, names the key and either removed a row or found no base. `stale`: how many
    of its events lie below the stored row. `passed`: the batch leaves the key as it is, since all
    its events are stale, or the last of them deletes a row that is not there.
    """

    late: bool
    doubtful: bool
    lowest: Pos
    stale: int
    passed: bool


def classify(
    events: Sequence[Change],
    stored: Pos | None,
    bounds: LatenessBounds,
    *,
    marked: bool = False,
    of_another: bool = False,
) -> Verdict:
    """Judge one key by its events of the batch (any order) and its stored row's position.

    `marked`: the stored row is a soft-deleted one. `of_another`: another source table brought it.
    """
    ordered = sorted(events, key=lambda event: event.pos)
    lowest = ordered[0].pos
    late = of_another or any(_changes_key(event) for event in ordered) or tied(ordered)
    doubtful = False
    if stored is None:
        late = late or baseless(ordered)
        bounds_of_none = (bounds.last_removal, bounds.last_baseless)
        doubtful = _reached(ordered[0], bounds_of_none)
        passed = ordered[-1].op == "delete"
    else:
        late = late or any(_overtaken(event, stored, bounds) for event in ordered)
        late = late or (marked and lowest < stored)
        passed = ordered[-1].pos < stored
    # A partial image behind a delete of the same batch has no row to change.
    late = late or (
        any(event.partial for event in ordered) and any(e.op == "delete" for e in ordered)
    )
    stale = 0 if stored is None else sum(event.pos < stored for event in ordered)
    return Verdict(late, doubtful and not late, lowest, stale, passed and not late)


class History(NamedTuple):
    """What is stored of the versions of a key.

    `newest`: the position at which the newest version began. `opened`: a version is open. `ended`:
    there are versions, none is open, and this very batch may have been applied before and have
    ended the last of them. `truncates`: all those of the source table.
    """

    newest: Pos | None
    opened: bool
    ended: bool
    truncates: Truncates


class VersionsVerdict(NamedTuple):
    """What is to be done with the versions of one key: `late`, `doubtful` and `lowest` as in
    `Verdict`; `newer` are the events that its next versions are made of, in order."""

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
    # The newest version began with that very delivery: it is applied already.
    newer = [event for event in ordered if event.pos != stored.newest]
    partial = any(event.partial for event in ordered)
    late = (
        any(_changes_key(event) for event in ordered)
        or tied(ordered)
        or any(stored.truncates.void(event) for event in ordered)
        or any(_at_or_below(event, stored.newest) for event in newer)
        or (not stored.opened and baseless(ordered))
        or (partial and any(event.op == "delete" for event in ordered))
        or any(stored.truncates.stand_beside(event) for event in ordered)
        # The batch may have been applied before. Then an event of it may have changed nothing and
        # begun no version; now that the last version has ended it would begin one, in the middle of
        # the past. Or the event was the first to end that version, which the others of the batch
        # have done since.
        or (stored.ended and bool(newer))
    )
    hidden = (bounds.last_noop, bounds.last_removal, bounds.last_baseless)
    return VersionsVerdict(late, _reached(ordered[0], hidden), lowest, newer)


def _reached(event: Change, bounds: Iterable[Pos | None]) -> bool:
    """Whether what stands at one of the bounds may come after the event."""
    return any(
        bound is not None and may_follow(bound, event.pos, by_arrival=event.by_arrival)
        for bound in bounds
    )


def _at_or_below(event: Change, newest: Pos | None) -> bool:
    """Whether the event does not lie above the start of the newest version. At one place of the
    source's log the transport does not tell which of the two came first."""
    if newest is None:
        return False
    if event.by_arrival:
        return event.pos < newest
    return event.pos[:SOURCE_PART] <= newest[:SOURCE_PART]


def _changes_key(event: Change) -> bool:
    """Whether the event gives its row another key, or is the delete of a key change in two
    messages: by then the key may hold another row (39)."""
    if event.op == "delete" and event.pos[HALF] == 0:
        return True
    return event.key_before is not None and event.key_before != event.key


def tied(ordered: Sequence[Change]) -> bool:
    """Whether two different changes stand at one place of the source's log."""
    if ordered[0].by_arrival:
        return False
    parts = {event.pos[:SOURCE_PART] for event in ordered}
    return len(parts) < len({identity(event) for event in ordered})


def _overtaken(event: Change, stored: Pos, bounds: LatenessBounds) -> bool:
    """Whether comparing the event with the stored row's position is not enough."""
    if event.pos == stored:
        return False
    if not event.by_arrival and event.pos[:SOURCE_PART] == stored[:SOURCE_PART]:
        return True
    if event.pos < stored:
        # A row from before a column was known lacks it, so an event below may still set it.
        narrow = bounds.last_narrow is not None and stored <= bounds.last_narrow
        return event.partial or bounds.partials or narrow
    return _reached(event, (bounds.last_noop,))


def baseless(ordered: Sequence[Change]) -> bool:
    """Whether the first event that sets values is a partial image: then what it is based on is not
    in the batch."""
    for event in ordered:
        if event.op != "delete":
            return event.partial
    return False
