"""The rows of a DataFrame as plain Python values, exactly: through Arrow, which keeps time zones.

Spark's own `collect` turns instants into local times of the process, which can be ambiguous.

Keys go the other way, to Arrow, to be joined with.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest.fold.fold import Key

Plain = Callable[[Any], Any]
_TIME = re.compile(
    r"(?P<sign>-?)(?P<year>\d{4,})(?P<day>-\d\d-\d\d)"
    r"(?: (?P<clock>\d\d:\d\d:\d\d)(?P<fraction>\.\d+)?)?(?P<zone>Z?)"
)


def rows(frame: DataFrame) -> Iterator[list[Any]]:
    """The rows, each a list in the order of the frame's columns; maps are dicts."""
    table = frame.toArrow()
    converters = [_plain(field.type) for field in table.schema]
    for batch in table.to_batches():
        columns = [values(column) for column in batch.columns]
        for row in zip(*columns, strict=True):
            yield [
                value if plain is None or value is None else plain(value)
                for value, plain in zip(row, converters, strict=True)
            ]


Record = dict[str, Any]
"""A row by the names of its columns."""


def records(frame: DataFrame) -> list[Record]:
    """The rows as dicts."""
    return [dict(zip(frame.columns, row, strict=True)) for row in rows(frame)]


def values(column: pa.Array) -> list[Any]:
    """The values of a column. Times that Python's calendar does not have, before the year 1 or
    after 9999, are texts as ISO 8601 writes them: `+10000-01-01T00:00:00Z`."""
    try:
        return cast("list[Any]", column.to_pylist())
    except (OverflowError, ValueError):
        type_ = column.type
        if pa.types.is_timestamp(type_) and type_.tz is not None:
            column = column.cast(pa.timestamp(type_.unit, "UTC"))
        as_texts = column.cast(_as_text(type_)).to_pylist()
        return [_value(value, text, type_) for value, text in zip(column, as_texts, strict=True)]


def _value(value: pa.Scalar, text: Any, type_: pa.DataType) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return _written(text, type_)


def _written(value: Any, type_: pa.DataType) -> Any:
    """A value whose times are texts as Arrow writes them, with the times as ISO 8601 writes
    them."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        key, item = type_.key_type, type_.item_type
        return [(_written(name, key), _written(inner, item)) for name, inner in value]
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [_written(inner, type_.value_type) for inner in value]
    if pa.types.is_struct(type_):
        return {field.name: _written(value[field.name], field.type) for field in type_}
    found = _TIME.fullmatch(value) if pa.types.is_temporal(type_) else None
    if found is None:
        return value
    sign = "+" if len(found["year"]) > 4 and not found["sign"] else found["sign"]
    clock = f"T{found['clock']}" if found["clock"] else ""
    fraction = (found["fraction"] or "").rstrip("0").rstrip(".")
    return f"{sign}{found['year']}{found['day']}{clock}{fraction}{found['zone']}"


def _as_text(type_: pa.DataType) -> pa.DataType:
    """`type_` with its times as texts."""
    if pa.types.is_temporal(type_):
        return pa.string()
    if pa.types.is_map(type_):
        return pa.map_(_as_text(type_.key_type), _as_text(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_as_text(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _as_text(field.type)) for field in type_])
    return type_


def _plain(type_: pa.DataType) -> Plain | None:
    """What turns a value of `type_`, as Arrow gives it, into a plain one; None: nothing need be
    done."""
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


@contextmanager
def temporary_view(frame: DataFrame) -> Iterator[str]:
    """A name under which SQL finds a frame, until the end."""
    name = f"_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)
