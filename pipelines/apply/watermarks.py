"""What gold remembers of a source table once a batch of it is applied."""

from __future__ import annotations

from dataclasses import replace

from ingest.position import Pos, highest, outermost
from pipelines.apply.batch import TableBatch
from pipelines.targets.progress import Watermarks


def watermarks_after(
    batch: TableBatch, *, unwritten: bool, partial: bool, last_baseless: Pos | None = None
) -> Watermarks:
    """What gold remembers of the source table after the batch.

    `unwritten`: some change may not have been written because it changed nothing; `partial`: some
    image left columns as they were; `last_baseless`: the highest position of a partial image
    without base.
    """
    before = batch.watermarks
    named = any(stats.keyless or stats.key_columns for stats in batch.stats)
    applied = highest([before.applied, batch.highest])
    truncates = {**batch.earlier_truncates, **batch.new_truncates}
    if batch.keeps.latest and not batch.soft:
        # Rows that a truncate took leave nothing; elsewhere each tells when some ended.
        last = outermost(truncates, by_arrival=batch.projection.by_arrival)
        truncates = {pos: truncates[pos] for pos in last}
    return replace(
        before.with_truncates(truncates),
        applied=applied,
        batch_high_positions=before.high_positions_after(batch.above, batch.last, applied),
        last_removal=highest([before.last_removal, batch.last_removal]),
        last_noop=highest([before.last_noop, batch.highest]) if unwritten else before.last_noop,
        partials=before.partials or partial,
        last_baseless=highest([before.last_baseless, last_baseless]),
        unhashed=before.unhashed or bool(batch.total("unhashed")),
        changes=batch.history_changes,
        widest=batch.widest,
        spellings=batch.spellings,
        key_overridden=before.key_overridden or (named and not batch.projection.native),
    )
