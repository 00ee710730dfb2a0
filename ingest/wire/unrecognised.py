"""Advice on messages that no format recognises: what such a message may be, and what to do about
it.

A kind of message is recognised by names that only its producer is known to write, or by what it
lacks compared with a format that it resembles. A wrong guess does no harm: the message is set aside
in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ingest.files.record import SCHEMA_HEADER
from ingest.values.jsontext import UNREADABLE, members
from ingest.wire.avro.framing import WRITE_IN_MESSAGE, id_in_header, refused
from ingest.wire.contract import TopLevel

Headers = Sequence[tuple[str, bytes | None]]
_ELSEWHERE = "no decoder reads it; send the changes with Debezium, Canal or another of the formats"


class _Kind(NamedTuple):
    """A kind of message that is recognised by some names, and what to do about it."""

    matches: Callable[[TopLevel], bool]
    advice: str


def _has(*names: str) -> Callable[[TopLevel], bool]:
    return lambda top: top.keys() >= set(names)


def _letter(top: TopLevel) -> bool:
    return "op" in top and len(bytes(top["op"])) == 3 and ("before" in top or "after" in top)


def _wrapped_letter(top: TopLevel) -> bool:
    payload = bytes(top.get("payload", b""))
    try:
        return _wrapped(top) and payload.startswith(b"{") and _letter(members(payload))
    except UNREADABLE:
        return False


def _canal(top: TopLevel) -> bool:
    return "type" in top and bytes(top.get("data", b""))[:1] in (b"[", b"n")


def _row(top: TopLevel) -> bool:
    return bool(top) and all(bytes(value)[:1] not in b"{[" for value in top.values())


def _wrapped(top: TopLevel) -> bool:
    payload = bytes(top.get("payload", b""))
    return top.keys() <= {"schema", "payload"} and payload.startswith((b"{", b"[", b'"'))


_OF_A_CHANGE = ("op", "source", "before", "after")


def _packed(top: TopLevel) -> bool:
    """Whether a text in the message is itself JSON; Pulsar's source of Canal packs an array."""
    if bytes(top.get("message", b""))[:3] == b'"[{':
        return True
    return any(bytes(value)[:2] == b'"{' for value in top.values())


def _packed_change(top: TopLevel) -> bool:
    """Whether a text in the message is a change of Debezium's, as its sink to Redis packs each."""
    return any(
        text[:2] == b'"{' and all(f'\\"{name}\\":'.encode() in text for name in _OF_A_CHANGE)
        for text in map(bytes, top.values())
    )


def _cloud_event(top: TopLevel) -> bool:
    return top.keys() >= {"specversion", "type", "source"}


def _record(top: TopLevel) -> bool:
    """Whether it is a record of Kafka's as an object, as sinks to files write it."""
    if bytes(top.get("value", b"")).startswith(b"{"):
        return not top.keys().isdisjoint({"key", "headers", "metadata", "offset"})
    return {"value", "topic", "offset"} <= top.keys()


_TELLING = frozenset(
    """
    __$operation _change_type _hoodie_operation _metadata_change_type metadata$action
    header__change_oper ibmsnap_operation odq_changemode dtl__capxaction __rowmarker__
    dts_operation_flag new_dts_sync_dts_operation_flag hg_binlog_event_type _tp_delta mz_diff
    _ab_cdc_deleted_at _fivetran_deleted _sdc_deleted_at _peerdb_is_deleted _metadata_deleted
    """.split()
)
"""Columns, in lower case, by which tables of changes and loaders say what happened to a row: of
SQL Server, Delta Lake, Iceberg and BigQuery, Hudi, Datastream, Snowflake, Qlik, IBM, SAP,
Informatica, Fabric, Aliyun DTS in DataHub, Hologres, Timeplus and Materialize; Airbyte, Fivetran,
Stitch, PeerDB and Datastream mark what was deleted."""


def _telling(top: TopLevel) -> str | None:
    return next((name for name in top if name.lower() in _TELLING), None)


def _telling_header(headers: Headers) -> str | None:
    return next(
        (
            name
            for name, value in headers
            if name in _TELLING_HEADERS and (value or b"").lower() in _OPERATIONS
        ),
        None,
    )


