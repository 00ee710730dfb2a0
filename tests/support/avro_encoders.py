"""One row change as DTS and OceanBase send it: more producers for `tests.support.encoders`."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro

from tests.support.avro_schemas import DTS_14, DTS_15, OB, OB_IMAGE
from tests.support.changes import DB, TABLE, Change, Row, Wire

NUMBERS = {
    **{"int": 3, "bigint": 8, "bigint unsigned": 8, "boolean": 1, "date": 10, "datetime": 12},
    **{"timestamp": 7, "time": 11, "blob": 252, "text": 252, "varchar": 253, "json": 245},
    **{"decimal": 246},
}
"""MySQL's numbers of the types that changes have."""
Value = Any


def number_of(type_: str) -> int:
    return NUMBERS[type_ if type_ in NUMBERS else type_.split("(")[0]]


def written(schema: Any, given: Any) -> bytes:
    """One datum."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, given)
    return stream.getvalue()


def _precision(type_: str) -> tuple[int, int]:
    precision, _, scale = type_.removesuffix(")").partition("(")[2].partition(",")
    return int(precision), int(scale or 0)


def _since_epoch(value: datetime) -> tuple[int, int]:
    """Seconds since the epoch and microseconds."""
    return divmod((value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1), 10**6)


def dts_value(type_: str, value: Any) -> Value:
    """A value as MySQL's DTS sends it, in fastavro's form of a union."""
    if value is None:
        return None
    if isinstance(value, bool | int):
        return "Integer", {"precision": 8, "value": str(int(value))}
    if isinstance(value, Decimal):
        precision, scale = _precision(type_)
        return "Decimal", {"value": format(value, "f"), "precision": precision, "scale": scale}
    if isinstance(value, datetime) and value.tzinfo is not None:
        seconds, micros = _since_epoch(value)
        return "Timestamp", {"timestamp": seconds, "millis": micros}
    if isinstance(value, date):
        parts = dict(zip(("year", "month", "day"), value.timetuple()[:3], strict=True))
        if isinstance(value, datetime):
            parts |= {"hour": value.hour, "minute": value.minute, "second": value.second}
            parts["millis"] = value.microsecond
        return "DateTime", parts
    if isinstance(value, timedelta):
        sign = -1 if value < timedelta() else 1
        seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 10**6)
        clock = (seconds // 3600, seconds // 60 % 60, seconds % 60, micros)
        names = ("hour", "minute", "second", "millis")
        return "DateTime", dict(zip(names, (sign * part for part in clock), strict=True))
    if isinstance(value, bytes):
        return "BinaryObject", {"type": "BLOB", "value": value}
    if type_ == "json":
        return "TextObject", {"type": "JSON", "value": value}
    return "Character", {"charset": "utf8mb4", "value": str(value).encode()}


def dts_record(**given: Any) -> dict[str, Any]:
    """A record of MySQL, of which `given` says more."""
    return {
        "version": 0,
        "id": 1,
        "sourceTimestamp": 0,
        "sourcePosition": "4000@7",
        "safeSourcePosition": "4@7",
        "sourceTxid": "0",
        "source": {"sourceType": "MySQL", "version": "8.0.36"},
        "operation": "INSERT",
        "objectName": None,
        "processTimestamps": None,
        "tags": {},
        "fields": None,
        "beforeImages": None,
        "afterImages": None,
        "bornTimestamp": 0,
        **given,
    }


def _dts(change: Change) -> dict[str, Any]:
    columns = list(change.columns)

    def image(row: Row | None) -> list[Value] | None:
        if row is None:
            return None
        return [
            dts_value(change.columns[name], row[name]) if name in row else "NONE"
            for name in columns
        ]

    return dts_record(
        id=70_000 + change.number,
        sourceTimestamp=change.seconds,
        sourcePosition=f"{4000 + change.number}@7",
        operation=change.op.upper(),
        objectName=f"{DB}.{TABLE}",
        tags={
            "pk_uk_info": json.dumps({"PRIMARY": list(change.keys)}),
            "readerThroughoutTime": str(change.seconds * 1000 + 321),
        },
        fields=[
            {"name": name, "dataTypeNumber": number_of(change.columns[name])} for name in columns
        ],
        beforeImages=image(change.before),
        afterImages=image(change.after),
        bornTimestamp=change.seconds,
    )


def _sent(change: Change) -> list[str]:
    """The columns that the change's rows have."""
    row = change.after if change.after is not None else change.before or {}
    return list(row)


