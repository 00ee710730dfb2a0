"""What silver has of late keys: the places of their changes, and the changes that they are folded
from.

Silver keeps a hash of each change's key. A relation of places has the columns `hash` and `part`,
the source's own part of a position.
"""

from __future__ import annotations

from collections.abc import Collection

from ingest.position import source_part
from ingest.sql.projection import Projection, events, that_fit
from ingest.sql.query import query
from ingest.sql.silver import ROW_CHANGES

UNHASHED = "key_hash IS NULL"
_MAP = "CAST(NULL AS map<string, string>)"


def of_hashes(hashes: Collection[int]) -> str:
    """True for the changes of keys with these hashes."""
    return f"key_hash IN ({', '.join(map(str, sorted({*hashes})))})"


def of_keys(hashes: Collection[int] | None) -> str:
    """True for the changes of some keys, given by their hashes, and false for most of the
    others."""
    if hashes is None:
        return ROW_CHANGES
    return f"{ROW_CHANGES} AND ({of_hashes(hashes)} OR {UNHASHED})"


def by_batch(changes: str) -> str:
    """How many of the changes each batch has."""
    return f"SELECT batch, count(*) FROM ({changes}) GROUP BY batch"


def number_of(changes: str) -> str:
    """How many changes there are."""
    return f"SELECT count(*) FROM ({changes})"


def prior_images(changes: str, places: str, *, soft: bool, above: int, overtaking: str) -> str:
    """By hash of a key and batch: how many changes there are; their highest position; the highest
    position below the key's place of a change that leaves nothing of what was before, its `base`;
    and, in the batches up to `above`, the highest position for which `overtaking` is true, as it is
    for changes that make a doubtful key late."""
    founding = "after_image = 'full'" + ("" if soft else " OR op = 'delete'")
    return query(
        changes=changes,
        placed=f"""SELECT /*+ BROADCAST(p) */ key_hash, batch, pos, {source_part("pos")} AS source,
  {founding} AS founding, batch <= {above} AND ({overtaking}) AS named, p.part AS bound
FROM changes JOIN {places} p ON p.hash = key_hash""",
        found="""SELECT key_hash, batch, count(*) AS n, max(source) AS top,
  max(source) FILTER (WHERE founding AND source < bound) AS base,
  max(pos) FILTER (WHERE named) AS named
FROM placed GROUP BY key_hash, batch""",
    )


def since(changes: str, places: str, *, key_changes: bool) -> str:
    """The changes that do not lie below the place of their key, and those without a hash.

    If there were no changes of the key, the columns that tell of these are not read.
    """
    read = "c.*"
    if not key_changes:
        read = f"c.* EXCEPT (before, key_before, tx_id), {_MAP} AS before, {_MAP} AS key_before, "
        read += "CAST(NULL AS string) AS tx_id"
    return query(
        changes=changes,
        since=f"SELECT /*+ BROADCAST(p) */ {read} FROM changes c "
        f"LEFT JOIN {places} p ON p.hash = c.key_hash "
        f"WHERE p.hash IS NULL OR {source_part('c.pos')} >= p.part",
    )


def events_of_keys(
    projection: Projection, changes: str, late: str, *, few: bool, linked: bool
) -> str:
    """Those events of silver's changes that are of late keys, a relation, and fit, each with its
    group (`component`); and, `void`, the inserts of key changes in two messages that do not fit.

    `few`: the keys are few enough to be sent to every worker. `linked`: the before images are
    wanted. They count only if keys were changed, and are as large as after images.
    """
    hint = "/*+ BROADCAST(l) */ " if few else ""
    read = "e.*" if linked else f"e.* EXCEPT (before), {_MAP} AS before"
    return query(
        events=events(projection, changes),
        fitting=that_fit("events"),
        chosen=f"SELECT {hint}{read}, l.component FROM fitting e JOIN {late} l ON l.key = e.key",
    )
