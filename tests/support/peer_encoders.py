"""One row change as Maxwell, GoldenGate and others send it: more for `tests.support.encoders`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from tests.support.changes import DB, TABLE, Change, Row, Wire, changed, image, object_
from tests.support.encoded_cells import ZONE, canal_cell, oms_cell, quoted
from tests.support.ticdc import batch

CLOCK = "%Y-%m-%d %H:%M:%S.000000"
MYSQL = {"dialect": "mysql"}


def native_cell(type_: str, value: Any) -> str:
    """Numbers as such, bytes in base64, zone-less date-times, JSON as it is."""
    if type_ == "json":
        return str(value)
    if isinstance(value, datetime):
        return canal_cell(type_, value)
    return oms_cell(type_, value)


def text_cell(type_: str, value: Any) -> str:
    """The same, JSON being text."""
    return quoted(value) if type_ == "json" else native_cell(type_, value)


def maxwell(change: Change) -> bytes:
    """Maxwell as it comes, without positions."""
    return _maxwell(change).encode()


def maxwell_positioned(change: Change) -> bytes:
    """Maxwell with output_binlog_position and output_primary_key_columns."""
    return _maxwell(
        change,
        position=quoted(f"binlog.000007:{4000 + change.number}"),
        primary_key_columns=f"[{','.join(map(quoted, change.keys))}]",
    ).encode()


def _maxwell(change: Change, **more: str) -> str:
    row: Row | None = change.after if change.after is not None else change.before
    old = changed(change)
    return object_(
        database=quoted(DB),
        table=quoted(TABLE),
        type=quoted(change.op),
        ts=str(change.seconds),
        xid=str(700 + change.number),
        commit="true",
        **more,
        data=image(row, change.columns, native_cell),
        old=None if old is None else image(old, change.columns, native_cell),
    )


def ogg(change: Change) -> bytes:
    """GoldenGate by operation, all columns logged."""
    time = quoted(datetime.fromtimestamp(change.seconds, ZoneInfo(ZONE)).strftime(CLOCK))
    return object_(
        table=quoted(f"{DB}.{TABLE}"),
        op_type=quoted(change.op[0].upper()),
        op_ts=time,
        current_ts=time,
        pos=f'"{change.number:020d}"',
        primary_keys=f"[{','.join(map(quoted, change.keys))}]",
        before=None if change.before is None else image(change.before, change.columns, text_cell),
        after=None if change.after is None else image(change.after, change.columns, text_cell),
    ).encode()


def dms_cell(type_: str, value: Any) -> str:
    """DMS: date-times in ISO form with a Z whatever their zone, bytes in hexadecimal."""
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo is not None else value
        return text_cell(type_, moment.replace(tzinfo=None)).replace(" ", "T")[:-1] + 'Z"'
    if isinstance(value, bytes):
        return quoted(f"0x{value.hex()}")
    return text_cell(type_, value)


def dms(change: Change) -> bytes:
    """DMS with before images of all columns and IncludeNullAndEmpty."""
    row = change.after if change.after is not None else change.before
    time = quoted(datetime.fromtimestamp(change.seconds, UTC).isoformat()[:19] + ".000000Z")
    metadata = {
        "timestamp": time,
        "record-type": '"data"',
        "operation": quoted(change.op),
        "schema-name": quoted(DB),
        "table-name": quoted(TABLE),
        "transaction-id": "7",
        "transaction-record-id": "1",
        "commit-timestamp": time,
    }
    before = change.before if change.op == "update" else None
    return object_(
        data=image(row, change.columns, dms_cell),
        metadata=object_(**metadata),
        **{"before-image": None if before is None else image(before, change.columns, dms_cell)},
    ).encode()


POSTGRES = {
    "int": "integer",
    "bigint unsigned": "numeric(20,0)",
    "datetime": "timestamp without time zone",
    "datetime(3)": "timestamp(3) without time zone",
    "datetime(6)": "timestamp(6) without time zone",
    "timestamp": "timestamp with time zone",
    "timestamp(6)": "timestamp(6) with time zone",
    "time(6)": "interval",
    "blob": "bytea",
    "varchar(200)": "character varying(200)",
}
"""MySQL types as PostgreSQL has them; decimals are numeric, the others the same."""


def postgres_type(type_: str) -> str:
    return POSTGRES.get(type_, type_.replace("decimal", "numeric"))


def postgres_cell(type_: str, value: Any) -> str:
    """wal2json: numbers as such, times as PostgreSQL prints them, bytea in hexadecimal."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime) and value.tzinfo is not None:
        return quoted(str(value.astimezone(ZoneInfo(ZONE))).removesuffix(":00"))
    if isinstance(value, datetime | timedelta):
        text = text_cell(type_, value)
        return text[:-1].rstrip("0").rstrip(".") + '"' if "." in text else text
    return quoted(value.hex()) if isinstance(value, bytes) else text_cell(type_, value)


def _columns(row: Row | None, columns: Mapping[str, str]) -> str | None:
    if row is None:
        return None
    cells = (
        object_(
            name=quoted(name),
            type=quoted(postgres_type(columns[name])),
            value="null" if value is None else postgres_cell(columns[name], value),
        )
        for name, value in row.items()
    )
    return f"[{','.join(cells)}]"


