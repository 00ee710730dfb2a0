"""Which type changes keep every value: of a Delta column in place, and of a source column."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ingest.types import parse_type

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_ALIASES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"} | {
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
}
NUMBER = re.compile(r"[+-]?([0-9]+)(?:\.([0-9]+))?")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
# How much a source type holds, where types of one Spark type differ; MySQL's, in bytes or by rank.
_CAPACITY = {"tinytext": 255, "text": 65_535, "mediumtext": 1 << 24, "longtext": 1 << 32} | {
    "tinyblob": 255,
    "blob": 65_535,
    "mediumblob": 1 << 24,
    "longblob": 1 << 32,
    "clob": 1 << 32,
    "nclob": 1 << 32,
    "bytea": 1 << 32,
}
_RANK = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "integer": 4} | {
    "float": 5,
    "real": 5,
    "binary_float": 5,
    "double": 6,
    "double precision": 6,
    "binary_double": 6,
}
_TEXTS = {"char", "varchar", "varchar2", "nchar", "nvarchar", "nvarchar2", "character"} | {
    "character varying",
    "binary",
    "varbinary",
    "raw",
    *_CAPACITY,
}


def widens(old: str, new: str) -> bool:
    """Can Delta change the column's type from `old` to the other type `new` in place?

    Delta 4, "Type widening": integers upwards, up to 32 bits also to double; integers to decimals
    of at least 10 (bigint 20) digits before the point; decimals that lose no digit on either side;
    float to double; date to timestamp_ntz.
    """
    if (old, new) in {("float", "double"), ("date", "timestamp_ntz")}:
        return True
    wide, narrow = _DECIMAL.fullmatch(new), _DECIMAL.fullmatch(old)
    if wide is not None:
        digits, scale = int(wide[1]) - int(wide[2]), int(wide[2])
        if narrow is not None:
            return digits >= int(narrow[1]) - int(narrow[2]) and scale >= int(narrow[2])
        return old in _INTEGERS and digits >= (20 if old == "bigint" else 10)
    if new == "double":
        return old in _INTEGERS[:3]
    both = old in _INTEGERS and new in _INTEGERS
    return both and _INTEGERS.index(new) > _INTEGERS.index(old)


def risk_within(before: str | None, after: str, type_: str) -> str:
    """The risk of a source type changing while gold's stays; `before` None = not known."""
    new = parse_type(after)
    if before is None:
        sized = type_ in ("string", "binary") and new.name in _TEXTS
        return "widening" if sized else "none"
    old = parse_type(before)
    if (old.name, old.args, old.unsigned) == (new.name, new.args, new.unsigned):
        return "none"
    if old.name == new.name and old.members and new.members:
        longer = new.members[: len(old.members)] == old.members
        return "widening" if longer else "destructive"
    if old.name in _RANK and new.name in _RANK:
        if old.unsigned != new.unsigned:
            return "destructive"
        return _compared(_RANK[old.name], _RANK[new.name])
    holds, held = _capacity(after), _capacity(before)
    if holds is not None and held is not None:
        return _compared(held, holds)
    if old.name == new.name and len(old.numbers) == len(new.numbers):
        shrinks = any(b > a for b, a in zip(old.numbers, new.numbers, strict=True))
        return "destructive" if shrinks else _compared(sum(old.numbers), sum(new.numbers))
    enumerated = old.name in ("enum", "set") and new.name in _TEXTS
    return "widening" if enumerated else "destructive"


def _capacity(source_type: str) -> int | None:
    """How much a text or binary type holds; None for other types."""
    type_ = parse_type(source_type)
    if type_.name not in _TEXTS:
        return None
    if type_.numbers:
        return type_.numbers[0]
    unbounded = type_.args.strip().lower() == "max" or type_.name.endswith("varying")
    return 1 << 32 if unbounded else _CAPACITY.get(type_.name, 1)


def _compared(old: int, new: int) -> str:
    return "none" if old == new else "widening" if new > old else "destructive"


def spelt(type_: str) -> str:
    """Spark's own spelling: `Decimal(10, 2)` is `decimal(10,2)`, `long` is `bigint`."""
    name, paren, rest = type_.lower().replace(" ", "").partition("(")
    return _ALIASES.get(name, name) + paren + rest


def outgrown(type_: str, texts: Sequence[str]) -> str | None:
    """The narrowest type that `type_` widens to and that holds these numbers too; None where one of
    them is no plain number, or there is no such type."""
    numbers = [NUMBER.fullmatch(text) for text in texts]
    decimal = _DECIMAL.fullmatch(spelt(type_))
    if not numbers or None in numbers or (decimal is None and spelt(type_) not in _INTEGERS):
        return None
    digits = max(len(number[1].lstrip("0")) for number in numbers if number)
    scale = max(len((number[2] or "").rstrip("0")) for number in numbers if number)
    wider = [*_INTEGERS[2:], "decimal(20,0)"]
    if decimal is not None:
        whole, kept = int(decimal[1]) - int(decimal[2]), max(int(decimal[2]), scale)
        wider = [f"decimal({max(whole, digits) + kept},{kept})"]
    elif scale or digits > 19:
        wider = [f"decimal({max(20, digits) + scale},{scale})"]
    values = [int(text) for text in texts] if not scale and decimal is None else []
    for name in wider:
        bits = {"int": 31, "bigint": 63}.get(name)
        held = bits is None or all(-(2**bits) <= value < 2**bits for value in values)
        size = _DECIMAL.fullmatch(name)
        if held and widens(spelt(type_), name) and (size is None or int(size[1]) <= 38):
            return name
    return None
