"""Every change of history is in a target's fold or among its rejects.

A fold of all history leaves out what has no place in the target: a NULL key, a value that does not
fit its column, a partial image without a base, a change without a value to order it by, a row whose
key another source table's row holds. A batch sets such changes aside as it meets them. A target
that is made anew meets them all at once, and under other columns they may be others. So
`enter_left_out` enters what is left out before the rows are replaced, and `resolve_rejects`
resolves afterwards what is no longer left out. No fold enters what a later truncate voids, since no
row lacks it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from ingest.codes import Code
from ingest.position import Pos
from ingest.sql.fold import append
from ingest.sql.fold.late_keys import highest, of_kinds
from ingest.sql.fold.reconstruction import keys_of_partial_images
from ingest.sql.projection import events
from ingest.sql.query import select
from ingest.sql.rejects import left_out as texts
from ingest.sql.rejects import reasons
from ingest.sql.silver import ROW_CHANGES
from pipelines.apply.batch import TableBatch
from pipelines.apply.exact import folded_history
from pipelines.apply.frames import Frames
from pipelines.apply.merge import run_merge
from pipelines.apply.modes import KEYED
from pipelines.apply.rejects import missing_order_key
from pipelines.gold.reconstruction import Reconstruction
from pipelines.platform.rows import rows
from pipelines.platform.session import SOURCE_SET_DOWN, having
from pipelines.platform.upserts import alone
from pipelines.targets.rejects import create_rejects, table_of

_TRIMMED = Code.LATE_BEYOND_HORIZON.value
"""A fold of what is left of history says nothing about rejects with this code."""
_CLAIM = Code.SHARD_KEY_CONFLICT.value
"""Nor about these, if it leaves them out (`Reconstruction.leaves_out_claims`)."""


class Entered(NamedTuple):
    """How many changes are among the rejects, and by label of their source table the highest
    position of a partial image without a base."""

    changes: int
    last_baseless: dict[str, Pos]


class LeftOut(NamedTuple):
    """How many changes a fold of history leaves out, and how many of them no reject tells of."""

    changes: int = 0
    unrecorded: int = 0


def enter_left_out(reconstruction: Reconstruction, at: datetime) -> Entered:
    """Enter as rejects what the fold leaves out; for what is entered already, note `at` that it is
    still left out.

    One MERGE: no change comes to the driver, however many there are.
    """
    warehouse, frames = reconstruction.warehouse, reconstruction.frames
    create_rejects(warehouse)
    baseless = {
        batch.projection.label: frames.set_down(frames.sql(results))
        for batch in reconstruction.batches
        if (results := _baseless(frames, batch)) is not None
    }
    parts = [
        part
        for batch in reconstruction.batches
        for part in _parts(batch, baseless=baseless.get(batch.projection.label))
    ]
    source, target = reconstruction.source, reconstruction.target
    found = frames.view(frames.sql(texts.as_rows(parts, source=source, target=target)))
    # This folds all of history.
    with alone(), having(warehouse.session, SOURCE_SET_DOWN):
        statement = texts.enter(table_of(warehouse), found, at=_moment(at), misfits=True)
        warehouse.execute(statement)
    noted = texts.noted_at(table_of(warehouse), source=source, target=target, at=_moment(at))
    row = warehouse.session.sql(noted).first()
    tops = {label: rows(frames.sql(highest(results))) for label, results in baseless.items()}
    last_baseless = {label: tuple(top) for label, [(top,)] in tops.items() if top is not None}
    return Entered(int(row[0]) if row is not None else 0, last_baseless)


def resolve_rejects(reconstruction: Reconstruction, at: datetime) -> int:
    """Finish once the rows are replaced: enter the rows that lost their key to another source
    table's row, and resolve the rejects that were not noted at `at`, when it was last found out
    what is left out. Gives how many rows lost their key."""
    warehouse = reconstruction.warehouse
    if not warehouse.exists("gold", "_rejects"):
        return 0
    lost = _conflicts(reconstruction, at) if reconstruction.shared else 0
    statement = texts.resolve(
        table_of(warehouse),
        source=reconstruction.source,
        target=reconstruction.target,
        noted_at=_moment(at),
        now=_moment(datetime.now(UTC)),
        but=(_TRIMMED, _CLAIM) if reconstruction.leaves_out_claims else (_TRIMMED,),
    )
    with alone():
        warehouse.execute(statement)
    return lost


def left_out(reconstruction: Reconstruction) -> LeftOut:
    """How much the fold leaves out."""
    warehouse = reconstruction.warehouse
    create_rejects(warehouse)
    frames = reconstruction.frames
    parts = []
    for batch in reconstruction.batches:
        results = _baseless(frames, batch)
        parts += _parts(batch, baseless=f"({results})" if results is not None else None)
    found = texts.as_rows(parts, source=reconstruction.source, target=reconstruction.target)
    row = warehouse.session.sql(texts.counted(found, table_of(warehouse))).first()
    return LeftOut() if row is None else LeftOut(int(row[0]), int(row[1]))


def _moment(at: datetime) -> str:
    return f"TIMESTAMP '{at.isoformat()}'"


def _baseless(frames: Frames, batch: TableBatch) -> str | None:
    """SQL of those partial images of a source table for which its fold finds no base, as results of
    `ingest.fold.arrow`; None if it has no partial image."""
    if not batch.keeps.keyed or not batch.total("partials"):
        return None
    changes = events(batch.projection, batch.history(ROW_CHANGES))
    keys = frames.few_keys(keys_of_partial_images(changes))
    among = frames.key_view(keys) if keys is not None else None
    run = KEYED[batch.mode].history_run(batch)
    return of_kinds(folded_history(frames, batch, run, among=among), ["baseless"])


def _parts(batch: TableBatch, *, baseless: str | None) -> list[str]:
    """SQL of what the fold of one source table leaves out, by reason; `baseless`: a relation of its
    partial images without a base."""
    images = ROW_CHANGES if batch.keeps.keyed else append.IMAGES
    voided = "false"
    if batch.keeps.latest and not batch.soft and batch.all_truncates:
        voided = f"coalesce({batch.below_truncates('pos')}, false)"
    changes = events(batch.projection, batch.history(images))
    found = [texts.unfit(batch.projection, changes, voided=voided)]
    if baseless is not None:
        there = f"({select(baseless, f'NOT ({voided})')})"
        found.append(texts.not_voided(reasons.baseless(there)))
    if batch.projection.sequence:
        found.append(
            texts.not_voided(missing_order_key(batch, f"batch <= {batch.last} AND {batch.only}"))
        )
    return found


def _conflicts(reconstruction: Reconstruction, at: datetime) -> int:
    """Enter the rows of the fold whose key another source table's row holds now; gives how many.

    The newest change stands for each row: when the other row goes, its key is folded again. Changes
    that wait already are not part of the fold, and go on waiting.
    """
    warehouse = reconstruction.warehouse
    parts = [_lost(batch) for batch in reconstruction.batches]
    lost = texts.as_rows(parts, source=reconstruction.source, target=reconstruction.target)
    # Under a name of its own: a MERGE does not read tables that its source only names in a
    # condition.
    found = reconstruction.frames.view(warehouse.session.sql(lost))
    with alone():
        statement = texts.enter(table_of(warehouse), found, at=_moment(at), misfits=False)
        return run_merge(reconstruction.frames, statement)["inserted"]


def _lost(batch: TableBatch) -> str:
    """SQL of the newest change of each key of the source table that another table's row holds,
    although this change would leave a row."""
    changes = events(batch.projection, batch.history(ROW_CHANGES))
    return texts.lost(changes, batch.held_by_others, voided=batch.voided)
