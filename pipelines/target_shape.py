"""Which shape a target has in one batch: its key, its columns, how its source's rows fit them."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.config import Config
from ingest.errors import TableError
from ingest.names import SourceTable
from ingest.readings import scheme
from ingest.routes import Route
from ingest.shape import Shape
from pipelines.ledger import Ledger
from pipelines.rejects import no_key_rejects
from pipelines.survey import Slice, Survey
from pipelines.tables import Warehouse
from pipelines.targets import columns_of, create, spelled, wanted_columns
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


def target_columns(
    warehouse: Warehouse,
    route: Route,
    keys: tuple[str, ...],
    table: SourceTable,
    found: Survey,
    images: set[tuple[str, ...]],
    ledger: Ledger,
) -> tuple[dict[str, str], bool]:
    """The target's columns after what the ledger lets in, and whether the target is new."""
    types = found.types.get(table, [])
    wanted = wanted_columns(route, keys, types, sorted(images))
    stored = columns_of(warehouse, route.target)
    if stored is None:
        create(warehouse, route.target, wanted, soft=route.deletes == "soft")
        ledger.created(table, route, wanted)
        return wanted, True
    missing = [key for key in keys if key.lower() not in {name.lower() for name in stored}]
    if missing:
        raise TableError(
            f"key column {', '.join(missing)} is not in {route.target}, whose key was fixed when "
            f"it was created; another key needs another target"
        )
    grown = ledger.grow(table, route, stored, wanted, {c.name for t in types for c in t})
    return grown, False


def shape_of(
    config: Config,
    route: Route,
    keys: tuple[str, ...],
    columns: dict[str, str],
    slices: Sequence[Slice],
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
        native={names for slice_ in slices for names in slice_.key_columns} == {keys},
    )
    return spelled(shape, sorted(images | {keys}))


def label_of(table: SourceTable) -> str:
    """`db.table` or `db.schema.table`, as `_source_table` has it."""
    return ".".join(part for part in (table.db, table.schema, table.table) if part)


def set_aside(
    warehouse: Warehouse, table: SourceTable, route: Route, slices: Sequence[Slice]
) -> int:
    """Send the changes of a table without a key to `gold._rejects`; how many were new there."""
    above, last = min(s.batch for s in slices) - 1, max(s.batch for s in slices)
    changes = silver_changes(warehouse, table, f"batch > {above} AND batch <= {last}")
    return no_key_rejects(warehouse, table.source, route.target, changes)
