"""The generator's changes as messages of five formats, and how Spark's `from_json` reads each.

The schemas ask of Spark what a decoder has to know: the envelope, both images by column, and where
a format carries types, the types.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

import orjson

from tests.bench.generator import Change, Row

UNAVAILABLE = "__debezium_unavailable_value"
_SPLIT = 10_000_000


class Wire(NamedTuple):
    """A format: its name in the product, a change as its message, the schema for `from_json`."""

    format: str
    render: Callable[[Change], bytes]
    schema: str


COLUMNS = {
    "id": "bigint",
    "order_no": "varchar(32)",
    "customer_id": "bigint",
    "status": "varchar(16)",
    "amount": "decimal(12,2)",
    "quantity": "int",
    "city": "varchar(64)",
    "email": "varchar(128)",
    "note": "varchar(400)",
    "created_at": "datetime(3)",
    "updated_at": "datetime(3)",
}
_SQL_TYPES = {"bigint": -5, "int": 4, "varchar": 12, "decimal": 3, "datetime": 93}
_MAP = "map<string,string>"


def debezium(change: Change) -> bytes:
    """Debezium of MySQL without schema, decimals as text."""
    return orjson.dumps(_debezium(change, _plain))


def debezium_with_schema(change: Change) -> bytes:
    """Debezium of MySQL with the schema that Kafka Connect's converter puts around it."""
    payload = orjson.dumps(_debezium(change, _connect))
    return b'{"schema":' + _connect_schema(change.table) + b',"payload":' + payload + b"}"


def _debezium(change: Change, image: Callable[[Row], dict[str, Any]]) -> dict[str, Any]:
    after = None if change.after is None else image(change.after)
    if change.partial and after is not None:
        after["note"] = UNAVAILABLE
    return {
        "before": None if change.before is None else image(change.before),
        "after": after,
        "source": {
            "version": "3.0.8.Final",
            "connector": "mysql",
            "name": "shop",
            "ts_ms": change.time_ms,
            "snapshot": "false",
            "db": "shop",
            "sequence": None,
            "table": change.table,
            "server_id": 223344,
            "gtid": None,
            "file": f"mysql-bin.{1 + change.pos // _SPLIT:06d}",
            "pos": 4 + change.pos % _SPLIT,
            "row": 0,
            "thread": 41,
            "query": None,
        },
        "transaction": None,
        "op": change.op,
        "ts_ms": change.time_ms + 40,
    }


def _plain(row: Row) -> dict[str, Any]:
    return {**row._asdict(), "amount": _decimal(row.amount)}


def _connect(row: Row) -> dict[str, Any]:
    size = row.amount.bit_length() // 8 + 1
    unscaled = row.amount.to_bytes(size, "big", signed=True)
    return {**row._asdict(), "amount": base64.b64encode(unscaled).decode()}


