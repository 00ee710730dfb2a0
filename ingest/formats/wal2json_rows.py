"""Rows of wal2json: columns with their types, and the identity of the row before.

A column of TOAST that an update left alone is not among its columns. Without REPLICA IDENTITY FULL
the row before is its key alone, and a deleted row is nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ingest import values
from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event, Row
from ingest.formats.columns import Convert, Texts, plain, sql_converter
from ingest.formats.format import FormatOptions
from ingest.formats.table_rows import TableRows
from ingest.types import bits_type, parse_type, spark_type

_POSTGRES = "postgres"
_DATES = ("date", "timestamp", "timestamp_ntz")
_WORDS = {"0": "false", "1": "true"}


class Column(msgspec.Struct, gc=False):
    """One column of version 2; `pk` has no values."""

    name: str
    type: str | None = None
    value: Any = None


class PrimaryKey(msgspec.Struct, gc=False):
    """`pk` of version 1."""

    pknames: tuple[str, ...]


class Change(NamedTuple):
    """The row after, the row before or its key, the primary key; None where not sent.

    An identity without columns is a row of NULLs alone: version 1 leaves them out.
    """

    columns: list[Column] | None
    identity: list[Column] | None
    primary_key: tuple[str, ...] | None


class Rows:
    """Gives changes their images."""

    def __init__(self, options: FormatOptions) -> None:
        texts = Texts(family=_POSTGRES, zone=options.time_zone)
        self._tables = TableRows(options, texts, convert=_converter(texts), spark=_spark_type)
        self._full = options.options["replica_identity"] == "full"

    def fill(self, event: Event, change: Change) -> None:
        """Raises no_image, bad_shape, bad_value."""
        warnings = event.warnings
        assert warnings is not None
        identity = self._row(event, change.identity, warnings)
        keys = change.primary_key
        if event.op == "delete":
            if identity is None and change.identity is not None:
                # nothing names the row, and the transaction's other changes are to stand
                warnings.append(Code.OLD_MISSING.value)
                return
            if identity is None:
                raise DecodeError(
                    Code.NO_IMAGE,
                    "expected the identity of a deleted row, got none; give the "
                    "table a primary key or REPLICA IDENTITY FULL",
                )
            if keys is None and not self._full:
                keys = tuple(identity)
            event.before, event.key_columns = identity, keys
            event.before_image = "full"
            if keys and set(keys) == identity.keys():
                # The types of a key are not those of a row.
                event.before_image, event.types = "key", None
            elif keys and not identity.keys() >= set(keys):
                # REPLICA IDENTITY USING INDEX: the columns of another key than the primary one.
                event.before_image = "partial"
                warnings.append(Code.PARTIAL_IMAGE.value)
            return
        after = self._row(event, change.columns, warnings)
        if after is None:
            raise DecodeError(Code.NO_IMAGE, f"expected columns of an {event.op}, got none")
        event.after, event.after_image = after, "full"
        if event.op == "update":
            if identity is None:
                warnings.append(Code.OLD_MISSING.value)
            else:
                keys = self._before(event, identity, after, keys, warnings)
        event.key_columns = keys

    def _before(
        self,
        event: Event,
        identity: Row,
        after: Row,
        keys: tuple[str, ...] | None,
        warnings: list[str],
    ) -> tuple[str, ...] | None:
        """Gives an update the row before; its key columns where they can be told."""
        event.before = identity
        lacking = [name for name in identity if name not in after]
        if lacking:
            event.unavailable = lacking
            event.after_image = "partial"
            warnings.append(Code.PARTIAL_IMAGE.value)
        whole = identity.keys() >= after.keys()
        if keys is None and not (self._full or whole):
            keys = tuple(identity)
        if keys is not None and set(keys) == identity.keys():
            event.before_image = "key"
        else:
            event.before_image = "full" if whole else "partial"
            if not whole:
                warnings.append(Code.PARTIAL_IMAGE.value)
        return keys

    def _row(self, event: Event, columns: list[Column] | None, warnings: list[str]) -> Row | None:
        if not columns:
            return None
        row: dict[str, Any] = {}
        types = []
        for column in columns:
            name, value = column.name, column.value
            if value.__class__ is dict or value.__class__ is list:
                raise DecodeError(
                    Code.BAD_SHAPE, f"expected one value in column {name}, got {value!r:.80}"
                )
            row[name] = value
            if column.type is not None:
                types.append((name, column.type))
        if len(row) < len(columns):
            warnings.append(Code.DUP_KEY.value)
        key = tuple(types)
        rows = self._tables.of(
            (event.db, event.schema, event.table), key=key, sent=lambda: dict(key)
        )
        rows.texts(row, b"", warnings)
        # Of an update those of the row after stand, which is read last.
        event.types = rows.types
        return row


def _converter(texts: Texts) -> Callable[[str], Convert | None]:
    """SQL type -> converter; bytea comes as hexadecimal digits, times as the DateStyle has them."""
    by_sql_type = sql_converter(texts)

    def convert(source_type: str) -> Convert | None:
        kind = _spark_type(source_type)
        if kind == "binary":
            return _bytes
        if _is_bits(source_type):
            return _truth if kind == "boolean" else _bits
        found = by_sql_type(source_type)
        return _dated(found) if found is not None and kind in _DATES else found

    return convert


def _is_bits(source_type: str) -> bool:
    """Whether a type is `bit(n)`; without n (include-typmod off) it may be of any length."""
    type_ = parse_type(source_type)
    return type_.name == "bit" and bool(type_.numbers)


def _spark_type(source_type: str) -> str:
    if _is_bits(source_type):
        return bits_type(parse_type(source_type))
    return spark_type(source_type, _POSTGRES)


def _bits(value: Any, warnings: list[str]) -> str:
    """The integer that zeros and ones spell, as other formats send it."""
    text = plain(value)
    if not text or text.strip("01"):
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
        return text
    return values.digits_of(int(text, 2))


def _truth(value: Any, warnings: list[str]) -> str:
    text = plain(value)
    if text not in _WORDS:
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
    return _WORDS.get(text, text)


def _dated(convert: Convert) -> Convert:
    def of(value: Any, warnings: list[str]) -> str | None:
        text = plain(value)
        if text[4:5] != "-":
            # `02-04-2013` of another DateStyle than ISO, `infinity`, a year beyond 9999.
            warnings.append(Code.VALUE_NOT_OF_TYPE.value)
            return text
        return convert(text, warnings)

    return of


def _bytes(value: Any, warnings: list[str]) -> str:
    text = plain(value)
    try:
        return values.base64_of(bytes.fromhex(text.removeprefix("\\x")))
    except ValueError:
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
        return text
