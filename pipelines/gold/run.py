"""Silver to gold: each target is brought forward from its own progress, and a failing one is parked
alone.

One grouped query says which source tables changed, and each is routed to its target. A bounded
number of threads merges the targets, one MERGE each, and one append records what they did. Applying
a batch twice changes nothing, so a run that was killed is simply run again.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from pyspark import inheritable_thread_target

from ingest.config.modes import TargetContract
from ingest.config.routes import Route, collisions
from ingest.ddl.parse import ghost
from ingest.errors import IngestError, TableError
from ingest.names import SourceTable, lowered
from pipelines.gold import cadence
from pipelines.gold.advance import TargetBatch, advance, gone_sentence
from pipelines.gold.approvals import finish
from pipelines.gold.backlog import (
    Backlog,
    applied_batches,
    applied_beyond,
    backlog_of,
    last_batches,
    newly_keyed,
    with_backlog,
)
from pipelines.gold.known_targets import gold_tables
from pipelines.gold.refold import backfill
from pipelines.gold.staged_changes import staged_changes
from pipelines.ledger import decisions
from pipelines.ledger.coming_statements import ComingStatements, coming_statements
from pipelines.ledger.entries import Entry
from pipelines.ledger.redeclared import enter_redeclared
from pipelines.ledger.renames import is_rename, under_first_names
from pipelines.ledger.store import Ledger
from pipelines.platform.failures import described
from pipelines.platform.leases import lease
from pipelines.platform.session import NO_CONSTRAINTS, NO_DICTIONARIES, having
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import BatchStats, PendingChanges, pending_changes
from pipelines.silver.transactions import PublishLimit, publish_limit
from pipelines.targets.contract import OtherMasks, made_otherwise, other_masks
from pipelines.targets.feeders import feeders, kept_apart
from pipelines.targets.progress import (
    Names,
    ParkedFor,
    Progress,
    ProgressByTarget,
    SourceCursor,
    create_progress,
    load_progress,
    record_progress,
    source_cursor,
)
from pipelines.targets.rejects import create_rejects


class Merged(NamedTuple):
    """What one run did to one target.

    `late`: how many keys were folded again because changes came after newer ones. `stale`: how many
    changes newer ones had overtaken. `updated`: rows or versions, depending on the `contract`,
    which is None if the target was never created. `error`: why the target is parked.
    """

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
    contract: TargetContract | None

    @classmethod
    def of(cls, row: Progress) -> Merged:
        """What a row of `gold._progress` says of its run."""
        return cls(*(getattr(row, name) for name in cls._fields))


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a run asks of gold. `targets`: those to bring forward, in lower case; None: all.
    `resting`: parked targets, (source, target), that are not tried now. `at`: the time (µs) that
    decides whose turn it is by `merge_every`; None: it is everybody's. `at_work` is told which
    target is begun, and how many there are."""

    targets: Collection[str] | None
    resting: Collection[tuple[str, str]]
    at: int | None
    stop: Callable[[], bool]
    at_work: Callable[[str], None]

    def asks_for(self, target: str) -> bool:
        """Whether a target is among those to bring forward."""
        return self.targets is None or target.lower() in self.targets

    def leaves(self, batch: TargetBatch, progress: Progress) -> bool:
        """Whether a target with changes is left alone for now."""
        if (batch.route.source, batch.route.target) in self.resting:
            return True
        return self.at is not None and cadence.rests(
            batch.route, progress, events=batch.rows, at=self.at
        )


