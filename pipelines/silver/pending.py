"""What silver has that gold has not applied: one grouped query over all tables of a source.

So only tables with changes cost anything, and each table's plan is made from numbers that are
already known when its turn comes. However many batches there are, a source table is one row, or two
where some batches have to be counted separately; its column types are a row for each list of them
that ever came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ingest.events import ColumnType
from ingest.formats import FORMATS
from ingest.names import SourceTable
from ingest.position import Pos, pos_literal
from ingest.sql.casts import sql_text
from ingest.sql.lineage import translated
from ingest.sql.metadata import gold_name, gold_names, in_gold, steps_aside
from ingest.sql.projection import CHANGES_KEY, Projection
from ingest.sql.sequence import place
from ingest.sql.silver import among, holds_value, named
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.tallies import IMAGES, schemas, tallied
from pipelines.silver.transactions import EVERYTHING, PublishLimit

_WIDTH = " + ".join(
    f"coalesce(octet_length(array_join(map_values({image}), '')), 0)"
    for image in ("before", "after")
)
"""SQL of the bytes of a change's values."""
_LOWEST = -(2**63) + 1
"""The `oldest` where some change has no time."""


class BatchStats(NamedTuple):
    """What one source table has in silver's batches from `first` to `batch`.

    `changed`: the last of them with changes. `logged`: the first and the last with schema changes
    or truncates. `format`: that of the last message. `images`: the lists of column names that
    images have; where they are very many, each name by itself. `image_bytes`: of all values of its
    changes before and after; `widest`: of those of one change. `formats`: those of its changes;
    `tenants`: of OceanBase, that they name.
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
    snapshots: int
    no_ops: int
    oldest: int | None
    keyless: int
    unhashed: int
    image_bytes: int = 0
    widest: int = 0
    tenants: tuple[str, ...] = ()


class PendingChanges(NamedTuple):
    """What one source has above a batch, table by table, and the column types that came with it.

    `last` is the last batch of which everything may be applied, `limit` says what of later ones.
    `keys`: the key columns that schema messages name, the last ones, which messages of rows need
    not name.
    """

    last: int
    stats: list[BatchStats]
    types: dict[SourceTable, list[tuple[ColumnType, ...]]]
    keys: dict[SourceTable, tuple[str, ...]]
    limit: PublishLimit = EVERYTHING


def survey(
    warehouse: Warehouse,
    source: str,
    above: int,
    *,
    tables: Iterable[SourceTable] = (),
    until: int | None = None,
    limit: PublishLimit = EVERYTHING,
    apart: Mapping[SourceTable, int] | None = None,
) -> PendingChanges:
    """Silver of `source` above batch `above`, and up to `until` where that is given, as far as
    `limit`; of `tables` alone where given.

    `apart`: source tables whose batches up to a number are counted apart from those above it.
    """
    newest = until if until is not None else warehouse.last_note("silver", "cdc")
    these = f"batch > {above}" if newest is None else among(range(above + 1, newest + 1))
    where = f"source = {sql_text(source)} AND {these}{_narrowed(tables)}"
    if limit.waits is not None:
        where += f" AND {limit.only}"
    rows = _grouped(warehouse, where, _part(limit, apart or {}))
    types, keys = _types(source, rows), _keys(source, rows)
    last = max((row.pop("last") or above for row in rows), default=above)
    stats = [_batch_stats(source, row) for row in rows if row["changes"] or row["ddl"]]
    stats.sort(key=lambda each: each.batch)
    if limit.last is not None:
        last = limit.last
    return PendingChanges(last, stats, types, keys, limit)


def _part(limit: PublishLimit, apart: Mapping[SourceTable, int]) -> str:
    """SQL of which part of its table's batches a row belongs to."""
    parts = [f"CAST(batch > {limit.last} AS int)"] if limit.last is not None else []
    if apart:
        cases = " ".join(
            f"WHEN {named(table)} THEN CAST(batch > {batch} AS int)"
            for table, batch in apart.items()
        )
        parts.append(f"CASE {cases} ELSE 0 END")
    return " + 2 * ".join(parts) or "0"


