"""Avro's binary encoding, straight from bytes: the parts of the readers for fixed schemas.

Source: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding

A reader takes the bytes and a place, and returns the value there and the place behind it. It checks
every length and count against the bytes that are left, so no message costs more than its own size.
Raises bad_avro for bytes that no writer writes; past the end it may raise IndexError, see `whole`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.values.jsontext import excerpt

_Read = TypeVar("_Read")
_LONGEST = 10


def whole(data: bytes, at: int, read: Callable[[bytes, int], tuple[_Read, int]]) -> _Read:
    """What `read` makes of all bytes from `at`; raises bad_avro if some are left over or
    missing."""
    try:
        found, end = read(data, at)
    except IndexError:
        raise DecodeError(
            Code.BAD_AVRO,
            f"expected a whole datum, got {len(data) - at} bytes that end in the middle of it: "
            f"{excerpt(data)}",
        ) from None
    if end != len(data):
        raise DecodeError(
            Code.BAD_AVRO,
            f"expected one datum, got one of {end - at} bytes and {len(data) - end} more behind it",
        )
    return found


def number(data: bytes, at: int) -> tuple[int, int]:
    """An int or long: zigzag, seven bits a byte."""
    byte = data[at]
    if byte < 128:
        return byte >> 1 ^ -(byte & 1), at + 1
    found = byte & 127
    shift = 7
    for end in range(at + 1, at + _LONGEST):
        byte = data[end]
        found |= (byte & 127) << shift
        if byte < 128:
            if found >= 2**64:
                break
            return found >> 1 ^ -(found & 1), end + 1
        shift += 7
    raise malformed("a number of at most 64 bits", at)


def octets(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes behind their length."""
    size = data[at]
    if size < 128:
        end = at + 1 + (size >> 1)
        at += 1
        if size & 1:
            raise malformed("a length", at - 1)
    else:
        size, at = number(data, at)
        end = at + size
        if size < 0:
            raise malformed("a length", at)
    if end > len(data):
        raise malformed(f"{end - at} bytes", at)
    return data[at:end], end


def text(data: bytes, at: int) -> tuple[str, int]:
    """A string; raises bad_avro if it is not UTF-8."""
    found, end = octets(data, at)
    try:
        return found.decode(), end
    except UnicodeDecodeError:
        raise malformed("UTF-8", end - len(found)) from None


def maybe_text(data: bytes, at: int) -> tuple[str | None, int]:
    """The union of null and string."""
    return text(data, at + 1) if there(data, at) else (None, at + 1)


def maybe_number(data: bytes, at: int) -> tuple[int | None, int]:
    """The union of null and a number."""
    return number(data, at + 1) if there(data, at) else (None, at + 1)


def there(data: bytes, at: int) -> bool:
    """Which branch of a union of null and something else stands at `at`, one byte."""
    branch = data[at]
    if branch > 2 or branch & 1:
        raise malformed("branch 0 or 1 of a union", at)
    return branch == 2


def count(data: bytes, at: int) -> tuple[int, int]:
    """How many items the next block of an array or map has; 0 ends it.

    Every item takes at least one byte.
    """
    found, at = number(data, at)
    if found < 0:
        # The size of the block in bytes follows.
        _, at = number(data, at)
        found = -found
    if found > len(data) - at:
        raise malformed(f"{found} items", at)
    return found, at


def numbers(data: bytes, at: int) -> tuple[list[int], int]:
    """An array of numbers."""
    found: list[int] = []
    left, at = count(data, at)
    while left:
        for _ in range(left):
            item, at = number(data, at)
            found.append(item)
        left, at = count(data, at)
    return found, at


def malformed(wanted: str, at: int) -> DecodeError:
    """The error for bytes that are no datum of the schema."""
    return DecodeError(Code.BAD_AVRO, f"expected {wanted} at byte {at}, got something else")
