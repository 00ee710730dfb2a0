"""Copies of changes that were applied before: what of a large batch is really new.

A lost checkpoint, or a topic that is sent once more, brings all that came before again. A copy says
nothing (semantics.md, 16), so it is left out before keys are judged: else each of its keys would
be folded again. One stays that stands lower than those that came before, or has the before image
that they lack (33). Where several source tables feed a target, whose rows set changes of others
aside, none is left out; and none that does not fit, which is a reject of its own.
"""

from __future__ import annotations

from ingest.identity import identity_sql
from pipelines.apply.batch import TableBatch

UNFIT = "e.key IS NULL OR size(e.misfits) > 0"


def without_copies(
    batch: TableBatch, changes: str, *, digest: str = "value_hash", keep: str = "false"
) -> str:
    """SQL of the batch's changes, rows of silver or events, without such copies.

    `digest`: the column with the hash of what happened. `keep`: SQL that is true for changes `e`
    that stay in any case.
    """
    if batch.small or batch.shared or not batch.overlaps:
        return changes
    by_arrival = batch.projection.by_arrival
    earlier = batch.earlier(f"op <> 'truncate' AND {batch.around}")
    known = (
        f"SELECT {identity_sql(by_arrival)} AS change, min(pos) AS lowest, "
        f"bool_or(before IS NOT NULL) AS joined FROM ({earlier}) GROUP BY change"
    )
    copy = "k.lowest <= e.pos AND (e.before IS NULL OR k.joined)"
    return (
        f"SELECT e.* FROM (SELECT *, {identity_sql(by_arrival, digest)} AS change "
        f"FROM ({changes})) e LEFT JOIN ({known}) k ON k.change = e.change "
        f"WHERE {keep} OR NOT coalesce({copy}, false)"
    )
