"""A gold table's shape, and silver's changes of one source table seen through it, as SQL.

Silver holds canonical text by column name; gold holds typed columns. A Shape says which columns a
target has, of which types, under which spellings the source sends them, and how rows of the source
table are ordered. From it come the two SELECTs that everything in gold is made of: `events`, one
row a change with its key as text, for the exact fold; and `latest`, the same folded to one row a
key, for batches in which only whole rows come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ingest import casts
from ingest.casts import sql_text
from ingest.lineage import Lineage, retyped, translated, without_early
from ingest.order import LENGTH, SOURCE_PART

SURPRISE = "ingest: this batch needs the exact fold"
"""What a `latest` raises inside Spark when a batch is not as simple as its statistics promised."""


def column(name: str) -> str:
    """A column name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How one source table's changes become rows of a target.

    `columns`: target column -> Spark type, keys first. `spellings`: target column -> the names
    images have it under. `label`: the source table's `db.table` or `db.schema.table`. `zone`: of
    zone-less times. `native`: silver's own `key` is the target's key; else key values come from the
    images. `lineage`: the schema changes through which earlier events are read. `shard`: the key
    column that tells which source table a row came from. `sequence`: the columns that order the
    rows, as the names images have them under and their type.
    """

    keys: tuple[str, ...]
    columns: Mapping[str, str]
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    label: str = ""
    source: str = ""
    zone: str | None = None
    by_arrival: bool = False
    truncates: bool = True
    native: bool = True
    lineage: Lineage = ()
    shard: str | None = None
    sequence: tuple[tuple[tuple[str, ...], str], ...] = ()

    def text(self, image: str, name: str) -> str:
        """SQL of the text that the map `image` has for target column `name`."""
        if name == self.shard:
            return sql_text(self.label)
        found = [f"{image}[{sql_text(spelt)}]" for spelt in self.spellings.get(name, (name,))]
        return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"

    def typed(self, image: str, name: str) -> str:
        """SQL of the typed value of target column `name` in the map `image`."""
        return casts.typed(self.text(image, name), self.columns[name], self.zone)

    def key_value(self, name: str, *, before: bool = False) -> str:
        """SQL of a key column's text: from the event's key, else from its images.

        Where silver's key is not the target's, the images come first: a key may tell a column too.
        """
        if name == self.shard:
            return self.text("", name)
        if not self.native:
            image, key = ("before", "key_before") if before else ("coalesce(after, before)", "key")
            return f"coalesce({self.text(image, name)}, {self.text(key, name)})"
        if before:
            return f"coalesce(key_before[{sql_text(name)}], {self.text('before', name)})"
        whole = self.text("coalesce(after, before)", name)
        return f"coalesce({self.text('key', name)}, {whole})"

    def typed_key(self, name: str) -> str:
        """SQL of the typed value of a key column."""
        return casts.typed(self.key_value(name), self.columns[name], self.zone)

    def key_text(self, *, before: bool = False) -> str:
        """SQL of the key as array<string>: values that are equal as typed have equal text.

        Null where a value is missing or does not fit its type; empty where there are no keys.
        """
        if not self.keys:
            return "CAST(array() AS array<string>)"
        parts = []
        for name in self.keys:
            value = self.key_value(name, before=before)
            parts.append(
                as_text(casts.typed(value, self.columns[name], self.zone), self.columns[name])
            )
        listed = ", ".join(parts)
        missing = " OR ".join(f"{part} IS NULL" for part in parts)
        return f"CASE WHEN {missing} THEN NULL ELSE array({listed}) END"

    @property
    def moved(self) -> str:
        """SQL that is true for an update that changed the key."""
        if self.native:
            return MOVED
        before, after = self.key_text(before=True), self.key_text()
        return f"(op = 'update' AND coalesce(({before}) <> ({after}), false))"

    def misfits(self) -> list[tuple[str, str]]:
        """(column, SQL that is true where the after image has a misfit), where there can be one."""
        checks = []
        for name, type_ in self.columns.items():
            check = casts.misfit(self.text("after", name), type_, self.zone)
            if check is not None:
                checks.append((name, check))
        return checks


def as_text(typed: str, type_: str) -> str:
    """SQL of a typed key value as text, the same for equal values."""
    return f"base64({typed})" if type_ == "binary" else f"CAST({typed} AS string)"


def from_text(text: str, type_: str) -> str:
    """SQL of the typed key value of what `as_text` gave."""
    if type_ == "binary":
        return f"unbase64({text})"
    return text if type_ == "string" else f"CAST({text} AS {type_})"


def source_part(pos: str) -> str:
    """SQL of the source's own part of a pos."""
    return f"slice({pos}, 1, size({pos}) + {SOURCE_PART})"


