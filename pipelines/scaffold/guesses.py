"""Guesses of a column's type or a table's key, if no message names it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_BOOLEAN = re.compile(r"true|false")
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
_DECIMAL = re.compile(r"-?(0|[1-9]\d*)\.(\d+)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATETIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?")
_INSTANT = re.compile(_DATETIME.pattern + r"(Z|[+-]\d\d:?\d\d)")
_EPOCH = re.compile(r"1\d{9}|1\d{12}|1\d{15}")
_PRECISION = 38
_HEADROOM = 6
"""By how many digits before the point numbers may be longer than those of a sample."""


def guessed_type(texts: Collection[str]) -> str:
    """The narrowest type that holds all of the texts; string if no other does."""
    for pattern, type_ in (
        (_BOOLEAN, "boolean"),
        (_WHOLE, "bigint"),
        (_DATE, "date"),
        (_INSTANT, "timestamp"),
        (_DATETIME, "datetime"),
    ):
        if texts and all(pattern.fullmatch(text) for text in texts):
            return type_
    found = [_DECIMAL.fullmatch(text) or _WHOLE.fullmatch(text) for text in texts]
    if texts and all(found):
        whole = max(len(match[1]) for match in found if match)
        scale = max(len(text.partition(".")[2]) for text in texts)
        if whole + scale <= _PRECISION:
            return f"decimal({min(whole + scale + _HEADROOM, _PRECISION)},{scale})"
    return "string"


def seems_time(texts: Collection[str]) -> bool:
    """Whether whole numbers are as large as seconds, milliseconds or microseconds of these
    years."""
    return bool(texts) and all(_EPOCH.fullmatch(text) for text in texts)


def guessed_key(table: str, columns: Iterable[str]) -> str | None:
    """The column whose name is that of a key of the table; None if there is none."""
    called = {name.lower(): name for name in columns}
    one = table.lower()
    for name in ("id", f"{one}_id", f"{one.removesuffix('s')}_id", f"{one.removesuffix('es')}_id"):
        if name in called:
            return called[name]
    return None
