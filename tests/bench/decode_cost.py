"""Decoding bronze messages against Spark's own `from_json` on the same messages."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from itertools import cycle

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.decode.batches import decode
from ingest.decode.silver_rows import SILVER_COLUMNS
from ingest.decode.spec import decode_spec
from tests.bench.figures import Bench, Figure, ratio
from tests.bench.generator import Change, Table, write
from tests.bench.installation import Installation
from tests.bench.processes import Cost, measured
from tests.bench.wire import WIRES

TARGETS = {
    "dataworks": 1.1,
    "debezium_schema": 1.1,
    "canal": 1.5,
    "debezium": 1.5,
    "oms_default": 1.5,
}
_MESSAGES = 100_000
_ROUNDS = 3
_INPUT = ("source", "topic", "partition", "offset", "timestamp", "key", "value", "headers", "epoch")


def run(bench: Bench) -> Iterator[Figure]:
    """One figure a format, and one for a stream of all five with format auto."""
    count = bench.sized(_MESSAGES)
    formats = {name: WIRES[name].format for name in TARGETS}
    place = Installation(bench.session, bench.folder, sources={**formats, "mixed": "auto"})
    for name in place.config.sources:
        render = WIRES[name].render if name in WIRES else _in_turns()
        table = Table(keys=count // 5, seed=bench.seed)
        write(place.landing / name / "1.jsonl", table.changes(count), render)
    place.bronze()
    bronze = place.warehouse.read("bronze", "messages")
    tasks: dict[str, list[Callable[[], None]]] = {}
    for name, source in place.config.sources.items():
        messages = bronze.where(F.col("source") == name)
        decoded = messages.select(*_INPUT).mapInArrow(
            decode({name: decode_spec(source)}), SILVER_COLUMNS
        )
        tasks[name] = [_task(decoded)]
        if name in WIRES:
            text = F.col("value").cast("string")
            tasks[name].append(_task(messages.select(F.from_json(text, WIRES[name].schema))))
    costs = _in_rounds(tasks)
    means = {
        name: statistics.median(c.cpu for c in both[0]) / count for name, both in costs.items()
    }
    for name, target in TARGETS.items():
        ours, native = ([cost.cpu / count * 1e6 for cost in runs] for runs in costs[name])
        size = (place.landing / name / "1.jsonl").stat().st_size / count
        split = statistics.median(cost.python for cost in costs[name][0]) / count * 1e6
        yield Figure(
            f"decode {name}",
            target,
            ratio(ours, native),
            f"{statistics.median(ours):.1f} µs a message of {size:.0f} B ({split:.1f} in Python), "
            f"from_json {statistics.median(native):.1f}",
        )
    dearest = max(TARGETS, key=lambda name: means[name])
    others = [cost.cpu for cost in costs[dearest][0]]
    mixed = [cost.cpu for cost in costs["mixed"][0]]
    yield Figure(
        "decode five formats mixed, auto",
        1.0,
        ratio(mixed, others),
        f"{means['mixed'] * 1e6:.1f} µs a message, {dearest} alone {means[dearest] * 1e6:.1f}",
    )


def _in_turns() -> Callable[[Change], bytes]:
    wires = cycle(WIRES.values())
    return lambda change: next(wires).render(change)


def _task(frame: DataFrame) -> Callable[[], None]:
    return lambda: frame.write.format("noop").mode("overwrite").save()


def _in_rounds(tasks: dict[str, list[Callable[[], None]]]) -> dict[str, list[list[Cost]]]:
    """Every task once a round, the first round to get warm."""
    costs: dict[str, list[list[Cost]]] = {name: [[] for _ in both] for name, both in tasks.items()}
    for turn in range(_ROUNDS + 1):
        for name, both in tasks.items():
            for task, runs in zip(both, costs[name], strict=True):
                cost = measured(task)
                if turn:
                    runs.append(cost)
    return costs
