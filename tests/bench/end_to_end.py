"""Files to gold in five micro-batches, then a small one, against the job written by hand."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.bench import baseline
from tests.bench.by_hand import by_hand
from tests.bench.figures import Bench, Figure, ratio
from tests.bench.generator import Table, write
from tests.bench.installation import Installation, told, total
from tests.bench.processes import Cost, measured
from tests.bench.wire import debezium

_EVENTS = 500_000
_KEYS = 100_000
_BATCHES = 5
_WARM = 5_000
_WARMUPS = 4
_SMALL = 1_000
_ROUNDS = 5


def run(bench: Bench) -> Iterator[Figure]:
    """The five batches, then the median of small ones."""
    target = bench.folder / "by_hand"
    bench.folder.mkdir(parents=True)
    with by_hand(target) as merge:
        yield from _figures(bench, target, merge)


def _figures(bench: Bench, target: Path, merge: Callable[[Path], None]) -> Iterator[Figure]:
    batch = bench.sized(_EVENTS // _BATCHES)
    table = Table(keys=bench.sized(_KEYS), seed=bench.seed)
    place = Installation(bench.session, bench.folder / "product", sources={"shop": "debezium"})
    tuned = bench.folder / "tuned"
    baseline.create(bench.session, tuned)
    numbered = iter(range(1_000))

    def one(count: int) -> _Round:
        number = next(numbered)
        file = write(place.landing / "shop" / f"{number:03d}.jsonl", table.changes(count), debezium)
        # In turns, so that what a machine does beside falls on all of them.
        first = place.run(events=count) if number % 2 == 0 else {}
        other = measured(lambda: merge(file))
        same = measured(lambda: baseline.merge(baseline.folded(bench.session, file), tuned))
        return _Round(first or place.run(events=count), other, same)

    for _ in range(_WARMUPS):
        one(_WARM)
    large = [one(batch) for _ in range(_BATCHES)]
    _compare(bench, place, target)
    yield _figure(f"end to end, {batch * _BATCHES:,} events in {_BATCHES} batches", 1.5, large)
    small = [one(_SMALL) for _ in range(_ROUNDS)]
    yield _figure(f"end to end, {_SMALL:,} events more", 1.6, small)


class _Round(NamedTuple):
    """What a batch cost: our stages, the job by hand, the same job with our session's settings."""

    stages: Mapping[str, Cost]
    by_hand: Cost
    tuned: Cost


def _figure(name: str, target: float, rounds: Sequence[_Round]) -> Figure:
    mine = [total(round_.stages).cpu for round_ in rounds]
    others = [round_.by_hand.cpu for round_ in rounds]
    tuned = [round_.tuned.cpu for round_ in rounds]
    middle = rounds[mine.index(statistics.median_low(mine))].stages
    return Figure(
        name,
        target,
        ratio(mine, others),
        f"a batch: {statistics.median(mine):.1f} CPU s ({told(middle)}), by hand "
        f"{statistics.median(others):.1f}, by hand with the settings of our session "
        f"{statistics.median(tuned):.1f} ({ratio(mine, tuned):.2f} x)",
    )


def _compare(bench: Bench, place: Installation, target: Path) -> None:
    """Both jobs must have made the same table, or their costs say nothing."""
    mine = place.warehouse.read("gold", "shop_orders").select(*baseline.NAMES)
    other = bench.session.table(f"delta.`{target}`").select(*baseline.NAMES)
    different = mine.exceptAll(other).count() + other.exceptAll(mine).count()
    if different:
        raise AssertionError(
            f"expected the same gold by both ways, got {different} rows that differ"
        )