_ROW_KINDS = {b'"+I"', b'"-U"', b'"+U"', b'"-D"'}
_TELLING_HEADERS = {"operation", "cdc_operation"}
"""Of Redpanda Connect and of Solace, beside a row without an envelope."""
_OPERATIONS = {b"insert", b"create", b"read", b"update", b"upsert", b"delete", b"truncate"}
_OF_YDB = {"update", "erase", "reset", "newImage", "oldImage"}
_BESIDE_OP_TYPE = {"table", "op_ts", "current_ts", "pos", "before", "after"}
_NO_SOURCE = (
    "it looks like Debezium's without the source block that tells it: if it is, set format: "
    "debezium and order: arrival"
)
_TEXT_ALONE = "a text in it looks like JSON by itself: send that text alone as the message's value"
_AROUND_MESSAGES = (
    _Kind(
        lambda top: (
            top.keys() >= {"topic", "partition", "offset"}
            and not top.keys().isdisjoint({"payload", "payload_hex"})
        ),
        "it looks like a line of `kcat -J`: set framing: kcat",
    ),
    _Kind(
        _record,
        "it looks like a record of Kafka's as an object, with the message in value: send the "
        "message alone, or, in files, as `kcat -J` writes it, with framing: kcat",
    ),
    _Kind(
        lambda top: any(
            b'"eventSource"' in bytes(top[name]) or "eventSource" in top
            for name in ("Records", "records")
            if name in top
        ),
        "it is an event of AWS Lambda's, with messages in it: read the stream or topic that they "
        "come from",
    ),
    _Kind(
        lambda top: top.keys() == {"records"} and b'"value"' in bytes(top["records"]),
        "it looks like a request to Kafka's REST proxy, with messages in it: read the topic that "
        "it writes them to",
    ),
    _Kind(
        _has("recordId", "data"),
        "it looks like a record of Kinesis Data Firehose's transformation, with the message as "
        "base64 in data: send the message itself",
    ),
    _Kind(
        _has("Type", "TopicArn", "Message"),
        "it is a notification of Amazon SNS's, with the message in Message: turn on raw message "
        "delivery for the subscription",
    ),
    _Kind(
        lambda top: (
            top.keys() >= {"MessageId", "Body"}
            and not top.keys().isdisjoint({"ReceiptHandle", "MD5OfBody"})
        ),
        "it looks like a message as Amazon SQS hands it out, with the message in Body: send that "
        "alone",
    ),
    _Kind(
        _has("detail-type", "detail"),
        "it is an event of Amazon EventBridge's, with the message in detail: let the rule's target "
        "send $.detail alone",
    ),
    _Kind(
        lambda top: "subscription" in top and bytes(top.get("message", b""))[:1] == b"{",
        "it looks like a push of Google Pub/Sub's, with the message as base64 in message.data: "
        "send the message itself",
    ),
    _Kind(lambda top: _packed_change(top) or ("@timestamp" in top and _packed(top)), _TEXT_ALONE),
)
"""What carries messages of any producer and hands them on in an envelope of its own."""
_OTHERS = (
    *_AROUND_MESSAGES,
    _Kind(
        lambda top: (
            _cloud_event(top) and b"debezium" in (bytes(top["type"]) + bytes(top["source"])).lower()
        ),
        "it is a CloudEvent of Debezium's: set its value.converter to JsonConverter",
    ),
    _Kind(
        _cloud_event,
        "it is a CloudEvent, with no mark of Debezium's: if Debezium wrote it, set its "
        f"value.converter to JsonConverter; of any other, {_ELSEWHERE}",
    ),
    _Kind(
        lambda top: "record" in top and bytes(top.get("type", b"")) == b'"RECORD"',
        f"it looks like a record of Singer's or Airbyte's: {_ELSEWHERE}",
    ),
    _Kind(_has("magic", "message", "type"), f"it looks like Qlik Replicate's: {_ELSEWHERE}"),
    _Kind(_has("data", "beforeData", "headers"), f"it looks like Qlik Replicate's: {_ELSEWHERE}"),
    _Kind(
        lambda top: b'"beforeData"' in bytes(top.get("message", b"")),
        f"it looks like Qlik Replicate's: {_ELSEWHERE}",
    ),
    _Kind(
        lambda top: not top.keys().isdisjoint({"hvr_op", "hvr_op_val"}),
        f"it looks like HVR's, which says in hvr_op what happened: {_ELSEWHERE}",
    ),
    _Kind(
        _has("read_method", "source_metadata", "payload"),
        f"it looks like Google Datastream's: {_ELSEWHERE}",
    ),
    _Kind(_has("eventName", "dynamodb"), f"it looks like DynamoDB's own stream: {_ELSEWHERE}"),
    _Kind(
        lambda top: (
            "payload" in top
            and not top.keys().isdisjoint({"scn", "scns", "c_scn"})
            and bytes(top["payload"])[:1] == b"["
        ),
        f"it looks like OpenLogReplicator's: {_ELSEWHERE}",
    ),
    _Kind(
        lambda top: "metadata" in top and b'"OperationName"' in bytes(top["metadata"]),
        f"it looks like Striim's: {_ELSEWHERE}",
    ),
    _Kind(
        lambda top: (
            top.keys() >= {"event_type", "event_number"}
            or b"MaxScale" in bytes(top.get("namespace", b""))
        ),
        f"it looks like MaxScale's, which says in event_type what happened: {_ELSEWHERE}",
    ),
    _Kind(
        lambda top: b'"op"' in bytes(top.get("_meta", b"")),
        f"it looks like Estuary's, which says in _meta what happened: {_ELSEWHERE}",
    ),
    _Kind(
        _has("event", "bySeqno"),
        f"it looks like Couchbase's, which says in event what happened: {_ELSEWHERE}",
    ),
    _Kind(
        lambda top: bytes(top.get("op", b"")) in _ROW_KINDS and "data" in top,
        "it looks like Flink's changelog-json: let its job write debezium-json, and set format: "
        "debezium, order: arrival and default_table",
    ),
    _Kind(
        _has("op_type", "columns_name", "columns_val"),
        "it looks like openGauss's mppdb_decoding: read the database with wal2json, or with a "
        "connector of Debezium's",
    ),
    _Kind(
        _has("kind", "columnnames"),
        "it looks like Yandex Data Transfer's own: let its queue target write Debezium's format",
    ),
    _Kind(
        _has("type", "chunk_id", "index", "data"),
        "it looks like a fragment of a row of Aurora DSQL's, of more than 9 MiB: fragments are not "
        "put together",
    ),
    _Kind(_has("record", "action", "metadata"), f"it looks like Sequin's: {_ELSEWHERE}"),
    _Kind(
        lambda top: b'"operationType"' in bytes(top.get("metadata", b"")),
        f"it looks like Cosmos DB's change feed: {_ELSEWHERE}",
    ),
    _Kind(
        _has("type", "table", "record", "old_record"),
        "it looks like a webhook of Supabase's, which has no log position: read the database with "
        "Debezium or wal2json",
    ),
    _Kind(
        _has("operationType", "ns"),
        "it looks like MongoDB's own change stream: read the database with Debezium",
    ),
    _Kind(
        lambda top: "Op" in top and _row(top),
        "it looks like a row that AWS DMS wrote to S3: use its Kafka or Kinesis target",
    ),
    _Kind(
        lambda top: (
            ("key" in top and not top.keys().isdisjoint(_OF_YDB))
            or bytes(top.get("resolved", b"")).startswith(b"[")
        ),
        "it looks like YDB's own JSON: create the changefeed with FORMAT = 'DEBEZIUM_JSON', and "
        "set order: arrival and default_table",
    ),
    _Kind(
        lambda top: (
            ("after" in top and not top.keys().isdisjoint(("updated", "key")))
            or top.keys() == {"resolved"}
            or ("length" in top and bytes(top.get("payload", b"")).startswith(b"["))
        ),
        "it looks like a changefeed of CockroachDB's: create it with envelope=enriched and "
        "enriched_properties='source' and updated, which Debezium's format reads",
    ),
    _Kind(
        lambda top: any(name.startswith(("before.", "after.")) for name in top),
        "it looks like Debezium's envelope that Connect's transformation Flatten took apart: leave "
        "that out",
    ),
    _Kind(
        _has("type", "binlog_filename", "binlog_position"),
        f"it looks like NiFi's CaptureChangeMySQL: {_ELSEWHERE}",
    ),
    _Kind(
        lambda top: bytes(top.get("_cdc", b"")).startswith(b"{"),
        "it looks like the work of a transformation of Iceberg's sink: read the topic as the "
        "connector writes it",
    ),
    _Kind(
        lambda top: (
            top.keys() >= {"table", "scn", "op_type"}
            and top.keys().isdisjoint({"pos", "before", "after"})
        ),
        "it looks like Confluent's Oracle CDC connector's: send the changes with Debezium's Oracle "
        "connector, or with GoldenGate",
    ),
    _Kind(
        lambda top: "op_type" in top and not top.keys().isdisjoint(_BESIDE_OP_TYPE),
        "it looks like GoldenGate's, told by table and any of op_ts, current_ts, primary_keys and "
        "tokens: if it is, set format: ogg, which reads its JSON, and default_table where it "
        "names no table",
    ),
)
"""Transports' envelopes, and producers, other than Debezium, whose changes name the operation in a
way of their own."""
_KINDS = (
    *_OTHERS,
    _Kind(_wrapped_letter, _NO_SOURCE),
    _Kind(
        _wrapped,
        "it looks wrapped by Connect's JsonConverter, in which only Debezium's and GoldenGate's "
        "are read: set the converter's schemas.enable=false, or StringConverter where the "
        "payload is a text; if it is a row that Debezium flattened, set format: debezium and "
        "options.flattened: true",
    ),
    _Kind(_letter, _NO_SOURCE),
    _Kind(
        lambda top: {"before", "after"} <= top.keys() <= {"before", "after", "transaction"},
        "it looks like the envelope of Materialize's sinks, which names no operation: if it is, "
        "set format: debezium and order: arrival",
    ),
    _Kind(
        _canal,
        "it looks like Canal's without any of isDdl, mysqlType, sqlType and pkNames, which tell "
        "it: if it is, set format: canal",
    ),
    _Kind(
        lambda top: (
            ("type" in top and bytes(top.get("data", b""))[:1] == b"{")
            or top.keys() == {"database", "table", "type", "ts", "old"}
        ),
        "it may be Maxwell's without database, ts or, of a delete, any of xid, xoffset, commit and "
        "position, which tell it: if it is, set format: maxwell, and default_database and "
        "default_table where the message lacks them",
    ),
    _Kind(
        lambda top: (
            ("action" in top and "table" in top and len(bytes(top["action"])) == len(b'"I"'))
            or (bytes(top.get("change", b"")).startswith(b"["))
        ),
        "it looks like wal2json's without what tells it, the columns' types or an LSN: if it is, "
        "set format: wal2json",
    ),
    _Kind(
        lambda top: bool(top) and top.keys() <= {"u", "p", "d"},
        "it looks like a row of TiCDC's Open protocol: keep the message's key, which names its "
        "table (in files, framing: kcat), and set format: ticdc_open",
    ),
    _Kind(_packed, _TEXT_ALONE),
    _Kind(
        _row,
        "it looks like a row without an envelope: if Debezium flattened it, set format: debezium "
        "and options.flattened: true",
    ),
)
_IBM = "A_ENTTYP"
"""The name that tells what a change of IBM's CDC is: a column in its audit format, a header in its
other formats."""