def wal2json(change: Change) -> bytes:
    """wal2json 2 of a table with REPLICA IDENTITY FULL, with include-pk and include-lsn."""
    return object_(
        action=quoted(change.op[0].upper()),
        xid="581",
        timestamp=quoted(f"{datetime.fromtimestamp(change.seconds, UTC)}"[:-3]),
        lsn=quoted(f"0/{0x17B3B50 + change.number:X}"),
        schema=quoted(DB),
        table=quoted(TABLE),
        columns=_columns(change.after, change.columns),
        identity=_columns(change.before, change.columns),
        pk=f"[{','.join(object_(name=quoted(k), type=quoted('integer')) for k in change.keys)}]",
    ).encode()


def wal2json_1(change: Change) -> bytes:
    """The same of version 1, a transaction of one change."""
    members: dict[str, str | None] = {}
    if change.after is not None:
        members |= _lists("column", change.after, change.columns)
    if change.before is not None:
        members["oldkeys"] = object_(**_lists("key", change.before, change.columns))
    sent = object_(
        kind=quoted(change.op),
        schema=quoted(DB),
        table=quoted(TABLE),
        **members,
        pk=object_(pknames=f"[{','.join(map(quoted, change.keys))}]"),
    )
    return object_(
        xid="581",
        nextlsn=quoted(f"0/{0x17B3B50 + change.number:X}"),
        timestamp=quoted(f"{datetime.fromtimestamp(change.seconds, UTC)}"[:-3]),
        change=f"[{sent}]",
    ).encode()


def _lists(what: str, row: Row, columns: Mapping[str, str]) -> dict[str, str | None]:
    values = (
        "null" if value is None else postgres_cell(columns[name], value)
        for name, value in row.items()
    )
    return {
        f"{what}names": f"[{','.join(map(quoted, row))}]",
        f"{what}types": f"[{','.join(quoted(postgres_type(columns[name])) for name in row)}]",
        f"{what}values": f"[{','.join(values)}]",
    }


TSO = 1_000 << 18
"""One second of TiDB's timestamps."""


def simple_cell(type_: str, value: Any) -> str:
    """TiCDC Simple: all text; a TIMESTAMP with its time zone, bytes in base64."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return object_(location=quoted(ZONE), value=text_cell(type_, value))
    text = text_cell(type_, value)
    return text if text.startswith('"') else quoted(text)


def ticdc_simple(change: Change) -> bytes:
    """TiCDC Simple, in JSON."""
    return object_(
        version="1",
        database=quoted(DB),
        table=quoted(TABLE),
        tableID="148",
        type=quoted(change.op.upper()),
        commitTs=str(change.seconds * TSO),
        buildTs=str(change.seconds * 1000 + 321),
        schemaVersion="447984074911121426",
        data=None if change.after is None else image(change.after, change.columns, simple_cell),
        old=None if change.before is None else image(change.before, change.columns, simple_cell),
    ).encode()


TICDC_TYPES = {
    "int": (3, 0x41),
    "bigint": (8, 0x41),
    "bigint unsigned": (8, 0xC1),
    "boolean": (1, 0x41),
    "date": (10, 0x41),
    "datetime": (12, 0x41),
    "datetime(3)": (12, 0x41),
    "datetime(6)": (12, 0x41),
    "timestamp": (7, 0x41),
    "timestamp(6)": (7, 0x41),
    "time(6)": (11, 0x41),
    "blob": (252, 0x41),
    "varchar(200)": (15, 0x40),
    "text": (252, 0x40),
    "json": (245, 0x41),
}
"""Type code and flags (binary, nullable, unsigned); decimals are 246."""


def open_cell(type_: str, value: Any) -> str:
    """TiCDC Open: numbers as such, decimals as text, large strings in base64."""
    if type_ == "text":
        return text_cell(type_, value.encode())
    return quoted(format(value, "f")) if isinstance(value, Decimal) else text_cell(type_, value)


def _open_row(row: Row | None, change: Change) -> str | None:
    if row is None:
        return None
    cells = []
    for name, value in row.items():
        type_ = change.columns[name]
        code, flags = TICDC_TYPES.get(type_, (246, 0x41))
        key = name in change.keys
        cells.append(
            f"{quoted(name)}:"
            + object_(
                t=str(code),
                h="true" if key else None,
                f=str(flags | (0x0B if key else 0)),
                v="null" if value is None else open_cell(type_, value),
            )
        )
    return f"{{{','.join(cells)}}}"


def ticdc_open(change: Change) -> bytes:
    """TiCDC Open, a batch of one event."""
    before, after = _open_row(change.before, change), _open_row(change.after, change)
    row = object_(d=before) if after is None else object_(u=after, p=before)
    return batch((b"{}", row.encode())).value or b""


def ticdc_open_key(change: Change) -> bytes:
    """The message key that goes with it."""
    key = object_(ts=str(change.seconds * TSO), scm=quoted(DB), tbl=quoted(TABLE), t="1")
    return batch((key.encode(), b"")).key or b""


WIRES = {
    "maxwell": Wire("maxwell", maxwell, typed=False, options={"order_key": "transaction"}),
    "maxwell_positioned": Wire("maxwell", maxwell_positioned, typed=False),
    "dms": Wire("dms", dms, typed=False, options={"null_and_empty": "included"}),
    "wal2json": Wire("wal2json", wal2json),
    "wal2json_1": Wire("wal2json", wal2json_1),
    "ticdc_simple": Wire("ticdc_simple", ticdc_simple, typed=False),
    "ticdc_open": Wire("ticdc_open", ticdc_open, key=ticdc_open_key),
    "ogg": Wire("ogg", ogg, typed=False, options=MYSQL | {"supplemental_logging": "all"}),
}
