"""Events -> state per key: the definition of what gold holds (semantics.md, "Gold").

`fold` takes the distinct changes of some keys and applies them in pos order:

1. Copies of one change are one change (`distinct`): by the source's own part of pos, row, half and
   what happened; by arrival each delivery stands (`ingest.identity`). A joined pair stands in for
   its lone after-half.
2. A change below a truncate of its source table is void; the truncate removes what is below it.
3. A full image sets every column it has and keeps what it lacks (28); a partial image needs a base
   (29); a delete removes, or marks where deletes are soft (30).
4. A change of the key moves the row: the old key goes, the new one starts from the moved row (40).
   The delete half is void where the old key was taken over by an earlier key change of the same
   transaction and now holds another row than the one the event saw before (39), or where the row
   it displaced there is that one: of two equal rows neither may vanish.

SCD 1 keeps the last step of each key; SCD 2 keeps all steps as versions (31).

A fold may start from rows it does not know (`base=True`): what is stored in gold counts as a base,
and the state says which columns it sets. From history it starts from nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ingest import identity as identities
from ingest.events import Row
from ingest.position import (
    HALF,
    SOURCE_PART,
    STREAM,
    Pos,
    delete_half,
    own_stream,
    reaches,
    tied,
)

Key = tuple[str, ...]
Origin = tuple[int, str, int, int, int]
"""Where a change came from: epoch, topic, partition, offset and row."""


class Change(NamedTuple):
    """One change of one key, or a truncate (`key` None).

    `key_before` differs from `key` where the change moves the row. `image` is the after image;
    None for deletes and truncates. `before` is the before image as sent. `transaction` is equal
    for changes of one transaction. `by_arrival`: the source is ordered by arrival. `origin`: where
    the event came from.
    """

    op: str
    pos: Pos
    table: str
    key: Key | None
    key_before: Key | None = None
    image: Row | None = None
    before: Row | None = None
    partial: bool = False
    event_time: int | None = None
    transaction: str | None = None
    digest: int | None = None
    by_arrival: bool = False
    origin: Origin | None = None


class State(NamedTuple):
    """What a key comes to: `row` None = no such row.

    `keeps`: columns that `row` lacks keep what is stored. `insertable`: the row can be
    inserted where none is stored. `pos`, `event_time` and `table` are those of the last change that
    applied; `deleted_at` is the time of a soft delete (0 where the change has none).
    """

    row: Row | None
    pos: Pos
    table: str
    event_time: int | None
    keeps: bool = False
    insertable: bool = True
    deleted_at: int | None = None
    moved_by: str | None = None


class Step(NamedTuple):
    """What a change does to one key: its state from then on."""

    key: Key
    state: State


class Folded(NamedTuple):
    """The states, and the changes that found no base to apply to."""

    states: dict[Key, State]
    baseless: list[Change]


def identity(change: Change) -> tuple[object, ...]:
    """What copies of one change have in common."""
    return identities.identity(
        change.pos, table=change.table, digest=change.digest, by_arrival=change.by_arrival
    )


def distinct(changes: Iterable[Change]) -> list[Change]:
    """The changes in pos order, each once, at its lowest pos; with a before image where one copy
    has it (a pair that was joined when its other half came)."""
    once: dict[tuple[object, ...], Change] = {}
    for change in sorted(changes, key=lambda change: (change.pos, change.before is None)):
        known = once.get(identity(change))
        if known is None:
            once[identity(change)] = change
        elif known.before is None and change.before is not None:
            once[identity(change)] = change._replace(pos=known.pos)
    return sorted(once.values(), key=lambda change: change.pos)


def in_halves(changes: Sequence[Change]) -> list[Change]:
    """The changes, where a key change came in two messages its delete before its insert: from two
    partitions they stand at one place of the source's log in any order."""
    if not any(_names_old_key(change) for change in changes):
        return list(changes)
    deletes: dict[tuple[str, Pos, Key | None], Change] = {
        (change.table, change.pos[:SOURCE_PART], change.key): change
        for change in changes
        if change.op == "delete" and change.pos[HALF] == 0
    }
    ordered: list[Change] = []
    early: set[Pos] = set()
    for change in changes:
        half = None
        if _names_old_key(change):
            half = deletes.get((change.table, change.pos[:SOURCE_PART], change.key_before))
        if half is not None and half.pos > change.pos and half.pos not in early:
            ordered.append(half)
            early.add(half.pos)
        if change.pos not in early:
            ordered.append(change)
    return ordered


def _names_old_key(change: Change) -> bool:
    return change.op == "insert" and change.key_before is not None and not change.by_arrival


def voided(change: Change, truncates: Iterable[Change]) -> bool:
    """Whether a truncate of the change's source table lies above it.

    By arrival one of a Kafka partition reaches only what came in its own (17).
    """
    return any(
        change.table == truncate.table
        and reaches(truncate.pos, change.pos, by_arrival=truncate.by_arrival)
        for truncate in truncates
    )


def beside_truncate(change: Change, truncates: Iterable[Change]) -> bool:
    """Whether a truncate of the change's source table stands at its very place in the source's log:
    a copy of the change may stand on the other side of it."""
    return any(
        change.table == truncate.table
        and tied(change.pos, truncate.pos, by_arrival=truncate.by_arrival)
        for truncate in truncates
    )


def fold(changes: Iterable[Change], *, soft: bool = False, base: bool = False) -> Folded:
    """The states of all keys that `changes` name, truncates among them included: of each key that
    of its last step (see `steps`)."""
    folded = Folded({}, [])
    for step in steps(changes, soft=soft, base=base):
        if isinstance(step, Step):
            folded.states[step.key] = step.state
        else:
            folded.baseless.append(step)
    return folded


