"""Kafka to bronze, from a real broker: as received, once, and one clear sentence where it fails."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.config.sources import Source
from ingest.config.transports import Kafka
from ingest.errors import PlatformError, SourceError
from ingest.files.record import Record as IngestRecord
from pipelines.bronze import kafka as bronze_kafka
from pipelines.bronze.by_offset.source import Partition, Span, partition_batch
from pipelines.bronze.kafka import waiting
from pipelines.bronze.kafka_api.cluster import Topic
from pipelines.bronze.kafka_topics import Held, topics_of
from pipelines.bronze.lost_offsets import SourceOffsets
from pipelines.bronze.source import ingest_source
from pipelines.bronze.stream import bronze_rows
from pipelines.bronze.transport import Bronze, Sampling, Waiting
from pipelines.bronze.transports import transport_of
from pipelines.platform.warehouse import Warehouse, create_bronze
from tests.support.kafka_broker import (
    Broker,
    Record,
    age_out,
    create_topic,
    delete_topic,
    jaas,
    produce,
)
from tests.support.project import Project, canal
from tests.support.tables import tables_in


@pytest.fixture
def tables(spark: SparkSession, warehouse: Path) -> Warehouse:
    return tables_in(warehouse, spark)


def topics(servers: str, *names: str, name: str = "shop", epoch: int = 0, **more: Any) -> Source:
    kafka = {"bootstrap_servers": servers, **({"topics": list(names)} if names else {}), **more}
    return Source.model_validate({"name": name, "epoch": epoch, "kafka": kafka})


def rows(tables: Warehouse, *columns: str) -> list[tuple[Any, ...]]:
    """Bronze in the order of its identity; binary as bytes."""

    def plain(value: Any) -> Any:
        if isinstance(value, bytearray):
            return bytes(value)
        if isinstance(value, list):
            return [tuple(plain(item) for item in pair) for pair in value]
        return value

    frame = tables.read("bronze", "messages").orderBy("source", "topic", "partition", "offset")
    return [tuple(map(plain, row)) for row in frame.selectExpr(*columns).collect()]


def test_every_message_is_there_as_received(kafka: str, tables: Warehouse) -> None:
    create_topic(kafka, "b1.orders", partitions=2)
    headers = (("a", b"1"), ("b", None), ("a", b"\xff"))
    first = 1_700_000_000_123
    produce(
        kafka,
        "b1.orders",
        [
            Record(b'{"n": 1.10}\r\n', b"k1", headers, 0, first),
            Record(b"\xff\x00", None, (), 1, first + 1),
            Record(None, b"k1", (), 0, first + 2),
            Record(b"", b"", (), 1, first + 3),
        ],
    )
    assert ingest_source(tables, topics(kafka, "b1.orders", epoch=3)) == Bronze("shop", 4)
    columns = ["source", "topic", "partition", "offset", "unix_millis(timestamp)", "key", "value"]
    columns += ["headers", "epoch", "ingested_at > timestamp"]
    assert rows(tables, *columns) == [
        ("shop", "b1.orders", 0, 0, first, b"k1", b'{"n": 1.10}\r\n', list(headers), 3, True),
        ("shop", "b1.orders", 0, 1, first + 2, b"k1", None, None, 3, True),
        ("shop", "b1.orders", 1, 0, first + 1, None, b"\xff\x00", None, 3, True),
        ("shop", "b1.orders", 1, 1, first + 3, b"", b"", None, 3, True),
    ]


def test_what_is_appended_comes_with_the_next_run(kafka: str, tables: Warehouse) -> None:
    """More messages, partitions, topics, in bounded batches; a source beside it is left alone."""
    create_topic(kafka, "b2.a")
    produce(kafka, "b2.a", [Record(b"a0"), Record(b"a1"), Record(b"a2")])
    source = topics(kafka, topics_pattern=r"b2\..*", max_offsets_per_batch=2)
    other = topics(kafka, "b2.a", name="other", starting_offsets="latest")
    assert ingest_source(tables, source).messages == 3
    assert ingest_source(tables, other).messages == 0
    assert ingest_source(tables, source).messages == 0
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_partitions([NewPartitions("b2.a", 2)])["b2.a"].result()
    create_topic(kafka, "b2.b")
    produce(kafka, "b2.a", [Record(b"a3"), Record(b"A0", partition=1)])
    produce(kafka, "b2.b", [Record(b"b0")])
    assert ingest_source(tables, source).messages == 3
    assert ingest_source(tables, other).messages == 2
    assert rows(tables, "source", "topic", "partition", "offset", "value") == [
        ("other", "b2.a", 0, 3, b"a3"),
        ("other", "b2.a", 1, 0, b"A0"),
        *[("shop", "b2.a", 0, offset, b"a%d" % offset) for offset in range(4)],
        ("shop", "b2.a", 1, 0, b"A0"),
        ("shop", "b2.b", 0, 0, b"b0"),
    ]


def test_who_begins_at_the_end_passes_over_nothing_later(kafka: str, tables: Warehouse) -> None:
    """Not after the checkpoint is gone, as the sentence on a damaged one advises."""
    create_topic(kafka, "b2.late")
    produce(kafka, "b2.late", [Record(b"old")])
    late = topics(kafka, "b2.late", starting_offsets="latest")
    assert ingest_source(tables, late).messages == 0
    produce(kafka, "b2.late", [Record(b"a")])
    assert ingest_source(tables, late).messages == 1
    shutil.rmtree(tables.checkpoint("bronze", "shop"))
    produce(kafka, "b2.late", [Record(b"b")])
    with pytest.raises(SourceError, match="checkpoint of what bronze has of"):
        ingest_source(tables, late)
    assert ingest_source(tables, topics(kafka, "b2.late")).messages == 3
    assert ingest_source(tables, late).messages == 0


def test_stop_ends_between_two_batches_or_within_one(kafka: str, tables: Warehouse) -> None:
    create_topic(kafka, "b3")
    produce(kafka, "b3", [Record(b"%d" % number) for number in range(30)])
    slow = topics(kafka, "b3", max_offsets_per_batch=1)
    began = time.monotonic()
    first = ingest_source(tables, slow, stop=lambda: time.monotonic() > began + 4).messages
    assert first < 30
    ingest_source(tables, topics(kafka, "b3"))
    assert rows(tables, "offset", "value") == [(n, b"%d" % n) for n in range(30)]


@pytest.mark.slow
def test_a_message_above_every_limit_is_read_or_set_aside_whole(
    kafka: str, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Above what one fetch takes, and what the topic would take by now: it is read. Above the
    source's limit: it is set aside with its bytes, and comes in once the limit is raised."""
    topic, es = "b14.items", 1_700_000_000_000
    names = {"1": "pen", "2": "x" * (2 << 20), "3": "ink"}
    rows = [{"id": id_, "name": name, "price": None} for id_, name in names.items()]
    sent = [
        json.dumps(canal("item", "INSERT", row, es=es + n, id_=n)).encode()
        for n, row in enumerate(rows)
    ]
    create_topic(kafka, topic, max_message_bytes=str(4 << 20))
    produce(kafka, topic, map(Record, sent))
    limit_topic(kafka, topic, 100_000)
    with pytest.raises(RuntimeError, match="too large"):
        produce(kafka, topic, [Record(sent[1])])

    project = Project(tmp_path, capsys.readouterr)
    options = {"max.partition.fetch.bytes": "1000", "fetch.max.bytes": "1000"}
    reading = {"bootstrap_servers": kafka, "topics": [topic], "options": options}
    declared = {"name": "shop", "format": "canal", "kafka": reading}
    limited = {**declared, "limits": {"message_bytes": 1 << 20}}
    project.write("conf/sources/shop.yml", json.dumps(limited))
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    (reject,) = project.ingest("rejects", "list", "--json").records
    assert (reject["code"], reject["topic"], reject["offset"]) == ("too_large", topic, 1)
    assert reject["error"] == (
        f"expected at most a message of {1 << 20} bytes, got {len(sent[1])};"
        " set limits.message_bytes of the source"
    )
    query = ("sql", "--json", "SELECT id, length(name) AS length FROM gold.shop_item ORDER BY id")
    assert [tuple(row.values()) for row in project.ingest(*query).records] == [(1, 3), (3, 3)]

    project.write("conf/sources/shop.yml", json.dumps(declared))
    answer = project.ingest("rejects", "replay")
    assert answer.code == 0, answer.err
    assert project.ingest("run").code == 0
    found = [tuple(row.values()) for row in project.ingest(*query).records]
    assert found == [(1, 3), (2, 2 << 20), (3, 3)]


