"""RabbitMQ to bronze, from a real server: as received, once, and one sentence where it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ingest.config.sources import Source
from ingest.errors import PlatformError, SourceError
from pipelines.bronze import draining
from pipelines.bronze.by_offset.source import stream
from pipelines.bronze.source import ingest_source
from pipelines.bronze.transports import transport_of
from pipelines.platform.warehouse import Warehouse
from tests.support.rabbitmq_server import PASSWORDS, STREAM, RabbitServer, install
from tests.support.tables import tables_in

ROOT = Path(__file__).parents[2]
QUORUM = {"x-queue-type": "quorum"}
pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    install()
    server = RabbitServer(tmp_path_factory.mktemp("rabbit"))
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def tables(spark: SparkSession, warehouse: Path) -> Warehouse:
    return tables_in(warehouse, spark)


def queued(server: RabbitServer, *names: str, user: str = "reader", **more: Any) -> Source:
    declared = {"servers": server.address, "user": user, "password": PASSWORDS[user], **more}
    if names:
        declared["queues"] = list(names)
    return Source.model_validate({"name": "shop", "rabbitmq": declared})


def rows(tables: Warehouse, *columns: str) -> list[tuple[Any, ...]]:
    frame = tables.read("bronze", "messages").orderBy("source", "topic", "partition", "offset")
    return [tuple(row) for row in frame.selectExpr(*columns).collect()]


def numbered(count: int, *, start: int = 0) -> list[bytes]:
    return [b"m%d" % number for number in range(start, start + count)]


def test_every_message_is_there_as_received(rabbit: RabbitServer, tables: Warehouse) -> None:
    rabbit.declare("r1.orders", virtual_host="cdc")
    rabbit.publish(
        "r1.orders",
        [b'{"n": 1.10}\r\n', b"\xff\x00"],
        virtual_host="cdc",
        timestamp=1_700_000_000,
        message_id="7",
        headers={"a": b"\xff", "b": None, "n": 5, "t": True},
    )
    rabbit.publish("r1.orders", [b""], virtual_host="cdc")
    rabbit.publish("r1.orders", [b"x"], virtual_host="cdc", headers={"timestamp_in_ms": 17})
    source = queued(rabbit, "r1.orders", virtual_host="cdc")
    assert ingest_source(tables, source).messages == 4
    columns = ["topic", "partition", "offset", "unix_millis(timestamp)", "key", "value"]
    assert rows(tables, *columns) == [
        ("r1.orders", 0, 0, 1_700_000_000_000, None, b'{"n": 1.10}\r\n'),
        ("r1.orders", 0, 1, 1_700_000_000_000, None, b"\xff\x00"),
        ("r1.orders", 0, 2, None, None, b""),
        ("r1.orders", 0, 3, 17, None, b"x"),
    ]
    sent = [("n", b"5"), ("t", b"true"), ("a", b"\xff"), ("b", None)]
    added = [
        ("rabbitmq.delivery_mode", b"2"),
        ("rabbitmq.message_id", b"7"),
        ("rabbitmq.timestamp", b"1700000000"),
        ("rabbitmq.routing_key", b"r1.orders"),
    ]
    first, *_ = rows(tables, "headers")
    assert sorted((key, value and bytes(value)) for key, value in first[0]) == sorted(
        [*sent, *added]
    )


def test_what_is_appended_comes_with_the_next_run(
    rabbit: RabbitServer, tables: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several streams, in bounded batches and several tasks; new partitions of a super stream."""
    monkeypatch.setattr("pipelines.bronze.by_offset.source.MOST_MESSAGES", 700)
    monkeypatch.setattr("pipelines.bronze.by_offset.source.TASK_MESSAGES", 300)
    rabbit.declare("r2-0")
    rabbit.declare("r2-1")
    rabbit.publish("r2-0", numbered(1000))
    source = queued(rabbit, super_stream="r2")
    assert transport_of(source).unread(tables, source) == 1000
    assert ingest_source(tables, source).messages == 1000
    assert ingest_source(tables, source).messages == 0
    rabbit.declare("r2-2")
    for name in ("r2-0", "r2-1", "r2-2"):
        rabbit.publish(name, [b"later"])
    assert transport_of(source).unread(tables, source) == 3
    assert ingest_source(tables, source).messages == 3
    found = rows(tables, "topic", "partition", "offset", "value")
    assert found == [
        *[("r2", 0, offset, body) for offset, body in enumerate([*numbered(1000), b"later"])],
        ("r2", 1, 0, b"later"),
        ("r2", 2, 0, b"later"),
    ]


