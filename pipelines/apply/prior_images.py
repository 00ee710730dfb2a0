"""The image that the fold of a late key can start from, found without reading the key's history.

A late key is folded again from silver. Most of its history does not matter: a whole image (or a
hard delete) leaves nothing of what was before, so the fold can start at the newest one below the
batch's own events. That one is the key's *base*.

Silver keeps a hash of each change's key. To find the base, only hashes and positions are read, from
the newest batches backwards, until nothing more can turn up: `Watermarks.batch_high_positions` says
which positions the batches before some batch can reach. So the cost depends on how long ago the key
was changed, not on how long its history is. Two keys may share a hash; then too much is read, or
one key too many is folded again, and the result is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from ingest.decode.keys import hash_values
from ingest.fold.fold import Key
from ingest.position import SOURCE_PART, Pos, may_follow
from ingest.sql.casts import INTEGERS
from ingest.sql.fold import late_history
from ingest.sql.fold.late_history import UNHASHED, by_batch, of_hashes
from ingest.sql.silver import ROW_CHANGES, among
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.platform.rows import rows

_KEYS_MOST = 1_000
_HASHED_TYPES = {"string", *INTEGERS}
"""With decimals, the types for which all texts of one value have one hash."""
FIRST_SPAN = 4
"""How many batches are searched first."""


class PriorImages(NamedTuple):
    """What silver has of some keys, by the hash of each.

    `bases`: the source's part of the position of the base; empty if there is none. `batches`:
    the batches that hold changes from the base on, with the number of changes in each. `named`: the
    newest position at which an earlier change names the key, of the changes that
    `find_prior_images` was asked for. `searched`: the keys for which the search came to its end: a
    base that is not found does not exist. `unhashed`: the batches that hold changes without a hash,
    with the number of such changes in each. `files`: how many files were read.
    """

    bases: dict[int, Pos]
    batches: dict[int, dict[int, int]]
    named: dict[int, Pos]
    searched: set[Key]
    unhashed: dict[int, int]
    files: int


class Span(NamedTuple):
    """Some batches, and the highest position that a change in an earlier batch can have; None: no
    limit is known."""

    batches: range
    top: Pos | None


def hashes(batch: TableBatch, keys: Collection[Key]) -> dict[Key, int] | None:
    """Silver's hash of each key; None if silver cannot be searched by it."""
    projection = batch.projection
    types = [projection.columns[name] for name in projection.keys]
    plain = all(type_ in _HASHED_TYPES or type_.startswith("decimal") for type_ in types)
    others = projection.masks_key or not projection.native
    if not plain or len(keys) > _KEYS_MOST or others:
        return None
    own = len(projection.keys) - (projection.shard is not None)
    return {key: hash_values(key[:own]) for key in keys}


def by_hash(known: Mapping[Key, int], parts: Mapping[Key, Pos]) -> pa.Table:
    """A table of `hash` and `part`, a position of each key; where keys share a hash, the lowest."""
    lowest: dict[int, Pos] = {}
    for key, part in parts.items():
        lowest[known[key]] = min(part, lowest.get(known[key], part))
    return pa.table(
        {
            "hash": pa.array(lowest, pa.int64()),
            "part": pa.array(map(list, lowest.values()), pa.list_(pa.int64())),
        }
    )


def without_hash(frames: Frames, batch: TableBatch) -> dict[int, int]:
    """The batches of silver that hold changes without a hash of the key, with the number of such
    changes in each: changes that name no key, or give a row another one."""
    if not batch.watermarks.unhashed and not batch.total("unhashed"):
        return {}
    found = frames.sql(by_batch(batch.history(f"{ROW_CHANGES} AND {UNHASHED}")))
    return {of_batch: number for of_batch, number in rows(found)}


