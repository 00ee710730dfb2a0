"""Messages of applications that no format of ours sent: under `auto` they destroy nothing.

What applications publish has types, actions, data and tables too. Only a name or a shape that one
format alone has makes a truncate, a schema change or a delete of a message (semantics.md, 69).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.wire.contract import Message
from tests.support.messages import reader_of
from tests.support.wires import as_dicts

ROW = {"id": 7, "name": "ada"}
FOREIGN: dict[str, dict[str, Any]] = {
    # An application's own words.
    "rows emptied": {"type": "truncate", "data": [{"x": 1}], "table": "t"},
    "rows emptied, in capitals": {"type": "TRUNCATE", "data": None, "table": "t", "old": None},
    "created": {"type": "create", "data": [ROW]},
    "a commit of a repository": {"type": "commit", "data": [{"sha": "9f31"}]},
    "pushed": {"type": "push", "data": [{"sha": "9f31"}], "ts": 1735689600000},
    "updated by a user": {"type": "update", "data": [ROW], "user": 7},
    "deleted": {"type": "delete", "data": [ROW], "database": "crm", "table": "people"},
    "deleted, in capitals": {"type": "DELETE", "data": [ROW], "database": "crm", "table": "t"},
    "altered": {"type": "alter", "data": None, "old": None},
    "a query": {"type": "QUERY", "data": None, "sql": "DROP TABLE people"},
    "an audit": {"op": "d", "before": ROW, "user": "ada"},
    "an audit of a delete": {"op": "d", "before": ROW, "after": None},
    "an audit with its source": {"op": "d", "before": ROW, "after": None, "source": "billing"},
    "an audit of a service": {"op": "d", "before": ROW, "source": {"name": "a", "version": "2"}},
    "an audit of a truncate": {"op": "t", "table": "people", "source": {"service": "crm"}},
    "an operation": {"op": "a", "ddl": "DROP TABLE people", "source": {"service": "crm"}},
    "an order's end": {"id": "order-1", "status": "END"},
    "a job's begin": {"id": "job-9", "status": "BEGIN", "ts_ms": 1735689600000},
    "a database named": {"databaseName": "crm"},
    "a migration": {"databaseName": "crm", "ddl": "DROP TABLE people"},
    "a migration of a tool": {"databaseName": "crm", "ddl": "DROP TABLE p", "source": "flyway"},
    "an action": {"action": "DELETE", "data": [ROW], "table": "people"},
    "an action of one letter": {"action": "D", "table": "people", "identity": [7]},
    "an action with keys": {"action": "D", "table": "people", "identity": [{"name": "id"}]},
    "an action and its user": {"action": "T", "table": "people", "user": "ada"},
    "an entry": {"action": "DELETE", "entryType": "comment", "data": [ROW]},
    "an entry without type": {"action": "DELETE", "entryType": None, "data": [ROW]},
    "changes": {"change": [{"kind": "delete", "table": "people", "id": 7}]},
    "no changes": {"change": []},
    "a truncate among changes": {"change": [{"kind": "truncate", "table": "people"}]},
    "metadata": {"meta": {"op": "del", "table": "crm.people"}, "data": ROW},
    "metadata of an event": {"metadata": {"operation": "delete", "table": "t"}, "data": ROW},
    "an operation type": {"op_type": "D", "table": "people", "pos": 3, "before": ROW},
    "an operation on an index": {"op_type": "delete", "index": "people", "id": "7"},
    "a versioned command": {"version": "2.0", "payload": {"op": "TRUNCATE", "table": "people"}},
    "a versioned delete": {"version": "1.0.0", "payload": {"op": "DELETE", "before": ROW}},
    "a record": {"recordType": "DELETE", "table": "people", "data": ROW},
    "a row of a table": {"id": 7, "op": "d", "table": "people"},
    "MySQL's own words": {"type": "delete", "database": "crm", "table": "t", "ts": 1, "data": ROW},
    # What is widely used.
    "CloudEvents": {
        "specversion": "1.0",
        "type": "com.example.people.deleted",
        "source": "/crm/people",
        "id": "A234-1234-1234",
        "time": "2025-01-01T00:00:00Z",
        "datacontenttype": "application/json",
        "data": ROW,
    },
    "CloudEvents, deleted": {
        "specversion": "1.0",
        "type": "DELETE",
        "source": "/crm",
        "id": "1",
        "data": [ROW],
    },
    "Stripe": {
        "id": "evt_1",
        "object": "event",
        "type": "customer.deleted",
        "created": 1735689600,
        "livemode": False,
        "data": {"object": {"id": "cus_1", "deleted": True}, "previous_attributes": None},
    },
    "GitHub": {"action": "deleted", "repository": {"id": 1}, "sender": {"login": "ada"}},
    "Kafka Connect": {
        "schema": {"type": "struct", "fields": [{"field": "id", "type": "int32"}]},
        "payload": {"id": 7, "op": "delete"},
    },
    "Kafka Connect, JDBC": {
        "schema": {"type": "struct", "fields": [{"field": "op", "type": "string"}]},
        "payload": {"op": "d", "id": 7, "name": "ada"},
    },
    "Supabase": {
        "type": "DELETE",
        "table": "people",
        "record": None,
        "schema": "public",
        "old_record": ROW,
    },
    "Segment": {"type": "track", "event": "Deleted", "userId": "7", "properties": ROW},
    "PagerDuty": {"event": {"id": "1", "event_type": "incident.deleted", "data": ROW}},
    "Shopify": {"id": 7, "topic": "orders/delete", "payload": {"id": 7}},
    "EventBridge": {
        "version": "0",
        "id": "6a7e8feb",
        "detail-type": "Object Deleted",
        "source": "aws.s3",
        "detail": {"bucket": {"name": "b"}, "reason": "DeleteObject"},
    },
    "S3 notification": {"Records": [{"eventName": "ObjectRemoved:Delete", "s3": {}}]},
    "DynamoDB stream": {
        "eventName": "REMOVE",
        "dynamodb": {"Keys": {"id": {"N": "7"}}, "OldImage": {"id": {"N": "7"}}},
    },
    "MongoDB change stream": {
        "operationType": "delete",
        "ns": {"db": "crm", "coll": "people"},
        "documentKey": {"_id": "7"},
    },
    "Elasticsearch bulk": {"delete": {"_index": "people", "_id": "7"}},
    "JSON Patch": {"op": "remove", "path": "/people/7"},
    "JSON-RPC": {"jsonrpc": "2.0", "method": "truncate", "params": {"table": "people"}, "id": 1},
    "a log line": {"level": "INFO", "ts": 1735689600.1, "msg": "DROP TABLE people", "db": "crm"},
    "a log of statements": {"type": "sql", "database": "crm", "sql": "TRUNCATE TABLE people"},
    "OpenTelemetry": {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": "delete"}]}]}]},
    "Qlik": {
        "magic": "atMSG",
        "type": "DT",
        "message": {"data": ROW, "beforeData": None, "headers": {"operation": "DELETE"}},
    },
    "Striim": {"metadata": {"TableName": "crm.people", "OperationName": "DELETE"}, "data": ROW},
    "Fivetran": {"event": "sync_end", "created": "2025-01-01T00:00:00Z", "data": {"status": "OK"}},
    "Airbyte": {"type": "RECORD", "record": {"stream": "people", "data": ROW}},
    "Singer": {"type": "ACTIVATE_VERSION", "stream": "people", "version": 3},
    "a GraphQL subscription": {"id": "1", "type": "next", "payload": {"data": {"deleted": ROW}}},
    "Slack": {"type": "message", "subtype": "message_deleted", "ts": "1735689600.1", "text": ""},
}


def harm(value: bytes, **given: Any) -> list[tuple[str, str | None]]:
    """What the silver rows of a message would do, under `auto`, that cannot be undone by a row."""
    reader = reader_of("auto", order="arrival", default_table="people", **given)
    return [
        (row["kind"], row["op"])
        for row in as_dicts(reader.rows(Message(value, topic="t", timestamp=5)))
        if row["op"] in ("truncate", "delete", "ddl", "begin", "commit", "rollback")
    ]


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_messages_are_of_no_format(name: str) -> None:
    value = json.dumps(FOREIGN[name]).encode()
    reader = reader_of("auto", order="arrival", default_table="people")
    [row] = as_dicts(reader.rows(Message(value, topic="t", timestamp=5)))
    assert row["kind"] == "reject"
    assert row["error_code"] in ("unknown_format", "ambiguous_format", "unsupported")


@pytest.mark.parametrize("value", [b"{}", b'{"schema": {"type": "struct"}}'])
def test_what_has_no_payload_is_not_told_how_to_unwrap_it(value: bytes) -> None:
    reader = reader_of("auto", order="arrival", default_table="people")
    [row] = as_dicts(reader.rows(Message(value, topic="t", timestamp=5)))
    assert "JsonConverter" not in row["error"]
    assert ("got an empty object" in row["error"]) == (value == b"{}")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("CloudEvents", "JsonConverter"),
        ("Supabase", "wal2json"),
        ("MongoDB change stream", "Debezium"),
        ("Qlik", "Qlik"),
        ("Striim", "Striim"),
        ("rows emptied", "format: canal"),
        ("an audit", "format: debezium"),
        ("a row of a table", "flattened"),
    ],
)
def test_the_refusal_names_the_producer_and_the_way_out(name: str, word: str) -> None:
    [row] = as_dicts(reader_of("auto").rows(Message(json.dumps(FOREIGN[name]).encode())))
    assert word in row["error"].partition("; ")[2]


@pytest.mark.parametrize(
    ("value", "word"),
    [(b"\x03\x00" + bytes(16) + b"\x02abc", "Glue"), (b'{"Op":"I","id":7}', "S3")],
)
def test_files_and_frames_of_amazon_are_named(value: bytes, word: str) -> None:
    [row] = as_dicts(reader_of("auto").rows(Message(value)))
    assert word in row["error"]


WORDS = ("delete", "DELETE", "truncate", "TRUNCATE", "drop", "ALTER", "d", "t", "del", "D", "END")
NAMES = (
    *("type", "action", "op", "operation", "kind", "event", "status", "op_type", "eventType"),
    *("data", "before", "after", "old", "new", "table", "database", "db", "schema", "user", "id"),
    *("ts", "ts_ms", "time", "timestamp", "version", "sql", "ddl", "payload", "meta", "metadata"),
    *("source", "change", "record", "key", "columns", "message", "statement", "pos"),
)
VALUES: tuple[Any, ...] = (
    *(*WORDS, "people", "crm", "2.0", "1.0.0", "DROP TABLE people", "TRUNCATE people", ""),
    *(None, 1, 0, 1735689600000, True, [], {}, [ROW], ROW, [None], [{}]),
    *({"op": word} for word in WORDS),
    *({"op": word, "before": ROW, "table": "people"} for word in WORDS),
    *({"name": "crm", "version": "1"}, {"table": "people"}, {"operation": "delete"}),
    *([{"kind": "delete", "table": "people"}], [{"kind": "truncate", "table": "people"}]),
)


@settings(max_examples=600, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), min_size=1, max_size=8))
def test_common_names_and_words_destroy_nothing(event: dict[str, Any]) -> None:
    assert harm(json.dumps(event).encode()) == []
