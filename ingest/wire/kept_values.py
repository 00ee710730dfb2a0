"""Values that a converter gives back as they are: a column of them is not converted.

Most texts of dates, times and decimals are canonical as they are sent. Whether all those of a
column are is asked by one regular expression over them all, which costs a tenth of a call for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from ingest.values import canonical

Converter = TypeVar("Converter", bound=Callable[..., Any])


class TextPattern:
    """A regular expression of texts without line breaks, digits being ASCII."""

    def __init__(self, pattern: str) -> None:
        self.one = re.compile(pattern, re.ASCII).fullmatch
        self._lines = re.compile(f"(?:(?:{pattern})\n)*+", re.ASCII).fullmatch

    def fits(self, texts: Sequence[str]) -> bool:
        """Whether each of the texts is one of the pattern's."""
        lines = "\n".join(texts) + "\n"
        return self._lines(lines) is not None and lines.count("\n") == len(texts)


CIVIL_TEXT = TextPattern(canonical.CIVIL_PATTERN)
"""Canonical zone-less date-times."""
INSTANT_TEXT = TextPattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d*[1-9]Z")
"""Canonical instants with a part of a second."""
DATE_TEXT = TextPattern(r"(?!0000)\d{4}-(?!00)\d\d-(?!00)\d\d")
"""Canonical dates, in which no part is zero."""
JSON_TEXT = TextPattern(r"[^J@\n][^\n]*")
"""What no part of a JSON value's update begins like (`ingest.wire.declared`)."""
DECIMAL_TEXT = TextPattern(r"-?\d+\.\d+")
"""Decimals with a point and without an exponent."""


class Kept(NamedTuple):
    """What a converter gives back without a warning: an integer's digits for it, where `integers`;
    each text of the pattern `texts`."""

    integers: bool = False
    texts: TextPattern | None = None


_NOTHING = Kept()
_KEPT: WeakKeyDictionary[Callable[..., Any], Kept] = WeakKeyDictionary()


def keeps(
    convert: Converter, *, integers: bool = False, texts: TextPattern | None = None
) -> Converter:
    """The converter, of which it is known from now on what it gives back as it is."""
    _KEPT[convert] = Kept(integers, texts)
    return convert


def kept_by(convert: Callable[..., Any]) -> Kept:
    """What a converter is known to give back as it is."""
    return _KEPT.get(convert, _NOTHING)
