"""One text for one value, whatever form it was sent in (semantics.md, 56)."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.values.canonical import (
    EARLIEST,
    LATEST,
    base64_of,
    bits_in,
    bits_of,
    bytes_of,
    civil_in,
    civil_of,
    civil_text,
    date_of_days,
    date_of_parts,
    date_text,
    decimal_text,
    digits_of,
    instant_of,
    instant_or_sent,
    instant_text,
    is_zone,
    seconds_text,
    time_of,
    time_text,
    unscaled_text,
    with_srid,
)

EPOCH = datetime(1970, 1, 1)
SEED = 5
ROUNDS = 2_000


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ("12.30", "12.30"),
        ("+12.30", "12.30"),
        # as Oracle writes them
        (".5", "0.5"),
        ("-.25", "-0.25"),
        ("+.5", "0.5"),
        ("5.", "5"),
        (".", "."),
        ("-.", "-."),
        ("-0", "-0"),
        ("1.000E-7", "0.0000001000"),
        ("1e3", "1000"),
        ("-1.5E+2", "-150"),
        ("0E-18", "0.000000000000000000"),
        ("NaN", "NaN"),
        ("1e", "1e"),
        ("Infinity", "Infinity"),
    ],
)
def test_decimals_are_written_plainly(sent: str, text: str) -> None:
    assert decimal_text(sent) == text


@pytest.mark.parametrize("sent", ["1E5001", "1E-5001"])
def test_a_decimal_of_too_many_digits(sent: str) -> None:
    with pytest.raises(DecodeError, match="at most 5000 digits") as caught:
        decimal_text(sent)
    assert caught.value.code is Code.BAD_VALUE


def test_unscaled_numbers_are_decimals_to_the_digit() -> None:
    draw = random.Random(SEED)
    for _ in range(ROUNDS):
        unscaled, scale = draw.randint(-(10**40), 10**40), draw.randint(-5, 45)
        text = unscaled_text(unscaled, scale)
        assert Fraction(text) == unscaled / Fraction(10) ** scale
        assert len(text.partition(".")[2]) == max(scale, 0)
    assert [unscaled_text(n, s) for n, s in ((1230, 2), (-5, 3), (0, 2), (7, -2))] == [
        "12.30",
        "-0.005",
        "0.00",
        "700",
    ]
    with pytest.raises(DecodeError, match="a scale within 5000, got -5001"):
        unscaled_text(1, -5_001)


@pytest.mark.parametrize("digits", [1, 4_300, 4_301, 20_000, 147_455])
def test_all_digits_of_large_integers(digits: int) -> None:
    """Python itself refuses to write more than 4,300."""
    assert digits_of(10 ** (digits - 1)) == "1" + "0" * (digits - 1)
    assert digits_of(-(10**digits) + 1) == "-" + "9" * digits


def test_an_integer_beyond_every_database() -> None:
    with pytest.raises(DecodeError, match="at most 147,455 digits"):
        digits_of(1 << 489_850)


def test_bits_are_numbers_up_to_64() -> None:
    assert (bits_of("0101"), bits_of("1" * 64)) == ("5", str(2**64 - 1))
    assert bits_of("0" + "1" * 64) == "0" + "1" * 64
    assert bits_in(b"\x05", 3, "big") == "5"
    assert bits_in(b"\x01\x00", None, "little") == "1"
    # A column of 70 bits has 70 digits, one of a varying length as many as are told.
    assert bits_in((5).to_bytes(9, "big"), 70, "big") == "101".rjust(70, "0")
    assert bits_in((5).to_bytes(9, "big"), None, "big") == "101"
    assert bits_in(b"\x05", 70, "big") == "101"


@pytest.mark.parametrize("per_second", [1, 1_000, 1_000_000, 1_000_000_000])
def test_counts_since_the_epoch_are_the_calendar_s(per_second: int) -> None:
    draw = random.Random(SEED)
    first, last = EARLIEST // 10**6, LATEST // 10**6
    for _ in range(ROUNDS):
        seconds, rest = draw.randint(first, last), draw.randrange(per_second)
        shown = EPOCH + timedelta(seconds=seconds)
        digits = f"{rest:0{len(str(per_second)) - 1}d}".rstrip("0") if rest else ""
        clock = f"{shown:%H:%M:%S}{'.' + digits if digits else ''}"
        count = seconds * per_second + rest
        assert civil_of(count, per_second) == f"{shown.date().isoformat()} {clock}"
        assert instant_of(count, per_second) == f"{shown.date().isoformat()}T{clock}Z"


def test_years_that_gold_has_not() -> None:
    warnings: list[str] = []
    assert date_of_days(-719_162) == "0001-01-01" and date_of_days(2_932_896) == "9999-12-31"
    for days in (-719_163, 2_932_897, 10**18):
        with pytest.raises(DecodeError, match=r"years 1\.\.9999"):
            date_of_days(days)
    assert instant_or_sent(LATEST + 1, 10**6, sent="as sent", warnings=warnings) == "as sent"
    assert date_of_parts(10_000, 8, 17, warnings=warnings) == "10000-08-17"
    assert date_of_parts(-44, 3, 15, warnings=warnings) == "-0044-03-15"
    assert warnings == [Code.VALUE_NOT_OF_TYPE.value] * 3
    assert date_of_parts(2024, 0, 3, warnings=warnings) == "2024-00-03"
    assert date_text("0000-00-00", warnings) == "0000-00-00"
    assert date_text("2020-00-12", warnings) == "2020-00-12"
    assert date_text("2020-10-12", warnings) == "2020-10-12"
    assert warnings[3:] == [Code.ZERO_DATE.value] * 3


@pytest.mark.parametrize(
    ("count", "per_second", "text"),
    [
        (0, 1, "00:00:00"),
        (-3_020_399_500, 1_000, "-838:59:59.5"),
        (86_399_999_999, 10**6, "23:59:59.999999"),
        (1, 10**9, "00:00:00.000000001"),
    ],
)
def test_times_are_signed_and_no_times_of_day(count: int, per_second: int, text: str) -> None:
    assert time_of(count, per_second) == text


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ("1:2", "1:2"),
        ("1:02", "01:02:00"),
        ("-5:06:07.800", "-05:06:07.8"),
        ("+838:59:59.000000", "838:59:59"),
        ("noon", "noon"),
    ],
)
def test_times_as_sent(sent: str, text: str) -> None:
    assert time_text(sent) == text


@pytest.mark.parametrize(
    ("sent", "text", "warned"),
    [
        ("2024-05-06 07:08:09", "2024-05-06 07:08:09", []),
        ("2024-05-06T07:08:09.100", "2024-05-06 07:08:09.1", []),
        ("2024-05-06 07:08", "2024-05-06 07:08:00", []),
        ("2024-05-06", "2024-05-06 00:00:00", []),
        ("2024-05-06 07:08:09+02:00", "2024-05-06T05:08:09Z", []),
        ("2024-05-06 07:08+02", "2024-05-06T05:08:00Z", []),
        ("2024-05-06 07:08:09 Europe/Berlin", "2024-05-06T05:08:09Z", []),
        ("2024-05-06 07:08:09 Nowhere/Land", "2024-05-06 07:08:09 Nowhere/Land", []),
        ("0000-00-00 00:00:00", "0000-00-00 00:00:00", [Code.ZERO_DATE.value]),
        ("2024-05-06 07:08:09+12:45", "2024-05-05T18:23:09Z", []),
        ("2024-05-06 07:08:09+99:99", "2024-05-06 07:08:09+99:99", []),
        ("6 May 2024", "6 May 2024", []),
        ("2024-may-6", "2024-may-6", []),
    ],
)
def test_date_times_without_a_zone(sent: str, text: str, warned: list[str]) -> None:
    warnings: list[str] = []
    assert (civil_text(sent, warnings), warnings) == (text, warned)


@pytest.mark.parametrize(
    ("sent", "zone", "text", "warned"),
    [
        ("2024-05-06 07:08:09", "Asia/Shanghai", "2024-05-05T23:08:09Z", []),
        ("2024-05-06T07:08:09.120Z", None, "2024-05-06T07:08:09.12Z", []),
        ("2024-05-06 07:08:09", None, "2024-05-06T07:08:09Z", [Code.TZ_ASSUMED.value]),
        ("2024-05-06 07:08:09", "+05:30", "2024-05-06T01:38:09Z", []),
        ("2024-05-06 07:08:09-04", "Asia/Shanghai", "2024-05-06T11:08:09Z", []),
        # Berlin's clocks show the hour from 2 twice, and that from 2 in March never.
        (
            "2024-10-27 02:30:00",
            "Europe/Berlin",
            "2024-10-27T00:30:00Z",
            [Code.TIME_AMBIGUOUS.value],
        ),
        (
            "2024-03-31 02:30:00",
            "Europe/Berlin",
            "2024-03-31T01:30:00Z",
            [Code.TIME_AMBIGUOUS.value],
        ),
        ("0000-00-00 00:00:00", "UTC", "0000-00-00 00:00:00", [Code.ZERO_DATE.value]),
        (
            "2024-05-06 07:08:09 Nowhere/Land",
            "UTC",
            "2024-05-06 07:08:09 Nowhere/Land",
            [Code.VALUE_NOT_OF_TYPE.value],
        ),
        ("soon", "UTC", "soon", []),
    ],
)
def test_instants(sent: str, zone: str | None, text: str, warned: list[str]) -> None:
    warnings: list[str] = []
    assert (instant_text(sent, zone, warnings), warnings) == (text, warned)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "-03:30"])
def test_instants_are_the_calendar_s_in_every_zone(zone: str) -> None:
    draw = random.Random(SEED)
    for _ in range(ROUNDS):
        moment = datetime.fromtimestamp(draw.randint(-(10**9), 4 * 10**9), UTC)
        shift = timedelta(hours=-3, minutes=-30)
        local = moment + shift if zone == "-03:30" else moment.astimezone(ZoneInfo(zone))
        if zone != "-03:30" and local.utcoffset() != local.replace(fold=1).utcoffset():
            continue
        warnings: list[str] = []
        shown = f"{local:%Y-%m-%d %H:%M:%S}"
        assert instant_text(shown, zone, warnings) == f"{moment:%Y-%m-%dT%H:%M:%S}Z"
        back = civil_in(int(moment.timestamp()), 1, zone=zone, sent="", warnings=warnings)
        assert (back, warnings) == (shown, [])


def test_zones() -> None:
    known = ("UTC", "Asia/Shanghai", "+08:00", "GMT-3", "+5", "-0430", "+1245", "-00:53:28")
    assert [is_zone(name) for name in known] == [True] * 8
    unknown = ("Nowhere/Land", "", "../etc", "+24:00", "+99:99", "+05:60")
    assert [is_zone(name) for name in unknown] == [False] * 6
    with pytest.raises(DecodeError, match="expected a known time zone, got 'Nowhere/Land'"):
        civil_in(0, 1, zone="Nowhere/Land", sent="", warnings=[])


def test_seconds_with_a_fraction_of_any_length() -> None:
    assert seconds_text("1606233662.012345") == "2020-11-24T16:01:02.012345Z"
    assert seconds_text("-1.5") == "1969-12-31T23:59:58.5Z"
    assert seconds_text("0") == "1970-01-01T00:00:00Z"


def test_bytes() -> None:
    assert (base64_of(b"\x00\xff"), bytes_of("AP8="), bytes_of("AP8")) == (
        "AP8=",
        b"\x00\xff",
        b"\x00\xff",
    )
    assert [bytes_of(text) for text in ("A P8", "é", "A")] == [None] * 3


def test_a_geometry_keeps_its_reference_system() -> None:
    point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    assert with_srid(point, 4326).hex() == ("0101000020e6100000000000000000f03f0000000000000040")
    assert [with_srid(data, srid) for data, srid in ((point, 0), (b"\x07", 4326))] == [
        point,
        b"\x07",
    ]
