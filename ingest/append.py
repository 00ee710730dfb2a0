"""Append: one row per insert, snapshot row and update, the after image as it came (rulings.md, 32).

A column that an image lacks is NULL in its row; history tells it from a NULL that was sent. Each
change stands once, at its lowest pos: copies of one change are told by what they have in common
(16), so a batch that is applied again adds nothing. Deletes and truncates live in history alone.
"""

from __future__ import annotations

from ingest.casts import sql_text
from ingest.latest import SURPRISE
from ingest.shape import Shape, as_today, column

IMAGES = "op IN ('insert', 'snapshot', 'update') AND after IS NOT NULL"
"""SQL that is true for the changes of silver that make a row."""


def identity(shape: Shape) -> str:
    """SQL of what copies of a change have in common, within its source table."""
    if shape.by_arrival:
        return "slice(pos, 8, 4)"
    return "concat(slice(pos, 1, 7), slice(pos, 10, 2), array(value_hash))"


def rows(shape: Shape, changes: str, *, checked: bool) -> str:
    """The images as rows of the target, with `_change`, their identity.

    `changes` is SQL of silver rows. `checked` raises SURPRISE where a key is NULL or a value does
    not fit; else such rows are left out.
    """
    checks = [check for _, check in shape.misfits()]
    if shape.keys:
        checks.append(f"({shape.key_text()}) IS NULL")
    bad = f"coalesce({' OR '.join(checks)}, false)" if checks else "false"
    pos = f"IF({bad}, raise_error({sql_text(SURPRISE)}), pos)" if checked and checks else "pos"
    where = IMAGES if checked else f"{IMAGES} AND NOT {bad}"
    values = "".join(
        f"{_value(shape, name)} AS {column(name)}, " for name, type_ in shape.columns.items()
    )
    names = "".join(f"image.{column(name)} AS {column(name)}, " for name in shape.columns)
    return f"""SELECT _change, {names}pos AS _pos, image._event_time AS _event_time,
  {sql_text(shape.source)} AS _source, {sql_text(shape.label)} AS _source_table
FROM (SELECT _change, min(pos) AS pos, min_by(image, pos) AS image
  FROM (SELECT {identity(shape)} AS _change, {pos} AS pos,
      struct({values}event_time AS _event_time) AS image
    FROM ({as_today(shape, changes)}) WHERE {where})
  GROUP BY _change)"""


def _value(shape: Shape, name: str) -> str:
    if name in shape.keys:
        return shape.typed_key(name)
    return shape.typed("after", name)


def merge_sql(target: str, shape: Shape, new: str, earlier: str) -> str:
    """The MERGE that adds what the target lacks of the rows `new`.

    `earlier` is SQL of the silver rows applied before. A change whose lower copy comes later moves
    to the lower pos.
    """
    names = [*map(column, shape.columns), "_pos", "_event_time", "_source", "_source_table"]
    listed = ", ".join(names)
    kept = ", ".join(f"r.{name}" for name in names if name != "_pos")
    known = f"SELECT {identity(shape)} AS _change, min(pos) AS held FROM ({earlier}) "
    source = f"""SELECT {kept}, inline(IF(held > _pos,
    array(struct(_pos, false AS _gone), struct(held AS _pos, true AS _gone)),
    array(struct(coalesce(held, _pos) AS _pos, false AS _gone))))
  FROM ({new}) r LEFT JOIN ({known} WHERE {IMAGES} GROUP BY _change) k ON k._change = r._change"""
    values = ", ".join(f"s.{name}" for name in names)
    return f"""MERGE INTO {target} t USING ({source}) s
ON t._pos = s._pos AND t._source_table = s._source_table
WHEN MATCHED AND s._gone THEN DELETE
WHEN NOT MATCHED AND NOT s._gone THEN INSERT ({listed}) VALUES ({values})"""
