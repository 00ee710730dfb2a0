"""What every transport promises: each message in bronze once, whatever is killed, and one sentence
where it cannot be read. What is a transport's own stands in its own file."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ingest.config.sources import Source, SourceLimits
from ingest.errors import PlatformError, SourceError
from pipelines.bronze import draining
from pipelines.bronze.by_offset import source as by_offset
from pipelines.bronze.source import ingest_source
from pipelines.bronze.transport import Sampling
from pipelines.bronze.transports import TRANSPORTS, transport_of
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.stream import decode_source
from tests.support.kafka_broker import Broker
from tests.support.rabbitmq_server import RabbitServer, install
from tests.support.rocketmq_server import Server, server
from tests.support.tables import tables_in
from tests.support.transports import LARGE, READER, Files, Kafka, Place, Rabbit, Rocket, Served

ROOT = Path(__file__).parents[2]
SILENT = 5.0
"""Seconds; more than the second after which a queue that hands out nothing is taken to be empty."""
_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    install()
    running = RabbitServer(tmp_path_factory.mktemp("rabbit"))
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def rocketmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("rocketmq"), access=READER) as running:
        yield running


SERVED = [
    pytest.param("kafka", marks=pytest.mark.kafka),
    *(
        pytest.param(name, marks=pytest.mark.live)
        for name in ("rabbitmq stream", "rabbitmq classic", "rabbitmq quorum", "rocketmq")
    ),
]


@pytest.fixture(params=["files", *SERVED])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    transport, _, kind = request.param.partition(" ")
    name = f"contract.{next(_NUMBERS)}"
    if transport == "kafka":
        broker: Broker = request.getfixturevalue("kafka_broker")
        return Kafka(broker, name)
    if transport == "rabbitmq":
        return Rabbit(request.getfixturevalue("rabbit"), name, kind)
    if transport == "rocketmq":
        return Rocket(request.getfixturevalue("rocketmq"), name.replace(".", "-"))
    (tmp_path / "landing").mkdir()
    return Files(tmp_path / "landing")


@pytest.fixture
def tables(spark: SparkSession, warehouse: Path) -> Warehouse:
    return tables_in(warehouse, spark)


def declared(place: Place, **change: Any) -> Source:
    return Source.model_validate({"name": "shop", place.transport: {**place.declared, **change}})


def held(tables: Warehouse) -> list[tuple[Any, ...]]:
    """What bronze has, in the order of its places."""
    columns = ("topic", "partition", "offset", "string(value)")
    return sorted(map(tuple, tables.read("bronze", "messages").selectExpr(*columns).collect()))


def numbered(count: int, *, start: int = 0) -> list[bytes]:
    return [b"m%04d" % number for number in range(start, start + count)]


def test_every_transport_has_a_place() -> None:
    assert {place.transport for place in (Files, Kafka, Rabbit, Rocket)} == set(TRANSPORTS)


KILLED = """
import os, signal, sys, threading, time
from pathlib import Path
from ingest.config.sources import Source, SourceLimits
from pipelines.bronze import draining, files
from pipelines.bronze.by_offset import source as by_offset
from pipelines.bronze.source import ingest_source
from pipelines.platform.session import spark
from tests.support.tables import tables_in

warehouse, declared = sys.argv[1:]
files.MOST_FILES = draining.MOST_MESSAGES = by_offset.MOST_MESSAGES = 200
tables = tables_in(Path(warehouse), spark(warehouse=Path(warehouse), memory="512m"))
folder = tables.folder("bronze", "messages")


def kill_while_writing():
    # The table, one batch, and files of the next.
    while not (
        (folder / "_delta_log" / "00000000000000000001.json").exists()
        and len(list(folder.glob("source=shop/*.parquet"))) >= 2
    ):
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


