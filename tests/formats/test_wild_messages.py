"""Messages as producers send them beyond their specifications, each with what is right."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ingest.codes import Code
from ingest.config.sources import Source
from ingest.ddl.dialect import guess_dialect
from ingest.ddl.parse import parse
from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.errors import DecodeError
from ingest.events import DECODED
from ingest.values.source_types import parse_type
from ingest.wire.contract import Message
from ingest.wire.unrecognised import advice_on_bytes
from tests.support.avro_encoders import dts_record, written
from tests.support.avro_schemas import DTS_15
from tests.support.decoding import code_of, decoder, events
from tests.support.messages import reader_of

MYSQL = {"connector": "mysql", "db": "d", "table": "t", "file": "b.000001", "pos": 4}


def rows(name: str, value: Mapping[str, Any] | bytes, **given: Any) -> list[dict[str, Any]]:
    """The silver rows of one message of a source, schema rows aside."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    found = reader_of(name, **given).rows(Message(data, topic="t"))
    named = [dict(zip((c.name for c in DECODED), row, strict=True)) for row in found]
    return [row for row in named if row["kind"] != "schema"]


@pytest.mark.parametrize(
    ("token", "text"),
    [("1E+1", "10"), ("5e2", "500"), ("1e16", "10000000000000000"), ('"A+g="', "10.00")],
)
def test_a_number_with_an_exponent_is_no_base64(token: str, text: str) -> None:
    value = b'{"op":"c","source":{"db":"d","table":"t"},"after":{"a":%s}}' % token.encode()
    (row,) = rows("debezium", value, order="arrival", columns={"d.t": {"a": "decimal(10,2)"}})
    assert row["after"] == {"a": text}
    assert "bad_base64" not in (row["warnings"] or ())


def test_a_wide_unsigned_number_with_an_exponent() -> None:
    value = b'{"op":"c","source":{"db":"d","table":"t"},"after":{"a":1E+1}}'
    (row,) = rows("debezium", value, order="arrival", columns={"d.t": {"a": "bigint unsigned"}})
    assert row["after"] == {"a": "10"}


def test_an_empty_transaction_is_none() -> None:
    source = {**MYSQL, "connector": "yugabytedb", "txId": ""}
    (row,) = rows("debezium", {"op": "c", "after": {"a": 1}, "source": source}, order="arrival")
    assert row["tx_id"] is None


TRUNCATED: dict[str, Callable[[str], Mapping[str, Any] | bytes]] = {
    "dts": lambda sql: written(
        DTS_15, dts_record(operation="DDL", objectName="shop", afterImages=sql)
    ),
    "debezium": lambda sql: {
        "source": {**MYSQL, "db": "shop", "table": None},
        "databaseName": "shop",
        "ddl": sql,
        "tableChanges": [],
    },
}


@pytest.mark.parametrize("name", TRUNCATED)
@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("TRUNCATE TABLE orders", [("shop", "orders")]),
        ("TRUNCATE `hall`.`orders`", [("hall", "orders")]),
        ('TRUNCATE TABLE "orders"', [("shop", "orders")]),
        ("TRUNCATE a, b", [("shop", "a"), ("shop", "b")]),
    ],
)
def test_a_truncate_names_its_table_by_its_statement(
    name: str, sql: str, tables: list[tuple[str, str]]
) -> None:
    found = rows(name, TRUNCATED[name](sql))
    assert [(row["op"], row["db"], row["table"]) for row in found] == [
        ("truncate", *table) for table in tables
    ]
    assert [row["row"] for row in found] == list(range(len(tables)))


def test_a_truncate_of_no_table_is_refused_or_the_default_s() -> None:
    silent = {"op": "t", "source": {**MYSQL, "db": "shop", "table": None}}
    # A statement that cannot be read (semantics.md, 67) empties nothing, not the default either.
    unread = TRUNCATED["debezium"]("TRUNCATE $$")
    for value, table in ((silent, ""), (unread, ""), (unread, "orders")):
        (row,) = rows("debezium", value, **({"default_table": table} if table else {}))
        assert (row["kind"], row["error_code"]) == ("reject", "bad_shape")
    (row,) = rows("debezium", silent, default_table="orders")
    assert (row["kind"], row["op"], row["table"]) == ("change", "truncate", "orders")


FLATTENED = [
    {"id": 1, "status": "END", "__op": "u", "__deleted": "false"},
    {"id": 1, "aggregate_type": "Order", "type": "Created", "__op": "c"},
    {"id": 1, "type": "log", "data": "x", "__op": "c"},
    {"id": 1, "op": "a", "__op": "c"},
    {"id": 1, "op": "login", "__deleted": "false"},
    {"id": 1, "payload": "abc", "__op": "c"},
    {"id": 1, "schema": "s", "payload": {"op": "c"}, "__op": "c"},
    {"id": 1, "ddl": "x", "source": "y", "databaseName": "z", "__op": "c"},
    {"id": 1, "historyRecord": "x", "specversion": "1.0", "__op": "c"},
    {"id": 1, "op": "d", "before": None, "after": None, "__op": "c"},
    {"id": 1, "op": "I", "after": '{"a": 1}', "__op": "c"},
    {"id": 1, "op": "c", "after": 5, "before": 3, "__op": "c"},
]


@pytest.mark.parametrize("name", ["debezium", "auto"])
@pytest.mark.parametrize("sent", FLATTENED, ids=lambda sent: "-".join(sent))
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_flattened_row_is_one_whatever_its_columns_are_called(
    name: str, sent: dict[str, Any], wrapped: bool
) -> None:
    value = {"schema": None, "payload": sent} if wrapped else sent
    (row,) = rows(name, value, order="arrival")
    assert (row["kind"], row["op"]) == ("change", "insert" if sent.get("__op") == "c" else "update")
    assert row["after"].keys() == {column for column in sent if not column.startswith("__")}


@pytest.mark.parametrize(
    "sent",
    [
        {"id": 7, "type": "log", "data": "x"},
        {"id": 1, "status": "END"},
        {"id": 1, "databaseName": "x", "ddl": "create table x(i int)"},
        {"databaseName": "x"},
        {"ts_ms": 1},
    ],
)
def test_a_row_that_says_nothing_of_itself_is_one_among_rows(sent: dict[str, Any]) -> None:
    given = {"order": "arrival", "options": {"flattened": True}}
    (row,) = rows("debezium", sent, **given)
    assert (row["kind"], row["op"], row["after"].keys()) == ("change", "update", sent.keys())


@pytest.mark.parametrize(
    "value",
    [
        {"id": 1, "status": "END", "note": "x"},
        {"id": 1, "aggregate_type": "Order", "type": "Created", "payload_of": 7},
    ],
)
def test_what_only_resembles_a_notice_is_no_control_event(value: dict[str, Any]) -> None:
    assert code_of(decoder("debezium"), value) == "unknown_op"


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("9999-12-31 23:59:59-08", None),
        ("9999-12-31 23:59:59-08", "Asia/Shanghai"),
        ("0044-03-15 00:00:00+00 BC", "Asia/Shanghai"),
        ("2020-01-01 00:00:00.5 US/Nowhere", "Asia/Shanghai"),
        ("0001-01-01 00:00:00", "Asia/Shanghai"),
    ],
)
def test_an_instant_beyond_the_calendar_stays_as_sent(text: str, zone: str | None) -> None:
    column = {"name": "z", "type": "timestamp with time zone", "value": text}
    value = {"action": "I", "schema": "p", "table": "t", "lsn": "0/1", "columns": [column]}
    (event,) = events(decoder("wal2json", time_zone=zone), value)
    assert event.after == {"z": text}
    assert "value_not_of_type" in (event.warnings or ())
    assert "tz_assumed" not in (event.warnings or ())


def test_ticdc_names_a_zone_that_nobody_knows() -> None:
    value = {
        "version": 1,
        "database": "d",
        "table": "t",
        "type": "INSERT",
        "commitTs": 447984074911121426,
        "buildTs": 1,
        "schemaVersion": 1,
        "data": {"a": {"location": "Foo/Bar", "value": "2020-01-01 00:00:00"}},
    }
    assert code_of(decoder("ticdc_simple"), value) == "bad_value"


def test_bytes_of_a_document_in_both_spellings_of_extended_json() -> None:
    document = {
        "_id": {"$oid": "5e0"},
        "old": {"$binary": "AQID", "$type": "00"},
        "new": {"$binary": {"base64": "AQID", "subType": "00"}},
    }
    source = {"connector": "mongodb", "db": "d", "collection": "c", "ord": 1, "ts_ms": 1000}
    value = {"op": "c", "after": json.dumps(document), "source": source}
    (event,) = events(decoder("debezium"), value)
    assert event.after == {"_id": "5e0", "old": "AQID", "new": "AQID"}


