"""The message key of a Debezium row change: the columns that name the row, and their values."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

import msgspec

from ingest.errors import DecodeError
from ingest.events import Row
from ingest.formats.debezium.columns import Columns
from ingest.formats.debezium.envelope import wraps_payload
from ingest.formats.debezium.schema import Schemas
from ingest.formats.debezium.unavailable import without_cells
from ingest.values import jsontext
from ingest.wire.contract import TableName

WriteTexts = Callable[[dict[str, Any], bytes, Columns, list[str], list[str]], Row]
"""Image, its raw text, columns, missing, warnings -> the row as canonical text (`Rows.texts`)."""


class Keys(Protocol):
    """How the keys of one source's messages are read. Both methods return None for a key that is
    none."""

    def names(self, raw: bytes | None, *, needed: bool) -> tuple[str, ...] | None:
        """The columns of the key; `needed`: nothing else names them."""

    def row(self, raw: bytes | None, columns: Columns, names: TableName) -> Row | None:
        """The columns and values of the key; `columns`: those of the row, of table `names`."""


class _Key(msgspec.Struct, gc=False):
    schema: msgspec.Raw = msgspec.Raw()
    payload: msgspec.Raw = msgspec.Raw()


_KEY = msgspec.json.Decoder(_Key)
_TABLE = "TableId"
_ROUTED = {"__dbz__physicalTableIdentifier", "__dbz__sourceIdentifier"}
_UNREADABLE = (DecodeError, *jsontext.UNREADABLE)


class JsonKeys:
    """Keys that are JSON objects of columns, with or without Connect's schema."""

    def __init__(self, schemas: Schemas, texts: WriteTexts) -> None:
        self._schemas = schemas
        self._texts = texts

    def names(self, raw: bytes | None, *, needed: bool) -> tuple[str, ...] | None:
        """The columns of the key; None if it is no object of columns."""
        if not raw:
            return None
        try:
            key = _KEY.decode(raw)
            if key.payload and key.schema:
                block = self._schemas.block(bytes(key.schema))
                if block.fields:
                    return tuple(field.field for field in block.fields if field.field) or None
            return tuple(jsontext.members(_columns(key, raw))) or None
        except _UNREADABLE:
            # not readable: that is reported later, if nothing else names the key
            return None

    def row(self, raw: bytes | None, columns: Columns, names: TableName) -> Row | None:
        """The key's columns and values. Raises bad_value if a value cannot be read."""
        if not raw:
            return None
        try:
            key = _KEY.decode(raw)
            if key.payload and key.schema:
                block = self._schemas.block(bytes(key.schema))
                if block.fields:
                    columns = self._schemas.columns(
                        block, block.fields, names, family=columns.family
                    )
            raw = _columns(key, raw)
            image = jsontext.image(raw, [], marked=True)
            if (cells := without_cells(image, raw)) is not None:
                raw = cells[0]
                image = jsontext.image(raw, [], marked=True)
        except _UNREADABLE:
            return None
        return self._texts(image, raw, columns, [], []) if image else None


def without_table(
    key: tuple[str, ...] | None, row: Collection[str] | None, *, flink: bool
) -> tuple[str, ...] | None:
    """The key's columns without the table's name. Debezium's routing of topics puts it behind them.
    Flink CDC (`flink`: no connector is named) puts it before them as `TableId`; it always sends
    rows, and none of them has such a column."""
    if key is None:
        return key
    if flink and key[0] == _TABLE and row is not None and _TABLE not in row:
        return key[1:] or None
    if _ROUTED.isdisjoint(key):
        return key
    return tuple(name for name in key if name not in _ROUTED or name in (row or ())) or None


def of_columns(columns: Collection[str], key: Row | None) -> Row | None:
    """The values of a key without the table's name, which `without_table` took out of its
    columns."""
    if key is None or len(key) == len(columns):
        return key
    return {name: text for name, text in key.items() if name in columns or name not in _ROUTED}


def _columns(key: _Key, raw: bytes) -> bytes:
    """The object of columns in a key: its payload, which stands beside a schema, beside the number
    of one (Apicurio's registry), or alone."""
    payload = bytes(key.payload)
    if payload and (key.schema or (payload[:1] == b"{" and wraps_payload(jsontext.members(raw)))):
        return payload
    return raw


def is_wrapped(raw: bytes | None) -> bool:
    """Whether a key is a payload with the number of its schema, as Apicurio's registry writes
    it."""
    if not raw:
        return False
    try:
        return wraps_payload(jsontext.members(raw))
    except _UNREADABLE:
        return False


MakeKeys = Callable[[Schemas, WriteTexts], Keys]
"""Makes the Keys of one source."""
