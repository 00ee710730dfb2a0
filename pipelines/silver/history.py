"""`history.<target>` and the identity of changes, for the tables that there are
(`ingest.sql.history.view`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ingest.config.load import Config
from ingest.config.routes import Route
from ingest.config.sources import Source
from ingest.ddl.changes import Lineage, RenameColumn, ever_called
from ingest.formats import FORMATS
from ingest.names import SourceTable, lowered
from ingest.sql import lineage
from ingest.sql.history import view
from ingest.sql.masks import Masking, as_it_is, as_it_was
from ingest.sql.metadata import METADATA, gold_name, renamed_in_gold, source_name
from ingest.sql.query import union_all
from ingest.sql.quoting import sql_texts
from pipelines.platform.mask_secret import maskings
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse


class TableNames(NamedTuple):
    """How the events of a source table are read: the changes of names in force, and all renames
    that its source told of, whether or not they were let in."""

    lineage: Lineage
    renames: tuple[RenameColumn, ...]


def history_view(
    warehouse: Warehouse,
    tables: Sequence[tuple[SourceTable, Route]],
    *,
    columns: Mapping[str, str],
    read: Mapping[SourceTable, TableNames],
    looked: Sequence[str] = (),
    secret: bool = False,
) -> str:
    """The query of the view over `tables`. `columns` are the target's, with their Spark types;
    `read` has the changes of names through which each table's events are read. For the columns
    `looked` for, it also shows their values before and after. `secret`: the query is only for this
    session, which knows the secret of masks; otherwise it leaves out the columns that need it."""
    by_source: dict[str, list[tuple[SourceTable, Route]]] = {}
    for table, route in tables:
        by_source.setdefault(table.source, []).append((table, route))
    return union_all(
        _of_source(
            warehouse,
            of_source,
            columns=columns,
            read=read,
            looked=looked,
            secret=secret,
        )
        for of_source in by_source.values()
    )


def identity(sources: Iterable[Source]) -> str:
    """SQL of what the deliveries of one change have in common."""
    return view.identity({source.name: by_arrival(source) for source in sources})


def data_columns(
    warehouse: Warehouse,
    target: str,
    tables: Sequence[tuple[SourceTable, Route]],
    *,
    without: Iterable[str] = (),
) -> dict[str, str]:
    """The target's columns, except those `without` which they are asked for: gold's with their
    types; before the target exists, silver's as text."""
    hidden = {name.lower() for _, route in tables for name in route.exclude}
    hidden |= lowered(without)
    if warehouse.exists("gold", target):
        shards = {(route.shard_column or "").lower() for _, route in tables}
        own = {*METADATA, *shards, *hidden}
        fields = warehouse.fields("gold", target)
        return {
            field.name: field.dataType.simpleString()
            for field in fields
            if field.name.lower() not in own
        }
    where = view.of_tables(table for table, _ in tables)
    found = warehouse.session.sql(view.names_sent(warehouse.name("silver", "cdc"), where))
    columns: dict[str, str] = {}
    seen = set(hidden)
    for name in (gold_name(name) for name, _ in rows(found)):
        if name.lower() not in seen:
            columns[name] = "string"
            seen.add(name.lower())
    return columns


def _of_source(
    warehouse: Warehouse,
    tables: Sequence[tuple[SourceTable, Route]],
    *,
    columns: Mapping[str, str],
    read: Mapping[SourceTable, TableNames],
    looked: Sequence[str],
    secret: bool,
) -> str:
    source = warehouse.config.sources[tables[0][0].source]
    masks = _masks(warehouse.config, tables, secret=secret)
    kept_out = {
        other
        for table, route in tables
        for name in route.exclude
        for other in ever_called(name, read[table].renames)
    }
    if not secret:
        kept_out |= hidden_by_masks(tables, read, ever=True)
    hidden = sorted({source_name(name).lower() for name in kept_out})
    return view.of_source(
        _changes(warehouse, source, tables, read=read, masks=masks, columns=columns),
        by_arrival={source.name: by_arrival(source)},
        columns=columns,
        hidden=hidden,
        looked=looked,
        zone=source.time_zone,
    )


def hidden_by_masks(
    tables: Sequence[tuple[SourceTable, Route]],
    read: Mapping[SourceTable, TableNames],
    *,
    ever: bool = False,
) -> set[str]:
    """The columns whose masks take a secret, which a view must not have. `ever`: under all names
    that they may have had, for images that are shown as they came."""
    hidden: set[str] = set()
    for table, route in tables:
        masks = {
            name: Masking(mask.mode, None, "", "")
            for name, mask in route.masks.items()
            if mask.mode != "null"
        }
        now = as_it_is(masks, read[table].lineage)
        hidden |= (as_it_was(now, read[table].renames) if ever else now).keys()
    return hidden


def _masks(
    config: Config, tables: Sequence[tuple[SourceTable, Route]], *, secret: bool
) -> dict[str, Masking]:
    """The masks that the query can apply."""
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
    read: Mapping[SourceTable, TableNames],
    masks: Mapping[str, Masking],
    columns: Iterable[str],
) -> list[str]:
    """SQL of the tables' changes under today's names; see `ingest.sql.history.view.changes_of`."""
    alike: dict[TableNames, list[SourceTable]] = {}
    for table, _ in tables:
        alike.setdefault(read[table], []).append(table)
    renamed = any(map(renamed_in_gold, columns))
    return [
        view.changes_of(
            warehouse.name("silver", "cdc"),
            some,
            lineage=naming.lineage,
            renames=naming.renames,
            masks=masks,
            zone=source.time_zone,
            renamed=renamed,
            schema_pos=schema_pos(source),
        )
        for naming, some in alike.items()
    ]


def schema_pos(source: Source) -> str:
    """SQL of where a row of a source stands among the schema changes."""
    formats = [name for name, format_ in FORMATS.items() if format_.read_positions]
    return lineage.schema_pos(formats, by_arrival=by_arrival(source))


def by_arrival(source: Source) -> str:
    """SQL that is true for the rows of a source that are ordered by arrival."""
    if source.order != "auto":
        return str(source.order == "arrival").lower()
    names = [name for name, format_ in FORMATS.items() if format_.order == "arrival"]
    return f"coalesce(format IN ({sql_texts(names)}), true)"
