"""Silver rows as Arrow: each column is built at once, maps and arrays from flat lists.

What repeats is not converted again. A column with one value is repeated, and the names in row
images, which the rows of a table share, are looked up as indexes into the names met so far.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from ingest.events import DECODED
from ingest.position import LENGTH, S1, Pos
from ingest.sql.quoting import typed_columns
from ingest.values.arrow_types import arrow_schema
from ingest.wire.contract import Texts

SCHEMA = arrow_schema((column.name, column.type) for column in DECODED)
SILVER_COLUMNS = typed_columns((column.name, column.type) for column in DECODED)
"""The same schema in Spark's words."""
_SCALARS = frozenset((str, int))
_NONE = frozenset((None,))
_PACK = struct.Struct(f"{LENGTH}q").pack
_OFFSET = 4
_NAMES_MOST = 2**19
"""How many characters of repeated names are kept for a table."""


def record_batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """The rows of `ingest.decode.source` as one batch of SCHEMA. Raises what Arrow does not
    take."""
    if not rows:
        return pa.RecordBatch.from_pylist([], schema=SCHEMA)
    columns = zip(_BUILD, zip(*rows, strict=True), SCHEMA.types, strict=True)
    arrays = [build(values, type_) for build, values, type_ in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class Repeated(NamedTuple):
    """The value of a column that is the same in every row."""

    value: Any


class RowTexts(NamedTuple):
    """A column of maps that have the same names, each given by its texts; None = no map."""

    names: tuple[str, ...]
    rows: Sequence[Texts | None]


def table_batch(columns: Mapping[str, Any], count: int) -> pa.RecordBatch:
    """Silver rows given by column: as a list of values, an array, Repeated or RowTexts; a column
    that is not given is null. Raises what Arrow raises for values that it does not take."""
    arrays = []
    for field, build in zip(SCHEMA, _BUILD, strict=True):
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(count, field.type))
        elif values.__class__ is Repeated:
            found = values.value
            if found is None:
                arrays.append(pa.nulls(count, field.type))
            else:
                arrays.append(pa.repeat(pa.scalar(found, field.type), count))
        elif values.__class__ is RowTexts:
            arrays.append(_maps_of(values, field.type))
        elif isinstance(values, pa.Array):
            arrays.append(values)
        else:
            arrays.append(build(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _maps_of(maps: RowTexts, type_: pa.DataType) -> pa.Array:
    names, rows = maps
    sent = [row for row in rows if row is not None]
    if not sent:
        return pa.nulls(len(rows), type_)
    items = pa.array(list(chain.from_iterable(sent)), pa.string())
    return pa.MapArray.from_arrays(_offsets(rows), _names_of(names, len(sent)), items)


def _names_of(names: tuple[str, ...], count: int) -> pa.Array:
    """The names of this many rows, end to end. The names of one part are mostly the beginning of
    what was made for the last one."""
    most = 1 << max(count - 1, 1).bit_length()
    if most * (sum(map(len, names)) + _OFFSET * len(names)) > _NAMES_MOST:
        return _names([names] * count)
    return _repeated_names(names, most).slice(0, count * len(names))


@lru_cache(maxsize=64)
def _repeated_names(names: tuple[str, ...], count: int) -> pa.Array:
    return _names([names] * count)


def _plain(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    first = values[0]
    if (first is None or first.__class__ in _SCALARS) and values.count(first) == len(values):
        if first is None:
            return pa.nulls(len(values), type_)
        return pa.repeat(pa.scalar(first, type_), len(values))
    return pa.array(values, type_)


def _maps(values: Sequence[dict[str, str | None] | None], type_: pa.DataType) -> pa.Array:
    sent = [row for row in values if row is not None]
    if not sent:
        return pa.nulls(len(values), type_)
    items = list(chain.from_iterable([row.values() for row in sent]))
    return pa.MapArray.from_arrays(
        _offsets(values), _names(map(tuple, sent)), pa.array(items, pa.string())
    )


def _texts(values: Sequence[Sequence[str] | None], type_: pa.DataType) -> pa.Array:
    first = values[0]
    if values.count(first) == len(values):
        return pa.repeat(pa.scalar(first, type_), len(values))
    sent = [tuple(row) for row in values if row is not None]
    return pa.ListArray.from_arrays(_offsets(values), _names(sent))


def _names(rows: Any) -> pa.Array:
    """The names of all rows, end to end; equal rows are converted once."""
    indexes: dict[tuple[str, ...], bytes] = {}
    names: list[str] = []
    found = []
    for row in rows:
        index = indexes.get(row)
        if index is None:
            index = array("i", range(len(names), len(names) + len(row))).tobytes()
            indexes[row] = index
            names += row
        found.append(index)
    buffer = pa.py_buffer(b"".join(found))
    taken = pa.Array.from_buffers(pa.int32(), buffer.size // 4, [None, buffer])
    return pa.array(names, pa.string()).take(taken)


def _positions(values: Sequence[Pos | None], type_: pa.DataType) -> pa.Array:
    buffer = pa.py_buffer(b"".join([_PACK(*pos) for pos in values if pos is not None]))
    numbers = pa.Array.from_buffers(pa.int64(), buffer.size // 8, [None, buffer])
    return pa.ListArray.from_arrays(_offsets(values), numbers)


def positions(columns: Sequence[Sequence[int] | int], count: int) -> tuple[pa.Array, pa.Array]:
    """`pos` and `s1` of this many rows, from the LENGTH numbers of `pos`: for each number the
    values of all rows, or one value for all. Raises OverflowError, and what Arrow raises."""
    flat = array("q", bytes(8 * LENGTH * count))
    for place, values in enumerate(columns):
        if isinstance(values, int):
            flat[place::LENGTH] = array("q", (values,)) * count
        else:
            flat[place::LENGTH] = array("q", values)
    offsets = array("i", range(0, LENGTH * count + 1, LENGTH))
    pos = pa.ListArray.from_arrays(_integers(offsets, pa.int32()), _integers(flat, pa.int64()))
    return pos, _integers(flat[LENGTH + S1 :: LENGTH], pa.int64())


def _integers(numbers: array[int], type_: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(type_, len(numbers), [None, pa.py_buffer(numbers)])


def _structs(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if _NONE.issuperset(values):
        return pa.nulls(len(values), type_)
    return pa.array([row and [column._asdict() for column in row] for row in values], type_)


def _offsets(values: Sequence[Any]) -> pa.Array:
    """List offsets; a null offset makes the row null."""
    offsets: list[int | None] = []
    end = 0
    for row in values:
        if row is None:
            offsets.append(None)
        else:
            offsets.append(end)
            end += len(row)
    offsets.append(end)
    return pa.array(offsets, pa.int32())


_Build = Callable[[Any, pa.DataType], pa.Array]
_BUILDERS: dict[str, _Build] = {
    "map<string,string>": _maps,
    "array<string>": _texts,
    "array<bigint>": _positions,
    "array<struct<name:string,source_type:string,type:string>>": _structs,
}
_BUILD: tuple[_Build, ...] = tuple(_BUILDERS.get(column.type, _plain) for column in DECODED)
