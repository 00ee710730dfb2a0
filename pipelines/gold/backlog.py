"""What silver has that a target has not applied, whatever became of the tables file in between.

The source cursor knows every source table seen, with the last batch in which it had changes. The
progress of a target knows how far it has applied each source table that fed it. If a target is
behind the cursor, the table lags from there: the target was parked, or the table was routed
elsewhere or nowhere, or its renaming waited, or it had no key to tell its rows apart. All names
that a table has had are taken up together, from where the first of them lags; applying a batch
twice changes nothing.

`unmatched` names patterns that match no table seen, and sources with changes that name no table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ingest.config.load import Config
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
    """The source tables for which the cursor is ahead of what their targets have applied."""
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
    """The source tables that were set aside because they had no key, and whose key messages name
    now; and with each, the other tables that feed its target, since their truncates waited for
    rows."""
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
    """Whether everything that a target had so far was set aside because it had no key."""
    return progress.contract is None and progress.last_batch > 0 and not progress.watermarks


def _declares_key(ledger: Ledger, route: Route, table: SourceTable) -> bool:
    """Whether the target can be made with the key that the YAML names, if it names one."""
    return mode_of(route, keys_in_yaml(ledger.warehouse.config, route, table)) is not None


def with_backlog(
    ledger: Ledger, pending: PendingChanges, backlog: Backlog, *, cursor: SourceCursor
) -> PendingChanges:
    """The pending changes above the source cursor, with the backlog below it."""
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
    cursor, because a run brought only some targets forward."""
    found: dict[SourceTable, int] = {}
    for progress in targets_of(ledger.progress_by_target, cursor.source).values():
        for names, batch in progress.tables.items():
            first = ledger.first_name(SourceTable(cursor.source, *names))
            if batch > max(cursor.batch, found.get(first, 0)):
                found[first] = batch
    return {name: batch for first, batch in found.items() for name in ledger.names(first)}


def last_batches(cursor: SourceCursor, pending: PendingChanges) -> dict[Names, int]:
    """The last batch with changes, by name of a source table, once the pending changes are looked
    through."""
    last = dict(cursor.tables)
    for each in pending.stats:
        names = each.table.path
        changed = each.changed if each.changed is not None else 0
        last[names] = max(last.get(names, 0), changed if changed <= pending.last else 0)
    return dict(sorted(last.items(), key=str))


def applied_batches(
    progress: Progress, tables: list[SourceTable], last: Mapping[Names, int]
) -> dict[Names, int]:
    """The batch up to which a target has applied each name that feeds it, once `tables` are brought
    forward; `last`: the last batch with changes of each name."""
    now = {table.path: last[table.path] for table in tables if table.path in last}
    return {**progress.tables, **now}


def unmatched(warehouse: Warehouse, sources: Sequence[str]) -> Iterator[str]:
    """A sentence for each name or pattern in the YAML that means no table of its source seen so
    far, whether it is mistyped or has not come yet; and for each source with changes that name no
    table."""
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
        if came:
            names = [".".join(name for name in table if name) for table in came]
            for what, wanted in _without_table(warehouse.config, source, came):
                yield f"source {source}: no table so far {what}{nearest(wanted, names)}"


def _without_table(
    config: Config, source: str, came: Collection[tuple[str | None, str | None, str]]
) -> Iterator[tuple[str, str]]:
    """What the YAML says of tables that are not among those that `came`: what no table does, in
    words, and the name or pattern."""
    for entry in config.tables[source].tables:
        for pattern in entry.patterns:
            if not any(matches(pattern, db=d, schema=s, table=t) for d, s, t in came):
                yield f"matches `from: {pattern}`", pattern
    declared = config.sources[source]
    for key, tables_with in (("keys", declared.keys), ("columns", declared.columns)):
        for name in tables_with:
            if not any(declared_for({name: True}, table) for table in came):
                yield f"is the `{name}` of its `{key}:`", name
