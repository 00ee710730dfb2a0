"""How many rows wait for a schema change to be approved."""

from __future__ import annotations

from ingest.casts import sql_text
from ingest.names import SourceTable
from ingest.order import pos_literal
from pipelines.ddl_entries import WAITING, Entry
from pipelines.rejects import present
from pipelines.survey import named
from pipelines.tables import Warehouse


def waiting_rows(warehouse: Warehouse, entry: Entry) -> int | None:
    """Changes in silver with a value that gold takes once the entry is approved, and events that
    were set aside because of it; of a decided entry those that waited then."""
    if entry.status not in WAITING:
        return entry.waiting_rows
    return _held_back(warehouse, entry) + _set_aside(warehouse, entry)


def _held_back(warehouse: Warehouse, entry: Entry) -> int:
    if not warehouse.exists("silver", "cdc"):
        return 0
    table = entry.table
    brought = [effect.brings for effect in entry.effects if effect.brings]
    moved = [effect for effect in entry.effects if effect.op == "move"]
    terms = []
    if brought:
        listed = ", ".join(map(sql_text, brought))
        above = f" AND pos > {pos_literal(entry.pos)}" if entry.pos and entry.statement else ""
        terms.append(
            f"({named(table)}{above} AND exists(map_keys(after), k -> lower(k) IN ({listed})))"
        )
    for effect in moved:
        db, schema, name = effect.args
        terms.append(f"({named(SourceTable(table.source, db, schema, name or ''))})")
    if not terms:
        return 0
    row = warehouse.session.sql(
        f"SELECT count(*) FROM {warehouse.name('silver', 'cdc')} "
        f"WHERE source = {sql_text(table.source)} AND kind = 'change' AND ({' OR '.join(terms)})"
    ).first()
    return int(row[0]) if row is not None else 0


def _set_aside(warehouse: Warehouse, entry: Entry) -> int:
    columns = [effect.args[0] or "" for effect in entry.effects if effect.op in ("retype", "widen")]
    if not columns or not warehouse.exists("gold", "_rejects"):
        return 0
    told = " OR ".join(
        f"contains(lower(error), {sql_text(f'column {name.lower()}: ')})" for name in columns
    )
    row = warehouse.session.sql(
        f"SELECT count(*) FROM ({present(warehouse)}) WHERE status = 'open' "
        f"AND target = {sql_text(entry.target or '')} AND source = {sql_text(entry.table.source)} "
        f"AND ({told})"
    ).first()
    return int(row[0]) if row is not None else 0
