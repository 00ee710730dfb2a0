"""How DMS writes values and tables: its JSON to canonical text, its column types to Spark's.

Vendor: https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Reference.DataTypes.html, and the
`control` records of the Kafka target with IncludeTableAlterOperations and IncludeControlDetails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ingest import values
from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import ColumnType
from ingest.formats.columns import Convert, Texts, plain, sql_converter
from ingest.formats.format import FormatOptions
from ingest.formats.table_rows import TableRows
from ingest.jsontext import excerpt
from ingest.types import decimal_type, spark_type

_SPARK = {
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), "int"),
    **dict.fromkeys(("int64", "uint32"), "bigint"),
    "uint64": "decimal(20,0)",
    **dict.fromkeys(("real4", "real8", "float", "double"), "double"),
    "boolean": "boolean",
    "date": "date",
    **dict.fromkeys(("bytes", "blob"), "binary"),
}
"""TIMESTAMP and DATETIME stay text: DMS has one type for times with and without zone."""


class _Column(msgspec.Struct, gc=False):
    type: str
    precision: int | None = None
    scale: int | None = None
    length: int | None = None


class _Table(msgspec.Struct, gc=False, rename="kebab"):
    columns: dict[str, _Column] | None = None
    primary_key: tuple[str, ...] | None = None


class _Control(msgspec.Struct, gc=False, rename="kebab"):
    table_def: _Table | None = None


_CONTROL = msgspec.json.Decoder(_Control | None)


def table_columns(
    raw: msgspec.Raw,
) -> tuple[tuple[ColumnType, ...] | None, tuple[str, ...] | None]:
    """Columns and key of a `control`, the table after a change; None where it says nothing.

    Raises bad_shape.
    """
    text = bytes(raw)
    if not text:
        return None, None
    try:
        control = _CONTROL.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(
            Code.BAD_SHAPE, f"expected control with table-def, {error}; got {excerpt(text)}"
        ) from None
    table = control.table_def if control is not None else None
    if table is None:
        return None, None
    typed = ((name, _type(column), column) for name, column in (table.columns or {}).items())
    columns = tuple(ColumnType(name, type_, _spark(column)) for name, type_, column in typed)
    return columns or None, table.primary_key or None


def _type(column: _Column) -> str:
    if column.precision is not None:
        return f"{column.type}({column.precision},{column.scale or 0})"
    return column.type if column.length is None else f"{column.type}({column.length})"


def _spark(column: _Column) -> str:
    name = column.type.lower()
    if name == "numeric":
        given = () if column.precision is None else (column.precision, column.scale or 0)
        return decimal_type(given)
    return _SPARK.get(name, "string")


def dms_rows(options: FormatOptions, dialect: str) -> TableRows:
    """How the rows of DMS's tables are read, by the types that the YAML names."""
    texts = Texts(family=dialect, zone=options.time_zone)
    return TableRows(options, texts, convert=_converter(texts))


def _converter(texts: Texts) -> Callable[[str], Convert | None]:
    """SQL type -> converter of DMS's values."""
    by_sql_type = sql_converter(texts)

    def convert(source_type: str) -> Convert | None:
        kind = spark_type(source_type, texts.family)
        if kind == "binary":
            return _bytes
        if kind == "timestamp_ntz":
            return _civil
        return _date if kind == "date" else by_sql_type(source_type)

    return convert


def _bytes(value: Any, warnings: list[str]) -> str:
    """Bytes in hexadecimal digits, `0x` before them unless NoHexPrefix is set."""
    text = plain(value)
    try:
        return values.base64_of(bytes.fromhex(text.removeprefix("0x")))
    except ValueError:
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
        return text


def _civil(value: Any, warnings: list[str]) -> str:
    """A zone-less date-time: DMS puts a Z behind every one, zone or no zone."""
    return values.civil_text(plain(value).removesuffix("Z"), warnings)


def _date(value: Any, warnings: list[str]) -> str:
    text = plain(value)
    return values.date_text(text[:10] if text[10:11] == "T" else text, warnings)
