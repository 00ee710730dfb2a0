"""What silver has that gold has not applied: one grouped query over all tables of a source.

So only tables with changes cost anything, and each table's plan is made from numbers that are
already known when its turn comes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from ingest.casts import sql_text
from ingest.events import ColumnType
from ingest.names import SourceTable
from ingest.order import Pos
from ingest.sequence import place
from ingest.shape import MOVED, Shape
from pipelines.tables import Warehouse
from pipelines.transactions import EVERYTHING, Cut

_LISTED = 64
_LOWEST = -(2**63) + 1
"""The `oldest` of a slice in which some change has no time."""
_TOLD = """collect_list(struct(`partition`, offset, schema_id, columns))
    FILTER (WHERE kind = 'schema') AS types,
  max_by(key_columns, struct(offset, `partition`)) FILTER (WHERE kind <> 'change'
    AND size(key_columns) > 0) AS told"""
"""What messages of schemas say of a table: its columns' types, its key."""


class Slice(NamedTuple):
    """What one source table has in one silver batch."""

    table: SourceTable
    batch: int
    formats: tuple[str, ...]
    changes: int
    ddl: int
    lowest: Pos | None
    highest: Pos | None
    deletes: int
    truncates: int
    partials: int
    moves: int
    removed: Pos | None
    images: tuple[tuple[str, ...], ...]
    key_columns: tuple[tuple[str, ...], ...]
    zero_dates: int
    newest: int | None
    snapshots: int
    no_ops: int
    oldest: int | None
    keyless: int
    unhashed: int


class Survey(NamedTuple):
    """The slices of one source above a batch, and the column types that came with them.

    `last` is the last batch of which everything may be applied, `cut` says what of later ones.
    `keys`: the key columns that schema messages name, the last ones, which messages of rows need
    not name.
    """

    last: int
    slices: list[Slice]
    types: dict[SourceTable, list[tuple[ColumnType, ...]]]
    keys: dict[SourceTable, tuple[str, ...]]
    cut: Cut = EVERYTHING


def survey(
    warehouse: Warehouse,
    source: str,
    above: int,
    tables: Iterable[SourceTable] = (),
    *,
    cut: Cut = EVERYTHING,
) -> Survey:
    """Silver of `source` above batch `above` as far as `cut`; of `tables` alone where given."""
    newest = warehouse.last_note("silver", "cdc")
    these = f"batch > {above}" if newest is None else among(range(above + 1, newest + 1))
    where = f"source = {sql_text(source)} AND {these}{_narrowed(tables)}"
    if cut.waits is not None:
        where += f" AND {cut.only}"
    silver = warehouse.name("silver", "cdc")
    images = "map_keys(coalesce(after, before))"
    rows = warehouse.session.sql(
        f"""SELECT db, schema, `table`, batch,
  collect_set(format) AS formats,
  count_if(kind = 'change') AS changes, count_if(kind = 'ddl') AS ddl,
  min(pos) FILTER (WHERE kind = 'change') AS lowest,
  max(pos) FILTER (WHERE kind = 'change') AS highest,
  count_if(op = 'delete') AS deletes, count_if(op = 'truncate') AS truncates,
  count_if(kind = 'change' AND after_image = 'partial') AS partials,
  count_if({MOVED}) AS moves,
  max(pos) FILTER (WHERE op IN ('delete', 'truncate') OR {MOVED}) AS removed,
  collect_set({images}) FILTER (WHERE kind = 'change' AND op <> 'delete') AS images,
  collect_set(key_columns) FILTER (WHERE kind = 'change') AS key_columns,
  count_if(array_contains(warnings, 'zero_date')) AS zero_dates,
  max(unix_micros(event_time)) FILTER (WHERE kind = 'change') AS newest,
  count_if(op = 'snapshot') AS snapshots,
  count_if(op = 'update' AND map_values(before) = map_values(after)) AS no_ops,
  min(coalesce(unix_micros(event_time), {_LOWEST})) FILTER (WHERE kind = 'change') AS oldest,
  count_if(kind = 'change' AND op <> 'truncate' AND key_columns IS NULL) AS keyless,
  count_if(kind = 'change' AND op <> 'truncate' AND key_hash IS NULL) AS unhashed,
  {_TOLD}
FROM {silver}
WHERE {where} AND kind IN ('change', 'ddl', 'schema')
GROUP BY db, schema, `table`, batch"""
    ).collect()
    found = sorted((row.asDict() for row in rows), key=lambda row: int(row["batch"]))
    types, keys = _types(source, found), _keys(source, found)
    slices = [_slice(source, row) for row in found if row["changes"] or row["ddl"]]
    last = max((slice_.batch for slice_ in slices), default=above)
    if cut.last is not None:
        last = cut.last
    return Survey(last, slices, types, keys, cut)


