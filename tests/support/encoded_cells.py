"""One column value as each producer writes it: MySQL type and value -> JSON token.

How OMS, Canal, StreamX and Debezium write each type stands in the pages that the modules of
`ingest.formats` cite.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

ZONE = "Asia/Shanghai"
"""Where the source's clocks stand."""


class TypeNames(NamedTuple):
    """One MySQL type elsewhere: OMS's name, StreamX's, Connect's type, name and parameters."""

    oms: str
    streamx: str
    connect: tuple[str, str | None, Mapping[str, str]]


_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_TIME = "io.debezium.time."
_TYPES = {
    "int": TypeNames("INT", "LONG", ("int32", None, {})),
    "bigint": TypeNames("INT64", "LONG", ("int64", None, {})),
    "bigint unsigned": TypeNames("BIGINT", "LONG", ("bytes", _DECIMAL, {"scale": "0"})),
    "boolean": TypeNames("BOOLEAN", "BOOLEAN", ("boolean", None, {})),
    "date": TypeNames("DATE", "DATE", ("int32", _TIME + "Date", {})),
    "datetime": TypeNames("DATETIME", "DATE", ("int64", _TIME + "Timestamp", {})),
    "datetime(3)": TypeNames("DATETIME", "DATE", ("int64", _TIME + "Timestamp", {})),
    "datetime(6)": TypeNames("DATETIME", "DATE", ("int64", _TIME + "MicroTimestamp", {})),
    "timestamp": TypeNames("TIMESTAMP", "DATE", ("string", _TIME + "ZonedTimestamp", {})),
    "timestamp(6)": TypeNames("TIMESTAMP", "DATE", ("string", _TIME + "ZonedTimestamp", {})),
    "time(6)": TypeNames("TIME", "STRING", ("int64", _TIME + "MicroTime", {})),
    "blob": TypeNames("BLOB", "BYTES", ("bytes", None, {})),
    "varchar(200)": TypeNames("VARCHAR", "STRING", ("string", None, {})),
    "text": TypeNames("TEXT", "STRING", ("string", None, {})),
    "json": TypeNames("JSON", "STRING", ("string", "io.debezium.data.Json", {})),
}


def type_names(mysql: str) -> TypeNames:
    if not mysql.startswith("decimal("):
        return _TYPES[mysql]
    scale = mysql.removesuffix(")").split(",")[1]
    return TypeNames("DECIMAL", "DOUBLE", ("bytes", _DECIMAL, {"scale": scale}))


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _digits(type_: str) -> int:
    """Fractional digits of a time type."""
    return int(type_[type_.index("(") + 1 : -1]) if "(" in type_ else 0


def _clock(value: datetime, type_: str) -> str:
    """`yyyy-MM-dd HH:mm:ss` with as many digits as the type has."""
    digits = _digits(type_)
    fraction = f".{value.microsecond:06d}"[: digits + 1] if digits else ""
    return value.strftime("%Y-%m-%d %H:%M:%S") + fraction


def _span(value: timedelta) -> str:
    """`[-]HH:mm:ss.ffffff`."""
    size = abs(value) // timedelta(microseconds=1)
    seconds, micros = divmod(size, 10**6)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{micros:06d}"
    return f"{'-' if value < timedelta() else ''}{clock}"


def _micros(value: datetime) -> int:
    """Microseconds since 1970-01-01 00:00 of a zone-less or aware date-time."""
    return (value.replace(tzinfo=value.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // (
        timedelta(microseconds=1)
    )


def _two_s_complement(value: Decimal) -> str:
    """Base64 of a decimal's unscaled value, big-endian."""
    sign, digits, _ = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    return base64.b64encode(
        unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    ).decode()


def canal_cell(type_: str, value: Any) -> str:
    """Canal and CloudCanal: all text; TIMESTAMP in the server's zone, a character for each byte."""
    if isinstance(value, bool):
        return quoted(str(int(value)))
    if isinstance(value, Decimal):
        return quoted(format(value, "f"))
    if isinstance(value, datetime):
        local = value.astimezone(ZoneInfo(ZONE)) if value.tzinfo is not None else value
        return quoted(_clock(local, type_))
    if isinstance(value, timedelta):
        return quoted(_span(value))
    return quoted(value.decode("latin-1") if isinstance(value, bytes) else str(value))


def oms_cell(type_: str, value: Any) -> str:
    """OMS: numbers as such, decimals in Java's notation, TIMESTAMP as seconds with a fraction."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return quoted(format(Decimal(_micros(value)).scaleb(-6).normalize(), "f"))
    if isinstance(value, bytes):
        return quoted(base64.b64encode(value).decode())
    return canal_cell(type_, value)


def streamx_cell(type_: str, value: Any) -> str:
    """StreamX's six types: every date and time is an instant in milliseconds."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime(*value.timetuple()[:3])
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=ZoneInfo(ZONE))
        return str(_micros(moment) // 1000)
    return oms_cell(type_, value)


def connect_cell(type_: str, value: Any) -> str:
    """Debezium with adaptive times, precise decimals and unsigned BIGINT."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal) or type_ == "bigint unsigned":
        return quoted(_two_s_complement(Decimal(value)))
    if isinstance(value, datetime) and value.tzinfo is not None:
        return quoted(_clock(value.astimezone(UTC), type_).replace(" ", "T") + "Z")
    if isinstance(value, datetime):
        return str(_micros(value) // (1000 if _digits(type_) <= 3 else 1))
    if isinstance(value, date):
        return str((value - date(1970, 1, 1)).days)
    if isinstance(value, timedelta):
        return str(value // timedelta(microseconds=1))
    if isinstance(value, bytes):
        return quoted(base64.b64encode(value).decode())
    return str(value) if isinstance(value, int) else quoted(value)
