"""Values of Debezium rows as canonical text, by the semantic type of Connect's schema.

- **Semantic types.** The schema's `name` says how a value is encoded: days, milliseconds,
  microseconds or nanoseconds since the epoch, base64 of a two's complement, and so on. Times
  without a zone stay without one. A value that contradicts its type keeps its text, with the
  warning `value_not_of_type`: gold then sets that event aside, and the rest of the message stands.
- **Infinities and NaN.** PostgreSQL's `infinity` comes as an extreme of the driver's or of Java's,
  in a unit that depends on `time.precision.mode`. None of these numbers stands for a value that
  PostgreSQL can hold, except where a count of the same digits in another unit could; so days are
  kept apart from times.
- **Arrays of PostgreSQL** stay JSON. Elements that Debezium encodes by a semantic type (days,
  microseconds, packed decimals) are written as JSON text or null; all others are as sent.

Sources: https://debezium.io/documentation/reference/3.6/connectors/ (data type mappings) and there
postgresql.html (array types); PGStatement.DATE_POSITIVE_INFINITY and its negative (pgjdbc), in
milliseconds, microseconds and, cut off, nanoseconds; messages of Debezium 3.6 for PostgreSQL 16.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.values import canonical
from ingest.values.jsontext import Digits
from ingest.wire.declared import Convert, plain
from ingest.wire.kept_values import CIVIL_TEXT, DATE_TEXT, DECIMAL_TEXT, INSTANT_TEXT, keeps

_UP, _DOWN = "infinity", "-infinity"

NANOS: dict[int, str] = {2**63 - 1: _UP, -(2**63): _DOWN}
TIMES: dict[int, str] = {
    **NANOS,
    9223372036825200: _UP,
    -9223372036832400: _DOWN,
    9223372036825200000: _UP,
    -9223372036832400000: _DOWN,
}
"""Counts of any unit, for counts whose own reading is out of the calendar or not known."""
DAYS: dict[int, str] = {
    2**31 - 1: _UP,
    -(2**31): _DOWN,
    # the same extremes cut to 32 bits, which makes both negative and one day apart
    -2147472692: _UP,
    -2147472691: _DOWN,
}
ISO_DATES: dict[str, str] = {"-5877611-06-21": _UP, "-5877611-06-22": _DOWN}
"""The dates of DAYS, as `isostring` writes them."""
ISO_TIMESTAMPS: dict[str, str] = {
    "+294247-01-10T04:00:25.2": _UP,
    "-290308-12-21T19:59:27.6": _DOWN,
}
DECIMALS: dict[str, str] = {
    **dict.fromkeys(("NaN", "NAN"), "NaN"),
    **dict.fromkeys(("Infinity", "POSITIVE_INFINITY"), "Infinity"),
    **dict.fromkeys(("-Infinity", "NEGATIVE_INFINITY"), "-Infinity"),
}
"""The words of `decimal.handling.mode` string and double."""


ReadArray = Callable[[list[Any], list[str]], str | None]
"""The elements, warnings -> canonical text; None if an array stays as sent."""


def array_reader(convert: Convert | None, nested: Nested | None) -> ReadArray:
    """The reader of arrays whose elements are read by `convert`, or by `nested` if JSON objects."""

    def element(value: Any, warnings: list[str]) -> str | None:
        if value is None:
            return None
        if value.__class__ is dict:
            text = nested(value) if nested is not None else None
        else:
            text = convert(value, warnings) if convert is not None else None
        if text is None:
            raise _AsSent
        return text

    def read(values: list[Any], warnings: list[str]) -> str | None:
        try:
            texts = [element(value, warnings) for value in values]
        except _AsSent:
            return None
        return msgspec.json.encode(texts).decode()

    return read


class _AsSent(Exception):
    """An element has no text of its own."""


Nested = Callable[[dict[str, Any]], str | None]
"""A value that is a JSON object -> canonical text; None if it stays as sent."""

NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$").match
_SIGNED = re.compile(r"-?\d+$")
_FAR = re.compile(r"([+-]\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d+)Z", re.ASCII).fullmatch


def contradicted(value: Any, warnings: list[str]) -> str:
    """The text of a value that its type does not admit, with a warning."""
    warnings.append(Code.VALUE_NOT_OF_TYPE.value)
    return plain(value)


def whole(value: Any, warnings: list[str]) -> int | None:
    """The integer that a value is, or as text says (CloudCanal): warned; else None, warned."""
    if value.__class__ is int:
        return int(value)
    warnings.append(Code.VALUE_NOT_OF_TYPE.value)
    if value.__class__ is str and len(value) < 40 and _SIGNED.match(value):
        return int(value)
    return None


def integer(value: Any, warnings: list[str]) -> str:
    """An integer's digits."""
    if value.__class__ is not int and whole(value, warnings) is None:
        return plain(value)
    return str(value)


keeps(integer, integers=True)


