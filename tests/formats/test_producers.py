"""What producers send by their own pages and code, where a reading that looks right is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.events import SILVER
from ingest.identity import change_hash
from ingest.wire.contract import Message
from tests.support.decoding import code_of, decoder, events
from tests.support.messages import reader_of
from tests.support.wires import as_dicts

PLACE = {"ts_ms": 1_700_000_000_000, "db": "shop", "name": "s", "snapshot": "false"}
BINLOG = {"connector": "mysql", "table": "t", "file": "b.000003", "pos": 100, "row": 0, **PLACE}
COPY = {"connector": "postgresql", "schema": "public", "table": "log", "lsn": 24_023_128, **PLACE}


def lifted(name: str, value: Any, key: Any = None, **source: Any) -> dict[str, Any]:
    """The one row of a change that a message becomes, its key from the message's."""
    message = Message(
        json.dumps(value).encode(),
        key=None if key is None else json.dumps(key).encode(),
        topic="t",
        partition=0,
        offset=1,
        timestamp=1_700_000_000_000,
    )
    names = [column.name for column in SILVER if column.name != "batch"]
    rows = [dict(zip(names, row, strict=True)) for row in reader_of(name, **source).rows(message)]
    [change] = [row for row in rows if row["kind"] == "change"]
    return change


COMMIT = 449_598_867_783_680_001


def _columns(text: str) -> dict[str, Any]:
    key = {"t": 3, "h": True, "f": 11, "v": 1}
    return {"a": key, "b": {"t": 15, "f": 64, "v": text}}


def _canal(type_: str, text: str) -> dict[str, Any]:
    return {
        "id": 0,
        "database": "d",
        "table": "t",
        "pkNames": ["a"],
        "isDdl": False,
        "type": type_,
        "es": 1_700_000_000_000,
        "data": [{"a": "1", "b": text}],
        "_tidb": {"commitTs": COMMIT},
    }


def _simple(type_: str, image: str, text: str) -> dict[str, Any]:
    row = {image: {"a": "1", "b": text}}
    return {"version": 1, "database": "d", "table": "t", "type": type_, "commitTs": COMMIT, **row}


def _enveloped(op: str, image: str, text: str) -> dict[str, Any]:
    source = {"connector": "TiCDC", "db": "d", "table": "t", "commit_ts": COMMIT}
    return {"op": op, image: {"a": 1, "b": text}, "source": source}


@pytest.mark.parametrize(
    ("name", "delete", "insert", "options"),
    [
        ("ticdc_open", {"d": _columns("x")}, {"u": _columns("y")}, {}),
        ("ticdc_simple", _simple("DELETE", "old", "x"), _simple("INSERT", "data", "y"), {}),
        ("canal", _canal("DELETE", "x"), _canal("INSERT", "y"), {"order_key": "commit_ts"}),
        ("debezium", _enveloped("d", "before", "x"), _enveloped("c", "after", "y"), {}),
    ],
)
def test_14_of_what_ticdc_splits_the_delete_is_first(
    name: str, delete: dict[str, Any], insert: dict[str, Any], options: dict[str, Any]
) -> None:
    """An update that changes a unique key comes as a delete and an insert of one commit, and the
    dispatchers of columns and indexes may send the two to different partitions."""
    reader = reader_of(name, order="source", options=options)
    key: dict[str, Any] = {"ts": COMMIT, "scm": "d", "tbl": "t", "t": 1}
    found = []
    for value, partition in ((delete, 1), (insert, 0)):
        message = Message(
            json.dumps(value).encode(),
            key=json.dumps(key if name == "ticdc_open" else {"a": 1}).encode(),
            topic="t",
            partition=partition,
        )
        found += [row for row in as_dicts(reader.rows(message)) if row["kind"] == "change"]
    assert [row["op"] for row in found] == ["delete", "insert"]
    assert found[0]["pos"] < found[1]["pos"]


def _of_oms(scn: str) -> dict[str, Any]:
    schema = {
        "source": {"dbType": "OB_MYSQL", "dbName": "d", "table": "t"},
        "column": [{"name": "a", "type": "INT"}],
    }
    payload = {"op": "INSERT", "after": {"data": {"a": 1}}, "timestamp": {"eventTime": 1}}
    return {"schema": schema, "payload": {**payload, "scn": scn}, "version": "2.0"}


