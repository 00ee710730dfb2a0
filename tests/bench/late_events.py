"""A batch of late events, after a short and after a long history."""

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


def run(bench: Bench) -> Iterator[Figure]:
    """CPU of all three stages of late batches, in turns."""
    batch = bench.sized(_BATCH, least=4_000)
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


def _filled(bench: Bench, history: int, batch: int) -> tuple[Installation, Table]:
    place = Installation(
        bench.session, bench.folder / f"after{history}", sources={"shop": "debezium"}
    )
    table = Table(keys=batch, seed=bench.seed)
    for number in range(history):
        write(place.landing / "shop" / f"{number:03d}.jsonl", table.changes(batch), debezium)
        place.run(events=batch)
    return place, table
