"""The changes that late keys are folded from.

That is everything a key ever had or, if the result is the same, everything from a change on that
leaves nothing of what was before, so that the cost of a late key does not grow with its history.
What is known beforehand to be small (`TableBatch.fits_here`) comes to the driver; everything else
stays with Spark's workers. Images are read only from the batches that hold what is wanted, which
`pipelines.apply.prior_images` finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest.fold.fold import Key
from ingest.position import SOURCE_PART, Pos
from ingest.sql.fold import late_history
from ingest.sql.fold.late_history import events_of_keys, number_of, of_keys
from ingest.sql.silver import among
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.apply.late_keys import LateKeys
from pipelines.apply.linked_keys import groups_view
from pipelines.apply.prior_images import (
    PriorImages,
    based,
    by_hash,
    find_prior_images,
    hashes,
)
from pipelines.apply.rejects import without_set_aside
from pipelines.platform.rows import rows


class KeyHistory(NamedTuple):
    """Rows of `ingest.sql.projection.events` with their group (`component`), here where they are
    few; and how many files of silver were looked through for them."""

    changes: DataFrame | pa.Table
    files: int


def changes_of(frames: Frames, batch: TableBatch, late: LateKeys) -> KeyHistory:
    """The changes of the keys to fold again."""
    if late.groups is None:
        chosen = _chosen(frames, batch, late, of=batch.history(of_keys(None)))
        return KeyHistory(chosen, len(chosen.inputFiles()))
    known = hashes(batch, late.groups)
    if known is not None and based(batch):
        from_bases = _from_bases(frames, batch, late, groups=late.groups, known=known)
        if from_bases is not None:
            return from_bases
    asked = of_keys(None if known is None else known.values())
    chosen = _chosen(frames, batch, late, of=batch.history(asked))
    files = len(chosen.inputFiles())
    return KeyHistory(chosen.toArrow() if _few(frames, batch, known) else chosen, files)


def _from_bases(
    frames: Frames,
    batch: TableBatch,
    late: LateKeys,
    *,
    groups: Mapping[Key, int],
    known: Mapping[Key, int],
) -> KeyHistory | None:
    """The changes of each key from its last whole image on, and all changes of keys that turn out
    to have no such image. None if no key stands alone, or if it is too much for the driver.
    `known`: the hashes of the keys."""
    below = _alone(groups, late.start_below)
    if not below:
        return None
    prior = late.prior
    if prior is None or len(below) < len(groups) or not prior.searched >= {*groups}:
        prior = find_prior_images(frames, batch, known, below=below)
    begun = _starts(prior, known)
    if not batch.fits_here(begun.changes):
        return None
    read = _chosen(frames, batch, late, of=_since(frames, batch, known, begun=begun)).toArrow()
    read = read.filter(pa.array(_not_below(read, begun), pa.bool_()))
    baseless = _unfounded(read, begun, soft=batch.soft)
    if not baseless:
        return KeyHistory(read, begun.files)
    missed = {key: known[key] for key in baseless}
    if not _few(frames, batch, missed):
        return None
    kept = [tuple(key) not in baseless for key in read["key"].to_pylist()]
    again = groups_view(frames, {key: groups[key] for key in baseless})
    whole = batch.history(of_keys(missed.values()))
    rest = _chosen(frames, batch, late._replace(relation=again), of=whole).toArrow()
    return KeyHistory(
        pa.concat_tables([read.filter(pa.array(kept, pa.bool_())), rest]), begun.files
    )


def _few(frames: Frames, batch: TableBatch, known: Mapping[Key, int] | None) -> bool:
    """Whether the driver can take everything that silver has of some keys, by their hashes."""
    if batch.fits_here(batch.history_changes):
        return True
    if known is None:
        return False
    [(number,)] = rows(frames.sql(number_of(batch.history(of_keys(known.values())))))
    return batch.fits_here(number)


def _alone(groups: Mapping[Key, int], below: Mapping[Key, Pos]) -> dict[Key, Pos]:
    """The keys of the batch that no change links to another, each with the position below which its
    fold starts."""
    sizes = Counter(groups.values())
    alone = (key for key, number in groups.items() if sizes[number] == 1)
    return {key: below[key] for key in alone if key in below}


def _chosen(frames: Frames, batch: TableBatch, late: LateKeys, *, of: str) -> DataFrame:
    """The changes of those keys that SQL gives, each change with its group."""
    chosen = events_of_keys(
        batch.projection, of, late.relation, few=late.groups is not None, linked=late.linked
    )
    return frames.sql(without_set_aside(frames, batch, chosen, freed=late.freed))


class Starts(NamedTuple):
    """Where the folds of some keys start.

    `parts`: key -> the source's part of the position of a change; nothing below that change matters
    for the row. Empty: the key is folded from its first change on. `batches`: silver's batches that
    have changes from there on. `changes`: an upper bound on the number of these. `unhashed`:
    whether some of them have no hash. `files`: how many files were searched.
    """

    parts: dict[Key, Pos]
    batches: set[int]
    unhashed: bool
    files: int
    changes: int


def _starts(prior: PriorImages, known: Mapping[Key, int]) -> Starts:
    """Where the folds of those keys may start whose prior images were searched for."""
    per_key = [prior.batches.get(hash_, {}) for hash_ in {*known.values()}]
    return Starts(
        parts={key: prior.bases.get(hash_, ()) for key, hash_ in known.items()},
        batches={*prior.unhashed}.union(*per_key),
        unhashed=bool(prior.unhashed),
        files=prior.files,
        changes=sum(prior.unhashed.values()) + sum(sum(counts.values()) for counts in per_key),
    )


def _since(frames: Frames, batch: TableBatch, known: Mapping[Key, int], *, begun: Starts) -> str:
    """SQL of the changes from the starts on, and of all changes without a hash.

    If every change has a hash, no key was moved, and the columns that tell of that are not read.
    """
    begin = frames.view(by_hash(known, begun.parts))
    changes = batch.history(f"{among(begun.batches)} AND {of_keys(known.values())}")
    return late_history.since(changes, begin, key_changes=begun.unhashed)


def _not_below(read: pa.Table, begun: Starts) -> list[bool]:
    """For each change that was read, whether it lies at or above the start of its key.

    Changes without a hash are read whatever their position.
    """
    placed = zip(read["key"].to_pylist(), read["pos"].to_pylist(), strict=True)
    return [tuple(pos[:SOURCE_PART]) >= begun.parts[tuple(key)] for key, pos in placed]


def _unfounded(read: pa.Table, begun: Starts, *, soft: bool) -> set[Key]:
    """The keys for which the changes that were `read` begin neither with the first change that they
    ever had nor with one that leaves nothing of what was before."""
    columns = ("key", "pos", "op", "partial", "lacks")
    first: dict[Key, tuple[Pos, bool]] = {}
    for row in zip(*(read[name].to_pylist() for name in columns), strict=True):
        key, pos, op, partial, lacks = row
        leaves_nothing = not soft if op == "delete" else not partial and not lacks
        this = (tuple(pos), leaves_nothing)
        first[tuple(key)] = min(first.get(tuple(key), this), this)
    nothing: tuple[Pos, bool] = ((), False)
    return {key for key, part in begun.parts.items() if part and not first.get(key, nothing)[1]}