def test_a_stream_may_begin_later(rabbit: RabbitServer, tables: Warehouse) -> None:
    rabbit.declare("r3")
    rabbit.publish("r3", numbered(10))
    begin = queued(rabbit, "r3", starting_offsets={"r3": 7})
    assert ingest_source(tables, begin).messages == 3
    latest = queued(rabbit, "r3", starting_offsets="latest").model_copy(update={"name": "late"})
    assert ingest_source(tables, latest).messages == 0
    rabbit.publish("r3", numbered(1, start=10))
    assert ingest_source(tables, begin).messages == ingest_source(tables, latest).messages == 1
    assert rows(tables, "source", "offset") == [
        ("late", 10),
        *[("shop", offset) for offset in range(7, 11)],
    ]


def test_retention_that_passed_what_was_not_read(rabbit: RabbitServer, tables: Warehouse) -> None:
    small = {"x-max-length-bytes": 2_000, "x-stream-max-segment-size-bytes": 1_000}
    rabbit.declare("r4", {**STREAM, **small})
    rabbit.publish("r4", [b"first"])
    source = queued(rabbit, "r4")
    assert ingest_source(tables, source).messages == 1
    rabbit.publish("r4", [b"%d" % number + b"." * 500 for number in range(40)])
    with pytest.raises(SourceError, match=r"r4/0 no longer holds its messages 1-\d+, which") as e:
        ingest_source(tables, source)
    assert "rabbitmq.lost: go_on" in str(e.value)
    going_on = queued(rabbit, "r4", lost="go_on")
    assert ingest_source(tables, going_on).messages > 1
    (gap,) = rows(tables, "offset", "string(headers[0].value)")[1:2]
    first, last = map(int, gap[1].split("-"))
    offsets = [offset for (offset,) in rows(tables, "offset")]
    assert (gap[0], first) == (1, 1)
    # The stream's own bookkeeping takes offsets too.
    assert offsets[:2] == [0, 1] and all(offset > last for offset in offsets[2:])


SENTENCES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"virtual_host": "nope"}, "has no virtual host 'nope' for 'reader'"),
    ({"queues": None, "super_stream": "r5"}, "has no stream r5-0 in virtual host '/'"),
    (
        {"queue_type": "classic"},
        "the queue 'r5' is of type stream: set rabbitmq.queue_type: stream",
    ),
    ({"queues": ["r5.classic"]}, "the queue 'r5.classic' is of type classic: set"),
    (
        {"queues": ["r5.classic"], "queue_type": "quorum"},
        "the queue 'r5.classic' is of type classic: set rabbitmq.queue_type: classic",
    ),
    ({"servers": "127.0.0.1:1,localhost:1"}, "127.0.0.1:1 (Connection refused), localhost:1 ("),
    ({"servers": "no.such.host.invalid:5672"}, "RabbitMQ does not answer at no.such.host.invalid"),
    ({"tls": {}}, "is TLS spoken there?"),
    ({"tls": {"ca_file": "/no/such.pem"}}, "a file of rabbitmq.tls cannot be used (/no/such.pem)"),
)


def test_what_cannot_be_reached_is_one_sentence(rabbit: RabbitServer, tables: Warehouse) -> None:
    """The same one from a run and from `validate --connect`, and no password in it."""
    rabbit.declare("r5")
    rabbit.declare("r5.classic", {})
    for change, sentence in SENTENCES:
        login = {"servers": rabbit.address, "user": "reader", "password": PASSWORDS["reader"]}
        declared = {**login, "queues": ["r5"], **change}
        source = Source.model_validate({"name": "shop", "rabbitmq": declared})
        with pytest.raises(PlatformError) as error:
            ingest_source(tables, source)
        with pytest.raises(PlatformError) as tried:
            transport_of(source).reach(source, "")
        text = str(error.value)
        assert str(tried.value) == text
        assert sentence in text and text.startswith("source shop: ") and "\n" not in text
        assert not any(password in text for password in PASSWORDS.values())
        assert transport_of(source).unread(tables, source) is None


def test_tls_names_are_checked(rabbit: RabbitServer, tables: Warehouse) -> None:
    rabbit.declare("r6")
    rabbit.publish("r6", [b"x"])
    servers = f"localhost:{rabbit.tls_port}"
    tls = {"ca_file": rabbit.ca_file}
    wrong = queued(rabbit, "r6", servers=servers, tls=tls)
    with pytest.raises(PlatformError, match=r"certificate of localhost:\d+ is not taken: Hostname"):
        ingest_source(tables, wrong)
    with pytest.raises(PlatformError, match="is not taken: self-signed certificate"):
        ingest_source(tables, queued(rabbit, "r6", servers=servers, tls={}))
    right = queued(rabbit, "r6", servers=servers, tls={**tls, "server_name": "rabbit.test"})
    assert ingest_source(tables, right).messages == 1


