"""Rebuilding a table and holding it against its history, beside having merged its batches."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.gold.known_targets import known_targets
from pipelines.operations.rebuild import rebuild
from pipelines.operations.reconcile import Reconciled, reconcile
from tests.bench.figures import Bench, Figure
from tests.bench.generator import Change, Table, write
from tests.bench.installation import Installation
from tests.bench.processes import Cost, measured
from tests.bench.wire import debezium

_BATCH = 100_000
_BATCHES = 5
_KEYS = 100_000
_LATE = 1_000
_TARGET = "shop_orders"


def run(bench: Bench) -> Iterator[Figure]:
    """A table of whole images, then the same with some late ones and partial images."""
    batch = bench.sized(_BATCH)
    table = Table(keys=bench.sized(_KEYS), seed=bench.seed)
    place = Installation(bench.session, bench.folder, sources={"shop": "debezium"})
    merged, events = Cost(), 0
    for number in range(_BATCHES):
        changes = list(table.changes(batch))
        merged = merged.plus(_brought(place, number, changes))
        events += len(changes)
    yield _figure(place, "whole images", merged, events)
    late = table.late(bench.sized(_LATE, least=100), turn=1)
    merged = merged.plus(_brought(place, _BATCHES, late))
    yield _figure(place, f"{len(late):,} late or partial", merged, events + len(late))


def _brought(place: Installation, number: int, changes: list[Change]) -> Cost:
    """The cost of gold alone."""
    write(place.landing / "shop" / f"{number:03d}.jsonl", changes, debezium)
    return place.run(events=len(changes))["gold"]


def _figure(place: Installation, what: str, merged: Cost, events: int) -> Figure:
    target = known_targets(place.warehouse).fed[_TARGET]
    anew = measured(lambda: rebuild(place.warehouse, target))
    found: list[Reconciled] = []
    compared = measured(lambda: found.append(reconcile(place.warehouse, target)))
    if not found[0].equal:
        raise AssertionError(f"expected no difference from history, got {found[0].summary}")
    return Figure(
        f"rebuild of {events:,} events, {what}",
        1.0,
        anew.cpu / merged.cpu,
        f"{anew.cpu / events * 1e6:.0f} µs an event, merged in batches "
        f"{merged.cpu / events * 1e6:.0f}, reconciled {compared.cpu / events * 1e6:.0f}; clock "
        f"{anew.clock:.0f}, {merged.clock:.0f} and {compared.clock:.0f} s",
    )
