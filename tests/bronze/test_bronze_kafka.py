"""Kafka to bronze, from a real broker: as received, once, and one clear sentence where it fails."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from ingest.config.settings import Settings
from ingest.config.sources import Source
from ingest.errors import PlatformError, SourceError
from pipelines.bronze import kafka as bronze_kafka
from pipelines.bronze.source import ingest_source
from pipelines.bronze.transport import Bronze
from pipelines.platform.warehouse import Warehouse
from tests.support.kafka_broker import Record, create_topic, produce

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tables(spark: SparkSession, warehouse: Path) -> Warehouse:
    named = Settings(warehouse=str(warehouse), checkpoints=str(warehouse / "_checkpoints"))
    return Warehouse(named, spark)


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


def test_what_is_appended_comes_with_the_next_run(
    kafka: str, tables: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More messages, partitions, topics, in bounded batches; a source beside it is left alone."""
    monkeypatch.setattr(bronze_kafka, "MOST_OFFSETS", 2)
    create_topic(kafka, "b2.a")
    produce(kafka, "b2.a", [Record(b"a0"), Record(b"a1"), Record(b"a2")])
    source = topics(kafka, topics_pattern=r"b2\..*")
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


def test_stop_ends_between_two_batches_or_within_one(
    kafka: str, tables: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bronze_kafka, "MOST_OFFSETS", 1)
    create_topic(kafka, "b3")
    produce(kafka, "b3", [Record(b"%d" % number) for number in range(30)])
    source = topics(kafka, "b3")
    began = time.monotonic()
    first = ingest_source(tables, source, stop=lambda: time.monotonic() > began + 4).messages
    assert first < 30
    monkeypatch.setattr(bronze_kafka, "MOST_OFFSETS", 1000)
    ingest_source(tables, source)
    assert rows(tables, "offset", "value") == [(n, b"%d" % n) for n in range(30)]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


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
    ("more", "text"),
    [
        ({"topics": ["b4", "b4.none"]}, "has not all of the topics b4, b4.none: create what is"),
        (
            {"topics": ["b4"], "starting_offsets": '{"b4": {"0": 0}}'},
            "starting_offsets has to name every partition, -2 for the earliest offset, -1 for the"
            " latest: Specified: Set(b4-0) Assigned: Set(b4-0, b4-1).",
        ),
        (
            {"topics": ["b4"], "starting_offsets": '{"b4": {"0": 0, "1": 99}}'},
            "Partition b4-1 offset was changed from 99 to 1.",
        ),
        ({"topics": ["b4"], "options": {"security.protocol": "SSH"}}, "Invalid value SSH"),
        (
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
    kafka: str, tables: Warehouse, more: dict[str, Any], text: str
) -> None:
    if "b4" not in AdminClient({"bootstrap.servers": kafka}).list_topics().topics:
        create_topic(kafka, "b4", partitions=2)
        produce(kafka, "b4", [Record(b"0"), Record(b"1", partition=1)])
    with pytest.raises(SourceError) as error:
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
    admin = AdminClient({"bootstrap.servers": kafka})
    create_topic(kafka, topic)
    produce(kafka, topic, [Record(b"0"), Record(b"1")])
    source = topics(kafka, topic)
    assert ingest_source(tables, source).messages == 2
    if loss == "aged out":
        produce(kafka, topic, [Record(b"2"), Record(b"3")])
        for done in admin.delete_records([TopicPartition(topic, 0, 3)]).values():
            done.result()
    else:
        for deleted in admin.delete_topics([topic]).values():
            deleted.result()
        time.sleep(1)
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
    assert rows(tables, "value") == [(b"0",), (b"1",)]


KILLED = """
import os, signal, sys, threading, time
from pathlib import Path

from ingest.config.settings import Settings
from ingest.config.sources import Source
from pipelines.bronze import kafka as bronze_kafka
from pipelines.bronze.source import ingest_source
from pipelines.platform.session import spark
from pipelines.platform.warehouse import Warehouse

place = Path(sys.argv[1])
tables = Warehouse(
    Settings(warehouse=str(place), checkpoints=str(place / "_checkpoints")),
    spark(warehouse=place, memory="512m"),
)
kafka = {"bootstrap_servers": sys.argv[2], "topics": [sys.argv[3]]}
bronze_kafka.MOST_OFFSETS = 500


def kill_while_writing():
    # The table, one batch, and the files of the next.
    folder = tables.folder("bronze", "messages")
    while not (
        (folder / "_delta_log" / "00000000000000000001.json").exists()
        and len(list(folder.glob("source=shop/*.parquet"))) >= 3
    ):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


threading.Thread(target=kill_while_writing, daemon=True).start()
ingest_source(tables, Source.model_validate({"name": "shop", "kafka": kafka}))
"""


@pytest.mark.slow
def test_a_run_killed_in_the_middle_loses_and_doubles_nothing(
    kafka: str, tables: Warehouse, warehouse: Path
) -> None:
    topic = "b6"
    create_topic(kafka, topic)
    produce(kafka, topic, [Record(b"%d" % number) for number in range(5000)])
    script = [sys.executable, "-c", KILLED, str(warehouse), kafka, topic]
    killed = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    begun = len(rows(tables, "offset"))
    assert 0 < begun < 5000
    ingest_source(tables, topics(kafka, topic))
    assert rows(tables, "offset", "value") == [(n, b"%d" % n) for n in range(5000)]
    assert ingest_source(tables, topics(kafka, topic)) == Bronze("shop", 0)
