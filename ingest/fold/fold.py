"""Events -> state per key: the definition of what gold holds (semantics.md, "Gold").

`fold` takes the distinct changes of some keys and applies them in pos order:

1. Copies of one change are one change (`distinct`): by the source's own part of pos, half and what
   happened; by arrival each delivery stands (`ingest.identity`). A joined pair stands in for
   its lone after-half.
2. A change below a truncate of its source table is void; the truncate removes what is below it.
3. A full image sets every column it has and keeps what it lacks (28); a partial image needs a base
   (29); a delete removes, or marks where deletes are soft (30).
4. A change of the key moves the row: the old key goes, the new one starts from the moved row (40).
   - Until their transaction ends, two rows may hold one key (39): the one that was moved there, and
     the one that it displaced. The before image of a change tells which of the two it is of. If it
     fits both, the displaced one leaves the key, so that neither of two equal rows vanishes. If it
     fits neither, its delete half is void.
   - If a change of the key comes in two messages, the delete takes the row away and the insert
     starts from it. Where columns order the rows (`sequence_by`), the insert alone counts and moves
     the row.

SCD 1 keeps the last step of each key; SCD 2 keeps all steps as versions (31).

A fold of history starts from nothing. With `base=True` it starts from rows that it does not know,
those stored in gold: they count as a base, and the state says which columns it sets.
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
    in_sequence,
    own_stream,
)

Key = tuple[str, ...]
Origin = tuple[int, str, int, int, int]
"""Where a change came from: epoch, topic, partition, offset and row."""


class Change(NamedTuple):
    """One change of one key, or a truncate (`key` None).

    `key_before` differs from `key` where the change moves the row. `image` is the after image;
    None for deletes and truncates. `before` is the before image as sent. `transaction` is equal
    for changes of one transaction. `by_arrival`: the source is ordered by arrival. `origin`: where
    the event came from. `void`: the insert of a key change in two messages, which is set aside and
    counts for nothing; nor does the delete of the two (34).
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
    void: bool = False


