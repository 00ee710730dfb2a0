"""Changes folded to one row a key by SQL alone, for batches that bring only whole rows."""

from __future__ import annotations

from ingest.position import LENGTH, SOURCE_PART, source_part, transport_part
from ingest.sql.fold.typed_changes import surprised, typed_changes
from ingest.sql.projection import Projection
from ingest.sql.query import query
from ingest.sql.quoting import sql_text


def latest(
    projection: Projection,
    changes: str,
    *,
    sets: tuple[str, ...],
    image: tuple[str, ...] | None = None,
    unless: str | None = None,
) -> str:
    """The changes folded to one row a key; every image must be whole and have the columns `sets`.

    Columns: the key as `_k0`…, those of `sets` by their slots, and the rest of a MERGE's source.
    `image`: see `typed_changes`. Raises SURPRISE if a key is NULL, a value does not fit, or the
    newest change of a key is tied with another by the source's order. `unless` names a relation of
    late keys (column `key`) to leave out; with it, rows that do not fit are left out too, since
    they are dealt with elsewhere.
    """
    checked = unless is None
    found = typed_changes(
        projection,
        projection.masked(changes),
        sets=sets,
        image=image,
        by_own_key=checked,
        beside=None if checked else {"key_text": projection.key_text()},
    )
    keys = ", ".join(projection.key_slots.values())
    slots = [projection.slots[name] for name in sets]
    relations, of = dict(found.relations), "typed"
    folded = f"struct({', '.join(['gone', 'event_time', *slots])})"
    ties = checked and not projection.by_arrival
    if checked:
        folded = surprised(found.unfit, folded)
    else:
        relations["on_time"] = (
            f"SELECT c.* FROM typed c LEFT ANTI JOIN {unless} l ON l.key = c.key_text "
            f"WHERE NOT ({found.unfit}) AND key_text IS NOT NULL"
        )
        of = "on_time"
    surprises = f"({found.keyless})" + (f" OR probe <> {_probe(projection)}" if ties else "")
    # Asked in the column by which the reader leaves rows out: of those rows Spark would not work
    # out any other column.
    gone = surprised(surprises, "folded.gone") if checked else "folded.gone"
    probe, most = (
        (f", {_probe(projection)} AS probe", ", max(probe) AS probe") if ties else ("", "")
    )
    values = "".join(f", folded.{slot} AS {slot}" for slot in slots)
    return query(
        **relations,
        steps=f"SELECT {keys}, pos, {folded} AS folded{probe} FROM {of}",
        newest=f"SELECT {keys}, max(pos) AS pos, max_by(folded, pos) AS folded{most} "
        f"FROM steps GROUP BY {keys}",
        rows=f"""SELECT {keys}{values}, {gone} AS _gone,
  folded.event_time AS _event_time, pos AS _pos, false AS _exact, true AS _whole,
  CAST(NULL AS array<string>) AS _sets, {sql_text(projection.label)} AS _source_table,
  IF(folded.gone, folded.event_time, NULL) AS _deleted_at
FROM newest""",
    )


def _probe(projection: Projection) -> str:
    """SQL of a pos whose transport counts downwards: of tied events the first has the highest."""
    if projection.sequence:
        return f"concat({source_part('pos')}, transform({transport_part('pos')}, x -> -x))"
    own, transport = range(LENGTH)[:SOURCE_PART], range(LENGTH)[SOURCE_PART:]
    numbers = (*(f"pos[{i}]" for i in own), *(f"-pos[{i}]" for i in transport))
    return f"array({', '.join(numbers)})"
