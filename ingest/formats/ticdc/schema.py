"""`tableSchema`: a table's columns and indexes, as TiCDC's Simple protocol sends them."""

from __future__ import annotations

import msgspec

from ingest.values.jsontext import parse_part
from ingest.values.source_types import with_labels

_TEXTS = ("char", "varchar", "binary", "varbinary", "bit")
_TIMES = ("datetime", "timestamp", "time")


class _Type(msgspec.Struct, gc=False):
    mysqlType: str
    length: int | None = None
    decimal: int | None = None
    elements: list[str] | None = None
    unsigned: bool = False


class _Column(msgspec.Struct, gc=False):
    name: str
    dataType: _Type


class _Index(msgspec.Struct, gc=False):
    columns: list[str] | None = None
    primary: bool = False
    unique: bool = False
    nullable: bool = False


class TableSchema(msgspec.Struct, gc=False):
    """A table as it is after the message's `commitTs`."""

    schema: str | None = None
    table: str | None = None
    columns: list[_Column] | None = None
    indexes: list[_Index] | None = None

    def key(self) -> tuple[str, ...] | None:
        """The columns of the primary key, else of a unique index without NULLs."""
        indexes = self.indexes or []
        for index in indexes:
            if index.primary and index.columns:
                return tuple(index.columns)
        for index in indexes:
            if index.unique and not index.nullable and index.columns:
                return tuple(index.columns)
        return None


_SCHEMA: msgspec.json.Decoder[TableSchema | None] = msgspec.json.Decoder(TableSchema | None)


def read_schema(raw: msgspec.Raw) -> TableSchema | None:
    """The table of `tableSchema` or `preTableSchema`; None if it is absent. Raises bad_shape."""
    text = bytes(raw)
    if not text:
        return None
    return parse_part(text, _SCHEMA.decode, expected="a table with columns")


def sql_types(schema: TableSchema) -> dict[str, str]:
    """Column -> type as MySQL writes it."""
    return {column.name: _sql_type(column.dataType) for column in schema.columns or ()}


def _sql_type(type_: _Type) -> str:
    name = type_.mysqlType.lower()
    text = name
    if type_.elements:
        text = with_labels(name, type_.elements)
    elif name == "decimal" and type_.length is not None:
        text = f"decimal({type_.length},{type_.decimal or 0})"
    elif name in _TIMES and type_.decimal:
        text = f"{name}({type_.decimal})"
    elif type_.length is not None and (name in _TEXTS or (name == "tinyint" and type_.length == 1)):
        text = f"{name}({type_.length})"
    return f"{text} unsigned" if type_.unsigned else text
