"""Cost of an event in a large batch and in one ten times larger, and the memory of workers."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.figures import Bench, Figure
from tests.bench.generator import Table, write
from tests.bench.installation import Installation, told, total
from tests.bench.processes import Cost, WorkerMemory
from tests.bench.wire import debezium

_SMALL = 200_000
_LARGE = 2_000_000
_EVENTS_A_KEY = 5
_WARM = 5_000


def run(bench: Bench) -> Iterator[Figure]:
    """Both sizes from one file each, into empty tables; the small one first and last."""
    _once(bench, "warm", _WARM)
    first = _once(bench, "first", bench.sized(_SMALL))
    with WorkerMemory() as memory:
        large = _once(bench, "large", bench.sized(_LARGE))
    last = _once(bench, "last", bench.sized(_SMALL))
    small = (total(first).cpu + total(last).cpu) / 2 / bench.sized(_SMALL)
    big = total(large).cpu / bench.sized(_LARGE)
    yield Figure(
        f"CPU an event, {bench.sized(_LARGE):,} events against {bench.sized(_SMALL):,}",
        1.1,
        big / small,
        f"{big * 1e6:.0f} µs ({told(large)}) and {small * 1e6:.0f} ({told(last)})",
    )
    yield Figure(
        f"most memory of a Python worker, one file of {bench.sized(_LARGE):,} events",
        300,
        memory.peak / 1e6,
        f"{total(large).clock:.0f} s watched",
        unit="MB",
    )


def _once(bench: Bench, name: str, events: int) -> dict[str, Cost]:
    place = Installation(bench.session, bench.folder / name, sources={"shop": "debezium"})
    table = Table(keys=events // _EVENTS_A_KEY, seed=bench.seed)
    write(place.landing / "shop" / "1.jsonl", table.changes(events), debezium)
    return place.run(events=events)