def test_a_time_that_spark_cannot_hold_stops_no_message(kafka: str, tables: Warehouse) -> None:
    """Nanoseconds given as milliseconds. The time is the calendar's last, what came is a header."""
    far = "9223372036854775807"
    create_topic(kafka, "b15", partitions=2, message_timestamp_after_max_ms=far)
    first, nanos = 1_700_000_000_000, 1_700_000_000_000_000_000
    source = topics(kafka, "b15")
    for number in (0, 2):
        produce(
            kafka,
            "b15",
            [
                Record(b"a", partition=0, timestamp=first),
                Record(b"b", headers=(("h", b"x"),), partition=0, timestamp=nanos + number),
                Record(b"c", partition=1, timestamp=first),
            ],
        )
        assert ingest_source(tables, source).messages == 3
    assert ingest_source(tables, source).messages == 0
    last = 253_402_300_799_999
    found = rows(tables, "partition", "offset", "value", "unix_millis(timestamp)", "headers")
    told = [[("h", b"x"), ("kafka.timestamp", b"%d" % (nanos + number))] for number in (0, 2)]
    assert found == [
        (0, 0, b"a", first, None),
        (0, 1, b"b", last, told[0]),
        (0, 2, b"a", first, None),
        (0, 3, b"b", last, told[1]),
        (1, 0, b"c", first, None),
        (1, 1, b"c", first, None),
    ]


