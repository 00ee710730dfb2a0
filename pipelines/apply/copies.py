"""Copies of changes that were applied before, left out of a large batch.

After a lost checkpoint, or when a topic is sent once more, everything comes again. A copy says
nothing new (semantics.md, 16), so it is left out before keys are judged; otherwise each of its keys
would be folded again. Some copies stay: those that stand lower than the change that came before,
those that have the before image which it lacks (33), and those that do not fit, each of which is a
reject of its own. None is left out if several source tables feed the target, since the rows of one
set changes of the others aside.
"""

from __future__ import annotations

from ingest.sql.fold import late_keys
from ingest.sql.silver import ROW_CHANGES
from pipelines.apply.batch import TableBatch

UNFIT = "c.key IS NULL OR size(c.misfits) > 0"


def without_copies(
    batch: TableBatch, changes: str, *, digest: str = "value_hash", kept: str = "false"
) -> str:
    """SQL of the batch's changes, rows of silver or events, without such copies.

    `digest`: the column with the hash of what happened. `kept`: SQL that is true for changes `c`
    that stay in any case.
    """
    if batch.small or batch.shared or not batch.overlaps:
        return changes
    earlier = batch.earlier(f"{ROW_CHANGES} AND {batch.around}")
    by_arrival = batch.projection.by_arrival
    return late_keys.without_copies(
        changes, earlier, by_arrival=by_arrival, digest=digest, kept=kept
    )
