"""A batch of late events, after short and after long histories, beside one on time."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tests.bench.figures import Bench, Figure, ratio
from tests.bench.generator import Table, write
from tests.bench.installation import Installation, told, total
from tests.bench.processes import Cost
from tests.bench.wire import debezium

_SHORT = 2
_LONG = 20
_BATCH = 20_000
_LATE = 1_000
_ROUNDS = 3
_PART = 200_000
_PARTS = 5
_GROWN = 4


def run(bench: Bench) -> Iterator[Figure]:
    """CPU of all three stages of late batches, in turns."""
    batch = bench.sized(_BATCH, least=10_000)
    places = {history: _filled(bench, history, batch) for history in (_SHORT, _LONG)}
    runs: dict[int, list[dict[str, Cost]]] = {_SHORT: [], _LONG: []}
    for turn in range(_ROUNDS + 1):
        order = (_SHORT, _LONG) if turn % 2 else (_LONG, _SHORT)
        for history in order:
            place, table = places[history]
            late = table.late(_LATE, turn=turn)
            write(place.landing / "shop" / f"late{turn}.jsonl", late, debezium)
            stages = place.run(events=len(late))
            if turn:
                runs[history].append(stages)
    short = [total(stages).cpu for stages in runs[_SHORT]]
    long = [total(stages).cpu for stages in runs[_LONG]]
    yield Figure(
        f"{_LATE:,} late events after {_LONG} batches and after {_SHORT}",
        1.5,
        ratio(long, short),
        f"{statistics.median(long):.1f} CPU s ({told(runs[_LONG][-1])}) and "
        f"{statistics.median(short):.1f} ({told(runs[_SHORT][-1])}); batches of {batch:,}",
    )
    yield from _by_history(bench)


def _by_history(bench: Bench) -> Iterator[Figure]:
    batch = bench.sized(_PART, least=10_000)
    place, table = _filled(bench, _PARTS, batch)
    late, on_time = _measured(place, table, 100), _measured(place, table, None)
    rows = _PARTS * batch
    yield Figure(
        f"{_LATE:,} late events after {rows:,}, beside as many on time",
        3.0,
        ratio(late, on_time),
        f"{statistics.median(late):.1f} and {statistics.median(on_time):.1f} CPU s",
    )
    for number in range(_PARTS, _GROWN * _PARTS):
        write(place.landing / "shop" / f"{number:03d}.jsonl", table.changes(batch), debezium)
        place.run(events=batch)
    later = _measured(place, table, 200)
    yield Figure(
        f"{_LATE:,} late events after {_GROWN * rows:,} and after {rows:,}",
        1.2,
        statistics.median(later) / statistics.median(late),
        f"{statistics.median(later):.1f} and {statistics.median(late):.1f} CPU s",
    )


def _measured(place: Installation, table: Table, turns: int | None) -> list[float]:
    """CPU of gold for batches of late events, numbered from `turns`; of events on time for None."""
    found = []
    for turn in range(_ROUNDS + 1):
        if turns is None:
            changes, name = list(table.changes(_LATE)), f"timely{turn}"
        else:
            changes, name = table.late(_LATE, turn=turns + turn), f"late{turns + turn}"
        write(place.landing / "shop" / f"{name}.jsonl", changes, debezium)
        stages = place.run(events=len(changes))
        if turn:
            found.append(stages["gold"].cpu)
    return found


def _filled(bench: Bench, history: int, batch: int) -> tuple[Installation, Table]:
    place = Installation(
        bench.session, bench.folder / f"after{history}", sources={"shop": "debezium"}
    )
    table = Table(keys=batch, seed=bench.seed)
    for number in range(history):
        write(place.landing / "shop" / f"{number:03d}.jsonl", table.changes(batch), debezium)
        place.run(events=batch)
    return place, table