def test_a_killed_run_that_read_without_spark_is_gone_on_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bronze has all that waited, and the stream does not stand behind it yet."""
    place, began = Partition("t", 0), []

    class Client:
        def read(self, *_: Any, start: int, end: int) -> Any:
            return (IngestRecord(b"", offset=n, timestamp=1 << 60) for n in range(start, end))

    class Offsets:
        def __init__(self, *_: Any) -> None: ...

        def read(self) -> dict[Partition, int]:
            return {place: 5}

        def unread(self, waits: list[Waiting]) -> list[Waiting]:
            assert waits == [Waiting("t", 0, 5, 7)]
            return []

        def go_on(self, losses: list[Any], held: Any, *, anew: bool) -> None:
            began.append((losses, anew))

    monkeypatch.setattr(bronze_kafka, "SourceOffsets", Offsets)
    monkeypatch.setattr(bronze_kafka, "topics_of", lambda _: Client())
    warehouse: Any = SimpleNamespace(checkpoint=lambda *_: "/none")
    held: Any = SimpleNamespace(spans={place: Span(0, 7)})

    def read_apart(text: str) -> int | None:
        error = PySparkException(text)
        source = topics("h:1", "t")
        return bronze_kafka._read_apart(warehouse, source, held, error=error, stop=lambda: False)

    assert read_apart("Job aborted: UnknownReason") == 0 and began == [([], True)]
    assert read_apart("SaslAuthenticationException") is None and len(began) == 1


def limit_topic(kafka: str, topic: str, size: int) -> None:
    """From now on the topic takes no message of more bytes."""
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(timeout=30)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_a_clock_that_was_set_back_lets_no_source_wait(tmp_path: Path) -> None:
    checkpoint = tmp_path / "bronze/shop"
    for name, text in (("offsets/0", 'v1\n{}\n{"a":{"0":3}}'), ("commits/0", "v1\n{}")):
        (checkpoint / name).parent.mkdir(parents=True)
        (checkpoint / name).write_text(text)
    source = topics("nobody:9092", "a", min_offsets_per_batch=100, max_delay="1 hour")
    held = Held({}, {Partition("a", 0): Span(0, 5)})

    def waits(ended: float) -> bool:
        os.utime(checkpoint / "commits/0", (ended, ended))
        offsets = SourceOffsets(tables_in(tmp_path), source, str(checkpoint))
        return bronze_kafka._waits_for_more(source, offsets, held)

    now = time.time()
    assert [waits(now + ago) for ago in (-7_200, -60, 7_200)] == [False, True, False]


@pytest.mark.slow
def test_what_a_killed_run_appended_does_not_come_again_in_an_epoch_raised_since(
    tables: Warehouse,
) -> None:
    """Bronze has a batch that the stream has not noted; then the epoch is raised, and a topic that
    is no longer declared lets the stream begin anew."""
    create_bronze(tables)
    sent = [IngestRecord(b"%d" % n, offset=n, timestamp=n) for n in range(10)]
    batch = pa.Table.from_batches([partition_batch(Partition("a", 0), sent)])
    of_before = bronze_rows(tables.session.createDataFrame(batch), topics("nobody:9092", "a", "b"))
    tables.append(of_before, "bronze", "messages")
    checkpoint = Path(tables.checkpoint("bronze", "shop"))

    def begins(id_: str) -> dict[Partition, int] | None:
        for name, text in (("offsets/0", '{"a":{"0":5},"b":{"0":3}}'), ("commits/0", "{}")):
            (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
            (checkpoint / name).write_text(f"v1\n{{}}\n{text}")
        noted: dict[str, Any] = {
            "ids": {"a": "A", "b": "B"},
            "pattern": None,
            "unread": [],
            "epoch": 0,
        }
        (checkpoint / "topics.json").write_bytes(orjson.dumps(noted))
        held = Held({"a": Topic("a", id_, {0: 0})}, {Partition("a", 0): Span(0, 12)})
        source = topics("nobody:9092", "a", epoch=1, lost="go_on")
        offsets = SourceOffsets(tables, source, str(checkpoint))
        losses = offsets.losses(held, offsets.read())
        offsets.check(losses)
        offsets.go_on(losses, held)
        return SourceOffsets(tables, source, str(checkpoint)).read()

    assert begins("A") == {Partition("a", 0): 10}
    # One that was made anew is read from its beginning.
    assert begins("A2") == {Partition("a", 0): -2}


def test_a_missing_broker_is_one_quick_sentence(tables: Warehouse) -> None:
    port = free_port()
    began = time.monotonic()
    with pytest.raises(PlatformError) as error:
        ingest_source(tables, topics(f"127.0.0.1:{port}", "any"))
    assert str(error.value) == (
        f"source shop: no Kafka broker answers at 127.0.0.1:{port} (Connection refused);"
        " start it or correct kafka.bootstrap_servers."
    )
    assert time.monotonic() < began + 10


@pytest.mark.slow
def test_what_is_no_broker_is_one_sentence(
    tables: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bronze_kafka,
        "PATIENCE",
        {"kafka.default.api.timeout.ms": "3000", "kafka.request.timeout.ms": "2000"},
    )
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        servers = f"127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(PlatformError) as error:
            ingest_source(tables, topics(servers, "any"))
    text = str(error.value)
    assert text.startswith(f"source shop: no answer from the Kafka broker {servers} in time: ")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("kind", "more", "text"),
    [
        (
            PlatformError,
            {"topics": ["b4", "b4.none"]},
            "has not all of the topics b4, b4.none: create what is",
        ),
        (
            SourceError,
            {"topics": ["b4"], "starting_offsets": '{"b4": {"0": 0}}'},
            "starting_offsets has to name every partition, -2 for the earliest offset, -1 for the"
            " latest: Specified: Set(b4-0) Assigned: Set(b4-0, b4-1).",
        ),
        (
            SourceError,
            {"topics": ["b4"], "starting_offsets": '{"b4": {"0": 0, "1": 99}}'},
            "Partition b4-1 offset was changed from 99 to 1.",
        ),
        (
            SourceError,
            {"topics": ["b4"], "options": {"client.dns.lookup": "anywhere"}},
            "Invalid value anywhere",
        ),
        (
            PlatformError,
            {
                "topics": ["b4"],
                "options": {
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule"
                    ' required username="reader" password="secret-word";',
                },
            },
            "client mechanism PLAIN, enabled mechanisms are []",
        ),
        (
            SourceError,
            {
                "topics": ["b4"],
                "options": {
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule"
                    ' required username="reader" password="secret-word"',
                },
            },
            "JAAS config entry not terminated by semi-colon; Spark's log is ",
        ),
    ],
)
def test_a_source_that_cannot_be_read_is_one_sentence(
    kafka: str, tables: Warehouse, kind: type[Exception], more: dict[str, Any], text: str
) -> None:
    if "b4" not in AdminClient({"bootstrap.servers": kafka}).list_topics().topics:
        create_topic(kafka, "b4", partitions=2)
        produce(kafka, "b4", [Record(b"0"), Record(b"1", partition=1)])
    with pytest.raises(kind) as error:
        ingest_source(tables, topics(kafka, **more))
    said = str(error.value)
    assert said.startswith("source shop: ")
    assert text in said
    assert "\n" not in said
    assert "secret-word" not in said


@pytest.mark.parametrize("loss", ["aged out", "made anew"])
def test_lost_messages_are_named_and_never_passed_over(
    kafka: str, tables: Warehouse, loss: str
) -> None:
    topic = f"b5.{loss.split()[0]}"
    create_topic(kafka, topic)
    produce(kafka, topic, [Record(b"0"), Record(b"1")])
    source = topics(kafka, topic)
    assert ingest_source(tables, source).messages == 2
    if loss == "aged out":
        produce(kafka, topic, [Record(b"2"), Record(b"3")])
        age_out(kafka, topic, 3)
    else:
        delete_topic(kafka, topic)
        create_topic(kafka, topic)
        produce(kafka, topic, [Record(b"new")])
    with pytest.raises(SourceError) as error:
        ingest_source(tables, source)
    said = str(error.value)
    assert said.startswith(
        "source shop: Kafka no longer holds the messages that follow those read last (read up to"
        f' {{"{topic}":{{"0":2}}}})'
    )
    assert f"remove the folder {tables.checkpoint('bronze', 'shop')}" in said
    assert "\n" not in said
    # Who only looks at what waits is told the same.
    with pytest.raises(SourceError) as error:
        transport_of(source).unread(tables, source)
    assert str(error.value) == said
    assert rows(tables, "value") == [(b"0",), (b"1",)]
    going_on = topics(kafka, topic, lost="go_on")
    columns = ("epoch", "offset", "value", "string(headers[0].value)")
    whole = [(0, 0, b"0", None), (0, 1, b"1", None)]
    if loss == "aged out":
        assert waiting(tables, going_on) == [Waiting(topic, 0, 3, 4)]
        found = ingest_source(tables, going_on)
        assert (found.messages, found.lost) == (
            1,
            (f"{topic}/0 lacks 2-2: gone before it was read; a row of silver says so",),
        )
        # What a killed run leaves: the loss is noted and in bronze, the stream is not made anew.
        note = Path(tables.checkpoint("bronze", "shop"), "topics.json")
        noted = orjson.loads(note.read_bytes())
        note.write_bytes(orjson.dumps({**noted, "losses": [[topic, 0, 2, 2, 0, False]]}))
        produce(kafka, topic, [Record(b"4")])
        ingest_source(tables, going_on)
        more = [(0, 2, None, "2-2"), (0, 3, b"3", None), (0, 4, b"4", None)]
        assert sorted(set(rows(tables, *columns)), key=str) == [*whole, *more]
    else:
        with pytest.raises(SourceError, match="raise the source's epoch; then set"):
            ingest_source(tables, going_on)
        raised = topics(kafka, topic, lost="go_on", epoch=1)
        assert ingest_source(tables, raised).messages == 1
        more = [(0, 2, None, "2-"), (1, 0, b"new", None)]
        assert sorted(rows(tables, *columns), key=str) == [*whole, *more]
        assert ingest_source(tables, raised).messages == 0


def test_a_topic_made_anew_is_seen_however_long_it_is(kafka: str, tables: Warehouse) -> None:
    create_topic(kafka, "b7")
    produce(kafka, "b7", [Record(b"old")])
    source = topics(kafka, "b7")
    assert ingest_source(tables, source).messages == 1
    delete_topic(kafka, "b7")
    create_topic(kafka, "b7")
    produce(kafka, "b7", [Record(b"new")] * 5)
    with pytest.raises(SourceError, match="b7 was deleted and made anew"):
        ingest_source(tables, source)
    # By a pattern a topic may be away for a while, and is another one when it is back.
    delete_topic(kafka, "b7")
    create_topic(kafka, "b7.other")
    found = topics(kafka, topics_pattern=r"b7.*")
    with pytest.raises(SourceError, match=r"\{\"b7\":\{\"0\":1\}\}\): b7 was deleted\. To go on"):
        ingest_source(tables, found)
    going_on = topics(kafka, topics_pattern=r"b7.*", lost="go_on")
    assert ingest_source(tables, going_on).messages == 0
    create_topic(kafka, "b7")
    produce(kafka, "b7", [Record(b"newest")])
    with pytest.raises(SourceError, match="b7 was deleted and made anew"):
        ingest_source(tables, going_on)
    raised = topics(kafka, topics_pattern=r"b7.*", lost="go_on", epoch=1)
    assert ingest_source(tables, raised).messages == 1
    columns = ("epoch", "offset", "value", "string(headers[0].value)")
    assert sorted(rows(tables, *columns), key=str) == [
        (0, 0, b"old", None),
        (0, 1, None, "1-"),
        (1, 0, b"newest", None),
    ]


def test_topics_come_and_go_by_what_is_declared(kafka: str, tables: Warehouse) -> None:
    """A topic that was there before is read from what it holds, and one that is declared no more
    is not missed; what nobody saw of that which the source follows is."""
    for topic in ("b12.a", "b12.old"):
        create_topic(kafka, topic)
        produce(kafka, topic, [Record(b"0"), Record(b"1"), Record(b"2")])
    age_out(kafka, "b12.old", 2)
    assert ingest_source(tables, topics(kafka, "b12.a")).messages == 3
    both = topics(kafka, "b12.a", "b12.old")
    assert waiting(tables, both) == [Waiting("b12.old", 0, 2, 3)]
    assert ingest_source(tables, both).messages == 1
    produce(kafka, "b12.old", [Record(b"3")])
    alone = topics(kafka, "b12.old")
    assert waiting(tables, alone) == [Waiting("b12.old", 0, 3, 4)]
    assert ingest_source(tables, alone).messages == 1
    # What a killed run leaves: where the stream begins anew is noted, and it is not begun.
    note = Path(tables.checkpoint("bronze", "shop"), "topics.json")
    noted = {**orjson.loads(note.read_bytes()), "begin": {"b12.old": {"0": 4}}, "losses": []}
    note.write_bytes(orjson.dumps(noted))
    # Partitions that are added, and topics that turn up, are followed from their first offset.
    pattern = topics(kafka, topics_pattern=r"b12\.[on].*")
    assert ingest_source(tables, pattern).messages == 0
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_partitions([NewPartitions("b12.old", 2)])["b12.old"].result()
    create_topic(kafka, "b12.new")
    produce(kafka, "b12.old", [Record(b"4", partition=1), Record(b"5", partition=1)])
    produce(kafka, "b12.new", [Record(b"0"), Record(b"1")])
    # A run that has seen the new topic and rested goes on to follow it.
    more: dict[str, Any] = {"min_offsets_per_batch": 100, "max_delay": "1 hour"}
    resting = topics(kafka, topics_pattern=r"b12\.[on].*", **more)
    assert ingest_source(tables, resting).messages == 0
    age_out(kafka, "b12.old", 1, partition=1)
    age_out(kafka, "b12.new", 1)
    with pytest.raises(SourceError, match=r"b12\.new/0 lacks 0-0, b12\.old/1 lacks 0-0\. To go"):
        ingest_source(tables, pattern)
    going_on = topics(kafka, topics_pattern=r"b12\.[on].*", lost="go_on")
    found = ingest_source(tables, going_on)
    assert (found.messages, len(found.lost)) == (2, 2)
    assert ingest_source(tables, going_on) == Bronze("shop", 0)
    columns = ("topic", "partition", "offset", "value", "string(headers[0].value)")
    assert sorted(rows(tables, *columns), key=str) == [
        ("b12.a", 0, 0, b"0", None),
        ("b12.a", 0, 1, b"1", None),
        ("b12.a", 0, 2, b"2", None),
        ("b12.new", 0, 0, None, "0-0"),
        ("b12.new", 0, 1, b"1", None),
        ("b12.old", 0, 2, b"2", None),
        ("b12.old", 0, 3, b"3", None),
        ("b12.old", 1, 0, None, "0-0"),
        ("b12.old", 1, 1, b"5", None),
    ]


def test_the_first_topic_that_turns_up_is_followed(kafka: str, tables: Warehouse) -> None:
    source = topics(kafka, topics_pattern=r"b13\..*")
    assert ingest_source(tables, source).messages == 0
    create_topic(kafka, "b13.a")
    produce(kafka, "b13.a", [Record(b"0"), Record(b"1")])
    age_out(kafka, "b13.a", 1)
    with pytest.raises(SourceError, match=r"b13\.a/0 lacks 0-0\. To go on"):
        ingest_source(tables, source)
    going_on = topics(kafka, topics_pattern=r"b13\..*", lost="go_on")
    assert ingest_source(tables, going_on).messages == 1


def test_what_is_lost_while_it_is_read_is_found_again(
    kafka: str, tables: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at what is there and Spark's reading, retention goes on."""
    create_topic(kafka, "b8")
    produce(kafka, "b8", [Record(b"%d" % number) for number in range(4)])
    source = topics(kafka, "b8", lost="go_on")
    assert ingest_source(tables, source).messages == 4
    produce(kafka, "b8", [Record(b"%d" % number) for number in range(4, 8)])
    held, once = bronze_kafka._held, iter([6])

    def and_then_aged(source: Source) -> Any:
        found = held(source)
        for lowest in once:
            age_out(kafka, "b8", lowest)
        return found

    monkeypatch.setattr(bronze_kafka, "_held", and_then_aged)
    found = ingest_source(tables, source)
    assert (found.messages, len(found.lost)) == (2, 1)
    assert rows(tables, "offset", "value")[4:] == [(4, None), (6, b"6"), (7, b"7")]


