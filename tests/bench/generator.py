"""Changes of a made-up shop, the same for the same seed, whatever wire format they are sent in.

A row is worked out from its key and version, so the state of a table is one number a key.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

Value = str | int | None

START_MS = 1_735_689_600_000
POS_STEP = 100
_CITIES = ("Hangzhou", "Utrecht", "Porto", "Kraków", "Nairobi", "Quito", "Osaka", "Leeds")
_STATES = ("new", "paid", "packed", "sent", "returned", "closed")
_TEXT_SIZE = 1 << 16
_NOTE_SIZE = 180


class Row(NamedTuple):
    """One row of the table `orders`: `amount` in cents, times in milliseconds since 1970."""

    id: int
    order_no: str
    customer_id: int
    status: str
    amount: int
    quantity: int
    city: str
    email: str
    note: str
    created_at: int
    updated_at: int


class Change(NamedTuple):
    """One change. `op` is c, u or d; `pos` rises by POS_STEP, so that others fit between."""

    op: str
    pos: int
    table: str
    before: Row | None
    after: Row | None
    partial: bool = False

    @property
    def time_ms(self) -> int:
        """When it happened."""
        return START_MS + self.pos // POS_STEP


class Table:
    """A source table that changes: inserts of absent keys, updates, one delete in ten."""

    def __init__(self, *, keys: int, seed: int, name: str = "orders") -> None:
        self.name = name
        self._keys = keys
        self._random = random.Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz     "
        self._text = "".join(self._random.choices(letters, k=_TEXT_SIZE))
        self._versions: dict[int, int] = {}
        self._updated: dict[int, None] = {}
        self._last: dict[int, int] = {}
        self._pos = 0

    def changes(self, count: int) -> Iterator[Change]:
        """The next changes, in order."""
        draw = self._random.random
        for _ in range(count):
            key = 1 + int(draw() * self._keys)
            version = self._versions.get(key, 0)
            self._pos += POS_STEP
            self._last[key] = self._pos
            self._updated.pop(key, None)
            if version <= 0:
                self._versions[key] = 1 - version
                yield Change("c", self._pos, self.name, None, self._row(key, 1 - version))
            elif draw() < 0.1:
                self._versions[key] = -version
                yield Change("d", self._pos, self.name, self._row(key, version), None)
            else:
                self._versions[key] = version + 1
                self._updated[key] = None
                before, after = self._row(key, version), self._row(key, version + 1)
                yield Change("u", self._pos, self.name, before, after)

    def late(self, count: int, *, turn: int) -> list[Change]:
        """Updates from just before the newest change of as many keys, for turns 0 to 49.

        Four tenths are of rows that are there, three of rows deleted since, three (of rows that are
        there) lack a column that the source could not supply.
        """
        # Below an insert there is no row that lacks but a column.
        present = list(self._updated)
        deleted = [key for key, version in self._versions.items() if version < 0]
        whole, below, partial = count * 4 // 10, count * 3 // 10, count * 3 // 10
        chosen = self._random.sample(present, whole + partial)
        keys = [
            *((key, False) for key in chosen[:whole]),
            *((key, False) for key in self._random.sample(deleted, below)),
            *((key, True) for key in chosen[whole:]),
        ]
        return [self._before_newest(key, partial, turn) for key, partial in keys]

    def _before_newest(self, key: int, partial: bool, turn: int) -> Change:
        version = abs(self._versions[key])
        pos = self._last[key] - POS_STEP // 2 + turn
        before, after = self._row(key, version), self._row(key, version + 1000 + turn)
        return Change("u", pos, self.name, before, after, partial)

    def _row(self, key: int, version: int) -> Row:
        mixed = (key * 2_654_435_761 + version * 40_503) & 0xFFFFFFFF
        start = mixed % (_TEXT_SIZE - _NOTE_SIZE)
        created = START_MS + key * 977
        return Row(
            key,
            f"SO-{key:010d}",
            key % 9973,
            _STATES[version % len(_STATES)],
            mixed % 1_000_000,
            mixed % 97,
            _CITIES[key % len(_CITIES)],
            f"customer{key % 9973}@shop.example",
            self._text[start : start + _NOTE_SIZE],
            created,
            created + version * 60_000,
        )


def write(path: Path, changes: Iterable[Change], render: Callable[[Change], bytes]) -> Path:
    """Write one message a line; the file appears at its name when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    with draft.open("wb", buffering=1 << 20) as file:
        file.writelines(render(change) + b"\n" for change in changes)
    draft.rename(path)
    return path
