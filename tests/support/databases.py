"""A simulated database: it changes rows and tells each change, in the order it made them.

What its table holds at the end is what gold must hold, however the changes are delivered. It shares
nothing with the product: no fold, no order, no format.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass
class LoggedChange:
    """One change as the log has it: `before` and `after` as the log shows them.

    `partial`: after lacks the columns that were not touched. `transaction` groups changes committed
    together.
    """

    op: str
    number: int
    before: Row | None
    after: Row | None
    partial: bool = False
    transaction: int = 0


@dataclass
class Version:
    """What one row held from change `begin` to before change `end` (None: it still does)."""

    row: Row
    begin: int
    end: int | None = None


@dataclass
class Database:
    """One table with key `id` and columns a, b, c; `changes` is its log, `versions` what it
    held."""

    chance: random.Random
    rows: dict[int, Row] = field(default_factory=dict)
    changes: list[LoggedChange] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    transaction: int = 0
    partials: bool = True
    truncates: bool = True
    moves: bool = True

    def live(self, changes: int) -> None:
        """Make about so many random changes, after a snapshot of a few first rows."""
        for key in range(self.chance.randrange(4)):
            self.rows[key] = self._row(key)
            self._tell("snapshot", None, dict(self.rows[key]))
        while len(self.changes) < changes:
            self.transaction += 1
            for _ in range(self.chance.choice([1, 1, 1, 2, 3])):
                self._change()

    def _change(self) -> None:
        free = [key for key in range(8) if key not in self.rows]
        kinds = (
            ["update"] * 6
            + ["insert"] * 4
            + ["delete"] * 2
            + ["move", "swap", "shift", "chain"] * self.moves
            + ["noop"]
        )
        kind = self.chance.choice([*kinds, *(["truncate"] if self.truncates else [])])
        if kind == "truncate" and self.chance.random() < 0.3:
            self.rows.clear()
            self._tell("truncate", None, None)
        elif kind == "insert" and free:
            key = self.chance.choice(free)
            self.rows[key] = self._row(key)
            self._tell("insert", None, dict(self.rows[key]))
        elif not self.rows:
            return
        elif kind == "update":
            self._update(self.chance.choice(list(self.rows)))
        elif kind == "noop":
            key = self.chance.choice(list(self.rows))
            self._tell("update", dict(self.rows[key]), dict(self.rows[key]))
        elif kind == "delete":
            key = self.chance.choice(list(self.rows))
            self._tell("delete", self.rows.pop(key), None)
        elif kind == "move" and free:
            self._move([(self.chance.choice(list(self.rows)), self.chance.choice(free))])
        elif kind == "swap" and len(self.rows) > 1:
            one, two = self.chance.sample(list(self.rows), 2)
            self._move([(one, two), (two, one)])
        elif kind == "shift" and len(self.rows) > 1 and free:
            one, two = self.chance.sample(list(self.rows), 2)
            self._move([(one, two), (two, self.chance.choice(free))])

        elif kind == "chain" and len(free) > 1:
            self._chain(self.chance.choice(list(self.rows)), free)

    def _chain(self, key: int, free: list[int]) -> None:
        """A row changes its key twice in one transaction."""
        first, second = self.chance.sample(free, 2)
        self.transaction += 1
        for old, new in ((key, first), (first, second)):
            row = self.rows.pop(old)
            self.rows[new] = {**row, "id": new}
            self._tell("update", dict(row), dict(self.rows[new]))
        self.transaction += 1

    def _update(self, key: int) -> None:
        old = self.rows[key]
        new = {**old, self.chance.choice("abc"): self._value()}
        self.rows[key] = new
        if self.partials and self.chance.random() < 0.4:
            touched = {name: new[name] for name in new if name == "id" or new[name] != old[name]}
            self._tell("update", None, touched, partial=True)
        else:
            self._tell("update", dict(old), dict(new))

    def _move(self, pairs: list[tuple[int, int]]) -> None:
        """Rows change their keys in one transaction; the log has one update for each."""
        self.transaction += 1
        taken = {old: self.rows.pop(old) for old, _ in pairs}
        for old, new in pairs:
            self.rows[new] = {**taken[old], "id": new}
            self._tell("update", dict(taken[old]), dict(self.rows[new]))
        self.transaction += 1

    def _row(self, key: int) -> Row:
        return {"id": key, "a": self._value(), "b": self._value(), "c": self._value()}

    def _value(self) -> str | None:
        return self.chance.choice([None, "", "x", f"v{len(self.changes)}", "é'\\\"", "null"])

    def _tell(
        self, op: str, before: Row | None, after: Row | None, *, partial: bool = False
    ) -> None:
        number = len(self.changes)
        self.changes.append(LoggedChange(op, number, before, after, partial, self.transaction))
        held = {version.row["id"]: version for version in self.versions if version.end is None}
        for key, version in held.items():
            if self.rows.get(key) != version.row:
                version.end = number
        for key, row in self.rows.items():
            if key not in held or held[key].end is not None:
                self.versions.append(Version(dict(row), number))


def spellings(number: int) -> list[str]:
    """Texts that are one integer."""
    sign, digits = "-" if number < 0 else "", str(abs(number))
    plus = ["-0"] if number == 0 else [] if sign else [f"+{digits}"]
    return [f"{sign}{digits}", f"{sign}000{digits}", f" {sign}{digits} ", *plus]


def delivered(
    changes: list[Any], chance: random.Random, *, partitions: int, batches: int
) -> list[list[list[Any]]]:
    """The log as it arrives: [batch][partition] -> changes; some twice, in any order of partitions.

    Within a partition the log's order is kept, except that a prefix may be delivered again.
    """
    lanes: list[list[Any]] = [[] for _ in range(partitions)]
    for change in changes:
        lanes[chance.randrange(partitions)].append(change)
    for lane in lanes:
        if lane and chance.random() < 0.5:
            start = chance.randrange(len(lane))
            again = lane[start : start + chance.randrange(6)]
            lane[start + len(again) : start + len(again)] = again
        if lane and chance.random() < 0.2:
            lane.extend(lane[: chance.randrange(len(lane))])
    cuts = [sorted(chance.randrange(len(lane) + 1) for _ in range(batches - 1)) for lane in lanes]
    result = []
    for batch in range(batches):
        part = []
        for lane, cut in zip(lanes, cuts, strict=True):
            start = cut[batch - 1] if batch else 0
            end = cut[batch] if batch < batches - 1 else len(lane)
            part.append(lane[start:end])
        result.append(part)
    return result
