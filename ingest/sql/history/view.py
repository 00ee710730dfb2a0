"""`history.<target>`: every distinct change of a target's source tables, typed, as one query.

1. Take the changes of the source tables from silver.
2. Deliveries of one change are one change (`ingest.identity`). The one with a before image stands,
   since a joined pair supersedes its lone after-half; it gets the lowest pos.
3. The columns of the row after (of a delete: before), called as they are today, are cast to gold's
   types. A text that does not fit is NULL there; `after` has it, like all that came, as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ingest.codes import Code
from ingest.ddl.changes import Lineage, RenameColumn
from ingest.identity import identity_sql
from ingest.names import SourceTable, lowered
from ingest.position import Pos, pos_literal
from ingest.sql.casts import as_text, typed
from ingest.sql.delivery import DELIVERY, origin, same
from ingest.sql.lineage import translated
from ingest.sql.masks import Masking, as_it_is, as_it_was, masked
from ingest.sql.metadata import in_gold, source_name
from ingest.sql.query import query, select, union_all
from ingest.sql.quoting import quoted, quoted_list, sql_text, sql_texts
from ingest.sql.silver import of_table

FIRST = ("op", "pos", "event_time", "tx_id")
LAST = tuple(
    """
    key key_before before after source topic partition offset row batch
    """.split()
)
IMAGES = ("key", "key_before", "before", "after")
_TOLD = ("db", "schema", "table", "epoch", "format", "value_hash")
"""The columns that tell which change a delivery belongs to, beside those that the view shows."""
_SIDES = ("_now", "_was")
"""For the columns that are searched: their values as text on the row's side now and before."""


class Looked(NamedTuple):
    """What changes are searched by: values of `columns`, the first `keys` of which are the key.

    `wanted`: place among the columns -> text of the value that is asked for.
    """

    columns: tuple[str, ...]
    keys: int
    wanted: Mapping[int, str]


class Earlier(NamedTuple):
    """A key, as JSON, that a row had until a change of its key at position `until`."""

    key: str
    until: Pos


def of_key(columns: Mapping[str, str], looked: Looked, earlier: Sequence[Earlier]) -> str:
    """SQL that is true in the view for changes of the rows with the wanted values.

    Typed values are compared, of the row after the change or before it; `earlier` are the keys that
    these rows had before. A truncate concerns every key.
    """
    names = _named_beside(columns)
    terms = [f"{quoted(names['op'])} = 'truncate'"]
    terms += [_has(quoted(names[side]), looked) for side in _SIDES]
    return " OR ".join([*terms, *_had(columns, looked, earlier)])


def previous_keys(
    view: str, columns: Mapping[str, str], looked: Looked, *, held: Sequence[Earlier] | None
) -> str:
    """SQL of the keys, as JSON, that rows of the query `view` had before they got the wanted values
    or one of the keys `held`; and of the position at which they lost them."""
    names = _named_beside(columns)
    now, was = (f"slice({quoted(names[side])}, 1, {looked.keys})" for side in _SIDES)
    terms = _had(columns, looked, held or ())
    if held is None:
        terms.append(_has(quoted(names["_now"]), looked))
    return (
        f"SELECT to_json({was}) AS key, max({quoted(names['pos'])}) AS until FROM ({view}) "
        f"WHERE {quoted(names['op'])} = 'update' AND size(array_compact({was})) = {looked.keys} "
        f"AND {was} <> {now} AND ({' OR '.join(terms)}) GROUP BY 1"
    )


def _has(side: str, looked: Looked) -> str:
    terms = [
        f"coalesce({side}[{i}] = {sql_text(text)}, false)" for i, text in looked.wanted.items()
    ]
    return f"({' AND '.join(terms)})"


def _had(columns: Mapping[str, str], looked: Looked, earlier: Sequence[Earlier]) -> list[str]:
    names = _named_beside(columns)
    now, pos = f"slice({quoted(names['_now'])}, 1, {looked.keys})", quoted(names["pos"])
    return [
        f"(to_json({now}) = {sql_text(was.key)} AND {pos} < {pos_literal(was.until)})"
        for was in earlier
    ]


