"""The canonical text of a value, the same in whatever format it is sent (semantics.md, 56).

Integers and decimals are written digit for digit, booleans as `true`/`false`, bytes as base64,
dates as `yyyy-MM-dd`, zone-less date-times as `yyyy-MM-dd HH:mm:ss[.f]`, instants as
`yyyy-MM-ddTHH:mm:ss[.f]Z` in UTC, times as `[-]HH:mm:ss[.f]`; a fraction never ends in a zero. JSON
and all untyped values stay as sent.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, date, datetime, timedelta
from decimal import (
    MAX_EMAX,
    MAX_PREC,
    MIN_EMIN,
    Context,
    Decimal,
    Inexact,
    InvalidOperation,
    localcontext,
)
from functools import lru_cache
from typing import Literal
from zoneinfo import ZoneInfo

from ingest.codes import Code
from ingest.errors import DecodeError

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MOST_DIGITS = 5_000
# PostgreSQL's numeric has 131,072 digits before the point and 16,383 behind it, the most there is.
_MOST_BITS = 489_850
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])
MOST_NUMBER_BITS = 64
"""A bit string of more bits does not become a number: it stays zeros and ones."""
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds of 0001-01-01 00:00:00 and 9999-12-31 23:59:59.999999 UTC."""
_CIVIL = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d+))? ?(.*)$")
CIVIL_PATTERN = r"(?!0000)\d{4}-(?!00)\d\d-(?!00)\d\d \d\d:\d\d:\d\d(?:\.\d*[1-9])?"
"""Zone-less date-times that are canonical already; digits are ASCII."""
_CANONICAL = re.compile(CIVIL_PATTERN, re.ASCII).fullmatch
_USUAL = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d)(:[0-5]\d:[0-5]\d)(?:\.(\d+))?(Z)?", re.ASCII
).fullmatch
_TIME = re.compile(r"([+-]?)(\d+):(\d\d)(?::(\d\d))?(?:\.(\d+))?$")
_SECONDS = re.compile(r"-?\d{1,18}(?:\.\d{0,100})?", re.ASCII)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(1[0-8]|0?\d):?([0-5]\d)?(?::?([0-5]\d))?$", re.ASCII)
"""An offset from UTC, of up to 18 hours, as clocks have had them."""


def decimal_text(text: str) -> str:
    """A decimal written plainly with its own scale: `1.000E-7` is `0.0000001000`, `.5` is `0.5`."""
    if "E" not in text and "e" not in text:
        text = text.removeprefix("+")
        if text[:1] == "." or text[:2] == "-." or text[-1:] == ".":
            return _beside_point(text)
        return text
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        return text
    if abs(exponent) > _MOST_DIGITS:
        raise DecodeError(
            Code.BAD_VALUE, f"expected at most {_MOST_DIGITS} digits, got {text[:40]}"
        )
    return format(number, "f")


def _beside_point(text: str) -> str:
    """A decimal that begins or ends with its point, as Oracle writes them; other text as it is."""
    digits = text.removeprefix("-")
    if not digits.replace(".", "", 1).isdecimal():
        return text
    whole, _, part = digits.partition(".")
    return f"{text[: -len(digits)]}{whole or '0'}{'.' if part else ''}{part}"


def unscaled_text(unscaled: int, scale: int) -> str:
    """The decimal `unscaled * 10**-scale`, with all its digits: (1230, 2) is `12.30`."""
    if abs(scale) > _MOST_DIGITS:
        raise DecodeError(Code.BAD_VALUE, f"expected a scale within {_MOST_DIGITS}, got {scale}")
    if scale <= 0:
        return digits_of(unscaled * 10**-scale)
    digits = digits_of(abs(unscaled)).rjust(scale + 1, "0")
    return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def digits_of(number: int) -> str:
    """All digits of an integer; `str` alone refuses more than 4,300, since its time grows with
    their square.

    Raises bad_value for more digits than any database's decimal has.
    """
    bits = number.bit_length()
    if bits < 14_000:
        return str(number)
    if bits > _MOST_BITS:
        raise DecodeError(
            Code.BAD_VALUE,
            f"expected a decimal of at most 147,455 digits, got a number of {bits} bits",
        )
    with localcontext(_EXACT):
        digits = format(_halved(abs(number), bits), "f")
    return f"-{digits}" if number < 0 else digits