def merge_tables(
    warehouse: Warehouse,
    *,
    sources: Sequence[str],
    targets: Sequence[str] | None = None,
    resting: Collection[tuple[str, str]] = (),
    by_turn: bool = False,
    stop: Callable[[], bool] = lambda: False,
    failed: Callable[[str, Exception], None] | None = None,
    at_work: Callable[[str], None] = lambda _: None,
) -> list[Merged]:
    """Apply what silver has of `sources` to their targets; with `targets`, only to these, in any
    case. See `Request`. Changes for targets that rest wait in silver; with `by_turn` so do those
    for targets whose turn by `merge_every` has not come.

    `failed` is told of a source that cannot be brought forward, and the others go on; without it
    the error is raised.
    """
    if not warehouse.exists("silver", "cdc"):
        return []
    request = Request(
        targets=None if targets is None else lowered(targets),
        resting=resting,
        at=cadence.now() if by_turn else None,
        stop=stop,
        at_work=at_work,
    )
    done: list[Merged] = []
    with lease(warehouse, "gold"):
        create_progress(warehouse)
        create_rejects(warehouse)
        progress = load_progress(warehouse)
        for source in sources:
            if stop():
                break
            ledger = partial(Ledger, warehouse, source, progress_by_target=progress)
            try:
                merged = _merge_source(ledger, request)
                done += [*merged, *_parked_anyway(ledger(), request, merged)]
            except Exception as error:
                # The failure of one source does not stop the next ones.
                if failed is None:
                    raise
                failed(source, error)
    return done


class Foreseen(NamedTuple):
    """What a run would do to the targets of one source. `apart`: source tables that would be parked
    by themselves, and why. `statements`: schema changes as the policy would decide them. `waits`:
    the transaction whose rest gold waits for."""

    batches: dict[str, TargetBatch]
    apart: dict[SourceTable, str]
    statements: list[Entry]
    waits: str | None


def foreseen(
    warehouse: Warehouse, source: str, *, progress_by_target: ProgressByTarget
) -> Foreseen:
    """What `merge_tables` would do for a source; nothing is written."""
    cursor = source_cursor(progress_by_target, source)
    ledger = Ledger(warehouse, source, progress_by_target=progress_by_target)
    limit = publish_limit(warehouse, source, above=cursor.whole)
    coming = _coming(ledger, cursor, limit=limit, backlog=backlog_of(ledger, cursor))
    batches, apart = _target_batches(ledger, cursor, _under_first_names(ledger, coming))
    waits = str(limit.waits) if limit.waits is not None else None
    return Foreseen(batches, apart, decisions.foreseen(ledger, coming.statements), waits)


def _merge_source(ledger: Callable[[], Ledger], request: Request) -> list[Merged]:
    """Bring the targets of one source forward until nothing is left; gives what was done.

    A pass that ends with new generations or new names of tables lets in what waited for them; the
    next pass takes that up, with a ledger of its own.
    """
    merged: list[Merged] = []
    unfinished = True
    while unfinished:
        done, unfinished = _pass(ledger(), request)
        merged += done
    return merged


def _pass(ledger: Ledger, request: Request) -> tuple[list[Merged], bool]:
    """Bring the targets of one source forward once; gives what was done, and whether more is
    waiting."""
    cursor = source_cursor(ledger.progress_by_target, ledger.source)
    enter_redeclared(ledger, cursor)
    # A run may have ended in the middle of a schema change, or a rebuild before it had reviewed
    # what waits.
    decisions.review_retyped(ledger)
    _fold_late(ledger, request.resting)
    _finish(ledger)
    limit = publish_limit(ledger.warehouse, ledger.source, above=cursor.whole)
    backlog = backlog_of(ledger, cursor)
    if request.at is not None:
        backlog = cadence.awake(ledger, backlog, at=request.at)
    if _nothing_new(ledger, cursor, limit) and not backlog:
        return [], False
    coming = _coming(ledger, cursor, limit=limit, backlog=backlog)
    if decisions.recreate_missing(ledger, coming.statements):
        # The counts lack the truncates that silver has now.
        return [], True
    coming = _under_first_names(ledger, coming)
    batches, errors = _target_batches(ledger, cursor, coming)
    batches = _asked_for(ledger, batches, request)
    apart, freed = kept_apart(ledger.source, errors, ledger.progress_by_target)
    if request.targets is not None:
        # Nobody asked for the others.
        apart, freed = [], []
    advanced = _advanced_cursor(cursor, coming)
    if not (batches or apart or freed or advanced):
        return [], False
    rows = _applied(ledger, batches, coming.pending, above=cursor.batch, request=request)
    # The ledger is written first, since statements below the source cursor are not looked for
    # again.
    decisions.settle_rest(ledger, coming.statements)
    # The source cursor stays where only some targets were brought forward.
    cursors = advanced if request.targets is None and not request.stop() else []
    _record_news(ledger, (*rows, *apart, *freed, *cursors))
    # A target that was brought forward alone before may have nothing left to do, which is no news.
    news = [row for row in rows if row.events or row.rejected or row.error is not None]
    _fold_late(ledger, request.resting)
    return [Merged.of(row) for row in (*news, *apart)], _lets_in_more(_finish(ledger))


