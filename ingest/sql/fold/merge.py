"""A MERGE as data: what one batch does to one gold table, in one statement. A table that was made
for the batch has no rows that could match; there an INSERT does the same, for a third of the cost.

The source has one row a key: `_k0`… the key, the data columns by their slots, and `_gone` (the row
is deleted), `_pos`, `_exact` (folded from history, so it stands whatever the stored row's
position), `_whole` (can stand without a stored row), `_sets` (NULL: all of `sets`, else the columns
that this row sets), `_event_time`, `_source_table`, `_deleted_at`.

A row is written only if it is newer, or exact. Delta rewrites a file if any row of it matches, even
if the match changes nothing. So if changes may change nothing, `sparing` takes them out of the
source beforehand, and they rewrite no file. A stored row that a truncate reaches is no base: it
differs from anything that follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ingest.sql.fold.truncates import MergedTruncates
from ingest.sql.metadata import ROW_METADATA
from ingest.sql.projection import key_slots, slots
from ingest.sql.quoting import quoted, quoted_list, sql_text


@dataclass(frozen=True, kw_only=True)
class Merge:
    """One statement: `target` and `rows` are SQL relations, `sets` the columns that rows carry.

    `own`: rows that another source table holds are left alone, but for those that are marked as
    deleted (`_GIVES_WAY`).
    """

    target: str
    rows: str
    keys: tuple[str, ...]
    columns: Mapping[str, str]
    sets: tuple[str, ...]
    source: str
    soft: bool = False
    mixed: bool = False
    own: bool = False
    sparing: bool = False
    truncates: MergedTruncates | None = None


def sql(merge: Merge) -> str:
    """The MERGE INTO statement."""
    keys = key_slots(merge.keys)
    on = " AND ".join(f"t.{quoted(name)} = s.{key}" for name, key in keys.items())
    newer = "(s._exact OR s._pos > t._pos)"
    if merge.own:
        newer += f" AND ({_OWN}{f' OR {_GIVES_WAY}' if merge.soft else ''})"
    data = [name for name in merge.sets if name not in merge.keys]
    places = slots(merge.columns)
    new = {name: _new(merge, name, f"s.{places[name]}") for name in data}
    same = " AND ".join(f"{new[name]} <=> t.{quoted(name)}" for name in data) or "true"
    updates = [f"t.{quoted(name)} = {new[name]}" for name in data]
    if merge.own and merge.soft:
        carried = {*merge.sets, *merge.keys}
        others = (quoted(name) for name in merge.columns if name not in carried)
        updates += [f"t.{name} = IF({_OF_ANOTHER}, NULL, t.{name})" for name in others]
    updates += [
        "t._pos = s._pos",
        "t._event_time = s._event_time",
        f"t._source = {sql_text(merge.source)}",
        "t._source_table = s._source_table",
    ]
    if merge.soft:
        updates.append("t._deleted_at = s._deleted_at")
        same = f"({same}) AND t._deleted_at <=> s._deleted_at"
    if merge.truncates:
        same = f"({same}) AND NOT ({merge.truncates.reached})"
    rows = merge.rows
    if merge.sparing:
        rows = (
            f"(SELECT s.* FROM {rows} s LEFT JOIN {merge.target} t ON {on} "
            f"WHERE t._pos IS NULL OR s._gone OR NOT ({newer}) OR NOT ({same}))"
        )
    gone = "" if merge.soft else f"WHEN MATCHED AND s._gone AND {newer} THEN DELETE"
    inserted = _inserted(merge)
    clauses = [
        f"MERGE INTO {merge.target} t USING {rows} s ON {on}",
        gone,
        f"WHEN MATCHED AND NOT s._gone AND {newer} THEN UPDATE SET {', '.join(updates)}",
        f"WHEN NOT MATCHED AND {_STANDS_ALONE} "
        f"THEN INSERT ({quoted_list(inserted)}) "
        f"VALUES ({', '.join(inserted.values())})",
        _truncate_clause(merge, merge.truncates) if merge.truncates else "",
    ]
    return "\n".join(clause for clause in clauses if clause)


def insert_sql(merge: Merge) -> str:
    """The INSERT that does the same if the target has no row."""
    return into_nothing(merge.target, _inserted(merge), rows=merge.rows, where=_STANDS_ALONE)


def into_nothing(target: str, values: Mapping[str, str], *, rows: str, where: str) -> str:
    """The INSERT of those rows `s` for which `where` is true into a target without rows; `values`:
    its columns, each with SQL of its value.

    It reads the target so that Delta refuses it, like a MERGE, if another driver has written there
    meanwhile. An INSERT that reads nothing would be let in, and each row would be there twice.
    """
    return (
        f"INSERT INTO {target} ({quoted_list(values)}) "
        f"SELECT {', '.join(values.values())} FROM {rows} s "
        f"WHERE {where} AND NOT EXISTS (SELECT 1 FROM {target})"
    )


_STANDS_ALONE = "NOT s._gone AND s._whole"


def _inserted(merge: Merge) -> dict[str, str]:
    """The columns of a row that is inserted, each with SQL of its value."""
    places = slots(merge.columns)
    data = [name for name in merge.sets if name not in merge.keys]
    return {
        **{name: f"s.{key}" for name, key in key_slots(merge.keys).items()},
        **{name: f"s.{places[name]}" for name in data},
        **row_metadata(merge.source),
        **({"_deleted_at": "s._deleted_at"} if merge.soft else {}),
    }


def row_metadata(source: str) -> dict[str, str]:
    """The columns that gold adds to each row, with SQL of their values for a row `s` of a MERGE's
    source."""
    values = ("s._pos", "s._event_time", sql_text(source), "s._source_table")
    return dict(zip(ROW_METADATA, values, strict=True))


def _new(merge: Merge, name: str, came: str) -> str:
    """SQL of a column's value after the merge; `came`: SQL of the value that the rows carry."""
    if not merge.mixed:
        return came
    sets = f"s._sets IS NULL OR array_contains(s._sets, {sql_text(name)})"
    kept = f"t.{quoted(name)}"
    if merge.truncates and not merge.soft:
        kept = f"IF({merge.truncates.reached}, NULL, {kept})"
    if merge.own and merge.soft:
        kept = f"IF({_OF_ANOTHER}, NULL, {kept})"
    return f"IF({sets}, {came}, {kept})"


_OWN = "t._source_table = s._source_table"
_GIVES_WAY = "t._deleted_at IS NOT NULL AND (s._deleted_at IS NULL OR s._pos > t._pos)"
"""True if a row that another source table brought is marked as deleted and is taken over: by a row
that is there, or by one that was marked later."""
_OF_ANOTHER = "t._source_table <> s._source_table"
"""True if a row that is marked as deleted was brought by another source table and is taken over."""


def _truncate_clause(merge: Merge, truncates: MergedTruncates) -> str:
    taken = f"WHEN NOT MATCHED BY SOURCE AND {truncates.reached}"
    if not merge.soft:
        return f"{taken} THEN DELETE"
    first = truncates.first
    at = f"timestamp_micros(coalesce({first}.time, 0L))"
    return (
        f"{taken} AND t._deleted_at IS NULL "
        f"THEN UPDATE SET t._deleted_at = {at}, t._event_time = {at}, t._pos = {first}.pos"
    )
