"""The values of Aliyun DTS, one reader for each branch of the image's union.

Source: the classes `com.alibaba.dts.formats.avro.*` and the field converters of
https://github.com/aliyun/aliyun-dts-subscribe-sdk-java (bcc5cf5) and
https://github.com/aliyun/aliyun-dts-subscribe-demo (510fea5).

A reader takes the bytes, the place behind the branch, the list of what each value shows of its type
(it adds one word, see `ingest.formats.dts.types`) and the warnings; it returns the canonical text
and the place behind the value.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from functools import lru_cache

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.values import canonical
from ingest.wire.avro.bytes import malformed, maybe_number, number, octets, text
from ingest.wire.avro.reader import double

Words = list[str | None]
Reader = Callable[[bytes, int, Words, list[str]], tuple[str, int]]

_TEXTS = frozenset(("XML", "JSON", "TEXT", "ENUM", "SET", "BOOL", "ROWID", "UROWID", "UUID"))
# MySQL's latin1 is cp1252, whose five unassigned bytes are the control characters.
_LATIN1 = "".join(
    chr(byte) if byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else bytes([byte]).decode("cp1252")
    for byte in range(256)
)
_CODECS = {
    **dict.fromkeys(("utf8", "utf8mb3", "utf8mb4", "utf-8"), "utf-8"),
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf-16": "utf-16-be",
    "utf32": "utf-32-be",
    "utf-32": "utf-32-be",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "zhs16gbk": "gb18030",
    "al32utf8": "utf-8",
    "al16utf16": "utf-16-be",
    "us7ascii": "ascii",
    "we8iso8859p1": "latin-1",
    "we8mswin1252": "cp1252",
    "sjis": "cp932",
    "ujis": "euc_jp",
    "euckr": "cp949",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "macce": "mac_latin2",
}
_UTF8 = frozenset((b"utf8mb4", b"utf8", b"utf8mb3", b"UTF-8", b"utf-8"))


def _integer(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    _, at = number(data, at)
    raw, end = octets(data, at)
    if not (raw.isdigit() or (raw[:1] == b"-" and raw[1:].isdigit())):
        raise _contradicted("an integer", raw)
    found = raw.decode()
    over = len(found) > 18 and not -(2**63) <= int(found[:40]) < 2**63
    words.append("big" if over else "integer")
    return found, end


def _character(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    charset, at = octets(data, at)
    raw, end = octets(data, at)
    if charset in _UTF8:
        words.append("text")
        try:
            return raw.decode(), end
        except UnicodeDecodeError:
            raise _contradicted(charset.decode(), raw) from None
    codec = _codec(charset)
    if codec is None:
        words.append("bytes")
        try:
            charset.decode()
        except UnicodeDecodeError:
            raise malformed("UTF-8", end - len(raw)) from None
        if charset and charset.lower() != b"binary":
            warnings.append(Code.UNKNOWN_CHARSET.value)
        return canonical.base64_of(raw), end
    words.append("text")
    try:
        return codec(raw), end
    except UnicodeDecodeError:
        raise _contradicted(charset.decode(), raw) from None


@lru_cache(maxsize=256)
def _codec(charset: bytes) -> Callable[[bytes], str] | None:
    """The decoder of a character set by the name of MySQL, Oracle or Java; None = none."""
    name = charset.decode("ascii", "replace").lower()
    if name == "latin1":
        return lambda raw: codecs.charmap_decode(raw, "strict", _LATIN1)[0]
    try:
        known = codecs.lookup(_CODECS.get(name, name))
    except (LookupError, ValueError):
        return None
    try:
        # Python also has codecs that are no character sets, such as hex and zip.
        known_text = known.decode(b"", "strict")[0]
    except Exception:
        return None
    if not isinstance(known_text, str):
        return None
    return lambda raw: known.decode(raw, "strict")[0]


def _decimal(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    found, at = text(data, at)
    precision, at = number(data, at)
    scale, at = number(data, at)
    words.append(_decimal_word(precision, scale))
    if not found[-1:].isdecimal():
        # PostgreSQL's and Oracle's NaN and infinities.
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
        return found, at
    return canonical.decimal_text(found), at


@lru_cache(maxsize=4096)
def _decimal_word(precision: int, scale: int) -> str:
    """A value's digits and scale as the type that holds it: BigDecimal's scale can be below zero
    (`1E+3`) or above the number of digits (`0.00`)."""
    if precision <= 0:
        return "decimal"
    return f"({precision - scale},0)" if scale < 0 else f"({max(precision, scale)},{scale})"


def _float(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    if at + 8 > len(data):
        raise malformed("a double", at)
    found, at = double(data, at)
    _, at = number(data, at)
    _, at = number(data, at)
    words.append("double")
    return found, at


def _timestamp(per_second: int) -> Reader:
    digits = len(str(per_second)) - 1

    def read(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
        seconds, at = number(data, at)
        parts, at = number(data, at)
        if not 0 <= parts < per_second:
            raise _contradicted(f"a part of a second below {per_second}", parts)
        words.append("timestamp")
        count = seconds * per_second + parts
        sent = f"{seconds}{canonical.fraction(str(parts).rjust(digits, '0'))}"
        return canonical.instant_or_sent(count, per_second, sent=sent, warnings=warnings), at

    return read


def _date_time(per_second: int) -> Reader:
    digits = len(str(per_second)) - 1

    def read(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
        parts: list[int | None] = []
        for _ in range(7):
            part, at = maybe_number(data, at)
            parts.append(part)
        year, month, day, hour, minute, second, rest = parts
        if day is None:
            found, word = _without_day(parts, per_second)
        elif year is None or month is None:
            found, word = _days(parts, digits), "interval"
        elif not (0 <= month <= 12 and 0 <= day <= 31):
            raise _contradicted("a date", parts)
        else:
            found, word = canonical.date_of_parts(year, month, day, warnings=warnings), "date"
            if hour is not None:
                found, word = f"{found} {_clock(hour, minute, second, parts)}", "datetime"
                if rest:
                    if not 0 <= rest < per_second:
                        raise _contradicted("a part of a second", parts)
                    found += canonical.fraction(f"{rest:0{digits}d}")
        words.append(word)
        return found, at

    return read


def _clock(hour: int, minute: int | None, second: int | None, parts: object) -> str:
    minute, second = minute or 0, second or 0
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 61):
        raise _contradicted("a time of day", parts)
    return f"{hour:02d}:{minute:02d}:{second:02d}"


def _without_day(parts: list[int | None], per_second: int) -> tuple[str, str]:
    """A time (each part has its sign), a year, or years and months."""
    year, month, _, hour, minute, second, rest = parts
    if year is None and month is None and hour is not None:
        seconds = hour * 3600 + (minute or 0) * 60 + (second or 0)
        return canonical.time_of(seconds * per_second + (rest or 0), per_second), "time"
    if year is not None and hour is None:
        if month is None:
            return str(year), "year"
        sign = "-" if year < 0 or month < 0 else "+"
        return f"{sign}{abs(year):02d}-{abs(month):02d}", "interval"
    raise _contradicted("parts that make a date or a time", parts)


def _days(parts: list[int | None], digits: int) -> str:
    """Days and a time, as Oracle writes an INTERVAL DAY TO SECOND."""
    year, month, *rest = parts
    if year is not None or month is not None:
        raise _contradicted("parts that make a date or a time", parts)
    sizes = [abs(part or 0) for part in rest]
    sign = "-" if any((part or 0) < 0 for part in rest) else "+"
    return f"{sign}{sizes[0]:02d} {sizes[1]:02d}:{sizes[2]:02d}:{sizes[3]:02d}" + (
        f".{sizes[4]:0{digits}d}" if rest[4] is not None else ""
    )


def _zoned(per_second: int) -> Reader:
    civil = _date_time(per_second)

    def read(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
        found, at = civil(data, at, words, warnings)
        zone, at = text(data, at)
        if words[-1] != "datetime":
            return found + zone, at
        words[-1] = "timestamp with time zone"
        instant = canonical.instant_in(found, zone, "")
        if not instant:
            warnings.append(Code.VALUE_NOT_OF_TYPE.value)
            return f"{found} {zone}", at
        return instant, at

    return read


def _typed_bytes(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    word, at = text(data, at)
    raw, at = octets(data, at)
    if word.upper() in _TEXTS:
        try:
            found = raw.decode()
        except UnicodeDecodeError:
            raise _contradicted(f"{word} in UTF-8", raw) from None
        words.append("json" if word.upper() == "JSON" else "text")
        return found, at
    words.append("bytes")
    return canonical.base64_of(raw), at


def _geometry(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    _, at = text(data, at)
    raw, at = octets(data, at)
    words.append("geometry")
    return canonical.base64_of(raw), at


def _typed_text(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    word, at = text(data, at)
    found, at = text(data, at)
    words.append("json" if word.upper() == "JSON" else "text")
    return found, at


def _shape(data: bytes, at: int, words: Words, warnings: list[str]) -> tuple[str, int]:
    _, at = text(data, at)
    words.append("geometry")
    return text(data, at)


def _contradicted(wanted: str, got: object) -> DecodeError:
    return DecodeError(Code.BAD_VALUE, f"expected {wanted}, got {str(got)[:80]}")


def _readers(per_second: int) -> Mapping[int, Reader]:
    branches = (
        _integer,
        _character,
        _decimal,
        _float,
        _timestamp(per_second),
        _date_time(per_second),
        _zoned(per_second),
        _geometry,
        _shape,
        _typed_bytes,
        _typed_text,
    )
    return {2 * (index + 1): reader for index, reader in enumerate(branches)}


MICROS, NANOS = _readers(10**6), _readers(10**9)
"""Branch byte -> reader, by the unit of `millis`: microseconds for MySQL and PostgreSQL,
nanoseconds for others."""
EMPTY = 24
"""The branch byte of EmptyObject: its symbol NULL means NULL, NONE means that nothing was sent."""