@pytest.mark.parametrize(
    ("name", "value", "separate"),
    [
        ("debezium", {"op": "c", "before": None, "after": {"a": 1}, "source": COPY}, True),
        ("debezium", {"op": "c", "before": None, "after": {"a": 1}, "source": BINLOG}, False),
        (
            "maxwell",
            {"type": "insert", "database": "d", "table": "t", "ts": 1, "data": {"a": 1}},
            True,
        ),
        (
            "maxwell",
            {
                "type": "insert",
                "database": "d",
                "table": "t",
                "ts": 1,
                "xoffset": 1,
                "data": {"a": 1},
            },
            False,
        ),
        ("canal", {"type": "INSERT", "isDdl": False, "id": 1, "es": 1, "data": [{"a": "1"}]}, True),
        (
            "cloudcanal",
            {"action": "INSERT", "isDdl": False, "execTs": 1, "data": [{"a": "1"}]},
            True,
        ),
        ("oms_dataworks", _of_oms("null"), True),
        ("oms_dataworks", _of_oms("17"), False),
    ],
)
def test_66_equal_rows_at_one_place_are_two_where_it_tells_no_rows_apart(
    name: str, value: dict[str, Any], separate: bool
) -> None:
    sent = [Message(json.dumps(value).encode(), topic="t", partition=0, offset=n) for n in (1, 2)]
    hashes = [
        change_hash(event, message, by_arrival=False)
        for message in sent
        for event in decoder(name)(message)
    ]
    assert (len({*hashes}) == 2) is separate


def test_a_routed_topic_or_a_registry_adds_no_column_to_a_key() -> None:
    value = {"op": "c", "before": None, "after": {"id": 7, "v": "x"}, "source": BINLOG}
    for key in (
        {"schemaId": 3, "payload": {"id": 7}},
        {"id": 7, "__dbz__physicalTableIdentifier": "s.shop.t"},
    ):
        row = lifted("debezium", value, key)
        assert (row["key_columns"], row["key"]) == (("id",), {"id": "7"}), key


@pytest.mark.parametrize("route", ["__dbz__physicalTableIdentifier", "__dbz__sourceIdentifier"])
def test_a_routed_topic_adds_no_column_to_a_key_that_stands_alone(route: str) -> None:
    key = {"id": 7, route: "s.shop.t"}
    deleted = {"op": "d", "before": None, "after": None, "source": BINLOG}
    other = lifted("debezium", {**deleted, "before": {"id": 7}}, key)
    row = lifted("debezium", deleted, key)
    assert (row["key_columns"], row["key"]) == (("id",), {"id": "7"})
    assert row["key_hash"] == other["key_hash"] is not None


def test_what_apicurios_registry_wraps_is_read_as_what_is_inside() -> None:
    heartbeat, change = {"ts_ms": 1486500577125}, {"id": 7, "__op": "u", "__deleted": "false"}
    statement = {"source": BINLOG, "databaseName": "s", "ddl": "ALTER TABLE t ADD x int"}
    begin = {"status": "BEGIN", "id": "571:53195829", "ts_ms": 1486500577125, "event_count": None}
    row = {"id": 7, "v": "x"}
    flat = {"order": "arrival", "options": {"flattened": True}}
    for payload in (heartbeat, {**statement, "tableChanges": []}, change, begin, None, row):
        given = flat if payload is row else {"order": "arrival"}
        wrapped, plain = (
            [
                (row["kind"], row["op"], row["ddl"], row["after"], row["error_code"])
                for row in as_dicts(
                    reader_of("debezium", **given).rows(
                        Message(
                            json.dumps(value).encode(),
                            json.dumps(key).encode(),
                            topic="s.shop.t",
                            partition=0,
                            offset=1,
                        )
                    )
                )
            ]
            for value, key in (
                ({"schemaId": 12, "payload": payload}, {"schemaId": 1, "payload": {"id": 7}}),
                (payload, {"id": 7}),
            )
        )
        assert wrapped == plain and wrapped[0][-1] is None, payload


def test_a_row_of_columns_like_the_registrys_wrapper_is_a_row() -> None:
    given = {"order": "arrival", "options": {"flattened": True, "tombstone": "delete"}}
    for payload in ("abc", None, {"k": 1}):
        value = json.dumps({"schemaId": 12, "payload": payload}).encode()
        message = Message(value, b'{"schemaId":12}', topic="s.shop.t", partition=0, offset=1)
        (row,) = as_dicts(reader_of("debezium", **given).rows(message))
        assert (row["op"], row["after"]["schemaId"]) == ("update", "12")


