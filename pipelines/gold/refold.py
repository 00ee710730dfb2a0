"""Rows of a target folded again from all of silver.

Every event is read through the lineage of the columns (`ingest.sql.lineage`).

- Some rows, because events fit at last: one MERGE changes what differs and nothing else. Doing it
  twice changes nothing.
- All rows, for a rebuild or under another key: they replace the old ones by one commit. The table
  itself stays, with its properties, column mapping, clustering, types and comments, and readers see
  either the old rows or the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from ingest.config.modes import TargetContract, declared_keeping
from ingest.config.routes import Route
from ingest.ddl.changes import ChangeKey, RenameColumn, name_today, only
from ingest.errors import TableError
from ingest.fold.arrow import origin_of
from ingest.fold.fold import Key, Origin
from ingest.names import SourceTable, label_of, lowered
from ingest.position import Pos
from ingest.sql.delivery import DELIVERY_TYPES
from ingest.sql.fold.key_changes import not_told_apart
from ingest.sql.fold.reconstruction import several_owners
from ingest.sql.query import select
from ingest.sql.rejects.waiting import baseless_among
from ingest.sql.silver import ROW_CHANGES, below_pos
from ingest.sql.tables.rows import overwritten
from pipelines.apply.batch import TableBatch
from pipelines.apply.exact import Refolded, folded
from pipelines.apply.frames import Frames
from pipelines.apply.late_keys import these_keys
from pipelines.apply.modes import KEYED
from pipelines.apply.watermarks import watermarks_of_both, watermarks_of_history
from pipelines.gold.accounting import Entered, enter_left_out, resolve_rejects
from pipelines.gold.keys import check_excluded, key_of
from pipelines.gold.known_targets import known_targets
from pipelines.gold.plan import ALL_HISTORY, Extent, TargetTable, histories, history_batches
from pipelines.gold.reconstruction import Reconstruction, as_applied
from pipelines.ledger.entries import Entry, changes_behind
from pipelines.ledger.shared_columns import others
from pipelines.ledger.store import Ledger
from pipelines.platform.leases import check
from pipelines.targets.contract import check_made_for, may_share_keys
from pipelines.targets.progress import (
    Progress,
    ProgressByTarget,
    record_progress,
)
from pipelines.targets.table import columns_of, keys_of
from pipelines.terminal.console import counted


def all_of(ledger: Ledger, route: Route, table: SourceTable) -> TableBatch | None:
    """Everything of a source table that its target, which keeps rows as they are, has applied; None
    if there is no change, no target or no key."""
    warehouse = ledger.warehouse
    columns = columns_of(warehouse, route.target)
    progress = ledger.progress(route.target)
    check_made_for(route, progress.contract if progress is not None else None)
    check_excluded(route, columns or ())
    extent = ALL_HISTORY
    if progress is not None:
        extent = Extent.applied(progress, ledger.closed_names())
    found = histories(
        warehouse,
        {table: route},
        first_names=ledger.first_names,
        lineage=ledger.lineage,
        extent=extent,
    )
    [feed] = found.feeds
    if columns is None or not feed.stats:
        return None
    keys = key_of(warehouse, route, stats=feed.stats, lineage=feed.lineage)
    if not keys or not lowered(keys) <= lowered(columns):
        return None
    contract = TargetContract.by(route, "scd1", keys)
    tables = len({*extent.watermarks, label_of(table)})
    target = TargetTable(
        contract=contract,
        columns=columns,
        shared=may_share_keys(route, contract.keeps, tables=tables),
    )
    return next(iter(history_batches(warehouse, [feed], target, extent=extent)), None)


def refold(
    frames: Frames, batch: TableBatch, keys: Collection[Key], *, asked: Collection[Origin]
) -> dict[Origin, Pos]:
    """Bring the rows of `keys`, and of the keys that key changes link to them, to what history
    says. Gives which of the changes `asked` are partial images without a base, and their
    positions."""
    refolded = _folded_with_claims(frames, batch, keys)
    KEYED[batch.mode].merge_folded(frames, batch, refolded)
    return _positions(frames, refolded, asked)


def baseless(
    frames: Frames, batch: TableBatch, keys: Collection[Key], *, asked: Collection[Origin]
) -> dict[Origin, Pos]:
    """Which of the changes `asked`, all of them of `keys`, are partial images without a base in
    history, and their positions."""
    if not keys:
        return {}
    return _positions(frames, _folded_with_claims(frames, batch, keys), asked)


def _folded_with_claims(frames: Frames, batch: TableBatch, keys: Collection[Key]) -> Refolded:
    """What history makes of the keys, including changes that waited because another source table's
    row had one of the keys."""
    late = these_keys(frames, batch, keys)
    if batch.shared:
        late = late._replace(freed=select(frames.key_view(keys)))
    return folded(frames, batch, late, run=KEYED[batch.mode].history_run(batch))


def _positions(frames: Frames, refolded: Refolded, asked: Collection[Origin]) -> dict[Origin, Pos]:
    if refolded.last_baseless is None:
        return {}
    session = frames.warehouse.session
    wanted = frames.view(session.createDataFrame(list(asked), DELIVERY_TYPES))
    rows = frames.sql(baseless_among(refolded.of_kind("baseless"), wanted)).collect()
    return {origin_of(row.asDict()): tuple(row["pos"]) for row in rows}


class Filled(NamedTuple):
    """What a target was filled with: how many rows, and how many changes were set aside instead."""

    rows: int
    rejected: int


def overwrite(reconstruction: Reconstruction, known: ProgressByTarget) -> Filled:
    """Replace the target's rows by what history makes of them, and account for what it leaves
    out."""
    return fill(reconstruction, partial(overwrite_rows, reconstruction), known)


def overwrite_rows(reconstruction: Reconstruction, rows: str) -> None:
    """Replace the target's rows by those of a relation."""
    check_owners(reconstruction, rows)
    warehouse = reconstruction.warehouse
    name = warehouse.name("gold", reconstruction.target)
    warehouse.execute(overwritten(name, rows, columns=reconstruction.names))


