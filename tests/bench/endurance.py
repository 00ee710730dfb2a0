"""Thousands of small batches into one warehouse: the last costs what an early one did."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from pipelines.library import run as run_all
from tests.bench.figures import Bench, Figure
from tests.bench.generator import Table, write
from tests.bench.installation import Installation
from tests.bench.processes import Cost, measured
from tests.bench.wire import debezium

_BATCHES = 2_000
_TABLES = 5
_CHANGES = 20
"""Of each table in each batch."""
_EARLY = range(15, 25)
_LATE = 50


def run(bench: Bench) -> Iterator[Figure]:
    """One process from the first batch to the last, each a run of its own."""
    names = [f"t{number}" for number in range(_TABLES)]
    place = Installation(
        bench.session, bench.folder / "product", sources={"shop": "debezium"}, tables=names
    )
    tables = [
        Table(keys=500, seed=bench.seed + number, name=name) for number, name in enumerate(names)
    ]
    costs = [_batch(place, tables, number) for number in range(bench.sized(_BATCHES, least=100))]
    early, late = [costs[number] for number in _EARLY], costs[-_LATE:]
    files = sum(1 for _ in (place.folder / "warehouse" / "silver").rglob("*.parquet"))
    for what, spent in (
        ("CPU", lambda cost: cost.cpu),
        ("wall", lambda cost: cost.clock),
    ):
        before, after = (statistics.median(map(spent, some)) for some in (early, late))
        yield Figure(
            f"a batch of {_TABLES * _CHANGES} events after {len(costs):,} compared with after 20, "
            f"{what}",
            1.1,
            after / before,
            f"{after:.2f} s and {before:.2f}; {files:,} files of silver on disk",
        )


def _batch(place: Installation, tables: Sequence[Table], number: int) -> Cost:
    changes = [change for table in tables for change in table.changes(_CHANGES)]
    write(place.landing / "shop" / f"{number:05}.jsonl", changes, debezium)

    def bring() -> None:
        outcome = run_all(place.warehouse)
        if outcome.code:
            raise AssertionError(f"batch {number}: {outcome}")

    return measured(bring)
