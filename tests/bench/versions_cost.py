"""A batch of a target that keeps every version, beside one that keeps rows as they are."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tests.bench.figures import Bench, Figure, ratio
from tests.bench.generator import Table, write
from tests.bench.installation import Installation
from tests.bench.wire import debezium

_BATCH = 20_000
_ROUNDS = 5


def run(bench: Bench) -> Iterator[Figure]:
    """CPU of gold in turns; the first rounds create the tables and get warm."""
    batch = bench.sized(_BATCH, least=2_000)
    places = {
        kept: Installation(
            bench.session,
            bench.folder / str(kept),
            sources={"shop": "debezium"},
            merge=["orders"],
            options={"stored_as_scd_type": kept},
        )
        for kept in (1, 2)
    }
    tables = {kept: Table(keys=batch, seed=bench.seed) for kept in places}
    costs: dict[int, list[float]] = {kept: [] for kept in places}
    for turn in range(_ROUNDS + 2):
        for kept, place in places.items():
            file = place.landing / "shop" / f"{turn}.jsonl"
            write(file, tables[kept].changes(batch), debezium)
            cost = place.run(events=batch)["gold"]
            if turn > 1:
                costs[kept].append(cost.cpu)
    versions, rows = statistics.median(costs[2]), statistics.median(costs[1])
    yield Figure(
        f"gold of {batch:,} events as versions (SCD 2), beside rows (SCD 1)",
        2.0,
        ratio(costs[2], costs[1]),
        f"{versions:.1f} and {rows:.1f} CPU s",
    )
