"""Silver to gold: each target brought forward from its own progress, a failing one parked alone.

One grouped query says which source tables changed; each is routed to its target; targets are
merged by a bounded number of threads, one MERGE each; what they did is recorded in one append.
Applying a batch twice changes nothing, so a run that was killed is simply run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from pyspark import inheritable_thread_target

from ingest.config import Config
from ingest.ddl import ghost
from ingest.errors import IngestError, TableError
from ingest.names import SourceTable
from ingest.routes import Route, collisions
from pipelines.advance import Task, advance
from pipelines.failures import described, full_disk
from pipelines.leases import lease
from pipelines.ledger import Ledger
from pipelines.moves import under_first_names
from pipelines.progress import (
    SWEEP,
    Progress,
    Stands,
    create_progress,
    load,
    parked,
    record,
)
from pipelines.rejects import create_rejects
from pipelines.review import finish
from pipelines.survey import Survey, survey
from pipelines.tables import Warehouse
from pipelines.transactions import Cut, cut


class Merged(NamedTuple):
    """What one run did to one target; `error` says why it was parked."""

    target: str
    source: str
    events: int
    inserted: int
    updated: int
    deleted: int
    late: int
    rejected: int
    seconds: float
    error: str | None


def merge_tables(
    warehouse: Warehouse,
    config: Config,
    *,
    sources: Sequence[str],
    targets: Sequence[str] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Merged]:
    """Apply what silver has of `sources` to their targets (`targets` alone where given)."""
    if not warehouse.exists("silver", "cdc"):
        return []
    create_progress(warehouse)
    create_rejects(warehouse)
    done: list[Merged] = []
    with lease(warehouse.checkpoint(), "gold"):
        stands = load(warehouse)
        for source in sources:
            if not stop():
                done.extend(_merge_source(warehouse, config, source, targets, stands, stop))
    return done


def _merge_source(
    warehouse: Warehouse,
    config: Config,
    source: str,
    targets: Sequence[str] | None,
    stands: Stands,
    stop: Callable[[], bool],
) -> list[Merged]:
    swept = stands.get((source, SWEEP), Progress(target=SWEEP, source=source))
    ledger = Ledger(warehouse, config, source, stands)
    for entry in ledger.unfinished():
        # A run ended in the middle of a schema change.
        finish(ledger, entry)
    limit = cut(warehouse, config, source, swept.batch)
    stuck = limit.below is not None and (swept.below, swept.seen) == (limit.below, limit.newest)
    if stuck and not any(s.status == "parked" for (of, _), s in stands.items() if of == source):
        return []
    with warehouse.shuffling():
        found = _surveyed(warehouse, config, source, swept, stands, limit)
    ledger.log(found)
    found = under_first_names(found, ledger.moves)
    owned = {
        stand.target.lower(): of
        for (of, _), stand in stands.items()
        if of != source and of in config.sources and stand.batch
    }
    tasks = _tasks(config, source, found, ledger.closed(found), owned)
    if targets is not None:
        tasks = {name: task for name, task in tasks.items() if name in targets}
    if not tasks and found.last == swept.batch and limit.below == swept.below:
        return []
    rows: list[Progress] = []

    def run(name: str) -> None:
        if not stop():
            progress = stands.get((source, name), Progress(target=name, source=source))
            rows.append(_apply(warehouse, config, tasks[name], progress, found, ledger))

    largest = max((task.rows for task in tasks.values()), default=0)
    threads = ThreadPoolExecutor(max_workers=config.settings.merge_threads)
    with warehouse.shuffling(largest), threads as pool:
        # A copy of the session's properties for each: threads that share one write their query's
        # number over each other's, and Spark keeps the plans of queries it has lost for ever.
        begun = [
            pool.submit(inheritable_thread_target(warehouse.session)(run), name) for name in tasks
        ]
        for task in begun:
            task.result()
    # First the ledger: what the sweep has passed is not looked for again.
    ledger.save()
    record(warehouse, [*rows, *_sweep(swept, found, targets, stop)], stands)
    for entry in ledger.unfinished():
        finish(ledger, entry)
    return [Merged(*(getattr(row, name) for name in Merged._fields)) for row in rows]


def _surveyed(
    warehouse: Warehouse,
    config: Config,
    source: str,
    swept: Progress,
    stands: Stands,
    limit: Cut,
) -> Survey:
    """The slices that each target has not applied: above the sweep, or above its own progress where
    it lags behind (parked before, or newly routed)."""
    found = survey(warehouse, source, swept.batch, cut=limit)
    lagging: dict[int, list[SourceTable]] = {}
    for names in swept.tables:
        table = SourceTable(source, *names)
        if not table.table:
            continue
        route = config.route(source, db=table.db, schema=table.schema, table=table.table)
        if route is None:
            continue
        stand = stands.get((source, route.target), Progress(target=route.target, source=source))
        if stand.batch < swept.batch and (stand.status == "parked" or not stand.batch):
            lagging.setdefault(stand.batch, []).append(table)
    for above, tables in lagging.items():
        older = survey(warehouse, source, above, tables, cut=limit)
        fresh = {(slice_.table, slice_.batch) for slice_ in found.slices}
        found.slices.extend(
            slice_ for slice_ in older.slices if (slice_.table, slice_.batch) not in fresh
        )
        for table, types in older.types.items():
            found.types[table] = types
    return found


def _tasks(
    config: Config,
    source: str,
    found: Survey,
    closed: set[SourceTable],
    owned: Mapping[str, str],
) -> dict[str, Task]:
    """The targets with changes. `owned`: targets, in lower case, that other sources feed."""
    routed: dict[SourceTable, Route] = {}
    for slice_ in found.slices:
        table = slice_.table
        if table in routed or not table.table or not slice_.changes or ghost(table.table):
            continue
        if table in closed:
            continue
        route = config.route(source, db=table.db, schema=table.schema, table=table.table)
        if route is not None:
            routed[table] = route
    clashes = collisions(routed.items())
    tasks: dict[str, Task] = {}
    for table, route in routed.items():
        clash = clashes.get(route.target.lower())
        error = None
        if clash is not None:
            error = f"source tables {', '.join(map(str, clash))} all lead to {route.target}"
        elif route.target.lower() in owned:
            # No order holds across sources.
            error = (
                f"expected {route.target} to be fed by one source, which is "
                f"{owned[route.target.lower()]}, got {table}; set `target` for it"
            )
        task = tasks.setdefault(route.target, Task(route, {}, error))
        task.slices[table] = [s for s in found.slices if s.table == table and s.changes]
    return tasks


def _apply(
    warehouse: Warehouse,
    config: Config,
    task: Task,
    progress: Progress,
    found: Survey,
    ledger: Ledger,
) -> Progress:
    """Bring one target forward; never raises for what one table does."""
    began = time.monotonic()
    try:
        if task.error is not None:
            raise TableError(task.error)
        row = advance(warehouse, config, task, progress, found, ledger)
        return replace(row, seconds=time.monotonic() - began)
    except IngestError as error:
        return parked(progress, str(error))
    except Exception as error:
        text = described(error) if full_disk(error) else f"{type(error).__name__}: {error}"
        return parked(progress, text[:2000])


def _sweep(
    swept: Progress,
    found: Survey,
    targets: Sequence[str] | None,
    stop: Callable[[], bool],
) -> list[Progress]:
    """How far silver was looked through; not moved where only some targets were brought forward."""
    same = (found.last, found.cut.below, found.cut.newest) == (swept.batch, swept.below, swept.seen)
    if targets is not None or stop() or same:
        return []
    seen = {(s.table.db, s.table.schema, s.table.table) for s in found.slices}
    tables = sorted({*swept.tables, *seen}, key=str)
    reached = replace(swept.fresh(), batch=found.last, tables=tuple(tables))
    return [replace(reached, below=found.cut.below, seen=found.cut.newest)]