def test_no_password_is_left_behind(
    rabbit: RabbitServer, tables: Warehouse, warehouse: Path, spark: SparkSession
) -> None:
    """Not in checkpoints, tables, logs of Spark, nor in what Spark shows of a query."""
    rabbit.declare("r7")
    rabbit.publish("r7", [b"x"])
    source = queued(rabbit, "r7")
    assert ingest_source(tables, source).messages == 1
    secret = PASSWORDS["reader"].encode()
    assert secret.decode() not in repr(source)
    from pipelines.bronze.rabbitmq import _client, _declared
    from pipelines.platform import session

    client = _client(_declared(source))
    messages = stream(spark, client, checkpoint=str(warehouse / "none"))
    jvm = messages._jdf.queryExecution()
    assert secret.decode() not in jvm.logical().treeString() + jvm.toString()
    files = [file for file in warehouse.rglob("*") if file.is_file()]
    if session.LOG is not None:
        files.append(session.LOG)
    assert len(files) > 5
    assert [file for file in files if secret in file.read_bytes()] == []


KILLED = """
import os, signal, sys
from pathlib import Path
from ingest.config.sources import Source
from pipelines.bronze import draining
from pipelines.bronze.source import ingest_source
from pipelines.platform.session import spark
from pipelines.platform.warehouse import Warehouse
from tests.support.tables import tables_in

warehouse, declared, point = sys.argv[1:]
if point == "landed":
    # Bronze has the batch, the server does not know.
    draining.Drain.acknowledge = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
elif point == "noted":
    Warehouse.append = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
tables = tables_in(Path(warehouse), spark(warehouse=Path(warehouse)))
ingest_source(tables, Source.model_validate_json(declared))
"""


def run_and_kill(source: Source, warehouse: Path, point: str) -> None:
    script = [
        sys.executable,
        "-c",
        KILLED,
        str(warehouse),
        source.model_dump_json(exclude_unset=True),
        point,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = subprocess.run(
        script, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]


def values(tables: Warehouse) -> list[tuple[int, bytes]]:
    return [(offset, bytes(value)) for offset, value in rows(tables, "offset", "value")]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_queue_is_emptied_once_bronze_has_its_messages(
    kind: str, rabbit: RabbitServer, tables: Warehouse, warehouse: Path, monkeypatch: Any
) -> None:
    """A kill before the append and one between it and the acknowledgement; true repeats stay; then
    a server that is restarted, and a note that is lost."""
    queue = f"r9.{kind}"
    rabbit.declare(queue, QUORUM if kind == "quorum" else {})
    monkeypatch.setattr(draining, "MOST_MESSAGES", 40)
    repeated = [*numbered(50), b"same", b"same", b"same"]
    rabbit.publish(queue, repeated)
    source = queued(rabbit, queue, queue_type=kind)
    run_and_kill(source, warehouse, "noted")
    assert values(tables) == []
    run_and_kill(source, warehouse, "landed")
    assert values(tables) == list(enumerate(repeated))
    rabbit.publish(queue, [b"same", b"new"])
    assert transport_of(source).unread(tables, source) == 55
    assert ingest_source(tables, source).messages == 2
    assert values(tables) == list(enumerate([*repeated, b"same", b"new"]))
    assert ingest_source(tables, source).messages == 0
    rabbit.publish(queue, [b"kept"])
    run_and_kill(source, warehouse, "landed")
    rabbit.stop()
    rabbit.start()
    rabbit.await_queue(queue)
    assert ingest_source(tables, source).messages == 0
    (note,) = (warehouse / "_checkpoints/bronze/shop/drained").iterdir()
    note.unlink()
    rabbit.publish(queue, [b"after"])
    assert ingest_source(tables, source).messages == 1
    assert values(tables)[-2:] == [(55, b"kept"), (56, b"after")]


def test_runs_that_fail_take_nothing_from_a_queue_with_a_delivery_limit(
    rabbit: RabbitServer, tables: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From RabbitMQ 4.0 on each quorum queue has one. Nor does a queue throw away what comes while
    it is emptied."""
    rabbit.declare("r10", {**QUORUM, "x-delivery-limit": 1})
    rabbit.publish("r10", numbered(5))
    source = queued(rabbit, "r10", queue_type="quorum")
    append = Warehouse.append

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Warehouse, "append", fail)
    for _ in range(4):
        with pytest.raises(PlatformError, match="No space left on device"):
            ingest_source(tables, source)

    def publish_meanwhile(*given: Any, **more: Any) -> None:
        append(*given, **more)
        rabbit.publish("r10", [b"meanwhile"])

    monkeypatch.setattr(Warehouse, "append", publish_meanwhile)
    counts = [ingest_source(tables, source).messages for _ in range(4)]
    assert counts == [6, 1, 1, 1]
    assert values(tables) == list(enumerate([*numbered(5), *[b"meanwhile"] * 4]))
