"""Silver rows as Arrow: columns of maps and arrays built from flat lists, which is what is fast."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from ingest.events import SILVER

_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
    "array<struct<name:string,source_type:string,type:string>>": pa.list_(
        pa.struct([("name", pa.string()), ("source_type", pa.string()), ("type", pa.string())])
    ),
}
DECODED = tuple(column for column in SILVER if column.name != "batch")
SCHEMA = pa.schema([(column.name, _TYPES[column.type]) for column in DECODED])


def record_batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """The rows of `ingest.decode` as one batch of SCHEMA."""
    if not rows:
        return pa.RecordBatch.from_pylist([], schema=SCHEMA)
    arrays = [
        _array(values, field.type) for values, field in zip(zip(*rows, strict=True), SCHEMA)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _array(values: tuple[Any, ...], type_: pa.DataType) -> pa.Array:
    first = values[0]
    if values.count(first) == len(values):
        if first is None:
            return pa.nulls(len(values), type_)
        if first.__class__ is str:
            return pa.repeat(pa.scalar(first, type_), len(values))
    if pa.types.is_map(type_):
        keys = list(chain.from_iterable(filter(None, values)))
        items = list(chain.from_iterable([row.values() for row in values if row]))
        return pa.MapArray.from_arrays(
            _offsets(values), pa.array(keys, pa.string()), pa.array(items, pa.string())
        )
    if pa.types.is_list(type_) and not pa.types.is_struct(type_.value_type):
        flat = list(chain.from_iterable(filter(None, values)))
        return pa.ListArray.from_arrays(_offsets(values), pa.array(flat, type_.value_type))
    if pa.types.is_list(type_):
        return pa.array(
            [row and [column._asdict() for column in row] for row in values], type_
        )
    return pa.array(values, type_)


def _offsets(values: tuple[Any, ...]) -> pa.Array:
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
