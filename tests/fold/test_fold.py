"""The fold gives what the database holds, whatever the delivery; semantics.md, 38 to 47 by name."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.fold.fold import Change, fold
from ingest.position import HALF
from tests.support.databases import Database, LoggedChange, delivered


def change(logged: LoggedChange, *, partition: int, offset: int) -> Change:
    """A logged change as the fold takes it, ordered by its number in the log."""
    phase = 0 if logged.op == "snapshot" else 1
    row = logged.after or logged.before or {"id": ""}
    before = logged.before
    return Change(
        op=logged.op,
        pos=(0, phase, logged.number, 0, 0, 0, 0, partition, offset, 0, 1),
        table="t",
        key=None if logged.op == "truncate" else (str(row["id"]),),
        key_before=(str(before["id"]),) if logged.op == "update" and before is not None else None,
        image=logged.after,
        before=before,
        partial=logged.partial,
        transaction=str(logged.transaction),
        digest=logged.number,
    )


def arrived(batches: list[list[list[LoggedChange]]]) -> list[Change]:
    """Every delivery with its coordinates."""
    offsets: dict[int, int] = {}
    changes = []
    for batch in batches:
        for partition, lane in enumerate(batch):
            for logged in lane:
                offset = offsets[partition] = offsets.get(partition, -1) + 1
                changes.append(change(logged, partition=partition, offset=offset))
    return changes


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32))
def test_any_delivery_folds_to_the_database(seed: int) -> None:
    chance = random.Random(seed)
    database = Database(chance)
    database.live(60)
    changes = arrived(delivered(database.changes, chance, partitions=3, batches=4))
    chance.shuffle(changes)
    folded = fold(changes)
    assert folded.baseless == []
    rows = {key: state.row for key, state in folded.states.items() if state.row is not None}
    assert rows == {(str(key),): row for key, row in database.rows.items()}


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_soft_deletes_keep_rows_and_mark_them(seed: int) -> None:
    chance = random.Random(seed)
    database = Database(chance)
    database.live(40)
    states = fold(arrived([[database.changes]]), soft=True).states
    live = {key: s.row for key, s in states.items() if s.row is not None and s.deleted_at is None}
    assert live == {(str(key),): row for key, row in database.rows.items()}


def halved(moved: Change, chance: random.Random) -> list[Change]:
    """A change of a key as two messages of its place in the log, the second at times without what
    did not change; else the change itself."""
    if moved.key_before in (None, moved.key) or chance.random() < 0.3:
        return [moved]
    *place, _ = moved.pos
    gone = moved._replace(
        op="delete", key=moved.key_before, key_before=None, image=None, pos=(*place, 0)
    )
    come = moved._replace(op="insert", before=None, digest=-1 - (moved.digest or 0))
    if chance.random() < 0.5:
        come = come._replace(image={"id": (moved.image or {})["id"]}, partial=True)
    return [gone, come]


def in_halves(database: Database, chance: random.Random) -> list[Change]:
    """Its changes, those of the key mostly as two messages, from several partitions, and some of
    them twice."""
    sent = [half for change in arrived([[database.changes]]) for half in halved(change, chance)]
    sent += chance.sample(sent, len(sent) // 4)
    # Deliveries have places of their own, in any order.
    offsets = chance.sample(range(10_000), len(sent))
    return [
        half._replace(pos=(*half.pos[:7], chance.randrange(3), offset, *half.pos[9:]))
        for half, offset in zip(sent, offsets, strict=True)
    ]


@pytest.mark.parametrize("sequenced", [False, True])
@settings(max_examples=500, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_key_changes_in_two_messages_fold_to_the_database(seed: int, *, sequenced: bool) -> None:
    """`sequenced`: columns order the rows, and no delete of such a change has a place."""
    chance = random.Random(seed)
    database = Database(chance)
    database.live(60)
    changes = in_halves(database, chance)
    if sequenced:
        changes = [
            change._replace(pos=(*change.pos[2:7], *change.pos))
            for change in changes
            if change.op != "delete" or change.pos[HALF] != 0
        ]
    folded = fold(changes)
    assert folded.baseless == []
    rows = {key: state.row for key, state in folded.states.items() if state.row is not None}
    assert rows == {(str(key),): row for key, row in database.rows.items()}


class Deferred:
    """A table whose key is checked when a transaction ends: until then rows may share one.

    Each row is a list of its key and its value, so that two equal rows stay two.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.rows = chance, [[str(key), f"v{key % 3}"] for key in range(4)]
        self.changes: list[Change] = []
        for row in self.rows:
            self._tell("insert", None, row, "first")

    def live(self, transactions: int) -> None:
        """So many transactions of up to five statements each; those that would end with two rows of
        one key never happened."""
        for number in range(transactions):
            rows, changes = [list(row) for row in self.rows], list(self.changes)
            for _ in range(self.chance.randint(1, 5)):
                self._change(str(number))
            if len({key for key, _ in self.rows}) < len(self.rows):
                self.rows, self.changes = rows, changes

    def _change(self, transaction: str) -> None:
        key = str(self.chance.randrange(5))
        if all(row[0] != key for row in self.rows):
            self.rows.append([key, f"v{self.chance.randrange(3)}"])
            self._tell("insert", None, self.rows[-1], transaction)
            return
        row = self.chance.choice(self.rows)
        before, kind = list(row), self.chance.choice(["move", "move", "move", "value", "delete"])
        if kind == "delete":
            self.rows.remove(row)
            self._tell("delete", before, None, transaction)
            return
        row[kind == "value"] = key if kind == "move" else f"v{self.chance.randrange(3)}"
        self._tell("update", before, row, transaction)

    def _tell(
        self, op: str, before: list[str] | None, after: list[str] | None, transaction: str
    ) -> None:
        number = len(self.changes)
        image: dict[str, str | None] | None = None
        if after is not None:
            image = {"id": after[0], "v": after[1]}
        self.changes.append(
            Change(
                op=op,
                pos=(0, 1, number, 0, 0, 0, 0, 0, number, 0, 1),
                table="t",
                key=((after or before or [""])[0],),
                key_before=(before[0],) if op == "update" and before is not None else None,
                image=image,
                before=None if before is None else {"v": before[1]},
                transaction=transaction,
                digest=number,
            )
        )


