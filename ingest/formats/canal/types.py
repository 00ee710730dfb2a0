"""Column types as Canal and CloudCanal name them: a map of type names beside a map of JDBC codes.

The names (`mysqlType`, `dbValType`) are the types. The codes (`sqlType`, `jdbcType`) only help to
read a value whose column has no type name. They belong to the value, not to the column (Canal
promotes the code of a large unsigned value), so no column type is derived from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.formats.oms.values import LOBS
from ingest.names import declared_for
from ingest.values import canonical
from ingest.values.jsontext import parse_part
from ingest.values.source_types import parse_type
from ingest.wire.contract import FormatOptions, TableName
from ingest.wire.declared import Columns, Convert, TableTypes, plain

_NAMES = msgspec.json.Decoder(dict[str, str | None])
_CODES = msgspec.json.Decoder(dict[str, int | str | None], float_hook=str)
_NAME_OF_CODE = {
    2: "numeric",
    3: "decimal",
    91: "date",
    92: "time",
    94: "datetime",
    2004: "blob",
    2014: "timestamp with time zone",
}
"""JDBC codes with one meaning only; 93 is DATETIME and TIMESTAMP, -2 to -4 are text, SET and
blob."""

_ANY_BIT = dict.fromkeys(("bit", "BIT"), "bit(64)")
"""TiCDC and Tencent's DTS send types without their lengths, so BIT alone is any BIT(n)."""


class TableColumns(NamedTuple):
    """What one message says of its table.

    `sent` are the columns that the message itself types: a row without one of them is partial.
    `lobs` are the large objects among them. `declared` are the columns and keys that the source's
    YAML has of the table, in one case. `coded`: of some column the JDBC code tells how its type is
    written.
    """

    columns: Columns
    sent: frozenset[str]
    lobs: frozenset[str]
    declared: frozenset[str]
    coded: bool


class NamedTypes:
    """Builds the columns of a table from its map of type names; the caller remembers them.

    `latin1`: bytes are written as one character each.
    """

    def __init__(
        self,
        options: FormatOptions,
        *,
        convert: Callable[[str], Convert | None],
        spark: Callable[[str], str],
        dialect: str,
        latin1: bool = False,
    ) -> None:
        self._latin1 = latin1
        self._convert = convert
        self._options = options
        meant = _ANY_BIT if dialect == "mysql" else {}
        self._tables = TableTypes(
            options,
            convert=lambda type_: convert(meant.get(type_, type_)),
            spark=lambda type_: spark(meant.get(type_, type_)),
        )

    def of(self, table: TableName, names: bytes, codes: bytes) -> TableColumns:
        """The columns of `table` by its type names; those without one are read by JDBC code."""
        # OceanBase's open-source Canal names no type if the value is NULL, so "" is no type.
        sent = {name: type_ for name, type_ in _object(_NAMES, names).items() if type_}
        columns = self._tables.of(table, names, sent.items)
        coded = {name for name, type_ in sent.items() if self._latin1 and _SIZED_TEXT(type_)}
        if codes:
            by_code = _object(_CODES, codes)
            converts = {
                name: convert
                for name, code in by_code.items()
                if (convert := self._of_code(code)) is not None and name not in columns.names
            }
            as_bytes = {name: _utf8_of_latin1 for name in coded if by_code.get(name) == _BLOB}
            columns = columns._replace(converts={**converts, **columns.converts, **as_bytes})
        lobs = frozenset(name for name, type_ in sent.items() if parse_type(type_).name in LOBS)
        known = self._options.completed(table)
        declared = [*declared_for(self._options.columns, known)]
        declared += declared_for(self._options.keys, known)
        return TableColumns(
            columns,
            frozenset(sent),
            lobs,
            frozenset(name.lower() for name in declared),
            bool(coded),
        )

    def _of_code(self, code: Any) -> Convert | None:
        if code == 93:
            return _moment
        name = _NAME_OF_CODE.get(code) if code.__class__ is int else None
        return None if name is None else self._convert(name)


_BLOB = 2004
_SIZED_TEXT = re.compile(r"\s*(?:tiny|medium|long)?text\s*\(", re.IGNORECASE).match
"""TEXT(500), as a DDL may have it: Alibaba Canal takes it for a BLOB (`LogEventConvert.isText`)."""


def _utf8_of_latin1(value: Any, warnings: list[str]) -> str:
    """Text whose bytes were written as one character each."""
    text = plain(value)
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        warnings.append(Code.BAD_BYTES.value)
        return text


def _object(decoder: msgspec.json.Decoder[dict[str, Any]], text: bytes) -> dict[str, Any]:
    """A map of types; empty for null and for no text. Raises bad_shape."""
    if not text or text == b"null":
        return {}
    return parse_part(text, decoder.decode, expected="an object, column to type")


def _moment(value: Any, warnings: list[str]) -> str:
    """A value of JDBC code 93: seconds are an instant, anything else a date-time as sent."""
    text = plain(value)
    if canonical.is_seconds(text):
        return canonical.seconds_text(text)
    return canonical.civil_text(text, warnings)
