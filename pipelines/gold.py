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
from ingest.routes import collisions
from pipelines.advance import Task, advance
from pipelines.failures import described, full_disk
from pipelines.lagging import (
    lagging,
    newest,
    reached,
    reaching,
    stand_at,
    told_apart,
    with_lagging,
)
from pipelines.leases import lease
from pipelines.ledger import Ledger
from pipelines.moves import also, under_first_names
from pipelines.progress import (
    SWEEP,
    Names,
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
from pipelines.transactions import cut


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
    lags = lagging(config, swept, stands, ledger)
    stuck = limit.below is not None and (swept.below, swept.seen) == (limit.below, limit.newest)
    parked_ones = any(s.status == "parked" for (of, _), s in stands.items() if of == source)
    if stuck and not lags and not parked_ones:
        return []
    with warehouse.shuffling():
        found = survey(warehouse, source, swept.batch, cut=limit)
        lags = {**lags, **told_apart(found, stands, ledger)}
        found = with_lagging(warehouse, found, lags, ledger, limit)
    seen = newest(swept, found, lags, ledger)
    ledger.log(found)
    found = under_first_names(found, ledger.moves)
    owned = {
        stand.target.lower(): of
        for (of, _), stand in stands.items()
        if of != source and of in config.sources and stand.batch
    }
    known = {ledger.moves.get(t, t) for t in (SourceTable(source, *n) for n in seen if seen[n])}
    tasks = _tasks(ledger, found, known, owned)
    for task in tasks.values():
        stand = stand_at(stands, task.route)
        fed: list[SourceTable] = []
        for table in task.slices:
            names = [table, *also(table, ledger.moves)]
            applied = max(swept.batch, *(reached(stand, name) for name in names))
            task.above[table] = lags.get(table, applied)
            fed += names
        task.reaching.update(reaching(stand, fed, seen))
    if targets is not None:
        tasks = {name: task for name, task in tasks.items() if name in targets}
    sweep = _sweep(swept, found, seen)
    if not tasks and not sweep:
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
        for one in begun:
            one.result()
    # First the ledger: what the sweep has passed is not looked for again.
    ledger.save()
    # The sweep is not moved where only some targets were brought forward.
    record(warehouse, [*rows, *(sweep if targets is None and not stop() else ())], stands)
    for entry in ledger.unfinished():
        finish(ledger, entry)
    return [Merged(*(getattr(row, name) for name in Merged._fields)) for row in rows]


def _tasks(
    ledger: Ledger, found: Survey, known: set[SourceTable], owned: Mapping[str, str]
) -> dict[str, Task]:
    """The targets with changes. `known`: the source tables that had changes so far. `owned`:
    targets, in lower case, that other sources feed."""
    closed = ledger.closed(found)
    changed = dict.fromkeys(slice_.table for slice_ in found.slices if slice_.changes)
    routed = {
        table: route
        for table in (*changed, *sorted(known - set(changed), key=str))
        if table.table and not ghost(table.table) and table not in closed
        if (route := ledger.route(table)) is not None
    }
    clashes = collisions(routed.items())
    tasks: dict[str, Task] = {}
    for table, route in ((table, routed[table]) for table in changed if table in routed):
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
        task = tasks.setdefault(route.target, Task(route, {}, error, {}, {}))
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
        return replace(row, tables=task.reaching, seconds=time.monotonic() - began)
    except IngestError as error:
        return parked(progress, str(error))
    except Exception as error:
        text = described(error) if full_disk(error) else f"{type(error).__name__}: {error}"
        return parked(progress, text[:2000])


def _sweep(swept: Progress, found: Survey, seen: dict[Names, int | None]) -> list[Progress]:
    """How far silver was looked through, where that is news."""
    reached = replace(
        swept.fresh(), batch=found.last, tables=seen, below=found.cut.below, seen=found.cut.newest
    )
    return [reached] if reached != swept.fresh() else []
