"""Keys that several source tables claim in one target, tried again when the row that held one goes.

Without `shard_column` a key belongs to the source table whose row holds it, and what another table
has for it is a reject `shard_key_conflict` (semantics.md, 27). Once no such row is left, the key is
folded from the history of the other table. So it is once the other table's row is gone as well,
since that contests nothing any more; versions that it had stand beside those of the row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from ingest.config.routes import Route
from ingest.names import SourceTable
from ingest.position import Pos
from ingest.sql.projection import events
from ingest.sql.query import select
from ingest.sql.rejects import retyped
from ingest.sql.rejects import waiting as texts
from pipelines.apply.batch import TableBatch
from pipelines.apply.exact import fold_again
from pipelines.apply.frames import Frames
from pipelines.apply.late_keys import freed_keys
from pipelines.apply.modes import KEYED
from pipelines.gold.plan import Extent, TargetTable, histories, history_batches
from pipelines.ledger.store import Ledger
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.contract import made_otherwise, may_share_keys
from pipelines.targets.progress import Progress, Watermarks, record_progress
from pipelines.targets.rejects import change_rejects, claimed
from pipelines.targets.table import columns_of, keys_of


def try_again(
    ledger: Ledger, route: Route, *, row: Progress, closed: Collection[SourceTable]
) -> Progress:
    """Give the keys that are free now to the source tables whose changes wait for them. Gives the
    target's progress afterwards; `row` is its progress before. `closed`: see
    `Ledger.closed_names`."""
    warehouse, first_names = ledger.warehouse, ledger.first_names
    opened = claimed(warehouse, route.source, route.target)
    if opened is None or row.contract is None:
        return row
    waiting = (first_names.get(table, table) for table in _waiting(warehouse, route, opened))
    routes = dict.fromkeys(waiting, route)
    if not routes:
        return row
    extent = Extent.applied(row, closed)
    found = histories(
        warehouse,
        routes,
        first_names=first_names,
        lineage=ledger.lineage,
        extent=extent,
    )
    columns = columns_of(warehouse, route.target) or {}
    target = TargetTable(contract=row.contract, columns=columns, shared=True)
    for batch in history_batches(warehouse, found.feeds, target, extent=extent):
        with Frames(warehouse) as frames:
            row = _give(ledger, frames, batch, opened=opened, row=row)
    return row


def hand_over(ledger: Ledger, route: Route) -> None:
    """`try_again` for a target whose rows were not changed by a batch, by its present key. A target
    to which nothing is applied is left alone."""
    warehouse = ledger.warehouse
    row = ledger.progress(route.target)
    if row is None or row.contract is None or not shares_keys(route, row):
        return
    keys = keys_of(warehouse, route.target)
    if not keys or row.outdated is not None or made_otherwise(route, row.contract):
        return
    before = replace(row.uncounted(), contract=row.contract._replace(keys=keys))
    after = try_again(ledger, route, row=before, closed=ledger.closed_names())
    if after != before:
        record_progress(warehouse, [after], ledger.progress_by_target)


def shares_keys(route: Route, row: Progress) -> bool:
    """`may_share_keys` of a target as its progress has it."""
    contract, tables = row.contract, len(row.watermarks)
    return contract is not None and may_share_keys(route, contract.keeps, tables=tables)


def _give(
    ledger: Ledger, frames: Frames, batch: TableBatch, *, opened: str, row: Progress
) -> Progress:
    """Fold the keys that are free from the table's history. Their changes that are in that fold no
    longer wait; the rejects of the others say from now on why they do."""
    changes = events(batch.projection, batch.history("true"))
    soft, voided = batch.soft and batch.keeps.latest, batch.voided
    held = batch.held_by_others
    found = texts.free_keys(changes, opened, held=held, voided=voided, soft=soft)
    free = frames.set_down(frames.sql(found))
    if frames.sql(select(free)).isEmpty():
        return row
    keys = select(free, "fits", columns="key")
    baseless, last, counts = None, None, Counter[str]()
    if not frames.sql(keys).isEmpty():
        mode, late = KEYED[batch.mode], freed_keys(frames, batch, keys)
        refolded = fold_again(frames, batch, late, run=mode.history_run(batch))
        counts = mode.merge_folded(frames, batch, refolded)
        last, baseless = refolded.last_baseless, refolded.baseless
    _note_baseless(ledger, batch, last)
    claims = texts.of_keys(opened, changes, keys=free)
    verdicts = retyped.typed_again(batch.projection, changes, claims, rejects=True)
    change_rejects(frames.warehouse, retyped.as_changes(verdicts, baseless=baseless))
    label = batch.projection.label
    known = row.watermarks.get(label, Watermarks()).with_baseless(last)
    watermarks = {**row.watermarks, label: known}
    return replace(row, watermarks=watermarks).counting(counts)


def _note_baseless(ledger: Ledger, batch: TableBatch, last: Pos | None) -> None:
    """Record where the highest partial image without a base stands, before its reject says that it
    waits for that: after a kill in between nothing would look for it when the base comes."""
    known, label = ledger.progress(batch.target), batch.projection.label
    if last is None or known is None or label not in known.watermarks:
        return
    noted = known.with_watermarks({label: known.watermarks[label].with_baseless(last)})
    if noted.watermarks != known.watermarks:
        record_progress(ledger.warehouse, [noted], ledger.progress_by_target)


def _waiting(warehouse: Warehouse, route: Route, opened: str) -> list[SourceTable]:
    """The source tables that have waiting changes."""
    silver = warehouse.name("silver", "cdc")
    found = warehouse.session.sql(texts.tables_of(silver, opened, source=route.source))
    return sorted((SourceTable(*row) for row in rows(found)), key=str)
