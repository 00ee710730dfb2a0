"""What is peculiar to Debezium; the golden folders under formats/debezium hold the rest."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats.debezium.envelope import Source
from ingest.formats.debezium.json import FORMAT, decoder
from ingest.formats.debezium.order import crowded, order_of
from ingest.formats.debezium.topics import recognise
from ingest.values import jsontext
from ingest.wire.contract import Decoder, FormatOptions, Message

GOLDEN = Path(__file__).parent / "debezium"
DEFAULTS = {name: option.default for name, option in FORMAT.options.items()}


def decode_with(**options: Any) -> Decoder:
    return decoder(FormatOptions(options={**DEFAULTS, **options}))


def lines(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data] if path.suffix == ".json" else [line for line in data.split(b"\n") if line]


def events(path: Path) -> list[Event]:
    decode = decode_with()
    return [event for line in lines(path) for event in decode(Message(line, topic=path.name))]


def golden_messages() -> list[bytes]:
    files = sorted(GOLDEN.glob("*/*.kcat.jsonl"))
    sent = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [message["payload"].encode() for message in sent if message.get("payload")]


def changelog(found: list[Event]) -> Iterator[list[Any]]:
    """The events as Flink's changelog rows, INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE."""
    for event in found:
        update = event.op == "update"
        if event.before is not None:
            yield ["-U" if update else "-D", *event.before.values()]
        if event.after is not None:
            yield ["+U" if update else "+I", *event.after.values()]