@pytest.mark.parametrize(
    ("sent", "text"),
    [("1.20E+3", "1200"), ("1E-7", "0.0000001"), ("-0E+2", "-0"), ("12.50", "12.50")]
    + [(same, same) for same in ("NaN", "-Infinity", "1E+6144")],
)
def test_a_decimal_of_a_document_is_written_plainly(sent: str, text: str) -> None:
    document = {"_id": {"$numberDecimal": sent}, "a": {"$numberDecimal": sent}}
    source = {"connector": "mongodb", "db": "d", "collection": "c", "ord": 1, "ts_ms": 1000}
    value = {"op": "c", "after": json.dumps(document), "source": source}
    key = json.dumps({"id": json.dumps(document["_id"])}).encode()
    (event,) = decoder("debezium")(Message(json.dumps(value).encode(), key=key, topic="t"))
    assert event.after == {"_id": text, "a": text}
    (event,) = decoder("debezium")(
        Message(json.dumps({**value, "op": "d", "after": None}).encode(), key=key, topic="t")
    )
    assert (event.key or event.before) == {"_id": text}


def test_an_identity_column_is_a_number() -> None:
    table = {"columns": [{"name": "id", "typeName": "int identity"}]}
    value = {
        "source": {"connector": "sqlserver", "db": "d", "schema": "dbo", "table": "t"},
        "databaseName": "d",
        "ddl": None,
        "tableChanges": [{"type": "CREATE", "id": '"d"."dbo"."t"', "table": table}],
    }
    (event,) = events(decoder("debezium"), value)
    assert [(c.name, c.type) for c in event.columns or ()] == [("id", "int")]


def test_types_of_informix() -> None:
    """Its SERIAL has 32 bits, where MySQL's has 64 without a sign; its MONEY has a scale."""
    source = {"connector": "informix", "db": "d", "schema": "informix", "table": "t"}
    types = {
        "id": "serial",
        "wide": "serial8",
        "price": "money(16,4)",
        "fee": "MONEY",
        "made": "datetime year to second",
        "seen": "DATETIME YEAR TO FRACTION(5)",
        "day": "datetime year to day",
        "hour": "datetime hour to second",
        "note": "lvarchar(300)",
        "any": "decimal(16)",
        "exact": "DECIMAL(16,2)",
    }
    columns = [{"name": name, "typeName": text} for name, text in types.items()]
    value = {
        "source": source,
        "databaseName": "d",
        "ddl": None,
        "tableChanges": [
            {"type": "CREATE", "id": '"d"."informix"."t"', "table": {"columns": columns}}
        ],
    }
    (event,) = events(decoder("debezium"), value)
    spark = {column.name: column.type for column in event.columns or ()}
    civil = dict.fromkeys(("made", "seen"), "timestamp_ntz")
    texts = dict.fromkeys(("day", "hour", "note", "any"), "string")
    decimals = {"price": "decimal(16,4)", "fee": "decimal(16,2)", "exact": "decimal(16,2)"}
    assert spark == {"id": "int", "wide": "bigint", **decimals, **civil, **texts}


@pytest.mark.parametrize(
    ("connector", "type_", "length", "scale", "expected"),
    [
        ("sqlserver", "numeric() identity", 10, 0, ("numeric(10,0) identity", "decimal(10,0)")),
        ("sqlserver", "int identity", 10, 0, ("int identity", "int")),
        ("db2", "CHAR () FOR BIT DATA", 3, None, ("CHAR(3) FOR BIT DATA", "binary")),
        ("db2", "DECIMAL", 5, 2, ("DECIMAL(5,2)", "decimal(5,2)")),
    ],
)
def test_types_with_empty_parentheses(
    connector: str, type_: str, length: int, scale: int | None, expected: tuple[str, str]
) -> None:
    """As JDBC drivers name them; their length stands beside."""
    column = {"name": "c", "typeName": type_, "length": length, "scale": scale}
    change = {"type": "CREATE", "id": '"d"."s"."t"', "table": {"columns": [column]}}
    source = {"connector": connector, "db": "d", "schema": "s", "table": "t"}
    value = {"source": source, "databaseName": "d", "ddl": None, "tableChanges": [change]}
    (event,) = events(decoder("debezium"), value)
    assert [(c.source_type, c.type) for c in event.columns or ()] == [expected]


def test_declared_types_of_informix() -> None:
    source = {"connector": "informix", "db": "d", "schema": "informix", "table": "t"}
    types = {"id": "serial", "price": "money", "seen": "datetime year to fraction(5)"}
    after = {"id": 1, "price": "AfQ=", "seen": 1704164645000006}
    value = {"op": "c", "source": source, "after": after}
    (row,) = rows("debezium", value, order="arrival", columns={"d.informix.t": types})
    assert row["after"] == {"id": "1", "price": "5.00", "seen": "2024-01-02 03:04:05.000006"}


def test_a_deleted_row_known_by_another_index() -> None:
    value = {
        **{"action": "D", "schema": "public", "table": "t", "lsn": "0/1"},
        "identity": [{"name": "b", "type": "text", "value": "x"}],
        "pk": [{"name": "a", "type": "integer"}],
    }
    (event,) = events(decoder("wal2json"), value)
    assert (event.before, event.before_image, event.key_columns) == ({"b": "x"}, "partial", ("a",))


@pytest.mark.parametrize("data", [{"id": 1}, {"id": None, "name": None}, None])
def test_a_deleted_row_in_the_before_image(data: dict[str, Any] | None) -> None:
    value = {
        "before-image": {"id": 1, "name": "x"},
        "metadata": {
            **{"record-type": "data", "operation": "delete", "schema-name": "s"},
            **{"table-name": "t", "timestamp": "2024-01-02T03:04:05.000006Z"},
        },
    }
    (event,) = events(decoder("dms"), value if data is None else {"data": data, **value})
    assert (event.op, event.before) == ("delete", {"id": "1", "name": "x"})


def test_a_message_key_of_a_payload_alone() -> None:
    value = {"payload": {"op": "c", "before": None, "after": {"id": 1}, "source": MYSQL}}
    message = Message(json.dumps(value).encode(), key=b'{"payload":{"id":1}}', topic="t")
    (event,) = decoder("debezium")(message)
    assert (event.key_columns, event.warnings) == (("id",), ["untyped"])


def test_a_commit_scn_that_is_no_number_is_no_place() -> None:
    source = {**MYSQL, "connector": "oracle", "scn": "5", "commit_scn": "7:1:abc"}
    (row,) = rows("debezium", {"op": "c", "after": {"id": 1}, "source": source})
    assert row["error_code"] == "order_key_missing"


@pytest.mark.parametrize("name", ["oms_dataworks", "dataworks"])
def test_comments_before_a_statement_are_skipped_at_once(name: str) -> None:
    """Each comment once, where every one more doubled the work."""
    source = {"dbType": "ob_mysql", "dbName": "d", "table": "t", "tableName": "t"}
    text = "/**//**/" * 5_000 + "create table x(a int)"
    payload = {
        **{"op": "query", "timestamp": {"eventTime": 1620457659000}, "ddl": {"text": text}},
        **{"scn": "5", "sequenceId": "5"},
    }
    version = "2.0" if name == "oms_dataworks" else "1.0.0"
    (row,) = rows(name, {"version": version, "schema": {"source": source}, "payload": payload})
    assert (row["kind"], row["op_raw"], row["dialect"]) == ("ddl", "query", "mysql")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("enum(" + ",".join(f"'it''s {n}'" for n in range(2_000)), None),
        ("enum(" + ",".join(f"'{n}'" for n in range(2_000)) + ") comment 'a (b)'", None),
        ("a " * 100_000 + "(", None),
        ("enum(" + ",".join(f"'it''s (no) {n}'" for n in range(2_000)) + ")", "enum"),
    ],
    ids=["not closed", "a parenthesis behind", "many words", "closed"],
)
def test_types_of_any_length_are_read_at_once(text: str, name: str | None) -> None:
    read = parse_type(text)
    assert read.name == (name or text.strip())
    assert len(read.members) == (2_000 if name else 0)


def test_a_truncated_partition_is_not_the_table() -> None:
    value = {
        **{"database": "d", "table": "t", "type": "TRUNCATE", "isDdl": True, "id": 1, "es": 1000},
        **{"ts": 1000, "data": None, "old": None, "sql": "ALTER TABLE t TRUNCATE PARTITION p0"},
    }
    (row,) = rows("canal", value)
    assert (row["kind"], row["op"]) == ("ddl", "ddl")
    (row,) = rows("canal", {**value, "sql": ""})
    assert (row["kind"], row["op"], row["table"]) == ("change", "truncate", "t")


def test_an_image_that_is_no_text_is_bad_json() -> None:
    value = (
        b'{"prevStruct":null,"postStruct":{"__light_type":{"a":{"schemaType":"INT"}},"a":1,'
        b'"\xb0x":2},"allMetaData":{"record_primary_key":"a","record_primary_value":"1",'
        b'"dbType":"OB_MYSQL","table_name":"t","db":"d","timestamp":"1609344671",'
        b'"storeDataSequence":160934467110},"recordType":"INSERT"}'
    )
    (row,) = rows("oms_default", value)
    assert row["error_code"] == "bad_json"