def _decimal(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


@cache
def _connect_schema(table: str) -> bytes:
    row = [_connect_field(name, type_) for name, type_ in COLUMNS.items()]
    source = [
        {"type": type_, "optional": optional, "field": name}
        for name, type_, optional in (
            ("version", "string", False),
            ("connector", "string", False),
            ("name", "string", False),
            ("ts_ms", "int64", False),
            ("snapshot", "string", True),
            ("db", "string", False),
            ("sequence", "string", True),
            ("table", "string", True),
            ("server_id", "int64", False),
            ("gtid", "string", True),
            ("file", "string", False),
            ("pos", "int64", False),
            ("row", "int32", False),
            ("thread", "int64", True),
            ("query", "string", True),
        )
    ]
    image = {"type": "struct", "fields": row, "optional": True, "name": f"shop.shop.{table}.Value"}
    block = [
        {"type": "struct", "fields": source, "optional": False, "field": "source"},
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ]
    return orjson.dumps(
        {
            "type": "struct",
            "fields": [{**image, "field": "before"}, {**image, "field": "after"}, *block],
            "optional": False,
            "name": f"shop.shop.{table}.Envelope",
            "version": 2,
        }
    )


def _connect_field(name: str, type_: str) -> dict[str, Any]:
    field: dict[str, Any] = {"optional": name != "id", "field": name}
    if type_.startswith("decimal"):
        parameters = {"scale": "2", "connect.decimal.precision": "12"}
        named = {"name": "org.apache.kafka.connect.data.Decimal", "version": 1}
        return {"type": "bytes", **named, "parameters": parameters, **field}
    if type_.startswith("datetime"):
        return {"type": "int64", "name": "io.debezium.time.Timestamp", "version": 1, **field}
    return {"type": {"bigint": "int64", "int": "int32"}.get(type_, "string"), **field}


def canal(change: Change) -> bytes:
    """Canal, flat: everything text, `old` with what changed."""
    image = _texts(change.after or change.before)
    old = None
    if change.op == "u":
        before = _texts(change.before)
        old = [{name: value for name, value in before.items() if image[name] != value}]
    return orjson.dumps(
        {
            "data": [image],
            "database": "shop",
            "es": change.time_ms,
            "id": change.pos,
            "isDdl": False,
            "mysqlType": COLUMNS,
            "old": old,
            "pkNames": ["id"],
            "sql": "",
            "sqlType": {name: _SQL_TYPES[type_.split("(")[0]] for name, type_ in COLUMNS.items()},
            "table": change.table,
            "ts": change.time_ms + 40,
            "type": {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[change.op],
        }
    )


def _texts(row: Row | None) -> dict[str, str]:
    assert row is not None
    return {
        **{name: str(value) for name, value in row._asdict().items()},
        "amount": _decimal(row.amount),
        "created_at": _date_time(row.created_at),
        "updated_at": _date_time(row.updated_at),
    }


def _date_time(ms: int) -> str:
    return (
        datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") + f".{ms % 1000:03d}"
    )


def dataworks(change: Change) -> bytes:
    """DataWorks 0.0.1: types beside the images, decimals as text."""

    def side(row: Row | None) -> dict[str, Any] | None:
        return None if row is None else {"dataColumn": _plain(row)}

    return orjson.dumps(
        {
            "schema": {
                "dataColumn": [
                    {"name": name, "type": _stream_type(type_)} for name, type_ in COLUMNS.items()
                ],
                "primaryKey": ["id"],
                "source": {"dbType": "MySQL", "dbName": "shop", "tableName": change.table},
            },
            "payload": {
                "before": side(change.before),
                "after": side(change.after),
                "sequenceId": str(change.pos),
                "timestamp": {
                    "eventTime": change.time_ms,
                    "systemTime": change.time_ms + 40,
                    "checkpointTime": change.time_ms,
                },
                "op": {"c": "INSERT", "u": "UPDATE_AFTER", "d": "DELETE"}[change.op],
                "ddl": None,
            },
            "version": "0.0.1",
        }
    )


def _stream_type(type_: str) -> str:
    kinds = {"bigint": "LONG", "int": "LONG", "datetime": "DATE"}
    return kinds.get(type_.split("(")[0], "STRING")


def oms_default(change: Change) -> bytes:
    """OMS Default: typed JSON values, times as text, no types."""

    def image(row: Row | None) -> dict[str, Any] | None:
        if row is None:
            return None
        texts = _texts(row)
        return {**_plain(row), **{name: texts[name] for name in ("created_at", "updated_at")}}

    row = change.after or change.before
    assert row is not None
    return orjson.dumps(
        {
            "prevStruct": image(change.before),
            "postStruct": image(change.after),
            "allMetaData": {
                "checkpoint": str(change.time_ms // 1000),
                "record_primary_key": "id",
                "source_identity": "OB_MYSQL_np_1_1-1-0",
                "record_primary_value": str(row.id),
                "dbType": "OB_MYSQL",
                "storeDataSequence": change.time_ms * 100_000 + change.pos % 100_000,
                "table_name": change.table,
                "db": "tenant.shop",
                "timestamp": str(change.time_ms // 1000),
                "uniqueId": f"1001_7_{change.pos}",
            },
            "recordType": {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[change.op],
        }
    )


_SOURCE = (
    "struct<version:string,"
    "connector:string,name:string,ts_ms:bigint,snapshot:string,db:string,`table`:string,"
    "server_id:bigint,gtid:string,file:string,pos:bigint,`row`:int>"
)
_DEBEZIUM = f"before {_MAP}, after {_MAP}, op string, ts_ms bigint, source {_SOURCE}"
_FIELD = "field:string,type:string,name:string,optional:boolean,parameters:map<string,string>"

WIRES = {
    "dataworks": Wire(
        "dataworks",
        dataworks,
        "schema struct<dataColumn:array<struct<name:string,type:string>>,primaryKey:array<string>,"
        "source:struct<dbType:string,dbName:string,tableName:string>>, version string, "
        f"payload struct<before:struct<dataColumn:{_MAP}>,after:struct<dataColumn:{_MAP}>,"
        "sequenceId:string,timestamp:struct<eventTime:bigint,systemTime:bigint,"
        "checkpointTime:bigint>,op:string,ddl:struct<text:string>>",
    ),
    "debezium_schema": Wire(
        "debezium",
        debezium_with_schema,
        f"schema struct<fields:array<struct<{_FIELD},fields:array<struct<{_FIELD}>>>>>, "
        f"payload struct<before:{_MAP},after:{_MAP},op:string,ts_ms:bigint,source:{_SOURCE}>",
    ),
    "canal": Wire(
        "canal",
        canal,
        f"data array<{_MAP}>, old array<{_MAP}>, database string, `table` string, type string, "
        f"es bigint, ts bigint, id bigint, isDdl boolean, sql string, pkNames array<string>, "
        f"mysqlType {_MAP}, sqlType map<string,int>",
    ),
    "debezium": Wire("debezium", debezium, _DEBEZIUM),
    "oms_default": Wire(
        "oms_default",
        oms_default,
        f"prevStruct {_MAP}, postStruct {_MAP}, recordType string, allMetaData struct<"
        "checkpoint:string,record_primary_key:string,source_identity:string,"
        "record_primary_value:string,dbType:string,storeDataSequence:string,table_name:string,"
        "db:string,timestamp:string,uniqueId:string>",
    ),
}
