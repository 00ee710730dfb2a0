"""Where a datum ends, found without reading its values.

The values that are still to be skipped stand in a list, not on the call stack: a datum may be
nested as deep as it has bytes, and it is left to the reader of its values to say that it is too
deep. Each step takes at least one byte, or is at a record whose fields do, and a count is kept as a
number, however large. So skipping costs no more than the size of what is skipped. Bytes that are no
datum of the schema may seem to have an end all the same, but never one behind the data.

Source: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingest.wire.avro import reader
from ingest.wire.avro.schema import Type

Skip = Callable[[bytes, int], int]
"""Data and where a datum begins -> where the datum ends."""

_MOST = 200_000
"""How many values may be waiting: in a deep datum of records, the fields that follow in each of
them wait."""
_NUMBER, _SIZED, _FIXED, _UNION, _RECORD, _BLOCKS, _ITEMS = range(7)
_Step = tuple[int, Any]
"""A value that is to be skipped, and what it is made of: bytes, branches, fields, items of a
block."""


def skipper(type_: Type) -> Skip:
    """Skips data of a type. It raises one of `reader.UNREADABLE` for data without an end."""
    whole = _steps([type_], {})

    def skip(data: bytes, at: int) -> int:
        waiting = list(whole)
        while waiting:
            kind, parts = waiting.pop()
            if kind == _UNION:
                branch, at = reader.long(data, at)
                if branch < 0:
                    raise ValueError(f"expected a branch of the union, got {branch}")
                waiting += parts[branch]
            elif kind == _NUMBER:
                while data[at] > 127:
                    at += 1
                at += 1
            elif kind == _SIZED:
                size, at = reader.size(data, at)
                at += size
            elif kind == _FIXED:
                at = _past(data, at, parts)
            elif kind == _RECORD:
                least, fields = parts
                _past(data, at, least)
                waiting += fields
                if len(waiting) > _MOST:
                    raise ValueError(f"expected at most {_MOST} values behind it, got more")
            elif kind == _BLOCKS:
                count, at = reader.block(data, at)
                if count:
                    waiting.append((kind, parts))
                if count and parts:
                    _past(data, at, count)
                    waiting.append((_ITEMS, [count, parts]))
            else:
                _next_item(waiting, parts)
        return at

    return skip


def _next_item(waiting: list[_Step], block: list[Any]) -> None:
    """Puts one item of a block in the list of waiting values, and below it the number of the
    others."""
    count, item = block
    if count > 1:
        block[0] = count - 1
        waiting.append((_ITEMS, block))
    waiting += item


def _past(data: bytes, at: int, count: int) -> int:
    if count > len(data) - at:
        raise ValueError(f"expected {count} bytes, got {len(data) - at}")
    return at + count


def _steps(types: Sequence[Type], made: dict[int, _Step]) -> list[_Step]:
    """The steps that skip values which follow each other, the last of them first; a value that
    takes no byte needs none."""
    return [_step(type_, made) for type_ in reversed(types) if type_.least]


def _step(type_: Type, made: dict[int, _Step]) -> _Step:
    kind = type_.kind
    if kind in ("int", "long", "enum"):
        return _NUMBER, None
    if kind in ("bytes", "string"):
        return _SIZED, None
    if kind == "union":
        return _UNION, [_steps([part], made) for part in type_.parts]
    if kind == "array":
        return _BLOCKS, _steps(type_.parts, made)
    if kind == "map":
        return _BLOCKS, [*_steps(type_.parts, made), (_SIZED, None)]
    if kind != "record":
        return _FIXED, type_.least
    known = made.get(id(type_))
    if known is None:
        fields: list[_Step] = []
        # entered before its fields, which may be of this very type
        known = made[id(type_)] = (_RECORD, (type_.least, fields))
        fields += _steps([field.type for field in type_.fields], made)
    return known
