"""How one source table's changes become a gold table's rows, and the SQL that reads them so.

Silver holds canonical text by column name; gold holds typed columns. A Projection says which
columns a target has, of which types, under which spellings the source sends them, and how rows of
the source table are ordered. From it come the two readings that everything in gold is made of:
`events`, one row a change with its key and values as text, for the exact fold; and
`ingest.sql.fold.typed_changes`, with typed ones, where SQL alone folds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ingest.ddl.changes import Lineage, RenameColumn, added_with_default, only, retypings
from ingest.names import lowered
from ingest.position import HALF, Pos, in_log, pos_literal, source_part
from ingest.sql import casts
from ingest.sql.casts import as_text
from ingest.sql.delivery import origin
from ingest.sql.lineage import read_at, translated, without_early
from ingest.sql.masks import Masking, as_it_was, mask_of, masked
from ingest.sql.metadata import renamed_in_gold
from ingest.sql.quoting import sql_text, sql_texts


def slots(columns: Iterable[str]) -> dict[str, str]:
    """The names that a target's columns have in our own SQL: `c0`, `c1`, … by their place.

    A source's name for a column never stands beside names of ours, which it might equal
    (semantics.md, 73): it is only the name of a target's column, or the text of a map's key.
    """
    return {name: f"c{place}" for place, name in enumerate(columns)}


def key_slots(keys: Iterable[str]) -> dict[str, str]:
    """The names that key columns have in rows that are on their way to a target: `_k0`, `_k1`, …"""
    return {name: f"_k{place}" for place, name in enumerate(keys)}


class OrderColumn(NamedTuple):
    """A column that orders rows (`sequence_by`): its type and the names that images have it under
    (`spellings`). `earlier`: the names that it had below certain positions, in order."""

    spellings: tuple[str, ...]
    type: str
    earlier: tuple[tuple[Pos, tuple[str, ...]], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which images ever had it."""
        return (*self.spellings, *(name for _, names in self.earlier for name in names))


