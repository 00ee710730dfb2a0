"""Where silver has what bears on a few keys, found by the hash that it keeps of each change's key.

Hashes and positions are read from the newest batches backwards, and no further than something may
still be found: `Watermarks.tops` tells up to which position silver's batches reach. So a key that
was changed of late costs the same whatever the length of history. Different keys may have one hash:
so it says where to look, and which keys to fold again, which is never wrong.

The changes that late keys are folded from.

All that a key ever had, or, where that comes to the same, what it had from a change on that leaves
nothing of what was before: so that the cost of a late key does not grow with its history. What is
known beforehand to be little (`TableBatch.fits_here`) comes to the driver; all else stays with
Spark's workers.

What silver has of a few keys: images are read only from the batches that hold what is wanted,
which `pipelines.apply.prior_images` finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest.decode.keys import hash_values
from ingest.fold.fold import Key
from ingest.position import SOURCE_PART, Pos, source_part
from ingest.sql.projection import events
from pipelines.apply.batch import TableBatch
from pipelines.apply.set_aside import without_claimed
from pipelines.platform.rows import array_of, rows
from pipelines.silver.pending import among

_KEYS_MOST = 1_000
_HASHED_TYPES = {"string", "tinyint", "smallint", "int", "bigint"}
"""With decimals, the types of which all texts of one value have one hash."""
FIRST_SPAN = 4
"""How many batches are looked through first."""


class Traces(NamedTuple):
    """What silver has of some keys, by the hash of each.

    `bases`: where the newest change stands, by the source's own part of its position, that lies
    below the key's bound and seems to leave nothing of what was before; empty: there is none.
    `batches`: those that hold changes from there on, and how many in all. `named`: the newest
    position at which an earlier change names the key that `trace` was asked for. `searched`: the
    keys whose base, if there is one, is known. `unhashed`: the batches that hold changes whose key
    has no hash, and how many. `files`: how many were looked through.
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


def places(keys: pa.Table) -> dict[Key, Pos]:
    """The rows `key` and `pos` as a mapping."""
    columns = (keys[name].to_pylist() for name in ("key", "pos"))
    return {tuple(key): tuple(pos) for key, pos in zip(*columns, strict=True)}


def hashes(work: TableBatch, keys: Collection[Key]) -> dict[Key, int] | None:
    """Silver's hash of each key; None where silver is not to be read by it."""
    shape = work.shape
    types = [shape.columns[name] for name in shape.keys]
    plain = all(type_ in _HASHED_TYPES or type_.startswith("decimal") for type_ in types)
    if not plain or len(keys) > _KEYS_MOST or not shape.native:
        return None
    own = len(shape.keys) - (shape.shard is not None)
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


def without_hash(work: TableBatch) -> dict[int, int]:
    """The batches of silver that hold changes whose key has no hash, as it is moved or not told;
    and how many each holds."""
    if not work.marks.unhashed and not work.total("unhashed"):
        return {}
    changes = work.history("op <> 'truncate' AND key_hash IS NULL")
    found = work.warehouse.session.sql(f"SELECT batch, count(*) FROM ({changes}) GROUP BY batch")
    return {batch: number for batch, number in rows(found)}


def trace(
    work: TableBatch,
    known: Mapping[Key, int],
    bounds: Mapping[Key, Pos] | None,
    *,
    doubts: Mapping[Key, Pos] | None = None,
    what: str = "false",
) -> Traces:
    """Look through silver for some keys, once at most.

    `known`: their hashes. `bounds`: below which position a key's base is to lie; keys without one
    have no base; None: none is wanted. `doubts`: keys that matter only where an earlier change (SQL
    `what`) names them above a position. Whether a base is one is seen when it is read
    (`key_history.unfounded`): it may lack a column, or not fit.
    """
    doubts = doubts or {}
    found = Traces({}, {}, {}, set(), without_hash(work), 0)
    tops: dict[int, list[tuple[Pos, int, int]]] = {}
    files, pending = 0, set(known)
    for span in spans(work.marks.tops, work.above, work.last):
        wanted = {key: known[key] for key in pending}
        parts = {key: (bounds or {}).get(key, ())[:SOURCE_PART] for key in wanted}
        files += _look(work, wanted, parts, span=span, what=what, found=found, tops=tops)
        for key in list(pending):
            base, named = found.bases.get(known[key], ()), found.named.get(known[key], ())
            if span.top is None or (base and base > span.top[:SOURCE_PART]):
                found.searched.add(key)
                pending.remove(key)
            elif key in doubts:
                # One that is named above its position is late, and needs its base.
                late = named > doubts[key]
                if bounds is None if late else span.top <= doubts[key]:
                    pending.remove(key)
        if not pending:
            break
    for hash_, listed in tops.items():
        base = found.bases.get(hash_, ())
        found.batches[hash_] = {batch: n for top, batch, n in listed if top >= base}
    return found._replace(files=files)


