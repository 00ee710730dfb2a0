"""Every change of history is in a target's fold or among its rejects.

A fold of all history leaves out what has no place in the target: a null key, a value that does not
fit its column, a partial image without base, a change without a value to order it by, a row whose
key another source table's row holds. A batch sets such changes aside as it meets them. A target
that is made anew meets them all at once, and under other columns other ones: `set_aside` enters
what is left out, before the rows are replaced, and `resolve_rejects` resolves, afterwards, what is
not left out any more. What a later truncate voids is entered by no fold, since no row lacks it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from ingest.codes import Code
from ingest.sql.casts import sql_text
from ingest.sql.delivery import MESSAGE, listed
from ingest.sql.fold import append
from ingest.sql.projection import events
from ingest.sql.sequence import place
from ingest.sql.silver import silver_changes
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.apply.set_aside import placeless, reason
from pipelines.gold.reconstruction import baseless
from pipelines.platform.warehouse import alone
from pipelines.targets.rejects import (
    BASELESS,
    CONFLICT,
    NO_MISFITS,
    as_rejects,
    create_rejects,
    present,
)

if TYPE_CHECKING:
    from pipelines.gold.reconstruction import Reconstruction

_NOT_FOLDED = (Code.LATE_BEYOND_HORIZON.value, Code.SHARD_KEY_CONFLICT.value)
"""Rejects that a fold of today's history says nothing of."""


class LeftOut(NamedTuple):
    """Changes that a fold of history leaves out, and how many of them no reject tells of."""

    changes: int = 0
    unrecorded: int = 0


def set_aside(reconstruction: Reconstruction, at: datetime) -> int:
    """Enter as rejects what the fold leaves out, or note `at` that it is still; how many changes.

    One MERGE: nothing comes to the driver, however many there are.
    """
    warehouse = reconstruction.warehouse
    create_rejects(warehouse)
    found = reconstruction.frames.view(warehouse.session.sql(_left_out(reconstruction)))
    with alone():
        warehouse.execute(
            f"""MERGE INTO {warehouse.name("gold", "_rejects")} r
USING (SELECT * EXCEPT (at), {_moment(at)} AS at FROM {found}) s ON r.id = s.id
WHEN MATCHED AND r.status = 'resolved' AND NOT s.voided THEN UPDATE SET
  status = 'open', code = s.code, error = s.error, misfits = s.misfits,
  value = s.value, at = s.at, version = r.version + 1
WHEN MATCHED AND r.status = 'open' THEN UPDATE SET at = s.at, version = r.version + 1
WHEN NOT MATCHED AND NOT s.voided THEN INSERT *"""
        )
    row = warehouse.session.sql(
        f"SELECT count(*) FROM ({present(warehouse)}) "
        f"WHERE {_of(reconstruction)} AND status = 'open' AND at = {_moment(at)}"
    ).first()
    return int(row[0]) if row is not None else 0


def resolve_rejects(reconstruction: Reconstruction, at: datetime) -> int:
    """Once the rows are replaced: enter the rows that lost their key to another source table's, and
    resolve what was open before `at` and is not left out any more. How many rows lost."""
    warehouse = reconstruction.warehouse
    if not warehouse.exists("gold", "_rejects"):
        return 0
    lost = _conflicts(reconstruction, at) if reconstruction.shared else 0
    where = f"code NOT IN ({', '.join(map(sql_text, _NOT_FOLDED))})"
    with alone():
        warehouse.execute(
            f"UPDATE {warehouse.name('gold', '_rejects')} "
            f"SET status = 'resolved', version = version + 1, at = {_moment(datetime.now(UTC))} "
            f"WHERE {_of(reconstruction)} AND status = 'open' AND at < {_moment(at)} AND {where}"
        )
    return lost


def left_out(reconstruction: Reconstruction) -> LeftOut:
    """What the fold leaves out, counted."""
    warehouse = reconstruction.warehouse
    create_rejects(warehouse)
    row = warehouse.session.sql(
        f"SELECT count(*), count_if(coalesce(r.status, 'resolved') = 'resolved') "
        f"FROM ({_left_out(reconstruction)}) s LEFT JOIN ({present(warehouse)}) r ON r.id = s.id "
        f"WHERE NOT s.voided"
    ).first()
    return LeftOut() if row is None else LeftOut(int(row[0]), int(row[1]))


def _of(reconstruction: Reconstruction) -> str:
    source, target = sql_text(reconstruction.source), sql_text(reconstruction.target)
    return f"stage = 'gold' AND source = {source} AND target = {target}"


def _moment(at: datetime) -> str:
    return f"TIMESTAMP '{at.isoformat()}'"