def _halved(number: int, bits: int) -> Decimal:
    """An integer as a decimal, made from its halves: decimals multiply in hardly more than linear
    time."""
    if bits <= 4_096:
        return Decimal(number)
    low = bits // 2
    high = number >> low
    return _halved(high, bits - low) * Decimal(2) ** low + _halved(number - (high << low), low)


def bits_of(text: str) -> str:
    """Zeros and ones as the number they spell, as most formats send it; as they are if there are
    more than 64."""
    return str(int(text, 2)) if len(text) <= MOST_NUMBER_BITS else text


def bits_in(data: bytes, length: int | None, order: Literal["little", "big"]) -> str:
    """The bits of bytes as `bits_of` gives them: their number, or zeros and ones beyond 64.

    `length`: how many bits the column has, None if that is not known. A column of varying length
    names the most it has; leading zeros cannot be told from missing bits then.
    """
    number = int.from_bytes(data, order)
    if (8 * len(data) if length is None else length) <= MOST_NUMBER_BITS >= 8 * len(data):
        return str(number)
    whole = length is not None and len(data) == (length + 7) // 8
    return format(number, "b").rjust(length if whole and length is not None else 0, "0")


def fraction(digits: str) -> str:
    """`.f` without trailing zeros; empty if no digit is left."""
    kept = digits.rstrip("0")
    return f".{kept}" if kept else ""


@lru_cache(maxsize=65_536)
def date_of_days(days: int) -> str:
    """Days since 1970-01-01 as `yyyy-MM-dd`; raises bad_value outside years 1 to 9999."""
    try:
        return date.fromordinal(days + _EPOCH_DAY).isoformat()
    except (ValueError, OverflowError):
        raise DecodeError(Code.BAD_VALUE, f"expected days of years 1..9999, got {days}") from None


def date_of_parts(year: int, month: int, day: int, *, warnings: list[str]) -> str:
    """A date made of its numbers. A date with MySQL's zeros gets the warning `zero_date`; one of a
    year outside 0 to 9999 (`-0044-03-15`, `10000-08-17`), which gold does not have, gets
    `value_not_of_type`."""
    if not 0 <= year <= 9999:
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
        return f"{'-' if year < 0 else ''}{abs(year):04d}-{month:02d}-{day:02d}"
    if not (year and month and day):
        warnings.append(Code.ZERO_DATE.value)
    return f"{year:04d}-{month:02d}-{day:02d}"


def civil_of(count: int, per_second: int) -> str:
    """A zone-less date-time of `count` units since 1970-01-01 00:00, `per_second` to a second."""
    seconds, rest = divmod(count, per_second)
    parts = _MILLIS[rest] if per_second == 1000 else _rest(rest, per_second)
    return f"{date_of_days(seconds // 86_400)} {_clock(seconds % 86_400)}{parts}"


def instant_of(count: int, per_second: int) -> str:
    """An instant of `count` units since the epoch, in UTC: `2024-01-02T03:04:05.6Z`."""
    seconds, rest = divmod(count, per_second)
    parts = _MILLIS[rest] if per_second == 1000 else _rest(rest, per_second)
    return f"{date_of_days(seconds // 86_400)}T{_clock(seconds % 86_400)}{parts}Z"


def instant_or_sent(count: int, per_second: int, *, sent: str, warnings: list[str]) -> str:
    """`instant_of`; outside the years 1 to 9999, which gold does not have, the text that was
    `sent`, with the warning `value_not_of_type`."""
    try:
        return instant_of(count, per_second)
    except DecodeError:
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
        return sent


