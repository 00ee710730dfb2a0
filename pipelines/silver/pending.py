"""What silver has that gold has not applied: one grouped query over all tables of a source.

So only tables with changes cost anything, and each table's plan is made from numbers that are known
before its turn comes. However many batches there are, a source table is one row, or two if some
batches have to be counted separately; its column types are one row for each list of them that ever
came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from pyspark.sql import Row

from ingest.events import ColumnType
from ingest.formats import FORMATS
from ingest.names import SourceTable
from ingest.position import Pos
from ingest.sql import pending as texts
from ingest.sql.lineage import translated
from ingest.sql.metadata import gold_name, gold_names, renamed_in_gold
from ingest.sql.projection import Projection
from ingest.sql.query import first_row, union_all
from ingest.sql.quoting import equal
from ingest.sql.silver import among, holds_value, silver_changes
from pipelines.platform.session import planned
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.tallies import IMAGES, schemas, tallied
from pipelines.silver.transactions import EVERYTHING, PublishLimit


class BatchStats(NamedTuple):
    """What one source table has in silver's batches from `first` to `batch`.

    `changed`: the last of them with changes. `logged`: the first and the last with schema changes
    or truncates. `format`: that of the last message. `images`: the lists of column names that
    images have; if these are very many, each name by itself. `deleted`: those of images of deleted
    rows, which say nothing of the table's columns. `image_bytes`: the bytes of all values of its
    changes, before and after; `widest`: those of the largest change. `formats`: those of its
    changes. `tenants`: the OceanBase tenants that they name.
    """

    table: SourceTable
    first: int
    batch: int
    changed: int | None
    logged: tuple[int, int] | None
    format: str
    formats: tuple[str, ...]
    changes: int
    ddl: int
    lowest: Pos | None
    highest: Pos | None
    deletes: int
    truncates: int
    partials: int
    key_changes: int
    last_removal: Pos | None
    images: tuple[tuple[str, ...], ...]
    key_columns: tuple[tuple[str, ...], ...]
    zero_dates: int
    newest: int | None
    no_ops: int
    oldest: int | None
    keyless: int
    unhashed: int
    image_bytes: int = 0
    widest: int = 0
    tenants: tuple[str, ...] = ()
    deleted: tuple[tuple[str, ...], ...] = ()


class PendingChanges(NamedTuple):
    """What one source has above a batch, table by table, and the column types that came with it.

    `last` is the last batch that may be applied completely; `limit` says what may be applied of
    later ones. `keys`: the key columns that schema messages named last; messages of rows need not
    name them.
    """

    last: int
    stats: list[BatchStats]
    types: dict[SourceTable, list[tuple[ColumnType, ...]]]
    keys: dict[SourceTable, tuple[str, ...]]
    limit: PublishLimit = EVERYTHING


def pending_changes(
    warehouse: Warehouse,
    source: str,
    above: int,
    *,
    tables: Iterable[SourceTable] = (),
    until: int | None = None,
    limit: PublishLimit = EVERYTHING,
    only: str = "true",
    apart: Mapping[SourceTable, int] | None = None,
    alone: bool = False,
) -> PendingChanges:
    """What silver has of `source` above batch `above`, as far as `limit` allows; with `until`, up
    to that batch; with `tables`, only of these; and only rows for which SQL `only` is true.

    `apart`: source tables, each with a number: batches up to it are counted apart from those above.
    `alone`: no other thread works with the session.
    """
    newest = until if until is not None else warehouse.last_note("silver", "cdc")
    these = f"batch > {above}" if newest is None else among(range(above + 1, newest + 1))
    where = f"{_of(source, tables)} AND {these} AND {only}"
    if limit.waits is not None:
        where += f" AND {limit.only}"
    part = texts.part(apart or {}, limit.last)
    silver = warehouse.name("silver", "cdc")
    tenants = [name for name, format_ in FORMATS.items() if format_.tenants]
    statistics = texts.statistics(silver, where, part=part, images=IMAGES, tenants=tenants)
    counted = warehouse.session.sql(statistics)
    counted = planned(counted) if alone else counted
    rows = tallied(row.asDict() for row in counted.collect())
    types, keys = _types(source, rows), _keys(source, rows)
    last = max((row.pop("last") or above for row in rows), default=above)
    stats = [_batch_stats(source, row) for row in rows if row["changes"] or row["ddl"]]
    stats.sort(key=lambda each: each.batch)
    if limit.last is not None:
        last = limit.last
    return PendingChanges(last, stats, types, keys, limit)


def images_of(stats: Iterable[BatchStats]) -> set[tuple[str, ...]]:
    """The lists of column names that the images of some batches have."""
    return {image for each in stats for image in each.images}


def names_read(stats: Iterable[BatchStats]) -> set[tuple[str, ...]]:
    """The lists of column names under which the changes of some batches bring values: in images, of
    deleted rows too, and in keys, which may be all that a delete has."""
    lists = ((*each.images, *each.deleted, *each.key_columns) for each in stats)
    return set(chain.from_iterable(lists))


def names_sent(stats: Iterable[BatchStats]) -> set[str]:
    """The column names that some image of the batches has."""
    return {name for image in images_of(stats) for name in image}


def schema_hints(
    warehouse: Warehouse, tables: Collection[SourceTable], last: int
) -> PendingChanges:
    """What schema messages in batches up to `last` say of some tables of one source.

    It has no statistics.
    """
    source = next(iter(tables)).source
    where = f"{_of(source, tables)} AND batch <= {last}"
    hints = warehouse.session.sql(texts.schema_hints(warehouse.name("silver", "cdc"), where))
    by_table: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in hints.collect():
        by_table.setdefault((row["db"], row["schema"], row["table"]), []).append(row.asDict())
    rows = [
        {"db": db, "schema": schema, "table": table, **schemas(groups)}
        for (db, schema, table), groups in by_table.items()
    ]
    return PendingChanges(last, [], _types(source, rows), _keys(source, rows))


def _batch_stats(source: str, row: dict[str, Any]) -> BatchStats:
    table = SourceTable(source, row.pop("db"), row.pop("schema"), row.pop("table"))
    logged = row.pop("logged_first"), row.pop("logged_last")
    row["logged"] = logged if logged[0] is not None else None
    for name in ("lowest", "highest", "last_removal"):
        row[name] = _pos(row[name])
    for name in ("formats", "tenants"):
        row[name] = tuple(sorted(row[name]))
    for name in ("images", "deleted", "key_columns"):
        row[name] = tuple(sorted(map(gold_names, row[name])))
    return BatchStats(table=table, **row)


class ProjectedStats(NamedTuple):
    """The statistics of one source table, all names that it has had, and how its rows are read.
    `missing_order_keys`: how many of its changes have no value of `sequence_by`."""

    stats: list[BatchStats]
    names: tuple[SourceTable, ...]
    projection: Projection
    missing_order_keys: int = 0


def with_key_changes(
    warehouse: Warehouse, tables: Sequence[ProjectedStats]
) -> list[ProjectedStats]:
    """The tables, with key changes counted by the key of their projections if that is not the key
    that silver knows; by one query for all of them."""
    asked = [
        texts.key_changes(table.projection, _may_change_key(warehouse, table), number=number)
        for number, table in enumerate(tables)
        if table.projection.keys and not table.projection.native
    ]
    counted = list(tables)
    for row in _asked(warehouse, asked):
        if row["key_changes"]:
            table = tables[row["number"]]
            first, *rest = table.stats
            top = max(p for p in (first.last_removal, tuple(row["top"])) if p is not None)
            first = first._replace(key_changes=row["key_changes"], last_removal=top)
            counted[row["number"]] = table._replace(stats=[first, *rest])
    return counted


def _may_change_key(warehouse: Warehouse, table: ProjectedStats) -> str:
    """SQL of the changes that may give their rows other keys."""
    projection = table.projection
    renamed = any(map(renamed_in_gold, names_sent(table.stats)))
    if not projection.key_renamed:
        return _changes(warehouse, table.stats, table.names, renamed=renamed)
    where = projection.may_change_key
    changes = _changes(warehouse, table.stats, table.names, renamed=renamed, where=where)
    return translated(changes, projection.lineage, pos=projection.schema_pos)


def with_sequence_positions(
    warehouse: Warehouse, tables: Sequence[ProjectedStats]
) -> list[ProjectedStats]:
    """The tables that are ordered by columns of their rows, with the places of their changes in
    that order; by one query for all of them."""
    asked = [
        texts.sequence_positions(
            table.projection,
            _changes(warehouse, table.stats, table.names, renamed=table.projection.renamed),
            number=number,
        )
        for number, table in enumerate(tables)
        if table.projection.sequence
    ]
    placed = list(tables)
    for row in _asked(warehouse, asked):
        table = tables[row["number"]]
        stats = [
            each._replace(
                truncates=0,
                lowest=_pos(row["lowest"]),
                highest=_pos(row["highest"]),
                last_removal=_pos(row["last_removal"]),
            )
            for each in table.stats
        ]
        missing = int(row["missing"])
        placed[row["number"]] = table._replace(stats=stats, missing_order_keys=missing)
    return placed


def _asked(warehouse: Warehouse, queries: Sequence[str]) -> list[Row]:
    """The rows of some queries, run as one query."""
    return warehouse.session.sql(union_all(queries)).collect() if queries else []


class ColumnValues(NamedTuple):
    """The values of `column` in images above a position and, if one is given, below another; with
    this many `digits` behind the point, or None: with any."""

    column: str
    above: Pos
    below: Pos | None
    digits: int | None


def has_values(
    warehouse: Warehouse,
    stats: Sequence[BatchStats],
    names: Sequence[SourceTable],
    *,
    values: ColumnValues,
) -> bool:
    """Whether the changes of a table have such values."""
    where = texts.between(values.above, values.below)
    where += f" AND {holds_value(values.column, values.digits)}"
    changes = _changes(warehouse, stats, names, renamed=False, where=where)
    return bool(warehouse.session.sql(first_row(changes)).take(1))


def _changes(
    warehouse: Warehouse,
    stats: Sequence[BatchStats],
    names: Sequence[SourceTable],
    *,
    renamed: bool,
    where: str = "true",
) -> str:
    """SQL of the changes that the statistics of one table count, under all its names, narrowed.

    `renamed`: columns have the names that gold has them under.
    """
    where = f"{spanned(stats)} AND {where}"
    return silver_changes(warehouse.name("silver", "cdc"), names, where, renamed=renamed)


def spanned(stats: Sequence[BatchStats]) -> str:
    """SQL that is true for silver's rows that the statistics of one table count."""
    first, last = min(s.first for s in stats), max(s.batch for s in stats)
    return among(range(first, last + 1))


