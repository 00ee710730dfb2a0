"""Keys that several source tables claim in one target: tried again when the row that held one goes.

Without `shard_column` a key belongs to the source table whose row holds it; what another has for it
is a reject `shard_key_conflict` (semantics.md, 27). Once no such row is left the key is folded from
the other's history.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ingest.codes import Code
from ingest.config.modes import TargetContract
from ingest.config.routes import Route
from ingest.names import SourceTable, label_of
from ingest.sql.casts import sql_text
from ingest.sql.delivery import same
from ingest.sql.projection import events
from pipelines.apply.batch import TableBatch
from pipelines.apply.modes import KEYED
from pipelines.apply.set_aside import settle
from pipelines.gold.plan import shape_of
from pipelines.ledger.decisions import Ledger
from pipelines.ledger.renames import later_names, under_first_names
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import survey
from pipelines.targets.progress import Progress, Watermarks
from pipelines.targets.rejects import claimed
from pipelines.targets.table import columns_of


def try_again(
    ledger: Ledger, route: Route, made: TargetContract, *, row: Progress, last: int
) -> Progress:
    """Give the keys that are free now to the source tables whose changes wait for them."""
    warehouse, moved = ledger.warehouse, ledger.moves
    opened = claimed(warehouse, route.source, route.target)
    if opened is None:
        return row
    waiting = (moved.get(table, table) for table in _waiting(warehouse, route, opened))
    for table in dict.fromkeys(waiting):
        names = later_names(table, moved)
        found = under_first_names(
            survey(warehouse, route.source, 0, tables=[table, *names], until=last), moved
        )
        slices = [s for s in found.slices if s.changes]
        columns, types = columns_of(warehouse, route.target) or {}, found.types.get(table, [])
        lineage = ledger.lineage(table)
        work = TableBatch(
            warehouse=warehouse,
            marks=row.marks.get(label_of(table), Watermarks()),
            table=table,
            also=names,
            shape=shape_of(
                ledger.config,
                route,
                made.keys,
                columns=columns,
                slices=slices,
                lineage=lineage,
                types=types,
            ),
            slices=slices,
            target=route.target,
            above=last,
            last=last,
            soft=route.deletes == "soft",
            fresh=False,
            shared=True,
            mode=made.mode,
        )
        with work:
            counts = _give(work, opened)
        row = replace(row, **{name: getattr(row, name) + n for name, n in counts.items()})
    return row


def _give(work: TableBatch, opened: str) -> Counter[str]:
    free = work.set_down(
        work.warehouse.session.sql(
            f"SELECT DISTINCT e.key FROM ({events(work.shape, work.history('true'))}) e "
            f"JOIN ({opened}) r ON {same('e', 'r')} "
            f"LEFT ANTI JOIN ({work.held_by_others}) o ON o.key = e.key "
            f"WHERE e.key IS NOT NULL AND size(e.misfits) = 0"
        )
    )
    keys = f"SELECT key FROM {free}"
    if work.warehouse.session.sql(keys).isEmpty():
        return Counter()
    counts = KEYED[work.mode].fold_keys(work, keys)
    settle(work, free, code=Code.SHARD_KEY_CONFLICT, where="op <> 'truncate'")
    return counts


def _waiting(warehouse: Warehouse, route: Route, opened: str) -> list[SourceTable]:
    """The source tables of which changes wait."""
    on = f"s.source = r.source AND {same('s', 'r')}"
    found = warehouse.session.sql(
        f"SELECT DISTINCT s.source, s.db, s.schema, s.`table` "
        f"FROM {warehouse.name('silver', 'cdc')} s JOIN ({opened}) r "
        f"ON {on} WHERE s.kind = 'change' AND s.source = {sql_text(route.source)}"
    )
    return sorted((SourceTable(*row) for row in rows(found)), key=str)
