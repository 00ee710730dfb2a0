"""Versions, batch by batch, are what the database held, whatever the delivery (semantics.md, 31).

The SQL of `ingest.sql.fold.scd2` and its MERGE are played by a few lines here.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ingest.fold.arrow import end_of, ends_version
from ingest.fold.fold import Change, Key, State, Step, steps
from ingest.fold.key_groups import key_groups
from ingest.fold.lateness import History, LatenessBounds, classify_versions
from ingest.fold.truncates import Truncates
from ingest.position import Pos
from tests.fold.test_fold import change
from tests.fold.test_lateness import _batches
from tests.support.databases import Database, LoggedChange, Row


class Held(NamedTuple):
    """A version: the position it began at, its row, the number of the change that ended it."""

    pos: Pos
    row: Row
    end: int | None


def bounds(states: list[State], opened: Held | None) -> list[Held]:
    """The versions of one key after its steps; the first one is `opened`, perhaps ended."""
    versions = [opened] if opened is not None else []
    row = opened.row if opened is not None else None
    for step in states:
        new = None if step.row is None else {**(row or {}), **step.row}
        if step.row is not None and not step.keeps:
            new = dict(step.row)
        if new == row:
            continue
        if row is not None:
            versions[-1] = versions[-1]._replace(end=step.pos[2])
        if new is not None:
            versions.append(Held(step.pos, new, None))
        row = new
    return versions


def by_key(taken: Iterable[Step | Change]) -> dict[Key, list[State]]:
    found: dict[Key, list[State]] = {}
    for step in taken:
        if isinstance(step, Step):
            found.setdefault(step.key, []).append(step.state)
    return found


class Target:
    """One target of versions, brought forward as `pipelines.apply.scd2` does it."""

    def __init__(self) -> None:
        self.versions: dict[Key, list[Held]] = {}
        self.history: list[Change] = []
        self.last_noop: Pos | None = None
        self.last_removal: Pos | None = None
        self.last_baseless: Pos | None = None
        self.rebuilt = 0

    def killed(self, batch: list[Change]) -> None:
        """Apply a batch, which changes the versions, and remember nothing of it."""
        kept = vars(self) | {"history": list(self.history)}
        self.apply(batch)
        vars(self).update(kept)

    def apply(self, batch: list[Change], *, again: bool = False) -> None:
        earlier = list(self.history)
        self.history += batch
        truncates = [c for c in self.history if c.op == "truncate"]
        new_truncates = sorted((c for c in batch if c.op == "truncate"), key=lambda c: c.pos)
        remembered = LatenessBounds(
            last_noop=self.last_noop,
            last_removal=self.last_removal,
            last_baseless=self.last_baseless,
        )
        events: dict[Key, list[Change]] = {}
        for event in batch:
            if event.key is not None and event.op != "truncate":
                events.setdefault(event.key, []).append(event)
        late = self._put_back(new_truncates, earlier)
        on_time: dict[Key, list[State]] = {}
        for key, of_key in events.items():
            stored = self.versions.get(key, [])
            newest = max((held.pos for held in stored), default=None)
            opened = next((held.pos for held in stored if held.end is None), None)
            ends = [
                end_of(truncate, key)
                for truncate in new_truncates
                if opened and ends_version(truncate, opened)
            ]
            opens = opened is not None and not ends
            ended = again and newest is not None and opened is None
            stored_now = History(
                newest, opened=opens, ended=ended, truncates=Truncates.of(truncates)
            )
            judged = classify_versions(of_key, stored_now, remembered)
            overtaken = any(
                key in (c.key, c.key_before) and c.pos > judged.lowest and c.op != "truncate"
                for c in earlier
            )
            if judged.late or (judged.doubtful and overtaken):
                late |= {name for e in of_key for name in (e.key, e.key_before) if name}
                continue
            taken = [*steps([*ends, *judged.newer], base=opened is not None)]
            assert all(isinstance(step, Step) for step in taken)
            on_time.update(by_key(taken))
        inserted = 0
        touched = late | on_time.keys()
        for key, states in on_time.items():
            if key not in late:
                inserted += self._go_on(key, states)
        self._rebuild(late)
        self._truncate(new_truncates, touched)
        self._note(batch, inserted, bool(late))

    def _go_on(self, key: Key, states: list[State]) -> int:
        stored = self.versions.get(key, [])
        ended = [held for held in stored if held.end is not None]
        opened = next((held for held in stored if held.end is None), None)
        self.versions[key] = [*ended, *bounds(states, opened)]
        return len(self.versions[key]) - len(stored)

    def _put_back(self, new_truncates: list[Change], earlier: list[Change]) -> set[Key]:
        known = {c.pos for c in earlier if c.op == "truncate"}
        found: set[Key] = set()
        for truncate in {c.pos for c in new_truncates} - known:
            above = {c.key for c in earlier if c.key is not None and c.pos > truncate}
            found |= {
                key
                for key, held in self.versions.items()
                if (any(other > truncate for other in known) or key in above)
                and any(version.pos < truncate for version in held)
            }
        return found

    def _rebuild(self, late: set[Key]) -> None:
        edges = [
            (c.key_before, c.key)
            for c in self.history
            if c.key_before and c.key and c.key_before != c.key
        ]
        keys = key_groups(late, edges) if late else {}
        self.rebuilt += len(keys)
        taken = steps([c for c in self.history if c.op == "truncate" or c.key in keys])
        states = by_key(taken)
        for key in keys:
            self.versions[key] = bounds(states.get(key, []), None)

    def _truncate(self, new_truncates: list[Change], touched: set[Key]) -> None:
        for key in self.versions.keys() - touched:
            for truncate in new_truncates:
                self.versions[key] = [
                    held._replace(end=truncate.pos[2]) if _open_at(held, truncate) else held
                    for held in self.versions[key]
                ]

    def _note(self, batch: list[Change], inserted: int, rebuilt: bool) -> None:
        top = max((c.pos for c in batch), default=None)
        upserts = sum(c.op not in ("delete", "truncate") for c in batch)
        removing = [
            c.pos
            for c in batch
            if c.op in ("delete", "truncate") or (c.key_before and c.key_before != c.key)
        ]
        if inserted < upserts:
            self.last_noop = max(filter(None, [self.last_noop, top]), default=None)
        if rebuilt:
            self.last_noop = max(c.pos for c in self.history)
        self.last_removal = max(filter(None, [self.last_removal, *removing]), default=None)
        partial = [c.pos for c in batch if c.partial]
        self.last_baseless = max(filter(None, [self.last_baseless, *partial]), default=None)

    def as_rows(self) -> list[tuple[Any, ...]]:
        return sorted(
            (held.pos[2], held.end, sorted(held.row.items(), key=str))
            for stored in self.versions.values()
            for held in stored
        )


def _open_at(held: Held, truncate: Change) -> bool:
    return held.end is None and held.pos < truncate.pos


def _held(database: Database) -> list[tuple[Any, ...]]:
    return sorted(
        (version.begin, version.end, sorted(version.row.items(), key=str))
        for version in database.versions
    )


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans(), st.booleans())
# A batch with two late truncates, one of them a repeat, and a version between them.
@example(158788, True, True, False)
def test_31_batch_by_batch_equals_what_the_database_held(
    seed: int, partials: bool, truncates: bool, killed: bool
) -> None:
    chance = random.Random(seed)
    database = Database(chance, partials=partials, truncates=truncates)
    database.live(60)
    target = Target()
    for batch in _batches(database, chance):
        again = killed and chance.random() < 0.5
        if again:
            target.killed(batch)
        target.apply(batch, again=again)
    assert target.as_rows() == _held(database)


def test_31_what_is_on_time_rebuilds_nothing() -> None:
    chance = random.Random(31)
    database = Database(chance, partials=False, truncates=False)
    database.live(200)
    steady = [
        logged for logged in database.changes if logged.before is None or logged.op != "update"
    ]
    changes = [change(logged, partition=0, offset=n) for n, logged in enumerate(steady)]
    target = Target()
    for start in range(0, len(changes), 10):
        target.apply(changes[start : start + 10])
    assert target.rebuilt == 0
    assert target.versions


def test_31_a_refold_can_turn_what_began_a_version_into_a_change_that_changes_nothing() -> None:
    target = Target()
    # A version began with b at 5, then at 3 instead; after c at 4 one begins at 5 again.
    for number, value in ((1, "a"), (5, "b"), (3, "b"), (4, "c")):
        row = {"id": 1, "x": value}
        logged = LoggedChange("insert" if number == 1 else "update", number, None, row)
        target.apply([change(logged, partition=0, offset=number)])
    held = [(version.pos[2], version.row["x"], version.end) for version in target.versions["1",]]
    assert held == [(1, "a", 3), (3, "b", 4), (4, "c", 5), (5, "b", None)]
