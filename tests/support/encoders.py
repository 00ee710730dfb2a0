"""One row change as each wire format sends it: small producers, written from the vendors' pages.

`WIRES` holds a producer per format and flavour. JSON is put together from tokens, so that numbers
keep their digits.
"""

from __future__ import annotations

import json
from datetime import datetime
from zoneinfo import ZoneInfo

from tests.support import avro_encoders, connect_avro_wires, peer_encoders
from tests.support.changes import (
    DB,
    TABLE,
    Cell,
    Change,
    Row,
    Wire,
    changed,
    image,
    object_,
    texts,
)
from tests.support.encoded_cells import (
    ZONE,
    canal_cell,
    connect_cell,
    oms_cell,
    quoted,
    streamx_cell,
    type_names,
)


def canal(change: Change) -> bytes:
    """Alibaba Canal's FlatMessage."""
    row = change.after if change.after is not None else change.before
    old = changed(change)
    return object_(
        id="7",
        database=quoted(DB),
        table=quoted(TABLE),
        pkNames=texts(*change.keys),
        isDdl="false",
        type=quoted(change.op.upper()),
        es=str(change.seconds * 1000),
        ts=str(change.seconds * 1000 + 321),
        sql='""',
        sqlType="null",
        mysqlType=json.dumps(dict(change.columns)),
        data=f"[{image(row, change.columns, canal_cell)}]",
        old="null" if old is None else f"[{image(old, change.columns, canal_cell)}]",
    ).encode()


def canal_of_oms(change: Change) -> bytes:
    """Canal as OMS writes it: no id, bare type names, native numbers."""
    row = change.after if change.after is not None else change.before
    old = changed(change)
    return object_(
        database=quoted(DB),
        table=quoted(TABLE),
        pkNames=texts(*change.keys),
        isDdl="false",
        type=quoted(change.op.upper()),
        es=str(change.seconds * 1000),
        ts=str(change.seconds * 1000 + 321),
        sql='""',
        mysqlType=json.dumps({n: type_names(t).oms.lower() for n, t in change.columns.items()}),
        data=f"[{image(row, change.columns, oms_cell)}]",
        old="null" if old is None else f"[{image(old, change.columns, oms_cell)}]",
    ).encode()


def cloudcanal(change: Change) -> bytes:
    """CloudCanal JSON."""
    row = change.after if change.after is not None else change.before
    before = change.before if change.op == "update" else None
    return object_(
        action=quoted(change.op.upper()),
        bid="0",
        before="[]" if before is None else f"[{image(before, change.columns, canal_cell)}]",
        data=f"[{image(row, change.columns, canal_cell)}]",
        db=quoted(DB),
        schema=quoted(DB),
        table=quoted(TABLE),
        dbValType=json.dumps(dict(change.columns)),
        entryType='"ROWDATA"',
        isDdl="false",
        pks=texts(*change.keys),
        execTs=str(change.seconds * 1000),
        sendTs=str(change.seconds * 1000 + 321),
        sql='""',
    ).encode()


def oms_default(change: Change) -> bytes:
    """OMS Default."""
    return _oms_default(change, oms_cell, light=False)


def oms_default_extend(change: Change) -> bytes:
    """OMS DefaultExtendColumnType: the types stand in the images."""
    return _oms_default(change, oms_cell, light=True)


def _oms_default(change: Change, cell: Cell, *, light: bool) -> bytes:
    types = {name: {"schemaType": type_names(text).oms} for name, text in change.columns.items()}

    def side(row: Row | None) -> str:
        text = image(row, change.columns, cell)
        if row is None or not light:
            return text
        return f'{text[:-1]},"__light_type":{json.dumps(types)}}}'

    row = change.after if change.after is not None else change.before or {}
    return object_(
        prevStruct=side(change.before),
        postStruct=side(change.after),
        allMetaData=object_(
            checkpoint="null",
            record_primary_key=json.dumps("\x01".join(change.keys)),
            record_primary_value=json.dumps("\x01".join(str(row.get(k)) for k in change.keys)),
            source_identity='"crops"',
            dbType='"MYSQL"',
            storeDataSequence=f'"{change.seconds}00001"',
            table_name=quoted(TABLE),
            db=quoted(DB),
            timestamp=f'"{change.seconds}"',
            uniqueId="null",
        ),
        recordType=quoted(change.op.upper()),
    ).encode()


def oms_dataworks(change: Change) -> bytes:
    """OMS DataWorks V2.0."""
    columns = [
        {"name": name, "type": type_names(text).oms} for name, text in change.columns.items()
    ]

    def side(row: Row | None) -> str:
        return "null" if row is None else object_(data=image(row, change.columns, oms_cell))

    return object_(
        version='"2.0"',
        schema=object_(
            source=json.dumps({"dbType": "MySQL", "dbName": DB, "schema": None, "table": TABLE}),
            column=json.dumps(columns),
            pk=texts(*change.keys),
        ),
        payload=object_(
            before=side(change.before),
            after=side(change.after),
            op=quoted(change.op.upper()),
            timestamp=json.dumps(
                {"eventTime": change.seconds * 1000, "systemTime": change.seconds * 1000 + 321}
            ),
            ddl="null",
            scn=f'"{change.number}"',
        ),
        extend='{"load_fm":"test"}',
    ).encode()