def check_owners(reconstruction: Reconstruction, rows: str) -> None:
    """Raise TableError if versions of several source tables would be current for one key: from then
    on the row of each would keep out the changes of the others (27)."""
    if not reconstruction.may_have_owners:
        return
    asked = several_owners(rows, keys=reconstruction.keys)
    found = reconstruction.warehouse.session.sql(asked).first()
    if found is not None:
        key, tables = found
        raise TableError(
            f"expected one source table to have key ({', '.join(key)}) of {reconstruction.target}, "
            f"got {' and '.join(tables)}; give it a key that tells their rows apart, or set "
            f"shard_column"
        )


def fill(
    reconstruction: Reconstruction, write: Callable[[str], None], known: ProgressByTarget
) -> Filled:
    """Have `write` replace the table's rows, in one commit, by a relation of all rows that history
    makes.

    A kill does no harm at any point. The changes that the fold leaves out become rejects before the
    rows are written, and rejects whose changes the fold has taken in are resolved afterwards, so
    every change is among the rows or the rejects. Before the rows are written, `known` gets
    watermarks that hold for the old rows as well as for the new ones, so that late changes are
    recognised either way.
    """
    began = datetime.now(UTC)
    entered: list[Entered] = []

    def checked(rows: str) -> None:
        note_rewritten(reconstruction, known, entered[-1].last_baseless if entered else {})
        check(reconstruction.warehouse)
        write(rows)

    def before() -> None:
        entered.append(enter_left_out(reconstruction, began))

    reconstruction.tried(checked, before=before)
    lost = resolve_rejects(reconstruction, began)
    metrics = reconstruction.warehouse.last_commit("gold", reconstruction.target).metrics
    rejected = sum(each.changes for each in entered) + lost
    return Filled(int(metrics.get("numOutputRows") or 0), rejected)


def note_rewritten(
    reconstruction: Reconstruction, known: ProgressByTarget, last_baseless: Mapping[str, Pos]
) -> None:
    """Raise the watermarks so that they hold for the old rows and for those that history makes, and
    record them.

    `last_baseless`: by label. Positions that cannot be compared are recorded afterwards, by
    `note_reordered`.
    """
    progress = known.get((reconstruction.source, reconstruction.target))
    if progress is None:
        return
    noted = {}
    for batch in reconstruction.batches:
        label = batch.projection.label
        before = progress.watermarks.get(label)
        if before is None:
            continue
        both = watermarks_of_both(before, batch, last_baseless=last_baseless.get(label))
        if both is not None:
            noted[label] = both
    if noted.items() - progress.watermarks.items():
        record_progress(reconstruction.warehouse, [progress.with_watermarks(noted)], known)


def note_reordered(reconstruction: Reconstruction, known: ProgressByTarget) -> None:
    """Record the positions of the target's rows, once history has made them."""
    progress = known[reconstruction.source, reconstruction.target]
    if reordered(reconstruction, progress):
        anew = {b.projection.label: watermarks_of_history(b) for b in reconstruction.batches}
        record_progress(reconstruction.warehouse, [progress.with_watermarks(anew)], known)


def reordered(reconstruction: Reconstruction, progress: Progress) -> bool:
    """Whether rows may have other positions than the target's progress remembers, because columns
    of the rows order them now, or did before."""
    before = progress.contract.sequence if progress.contract is not None else ()
    return bool(before or reconstruction.contract.sequence)


