"""What silver has that a target has not applied, whatever became of the tables file in between.

The source cursor knows every source table seen, with the last batch in which it had changes; the
row of a target knows how far it has applied each source table that fed it. Where the second is
below the first, the table lags from there: its target was parked, the table was led elsewhere or
nowhere then, its renaming waited, or nothing told its rows apart. All names that a table has had
are taken up together, from where the first of them lags: a batch that is applied twice changes
nothing.

`unmatched` names patterns that match no table seen, and sources with changes that name no table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ingest.config.load import Config
from ingest.config.mistakes import nearest
from ingest.config.modes import mode_of
from ingest.config.routes import Route
from ingest.ddl.parse import ghost
from ingest.names import SourceTable, label_of, matches
from ingest.wire.declared import declared_for
from pipelines.ledger.decisions import Ledger
from pipelines.ledger.renames import later_names
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import PendingChanges, survey
from pipelines.targets.progress import (
    SOURCE_CURSOR,
    Names,
    Progress,
    ProgressByTarget,
    load_progress,
)

Backlog = Mapping[SourceTable, int]
"""First name of a source table that lags -> the batch above which it does."""


def backlog_of(
    config: Config, cursor: Progress, progress_by_target: ProgressByTarget, *, ledger: Ledger
) -> Backlog:
    """The source tables of which the cursor has passed what their targets have not applied."""
    found: dict[SourceTable, int] = {}
    first_names = ledger.first_names
    for names, last in cursor.tables.items():
        table = SourceTable(cursor.source, *names)
        first = first_names.get(table, table)
        if not table.table or ghost(first.table):
            continue
        route = ledger.route(first)
        if route is None:
            continue
        progress = progress_of_route(progress_by_target, route)
        if last is None:
            # A cursor of before these numbers: at most all it passed, unless that was applied.
            known = label_of(table) in progress.watermarks and progress.status != "parked"
            last = 0 if known else cursor.batch
        applied = (
            0
            if _keyed_since(config, route, first, progress=progress)
            else applied_batch(progress, table)
        )
        if applied < last:
            found[first] = min(applied, found.get(first, applied))
    closed = ledger.closed(PendingChanges(cursor.batch, [], {}, {})) if found else set()
    return {table: above for table, above in found.items() if table not in closed}


def newly_keyed(
    found: PendingChanges, progress_by_target: ProgressByTarget, ledger: Ledger
) -> Backlog:
    """The source tables that were set aside for want of a key, and whose key messages name now."""
    tables = {*found.keys, *(s.table for s in found.stats if any(s.key_columns))}
    firsts = {ledger.first_names.get(table, table) for table in tables}
    routes = {table: route for table in firsts if (route := ledger.route(table)) is not None}
    return {
        table: 0
        for table, route in routes.items()
        if unkeyed(progress_of_route(progress_by_target, route))
    }


def unkeyed(progress: Progress) -> bool:
    """Whether all that a target had so far was set aside for want of a key."""
    return progress.contract is None and progress.batch > 0 and not progress.watermarks


def _keyed_since(config: Config, route: Route, table: SourceTable, *, progress: Progress) -> bool:
    declared = route.keys or declared_for(config.sources[route.source].keys, table[1:])
    return unkeyed(progress) and mode_of(route, tuple(declared)) is not None


def with_backlog(
    warehouse: Warehouse, found: PendingChanges, backlog: Backlog, *, ledger: Ledger, cursor: int
) -> PendingChanges:
    """The survey of what is above the source cursor, with what lags behind it; `cursor` is its
    batch."""
    first_names = ledger.first_names
    together: dict[int, list[SourceTable]] = {}
    for first, above in backlog.items():
        together.setdefault(above, []).extend([first, *later_names(first, first_names)])
    stats, types = list(found.stats), dict(found.types)
    for above, tables in together.items():
        older = survey(
            *(warehouse, tables[0].source, above), tables=tables, until=cursor, limit=found.limit
        )
        stats = [*older.stats, *stats]
        for table, listed in older.types.items():
            now = types.get(table, [])
            types[table] = [*listed, *(columns for columns in now if columns not in listed)]
    return found._replace(stats=stats, types=types)


def applied_beyond(
    cursor: Progress, progress_by_target: ProgressByTarget, ledger: Ledger
) -> dict[SourceTable, int]:
    """Source tables, by each of their names, that their targets have applied beyond the source
    cursor: only some targets were brought forward then."""
    first_names = ledger.first_names
    found: dict[SourceTable, int] = {}
    for (source, target), progress in progress_by_target.items():
        if source != cursor.source or target == SOURCE_CURSOR:
            continue
        for names, batch in progress.tables.items():
            first = first_names.get(table := SourceTable(source, *names), table)
            if (batch or 0) > max(cursor.batch, found.get(first, 0)):
                found[first] = batch or 0
    return {
        name: batch
        for first, batch in found.items()
        for name in (first, *later_names(first, first_names))
    }


def progress_of_route(progress_by_target: ProgressByTarget, route: Route) -> Progress:
    """The progress of the target of a route."""
    return progress_by_target.get(
        (route.source, route.target), Progress(target=route.target, source=route.source)
    )


def applied_batch(progress: Progress, table: SourceTable) -> int:
    """The batch up to which a target has applied what came under one name."""
    known = progress.tables.get(table[1:])
    if known is not None:
        return known
    # Progress of before these numbers: one for all tables that were applied.
    return progress.batch if not progress.tables and label_of(table) in progress.watermarks else 0


def last_batches(
    cursor: Progress, found: PendingChanges, backlog: Backlog, *, ledger: Ledger
) -> dict[Names, int | None]:
    """Of each name seen the last batch with changes among those that `found` ends."""
    seen = dict(cursor.tables)
    looked = {
        name for first in backlog for name in (first, *later_names(first, ledger.first_names))
    }
    for each in found.stats:
        seen.setdefault(each.table[1:], 0)
    for table in looked:
        if table[1:] in seen:
            seen[table[1:]] = seen[table[1:]] or 0
    for each in found.stats:
        if each.changed is not None and each.changed <= found.last:
            seen[each.table[1:]] = max(each.changed, seen[each.table[1:]] or 0)
    return dict(sorted(seen.items(), key=str))


def applied_batches(
    progress: Progress, tables: list[SourceTable], seen: Mapping[Names, int | None]
) -> dict[Names, int | None]:
    """How far a target has applied each name that feeds it, once `tables` are brought forward."""
    before = {
        names: applied_batch(progress, SourceTable(progress.source, *names))
        for names in seen
        if label_of(SourceTable(progress.source, *names)) in progress.watermarks
    }
    now = {table[1:]: seen.get(table[1:]) for table in tables}
    known = {names: batch for names, batch in now.items() if batch is not None}
    return {**before, **progress.tables, **known}


def unmatched(warehouse: Warehouse, config: Config, sources: Sequence[str]) -> Iterator[str]:
    """A sentence for each pattern that means no table gold has seen of its source, be it mistyped
    or not come yet, and for each source with changes that name no table."""
    if not warehouse.exists("gold", "_progress"):
        return
    progress_by_target = load_progress(warehouse)
    for source in sources:
        cursor = progress_by_target.get((source, SOURCE_CURSOR))
        tables = cursor.tables if cursor is not None else {}
        seen = [table for table in tables if table[2]]
        if any(last and not table[2] for table, last in tables.items()):
            yield f"source {source}: changes that name no table stay in silver; set default_table"
        names = [".".join(name for name in table if name) for table in seen]
        patterns = (p for entry in config.tables[source].tables for p in entry.patterns)
        for pattern in patterns if seen else ():
            if not any(matches(pattern, db=d, schema=s, table=t) for d, s, t in seen):
                near = nearest(pattern, names)
                yield f"source {source}: no table so far matches `from: {pattern}`{near}"
