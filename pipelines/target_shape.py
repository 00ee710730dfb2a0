"""Which shape a target has in one batch: its key, its columns, how its source's rows fit them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ingest.config import Config
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.formats.columns import declared_for
from ingest.lineage import Lineage, renamed
from ingest.modes import Made
from ingest.names import SourceTable, label_of
from ingest.readings import scheme
from ingest.routes import Route
from ingest.shape import Shape
from pipelines.ledger import Ledger
from pipelines.rejects import no_key_rejects
from pipelines.survey import Slice, Survey
from pipelines.tables import Warehouse
from pipelines.targets import check_kept, columns_of, create, keys_of, spelled, wanted_columns
from pipelines.work import silver_changes


def shard_of(route: Route) -> tuple[str, ...]:
    """The shard_column, where there is one: the last column of the key."""
    return (route.shard_column,) if route.shard_column else ()


def key_columns(route: Route, slices: Sequence[Slice]) -> tuple[str, ...]:
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
    slices: Sequence[Slice],
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
    named = named_keys(config, route, slices, lineage) or told
    return named + shard_of(route) if named else ()


def named_keys(
    config: Config, route: Route, slices: Sequence[Slice], lineage: Lineage
) -> tuple[str, ...]:
    """The key columns that the YAML or the messages name now, by what they are called now."""
    declared = declared_for(config.sources[route.source].keys, slices[-1].table[1:])
    if not route.keys and declared:
        return renamed(tuple(declared), lineage, ())
    now = [
        slice_._replace(
            key_columns=tuple(renamed(names, lineage, ()) for names in slice_.key_columns)
        )
        for slice_ in slices
    ]
    return renamed(key_columns(route, now), lineage, ())


def target_columns(
    warehouse: Warehouse,
    route: Route,
    feeding: Mapping[SourceTable, Sequence[Slice]],
    found: Survey,
    ledger: Ledger,
    *,
    made: Made,
) -> bool:
    """Create the target with the columns of all the tables that feed it, unless it exists.

    Gives whether it is new.
    """
    soft = route.deletes == "soft"
    if warehouse.exists("gold", route.target):
        check_kept(warehouse, route.target, mode=made.mode, soft=soft)
        _check_excluded(warehouse, route)
        return False
    types = [columns for table in feeding for columns in found.types.get(table, [])]
    images = {image for slices in feeding.values() for s in slices for image in s.images}
    shard = (route.shard_column or "").lower()
    if shard in {name.lower() for image in images for name in image}:
        raise TableError(f"`{shard}` is a column of the source; choose a new name as shard_column")
    # Where there is no key it is a column all the same.
    first = made.keys or shard_of(route)
    wanted = wanted_columns(route, first, types, sorted(images))
    for table, slices in feeding.items():
        lowest = min((s.lowest for s in slices if s.lowest is not None), default=None)
        wanted = ledger.beginning(table, wanted, first, lowest)
    create(warehouse, route.target, wanted, made, soft=soft)
    return True


def _check_excluded(warehouse: Warehouse, route: Route) -> None:
    """Raise TableError where the target has what `exclude` is to keep out of it."""
    kept_out = {name.lower() for name in route.exclude}
    held = [name for name in columns_of(warehouse, route.target) or {} if name.lower() in kept_out]
    if held:
        raise TableError(
            f"expected {route.target} without the excluded {', '.join(held)}, which it has from "
            f"before; take it away with ALTER TABLE … DROP COLUMN, or choose another target"
        )


def grown_columns(
    warehouse: Warehouse,
    route: Route,
    keys: tuple[str, ...],
    table: SourceTable,
    found: Survey,
    slices: Sequence[Slice],
    ledger: Ledger,
) -> dict[str, str]:
    """The target's columns after what the ledger lets in of `table`'s."""
    types = found.types.get(table, [])
    images = {image for slice_ in slices for image in slice_.images}
    wanted = wanted_columns(route, keys, types, sorted(images))
    stored = columns_of(warehouse, route.target) or {}
    held = {name.lower() for name in stored}
    missing = [key for key in (*keys, *shard_of(route)) if key.lower() not in held]
    if missing:
        raise TableError(
            f"key column {', '.join(missing)} is not in {route.target}, whose key was fixed when "
            f"it was created; another key needs another target"
        )
    columns = ledger.settle(table, route, dict(stored), keys)
    typed_names = {column.name for columns in types for column in columns}
    return ledger.drift.grown(table, route, columns, wanted, typed_names)


def shape_of(
    config: Config,
    route: Route,
    keys: tuple[str, ...],
    columns: dict[str, str],
    slices: Sequence[Slice],
    lineage: Lineage = (),
    types: Iterable[Sequence[ColumnType]] = (),
) -> Shape:
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
    formats = slices[-1].formats
    shape = Shape(
        keys=tuple(by_lower[key.lower()] for key in keys),
        columns=columns,
        label=label_of(table),
        source=table.source,
        zone=source.time_zone,
        by_arrival=scheme(source, formats[0] if formats else None) == "arrival",
        truncates=route.truncates == "apply",
        native=not any(slice_.keyless for slice_ in slices)
        and {renamed(names, lineage, ()) for slice_ in slices for names in slice_.key_columns}
        == {own},
        lineage=lineage,
        shard=by_lower[route.shard_column.lower()] if route.shard_column else None,
        sequence=_sequence(route, columns, images, types) if keys else (),
    )
    brought = {(edit.effect.args[edit.effect.op == "rename"] or "",) for edit in lineage}
    return spelled(shape, sorted(images | brought | {own}))


def _sequence(
    route: Route,
    columns: Mapping[str, str],
    images: set[tuple[str, ...]],
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
    warehouse: Warehouse, table: SourceTable, route: Route, slices: Sequence[Slice]
) -> int:
    """Send the changes of a table without a key to `gold._rejects`; how many were new there."""
    above, last = min(s.batch for s in slices) - 1, max(s.batch for s in slices)
    changes = silver_changes(warehouse, [table], f"batch > {above} AND batch <= {last}")
    return no_key_rejects(warehouse, table.source, route.target, changes)
