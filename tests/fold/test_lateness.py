"""Late classification: batch by batch with the fold of history only for late keys, gold comes out
the same as the database. The MERGE is played by a few lines here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.fold.fold import Change, State, fold
from ingest.fold.key_groups import key_groups
from ingest.fold.lateness import LatenessBounds, classify
from ingest.fold.truncates import Truncates
from ingest.position import Pos
from tests.fold.test_fold import arrived, change, halved
from tests.support.databases import Database, delivered

Key = tuple[str, ...]


class Held(NamedTuple):
    """A stored row."""

    row: dict[str, Any]
    pos: Pos
    deleted_at: int | None = None


class Gold:
    """One target, brought forward as `pipelines.apply.exact` does it."""

    def __init__(self, *, soft: bool = False) -> None:
        self.soft = soft
        self.rows: dict[Key, Held] = {}
        self.history: list[Change] = []
        self.bounds = LatenessBounds()
        self.refolded = 0

    def apply(self, batch: list[Change]) -> None:
        earlier = list(self.history)
        self.history += batch
        truncates = [c for c in self.history if c.op == "truncate"]
        all_truncates = Truncates.of(truncates)
        live = [c for c in batch if c.op != "truncate"]
        live = [c for c in live if self.soft or not all_truncates.void(c)]
        new_truncates = [c for c in batch if c.op == "truncate"]
        by_key: dict[Key, list[Change]] = {}
        for event in live:
            assert event.key is not None
            by_key.setdefault(event.key, []).append(event)
        late = self._put_back(new_truncates, earlier) | self._marked_anew(new_truncates, earlier)
        on_time: dict[Key, State] = {}
        partials = self.bounds.partials or any(event.partial for event in batch)
        bounds = self.bounds._replace(partials=partials)
        for key, events in by_key.items():
            stored = self.rows.get(key)
            pos = (
                stored.pos
                if stored and not any(stored.pos < truncate.pos for truncate in truncates)
                else None
            )
            marked = stored is not None and stored.deleted_at is not None
            verdict = classify(events, pos, bounds, marked=marked)
            named = any(
                key in (c.key, c.key_before) and c.pos > verdict.lowest
                for c in earlier
                if c.op == "delete" or (c.key != c.key_before and c.key_before) or c.partial
            )
            void = any(all_truncates.void(event) for event in events)
            if verdict.late or void or (verdict.doubtful and named):
                late |= {name for e in events for name in (e.key, e.key_before) if name}
            else:
                newer = [event for event in events if pos is None or event.pos > pos]
                folded = fold(newer, soft=self.soft, base=True)
                assert folded.baseless == []
                on_time.update(folded.states)
        on_time = {key: state for key, state in on_time.items() if key not in late}
        refolded = self._refold(late)
        skipped = self._merge(on_time, new_truncates, exact=False)
        skipped |= self._merge(refolded, new_truncates, exact=True)
        self._truncate(new_truncates, on_time.keys() | refolded.keys())
        self._note(batch, partials, skipped)

    def _put_back(self, new_truncates: list[Change], earlier: list[Change]) -> set[Key]:
        lowest = min((truncate.pos for truncate in new_truncates), default=None)
        if lowest is None or self.bounds.last_noop is None or lowest > self.bounds.last_noop:
            return set()
        above = {c.key for c in earlier if c.key is not None and c.pos > lowest}
        return {
            key
            for key, held in self.rows.items()
            if key in above and any(held.pos < truncate.pos for truncate in new_truncates)
        }

    def _marked_anew(self, new_truncates: list[Change], earlier: list[Change]) -> set[Key]:
        lowest = min((truncate.pos for truncate in new_truncates), default=None)
        known = {c.pos for c in earlier if c.op == "truncate" and lowest and c.pos > lowest}
        return {key for key, held in self.rows.items() if self.soft and held.pos in known}

    def _truncate(self, new_truncates: list[Change], merged: set[Key]) -> None:
        for key, held in list(self.rows.items()):
            truncates = [truncate for truncate in new_truncates if held.pos < truncate.pos]
            if key in merged or not truncates or held.deleted_at is not None:
                continue
            if self.soft:
                truncate = min(truncates, key=lambda truncate: truncate.pos)
                self.rows[key] = Held(held.row, truncate.pos, truncate.event_time)
            else:
                del self.rows[key]

    def _refold(self, late: set[Key]) -> dict[Key, State | None]:
        """The states of late keys and their kin; None where nothing is left of a key."""
        edges = [
            (c.key_before, c.key)
            for c in self.history
            if c.key_before and c.key and c.key_before != c.key
        ]
        keys = key_groups(late, edges) if late else {}
        self.refolded += len(keys)
        chosen = [c for c in self.history if c.op == "truncate" or c.key in keys]
        states = fold(chosen, soft=self.soft).states
        return {key: states.get(key) for key in keys}

    def _merge(
        self, states: Mapping[Key, State | None], truncates: list[Change], *, exact: bool
    ) -> bool:
        """Whether some row was left as it was."""
        skipped = False
        for key, state in states.items():
            stored = self.rows.get(key)
            if state is None or state.row is None:
                newer = exact or stored is None or (state is not None and state.pos > stored.pos)
                if newer and not self.soft:
                    self.rows.pop(key, None)
                continue
            if stored is None:
                if state.insertable:
                    self.rows[key] = Held(dict(state.row), state.pos, state.deleted_at)
                continue
            if not exact and state.pos <= stored.pos:
                continue
            truncate = any(stored.pos < truncate.pos for truncate in truncates)
            kept = {} if truncate and not self.soft else stored.row
            row = {**kept, **state.row} if state.keeps else dict(state.row)
            if (row, state.deleted_at) == (stored.row, stored.deleted_at) and not truncate:
                skipped = True
            else:
                self.rows[key] = Held(row, state.pos, state.deleted_at)
        return skipped

    def _note(self, batch: list[Change], partials: bool, skipped: bool) -> None:
        bounds = self.bounds
        top = max((c.pos for c in batch), default=None)
        removing = [
            c.pos
            for c in batch
            if c.op in ("delete", "truncate") or (c.key_before and c.key_before != c.key)
        ]
        self.bounds = LatenessBounds(
            last_noop=max(filter(None, [bounds.last_noop, top if skipped else None]), default=None),
            last_removal=max(filter(None, [bounds.last_removal, *removing]), default=None),
            partials=partials,
            last_baseless=max(
                filter(None, [bounds.last_baseless, *(c.pos for c in batch if c.partial)]),
                default=None,
            ),
        )


def _batches(database: Database, chance: random.Random) -> list[list[Change]]:
    offsets: dict[int, int] = {}
    result = []
    for batch in delivered(database.changes, chance, partitions=3, batches=5):
        changes = []
        for partition, lane in enumerate(batch):
            for logged in lane:
                offset = offsets[partition] = offsets.get(partition, -1) + 1
                changes.append(change(logged, partition=partition, offset=offset))
        result.append(changes)
    return result


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_batch_by_batch_equals_the_database(seed: int, partials: bool, truncates: bool) -> None:
    chance = random.Random(seed)
    database = Database(chance, partials=partials, truncates=truncates)
    database.live(60)
    gold = Gold()
    for batch in _batches(database, chance):
        gold.apply(batch)
    rows = {key: held.row for key, held in gold.rows.items()}
    assert rows == {(str(key),): row for key, row in database.rows.items()}


def _in_halves(database: Database, chance: random.Random) -> list[list[Change]]:
    """Batches of what the database went through, some changes of a key in two messages, each from
    any partition and in any batch."""
    sent = [half for told in arrived([[database.changes]]) for half in halved(told, chance)]
    sent += chance.sample(sent, len(sent) // 4)
    offsets = chance.sample(range(10_000), len(sent))
    batches: list[list[Change]] = [[] for _ in range(5)]
    for half, offset in zip(sent, offsets, strict=True):
        pos = (*half.pos[:7], chance.randrange(3), offset, *half.pos[9:])
        chance.choice(batches).append(half._replace(pos=pos))
    return batches


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_key_changes_in_two_messages_batch_by_batch_equal_the_database(
    seed: int, partials: bool, truncates: bool
) -> None:
    chance = random.Random(seed)
    database = Database(chance, partials=partials, truncates=truncates)
    database.live(60)
    gold = Gold()
    for batch in _in_halves(database, chance):
        gold.apply(batch)
    rows = {key: held.row for key, held in gold.rows.items()}
    assert rows == {(str(key),): row for key, row in database.rows.items()}


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_30_soft_deletes_batch_by_batch_equal_the_fold(
    seed: int, partials: bool, truncates: bool
) -> None:
    chance = random.Random(seed)
    database = Database(chance, partials=partials, truncates=truncates)
    database.live(60)
    gold = Gold(soft=True)
    for batch in _batches(database, chance):
        gold.apply([event._replace(event_time=event.pos[2]) for event in batch])
    states = fold(gold.history, soft=True).states
    rows = {key: (held.row, held.deleted_at) for key, held in gold.rows.items()}
    assert rows == {
        key: (state.row, state.deleted_at) for key, state in states.items() if state.row is not None
    }


def test_39_the_last_half_of_a_key_swap_takes_no_other_row() -> None:
    one, two = ("1",), ("2",)
    place = (0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1)

    def at(number: int, half: int = 1) -> Pos:
        return (*place[:2], number, *place[3:8], number, 0, half)

    def row(key: Key, a: str) -> dict[str, Any]:
        return {"id": key[0], "a": a}

    def moved(number: int, old: Key, new: Key, a: str) -> list[Change]:
        gone = Change("delete", at(number, 0), "t", old, before={"a": a}, transaction="x")
        come = Change("insert", at(number), "t", new, old, image=row(new, a), transaction="x")
        return [half._replace(digest=number) for half in (gone, come)]

    first = [
        Change("insert", at(n), "t", key, image=row(key, a), digest=n)
        for n, key, a in ((1, one, "A"), (2, two, "B"))
    ]
    *most, last = [*moved(5, one, two, "A"), *reversed(moved(6, two, one, "B"))]
    gold = Gold()
    for batch in (first, most, [last]):
        gold.apply(batch)
    assert {key: held.row for key, held in gold.rows.items()} == {
        one: row(one, "B"),
        two: row(two, "A"),
    }


def test_49_a_snapshot_after_the_stream_folds_only_what_a_delete_names() -> None:
    def event(op: str, number: int, key: int, phase: int = 1) -> Change:
        image: dict[str, str | None] | None = None if op == "delete" else {"id": str(key)}
        pos = (0, phase, number, 0, 0, 0, 0, 0, number, 0, 1)
        return Change(op, pos, "t", (str(key),), image=image, digest=number)

    gold = Gold()
    gold.apply([event("insert", number, number) for number in range(1000)])
    gold.apply([event("delete", 2000, 7)])
    gold.apply([event("snapshot", number, number, phase=0) for number in range(1500)])
    assert gold.refolded == 1
    assert ("7",) not in gold.rows
    assert len(gold.rows) == 1499
