"""The rows of a DataFrame as plain Python values, exact: through Arrow, which keeps zones.

Spark's own `collect` turns instants into local times of the process, which can be ambiguous.

Keys go the other way, to Arrow, to be joined with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest.fold.fold import Key

Plain = Callable[[Any], Any]


def rows(frame: DataFrame) -> Iterator[list[Any]]:
    """The rows, each a list in the order of the frame's columns; maps are dicts."""
    table = frame.toArrow()
    converters = [_plain(field.type) for field in table.schema]
    for batch in table.to_batches():
        columns = [column.to_pylist() for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield [
                value if plain is None or value is None else plain(value)
                for value, plain in zip(row, converters, strict=True)
            ]


def records(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows as dicts."""
    return [dict(zip(frame.columns, row, strict=True)) for row in rows(frame)]


def _plain(type_: pa.DataType) -> Plain | None:
    """What turns a value of `type_` as Arrow gives it into a plain one; None: nothing to do."""
    if pa.types.is_map(type_):
        key, item = _plain(type_.key_type), _plain(type_.item_type)
        return lambda pairs: {_apply(key, name): _apply(item, value) for name, value in pairs}
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        inner = _plain(type_.value_type)
        return None if inner is None else lambda items: [_apply(inner, item) for item in items]
    if pa.types.is_struct(type_):
        fields = {field.name: _plain(field.type) for field in type_}
        if not any(fields.values()):
            return None
        return lambda record: {name: _apply(fields[name], record[name]) for name in record}
    return None


def _apply(plain: Plain | None, value: Any) -> Any:
    return value if plain is None or value is None else plain(value)


def array_of(keys: Iterable[Key]) -> pa.Array:
    """Keys as an array of lists of text."""
    return pa.array([list(key) for key in keys], pa.list_(pa.string()))
