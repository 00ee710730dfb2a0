"""Which shape a target has in one batch: its key, its columns, how its source's rows fit them."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.config import Config
from ingest.errors import TableError
from ingest.formats.columns import declared_for
from ingest.lineage import Lineage, renamed
from ingest.names import SourceTable, label_of
from ingest.readings import scheme
from ingest.routes import Route
from ingest.shape import Shape
from pipelines.ledger import Ledger
from pipelines.rejects import no_key_rejects
from pipelines.survey import Slice, Survey
from pipelines.tables import Warehouse
from pipelines.targets import columns_of, create, keys_of, spelled, wanted_columns
from pipelines.work import silver_changes


def key_columns(route: Route, slices: Sequence[Slice]) -> tuple[str, ...]:
    """The key columns of a target: the YAML's, else those the messages name; () = unknown.

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
) -> tuple[str, ...]:
    """The key columns of a target: those it was made with; of a new one what the YAML says, else
    what the messages name; () = unknown.

    Raises TableError where messages of a new target name different ones.
    """
    stored = keys_of(warehouse, route.target)
    if stored:
        return stored
    return named_keys(config, route, slices, lineage)


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
    keys: tuple[str, ...],
    table: SourceTable,
    found: Survey,
    slices: Sequence[Slice],
    ledger: Ledger,
) -> tuple[dict[str, str], bool]:
    """The target's columns after what the ledger lets in, and whether the target is new."""
    types = found.types.get(table, [])
    images = {image for slice_ in slices for image in slice_.images}
    wanted = wanted_columns(route, keys, types, sorted(images))
    stored = columns_of(warehouse, route.target)
    fresh = stored is None
    if stored is None:
        lowest = min((s.lowest for s in slices if s.lowest is not None), default=None)
        stored = ledger.beginning(table, wanted, keys, lowest)
        create(warehouse, route.target, stored, keys, soft=route.deletes == "soft")
    missing = [key for key in keys if key.lower() not in {name.lower() for name in stored}]
    if missing:
        raise TableError(
            f"key column {', '.join(missing)} is not in {route.target}, whose key was fixed when "
            f"it was created; another key needs another target"
        )
    columns = ledger.settle(table, route, dict(stored), keys)
    typed_names = {column.name for columns in types for column in columns}
    columns = ledger.drift.grown(table, route, columns, wanted, typed_names)
    return columns, fresh


def shape_of(
    config: Config,
    route: Route,
    keys: tuple[str, ...],
    columns: dict[str, str],
    slices: Sequence[Slice],
    lineage: Lineage = (),
) -> Shape:
    """How the source table of `slices` becomes rows of the target."""
    table = slices[-1].table
    images = {image for slice_ in slices for image in slice_.images}
    by_lower = {name.lower(): name for name in columns}
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
        native={renamed(names, lineage, ()) for slice_ in slices for names in slice_.key_columns}
        == {keys},
        lineage=lineage,
    )
    brought = {(edit.effect.args[edit.effect.op == "rename"] or "",) for edit in lineage}
    return spelled(shape, sorted(images | brought | {keys}))


def set_aside(
    warehouse: Warehouse, table: SourceTable, route: Route, slices: Sequence[Slice]
) -> int:
    """Send the changes of a table without a key to `gold._rejects`; how many were new there."""
    above, last = min(s.batch for s in slices) - 1, max(s.batch for s in slices)
    changes = silver_changes(warehouse, [table], f"batch > {above} AND batch <= {last}")
    return no_key_rejects(warehouse, table.source, route.target, changes)