@lru_cache(maxsize=86_400)
def _clock(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def _rest(rest: int, per_second: int) -> str:
    """`.f`, the part of a second without trailing zeros; empty for 0."""
    return f".{str(rest).rjust(len(str(per_second)) - 1, '0')}".rstrip("0") if rest else ""


_MILLIS = tuple(_rest(rest, 1000) for rest in range(1000))


def time_of(count: int, per_second: int) -> str:
    """A signed time of `count` units: `-838:59:59.5`; MySQL's TIME is no time of day."""
    seconds, rest = divmod(abs(count), per_second)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    digits = fraction(str(rest).rjust(len(str(per_second)) - 1, "0")) if rest else ""
    return f"{'-' if count < 0 else ''}{clock}{digits}"


def time_text(text: str) -> str:
    """A time as sent, its fraction without trailing zeros, hours at least two digits."""
    match = _TIME.match(text)
    if match is None:
        return text
    sign = "-" if match[1] == "-" else ""
    return f"{sign}{match[2].rjust(2, '0')}:{match[3]}:{match[4] or '00'}{fraction(match[5] or '')}"


def date_text(text: str, warnings: list[str]) -> str:
    """A date as sent; warns of an impossible date (`0000-00-00`, `2020-00-12`)."""
    # From the second character on, since a year before Christ begins with a minus.
    if "-00" in text[1:10] or text[:4] == "0000":
        warnings.append(Code.ZERO_DATE.value)
    return text


def civil_text(text: str, warnings: list[str]) -> str:
    """A zone-less date-time, normalised; a time zone in the text makes it an instant.

    A date alone gets midnight. Text of an unknown form stays as sent.
    """
    if _CANONICAL(text):
        return text
    if len(text) == 19 and text[10] == " " and text[16] == ":":
        return date_text(text, warnings)
    if len(text) == 10 and text[4] == text[7] == "-":
        return date_text(text, warnings) + " 00:00:00"
    match = _CIVIL.match(text)
    if match is None:
        return text
    clock = match[2] if len(match[2]) == 8 else match[2] + ":00"
    plain = f"{date_text(match[1], warnings)} {clock}{fraction(match[3] or '')}"
    return instant_in(plain, match[4], text) if match[4] else plain


def instant_text(text: str, zone: str | None, warnings: list[str]) -> str:
    """The instant, in UTC, of a text with or without a zone; text without one is read in `zone`.

    Zone-less text is read as UTC if no zone is declared, with the warning `tz_assumed`. A time that
    the zone's clocks show twice or never, because they are changed, is read by the clocks before
    the change, with the warning `time_ambiguous`. Impossible dates and text of an unknown form stay
    as sent. So does text with an unknown zone, or outside the years 1 to 9999, with the warning
    `value_not_of_type`.
    """
    usual = _USUAL(text)
    if usual is not None:
        # The zone's shift is looked up once for each hour of the source's time.
        hour, in_hour, digits, utc = usual.groups()
        begins = _hour_in(hour, "UTC" if utc else zone or "UTC")
        if begins is not None:
            if zone is None and not utc:
                warnings.append(Code.TZ_ASSUMED.value)
            return f"{begins}{in_hour}{fraction(digits) if digits else ''}Z"
    found: list[str] = []
    civil = civil_text(text, found)
    parts = _CIVIL.match(civil)
    if found or civil.endswith("Z") or parts is None:
        warnings += found
        return civil
    if zone is None and not parts[4]:
        warnings.append(Code.TZ_ASSUMED.value)
        return civil.replace(" ", "T") + "Z"
    if parts[4] or zone is None:
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
        return text
    instant = instant_in(civil, zone, text)
    if instant == text:
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
    elif _clocks_turned(civil[:19], zone):
        warnings.append(Code.TIME_AMBIGUOUS.value)
    return instant


_UTC = frozenset(("Z", "UTC", "+00:00", "+00", "Etc/UTC", "GMT"))


def instant_in(civil: str, zone: str, text: str) -> str:
    """The instant, in UTC, of a time `yyyy-MM-dd HH:mm:ss[.f]` in `zone` (offset or region)."""
    if zone in _UTC:
        return civil.replace(" ", "T") + "Z"
    try:
        return _shifted(civil[:19], zone) + civil[19:] + "Z"
    except (ValueError, KeyError, OverflowError, OSError):
        return text


@lru_cache(maxsize=65_536)
def _hour_in(hour: str, zone: str) -> str | None:
    """`yyyy-MM-dd HH` of `zone` in UTC as `yyyy-MM-ddTHH`.

    None if the zone's shift is not whole hours, if its clocks are changed in that hour, or for
    another form, an impossible date or an unknown zone.
    """
    starts = instant_in(f"{hour[:10]} {hour[11:]}:00:00", zone, "")
    ends = instant_in(f"{hour[:10]} {hour[11:]}:59:59", zone, "")
    try:
        datetime.fromisoformat(starts)
    except ValueError:
        return None
    whole = starts[13:] == ":00:00Z" and ends == f"{starts[:13]}:59:59Z"
    turned = any(_clocks_turned(f"{hour[:10]} {hour[11:]}:{at}", zone) for at in ("00:00", "59:59"))
    return starts[:13] if whole and not turned else None


@lru_cache(maxsize=65_536)
def _clocks_turned(civil: str, zone: str) -> bool:
    """Whether the clocks of a zone show `yyyy-MM-dd HH:mm:ss` twice or never."""
    if zone in _UTC or _shift(zone) is not None:
        return False
    local = datetime.fromisoformat(civil).replace(tzinfo=ZoneInfo(zone))
    return local.utcoffset() != local.replace(fold=1).utcoffset()


@lru_cache(maxsize=65_536)
def _shifted(civil: str, zone: str) -> str:
    local = datetime.fromisoformat(civil)
    shift = _shift(zone)
    if shift is None:
        return local.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).isoformat()[:19]
    return (local - shift).isoformat()