def _fold_late(ledger: Ledger, resting: Collection[tuple[str, str]]) -> None:
    """Fold rows again whose events are read otherwise, because a schema change that waits came
    after them. A target where that fails is parked, and tried again when it does not rest."""
    late = [entry for entry in ledger.entries.values() if entry.refold]
    routes = {
        route.target: route
        for entry in late
        if (route := ledger.route(entry.table)) is not None and route.target == entry.target
    }
    folded = {name for name, route in routes.items() if _folded(ledger, route, resting)}
    ledger.save_entries([replace(e, refold=False) for e in late if e.target in folded])


def _folded(ledger: Ledger, route: Route, resting: Collection[tuple[str, str]]) -> bool:
    """Fold the rows of a target again; whether nothing is left to fold.

    What the tables file wants otherwise by now, or silver has otherwise, is to be rebuilt first. It
    may also be taken back there, and the rows stay those that are to be folded.
    """
    progress = ledger.progress_of(route)
    otherwise = progress.outdated is not None or made_otherwise(route, progress.contract)
    if otherwise or (route.source, route.target) in resting:
        return False
    try:
        backfill(ledger, route)
    except Exception as error:
        parked = ledger.progress_of(route).parked(described(error)[:2000], why="refold")
        _record_news(ledger, [parked])
        return False
    if (progress := ledger.progress_of(route)).parked_for == "refold":
        _record_news(ledger, [progress.unparked()])
    return True


def _finish(ledger: Ledger) -> list[Entry]:
    """See approved schema changes through; gives what came of each."""
    return [finish(ledger, entry) for entry in ledger.unfinished()]


def _lets_in_more(finished: Iterable[Entry]) -> bool:
    """Whether one of these schema changes lets in changes that waited for it."""
    return any(e.status == "applied" and (e.recreates or is_rename(e)) for e in finished)


def _nothing_new(ledger: Ledger, cursor: SourceCursor, limit: PublishLimit) -> bool:
    """Whether gold still waits for the same open transaction, nothing came since, and no parked
    target is to be tried again."""
    return (
        limit.below is not None
        and (cursor.below, cursor.partly_applied) == (limit.below, limit.newest)
        and not any(
            progress.status == "parked"
            for (of, _), progress in ledger.progress_by_target.items()
            if of == ledger.source
        )
    )


class _Coming(NamedTuple):
    """What a pass is to apply. `statements`: the DDL and truncates in it; `backlog`: what lies
    below the source cursor; `last`: for each name of a source table the last batch with changes."""

    pending: PendingChanges
    statements: ComingStatements
    backlog: Backlog
    last: dict[Names, int]


def _coming(
    ledger: Ledger, cursor: SourceCursor, *, limit: PublishLimit, backlog: Backlog
) -> _Coming:
    """What silver has beyond the source cursor, and beyond what targets have applied that are
    behind the cursor or ahead of it."""
    warehouse = ledger.warehouse
    with warehouse.shuffling():
        apart = applied_beyond(ledger, cursor)
        pending = pending_changes(
            warehouse, ledger.source, cursor.batch, limit=limit, apart=apart, alone=True
        )
        backlog = {**backlog, **newly_keyed(ledger, pending)}
        pending = with_backlog(ledger, pending, backlog, cursor=cursor)
    statements = coming_statements(ledger, pending)
    return _Coming(pending, statements, backlog, last_batches(cursor, pending))


def _under_first_names(ledger: Ledger, coming: _Coming) -> _Coming:
    """The same, once the ledger knows the renamings among it."""
    return coming._replace(pending=under_first_names(coming.pending, ledger.first_names))


