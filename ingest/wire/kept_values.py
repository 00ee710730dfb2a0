"""Values that a converter returns unchanged: a column of such values is not converted.

Most texts of dates, times and decimals are canonical as they are sent. One regular expression over
all texts of a column tells whether all of them are, at a tenth of the cost of a call for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from ingest.values import canonical

Converter = TypeVar("Converter", bound=Callable[..., Any])


class TextPattern:
    """A regular expression for texts without line breaks, in which digits are ASCII."""

    def __init__(self, pattern: str) -> None:
        self.one = re.compile(pattern, re.ASCII).fullmatch
        self._lines = re.compile(f"(?:(?:{pattern})\n)*+", re.ASCII).fullmatch

    def fits(self, texts: Sequence[str]) -> bool:
        """Whether each of the texts matches the pattern."""
        lines = "\n".join(texts) + "\n"
        return self._lines(lines) is not None and lines.count("\n") == len(texts)


CIVIL_TEXT = TextPattern(canonical.CIVIL_PATTERN)
"""Canonical zone-less date-times."""
INSTANT_TEXT = TextPattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d*[1-9]Z")
"""Canonical instants with a part of a second."""
DATE_TEXT = TextPattern(r"(?!0000)\d{4}-(?!00)\d\d-(?!00)\d\d")
"""Canonical dates, in which no part is zero."""
JSON_TEXT = TextPattern(r"[^J@\n][^\n]*")
"""JSON that does not begin like the update of a part of a JSON value (`ingest.wire.declared`)."""
DECIMAL_TEXT = TextPattern(r"-?\d+\.\d+")
"""Decimals with a point and without an exponent."""


class Kept(NamedTuple):
    """The values that a converter returns unchanged and without a warning: the digits of an integer
    if `integers` is set, and each text that matches the pattern `texts`."""

    integers: bool = False
    texts: TextPattern | None = None


_NOTHING = Kept()
_KEPT: WeakKeyDictionary[Callable[..., Any], Kept] = WeakKeyDictionary()


def keeps(
    convert: Converter, *, integers: bool = False, texts: TextPattern | None = None
) -> Converter:
    """Declares which values the converter returns unchanged; returns the converter."""
    _KEPT[convert] = Kept(integers, texts)
    return convert


def kept_by(convert: Callable[..., Any]) -> Kept:
    """The values that a converter is known to return unchanged."""
    return _KEPT.get(convert, _NOTHING)
