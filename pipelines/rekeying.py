"""A target by another key: its rows folded anew from all of silver, swapped in by one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingest.casts import sql_text
from ingest.ddl_delta import quoted
from ingest.errors import TableError
from ingest.lineage import Effect
from ingest.routes import Route
from ingest.shape import column, events
from pipelines.backfill import all_of, states
from pipelines.ddl_entries import Entry
from pipelines.known_targets import source_tables, ways
from pipelines.rejects import misfit_rejects
from pipelines.targets import columns_of, keys_of

if TYPE_CHECKING:
    from pipelines.ledger import Ledger


def rekey(ledger: Ledger, entry: Entry, route: Route, effect: Effect) -> None:
    """Make the columns that `effect` names the target's key.

    Raises TableError where the target lacks one of them.
    """
    warehouse, name = ledger.warehouse, ledger.warehouse.name("gold", route.target)
    held = {known.lower(): known for known in columns_of(warehouse, route.target) or {}}
    wanted = [arg or "" for arg in effect.args]
    lacking = [arg for arg in wanted if arg.lower() not in held]
    if lacking:
        raise TableError(
            f"expected the new key's columns in {route.target}, got none called "
            f"{', '.join(lacking)}: approve what adds them first"
        )
    keys = tuple(held[arg.lower()] for arg in wanted)
    for old in set(keys_of(warehouse, route.target)) - set(keys):
        warehouse.session.sql(f"ALTER TABLE {name} ALTER COLUMN {quoted(old)} COMMENT ''")
    for number, key in enumerate(keys, 1):
        warehouse.session.sql(
            f"ALTER TABLE {name} ALTER COLUMN {quoted(key)} COMMENT 'key {number}'"
        )
    _fold_anew(ledger, entry, route)


def _fold_anew(ledger: Ledger, entry: Entry, route: Route) -> None:
    warehouse = ledger.warehouse
    stand = ledger.stands.get((ledger.source, route.target))
    fed = ways(ledger.config, source_tables(warehouse)).get(route.target, [])
    tables = [table for table, _ in fed if table.source == ledger.source] or [entry.table]
    works = [
        work
        for table in tables
        if (
            work := all_of(
                warehouse,
                ledger.config,
                ledger.route(table) or route,
                table,
                lineage=ledger.lineage(table),
                stand=stand,
            )
        )
    ]
    if not works:
        return
    shape = works[0].shape
    names = [*shape.columns, "_pos", "_event_time", "_source", "_source_table"]
    names += ["_deleted_at"] if works[0].soft else []
    try:
        for work in works:
            misfit_rejects(work, events(work.shape, work.history("op <> 'truncate'")))
        rows = " UNION ALL ".join(
            f"SELECT *, {sql_text(shape.source)} AS _source FROM ({states(work, None, set())}) "
            "WHERE NOT _gone"
            for work in works
        )
        values = [
            (f"`_k{shape.keys.index(name)}` AS " if name in shape.keys else "") + column(name)
            for name in names
        ]
        warehouse.session.sql(
            f"INSERT OVERWRITE {warehouse.name('gold', route.target)} "
            f"({', '.join(map(column, names))}) SELECT {', '.join(values)} FROM ({rows})"
        )
    finally:
        for work in works:
            work.forget()