def test_what_is_lost_before_the_first_batch_is_done(kafka: str, tables: Warehouse) -> None:
    create_topic(kafka, "b11")
    produce(kafka, "b11", [Record(b"0"), Record(b"1")])
    source = topics(kafka, "b11", lost="go_on")
    checkpoint = Path(tables.checkpoint("bronze", "shop"))
    assert ingest_source(tables, source).messages == 2
    # What a killed run leaves: a batch that was planned, and is not known to be done.
    shutil.rmtree(checkpoint / "commits")
    produce(kafka, "b11", [Record(b"2"), Record(b"3")])
    age_out(kafka, "b11", 3)
    assert ingest_source(tables, source).messages == 1
    assert rows(tables, "offset", "value") == [(0, b"0"), (1, b"1"), (2, None), (3, b"3")]


def test_offsets_without_messages_are_no_loss(kafka: str, tables: Warehouse) -> None:
    """Transactions, one of them given up, and a topic that is compacted meanwhile."""
    create_topic(kafka, "b9.tx")
    create_topic(
        kafka,
        "b9.compact",
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="0",
    )
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": "b9"})
    producer.init_transactions(60)
    for body, end in ((b"no", "abort"), (b"a", "commit"), (b"b", "commit")):
        producer.begin_transaction()
        producer.produce("b9.tx", body)
        producer.flush(30)
        getattr(producer, f"{end}_transaction")(30)
    produce(kafka, "b9.compact", [Record(b"%d" % n, key=b"k") for n in range(3)])
    committed = {"isolation.level": "read_committed"}
    source = topics(kafka, "b9.tx", "b9.compact", options=committed)
    await_offset(kafka, "b9.tx", 6)
    assert ingest_source(tables, source).messages == 5
    produce(kafka, "b9.compact", [Record(b"%d" % n, key=b"k") for n in range(3, 9)])
    await_compaction(kafka, "b9.compact")
    assert ingest_source(tables, source).messages < 6
    producer.begin_transaction()
    producer.produce("b9.tx", b"open")
    producer.flush(30)
    assert ingest_source(tables, source).messages == 0
    found = [tuple(row) for row in rows(tables, "topic", "value")]
    assert [value for topic, value in found if topic == "b9.tx"] == [b"a", b"b"]
    assert ("b9.compact", b"8") in found
    producer.abort_transaction(30)


