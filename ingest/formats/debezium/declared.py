"""Values of Debezium rows by a declared source type, if no Connect schema tells the encoding.

The type comes from the source's `columns:` or from a propagated source type. The rest depends on
the connector's configuration, so the options have Debezium's own words for it (semantics.md, 55).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.formats.debezium import values as encoded
from ingest.formats.debezium.values import ReadArray, array_reader
from ingest.values.jsontext import Digits
from ingest.values.source_types import SourceType, bits_type, parse_type, spark_type
from ingest.wire.declared import Convert, ValueEncoding, plain, sql_converter
from ingest.wire.kept_values import CIVIL_TEXT, DATE_TEXT, DECIMAL_TEXT, INSTANT_TEXT, keeps

_CIVIL = {"datetime", "datetime2", "smalldatetime", "timestamp_ntz", "timestamp"}
_DEFAULT_DIGITS = {
    ("postgres", "timestamp"): 6,
    ("oracle", "timestamp"): 6,
    ("db2", "timestamp"): 6,
    ("postgres", "time"): 6,
    ("sqlserver", "datetime2"): 7,
    ("sqlserver", "time"): 7,
    ("mysql", "time"): 6,
}
_DECIMALS = {"decimal", "numeric", "number", "dec", "fixed"}
_SCALES = {("sqlserver", "money"): 4, ("sqlserver", "smallmoney"): 4, ("informix", "money"): 2}
"""The digits behind the point of decimals whose type does not name them."""
_WITHOUT_SCALE = {"money", "decfloat"}
"""Decimals whose scale only a schema tells: for PostgreSQL's money it is a setting."""
_COUNTED = {"date", "time", "timestamptz", "timestamp with time zone"}
_BITS = {"bit", "bit varying", "varbit"}
TIME_PRECISIONS = (
    "adaptive",
    "adaptive_time_microseconds",
    "connect",
    "isostring",
    "microseconds",
    "nanoseconds",
)
_FIXED_UNIT = {"connect": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


class Handling(NamedTuple):
    """The connector's settings that shape values: decimal, bigint.unsigned, binary, time modes.

    `zone`: the source's time zone, for instants that are written without one.
    """

    decimals: str = "auto"
    unsigned: str = "auto"
    binary: str = "bytes"
    times: str = "adaptive"
    zone: str | None = None


def declared_type(text: str, family: str) -> str:
    """The Spark type of a source (or Spark) type `text`, the one that Connect's schema leads to."""
    type_ = parse_type(text)
    return bits_type(type_) if type_.name in _BITS else spark_type(text, family)


def is_decimal(text: str) -> bool:
    """Whether a type is of decimals, whatever their precision."""
    return parse_type(text).name in _DECIMALS


def declared_converter(text: str, family: str, handling: Handling) -> Convert | None:
    """The converter of values declared as source (or Spark) type `text`; None: as sent."""
    type_ = parse_type(text)
    spark = spark_type(text, family).split("(")[0]
    if type_.name in _BITS:
        if bits_type(type_) == "boolean":
            return encoded.boolean
        length = type_.numbers[0] if type_.numbers else 2**31 - 1
        return encoded.bits(length, fixed=type_.name == "bit")
    if spark == "boolean":
        return encoded.boolean
    scale = _SCALES.get((family, type_.name))
    if scale is not None or type_.name in _DECIMALS:
        if len(type_.numbers) > 1:
            scale = type_.numbers[1]
        return _decimal(scale or 0, handling, unsigned=type_.unsigned)
    if type_.name in _WITHOUT_SCALE:
        return encoded.decimal_text if _as_text(handling) else _without_scale
    if type_.unsigned and type_.name in {"bigint", "int64"}:
        return _unsigned(handling)
    if spark in {"int", "bigint"}:
        return _integer
    if spark == "date":
        return _date
    if spark == "binary":
        return encoded.binary(handling.binary)
    if type_.name in _CIVIL or spark == "timestamp_ntz":
        return _civil(type_, family, handling)
    if spark == "timestamp":
        return _instant(handling)
    if type_.name == "time":
        return _time(type_, family, handling)
    return sql_converter(ValueEncoding(family=family))(text)


def declared_array(text: str, family: str, handling: Handling) -> ReadArray | None:
    """The reader of PostgreSQL's arrays declared as `text`; None if elements stay as sent, or if it
    is no array."""
    element = text.removesuffix("[]")
    type_ = parse_type(element)
    if element == text or type_.name not in _DECIMALS | _WITHOUT_SCALE | _COUNTED | _CIVIL:
        return None
    return array_reader(declared_converter(element, family, handling), encoded.variable_scale)


def _as_text(handling: Handling) -> bool:
    return handling.decimals in ("string", "double")


def _without_scale(value: Any, warnings: list[str]) -> str:
    if value.__class__ is str and value not in encoded.DECIMALS and encoded.unpacked(value):
        return encoded.scale_doubted(value, warnings)
    return encoded.decimal_text(value, warnings)


def _integer(value: Any, warnings: list[str]) -> str:
    if value.__class__ is bool:
        return "1" if value else "0"
    return plain(value)


keeps(_integer, integers=True)


def _unsigned(handling: Handling) -> Convert:
    packed = encoded.decimal(0)

    def convert(value: Any, warnings: list[str]) -> str | None:
        if value.__class__ is Digits:
            return packed(value, warnings)
        if value.__class__ is str:
            # The base64 of a number that is not negative never begins with a digit.
            digits = handling.unsigned == "auto" and value.isdigit()
            return str(value) if digits or handling.unsigned == "long" else packed(value, warnings)
        return encoded.unsigned(value, warnings)

    return convert


def _decimal(scale: int, handling: Handling, *, unsigned: bool) -> Convert:
    if _as_text(handling):
        return encoded.decimal_text
    packed = encoded.decimal(scale)
    if handling.decimals == "precise":
        return packed

    def guessed(value: Any, warnings: list[str]) -> str | None:
        if value.__class__ is str:
            # `Infinity` of mode double would be base64 as well; digits of what is not negative
            # would not.
            if value in encoded.DECIMALS or (unsigned and value.isdigit()):
                return encoded.decimal_text(value, warnings)
            _check_one_reading(value)
        return packed(value, warnings)

    return keeps(guessed, texts=DECIMAL_TEXT)


def _check_one_reading(text: str) -> None:
    """Raise bad_value if a text is a number in digits, and also the base64 of another, negative
    one."""
    if encoded.NUMBER(text) and encoded.unpacked(text):
        raise DecodeError(
            Code.BAD_VALUE,
            f"expected a decimal in digits or in base64, got {text!r}, which may be either: set "
            "options: {decimal_handling: string} where the connector sends digits, else precise",
        )


def _date(value: Any, warnings: list[str]) -> str | None:
    if value.__class__ is str and not value.lstrip("-").isdigit():
        return encoded.iso_date(value, warnings)
    return encoded.days(value, warnings)


keeps(_date, texts=DATE_TEXT)


def _unit(type_: SourceType, family: str, handling: Handling) -> int | None:
    """Units per second of a number of this type; None if only its magnitude tells."""
    fixed = _FIXED_UNIT.get(handling.times)
    if fixed is not None:
        return fixed
    micros = family == "mysql" or handling.times == "adaptive_time_microseconds"
    if type_.name == "time" and micros:
        return 10**6
    digits = type_.numbers[0] if type_.numbers else _DEFAULT_DIGITS.get((family, type_.name))
    if digits is None:
        if type_.name in ("timestamp", "timestamp_ntz"):
            return None
        digits = 0
    return 10**3 if digits <= 3 else 10**6 if digits <= 6 else 10**9


def _civil(type_: SourceType, family: str, handling: Handling) -> Convert:
    unit = _unit(type_, family, handling)
    # MySQL's TIMESTAMP and Spark's are instants; the other date-times have no zone
    instant = type_.name == "timestamp" and family not in ("postgres", "oracle", "db2")
    zoned = encoded.zoned_in(handling.zone)
    infinities = encoded.TIMES if family == "postgres" else {}

    def convert(value: Any, warnings: list[str]) -> str | None:
        if value.__class__ is str and not value.lstrip("-").isdigit():
            read = zoned if instant else encoded.iso_timestamp
            return read(value, warnings)
        count = value if value.__class__ is int else encoded.whole(value, warnings)
        if count is None:
            return plain(value)
        if count in infinities:
            return infinities[count]
        per_second = unit
        if per_second is None:
            warnings.append(Code.TS_UNIT_INFERRED.value)
            size = abs(count)
            per_second = 10**3 if size < 10**14 else 10**6 if size < 10**17 else 10**9
        text = encoded.CIVIL[per_second](count, warnings)
        if not instant or text is None or text[4:5] != "-":
            return text
        return text.replace(" ", "T") + "Z"

    return keeps(convert, texts=INSTANT_TEXT if instant else CIVIL_TEXT)


def _instant(handling: Handling) -> Convert:
    """Debezium writes text; a number (Aurora DSQL's) is one of the units that an option names."""
    zoned = encoded.zoned_in(handling.zone)
    unit = _FIXED_UNIT.get(handling.times)

    def convert(value: Any, warnings: list[str]) -> str | None:
        if value.__class__ is int:
            if unit is None:
                return encoded.contradicted(value, warnings)
            text = encoded.CIVIL[unit](value, warnings)
            return text if text is None or text[4:5] != "-" else text.replace(" ", "T") + "Z"
        return zoned(value, warnings)

    return keeps(convert, texts=INSTANT_TEXT)


def _time(type_: SourceType, family: str, handling: Handling) -> Convert:
    unit = _unit(type_, family, handling) or 10**6

    def convert(value: Any, warnings: list[str]) -> str | None:
        if value.__class__ is str and not value.lstrip("-").isdigit():
            return encoded.iso_time(value, warnings)
        return encoded.TIME[unit](value, warnings)

    return convert