@dataclass(frozen=True, kw_only=True)
class Projection:
    """How one source table's changes become rows of a target.

    - `columns`: target column -> Spark type, keys first.
    - `spellings`: target column -> the names that images have it under.
    - `label`: the source table's `db.table` or `db.schema.table`.
    - `zone`: the zone of times that name none.
    - `native`: silver's own `key` is the target's key; otherwise the key's values come from the
      images.
    - `lineage`: the schema changes through which earlier events are read.
    - `shard`: the key column that tells which source table a row came from.
    - `sequence`: the columns that order the rows.
    - `masks`: the target columns that hold something else in place of their values; changes that
      are read through `masked` hold it too.
    - `keeps_states`: the target shows every state of a row, not only the last.
    - `read_positions`: a row of a snapshot tells where in the log it was read.
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
    sequence: tuple[OrderColumn, ...] = ()
    masks: Mapping[str, Masking] = field(default_factory=dict)
    keeps_states: bool = False
    read_positions: bool = False

    @property
    def schema_pos(self) -> str:
        """SQL of where a change stands among the schema changes. If `sequence_by` orders the rows,
        that is its place in the log, which is the last part of its pos."""
        if self.read_positions:
            return read_at("pos", by_arrival=str(self.by_arrival).lower())
        return in_log("pos") if self.sequence else "pos"

    @property
    def slots(self) -> dict[str, str]:
        """The names that the columns have in our own SQL."""
        return slots(self.columns)

    @property
    def key_slots(self) -> dict[str, str]:
        """The names that the key columns have in rows on their way to the target."""
        return key_slots(self.keys)

    @property
    def renamed(self) -> bool:
        """Whether some column has another name at its source."""
        named = (*self.columns, *(name for column in self.sequence for name in column.names))
        return any(map(renamed_in_gold, named))

    def text(self, image: str, name: str) -> str:
        """SQL of the text that the map `image` has for target column `name`."""
        if name == self.shard:
            return sql_text(self.label)
        found = [f"{image}[{sql_text(spelling)}]" for spelling in self.spellings.get(name, (name,))]
        return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"

    def key_value(self, name: str, *, before: bool = False) -> str:
        """SQL of a key column's text: from the event's key, else from its images.

        If silver's key is not the target's, the images come first, and silver's key, which may hold
        the column too, comes second. A row from before the key column was added has had the
        column's literal DEFAULT since; this DEFAULT is masked here, as `masked` masks values in
        maps.
        """
        if name == self.shard:
            return self.text("", name)
        sent = self._sent_key_value(name, before=before)
        added = added_with_default(self.lineage).get(name.lower())
        if added is None:
            return sent
        early, default = f"{self.schema_pos} < {pos_literal(added.since)}", sql_text(added.text)
        if name in self.masks:
            default = mask_of(default, self.masks[name], zone=self.zone)
        return f"coalesce({sent}, IF({early}, {default}, NULL))"

    def _sent_key_value(self, name: str, *, before: bool) -> str:
        if not self.native:
            image, key = ("before", "key_before") if before else ("coalesce(after, before)", "key")
            return f"coalesce({self.text(image, name)}, {self.text(key, name)})"
        if before:
            return f"coalesce(key_before[{sql_text(name)}], {self.text('before', name)})"
        whole = self.text("coalesce(after, before)", name)
        return f"coalesce({self.text('key', name)}, {whole})"

    def key_text(self, *, before: bool = False) -> str:
        """SQL of the key as array<string>: values that are equal as typed have equal text.

        It is null if a value is missing or does not fit its type, and empty if there are no keys.
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

    def masked(self, changes: str, *, as_sent: bool = False) -> str:
        """SQL of changes (silver rows) as the target may see them: masked, under today's column
        names.

        `as_sent`: their columns have the names of their own time.
        """
        renames = only(RenameColumn, (entry.change for entry in self.lineage))
        names = as_it_was(self.masks, renames) if as_sent else self.masks
        return masked(changes, names, zone=self.zone)

    @property
    def masks_key(self) -> bool:
        """Whether a key column is masked, so that silver's hashes of keys are not the target's."""
        return any(name in self.masks for name in self.keys)

    @property
    def changes_key(self) -> str:
        """SQL that is true for a change that gave its row another key."""
        if self.native:
            return CHANGES_KEY
        before, after = self.key_text(before=True), self.key_text()
        return f"({_MOVING} AND coalesce(({before}) <> ({after}), false))"

    @property
    def may_change_key(self) -> str:
        """SQL that is true at least for every change that gave its row another key, for changes as
        they came; `events` then tells which of them really did. Before a key column was renamed,
        the key's values stand under other names."""
        return self.changes_key if self.native or not self.key_renamed else _MOVING

    @property
    def key_renamed(self) -> bool:
        """Whether a key column had another name before."""
        names = lowered(self.keys)
        renames = only(RenameColumn, (entry.change for entry in self.lineage))
        return any(names & {rename.old.lower(), rename.new.lower()} for rename in renames)

    def misfits(self) -> list[tuple[str, str]]:
        """(column, SQL that is true where its value in the after image is a misfit), for each
        column that can have one."""
        checks = []
        for name, type_ in self.columns.items():
            check = casts.misfit(self.text("after", name), type_, self.zone)
            if check is not None:
                checks.append((name, check))
        return checks


def key_bytes(key: str) -> str:
    """SQL of how many bytes the texts of a key have."""
    return f"octet_length(array_join({key}, ''))"


_MOVING = "op IN ('insert', 'update')"
"""If a source sends a change of the key as a delete and an insert, the insert names both keys."""
CHANGES_KEY = (
    f"({_MOVING} AND key_before IS NOT NULL AND (map_values(key_before) <> map_values(key)"
    " OR map_keys(key_before) <> map_keys(key)))"
)

NAMED_KEYS = "explode(IF(key_before IS NULL, array(key), array(key, key_before)))"
"""Each key that an event names; a change of the key names both."""

NAMES_OLD_KEY = "(op = 'insert' AND key_before IS NOT NULL)"
"""True for the insert of a change of the key that came in two messages."""
LEAVES_KEY = f"(op = 'delete' AND element_at(pos, {HALF}) = 0)"
"""True for the delete of a change of the key that came in two messages."""


def as_today(projection: Projection, changes: str) -> str:
    """SQL of the changes (silver rows) as they read under today's columns, masked.

    A value from before its column got today's type need not fit that type. If it does not, it is
    left out, since the value that overwrote it fits. In a target that shows every state, such a
    value stays and is a misfit: without it, that state would show the value before it.
    """
    pos = projection.schema_pos
    changes = translated(changes, projection.lineage, pos=pos)
    since = retypings(projection.lineage) if not projection.keeps_states else {}
    unfit = [
        (projection.spellings.get(name, (name,)), since[name.lower()], check)
        for name, check in (projection.misfits() if since else ())
        if name.lower() in since
    ]
    return projection.masked(without_early(changes, unfit, pos=pos))


