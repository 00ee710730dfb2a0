"""The shortest decimal text that a binary floating point number is read back from."""

from __future__ import annotations

import struct

_SINGLE, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_TINY = 2.0**-126
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def double_text(data: bytes) -> str:
    """Eight bytes, little-endian."""
    found = repr(_DOUBLE.unpack(data)[0])
    return _SPECIAL.get(found, found)


def single_text(data: bytes) -> str:
    """Four bytes, little-endian: `1.2222`, where a double of the value is 1.2222000360488892."""
    exact = _SINGLE.unpack(data)[0]
    # Six digits tell all but the smallest numbers apart, where digits are fewer.
    for digits in range(6 if abs(exact) > _TINY else 1, 10):
        found = repr(float(f"{exact:.{digits}g}"))
        if found in _SPECIAL:
            return _SPECIAL[found]
        if float(found) == exact or _packed(float(found)) == data:
            break
    return found


def _packed(number: float) -> bytes:
    try:
        return _SINGLE.pack(number)
    except OverflowError:
        return b""


def single_of(text: str) -> str:
    """The text of a single-precision number given as decimal text."""
    return single_text(_SINGLE.pack(float(text)))


def double_of(text: str) -> str:
    """The text of a double given as decimal text."""
    return double_text(_DOUBLE.pack(float(text)))


def is_single(number: float) -> bool:
    """Whether a number is one of single precision."""
    data = _packed(number)
    return bool(data) and (number != number or _SINGLE.unpack(data)[0] == number)
