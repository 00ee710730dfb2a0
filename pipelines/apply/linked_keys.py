"""Which keys changes of the key link: they fold together (semantics.md, 40).

Few changes of the key come to the driver. Many are linked by Spark's workers, each key to the
lowest of its group: in turn every key's larger neighbours, then its smaller ones, are tied to the
lowest neighbour, until nothing changes ("large star" and "small star" of Kiveris et al., Connected
Components in MapReduce and Beyond, 2014). That takes a few rounds however long the chains are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import NamedTuple

import pyarrow as pa

from ingest.fold.fold import Key
from ingest.fold.key_groups import key_groups
from ingest.sql.projection import events
from pipelines.apply import bounds
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.apply.prior_images import PriorImages, without_hash
from pipelines.platform.rows import array_of, rows
from pipelines.platform.scratch import set_down
from pipelines.silver.pending import among

Pairs = list[tuple[Key, Key]]
"""Of changes of the key those before and after each."""


def groups_around(
    frames: Frames, batch: TableBatch, keys: Collection[Key], *, prior: PriorImages | None
) -> dict[Key, int] | None:
    """The keys and all that changes of the key link to them, each with its group's number; None
    where that is too much for the driver. `prior`: what silver has of these keys and more."""
    changes = _key_changes(frames, batch, None if prior is None else prior.unhashed)
    if changes is None:
        return key_groups(keys, [])
    few = changes.most is not None and changes.most <= bounds.KEY_CHANGES
    found = _collected(frames, changes.pairs) if few else _reached(frames, changes.pairs, keys)
    return None if found is None else key_groups(keys, found)


def linked_keys(frames: Frames, batch: TableBatch) -> str | None:
    """A relation of all keys that changes of the key ever named, with the `component` of each; None
    where there was no such change."""
    changes = _key_changes(frames, batch)
    if changes is None:
        return None
    found = _collected(frames, changes.pairs)
    if found is None:
        return _components(frames, changes.pairs)
    groups = key_groups({key for pair in found for key in pair}, found)
    return groups_view(frames, groups) if groups else None


def groups_view(frames: Frames, groups: Mapping[Key, int]) -> str:
    """A relation of keys with their `component`."""
    numbers = pa.array(map(str, groups.values()), pa.string())
    return frames.view(pa.table({"key": array_of(groups), "component": numbers}))


class _Changes(NamedTuple):
    """SQL of the changes of the key there were: `key_before` and `key`. `most`: how many at most,
    where that is known."""

    pairs: str
    most: int | None


def _key_changes(
    frames: Frames, batch: TableBatch, unhashed: Mapping[int, int] | None = None
) -> _Changes | None:
    """The changes of the key; None where there was none. `unhashed`: the batches of silver with
    changes that have no hash of the key, and how many."""
    where, most = batch.projection.changes_key, batch.history_changes
    if batch.watermarks.last_removal is None and not batch.total("key_changes"):
        return None
    if batch.projection.native:
        batches = without_hash(frames, batch) if unhashed is None else unhashed
        if not batches:
            return None
        where += f" AND key_hash IS NULL AND {among(batches)}"
        most = sum(batches.values())
    key_changes = events(batch.projection, batch.history(where))
    pairs = (
        f"SELECT DISTINCT key_before, key FROM ({key_changes}) "
        f"WHERE key IS NOT NULL AND key_before IS NOT NULL"
    )
    return _Changes(pairs, most)


def _collected(frames: Frames, pairs: str) -> Pairs | None:
    """The pairs; None where they are too many for the driver, or too large."""
    large = f"{bounds.too_large('key')} OR {bounds.too_large('key_before')}"
    limited = f"SELECT * FROM ({pairs}) LIMIT {bounds.KEY_CHANGES + 1}"
    pairs = f"SELECT IF({large}, NULL, key_before), key FROM ({limited})"
    pairs = f"SELECT b, IF(b IS NULL, NULL, key) FROM ({pairs}) AS p(b, key)"
    found = list(rows(frames.sql(pairs)))
    if len(found) > bounds.KEY_CHANGES or any(before is None for before, _ in found):
        return None
    return [(tuple(before), tuple(key)) for before, key in found]


def _reached(frames: Frames, pairs: str, keys: Collection[Key]) -> Pairs | None:
    """Of the changes of the key, those that chains of them connect to `keys`; None as `_collected`
    has it."""
    found: set[tuple[Key, Key]] = set()
    known, ends = {*keys}, {*keys}
    while ends:
        view = frames.view(pa.table({"k": array_of(ends)}))
        either = f"SELECT *, explode(array(key_before, key)) AS k FROM ({pairs})"
        met = f"SELECT key_before, key FROM ({either}) m LEFT SEMI JOIN {view} e ON e.k = m.k"
        linked = _collected(frames, met)
        if linked is None or len(found) > bounds.KEY_CHANGES:
            return None
        found |= {*linked}
        ends = {key for pair in linked for key in pair} - known
        known |= ends
    return [*found]


def _components(frames: Frames, pairs: str) -> str:
    """A relation of all keys of the pairs with the `component` of each, made by the workers."""
    # `u` is tied to the lower `v`.
    edges = (
        f"SELECT DISTINCT greatest(key_before, key) AS u, least(key_before, key) AS v "
        f"FROM ({pairs}) WHERE key_before <> key"
    )
    session, before = frames.warehouse.session, None
    with ExitStack() as held:
        while True:
            # What it is made of goes once it is made.
            with held.pop_all():
                table = held.enter_context(set_down(frames.warehouse, session.sql(edges)))
            mark = session.sql(f"SELECT count(*), bit_xor(xxhash64(u, v)) FROM {table}").first()
            if mark == before:
                break
            before, edges = mark, _small_star(_large_star(f"SELECT * FROM {table}"))
        named = f"SELECT u AS key, to_json(v) AS component FROM {table}"
        named += f" UNION ALL SELECT DISTINCT v, to_json(v) FROM {table}"
        return frames.set_down(session.sql(named))


def _large_star(edges: str) -> str:
    both = f"SELECT u, v FROM ({edges}) UNION ALL SELECT v AS u, u AS v FROM ({edges})"
    lowest = f"SELECT u, v, least(u, min(v) OVER (PARTITION BY u)) AS m FROM ({both})"
    return f"SELECT DISTINCT v AS u, m AS v FROM ({lowest}) WHERE v > u"


def _small_star(edges: str) -> str:
    lowest = f"SELECT u, v, min(v) OVER (PARTITION BY u) AS m FROM ({edges})"
    each = f"SELECT explode(array(u, v)) AS x, m FROM ({lowest})"
    return f"SELECT DISTINCT x AS u, m AS v FROM ({each}) WHERE x <> m"
