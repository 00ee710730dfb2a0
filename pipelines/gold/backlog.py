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

from ingest.config.mistakes import nearest
from ingest.config.modes import mode_of
from ingest.config.routes import Route
from ingest.ddl.parse import ghost
from ingest.names import SourceTable, declared_for, matches
from pipelines.gold.keys import keys_in_yaml
from pipelines.ledger.store import Ledger
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import PendingChanges, pending_changes
from pipelines.targets.progress import (
    Names,
    Progress,
    SourceCursor,
    load_progress,
    source_cursors,
    targets_of,
)

Backlog = Mapping[SourceTable, int]
"""First name of a source table that lags -> the batch above which it does."""


def backlog_of(ledger: Ledger, cursor: SourceCursor) -> Backlog:
    """The source tables of which the cursor has passed what their targets have not applied."""
    backlog: dict[SourceTable, int] = {}
    for names, last in cursor.tables.items():
        table = SourceTable(cursor.source, *names)
        first = ledger.first_name(table)
        # What names no table stays in silver.
        route = None if not first.table or ghost(first.table) else ledger.route(first)
        if route is None:
            continue
        progress = ledger.progress_of(route)
        keyed = unkeyed(progress) and _declares_key(ledger, route, first)
        applied = 0 if keyed else progress.tables.get(names, 0)
        if applied < last:
            backlog[first] = min(applied, backlog.get(first, applied))
    closed = ledger.closed() if backlog else set()
    return {table: above for table, above in backlog.items() if table not in closed}


def newly_keyed(ledger: Ledger, pending: PendingChanges) -> Backlog:
    """The source tables that were set aside for want of a key, and whose key messages name now;
    with each, the others that feed its target: truncates of theirs waited for rows."""
    tables = {*pending.keys, *(s.table for s in pending.stats if any(s.key_columns))}
    found: set[SourceTable] = set()
    others: set[SourceTable] = set()
    for table in set(map(ledger.first_name, tables)):
        route = ledger.route(table)
        if route is None or not unkeyed(progress := ledger.progress_of(route)):
            continue
        found.add(table)
        others |= {ledger.first_name(SourceTable(table.source, *each)) for each in progress.tables}
    closed = ledger.closed() if others else set()
    routed = {other for other in others - closed if ledger.route(other) is not None}
    return dict.fromkeys(found | routed, 0)


def unkeyed(progress: Progress) -> bool:
    """Whether all that a target had so far was set aside for want of a key."""
    return progress.contract is None and progress.last_batch > 0 and not progress.watermarks


def _declares_key(ledger: Ledger, route: Route, table: SourceTable) -> bool:
    """Whether the target can be made with the key that the YAML names, if it names one."""
    return mode_of(route, keys_in_yaml(ledger.warehouse.config, route, table)) is not None


def with_backlog(
    ledger: Ledger, pending: PendingChanges, backlog: Backlog, *, cursor: SourceCursor
) -> PendingChanges:
    """The pending changes above the source cursor, with what lags behind it."""
    together: dict[int, list[SourceTable]] = {}
    for first, above in backlog.items():
        together.setdefault(above, []).extend(ledger.names(first))
    stats, types = list(pending.stats), dict(pending.types)
    for above, tables in together.items():
        older = pending_changes(
            ledger.warehouse,
            ledger.source,
            above,
            tables=tables,
            until=cursor.batch,
            limit=pending.limit,
        )
        stats = [*older.stats, *stats]
        for table, listed in older.types.items():
            now = types.get(table, [])
            types[table] = [*listed, *(columns for columns in now if columns not in listed)]
    return pending._replace(stats=stats, types=types)


def applied_beyond(ledger: Ledger, cursor: SourceCursor) -> dict[SourceTable, int]:
    """Source tables, by each of their names, that their targets have applied beyond the source
    cursor: only some targets were brought forward then."""
    found: dict[SourceTable, int] = {}
    for progress in targets_of(ledger.progress_by_target, cursor.source).values():
        for names, batch in progress.tables.items():
            first = ledger.first_name(SourceTable(cursor.source, *names))
            if batch > max(cursor.batch, found.get(first, 0)):
                found[first] = batch
    return {name: batch for first, batch in found.items() for name in ledger.names(first)}


def last_batches(cursor: SourceCursor, pending: PendingChanges) -> dict[Names, int]:
    """Of each name of a source table the last batch with changes, once those that are pending are
    looked through."""
    last = dict(cursor.tables)
    for each in pending.stats:
        names = each.table.path
        changed = each.changed if each.changed is not None else 0
        last[names] = max(last.get(names, 0), changed if changed <= pending.last else 0)
    return dict(sorted(last.items(), key=str))


def applied_batches(
    progress: Progress, tables: list[SourceTable], last: Mapping[Names, int]
) -> dict[Names, int]:
    """How far a target has applied each name that feeds it, once `tables` are brought forward;
    `last`: the last batch with changes of each name."""
    now = {table.path: last[table.path] for table in tables if table.path in last}
    return {**progress.tables, **now}


def unmatched(warehouse: Warehouse, sources: Sequence[str]) -> Iterator[str]:
    """A sentence for each name or pattern that means no table gold has seen of its source, be it
    mistyped or not come yet, and for each source with changes that name no table."""
    cursors = source_cursors(load_progress(warehouse))
    for source in sources:
        cursor = cursors.get(source)
        tables = cursor.tables if cursor is not None else {}
        came = [(db, schema, table) for db, schema, table in tables if table]
        if any(last and not table[2] for table, last in tables.items()):
            yield (
                f"source {source}: changes that name no table stay in silver; set default_table, "
                f"then `ingest redecode --source {source}`"
            )
        names = [".".join(name for name in table if name) for table in came]
        patterns = (p for entry in warehouse.config.tables[source].tables for p in entry.patterns)
        for pattern in patterns if came else ():
            if not any(matches(pattern, db=d, schema=s, table=t) for d, s, t in came):
                near = nearest(pattern, names)
                yield f"source {source}: no table so far matches `from: {pattern}`{near}"
        declared = warehouse.config.sources[source]
        for key, tables_with in (("keys", declared.keys), ("columns", declared.columns)):
            for name in tables_with if came else ():
                if not any(declared_for({name: True}, table) for table in came):
                    near = nearest(name, names)
                    yield f"source {source}: no table so far is the `{name}` of its `{key}:`{near}"
