"""Changes folded to one row a key by SQL alone: for batches in which only whole rows come."""

from __future__ import annotations

from ingest.position import LENGTH, SOURCE_PART, source_part, transport_part
from ingest.sql import casts
from ingest.sql.projection import Projection
from ingest.sql.query import query
from ingest.sql.quoting import sql_text

SURPRISE = "ingest: this batch needs the exact fold"
"""What is raised inside Spark when a batch is not as simple as its statistics promised."""


def surprised(where: str, value: str) -> str:
    """SQL of a value that raises SURPRISE where `where` is true."""
    return f"IF({where}, raise_error({sql_text(SURPRISE)}), {value})"


def latest(
    projection: Projection,
    changes: str,
    *,
    sets: tuple[str, ...],
    image: tuple[str, ...] | None = None,
    unless: str | None = None,
) -> str:
    """The changes folded to one row a key, where every image is whole and has the columns `sets`.

    Columns: the key as `_k0`…, those of `sets` by their slots, and the rest of a MERGE's source.
    `image` is the one list of names that all images have, in their order: values are then taken by
    place, not looked up. Raises SURPRISE where a key is null, a value misfits, or the newest change
    of a key is tied with another by the source's order. `unless` names a relation of late keys
    (column `key`) to leave out; its presence also leaves out what does not fit, which is then
    looked after elsewhere.
    """
    changes = projection.masked(changes)
    checked = unless is None
    keys = ", ".join(projection.key_slots.values())
    nulls = " OR ".join(f"{key} IS NULL" for key in projection.key_slots.values())
    relations = _typed_rows(projection, changes, sets=sets, image=image, checked=checked)
    *_, typed = relations
    bad = f"NOT gone AND ({_misfit(projection, sets)})"
    folded = f"struct({', '.join(['gone', 'event_time', *(f'`v{i}`' for i in range(len(sets)))])})"
    ties = checked and not projection.by_arrival
    if checked:
        folded = surprised(bad, folded)
    else:
        relations["on_time"] = (
            f"SELECT c.* FROM {typed} c LEFT ANTI JOIN {unless} l ON l.key = c.key_text "
            f"WHERE NOT ({bad}) AND key_text IS NOT NULL"
        )
        typed = "on_time"
    surprises = f"({nulls})" + (f" OR probe <> {_probe(projection)}" if ties else "")
    final = surprised(surprises, "pos") if checked else "pos"
    probe, most = (
        (f", {_probe(projection)} AS probe", ", max(probe) AS probe") if ties else ("", "")
    )
    slots = projection.slots
    names = "".join(f", folded.v{i} AS {slots[name]}" for i, name in enumerate(sets))
    return query(
        **relations,
        steps=f"SELECT {keys}, pos, {folded} AS folded{probe} FROM {typed}",
        newest=f"SELECT {keys}, max(pos) AS pos, max_by(folded, pos) AS folded{most} "
        f"FROM steps GROUP BY {keys}",
        rows=f"""SELECT {keys}{names}, folded.gone AS _gone,
  folded.event_time AS _event_time, {final} AS _pos, false AS _exact, true AS _whole,
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


def _typed_rows(
    projection: Projection,
    changes: str,
    *,
    sets: tuple[str, ...],
    image: tuple[str, ...] | None,
    checked: bool,
) -> dict[str, str]:
    """Relations, the last of which has the typed keys, `pos`, `gone`, `event_time`, per column of
    `sets` its text `x0`… and typed value `v0`…, and, unless `checked`, the key's text."""
    typed_keys = ", ".join(
        casts.typed(
            # Where silver knows the key, an event without one is a surprise.
            projection.text("key", name)
            if projection.native and checked
            else projection.key_value(name),
            projection.columns[name],
            projection.zone,
        )
        + f" AS {key}"
        for name, key in projection.key_slots.items()
    )
    key_text = "" if checked else f", {projection.key_text()} AS key_text"
    places = {name: place for place, name in enumerate(image)} if image else {}
    texts, values = [], []
    for i, name in enumerate(sets):
        spellings = projection.spellings.get(name, (name,))
        by_place = len(spellings) == 1 and spellings[0] in places
        text = f"texts[{places[spellings[0]]}]" if by_place else projection.text("after", name)
        texts.append(f", {text} AS `x{i}`")
        values.append(
            f", {casts.typed(f'`x{i}`', projection.columns[name], projection.zone)} AS `v{i}`"
        )
    keys = ", ".join(projection.key_slots.values())
    kept = "" if checked else ", key_text"
    xs = "".join(f", `x{i}`" for i in range(len(sets)))
    plain = f"{keys}, pos, gone, event_time{kept}"
    return {
        "keyed": f"SELECT {typed_keys}{key_text}, pos, op = 'delete' AS gone, event_time, after, "
        f"map_values(after) AS texts FROM ({changes})",
        "spelled": f"SELECT {plain}{''.join(texts)} FROM keyed",
        "typed": f"SELECT {plain}{xs}{''.join(values)} FROM spelled",
    }


def _misfit(projection: Projection, sets: tuple[str, ...]) -> str:
    """SQL that is true where a text `x0`… has no typed value `v0`…."""
    checks = [
        casts.unfit(f"`x{i}`", f"`v{i}`", projection.columns[name])
        for i, name in enumerate(sets)
        if projection.columns[name] != "string"
    ]
    return " OR ".join(checks) or "false"
