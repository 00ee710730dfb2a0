"""The keys that changes of the key link: they fold together (semantics.md, 40).

Few changes of the key come to the driver. Many are linked by Spark's workers, each key to the
lowest one of its group: the larger neighbours of every key are tied to its lowest neighbour, then
the smaller ones, in turn, until nothing changes ("large star" and "small star" of Kiveris et al.,
Connected Components in MapReduce and Beyond, 2014). That takes a few rounds, however long the
chains are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import NamedTuple

import pyarrow as pa

from ingest.fold.fold import Key
from ingest.fold.key_groups import key_groups
from ingest.sql.fold import key_changes
from ingest.sql.silver import among
from pipelines.apply import bounds
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.apply.prior_images import PriorImages, without_hash
from pipelines.platform.rows import array_of, rows
from pipelines.platform.scratch import set_down

Pairs = list[tuple[Key, Key]]
"""The key before and the key after each change of the key."""


def groups_around(
    frames: Frames, batch: TableBatch, keys: Collection[Key], *, prior: PriorImages | None
) -> dict[Key, int] | None:
    """The keys and all keys that changes of the key link to them, each with the number of its
    group; None if that is too much for the driver. `prior`: what silver has of these keys and of
    others."""
    changes = _key_changes(frames, batch, None if prior is None else prior.unhashed)
    if changes is None:
        return key_groups(keys, [])
    few = changes.most <= bounds.KEY_CHANGES
    found = _collected(frames, changes.pairs) if few else _reached(frames, changes.pairs, keys)
    return None if found is None else key_groups(keys, found)


def linked_keys(frames: Frames, batch: TableBatch) -> str | None:
    """A relation of all keys that changes of the key ever named, each with its `component`; None if
    there was no such change."""
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
    """SQL of all changes of the key: `key_before` and `key`. `most`: an upper bound on their
    number."""

    pairs: str
    most: int


def _key_changes(
    frames: Frames, batch: TableBatch, unhashed: Mapping[int, int] | None = None
) -> _Changes | None:
    """The changes of the key; None if there were none. `unhashed`: the batches of silver that have
    changes without a hash of the key, with the number of these."""
    where, most = batch.projection.may_change_key, batch.history_changes
    if batch.watermarks.last_removal is None and not batch.total("key_changes"):
        return None
    if batch.projection.native:
        batches = without_hash(frames, batch) if unhashed is None else unhashed
        if not batches:
            return None
        where += f" AND key_hash IS NULL AND {among(batches)}"
        most = sum(batches.values())
    pairs = key_changes.pairs(batch.projection, batch.history(where))
    return _Changes(pairs, most)


def _collected(frames: Frames, pairs: str) -> Pairs | None:
    """The pairs; None if they are too many or too large for the driver."""
    few = key_changes.few_pairs(pairs, most=bounds.KEY_CHANGES, bytes_most=bounds.KEY_BYTES)
    found = list(rows(frames.sql(few)))
    if len(found) > bounds.KEY_CHANGES or any(before is None for before, _ in found):
        return None
    return [(tuple(before), tuple(key)) for before, key in found]


def _reached(frames: Frames, pairs: str, keys: Collection[Key]) -> Pairs | None:
    """Those pairs that a chain of pairs connects to `keys`; None if they are too many or too
    large."""
    found: set[tuple[Key, Key]] = set()
    known, ends = {*keys}, {*keys}
    while ends:
        view = frames.key_view(ends)
        linked = _collected(frames, key_changes.pairs_with(pairs, view))
        if linked is None or len(found) > bounds.KEY_CHANGES:
            return None
        found |= {*linked}
        ends = {key for pair in linked for key in pair} - known
        known |= ends
    return [*found]


def _components(frames: Frames, pairs: str) -> str:
    """A relation of all keys of the pairs, each with its `component`, made by the workers."""
    edges = key_changes.edges(pairs)
    before = None
    with ExitStack() as held:
        while True:
            # The relation that it was made of is dropped once it is there.
            with held.pop_all():
                table = held.enter_context(set_down(frames.warehouse, frames.sql(edges)))
            checksum = frames.sql(key_changes.checksum(table)).first()
            if checksum == before:
                break
            before, edges = checksum, key_changes.contracted(table)
        return frames.set_down(frames.sql(key_changes.components(table)))