def find_prior_images(
    frames: Frames,
    batch: TableBatch,
    known: Mapping[Key, int],
    *,
    below: Mapping[Key, Pos] | None,
    doubts: Mapping[Key, Pos] | None = None,
    overtaking: str = "false",
) -> PriorImages:
    """Look for the bases of some keys, reading no batch twice.

    `known`: the hash of each key. `below`: the position that each key's base has to lie below; a
    key without one gets no base, and None means that bases are not wanted at all. `doubts`: the
    doubtful keys, each with a position: the search for one ends once it is known whether an earlier
    change that may overtake it (SQL `overtaking`) names it above that position.

    A base that is found is a candidate: it may lack a column or hold a value that does not fit,
    which shows when its image is read (`late_history._unfounded`).
    """
    doubts, by_arrival = doubts or {}, batch.projection.by_arrival
    seen, searched, pending = _Seen(), set[Key](), set(known)
    unhashed = without_hash(frames, batch)
    for span in spans(batch.watermarks.batch_high_positions, batch.above, batch.last):
        wanted = {key: known[key] for key in pending}
        parts = {key: (below or {}).get(key, ())[:SOURCE_PART] for key in wanted}
        _look(frames, batch, by_hash(wanted, parts), span=span, overtaking=overtaking, seen=seen)
        for key in list(pending):
            base, named = seen.bases.get(known[key], ()), seen.named.get(known[key], ())
            if span.top is None or (base and base > span.top[:SOURCE_PART]):
                searched.add(key)
                pending.remove(key)
            elif key in doubts and named and may_follow(named, doubts[key], by_arrival=by_arrival):
                # A change names the key above its position, so it is late: only its base is needed.
                if below is None:
                    pending.remove(key)
            elif key in doubts and not may_follow(span.top, doubts[key], by_arrival=by_arrival):
                pending.remove(key)
        if not pending:
            break
    batches = {
        hash_: {number: n for top, number, n in listed if top >= seen.bases.get(hash_, ())}
        for hash_, listed in seen.batches.items()
    }
    return PriorImages(seen.bases, batches, seen.named, searched, unhashed, seen.files)


def spans(high_positions: Sequence[tuple[int, Pos]], above: int, last: int) -> Iterator[Span]:
    """The batches up to `last` in spans, the newest first. Each span is as long as all spans before
    it together.

    `high_positions`: as `Watermarks.batch_high_positions`, which knows nothing yet of the batches
    above `above`.
    """
    ends = [end for end in high_positions if end[0] <= above]
    length, passed = FIRST_SPAN, 0
    while len(ends) > length:
        batch, top = ends[-length]
        yield Span(range(batch + 1, last + 1), top)
        passed += length
        last, length, ends = batch, passed, ends[:-length]
    yield Span(range(1, last + 1), None)


@dataclass
class _Seen:
    """What was read so far, by hash of a key; see PriorImages. `batches`: for each batch its
    highest position, its number and how many changes it has."""

    bases: dict[int, Pos] = field(default_factory=dict)
    named: dict[int, Pos] = field(default_factory=dict)
    batches: dict[int, list[tuple[Pos, int, int]]] = field(default_factory=dict)
    files: int = 0


def _look(
    frames: Frames, batch: TableBatch, sought: pa.Table, *, span: Span, overtaking: str, seen: _Seen
) -> None:
    """Read a span for the keys sought, each with the position that its base has to lie below."""
    of_these = of_hashes(sought["hash"].to_pylist())
    changes = frames.sql(
        late_history.prior_images(
            batch.history(f"{ROW_CHANGES} AND {among(span.batches)} AND {of_these}"),
            frames.view(sought),
            soft=batch.soft,
            above=batch.above,
            overtaking=overtaking,
        )
    )
    for hash_, of_batch, number, top, base, named in rows(changes):
        seen.batches.setdefault(hash_, []).append((tuple(top), of_batch, number))
        seen.bases[hash_] = max(seen.bases.get(hash_, ()), tuple(base or ()))
        seen.named[hash_] = max(seen.named.get(hash_, ()), tuple(named or ()))
    seen.files += len(changes.inputFiles())


def based(batch: TableBatch) -> bool:
    """Whether a row of the target depends only on a whole image and the changes above it, so that
    its fold may start there.

    It must not start there if a partial image further down could turn out to have no base: that is
    an entry among the rejects, which only a fold of everything makes.
    """
    partials = batch.watermarks.partials or batch.partial
    if batch.watermarks.last_baseless is not None or (batch.all_truncates and partials):
        return False
    return batch.keeps.latest and not batch.projection.by_arrival and not batch.projection.sequence