def float32(number: float) -> float:
    """The nearest FLOAT of 32 bits, how the source stored it."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


@pytest.mark.parametrize("name", ["flink-mysql-schemaless", "flink-postgres-schemaless"])
def test_flink_reads_the_same_changes(shared: Path, name: str) -> None:
    folder = shared / "samples/peers/debezium-json"
    expected = json.loads((folder / f"{name}.expected.json").read_text())
    found = [
        [word, int(key), label, text, float32(float(weight))]
        for word, key, label, text, weight in changelog(events(folder / f"{name}.jsonl"))
    ]
    assert found == [[*row[:4], float32(row[4])] for row in expected["rows"]]


def test_cloudcanal_envelope(shared: Path) -> None:
    folder = shared / "samples/peers/cloudcanal-debezium"
    found = events(folder / "seed-envelope.jsonl")
    expected = json.loads((folder / "seed-envelope.expected.json").read_text())["rows"]
    assert len(found) == len(expected)
    for event, row in zip(found, expected, strict=True):
        for name, value in row.items():
            got = list(event.key_columns or ()) if name == "keys" else getattr(event, name)
            assert got == value, (event.op, name)


def test_null_values_are_skipped_like_paimon_does(shared: Path) -> None:
    folder = shared / "samples/peers/debezium-json"
    expected = json.loads((folder / "paimon-tombstone-a.expected.json").read_text())["rows"]
    decode = decode_with()
    sent = [*lines(folder / "paimon-tombstone-a.jsonl"), None]
    sent += lines(folder / "paimon-tombstone-b.jsonl")
    found = [event for value in sent for event in decode(Message(value))]
    assert [event.op for event in found] == ["insert", "other", "insert"]
    rows = [event.after for event in found if event.after is not None]
    assert [[int(str(row["id"])), row["value"]] for row in rows] == expected


def test_heartbeats(shared: Path) -> None:
    folder = shared / "samples/peers/debezium-json"
    expected = json.loads((folder / "derived-heartbeat.expected.json").read_text())["rows"]
    found = events(folder / "derived-heartbeat.jsonl")
    assert [{"op": event.op} for event in found] == expected
    assert [event.sent_time for event in found] == [1465491461815000] * 2


# message keys, printed among the values; and a schema without a payload
NOT_MESSAGES = {
    ("paimon-mongo-event-insert.jsonl", 0),
    ("paimon-mongo-event-update.jsonl", 0),
    ("paimon-mongo-event-update.jsonl", 2),
    ("doriskafka-mysql-types.jsonl", 6),
}


def test_every_sample_decodes_to_text(shared: Path) -> None:
    seen = 0
    for path in sorted((shared / "samples/peers/debezium-json").iterdir()):
        if path.name.endswith("expected.json"):
            continue
        decode = decode_with()
        for index, line in enumerate(lines(path)):
            if (path.name, index) in NOT_MESSAGES:
                assert not recognise(jsontext.members(line))
                with pytest.raises(DecodeError):
                    list(decode(Message(line)))
                continue
            assert recognise(jsontext.members(line)), (path.name, index)
            (event,) = decode(Message(line, topic=path.name))
            assert_textual(event)
            seen += 1
    assert seen > 130


def test_no_other_sample_is_recognised(shared: Path) -> None:
    seen = 0
    for path in sorted((shared / "samples").rglob("*.jsonl")):
        if "debezium" in str(path.relative_to(shared)):
            continue
        for line in lines(path):
            try:
                top = jsontext.members(line)
            except (msgspec.MsgspecError, ValueError):
                continue
            seen += 1
            assert not recognise(top), (path.name, line[:200])
    assert seen > 100


def assert_textual(event: Event) -> None:
    for image in (event.before, event.after, event.key, event.key_before):
        for name, value in (image or {}).items():
            assert value is None or type(value) is str, (name, value)
    assert all(type(number) is int for number in event.order or ())


def assert_unharmed(value: bytes, key: bytes | None = None) -> None:
    for decode in (decode_with(), decode_with(flattened=True, tombstone="delete")):
        try:
            for event in decode(Message(value, key, topic="depot.wms.parcels")):
                assert_textual(event)
        except DecodeError as error:
            assert isinstance(error.code, Code)


MESSAGES = golden_messages()


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(MESSAGES), st.data())
def test_damaged_messages_raise_nothing_but_decode_errors(message: bytes, data: Any) -> None:
    start = data.draw(st.integers(0, len(message)))
    length = data.draw(st.integers(0, 12))
    junk = data.draw(
        st.sampled_from([b"", b'"', b"{", b"}", b"[1]", b"null", b"-1", b"\xff", b":"])
    )
    assert_unharmed(message[:start] + junk + message[start + length :])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = (
    *("op", "before", "after", "source", "schema", "payload", "ddl", "ts_ms", "tableChanges"),
    *("historyRecord", "databaseName", "status", "id", "type", "data", "__op", "__deleted"),
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), JSON | st.sampled_from(["c", "u", "d", "BEGIN"])))
def test_strange_shapes_raise_nothing_but_decode_errors(top: dict[str, Any]) -> None:
    text = json.dumps(top).encode()
    assert_unharmed(text, key=text)
    assert recognise(jsontext.members(text)) in (True, False)


def with_schema(fields: list[dict[str, Any]], row: dict[str, Any], pos: int) -> bytes:
    source = {"connector": "mysql", "db": "wms", "table": "parcels", "file": "b.1", "pos": pos}
    images = {"type": "struct", "optional": True, "fields": fields, "field": "after"}
    payload = {"op": "c", "after": row, "source": source}
    message = {"schema": {"type": "struct", "fields": [images]}, "payload": payload}
    return json.dumps(message, separators=(",", ":")).encode()


def test_a_payload_that_is_not_utf8_is_not_recognised() -> None:
    assert not recognise(jsontext.members(b'{"payload":{"\xff":1}}'))


def test_a_new_schema_in_the_same_topic_is_read_anew() -> None:
    """Messages that open like the last one skip its schema block; others must not."""
    days = [{"type": "int32", "name": "io.debezium.time.Date", "field": "n"}]
    number = [{"type": "int32", "field": "n"}]
    decode = decode_with()
    found = []
    for position, fields in enumerate([days, days, number, days, number]):
        (event,) = decode(Message(with_schema(fields, {"n": 1}, position), topic="t"))
        found.append((event.after, event.order))
    assert [row for row, _ in found] == [
        {"n": "1970-01-02"},
        {"n": "1970-01-02"},
        {"n": "1"},
        {"n": "1970-01-02"},
        {"n": "1"},
    ]
    assert [order for _, order in found] == [(1, position, 0) for position in range(5)]


def test_a_message_cut_after_its_schema_is_no_event() -> None:
    fields = [{"type": "int32", "field": "n"}]
    whole = with_schema(fields, {"n": 1}, 1)
    decode = decode_with()
    list(decode(Message(whole, topic="t")))
    cut = whole[: whole.index(b',"payload"')]
    for value in (cut, cut + b",", cut + b"}", cut + b',"payload":'):
        with pytest.raises(DecodeError):
            list(decode(Message(value, topic="t")))


def test_schema_given_twice_counts_the_last() -> None:
    fields = [{"type": "int32", "field": "n"}]
    whole = with_schema(fields, {"n": 1}, 1)
    days = {"type": "int32", "name": "io.debezium.time.Date", "field": "n"}
    other = {"type": "struct", "fields": [{"type": "struct", "fields": [days], "field": "after"}]}
    decode = decode_with()
    list(decode(Message(whole, topic="t")))
    twice = whole[:-1] + b',"schema":' + json.dumps(other).encode() + b"}"
    (event,) = decode(Message(twice, topic="t"))
    assert event.after == {"n": "1970-01-02"}


def test_order_numbers_fit_a_bigint() -> None:
    assert order_of(Source(connector="postgresql", lsn=2**63 - 1)) == (2**63 - 1, 2**63 - 1)
    assert order_of(Source(connector="postgresql", lsn=2**63)) is None
    assert order_of(Source(connector="oracle", scn="9" * 30)) is None
    assert order_of(Source(file="binlog.99999999999999999999", pos=1)) is None
    # It takes time in proportion to the name; by its square it would be minutes.
    assert order_of(Source(file="1" * 200_000 + "x", pos=1)) is None


def test_rows_of_oracle_that_one_statement_deleted_are_told_apart() -> None:
    """LogMiner gives them one redo record and ssn 0; txSeq counts them."""
    alone = Source(
        connector="oracle", scn="9", commit_scn="12", rs_id="0x00001a.0000f2.0010", ssn=0
    )
    two = [msgspec.structs.replace(alone, txSeq=number) for number in (2, 10)]
    first, second = map(order_of, two)
    assert first is not None and second is not None and first < second
    assert [crowded(source) for source in (*two, alone)] == [False, False, True]


@pytest.mark.parametrize(
    ("whole", "lacking"),
    [
        # CloudCanal's envelopes have no row, and flattened rows what add.fields names.
        (Source(connector="MySQL", file="bin.3", pos=8, row=0), "row"),
        (Source(file="bin.3", pos=8, row=0), "row"),
        (
            Source(
                connector="sqlserver", commit_lsn="1:2:3", change_lsn="1:2:1", event_serial_no=1
            ),
            "event_serial_no",
        ),
        (Source(connector="db2", commit_lsn="0a", change_lsn="0b"), "change_lsn"),
        (Source(connector="informix", commit_lsn="10", change_lsn="11"), "change_lsn"),
        (Source(connector="spanner", ts_us=1, sequence="00000001", mod_number=0), "mod_number"),
    ],
)
def test_a_place_without_its_last_part_may_be_that_of_several_rows(
    whole: Source, lacking: str
) -> None:
    assert order_of(whole) is not None and not crowded(whole)
    part = msgspec.structs.replace(whole, **{lacking: None})
    assert order_of(part) is not None and crowded(part)


def test_changes_of_the_nodes_of_oracle_rac_stand_in_the_order_in_which_they_were_made() -> None:
    """Early versions name the commit before their own, of the same node, in all events but the last
    of a transaction: that of a node at rest is old."""
    of_busy_node = order_of(Source(connector="oracle", scn="495", commit_scn="500"))
    of_node_at_rest = order_of(Source(connector="oracle", scn="510", commit_scn="100"))
    last_of_it = order_of(Source(connector="oracle", scn="511", commit_scn="520"))
    assert of_busy_node and of_node_at_rest and last_of_it
    assert of_busy_node < of_node_at_rest < last_of_it


def test_xstream_positions_compare_from_the_left() -> None:
    early = order_of(Source(connector="oracle", lcr_position="0000000000a4bb8d0000000100"))
    late = order_of(Source(connector="oracle", lcr_position="0000000000a4bb8e00"))
    assert early is not None and late is not None and early < late


def test_both_halves_of_a_key_change_are_tied_by_their_headers() -> None:
    source = {"connector": "mysql", "db": "wms", "table": "parcels", "file": "b.1", "pos": 7}
    old = {"op": "d", "before": {"id": 7}, "source": source}
    new = {"op": "c", "after": {"id": 17}, "source": source}
    decode = decode_with()
    newkey = ("__debezium.newkey", b'{"id":17}')
    oldkey = ("__debezium.oldkey", b'{"schema":null,"payload":{"id":7}}')
    (delete,) = decode(Message(json.dumps(old).encode(), b'{"id":7}', [newkey]))
    (create,) = decode(Message(json.dumps(new).encode(), b'{"id":17}', [oldkey]))
    assert (delete.op, delete.half, delete.key_before) == ("delete", 0, None)
    assert (create.op, create.half, create.key_before) == ("insert", 1, {"id": "7"})
