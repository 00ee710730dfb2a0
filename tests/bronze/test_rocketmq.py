"""RocketMQ to bronze, from a real name server and broker: as received, once, and one clear sentence
where it fails."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ingest.config.sources import Source
from ingest.errors import PlatformError
from pipelines.bronze.remoting.connection import Access
from pipelines.bronze.source import ingest_source
from pipelines.bronze.transport import Bronze
from pipelines.bronze.transports import transport_of
from pipelines.platform.warehouse import Warehouse
from tests.support.rocketmq_server import Sent, Server, server
from tests.support.tables import tables_in

pytestmark = pytest.mark.live
READER = Access("reader", "secret-word-9")


@pytest.fixture(scope="module")
def rocketmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("rocketmq"), access=READER) as running:
        yield running


@pytest.fixture
def tables(spark: SparkSession, warehouse: Path) -> Warehouse:
    return tables_in(warehouse, spark)


def topic(running: Server, *names: str, **more: Any) -> Source:
    declared = {
        "name_servers": running.name_server,
        "topics": list(names),
        "access_key": READER.access_key,
        "secret_key": READER.secret_key,
        **more,
    }
    return Source.model_validate({"name": "shop", "rocketmq": declared})


def rows(tables: Warehouse, *columns: str) -> list[tuple[Any, ...]]:
    frame = tables.read("bronze", "messages").orderBy("topic", "partition", "offset")
    return [tuple(row) for row in frame.selectExpr(*columns).collect()]


def test_every_message_is_there_as_received(
    rocketmq: Server, tables: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By both clients; in bounded batches, through a broker and a stream that are killed."""
    monkeypatch.setattr("pipelines.bronze.by_offset.source.MOST_MESSAGES", 40)
    rocketmq.create_topic("orders", queues=2)
    sent = [Sent(b"%d" % n, n % 2, {"KEYS": f"k{n}", "TAGS": "ab"[n % 2]}) for n in range(70)]
    rocketmq.send("orders", sent)
    rocketmq.send_by_java("orders", "x" * 9000, keys="k", tag="b")
    source = topic(rocketmq, "orders")
    assert transport_of(source).unread(tables, source) == 71
    assert ingest_source(tables, source) == Bronze("shop", 71)
    assert ingest_source(tables, source).messages == 0
    assert transport_of(source).unread(tables, source) == 0
    rocketmq.send("orders", [Sent(b"{", 0), Sent(b"\x00\xff", 1, {"note": "名"})])
    assert transport_of(source).unread(tables, source) == 2
    # What a killed run leaves: a batch that was planned, and is not known to be done.
    checkpoint = Path(tables.checkpoint("bronze", "shop"))
    done = max(checkpoint.glob("commits/[0-9]*"), key=lambda file: int(file.name))
    for file in (done, done.with_name(f".{done.name}.crc")):
        file.unlink(missing_ok=True)
    rocketmq.kill("broker")
    rocketmq.start()
    rocketmq.await_topic("orders")
    ingest_source(tables, source)
    found = rows(tables, "partition", "offset", "value", "key", "timestamp > '2024-01-01'")
    small = [row for row in found if len(row[2]) < 9000]
    assert len(found) == 73 and len(small) == 72
    for number in (0, 1):
        own = [row for row in found if row[0] == number]
        assert [row[1] for row in own] == list(range(len(own)))
        assert [tuple(row[2:]) for row in own[:35]] == [
            (b"%d" % n, b"k%d" % n, True) for n in range(number, 70, 2)
        ]
    ends = {0: b"{", 1: b"\x00\xff"}
    assert all(max(row for row in found if row[0] == n)[2] == value for n, value in ends.items())
    (told,) = {
        tuple((header["key"], bytes(header["value"])) for header in row[0])
        for row in rows(tables, "headers", "value")
        if bytes(row[1]) == b"7"
    }
    assert {("rocketmq.broker", b"a"), ("TAGS", b"b"), ("KEYS", b"k7")} <= set(told)


def test_tags_and_the_end_of_a_topic_by_tls(rocketmq: Server, tables: Warehouse) -> None:
    rocketmq.create_topic("items")
    rocketmq.send("items", [Sent(b"%d" % n, 0, {"TAGS": "ab"[n % 2]}) for n in range(100)])
    secure = {"tls": True, "ca_file": str(rocketmq.ca_file)}
    latest = topic(rocketmq, "items", tags=["b", "c"], starting_offsets="latest", **secure)
    assert ingest_source(tables, latest).messages == 0
    rocketmq.send("items", [Sent(b"new", 0, {"TAGS": tag}) for tag in "abcd"])
    assert ingest_source(tables, latest).messages == 2
    assert rows(tables, "offset", "value") == [(101, b"new"), (102, b"new")]


def test_a_lost_checkpoint_brings_copies_at_the_same_places(
    rocketmq: Server, tables: Warehouse
) -> None:
    """The brokers' numbers are those of before, which bronze itself tells."""
    rocketmq.create_topic("lost")
    rocketmq.send("lost", [Sent(b"1"), Sent(b"2")])
    source = topic(rocketmq, "lost")
    ingest_source(tables, source)
    checkpoint = Path(tables.checkpoint("bronze", "shop"))
    kept = Path(tables.checkpoint("kept", "shop", "brokers.json"))
    note = kept.read_bytes()
    kept.unlink()
    shutil.rmtree(checkpoint)
    ingest_source(tables, source)
    assert rows(tables, "partition", "offset") == [(0, 0), (0, 0), (0, 1), (0, 1)]
    assert kept.read_bytes() == note


@pytest.mark.parametrize(
    ("more", "kind", "text"),
    [
        ({"name_servers": "127.0.0.1:{deaf}"}, PlatformError, "(timed out); start it or correct"),
        ({"name_servers": "127.0.0.1:{http}"}, PlatformError, "does not speak RocketMQ"),
        ({"tls": True}, PlatformError, "certificate verify failed"),
    ],
    ids=["deaf", "not RocketMQ", "unknown authority"],
)
def test_what_fails_is_one_sentence(
    rocketmq: Server,
    tables: Warehouse,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, Any],
    kind: type[Exception],
    text: str,
) -> None:
    monkeypatch.setattr("pipelines.bronze.remoting.connection._SECONDS", 3.0)
    rocketmq.create_topic("orders", queues=2)
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        socket.create_server(("127.0.0.1", 0)) as http,
    ):

        def answer() -> None:
            try:
                with http.accept()[0] as met:
                    met.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            except OSError:
                return

        threading.Thread(target=answer, daemon=True).start()
        ports = {"deaf": deaf.getsockname()[1], "http": http.getsockname()[1]}
        more = {k: v.format(**ports) if isinstance(v, str) else v for k, v in more.items()}
        source = topic(rocketmq, **{"topics": ["orders"], **more})
        with pytest.raises(kind) as error:
            ingest_source(tables, source)
    said = str(error.value)
    assert said.startswith("source shop: RocketMQ ") and text in said and "\n" not in said
    assert READER.secret_key not in said