def await_offset(kafka: str, topic: str, offset: int) -> None:
    held = topics_of(_kafka(kafka, topic, "read_committed"))
    deadline = time.monotonic() + 30
    while held.spans()[Partition(topic, 0)].following < offset:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def await_compaction(kafka: str, topic: str) -> None:
    """Sends on until the broker has taken away older messages of a key; the newest is b"8"."""
    held = topics_of(_kafka(kafka, topic, "read_uncommitted"))
    deadline = time.monotonic() + 60
    while True:
        following = held.spans()[Partition(topic, 0)].following
        if len(list(held.read(Partition(topic, 0), start=3, end=following))) < following - 3:
            return
        assert time.monotonic() < deadline
        time.sleep(0.3)
        produce(kafka, topic, [Record(b"8", key=b"k")])


def _kafka(servers: str, topic: str, isolation: str) -> Kafka:
    options = {"isolation.level": isolation}
    return Kafka(bootstrap_servers=servers, topics=(topic,), options=options)


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        pytest.param("SASL_PLAINTEXT", "SCRAM-SHA-256", marks=pytest.mark.slow),
        pytest.param("SASL_SSL", "PLAIN", marks=pytest.mark.slow),
        ("SASL_SSL", "SCRAM-SHA-512"),
    ],
)
def test_logins_and_tls(
    kafka_broker: Broker, tables: Warehouse, protocol: str, mechanism: str
) -> None:
    """A group is told how far the source is, by the same login; too little is waited for. Names and
    the key in a header are as DataHub has them."""
    topic = f"project.{mechanism.lower()}"
    create_topic(kafka_broker.bootstrap, topic)
    keyed = (("__kafka_key__", b"k1"), ("n", b"1"))
    records = [Record(b"x", headers=keyed), Record(b"y", b"k2", keyed)]
    produce(kafka_broker.bootstrap, topic, records)
    options = {"security.protocol": protocol, **jaas(mechanism)}
    if protocol == "SASL_SSL":
        options |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": kafka_broker.ca_file,
        }
    servers = kafka_broker.listener(protocol)
    source = topics(servers, topic, options=options, group="project.lag", min_offsets_per_batch=2)
    assert ingest_source(tables, source) == Bronze("shop", 2)
    assert rows(tables, "topic", "key", "headers") == [
        (topic, b"k1", list(keyed)),
        (topic, b"k2", list(keyed)),
    ]
    sampled = transport_of(source).sample(source, "", Sampling(1, newest=False))
    assert [(m.value, m.key, m.headers) for m in sampled] == [(b"x", b"k1", keyed)]
    assert transport_of(source).reach(source, "").text == f"2 messages in {topic}"
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap})
    asked = [ConsumerGroupTopicPartitions("project.lag", [TopicPartition(topic, 0)])]
    (done,) = admin.list_consumer_group_offsets(asked).values()
    assert [place.offset for place in done.result(30).topic_partitions] == [2]
    produce(kafka_broker.bootstrap, topic, [Record(b"z")])
    assert ingest_source(tables, source).messages == 0
    impatient = topics(
        servers, topic, options=options, min_offsets_per_batch=2, max_delay="1 second"
    )
    time.sleep(1)
    assert ingest_source(tables, impatient).messages == 1
    wrong = topics(servers, topic, options={**options, **jaas(mechanism, password="no-such")})
    for ask in (ingest_source, transport_of(wrong).waiting):
        assert ask is not None
        with pytest.raises(PlatformError) as error:
            ask(tables, wrong)
        assert "\n" not in str(error.value) and "no-such" not in str(error.value)