def advice(top: TopLevel, headers: Headers = ()) -> str:
    """What to do about a JSON message whose top level no format recognises."""
    return _first(_KINDS, top, headers) or "set the source's format"


def advice_on_row(top: TopLevel, headers: Headers = ()) -> str | None:
    """What to do about a change that would lose its operation if it, or what it is wrapped in, were
    taken for a plain row; None if nothing shows that it has one."""
    return _first(_OTHERS, top, headers)


def _first(kinds: Sequence[_Kind], top: TopLevel, headers: Headers) -> str | None:
    if telling := _telling(top):
        return f"it looks like a row whose column {telling} says what happened to it: {_ELSEWHERE}"
    if header := _telling_header(headers):
        return f"it looks like a row whose header {header} says what happened to it: {_ELSEWHERE}"
    if _IBM in top or any(name == _IBM for name, _ in headers):
        return f"it looks like IBM's CDC, which says in {_IBM} what happened: {_ELSEWHERE}"
    return next((kind.advice for kind in kinds if kind.matches(top)), None)


def advice_on_bytes(value: bytes, headers: Headers = ()) -> str | None:
    """What to do about bytes that no format recognises; None if nothing shows what they are."""
    if any(name.startswith("apicurio.") for name, _ in headers):
        return (
            "its headers name a schema of an Apicurio registry, which only the message itself may "
            f"do: {WRITE_IN_MESSAGE}"
        )
    for name, text in headers:
        if (elsewhere := id_in_header(name)) is not None:
            return f"its schema's id stands in {elsewhere}"
        if name == SCHEMA_HEADER and text:
            return _contained(text)
    if value.lstrip()[:1] == b"[":
        return (
            "it is an array: each record has one message, so cut arrays into their elements before "
            "they are sent"
        )
    return refused(value) or _encoding(value)