DECLARED = {"d.t": {"PRICE": "decimal(10,2)", "Seen": "datetime"}}
SEEN = {"id": 1, "price": "1.500", "seen": "2024-01-02T03:04:05.600"}
IN_CASE: dict[str, dict[str, Any]] = {
    "canal": {
        **{"database": "d", "table": "t", "type": "INSERT", "isDdl": False, "id": 1, "es": 1000},
        **{"ts": 1000, "old": None, "sql": "", "pkNames": ["id"], "data": [SEEN]},
    },
    "debezium": {"op": "c", "before": None, "after": SEEN, "source": {**MYSQL, "db": "d"}},
    "maxwell": {
        **{"database": "d", "table": "t", "type": "insert", "ts": 1, "xid": 1, "commit": True},
        "data": SEEN,
    },
}


@pytest.mark.parametrize("name", IN_CASE)
def test_declared_columns_are_found_in_any_case(name: str) -> None:
    (row,) = rows(name, IN_CASE[name], columns=DECLARED)
    assert row["after"]["seen"] == "2024-01-02 03:04:05.6"
    (same,) = rows(
        name, IN_CASE[name], columns={"d.t": {"price": "decimal(10,2)", "seen": "datetime"}}
    )
    assert row["after"] == same["after"]


@pytest.mark.parametrize("name", ["DOC", "Doc", "doc"])
def test_declared_columns_are_filled_in_and_read_in_any_case(name: str) -> None:
    """Another spelling made a second column of NULLs, or left JSON and SET as they came."""
    columns = {"d.t": {"id": "int", name: "json", name + "s": "set('a','b')"}}
    value = {"database": "d", "table": "t", "type": "insert", "ts": 1_700_000_000}
    value["data"] = {"id": 1, "doc": "x", "docs": ["a", "b"]}
    (row,) = rows("maxwell", value, columns=columns)
    assert row["after"] == {"id": "1", "doc": '"x"', "docs": "a,b"}
    metadata = {"timestamp": "2024-01-02T03:04:07Z", "record-type": "data", "operation": "load"}
    metadata |= {"schema-name": "d", "table-name": "t"}
    value = {"data": {"id": 1, "doc": "x"}, "metadata": metadata}
    (row,) = rows("dms", value, columns=columns, options={"null_and_empty": "null"})
    assert row["after"] == {"id": "1", "doc": "x", name + "s": None}
    source = {"connector": "mongodb", "db": "d", "collection": "t", "ord": 1, "sec": 1}
    value = {"op": "c", "source": source, "after": '{"_id": 1, "doc": "x"}'}
    (row,) = rows("debezium", value, columns=columns)
    assert row["after"]["doc"] == "x" and name + "s" in row["after"]
    assert len({column.lower() for column in row["after"]}) == len(row["after"])


@pytest.mark.parametrize("quoted", [True, False])
def test_labels_of_a_schema_change_hold_quotes(quoted: bool) -> None:
    """Debezium's parser leaves the quotes of ENUM's labels on, and others send them bare."""
    labels = ["'it''s'", "'b'"] if quoted else ["it's", "b"]
    column = {"name": "e", "typeName": "ENUM", "typeExpression": "ENUM", "enumValues": labels}
    change = {"type": "ALTER", "id": '"d"."t"', "table": {"columns": [column]}}
    value = {"source": {**MYSQL, "db": "d"}, "databaseName": "d", "ddl": "ALTER TABLE t"}
    (row,) = rows("debezium", {**value, "tableChanges": [change]})
    [(_, source_type, _)] = row["columns"]
    assert parse_type(source_type).members == ("it's", "b")


def test_declared_columns_overrule_the_message_s_in_any_case() -> None:
    value = {**IN_CASE["canal"], "mysqlType": {"price": "double", "id": "int"}}
    found = reader_of("canal", columns=DECLARED).rows(Message(json.dumps(value).encode()))
    named = [dict(zip((c.name for c in DECODED), row, strict=True)) for row in found]
    (types,) = (row["columns"] for row in named if row["kind"] == "schema")
    assert {c.name: c.type for c in types} == {
        **{"price": "decimal(10,2)", "id": "int", "Seen": "timestamp_ntz"},
    }


def columns_of(name: str, value: Mapping[str, Any], **given: Any) -> dict[str, str]:
    """Column -> Spark type, as the schema row of one message tells."""
    found = reader_of(name, **given).rows(Message(json.dumps(value).encode(), topic="t"))
    named = [dict(zip((c.name for c in DECODED), row, strict=True)) for row in found]
    (listed,) = [row["columns"] for row in named if row["kind"] == "schema"]
    return {column.name: column.type for column in listed}


CANAL = {"database": "d", "table": "t", "pkNames": ["id"], "isDdl": False, "es": 1, "old": None}


@pytest.mark.parametrize("value", ["1", "65"])
def test_a_bit_without_its_length_is_any_bit(value: str) -> None:
    sent = {
        **CANAL,
        **{"id": 0, "type": "INSERT", "mysqlType": {"id": "int", "b": "bit", "c": "bit(1)"}},
        "data": [{"id": "1", "b": value, "c": "1"}],
    }
    (row,) = rows("canal", sent)
    assert row["after"] == {"id": "1", "b": value, "c": "true"}
    assert columns_of("canal", sent) == {"id": "int", "b": "decimal(20,0)", "c": "boolean"}


