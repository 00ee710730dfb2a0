"""What silver has of a few keys, found by the hash that it keeps of each change's key.

Hashes and positions are read from all of history, images only from the batches that hold what is
wanted. Silver has no hash where a change moves its key, or does not tell it. Different keys may
have one hash: so it says where to look, and which keys to fold again, which is never wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from ingest.fold import Key
from ingest.keys import hash_values
from ingest.order import SOURCE_PART, Pos
from ingest.shape import events, source_part
from pipelines.results import rows
from pipelines.survey import among
from pipelines.work import Work

_KEYS_MOST = 1_000
_HASHED_TYPES = {"string", "int", "bigint"}


class Traces(NamedTuple):
    """What silver has of some keys, by the hash of each; under None what has no hash.

    `bases`: where the newest change stands, by the source's own part of its position, that lies
    below all that the batch has of the key and seems to leave nothing of what was before; empty:
    there is none. `batches`: those that hold changes from there on. `named`: the newest position at
    which an earlier change names the key that `trace` was asked for; empty: there is none. `files`:
    how many were looked through.
    """

    bases: dict[int | None, Pos]
    batches: dict[int | None, set[int]]
    named: dict[int | None, Pos]
    files: int

    @property
    def unhashed(self) -> set[int]:
        """The batches that hold changes whose key has no hash."""
        return self.batches.get(None, set())


class Starts(NamedTuple):
    """From where on some keys are to be folded.

    `parts`: key -> the source's own part of the position of a change below which nothing bears on
    the row; empty: from the first one. `batches`: those of silver that hold what is from there on.
    `unhashed`: whether some of it has no hash. `files`: how many were looked through.
    """

    parts: dict[Key, Pos]
    batches: set[int]
    unhashed: bool
    files: int


def array_of(keys: Iterable[Key]) -> pa.Array:
    """Keys as an array of lists of text."""
    return pa.array([list(key) for key in keys], pa.list_(pa.string()))


def hashes(work: Work, keys: Collection[Key]) -> dict[Key, int] | None:
    """Silver's hash of each key; None where silver is not to be read by it."""
    shape = work.shape
    plain = all(shape.columns[name] in _HASHED_TYPES for name in shape.keys)
    if not plain or len(keys) > _KEYS_MOST or not shape.native:
        return None
    own = len(shape.keys) - (shape.shard is not None)
    return {key: hash_values(key[:own]) for key in keys}


def of_keys(known: Mapping[Key, int] | None) -> str:
    """SQL that leaves out most changes of other keys."""
    if known is None:
        return "op <> 'truncate'"
    return f"op <> 'truncate' AND ({_hash_in(known)} OR key_hash IS NULL)"


def trace(work: Work, known: Mapping[Key, int], lowest: Mapping[Key, Pos], what: str) -> Traces:
    """Look through all of silver once for some keys.

    `known`: their hashes. `lowest`: where the batch's own changes of a key begin; keys without one
    have no base. `what`: SQL of the earlier changes to look out for. Whether a base is one is seen
    when it is read (`unfounded`): it may lack a column, or not fit.
    """
    lows = _by_hash(known, {key: lowest.get(key, ())[:SOURCE_PART] for key in known})
    founding = "after_image = 'full'" + ("" if work.soft else " OR op = 'delete'")
    tops = f"""SELECT key_hash, batch, max(part) AS top,
  max(part) FILTER (WHERE founding AND part < low) AS base, max(pos) FILTER (WHERE named) AS named
FROM (SELECT /*+ BROADCAST(l) */ key_hash, batch, pos, {source_part("pos")} AS part,
    {founding} AS founding, batch <= {work.above} AND ({what}) AS named, l.part AS low
  FROM ({work.history(of_keys(known))}) LEFT JOIN {work.view(lows)} l ON l.hash = key_hash)
GROUP BY key_hash, batch"""
    found = work.warehouse.session.sql(
        f"SELECT key_hash, base, named, "
        f"transform(filter(tops, t -> base IS NULL OR t.top >= base), t -> t.batch) AS batches "
        f"FROM (SELECT key_hash, max(base) AS base, max(named) AS named, "
        f"collect_list(struct(top, batch)) AS tops FROM ({tops}) GROUP BY key_hash)"
    )
    traces = Traces({}, {}, {}, len(found.inputFiles()))
    for hash_, base, named, batches in rows(found):
        traces.bases[hash_] = tuple(base or ())
        traces.named[hash_] = tuple(named or ())
        traces.batches[hash_] = {*batches}
    return traces