def _contained(schema: bytes) -> str:
    """What the data of a container are, judged by their schema, and what to do about them."""
    if b'"EventData"' in schema and b'"Body"' in schema:
        return (
            "it looks captured by Azure Event Hubs, with the message in Body: read the event hub "
            "itself, as Kafka"
        )
    if b'"op_type"' in schema and b'"pos"' in schema:
        return (
            "it looks like GoldenGate's, of which JSON alone is decoded: set the handler's format "
            "to json"
        )
    return (
        "its container's schema is of no format: if Debezium wrote it, set format: debezium_avro, "
        "and options.flattened: true where its rows have no envelope"
    )


_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"BZh": "bzip2",
    b"\x78\x01": "zlib",
    b"\x78\x9c": "zlib",
    b"\x78\xda": "zlib",
    b"\xff\x06\x00\x00sNaPpY": "snappy",
}
_CANAL = b"\x18\x07\x2a"
"""The first bytes of a CanalPacket of messages: its type, 7, and the beginning of its body."""
_AGGREGATED = b"\xf3\x89\x9a\xc2"
_TEST_DECODING = re.compile(
    rb"(?:BEGIN|COMMIT)(?: \d+\b|\Z)|table [^\n]{1,300}?: (?:INSERT|UPDATE|DELETE|TRUNCATE):"
)
_WIDE = (b"\xff\xfe", b"\xfe\xff", b"\0{", b"{\0")