def debezium_row(source: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {"op": "c", "before": None, "after": dict(after), "source": dict(source), "ts_ms": 1}


def test_times_of_db2_are_milliseconds_and_its_timestamps_have_no_zone() -> None:
    source = {
        **{"connector": "db2", "db": "D", "schema": "S", "table": "T"},
        "change_lsn": "00000000:00000000:0000000004",
        "commit_lsn": "00000000:0000187a:0000000004",
    }
    sent = debezium_row(source, {"AT": 1000, "TS": 1605304440331350})
    columns = {"D.S.T": {"AT": "time", "TS": "timestamp"}}
    (row,) = rows("debezium", sent, columns=columns)
    assert row["after"] == {"AT": "00:00:01", "TS": "2020-11-13 21:54:00.33135"}
    assert columns_of("debezium", sent, columns=columns) == {"AT": "string", "TS": "timestamp_ntz"}


def test_another_connector_of_oracle_is_oracle_all_the_same() -> None:
    source = {"connector": "Oracle XStream CDC", "db": "X", "schema": "S", "table": "T"}
    source |= {"scn": "3691126", "lcr_position": "0a0b"}
    sent = debezium_row(source, {"DAY": 1773231646000})
    (row,) = rows("debezium", sent, columns={"X.S.T": {"DAY": "date"}})
    assert row["after"] == {"DAY": "2026-03-11 12:20:46"}


def test_yashandb_has_the_types_of_oracle() -> None:
    source = {"connector": "yashandb", "db": "", "schema": "WMS", "table": "CRATES"}
    sent = debezium_row(source, {"PACKED": 1709544000000, "QTY": {"scale": 0, "value": "DA=="}})
    declared = {"WMS.CRATES": {"PACKED": "date", "QTY": "number"}}
    (row,) = rows("debezium", sent, columns=declared, order="arrival")
    assert row["after"] == {"PACKED": "2024-03-04 09:20:00", "QTY": "12"}


@pytest.mark.parametrize(
    ("connector", "schema", "dialect"),
    [
        *(("yashandb", "WMS", "oracle"), ("heron", "wms", "postgres"), ("heron", "WMS", "oracle")),
        *(("mysql", None, "mysql"), ("heron", None, "mysql"), ("mysql", "depot", "mysql")),
    ],
)
def test_a_statement_of_an_unknown_connector_names_a_schema_where_its_message_does(
    connector: str, schema: str | None, dialect: str
) -> None:
    """Read as MySQL's, the schema that it names would be another database."""
    ddl = f"ALTER TABLE {schema or 'depot'}.CRATES ADD QTY INTEGER"
    source = {"connector": connector, "db": "depot", "schema": schema, "table": "CRATES"}
    change = {"source": source, "databaseName": "depot", "ddl": ddl, "tableChanges": []}
    (row,) = rows("debezium", change, order="arrival")
    said = row["dialect"] or guess_dialect(ddl, db=row["db"], schema=row["schema"])
    statement = parse(ddl, dialect=said, db=row["db"], schema=row["schema"], table=row["table"])
    assert said == dialect
    assert statement.table.name == "CRATES" and statement.table.db == "depot"


@pytest.mark.parametrize("connector", ["postgresql", "YugabyteDB", "yugabytedb"])
@pytest.mark.parametrize("typed", [False, True])
def test_columns_in_yugabytedbs_cells(connector: str, typed: bool) -> None:
    """`set` tells what a statement wrote from what it left alone, which is null."""
    source = {"connector": connector, "db": "y", "schema": "public", "table": "t", "lsn": 7}
    cells = {"id": 1, "a": "A+g=", "b": None}

    def told(op: str, *names: str) -> dict[str, Any]:
        image = {n: {"value": v, "set": True} if n in names else None for n, v in cells.items()}
        side = "before" if op == "d" else "after"
        payload = {"op": op, "before": None, "after": None, side: image, "source": source}
        value = {"schema": cells_schema(), "payload": payload} if typed else payload
        given: Any = {} if typed else {"columns": {"y.public.t": {"a": "numeric(10,2)"}}}
        key = b'{"id":{"value":1,"set":true}}'
        found = reader_of("auto", **given).rows(Message(json.dumps(value).encode(), key, topic="t"))
        return dict(zip((c.name for c in DECODED), found[-1], strict=True))

    row = told("c", "id", "a")
    assert (row["after"], row["after_image"]) == ({"id": "1", "a": "10.00", "b": None}, "full")
    assert row["key"] == {"id": "1"}
    row = told("u", "id", "b")
    assert (row["after"], row["after_image"]) == ({"id": "1", "b": None}, "partial")
    assert row["unavailable"] == ["a"]
    row = told("d", "id")
    assert (row["before"], row["before_image"]) == ({"id": "1"}, "key")
    # CockroachDB's JSON stands in the message as it is.
    sent = {"op": "u", "after": {"id": 1, "a": {"value": 1, "set": True}}, "source": source}
    (row,) = rows("debezium", sent)
    assert row["after"] == {"id": "1", "a": '{"value": 1, "set": true}'}


@pytest.mark.parametrize(
    "value",
    [
        b'{"op":"c","after":{"id":{"value":1,"set":true,"value":2}},"source":%s}',
        b'{"op":"c","after":{"id":{"value":1,"set":true,"set":false}},"source":%s}',
        b'{"specversion":"1.0","iodebeziumop":"c","iodebeziumlsn":"7",'
        b'"data":{"after":{"id":1},"after":{"id":2}}}',
        b'{"specversion":"1.0","iodebeziumop":"c","iodebeziumlsn":"7",'
        b'"data":{"schema":null,"payload":{"after":{"id":1},"after":{"id":2}}}}',
    ],
)
def test_what_says_two_things_within_an_envelope(value: bytes) -> None:
    source = b'{"connector":"postgresql","db":"y","schema":"public","table":"t","lsn":7}'
    sent = Message(value.replace(b"%s", source), topic="t")
    (values,) = reader_of("debezium").rows(sent)
    row = dict(zip((c.name for c in DECODED), values, strict=True))
    assert (row["kind"], row["error_code"]) == ("reject", "contradiction")


def test_a_struct_that_looks_like_a_cell_is_a_column() -> None:
    """Among columns that are no cells."""
    types = {"id": {"type": "int32"}, "a": cells_schema()["fields"][1]["fields"][0]}
    fields = [{**type_, "field": name} for name, type_ in types.items()]
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": fields, "field": "after"}]}
    source = {"connector": "postgresql", "db": "y", "schema": "public", "table": "t", "lsn": 7}
    payload = {"op": "c", "after": {"id": 1, "a": {"value": 5, "set": True}}, "source": source}
    value = {"schema": schema, "payload": payload}
    assert columns_of("debezium", value) == {"id": "int", "a": "string"}


def cells_schema() -> dict[str, Any]:
    number = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    types: dict[str, dict[str, Any]] = {
        **{"id": {"type": "int32"}, "a": {"type": "bytes", **number}, "b": {"type": "string"}}
    }
    set_ = {"type": "boolean", "field": "set"}
    columns = [
        {"type": "struct", "field": name, "fields": [{**value, "field": "value"}, set_]}
        for name, value in types.items()
    ]
    sides = [{"type": "struct", "field": f, "fields": columns} for f in ("before", "after")]
    return {"type": "struct", "fields": sides, "name": "p.public.t.Envelope"}


def test_an_identity_of_another_postgres_is_a_key() -> None:
    source = {"connector": "YugabyteDB", "db": "y", "schema": "public", "table": "t", "lsn": 7}
    sent = {"op": "d", "before": {"id": 1, "a": None}, "after": None, "source": source}
    value = Message(json.dumps(sent).encode(), topic="t", key=b'{"id":1}')
    found = reader_of("debezium").rows(value)
    row = dict(zip((c.name for c in DECODED), found[-1], strict=True))
    assert (row["before_image"], row["before"]) == ("key", {"id": "1"})


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ({"database_name": "E", "owner": "S", "table": "T", "scn": 5}, ("E", "S", "T")),
        ({"connector": "vitess", "db": "", "keyspace": "k", "table": "t"}, ("k", None, "t")),
        ({"db": "ks", "keyspace_name": "ks", "table_name": "t"}, ("ks", None, "t")),
        (
            {"database_name": "d", "schema_name": "s", "table_name": "t"},
            ("d", "s", "t"),
        ),
    ],
)
def test_a_table_under_other_names(source: dict[str, Any], names: tuple[Any, ...]) -> None:
    (row,) = rows("debezium", debezium_row(source, {"id": 1}), order="arrival")
    assert (row["db"], row["schema"], row["table"]) == names


@pytest.mark.parametrize("name", ["debezium", "auto"])
def test_a_checkpoint_of_ticdc(name: str) -> None:
    source = {"connector": "TiCDC", "db": "", "table": "", "file": "", "pos": 0, "commit_ts": 3}
    sent = {"payload": {"source": source, "ts_ms": 1701326309000, "transaction": None}}
    sent["schema"] = {"type": "struct", "name": "io.debezium.connector.mysql.SchemaChangeKey"}
    (row,) = rows(name, sent)
    assert (row["kind"], row["op"], row["scn"]) == ("control", "checkpoint", "3")


@pytest.mark.parametrize("name", ["ogg", "auto"])
def test_goldengate_beside_a_schema(name: str) -> None:
    operation: dict[str, Any] = {"table": "S.T", "op_type": "I"}
    operation |= {"op_ts": "2024-01-02 03:04:05.000000"}
    operation |= {"pos": "00000000000000005100", "after": {"ID": "1"}}
    (row,) = rows(name, {"schema": {"type": "struct"}, "payload": operation})
    assert (row["op"], row["db"], row["table"], row["after"]) == ("insert", "S", "T", {"ID": "1"})


@pytest.mark.parametrize(
    ("named", "names"),
    [
        ({"table": "EMP", "schema": "HR"}, ("HR", None, "EMP")),
        ({"table": "EMP", "schema": "HR", "catalog": "PDB"}, ("PDB", "HR", "EMP")),
        ({"table": "EMP", "schema": None, "catalog": None}, (None, None, "EMP")),
        ({"table": "EMP", "schema": {"type": "struct"}}, (None, None, "EMP")),
        ({"table": "EMP", "schema": "", "catalog": "PDB"}, ("PDB", None, "EMP")),
        ({"table": "HR.EMP", "schema": "OTHER"}, ("HR", None, "EMP")),
        ({"table": '"HR"."E.M"', "schema": "OTHER"}, ("HR", None, "E.M")),
        ({"table": '"E.M"', "schema": "HR"}, ("HR", None, "E.M")),
    ],
)
@pytest.mark.parametrize("by_row", [False, True])
def test_goldengate_names_a_schema_beside_its_table(
    named: dict[str, Any], names: tuple[Any, ...], by_row: bool
) -> None:
    """What metaColumnsTemplate makes of `${schema}`, `${catalog}` and `${table}`: the tables of two
    schemas were one."""
    sent = {**named, "op_type": "I", "op_ts": "2024-01-02 03:04:05", "pos": "000000000000005100"}
    sent |= {"ID": "1"} if by_row else {"after": {"ID": "1"}}
    for name in ("ogg", "auto"):
        (row,) = rows(name, sent)
        assert (row["db"], row["schema"], row["table"]) == names
        assert row["after"]["ID"] == "1"


def test_goldengate_flattened() -> None:
    sent: dict[str, str | None] = {"table": "S.T", "op_type": "U", "pos": "00000000000000005100"}
    sent |= {"before.ID": "1", "before.N": "a", "after.ID": "1", "after.N": None}
    (row,) = rows("ogg", sent)
    assert (row["before"], row["after"]) == ({"ID": "1", "N": "a"}, {"ID": "1", "N": None})


