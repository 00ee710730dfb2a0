"""What a message that no decoder reads may be, and the way out, in the text of its reject."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from ingest.files.record import SCHEMA_HEADER
from ingest.formats import detect
from ingest.wire.contract import Message
from tests.support.messages import reader_of
from tests.support.wires import as_dicts

KCAT = {"topic": "a", "partition": 0, "offset": 1, "tstype": "create", "ts": 1, "broker": 0}
_PACKED = json.dumps({"before": None, "after": {"id": 1}, "source": {}, "op": "c"})
ROW = json.dumps({"type": "INSERT", "isDdl": False, "data": [{"id": "1"}]})
SNS = {"Type": "Notification", "MessageId": "1", "TopicArn": "arn:aws:sns:t", "Message": ROW}
PUSHED = {"message": {"data": "e30=", "messageId": "1"}, "subscription": "projects/p"}
EVENT_BRIDGE = {"version": "0", "id": "1", "detail-type": "change", "source": "shop", "detail": {}}
DELETE = {"op": "d", "before": {"id": 1}, "after": None, "source": {"connector": "mysql"}}
EVENT_DATA = json.dumps(
    {
        **{"type": "record", "name": "EventData", "namespace": "Microsoft.ServiceBus.Messaging"},
        "fields": [{"name": "Body", "type": ["null", "bytes"]}],
    }
).encode()
CLOUD_EVENT = {"specversion": "1.0", "id": "1", "type": "change"}
GLOBAL_ID = [("apicurio.value.globalId", bytes(7) + b"\x05")]


@pytest.mark.parametrize(
    ("message", "code", "advice"),
    [
        (Message(json.dumps({**KCAT, "key": "k", "payload": ROW}).encode()),
         "unknown_format", "`kcat -J`: set framing: kcat"),
        (Message(json.dumps({**KCAT, "key": None, "payload": None}).encode()),
         "unknown_format", "`kcat -J`: set framing: kcat"),
        (Message(json.dumps({**KCAT, "payload_hex": "00"}).encode()),
         "unknown_format", "`kcat -J`: set framing: kcat"),
        (Message(b"\0\0\0\0\x05\0\x0a\x03abc\x12\x01x"),
         "unknown_schema_id", "if the messages are Protobuf"),
        (Message(bytes(8) + b"\x05\0\x02\x02\x03abc\x12\x01x"),
         "unknown_format", "apicurio.registry.as-confluent"),
        (Message(b"\0\x02\x02\x03abc\x12\x01x", headers=GLOBAL_ID),
         "unknown_format", "apicurio.registry.headers.enabled to false"),
        (Message(b"\x03\0" + bytes(16) + b"abc"), "unknown_format", "AWS Glue"),
        (Message(b"AAAAAAUABnNrdQ=="), "unknown_format", "base64: send the bytes themselves"),
        (Message(b"00000000050006736b75"), "unknown_format", "in files, set framing: hex_lines"),
        (Message(f" [{ROW}]".encode()), "unknown_format", "cut arrays into their elements"),
        (Message(json.dumps({"data": {"id": 1}, "beforeData": None, "headers": {}}).encode()),
         "unknown_format", "Qlik Replicate's"),
        (Message(json.dumps({"table": "S.T", "op_type": "D", "pos": "5"}).encode()),
         "unknown_format", "set format: ogg"),
        (Message(json.dumps({"after": {"id": 1}, "updated": "17.0"}).encode()),
         "unknown_format", "envelope=enriched"),
        (Message(b'{"resolved":"now"}'), "unknown_format", "and updated"),
        (Message(json.dumps({"id": 1, "_cdc": {"op": "D"}}).encode()),
         "unknown_format", "Iceberg's sink"),
        (Message(json.dumps({"op": "d", "before.id": 1, "after.id": None}).encode()),
         "unknown_format", "transformation Flatten"),
        (Message(b'{"type":"delete","binlog_filename":"b.1","binlog_position":4,"columns":[]}'),
         "unknown_format", "NiFi's"),
        (Message(json.dumps({"schema": None, "payload": json.loads(ROW)}).encode()),
         "unknown_format", "schemas.enable=false"),
        (Message(json.dumps({"schema": {"type": "string"}, "payload": ROW}).encode()),
         "unknown_format", "StringConverter"),
        (Message(json.dumps({"@timestamp": "2025", "message": ROW}).encode()),
         "unknown_format", "send that text alone"),
        (Message(json.dumps(ROW).encode()), "unknown_format", "StringConverter in place of"),
        (Message(gzip.compress(ROW.encode())), "unknown_format", "compressed with gzip"),
        (Message(ROW.encode("utf-16")), "unknown_format", "UTF-16"),
        (Message(ROW.encode("utf-16-be")), "unknown_format", "UTF-16"),
        (Message(base64.b64encode(ROW.encode())), "unknown_format", "framing: base64_lines"),
        (Message(b'{"data":{"id":1},"type":"INSERT"}'), "unknown_format", "format: maxwell"),
        (Message(b"\x18\x07*\x02\x08\x01"), "unknown_format", "canal.mq.flatMessage"),
        (Message(b"<row/>"), "unknown_format", "set the source's format"),
        (Message(b'{"before":null,"after":{"id":1}}'), "unknown_format", "Materialize's sinks"),
        (Message(b'{"after":{"id":1},"key":[1]}'), "unknown_format", "CockroachDB's"),
        (Message(b'{"database":"d","table":"t","type":"delete","ts":1,"old":{"id":1}}'),
         "unknown_format", "format: maxwell"),
        (Message(b'{"A_ENTTYP":"DL","A_TIMSTAMP":"2024-01-02","ID":1}'),
         "unknown_format", "IBM's CDC"),
        (Message(b'{"ID":1}', headers=[("A_ENTTYP", b"DL")]), "unknown_format", "IBM's CDC"),
        (Message(b'{"hvr_op":0,"hvr_tx_seq":"5","id":1}'), "unknown_format", "HVR's"),
        (Message(b'{"message":{"data":{"ID":1},"beforeData":null,"headers":{}}}'),
         "unknown_format", "Qlik Replicate's"),
        (Message(b'{"read_method":"mysql-cdc-binlog","source_metadata":{},"payload":{"id":1}}'),
         "unknown_format", "Google Datastream's"),
        (Message(b'{"Records":[{"eventSource":"aws:kinesis","kinesis":{"data":"e30="}}]}'),
         "unknown_format", "an event of AWS Lambda's"),
        (Message(b'{"eventSource":"aws:kafka","records":{"t-0":[{"value":"e30="}]}}'),
         "unknown_format", "an event of AWS Lambda's"),
        (Message(b'{"recordId":"4","approximateArrivalTimestamp":5,"data":"e30="}'),
         "unknown_format", "base64 in data"),
        (Message(b'{"eventName":"REMOVE","dynamodb":{"Keys":{"id":{"S":"1"}}}}'),
         "unknown_format", "DynamoDB's"),
        (Message(b'{"scn":"5","xid":"x","payload":[{"op":"c","after":{"ID":1}}]}'),
         "unknown_format", "OpenLogReplicator's"),
        (Message(b"\x02\x020\x02x\0\0\x02\x04{}", headers=[(SCHEMA_HEADER, EVENT_DATA)]),
         "unknown_format", "Event Hubs"),
        (Message(b"\x02", headers=[(SCHEMA_HEADER, b'{"type":"record","name":"e"}')]),
         "unknown_format", "format: debezium_avro"),
        (Message(b'{"schema":{"type":"struct"},"payload":{"id":1}}'),
         "unknown_format", "options.flattened: true"),
        (Message(b'{"u":{"id":{"t":3,"v":1}}}'), "unknown_format", "format: ticdc_open"),
        (Message(b'{"d":{"id":{"t":3,"v":1}}}'), "unknown_format", "the message's key"),
        (Message(b'{"action":"D","schema":"s","table":"t","identity":[{"name":"id","value":1}]}'),
         "unknown_format", "format: wal2json"),
        (Message(b'{"action":"T","schema":"s","table":"t","columns":[]}'),
         "unknown_format", "format: wal2json"),
        (Message(b'{"change":[{"kind":"truncate","schema":"s","table":"t"}]}'),
         "unknown_format", "format: wal2json"),
        (Message(b'{"op_type":"D","op_ts":"2024-01-02 03:04:05","ID":1}'),
         "unknown_format", "format: ogg"),
        (Message(b'{"before":{"ID":1},"after":null,"op_type":"D"}'),
         "unknown_format", "default_table"),
        (Message(json.dumps({**CLOUD_EVENT, "source": "/", "data": "{}"}).encode()),
         "unknown_format", "no mark of Debezium's"),
        (Message(json.dumps({**CLOUD_EVENT, "source": "/debezium/mysql/s"}).encode()),
         "unknown_format", "it is a CloudEvent of Debezium's"),
        (Message(b'{"namespace":"MaxScaleChangeDataSchema.avro","type":"record","fields":[]}'),
         "unknown_format", "MaxScale's"),
        (Message(b'{"table_name":"s.t","op_type":"DELETE","columns_name":[],"columns_val":[]}'),
         "unknown_format", "openGauss's mppdb_decoding"),
        (Message(b'{"id":1,"nextlsn":2,"kind":"delete","columnnames":[],"columnvalues":[]}'),
         "unknown_format", "Yandex Data Transfer's"),
        (Message(b'{"ID":1,"op_type":"R","table":"ORCL.S.T","scn":"1449498"}'),
         "unknown_format", "Confluent's Oracle CDC"),
        (Message(b'{"type":"fragment","chunk_id":"c","index":0,"data":"{}"}'),
         "unknown_format", "Aurora DSQL"),
        (Message(b'{"key":{"id":1},"value":{"op":"d"},"metadata":{"topic":"t","offset":1}}'),
         "unknown_format", "with the message in value"),
        (Message(b'{"key":"k","value":null,"topic":"t","partition":0,"offset":1}'),
         "unknown_format", "with the message in value"),
        (Message(b'{"record":{"id":1},"changes":null,"action":"delete","metadata":{}}'),
         "unknown_format", "Sequin's"),
        (Message(b'{"payload":[{"after":{"id":1},"key":[1]}],"length":1}'),
         "unknown_format", "CockroachDB's"),
        (Message(b'{"current":{},"previous":{"id":"1"},"metadata":{"operationType":"delete"}}'),
         "unknown_format", "Cosmos DB's"),
        (Message(b'{"id":7,"message":"[{\\"type\\":\\"INSERT\\"}]","timestamp":"2024"}'),
         "unknown_format", "send that text alone"),
        (Message(json.dumps(SNS).encode()), "unknown_format", "raw message delivery"),
        (Message(json.dumps({"MessageId": "1", "ReceiptHandle": "r", "Body": ROW}).encode()),
         "unknown_format", "with the message in Body"),
        (Message(json.dumps(PUSHED).encode()), "unknown_format", "Google Pub/Sub's"),
        (Message(json.dumps(EVENT_BRIDGE).encode()), "unknown_format", "in detail: let the rule"),
        (Message(b'{"type":"RECORD","stream":"t","record":{"id":1}}'),
         "unknown_format", "Singer's or Airbyte's"),
        (Message(b'{"records":[{"key":{"id":1},"value":{"op":"d"}}]}'),
         "unknown_format", "Kafka's REST proxy"),
        (Message(b"Struct{after=Struct{id=1},op=c}"), "unknown_format", "JsonConverter"),
        (Message(json.dumps({"payload": {"op": "d", "before": {"id": 1}}}).encode()),
         "unknown_format", "Debezium's without the source block"),
        (Message(b'{"payload": {"\xff": 1}}'), "bad_json", "expected JSON in UTF-8"),
        (Message(b"table depot.crates: UPDATE: id[integer]:7 label[text]:'a'"),
         "unknown_format", "test_decoding: read the database with wal2json"),
        (Message(b"COMMIT 529"), "unknown_format", "test_decoding"),
        (Message(b"\xf3\x89\x9a\xc2\x0a\x01"), "unknown_format", "Kinesis's producer library"),
    ],
    ids=["kcat", "kcat of a tombstone", "kcat of bytes", "protobuf", "apicurio ids",
         "apicurio headers",
         "glue", "framed in base64", "framed in hex",
         "array", "qlik", "goldengate", "changefeed", "changefeed's end", "iceberg", "flatten",
         "nifi", "connect",
         "connect's text", "text within", "text", "gzip", "utf-16", "utf-16 without a mark",
         "base64", "maxwell", "canal's protobuf", "xml",
         "materialize", "changefeed without times", "a row of maxwell's by ticdc",
         "ibm", "ibm by its header", "hvr", "qlik in message", "datastream", "lambda",
         "lambda of kafka", "firehose", "dynamodb", "openlogreplicator", "event hubs",
         "a container of others", "a row in connect's", "ticdc's row", "ticdc's delete",
         "wal2json without types", "wal2json's truncate", "wal2json's old truncate",
         "goldengate without a table", "goldengate by flink", "a cloud event", "debezium's",
         "maxscale's schema", "opengauss", "yandex", "confluent's", "dsql",
         "a record", "a record without a value", "sequin",
         "changefeed by webhook", "cosmos", "an array within", "sns", "sqs", "pub/sub",
         "event bridge", "singer", "rest proxy", "a struct's text",
         "debezium's in connect's", "connect's in latin-1", "test_decoding",
         "test_decoding's commit", "aggregated"],
)  # fmt: skip
def test_the_way_out_is_told(message: Message, code: str, advice: str) -> None:
    [row] = as_dicts(reader_of("auto").rows(message))
    assert row["error_code"] == code
    assert advice in row["error"]


def test_a_byte_behind_an_id_of_eight_is_enough_to_see_it() -> None:
    [row] = as_dicts(reader_of("debezium_avro").rows(Message(bytes(8) + b"\x05\x0e")))
    assert row["error_code"] == "unsupported"
    assert "apicurio.registry.as-confluent" in row["error"]


@pytest.mark.parametrize("name", ["canal", "debezium", "maxwell", "wal2json"])
@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (gzip.compress(ROW.encode()), "compressed with gzip"),
        (ROW.encode("utf-16"), "UTF-16"),
        (b"\x03\0" + bytes(16) + b"abc", "AWS Glue"),
        (b"\x18\x07*\x02\x08\x01", "canal.mq.flatMessage"),
    ],
    ids=["gzip", "utf-16", "glue", "canal's protobuf"],
)
def test_the_way_out_is_told_of_a_format_that_is_set(name: str, value: bytes, advice: str) -> None:
    [row] = as_dicts(reader_of(name).rows(Message(value, topic="t")))
    assert row["error_code"] == "bad_json"
    assert advice in row["error"]


@pytest.mark.parametrize("name", ["canal", "debezium", "maxwell", "wal2json"])
@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (f"[{ROW}]".encode(), "cut arrays into their elements"),
        (json.dumps(ROW).encode(), "StringConverter in place of"),
    ],
    ids=["array", "text"],
)
def test_the_way_out_is_told_of_what_is_no_object(name: str, value: bytes, advice: str) -> None:
    [row] = as_dicts(reader_of(name).rows(Message(value, topic="t")))
    assert row["error_code"] == "bad_shape"
    assert advice in row["error"]


@pytest.mark.parametrize(
    ("sent", "advice"),
    [
        ({"after": {"id": 1}, "updated": "17.0"}, "envelope=enriched"),
        ({"A_ENTTYP": "DL", "ID": 1}, "IBM's CDC"),
        ({"hvr_op": 0, "id": 1}, "HVR's"),
        ({"before.id": 1, "after.id": None}, "transformation Flatten"),
        ({"table": "T", "op_type": "D", "op_ts": "2024-01-02", "ID": 1}, "format: ogg"),
        ({"op_type": "D", "pos": "00000000010000000002", "ID": 1}, "format: ogg"),
        ({"event_type": "delete", "event_number": 2, "domain": 0, "id": 1}, "MaxScale's"),
        ({"_meta": {"op": "d", "source": {}}, "id": 1}, "Estuary's"),
        ({"event": "deletion", "bySeqno": 48, "key": "a", "content": None}, "Couchbase's"),
        ({"data": {"id": 1}, "op": "-D"}, "Flink's changelog-json"),
        ({"key": [1], "erase": {}}, "DEBEZIUM_JSON"),
        ({"key": [1], "newImage": {"n": 2}}, "DEBEZIUM_JSON"),
        ({"resolved": [1670792500000, 0]}, "DEBEZIUM_JSON"),
        ({"__$operation": 1, "id": 1}, "whose column __$operation says what happened"),
        ({"_change_type": "delete", "_commit_version": 5, "id": 1}, "column _change_type"),
        ({"METADATA$ACTION": "DELETE", "ID": 1}, "column METADATA$ACTION"),
        ({"dts_operation_flag": "D", "dts_id": 1}, "column dts_operation_flag"),
        ({"_ab_cdc_deleted_at": "2024-01-02", "id": 1}, "column _ab_cdc_deleted_at"),
        (SNS, "raw message delivery"),
        (PUSHED, "Google Pub/Sub's"),
        (EVENT_BRIDGE, "with the message in detail"),
        ({"Records": [{"eventSource": "aws:sqs", "body": ROW}]}, "AWS Lambda's"),
        ({"recordId": "4", "data": "e30="}, "base64 in data"),
        ({"records": [{"value": {"op": "d"}}]}, "Kafka's REST proxy"),
        ({"@timestamp": "2025", "message": ROW}, "send that text alone"),
        ({**KCAT, "key": None, "payload": ROW}, "set framing: kcat"),
        ({"type": "RECORD", "record": {"id": 1}}, "Singer's or Airbyte's"),
        ({"message": "hello", "subscription": 7}, "need flattened: true"),
        ({"op_type": "D", "ID": 1}, "need flattened: true"),
        ({"id": 1, "note": "{}"}, "need flattened: true"),
        ({"id": 1, "note": '{"op": "c", "after": 1}'}, "need flattened: true"),
        ({"key": '{"id": 1}', "value": _PACKED}, "send that text alone"),
        ({'{"id": 1}': _PACKED}, "send that text alone"),
        ({"id": 1}, "need flattened: true"),
    ],
)
def test_not_every_row_is_to_be_taken_for_a_flattened_one(
    sent: dict[str, object], advice: str
) -> None:
    """Who follows the advice loses the deletes of the others."""
    [row] = as_dicts(reader_of("debezium").rows(Message(json.dumps(sent).encode(), topic="t")))
    assert row["error_code"] in ("unknown_op", "bad_shape")
    assert advice in row["error"]
    assert ("flattened: true" in row["error"]) is ("flattened" in advice)


@pytest.mark.parametrize("name", ["operation", "cdc_operation"])
@pytest.mark.parametrize("format_", ["auto", "debezium"])
def test_a_row_whose_header_says_what_happened_is_not_taken_for_a_flattened_one(
    name: str, format_: str
) -> None:
    """Redpanda Connect and Solace write so."""
    message = Message(b'{"id":1}', topic="t", headers=[("lsn", b"0/1"), (name, b"DELETE")])
    [row] = as_dicts(reader_of(format_).rows(message))
    assert f"whose header {name} says what happened" in row["error"]
    assert "flattened" not in row["error"]
    other = Message(b'{"id":1}', topic="t", headers=[(name, b"order-placed")])
    [row] = as_dicts(reader_of(format_).rows(other))
    assert "flattened: true" in row["error"]


@pytest.mark.parametrize(
    ("name", "sent", "other"),
    [
        ("debezium", {"database": "d", "table": "t", "type": "delete", "ts": 1, "xid": 2,
                      "commit": True, "data": {"id": 1}}, "maxwell"),
        ("debezium", {"action": "D", "schema": "s", "table": "t",
                      "identity": [{"name": "id", "type": "integer", "value": 1}]}, "wal2json"),
        ("debezium", json.loads(ROW), "canal"),
        ("canal", DELETE, "debezium"),
        ("dms", DELETE, "debezium"),
    ],
    ids=["maxwell", "wal2json", "canal", "debezium", "debezium of a bad shape"],
)  # fmt: skip
def test_the_format_that_is_to_be_set_is_named(
    name: str, sent: dict[str, object], other: str
) -> None:
    [row] = as_dicts(reader_of(name).rows(Message(json.dumps(sent).encode(), topic="t")))
    assert (row["format"], row["error_code"]) in ((name, "unknown_op"), (name, "bad_shape"))
    assert row["error"].endswith(f"format: {other}")


def test_a_snapshot_of_confluents_oracle_connector_is_no_goldengates() -> None:
    """https://github.com/vdesabou/kafka-docker-playground shows rows with op_type R."""
    value = b'{"ID":1,"op_type":"R","table":"ORCL.S.T","scn":"1449498","op_ts":null}'
    [row] = as_dicts(reader_of("ogg").rows(Message(value)))
    assert row["error_code"] == "unsupported"
    assert "Confluent's Oracle CDC connector" in row["error"]


@pytest.mark.parametrize("name", ["auto", "debezium"])
def test_no_format_is_named_for_a_message_of_the_one_that_is_read(name: str) -> None:
    sent = json.dumps(DELETE | {"op": "x"}).encode()
    [row] = as_dicts(reader_of(name).rows(Message(sent, topic="t")))
    assert row["error_code"] == "unknown_op"
    assert "format:" not in row["error"]


def test_a_message_is_set_aside_where_telling_its_format_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Advice is beside the point: what fails there is no reason to stop a stream."""

    def fail(_: Message) -> None:
        raise RecursionError

    monkeypatch.setattr(detect, "recognised", fail)
    sent = json.dumps(DELETE).encode()
    [row] = as_dicts(reader_of("dms").rows(Message(sent, topic="t")))
    assert (row["kind"], row["error_code"]) == ("reject", "bad_shape")