def counted(render: Callable[[int], str], infinities: Mapping[int, str]) -> Convert:
    """A converter for a count of units; `render` raises DecodeError outside the years 1 to 9999,
    where a count may be one of `infinities`."""

    def convert(value: Any, warnings: list[str]) -> str:
        count = value if value.__class__ is int else whole(value, warnings)
        if count is None:
            return plain(value)
        try:
            return render(count)
        except DecodeError:
            return infinities.get(count) or contradicted(count, warnings)

    return convert


def _nanos() -> Convert:
    """NanoTimestamp: its extremes lie within the calendar, but are no times."""
    read = counted(lambda count: canonical.civil_of(count, 10**9), NANOS)
    return lambda value, warnings: NANOS.get(value) or read(value, warnings)


def decimal_text(value: Any, warnings: list[str]) -> str:
    """A decimal that comes as text or as a number, written plainly; NaN and infinities in one
    spelling."""
    text = value if value.__class__ is str else plain(value)
    return DECIMALS.get(text) or canonical.decimal_text(text)


keeps(decimal_text, texts=DECIMAL_TEXT)


def duration(value: Any, warnings: list[str]) -> str:
    """A count of units that comes as a double, as early connectors send it: `8.64E10` has the text
    of the integer 86400000000, which later ones send."""
    text = decimal_text(value, warnings)
    digits, _, part = text.partition(".")
    if part.strip("0"):
        return text
    return "0" if digits == "-0" else digits


def unsigned(value: Any, warnings: list[str]) -> str:
    """A BIGINT UNSIGNED of mode long: from 2**63 on it comes as a negative number."""
    if value.__class__ is int and value < 0:
        warnings.append(Code.UNSIGNED_OVERFLOW.value)
        return str(value + 2**64)
    return integer(value, warnings)


@lru_cache(maxsize=1_024)
def decimal(scale: int) -> Convert:
    """A decimal: base64 of the unscaled big-endian two's complement, or the number itself.

    The number comes with `decimal.format=NUMERIC`; base64 holds neither a point nor a minus. One
    converter a scale, so that what holds it can be told.
    """

    def convert(value: Any, warnings: list[str]) -> str:
        if value.__class__ is not str:
            return canonical.decimal_text(value.text) if value.__class__ is Digits else plain(value)
        if "." in value or "-" in value:
            return decimal_text(value, warnings)
        data = unpacked(value)
        if data:
            return canonical.unscaled_text(int.from_bytes(data, "big", signed=True), scale)
        if NUMBER(value) or value in DECIMALS:
            return decimal_text(value, warnings)
        warnings.append(Code.BAD_BASE64.value)
        return str(value)

    return keeps(convert, texts=DECIMAL_TEXT)


def scale_doubted(value: Any, warnings: list[str]) -> str:
    """A decimal whose scale is above its precision, or missing: kept as sent."""
    warnings.append(Code.DECIMAL_SCALE.value)
    return plain(value)


def unpacked(text: str) -> bytes | None:
    """The bytes of padded base64; None if the text is something else."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None


@lru_cache(maxsize=1_024)
def bits(length: int | None, *, fixed: bool = False) -> Convert:
    """BIT(n): base64 of little-endian bytes, as the integer they spell; zeros and ones beyond 64.

    Zero bytes at the end are not sent, so that only of a column declared as `fixed` it is known how
    many zeros stand in front. One converter a length, so that what holds it can be told.
    """
    zeros = length if fixed and length is not None and length > canonical.MOST_NUMBER_BITS else 0

    def convert(value: Any, warnings: list[str]) -> str:
        if value.__class__ is not str:
            return plain(value)
        data = unpacked(value)
        if data is None:
            warnings.append(Code.BAD_BASE64.value)
            return str(value)
        return canonical.bits_in(data, length, "little").rjust(zeros, "0")

    return convert


def binary(handling: str) -> Convert:
    """Bytes in one of `binary.handling.mode`: bytes and base64 alike, base64-url-safe, hex; in
    CockroachDB's changefeeds `\\x` and hexadecimal digits."""

    def convert(value: Any, warnings: list[str]) -> str:
        text = plain(value)
        if text.startswith("\\x"):
            # CockroachDB's, since base64 has no backslash
            digits, hexadecimal = text[2:], True
        else:
            digits, hexadecimal = text, handling == "hex"
        if hexadecimal:
            try:
                return canonical.base64_of(bytes.fromhex(digits))
            except ValueError:
                return contradicted(text, warnings)
        if handling == "base64-url-safe":
            text = text.translate(_URL_SAFE)
            text += "=" * (-len(text) % 4)
        if unpacked(text) is None and text:
            warnings.append(Code.BAD_BASE64.value)
        return text

    return convert


_HEX = re.compile(r"(?:[0-9a-f]{4})+").fullmatch
_BASE64 = binary("bytes")