def _encoding(value: bytes) -> str | None:
    """What the bytes are if they may hold JSON in another encoding, and what to do about them."""
    for start, name in _COMPRESSED.items():
        if value.startswith(start):
            return (
                f"it looks compressed with {name}: a message's own bytes are not unpacked; leave "
                "it to the producer's compression.type, which the broker's client undoes (files "
                "are unpacked by their suffix)"
            )
    if value.startswith(_CANAL):
        return "it looks like Canal's Protobuf: set canal.mq.flatMessage to true, which writes JSON"
    if value.startswith(_AGGREGATED):
        return (
            "it looks like records that Kinesis's producer library put together: take them apart "
            "before they are sent, or set its AggregationEnabled to false"
        )
    if value.startswith(b"Struct{"):
        return (
            "it is the text of a struct of Connect's, which has no types: set the converter to "
            "JsonConverter"
        )
    if _TEST_DECODING.match(value):
        return (
            "it looks like PostgreSQL's test_decoding: read the database with wal2json, or with "
            "Debezium"
        )
    if value.startswith(_WIDE):
        return "it looks like UTF-16: messages are read as UTF-8"
    if value.lstrip()[:1] == b'"':
        return (
            "it is a text in JSON's quotes: where the text is a message, let the producer write it "
            "as it is (StringConverter in place of JsonConverter)"
        )
    if value[:2] in (b"ey", b"ew"):  # base64 of an open brace
        return (
            "it looks like base64: send the bytes themselves; in files, set framing: base64_lines"
        )
    return None