def _grouped(warehouse: Warehouse, where: str, part: str) -> list[dict[str, Any]]:
    """A row a table and part.

    What tells the rows of silver apart is what they are grouped by, not a condition in each figure;
    and they are grouped once: what Spark is to plan for every batch is half as much.
    """
    groups = warehouse.session.sql(
        f"""SELECT * EXCEPT (met), size(met) > {IMAGES} AS many,
  {_LISTED} AS images
FROM (SELECT db, schema, `table`, {part} AS part, schema_id, kind, op, format,
  count(1) AS rows, min(batch) AS first, max(batch) AS last, min(pos) AS lowest,
  max(pos) AS highest, max(struct(batch, pos)) AS newest_row, collect_set(tenant) AS tenants,
  count_if(after_image = 'partial') AS partials, count_if(changes_key) AS key_changes,
  max(IF(changes_key, pos, NULL)) AS last_key_change, collect_set(names) AS met,
  collect_set(key_columns) AS key_columns,
  count_if(array_contains(warnings, 'zero_date')) AS zero_dates,
  max(happened) AS newest, min(coalesce(happened, {_LOWEST})) AS oldest,
  count_if(no_op) AS no_ops, count_if(key_columns IS NULL) AS keyless,
  count_if(key_hash IS NULL) AS unhashed, sum(width) AS image_bytes, max(width) AS widest,
  {_BY_SCHEMA}
FROM (SELECT *, {_OF_IMAGES} FROM {warehouse.name("silver", "cdc")}
  WHERE {where} AND kind IN ('change', 'ddl', 'schema'))
GROUP BY db, schema, `table`, part, schema_id, kind, op, format)"""
    )
    return tallied(row.asDict() for row in groups.collect())


_WITH_TENANTS = ", ".join(sql_text(name) for name, format_ in FORMATS.items() if format_.tenants)
_OF_IMAGES = f"""{CHANGES_KEY} AS changes_key,
  IF(kind = 'change' AND op <> 'delete', map_keys(coalesce(after, before)), NULL) AS names,
  {_WIDTH} AS width, op = 'update' AND map_values(before) = map_values(after) AS no_op,
  unix_micros(event_time) AS happened,
  IF(format IN ({_WITH_TENANTS}), extra['tenant'], NULL) AS tenant"""
"""Worked out before anything is grouped: so it is compiled with the reading of the files, and no
image leaves it."""
_TWICE = "size(array_distinct(transform(i, n -> lower(n)))) < size(i)"
_LISTED = f"""IF(size(met) <= {IMAGES}, met, concat(transform(array_distinct(flatten(met)),
    n -> array(n)), slice(filter(met, i -> {_TWICE}), 1, 1)))"""
"""Of very many lists of names (`met`) each name, and a list with a name in two spellings."""
_BY_SCHEMA = """min(struct(batch, `partition`, offset)) FILTER (WHERE kind = 'schema') AS came,
  min_by(columns, struct(batch, `partition`, offset)) FILTER (WHERE kind = 'schema') AS columns,
  max(struct(batch, offset, `partition`, key_columns)) FILTER (WHERE kind <> 'change'
    AND size(key_columns) > 0) AS last_key"""
"""What messages of schemas say of a table: its columns' types, its key."""


def schema_hints(
    warehouse: Warehouse, tables: Collection[SourceTable], last: int
) -> PendingChanges:
    """What the messages of schemas in batches up to `last` say of some tables of one source.

    It has no statistics.
    """
    source = next(iter(tables)).source
    found = warehouse.session.sql(
        f"SELECT db, schema, `table`, schema_id, {_BY_SCHEMA} "
        f"FROM {warehouse.name('silver', 'cdc')} "
        f"WHERE source = {sql_text(source)} AND batch <= {last}{_narrowed(tables)} "
        f"AND kind IN ('ddl', 'schema') GROUP BY db, schema, `table`, schema_id"
    )
    by_table: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in found.collect():
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
    for name in ("images", "key_columns"):
        row[name] = tuple(sorted(map(gold_names, row[name])))
    return BatchStats(table=table, **row)


def with_key_changes(
    warehouse: Warehouse,
    stats: Sequence[BatchStats],
    later_names: Iterable[SourceTable],
    *,
    projection: Projection,
) -> list[BatchStats]:
    """The statistics of a table with key changes counted as `projection` has the key, which silver
    does not know. `later_names`: other names that the table has had."""
    images = (image for each in stats for image in each.images)
    aside = any(steps_aside(name) for image in images for name in image)
    changes = _changes(warehouse, stats, later_names, aside=aside)
    if projection.key_renamed:
        changes = translated(f"{changes} AND {projection.may_change_key}", projection.lineage)
    row = warehouse.session.sql(
        f"SELECT count(*) AS key_changes, max(pos) AS top FROM ({changes}) "
        f"WHERE {projection.changes_key}"
    ).first()
    if row is None or not row["key_changes"]:
        return list(stats)
    first, *rest = stats
    last_removal = max(pos for pos in (first.last_removal, tuple(row["top"])) if pos is not None)
    return [first._replace(key_changes=row["key_changes"], last_removal=last_removal), *rest]