def binary_in_text(value: Any, warnings: list[str]) -> str | None:
    """Bytes in a string if `binary.handling.mode` is not known: base64, except for texts that may
    as well be hexadecimal digits, which raise bad_value."""
    if value.__class__ is str and _HEX(value):
        raise DecodeError(
            Code.BAD_VALUE,
            f"expected bytes in base64 or in hexadecimal digits, got {value[:40]!r}, which may be "
            "either: set options: {binary_handling: hex} where the connector sends digits, else "
            "base64",
        )
    return _BASE64(value, warnings)


_URL_SAFE = str.maketrans("-_", "+/")


def boolean(value: Any, warnings: list[str]) -> str:
    """A truth value; connectors that have none send 0 and 1."""
    if value is True or value == 1:
        return "true"
    return "false" if value is False or value == 0 else plain(value)


def zoned_in(zone: str | None) -> Convert:
    """ISO-8601 with a zone or an offset, as an instant in UTC; text without one is read in
    `zone`."""

    def convert(value: Any, warnings: list[str]) -> str:
        text = plain(value)
        if text[-1:] == "Z" and text[10:11] == "T" and text[-2] != "0" and "." in text:
            return text
        if text.startswith(("+292278994", "-292275055")):
            return "infinity" if text[0] == "+" else "-infinity"
        far = _FAR(text)
        if far is not None:
            return f"{far[1]}{canonical.fraction(far[2])}Z"
        return canonical.instant_text(text, zone, warnings)

    return keeps(convert, texts=INSTANT_TEXT)


zoned = zoned_in(None)


def iso_date(value: Any, warnings: list[str]) -> str:
    """`2023-11-21Z`, the form in which `isostring` writes a date: a date has no zone, so the Z says
    nothing."""
    text = plain(value).removesuffix("Z")
    return ISO_DATES.get(text) or canonical.date_text(text, warnings)


keeps(iso_date, texts=DATE_TEXT)


def iso_time(value: Any, warnings: list[str]) -> str:
    """`10:15:30.5Z`, the form in which `isostring` writes a time without a zone."""
    return canonical.time_text(plain(value).removesuffix("Z"))


def iso_timestamp(value: Any, warnings: list[str]) -> str:
    """`2023-11-21T10:15:30Z`, the form in which `isostring` writes a date-time without a zone."""
    text = plain(value).removesuffix("Z")
    return ISO_TIMESTAMPS.get(text) or canonical.civil_text(text, warnings)


keeps(iso_timestamp, texts=CIVIL_TEXT)


def variable_scale(value: dict[str, Any]) -> str | None:
    """`{scale, value}`: a decimal that brings its own scale."""
    scale, unscaled = value.get("scale"), value.get("value")
    data = unpacked(unscaled) if unscaled.__class__ is str else None
    if scale.__class__ is not int or not data:
        return None
    return canonical.unscaled_text(int.from_bytes(data, "big", signed=True), int(scale))


def structured(value: dict[str, Any]) -> str | None:
    """A date, time or both of named parts (Debezium 3.7): `{year, month, …, nanos, offsetSeconds}`.

    Calendar parts may lie outside what epoch counts can carry; so they are written as they are.
    """
    word = value.get("specialValue")
    if word is not None:
        return {"POSITIVE_INFINITY": "infinity", "NEGATIVE_INFINITY": "-infinity"}.get(str(word))
    parts = {name: part for name, part in value.items() if part.__class__ is int}
    day = clock = ""
    if "year" in parts:
        year, month = parts["year"], parts.get("month", 0)
        day = canonical.date_of_parts(year, month, parts.get("day", 0), warnings=[])
    if "hour" in parts:
        clock = _clock_of([parts.get(name, 0) for name in ("hour", "minute", "second", "nanos")])
    offset = parts.get("offsetSeconds")
    if day and clock and offset is not None:
        sign, size = ("-" if offset < 0 else "+"), abs(offset)
        zone = f"{sign}{size // 3600:02d}:{size // 60 % 60:02d}:{size % 60:02d}"
        return canonical.instant_in(f"{day} {clock}", zone, f"{day} {clock}{zone}")
    return None if offset is not None else f"{day} {clock}".strip() or None


def _clock_of(parts: Sequence[int]) -> str:
    """A time of hours, minutes, seconds and nanoseconds; one below zero has parts below zero."""
    sign = "-" if max(parts) <= 0 and min(parts) < 0 else ""
    hour, minute, second, nanos = (-part for part in parts) if sign else parts
    return f"{sign}{hour:02d}:{minute:02d}:{second:02d}{canonical.fraction(f'{nanos:09d}')}"


def _civil(per_second: int) -> Convert:
    return counted(lambda count: canonical.civil_of(count, per_second), TIMES)


def _time(per_second: int) -> Convert:
    return counted(lambda count: canonical.time_of(count, per_second), {})


days: Convert = counted(canonical.date_of_days, DAYS)
CIVIL = {10**3: _civil(10**3), 10**6: _civil(10**6), 10**9: _nanos()}
TIME = {per_second: _time(per_second) for per_second in (10**3, 10**6, 10**9)}