def _shown_columns(columns: Mapping[str, str]) -> str:
    """The view's columns, without _SIDES."""
    ours = _named_beside(columns)
    names = [*(ours[name] for name in FIRST), *columns, *(ours[name] for name in LAST)]
    return quoted_list(names)


def fixed_names(columns: Mapping[str, str]) -> dict[str, str]:
    """The names that the view gives to its own columns, beside those of the target."""
    return _named_beside(columns)


def order(columns: Mapping[str, str]) -> str:
    """SQL of the view's order, which is by position."""
    names = _named_beside(columns)
    return ", ".join(quoted(names[name]) for name in ("pos", "source", "topic", "offset", "row"))


def identity(by_arrival: Mapping[str, str]) -> str:
    """SQL of what the deliveries of one change have in common. `by_arrival`: by source, SQL that is
    true for rows that are ordered by arrival."""
    cases = " ".join(f"WHEN {sql_text(name)} THEN {told}" for name, told in by_arrival.items())
    return (
        f"struct(source, db, schema, table, CASE WHEN CASE source {cases} ELSE true END "
        f"THEN {identity_sql(True)} ELSE {identity_sql(False)} END)"
    )


def names_sent(silver: str, where: str) -> str:
    """The names that images have in silver's changes for which `where` is true, in the order in
    which they first came: (name, first)."""
    return query(
        changes=f"SELECT * FROM {silver} WHERE kind = 'change' AND ({where})",
        each="SELECT posexplode(map_keys(coalesce(after, before))) AS (place, name), batch "
        "FROM changes",
        names="SELECT name, min(struct(place, batch)) AS first FROM each GROUP BY name "
        "ORDER BY first, name",
    )


def changes_of(
    silver: str,
    tables: Iterable[SourceTable],
    *,
    lineage: Lineage,
    renames: Sequence[RenameColumn],
    masks: Mapping[str, Masking],
    zone: str | None,
    renamed: bool,
    schema_pos: str,
) -> str:
    """The changes of source tables with one `lineage` under today's names; the images as they came
    are in `_sent_after` and so on.

    `renames`: all renames that the source told of, approved or not. `renamed`: some columns have
    other names in gold. `schema_pos`: SQL of where a row stands among the schema changes.
    """
    sent = ", ".join(f"{name} AS _sent_{name}" for name in IMAGES)
    changes = f"SELECT *, {sent} FROM {silver}\nWHERE kind = 'change' AND ({of_tables(tables)})"
    now = as_it_is(masks, lineage)
    sent_as = {source_name(name): mask for name, mask in as_it_was(now, renames).items()}
    changes = masked(changes, sent_as, zone=zone, maps=[f"_sent_{name}" for name in IMAGES])
    changes = translated(in_gold(changes) if renamed else changes, lineage, pos=schema_pos)
    # Tables with different lineages would give the columns in different orders.
    names = (*FIRST, *LAST, *_TOLD, *(f"_sent_{name}" for name in IMAGES))
    return select(f"({masked(changes, now, zone=zone)})", columns=quoted_list(names))


