"""What retention removes: decoded messages of bronze, superseded changes of silver, and gold's
notes of runs long ago. Messages of open rejects stay, since a replay decodes them from bronze.

A change of silver is removed if it is old, applied, and superseded by an old whole image or delete
of its key above it. What is left then still folds to the same table, now and as of any moment
since. Not touched are truncates, keys that changes of the key link, tables whose target keeps
versions or every change, tables that are in silver only, and tables of which something below is not
applied yet. An image also stays if it has a column that neither the later image nor the target has.
`ingest/sql/fold/superseded.py` finds these changes.

Where a table was trimmed is remembered before a row is removed (`Horizon`): a change from below it
that comes later is set aside.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import NamedTuple

from ingest.position import Pos
from ingest.sql.fold import superseded as texts
from ingest.sql.projection import events
from ingest.sql.quoting import equal
from ingest.sql.rejects.replayed import messages, undecoded, without_messages
from ingest.sql.silver import ROW_CHANGES, newest_batch, past_horizon, silver_changes
from ingest.sql.tables.rows import delete
from ingest.sql.tables.upkeep import past_progress, without_progress
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.bronze.trimmed import note_trimmed
from pipelines.gold.known_targets import KnownTarget
from pipelines.gold.reconstruction import as_applied
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.contract import made_otherwise
from pipelines.targets.progress import (
    Horizon,
    Progress,
    Watermarks,
    load_progress,
    progress_of,
    record_progress,
)
from pipelines.targets.rejects import create_rejects, table_of
from pipelines.targets.table import keep_horizons


class Past(NamedTuple):
    """Superseded changes: a relation of their coordinates, and what lies above them all."""

    rows: str
    pos: Pos
    time: int | None


def trim_bronze(warehouse: Warehouse, source: str, days: int, *, now: float) -> int:
    """Delete those messages of a source, all of them decoded, that came more than `days` before
    `now` (s since 1970), except those that a replay decodes again; gives how many there were."""
    until = now - days * 86_400
    old = f"{equal(source=source)} AND ingested_at < {_moment(until)}"
    note_trimmed(warehouse, warehouse.config.sources[source], until=until)
    bronze = warehouse.name("bronze", "messages")
    kept = _open_rejects(warehouse, source)
    statement = delete(bronze, old) if kept is None else without_messages(bronze, old, kept=kept)
    done = warehouse.execute(statement).first()
    return int(done[0]) if done is not None else 0


def _open_rejects(warehouse: Warehouse, source: str) -> str | None:
    """SQL of the messages of silver's open rejects, which a replay can get only from bronze; None
    if there are none."""
    if not warehouse.exists("silver", "cdc"):
        return None
    create_rejects(warehouse)
    silver, rejects = warehouse.name("silver", "cdc"), table_of(warehouse)
    kept = messages(undecoded(silver, rejects, source=source, code=None))
    return None if warehouse.session.sql(kept).isEmpty() else kept


def trim_runs(warehouse: Warehouse, days: int) -> int:
    """Delete the rows of runs that ended more than `days` ago; gives how many there were."""
    old = f"ended < {_ago(days)}"
    done = warehouse.execute(delete(warehouse.name("gold", "_runs"), old)).first()
    return int(done[0]) if done is not None else 0


def trim_progress(warehouse: Warehouse, days: int) -> int:
    """Delete records of progress that are older, except the newest of each source and target, which
    says how far it is; gives how many there were."""
    name = warehouse.name("gold", "_progress")
    past = past_progress(name, before=_ago(days))
    if warehouse.session.sql(past).isEmpty():
        return 0
    done = warehouse.execute(without_progress(name, past)).first()
    return int(done["num_deleted_rows"]) if done is not None else 0


def trim_target(warehouse: Warehouse, target: KnownTarget, days: int, *, now: float) -> int:
    """Delete superseded changes of a target's source tables that were decoded more than `days`
    before `now`; gives how many there were. `now` is the moment by which bronze was trimmed, so
    that no message outlives its changes."""
    progress = progress_of(warehouse, target.source, target.name)
    if not progress.batch or not warehouse.exists("gold", target.name):
        return 0
    if progress.contract is None or made_otherwise(target.route, progress.contract):
        # It may need changes that the target described by the tables file does not.
        return 0
    # The last batch stays, since silver numbers its appends by the highest batch there is.
    newest = warehouse.session.sql(newest_batch(warehouse.name("silver", "cdc"))).first()
    last = newest[0] if newest is not None else 0
    old = f"decoded_at < {_moment(now - days * 86_400)} AND batch < {last}"
    with as_applied(warehouse, target, progress) as reconstruction:
        # Horizons are positions in silver. A target ordered by `sequence_by` has others, and one
        # that keeps versions or images needs all changes: neither is trimmed.
        if not reconstruction.contract.keeps.latest or reconstruction.contract.sequence:
            return 0
        superseded = [
            (batch, past)
            for batch in reconstruction.batches
            if (past := _superseded(reconstruction.frames, batch, old)) is not None
            and not _waits(reconstruction.frames, batch, _horizon(past, progress))
        ]
        if not superseded:
            return 0
        watermarks = {
            **progress.watermarks,
            **{
                batch.projection.label: _noted(reconstruction.frames, batch, progress, past=past)
                for batch, past in superseded
            },
        }
        # Noted first: otherwise a kill in between would leave a trimmed history without a note.
        noted = progress.with_watermarks(watermarks)
        keep_horizons(warehouse, target.name, {name: m.horizons for name, m in watermarks.items()})
        record_progress(warehouse, [noted], load_progress(warehouse))
        return sum(_deleted(warehouse, batch, past) for batch, past in superseded)


def _superseded(frames: Frames, batch: TableBatch, old: str) -> Past | None:
    history = batch.history(f"{ROW_CHANGES} AND {old}")
    changes = texts.with_names_beyond(batch.projection, history)
    key_changes = events(batch.projection, batch.history(batch.projection.may_change_key))
    rows = frames.view(frames.sql(texts.superseded(changes, key_changes, soft=batch.soft)))
    top = frames.sql(texts.highest(rows)).first()
    return Past(rows, tuple(top[0]), top[1]) if top is not None and top[0] else None


def _noted(frames: Frames, batch: TableBatch, progress: Progress, *, past: Past) -> Watermarks:
    """The watermarks with the new horizon, and with those of the earlier ones that still keep
    something out."""
    watermarks = progress.watermarks.get(batch.projection.label, Watermarks())
    kept = [horizon for horizon in watermarks.horizons if _waits(frames, batch, horizon)]
    return replace(watermarks, horizons=(*kept, _horizon(past, progress)))


def _horizon(past: Past, progress: Progress) -> Horizon:
    return Horizon(past.pos, progress.last_batch, past.time)


def _waits(frames: Frames, batch: TableBatch, horizon: Horizon) -> bool:
    """Whether silver has changes of the source table that a horizon keeps out."""
    kept_out = past_horizon(horizon.pos, horizon.batch)
    return not frames.sql(silver_changes(batch.silver, batch.names, kept_out)).isEmpty()


def _deleted(warehouse: Warehouse, batch: TableBatch, past: Past) -> int:
    statement = texts.delete(batch.silver, past.rows, tables=batch.names)
    done = warehouse.execute(statement).first()
    return int(done["num_deleted_rows"]) if done is not None else 0


def _ago(days: int) -> str:
    """SQL of the time this many days ago, the same whenever it is run."""
    return _moment(time.time() - days * 86_400)


def _moment(seconds: float) -> str:
    return f"timestamp_micros({int(seconds * 1_000_000)})"
