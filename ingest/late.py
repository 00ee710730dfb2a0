"""Which keys of a batch need the exact fold, as one SQL query (design.md, "Late path").

Every event is classified before the batch is folded, and one late event makes its key late. An
event is late

- if it moves its key, or is tied with another of the key by the source's order;
- with the row present: if it equals the row's position on the source's own part only (43); if it
  lies below the row and is partial, or partial images have come before (44, 45); if it lies above
  the row but below a change that was skipped because it changed nothing (38);
- with the row absent: if it is partial and no whole image of the batch stands before it; or if a
  delete or key change above it names its key (41, 49).

Everything else the MERGE settles by comparing positions. Nothing here depends on the order of
arrival.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ingest.merge import pos_literal
from ingest.order import Pos
from ingest.shape import Shape, as_text, column, source_part


class Floors(NamedTuple):
    """What gold remembers of the source table; see `pipelines.progress.Marks`."""

    skipped: Pos | None
    partials: bool
    removed: bool
    orphans: bool


def stored_rows(target: str, keys: tuple[str, ...], columns: Mapping[str, str]) -> str:
    """SQL of the target's keys as text, with the position of each row."""
    parts = ", ".join(as_text(column(key), columns[key]) for key in keys)
    return f"SELECT array({parts}) AS key, _pos FROM {target}"


def classified(shape: Shape, events: str, stored: str, removals: str, floors: Floors) -> str:
    """One row: late_keys (array of keys), on_time (keys that are not), stale (events below their row),
    passed (keys whose events all are, or only delete what is absent), bad (events that do not fit).

    `events` is SQL of `ingest.shape.events`, `stored` of `stored_rows`, `removals` of (key, pos): the
    highest delete or key change of earlier batches that names a key.
    """
    tied = "false"
    if not shape.by_arrival:
        tied = f"count(*) <> count(DISTINCT {source_part('e.pos')})"
    equal = "false"
    if not shape.by_arrival:
        equal = f"({source_part('e.pos')} = {source_part('t._pos')} AND e.pos <> t._pos)"
    skipped = "false"
    if floors.skipped is not None:
        skipped = f"(e.pos > t._pos AND e.pos < {pos_literal(floors.skipped)})"
    below = "true" if floors.partials else "e.partial"
    removed = "e.pos < r.pos" if floors.removed else "false"
    orphaned = "true" if floors.orphans else "false"
    join = f"LEFT JOIN ({removals}) r ON r.key = e.key" if floors.removed else ""
    return f"""WITH e AS (SELECT * FROM ({events}) WHERE op <> 'truncate'),
good AS (SELECT * FROM e WHERE key IS NOT NULL AND size(misfits) = 0),
keyed AS (
  SELECT e.key,
    bool_or(e.key_before IS NOT NULL) OR {tied} OR bool_or(CASE
      WHEN t._pos IS NOT NULL THEN {equal} OR (e.pos < t._pos AND {below}) OR {skipped}
      ELSE coalesce({removed}, false) OR {orphaned} END)
    OR (bool_and(t._pos IS NULL) AND bool_or(e.partial)
        AND coalesce(min_by(e.partial OR e.op = 'delete', e.pos), true))
    OR (bool_or(e.partial) AND bool_or(e.op = 'delete')) AS late,
    count_if(e.pos < t._pos) AS stale,
    max(e.pos) < max(t._pos) AS passed,
    bool_and(t._pos IS NULL) AND max_by(e.op = 'delete', e.pos) AS gone,
    array_distinct(flatten(collect_list(
      IF(e.key_before IS NULL, array(e.key), array(e.key, e.key_before))))) AS names
  FROM good e LEFT JOIN ({stored}) t ON t.key = e.key {join}
  GROUP BY e.key)
SELECT coalesce(flatten(collect_list(IF(late, names, NULL))), array()) AS late_keys,
  coalesce(sum(stale), 0) AS stale, count_if(NOT late AND (passed OR gone)) AS passed,
  count_if(NOT late) AS on_time,
  (SELECT count_if(key IS NULL OR size(misfits) > 0) FROM e) AS bad
FROM keyed"""