def spans(tops: Sequence[tuple[int, Pos]], above: int, last: int) -> Iterator[Span]:
    """The batches up to `last`, the newest first; each span is as long as all before it.

    `tops` as in `Watermarks`; those of the batches above `above` are not known yet.
    """
    ends = [end for end in tops if end[0] <= above]
    length, passed = FIRST_SPAN, 0
    while len(ends) > length:
        batch, top = ends[-length]
        yield Span(range(batch + 1, last + 1), top)
        passed += length
        last, length, ends = batch, passed, ends[:-length]
    yield Span(range(1, last + 1), None)


def _look(
    work: TableBatch,
    known: Mapping[Key, int],
    parts: Mapping[Key, Pos],
    *,
    span: Span,
    what: str,
    found: Traces,
    tops: dict[int, list[tuple[Pos, int, int]]],
) -> int:
    """Add what a span has of the keys to `found` and to `tops`: of each batch its highest position,
    its number and how many changes it has."""
    founding = "after_image = 'full'" + ("" if work.soft else " OR op = 'delete'")
    where = f"op <> 'truncate' AND {among(span.batches)} AND {_hash_in(known.values())}"
    changes = work.warehouse.session.sql(
        f"""SELECT key_hash, batch, count(*) AS n, max(part) AS top,
  max(part) FILTER (WHERE founding AND part < low) AS base, max(pos) FILTER (WHERE named) AS named
FROM (SELECT /*+ BROADCAST(l) */ key_hash, batch, pos, {source_part("pos")} AS part,
    {founding} AS founding, batch <= {work.above} AND ({what}) AS named, l.part AS low
  FROM ({work.history(where)}) JOIN {work.view(by_hash(known, parts))} l ON l.hash = key_hash)
GROUP BY key_hash, batch"""
    )
    for hash_, batch, number, top, base, named in rows(changes):
        tops.setdefault(hash_, []).append((tuple(top), batch, number))
        found.bases[hash_] = max(found.bases.get(hash_, ()), tuple(base or ()))
        found.named[hash_] = max(found.named.get(hash_, ()), tuple(named or ()))
    return len(changes.inputFiles())


def _hash_in(found: Collection[int]) -> str:
    return f"key_hash IN ({', '.join(map(str, sorted({*found})))})"


class Found(NamedTuple):
    """Rows of `ingest.sql.projection.events` with their group (`component`), here where they are
    few; and how many files of silver were looked through for them."""

    changes: DataFrame | pa.Table
    files: int


def changes_of(
    work: TableBatch,
    components: Mapping[Key, int],
    bounds: Mapping[Key, Pos],
    *,
    traces: Traces | None,
    given: Collection[Key] = (),
) -> Found:
    """The changes of the keys, each with its group's number in `components`.

    `bounds`: only below its bound may the fold of a key of the batch start: what the batch has of
    it may depend on that. `traces`: what silver has of these keys and perhaps more. `given`: keys
    that another source table's row no longer holds.
    """
    known = hashes(work, components)
    below = _alone(components, bounds) if based(work) else {}
    moved = len({*components.values()}) < len(components)
    if known is not None and below:
        if traces is None or len(below) < len(components) or not traces.searched >= {*components}:
            traces = trace(work, known, below)
        begun = starts(traces, known)
        if work.fits_here(begun.changes):
            read = _chosen(
                work, components, since(work, known, begun), moved=moved, given=given
            ).toArrow()
            read = read.filter(pa.array(not_below(read, begun), pa.bool_()))
            anew = unfounded(read, begun, soft=work.soft)
            if not anew:
                return Found(read, begun.files)
            missed = {key: known[key] for key in anew}
            if _few(work, missed):
                whole = work.history(of_keys(missed))
                kept = [tuple(key) not in anew for key in read["key"].to_pylist()]
                groups = {key: components[key] for key in anew}
                rest = _chosen(work, groups, whole, moved=moved, given=given).toArrow()
                read = pa.concat_tables([read.filter(pa.array(kept, pa.bool_())), rest])
                return Found(read, begun.files)
    history = work.history(of_keys(known))
    chosen = _chosen(work, components, history, moved=moved, given=given)
    files = len(chosen.inputFiles())
    return Found(chosen.toArrow() if _few(work, known) else chosen, files)


def _few(work: TableBatch, known: Mapping[Key, int] | None) -> bool:
    """Whether the driver can take all that silver has of some keys, by their hashes."""
    if work.fits_here(work.history_changes):
        return True
    if known is None:
        return False
    [(number,)] = rows(
        work.warehouse.session.sql(f"SELECT count(*) FROM ({work.history(of_keys(known))})")
    )
    return work.fits_here(number)


