"""Binary floating point numbers given as text: the shortest text that means the same number."""

from __future__ import annotations

import struct

from ingest.wire.avro.reader import double_text, single_text

_SINGLE = struct.Struct("<f")


def single_of(text: str) -> str:
    """The text of a single-precision number given as decimal text; raises OverflowError."""
    return single_text(_SINGLE.pack(float(text)))


def double_of(text: str) -> str:
    """The text of a double given as decimal text."""
    return double_text(float(text))


def is_single(number: float) -> bool:
    """Whether a number is one of single precision."""
    try:
        return number != number or _SINGLE.unpack(_SINGLE.pack(number))[0] == number
    except OverflowError:
        return False
