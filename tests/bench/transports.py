"""Bronze from each transport, compared with Kafka's: real servers, filled before, read in turns.

What is compared is the CPU of all processes but the servers'; what the server of a transport takes
to hand the messages out is told beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from ingest.config.sources import Source
from pipelines.bronze.source import ingest_source
from pipelines.platform.warehouse import Warehouse
from tests.bench.figures import Bench, Figure, ratio
from tests.bench.generator import Table
from tests.bench.processes import cpu_of, measured
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


class _Spent(NamedTuple):
    """CPU of a message in microseconds."""

    ours: float
    server: float


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
        spent: dict[str, list[_Spent]] = {name: [] for name in places}
        servers = {pid for _, server in places.values() for pid in server.processes}
        count = bench.sized(_EVENTS)
        for number in range(_WARMUPS + _ROUNDS):
            messages = [debezium(change) for change in table.changes(count)]
            for name, (place, server) in places.items():
                place.send(messages)
                before = cpu_of(server.processes)
                ours = _cost(tables, sources[name], count, servers=servers)
                its = 1e6 * (cpu_of(server.processes) - before) / count
                if number >= _WARMUPS:
                    spent[name].append(_Spent(ours, its))
    kafka = spent.pop("kafka")
    for name, mine in spent.items():
        yield Figure(
            f"bronze from {name}, compared with Kafka",
            2.0,
            ratio([one.ours for one in mine], [one.ours for one in kafka]),
            f"{_told(mine)}; Kafka {_told(kafka)}",
        )


def _told(spent: Sequence[_Spent]) -> str:
    least = min(spent)
    return f"{least.ours:.0f} µs an event, the server {least.server:.0f}"


def _cost(tables: Warehouse, source: Source, count: int, *, servers: Collection[int]) -> float:
    """Our CPU of a message in microseconds, where so many are read."""
    found: list[int] = []
    cost = measured(lambda: found.append(ingest_source(tables, source).messages), but=servers)
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
