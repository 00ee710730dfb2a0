"""Where silver has what bears on a few keys, found by the hash that it keeps of each change's key.

Hashes and positions are read from the newest batches backwards, and no further than something may
still be found: `Watermarks.batch_high_positions` tells up to which position silver's batches reach.
So a key that was changed of late costs the same whatever the length of history. Different keys may
have one hash: so it says where to look, and which keys to fold again, which is never wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from ingest.decode.keys import hash_values
from ingest.fold.fold import Key
from ingest.position import SOURCE_PART, Pos, source_part
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.platform.rows import rows
from pipelines.silver.pending import among

_KEYS_MOST = 1_000
_HASHED_TYPES = {"string", "tinyint", "smallint", "int", "bigint"}
"""With decimals, the types of which all texts of one value have one hash."""
FIRST_SPAN = 4
"""How many batches are looked through first."""


class PriorImages(NamedTuple):
    """What silver has of some keys, by the hash of each.

    `bases`: the position of the newest change, by the source's own part of its position, that lies
    below the key's bound and seems to leave nothing of what was before; empty: there is none.
    `batches`: those that hold changes from there on, and how many in all. `named`: the newest
    position at which an earlier change names the key that `find_prior_images` was asked for.
    `searched`: the keys whose base, if there is one, is known. `unhashed`: the batches that hold
    changes whose key has no hash, and how many. `files`: how many were looked through.
    """

    bases: dict[int, Pos]
    batches: dict[int, dict[int, int]]
    named: dict[int, Pos]
    searched: set[Key]
    unhashed: dict[int, int]
    files: int


class Span(NamedTuple):
    """Batches, and the highest position that changes of earlier ones may have; None: any."""

    batches: range
    top: Pos | None


def hashes(batch: TableBatch, keys: Collection[Key]) -> dict[Key, int] | None:
    """Silver's hash of each key; None where silver is not to be read by it."""
    projection = batch.projection
    types = [projection.columns[name] for name in projection.keys]
    plain = all(type_ in _HASHED_TYPES or type_.startswith("decimal") for type_ in types)
    if not plain or len(keys) > _KEYS_MOST or not projection.native:
        return None
    own = len(projection.keys) - (projection.shard is not None)
    return {key: hash_values(key[:own]) for key in keys}


def of_keys(known: Mapping[Key, int] | None) -> str:
    """SQL that leaves out most changes of other keys."""
    if known is None:
        return "op <> 'truncate'"
    return f"op <> 'truncate' AND ({_hash_in(known.values())} OR key_hash IS NULL)"


def by_hash(known: Mapping[Key, int], parts: Mapping[Key, Pos]) -> pa.Table:
    """`hash` and `part`, the lowest where keys have one hash."""
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
    """The batches of silver that hold changes whose key has no hash, as the change changes it or
    does not name it; and how many each holds."""
    if not batch.watermarks.unhashed and not batch.total("unhashed"):
        return {}
    changes = batch.history("op <> 'truncate' AND key_hash IS NULL")
    found = frames.sql(f"SELECT batch, count(*) FROM ({changes}) GROUP BY batch")
    return {of_batch: number for of_batch, number in rows(found)}