def steps(
    changes: Iterable[Change], *, soft: bool = False, base: bool = False
) -> Iterator[Step | Change]:
    """Every step of the fold, in order; in the place of one that finds no base, the change itself.

    `soft` keeps deleted rows, marked. `base` allows for stored rows that are not known here.
    """
    states: dict[Key, State] = {}
    displaced: dict[Key, State] = {}
    left: dict[Key, State] = {}
    for change in in_halves(distinct(changes)):
        if change.op == "truncate":
            made: Iterable[Step] = _truncated(states, change, soft=soft, base=base)
        elif change.op == "delete":
            made = _removed(states, displaced, left, change=change, soft=soft, base=base)
        else:
            made, whole = _upserted(states, displaced, left, change=change, soft=soft, base=base)
            if not whole:
                yield change
        for step in made:
            states[step.key] = step.state
            yield step


def _upserted(
    states: Mapping[Key, State],
    displaced: dict[Key, State],
    left: dict[Key, State],
    *,
    change: Change,
    soft: bool,
    base: bool,
) -> tuple[list[Step], bool]:
    """The steps of an insert or update, and whether it has what it needs. `displaced`: the rows
    that key changes have put others in the place of. `left`: those that delete halves have taken
    away, for the other halves to start from."""
    assert change.key is not None
    moved: list[Step] = []
    origin = states.get(change.key)
    left.pop(change.key, None)
    if change.key_before is not None and change.key_before != change.key:
        if change.op == "insert":
            origin = _left(states, left, change)
        else:
            origin, moved = _moved(states, displaced, change, soft=soft, base=base)
    state = _upsert(origin, change, base=base)
    if state is None:
        return moved, False
    before = states.get(change.key)
    lives = before is not None and before.row is not None and before.deleted_at is None
    if before is not None and lives and state.moved_by is not None:
        displaced[change.key] = before
    else:
        displaced.pop(change.key, None)
    return [*moved, Step(change.key, state)], True


def _upsert(origin: State | None, change: Change, *, base: bool) -> State | None:
    image = change.image or {}
    stamp = (change.pos, change.table, change.event_time)
    moved = change.key_before is not None and change.key_before != change.key
    mark = change.transaction if moved else None
    whole = not change.partial
    if origin is not None and origin.row is not None:
        insertable = origin.insertable or whole
        return State({**origin.row, **image}, *stamp, origin.keeps, insertable, None, mark)
    if origin is None and base:
        return State(dict(image), *stamp, True, whole, None, mark)
    return State(dict(image), *stamp, False, True, None, mark) if whole else None


def _deleted(state: State | None, key: Key, change: Change, *, soft: bool, base: bool) -> Step:
    stamp = (change.pos, change.table, change.event_time)
    if not soft or (state is None and not base) or (state is not None and state.row is None):
        return Step(key, State(None, *stamp))
    row, keeps, insertable = (
        (state.row, state.keeps, state.insertable) if state else ({}, True, False)
    )
    return Step(key, State(row, *stamp, keeps, insertable, change.event_time or 0))


def _removed(
    states: Mapping[Key, State],
    displaced: Mapping[Key, State],
    left: dict[Key, State],
    *,
    change: Change,
    soft: bool,
    base: bool,
) -> list[Step]:
    """The steps of a delete; the row that a delete half takes away goes to `left`."""
    key = change.key
    assert key is not None
    state = states.get(key)
    if change.pos[HALF] == 0 and state is not None and state.row is not None:
        under = displaced.get(key)
        if _taken_over(state, under, change):
            if under is not None:
                left[key] = under
            return []
        left[key] = state
    return [_deleted(state, key, change, soft=soft, base=base)]


def _left(states: Mapping[Key, State], left: dict[Key, State], change: Change) -> State | None:
    """The row that an insert starts from which names its old key: the delete half took it away, or
    will, where it comes from another partition. By arrival it may be another row's by then."""
    assert change.key_before is not None
    taken = left.pop(change.key_before, None)
    if taken is not None or change.by_arrival:
        return taken
    return states.get(change.key_before)


def _truncated(
    states: Mapping[Key, State], change: Change, *, soft: bool, base: bool
) -> list[Step]:
    own = own_stream(change.pos, by_arrival=change.by_arrival)
    return [
        _deleted(state, key, change, soft=soft, base=base)
        for key, state in states.items()
        if state.row is not None and state.deleted_at is None and state.table == change.table
        if own in (None, state.pos[STREAM])
    ]


def _moved(
    states: Mapping[Key, State],
    displaced: Mapping[Key, State],
    change: Change,
    *,
    soft: bool,
    base: bool,
) -> tuple[State | None, list[Step]]:
    """The row that the upsert half gets from the old key, and what is left of that there."""
    old = change.key_before
    assert old is not None
    state = states.get(old)
    under = displaced.get(old)
    if state is not None and _taken_over(state, under, change):
        return under, []
    half = change._replace(pos=delete_half(change.pos))
    return state, [_deleted(state, old, half, soft=soft, base=base)]


def _taken_over(state: State, under: State | None, change: Change) -> bool:
    """Whether a key that `change` leaves holds a row that was moved there since (39); `under`: the
    row that was displaced."""
    if state.row is None or state.moved_by is None or state.moved_by != change.transaction:
        return False
    if change.before is None:
        return False
    return _differs(state, change.before) or (
        under is not None and not _differs(under, change.before)
    )


def _differs(state: State, before: Row) -> bool:
    row = state.row or {}
    return any(row.get(name, text) != text for name, text in before.items())
