"""From the declared types of a table's columns to what each column is and how its values become
text.

This is shared by the formats that send values as text or plain JSON and name SQL types (Canal,
CloudCanal, OMS, and flattened or schemaless rows with types from the YAML). A source's own
`columns:` come first (semantics.md, 22).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import ColumnType, Row, Types
from ingest.memo import Memo
from ingest.names import declared_for
from ingest.values import canonical
from ingest.values.jsontext import nested
from ingest.values.source_types import DECIMALS, SourceType, parse_type, spark_type, types_of
from ingest.wire.contract import FormatOptions, TableName
from ingest.wire.kept_values import CIVIL_TEXT, DATE_TEXT, DECIMAL_TEXT, JSON_TEXT, keeps

Convert = Callable[[Any, list[str]], str | None]
"""One value other than null, as JSON gave it, -> canonical text; may add warnings."""

T = TypeVar("T")


class Columns(NamedTuple):
    """What is known of a table's columns. `types`: None if nothing is known; `names`: the columns
    with a type."""

    types: Types | None
    converts: Mapping[str, Convert]
    names: frozenset[str]


class ValueEncoding(NamedTuple):
    """How a format writes the values of SQL types as text.

    `family`: whose types they are (`spark_type`). `zone`: that of instants without one. `blob`,
    `bits`: how bytes and bits are written. `ordinals`: ENUM and SET come as numbers. `fill_binary`:
    the zeros at the end of a BINARY(n), which the binlog leaves out, are restored. `json_parts`: a
    JSON value may come as the call that changes a part of it.
    """

    family: str = "mysql"
    zone: str | None = None
    blob: Literal["base64", "latin1", "hex", "byte_list"] = "base64"
    bits: Literal["integer", "base64"] = "integer"
    ordinals: bool = False
    fill_binary: bool = False
    json_parts: bool = False


class TableTypes:
    """Remembers the Columns of each table and type block, since building them is expensive."""

    def __init__(
        self,
        options: FormatOptions,
        *,
        convert: Callable[[str], Convert | None],
        spark: Callable[[str], str],
    ) -> None:
        self._options = options
        self._convert = convert
        self._spark = spark
        self._memo: Memo[Hashable, Columns] = Memo(most=10_000)

    def of(
        self,
        names: TableName,
        key: Hashable,
        sent: Callable[[], Iterable[tuple[str, str]]],
    ) -> Columns:
        """The columns of table `names` (db, schema, table) whose message declares `sent()`.

        `key` stands for the sent types: equal keys must mean equal types.
        """
        found = self._memo.get((names, key))
        if found is None:
            found = self._memo[names, key] = self._build(names, dict(sent()))
        return found

    def _build(self, names: TableName, types: dict[str, str]) -> Columns:
        types.update(
            in_sent_names(
                declared_for(self._options.columns, self._options.completed(names)), types
            )
        )
        columns = tuple(ColumnType(name, text, self._spark(text)) for name, text in types.items())
        converts = {name: self._convert(text) for name, text in types.items()}
        known = {name: convert for name, convert in converts.items() if convert is not None}
        return Columns(
            types_of(columns) if columns else None,
            in_any_case(known),
            frozenset(in_any_case(types)),
        )


def in_sent_names(declared: Mapping[str, str], sent: Iterable[str]) -> dict[str, str]:
    """What the YAML declares, by the names that the message uses, which may differ in case
    (semantics.md, 25)."""
    sent_names = {name.lower(): name for name in sent}
    return {sent_names.get(name.lower(), name): text for name, text in declared.items()}


def in_any_case(known: Mapping[str, T]) -> dict[str, T]:
    """`known` by its names, and also by them in lower and in upper case unless those are names of
    others."""
    found = dict(known)
    for name, what in known.items():
        found.setdefault(name.lower(), what)
        found.setdefault(name.upper(), what)
    return found


def texts(
    image: Mapping[str, Any], columns: Columns, raw: bytes | Any, *, warnings: list[str]
) -> Row:
    """A row image as canonical text; warns `untyped` if a column has no type."""
    converts = columns.converts
    row: Row = {}
    for name, value in image.items():
        kind = value.__class__
        if value is None:
            row[name] = None
        elif name in converts and kind is not dict and kind is not list:
            row[name] = converts[name](value, warnings)
        elif kind is str:
            row[name] = value
        else:
            row[name] = plain(value) if kind is int or kind is bool else nested(raw, name)
    if not columns.names.issuperset(image):
        warnings.append(Code.UNTYPED.value)
    return row


def plain(value: Any) -> str:
    """Canonical text of a JSON scalar without a type."""
    if value.__class__ is bool:
        return "true" if value else "false"
    return str(value)


def sql_spark_type(encoding: ValueEncoding) -> Callable[[str], str]:
    """`spark_type` for the family of `encoding`."""
    return lambda source_type: spark_type(source_type, encoding.family)


def sql_converter(encoding: ValueEncoding) -> Callable[[str], Convert | None]:
    """SQL type -> converter of its values; None if the text stays as it was sent."""

    def convert(source_type: str) -> Convert | None:
        type_ = parse_type(source_type)
        make = _CONVERTERS.get(spark_type(source_type, encoding.family).split("(")[0])
        names = _BY_NAME if encoding.family in ("mysql", "oracle", "db2") else _EVERYWHERE
        make = names.get(type_.name, make)
        if encoding.family == "oracle" and type_.name in _FLOATS_OF_ORACLE:
            make = _decimal
        return make(type_, encoding) if make is not None else None

    return convert


def _decimal(type_: SourceType, encoding: ValueEncoding) -> Convert | None:
    if type_.name == "bit":
        return _bit(type_, encoding)
    return _decimal_text


def _decimal_text(value: Any, warnings: list[str]) -> str:
    return canonical.decimal_text(value if value.__class__ is str else plain(value))


keeps(_decimal_text, integers=True, texts=DECIMAL_TEXT)


def _boolean(type_: SourceType, encoding: ValueEncoding) -> Convert | None:
    if type_.name == "bit":
        return _bit(type_, encoding)
    return lambda value, warnings: _TRUTH.get(plain(value).lower(), plain(value))


_TRUTH = {"1": "true", "0": "false", "t": "true", "f": "false", "true": "true", "false": "false"}


def _bit(type_: SourceType, encoding: ValueEncoding) -> Convert:
    single = (type_.numbers or (1,))[0] == 1

    def convert(value: Any, warnings: list[str]) -> str:
        text = plain(value)
        if encoding.bits == "base64" and value.__class__ is str and not text.isdigit():
            data = canonical.bytes_of(text)
            if data is None:
                warnings.append(Code.BAD_BASE64.value)
                return text
            text = canonical.bits_in(data, None, "big")
        return _TRUTH.get(text.lower(), text) if single else text

    return convert


def _binary(type_: SourceType, encoding: ValueEncoding) -> Convert | None:
    numbers = type_.numbers
    if encoding.fill_binary and type_.name == "binary" and numbers:
        if encoding.blob == "latin1":
            return _filled(numbers[0])
        if encoding.blob == "base64":
            return _filled_base64(numbers[0])
    return _BYTES[encoding.blob]


def _base64(value: Any, warnings: list[str]) -> str:
    if canonical.bytes_of(plain(value)) is None:
        warnings.append(Code.BAD_BASE64.value)
    return plain(value)


def _latin1(value: Any, warnings: list[str]) -> str:
    text = plain(value)
    try:
        return canonical.base64_of(text.encode("latin-1"))
    except UnicodeEncodeError:
        warnings.append(Code.BAD_BYTES.value)
        return canonical.base64_of(text.encode())


def _hexadecimal(value: Any, warnings: list[str]) -> str:
    """Bytes as hexadecimal digits, with or without a leading `0x`."""
    text = plain(value)
    return _bytes_or_text(text, text[2:] if text[:2] in ("0x", "0X") else text, warnings)


def _byte_list(value: Any, warnings: list[str]) -> str:
    """Bytes as Java shows an array of them, `[1, -128]`."""
    text = plain(value)
    if not _LIST.fullmatch(text):
        return _bytes_or_text(text, None, warnings)
    numbers = [int(number) for number in text[1:-1].split(",") if number]
    fit = all(-128 <= number < 256 for number in numbers)
    return _bytes_or_text(text, bytes(n & 255 for n in numbers).hex() if fit else None, warnings)


_LIST = re.compile(r"\[(?:-?\d{1,3}(?:, ?-?\d{1,3})*+)?\]", re.ASCII)


def _bytes_or_text(text: str, digits: str | None, warnings: list[str]) -> str:
    """The base64 of hexadecimal digits; the text itself where they are none."""
    try:
        if digits is not None:
            return canonical.base64_of(bytes.fromhex(digits))
    except ValueError:
        pass
    warnings.append(Code.VALUE_NOT_OF_TYPE.value)
    return text


_BYTES: dict[str, Convert] = {
    "base64": _base64,
    "latin1": _latin1,
    "hex": _hexadecimal,
    "byte_list": _byte_list,
}


def _filled(length: int) -> Convert:
    """Bytes of a BINARY(n), which always has n of them."""

    def convert(value: Any, warnings: list[str]) -> str:
        return _latin1(plain(value).ljust(length, "\0"), warnings)

    return convert


def _filled_base64(length: int) -> Convert:
    """The same of base64."""

    def convert(value: Any, warnings: list[str]) -> str:
        text = _base64(value, warnings)
        data = canonical.bytes_of(text)
        if data is None or len(data) >= length:
            return text
        return canonical.base64_of(data.ljust(length, b"\0"))

    return convert


def _timestamp(type_: SourceType, encoding: ValueEncoding) -> Convert | None:
    zone = encoding.zone

    def convert(value: Any, warnings: list[str]) -> str:
        text = value if value.__class__ is str else plain(value)
        if text[4:5] != "-" and canonical.is_seconds(text):
            return canonical.seconds_text(text)
        return canonical.instant_text(text, zone, warnings)

    return convert


def _civil(type_: SourceType, encoding: ValueEncoding) -> Convert | None:
    return _civil_text


def _civil_text(value: Any, warnings: list[str]) -> str:
    return canonical.civil_text(value if value.__class__ is str else plain(value), warnings)


keeps(_civil_text, texts=CIVIL_TEXT)


def _date(type_: SourceType, encoding: ValueEncoding) -> Convert | None:
    return _date_text


def _date_text(value: Any, warnings: list[str]) -> str:
    return canonical.date_text(plain(value), warnings)


keeps(_date_text, texts=DATE_TEXT)


def _time(type_: SourceType, encoding: ValueEncoding) -> Convert | None:
    return lambda value, warnings: canonical.time_text(plain(value))


def _json(type_: SourceType, encoding: ValueEncoding) -> Convert | None:
    return _json_text if encoding.json_parts else None


def _json_text(value: Any, warnings: list[str]) -> str:
    """JSON as sent. Raises unsupported for a part of it that an update changed, which Alibaba Canal
    writes as the call that would make the change (`JsonDiffConversion`, e20e442)."""
    text = plain(value)
    if _JSON_PART.match(text):
        raise DecodeError(
            Code.UNSUPPORTED,
            f"expected a whole JSON value, got the part that changed, {text[:40]!r}: set MySQL's "
            "binlog_row_value_options to '', and read what came since from a snapshot",
        )
    return text


_JSON_PART = re.compile(r"JSON_(?:REPLACE|INSERT|ARRAY_INSERT|REMOVE)\(|@\d+\Z", re.ASCII)
keeps(_json_text, integers=True, texts=JSON_TEXT)


def _labels(type_: SourceType, encoding: ValueEncoding) -> Convert | None:
    members = type_.members
    if not encoding.ordinals:
        return None
    if not members:
        return _number_of_unknown
    if type_.name == "set":
        return lambda value, warnings: _set_label(plain(value), members, warnings)
    return lambda value, warnings: _enum_label(plain(value), members, warnings)


_MOST_ORDINAL = 20
"""The digits of the largest number of a SET with 64 labels; the number of an ENUM has fewer."""


def _number_of_unknown(value: Any, warnings: list[str]) -> str:
    text = plain(value)
    if text.isascii() and text.isdigit():
        warnings.append(Code.ENUM_NUMBER.value)
    return text


def _enum_label(text: str, members: tuple[str, ...], warnings: list[str]) -> str:
    if not (text.isascii() and text.isdigit()):
        return text
    if len(text) > _MOST_ORDINAL or int(text) > len(members):
        warnings.append(Code.INVALID_ENUM.value)
        return text
    return members[int(text) - 1] if int(text) else ""


def _set_label(text: str, members: tuple[str, ...], warnings: list[str]) -> str:
    if not (text.isascii() and text.isdigit()):
        return text
    bits = int(text) if len(text) <= _MOST_ORDINAL else -1
    if bits < 0 or bits >> len(members):
        warnings.append(Code.INVALID_ENUM.value)
        return text
    return ",".join(label for index, label in enumerate(members) if bits >> index & 1)


def _bytes_only(type_: SourceType, encoding: ValueEncoding) -> Convert | None:
    return None if encoding.blob == "base64" else _BYTES[encoding.blob]


_GEOMETRY = tuple(
    """
    geometry point linestring polygon multipoint multilinestring multipolygon geometrycollection
    geomcollection
    """.split()
)
_CONVERTERS: dict[str, Callable[[SourceType, ValueEncoding], Convert | None]] = {
    "decimal": _decimal,
    "boolean": _boolean,
    "binary": _binary,
    "timestamp": _timestamp,
    "timestamp_ntz": _civil,
    "date": _date,
}
_EVERYWHERE: dict[str, Callable[[SourceType, ValueEncoding], Convert | None]] = {
    "time": _time,
    **dict.fromkeys((*DECIMALS, "decfloat"), _decimal),
}
_FLOATS_OF_ORACLE = {"float", "real", "double precision"}
"""Other names of NUMBER there, of so many binary digits."""
_BY_NAME: dict[str, Callable[[SourceType, ValueEncoding], Convert | None]] = {
    **_EVERYWHERE,
    "json": _json,
    "enum": _labels,
    "set": _labels,
    **dict.fromkeys(_GEOMETRY, _bytes_only),
}