def find_prior_images(
    frames: Frames,
    batch: TableBatch,
    known: Mapping[Key, int],
    *,
    below: Mapping[Key, Pos] | None,
    doubts: Mapping[Key, Pos] | None = None,
    what: str = "false",
) -> PriorImages:
    """Look through silver for some keys, once at most.

    `known`: their hashes. `below`: below which position a key's base is to lie; keys without one
    have no base; None: none is wanted. `doubts`: keys that matter only where an earlier change (SQL
    `what`) names them above a position. Whether a base is one is seen when it is read
    (`late_history.unfounded`): it may lack a column, or not fit.
    """
    doubts = doubts or {}
    found = PriorImages({}, {}, {}, set(), without_hash(frames, batch), 0)
    hits: dict[int, list[tuple[Pos, int, int]]] = {}
    files, pending = 0, set(known)
    for span in spans(batch.watermarks.batch_high_positions, batch.above, batch.last):
        wanted = {key: known[key] for key in pending}
        parts = {key: (below or {}).get(key, ())[:SOURCE_PART] for key in wanted}
        files += _look(
            frames, batch, wanted, parts=parts, span=span, what=what, found=found, hits=hits
        )
        for key in list(pending):
            base, named = found.bases.get(known[key], ()), found.named.get(known[key], ())
            if span.top is None or (base and base > span.top[:SOURCE_PART]):
                found.searched.add(key)
                pending.remove(key)
            elif key in doubts:
                # One that is named above its position is late, and needs its base.
                late = named > doubts[key]
                if below is None if late else span.top <= doubts[key]:
                    pending.remove(key)
        if not pending:
            break
    for hash_, listed in hits.items():
        base = found.bases.get(hash_, ())
        found.batches[hash_] = {number: n for top, number, n in listed if top >= base}
    return found._replace(files=files)


def spans(high_positions: Sequence[tuple[int, Pos]], above: int, last: int) -> Iterator[Span]:
    """The batches up to `last`, the newest first; each span is as long as all before it.

    `high_positions` as in `Watermarks`; those of the batches above `above` are not known yet.
    """
    ends = [end for end in high_positions if end[0] <= above]
    length, passed = FIRST_SPAN, 0
    while len(ends) > length:
        batch, top = ends[-length]
        yield Span(range(batch + 1, last + 1), top)
        passed += length
        last, length, ends = batch, passed, ends[:-length]
    yield Span(range(1, last + 1), None)


def _look(
    frames: Frames,
    batch: TableBatch,
    known: Mapping[Key, int],
    *,
    parts: Mapping[Key, Pos],
    span: Span,
    what: str,
    found: PriorImages,
    hits: dict[int, list[tuple[Pos, int, int]]],
) -> int:
    """Add what a span has of the keys to `found` and to `hits`: of each batch its highest position,
    its number and how many changes it has."""
    founding = "after_image = 'full'" + ("" if batch.soft else " OR op = 'delete'")
    where = f"op <> 'truncate' AND {among(span.batches)} AND {_hash_in(known.values())}"
    changes = frames.sql(
        f"""SELECT key_hash, batch, count(*) AS n, max(part) AS top,
  max(part) FILTER (WHERE founding AND part < low) AS base, max(pos) FILTER (WHERE named) AS named
FROM (SELECT /*+ BROADCAST(l) */ key_hash, batch, pos, {source_part("pos")} AS part,
    {founding} AS founding, batch <= {batch.above} AND ({what}) AS named, l.part AS low
  FROM ({batch.history(where)}) JOIN {frames.view(by_hash(known, parts))} l ON l.hash = key_hash)
GROUP BY key_hash, batch"""
    )
    for hash_, of_batch, number, top, base, named in rows(changes):
        hits.setdefault(hash_, []).append((tuple(top), of_batch, number))
        found.bases[hash_] = max(found.bases.get(hash_, ()), tuple(base or ()))
        found.named[hash_] = max(found.named.get(hash_, ()), tuple(named or ()))
    return len(changes.inputFiles())


def _hash_in(found: Collection[int]) -> str:
    return f"key_hash IN ({', '.join(map(str, sorted({*found})))})"


def based(batch: TableBatch) -> bool:
    """Whether rows are what a whole image and the changes above it make them, nothing else.

    Not where a partial image further down may turn out to have no base: that is recorded.
    """
    partials = batch.watermarks.partials or batch.partial
    if batch.watermarks.last_baseless is not None or (batch.all_truncates and partials):
        return False
    return (
        batch.mode == "scd1" and not batch.projection.by_arrival and not batch.projection.sequence
    )