def based(work: TableBatch) -> bool:
    """Whether rows are what a whole image and the changes above it make them, nothing else.

    Not where a partial image further down may turn out to have no base: that is recorded.
    """
    partials = work.marks.partials or work.partial
    if work.marks.orphans is not None or (work.cuts and partials):
        return False
    return work.mode == "scd1" and not work.shape.by_arrival and not work.shape.sequence


def _alone(components: Mapping[Key, int], bounds: Mapping[Key, Pos]) -> dict[Key, Pos]:
    """The keys of the batch that no change links to another, with their bounds."""
    kin = Counter(components.values())
    alone = (key for key, number in components.items() if kin[number] == 1)
    return {key: bounds[key] for key in alone if key in bounds}


def _chosen(
    work: TableBatch,
    components: Mapping[Key, int],
    changes: str,
    *,
    moved: bool,
    given: Collection[Key],
) -> DataFrame:
    wanted = pa.table(
        {"key": array_of(components), "component": pa.array(map(str, components.values()))}
    )
    read = "h.*"
    if not moved:
        # Before images count only where keys were changed, and are as large as after images.
        read = "h.* EXCEPT (before), CAST(NULL AS map<string, string>) AS before"
    chosen = (
        f"SELECT /*+ BROADCAST(l) */ {read}, l.component FROM ({events(work.shape, changes)}) h "
        f"JOIN {work.view(wanted)} l ON l.key = h.key WHERE size(h.misfits) = 0"
    )
    return work.warehouse.session.sql(without_claimed(work, chosen, given))


MOVES_MOST = 100_000
"""Changes of the key that the driver takes whichever rows they are of."""


class Starts(NamedTuple):
    """From where on some keys are to be folded.

    `parts`: key -> the source's own part of the position of a change below which nothing bears on
    the row; empty: from the first one. `batches`: those of silver that hold what is from there on.
    `unhashed`: whether some of it has no hash. `files`: how many were looked through. `changes`:
    how many there are from there on at most.
    """

    parts: dict[Key, Pos]
    batches: set[int]
    unhashed: bool
    files: int
    changes: int


def key_changes(
    work: TableBatch, traces: Traces | None = None, *, of: Collection[Key] | None = None
) -> list[tuple[Key, Key]]:
    """The changes of the key there were: the key before and after each.

    `of`: only those that link a key to one of these are wanted; others may come too.
    """
    where, most = work.shape.moved, work.history_changes
    if work.shape.native:
        batches = without_hash(work) if traces is None else traces.unhashed
        if not batches:
            return []
        where += f" AND key_hash IS NULL AND {among(batches)}"
        most = sum(batches.values())
    moved = events(work.shape, work.history(where))
    pairs = (
        f"SELECT DISTINCT key_before, key FROM ({moved}) "
        f"WHERE key IS NOT NULL AND key_before IS NOT NULL"
    )
    if of is None or (most is not None and most <= MOVES_MOST):
        found = work.warehouse.session.sql(pairs)
        return [(tuple(before), tuple(key)) for before, key in rows(found)]
    return list(_reached(work, pairs, of))


def _reached(work: TableBatch, pairs: str, keys: Collection[Key]) -> set[tuple[Key, Key]]:
    """Of the changes of the key, those that chains of them connect to `keys`."""
    found: set[tuple[Key, Key]] = set()
    known, ends = {*keys}, {*keys}
    while ends:
        view = work.view(pa.table({"k": array_of(ends)}))
        either = f"SELECT *, explode(array(key_before, key)) AS k FROM ({pairs})"
        met = work.warehouse.session.sql(
            f"SELECT key_before, key FROM ({either}) m LEFT SEMI JOIN {view} e ON e.k = m.k"
        )
        linked = {(tuple(before), tuple(key)) for before, key in rows(met)}
        found |= linked
        ends = {key for pair in linked for key in pair} - known
        known |= ends
    return found


def named_above(
    work: TableBatch, doubtful: pa.Table, what: str, *, traces: Traces | None
) -> set[Key]:
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
    held = [traces.batches.get(hash_, {}) for hash_ in {*known.values()}]
    return Starts(
        parts={key: traces.bases.get(hash_, ()) for key, hash_ in known.items()},
        batches={*traces.unhashed}.union(*held),
        unhashed=bool(traces.unhashed),
        files=traces.files,
        changes=sum(traces.unhashed.values()) + sum(sum(counts.values()) for counts in held),
    )


def since(work: TableBatch, known: Mapping[Key, int], begun: Starts) -> str:
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