def _target_batches(
    ledger: Ledger, cursor: SourceCursor, coming: _Coming
) -> tuple[dict[str, TargetBatch], dict[SourceTable, str]]:
    """The targets with changes, and the source tables that are parked by themselves, with the
    reason."""
    pending = coming.pending
    changed = dict.fromkeys(each.table for each in pending.stats if each.changes)
    routed = _routed(ledger, coming, changed)
    clashes = collisions(
        routed.items(), feeders(ledger.warehouse.config, ledger.progress_by_target)
    )
    apart = {
        table: clash.why(table)
        for clash in clashes.values()
        if clash.feeding
        for table in clash.parked
    }
    again = coming.statements.taken_again()
    tables: dict[str, list[SourceTable]] = {}
    errors: dict[str, str] = {}
    for table in changed:
        if table not in routed or table in apart:
            continue
        target = routed[table].target
        tables.setdefault(target, []).append(table)
        clash = clashes.get(target.lower())
        if table in again:
            errors.setdefault(target, again[table].why(target))
        elif clash is not None and not clash.feeding:
            errors.setdefault(target, clash.why(table))
    return {
        target: _target_batch(
            ledger,
            cursor,
            coming,
            route=routed[of_target[0]],
            stats={t: [s for s in pending.stats if s.table == t and s.changes] for t in of_target},
            error=errors.get(target),
        )
        for target, of_target in tables.items()
    }, apart


def _routed(
    ledger: Ledger, coming: _Coming, changed: Collection[SourceTable]
) -> dict[SourceTable, Route]:
    """The source tables that have had changes so far, with their routes; those `changed` now come
    first."""
    had = (SourceTable(ledger.source, *names) for names, batch in coming.last.items() if batch)
    known = set(map(ledger.first_name, had))
    closed = ledger.closed(coming.statements, changed=changed)
    return {
        table: route
        for table in (*changed, *sorted(known - set(changed), key=str))
        if not ghost(table.table) and table not in closed
        if (route := ledger.route(table)) is not None
    }


def _target_batch(
    ledger: Ledger,
    cursor: SourceCursor,
    coming: _Coming,
    *,
    route: Route,
    stats: dict[SourceTable, list[BatchStats]],
    error: str | None,
) -> TargetBatch:
    """A target with what its source tables have new, and how far each of them is applied."""
    progress = ledger.progress_of(route)
    names = {table: ledger.names(table) for table in stats}
    above = {
        table: max(cursor.batch, *(progress.tables.get(name.path, 0) for name in of_table))
        for table, of_table in names.items()
    }
    fed = [name for of_table in names.values() for name in of_table]
    return TargetBatch(
        route=route,
        stats=stats,
        error=error,
        statements=coming.statements,
        above={table: coming.backlog.get(table, batch) for table, batch in above.items()},
        applied_batches=applied_batches(progress, fed, coming.last),
    )


def _asked_for(
    ledger: Ledger, batches: Mapping[str, TargetBatch], request: Request
) -> dict[str, TargetBatch]:
    """The batches to apply now: those of targets that were asked for, do not rest and need not be
    folded again first."""
    return {
        name: batch
        for name, batch in batches.items()
        if request.asks_for(name)
        if (progress := ledger.progress_of(batch.route)).parked_for != "refold"
        if not request.leaves(batch, progress)
    }


def _record_news(ledger: Ledger, rows: Iterable[Progress]) -> None:
    """Record the rows that say something new: a target that stays parked for the same reason is not
    recorded again and again."""
    known = ledger.progress_by_target
    news = [r for r in rows if r.status != "parked" or r != known.get((r.source, r.target))]
    record_progress(ledger.warehouse, news, known)


