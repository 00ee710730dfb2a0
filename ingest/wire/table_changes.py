"""`tableChanges`: the columns and keys of a table, as CloudCanal sends them with a DDL.

Vendor: https://www.cloudcanalx.com/us/cc-doc/reference/kafka_msg_format_type. One object, or an
array of such objects as in Debezium; `position` counts from 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ingest.events import ColumnType
from ingest.values.jsontext import parse_part


class TableChange(NamedTuple):
    """A table after a DDL: its columns in order, and its key if it is named."""

    columns: tuple[ColumnType, ...] | None
    keys: tuple[str, ...] | None


class _Column(msgspec.Struct, gc=False):
    name: str
    position: int = 0
    typeExpression: str | None = None
    typeName: str | None = None


class _Table(msgspec.Struct, gc=False):
    columns: list[_Column] | None = None
    primaryKeyColumnNames: tuple[str, ...] | None = None


class _Change(msgspec.Struct, gc=False):
    table: _Table | None = None


_CHANGES: msgspec.json.Decoder[_Change | None] = msgspec.json.Decoder(_Change | None)
_CHANGE_LIST = msgspec.json.Decoder(list[_Change])
_NONE = TableChange(None, None)


def _first(text: bytes) -> _Change | None:
    if text.startswith(b"["):
        return next(iter(_CHANGE_LIST.decode(text)), None)
    return _CHANGES.decode(text)


def read(raw: msgspec.Raw, spark: Callable[[str], str]) -> TableChange:
    """The first table of `tableChanges`; `spark` gives a type's Spark type. Raises bad_shape."""
    text = bytes(raw)
    if not text:
        return _NONE
    first = parse_part(text, _first, expected="tableChanges with table.columns")
    table = first.table if first is not None else None
    if table is None:
        return _NONE
    columns = sorted(table.columns or (), key=lambda column: column.position)
    typed = ((column.name, column.typeExpression or column.typeName or "") for column in columns)
    return TableChange(
        tuple(ColumnType(name, type_, spark(type_)) for name, type_ in typed) or None,
        table.primaryKeyColumnNames or None,
    )