threading.Thread(target=kill_while_writing, daemon=True).start()
ingest_source(tables, Source.model_validate_json(declared))
"""


def run_and_kill(source: Source, warehouse: Path) -> None:
    told = source.model_dump_json(exclude_unset=True)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(warehouse), told],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]


@pytest.mark.slow
def test_nothing_is_lost_or_doubled(place: Place, tables: Warehouse, warehouse: Path) -> None:
    """Through a run that is killed while it appends, a server that is, and a checkpoint that is
    lost; a look at what is there takes nothing away."""
    place.send(numbered(1000))
    source = declared(place)
    transport = transport_of(source)
    run_and_kill(source, warehouse)
    assert 0 < len(held(tables)) < 1000
    looked = transport.sample(source, str(ROOT), Sampling(3, newest=False))
    assert len(looked) == 3 and all(one.value in numbered(1000) for one in looked)
    ingest_source(tables, source)
    assert [row[-1].encode() for row in held(tables)] == numbered(1000)
    assert transport.unread(tables, source) == 0

    place.stop()
    with pytest.raises(PlatformError) as error:
        ingest_source(tables, source)
    assert str(error.value).startswith("source shop") and "\n" not in str(error.value)
    assert transport.unread(tables, source) is None
    place.start()
    place.send(numbered(5, start=1000))
    assert transport.unread(tables, source) == 5
    assert ingest_source(tables, source).messages == 5
    assert ingest_source(tables, source).messages == 0
    whole = held(tables)
    assert [row[-1].encode() for row in whole] == numbered(1005)
    assert len({row[:-1] for row in whole}) == 1005

    shutil.rmtree(tables.checkpoint("bronze", "shop"))
    place.send(numbered(1, start=1005))
    ingest_source(tables, source)
    after = held(tables)
    # What comes once more has the places that it had: it counts once.
    assert [row[-1].encode() for row in sorted(set(after))] == numbered(1006)
    assert set(whole) < set(after) and len(set(after)) == 1006
    assert (len(after) > 1006) == place.again


@pytest.mark.slow
@pytest.mark.parametrize("place", SERVED, indirect=True)
def test_a_network_that_is_cut_for_a_while(
    place: Served, tables: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Silence in the middle of a run: it goes on, or ends with one sentence, and the next run has
    the rest."""
    monkeypatch.setattr(draining, "MOST_MESSAGES", 200)
    monkeypatch.setattr(by_offset, "MOST_MESSAGES", 200)
    place.send(numbered(1000))
    source = declared(place)
    # The table, and a batch.
    first = tables.folder("bronze", "messages") / "_delta_log" / f"{1:020}.json"
    amid: list[int] = []

    def cut() -> None:
        while not first.exists():
            time.sleep(0.01)
        place.silence()
        amid.append(len(held(tables)))
        time.sleep(SILENT)
        place.resume()

    cutting = threading.Thread(target=cut)
    cutting.start()
    try:
        ingest_source(tables, source)
    except (PlatformError, SourceError) as error:
        assert str(error).startswith("source shop") and "\n" not in str(error)
    cutting.join()
    assert 0 < amid[0] < 1000
    ingest_source(tables, source)
    values = [row[-1].encode() for row in held(tables)]
    assert sorted(set(values)) == numbered(1000)
    # What forgets the acknowledged hands out again what it did not see acknowledged.
    assert len(values) == 1000 or not place.again


def test_what_cannot_be_read_is_one_sentence(place: Place, tables: Warehouse) -> None:
    """The same kind of it from a run, from `validate --connect` and from `inspect`; the run ends
    with 2 if there is no other source. No secret is in it."""
    for mistake in place.mistakes():
        source = declared(place, **mistake.change)
        transport = transport_of(source)
        for ask in (
            lambda source=source: ingest_source(tables, source),
            lambda source=source, reach=transport.reach: reach(source, str(ROOT)),
            lambda source=source, sample=transport.sample: sample(
                source, str(ROOT), Sampling(1, False)
            ),
        ):
            with pytest.raises(PlatformError) as error:
                ask()
            said = str(error.value)
            assert mistake.said in said, mistake.what
            assert said.startswith("source shop") and "\n" not in said
            for secret in ("wrong-one", READER.secret_key, "s3cret"):
                assert secret not in said
        assert transport.unread(tables, source) is None


def test_a_large_message_comes_whole(place: Place, tables: Warehouse) -> None:
    """Larger than what brokers and clients take by default in one piece, and than the source's
    limit: silver sets it aside by itself."""
    large = b"x" * LARGE
    place.send([b"before", large, b"after"])
    source = declared(place)
    sampled = transport_of(source).sample(source, str(ROOT), Sampling(3, newest=False))
    assert [message.value for message in sampled] == [b"before", large, b"after"]
    ingest_source(tables, source)
    sizes = tables.read("bronze", "messages").selectExpr("octet_length(value)").collect()
    assert sorted(size for (size,) in sizes) == [5, 6, LARGE]
    limited = source.model_copy(update={"limits": SourceLimits(message_bytes=LARGE - 1)})
    decode_source(tables, limited)
    codes = [row.error_code for row in tables.read("silver", "cdc").collect()]
    assert sorted(codes) == ["too_large", "unknown_format", "unknown_format"]
