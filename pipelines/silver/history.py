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

from ingest.config.load import Config
from ingest.config.routes import Route
from ingest.config.sources import Source
from ingest.ddl.changes import Lineage
from ingest.formats import FORMATS
from ingest.identity import identity_sql
from ingest.names import SourceTable
from ingest.position import Pos, pos_literal
from ingest.sql.casts import as_text, sql_text, typed
from ingest.sql.lineage import translated
from ingest.sql.masks import Masking, as_it_is, as_it_was, masked
from ingest.sql.metadata import METADATA, gold_name, in_gold, source_name, steps_aside
from pipelines.platform.mask_secret import maskings
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse, quote

FIRST = ("op", "pos", "event_time", "tx_id")
LAST = (
    *("key", "key_before", "before", "after"),
    *("source", "topic", "partition", "offset", "row", "batch"),
)
_IMAGES = ("key", "key_before", "before", "after")
_SIDES = ("_now", "_was")
"""Of the columns that are looked for: their values as text on the row's side now and before."""


class Looked(NamedTuple):
    """What changes are looked for by: values of `columns`, of which the first `keys` are the key.

    `wanted`: place among the columns -> text of the value that is asked for.
    """

    columns: tuple[str, ...]
    keys: int
    wanted: Mapping[int, str]


class Earlier(NamedTuple):
    """A key, as JSON, that a row had until a change of its key at position `until`."""

    key: str
    until: Pos


def history_view(
    warehouse: Warehouse,
    config: Config,
    tables: Sequence[tuple[SourceTable, Route]],
    *,
    columns: Mapping[str, str],
    read: Mapping[SourceTable, Lineage],
    looked: Sequence[str] = (),
    secret: bool = False,
) -> str:
    """The query of the view over `tables`; `columns` are the target's, with their Spark types,
    `read` the changes of names through which each table's events are read. It has _SIDES as well
    where there are columns `looked` for. `secret`: it is for this session alone, which knows the
    secret of masks; else it has nothing of the columns that take it."""
    by_source: dict[str, list[tuple[SourceTable, Route]]] = {}
    for table, route in tables:
        by_source.setdefault(table.source, []).append((table, route))
    return "\nUNION ALL\n".join(
        _of_source(
            warehouse,
            config,
            of_source,
            columns=columns,
            read=read,
            looked=looked,
            secret=secret,
        )
        for of_source in by_source.values()
    )


def of_key(columns: Mapping[str, str], looked: Looked, earlier: Sequence[Earlier]) -> str:
    """SQL that is true in the view for changes of the rows with the wanted values.

    Typed values are compared, on the row's side now or on that before; `earlier` are the keys that
    these rows had before. A truncate concerns every key.
    """
    named = _named_beside(columns)
    terms = [f"{quote(named['op'])} = 'truncate'"]
    terms += [_has(quote(named[side]), looked) for side in _SIDES]
    return " OR ".join([*terms, *_had(columns, looked, earlier)])


def previous_keys(
    view: str, columns: Mapping[str, str], looked: Looked, *, held: Sequence[Earlier] | None
) -> str:
    """SQL of the keys, as JSON, that rows of the query `view` had before they got the wanted values
    or one of the keys `held`; and of the position at which they lost it."""
    named = _named_beside(columns)
    now, was = (f"slice({quote(named[side])}, 1, {looked.keys})" for side in _SIDES)
    terms = _had(columns, looked, held or ())
    if held is None:
        terms.append(_has(quote(named["_now"]), looked))
    return (
        f"SELECT to_json({was}) AS key, max({quote(named['pos'])}) AS until FROM ({view}) "
        f"WHERE {quote(named['op'])} = 'update' AND size(array_compact({was})) = {looked.keys} "
        f"AND {was} <> {now} AND ({' OR '.join(terms)}) GROUP BY 1"
    )


def _has(side: str, looked: Looked) -> str:
    terms = [
        f"coalesce({side}[{i}] = {sql_text(text)}, false)" for i, text in looked.wanted.items()
    ]
    return f"({' AND '.join(terms)})"


def _had(columns: Mapping[str, str], looked: Looked, earlier: Sequence[Earlier]) -> list[str]:
    named = _named_beside(columns)
    now, pos = f"slice({quote(named['_now'])}, 1, {looked.keys})", quote(named["pos"])
    return [
        f"(to_json({now}) = {sql_text(was.key)} AND {pos} < {pos_literal(was.until)})"
        for was in earlier
    ]


def listed(columns: Mapping[str, str]) -> str:
    """The view's columns, without _SIDES."""
    named = _named_beside(columns)
    names = [*(named[name] for name in FIRST), *columns, *(named[name] for name in LAST)]
    return ", ".join(map(quote, names))


def fixed_names(columns: Mapping[str, str]) -> dict[str, str]:
    """What the view calls its own columns beside those of the target."""
    return _named_beside(columns)


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
        f"CASE WHEN {by_arrival} THEN {identity_sql(True)} ELSE {identity_sql(False)} END)"
    )


