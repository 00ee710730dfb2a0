"""What silver has of a few keys: images are read only from the batches that hold what is wanted,
which `pipelines.traces` finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from ingest.fold import Key
from ingest.order import SOURCE_PART, Pos
from ingest.shape import events, source_part
from pipelines.results import rows
from pipelines.survey import among
from pipelines.traces import Traces, by_hash, hashes, of_keys, places, without_hash
from pipelines.work import Work


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


def moves(work: Work, traces: Traces | None = None) -> list[tuple[Key, Key]]:
    """The changes of the key there were: the key before and after each."""
    where = work.shape.moved
    if work.shape.native:
        batches = without_hash(work) if traces is None else traces.unhashed
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
        lowest = places(doubtful)
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

    Where each has one no key was moved: what tells of that is then not read.
    """
    begin = by_hash(known, begun.parts)
    changes = work.history(f"{among(begun.batches)} AND {of_keys(known)}")
    read = "c.*"
    if not begun.unhashed:
        nothing = "CAST(NULL AS map<string, string>)"
        read = f"c.* EXCEPT (before, key_before, tx_id), {nothing} AS before"
        read += f", {nothing} AS key_before, CAST(NULL AS string) AS tx_id"
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
