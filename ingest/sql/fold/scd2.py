"""Steps -> versions: where each version begins and ends, and the MERGE that brings a target to
them.

A step is a state that a key came to: typed values, or none (`_gone`). A step whose values differ
from those before it begins a version. A step that changes nothing begins none, and a delete only
ends one. A version begins at the event time of its step, raised to that of the version before if it
is earlier or missing, and ends where the next one begins, so the intervals of a key meet
(semantics.md, 31).

A target of versions is a table with the key (key, `_pos`). A row of the MERGE's source either ends
the open version (`close`), is a version (`put`), or names one that history does not know (`gone`).
So one MERGE ends and begins versions, several of a key at once. Versions that ended lie in a
partition of their own; if all changes are on time, only the open ones are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ingest.position import message_of, source_part
from ingest.sql.fold.merge import into_nothing, row_metadata
from ingest.sql.fold.truncates import MergedTruncates
from ingest.sql.fold.typed_changes import surprised, typed_changes
from ingest.sql.projection import Projection
from ingest.sql.query import query
from ingest.sql.quoting import quoted, quoted_list, sql_text

_ADDED = ("_valid_from", "_valid_to", "_current")


def changes_as_steps(
    projection: Projection,
    changes: str,
    *,
    sets: Sequence[str],
    image: Sequence[str] | None = None,
) -> str:
    """A batch's changes as steps; every image must be whole and have the columns `sets`. `image`:
    see `typed_changes`.

    Here, as in everything that follows, the target's columns go by their slots. Raises SURPRISE if
    a key is NULL or a value does not fit.
    """
    found = typed_changes(projection, projection.masked(changes), sets=sets, image=image)
    names = [*projection.key_slots.values(), *(projection.slots[name] for name in sets)]
    pos = surprised(f"{found.unfit} OR {found.keyless}", "pos")
    return query(
        **found.relations,
        steps=f"""SELECT {", ".join(names)}, gone AS _gone, {pos} AS _pos,
  event_time AS _event_time, {sql_text(projection.label)} AS _source_table
FROM typed""",
    )


def stored_versions(projection: Projection, target: str, *, timely: bool, keys: str) -> str:
    """What is stored of the source table's keys: `_open`, the open version, and `_clock`.

    `_clock` is the time below which no version can begin. `timely`: no event is older than any time
    in the target, so only open versions matter; otherwise those of `keys`, a relation of `_k0`….
    """
    columns = ", ".join(f"t.{quoted(name)} AS {slot}" for name, slot in projection.slots.items())
    names = _keys_of_row(projection)
    opened = f"struct(t._pos AS _pos, {columns})"
    own = f"t._source_table = {sql_text(projection.label)}"
    if timely:
        return (
            f"SELECT {names}, {opened} AS _open, t._valid_from AS _clock FROM {target} t "
            f"WHERE t._current AND {own}"
        )
    grouped = ", ".join(f"t.{quoted(key)}" for key in projection.keys)
    return (
        f"SELECT {names}, max_by({opened}, t._pos) FILTER (WHERE t._current) AS _open, "
        f"max(coalesce(t._valid_to, t._valid_from)) AS _clock FROM {target} t LEFT SEMI JOIN "
        f"({keys}) n ON {_same_key(projection, 'n')} WHERE {own} GROUP BY {grouped}"
    )


def _keys_of_row(projection: Projection) -> str:
    """SQL of the key columns of a row `t` of the target, by their slots."""
    slots = projection.key_slots.items()
    return ", ".join(f"t.{quoted(name)} AS {key}" for name, key in slots)


def _same_key(projection: Projection, other: str) -> str:
    """True where a row `t` of the target has the key of another relation's row."""
    slots = projection.key_slots.items()
    return " AND ".join(f"t.{quoted(name)} = {other}.{key}" for name, key in slots)


def beside(projection: Projection, steps: str, stored: str) -> str:
    """Steps beside what `stored_versions` has of their keys."""
    same = " AND ".join(f"b.{key} = s.{key}" for key in projection.key_slots.values())
    return f"SELECT s.*, b._open, b._clock FROM ({steps}) s LEFT JOIN ({stored}) b ON {same}"


