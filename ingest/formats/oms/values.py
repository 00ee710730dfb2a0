"""How OMS writes values of the types that it names: its text mapping to one canonical text.

Vendor: OceanBase Migration Service, "Data formats", mapping of OceanBase types to text protocols
(MySQL and Oracle tenants); shared by the Default, DataWorks and SharePlex serialisations.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from typing import Any

from ingest.codes import Code
from ingest.values import canonical
from ingest.values.source_types import parse_type, spark_type
from ingest.wire.declared import Convert, ValueEncoding, plain, sql_converter

_TRUTH = {"1": "true", "0": "false", "TRUE": "true", "FALSE": "false"}
LOBS = frozenset(
    "json xml xmltype udt clob nclob text tinytext mediumtext longtext blob tinyblob mediumblob "
    "longblob geometry point linestring polygon multipoint multilinestring multipolygon "
    "geometrycollection geomcollection sdo_geometry roaringbitmap".split()
)
"""Types whose value OMS leaves out of updates that do not change it, by sending NULL."""


def oms_spark_type(family: str) -> Callable[[str], str]:
    """`spark_type` for OMS, whose type names come without lengths: BIT alone is any BIT(n)."""

    def of(source_type: str) -> str:
        if source_type.strip().lower() == "bit":
            return "decimal(20,0)"
        return spark_type(source_type, family)

    return of


def oms_converter(family: str, zone: str | None) -> Callable[[str], Convert | None]:
    """Type name -> converter of OMS values; zone-less instants are read in `zone`."""
    by_sql_type = sql_converter(ValueEncoding(family=family, zone=zone))
    spark = oms_spark_type(family)

    def convert(source_type: str) -> Convert | None:
        type_ = parse_type(source_type)
        if type_.name == "bit":
            return _bit if spark(source_type) != "boolean" else _flag
        kind = spark(source_type)
        if kind == "binary":
            return base64_text
        if kind == "boolean":
            return truth
        if type_.name == "float" and family == "oracle":
            # A decimal of up to 126 binary digits, not a double.
            return lambda value, warnings: canonical.decimal_text(plain(value))
        if kind == "timestamp":
            return instant(zone)
        return civil(zone) if kind == "timestamp_ntz" else by_sql_type(source_type)

    return convert


def instant(zone: str | None) -> Convert:
    """Converter to an instant, from a date-time text or an epoch number."""

    def convert(value: Any, warnings: list[str]) -> str:
        text = plain(value)
        epoch = None if text[4:5] == "-" else epoch_of(text, warnings)
        if epoch is not None:
            return canonical.instant_or_sent(*epoch, sent=text, warnings=warnings)
        return canonical.instant_text(text, zone, warnings)

    return convert


def civil(zone: str | None) -> Convert:
    """Converter to a zone-less date-time; an epoch number gives the time that clocks in `zone`
    show."""

    def convert(value: Any, warnings: list[str]) -> str:
        text = plain(value)
        epoch = None if text[4:5] == "-" else epoch_of(text, warnings)
        if epoch is None:
            return canonical.civil_text(text, warnings)
        if zone is None:
            warnings.append(Code.TZ_ASSUMED.value)
        return canonical.civil_in(*epoch, zone=zone or "UTC", sent=text, warnings=warnings)

    return convert


def epoch_of(text: str, warnings: list[str]) -> tuple[int, int] | None:
    """An epoch number as (count, units to a second); None if `text` is something else.

    Up to 11 digits before the point are seconds with a decimal fraction: `1606233662.012345`. 12 to
    14 digits are milliseconds, and a fraction behind them is the nanoseconds of the second:
    `1590315269000.123456789`. If the two disagree, the milliseconds count, with the warning
    `time_ambiguous`.
    """
    whole, _, digits = text.partition(".")
    size = len(whole.removeprefix("-"))
    if not (text.isascii() and whole.removeprefix("-").isdigit() and size <= 14):
        return None
    if digits and not digits.isdigit():
        return None
    if size <= 11 and len(digits) <= 100:
        return int(whole + digits), 10 ** len(digits)
    if not digits:
        return int(whole), 1000
    if len(digits) > 9:
        return None
    nanos = int(digits.ljust(9, "0"))
    seconds, millis = divmod(int(whole), 1000)
    if millis in (0, nanos // 1_000_000):
        return seconds * 10**9 + nanos, 10**9
    warnings.append(Code.TIME_AMBIGUOUS.value)
    return int(whole), 1000


def base64_text(value: Any, warnings: list[str]) -> str:
    """Bytes as sent; warns `bad_base64` if the text is not what Java's encoder writes."""
    text = plain(value)
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        warnings.append(Code.BAD_BASE64.value)
    return text


def truth(value: Any, warnings: list[str]) -> str:
    """A boolean sent as such, or as 1 and 0."""
    text = plain(value)
    return _TRUTH.get(text, text)


def _bit(value: Any, warnings: list[str]) -> str:
    """A BIT as the unsigned integer of its bytes; streams drop leading zero bytes, and scans do
    not."""
    text = plain(value)
    if value.__class__ is not str or len(text) % 4:
        return text
    data = canonical.bytes_of(text)
    if data is None:
        warnings.append(Code.BAD_BASE64.value)
        return text
    return canonical.bits_in(data, None, "big")


def _flag(value: Any, warnings: list[str]) -> str:
    text = _bit(value, warnings)
    return _TRUTH.get(text, text)
