"""The source tables that have changes in silver."""

from __future__ import annotations

from ingest.names import SourceTable
from ingest.sql.silver import above_cursors, tables_with_changes
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import load_progress, source_cursors


def source_tables(warehouse: Warehouse) -> list[SourceTable]:
    """Every source table with a change in silver, in order of name."""
    if not warehouse.exists("silver", "cdc"):
        return []
    return warehouse.cached("silver", "cdc", lambda: _read(warehouse))


def _read(warehouse: Warehouse) -> list[SourceTable]:
    """What gold's source cursors have passed, and what lies above them in silver."""
    cursors = source_cursors(load_progress(warehouse))
    met = {
        SourceTable(source, *names)
        for source, progress in cursors.items()
        for names, last in progress.tables.items()
        if last != 0 and names[2] is not None
    }
    new = above_cursors({source: progress.batch for source, progress in cursors.items()})
    silver = warehouse.name("silver", "cdc")
    added = warehouse.session.sql(tables_with_changes(silver, new))
    return sorted(met | {SourceTable(*row) for row in rows(added)}, key=str)