def applied_history(ledger: Ledger, route: Route) -> Reconstruction | None:
    """What history makes of everything that the target has applied; None if it has applied
    nothing."""
    progress = ledger.progress(route.target)
    target = known_targets(ledger.warehouse).fed.get(route.target)
    if progress is None or not progress.last_batch or target is None:
        return None
    check_made_for(route, progress.contract)
    check_excluded(route, columns_of(ledger.warehouse, route.target) or ())
    return as_applied(ledger.warehouse, target, progress)


def backfill(ledger: Ledger, route: Route) -> bool:
    """Fold the target's rows again, in its own mode; False if there are none."""
    history = applied_history(ledger, route)
    if history is None:
        return False
    with history as reconstruction:
        overwrite(reconstruction, ledger.progress_by_target)
        note_reordered(reconstruction, ledger.progress_by_target)
    return True


def check_new_key(ledger: Ledger, entry: Entry, route: Route) -> None:
    """Raise TableError if changes from before a change of the key do not say which row they are of
    by the new key: folded by it, one row's delete would remove another row.

    They do say it if the old key is part of the new one.
    """
    keys = [change.keys for change in only(ChangeKey, entry.effects)]
    if not keys or entry.recreates or not declared_keeping(route).keyed:
        return
    present = lowered(columns_of(ledger.warehouse, route.target) or {})
    shard = (route.shard_column or "").lower()
    old = [k for k in keys_of(ledger.warehouse, route.target) if k.lower() != shard]
    # By the names that the target has: a killed approval may have renamed the columns already.
    before = {
        rename.new.lower(): rename.old.lower()
        for rename in only(RenameColumn, entry.effects)
        if rename.old.lower() in present
    }
    later = changes_behind(entry, ledger.of(entry.table))
    named = (key.lower() for key in keys[-1] if key.lower() != shard)
    new = [before.get(name) or (name_today(name, later) or name).lower() for name in named]
    if lowered(old) <= set(new):
        return
    way = (
        f"`ingest ddl reject` keeps ({', '.join(old)}); for ({', '.join(keys[-1])}), take a new "
        f"snapshot of the source's table into a target of another name"
    )
    lacking = [name for name in new if name not in present]
    if lacking:
        raise TableError(
            f"expected values of the new key's {', '.join(lacking)} for rows of {route.target} "
            f"from before, got none: no change says which they were given; {way}"
        )
    emptied = not declared_keeping(route).versions
    for table in (entry.table, *others(ledger, entry)):
        batch = all_of(ledger, route, table)
        if batch is None:
            continue
        below = entry.pos if table == entry.table else None
        row = ledger.warehouse.session.sql(
            _not_told_apart(batch, new, below=below, emptied=emptied)
        ).first()
        if row is not None and (row["unknown"] or row["several"]):
            raise TableError(
                f"expected ({', '.join(keys[-1])}) to tell apart the rows that {route.target} has, "
                f"got {counted(row['several'], 'values')} of it that belong to several rows by "
                f"({', '.join(old)}), and {counted(row['unknown'], 'rows')} of which some change "
                f"lacks it; {way}"
            )


def _not_told_apart(
    batch: TableBatch, new: Sequence[str], *, below: Pos | None, emptied: bool
) -> str:
    """SQL of one row: how many values of the key `new` belonged to several keys of the target below
    a position, and how many keys have changes without it. `emptied`: nothing is left of the rows
    that truncates removed."""
    projection = batch.projection
    if batch.projection.lineage:
        # Read as it was before the change, when the columns that it removes were there.
        lineage = tuple(step for step in projection.lineage if step.pos != below)
        projection = replace(projection, lineage=lineage)
    where = below_pos(below) if below is not None else "true"
    if emptied and not batch.soft and batch.all_truncates:
        where += f" AND NOT ({batch.below_truncates('pos')})"
    changes = batch.history(f"{ROW_CHANGES} AND {where}")
    return not_told_apart(projection, changes, new=new)


def rekey(ledger: Ledger, route: Route) -> None:
    """Fold the target's rows again by its present key, which is not the key that silver has."""
    if backfill(ledger, route):
        _mark(ledger, route)


def _mark(ledger: Ledger, route: Route) -> None:
    """Note that silver's keys and hashes of earlier changes are not those of the target."""
    progress = ledger.progress_by_target[ledger.source, route.target]
    watermarks = {
        label: replace(known, key_overridden=True) for label, known in progress.watermarks.items()
    }
    record_progress(
        ledger.warehouse, [progress.with_watermarks(watermarks)], ledger.progress_by_target
    )