class State(NamedTuple):
    """What a key comes to: `row` None = no such row.

    `keeps`: columns that `row` lacks keep what is stored. `insertable`: the row can be
    inserted where none is stored. `pos`, `event_time` and `table` are those of the last change that
    applied; `deleted_at` is the time of a soft delete (0 where the change has none). `moved_by` is
    the transaction that moved the row to this key, while it may hold it beside another one (39);
    None for one that was there.
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
    """What a change does to one key: its state from then on.

    `gives_back`: two rows held the key, and this change took one of them away. The state is that of
    the other row and is the same as before, so late changes are compared with that row's own last
    change.
    """

    key: Key
    state: State
    gives_back: Change | None = None


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
    """The changes in pos order, each once, at its lowest pos. If a copy has a before image, the
    change has it too: such a copy is the pair that was joined when the other half came."""
    once: dict[tuple[object, ...], Change] = {}
    for change in sorted(changes, key=lambda change: (change.pos, change.before is None)):
        known = once.get(identity(change))
        if known is None:
            once[identity(change)] = change
        elif known.before is None and change.before is not None:
            once[identity(change)] = change._replace(pos=known.pos)
    return sorted(once.values(), key=lambda change: change.pos)


def _in_halves(changes: Sequence[Change]) -> list[Change]:
    """The changes in order, but of each key change in two messages the delete before the insert.
    When the two come from different partitions, they may stand at one place of the source's log in
    either order."""
    if not any(_names_old_key(change) for change in changes):
        return list(changes)
    deletes = {
        _halves_of(change, change.key): change
        for change in changes
        if change.op == "delete" and change.pos[HALF] == 0
    }
    ordered: list[Change] = []
    early: set[Pos] = set()
    for change in changes:
        half = None
        if _names_old_key(change):
            half = deletes.get(_halves_of(change, change.key_before))
        if half is not None and half.pos > change.pos and half.pos not in early:
            ordered.append(half)
            early.add(half.pos)
        if change.pos not in early:
            ordered.append(change)
    return ordered


def _names_old_key(change: Change) -> bool:
    return change.op == "insert" and change.key_before is not None and not change.by_arrival


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
    """Every step of the fold, in order; if a change finds no base, the change itself in place of a
    step.

    `soft` keeps deleted rows, marked. `base` allows for stored rows that are not known here.
    """
    rows = _Rows({}, {}, {})
    listed = _in_halves(distinct(changes))
    void = {_halves_of(change, change.key_before) for change in listed if change.void}
    for change in listed:
        if change.void or (change.op == "delete" and _halves_of(change, change.key) in void):
            made = _unchanged(rows.states, change)
        elif change.op == "truncate":
            made = _truncated(rows.states, change, soft=soft, base=base)
        elif change.op == "delete":
            made = _removed(rows, change, soft=soft, base=base)
        else:
            made, whole = _upserted(rows, change, soft=soft, base=base)
            if not whole:
                yield change
        for step in made:
            rows.states[step.key] = step.state
            yield step


def _halves_of(change: Change, key: Key | None) -> tuple[str, Pos, Key | None]:
    """What the two messages of one key change have in common; `key` is the old key."""
    return change.table, change.pos[:SOURCE_PART], key


def _unchanged(states: Mapping[Key, State], change: Change) -> list[Step]:
    """The steps of a half that counts for nothing: if nothing is known of its key, that key has no
    row."""
    key = change.key_before if change.void else change.key
    if key is None or key in states:
        return []
    return [Step(key, State(None, change.pos, change.table, change.event_time))]


class _Rows(NamedTuple):
    """How far the fold has come.

    `states`: the state of each key. `displaced`: for each key, the rows that a change displaced by
    moving another row there, in the order in which that happened; they count only for changes of
    the same transaction. `left`: the rows that delete halves took away, from which the insert
    halves start.
    """

    states: dict[Key, State]
    displaced: dict[Key, list[State]]
    left: dict[Key, State]


def _upserted(rows: _Rows, change: Change, *, soft: bool, base: bool) -> tuple[list[Step], bool]:
    """The steps of an insert or update, and whether the change has the base that it needs."""
    assert change.key is not None
    rows.left.pop(change.key, None)
    moved: list[Step] = []
    if not _moves(change):
        place = _displaced_row(rows, change)
        if place is not None:
            _update_displaced(rows.displaced[change.key], place, change)
            return [], True
        origin = rows.states.get(change.key)
    elif change.op == "insert" and not in_sequence(change.pos):
        origin = _left(rows, change)
    else:
        origin, moved = _moved(rows, change, soft=soft, base=base)
    state = _upsert(origin, change, base=base)
    if state is None:
        return moved, False
    if _moves(change):
        _displace(rows, change)
    return [*moved, Step(change.key, state)], True


def _moves(change: Change) -> bool:
    return change.key_before is not None and change.key_before != change.key


def _upsert(origin: State | None, change: Change, *, base: bool) -> State | None:
    image = change.image or {}
    stamp = (change.pos, change.table, change.event_time)
    stays = change.op == "update" and _moved_with(origin, change)
    mark = change.transaction if stays or _moves(change) else None
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


def _removed(rows: _Rows, change: Change, *, soft: bool, base: bool) -> list[Step]:
    """The steps of a delete. If it is a delete half, the row that it takes away goes to `left`."""
    assert change.key is not None
    taken, steps = _take(rows, change.key, change, soft=soft, base=base)
    if change.pos[HALF] == 0 and taken is not None and taken.row is not None:
        rows.left[change.key] = taken
    return steps


def _left(rows: _Rows, change: Change) -> State | None:
    """The row from which an insert starts that names its old key. Usually the delete half has taken
    it away; if that half comes from another partition, it may come only later. By arrival the old
    key may hold another row by then, so only a row that was taken away counts."""
    assert change.key_before is not None
    taken = rows.left.pop(change.key_before, None)
    if taken is not None or change.by_arrival:
        return taken
    return rows.states.get(change.key_before)


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
    rows: _Rows, change: Change, *, soft: bool, base: bool
) -> tuple[State | None, list[Step]]:
    """The row that the upsert half gets from the old key, and the steps that the old key takes."""
    assert change.key_before is not None
    half = change._replace(pos=delete_half(change.pos))
    return _take(rows, change.key_before, half, soft=soft, base=base)


def _take(
    rows: _Rows, key: Key, change: Change, *, soft: bool, base: bool
) -> tuple[State | None, list[Step]]:
    """The row that a delete, or the delete half of a key change, takes away, and the steps of its
    key. A displaced row goes without a step, since the state of its key is that of the other
    row."""
    state = rows.states.get(key)
    displaced = rows.displaced.get(key, []) if _moved_with(state, change) else []
    before = change.before or {}
    for place in reversed(range(len(displaced))):
        if not _differs(displaced[place], before):
            return displaced.pop(place), []
    if state is not None and _taken_over(state, change):
        return (displaced.pop() if displaced else None), []
    if not displaced:
        return state, [_deleted(state, key, change, soft=soft, base=base)]
    return state, [Step(key, displaced.pop(), gives_back=change)]


def _taken_over(state: State, change: Change) -> bool:
    """Whether the key of a delete half already holds another row, which the same transaction moved
    there (39)."""
    if not _moved_with(state, change) or change.pos[HALF] != 0:
        return False
    return _differs(state, change.before or {})


def _displace(rows: _Rows, change: Change) -> None:
    """Keep the row that holds a key beside the one that a change moves there."""
    assert change.key is not None
    state = rows.states.get(change.key)
    beside = rows.displaced.get(change.key, []) if _moved_with(state, change) else []
    if state is not None and state.row is not None and state.deleted_at is None:
        rows.displaced[change.key] = [*beside, state]
    else:
        rows.displaced.pop(change.key, None)


def _displaced_row(rows: _Rows, change: Change) -> int | None:
    """The place of the displaced row that an update is of; None if the update is of the row that
    was moved there, or if no row was displaced. Only updates that keep the key are asked about."""
    assert change.key is not None
    state = rows.states.get(change.key)
    if change.op != "update" or state is None or not _moved_with(state, change):
        return None
    if change.before is None or not _differs(state, change.before):
        return None
    displaced = rows.displaced.get(change.key, [])
    places = [place for place, row in enumerate(displaced) if not _differs(row, change.before)]
    return places[-1] if places else None


def _update_displaced(displaced: list[State], place: int, change: Change) -> None:
    state = _upsert(displaced[place], change, base=False)
    assert state is not None
    displaced[place] = state


def _moved_with(state: State | None, change: Change) -> bool:
    """Whether the transaction of the change has moved the row there."""
    if state is None or state.row is None or state.moved_by is None:
        return False
    return state.moved_by == change.transaction


def _differs(state: State, before: Row) -> bool:
    row = state.row or {}
    return any(row.get(name, text) != text for name, text in before.items())