def _pos(stored: list[int] | None) -> Pos | None:
    return tuple(stored) if stored is not None else None


def _types(
    source: str, rows: Iterable[dict[str, Any]]
) -> dict[SourceTable, list[tuple[ColumnType, ...]]]:
    """The column types that each table came with, in order of appearance. They are removed from the
    rows."""
    by_table: dict[SourceTable, dict[str, tuple[ColumnType, ...]]] = {}
    came = [
        (SourceTable(source, row["db"], row["schema"], row["table"]), listed)
        for row in rows
        for listed in row.pop("types")
    ]
    for table, listed in sorted(came, key=lambda one: tuple(one[1]["came"])):
        columns = tuple(ColumnType(gold_name(n), *types) for n, *types in listed["columns"])
        by_table.setdefault(table, {}).setdefault(listed["schema_id"], columns)
    return {table: list(types.values()) for table, types in by_table.items()}


def _keys(source: str, rows: Iterable[dict[str, Any]]) -> dict[SourceTable, tuple[str, ...]]:
    """The key that was last named for each table. It is removed from the rows."""
    keys = {}
    for row in sorted(rows, key=lambda row: int(row.get("last") or 0)):
        key = row.pop("last_key")
        if key is not None:
            keys[SourceTable(source, row["db"], row["schema"], row["table"])] = gold_names(key)
    return keys


def _of(source: str, tables: Iterable[SourceTable]) -> str:
    """SQL that is true for the rows of these tables of a source, of all where there are none."""
    return f"{equal(source=source)} AND {texts.of_tables([*tables])}"