def dts(change: Change) -> bytes:
    """Aliyun DTS, with bornTimestamp."""
    return written(DTS_15, _dts(change))


def dts_older(change: Change) -> bytes:
    """Aliyun DTS before it had bornTimestamp."""
    return written(DTS_14, _dts(change))


def ob_value(type_: str, value: Any) -> dict[str, Value]:
    """A ColumnValue of OceanBase's MySQL mode."""
    info, payload = _ob(type_, value)
    return {"type_info": info, "value": payload}


def _ob(type_: str, value: Any) -> tuple[str, Value]:
    if value is None:
        return "NULL", None
    if isinstance(value, bool):
        return "INTEGER", ("int", int(value))
    if isinstance(value, int) and type_ != "bigint unsigned":
        return ("INTEGER", ("int", value)) if type_ == "int" else ("LONG", ("long", value))
    if isinstance(value, Decimal | int):
        precision, scale = (20, 0) if isinstance(value, int) else _precision(type_)
        digits = {"precision": precision, "scale": scale, "value": str(value)}
        return "DECIMAL", ("DecimalObject", digits)
    if isinstance(value, datetime) and value.tzinfo is not None:
        seconds, micros = _since_epoch(value)
        parts = {"seconds": seconds, "nanos": micros * 1000, "timezone": None}
        return "TIMESTAMP", ("TimestampObject", parts)
    if isinstance(value, date):
        days = dict(zip(("year", "month", "day"), value.timetuple()[:3], strict=True))
        if not isinstance(value, datetime):
            return "DATE", ("DateObject", days)
        clock = {"hours": value.hour, "minutes": value.minute, "seconds": value.second}
        nanos = {"nanos": value.microsecond * 1000}
        return "DATETIME", ("DateTimeObject", {**days, **clock, **nanos})
    if isinstance(value, timedelta):
        seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 10**6)
        clock = {"hours": seconds // 3600, "minutes": seconds // 60 % 60, "seconds": seconds % 60}
        sign = {"negative": value < timedelta(), "nanos": micros * 1000}
        return "TIME", ("TimeObject", {**clock, **sign})
    if isinstance(value, bytes):
        return "BINARY", ("bytes", value)
    return "STRING", ("StringObject", {"charsetName": "utf8mb4", "value": str(value)})


def ob_record(**given: Any) -> dict[str, Any]:
    """A record of OceanBase's MySQL mode, of which `given` says more."""
    return {
        "id": 1,
        "version": 1,
        "operation": "INSERT",
        "xid": None,
        "txind": None,
        "position": None,
        "timestamp": None,
        "source": {"sourceType": "OB_MYSQL", "version": "4.3.5"},
        "schemaName": None,
        "tableName": None,
        "fields": None,
        "pkIndexes": None,
        "ukIndexes": None,
        "beforeImages": None,
        "afterImages": None,
        "sql": None,
        "tags": None,
        "total": -1,
        "index": -1,
        "beforeImageBytes": b"",
        "afterImageBytes": b"",
        **given,
    }


def ob_change(change: Change) -> dict[str, Any]:
    """The record of a change."""
    columns = _sent(change)

    def image(row: Row | None) -> list[dict[str, Value]] | None:
        if row is None:
            return None
        return [ob_value(change.columns[name], row[name]) for name in columns]

    return ob_record(
        id=70_000 + change.number,
        operation=change.op.upper(),
        xid="tx7",
        txind="M",
        position=f"{4000 + change.number}@7",
        timestamp=change.seconds,
        schemaName=DB,
        tableName=TABLE,
        fields=[
            {"name": name, "dataTypeNumber": number_of(change.columns[name])} for name in columns
        ],
        pkIndexes=[columns.index(key) for key in change.keys if key in columns],
        beforeImages=image(change.before),
        afterImages=image(change.after),
    )


def ob_avro(change: Change) -> bytes:
    """OceanBase's AvroRecord, bare."""
    return written(OB, ob_change(change))


def ob_avro_confluent(change: Change) -> bytes:
    """AvroRecord in Confluent's framing."""
    return b"\0\0\0\0\x15" + ob_avro(change)


def ob_avro_json(change: Change) -> bytes:
    """AvroRecord in Avro's JSON encoding."""
    return in_json(ob_change(change))


_UNIONS = {
    **{"version": "int", "operation": "Operation", "xid": "string", "txind": "TxindType"},
    **{"position": "string", "timestamp": "long", "source": "Source", "schemaName": "string"},
    **{"tableName": "string", "fields": "array", "pkIndexes": "array", "ukIndexes": "array"},
    **{"beforeImages": "array", "afterImages": "array", "sql": "string", "tags": "map"},
}
_SPACE = "com.oceanbase.subscription."
"""Some namespace: no reader may depend on which."""


def in_json(given: Mapping[str, Any]) -> bytes:
    """A record in Avro's JSON encoding: each union an object of its branch."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        elif name.endswith("Images") and value is not None:
            value = [{**item, "value": _json_value(item["value"])} for item in value]
        branch = _UNIONS.get(name)
        if branch is not None and value is not None:
            value = {_SPACE + branch if branch[0].isupper() else branch: value}
        found[name] = value
    return json.dumps(found, ensure_ascii=False).encode()


def _json_value(value: Value) -> Any:
    if value is None:
        return None
    branch, payload = value
    if isinstance(payload, float) and not math.isfinite(payload):
        return {branch: {"nan": "NaN", "inf": "Infinity"}.get(str(payload), "-Infinity")}
    if isinstance(payload, bytes):
        return {branch: payload.decode("latin-1")}
    if isinstance(payload, dict):
        payload = dict(payload)
        for name, named in (("timezone", "string"), ("defines", "array")):
            if payload.get(name) is not None:
                payload[name] = {named: payload[name]}
        if "wkb" in payload:
            payload["wkb"] = payload["wkb"].decode("latin-1")
    return {_SPACE + branch if branch[0].isupper() else branch: payload}


def kcat(value: bytes, offset: int, **more: Any) -> str:
    """A message as a line of kcat, for a golden folder."""
    line = {"topic": "t", "partition": 0, "offset": offset, "ts": 1_700_000_000_000, **more}
    return json.dumps({**line, "payload_hex": value.hex()})


def ob_shards(
    label: str, count: int, *, first: int = 0, start: int = 50, **given: Any
) -> list[bytes]:
    """An insert of the row (7, label) in `count` shards: indexes from `first`, ids from `start`."""
    text = {"type_info": "STRING", "value": ("string", label)}
    data = written(OB_IMAGE, [{"type_info": "LONG", "value": ("long", 7)}, text])
    fields = [{"name": name, "dataTypeNumber": 8} for name in ("id", "label")]
    return [
        written(
            OB,
            ob_record(
                **{
                    "id": start + number,
                    "xid": "t1",
                    "timestamp": 1_700_000_000,
                    "schemaName": DB,
                    "tableName": TABLE,
                    "fields": fields if number == 0 else None,
                    "pkIndexes": [0] if number == 0 else None,
                    "total": count,
                    "index": first + number,
                    "afterImageBytes": data[
                        len(data) * number // count : len(data) * (number + 1) // count
                    ],
                    **given,
                }
            ),
        )
        for number in range(count)
    ]


WIRES = {
    "dts": Wire("dts", dts),
    "dts_older": Wire("dts", dts_older),
    "dts_declared": Wire("dts", dts, typed=False),
    "ob_avro": Wire("ob_avro", ob_avro),
    "ob_avro_confluent": Wire("ob_avro", ob_avro_confluent),
    "ob_avro_json": Wire("ob_avro", ob_avro_json),
    "ob_avro_declared": Wire("ob_avro", ob_avro, typed=False),
}
