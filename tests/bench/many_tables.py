"""One batch over two hundred tables, against as many bare MERGEs of rows already folded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from heapq import merge as in_order
from pathlib import Path

from tests.bench import baseline
from tests.bench.figures import Bench, Figure, ratio
from tests.bench.generator import Change, Table, write
from tests.bench.installation import Installation
from tests.bench.processes import Cost, measured
from tests.bench.wire import debezium

_TABLES = 200
_EVENTS = 400_000
_FEW = 5
_FEW_EVENTS = 2_000
_ROUNDS = 3


def run(bench: Bench) -> Iterator[Figure]:
    """The large batch by the clock, then small batches on a few of the tables by CPU."""
    count = bench.sized(_TABLES, least=10)
    each = bench.sized(_EVENTS) // count
    tables = [
        Table(keys=max(10, each // 5), seed=bench.seed + i, name=f"t{i:03d}") for i in range(count)
    ]
    names = [table.name for table in tables]
    place = Installation(
        bench.session, bench.folder / "product", sources={"shop": "debezium"}, tables=names
    )
    targets = [bench.folder / "bare" / name for name in names]
    for target in targets:
        baseline.create(bench.session, target)
    threads = place.config.settings.merge_threads
    # The first batch creates the tables and fills them; the second is measured.
    mine = bare = Cost()
    for number in (1, 2):
        file = write(place.landing / "shop" / f"{number}.jsonl", _mixed(tables, each), debezium)
        rows = bench.folder / f"folded{number}"
        folded = baseline.folded(bench.session, file)
        folded.repartition(2, "name").write.partitionBy("name").parquet(str(rows))
        place.bronze()
        place.silver()
        mine = place.gold(events=each * count)
        bare = measured(partial(baseline.merge_all, bench.session, rows, targets, threads=threads))
    yield Figure(
        f"gold of {count} tables, {each * count:,} events, one batch",
        1.3,
        mine.clock / bare.clock,
        f"{mine.clock:.0f} s ({mine.cpu:.0f} CPU s), bare MERGEs {bare.clock:.0f} s "
        f"({bare.cpu:.0f}), {threads} threads",
    )
    yield _few(bench, place, tables)


def _mixed(tables: Sequence[Table], each: int) -> Iterator[Change]:
    """Changes of all tables, as a log would hold them."""
    return in_order(*(table.changes(each) for table in tables), key=lambda change: change.pos)


def _few(bench: Bench, place: Installation, tables: Sequence[Table]) -> Figure:
    few = tables[:_FEW]
    copy = bench.folder / "declared"
    shutil.copytree(place.folder / "warehouse", copy / "warehouse")
    names = [table.name for table in tables]
    other = Installation(
        bench.session,
        copy,
        sources={"shop": "debezium"},
        tables=names,
        merge=[table.name for table in few],
    )
    all_, declared = [], []
    for turn in range(_ROUNDS + 1):
        changes = list(_mixed(few, _FEW_EVENTS // _FEW))
        costs: dict[str, Cost] = {}
        for installation in (place, other) if turn % 2 else (other, place):
            write(_next(installation, turn), changes, debezium)
            installation.bronze()
            installation.silver()
            costs[installation.folder.name] = installation.gold(events=len(changes))
        if turn:
            all_.append(costs["product"])
            declared.append(costs["declared"])
    return Figure(
        f"gold of a batch for {_FEW} of {len(tables)} tables",
        1.3,
        ratio([cost.cpu for cost in all_], [cost.cpu for cost in declared]),
        f"{_listed(all_)} CPU s, with only {_FEW} declared {_listed(declared)}",
    )


def _next(installation: Installation, turn: int) -> Path:
    return installation.landing / "shop" / f"few{turn}.jsonl"


def _listed(costs: Sequence[Cost]) -> str:
    return " ".join(f"{cost.cpu:.1f}" for cost in costs)