def test_a_pluggable_database_is_the_database() -> None:
    """https://github.com/averemee-si/oracdc, which names the container's database beside it."""
    source = {"connector": "oracdc", "scn": 12204753723754, "database_name": "EBSDB"}
    source |= {"pdb_name": "PDB1", "owner": "SCOTT", "table": "DEPT"}
    row = lifted("debezium", {"op": "c", "before": None, "after": {"ID": 1}, "source": source})
    assert (row["db"], row["schema"], row["table"]) == ("PDB1", "SCOTT", "DEPT")


def test_17_a_truncate_that_every_partition_has_is_one() -> None:
    """Whichever rows the place of a transaction does not tell apart."""
    value = {"type": "TRUNCATE", "database": "d", "table": "t", "commitTs": 445_644_789_012_345_678}
    value |= {"version": 1, "sql": "TRUNCATE TABLE t"}
    sent = [Message(json.dumps(value).encode(), topic="t", partition=n, offset=1) for n in (0, 1)]
    decode = decoder("ticdc_simple")
    hashes = {
        change_hash(event, message, by_arrival=False)
        for message in sent
        for event in decode(message)
    }
    assert len(hashes) == 1


def test_a_number_within_an_id_is_no_text() -> None:
    def key(zone: str) -> Any:
        id_ = f'{{"_id": {{"zone": {zone}}}}}'
        source = {**PLACE, "connector": "mongodb", "rs": "r", "collection": "c", "ord": 1}
        return lifted("debezium", {"op": "c", "before": None, "after": id_, "source": source})[
            "key"
        ]

    assert key("1.5") == key('{"$numberDouble": "1.5"}') == {"_id": '{"zone":1.5}'}
    assert key('"1.5"') == {"_id": '{"zone":"1.5"}'}


def test_a_document_that_is_an_id_is_one_key() -> None:
    """Documents are written in strict extended JSON, keys in relaxed."""
    id_ = '{"_id": {"day": {"$date": 1700006400000},"user": {"$numberLong": "42"}},"n": 1}'
    source = {**PLACE, "connector": "mongodb", "rs": "rs0", "collection": "daily", "ord": 1}
    key = {"id": '{"day": {"$date": "2023-11-15T00:00:00Z"},"user": 42}'}
    created = lifted("debezium", {"op": "c", "before": None, "after": id_, "source": source}, key)
    gone = lifted("debezium", {"op": "d", "before": None, "after": None, "source": source}, key)
    assert created["key"] == gone["key"]
    assert created["key"] == {"_id": '{"day":{"$date":"2023-11-15T00:00:00Z"},"user":42}'}


def test_ticdc_names_its_types_beside_those_of_connect() -> None:
    fields = [
        {"tidb_type": "int", "type": "int32", "optional": False, "field": "id"},
        {"tidb_type": "bigint unsigned", "type": "int64", "optional": True, "field": "big"},
        {"tidb_type": "blob", "type": "string", "optional": True, "field": "pic"},
    ]
    envelope = [{"type": "struct", "optional": True, "field": "after", "fields": fields}]
    source = {**PLACE, "connector": "TiCDC", "table": "t", "commit_ts": 450_000_000_000_000_003}
    after = {"id": 1, "big": -1, "pic": "/9j/"}
    [event] = events(
        decoder("debezium"),
        {
            "payload": {"source": source, "op": "c", "before": None, "after": after},
            "schema": {"type": "struct", "name": "c.shop.t.Envelope", "fields": envelope},
        },
    )
    assert event.after == {"id": "1", "big": "18446744073709551615", "pic": "/9j/"}
    assert event.types is not None
    assert [column.type for column in event.types.columns] == ["int", "decimal(20,0)", "binary"]


def test_a_statement_on_several_tables_is_of_the_one_that_its_message_changes() -> None:
    value = {
        "source": {**BINLOG, "table": "a,b"},
        "databaseName": "shop",
        "ddl": "DROP TABLE `b`",
        "tableChanges": [{"type": "DROP", "id": '"shop"."b"', "table": None}],
    }
    [event] = events(decoder("debezium"), value)
    assert event.table == "b"


