"""The values of OceanBase's AvroRecord, one reader for each branch of `ColumnValue.value`.

Source: OceanBase Cloud, "Message formats" of data subscription, schema `AvroRecord` and its data
mapping.

A reader takes the bytes, the place behind the branch, the list whose last word says what the value
shows of its type (see `ingest.formats.oceanbase.types`) and the warnings; it returns the canonical
text and the place behind the value. The functions above the readers make the texts, for every
encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.values import canonical
from ingest.values.source_types import with_labels
from ingest.wire.avro.bytes import count, malformed, maybe_text, number, octets, text, there
from ingest.wire.avro.reader import double, single

Words = list[str | None]
Reader = Callable[[bytes, int, Words, list[str]], tuple[str, int]]

TYPES = tuple(
    """
    NULL INTEGER LONG FLOAT DOUBLE DECIMAL STRING BINARY TIMESTAMP DATE TIME DATETIME BOOLEAN BIT
    GEOMETRY RAW ENUM SET ARRAY VECTOR SPARSE_VECTOR ROARINGBITMAP MAP
    """.split()
)
BRANCHES = tuple(
    """
    null boolean int long float double bytes string StringObject DecimalObject DateObject TimeObject
    DateTimeObject TimestampObject BitObject EnumSetValue GeometryValue
    """.split()
)


def date(year: int, month: int, day: int, warnings: list[str]) -> str:
    """A date; MySQL's impossible dates keep their zeros."""
    if not (0 <= month <= 12 and 0 <= day <= 31):
        raise _contradicted("a date", (year, month, day))
    return canonical.date_of_parts(year, month, day, warnings=warnings)


def date_time(parts: Sequence[int], warnings: list[str]) -> str:
    """A zone-less date-time of year, month, day, hours, minutes, seconds, nanos."""
    year, month, day, hours, minutes, seconds, nanos = parts
    if not (0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds < 61 and 0 <= nanos < 10**9):
        raise _contradicted("a time of day", parts)
    found = f"{date(year, month, day, warnings)} {hours:02d}:{minutes:02d}:{seconds:02d}"
    return found + canonical.fraction(f"{nanos:09d}") if nanos else found


def time(negative: bool, parts: Sequence[int]) -> str:
    """A signed time of hours, minutes, seconds, nanos."""
    hours, minutes, seconds, nanos = parts
    if not (0 <= hours and 0 <= minutes < 60 and 0 <= seconds < 60 and 0 <= nanos < 10**9):
        raise _contradicted("a time", parts)
    total = (hours * 3600 + minutes * 60 + seconds) * 10**9 + nanos
    return canonical.time_of(-total if negative else total, 10**9)


def instant(seconds: int, nanos: int, warnings: list[str]) -> str:
    """An instant of seconds since 1970 and nanoseconds."""
    if not 0 <= nanos < 10**9:
        raise _contradicted("nanoseconds below a second", nanos)
    sent = f"{seconds}{canonical.fraction(f'{nanos:09d}')}"
    return canonical.instant_or_sent(seconds * 10**9 + nanos, 10**9, sent=sent, warnings=warnings)


def decimal(found: str, warnings: list[str]) -> str:
    """A decimal with all its digits, plainly."""
    if not found[-1:].isdecimal():
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
    return canonical.decimal_text(found)


def bits(length: int, found: str) -> str:
    """A BIT as an unsigned integer, BIT(1) as a boolean; it comes as bits or as an integer."""
    if not (found.isascii() and found.isdecimal()):
        raise _contradicted("bits or an integer", found)
    if len(found) == length and not found.strip("01"):
        found = canonical.bits_of(found)
    if length == 1 and found in ("0", "1"):
        return "true" if found == "1" else "false"
    return found


def of_charset(charset: str, found: str, words: Words) -> str:
    """Text, or the bytes that it stands for if its character set is `binary`."""
    if charset.lower() != "binary":
        return found
    words[-1] = "varbinary"
    try:
        return canonical.base64_of(found.encode("latin-1"))
    except UnicodeEncodeError:
        raise _contradicted("a byte a character", found) from None