def _applied(
    ledger: Ledger,
    batches: Mapping[str, TargetBatch],
    pending: PendingChanges,
    *,
    above: int,
    request: Request,
) -> list[Progress]:
    """Bring the targets forward, a bounded number at a time; gives what became of each. `above`:
    the batch up to which the source was looked through."""
    warehouse, rows = ledger.warehouse, list[Progress]()
    numbers = itertools.count(1)

    def run(name: str, batch: TargetBatch) -> None:
        if not request.stop():
            request.at_work(f"{next(numbers)}/{len(batches)} {name}")
            rows.append(_apply(ledger, batch, pending))

    largest = max((batch.rows for batch in batches.values()), default=0)
    threads = ThreadPoolExecutor(max_workers=ledger.warehouse.config.settings.merge_threads)
    # A file of gold is written anew with each row in it that changes; what compaction writes stays.
    plain = having(warehouse.session, NO_DICTIONARIES | NO_CONSTRAINTS)
    staging = staged_changes(warehouse, batches, pending, source=ledger.source, above=above)
    with warehouse.shuffling(largest), plain, staging as staged, threads as pool:
        # Each thread gets a copy of the session's properties: threads that share them would
        # overwrite each other's query numbers, and Spark keeps the plans of queries it has lost for
        # ever.
        begun = [
            pool.submit(inheritable_thread_target(warehouse.session)(run), name, batch)
            for name, batch in staged.items()
        ]
        for one in begun:
            one.result()
    return rows


def _apply(ledger: Ledger, batch: TargetBatch, pending: PendingChanges) -> Progress:
    """Bring one target forward; an error of one table is never raised."""
    began = time.monotonic()
    why: ParkedFor | None = None
    try:
        if batch.error is not None:
            raise TableError(batch.error)
        row = advance(ledger, batch, pending, progress=ledger.progress_of(batch.route))
        return replace(row, seconds=time.monotonic() - began)
    except OtherMasks as error:
        said, why = str(error), "masks"
    except IngestError as error:
        said = str(error)
    except Exception as error:
        said = described(error)[:2000]
    # Batches of some of its source tables may be recorded already.
    return ledger.progress_of(batch.route).parked(said, why=why)


def _parked_anyway(ledger: Ledger, request: Request, merged: Collection[Merged]) -> list[Merged]:
    """Park the targets whose table is gone, masked otherwise or of no known kind, as a run with
    changes for them does: this must be said even if nothing is new for them. Gives those that are
    parked, and those whose rows could not be folded again."""
    routes = _routes_so_far(ledger)
    there = lowered(gold_tables(ledger.warehouse))
    done = {row.target for row in merged}
    rows = []
    for (source, target), progress in ledger.progress_by_target.items():
        if source != ledger.source or target not in routes:
            continue
        unfolded = progress.parked_for == "refold"
        if (target in done and not unfolded) or not request.asks_for(target):
            continue
        masks = other_masks(routes[target], progress.contract)
        if progress.watermarks and target.lower() not in there:
            rows.append(progress.parked(gone_sentence(target)))
        elif progress.outdated == "rebuilding":
            rows.append(progress.parked(progress.why_outdated or ""))
        elif masks is not None and progress.outdated is None:
            rows.append(progress.parked(masks, why="masks"))
        elif progress.parked_for == "masks":
            rows.append(progress.unparked())
        elif unfolded:
            rows.append(progress)
    _record_news(ledger, rows)
    return [Merged.of(row) for row in rows if row.status == "parked"]


def _routes_so_far(ledger: Ledger) -> dict[str, Route]:
    """By target, the route of the source tables that have come so far."""
    came = source_cursor(ledger.progress_by_target, ledger.source).tables
    tables = (SourceTable(ledger.source, *names) for names in came)
    firsts = set(map(ledger.first_name, tables)) - ledger.closed()
    routes = (ledger.route(table) for table in firsts if not ghost(table.table))
    return {route.target: route for route in routes if route is not None}


def _advanced_cursor(cursor: SourceCursor, coming: _Coming) -> list[SourceCursor]:
    """The source cursor after this pass, if that is news."""
    limit = coming.pending.limit
    advanced = replace(
        cursor.uncounted(),
        batch=coming.pending.last,
        tables=coming.last,
        below=limit.below,
        partly_applied=limit.newest,
    )
    return [advanced] if advanced != cursor.uncounted() else []