@pytest.mark.parametrize(
    ("declared", "xid", "row_", "transaction"),
    [
        ({}, "x", {"ID": "1"}, "x"),
        ({"S.T": {"xid": "VARCHAR2(9)"}}, "x", {"ID": "1", "xid": "x"}, None),
        ({"S.T": {"xid": "BINARY_DOUBLE"}}, 1.5, {"ID": "1", "xid": "1.5"}, None),
    ],
)
def test_a_column_of_goldengate_called_like_metadata(
    declared: dict[str, Any], xid: str | float, row_: dict[str, str], transaction: str | None
) -> None:
    sent = {"table": "S.T", "op_type": "I", "pos": "00000000000000005100", "ID": "1", "xid": xid}
    (row,) = rows("ogg", sent, columns=declared)
    assert (row["after"], row["tx_id"]) == (row_, transaction)


def test_a_previous_value_whose_column_is_null_now() -> None:
    sent = {
        "data": {"id": 3, "BI_id": 1, "BI_note": "was", "name": "x"},
        "metadata": {
            **{"timestamp": "2023-04-15T12:38:13.780065Z", "record-type": "data"},
            **{"operation": "update", "schema-name": "d", "table-name": "t"},
        },
    }
    (row,) = rows("dms", sent)
    assert row["after"] == {"id": "3", "name": "x"}
    assert row["before"] == {"id": "1", "note": "was"}


def test_a_column_that_only_looks_like_a_previous_value() -> None:
    sent = {
        "data": {"id": 3, "BI_tool": "x"},
        "metadata": {
            **{"timestamp": "2023-04-15T12:38:13.780065Z", "record-type": "data"},
            **{"operation": "insert", "schema-name": "d", "table-name": "t"},
        },
    }
    (row,) = rows("dms", sent)
    assert row["after"] == {"id": "3", "BI_tool": "x"}


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("bit(8)", "0x10", "16"),
        ("bit(8)", "10", "16"),
        ("bit(64)", "0xFFFFFFFFFFFFFFFF", str(2**64 - 1)),
        ("bit(8)", 10, "10"),
        ("bit(8)", "5", "5"),
        ("bit(8)", "0xzz", "0xzz"),
        ("bit(1)", "0x01", "true"),
        ("bit(1)", "0", "false"),
        ("bit", True, "true"),
    ],
)
def test_bits_of_dms_are_bytes(type_: str, value: Any, text: str) -> None:
    """MySQL's BIT(n) is BYTES to it, whose digits are hexadecimal: 10 of them was ten."""
    metadata = {"timestamp": "2023-04-15T12:38:13.780065Z", "record-type": "data"}
    metadata |= {"operation": "insert", "schema-name": "d", "table-name": "t"}
    sent = {"data": {"id": 3, "b": value}, "metadata": metadata}
    (row,) = rows("dms", sent, columns={"d.t": {"id": "int", "b": type_}})
    assert row["after"] == {"id": "3", "b": text}


@pytest.mark.parametrize(("more", "value"), [({"batchId": 1}, {"n": None}), ({}, {})])
def test_a_null_of_a_large_object_by_who_sent_it(more: dict[str, int], value: Any) -> None:
    image = {"id": 1, "n": None, "w": 1}
    sent = {**CANAL, **more, "type": "UPDATE", "data": [image | {"w": 2}], "old": [image]}
    sent["mysqlType"] = {"id": "int", "n": "text", "w": "int"}
    (row,) = rows("canal", sent)
    assert row["after"] == {"id": "1", "w": "2", **value}


@pytest.mark.parametrize(
    ("options", "note", "size"),
    [
        ({"blob_encoding": "base64"}, {}, "1"),
        ({}, {"note": None}, "AQ=="),
        ({"blob_encoding": "latin1"}, {"note": None}, "AQ=="),
    ],
)
@pytest.mark.parametrize("number", [1, 2])
def test_a_null_of_oceanbase_clouds_large_objects_says_nothing(
    options: dict[str, Any], note: dict[str, None], size: str, number: int
) -> None:
    """Its log leaves out what an update did not change. Only what is declared tells its messages
    from Canal's, whose NULL is one."""
    sent = {"database": "d", "table": "t", "type": "UPDATE", "id": 5, "es": 1735689600000}
    sent |= {"isDdl": False, "pkNames": ["id"], "sql": "", "ts": 1735689600412}
    sent["mysqlType"] = {"id": "int", "n": "int", "note": "text", "size": "bit(8)"}
    row = {"id": "1", "n": "2", "note": None, "size": "AQ=="}
    sent |= {"data": [row] * number, "old": [{"n": "1"}] * number}
    found = rows("canal", sent, options=options)
    assert [row["after"] for row in found] == [{"id": "1", "n": "2", **note, "size": size}] * number
    unavailable = None if note else ["note"]
    assert [row["unavailable"] for row in found] == [unavailable] * number
    image = "full" if note else "partial"
    assert {(row["before_image"], row["after_image"]) for row in found} == {(image, image)}


def test_an_update_of_which_ticdc_sent_no_changed_column() -> None:
    """With only-output-updated-columns, `p` holds the columns that changed: of none, none."""
    key = {"ts": 429918007904436226, "scm": "dock", "tbl": "crates", "t": 1}
    row = {"id": {"t": 3, "h": True, "f": 11, "v": 1}, "label": {"t": 15, "f": 64, "v": "tea"}}
    message = Message(json.dumps({"u": row, "p": {}}).encode(), json.dumps(key).encode())
    (event,) = decoder("ticdc_open")(message)
    same = {"id": "1", "label": "tea"}
    assert (event.op, event.before, event.after) == ("update", same, same)
    assert (event.before_image, event.after_image) == ("full", "full")


def test_a_row_that_ticdc_before_5_4_deleted_stands_in_old_too() -> None:
    """https://docs.pingcap.com/tidb/stable/ticdc-canal-json, "Changes in the Old field"."""
    sent = {
        **{"id": 0, "database": "d", "table": "t", "pkNames": ["id"], "isDdl": False},
        **{"type": "DELETE", "es": 1640007049196, "mysqlType": {"id": "int", "a": "varchar"}},
    }
    deleted = [{"id": "1", "a": None}, {"id": "2", "a": "x"}]
    decode = decoder("canal")
    found = events(decode, {**sent, "data": deleted, "old": deleted})
    assert [(event.op, event.before, event.after) for event in found] == [
        ("delete", row, None) for row in deleted
    ]
    assert [event.warnings for event in found] == [[], []]
    for others in (deleted[:1], deleted[::-1], [deleted[0], {"id": "2"}]):
        assert code_of(decode, {**sent, "data": deleted, "old": others}) == "image_count"


def test_a_record_of_shareplex_itself_is_refused() -> None:
    """Aliyun DTS, "Data formats of a Kafka cluster": its scn is Oracle's, not a time."""
    meta = {"op": "ins", "table": "d.t", "scn": "14589063118712", "rowid": "AAAT", "userid": 84}
    value = {"meta": {**meta, "trans": "7.0.411499", "seq": 1}, "data": {"a": "1"}}
    for name in ("auto", "oms_shareplex"):
        (row,) = rows(name, value)
        assert (row["error_code"], "SharePlex's own" in row["error"]) == ("unsupported", True)


def test_a_row_that_ticdc_found_corrupted_is_refused() -> None:
    """https://docs.pingcap.com/tidb/stable/ticdc-integrity-check."""
    sent = {"version": 1, "database": "d", "table": "t", "type": "INSERT", "commitTs": 4}
    sent |= {"buildTs": 1709517900321, "schemaVersion": 4, "data": {"id": "1"}, "old": None}
    decode = decoder("ticdc_simple")
    found = {"version": 1, "current": 1, "previous": 0}
    assert code_of(decode, {**sent, "checksum": {**found, "corrupted": False}}) is None
    assert code_of(decode, {**sent, "checksum": {**found, "corrupted": True}}) == "contradiction"


def test_what_ticdc_compressed_itself_is_named() -> None:
    packed = b"\x04\x22\x4d\x18" + bytes(9)
    key = b'{"ts":5,"scm":"test","tbl":"t","t":1}'
    for name, message in (
        ("ticdc_simple", Message(packed)),
        ("ticdc_open", Message(_counted(packed), bytes(7) + b"\x01" + _counted(key))),
    ):
        with pytest.raises(DecodeError, match="large-message-handle-compression to none"):
            list(decoder(name)(message))


