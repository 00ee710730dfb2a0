"""The Avro schemas of the binary formats, as the tests' producers write them."""

from __future__ import annotations

from typing import Any

import fastavro

Schema = Any


def record(name: str, /, **fields: Schema) -> Schema:
    """A record type of fields and their types."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": type_} for field, type_ in fields.items()],
    }


def symbols(name: str, words: str) -> Schema:
    """An enum type of the symbols in `words`."""
    return {"type": "enum", "name": name, "symbols": words.split()}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def maybe(type_: Schema) -> Schema:
    return ["null", type_]


_DTS_VALUE = [
    "null",
    record("Integer", precision="int", value="string"),
    record("Character", charset="string", value="bytes"),
    record("Decimal", value="string", precision="int", scale="int"),
    record("Float", value="double", precision="int", scale="int"),
    record("Timestamp", timestamp="long", millis="int"),
    record(
        "DateTime",
        year=maybe("int"),
        month=maybe("int"),
        day=maybe("int"),
        hour=maybe("int"),
        minute=maybe("int"),
        second=maybe("int"),
        millis=maybe("int"),
    ),
    record("TimestampWithTimeZone", value="DateTime", timezone="string"),
    record("BinaryGeometry", type="string", value="bytes"),
    record("TextGeometry", type="string", value="string"),
    record("BinaryObject", type="string", value="bytes"),
    record("TextObject", type="string", value="string"),
    symbols("EmptyObject", "NULL NONE"),
]
_DTS_NAMES = [item if isinstance(item, str) else item["name"] for item in _DTS_VALUE]
_DTS_FIELDS = {
    "version": "int",
    "id": "long",
    "sourceTimestamp": "long",
    "sourcePosition": "string",
    "safeSourcePosition": "string",
    "sourceTxid": "string",
    "source": record(
        "Source",
        sourceType=symbols(
            "SourceType",
            "MySQL Oracle SQLServer PostgreSQL MongoDB Redis DB2 PPAS DRDS HBASE HDFS FILE OTHER",
        ),
        version="string",
    ),
    "operation": symbols(
        "Operation",
        "INSERT UPDATE DELETE DDL BEGIN COMMIT ROLLBACK ABORT HEARTBEAT CHECKPOINT COMMAND FILL "
        "FINISH CONTROL RDB NOOP INIT",
    ),
    "objectName": maybe("string"),
    "processTimestamps": maybe(array("long")),
    "tags": {"type": "map", "values": "string"},
    "fields": ["null", "string", array(record("Field", name="string", dataTypeNumber="int"))],
    "beforeImages": ["null", "string", array(_DTS_VALUE)],
    "afterImages": ["null", "string", array(_DTS_NAMES)],
}
DTS_14 = fastavro.parse_schema(record("Record", **_DTS_FIELDS))
DTS_15 = fastavro.parse_schema(record("Record", **_DTS_FIELDS, bornTimestamp="long"))

_OB_VALUE = [
    *("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
    record("StringObject", charsetName="string", value="string"),
    record("DecimalObject", precision="int", scale="int", value="string"),
    record("DateObject", year="int", month="int", day="int"),
    record(
        "TimeObject", negative="boolean", hours="int", minutes="int", seconds="int", nanos="int"
    ),
    record(
        "DateTimeObject",
        **dict.fromkeys(("year", "month", "day", "hours", "minutes", "seconds", "nanos"), "int"),
    ),
    record("TimestampObject", seconds="long", nanos="int", timezone=maybe("string")),
    record("BitObject", bit_length="int", value="string"),
    record("EnumSetValue", value="string", defines=maybe(array("string"))),
    record("GeometryValue", srid="int", wkb="bytes"),
]
_OB_COLUMN = record(
    "ColumnValue",
    type_info=symbols(
        "DataType",
        "NULL INTEGER LONG FLOAT DOUBLE DECIMAL STRING BINARY TIMESTAMP DATE TIME DATETIME BOOLEAN "
        "BIT GEOMETRY RAW ENUM SET ARRAY VECTOR SPARSE_VECTOR ROARINGBITMAP MAP",
    ),
    value=_OB_VALUE,
)
OB_FIELDS = {
    "id": "long",
    "version": ["int"],
    "operation": maybe(symbols("Operation", "INSERT UPDATE DELETE DDL BEGIN COMMIT HEARTBEAT")),
    "xid": maybe("string"),
    "txind": maybe(symbols("TxindType", "B M E W")),
    "position": maybe("string"),
    "timestamp": maybe("long"),
    "source": maybe(
        record("Source", sourceType=symbols("SourceType", "OB_MYSQL OB_ORACLE"), version="string")
    ),
    "schemaName": maybe("string"),
    "tableName": maybe("string"),
    "fields": maybe(array(record("Field", name="string", dataTypeNumber="int"))),
    "pkIndexes": maybe(array("int")),
    "ukIndexes": maybe(array(array("int"))),
    "beforeImages": maybe(array(_OB_COLUMN)),
    "afterImages": maybe(array("ColumnValue")),
    "sql": maybe("string"),
    "tags": maybe({"type": "map", "values": "string"}),
    "total": "int",
    "index": "int",
    "beforeImageBytes": "bytes",
    "afterImageBytes": "bytes",
}
OB_SCHEMA = record("AvroRecord", **OB_FIELDS)
OB = fastavro.parse_schema(OB_SCHEMA)
OB_IMAGE = fastavro.parse_schema(array(_OB_COLUMN))
