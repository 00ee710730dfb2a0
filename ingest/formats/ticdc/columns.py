"""Columns of TiCDC's Open protocol: a type code, flags and a value each.

The codes leave some things out: precision and scale of a DECIMAL, the labels of ENUM and SET, whose
values come as numbers, and lengths. The source's YAML can name such types.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Row, Types
from ingest.values import canonical
from ingest.values.source_types import spark_type
from ingest.wire.contract import FormatOptions, TableName
from ingest.wire.declared import Convert, ValueEncoding, sql_converter
from ingest.wire.typed_rows import TableRows

_BINARY, _PRIMARY, _UNSIGNED = 0x01, 0x08, 0x80
_INTEGERS = {1: "tinyint", 2: "smallint", 3: "int", 8: "bigint", 9: "mediumint"}
_OTHERS = {
    **{4: "float", 5: "double", 7: "timestamp", 10: "date", 11: "time", 12: "datetime"},
    **{13: "year", 14: "date", 16: "bit", 245: "json", 246: "decimal", 247: "enum", 248: "set"},
    **{225: "vector", 255: "geometry"},
}
_LARGE = {249: "tiny", 250: "medium", 251: "long", 252: ""}
_STRINGS = {15: ("varchar", "varbinary"), 253: ("varchar", "varbinary"), 254: ("char", "binary")}
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-7]{3})|(.))", re.DOTALL
)
_SHORT = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, "'": 39, '"': 34}


class Column(msgspec.Struct, gc=False):
    """Type code, the mark of a handle column, flags, value; older versions of TiCDC send no
    flags."""

    t: int
    h: bool = False
    f: int = 0
    v: Any = msgspec.UNSET


class Read(NamedTuple):
    """What a row's columns say: its key columns and its types."""

    keys: tuple[str, ...] | None
    types: Types | None


class OpenRows:
    """Reads rows; remembers what each table's type codes and flags mean."""

    def __init__(self, options: FormatOptions) -> None:
        encoding = ValueEncoding(zone=options.time_zone, ordinals=True)
        by_sql_type = sql_converter(encoding)

        def convert(source_type: str) -> Convert | None:
            # Nothing says that a BIT without a length is a flag.
            return None if source_type == "bit" else by_sql_type(source_type)

        self._tables = TableRows(options, encoding, convert=convert, spark=_spark)

    def read(
        self, table: TableName, columns: dict[str, Column], warnings: list[str]
    ) -> tuple[Row, Read]:
        """A row's values as canonical text. Raises bad_shape, bad_value."""
        row: dict[str, Any] = {}
        kinds = []
        keys = []
        for name, column in columns.items():
            code, flags, value = column.t, column.f, column.v
            kinds.append((name, code, flags))
            if flags & _PRIMARY:
                keys.append(name)
            kind = value.__class__
            if kind is dict or kind is list or value is msgspec.UNSET:
                got = "none" if value is msgspec.UNSET else f"{value!r:.80}"
                raise DecodeError(Code.BAD_SHAPE, f"expected one value in column {name}, got {got}")
            if kind is str and code in _ENCODED:
                value = _decoded(name, code, flags, text=value, warnings=warnings)
            row[name] = value
        if not keys:
            keys = [name for name, column in columns.items() if column.h]
        key = tuple(kinds)
        rows = self._tables.of(
            table, key=key, sent=lambda: {name: _sql_type(code, f) for name, code, f in key}
        )
        rows.texts(row, b"", warnings)
        return row, Read(tuple(keys) or None, rows.types)


_ENCODED = frozenset((*_LARGE, *_STRINGS))


def _sql_type(code: int, flags: int) -> str:
    if code in _INTEGERS:
        return _INTEGERS[code] + (" unsigned" if flags & _UNSIGNED else "")
    if code in _STRINGS:
        return _STRINGS[code][flags & _BINARY]
    if code in _LARGE:
        return _LARGE[code] + ("blob" if flags & _BINARY else "text")
    return _OTHERS.get(code, f"type {code}")


def _spark(source_type: str) -> str:
    return "decimal(20,0)" if source_type == "bit" else spark_type(source_type)


def _decoded(name: str, code: int, flags: int, *, text: str, warnings: list[str]) -> str:
    """A string; large texts come as base64, which is undone, and bytes become base64."""
    if code in _LARGE:
        if flags & _BINARY:
            return text
        data = canonical.bytes_of(text)
        try:
            return (data if data is not None else text.encode()).decode()
        except UnicodeDecodeError:
            warnings.append(Code.VALUE_NOT_OF_TYPE.value)
            return text
    if not flags & _BINARY:
        return text
    return canonical.base64_of(_unquoted(name, text))


def _unquoted(name: str, text: str) -> bytes:
    """Bytes as Go's strconv.Quote writes them, without the enclosing quotes. Raises bad_value."""
    if "\\" not in text:
        return text.encode("utf-8", "surrogatepass")
    parts = []
    at = 0
    for found in _ESCAPE.finditer(text):
        parts.append(text[at : found.start()].encode("utf-8", "surrogatepass"))
        at = found.end()
        byte, short, long, octal, letter = found.groups()
        number = int(byte or short or long or "0", 16)
        if octal:
            number = int(octal, 8)
        elif letter:
            if letter not in _SHORT:
                raise DecodeError(
                    Code.BAD_VALUE, f"expected an escape of Go in {name}, got {found[0]!r}"
                )
            number = _SHORT[letter]
        if short or long:
            if number > 0x10FFFF:
                raise DecodeError(Code.BAD_VALUE, f"expected a character in {name}, got {found[0]}")
            parts.append(chr(number).encode("utf-8", "surrogatepass"))
        else:
            parts.append(bytes((number & 0xFF,)))
    rest = text[at:]
    parts.append(rest.encode("utf-8", "surrogatepass"))
    return b"".join(parts)