MOVED = "(op = 'update' AND key_before IS NOT NULL AND to_json(key_before) <> to_json(key))"


def as_today(shape: Shape, changes: str) -> str:
    """SQL of the changes (silver rows) as they read under today's columns, without values that did
    not have to fit yet and do not."""
    # By `sequence_by`, the log's own place comes last.
    pos = f"slice(pos, -{LENGTH}, {LENGTH})" if shape.sequence else "pos"
    changes = translated(changes, shape.lineage, pos=pos)
    for name, check in shape.misfits():
        since = retyped(shape.lineage, name)
        if since is not None:
            spelt = shape.spellings.get(name, (name,))
            changes = without_early(changes, spelt, before=since, where=check, pos=pos)
    return changes


def events(shape: Shape, changes: str) -> str:
    """One row a change: key and key_before as array<string>, images, what it takes to fold them.

    `changes` is SQL of silver rows of kind change of one source table. Columns: op, pos, label,
    key, key_before, image, before, partial, event_time (µs), tx, digest, batch, topic, partition,
    offset, row, misfits (array<string>), lacks (how many target columns the image has not).
    """
    changes = as_today(shape, changes)
    flagged = [f"IF({check}, {sql_text(name)}, NULL)" for name, check in shape.misfits()]
    misfits = f"array_compact(array({', '.join(flagged)}))" if flagged else "array()"
    names = ", ".join(sql_text(name) for name in shape.columns)
    image = _renamed(shape)
    tx = f"coalesce(tx_id, to_json({source_part('pos')}))"
    return f"""SELECT op, pos, {sql_text(shape.label)} AS label,
  IF(op = 'truncate', NULL, {shape.key_text()}) AS key,
  IF({shape.moved}, {shape.key_text(before=True)}, NULL) AS key_before,
  IF(op IN ('delete', 'truncate'), NULL, {image}) AS image,
  before, coalesce(after_image = 'partial', false) AS partial,
  CAST(unix_micros(event_time) AS bigint) AS event_time, {tx} AS tx,
  value_hash AS digest, batch, topic, `partition`, offset, `row`,
  CASE WHEN op IN ('delete', 'truncate') THEN CAST(array() AS array<string>)
    ELSE CAST({misfits} AS array<string>) END AS misfits,
  size(array_except(array({names}), coalesce(map_keys({image}), array()))) AS lacks
FROM ({changes})"""


def _renamed(shape: Shape) -> str:
    """SQL of the after image with target column names, without columns the target lacks."""
    respelt = {
        spelt: name for name, all_ in shape.spellings.items() for spelt in all_ if spelt != name
    }
    kept = f"map_filter(after, (k, v) -> array_contains(array({_listed(shape)}), k))"
    if not respelt:
        return kept
    cases = " ".join(f"WHEN {sql_text(old)} THEN {sql_text(new)}" for old, new in respelt.items())
    return f"transform_keys({kept}, (k, v) -> CASE k {cases} ELSE k END)"


def _listed(shape: Shape) -> str:
    names = {spelt for name in shape.columns for spelt in shape.spellings.get(name, (name,))}
    return ", ".join(sql_text(name) for name in sorted(names))


