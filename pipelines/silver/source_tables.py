"""The source tables that have changes in silver."""

from __future__ import annotations

from ingest.names import SourceTable
from ingest.sql.casts import sql_text
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.targets import progress


def source_tables(warehouse: Warehouse) -> list[SourceTable]:
    """Every source table with a change in silver, in order of name."""
    if not warehouse.exists("silver", "cdc"):
        return []
    return warehouse.kept("silver", "cdc", lambda: _read(warehouse))


def _read(warehouse: Warehouse) -> list[SourceTable]:
    """What gold's sweeps have met, and what lies above them in silver."""
    stands = progress.load(warehouse) if warehouse.exists("gold", "_progress") else {}
    sweeps = {of: stand for (of, target), stand in stands.items() if target == progress.SWEEP}
    met = {
        SourceTable(source, *names)
        for source, stand in sweeps.items()
        for names, last in stand.tables.items()
        if last != 0 and names[2] is not None
    }
    above = [f"(source = {sql_text(of)} AND batch > {s.batch})" for of, s in sweeps.items()]
    others = ", ".join(map(sql_text, sweeps))
    new = " OR ".join([*above, f"source NOT IN ({others})"]) if sweeps else "true"
    found = warehouse.session.sql(
        f"SELECT DISTINCT source, db, schema, table FROM {warehouse.name('silver', 'cdc')} "
        f"WHERE kind = 'change' AND table IS NOT NULL AND ({new})"
    )
    return sorted(met | {SourceTable(*row) for row in rows(found)}, key=str)