def of_source(
    changes: Iterable[str],
    *,
    by_arrival: Mapping[str, str],
    columns: Mapping[str, str],
    hidden: Sequence[str],
    looked: Sequence[str],
    zone: str | None,
) -> str:
    """The view of one source's tables, made of their `changes_of`.

    `columns` are the target's, with their types, `hidden` the names, in lower case, that images do
    not show, and `looked` the columns that get _SIDES as well.
    """
    meta = _named_beside(columns)
    listed = [f"{_meta(name, hidden)} AS {quoted(meta[name])}" for name in FIRST]
    listed += [
        f"{typed(_text(name, '_image'), type_, zone)} AS {quoted(name)}"
        for name, type_ in columns.items()
    ]
    listed += [f"{_meta(name, hidden)} AS {quoted(meta[name])}" for name in LAST]
    if looked:
        for side, maps in zip(
            _SIDES, (("after", "key", "before"), ("before", "key_before")), strict=True
        ):
            texts = (_side(name, maps, columns[name], zone=zone) for name in looked)
            listed.append(f"array({', '.join(texts)}) AS {quoted(meta[side])}")
    return query(
        changes=union_all(changes),
        identified=f"SELECT *, {identity(by_arrival)} AS _change FROM changes",
        copies="""SELECT *,
  CASE WHEN op = 'delete' THEN coalesce(before, key) ELSE after END AS _image,
  row_number() OVER (PARTITION BY _change ORDER BY before IS NULL, pos) AS _copy,
  min(pos) OVER (PARTITION BY _change) AS _lowest FROM identified""",
        each_once=f"SELECT {', '.join(listed)} FROM copies WHERE _copy = 1",
    )


def _side(name: str, maps: Sequence[str], type_: str, *, zone: str | None) -> str:
    """SQL of a column's value as text: from the first of the maps that has it."""
    text = f"coalesce({', '.join(_text(name, map_) for map_ in maps)})"
    return as_text(typed(text, type_, zone), type_)


def _named_beside(columns: Mapping[str, str]) -> dict[str, str]:
    """The names of our own columns: if the user has a column of that name, ours gets a `_`."""
    taken = lowered(columns)
    names = {}
    for name in (*FIRST, *LAST, *_SIDES):
        own = name
        while own.lower() in taken:
            own = f"_{own}"
        names[name] = own
    return names


def _meta(name: str, hidden: Sequence[str]) -> str:
    if name == "pos":
        return "_lowest"
    if name in IMAGES:
        without = sql_texts(hidden)
        shown_ = f"map_filter(_sent_{name}, (name, text) -> lower(name) NOT IN ({without}))"
        return shown_ if hidden else f"_sent_{name}"
    return quoted(name)


def _text(column: str, row: str) -> str:
    """The canonical text of a column in the map `row`: by its exact name, else by the name in
    another case."""
    name = sql_text(column)
    folded = sql_text(column.lower())
    other = f"get(map_values(map_filter({row}, (name, text) -> lower(name) = {folded})), 0)"
    # The lambda goes through the whole row, so it must not run for each value that is NULL.
    return f"IF(map_contains_key({row}, {name}), {row}[{name}], {other})"


def of_tables(tables: Iterable[SourceTable]) -> str:
    """True for the rows of these source tables."""
    terms = (f"(source = {sql_text(table.source)} AND {of_table(table)})" for table in tables)
    return " OR ".join(terms) or "false"


def shown(view: str, columns: Mapping[str, str], *, where: str) -> str:
    """The view's rows for which `where` is true, without _SIDES, in order."""
    return f"SELECT {_shown_columns(columns)} FROM ({view}) WHERE {where} ORDER BY {order(columns)}"


def schemas(silver: str) -> str:
    """Each schema that messages told of, once."""
    copies = (
        "PARTITION BY source, db, schema, table, schema_id ORDER BY batch, topic, partition, offset"
    )
    return query(
        numbered=f"SELECT *, row_number() OVER ({copies}) AS _copy FROM {silver} "
        "WHERE kind = 'schema'",
        once="SELECT * EXCEPT (_copy) FROM numbered WHERE _copy = 1",
    )


def without_joined(changes: str, sources: Iterable[str]) -> str:
    """The changes without the single halves of updates that were joined, in some sources."""
    split, joined = sql_text(Code.SPLIT_UPDATE.value), sql_text(Code.JOINED_UPDATE.value)
    place = ("source", *DELIVERY)
    return query(
        changes=changes,
        pairs=f"SELECT {origin(names=place)} FROM changes "
        f"WHERE source IN ({sql_texts(sources)}) "
        f"AND array_contains(warnings, {joined})",
        others=f"SELECT c.* FROM changes c LEFT ANTI JOIN pairs p ON {same('c', 'p', place)} "
        f"AND array_contains(c.warnings, {split})",
    )
