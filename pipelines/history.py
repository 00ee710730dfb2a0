"""`history.<target>`: every distinct change of a target's source tables, typed, as one query.

1. Take the changes of the source tables from silver.
2. Deliveries of one change are one change (rulings.md, 16): with source order those with the same
   epoch, order key, half, row and bytes; with arrival order each delivery is its own. The one with
   a before image stands, since a joined pair supersedes its lone after-half; it gets the lowest
   pos.
3. The columns of the row after (of a delete: before), called as they are today, are cast to gold's
   types. A text that does not fit is NULL there; `after` has it, like all that came, as it came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ingest.casts import sql_text, typed
from ingest.config import Config
from ingest.entries import METADATA
from ingest.formats import FORMATS
from ingest.lineage import Lineage, translated
from ingest.names import SourceTable
from ingest.order import Pos, pos_literal
from ingest.routes import Route
from ingest.sources import Source
from pipelines.results import rows
from pipelines.tables import Warehouse, quote

FIRST = ("op", "pos", "event_time", "tx_id")
LAST = (
    *("key", "key_before", "before", "after"),
    *("source", "topic", "partition", "offset", "row", "batch"),
)
_IMAGES = ("key", "key_before", "before", "after")


class Earlier(NamedTuple):
    """A key, as JSON, that a row had until a change of its key at position `until`."""

    key: str
    until: Pos


def history_view(
    warehouse: Warehouse,
    config: Config,
    tables: Sequence[tuple[SourceTable, Route]],
    columns: Mapping[str, str],
    read: Mapping[SourceTable, Lineage],
) -> str:
    """The query of the view over `tables`; `columns` are the target's, with their Spark types,
    `read` the changes of names through which each table's events are read."""
    by_source: dict[str, list[tuple[SourceTable, Route]]] = {}
    for table, way in tables:
        by_source.setdefault(table.source, []).append((table, way))
    return "\nUNION ALL\n".join(
        _of_source(warehouse, config.sources[name], of_source, columns, read)
        for name, of_source in by_source.items()
    )


def of_key(columns: Mapping[str, str], key: Mapping[str, str], earlier: Sequence[Earlier]) -> str:
    """SQL that is true in the view for changes of the rows with this key.

    Canonical texts are compared, on the row's side now or on that before; `earlier` are the keys
    that these rows had before. A truncate concerns every key.
    """
    named = _named_beside(columns)
    op, now, pos = (quote(named[name]) for name in ("op", "key", "pos"))
    terms = [f"{op} = 'truncate'", _now(columns, key), _before(columns, key)]
    terms += [
        f"(to_json({now}) = {sql_text(was.key)} AND {pos} < {pos_literal(was.until)})"
        for was in earlier
    ]
    return " OR ".join(terms)


def moves(
    view: str, columns: Mapping[str, str], key: Mapping[str, str] | None, held: Sequence[Earlier]
) -> str:
    """SQL of the keys, as JSON, that rows of the query `view` had before they got this key or one
    of those `held`; and of the position at which they lost it."""
    named = _named_beside(columns)
    now, before, pos = (quote(named[name]) for name in ("key", "key_before", "pos"))
    terms = [_now(columns, key)] if key is not None else []
    terms += [
        f"(to_json({now}) = {sql_text(was.key)} AND {pos} < {pos_literal(was.until)})"
        for was in held
    ]
    return (
        f"SELECT to_json({before}) AS key, max({pos}) AS until FROM ({view}) "
        f"WHERE to_json({before}) <> to_json({now}) AND ({' OR '.join(terms)}) GROUP BY 1"
    )


def _now(columns: Mapping[str, str], key: Mapping[str, str]) -> str:
    named = _named_beside(columns)
    terms = []
    for column, value in key.items():
        texts = [_text(column, quote(named[name])) for name in ("key", "after", "before")]
        terms.append(f"coalesce({', '.join(texts)}) = {sql_text(value)}")
    return f"({' AND '.join(terms)})"


def _before(columns: Mapping[str, str], key: Mapping[str, str]) -> str:
    named = _named_beside(columns)
    terms = []
    for column, value in key.items():
        texts = [_text(column, quote(named[name])) for name in ("key_before", "before")]
        terms.append(f"coalesce({', '.join(texts)}) = {sql_text(value)}")
    return f"({' AND '.join(terms)})"


def shown(columns: Mapping[str, str]) -> list[str]:
    """The view's columns that people are shown: without maps and positions."""
    named = _named_beside(columns)
    first = [named[name] for name in ("op", "event_time", "tx_id")]
    return [*first, *columns, *(named[name] for name in ("topic", "partition", "offset", "row"))]


def order(columns: Mapping[str, str]) -> str:
    """SQL of the view's order: by position."""
    named = _named_beside(columns)
    return ", ".join(quote(named[name]) for name in ("pos", "source", "topic", "offset", "row"))


def identity(sources: Iterable[Source]) -> str:
    """SQL of what the deliveries of one change have in common."""
    cases = " ".join(
        f"WHEN {sql_text(source.name)} THEN {_by_arrival(source)}" for source in sources
    )
    by_arrival = f"CASE source {cases} ELSE true END"
    return (
        "struct(source, db, schema, table, "
        f"CASE WHEN {by_arrival} THEN slice(pos, 8, 4) "
        "ELSE concat(slice(pos, 1, 7), slice(pos, 10, 2), array(value_hash)) END)"
    )