def is_zone(name: str) -> bool:
    """Whether a name is an offset or a region whose clocks are known."""
    try:
        return _shift(name) is not None or ZoneInfo(name) is not None
    except (ValueError, KeyError, OSError):
        return False


def is_seconds(text: str) -> bool:
    """Whether a text is `seconds[.fraction]`, as `seconds_text` reads it."""
    return _SECONDS.fullmatch(text) is not None


def seconds_text(text: str) -> str:
    """An instant of `seconds[.fraction]`, a decimal fraction of any length: `1606233662.012345`."""
    whole, _, digits = text.partition(".")
    return instant_of(int(whole + digits), 10 ** len(digits))


def civil_in(count: int, per_second: int, *, zone: str, sent: str, warnings: list[str]) -> str:
    """The zone-less time that clocks in `zone` (offset or region) show at an instant of `count`
    units since the epoch, `per_second` to a second. Outside the years 1 to 9999 it is the text that
    was `sent`, with the warning `value_not_of_type`. Raises bad_value for an unknown zone."""
    shift = _shift_at(count // per_second, zone)
    try:
        return civil_of(count + shift * per_second, per_second)
    except DecodeError:
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
        return sent


_FIRST_SECOND, _LAST_SECOND = -62_135_510_400, 253_402_214_400
"""The first seconds of the second day there is and of the last: Python can show their instants as
dates in every zone."""


def _shift_at(seconds: int, zone: str) -> int:
    """By how many seconds clocks in `zone` are ahead of UTC at an instant; outside the years 1 to
    9999, as at their ends. Raises bad_value for an unknown zone."""
    try:
        shift = _shift(zone)
        if shift is None:
            within = min(max(seconds, _FIRST_SECOND), _LAST_SECOND)
            shift = datetime.fromtimestamp(within, ZoneInfo(zone)).utcoffset() or timedelta()
    except (ValueError, KeyError, OSError):
        raise DecodeError(Code.BAD_VALUE, f"expected a known time zone, got {zone!r}") from None
    return shift.days * 86_400 + shift.seconds


def _shift(zone: str) -> timedelta | None:
    offset = _OFFSET.match(zone)
    if offset is None:
        return None
    shift = timedelta(
        hours=int(offset[2]), minutes=int(offset[3] or 0), seconds=int(offset[4] or 0)
    )
    return shift if offset[1] == "+" else -shift


def base64_of(data: bytes) -> str:
    """Bytes as canonical text."""
    return base64.b64encode(data).decode("ascii")


def with_srid(wkb: bytes, srid: int) -> bytes:
    """A geometry as EWKB (PostGIS), which is its WKB if it has no spatial reference."""
    if not 0 < srid < 2**32 or len(wkb) < _WKB_HEAD or wkb[0] not in (0, 1):
        return wkb
    order: Literal["big", "little"] = "little" if wkb[0] else "big"
    kind = int.from_bytes(wkb[1:_WKB_HEAD], order) | _HAS_SRID
    return b"".join((wkb[:1], kind.to_bytes(4, order), srid.to_bytes(4, order), wkb[_WKB_HEAD:]))


_WKB_HEAD, _HAS_SRID = 5, 0x20000000


def bytes_of(text: str) -> bytes | None:
    """The bytes of strict base64 (padding optional); None if the text is something else."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