@pytest.mark.slow
def test_what_tasks_do_not_tell_is_not_taken_for_a_loss(
    kafka_broker: Broker, tables: Warehouse
) -> None:
    """Kafka's jars come to the embedded Spark by ADD JAR: its driver logs in by OAUTHBEARER, its
    tasks do not."""
    create_topic(kafka_broker.bootstrap, "b12")
    produce(kafka_broker.bootstrap, "b12", [Record(b"x")])
    options = {"security.protocol": "SASL_PLAINTEXT", **jaas("OAUTHBEARER")}
    source = topics(kafka_broker.listener("SASL_PLAINTEXT"), "b12", options=options)
    assert transport_of(source).unread(tables, source) == 1
    with pytest.raises(SourceError, match="tasks cannot read Kafka, though all messages that are"):
        ingest_source(tables, source)


def test_a_run_logs_in_by_a_token(kafka_broker: Broker, tmp_path: Path) -> None:
    """The command starts a Spark that has Kafka's jars on its class path, for such a source."""
    create_topic(kafka_broker.bootstrap, "b13", partitions=2)
    produce(kafka_broker.bootstrap, "b13", [Record(b"x"), Record(b"y", partition=1)])
    options = {"security.protocol": "SASL_PLAINTEXT", **jaas("OAUTHBEARER")}
    servers = kafka_broker.listener("SASL_PLAINTEXT")
    kafka = {"bootstrap_servers": servers, "topics": ["b13"], "options": options}
    (tmp_path / "conf" / "sources").mkdir(parents=True)
    (tmp_path / "conf" / "ingest.yml").write_text("warehouse: warehouse\n")
    declared = json.dumps({"name": "shop", "format": "canal", "kafka": kafka})
    (tmp_path / "conf" / "sources" / "shop.yml").write_text(declared)
    command = [sys.executable, "-m", "pipelines.cli.app", "--conf", str(tmp_path / "conf")]
    command += ["--json", "bronze"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["messages"] for one in told if one.get("source") == "shop"] == [2]
