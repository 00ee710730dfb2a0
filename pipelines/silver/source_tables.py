"""The source tables that have changes in silver."""

from __future__ import annotations

from ingest.names import SourceTable
from ingest.sql.casts import sql_text
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import SOURCE_CURSOR, load_progress


def source_tables(warehouse: Warehouse) -> list[SourceTable]:
    """Every source table with a change in silver, in order of name."""
    if not warehouse.exists("silver", "cdc"):
        return []
    return warehouse.cached("silver", "cdc", lambda: _read(warehouse))


def _read(warehouse: Warehouse) -> list[SourceTable]:
    """What gold's source cursors have passed, and what lies above them in silver."""
    progress_by_target = load_progress(warehouse) if warehouse.exists("gold", "_progress") else {}
    cursors = {
        of: progress
        for (of, target), progress in progress_by_target.items()
        if target == SOURCE_CURSOR
    }
    met = {
        SourceTable(source, *names)
        for source, progress in cursors.items()
        for names, last in progress.tables.items()
        if last != 0 and names[2] is not None
    }
    above = [f"(source = {sql_text(of)} AND batch > {s.batch})" for of, s in cursors.items()]
    others = ", ".join(map(sql_text, cursors))
    new = " OR ".join([*above, f"source NOT IN ({others})"]) if cursors else "true"
    found = warehouse.session.sql(
        f"SELECT DISTINCT source, db, schema, table FROM {warehouse.name('silver', 'cdc')} "
        f"WHERE kind = 'change' AND table IS NOT NULL AND ({new})"
    )
    return sorted(met | {SourceTable(*row) for row in rows(found)}, key=str)