@pytest.mark.parametrize("split", [False, True])
@settings(max_examples=1_000, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_39_rows_that_share_a_key_until_their_transaction_ends(seed: int, *, split: bool) -> None:
    chance = random.Random(seed)
    table = Deferred(chance)
    table.live(12)
    changes = table.changes
    if split:
        changes = [half for change in changes for half in halved(change, chance)]
    folded = fold(changes)
    assert folded.baseless == []
    rows = {key: state.row for key, state in folded.states.items() if state.row is not None}
    assert rows == {(key,): {"id": key, "v": value} for key, value in table.rows}


def _at(number: int, op: str, key: Any, row: dict[str, Any] | None, **given: Any) -> Change:
    pos = (0, 1, number, 0, 0, 0, 0, 0, number, 0, 1)
    return Change(op, pos, "t", (key,), image=row, digest=number, **given)


def _rows(*changes: Change) -> dict[str, Any]:
    states = fold(changes).states
    return {key[0]: state.row for key, state in states.items() if state.row is not None}


def test_39_a_key_shift_in_one_transaction() -> None:
    one, two = {"id": "1", "v": "A"}, {"id": "2", "v": "B"}
    moves = [
        _at(
            3, "update", "2", {"id": "2", "v": "A"}, key_before=("1",), before=one, transaction="x"
        ),
        _at(
            4, "update", "3", {"id": "3", "v": "B"}, key_before=("2",), before=two, transaction="x"
        ),
    ]
    rows = _rows(_at(1, "insert", "1", one), _at(2, "insert", "2", two), *moves)
    assert rows == {"2": {"id": "2", "v": "A"}, "3": {"id": "3", "v": "B"}}


def test_40_a_partial_key_change_carries_the_row() -> None:
    rows = _rows(
        _at(1, "insert", "1", {"id": "1", "a": "1", "b": "7"}),
        _at(5, "update", "2", {"id": "2", "a": "9"}, key_before=("1",), partial=True),
        _at(4, "update", "1", {"id": "1", "b": "8"}, partial=True),
    )
    assert rows == {"2": {"id": "2", "a": "9", "b": "8"}}


def _half(number: int, offset: int, op: str, key: str, **given: Any) -> Change:
    """A half of a key change that came as two messages of one place in the log."""
    half = 0 if op == "delete" else 1
    pos = (0, 1, number, 0, 0, 0, 0, 0, offset, 0, half)
    return Change(op, pos, "t", (key,), digest=offset, **given)


def test_40_a_key_change_in_two_messages_carries_the_row() -> None:
    moved = {"key_before": ("1",), "partial": True}
    rows = _rows(
        _at(1, "insert", "1", {"id": "1", "a": "1", "b": "7"}),
        _half(5, 5, "delete", "1"),
        _half(5, 6, "insert", "2", image={"id": "2", "a": "9"}, **moved),
    )
    assert rows == {"2": {"id": "2", "a": "9", "b": "7"}}


def test_40_keys_swapped_by_turns_in_two_messages_each_carry_their_rows() -> None:
    moves: list[Change] = []
    for number, (old, new) in enumerate((("1", "3"), ("2", "1"), ("3", "2")), 5):
        place = 2 * number
        given: dict[str, Any] = {"key_before": (old,), "partial": True, "image": {"id": new}}
        moves.append(_half(number, place, "delete", old))
        moves.append(_half(number, place + 1, "insert", new, **given))
    rows = _rows(
        _at(1, "insert", "1", {"id": "1", "b": "7"}),
        _at(2, "insert", "2", {"id": "2", "b": "8"}),
        *moves,
    )
    assert rows == {"1": {"id": "1", "b": "8"}, "2": {"id": "2", "b": "7"}}


def test_39_a_key_shift_in_two_messages_each() -> None:
    rows = _rows(
        _at(1, "insert", "1", {"id": "1", "v": "A"}),
        _at(2, "insert", "2", {"id": "2", "v": "B"}),
        _half(5, 5, "delete", "1", before={"id": "1", "v": "A"}, transaction="x"),
        _half(5, 6, "insert", "2", image={"id": "2", "v": "A"}, key_before=("1",), transaction="x"),
        _half(6, 7, "delete", "2", before={"id": "2", "v": "B"}, transaction="x"),
        _half(6, 8, "insert", "3", image={"id": "3", "v": "B"}, key_before=("2",), transaction="x"),
    )
    assert rows == {"2": {"id": "2", "v": "A"}, "3": {"id": "3", "v": "B"}}


def test_40_the_halves_of_a_key_change_may_come_from_two_partitions() -> None:
    created = _half(5, 1, "insert", "2", image={"id": "2"}, key_before=("1",), partial=True)
    rows = _rows(
        _at(1, "insert", "1", {"id": "1", "b": "7"}),
        created._replace(pos=(*created.pos[:7], 3, *created.pos[8:])),
        _half(5, 5, "delete", "1")._replace(pos=(0, 1, 5, 0, 0, 0, 0, 4, 9, 0, 0)),
    )
    assert rows == {"2": {"id": "2", "b": "7"}}


def test_40_a_row_that_was_left_is_nobody_elses() -> None:
    partial = {"key_before": ("1",), "partial": True}
    folded = fold(
        [
            _at(1, "insert", "1", {"id": "1", "b": "7"}),
            _half(5, 5, "delete", "1"),
            _at(6, "insert", "1", {"id": "1", "b": "8"}),
            _at(7, "delete", "1", None),
            _at(8, "update", "2", {"id": "2"}, **partial),
        ]
    )
    assert [change.pos[2] for change in folded.baseless] == [8]


def test_41_a_delete_that_matched_nothing_still_counts() -> None:
    assert _rows(_at(5, "delete", "1", None), _at(3, "insert", "1", {"id": "1"})) == {}


def test_43_a_redelivered_change_stands_where_it_first_stood() -> None:
    pos = (0, 1, 9, 9, 0, 0, 0, 0)
    first = Change("insert", (*pos, 10, 0, 1), "t", ("1",), image={"v": "I"}, digest=1)
    second = Change("update", (*pos, 11, 0, 1), "t", ("1",), image={"v": "U"}, digest=2)
    again = first._replace(pos=(*pos, 57, 0, 1))
    assert _rows(first, second, again) == {"1": {"v": "U"}}


def test_45_shrinking_images() -> None:
    rows = _rows(
        _at(1, "insert", "1", {"a": "1", "c": "1"}),
        _at(5, "update", "1", {"a": "2"}, partial=True),
        _at(3, "update", "1", {"a": "1", "c": "9"}),
    )
    assert rows == {"1": {"a": "2", "c": "9"}}


def test_a_partial_image_without_base_waits() -> None:
    folded = fold([_at(5, "update", "1", {"a": "2"}, partial=True)])
    assert folded.states == {} and [c.pos[2] for c in folded.baseless] == [5]
