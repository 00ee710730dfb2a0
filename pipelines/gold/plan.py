"""Which shape a target has in one batch: its key, its columns, how its source's rows fit them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ingest.config.load import Config
from ingest.config.modes import mode_of
from ingest.config.routes import Route
from ingest.config.sources import Source
from ingest.ddl.changes import Lineage, name_after, renamed
from ingest.decode.spec import domain, scheme
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.names import SourceTable, label_of
from ingest.sql.metadata import gold_names
from ingest.sql.projection import Projection
from ingest.wire.declared import declared_for
from pipelines.apply.batch import silver_changes
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import BatchStats
from pipelines.targets.rejects import no_key_rejects
from pipelines.targets.table import keys_of, spelled


def shard_of(route: Route) -> tuple[str, ...]:
    """The shard_column, where there is one: the last column of the key."""
    return (route.shard_column,) if route.shard_column else ()


def key_columns(route: Route, slices: Sequence[BatchStats]) -> tuple[str, ...]:
    """The key columns that the YAML names, else those that the messages name; () = unknown.

    Raises TableError where messages name different ones.
    """
    if route.keys:
        return route.keys
    found = {names for slice_ in slices for names in slice_.key_columns if names}
    if len(found) > 1:
        listed = " and ".join(f"({', '.join(names)})" for names in sorted(found))
        raise TableError(f"the messages name different keys, {listed}; set keys for the table")
    return next(iter(found), ())


def key_of(
    warehouse: Warehouse,
    config: Config,
    route: Route,
    *,
    slices: Sequence[BatchStats],
    lineage: Lineage = (),
    told: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """The key columns of a target: those it was made with; of a new one what the YAML says, else
    what the messages of rows name, else those of schemas (`told`); () = unknown.

    Raises TableError where messages of a new target name different ones.
    """
    stored = keys_of(warehouse, route.target)
    if stored:
        return stored
    named = named_keys(config, route, slices, lineage=lineage) or told
    return named + shard_of(route) if named else ()


def named_keys(
    config: Config, route: Route, slices: Sequence[BatchStats], *, lineage: Lineage
) -> tuple[str, ...]:
    """The key columns that the YAML or the messages name now, by what they are called now."""
    declared = declared_for(config.sources[route.source].keys, slices[-1].table[1:])
    if not route.keys and declared:
        return renamed(gold_names(declared), lineage, ())
    now = [
        slice_._replace(
            key_columns=tuple(renamed(names, lineage, ()) for names in slice_.key_columns)
        )
        for slice_ in slices
    ]
    return renamed(key_columns(route, now), lineage, ())


def declared_keys(
    config: Config, route: Route, table: SourceTable, *, lineage: Lineage
) -> tuple[str, ...]:
    """The key columns that the YAML names, the shard column with them; () = it names none."""
    declared = route.keys or declared_for(config.sources[route.source].keys, table[1:]) or ()
    named = renamed(gold_names(declared), lineage, ())
    return (*named, *(name for name in shard_of(route) if named))


def shape_of(
    config: Config,
    route: Route,
    keys: tuple[str, ...],
    *,
    columns: dict[str, str],
    slices: Sequence[BatchStats],
    lineage: Lineage = (),
    types: Iterable[Sequence[ColumnType]] = (),
) -> Projection:
    """How the source table of `slices` becomes rows of the target."""
    table = slices[-1].table
    images = {image for slice_ in slices for image in slice_.images}
    by_lower = {name.lower(): name for name in columns}
    shard = (route.shard_column or "").lower()
    if shard and shard not in by_lower:
        raise TableError(
            f"expected the shard_column {route.shard_column} in {route.target}, whose key was "
            f"fixed when it was created, got none; another key needs another target"
        )
    own = tuple(key for key in keys if key.lower() != shard)
    source = config.sources[table.source]
    order_domain(source, slices)
    one_tenant(source, slices)
    # An append target keeps a row for each change: none of them replaces another.
    ordered = mode_of(route, keys) != "append"
    shape = Projection(
        keys=tuple(by_lower[key.lower()] for key in keys),
        columns=columns,
        label=label_of(table),
        source=table.source,
        zone=source.time_zone,
        by_arrival=scheme(source, slices[-1].format) == "arrival",
        truncates=route.truncates == "apply",
        native=not any(slice_.keyless for slice_ in slices)
        and {renamed(names, lineage, ()) for slice_ in slices for names in slice_.key_columns}
        == {own},
        lineage=lineage,
        shard=by_lower[route.shard_column.lower()] if route.shard_column else None,
        sequence=_sequence(route, columns, images, types=types) if ordered else (),
    )
    brought = {(name_after(entry.change),) for entry in lineage}
    return spelled(shape, sorted(images | brought | {own}))


def order_domain(source: Source, slices: Sequence[BatchStats], before: str | None = None) -> str:
    """What the positions of a source table's changes are positions in; `before`: of those that were
    applied.

    Raises TableError where they are of two domains.
    """
    formats = {name for slice_ in slices for name in slice_.formats}
    domains = sorted({domain(source, name) for name in formats} | ({before} if before else set()))
    if len(domains) > 1:
        listed = " and ".join("arrival" if d == "arrival" else f"the log of {d}" for d in domains)
        raise TableError(
            f"expected the changes of {label_of(slices[-1].table)} in one order, got positions by "
            f"{listed}, which cannot be compared; set `order: arrival` for the source {source.name}"
            f" and run `ingest redecode --source {source.name}`, or declare a source for each"
        )
    return domains[0] if domains else "arrival"


def one_tenant(
    source: Source, slices: Sequence[BatchStats], before: str | None = None
) -> str | None:
    """The OceanBase tenant that a source table's changes name; `before`: that of those that were
    applied.

    Raises TableError where they are of two: equal names do not make one table of theirs.
    """
    named = {name for slice_ in slices for name in slice_.tenants} | ({before} if before else set())
    if len(named) > 1:
        raise TableError(
            f"expected the changes of {label_of(slices[-1].table)} of one OceanBase tenant, got "
            f"those of {' and '.join(sorted(named))}; set `options: {{tenant: …}}` for the source "
            f"{source.name} and run `ingest redecode --source {source.name}`; declare a source for "
            "each tenant"
        )
    return next(iter(named), None)


def _sequence(
    route: Route,
    columns: Mapping[str, str],
    images: set[tuple[str, ...]],
    *,
    types: Iterable[Sequence[ColumnType]],
) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The columns of `sequence_by`, whether or not the target has them."""
    typed = {column.name.lower(): column.type for listed in types for column in listed}
    declared = {name.lower(): type_ for name, type_ in [*columns.items(), *route.columns.items()]}
    found = []
    for name in route.sequence_by or ():
        spelt = {given for image in images for given in image if given.lower() == name.lower()}
        type_ = declared.get(name.lower()) or typed.get(name.lower()) or "string"
        found.append((tuple(sorted(spelt | {name})), type_))
    return tuple(found)


def set_aside(
    warehouse: Warehouse, table: SourceTable, route: Route, *, slices: Sequence[BatchStats]
) -> int:
    """Send the changes of a table without a key to `gold._rejects`; how many were new there."""
    above, last = min(s.first for s in slices) - 1, max(s.batch for s in slices)
    changes = silver_changes(warehouse, [table], f"batch > {above} AND batch <= {last}")
    return no_key_rejects(warehouse, table.source, route.target, changes=changes)
