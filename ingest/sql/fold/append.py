"""Append: a row for each insert, snapshot row and update, the after image as it came (semantics.md,
32).

A column that an image lacks is NULL in its row; history tells it from a NULL that was sent. Each
change stands once, at its lowest pos. Copies of one change are recognised by what they have in
common (16), so applying a batch again adds nothing. Deletes and truncates are only in history.
"""

from __future__ import annotations

from ingest.identity import identity_sql
from ingest.sql.fold.typed_changes import surprised, typed_changes
from ingest.sql.metadata import ROW_METADATA
from ingest.sql.projection import Projection, as_today
from ingest.sql.query import query, select
from ingest.sql.quoting import quoted, quoted_list, sql_text

IMAGES = "op IN ('insert', 'snapshot', 'update') AND after IS NOT NULL"
"""SQL that is true for the changes of silver that make a row."""


def rows(projection: Projection, changes: str, *, checked: bool) -> str:
    """The images as rows of the target, its columns by their slots, with `_change`, their identity,
    and `_higher`, the positions of copies that stand higher.

    `changes` is SQL of silver rows. `checked` raises SURPRISE if a key is NULL or a value does
    not fit; else such rows are left out.
    """
    found = typed_changes(
        projection,
        select(f"({as_today(projection, changes)})", IMAGES),
        sets=tuple(projection.columns),
        by_own_key=False,
        beside={"_change": identity_sql(projection.by_arrival)},
    )
    bad = f"{found.unfit} OR {found.keyless}"
    pos, where = (surprised(bad, "pos"), None) if checked else ("pos", f"NOT ({bad})")
    slots, keys = projection.slots, projection.key_slots
    values = "".join(f"{keys.get(name, slot)} AS {slot}, " for name, slot in slots.items())
    names = "".join(f"image.{slot} AS {slot}, " for slot in slots.values())
    images = f"_change, {pos} AS pos, struct({values}event_time AS _event_time) AS image"
    return query(
        **found.relations,
        images=select("typed", where, columns=images),
        lowest="SELECT _change, min(pos) AS pos, min_by(image, pos) AS image, "
        "array_except(collect_set(pos), array(min(pos))) AS higher FROM images GROUP BY _change",
        rows=f"""SELECT _change, higher AS _higher, {names}pos AS _pos,
  image._event_time AS _event_time, {sql_text(projection.source)} AS _source,
  {sql_text(projection.label)} AS _source_table
FROM lowest""",
    )


def insert_sql(target: str, projection: Projection, rows: str) -> str:
    """The INSERT of `rows` that are sure to be new.

    Its condition is always true. It makes the statement read the target, so that Delta refuses it
    if another driver has written there meanwhile; an INSERT that reads nothing would be let in, and
    each image would be there twice. The first column has statistics in every file: if none has a
    NULL in it, no file is opened.
    """
    columns = [*projection.columns, *ROW_METADATA]
    first = quoted(columns[0])
    names = [*projection.slots.values(), *ROW_METADATA]
    return (
        f"INSERT INTO {target} ({quoted_list(columns)}) "
        f"SELECT {', '.join(names)} FROM ({rows}) "
        f"WHERE (SELECT count(*) FROM (SELECT 1 FROM {target} WHERE {first} IS NULL LIMIT 1)) < 2"
    )


def merge_sql(target: str, projection: Projection, new: str, *, earlier: str) -> str:
    """The MERGE that adds those of the rows `new` that the target lacks.

    `earlier` is SQL of the silver rows applied before. If a lower copy of a change comes later, the
    change moves to the lower pos, also if the higher one was written by a run that was cut off.
    """
    listed = quoted_list([*projection.columns, *ROW_METADATA])
    names = [*projection.slots.values(), *ROW_METADATA]
    kept = ", ".join(f"r.{name}" for name in names if name != "_pos")
    change = identity_sql(projection.by_arrival)
    source = query(
        new=new,
        known=f"SELECT {change} AS _change, min(pos) AS held FROM ({earlier}) WHERE {IMAGES} "
        "GROUP BY _change",
        source=f"""SELECT {kept}, inline(IF(held > _pos,
    array(struct(_pos, false AS _gone), struct(held AS _pos, true AS _gone)),
    array(struct(coalesce(held, _pos) AS _pos, false AS _gone)))
  || transform(array_except(_higher, array(coalesce(held, _pos))),
    x -> struct(x AS _pos, true AS _gone)))
FROM new r LEFT JOIN known k ON k._change = r._change""",
    )
    values = ", ".join(f"s.{name}" for name in names)
    return f"""MERGE INTO {target} t USING ({source}) s
ON t._pos = s._pos AND t._source_table = s._source_table
WHEN MATCHED AND s._gone THEN DELETE
WHEN NOT MATCHED AND NOT s._gone THEN INSERT ({listed}) VALUES ({values})"""
