"""The promises of every format: whatever a message holds, its silver rows can be relied on.

`tests.support.silver_promises` says what holds of the rows of any message; here they are held
against the golden messages, the samples, poison and every envelope with something wrong in it. The
promises on values are in `test_contract_values`, those on random damage in `test_contract_fuzz`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ingest.config.sources import Source
from ingest.decode.batches import decode
from ingest.decode.silver_rows import SCHEMA, record_batch
from ingest.decode.source import SilverRow, SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.events import DECODED, SILVER
from ingest.formats import FORMATS
from ingest.formats.detect import recognised
from ingest.position import HALF, OFFSET, PHASE, ROW, S1, SNAPSHOT, SOURCE_PART, STREAM, STREAMED
from ingest.wire.contract import Message
from tests.support.changes import Change
from tests.support.encoders import WIRES
from tests.support.messages import POISON, golden, is_json, reader_of, samples, with_wrong_parts
from tests.support.silver_promises import NAMES, broken
from tests.support.wires import as_dicts, message_of

AT = {name: index for index, name in enumerate(NAMES)}
MARKS = ("decoded_at", "topic", "partition", "offset", "pos", "s1")
"""What differs between two deliveries of one message."""
REFUSED = {"unknown_format", "ambiguous_format"}


@pytest.mark.parametrize("name", FORMATS)
def test_golden_messages(name: str) -> None:
    assert golden(name)
    kept(
        [
            (message, SourceDecoder(decode_spec(source)).rows(message, source.epoch))
            for source, message in golden(name)
        ]
    )


@pytest.mark.parametrize("order", ["source", "arrival"])
@pytest.mark.parametrize("format_", ["pinned", "auto"])
def test_samples(shared: Path, format_: str, order: str) -> None:
    found = list(samples(shared))
    assert {name for name, _ in found} == FORMATS.keys()
    kept(
        [
            (message, reader_of(name if format_ == "pinned" else "auto", order=order).rows(message))
            for name, message in found
        ]
    )


@pytest.mark.parametrize("name", [*FORMATS, "auto"])
def test_poison(name: str) -> None:
    reader = reader_of(name)
    messages = [Message(value, topic="t", offset=n) for n, value in enumerate(POISON.values())]
    rows = [reader.rows(message) for message in messages]
    kept(list(zip(messages, rows, strict=True)))
    ends = {label: row[0][AT["kind"]] for label, row in zip(POISON, rows, strict=True)}
    # Nothing at all is a tombstone, and what Connect writes for it is one to Debezium; what looks
    # like Canal's INSERT is one to Canal and to no other.
    nothing = {"nothing", "null"} if name.startswith("debezium") else {"nothing"}
    wanted = {label: "control" if label in nothing else "reject" for label in POISON}
    shaped = {label for label, value in POISON.items() if value.startswith(b'{"type":"INSERT')}
    assert {label: ends[label] for label in ends if label not in shaped} == {
        label: wanted[label] for label in wanted if label not in shaped
    }


@pytest.mark.parametrize("name", FORMATS)
def test_every_member_wrong(name: str) -> None:
    """One message of each folder, every member of its envelope in turn of every other type.

    Of a message that is not JSON every byte in turn is wrong, and the last.
    """
    firsts = {source.model_dump_json(): (source, message) for source, message in golden(name)}
    seen = []
    for source, first in firsts.values():
        reader = SourceDecoder(decode_spec(source))
        for offset, wrong in enumerate(with_wrong_parts(name, first)):
            message = wrong._replace(offset=offset)
            seen.append((message, reader.rows(message)))
    assert len(seen) > 500
    kept(seen)


@pytest.mark.parametrize("name", FORMATS)
def test_a_message_is_utf_8_or_none_of_it_counts(name: str) -> None:
    """Two bytes broken in each name and text of a message, whether anybody reads them or not."""
    seen = set()
    for source, message in golden(name):
        reader = SourceDecoder(decode_spec(source))
        value = message.value or b""
        sound = reader.rows(message)[-1]
        if sound[AT["kind"]] in ("reject", "fragment"):
            continue
        for word in list(_WORD.finditer(value))[:60]:
            wrong = value[: word.start()] + b"\xff\xfe" + value[word.start() + 2 :]
            row = reader.rows(message._replace(value=wrong))[-1]
            if row[AT["kind"]] == "reject":
                assert row[AT["value"]] == wrong
                if source.format != "auto" or row[AT["error_code"]] != "unknown_format":
                    seen.add(row[AT["error_code"]])
            else:
                # Avro has values of bytes, too, which are no text.
                assert not is_json(value) and name != "ticdc_open", wrong
                assert _read(row) == _read(sound), wrong
    assert seen <= {"bad_json", "bad_avro", "bad_value", "fragment_incomplete"}
    assert "bad_json" in seen or name in ("dts", "debezium_avro")


_WORD = re.compile(rb"[A-Za-z]{2,}")


def _read(row: SilverRow) -> list[object]:
    """All that an event says but for the values of its columns."""
    marks = ("kind", "op", "db", "schema", "table", "tx_id", "s1", "event_time")
    columns = set(row[AT["unavailable"]] or ()).union(
        row[AT["before"]] or (), row[AT["after"]] or ()
    )
    return [row[AT[mark]] for mark in marks] + [columns]


@pytest.mark.parametrize("wire", WIRES)
def test_a_message_key_is_utf_8_or_says_nothing(wire: str) -> None:
    """Broken bytes stand in front of each name of the key."""
    message = insert(wire, 1)
    key = message.key or b'{"id":1}'
    given = {"options": WIRES[wire].options}
    [*_, sound] = reader_of(WIRES[wire].format, **given).rows(message._replace(key=key))
    for word in _WORD.finditer(key):
        wrong = key[: word.start()] + b"\xff\xfe" + key[word.start() :]
        reader = reader_of(WIRES[wire].format, **given)
        [*_, row] = reader.rows(message._replace(key=wrong))
        keys = row[AT["key_columns"]]
        assert row[AT["kind"]] == "reject" or keys is None or keys == sound[AT["key_columns"]]
        assert not any("\ufffd" in column for column in keys or ())


def kept(seen: list[tuple[Message, list[SilverRow]]]) -> None:
    """Every message keeps every promise, and all rows together make one Arrow batch."""
    assert [(m.value, reasons) for m, rows in seen if (reasons := broken(m, rows))] == []
    rows = [row for _, message_rows in seen for row in message_rows]
    batch = record_batch(rows)
    assert batch.schema == SCHEMA
    assert batch.num_rows == len(rows)
    assert {(m.topic, m.partition, m.offset) for m, _ in seen} == {
        tuple(row[AT[mark]] for mark in ("topic", "partition", "offset")) for row in rows
    }


def test_arrow_holds_what_the_rows_hold() -> None:
    rows = [
        row
        for name in FORMATS
        for source, message in golden(name)
        for row in SourceDecoder(decode_spec(source)).rows(message, source.epoch)
    ]
    micros = [column.name for column in DECODED if column.type == "timestamp"]
    found = record_batch(rows)
    for name in NAMES:
        column = found.column(name)
        values = (column.cast(pa.int64()) if name in micros else column).to_pylist()
        assert [_plain(value) for value in values] == [_plain(row[AT[name]]) for row in rows], name


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, tuple | list):
        return [
            tuple(item.values())
            if isinstance(item, dict)
            else tuple(item)
            if isinstance(item, tuple)
            else item
            for item in value
        ]
    return value


def test_rows_are_in_the_order_of_silver() -> None:
    assert NAMES == tuple(column.name for column in SILVER)[:-1]
    [schema, row] = reader_of("canal").rows(insert("canal", 1, topic="t", offset=4))
    assert schema[: AT["op"]] == ("schema", "s", "t", 0, 4, -1, "canal")
    assert row[: AT["op"] + 1] == ("change", "s", "t", 0, 4, 0, "canal", "insert")
    assert row[AT["db"] : AT["key_columns"] + 1] == ("farm", None, "crop", ("id",))


def insert(wire: str, number: int, **coordinates: Any) -> Message:
    columns = {"id": "int", "label": "varchar(200)"}
    row = {"id": number, "label": "rye"}
    return message_of(wire, Change("insert", columns, None, row, number=number), **coordinates)


@pytest.mark.parametrize("wire", WIRES)
def test_two_deliveries_differ_in_coordinates_alone(wire: str) -> None:
    reader = reader_of(WIRES[wire].format, options=WIRES[wire].options, keys={"farm.crop": ["id"]})
    first, second = (
        as_dicts(reader.rows(insert(wire, 1, topic="t", offset=offset, timestamp=9)))[-1]
        for offset in (10, 57)
    )
    assert first["kind"] == "change"
    assert {k: v for k, v in first.items() if k not in MARKS} == {
        k: v for k, v in second.items() if k not in MARKS
    }
    assert first["pos"][:SOURCE_PART] == second["pos"][:SOURCE_PART]
    assert first["pos"] < second["pos"]


@pytest.mark.parametrize("wire", WIRES)
def test_poison_takes_no_neighbour_with_it(wire: str) -> None:
    good = [insert(wire, number) for number in range(3)]
    poison = [Message(value) for value in POISON.values()]
    sent = [good[0], *poison, good[1], *poison, good[2]]
    rows = decode_all(wire, sent).to_pylist()
    assert {row["offset"] for row in rows} == set(range(len(sent)))
    sound = [row for row in rows if row["offset"] in (0, len(POISON) + 1, 2 * len(POISON) + 2)]
    assert [dict(row["after"]) for row in sound if row["kind"] == "change"] == [
        {"id": str(number), "label": "rye"} for number in range(3)
    ]
    assert sum(row["kind"] == "schema" for row in sound) <= 1


def decode_all(wire: str, messages: list[Message]) -> pa.Table:
    """The messages through the function that Spark runs, as one Arrow table."""
    count = len(messages)
    bronze = pa.record_batch(
        {
            "source": ["s"] * count,
            "topic": ["t"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([None] * count, pa.timestamp("us", "UTC")),
            "key": pa.array([message.key for message in messages], pa.binary()),
            "value": pa.array([message.value for message in messages], pa.binary()),
            "headers": pa.nulls(count, pa.list_(pa.struct([("key", pa.string())]))),
            "epoch": pa.array([0] * count, pa.int64()),
        }
    )
    kafka = {"bootstrap_servers": "broker:9092", "topics": ["t"]}
    sent = {"format": WIRES[wire].format, "options": WIRES[wire].options}
    source = Source.model_validate({"name": "s", "kafka": kafka, **sent})
    return pa.Table.from_batches(decode({"s": decode_spec(source)})(iter([bronze])))


def test_rows_that_arrow_refuses_are_rejected_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows_of_defect(
        self: SourceDecoder, message: Message, *given: Any, known: Any
    ) -> list[SilverRow]:
        [*others, row] = sound(self, message, *given, known=known)
        if message.offset == 1:
            row = (*row[: AT["event_time"]], 2**70, *row[AT["event_time"] + 1 :])
        return [*others, row]

    sound = SourceDecoder.rows
    monkeypatch.setattr(SourceDecoder, "rows", rows_of_defect)
    rows = decode_all("canal", [insert("canal", number) for number in range(3)]).to_pylist()
    events = [row for row in rows if row["kind"] != "schema"]
    assert [(row["kind"], row["error_code"]) for row in events] == [
        ("change", None),
        ("reject", "decoder_failed"),
        ("change", None),
    ]
    assert events[1]["value"] == insert("canal", 1).value


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("order", ["source", "arrival"])
def test_order(wire: str, order: str) -> None:
    """Source order follows the log, arrival order the broker; both are total."""
    reader = reader_of(WIRES[wire].format, options=WIRES[wire].options, order=order)
    # The later change arrives first.
    late, early = (
        as_dicts(reader.rows(insert(wire, number, topic="t", offset=n, timestamp=5 + n)))
        for n, number in enumerate((7, 3))
    )
    first, second = late[-1]["pos"], early[-1]["pos"]
    assert (second < first) is (order == "source")
    assert (first[PHASE], first[HALF], first[OFFSET], first[ROW]) == (STREAMED, 1, 0, 0)
    if order == "arrival":
        assert (first[S1], second[S1]) == (5, 6)
    assert first[STREAM] == second[STREAM] != 0


@pytest.mark.parametrize("name", FORMATS)
def test_snapshots_lie_below_the_stream(name: str) -> None:
    rows = list(golden_changes(name))
    snapshots = [row["pos"][1:] for row in rows if row["op"] == "snapshot"]
    streamed = [row["pos"][1:] for row in rows if row["pos"][PHASE] == STREAMED]
    assert streamed
    if "snapshot" in FORMATS[name].impossible:
        assert not snapshots
    else:
        assert max(snapshots) < min(streamed)
        assert all(pos[0] == SNAPSHOT for pos in snapshots)


def golden_changes(name: str) -> Iterator[dict[str, Any]]:
    for source, message in golden(name):
        for row in as_dicts(SourceDecoder(decode_spec(source)).rows(message, source.epoch)):
            if row["kind"] == "change":
                yield row


def test_every_sample_is_of_one_format(shared: Path) -> None:
    assert [recognised(message).name for _, message in samples(shared)] == [
        name for name, _ in samples(shared)
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_golden_messages_are_recognised_as_their_own_or_not_at_all(name: str) -> None:
    """Detected, a message gives the same row as pinned, or a refusal that says why."""
    agreed = 0
    for source, message in golden(name):
        auto = source.model_copy(update={"format": "auto"})
        own = SourceDecoder(decode_spec(source)).rows(message, source.epoch, 0)
        found = SourceDecoder(decode_spec(auto)).rows(message, source.epoch, 0)
        if own == found or not message.value:
            agreed += 1
        else:
            codes = {row[AT["error_code"]] for row in found}
            assert codes <= {*REFUSED, "bad_json", "unknown_schema_id"}, message
    assert agreed > len(golden(name)) // 2
