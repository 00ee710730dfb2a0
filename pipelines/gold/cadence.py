"""Targets that wait between merges (`merge_every` of a tables file), and when the turn of each
comes.

Every MERGE costs Spark's driver and Delta's log the same, however few rows it changes. So a target
may be left alone for a time, or until a number of changes wait. The changes stay in silver and are
counted, by the target's progress, like any that it has not applied. A target that was never merged
or is parked does not wait; nor does any target when a person asks for its rows.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

from ingest.config.cadence import Cadence
from ingest.config.routes import Route
from ingest.names import SourceTable
from pipelines.gold.backlog import Backlog, backlog_of
from pipelines.gold.known_targets import fed_targets
from pipelines.ledger.entries import load_entries
from pipelines.ledger.renames import renames
from pipelines.ledger.store import Ledger
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import Progress, load_progress, source_cursor


def now() -> int:
    """Microseconds since 1970 UTC, by this machine's clock."""
    return time.time_ns() // 1000


def rests(route: Route, progress: Progress, *, events: int | None, at: int) -> bool:
    """Whether a target is left alone at a time (µs), while this many changes wait for it.

    `events` None: they were not counted, so the target rests only if their number is no reason to
    merge it.
    """
    cadence = route.merge_every
    if cadence is None or progress.status == "parked" or progress.merged_at is None:
        return False
    if cadence.events is not None and (events is None or events >= cadence.events):
        return False
    due = cadence.due_at(progress.merged_at)
    # If the clock was set back, the target does not wait for it.
    return due is None or progress.merged_at <= at < due


def awake(ledger: Ledger, backlog: Backlog, *, at: int) -> Backlog:
    """The source tables that lag, without those whose target rests however much waits: what waits
    for these need not be looked up."""
    return {
        table: above
        for table, above in backlog.items()
        if (route := ledger.route(table)) is None
        or not rests(route, ledger.progress_of(route), events=None, at=at)
    }


def next_due(warehouse: Warehouse, sources: Collection[str]) -> int | None:
    """When (µs) the turn comes of the first target of these sources for which changes wait; None if
    time alone brings none forward."""
    return min((due for source in sources for due in _dues(warehouse, source)), default=None)


def _dues(warehouse: Warehouse, source: str) -> Iterator[int]:
    if not _any_cadence(warehouse, source):
        return
    progress_by_target = load_progress(warehouse)
    ledger = Ledger(warehouse, source, progress_by_target=progress_by_target)
    for table in backlog_of(ledger, source_cursor(progress_by_target, source)):
        route = ledger.route(table)
        if route is not None and route.merge_every is not None:
            due = route.merge_every.due_at(ledger.progress_of(route).merged_at)
            if due is not None:
                yield due


class Turn(NamedTuple):
    """How often a target is merged, and when (µs) time alone is the next reason to; None: it is
    none."""

    cadence: Cadence
    due: int | None


def turns(warehouse: Warehouse) -> dict[str, Turn]:
    """The turns of the targets that wait between merges."""
    found: dict[str, Turn] = {}
    sources = [name for name in warehouse.config.sources if _any_cadence(warehouse, name)]
    if not sources:
        return found
    progress_by_target = load_progress(warehouse)
    first_names = renames(load_entries(warehouse).values())
    for source in sources:
        came = source_cursor(progress_by_target, source).tables
        tables = [SourceTable(source, *names) for names in came if names[2]]
        for name, target in fed_targets(warehouse.config, tables, first_names).items():
            progress = progress_by_target.get((source, name))
            cadence = target.route.merge_every
            if cadence is not None:
                merged_at = progress.merged_at if progress is not None else None
                found[name] = Turn(cadence, cadence.due_at(merged_at))
    return found


def _any_cadence(warehouse: Warehouse, source: str) -> bool:
    """Whether the source has a target that waits between merges."""
    tables = warehouse.config.tables[source]
    return any(each.merge_every is not None for each in (tables.defaults, *tables.tables))