def rows(projection: Projection, steps: str, *, sets: Sequence[str] | None = None) -> str:
    """The rows for `merge_sql` that follow from steps with what is stored of their keys.

    `sets`: the columns that the steps have, if they are a batch's own changes; all other columns
    stay as the open version has them. A tie between two deliveries of such changes raises SURPRISE.
    """
    keys = list(projection.key_slots.values())
    window = f"(PARTITION BY {', '.join(keys)} ORDER BY _pos)"
    given = projection.columns if sets is None else sets
    slots = projection.slots
    lacking = [slots[name] for name in projection.columns if name not in (*given, *projection.keys)]
    plain = [*keys, "_gone", "_event_time", "_source_table", "_open", "_clock"]
    ours = [slots[name] for name in projection.columns if name not in projection.keys]
    filled = steps
    if lacking:
        kept = f"bool_or(_gone) OVER {window}"
        values = "".join(f", IF({kept}, NULL, _open.{name}) AS {name}" for name in lacking)
        filled = f"SELECT *{values} FROM ({steps})"
    listed = ", ".join([*plain, *ours])
    pos = "_pos"
    if sets is not None and not projection.by_arrival:
        same = f"{source_part('_last')} = {source_part('_pos')}"
        tie = f"{same} AND {message_of('_last')} <> {message_of('_pos')}"
        pos = surprised(f"coalesce({tie}, false)", "_pos")
    values = f"struct({', '.join(ours)})" if ours else "true"
    out = ", ".join([*keys, *ours, "_source_table", "_event_time", "_act"])
    return query(
        filled=filled,
        ordered=f"""SELECT {listed}, _pos,
  lag(struct(_gone AS gone, {values} AS row)) OVER {window} AS _before,
  lag(_pos) OVER {window} AS _last FROM filled""",
        untied=f"SELECT {listed}, {pos} AS _pos, _before FROM ordered",
        changed=f"""SELECT *, row_number() OVER {window} AS _n,
  greatest(_clock, max(_event_time) OVER {window}) AS _from
FROM untied WHERE {_changes_row(values, ours)}""",
        spans=f"""SELECT *, lead(_from) OVER {window} AS _to,
  lead(struct(_gone AS gone, _event_time AS at)) OVER {window} AS _next FROM changed""",
        acts="""SELECT *, explode(CASE WHEN _n = 1 AND _open IS NOT NULL
    THEN IF(_gone, array('close'), array('close', 'put'))
    WHEN _gone THEN array() ELSE array('put') END) AS _act FROM spans""",
        versions=f"""SELECT {out}, IF(_act = 'close', _open._pos, _pos) AS _pos,
  IF(_act = 'close', NULL, _from) AS _valid_from, IF(_act = 'close', _from, _to) AS _valid_to,
  _act = 'put' AND _next IS NULL AS _current,
  CASE WHEN _act = 'put' AND _next.gone THEN coalesce(_next.at, timestamp_micros(0))
    WHEN _act = 'close' AND _gone THEN coalesce(_event_time, timestamp_micros(0)) END AS _deleted_at
FROM acts""",
    )


def _changes_row(values: str, ours: Sequence[str]) -> str:
    """True for a step that leaves the row otherwise than the step before it, or than the open
    version."""
    stored = f"struct({', '.join(f'_open.{name}' for name in ours)})" if ours else "true"
    return f"""CASE
    WHEN _before IS NULL AND _gone THEN _open IS NOT NULL
    WHEN _before IS NULL THEN _open IS NULL OR NOT ({values} <=> {stored})
    WHEN _gone THEN NOT _before.gone
    ELSE _before.gone OR NOT ({values} <=> _before.row) END"""


def beside_nothing(projection: Projection, steps: str) -> str:
    """Steps as `beside` gives them, if nothing is stored of their keys."""
    slots = projection.slots.items()
    fields = ", ".join(f"{slot}: {projection.columns[name]}" for name, slot in slots)
    return (
        f"SELECT *, CAST(NULL AS struct<_pos: array<bigint>, {fields}>) AS _open, "
        f"CAST(NULL AS timestamp) AS _clock FROM ({steps})"
    )


def with_open_values(projection: Projection, steps: str) -> str:
    """Steps with what is stored of their keys, for `rows`: columns that a step does not set are as
    the open version has them."""
    filled = "".join(
        f", IF(_sets IS NULL OR array_contains(_sets, {sql_text(name)}), {slot}, "
        f"_open.{slot}) AS {slot}"
        for name, slot in projection.slots.items()
        if name not in projection.keys
    )
    keys = ", ".join(projection.key_slots.values())
    return (
        f"SELECT {keys}, _gone, _pos, _event_time, _source_table, _open, _clock{filled} "
        f"FROM ({steps})"
    )