def test_a_timestamp_of_db2_has_microseconds() -> None:
    source = {**PLACE, "connector": "db2", "schema": "A", "table": "t"}
    value = {
        "op": "c",
        "before": None,
        "after": {"ID": 7, "BORN": 86_400_000_000},
        "source": source,
    }
    decode = decoder("debezium", columns={"shop.A.t": {"BORN": "timestamp"}})
    [event] = events(decode, value)
    assert event.after is not None and event.after["BORN"] == "1970-01-02 00:00:00"


def test_an_update_without_a_declared_column_is_partial() -> None:
    """PostgreSQL does not send a large value that did not change."""
    columns = [{"name": "id", "type": "integer", "value": 1}]
    value = {"action": "U", "lsn": "0/16B3748", "schema": "public", "table": "t"}
    decode = decoder("wal2json", columns={"public.t": {"id": "integer", "big": "text"}})
    [event] = events(decode, {**value, "columns": columns, "identity": columns})
    assert (event.after, event.after_image, event.unavailable) == ({"id": "1"}, "partial", ["big"])
    assert event.warnings == ["partial_image"]


def test_a_column_without_a_value_is_no_null() -> None:
    columns = [{"name": "id", "type": "integer", "value": 1}, {"name": "a", "type": "integer"}]
    value = {"action": "U", "lsn": "0/16B3748", "schema": "public", "table": "t"}
    assert code_of(decoder("wal2json"), {**value, "columns": columns}) == "bad_shape"


def test_bits_of_maxwell_may_be_many() -> None:
    """`def` has no length of a BIT."""
    columns = [{"type": "int", "name": "id", "signed": True}, {"type": "bit", "name": "flags"}]
    value = {
        **{"type": "table-create", "database": "d", "table": "t", "ts": 1_477_053_126_000},
        "def": {"database": "d", "table": "t", "columns": columns, "primary-key": ["id"]},
        "sql": "create table t (id int primary key, flags bit(8))",
    }
    [event] = events(decoder("maxwell"), value)
    assert event.columns is not None and event.columns[1].type == "decimal(20,0)"


def test_a_key_that_is_declared_in_another_case_moves_its_row() -> None:
    value = {
        "meta": {"op": "upd", "table": "db.t", "scn": "1", "rowid": "db.t-1"},
        **{"key": {"ID": 1, "V": "a"}, "data": {"ID": 2}},
    }
    row = lifted("oms_shareplex", value, keys={"db.t": ["id"]})
    assert (row["key"], row["key_before"]) == ({"id": "2"}, {"id": "1"})


def test_columns_behind_a_block_of_no_types_stay() -> None:
    decode = decoder("oms_default")
    meta = {"recordType": "INSERT", "dbName": "db", "tableName": "t"}
    value = {"prevStruct": None, "postStruct": {"b": 2, "__light_type": {}, "a": 1}}
    [event] = events(decode, {**value, "allMetaData": {"checkpoint": None, **meta}, **meta})
    assert event.after == {"b": "2", "a": "1"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("canal", {"type": "QUERY", "isDdl": True, "database": "d", "table": "t", "sql": "{}"}),
        ("canal", {"type": "ALTER", "isDdl": True, "database": "d", "table": "t", "sql": "{}"}),
        ("cloudcanal", {"action": "QUERY", "isDdl": True, "db": "d", "table": "t", "sql": "{}"}),
        ("maxwell", {"type": "table-alter", "database": "d", "ts": 1, "sql": "{}", "def": {}}),
        ("oms_default", {"recordType": "DDL", "prevStruct": None, "postStruct": {"ddl": "{}"}}),
        ("dataworks", {"payload": {"op": "QUERY", "ddl": {"text": "{}"}}, "version": "1.0.0"}),
    ],
)
@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("/* x */ INSERT INTO t VALUES (1)", "statement_dml"),
        ("delete from t", "statement_dml"),
        ("with x as (select 1) delete from t", "statement_dml"),
        ("/* y */ WITH x AS (z) UPDATE t", "statement_dml"),
        ("ALTER TABLE t ADD COLUMN updated int", None),
        ("UPDATE STATISTICS dbo.t", None),
    ],
)
def test_a_statement_that_changes_rows_is_no_schema_change(
    name: str, value: dict[str, Any], sql: str, code: str | None
) -> None:
    text = json.dumps(value).replace('{}"', f'{sql}"')
    message = Message(text.encode(), topic="t", partition=0, offset=1)
    [*_, row] = as_dicts(reader_of(name).rows(message))
    assert (row["error_code"], row["ddl"]) == (code, None if code else sql)
