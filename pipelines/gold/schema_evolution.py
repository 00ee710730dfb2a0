"""Creates a target's table, or applies its source tables' schema changes to it, before a MERGE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingest.config.modes import TargetContract
from ingest.config.routes import Route
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.names import SourceTable
from pipelines.gold.plan import shard_of
from pipelines.ledger.decisions import Ledger
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import BatchStats, PendingChanges
from pipelines.targets.table import check_contract, columns_of, create, wanted_columns


def create_target(
    ledger: Ledger,
    route: Route,
    feeding: Mapping[SourceTable, Sequence[BatchStats]],
    *,
    pending: PendingChanges,
    contract: TargetContract,
) -> bool:
    """Create the target with the columns of all the tables that feed it, unless it exists.

    Gives whether it is new.
    """
    warehouse, soft = ledger.warehouse, route.deletes == "soft"
    if warehouse.exists("gold", route.target):
        check_contract(warehouse, route.target, contract=contract, soft=soft)
        _check_excluded(warehouse, route)
        return False
    types = [columns for table in feeding for columns in pending.types.get(table, [])]
    images = {image for stats in feeding.values() for s in stats for image in s.images}
    shard = (route.shard_column or "").lower()
    if shard and shard in {name.lower() for image in images for name in image}:
        raise TableError(f"`{shard}` is a column of the source; choose a new name as shard_column")
    # Where there is no key it is a column all the same.
    first = contract.keys or shard_of(route)
    wanted = wanted_columns(route, first, types, images=sorted(images))
    for table, stats in feeding.items():
        lowest = min((s.lowest for s in stats if s.lowest is not None), default=None)
        wanted = ledger.beginning(table, wanted, first, lowest=lowest)
    create(warehouse, route.target, wanted, contract=contract, soft=soft)
    return True


def _check_excluded(warehouse: Warehouse, route: Route) -> None:
    """Raise TableError where the target has what `exclude` is to keep out of it."""
    kept_out = {name.lower() for name in route.exclude}
    held = [name for name in columns_of(warehouse, route.target) or {} if name.lower() in kept_out]
    if held:
        raise TableError(
            f"expected {route.target} without the excluded {', '.join(held)}, which it has from "
            f"before; `ingest rebuild {route.target}` takes it away"
        )


def apply_schema_changes(
    ledger: Ledger,
    route: Route,
    table: SourceTable,
    *,
    keys: tuple[str, ...],
    columns: Mapping[str, str],
    types: Sequence[tuple[ColumnType, ...]],
    stats: Sequence[BatchStats],
) -> None:
    """Take up the schema changes of a source table, those of its DDL and then those that its data
    shows, and carry out on the target, which has `columns`, what the policy lets in."""
    images = {image for each in stats for image in each.images}
    wanted = wanted_columns(route, keys, types, images=sorted(images))
    held = {name.lower() for name in columns}
    missing = [key for key in (*keys, *shard_of(route)) if key.lower() not in held]
    if missing:
        raise TableError(
            f"key column {', '.join(missing)} is not in {route.target}, whose key was fixed when "
            f"it was created; another key needs another target"
        )
    for entry in ledger.drift.reserved_names(table, route, wanted):
        ledger.stage_entry(entry)
    if ledger.apply_statements(table, route):
        columns = columns_of(ledger.warehouse, route.target) or {}
    typed = {column.name for listed in types for column in listed}
    drift = ledger.drift
    if added := drift.new_columns(table, route, columns, wanted=wanted):
        ledger.enter_columns(added, route)
    ledger.enter(drift.other_types(table, route, columns, wanted=wanted, typed=typed), route)
