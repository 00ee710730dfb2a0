"""Files to gold in five micro-batches, then a small one, against the job written by hand."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tests.bench import baseline
from tests.bench.figures import Bench, Figure, ratio
from tests.bench.generator import Table, write
from tests.bench.installation import Installation, told, total
from tests.bench.processes import Cost, measured
from tests.bench.wire import debezium

_EVENTS = 500_000
_KEYS = 100_000
_BATCHES = 5
_WARM = 5_000
_SMALL = 1_000
_ROUNDS = 5


def run(bench: Bench) -> Iterator[Figure]:
    """The five batches, then the median of small ones."""
    batch = bench.sized(_EVENTS // _BATCHES)
    table = Table(keys=bench.sized(_KEYS), seed=bench.seed)
    place = Installation(bench.session, bench.folder / "product", sources={"shop": "debezium"})
    target = bench.folder / "by_hand"
    baseline.create(bench.session, target)
    numbered = iter(range(1_000))

    def one(count: int) -> tuple[dict[str, Cost], Cost]:
        number = next(numbered)
        file = write(place.landing / "shop" / f"{number:03d}.jsonl", table.changes(count), debezium)
        if number % 2:
            by_hand = measured(lambda: baseline.merge(baseline.folded(bench.session, file), target))
            return place.run(events=count), by_hand
        stages = place.run(events=count)
        return stages, measured(
            lambda: baseline.merge(baseline.folded(bench.session, file), target)
        )

    one(_WARM)
    stages: dict[str, Cost] = {}
    by_hand = Cost()
    for _ in range(_BATCHES):
        these, other = one(batch)
        stages = {name: stages.get(name, Cost()).plus(cost) for name, cost in these.items()}
        by_hand = by_hand.plus(other)
    _compare(bench, place, target)
    events = batch * _BATCHES
    yield Figure(
        f"end to end, {events:,} events in {_BATCHES} batches",
        1.5,
        total(stages).cpu / by_hand.cpu,
        f"{total(stages).cpu / events * 1e6:.0f} µs an event ({told(stages)}), "
        f"by hand {by_hand.cpu / events * 1e6:.0f}; clock {total(stages).clock:.0f} and "
        f"{by_hand.clock:.0f} s",
    )
    rounds = [one(_SMALL) for _ in range(_ROUNDS)]
    mine = [total(these).cpu for these, _ in rounds]
    others = [other.cpu for _, other in rounds]
    middle = rounds[mine.index(statistics.median(mine))][0]
    yield Figure(
        f"end to end, {_SMALL:,} events more",
        1.6,
        ratio(mine, others),
        f"{statistics.median(mine):.1f} CPU s ({told(middle)}), "
        f"by hand {statistics.median(others):.1f}",
    )


def _compare(bench: Bench, place: Installation, target: object) -> None:
    """Both jobs must have made the same table, or their costs say nothing."""
    mine = place.warehouse.read("gold", "shop_orders").select(*baseline.NAMES)
    other = bench.session.table(f"delta.`{target}`").select(*baseline.NAMES)
    different = mine.exceptAll(other).count() + other.exceptAll(mine).count()
    if different:
        raise AssertionError(
            f"expected the same gold by both ways, got {different} rows that differ"
        )
