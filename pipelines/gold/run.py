"""Silver to gold: each target brought forward from its own progress, a failing one parked alone.

One grouped query says which source tables changed; each is routed to its target; targets are
merged by a bounded number of threads, one MERGE each; what they did is recorded in one append.
Applying a batch twice changes nothing, so a run that was killed is simply run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from pyspark import inheritable_thread_target

from ingest.config.load import Config
from ingest.config.routes import Feeders, collisions
from ingest.ddl.parse import ghost
from ingest.errors import IngestError, TableError
from ingest.names import SourceTable
from pipelines.gold.advance import TargetBatch, advance, is_gone
from pipelines.gold.approvals import finish
from pipelines.gold.backlog import (
    Backlog,
    applied_batch,
    applied_batches,
    applied_beyond,
    backlog_of,
    last_batches,
    newly_keyed,
    progress_of_route,
    with_backlog,
)
from pipelines.gold.known_targets import gold_tables
from pipelines.gold.redeclared import enter_redeclared, is_of_masks, other_masks
from pipelines.ledger.decisions import Ledger
from pipelines.ledger.entries import Entry
from pipelines.ledger.generations import anew
from pipelines.ledger.renames import is_rename, later_names, under_first_names
from pipelines.platform.failures import described
from pipelines.platform.leases import lease
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import PendingChanges, survey
from pipelines.silver.transactions import PublishLimit, publish_limit
from pipelines.targets.feeders import feeders, kept_apart
from pipelines.targets.progress import (
    Names,
    Progress,
    ProgressByTarget,
    create_progress,
    load_progress,
    parked,
    record_progress,
    source_cursor,
)
from pipelines.targets.rejects import create_rejects


class Merged(NamedTuple):
    """What one run did to one target; `late`: keys whose changes came after newer ones and were
    folded again, `stale`: changes that newer ones had overtaken; `error` says why it was parked."""

    target: str
    source: str
    events: int
    inserted: int
    updated: int
    deleted: int
    late: int
    stale: int
    rejected: int
    seconds: float
    error: str | None


def merge_tables(
    warehouse: Warehouse,
    config: Config,
    *,
    sources: Sequence[str],
    targets: Sequence[str] | None = None,
    resting: Collection[tuple[str, str]] = (),
    stop: Callable[[], bool] = lambda: False,
    failed: Callable[[str, Exception], None] | None = None,
    at_work: Callable[[str], None] = lambda _: None,
) -> list[Merged]:
    """Apply what silver has of `sources` to their targets (`targets` alone where given, in any
    case). Parked targets that are `resting`, (source, target), are not tried now: what comes for
    them waits in silver.

    `failed` is told of a source that cannot be brought forward, and the others go on; without it
    the error is raised. `at_work` is told which target is begun, and how many there are.
    """
    if not warehouse.exists("silver", "cdc"):
        return []
    asked = None if targets is None else {target.casefold() for target in targets}
    done: list[Merged] = []
    with lease(warehouse, "gold"):
        create_progress(warehouse)
        create_rejects(warehouse)
        progress_by_target = load_progress(warehouse)
        for source in sources:
            if stop():
                break
            try:
                merged = _merge_source(
                    warehouse,
                    config,
                    source,
                    targets=asked,
                    resting={target for of, target in resting if of == source},
                    progress_by_target=progress_by_target,
                    stop=stop,
                    at_work=at_work,
                )
                merged += _parked_anyway(
                    warehouse,
                    config,
                    source,
                    targets=asked,
                    progress_by_target=progress_by_target,
                    merged=merged,
                )
                done.extend(merged)
            except Exception as error:
                # What one source meets is its own: the next ones go on.
                if failed is None:
                    raise
                failed(source, error)
    return done


class Foreseen(NamedTuple):
    """What a run would do to the targets of one source. `apart`: source tables that would be parked
    by themselves, with why; `statements`: schema changes as the policy would have them; `waits`:
    the transaction whose rest gold waits for."""

    tasks: dict[str, TargetBatch]
    apart: dict[SourceTable, str]
    statements: list[Entry]
    waits: str | None


def foreseen(
    warehouse: Warehouse, config: Config, source: str, *, progress_by_target: ProgressByTarget
) -> Foreseen:
    """What `merge_tables` would do for a source; nothing is written."""
    cursor = source_cursor(progress_by_target, source)
    ledger = Ledger(warehouse, config, source, progress_by_target=progress_by_target)
    limit = publish_limit(warehouse, config, source, above=cursor.batch)
    backlog = backlog_of(config, cursor, progress_by_target, ledger=ledger)
    found, backlog = _surveyed(ledger, cursor, progress_by_target, limit=limit, backlog=backlog)
    seen = last_batches(cursor, found, backlog, ledger=ledger)
    ledger.log_statements(found)
    found = under_first_names(found, ledger.first_names)
    tasks, apart = _tasks(ledger, found, seen, feeding=feeders(config, progress_by_target))
    waits = str(limit.waits) if limit.waits is not None else None
    return Foreseen(tasks, apart, ledger.foreseen(), waits)


def _merge_source(
    warehouse: Warehouse,
    config: Config,
    source: str,
    *,
    targets: Collection[str] | None,
    resting: Collection[str],
    progress_by_target: ProgressByTarget,
    stop: Callable[[], bool],
    at_work: Callable[[str], None],
) -> list[Merged]:
    once_more = partial(_merge_source, warehouse, config, source, targets=targets, stop=stop)
    once_more = partial(once_more, resting=resting)
    once_more = partial(once_more, progress_by_target=progress_by_target, at_work=at_work)
    cursor = source_cursor(progress_by_target, source)
    ledger = Ledger(warehouse, config, source, progress_by_target=progress_by_target)
    enter_redeclared(ledger, cursor)
    # A run ended in the middle of a schema change.
    for entry in ledger.unfinished():
        finish(ledger, entry)
    limit = publish_limit(warehouse, config, source, above=cursor.batch)
    backlog = backlog_of(config, cursor, progress_by_target, ledger=ledger)
    stuck = limit.below is not None and (cursor.below, cursor.seen) == (limit.below, limit.newest)
    if stuck and not backlog and not _any_parked(progress_by_target, source):
        return []
    found, backlog = _surveyed(ledger, cursor, progress_by_target, limit=limit, backlog=backlog)
    seen = last_batches(cursor, found, backlog, ledger=ledger)
    ledger.log_statements(found)
    if ledger.renewed():
        # What was surveyed lacks the truncates that silver has now.
        return once_more()
    found = under_first_names(found, ledger.first_names)
    tasks, errors = _tasks(ledger, found, seen, feeding=feeders(config, progress_by_target))
    for task in tasks.values():
        _place(task, cursor, progress_by_target, backlog=backlog, seen=seen, ledger=ledger)
    aside, freed = kept_apart(source, errors, progress_by_target)
    tasks = _asked_for(tasks, targets, resting=resting)
    if targets is not None:
        # Nobody asked for the others.
        aside, freed = [], []
    advanced = _advanced_cursor(cursor, found, seen)
    if not (tasks or aside or freed or advanced):
        return []
    rows = _applied(
        warehouse, config, tasks, found=found, ledger=ledger, stop=stop, at_work=at_work
    )
    # First the ledger: what the source cursor has passed is not looked for again.
    ledger.save()
    # The source cursor stays where only some targets were brought forward.
    cursors = advanced if targets is None and not stop() else []
    _record_news(warehouse, (*rows, *aside, *freed, *cursors), progress_by_target)
    finished = [finish(ledger, entry) for entry in ledger.unfinished()]
    # A target that was brought forward alone before has nothing left, which is no news.
    news = [row for row in rows if row.events or row.rejected or row.error is not None]
    merged = [Merged(*(getattr(row, name) for name in Merged._fields)) for row in (*news, *aside)]
    opened = [entry for entry in finished if anew(entry) or is_rename(entry)]
    if any(entry.status == "applied" for entry in opened):
        # What waited for new generations and new names of tables comes on.
        merged += once_more()
    return merged


def _asked_for(
    tasks: dict[str, TargetBatch], targets: Collection[str] | None, *, resting: Collection[str]
) -> dict[str, TargetBatch]:
    """The tasks that are for now: of the targets asked for, and not of those that rest."""
    return {
        name: task
        for name, task in tasks.items()
        if name not in resting and (targets is None or name.casefold() in targets)
    }


def _surveyed(
    ledger: Ledger,
    cursor: Progress,
    progress_by_target: ProgressByTarget,
    *,
    limit: PublishLimit,
    backlog: Backlog,
) -> tuple[PendingChanges, Backlog]:
    """What silver has beyond the source cursor, and for targets that lag behind it or are ahead of
    it."""
    warehouse = ledger.warehouse
    with warehouse.shuffling():
        apart = applied_beyond(cursor, progress_by_target, ledger)
        found = survey(warehouse, ledger.source, cursor.batch, limit=limit, apart=apart)
        backlog = {**backlog, **newly_keyed(found, progress_by_target, ledger)}
        return with_backlog(warehouse, found, backlog, ledger=ledger, cursor=cursor.batch), backlog


def _any_parked(progress_by_target: ProgressByTarget, source: str) -> bool:
    return any(
        progress.status == "parked"
        for (of, _), progress in progress_by_target.items()
        if of == source
    )


def _record_news(
    warehouse: Warehouse, rows: Sequence[Progress], progress_by_target: ProgressByTarget
) -> None:
    news = [row for row in rows if _news(row, progress_by_target)]
    record_progress(warehouse, news, progress_by_target)


def _news(row: Progress, progress_by_target: ProgressByTarget) -> bool:
    """Whether a row says more than the one there is: who stays parked for the same reason is not
    recorded again and again."""
    before = progress_by_target.get((row.source, row.target))
    return row.status != "parked" or before is None or row != before


def _place(
    task: TargetBatch,
    cursor: Progress,
    progress_by_target: ProgressByTarget,
    *,
    backlog: Backlog,
    seen: Mapping[Names, int | None],
    ledger: Ledger,
) -> None:
    """Note how far each source table of a task is applied, and how far it then is."""
    progress = progress_of_route(progress_by_target, task.route)
    fed: list[SourceTable] = []
    for table in task.stats:
        names = [table, *later_names(table, ledger.first_names)]
        applied = max(cursor.batch, *(applied_batch(progress, name) for name in names))
        task.above[table] = backlog.get(table, applied)
        fed += names
    task.applied_batches.update(applied_batches(progress, fed, seen))


def _applied(
    warehouse: Warehouse,
    config: Config,
    tasks: Mapping[str, TargetBatch],
    *,
    found: PendingChanges,
    ledger: Ledger,
    stop: Callable[[], bool],
    at_work: Callable[[str], None],
) -> list[Progress]:
    """The targets brought forward, a bounded number at a time; what became of each."""
    rows: list[Progress] = []

    def run(name: str) -> None:
        if not stop():
            at_work(f"{len(rows) + 1}/{len(tasks)} {name}")
            source = ledger.source
            progress = ledger.progress_by_target.get(
                (source, name), Progress(target=name, source=source)
            )
            rows.append(
                _apply(
                    warehouse, config, tasks[name], progress=progress, found=found, ledger=ledger
                )
            )

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
    return rows


def _parked_anyway(
    warehouse: Warehouse,
    config: Config,
    source: str,
    *,
    targets: Collection[str] | None,
    progress_by_target: ProgressByTarget,
    merged: Sequence[Merged],
) -> list[Merged]:
    """The targets that a run with changes for them would park, since their table is gone or masked
    otherwise, parked: that there is nothing new for them is no reason to say nothing."""
    ledger = Ledger(warehouse, config, source, progress_by_target=progress_by_target)
    seen = source_cursor(progress_by_target, source).tables
    firsts = {ledger.first_names.get(t, t) for t in (SourceTable(source, *names) for names in seen)}
    closed = ledger.closed(PendingChanges(0, [], {}, {}))
    routed = {
        route.target: route
        for table in firsts - closed
        if not ghost(table.table) and (route := ledger.route(table)) is not None
    }
    there = {name.casefold() for name in gold_tables(warehouse)}
    named = {row.target for row in merged}
    rows = []
    for (of, target), progress in list(progress_by_target.items()):
        asked = targets is None or target.casefold() in targets
        if of != source or target not in routed or target in named or not asked:
            continue
        masks = other_masks(routed[target], progress.contract)
        if progress.watermarks and target.casefold() not in there:
            rows.append(parked(progress, is_gone(target)))
        elif masks is not None and progress.outdated is None:
            rows.append(parked(progress, masks))
        elif is_of_masks(progress.error):
            rows.append(replace(progress.fresh(), status="ok", error=None))
    _record_news(warehouse, rows, progress_by_target)
    told = (row for row in rows if row.status == "parked")
    return [Merged(*(getattr(row, name) for name in Merged._fields)) for row in told]


def _tasks(
    ledger: Ledger, found: PendingChanges, seen: Mapping[Names, int | None], *, feeding: Feeders
) -> tuple[dict[str, TargetBatch], dict[SourceTable, str]]:
    """The targets with changes, and the source tables that are parked by themselves, with why.

    `seen`: the source tables that had changes so far.
    """
    had = (SourceTable(ledger.source, *names) for names in seen if seen[names])
    known = {ledger.first_names.get(table, table) for table in had}
    closed = ledger.closed(found)
    changed = dict.fromkeys(each.table for each in found.stats if each.changes)
    routed = {
        table: route
        for table in (*changed, *sorted(known - set(changed), key=str))
        if table.table and not ghost(table.table) and table not in closed
        if (route := ledger.route(table)) is not None
    }
    clashes = collisions(routed.items(), feeding)
    apart = {
        table: clash.why(table)
        for clash in clashes.values()
        if clash.feeding
        for table in clash.parked
    }
    again = ledger.taken_again()
    tasks: dict[str, TargetBatch] = {}
    for table, route in ((table, routed[table]) for table in changed if table in routed):
        if table in apart:
            continue
        clash = clashes.get(route.target.lower())
        error = clash.why(table) if clash is not None and not clash.feeding else None
        if table in again:
            error = again[table].why(route.target)
        task = tasks.setdefault(route.target, TargetBatch(route, {}, error, {}, {}))
        task.stats[table] = [s for s in found.stats if s.table == table and s.changes]
    return tasks, apart


def _apply(
    warehouse: Warehouse,
    config: Config,
    task: TargetBatch,
    *,
    progress: Progress,
    found: PendingChanges,
    ledger: Ledger,
) -> Progress:
    """Bring one target forward; never raises for what one table does."""
    began = time.monotonic()
    try:
        if task.error is not None:
            raise TableError(task.error)
        row = advance(warehouse, config, task, progress=progress, found=found, ledger=ledger)
        return replace(row, tables=task.applied_batches, seconds=time.monotonic() - began)
    except IngestError as error:
        return parked(progress, str(error))
    except Exception as error:
        return parked(progress, described(error)[:2000])


def _advanced_cursor(
    cursor: Progress, found: PendingChanges, seen: dict[Names, int | None]
) -> list[Progress]:
    """How far silver was looked through, where that is news."""
    advanced = replace(
        cursor.fresh(),
        batch=found.last,
        tables=seen,
        below=found.limit.below,
        seen=found.limit.newest,
    )
    return [advanced] if advanced != cursor.fresh() else []
