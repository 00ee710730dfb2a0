"""Avro data read from bytes, strictly: `read(data, start)` returns a value and where it ends.

Values are those that Connect's JsonConverter would have written: bytes as base64, records and maps
as objects; `native_reader` returns Python's own. A length or count is checked against the bytes
that are left, values that take no byte may only be few (FREE), and reading past the end raises. So
no message takes more time or memory than its own size allows.

fastavro would return Python's values, which would have to be made texts in a second step: its
reading alone costs as much as reading and events together cost here (`tests/bench/README.md`). It
also ignores bytes behind a datum, and makes twenty million nulls of five bytes. So the tests
compare this reader with fastavro, but the product does not need it.

Source: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from ingest.values import canonical
from ingest.wire.avro.schema import FREE, Field, Type

Read = Callable[[bytes, int], tuple[Any, int]]
Rename = Callable[[Field], str]

UNREADABLE = (ValueError, LookupError, struct.error, RecursionError)
"""The errors that reading malformed data may raise."""

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def long(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of at most 64 bits."""
    # A byte that says that more follow is 128 too high; 1 less in the next byte makes up for it.
    number = data[at]
    if number < 128:
        return number >> 1 ^ -(number & 1), at + 1
    byte = data[at + 1]
    number += byte - 1 << 7
    if byte < 128:
        return number >> 1 ^ -(number & 1), at + 2
    byte = data[at + 2]
    number += byte - 1 << 14
    if byte < 128:
        return number >> 1 ^ -(number & 1), at + 3
    byte = data[at + 3]
    number += byte - 1 << 21
    if byte < 128:
        return number >> 1 ^ -(number & 1), at + 4
    byte = data[at + 4]
    number += byte - 1 << 28
    if byte < 128:
        return number >> 1 ^ -(number & 1), at + 5
    shift = 35
    at += 5
    while shift < 70:
        byte = data[at]
        at += 1
        number += byte - 1 << shift
        if byte < 128:
            if number >> 64:
                raise ValueError("expected a number of at most 64 bits")
            return number >> 1 ^ -(number & 1), at
        shift += 7
    raise ValueError("expected a number of at most ten bytes")