def events(projection: Projection, changes: str) -> str:
    """One row a change: key and key_before as array<string>, the images, and what else folding the
    change takes.

    `changes` is SQL of silver rows of kind change of one source table. Columns: op, pos, label,
    key, key_before, image, before, partial, event_time (µs), tx, digest, batch, epoch, topic,
    partition, offset, row, misfits (array<string>), lacks (how many target columns are missing in
    the image).
    """
    changes = as_today(projection, changes)
    flagged = [f"IF({check}, {sql_text(name)}, NULL)" for name, check in projection.misfits()]
    # Of the functions that leave out nulls Spark compiles only this one; with `array_compact`, none
    # of the checks would be compiled.
    misfits = f"array_except(array({', '.join(flagged)}), array(NULL))" if flagged else "array()"
    names = sql_texts(projection.columns)
    image, by_spelling = _renamed(projection), _other_spellings(projection)
    sent = f"map_keys({image if by_spelling else 'after'})"
    key_spellings = [
        sql_text(n) for key in projection.keys for n in projection.spellings.get(key, (key,))
    ]
    # The old key is told by `key_before`; the texts of key columns in the before image may differ
    # although the key does not.
    leaves_key = f"{projection.changes_key} OR op = 'delete'"
    others = (
        f"map_filter(before, (k, v) -> k NOT IN ({', '.join(key_spellings)}))"
        if key_spellings
        else "before"
    )
    others, before = (_as_spelt_here(projection, row) for row in (others, "before"))
    tx = f"concat_ws('/', epoch, coalesce(tx_id, to_json({source_part('pos')})))"
    return f"""SELECT op, pos, {sql_text(projection.label)} AS label,
  IF(op = 'truncate', NULL, {projection.key_text()}) AS key,
  IF({projection.changes_key}, {projection.key_text(before=True)}, NULL) AS key_before,
  IF(op IN ('delete', 'truncate'), NULL, {image}) AS image,
  IF({leaves_key}, {others}, {before}) AS before,
  coalesce(after_image = 'partial', false) AS partial,
  CAST(unix_micros(event_time) AS bigint) AS event_time, {tx} AS tx,
  value_hash AS digest, batch, {origin()},
  CASE WHEN op IN ('delete', 'truncate') THEN CAST(array() AS array<string>)
    ELSE CAST({misfits} AS array<string>) END AS misfits,
  size(array_except(array({names}), coalesce({sent}, array()))) AS lacks
FROM ({changes})"""


def that_fit(events: str) -> str:
    """The events of a relation that fit. An insert of a key change in two messages stays even if it
    does not fit, marked as `void`: its delete then does not count either (semantics.md, 34)."""
    fits = "key IS NOT NULL AND size(misfits) = 0"
    return (
        f"SELECT * EXCEPT (key), coalesce(key, key_before) AS key, NOT ({fits}) AS void "
        f"FROM {events} WHERE ({fits}) OR {NAMES_OLD_KEY}"
    )


def _renamed(projection: Projection) -> str:
    """SQL of the after image with target column names, without columns the target lacks."""
    listed = f"array({_listed(projection)})"
    # Spark does not compile a lambda, so only images with columns that the target lacks take it.
    kept = (
        f"IF(size(array_except(map_keys(after), {listed})) = 0, after, "
        f"map_filter(after, (k, v) -> array_contains({listed}, k)))"
    )
    return _as_spelt_here(projection, kept)


def _as_spelt_here(projection: Projection, row: str) -> str:
    """SQL of an image with its columns under the names that the target has for them."""
    by_spelling = _other_spellings(projection)
    if not by_spelling:
        return row
    cases = " ".join(
        f"WHEN {sql_text(old)} THEN {sql_text(new)}" for old, new in by_spelling.items()
    )
    return f"transform_keys({row}, (k, v) -> CASE k {cases} ELSE k END)"


def _other_spellings(projection: Projection) -> dict[str, str]:
    """The names of images that differ from the target's -> the target's column."""
    return {
        spelling: name
        for name, all_ in projection.spellings.items()
        for spelling in all_
        if spelling != name
    }


def _listed(projection: Projection) -> str:
    names = {
        spelling
        for name in projection.columns
        for spelling in projection.spellings.get(name, (name,))
    }
    return sql_texts(sorted(names))