@lru_cache(maxsize=4096)
def decimal_word(precision: int, scale: int) -> str:
    """The word that a DecimalObject shows: `(p,s)` if these are a decimal's."""
    return f"({precision},{scale})" if 0 < precision and 0 <= scale <= precision else "decimal"


def shown_members(word: str | None, defines: Sequence[str] | None) -> str | None:
    """What an EnumSetValue shows: its type with the labels of its column."""
    if not defines or word not in ("enum", "set"):
        return word
    return with_labels(word, defines)


def _contradicted(wanted: str, got: object) -> DecodeError:
    return DecodeError(Code.BAD_VALUE, f"expected {wanted}, got {str(got)[:80]}")


def _boolean(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    byte = data[at]
    if byte > 1:
        raise malformed("a boolean", at)
    return "true" if byte else "false", at + 1


def _integer(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    found, at = number(data, at)
    return str(found), at


def _float(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    if at + 4 > len(data):
        raise malformed("a float", at)
    return single(data, at)


def _double(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    if at + 8 > len(data):
        raise malformed("a double", at)
    return double(data, at)


def _bytes(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    found, at = octets(data, at)
    return canonical.base64_of(found), at


def _string(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    return text(data, at)


def _string_object(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    charset, at = octets(data, at)
    found, at = text(data, at)
    if charset == b"utf8mb4":
        return found, at
    if charset.lower() == b"binary":
        return of_charset("binary", found, words), at
    if not charset.isascii():
        raise malformed("the name of a character set", at)
    return found, at


def _decimal_object(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    precision, at = number(data, at)
    scale, at = number(data, at)
    found, at = text(data, at)
    if words[-1] == "decimal":
        words[-1] = decimal_word(precision, scale)
    return decimal(found, warnings), at


def _date_object(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    parts, at = _numbers(data, at, 3)
    return date(parts[0], parts[1], parts[2], warnings), at


def _time_object(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    negative, at = _boolean(data, at, words, warnings)
    parts, at = _numbers(data, at, 4)
    return time(negative == "true", parts), at


def _date_time_object(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    parts, at = _numbers(data, at, 7)
    return date_time(parts, warnings), at


def _numbers(data: bytes, at: int, size: int) -> tuple[list[int], int]:
    found = []
    for _ in range(size):
        part, at = number(data, at)
        found.append(part)
    return found, at


def _timestamp_object(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    seconds, at = number(data, at)
    nanos, at = number(data, at)
    _, at = maybe_text(data, at)
    return instant(seconds, nanos, warnings), at


def _bit_object(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    length, at = number(data, at)
    found, at = text(data, at)
    words[-1] = f"bit({length})"
    return bits(length, found), at


def _enum_set(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    found, at = text(data, at)
    if not there(data, at):
        return found, at + 1
    labels: list[str] = []
    left, at = count(data, at + 1)
    while left:
        for _ in range(left):
            label, at = text(data, at)
            labels.append(label)
        left, at = count(data, at)
    words[-1] = shown_members(words[-1], labels)
    return found, at


def _geometry(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    """The geometry as WKB, or as EWKB if it has a spatial reference."""
    srid, at = number(data, at)
    found, at = octets(data, at)
    return canonical.base64_of(canonical.with_srid(found, srid)), at


READERS: dict[int, Reader] = {
    2 * index: reader
    for index, reader in enumerate(
        (
            _boolean,
            _integer,
            _integer,
            _float,
            _double,
            _bytes,
            _string,
            _string_object,
            _decimal_object,
            _date_object,
            _time_object,
            _date_time_object,
            _timestamp_object,
            _bit_object,
            _enum_set,
            _geometry,
        ),
        start=1,
    )
}
"""Branch byte -> reader, for all branches except null, which is 0."""
