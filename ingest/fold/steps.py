"""Events -> every state each key went through: what SCD 2 is made of (semantics.md, 31).

The fold is that of `ingest.fold.fold`; here each of its steps counts, not only the last one.
`sort_out` takes a batch's events beside what is stored of their keys: a key is on time where all
its events lie above everything that was applied to it, and then its steps start from its open
version. Every other key is late, and `retrace` gives its steps from the whole of its history.
Whether a step begins a version is decided once its values are typed (`ingest.sql.versions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ingest import position
from ingest.fold.arrow import (
    Rows,
    Run,
    change_of,
    grouped,
    result,
    result_of_baseless,
    result_of_state,
)
from ingest.fold.fold import Change, Key, State, fold, voided
from ingest.fold.lateness import Floors, baseless, moves, tied
from ingest.position import SOURCE_PART, Pos


class Trail(dict[Key, State]):
    """The states of a fold, which keeps every one that was set, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[Key, State]] = []

    def __setitem__(self, key: Key, state: State) -> None:
        super().__setitem__(key, state)
        self.steps.append((key, state))


class Judged:
    """One key of a batch: `late` or `doubtful` (`lowest`: its lowest event), else on time with
    `newer` events. `opened`: a row is there; `ended`: none is, though there were some, and the
    batch may be what ended them, applied before."""

    def __init__(
        self,
        events: Sequence[Change],
        newest: Pos | None,
        floors: Floors,
        *,
        opened: bool,
        ended: bool,
        cuts: Sequence[Change],
    ) -> None:
        ordered = sorted(events, key=lambda event: event.pos)
        self.lowest = ordered[0].pos
        # The very delivery that the newest version began with.
        self.newer = [event for event in ordered if event.pos != newest]
        partial = any(event.partial for event in ordered)
        self.late = (
            any(moves(event) for event in ordered)
            or tied(ordered)
            or any(voided(event, cuts) for event in ordered)
            or any(_at_or_below(event, newest) for event in self.newer)
            or (not opened and baseless(ordered))
            or (partial and any(event.op == "delete" for event in ordered))
            # What began no version then would begin one now, below where the last one ended.
            or (ended and any(event.op != "delete" for event in self.newer))
        )
        hidden = (floors.skipped, floors.removed, floors.orphans)
        self.doubtful = any(floor is not None and self.lowest < floor for floor in hidden)


def _at_or_below(event: Change, newest: Pos | None) -> bool:
    if newest is None:
        return False
    if event.by_arrival:
        return event.pos < newest
    return event.pos[:SOURCE_PART] <= newest[:SOURCE_PART]


def trail(changes: Iterable[Change], *, opened: bool = False) -> tuple[Trail, list[Change]]:
    """The steps of `changes`, and the partial images without a base. `opened`: a row is there."""
    states = Trail()
    folded = fold(changes, base=opened, states=states)
    return states, folded.baseless


def sort_out(
    *,
    by_arrival: bool,
    floors: Floors,
    cuts: Sequence[Change],
    new_cuts: Sequence[Change],
    again: bool,
) -> Run:
    """The function for `mapInArrow` over events of a batch, each with `stored` (the newest pos of
    its key's versions), `opened` (that of the open one) and whether it `fits`.

    `new_cuts` are the truncates of the batch, `cuts` all there were. `again`: what the batch holds
    may have been applied before, and not been recorded.
    """

    def results(events: list[dict[str, Any]]) -> Rows:
        changes = [change_of(event, by_arrival=by_arrival) for event in events if event["fits"]]
        if len(changes) < len(events):
            yield result("unfit")
        if not changes:
            return
        newest, opened = _pos(events[0]["stored"]), _pos(events[0]["opened"])
        key = changes[0].key
        assert key is not None
        ends = [end_of(cut, key) for cut in new_cuts if opened and reaches(cut, opened)]
        opens = opened is not None and not ends
        ended = again and newest is not None and opened is None
        judged = Judged(changes, newest, floors, opened=opens, ended=ended, cuts=cuts)
        if judged.late:
            names = {change.key for change in changes} | {change.key_before for change in changes}
            for name in sorted(name for name in names if name is not None):
                yield result("late", key=list(name), pos=list(judged.lowest))
            return
        if judged.doubtful:
            yield result("doubtful", key=list(key), pos=list(judged.lowest))
        states, _ = trail([*ends, *judged.newer], opened=opened is not None)
        yield from (result_of_state(*step) for step in states.steps)

    return grouped(results)


def retrace(*, by_arrival: bool, truncates: Sequence[Change]) -> Run:
    """The function for `mapInArrow` over the history of late keys."""

    def results(events: list[dict[str, Any]]) -> Rows:
        changes = [change_of(event, by_arrival=by_arrival) for event in events]
        states, without_base = trail([*truncates, *changes])
        yield from (result_of_state(*step) for step in states.steps)
        yield from (result_of_baseless(change) for change in without_base)

    return grouped(results)


def _pos(stored: Sequence[int] | None) -> Pos | None:
    return tuple(stored) if stored is not None else None


def reaches(cut: Change, opened: Pos) -> bool:
    """Whether a truncate ends the version that began at `opened`."""
    return position.reaches(cut.pos, opened, by_arrival=cut.by_arrival)


def end_of(cut: Change, key: Key) -> Change:
    """What a truncate is to one key."""
    return cut._replace(op="delete", key=key)
