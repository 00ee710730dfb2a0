"""Bronze from each transport, compared with Kafka's: real servers, filled before, read in turns.

CPU of all processes, the server's that hands the messages out among it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

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
_WARM = 2_000
_ROUNDS = 2


def run(bench: Bench) -> Iterator[Figure]:
    """A figure for each transport but Kafka whose server is to be had here."""
    with ExitStack() as stack:
        places = _places(bench.folder, stack)
        tables = tables_in(bench.folder / "product", bench.session)
        table = Table(keys=bench.sized(_EVENTS) // 5, seed=bench.seed)
        sources = {name: _source(name, place) for name, place in places.items()}
        spent: dict[str, list[float]] = {name: [] for name in places}
        for number in range(1 + _ROUNDS):
            count = bench.sized(_EVENTS) if number else _WARM
            messages = [debezium(change) for change in table.changes(count)]
            for name, place in places.items():
                place.send(messages)
                cost = _cost(tables, sources[name], count)
                if number:
                    spent[name].append(cost)
    kafka = spent.pop("kafka")
    for name, mine in spent.items():
        yield Figure(
            f"bronze from {name}, compared with Kafka",
            2.0,
            ratio(mine, kafka),
            f"{min(mine):.0f} µs an event, Kafka {min(kafka):.0f}",
        )


def _cost(tables: Warehouse, source: Source, count: int) -> float:
    """CPU of a message in microseconds, where so many are read."""
    found: list[int] = []
    cost = measured(lambda: found.append(ingest_source(tables, source).messages))
    if found != [count]:
        raise AssertionError(f"{source.name}: expected {count} messages, got {found}")
    return 1e6 * cost.cpu / count


def _places(folder: Path, stack: ExitStack) -> dict[str, Place]:
    for name in ("kafka", "rabbitmq", "rocketmq"):
        (folder / name).mkdir(parents=True)
    broker = stack.enter_context(kafka_broker.broker(folder / "kafka"))
    places: dict[str, Place] = {"kafka": Kafka(broker, "shop")}
    rocketmq = rocketmq_server.server(folder / "rocketmq", access=READER)
    places["RocketMQ"] = Rocket(stack.enter_context(rocketmq), "shop")
    try:
        install()
    except pytest.skip.Exception:
        return places
    rabbit = RabbitServer(folder / "rabbitmq")
    stack.callback(rabbit.close)
    rabbit.start()
    for kind in ("stream", "classic", "quorum"):
        places[f"RabbitMQ, {kind} queue"] = Rabbit(rabbit, f"shop.{kind}", kind)
    return places


def _source(name: str, place: Place) -> Source:
    declared = dict(place.declared)
    if place.transport == "kafka":
        del declared["max_offsets_per_batch"]
    plain = "".join(letter for letter in name.lower() if letter.isalpha())
    return Source.model_validate({"name": plain, place.transport: declared})