def oms_shareplex(change: Change) -> bytes:
    """OMS SharePlex: an update sends what changed in `data`, the row before in `key`."""
    data = change.after if change.after is not None else change.before or {}
    key = None
    if change.op == "update":
        key = image(change.before, change.columns, oms_cell)
        before = change.before or {}
        data = {n: v for n, v in data.items() if n not in before or before[n] != v}
    time = quoted(datetime.fromtimestamp(change.seconds, ZoneInfo(ZONE)).isoformat()[:19])
    return object_(
        data=image(data, change.columns, oms_cell),
        meta=object_(
            time=time,
            op=quoted(change.op[:3]),
            posttime=time,
            idx='"1/1"',
            size="1",
            seq="1",
            table=quoted(f"{DB}.{TABLE}"),
            rowid=None,
            trans='"t7"',
            scn=f'"{change.seconds}00001"',
        ),
        key=key,
    ).encode()


def dataworks(change: Change) -> bytes:
    """DataWorks (StreamX) 1.0.0, updates as one message."""
    columns = [{"name": n, "type": type_names(t).streamx} for n, t in change.columns.items()]

    def side(row: Row | None) -> str:
        if row is None:
            return "null"
        return object_(dataColumn=image(row, change.columns, streamx_cell))

    return object_(
        schema=object_(
            dataColumn=json.dumps(columns),
            primaryKey=texts(*change.keys),
            source=json.dumps({"dbType": "MySQL", "dbName": DB, "tableName": TABLE}),
        ),
        payload=object_(
            before=side(change.before),
            after=side(change.after),
            sequenceId=f'"{change.seconds}{change.number:09d}"',
            op='"UPDATE_AFTER"' if change.op == "update" else quoted(change.op.upper()),
            timestamp=json.dumps(
                {"eventTime": change.seconds * 1000, "systemTime": change.seconds * 1000 + 321}
            ),
            ddl="null",
        ),
        version='"1.0.0"',
    ).encode()


def debezium(change: Change) -> bytes:
    """Debezium with Connect's schema (schemas.enable=true)."""
    row = {
        "type": "struct",
        "fields": [
            {
                "type": connect,
                "optional": name not in change.keys,
                **({"name": semantic, "version": 1} if semantic else {}),
                **({"parameters": parameters} if parameters else {}),
                "field": name,
            }
            for name, text in change.columns.items()
            for connect, semantic, parameters in [type_names(text).connect]
        ],
        "optional": True,
        "name": "farm.farm.crop.Value",
    }
    fields = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        {"type": "struct", "fields": [], "optional": False, "field": "source"},
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ]
    schema = {"type": "struct", "fields": fields, "name": "farm.farm.crop.Envelope"}
    return object_(schema=json.dumps(schema), payload=_envelope(change)).encode()


def debezium_schemaless(change: Change) -> bytes:
    """Debezium with schemas.enable=false."""
    return _envelope(change).encode()


def _envelope(change: Change) -> str:
    source = {
        "version": "3.6.3.Final",
        "connector": "mysql",
        "name": "farm",
        "ts_ms": change.seconds * 1000,
        "snapshot": "false",
        "db": DB,
        "table": TABLE,
        "server_id": 5,
        "gtid": None,
        "file": "binlog.000007",
        "pos": 4000 + change.number,
        "row": 0,
    }
    return object_(
        before=image(change.before, change.columns, connect_cell),
        after=image(change.after, change.columns, connect_cell),
        source=json.dumps(source),
        op=quoted({"insert": "c", "update": "u", "delete": "d"}[change.op]),
        ts_ms=str(change.seconds * 1000 + 321),
        transaction="null",
    )


WIRES = {
    "canal": Wire("canal", canal),
    "canal_of_oms": Wire("canal", canal_of_oms),
    "cloudcanal": Wire("cloudcanal", cloudcanal),
    "oms_default": Wire("oms_default", oms_default, typed=False),
    "oms_default_extend": Wire("oms_default", oms_default_extend),
    "oms_dataworks": Wire("oms_dataworks", oms_dataworks),
    "oms_shareplex": Wire("oms_shareplex", oms_shareplex, typed=False),
    "dataworks": Wire("dataworks", dataworks),
    "dataworks_declared": Wire("dataworks", dataworks, typed=False),
    "debezium": Wire("debezium", debezium),
    "debezium_schemaless": Wire("debezium", debezium_schemaless, typed=False),
    **connect_avro_wires.wires(debezium),
    **peer_encoders.WIRES,
    **avro_encoders.WIRES,
}