def _left_out(reconstruction: Reconstruction) -> str:
    """SQL of what the fold leaves out, as rows of rejects, each once, with `voided`."""
    parts = [
        part for batch in reconstruction.batches for part in _parts(reconstruction.frames, batch)
    ]
    changes = " UNION ALL ".join(f"SELECT {_LISTED} FROM ({part})" for part in parts)
    if not parts:
        changes = f"SELECT {', '.join(f'{null} AS {name}' for name, null in _NULLS)} WHERE false"
    rows = as_rejects(
        reconstruction.source, reconstruction.target, changes, misfits="misfits", more=", voided"
    )
    return f"SELECT r.* FROM (SELECT {_ONE} AS r FROM ({rows}) GROUP BY id)"


_ONE = "min_by(struct(*), struct(voided, code))"
_NULLS = (
    *(("epoch", "0L"), ("topic", "CAST(NULL AS string)")),
    *(("`partition`", "0"), ("offset", "0L"), ("`row`", "0")),
    *(("code", "''"), ("error", "''"), ("misfits", NO_MISFITS)),
    ("image", "CAST(NULL AS map<string,string>)"),
    ("voided", "false"),
)
_LISTED = ", ".join(name for name, _ in _NULLS)


def _parts(frames: Frames, batch: TableBatch) -> list[str]:
    """SQL of what one source table's fold leaves out, by reason."""
    images = append.IMAGES if batch.mode == "append" else "op <> 'truncate'"
    voided = "false"
    if batch.mode == "scd1" and not batch.soft and batch.all_truncates:
        voided = f"coalesce({batch.below_truncates('pos')}, false)"
    found = [
        f"SELECT {listed()}, {reason(batch.projection)}, image, "
        f"{voided} AS voided FROM ({events(batch.projection, batch.history(images))}) "
        f"WHERE key IS NULL OR size(misfits) > 0"
    ]
    if batch.mode != "append" and batch.total("partials"):
        found.append(
            f"SELECT {listed(names=MESSAGE)}, place AS `row`, {BASELESS}, "
            f"{NO_MISFITS} AS misfits, CAST(NULL AS map<string,string>) AS image, "
            f"false AS voided FROM ({baseless(frames, batch)})"
        )
    if batch.projection.sequence:
        where = f"batch <= {batch.last} AND {batch.only} AND ({place(batch.projection)}) IS NULL"
        if not batch.projection.truncates:
            where += " AND op <> 'truncate'"
        tables = (batch.table, *batch.later_names)
        changes = silver_changes(batch.silver, tables, where, renamed=batch.projection.aside)
        found.append(
            f"SELECT {listed()}, {placeless(batch.projection)}, "
            f"{NO_MISFITS} AS misfits, "
            f"coalesce(after, before) AS image, false AS voided "
            f"FROM ({batch.projection.seen(changes, as_sent=True)})"
        )
    return found


def _conflicts(reconstruction: Reconstruction, at: datetime) -> int:
    """Enter the rows of the fold whose key another source table's row holds now; how many.

    The newest change of each stands for it: when the other row goes, its key is folded again.
    Changes that wait already are none of the fold's, and go on waiting.
    """
    warehouse = reconstruction.warehouse
    parts = [_lost(batch) for batch in reconstruction.batches]
    changes = " UNION ALL ".join(f"SELECT {_LISTED} FROM ({part})" for part in parts)
    rows = as_rejects(
        reconstruction.source, reconstruction.target, changes, misfits="misfits", more=", voided"
    )
    rows = f"SELECT r.* FROM (SELECT {_ONE} AS r FROM ({rows}) GROUP BY id)"
    # By a name of its own: a MERGE does not read tables that its source has in a condition.
    found = reconstruction.frames.view(warehouse.session.sql(rows))
    with alone():
        done = warehouse.execute(
            f"""MERGE INTO {warehouse.name("gold", "_rejects")} r
USING (SELECT * EXCEPT (at), {_moment(at)} AS at FROM {found}) s ON r.id = s.id
WHEN MATCHED AND r.status = 'resolved' AND NOT s.voided THEN UPDATE SET
  status = 'open', code = s.code, error = s.error, misfits = NULL, at = s.at,
  version = r.version + 1
WHEN MATCHED AND r.status = 'open' THEN UPDATE SET at = s.at, version = r.version + 1
WHEN NOT MATCHED AND NOT s.voided THEN INSERT *"""
        ).first()
    return int(done["num_inserted_rows"]) if done is not None else 0


def _lost(batch: TableBatch) -> str:
    """SQL of the newest changes of the source table's keys that another's row holds, where it would
    have a row itself."""
    newest = (
        f"SELECT key, max_by(struct({listed()}, image, op), pos) AS e "
        f"FROM ({events(batch.projection, batch.history('op <> ' + sql_text('truncate')))}) "
        f"WHERE key IS NOT NULL AND size(misfits) = 0 GROUP BY key"
    )
    return (
        f"SELECT {listed('n.e')}, {CONFLICT}, "
        f"{NO_MISFITS} AS misfits, n.e.image, "
        f"false AS voided FROM ({newest}) n JOIN ({batch.held_by_others}) o ON o.key = n.key "
        f"WHERE n.e.op <> 'delete'"
    )
