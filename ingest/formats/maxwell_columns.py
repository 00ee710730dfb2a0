"""The columns of a table as Maxwell tells of them: values, keys, and the definition with a DDL."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import ColumnType, Row
from ingest.formats.typed_rows import TypedRows
from ingest.jsontext import excerpt, nested

_TIMES = ("time", "datetime", "timestamp")


class _Column(msgspec.Struct, gc=False, rename="kebab"):
    """One column of `def`; `signed` is there for integers only."""

    name: str
    type: str
    signed: bool = True
    column_length: int | None = None
    enum_values: list[str] | None = None


class _Definition(msgspec.Struct, gc=False, rename="kebab"):
    columns: list[_Column] = []
    primary_key: tuple[str, ...] | None = None


_DEFINITION = msgspec.json.Decoder(_Definition | None)
_KEY = msgspec.json.Decoder(dict[str, Any] | list[Any], float_hook=str)


def settle(row: Row, raw: msgspec.Raw, rows: TypedRows) -> None:
    """Puts declared JSON and SET columns right, in place.

    A JSON column's value stands in the message as JSON itself, a SET as an array of its labels.
    """
    for name in rows.of_type("json"):
        if row.get(name) is not None:
            row[name] = nested(raw, name)
    for name in rows.of_type("set"):
        text = row.get(name)
        if text is not None and text.startswith("["):
            try:
                row[name] = ",".join(json.loads(text))
            except TypeError:
                raise DecodeError(
                    Code.BAD_VALUE, f"expected labels of the SET {name}, got {text[:80]!r}"
                ) from None


def key_of_message(key: bytes | None) -> tuple[str, ...] | None:
    """The key columns that Maxwell's Kafka key names, in either of its two forms.

    `{"database": …, "table": …, "pk.id": 1}` or `["db", "table", [{"id": 1}]]`; None for anything
    else, a table without key among it.
    """
    if not key:
        return None
    try:
        found = _KEY.decode(key)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if isinstance(found, dict):
        return tuple(name[3:] for name in found if name.startswith("pk.") and name[3:]) or None
    if len(found) != 3 or not isinstance(found[2], list):
        return None
    return tuple(name for part in found[2] if isinstance(part, dict) for name in part) or None


def table_columns(
    raw: msgspec.Raw, spark: Callable[[str], str]
) -> tuple[tuple[ColumnType, ...] | None, tuple[str, ...] | None]:
    """Columns and key of `def`, the table after a DDL; None where it says nothing.

    Raises bad_shape.
    """
    text = bytes(raw)
    if not text:
        return None, None
    try:
        table = _DEFINITION.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(
            Code.BAD_SHAPE, f"expected def with columns, {error}; got {excerpt(text)}"
        ) from None
    if table is None:
        return None, None
    typed = ((column.name, _type(column)) for column in table.columns)
    columns = tuple(ColumnType(name, type_, spark(type_)) for name, type_ in typed)
    return columns or None, table.primary_key or None


def _type(column: _Column) -> str:
    """The column's type as MySQL writes it; `def` has no precision of a DECIMAL."""
    if column.enum_values is not None:
        labels = ",".join("'" + label.replace("'", "''") + "'" for label in column.enum_values)
        return f"{column.type}({labels})"
    if column.column_length is not None and column.type in _TIMES:
        return f"{column.type}({column.column_length})"
    return column.type if column.signed else f"{column.type} unsigned"