def moves(work: Work, traces: Traces | None = None) -> list[tuple[Key, Key]]:
    """The changes of the key there were: the key before and after each."""
    where = work.shape.moved
    if work.shape.native:
        batches = _batches_without_hash(work) if traces is None else traces.unhashed
        if not batches:
            return []
        where += f" AND key_hash IS NULL AND {among(batches)}"
    moved = events(work.shape, work.history(where))
    found = work.warehouse.session.sql(
        f"SELECT DISTINCT key_before, key FROM ({moved}) "
        f"WHERE key IS NOT NULL AND key_before IS NOT NULL"
    )
    return [(tuple(before), tuple(key)) for before, key in rows(found)]


def named_above(work: Work, doubtful: pa.Table, what: str, traces: Traces | None) -> set[Key]:
    """Those of the keys (`key`, `pos`) that an earlier change names above that position: one that
    moves its key, or for which the SQL `what` is true, which `traces` were asked for."""
    found: set[Key] = set()
    narrowed = "true"
    if traces is not None:
        lowest = {
            tuple(key): tuple(pos)
            for key, pos in zip(
                doubtful["key"].to_pylist(), doubtful["pos"].to_pylist(), strict=True
            )
        }
        known = hashes(work, lowest) or {}
        found = {key for key, pos in lowest.items() if traces.named.get(known[key], ()) > pos}
        if not traces.unhashed:
            return found
        narrowed = f"key_hash IS NULL AND {among(traces.unhashed)}"
    earlier = events(work.shape, work.earlier(f"{narrowed} AND ({what} OR {work.shape.moved})"))
    both = "explode(IF(key_before IS NULL, array(key), array(key, key_before)))"
    named = work.warehouse.session.sql(
        f"SELECT DISTINCT d.key FROM {work.view(doubtful)} d JOIN "
        f"(SELECT {both} AS key, pos FROM ({earlier})) r ON r.key = d.key AND r.pos > d.pos"
    )
    return found | {tuple(key) for (key,) in rows(named)}


def starts(traces: Traces, known: Mapping[Key, int]) -> Starts:
    """Where the fold of keys that were traced may start."""
    return Starts(
        parts={key: traces.bases.get(hash_, ()) for key, hash_ in known.items()},
        batches=traces.unhashed.union(*(traces.batches.get(h, ()) for h in known.values())),
        unhashed=bool(traces.unhashed),
        files=traces.files,
    )


def since(work: Work, known: Mapping[Key, int], begun: Starts) -> str:
    """SQL of the changes from the starts on, and of all those without a hash.

    Where each has one its key is known without the image before it, which is then not read.
    """
    begin = _by_hash(known, begun.parts)
    changes = work.history(f"{among(begun.batches)} AND {of_keys(known)}")
    read = "c.*"
    if not begun.unhashed:
        read = "c.* EXCEPT (before), CAST(NULL AS map<string, string>) AS before"
    return (
        f"SELECT /*+ BROADCAST(b) */ {read} FROM ({changes}) c "
        f"LEFT JOIN {work.view(begin)} b ON b.hash = c.key_hash "
        f"WHERE b.hash IS NULL OR {source_part('c.pos')} >= b.part"
    )


def not_below(read: pa.Table, begun: Starts) -> list[bool]:
    """Of each change that was read, whether it is not below the start of its key.

    Those without a hash are read whatever their position.
    """
    placed = zip(read["key"].to_pylist(), read["pos"].to_pylist(), strict=True)
    return [tuple(pos[:SOURCE_PART]) >= begun.parts[tuple(key)] for key, pos in placed]


def unfounded(read: pa.Table, begun: Starts, *, soft: bool) -> set[Key]:
    """The keys whose changes, as far as they were `read`, begin neither at the first there was nor
    with one that leaves nothing of what was before."""
    columns = ("key", "pos", "op", "partial", "lacks")
    first: dict[Key, tuple[Pos, bool]] = {}
    for row in zip(*(read[name].to_pylist() for name in columns), strict=True):
        key, pos, op, partial, lacks = row
        leaves_nothing = not soft if op == "delete" else not partial and not lacks
        this = (tuple(pos), leaves_nothing)
        first[tuple(key)] = min(first.get(tuple(key), this), this)
    nothing: tuple[Pos, bool] = ((), False)
    return {key for key, part in begun.parts.items() if part and not first.get(key, nothing)[1]}


def _by_hash(known: Mapping[Key, int], parts: Mapping[Key, Pos]) -> pa.Table:
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


def _hash_in(known: Mapping[Key, int]) -> str:
    return f"key_hash IN ({', '.join(map(str, sorted({*known.values()})))})"


def _batches_without_hash(work: Work) -> set[int]:
    """The batches of silver that hold changes whose key has no hash."""
    changes = work.history("op <> 'truncate' AND key_hash IS NULL")
    found = work.warehouse.session.sql(f"SELECT DISTINCT batch FROM ({changes})")
    return {batch for (batch,) in rows(found)}
