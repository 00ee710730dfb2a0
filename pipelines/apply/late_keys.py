"""The keys of a batch that are folded again.

If they are few, they come to the driver, and silver is searched for them by their hashes
(`pipelines.apply.prior_images`). After a lost checkpoint everything is read again, and there may be
millions: then they stay with Spark's workers, in a table of their own, with which the history of
the whole source table is joined.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import TableError
from ingest.fold.fold import Key
from ingest.position import SOURCE_PART, TOP, Pos, may_follow
from ingest.sql.fold.late_history import UNHASHED
from ingest.sql.fold.late_keys import (
    keys_named,
    keys_of,
    late_relation,
    named_above,
    number_of,
    of_kinds,
    rows_at,
    stored_rows,
    with_groups,
)
from ingest.sql.query import select, union
from ingest.sql.silver import ROW_CHANGES, among, tied_to
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.apply.linked_keys import groups_around, linked_keys
from pipelines.apply.prior_images import PriorImages, based, find_prior_images, hashes
from pipelines.apply.verdicts import Judged
from pipelines.platform.rows import array_of, rows

_NAMED_MOST = 5


class LateKeys(NamedTuple):
    """The keys that are folded again.

    `relation`: each `key`, its `component` (keys that fold together) and whether the batch
    `brought` it. `groups`: the keys, each with the number of its group, and `brought` those of them
    that the batch brought; None if they are too many for the driver. `keys`: how many there are;
    `found`: how many of them are late themselves. `linked`: whether changes of the key link some.
    `start_below`: for each key, the position below which its fold has to start, and `prior` what
    silver has of the keys, as far as these are known. `freed`: SQL of the keys whose changes are no
    longer set aside for another source table's row.
    """

    relation: str
    groups: Mapping[Key, int] | None
    brought: Collection[Key]
    keys: int
    found: int
    linked: bool
    start_below: Mapping[Key, Pos] = {}
    prior: PriorImages | None = None
    freed: str | None = None


def late_keys(
    frames: Frames,
    batch: TableBatch,
    judged: Judged,
    *,
    overtaking: str,
    forced_keys: Sequence[str],
) -> LateKeys:
    """The keys to fold again: the late ones, the doubtful ones that an earlier change makes late,
    those that late truncates affect in every mode, those that SQL `forced_keys` gives, and all keys
    that changes of the key link to them.

    `overtaking` is SQL that is true for the earlier changes that may make a doubtful key late,
    besides those that move a key.
    """
    forced_keys = [*forced_keys, *_soft_deleted_below(batch), *_beside_late_truncates(batch)]
    forced = frames.few_keys(union(forced_keys)) if forced_keys else set()
    if judged.too_many or forced is None:
        return _of_many(frames, batch, judged, overtaking=overtaking, forced_keys=forced_keys)
    below = _start_below(judged.verdicts)
    found = _keys(judged.verdicts, "late")
    doubtful = judged.verdicts.filter(pc.equal(judged.verdicts["kind"], "doubtful"))
    doubtful = doubtful.select(["key", "pos"])
    prior = None
    if doubtful.num_rows or (found and based(batch)):
        prior = _find_prior_images(
            frames,
            batch,
            below,
            doubts=_positions(doubtful),
            overtaking=overtaking if doubtful.num_rows else "false",
        )
    if doubtful.num_rows:
        found |= _named_above(frames, batch, doubtful, overtaking=overtaking, prior=prior)
    found |= forced
    groups = groups_around(frames, batch, found, prior=prior) if found else {}
    if groups is None:
        return _of_many(frames, batch, judged, overtaking=overtaking, forced_keys=forced_keys)
    return _few(frames, groups, found=len(found), brought=below)._replace(
        start_below=below, prior=prior
    )


def freed_keys(frames: Frames, batch: TableBatch, keys: str) -> LateKeys:
    """As `late_keys`, for keys (SQL) that no other source table's row holds any more and that have
    changes."""
    few = frames.few_keys(keys)
    found = (
        _set_down(frames, batch, keys, brought=keys)
        if few is None
        else these_keys(frames, batch, few)
    )
    return found._replace(freed=keys)


def these_keys(frames: Frames, batch: TableBatch, keys: Collection[Key]) -> LateKeys:
    """As `late_keys`, for some keys that have changes."""
    groups = groups_around(frames, batch, keys, prior=None)
    if groups is None:
        listed = select(frames.key_view(keys))
        return _set_down(frames, batch, listed, brought=listed)
    return _few(frames, groups, found=len(keys), brought=keys)


def _soft_deleted_below(batch: TableBatch) -> list[str]:
    """SQL of the keys of rows that a truncate marked as deleted although a truncate that comes late
    had ended them before; none if there is no such truncate. A run of this very batch that was cut
    off may have marked them."""
    unseen = batch.first_truncates
    above = [truncate for truncate in batch.all_truncates if unseen and truncate > unseen[0]]
    if not batch.soft or not above:
        return []
    stored = stored_rows(batch.target_table, batch.projection, soft=True)
    return [rows_at(stored, above, by_arrival=batch.projection.by_arrival)]


def _beside_late_truncates(batch: TableBatch) -> list[str]:
    """SQL of the keys with changes at the place of a late truncate; none if there is no such
    truncate.

    The transport does not tell which of the two came first. And a copy of the truncate that stands
    higher may have been applied: it took away what lies between the two copies, which now comes
    back.
    """
    applied = batch.watermarks.applied
    if batch.projection.by_arrival or applied is None:
        return []
    late = [t for t in batch.first_truncates if t[:SOURCE_PART] <= applied[:SOURCE_PART]]
    if not late:
        return []
    beside = batch.earlier(f"{ROW_CHANGES} AND {tied_to(late, 'pos')}")
    return [keys_named(batch.projection, beside)]


def check_found(target: str, lost: Sequence[Key], *, more: int = 0) -> None:
    """Raise TableError if history has nothing of keys that a batch brings (78): `lost`, and as many
    as `more`.

    Then the lookup is at fault, and the rows must stay.
    """
    if lost:
        named = ", ".join(f"({', '.join(key)})" for key in sorted(lost)[:_NAMED_MOST])
        more += max(len(lost) - _NAMED_MOST, 0)
        raise TableError(
            f"expected to find in silver what it has of key {named}"
            f"{f' and {more} more' if more else ''}, which this batch "
            f"brings, got nothing: a fault of the lookup, so nothing of {target} was changed; "
            f"please report it"
        )


def _few(
    frames: Frames, groups: Mapping[Key, int], *, found: int, brought: Collection[Key]
) -> LateKeys:
    linked = len({*groups.values()}) < len(groups)
    arrays = {
        "key": array_of(groups),
        "component": pa.array(map(str, groups.values()), pa.string()),
        "brought": pa.array((key in brought for key in groups), pa.bool_()),
    }
    relation = frames.view(pa.table(arrays)) if groups else ""
    named = [key for key in groups if key in brought]
    return LateKeys(relation, groups, named, len(groups), found, linked)


def _of_many(
    frames: Frames,
    batch: TableBatch,
    judged: Judged,
    *,
    overtaking: str,
    forced_keys: Sequence[str],
) -> LateKeys:
    """As `late_keys`, for more keys than the driver takes."""
    verdicts = judged.late_or_doubtful(frames)
    doubtful = f"({of_kinds(verdicts, ['doubtful'])})"
    above = named_above(batch.projection, doubtful, earlier=_naming(batch, overtaking))
    found = union([of_kinds(verdicts, ["late"], "key"), above, *forced_keys])
    brought = keys_of(verdicts)
    return _set_down(frames, batch, found, brought=brought)


def _set_down(frames: Frames, batch: TableBatch, keys: str, *, brought: str) -> LateKeys:
    """The keys that SQL gives, each once, with all that key changes link to them, in a table of
    their own. `brought`: SQL of the keys that the batch brings."""
    found, linked = frames.set_down(frames.sql(keys)), linked_keys(frames, batch)
    late = late_relation(with_groups(found, linked), found=found, brought=brought)
    relation = frames.set_down(frames.sql(late))
    [(number, of_themselves)] = rows(frames.sql(number_of(relation)))
    return LateKeys(relation, None, (), number, of_themselves, linked is not None)


def _named_above(
    frames: Frames,
    batch: TableBatch,
    doubtful: pa.Table,
    *,
    overtaking: str,
    prior: PriorImages | None,
) -> set[Key]:
    """Those of the keys (`key`, `pos`) that are named by an earlier change which may come after
    `pos`, and which moves the key or for which the SQL `overtaking` is true. `prior` was found with
    the same `overtaking`."""
    found: set[Key] = set()
    narrowed = "true"
    if prior is not None:
        lowest = _positions(doubtful)
        known = hashes(batch, lowest) or {}
        found = {
            key
            for key, pos in lowest.items()
            if (newest := prior.named.get(known[key]))
            and may_follow(newest, pos, by_arrival=batch.projection.by_arrival)
        }
        if not prior.unhashed:
            return found
        narrowed = f"{UNHASHED} AND {among(prior.unhashed)}"
    earlier = _naming(batch, overtaking, where=narrowed)
    named = frames.sql(named_above(batch.projection, frames.view(doubtful), earlier=earlier))
    return found | {tuple(key) for (key,) in rows(named)}


def _naming(batch: TableBatch, overtaking: str, *, where: str = "true") -> str:
    """SQL of the earlier changes that move a key, or for which the SQL `overtaking` is true."""
    return batch.earlier(f"{where} AND ({overtaking} OR {batch.projection.may_change_key})")


def _find_prior_images(
    frames: Frames,
    batch: TableBatch,
    start_below: Mapping[Key, Pos],
    *,
    doubts: Mapping[Key, Pos],
    overtaking: str,
) -> PriorImages | None:
    """What silver has of the late and doubtful keys; None if silver cannot be searched by hash."""
    below = start_below if based(batch) else None
    known = hashes(batch, doubts if below is None else below)
    if known is None:
        return None
    found = find_prior_images(
        frames, batch, known, below=below, doubts=doubts, overtaking=overtaking
    )
    if not batch.total("unhashed"):
        # The batch itself brings each of them under its hash.
        check_found(batch.target, [k for k, hash_ in known.items() if hash_ not in found.batches])
    return found


def _keys(judged: pa.Table, kind: str) -> set[Key]:
    chosen = judged.filter(pc.equal(judged["kind"], kind))
    return {tuple(key) for key in chosen["key"].to_pylist()}


def _positions(keys: pa.Table) -> dict[Key, Pos]:
    """The rows `key` and `pos` as a mapping."""
    columns = (keys[name].to_pylist() for name in ("key", "pos"))
    return {tuple(key): tuple(pos) for key, pos in zip(*columns, strict=True)}


def _start_below(judged: pa.Table) -> dict[Key, Pos]:
    """The position below which the fold of a late or doubtful key has to start: what a partial
    image of the batch becomes, and whether it has a base, depends on what came before it."""
    below: dict[Key, Pos] = {}
    late_or_doubtful = judged.filter(pc.is_in(judged["kind"], pa.array(["late", "doubtful"])))
    columns = (late_or_doubtful[name].to_pylist() for name in ("key", "pos", "whole"))
    for name, at, whole in zip(*columns, strict=True):
        key, pos = tuple(name), TOP if whole else tuple(at)
        below[key] = min(pos, below.get(key, pos))
    return below
