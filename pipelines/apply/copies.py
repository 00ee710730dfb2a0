"""Copies of changes that were applied before: what of a large batch is really new.

A lost checkpoint, or a topic that is sent once more, brings all that came before again. A copy says
nothing (semantics.md, 16), so it is left out before keys are judged: else each of its keys would
be folded again. One stays that stands lower than those that came before, or has the before image
that they lack (33). Where several source tables feed a target, whose rows set changes of others
aside, none is left out; and none that does not fit, which is a reject of its own.
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
