"""The changes that late keys are folded from.

All that a key ever had, or, where that comes to the same, what it had from a change on that leaves
nothing of what was before: so that the cost of a late key does not grow with its history. What is
known beforehand to be little (`TableBatch.fits_here`) comes to the driver; all else stays with
Spark's workers. Images are read only from the batches that hold what is wanted, which
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
    """The changes of each key from its last whole image on, and all changes of the keys that turn
    out to have no such image; None where no key stands alone, or this is too much for the driver.
    `known`: the keys' hashes."""
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
    """Whether the driver can take all that silver has of some keys, by their hashes."""
    if batch.fits_here(batch.history_changes):
        return True
    if known is None:
        return False
    [(number,)] = rows(frames.sql(number_of(batch.history(of_keys(known.values())))))
    return batch.fits_here(number)


def _alone(groups: Mapping[Key, int], below: Mapping[Key, Pos]) -> dict[Key, Pos]:
    """The keys of the batch that no change links to another, with where they start below."""
    sizes = Counter(groups.values())
    alone = (key for key, number in groups.items() if sizes[number] == 1)
    return {key: below[key] for key in alone if key in below}


def _chosen(frames: Frames, batch: TableBatch, late: LateKeys, *, of: str) -> DataFrame:
    """The changes of the keys among those that SQL gives, each with its group."""
    chosen = events_of_keys(
        batch.projection, of, late.relation, few=late.groups is not None, linked=late.linked
    )
    return frames.sql(without_set_aside(frames, batch, chosen, freed=late.freed))


class Starts(NamedTuple):
    """From where on some keys are to be folded.

    `parts`: key -> the source's own part of the position of a change, below which nothing bears on
    the row; empty: the key is folded from its first change on. `batches`: silver's batches with
    changes from there on. `changes`: how many these are at most. `unhashed`: whether some of them
    have no hash. `files`: how many were looked through.
    """

    parts: dict[Key, Pos]
    batches: set[int]
    unhashed: bool
    files: int
    changes: int


def _starts(prior: PriorImages, known: Mapping[Key, int]) -> Starts:
    """Where the fold of keys may start of which the prior images were looked for."""
    per_key = [prior.batches.get(hash_, {}) for hash_ in {*known.values()}]
    return Starts(
        parts={key: prior.bases.get(hash_, ()) for key, hash_ in known.items()},
        batches={*prior.unhashed}.union(*per_key),
        unhashed=bool(prior.unhashed),
        files=prior.files,
        changes=sum(prior.unhashed.values()) + sum(sum(counts.values()) for counts in per_key),
    )


def _since(frames: Frames, batch: TableBatch, known: Mapping[Key, int], *, begun: Starts) -> str:
    """SQL of the changes from the starts on, and of all those without a hash.

    Where each has one no key was moved: what tells of that is then not read.
    """
    begin = frames.view(by_hash(known, begun.parts))
    changes = batch.history(f"{among(begun.batches)} AND {of_keys(known.values())}")
    return late_history.since(changes, begin, key_changes=begun.unhashed)


def _not_below(read: pa.Table, begun: Starts) -> list[bool]:
    """Of each change that was read, whether it is not below the start of its key.

    Those without a hash are read whatever their position.
    """
    placed = zip(read["key"].to_pylist(), read["pos"].to_pylist(), strict=True)
    return [tuple(pos[:SOURCE_PART]) >= begun.parts[tuple(key)] for key, pos in placed]


def _unfounded(read: pa.Table, begun: Starts, *, soft: bool) -> set[Key]:
    """The keys of which what was `read` begins neither with the first change that they had nor with
    one that leaves nothing of what was before."""
    columns = ("key", "pos", "op", "partial", "lacks")
    first: dict[Key, tuple[Pos, bool]] = {}
    for row in zip(*(read[name].to_pylist() for name in columns), strict=True):
        key, pos, op, partial, lacks = row
        leaves_nothing = not soft if op == "delete" else not partial and not lacks
        this = (tuple(pos), leaves_nothing)
        first[tuple(key)] = min(first.get(tuple(key), this), this)
    nothing: tuple[Pos, bool] = ((), False)
    return {key for key, part in begun.parts.items() if part and not first.get(key, nothing)[1]}