def data_columns(
    warehouse: Warehouse,
    target: str,
    tables: Sequence[tuple[SourceTable, Route]],
    *,
    without: Iterable[str] = (),
) -> dict[str, str]:
    """The target's columns, but for those `without` which they are asked for: gold's with their
    types; before it exists, silver's as text."""
    hidden = {name.casefold() for _, route in tables for name in route.exclude}
    hidden |= {name.casefold() for name in without}
    if warehouse.exists("gold", target):
        shards = {(route.shard_column or "").casefold() for _, route in tables}
        own = {*METADATA, *shards, *hidden}
        fields = warehouse.fields("gold", target)
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
    for name in (gold_name(name) for name, _ in rows(found)):
        if name.casefold() not in seen:
            columns[name] = "string"
            seen.add(name.casefold())
    return columns


def _of_source(
    warehouse: Warehouse,
    config: Config,
    tables: Sequence[tuple[SourceTable, Route]],
    *,
    columns: Mapping[str, str],
    read: Mapping[SourceTable, Lineage],
    looked: Sequence[str],
    secret: bool,
) -> str:
    source = config.sources[tables[0][0].source]
    masks = _masks(config, tables, secret=secret)
    kept_out = {name for _, route in tables for name in route.exclude}
    if not secret:
        kept_out |= hidden_by_masks(tables, read)
    hidden = sorted({source_name(name).casefold() for name in kept_out})
    meta = _named_beside(columns)
    listed = [f"{_meta(name, hidden)} AS {quote(meta[name])}" for name in FIRST]
    listed += [
        f"{typed(_text(name, '_image'), type_, source.time_zone)} AS {quote(name)}"
        for name, type_ in columns.items()
    ]
    listed += [f"{_meta(name, hidden)} AS {quote(meta[name])}" for name in LAST]
    if looked:
        for side, maps in zip(
            _SIDES, (("after", "key", "before"), ("before", "key_before")), strict=True
        ):
            texts = (_side(name, maps, columns[name], zone=source.time_zone) for name in looked)
            listed.append(f"array({', '.join(texts)}) AS {quote(meta[side])}")
    select, aside = ",\n  ".join(listed), any(map(steps_aside, columns))
    return (
        f"SELECT {select}\nFROM (SELECT *,\n"
        "  CASE WHEN op = 'delete' THEN coalesce(before, key) ELSE after END AS _image,\n"
        "  row_number() OVER (PARTITION BY _change ORDER BY before IS NULL, pos) AS _copy,\n"
        "  min(pos) OVER (PARTITION BY _change) AS _lowest\n"
        f"FROM (SELECT *, {identity([source])} AS _change\n"
        f"FROM ({_changes(warehouse, source, tables, read=read, masks=masks, aside=aside)})))\n"
        "WHERE _copy = 1"
    )


def _side(name: str, maps: Sequence[str], type_: str, *, zone: str | None) -> str:
    """SQL of a column's value as text: of the first of the maps that has it."""
    text = f"coalesce({', '.join(_text(name, map_) for map_ in maps)})"
    return as_text(typed(text, type_, zone), type_)


def hidden_by_masks(
    tables: Sequence[tuple[SourceTable, Route]], read: Mapping[SourceTable, Lineage]
) -> set[str]:
    """The columns whose masks take a secret, which no view has, by all names they ever had."""
    found: set[str] = set()
    for table, route in tables:
        masks = {
            name: Masking(mask.mode, None, "", "")
            for name, mask in route.masks.items()
            if mask.mode != "null"
        }
        found |= as_it_was(as_it_is(masks, read[table]), read[table]).keys()
    return found


def _masks(
    config: Config, tables: Sequence[tuple[SourceTable, Route]], *, secret: bool
) -> dict[str, Masking]:
    """The masks that the query can do."""
    return {
        name: mask
        for _, route in tables
        for name, mask in maskings(config, route).items()
        if secret or mask.mode == "null"
    }


def _changes(
    warehouse: Warehouse,
    source: Source,
    tables: Sequence[tuple[SourceTable, Route]],
    *,
    read: Mapping[SourceTable, Lineage],
    masks: Mapping[str, Masking],
    aside: bool,
) -> str:
    """SQL of the tables' changes under today's names; what came is in `_sent_after` and so on.

    `aside`: some columns have other names in gold.
    """
    alike: dict[Lineage, list[tuple[SourceTable, Route]]] = {}
    for table, route in tables:
        alike.setdefault(read[table], []).append((table, route))
    sent = ", ".join(f"{name} AS _sent_{name}" for name in _IMAGES)
    silver = warehouse.name("silver", "cdc")
    parts = []
    for lineage, some in alike.items():
        changes = f"SELECT *, {sent} FROM {silver}\nWHERE kind = 'change' AND ({_where(some)})"
        now = as_it_is(masks, lineage)
        sent_as = {source_name(name): mask for name, mask in as_it_was(now, lineage).items()}
        changes = masked(
            changes, sent_as, zone=source.time_zone, maps=[f"_sent_{name}" for name in _IMAGES]
        )
        changes = translated(in_gold(changes) if aside else changes, lineage)
        parts.append(masked(changes, now, zone=source.time_zone))
    return "\nUNION ALL BY NAME\n".join(parts)


def _named_beside(columns: Mapping[str, str]) -> dict[str, str]:
    """Our own columns' names: a column of the user's keeps its name, ours steps aside with `_`."""
    taken = {name.casefold() for name in columns}
    names = {}
    for name in (*FIRST, *LAST, *_SIDES):
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
