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
from ingest.names import SourceTable
from ingest.sql.projection import events
from ingest.sql.query import select
from ingest.sql.rejects import waiting as texts
from ingest.sql.silver import ROW_CHANGES
from pipelines.apply.batch import TableBatch
from pipelines.apply.exact import fold_again
from pipelines.apply.frames import Frames
from pipelines.apply.late_keys import freed_keys
from pipelines.apply.modes import KEYED
from pipelines.apply.rejects import resolve_rejects
from pipelines.gold.plan import Extent, TargetTable, histories, history_batches
from pipelines.ledger.decisions import Ledger
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import Progress
from pipelines.targets.rejects import claimed
from pipelines.targets.table import columns_of


def try_again(
    ledger: Ledger, route: Route, contract: TargetContract, *, row: Progress, last: int
) -> Progress:
    """Give the keys that are free now to the source tables whose changes wait for them."""
    warehouse, first_names = ledger.warehouse, ledger.first_names
    opened = claimed(warehouse, route.source, route.target)
    if opened is None:
        return row
    waiting = (first_names.get(table, table) for table in _waiting(warehouse, route, opened))
    routes = dict.fromkeys(waiting, route)
    if not routes:
        return row
    found = histories(warehouse, routes, first_names=first_names, lineage=ledger.lineage, last=last)
    columns = columns_of(warehouse, route.target) or {}
    target = TargetTable(contract=contract, columns=columns, shared=True)
    for batch in history_batches(warehouse, found.feeds, target, extent=Extent(row.watermarks)):
        with Frames(warehouse) as frames:
            counts = _give(frames, batch, opened)
        row = replace(row, **{name: getattr(row, name) + n for name, n in counts.items()})
    return row


def _give(frames: Frames, batch: TableBatch, opened: str) -> Counter[str]:
    changes = events(batch.projection, batch.history("true"))
    free = frames.set_down(frames.sql(texts.free_keys(changes, opened, held=batch.held_by_others)))
    keys = select(free)
    if frames.sql(keys).isEmpty():
        return Counter()
    mode, late = KEYED[batch.mode], freed_keys(frames, batch, keys)
    refolded = fold_again(frames, batch, late, run=mode.history_run(batch), counts=Counter())
    counts = mode.merge_folded(frames, batch, refolded)
    resolve_rejects(frames, batch, free, code=Code.SHARD_KEY_CONFLICT, where=ROW_CHANGES)
    return counts


def _waiting(warehouse: Warehouse, route: Route, opened: str) -> list[SourceTable]:
    """The source tables of which changes wait."""
    silver = warehouse.name("silver", "cdc")
    found = warehouse.session.sql(texts.tables_of(silver, opened, source=route.source))
    return sorted((SourceTable(*row) for row in rows(found)), key=str)