def told(warehouse: Warehouse, tables: Collection[SourceTable], last: int) -> Survey:
    """What the messages of schemas in batches up to `last` say of some tables of one source.

    It has no slices.
    """
    source = next(iter(tables)).source
    rows = warehouse.session.sql(
        f"SELECT db, schema, `table`, batch, {_TOLD} FROM {warehouse.name('silver', 'cdc')} "
        f"WHERE source = {sql_text(source)} AND batch <= {last}{_narrowed(tables)} "
        f"AND kind IN ('ddl', 'schema') GROUP BY db, schema, `table`, batch"
    ).collect()
    found = sorted((row.asDict() for row in rows), key=lambda row: int(row["batch"]))
    return Survey(last, [], _types(source, found), _keys(source, found))


def among(batches: Collection[int]) -> str:
    """SQL that is true for silver's rows of `batches`, where none lies between them but these.

    A list, and of one number more than one: Spark keeps it beside the code that it generates, while
    a single number is a part of the code, which each batch would compile anew.
    """
    if not batches or len(batches) > _LISTED:
        return f"batch BETWEEN {min(batches, default=0)} AND {max(batches, default=-1)}"
    return f"batch IN (-1, {', '.join(map(str, sorted(batches)))})"


def _slice(source: str, row: dict[str, Any]) -> Slice:
    table = SourceTable(source, row.pop("db"), row.pop("schema"), row.pop("table"))
    for name in ("lowest", "highest", "removed"):
        row[name] = _pos(row[name])
    for name in ("images", "key_columns"):
        row[name] = tuple(sorted(tuple(names) for names in row[name]))
    row["formats"] = tuple(sorted(row["formats"]))
    return Slice(table=table, **row)


def with_moves(
    warehouse: Warehouse, slice_: Slice, also: Iterable[SourceTable], moved: str
) -> Slice:
    """The slice with key changes counted by `moved`, for keys that silver does not know.

    `also`: other names that the slice's table has had.
    """
    row = warehouse.session.sql(
        f"SELECT count(*) AS moves, max(pos) AS top FROM {warehouse.name('silver', 'cdc')} "
        f"WHERE source = {sql_text(slice_.table.source)}{_narrowed((slice_.table, *also))} "
        f"AND kind = 'change' AND batch = {slice_.batch} AND {moved}"
    ).first()
    if row is None or not row["moves"]:
        return slice_
    removed = max(pos for pos in (slice_.removed, tuple(row["top"])) if pos is not None)
    return slice_._replace(moves=row["moves"], removed=removed)


def with_places(
    warehouse: Warehouse, slice_: Slice, also: Iterable[SourceTable], shape: Shape
) -> tuple[Slice, int]:
    """The slice by the order of `shape.sequence`, and how many of its changes have no place."""
    cuts = str(shape.truncates).lower()
    row = warehouse.session.sql(
        f"SELECT min(p) AS lowest, max(p) AS highest, count_if(p IS NULL) AS missing, "
        f"max(p) FILTER (WHERE op = 'delete' OR {shape.moved}) AS removed "
        f"FROM (SELECT *, {place(shape)} AS p FROM {warehouse.name('silver', 'cdc')} "
        f"WHERE source = {sql_text(slice_.table.source)}{_narrowed((slice_.table, *also))} "
        f"AND kind = 'change' AND batch = {slice_.batch}) WHERE op <> 'truncate' OR {cuts}"
    ).first()
    assert row is not None
    placed = slice_._replace(
        truncates=0,
        lowest=_pos(row["lowest"]),
        highest=_pos(row["highest"]),
        removed=_pos(row["removed"]),
    )
    return placed, int(row["missing"])


def _pos(stored: list[int] | None) -> Pos | None:
    return tuple(stored) if stored is not None else None


def _types(
    source: str, rows: Iterable[dict[str, Any]]
) -> dict[SourceTable, list[tuple[ColumnType, ...]]]:
    """The column types each table came with, in order of appearance; taken out of the rows."""
    found: dict[SourceTable, dict[str, tuple[ColumnType, ...]]] = {}
    for row in rows:
        table = SourceTable(source, row["db"], row["schema"], row["table"])
        for came in sorted(row.pop("types"), key=lambda came: (came["partition"], came["offset"])):
            columns = tuple(ColumnType(*column) for column in came["columns"])
            found.setdefault(table, {}).setdefault(came["schema_id"], columns)
    return {table: list(types.values()) for table, types in found.items()}


def _keys(source: str, rows: Iterable[dict[str, Any]]) -> dict[SourceTable, tuple[str, ...]]:
    """The key each table was last said to have; taken out of the rows, which come by batch."""
    found = {}
    for row in rows:
        key = row.pop("told")
        if key is not None:
            found[SourceTable(source, row["db"], row["schema"], row["table"])] = tuple(key)
    return found


def _narrowed(tables: Iterable[SourceTable]) -> str:
    parts = [f"({named(table)})" for table in tables]
    return f" AND ({' OR '.join(parts)})" if parts else ""


def named(table: SourceTable) -> str:
    """SQL that is true for silver's rows of a source table."""
    return " AND ".join(
        f"`{name}` = {sql_text(value)}" if value is not None else f"`{name}` IS NULL"
        for name, value in (("db", table.db), ("schema", table.schema), ("table", table.table))
    )