def latest(
    shape: Shape,
    changes: str,
    *,
    sets: tuple[str, ...],
    image: tuple[str, ...] | None = None,
    unless: str | None = None,
) -> str:
    """The changes folded to one row a key, where every image is whole and has the columns `sets`.

    `image` is the one list of names that all images have, in their order: values are then taken by
    place, not looked up. Raises SURPRISE where a key is null, a value misfits, or the newest change
    of a key is tied with another by the source's order. `unless` names a relation of late keys
    (column `key`) to leave out; its presence also leaves out what does not fit, which is then
    looked after elsewhere.
    """
    checked = unless is None
    keys = [column(f"k{i}") for i in range(len(shape.keys))]
    listed = ", ".join(keys)
    nulls = " OR ".join(f"{key} IS NULL" for key in keys)
    surprise = f"raise_error({sql_text(SURPRISE)})"
    rows = _typed_rows(shape, changes, sets=sets, image=image, checked=checked)
    bad = f"NOT gone AND ({_misfit(shape, sets)})"
    folded = f"struct({', '.join(['gone', 'event_time', *(f'`v{i}`' for i in range(len(sets)))])})"
    ties = checked and not shape.by_arrival
    if checked:
        folded = f"IF({bad}, {surprise}, {folded})"
    else:
        rows = (
            f"SELECT c.* FROM ({rows}) c LEFT ANTI JOIN {unless} l ON l.key = c.key_text "
            f"WHERE NOT ({bad}) AND key_text IS NOT NULL"
        )
    surprises = f"({nulls})" + (f" OR probe <> {_probe(shape)}" if ties else "")
    final = f"IF({surprises}, {surprise}, pos)" if checked else "pos"
    probe, most = (f", {_probe(shape)} AS probe", ", max(probe) AS probe") if ties else ("", "")
    names = "".join(f", folded.v{i} AS {column(name)}" for i, name in enumerate(sets))
    key_names = ", ".join(f"{key} AS `_k{i}`" for i, key in enumerate(keys))
    return f"""SELECT {key_names}{names}, folded.gone AS _gone,
  folded.event_time AS _event_time, {final} AS _pos, false AS _exact, true AS _whole,
  CAST(NULL AS array<string>) AS _sets, {sql_text(shape.label)} AS _source_table,
  IF(folded.gone, folded.event_time, NULL) AS _deleted_at
FROM (SELECT {listed}, max(pos) AS pos, max_by(folded, pos) AS folded{most}
  FROM (SELECT {listed}, pos, {folded} AS folded{probe}
    FROM ({rows}))
  GROUP BY {listed})"""


def _probe(shape: Shape) -> str:
    """SQL of a pos whose transport counts downwards: of tied events the first has the highest."""
    if shape.sequence:
        return f"concat({source_part('pos')}, transform(slice(pos, -4, 4), x -> -x))"
    numbers = ("-"[: i >= LENGTH + SOURCE_PART] + f"pos[{i}]" for i in range(LENGTH))
    return f"array({', '.join(numbers)})"


def _typed_rows(
    shape: Shape,
    changes: str,
    *,
    sets: tuple[str, ...],
    image: tuple[str, ...] | None,
    checked: bool,
) -> str:
    """SQL of rows with typed keys `k0`…, `pos`, `gone`, `event_time`, per column of `sets` its text
    `x0`… and typed value `v0`…, and, unless `checked`, the key's text."""
    typed_keys = ", ".join(
        casts.typed(
            # Where silver knows the key, an event without one is a surprise.
            shape.text("key", name) if shape.native and checked else shape.key_value(name),
            shape.columns[name],
            shape.zone,
        )
        + f" AS `k{i}`"
        for i, name in enumerate(shape.keys)
    )
    key_text = "" if checked else f", {shape.key_text()} AS key_text"
    places = {name: place for place, name in enumerate(image)} if image else {}
    texts, values = [], []
    for i, name in enumerate(sets):
        spelt = shape.spellings.get(name, (name,))
        by_place = len(spelt) == 1 and spelt[0] in places
        text = f"texts[{places[spelt[0]]}]" if by_place else shape.text("after", name)
        texts.append(f", {text} AS `x{i}`")
        values.append(f", {casts.typed(f'`x{i}`', shape.columns[name], shape.zone)} AS `v{i}`")
    keys = ", ".join(column(f"k{i}") for i in range(len(shape.keys)))
    kept = "" if checked else ", key_text"
    xs = "".join(f", `x{i}`" for i in range(len(sets)))
    return f"""SELECT {keys}, pos, gone, event_time{kept}{xs}{"".join(values)}
FROM (SELECT {keys}, pos, gone, event_time{kept}{"".join(texts)}
  FROM (SELECT {typed_keys}{key_text}, pos, op = 'delete' AS gone, event_time, after,
      map_values(after) AS texts
    FROM ({changes})))"""


def _misfit(shape: Shape, sets: tuple[str, ...]) -> str:
    """SQL that is true where a text `x0`… has no typed value `v0`…."""
    checks = [
        casts.unfit(f"`x{i}`", f"`v{i}`", shape.columns[name])
        for i, name in enumerate(sets)
        if shape.columns[name] != "string"
    ]
    return " OR ".join(checks) or "false"