def int32(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of at most 32 bits."""
    number, at = long(data, at)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"expected a number of 32 bits, got {number}")
    return number, at


def size(data: bytes, at: int) -> tuple[int, int]:
    """The length of what follows, which must be there."""
    number, at = long(data, at)
    if not 0 <= number <= len(data) - at:
        raise ValueError(f"expected {number} bytes, got {len(data) - at}")
    return number, at


def text(data: bytes, at: int) -> tuple[str, int]:
    """A string."""
    number, at = size(data, at)
    end = at + number
    return data[at:end].decode(), end


def packed(data: bytes, at: int) -> tuple[str, int]:
    """Bytes, as base64."""
    number, at = size(data, at)
    end = at + number
    return canonical.base64_of(data[at:end]), end


def octets(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes, as they are."""
    number, at = size(data, at)
    end = at + number
    return data[at:end], end


def boolean(data: bytes, at: int) -> tuple[bool, int]:
    """A boolean; any bytes except 0 and 1 are malformed."""
    return (False, True)[data[at]], at + 1


def double(data: bytes, at: int) -> tuple[str, int]:
    """A double, as the shortest text that means it."""
    return double_text(_DOUBLE.unpack_from(data, at)[0]), at + 8


def single(data: bytes, at: int) -> tuple[str, int]:
    """A float of 32 bits, as the shortest text that means it."""
    return single_text(data[at : at + 4]), at + 4


def double_text(number: float) -> str:
    """The shortest digits that mean this double; Spark's words for what is no number."""
    found = repr(number)
    return _NO_NUMBER.get(found, found)


_NO_NUMBER = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


@lru_cache(maxsize=65_536)
def single_text(data: bytes) -> str:
    """The six to nine digits that mean these four bytes: 3.14, not 3.140000104904175."""
    number = _FLOAT.unpack(data)[0]
    for digits in range(6, 10):
        short = float(f"{number:.{digits}g}")
        try:
            if _FLOAT.pack(short) == data:
                return double_text(short)
        except OverflowError:
            # rounded beyond the largest: it takes more digits
            continue
    return double_text(number)


def _own_name(field: Field) -> str:
    return field.name


def reader(type_: Type, rename: Rename = _own_name) -> Read:
    """The reader of one type. `rename` gives names to the fields of records."""
    return _reader(type_, _Values(rename, _SIMPLE, canonical.base64_of))


def native_reader(type_: Type) -> Read:
    """The reader of one type whose values are Python's own: bytes as bytes, floats as floats.

    A record in a union is a pair of its name and its value.
    """
    return _reader(type_, _Values(_own_name, _NATIVE, bytes, pairs=True))


class _Values:
    """The form in which values are returned. `packed` makes the values of fixed types; `made` holds
    the readers made so far."""

    def __init__(
        self,
        rename: Rename,
        simple: Mapping[str, Read],
        packed: Callable[[bytes], Any],
        *,
        pairs: bool = False,
    ) -> None:
        self.rename = rename
        self.simple = simple
        self.packed = packed
        self.pairs = pairs
        self.made: dict[int, Read] = {}


def _reader(type_: Type, values: _Values) -> Read:
    kind = type_.kind
    if kind in values.simple:
        return values.simple[kind]
    if kind == "enum":
        return _enum(type_.symbols)
    if kind == "fixed":
        return _fixed(type_.size, values.packed)
    if kind == "union":
        return _union([_branch(part, values) for part in type_.parts])
    if kind == "array":
        items = type_.parts[0]
        return _array(_reader(items, values), 0 if items.least else items.free)
    if kind == "map":
        return _map(_reader(type_.parts[0], values))
    return _record(type_, values)


def _branch(type_: Type, values: _Values) -> Read:
    read = _reader(type_, values)
    if not values.pairs or type_.kind != "record":
        return read

    def pair(data: bytes, at: int) -> tuple[tuple[str, Any], int]:
        found, at = read(data, at)
        return (type_.name, found), at

    return pair


def _null(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _raw(read: Callable[[bytes, int], tuple[str, int]]) -> Read:
    """Floats in JSON keep their digits; what is no number is text there."""

    def number(data: bytes, at: int) -> tuple[Any, int]:
        found, at = read(data, at)
        return (found if found[-1] in "Ny" else msgspec.Raw(found.encode())), at

    return number


_SIMPLE: dict[str, Read] = {
    "null": _null,
    "boolean": boolean,
    "int": int32,
    "long": long,
    "float": _raw(single),
    "double": _raw(double),
    "bytes": packed,
    "string": text,
}
_NATIVE: dict[str, Read] = {
    **_SIMPLE,
    "float": lambda data, at: (_FLOAT.unpack_from(data, at)[0], at + 4),
    "double": lambda data, at: (_DOUBLE.unpack_from(data, at)[0], at + 8),
    "bytes": octets,
}


def _enum(symbols: tuple[str, ...]) -> Read:
    def read(data: bytes, at: int) -> tuple[str, int]:
        number, at = long(data, at)
        if number < 0:
            raise ValueError(f"expected the number of a symbol, got {number}")
        return symbols[number], at

    return read


def _fixed(count: int, packed: Callable[[bytes], Any]) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        end = at + count
        if end > len(data):
            raise ValueError(f"expected {count} bytes, got {len(data) - at}")
        return packed(data[at:end]), end

    return read


def _union(parts: list[Read]) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        number, at = long(data, at)
        if number < 0:
            raise ValueError(f"expected a branch of the union, got {number}")
        return parts[number](data, at)

    return read


def block(data: bytes, at: int) -> tuple[int, int]:
    """The count of an array's or map's next block; a negative one is followed by its size."""
    count, at = long(data, at)
    if count < 0:
        count = -count
        _, at = size(data, at)
    return count, at


def _blocks(data: bytes, at: int) -> tuple[int, int]:
    """As `block`, checked against the bytes that are left."""
    count, at = block(data, at)
    most = max(len(data) - at, FREE)
    if count > most:
        raise ValueError(f"expected at most {most} items, got {count}")
    return count, at


def _array(item: Read, free: int) -> Read:
    """`free`: how many values an item has that take no byte; 0 if the items themselves take
    some."""

    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        count, at = _blocks(data, at)
        while count:
            if free * (len(found) + count) > FREE:
                raise ValueError(
                    f"expected at most {FREE} values of no bytes, got {len(found) + count} items "
                    f"of {free}"
                )
            for _ in range(count):
                value, at = item(data, at)
                found.append(value)
            count, at = _blocks(data, at)
        return found, at

    return read


def _map(item: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        count, at = _blocks(data, at)
        while count:
            for _ in range(count):
                name, at = text(data, at)
                found[name], at = item(data, at)
            count, at = _blocks(data, at)
        return found, at

    return read


def _record(type_: Type, values: _Values) -> Read:
    known = values.made.get(id(type_))
    if known is not None:
        return known
    fields: list[tuple[str, Read]] = []

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        found = {}
        for name, item in fields:
            found[name], at = item(data, at)
        return found, at

    # entered before its fields, which may be of this very type
    values.made[id(type_)] = read
    fields += [(values.rename(field), _reader(field.type, values)) for field in type_.fields]
    return read
