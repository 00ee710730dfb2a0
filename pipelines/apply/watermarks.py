"""What gold remembers of a source table once changes of it are applied, in every mode."""

from __future__ import annotations

from dataclasses import replace

from ingest.position import Pos, highest, outermost
from pipelines.apply.batch import TableBatch
from pipelines.targets.progress import Watermarks


def applied_watermarks(batch: TableBatch) -> Watermarks:
    """The watermarks after a batch, as far as they do not depend on the mode: how far the source
    table is applied, and what its changes were like."""
    return replace(
        batch.watermarks,
        applied=highest([batch.watermarks.applied, batch.highest]),
        changes=batch.history_changes,
        widest=batch.widest,
        spellings=batch.spellings,
    )


def watermarks_after(
    batch: TableBatch, *, unwritten: bool, partial: bool, last_baseless: Pos | None = None
) -> Watermarks:
    """The watermarks after a batch of rows with keys.

    `unwritten`: some change may not have been written because it changed nothing. `partial`: some
    image left columns as they were. `last_baseless`: the highest position of a partial image
    without a base.
    """
    before, after = batch.watermarks, applied_watermarks(batch)
    named = any(stats.keyless or stats.key_columns for stats in batch.stats)
    truncates = {**batch.earlier_truncates, **batch.new_truncates}
    if batch.keeps.latest and not batch.soft:
        # Rows that a truncate removed leave nothing; in other targets each truncate tells when some
        # rows ended.
        last = outermost(truncates, by_arrival=batch.projection.by_arrival)
        truncates = {pos: truncates[pos] for pos in last}
    return replace(
        after.with_truncates(truncates),
        batch_high_positions=before.high_positions_after(batch.above, batch.last, after.applied),
        last_removal=highest([before.last_removal, batch.last_removal]),
        last_noop=highest([before.last_noop, batch.highest]) if unwritten else before.last_noop,
        partials=before.partials or partial,
        last_baseless=highest([before.last_baseless, last_baseless]),
        unhashed=before.unhashed or bool(batch.total("unhashed")),
        key_overridden=before.key_overridden or (named and not batch.projection.native),
    )


def watermarks_of_history(batch: TableBatch) -> Watermarks:
    """The watermarks of a source table whose changes have other positions than before, from the
    batch that is its whole history. What cannot be told is assumed to be the case in which most
    counts as late."""
    after = applied_watermarks(batch)
    partials = bool(batch.total("partials"))
    return replace(
        after.with_truncates(batch.new_truncates),
        last_removal=batch.last_removal,
        last_noop=after.applied,
        partials=partials or batch.partial,
        last_baseless=after.applied if partials else None,
        key_overridden=key_overridden(batch),
        unhashed=bool(batch.total("unhashed")),
    )


def watermarks_of_both(
    known: Watermarks, batch: TableBatch, *, last_baseless: Pos | None
) -> Watermarks | None:
    """Watermarks that hold both for the rows that `known` is about and for those that the batch, a
    whole history, makes; None if the positions of the two cannot be compared.

    Under another key other changes move a row, and under other columns other changes change nothing
    and other partial images lack a base (`last_baseless`). And images may spell a column in several
    ways that the target did not have when they were applied.
    """
    top = batch.highest
    if known.applied is not None and top is not None and len(known.applied) != len(top):
        return None
    return replace(
        known.with_baseless(last_baseless),
        last_removal=highest([known.last_removal, batch.last_removal]),
        last_noop=known.applied if batch.keeps.versions else known.last_noop,
        spellings=tuple(sorted({*known.spellings, *batch.spellings})),
    )


def key_overridden(batch: TableBatch) -> bool:
    """Whether the target's key is not the one that silver has for the source table; the batch is
    its whole history."""
    return bool(batch.projection.keys) and not batch.projection.native