def with_places(
    warehouse: Warehouse,
    stats: Sequence[BatchStats],
    later_names: Iterable[SourceTable],
    *,
    projection: Projection,
) -> tuple[list[BatchStats], int]:
    """The statistics of a table by the order of `projection.sequence`, each with the places of them
    all, and how many changes have no place."""
    voids = str(projection.truncates).lower()
    changes = _changes(warehouse, stats, later_names, aside=projection.aside)
    row = warehouse.session.sql(
        f"SELECT min(p) AS lowest, max(p) AS highest, count_if(p IS NULL) AS missing, "
        f"max(p) FILTER (WHERE op = 'delete' OR {projection.may_change_key}) AS last_removal "
        f"FROM (SELECT *, {place(projection)} AS p FROM ({changes})) "
        f"WHERE op <> 'truncate' OR {voids}"
    ).first()
    assert row is not None
    placed = [
        each._replace(
            truncates=0,
            lowest=_pos(row["lowest"]),
            highest=_pos(row["highest"]),
            last_removal=_pos(row["last_removal"]),
        )
        for each in stats
    ]
    return placed, int(row["missing"])


def has_values(
    warehouse: Warehouse,
    stats: Sequence[BatchStats],
    later_names: Iterable[SourceTable],
    *,
    column: str,
    above: Pos,
    below: Pos | None,
    digits: int | None,
) -> bool:
    """Whether images of a table above a position, and below another one where that is given, have
    values of `column`, with so many `digits` behind the point where that is given."""
    where = f"pos > {pos_literal(above)}"
    if below is not None:
        where += f" AND pos < {pos_literal(below)}"
    changes = _changes(warehouse, stats, later_names, aside=False)
    found = f"{changes} AND {where} AND {holds_value(column, digits)}"
    return bool(warehouse.session.sql(f"SELECT 1 FROM ({found}) LIMIT 1").take(1))


def _changes(
    warehouse: Warehouse,
    stats: Sequence[BatchStats],
    later_names: Iterable[SourceTable],
    *,
    aside: bool,
) -> str:
    """SQL of the changes that the statistics of one table count, under all its names.

    `aside`: columns have the names that gold has them under.
    """
    table = stats[0].table
    silver = warehouse.name("silver", "cdc")
    return (
        f"SELECT * FROM {f'({in_gold(silver)})' if aside else silver} "
        f"WHERE source = {sql_text(table.source)}{_narrowed((table, *later_names))} "
        f"AND kind = 'change' AND {spanned(stats)}"
    )


def spanned(stats: Sequence[BatchStats]) -> str:
    """SQL that is true for silver's rows that the statistics of one table count."""
    first, last = min(s.first for s in stats), max(s.batch for s in stats)
    return among(range(first, last + 1))


def _pos(stored: list[int] | None) -> Pos | None:
    return tuple(stored) if stored is not None else None


def _types(
    source: str, rows: Iterable[dict[str, Any]]
) -> dict[SourceTable, list[tuple[ColumnType, ...]]]:
    """The column types each table came with, in order of appearance; taken out of the rows."""
    found: dict[SourceTable, dict[str, tuple[ColumnType, ...]]] = {}
    came = [
        (SourceTable(source, row["db"], row["schema"], row["table"]), listed)
        for row in rows
        for listed in row.pop("types")
    ]
    for table, listed in sorted(came, key=lambda one: tuple(one[1]["came"])):
        columns = tuple(ColumnType(gold_name(n), *types) for n, *types in listed["columns"])
        found.setdefault(table, {}).setdefault(listed["schema_id"], columns)
    return {table: list(types.values()) for table, types in found.items()}


def _keys(source: str, rows: Iterable[dict[str, Any]]) -> dict[SourceTable, tuple[str, ...]]:
    """The key each table was last said to have; taken out of the rows."""
    found = {}
    for row in sorted(rows, key=lambda row: int(row.get("last") or 0)):
        key = row.pop("last_key")
        if key is not None:
            found[SourceTable(source, row["db"], row["schema"], row["table"])] = gold_names(key)
    return found


def _narrowed(tables: Iterable[SourceTable]) -> str:
    parts = [f"({named(table)})" for table in tables]
    return f" AND ({' OR '.join(parts)})" if parts else ""
