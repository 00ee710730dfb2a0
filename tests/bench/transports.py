"""Bronze from each transport, compared with Kafka's: real servers, filled before, read in turns.

CPU of all processes, the server's that hands the messages out among it; what the other servers do
meanwhile is none of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from ingest.config.sources import Source
from pipelines.bronze.source import ingest_source
from pipelines.platform.warehouse import Warehouse
from tests.bench.figures import Bench, Figure, ratio
from tests.bench.generator import Table
from tests.bench.processes import measured
from tests.bench.wire import debezium
from tests.support import kafka_broker, rocketmq_server
from tests.support.rabbitmq_server import RabbitServer, install
from tests.support.tables import tables_in
from tests.support.transports import READER, Kafka, Place, Rabbit, Rocket

_EVENTS = 20_000
_WARMUPS = 2
_ROUNDS = 3


class _Server(Protocol):
    @property
    def processes(self) -> list[int]: ...


class _Served(NamedTuple):
    """Where messages are sent and read, and the server of that."""

    place: Place
    server: _Server


def run(bench: Bench) -> Iterator[Figure]:
    """A figure for each transport but Kafka whose server is to be had here."""
    with ExitStack() as stack:
        places = _places(bench.folder, stack)
        tables = tables_in(bench.folder / "product", bench.session)
        table = Table(keys=bench.sized(_EVENTS) // 5, seed=bench.seed)
        sources = {name: _source(name, served.place) for name, served in places.items()}
        spent: dict[str, list[float]] = {name: [] for name in places}
        count = bench.sized(_EVENTS)
        for number in range(_WARMUPS + _ROUNDS):
            messages = [debezium(change) for change in table.changes(count)]
            for name, (place, server) in places.items():
                place.send(messages)
                running = {pid for _, any_ in places.values() for pid in any_.processes}
                others = running.difference(server.processes)
                cost = _cost(tables, sources[name], count, others=others)
                if number >= _WARMUPS:
                    spent[name].append(cost)
    kafka = spent.pop("kafka")
    for name, mine in spent.items():
        yield Figure(
            f"bronze from {name}, compared with Kafka",
            2.0,
            ratio(mine, kafka),
            f"{min(mine):.0f} µs an event, Kafka {min(kafka):.0f}",
        )


def _cost(tables: Warehouse, source: Source, count: int, *, others: Collection[int]) -> float:
    """CPU of a message in microseconds, where so many are read; `others`: other servers."""
    found: list[int] = []
    cost = measured(lambda: found.append(ingest_source(tables, source).messages), but=others)
    if found != [count]:
        raise AssertionError(f"{source.name}: expected {count} messages, got {found}")
    return 1e6 * cost.cpu / count


def _places(folder: Path, stack: ExitStack) -> dict[str, _Served]:
    for name in ("kafka", "rabbitmq", "rocketmq"):
        (folder / name).mkdir(parents=True)
    broker = stack.enter_context(kafka_broker.broker(folder / "kafka"))
    places = {"kafka": _Served(Kafka(broker, "shop"), broker)}
    rocketmq = stack.enter_context(
        rocketmq_server.server(folder / "rocketmq", access=READER),
    )
    places["RocketMQ"] = _Served(Rocket(rocketmq, "shop"), rocketmq)
    try:
        install()
    except pytest.skip.Exception:
        return places
    rabbit = RabbitServer(folder / "rabbitmq")
    stack.callback(rabbit.close)
    rabbit.start()
    for kind in ("stream", "classic", "quorum"):
        place = Rabbit(rabbit, f"shop.{kind}", kind)
        places[f"RabbitMQ, {kind} queue"] = _Served(place, rabbit)
    return places


def _source(name: str, place: Place) -> Source:
    declared = dict(place.declared)
    if place.transport == "kafka":
        del declared["max_offsets_per_batch"]
    plain = "".join(letter for letter in name.lower() if letter.isalpha())
    return Source.model_validate({"name": plain, place.transport: declared})