def _counted(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part


def test_a_schema_id_in_a_header_of_confluents_is_named() -> None:
    headers = (("__value_schema_id", b"\x01" + bytes(16)),)
    value = b"\0\0\0\0\x01\x0c"
    with pytest.raises(DecodeError, match="PrefixSchemaIdSerializer") as refused:
        list(decoder("debezium_avro")(Message(value, topic="t", headers=headers)))
    assert refused.value.code is Code.UNSUPPORTED
    assert "PrefixSchemaIdSerializer" in (advice_on_bytes(value, headers) or "")


SPANNER = {"connector": "spanner", "db": "d", "table": "t", "ts_us": 5, "sequence": "1"}


def test_a_watermark_of_spanner_is_a_checkpoint() -> None:
    value = {"before": None, "after": None, "op": "m", "ts_ms": 7, "source": SPANNER}
    (row,) = rows("auto", value)
    assert (row["kind"], row["op"], row["op_raw"]) == ("control", "checkpoint", "m")


BOTH, NEW = "OLD_AND_NEW_VALUES", "NEW_VALUES"
ROW, BOTH_ROW = "NEW_ROW", "NEW_ROW_AND_OLD_VALUES"


@pytest.mark.parametrize(
    ("captured", "before", "after", "images", "words", "lost"),
    [
        # b changes, c becomes NULL, d is not touched
        (
            *(BOTH, {"a": 1, "b": "x", "c": "y", "d": None}),
            *({"a": 1, "b": None, "c": "z", "d": None},),
            *(({"a": "1", "b": "x", "c": "y"}, {"a": "1", "b": None, "c": "z"}),),
            *(("partial", "partial"), ["d"]),
        ),
        (
            *(NEW, {"a": 1, "b": None, "c": None, "d": None}),
            *({"a": 1, "b": None, "c": "z", "d": None},),
            *(({"a": "1"}, {"a": "1", "c": "z"}), ("key", "partial"), ["b", "d"]),
        ),
        (
            *(ROW, {"a": 1, "b": None, "c": None}, {"a": 1, "b": None, "c": "z"}),
            *(({"a": "1"}, {"a": "1", "b": None, "c": "z"}), ("key", "full"), None),
        ),
        (
            *(BOTH_ROW, {"a": 1, "b": "x", "c": None}, {"a": 1, "b": None, "c": "z"}),
            *(({"a": "1", "b": "x"}, {"a": "1", "b": None, "c": "z"}), ("partial", "full"), None),
        ),
        (*(BOTH, {"a": 1, "b": None}, None), ({"a": "1", "b": None}, None), ("full", None), None),
        (*(ROW, {"a": 1, "b": None}, None), ({"a": "1"}, None), ("key", None), None),
        (*(BOTH, None, {"a": 1, "b": None}), (None, {"a": "1", "b": None}), (None, "full"), None),
    ],
)
@pytest.mark.parametrize("schema", [True, False])
def test_what_spanner_s_change_stream_leaves_out_is_no_null(
    captured: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    images: tuple[Any, Any],
    words: tuple[str | None, str | None],
    lost: list[str] | None,
    schema: bool,
) -> None:
    op = "d" if after is None else "c" if before is None else "u"
    source = {**SPANNER, "value_capture_type": captured}
    value: dict[str, Any] = {"before": before, "after": after, "op": op, "source": source}
    if schema:
        columns = [{"type": "string", "field": name} for name in (before or after or {})]
        columns[0]["type"] = "int64"
        value = {"schema": connect_schema(columns), "payload": value}
    message = Message(json.dumps(value).encode(), key=b'{"a":1}', topic="t")
    found = reader_of("debezium").rows(message)
    row = dict(zip((c.name for c in DECODED), found[-1], strict=True))
    assert (row["before"], row["after"]) == images
    assert (row["before_image"], row["after_image"]) == words
    assert (row["unavailable"], row["key"]) == (lost, {"a": "1"})


def connect_schema(columns: list[dict[str, Any]]) -> dict[str, Any]:
    """Connect's schema of an envelope whose images have these columns."""
    image = {"type": "struct", "fields": columns, "optional": True}
    sides = [{**image, "field": side} for side in ("before", "after")]
    return {"type": "struct", "fields": [*sides, {"type": "string", "field": "op"}]}


@pytest.mark.parametrize(
    ("zone", "text", "warnings"),
    [
        (None, "2024-05-06T07:08:09Z", ["tz_assumed"]),
        ("+08:00", "2024-05-05T23:08:09Z", None),
    ],
)
def test_a_date_of_dataworks_that_is_a_text_is_read_in_the_source_s_zone(
    zone: str | None, text: str, warnings: list[str] | None
) -> None:
    place = {"dbType": "MySQL", "dbName": "d", "tableName": "t"}
    schema = {"dataColumn": [{"name": "at", "type": "DATE"}], "primaryKey": None, "source": place}
    payload = {
        "before": None,
        "after": {"dataColumn": {"at": "2024-05-06 07:08:09"}},
        "sequenceId": "1717200000000000001",
        "op": "INSERT",
        "timestamp": {"eventTime": 1717200000000},
    }
    given = {} if zone is None else {"time_zone": zone}
    value = {"schema": schema, "payload": payload, "version": "0.0.1"}
    (row,) = rows("dataworks", value, **given)
    assert (row["after"], row["warnings"]) == ({"at": text}, warnings)


@pytest.mark.parametrize(
    ("sent", "text", "warnings"),
    [
        ("2024-11-03 01:30:00", "2024-11-03T05:30:00Z", ["time_ambiguous"]),
        ("2024-11-03 01:59:59.5", "2024-11-03T05:59:59.5Z", ["time_ambiguous"]),
        ("2024-11-03 02:00:00", "2024-11-03T07:00:00Z", None),
        ("2024-03-10 02:30:00", "2024-03-10T07:30:00Z", ["time_ambiguous"]),
        ("2024-03-10 03:00:00", "2024-03-10T07:00:00Z", None),
    ],
)
def test_a_time_that_clocks_show_twice_or_never_is_told(
    sent: str, text: str, warnings: list[str] | None
) -> None:
    value = {
        **{
            "type": "INSERT",
            "database": "d",
            "table": "t",
            "isDdl": False,
            "id": 7,
            "es": 1717200000000,
        },
        **{"mysqlType": {"at": "timestamp(1)"}, "data": [{"at": sent}], "pkNames": None},
    }
    (row,) = rows("canal", value, time_zone="America/New_York")
    assert (row["after"], row["warnings"]) == ({"at": text}, warnings)


ADDED = {"op": "u", "source_connector": "postgresql", "source_schema": "s", "source_table": "t"}
ADDED |= {"source_lsn": "700", "source_sequence": '["600","700"]', "source_txId": "5"}
ADDED |= {"source_ts_ms": "1717200000000"}


@pytest.mark.parametrize("converter", [str, json.dumps, lambda text: json.dumps({"payload": text})])
def test_what_a_flattened_row_has_in_its_headers(converter: Callable[[str], str]) -> None:
    """`add.headers` of ExtractNewRecordState, by Connect's SimpleHeaderConverter and JsonConverter;
    its default turns a delete into a null value, which tells in no other place that it is one."""
    reader = reader_of("debezium")

    def sent(value: bytes | None, op: str) -> dict[str, Any]:
        added = {**ADDED, "op": op}
        headers = [(f"__{name}", converter(text).encode()) for name, text in added.items()]
        headers.append(("trace", b"\xff"))
        (row,) = reader.rows(Message(value, b'{"id":7}', headers, topic="x.s.t"))[-1:]
        return dict(zip((c.name for c in DECODED), row, strict=True))

    update, delete = sent(b'{"id":7,"a":"x"}', "u"), sent(None, "d")
    names = ("schema", "table", "tx_id", "event_time", "pos")
    assert [update[name] for name in names] == [delete[name] for name in names]
    assert (update["op"], update["after"]) == ("update", {"id": "7", "a": "x"})
    assert (update["table"], update["tx_id"]) == ("t", "5")
    assert (delete["op"], delete["key"]) == ("delete", {"id": "7"})
    create = sent(b'{"id":7,"a":"x"}', "c")
    assert create["op"] == "insert"


def test_a_tombstone_behind_a_flattened_delete_says_nothing() -> None:
    """Debezium's own tombstone has no headers: the delete went before it."""
    (row,) = reader_of("debezium").rows(Message(None, b'{"id":7}', topic="x.s.t"))
    assert dict(zip((c.name for c in DECODED), row, strict=True))["kind"] == "control"


def of_dataworks(millis: int) -> dict[str, Any]:
    columns = [{"name": "id", "type": "LONG"}, {"name": "d", "type": "DATE"}]
    return {
        "schema": {
            "dataColumn": columns,
            "primaryKey": ["id"],
            "source": {"dbType": "mysql", "dbName": "d", "tableName": "t"},
        },
        "payload": {
            "before": None,
            "after": {"dataColumn": {"id": 1, "d": millis}},
            "sequenceId": "1620457642589000001",
            "op": "INSERT",
            "timestamp": {"eventTime": 1620457896000},
        },
        "version": "0.0.1",
    }


@pytest.mark.parametrize(
    ("zone", "millis", "type_", "text"),
    [
        ("America/New_York", 253402318799000, "datetime", "9999-12-31 23:59:59"),
        ("-05:00", 253402318799000, "date", "9999-12-31"),
        ("America/New_York", 253402318799000, None, "253402318799000"),
        ("Asia/Shanghai", 253402271999000, None, "9999-12-31T15:59:59Z"),
        ("Asia/Shanghai", 253402300800000, "datetime", "253402300800000"),
        ("Asia/Shanghai", -62135625943000, None, "-62135625943000"),
        ("Asia/Shanghai", -62135625943000, "datetime", "0001-01-01 00:00:00"),
        ("Asia/Shanghai", -62135798743000, "date", "-62135798743000"),
    ],
)
def test_the_ends_of_the_calendar_take_no_row_with_them(
    zone: str, millis: int, type_: str | None, text: str
) -> None:
    """9999-12-31 and 0001-01-01 stand for no date in many databases."""
    columns = {} if type_ is None else {"columns": {"d.t": {"d": type_}}}
    (row,) = rows("dataworks", of_dataworks(millis), time_zone=zone, **columns)
    assert row["after"] == {"id": "1", "d": text}
    assert ("value_not_of_type" in (row["warnings"] or ())) == (text == str(millis))


ALIBABA = {"id": 5, "isDdl": False, "database": "d", "table": "t", "type": "INSERT", "sql": ""}
ALIBABA |= {"es": 1700000000000, "ts": 1700000000100, "old": None, "pkNames": ["id"]}


def of_canal(row: Mapping[str, Any], types: Mapping[str, str], **more: Any) -> dict[str, Any]:
    return {**ALIBABA, "data": [row], "mysqlType": types, **more}


@pytest.mark.parametrize("call", ["JSON_REPLACE(c, '$.id', 3)", "JSON_REMOVE(c, '$.a')", "@2"])
def test_a_part_of_a_json_value_is_not_the_value(call: str) -> None:
    """LogEventConvert of Canal 1.1.8, with binlog_row_value_options=PARTIAL_JSON."""
    types = {"id": "bigint", "c": "json"}
    value = of_canal({"id": "1", "c": call}, types, type="UPDATE", old=[{"c": "{}"}])
    (row,) = rows("canal", value)
    assert (row["error_code"], "binlog_row_value_options" in row["error"]) == ("unsupported", True)
    (whole,) = rows("canal", of_canal({"id": "1", "c": '["JSON_REPLACE("]'}, types))
    assert whole["after"] == {"id": "1", "c": '["JSON_REPLACE("]'}


@pytest.mark.parametrize(
    ("type_", "code", "sent", "text", "warnings"),
    [
        ("text(500)", 2004, "ä½\u00a0å¥½", "你好", None),
        ("LONGTEXT (9)", 2004, "Ã©", "é", None),
        ("text(500)", 2005, "Ã©", "Ã©", None),
        ("text", 2004, "Ã©", "Ã©", None),
        ("text(500)", 2004, "é", "é", ["bad_bytes"]),
        ("text(500)", 2004, "你好", "你好", ["bad_bytes"]),
    ],
)
def test_text_whose_type_has_a_length(
    type_: str, code: int, sent: str, text: str, warnings: list[str] | None
) -> None:
    """Alibaba Canal reads a TEXT(500), as a DDL has it, as a BLOB (`LogEventConvert.isText`)."""
    types, codes = {"id": "bigint", "n": type_}, {"id": -5, "n": code}
    (row,) = rows("canal", of_canal({"id": "1", "n": sent}, types, sqlType=codes))
    assert (row["after"], row["warnings"]) == ({"id": "1", "n": text}, warnings)


INLONG = {"data": [], "es": 1700000000000, "table": "t", "type": "INSERT", "database": "d"}
INLONG |= {"ts": 0, "mysqlType": {"id": "INT(11)"}, "sqlType": {"id": 4}, "pkNames": ["id"]}
INLONGS = (
    {"isDdl": True, "incremental": True, "dataSourceName": "mysql_binlog_source"},
    {"ddl": True, "schema": None, "oracleType": None},
)


@pytest.mark.parametrize("flags", INLONGS)
@pytest.mark.parametrize(
    ("sql", "op"), [("ALTER TABLE t ADD COLUMN c int", "ddl"), ("TRUNCATE TABLE t", "truncate")]
)
def test_schema_changes_of_inlong(flags: dict[str, Any], sql: str, op: str) -> None:
    """`CanalJson` of InLong's mysql-cdc, whose type is that of a row whatever happened."""
    (row, *_) = rows("canal", {**INLONG, **flags, "sql": sql})
    assert (row["op"], row["ddl"]) == (op, sql)
    (row,) = rows("canal", {**INLONG, **flags, "sql": sql, "data": [{"id": 1}]})
    assert row["error_code"] == "bad_shape"


@pytest.mark.parametrize("flags", [{**each, "isDdl": False, "ddl": False} for each in INLONGS])
def test_a_null_of_inlong_is_null(flags: dict[str, Any]) -> None:
    types = {"id": "INT(11)", "note": "TEXT(-1)"}
    value = {**INLONG, **flags, "type": "UPDATE", "data": [{"id": 1, "note": None}], "sql": ""}
    (row,) = rows("canal", {**value, "mysqlType": types})
    assert (row["after"], row["unavailable"]) == ({"id": "1", "note": None}, None)


def test_a_null_of_canal_on_rocketmq_says_nothing() -> None:
    """Its producer sends null to each queue that has no part of a batch (alibaba/canal, 3787)."""
    queue = {"name_servers": "mq:9876", "topics": ["t"]}
    for format_ in ("canal", "auto"):
        source = Source.model_validate({"name": "s", "rocketmq": queue, "format": format_})
        (values,) = SourceDecoder(decode_spec(source)).rows(Message(b"null", topic="t"))
        assert values[:1] + values[8:9] == ("control", "tombstone")
    (row,) = rows("canal", b"null")
    assert row["kind"] == "reject"


@pytest.mark.parametrize(
    ("members", "number", "label"),
    [(r"'a\\b','x'", "1", r"a\b"), (r"'it\'s','it''s)'", "2", "it's)"), (r"'a\nb'", "1", "a\nb")],
)
def test_labels_with_a_backslash(members: str, number: str, label: str) -> None:
    types = {"id": "bigint", "e": f"enum({members})"}
    (row,) = rows("canal", of_canal({"id": "1", "e": number}, types))
    assert row["after"] == {"id": "1", "e": label}


def test_a_delete_of_ticdc_with_its_key_alone() -> None:
    """`delete-only-output-handle-key-columns`; its id is always 0."""
    types = {"id": "bigint"}
    for number, image in ((0, "key"), (5, "full")):
        (row,) = rows("canal", of_canal({"id": "1"}, types, type="DELETE", id=number))
        assert row["before_image"] == image


@pytest.mark.parametrize(("op", "before"), [("c", None), ("u", None), ("d", {"id": 1})])
def test_what_singlestore_streams_is_no_snapshot(op: str, before: dict[str, Any] | None) -> None:
    """Its connector says `snapshot` until it is started again, and sends no position."""
    source = {"connector": "singlestore", "snapshot": "true", "db": "d", "table": "t"}
    sent = {"op": op, "before": before, "after": before or {"id": 1}, "source": source}
    if op == "d":
        sent["after"] = None
    (row,) = rows("debezium", sent)
    assert row["error_code"] == "order_key_missing"
    (row,) = rows("debezium", sent, order="arrival")
    assert row["pos"][1] == 1
    (row,) = rows("debezium", {**sent, "op": "r", "before": None, "after": {"id": 1}})
    assert row["pos"][1] == 0


@pytest.mark.parametrize("name", ["auto", "debezium"])
def test_json_behind_the_id_of_a_json_schema(name: str) -> None:
    """Confluent's JsonSchemaConverter frames value and key."""
    frame = b"\0\0\0\0\x07"
    sent = debezium_row(MYSQL, {"id": 1, "a": "A+g="})
    given = {"columns": {"d.t": {"id": "int", "a": "decimal(10,2)"}}}
    value = frame + json.dumps(sent).encode()
    found = reader_of(name, **given).rows(Message(value, frame + b'{"id":1}', topic="t"))
    row = dict(zip((c.name for c in DECODED), found[-1], strict=True))
    assert (row["format"], row["op"], row["key"]) == ("debezium", "insert", {"id": "1"})
    assert row["after"] == {"id": "1", "a": "10.00"}
    twice = value.replace(b'"op": "c"', b'"op": "c", "op": "d"')
    (row,) = rows(name, twice)
    assert row["error_code"] == "contradiction"
    (row,) = rows("auto", frame + b'{"id": 1}')
    assert (row["format"], row["error_code"]) == ("debezium_avro", "unsupported")


@pytest.mark.parametrize(
    ("source", "name", "order", "time"),
    [
        ({"db": "d", "table": "t", "file": "b.3", "pos": 4, "ts_sec": 5}, "t", [3, 4], 5_000_000),
        ({"db": "d", "table": "t", "lsn": 7, "ts_usec": 5_000_006}, "t", [7, 7], 5_000_006),
        ({"ns": "d.c.x", "ord": 3, "sec": 5, "h": 1}, "c.x", [5, 3], 5_000_000),
    ],
    ids=["mysql", "postgresql", "mongodb"],
)
@pytest.mark.parametrize("op", ["c", "d"])
def test_source_blocks_before_0_10(
    op: str, source: dict[str, Any], name: str, order: list[int], time: int
) -> None:
    row: Any = {"_id": 1, "a": "x"}
    image = json.dumps(row) if "ns" in source else row
    sent = {"op": op, "source": {"name": "s", **source}, "after": None if op == "d" else image}
    if "ns" not in source:
        sent["before"] = row if op == "d" else None
    found = reader_of("auto").rows(Message(json.dumps(sent).encode(), b'{"id":"1"}', topic="t"))
    told = dict(zip((c.name for c in DECODED), found[-1], strict=True))
    assert (told["db"], told["table"], told["event_time"]) == ("d", name, time)
    assert list(told["pos"][2:4]) == order
    assert "ns" not in source or told["key"] == {"_id": "1"}


IBM_I = {"connector": "db2as400", "name": "ibmi.eu", "db": "S1", "receiver": "R1"}


@pytest.mark.parametrize(
    ("source", "topic", "names"),
    [
        (IBM_I, "ibmi.eu.LIB.ORDERS", ("S1", "LIB", "ORDERS")),
        ({"name": "o", "scn": 5}, "o.HR.EMPLOYEES", ("HR", None, "EMPLOYEES")),
        ({"name": "o", "scn": 5}, "o.ORCL.HR.EMPLOYEES", ("ORCL", "HR", "EMPLOYEES")),
        ({"name": "o", "db": "shop", "table": ""}, "o.shop.t", ("shop", None, "t")),
        ({"name": "o", "scn": 5}, "other.HR.EMPLOYEES", (None, None, None)),
        ({"name": "o", "scn": 5}, "landing/o.HR.EMPLOYEES", (None, None, None)),
        ({"name": "o", "db": "d", "table": "t"}, "o.e.u", ("d", None, "t")),
    ],
)
def test_a_topic_names_the_table_where_the_source_block_does_not(
    source: dict[str, Any], topic: str, names: tuple[str | None, ...]
) -> None:
    value = json.dumps(debezium_row(source, {"id": 1})).encode()
    found = reader_of("debezium", order="arrival").rows(Message(value, topic=topic))
    row = dict(zip((c.name for c in DECODED), found[-1], strict=True))
    assert (row["db"], row["schema"], row["table"]) == names


@pytest.mark.parametrize(
    ("connector", "after", "code"),
    [
        ("scylla", {"id": 1, "a": {"value": 2}}, "unsupported"),
        ("scylla", {"id": 1, "a": None}, "unsupported"),
        ("scylla", {"id": 1, "a": 2}, None),
        ("cassandra", {"id": {"value": 1, "deletion_ts": None, "set": True}}, "unsupported"),
        ("cassandra", {"id": 1}, "unsupported"),
        (None, {"id": {"value": 1, "deletion_ts": None, "set": True}}, "unsupported"),
    ],
)
def test_nulls_of_cassandra_and_scylladb_are_no_null(
    connector: str | None, after: dict[str, Any], code: str | None
) -> None:
    for names in ({"keyspace_name": "k", "table_name": "t"}, {"db": "k", "table": "t"}):
        sent = debezium_row({"connector": connector, **names}, after)
        (row,) = rows("debezium", sent, order="arrival")
        assert row["error_code"] == code
        messages = [(at, Message(json.dumps(sent).encode(), offset=at)) for at in range(200)]
        assert reader_of("debezium", order="arrival").changes("debezium", messages) == []


@pytest.mark.parametrize(
    ("before", "after", "op"),
    [
        (None, {"id": 1}, "insert"),
        ({"id": 1}, {"id": 1, "a": 2}, "update"),
        ({"id": 1}, None, "delete"),
        (None, None, None),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_an_envelope_of_images_alone(
    before: Any, after: Any, op: str | None, wrapped: bool
) -> None:
    """Materialize's: which of the images are there says what happened."""
    sent = {"before": before, "after": after}
    value = {"schema": None, "payload": sent} if wrapped else sent
    (row,) = rows("debezium", value, order="arrival")
    assert (row["op"], row["op_raw"]) == (op, None)
    assert (row["before"] is None, row["after"] is None) == (before is None, after is None)
    (row,) = rows("auto", value)
    assert row["error_code"] == "unknown_format"


def test_what_maxwell_leaves_out_of_a_row_and_names_in_old_became_null() -> None:
    """A row has all columns that its old has, but NULLs where `output_nulls` is false."""
    sent = {"database": "d", "table": "t", "type": "update", "ts": 1, "xid": 2, "commit": True}
    sent |= {"data": {"id": 1, "b": "y"}, "old": {"a": "x", "b": "x"}}
    for name in ("maxwell", "auto"):
        (row,) = rows(name, sent)
        assert (row["after"], row["after_image"]) == ({"id": "1", "b": "y", "a": None}, "partial")
        assert row["before"] == {"id": "1", "b": "x", "a": "x"}


@pytest.mark.parametrize("key", [b"7", b'"a"', b"Struct{id=7}", b'{"schema":null,"payload":7}'])
@pytest.mark.parametrize("value", [b"", {"op": "d", "before": None, "source": MYSQL}])
def test_a_delete_whose_key_is_a_bare_value(key: bytes, value: Any) -> None:
    """ExtractField takes one column out of the key; which one, nothing tells."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    reader = reader_of("debezium", options={"tombstone": "delete"}, order="arrival")
    ((*_, row),) = [reader.rows(Message(data, topic="s.d.t", key=key))]
    named = dict(zip((column.name for column in DECODED), row, strict=True))
    assert named["error_code"] == "no_image"
    assert "a message key that names no columns" in named["error"]
    assert "ExtractField" in named["error"]


@pytest.mark.parametrize("sequence", [5, {"a": 1}, "5", "[5]", [None, "7"], ["a", "b", "c"]])
def test_a_sequence_of_any_shape_refuses_no_row(sequence: Any) -> None:
    source = {"connector": "other", "db": "d", "table": "t", "lsn": 7, "sequence": sequence}
    (row,) = rows("debezium", debezium_row(source, {"id": 1}))
    assert (row["error_code"], list(row["pos"][2:4])) == (None, [7, 7])


def test_a_changefeed_of_cockroachdb_names_its_key_in_the_source_block() -> None:
    source: dict[str, Any] = {"origin": "cockroachdb", "database_name": "d", "table_name": "t"}
    source |= {"schema_name": "public", "ts_hlc": "5.0000000001", "primary_keys": ["id"]}
    for name in ("auto", "debezium"):
        (row,) = rows(name, debezium_row(source, {"id": 1, "a": 2}))
        assert (row["key_columns"], row["key"]) == (("id",), {"id": "1"})
        (row,) = rows(name, debezium_row({**source, "primary_keys": None}, {"id": 1}))
        assert row["key_columns"] is None


SEVERAL: dict[str, list[dict[str, Any]]] = {
    "dms": [
        {"data": {"id": at}, "metadata": {"record-type": "data", "operation": "insert",
         "schema-name": "d", "table-name": f"t{at}"}}
        for at in (1, 2)
    ],
    "debezium": [
        {"op": "c", "after": {"id": at}, "source": {**MYSQL, "pos": at, "table": f"t{at}"}}
        for at in (1, 2)
    ],
    "maxwell": [
        {"database": "d", "table": f"t{at}", "type": "insert", "ts": 1, "data": {"id": at}}
        for at in (1, 2)
    ],
}  # fmt: skip


@pytest.mark.parametrize("between", ["", "\n", " \r\n"])
@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("name", SEVERAL)
def test_objects_one_after_the_other_in_a_message(name: str, pinned: bool, between: str) -> None:
    """As Kinesis Data Firehose and buffers of producers join them."""
    value = between.join(map(json.dumps, SEVERAL[name])).encode()
    reader = reader_of(name if pinned else "auto")
    found = reader.rows(Message(value, b'{"id":1}' if name != "maxwell" else None, topic="t"))
    told = [dict(zip((c.name for c in DECODED), row, strict=True)) for row in found]
    assert [(row["row"], row["table"], row["after"]) for row in told] == [
        (0, "t1", {"id": "1"}),
        (1, "t2", {"id": "2"}),
    ]
    assert [row["key"] for row in told] == [None, None]


def test_of_objects_one_after_the_other_none_is_lost() -> None:
    good, bad = json.dumps(SEVERAL["dms"][0]), json.dumps({"x": 1})
    (row,) = rows("auto", (good + bad).encode())
    assert (row["kind"], row["error_code"]) == ("reject", "unknown_format")
    (row,) = rows("auto", (good + json.dumps(SEVERAL["maxwell"][0])).encode())
    assert (row["kind"], row["error_code"]) == ("reject", "ambiguous_format")
    (row,) = rows("dms", (good + good[:-1]).encode())
    assert (row["kind"], row["error_code"]) == ("reject", "bad_json")