def unknown(projection: Projection, target: str, *, keys: str, known: str) -> str:
    """Rows `gone`: the stored versions of `keys` that are not among the rows `known`."""
    ours = "".join(
        f"t.{quoted(name)} AS {slot}, "
        for name, slot in projection.slots.items()
        if name not in projection.keys
    )
    return f"""SELECT {_keys_of_row(projection)}, {ours}t._source_table, t._event_time,
  'gone' AS _act, t._pos, t._valid_from, t._valid_to, t._current,
  CAST(NULL AS timestamp) AS _deleted_at
FROM {target} t LEFT SEMI JOIN ({keys}) n ON {_same_key(projection, "n")}
LEFT ANTI JOIN ({known}) k ON {_same_key(projection, "k")} AND t._pos = k._pos
WHERE t._source_table = {sql_text(projection.label)}"""


@dataclass(frozen=True, kw_only=True)
class Merge:
    """One statement; see `ingest.sql.fold.merge.Merge`. `timely`: only open rows need be looked
    at."""

    target: str
    rows: str
    projection: Projection
    soft: bool
    timely: bool
    truncates: MergedTruncates | None = None


def merge_sql(merge: Merge) -> str:
    """The MERGE INTO statement."""
    projection = merge.projection
    added = [*_ADDED, *(["_deleted_at"] if merge.soft else [])]
    data = {
        quoted(name): slot for name, slot in projection.slots.items() if name not in projection.keys
    }
    on = [_same_key(projection, "s"), "t._pos = s._pos", "t._source_table = s._source_table"]
    if merge.timely:
        on.append("t._current")
    ends = ["t._valid_to = s._valid_to", "t._current = false"]
    ends += ["t._deleted_at = s._deleted_at"] if merge.soft else []
    written = {**data, **{name: name for name in ("_event_time", *added)}}
    same = " AND ".join(f"t.{name} <=> s.{slot}" for name, slot in written.items())
    inserted = _inserted(merge)
    clauses = [
        f"MERGE INTO {merge.target} t USING ({merge.rows}) s ON {' AND '.join(on)}",
        f"WHEN MATCHED AND s._act = 'close' THEN UPDATE SET {', '.join(ends)}",
    ]
    if not merge.timely:
        clauses += [
            "WHEN MATCHED AND s._act = 'gone' THEN DELETE",
            f"WHEN MATCHED AND s._act = 'put' AND NOT ({same}) THEN UPDATE SET "
            + ", ".join(f"t.{name} = s.{slot}" for name, slot in written.items()),
        ]
    clauses.append(
        f"WHEN NOT MATCHED AND s._act = 'put' THEN INSERT ({quoted_list(inserted)}) "
        f"VALUES ({', '.join(inserted.values())})"
    )
    if merge.truncates:
        clauses.append(_truncate_clause(merge, merge.truncates))
    return "\n".join(clauses)


def insert_sql(merge: Merge) -> str:
    """The INSERT that does the same if the target has no version."""
    return into_nothing(
        merge.target, _inserted(merge), rows=f"({merge.rows})", where="s._act = 'put'"
    )


def _inserted(merge: Merge) -> dict[str, str]:
    """The columns of a version that is inserted, each with SQL of its value."""
    projection = merge.projection
    slots = {**projection.slots, **projection.key_slots}
    return {
        **{name: f"s.{slot}" for name, slot in slots.items()},
        **row_metadata(projection.source),
        **{name: f"s.{name}" for name in (*_ADDED, *(["_deleted_at"] if merge.soft else []))},
    }


def _truncate_clause(merge: Merge, truncates: MergedTruncates) -> str:
    time = f"{truncates.first}.time"
    ends = [
        f"t._valid_to = greatest(t._valid_from, timestamp_micros({time}))",
        "t._current = false",
    ]
    ends += [f"t._deleted_at = timestamp_micros(coalesce({time}, 0L))"] if merge.soft else []
    return (
        f"WHEN NOT MATCHED BY SOURCE AND t._current AND {truncates.reached} "
        f"THEN UPDATE SET {', '.join(ends)}"
    )