def data_columns(
    warehouse: Warehouse, target: str, tables: Sequence[tuple[SourceTable, Route]]
) -> dict[str, str]:
    """The target's columns: gold's with their types; before it exists, silver's as text."""
    hidden = {name.casefold() for _, way in tables for name in way.exclude}
    if warehouse.exists("gold", target):
        shards = {(way.shard_column or "").casefold() for _, way in tables}
        own = {*METADATA, *shards, *hidden}
        fields = warehouse.read("gold", target).schema.fields
        return {
            field.name: field.dataType.simpleString()
            for field in fields
            if field.name.casefold() not in own
        }
    found = warehouse.session.sql(
        "SELECT name, min(struct(place, batch)) AS first FROM ("
        "SELECT posexplode(map_keys(coalesce(after, before))) AS (place, name), batch "
        f"FROM {warehouse.name('silver', 'cdc')} WHERE kind = 'change' AND ({_where(tables)})"
        ") GROUP BY name ORDER BY first, name"
    )
    columns: dict[str, str] = {}
    seen = set(hidden)
    for name, _ in rows(found):
        if name.casefold() not in seen:
            columns[name] = "string"
            seen.add(name.casefold())
    return columns


def _of_source(
    warehouse: Warehouse,
    source: Source,
    tables: Sequence[tuple[SourceTable, Route]],
    columns: Mapping[str, str],
    read: Mapping[SourceTable, Lineage],
) -> str:
    hidden = sorted({name.casefold() for _, way in tables for name in way.exclude})
    meta = _named_beside(columns)
    listed = [f"{_meta(name, hidden)} AS {quote(meta[name])}" for name in FIRST]
    listed += [
        f"{typed(_text(name, '_image'), type_, source.time_zone)} AS {quote(name)}"
        for name, type_ in columns.items()
    ]
    listed += [f"{_meta(name, hidden)} AS {quote(meta[name])}" for name in LAST]
    select = ",\n  ".join(listed)
    return (
        f"SELECT {select}\nFROM (SELECT *,\n"
        "  CASE WHEN op = 'delete' THEN coalesce(before, key) ELSE after END AS _image,\n"
        "  row_number() OVER (PARTITION BY _change ORDER BY before IS NULL, pos) AS _copy,\n"
        "  min(pos) OVER (PARTITION BY _change) AS _lowest\n"
        f"FROM (SELECT *, {identity([source])} AS _change\n"
        f"FROM ({_changes(warehouse, tables, read)})))\nWHERE _copy = 1"
    )


def _changes(
    warehouse: Warehouse,
    tables: Sequence[tuple[SourceTable, Route]],
    read: Mapping[SourceTable, Lineage],
) -> str:
    """SQL of the tables' changes under today's names; what came is in `_sent_after` and so on."""
    alike: dict[Lineage, list[tuple[SourceTable, Route]]] = {}
    for table, way in tables:
        alike.setdefault(read[table], []).append((table, way))
    sent = ", ".join(f"{name} AS _sent_{name}" for name in _IMAGES)
    silver = warehouse.name("silver", "cdc")
    return "\nUNION ALL BY NAME\n".join(
        translated(
            f"SELECT *, {sent} FROM {silver}\nWHERE kind = 'change' AND ({_where(some)})", edits
        )
        for edits, some in alike.items()
    )


def _named_beside(columns: Mapping[str, str]) -> dict[str, str]:
    """Our own columns' names: a column of the user's keeps its name, ours steps aside with `_`."""
    taken = {name.casefold() for name in columns}
    names = {}
    for name in (*FIRST, *LAST):
        own = name
        while own.casefold() in taken:
            own = f"_{own}"
        names[name] = own
    return names


def _meta(name: str, hidden: Sequence[str]) -> str:
    if name == "pos":
        return "_lowest"
    if name in _IMAGES:
        without = ", ".join(map(sql_text, hidden))
        shown_ = f"map_filter(_sent_{name}, (name, text) -> lower(name) NOT IN ({without}))"
        return shown_ if hidden else f"_sent_{name}"
    return quote(name)


def _text(column: str, row: str) -> str:
    """The canonical text of a column in the map `row`: by its name, else by it in another case."""
    name = sql_text(column)
    folded = sql_text(column.lower())
    other = f"get(map_values(map_filter({row}, (name, text) -> lower(name) = {folded})), 0)"
    return f"coalesce({row}[{name}], {other})"


def _where(tables: Sequence[tuple[SourceTable, Route]]) -> str:
    """SQL that is true for the rows of these source tables."""
    terms = []
    for table, _ in tables:
        names = {"source": table.source, "db": table.db, "schema": table.schema}
        equal = [
            f"{quote(name)} = {sql_text(text)}" if text is not None else f"{quote(name)} IS NULL"
            for name, text in {**names, "table": table.table}.items()
        ]
        terms.append(f"({' AND '.join(equal)})")
    return " OR ".join(terms) or "false"


def _by_arrival(source: Source) -> str:
    if source.order != "auto":
        return str(source.order == "arrival").lower()
    names = [name for name, format_ in FORMATS.items() if format_.order == "arrival"]
    return f"coalesce(format IN ({', '.join(map(sql_text, names))}), true)"
