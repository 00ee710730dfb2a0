"""A simulated table of every type, whose rows change at random: its log, and what it holds.

It shares nothing with the product. Values stand at the edges of their types; keys change; the table
is truncated where that can be told, and gets a column on the way.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.support.changes import Change

COLUMNS: Mapping[str, str] = {
    "id": "bigint unsigned",
    "small": "int",
    "big": "bigint",
    "sum": "bigint unsigned",
    "wide": "decimal(65,30)",
    "whole": "decimal(65,0)",
    "price": "decimal(10,2)",
    "flag": "boolean",
    "day": "date",
    "made": "datetime",
    "exact": "datetime(6)",
    "seen": "timestamp",
    "stamp": "timestamp(6)",
    "span": "time(6)",
    "photo": "blob",
    "label": "varchar(200)",
    "note": "text",
    "doc": "json",
}
ADDED = {"late": "varchar(200)"}
"""The column that the table gets."""
_FIRST, _LAST = datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59)
_NOW = datetime(2024, 2, 29, 23, 59, 59)
# Local clocks of the sources stood still or ran twice in some hours before 1992: not looked at.
_EPOCH, _END = datetime(1992, 1, 1, tzinfo=UTC), datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC)
_MOST_SPAN = timedelta(hours=838, minutes=59, seconds=58, microseconds=999_999)
KEYS = (*range(1, 12), 2**63, 2**64 - 1)
EDGES: Mapping[str, tuple[Any, ...]] = {
    "int": (0, -1, 2**31 - 1, -(2**31)),
    "bigint": (0, 2**63 - 1, -(2**63), 2**53 + 1),
    "bigint unsigned": (0, 2**64 - 1, 2**63, 2**63 - 1),
    "decimal(65,30)": tuple(
        Decimal(text) for text in ("0E-30", "1E-30", f"-{'9' * 35}.{'9' * 30}", f"0.5{'0' * 29}")
    ),
    "decimal(65,0)": (Decimal("9" * 65), Decimal("-" + "9" * 65), Decimal(0), Decimal(10**40)),
    "decimal(10,2)": (Decimal("0.00"), Decimal("-0.01"), Decimal("99999999.99"), Decimal("1.10")),
    "boolean": (True, False),
    "date": (date(1000, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(2024, 2, 29)),
    "datetime": (_FIRST, _LAST, _NOW, datetime(1899, 12, 31)),
    "datetime(6)": (
        _FIRST.replace(microsecond=1),
        _LAST.replace(microsecond=999_999),
        _NOW.replace(microsecond=120_000),
        _NOW,
    ),
    "timestamp": (_EPOCH, _END, _NOW.replace(tzinfo=UTC)),
    "timestamp(6)": (_EPOCH.replace(microsecond=1), _END.replace(microsecond=999_999), _EPOCH),
    "time(6)": (
        timedelta(),
        _MOST_SPAN,
        -_MOST_SPAN,
        timedelta(microseconds=-1),
        timedelta(hours=1, microseconds=500_000),
    ),
    "blob": (b"", b"\x00", bytes(range(256)), b"\xff\xfe", "小麦".encode()),
    "varchar(200)": ("", " ", "null", "NULL", "\\N", "é'\"\\", "小麦🌾", "\x00\x01\x1f", "007.10"),
    "text": ("x" * 5_000, "", "line\r\nline\tend", "// no comment, ]}", "{}", "ﬁ\u0301"),
    "json": ('{"a": 1.10, "b": [18446744073709551616, null]}', "{}", "[]", '"x"', "null", "1e400"),
}


def random_value(type_: str, chance: random.Random) -> Any:
    """A value of a type: null, at an edge, or anywhere between."""
    roll = chance.random()
    if roll < 0.15:
        return None
    return chance.choice(EDGES[type_]) if roll < 0.75 else between(type_, chance)


def between(type_: str, chance: random.Random) -> Any:
    """Any value of a type."""
    edges = EDGES[type_]
    if type_ in ("int", "bigint", "bigint unsigned"):
        return chance.randint(min(edges), max(edges))
    if type_.startswith("decimal("):
        digits, scale = map(int, type_[8:-1].split(","))
        unscaled = chance.randint(1 - 10**digits, 10**digits - 1)
        sign, figures, _ = Decimal(unscaled).as_tuple()
        return Decimal((sign, figures, -scale))
    if type_ == "boolean":
        return chance.random() < 0.5
    if type_ == "date":
        return date.fromordinal(chance.randint(date(1992, 1, 2).toordinal(), date.max.toordinal()))
    if type_.startswith(("datetime", "timestamp")):
        zoned = type_.startswith("timestamp")
        first, last = (_EPOCH, _END) if zoned else (datetime(1992, 1, 2), _LAST)
        seconds = chance.randint(0, int((last - first).total_seconds()))
        micros = chance.randrange(10**6) if "(" in type_ else 0
        return min(first + timedelta(seconds=seconds, microseconds=micros), last)
    if type_ == "time(6)":
        most = _MOST_SPAN // timedelta(microseconds=1)
        return timedelta(microseconds=chance.randint(-most, most))
    if type_ == "blob":
        return chance.randbytes(chance.randrange(40))
    if type_ == "json":
        return f'{{"n": {chance.randint(0, 10**30)}.{chance.randrange(100):02d}}}'
    return "".join(chr(chance.choice((chance.randrange(1, 0xD800), 0x1F33E))) for _ in range(9))


class Farm:
    """One table with key `id`; `log` is what happened, `rows` what is there, by key."""

    def __init__(self, chance: random.Random, *, truncates: bool = False) -> None:
        self._chance = chance
        self._truncates = truncates
        self._transaction = 0
        self.columns = dict(COLUMNS)
        self.rows: dict[int, dict[str, Any]] = {}
        self.log: list[Change] = []

    def live(self, changes: int) -> None:
        """Make so many changes; half way the table gets its column."""
        while len(self.log) < changes:
            if len(self.log) >= changes // 2 and len(self.columns) == len(COLUMNS):
                self.columns |= ADDED
                for row in self.rows.values():
                    row.update(dict.fromkeys(ADDED))
            self._change()

    def _change(self) -> None:
        chance = self._chance
        kind = chance.choices(
            ("insert", "update", "delete", "move", "truncate"), (5, 6, 2, 2, 0.5)
        )[0]
        free = [key for key in KEYS if key not in self.rows]
        if (kind == "insert" and free) or not self.rows:
            key = chance.choice(free)
            self.rows[key] = self._row(key)
            self._tell("insert", None, self.rows[key])
            return
        key = chance.choice(list(self.rows))
        old = self.rows[key]
        if kind == "update":
            touched = chance.sample(list(self.columns)[1:], chance.randint(0, 6))
            new = {**old, **{name: random_value(self.columns[name], chance) for name in touched}}
            self.rows[key] = new
            self._tell("update", old, new)
        elif kind == "delete":
            del self.rows[key]
            self._tell("delete", old, None)
        elif kind == "move" and free:
            del self.rows[key]
            new = {**old, "id": chance.choice(free)}
            self.rows[new["id"]] = new
            self._tell("update", old, new)
        elif kind == "truncate" and self._truncates:
            self.rows.clear()
            self._tell("truncate", None, None)

    def _row(self, key: int) -> dict[str, Any]:
        row = {name: random_value(type_, self._chance) for name, type_ in self.columns.items()}
        return {**row, "id": key}

    def _tell(self, op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        before, after = (None if row is None else dict(row) for row in (before, after))
        number = len(self.log) + 1
        self.log.append(Change(op, dict(self.columns), before, after, number=number))
