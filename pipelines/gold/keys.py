"""The columns that a target is keyed by: those it was made with, those declared, those that
messages name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from ingest.config.load import Config
from ingest.config.routes import Route
from ingest.ddl.changes import Lineage, renamed
from ingest.errors import TableError
from ingest.names import SourceTable, declared_for, lowered
from ingest.sql.metadata import gold_names
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import BatchStats
from pipelines.targets.table import keys_of


def shard_of(route: Route) -> tuple[str, ...]:
    """The shard column, if there is one: the last column of the key."""
    return (route.shard_column,) if route.shard_column else ()


def _one_key(keys: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The only key among those found; () = there is none.

    Raises TableError if there are several.
    """
    if len(keys) > 1:
        listed = " and ".join(f"({', '.join(names)})" for names in keys)
        raise TableError(f"the messages name different keys, {listed}; set keys for the table")
    return keys[0] if keys else ()


def key_of(
    warehouse: Warehouse,
    route: Route,
    *,
    stats: Sequence[BatchStats],
    lineage: Lineage = (),
    hinted_keys: tuple[str, ...] = (),
    renames_to_come: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, ...]:
    """The key columns of a target: those it was made with; for a new one those in the YAML, else
    those that messages of rows name, else those that schema messages name (`hinted_keys`); () =
    unknown.

    Raises TableError if messages of a new target name different ones, and not only because some are
    from before a renaming that is still to come (`ComingStatements.renames_to_come`).
    """
    stored = keys_of(warehouse, route.target)
    if stored:
        return stored
    found = named_keys(warehouse.config, route, stats, lineage=lineage)
    if len(found) > 1:
        found = _once(found, renames_to_come)
    named = _one_key(found) or hinted_keys
    return named + shard_of(route) if named else ()


def _once(
    keys: Iterable[tuple[str, ...]], renames_to_come: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """The keys, each once, under the names from before renamings that are still to come."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    # Spelled as in a key that needs no renaming.
    for names in sorted(keys, key=lambda names: not lowered(names).isdisjoint(renames_to_come)):
        before = before_renames(names, renames_to_come)
        found.setdefault(tuple(name.lower() for name in before), before)
    return list(found.values())


def before_renames(names: Iterable[str], renames_to_come: Mapping[str, str]) -> tuple[str, ...]:
    """The names of columns from before renamings that are still to come."""

    def before(name: str) -> str:
        for _ in renames_to_come:
            name = renames_to_come.get(name.lower(), name)
        return name

    return tuple(map(before, names))


def keys_in_yaml(config: Config, route: Route, table: SourceTable) -> tuple[str, ...]:
    """The key columns that the tables file names for the target, else those that the source's file
    names for the source table; () = neither does."""
    declared = route.keys or declared_for(config.sources[route.source].keys, table.path)
    return gold_names(declared or ())


def named_keys(
    config: Config, route: Route, stats: Sequence[BatchStats], *, lineage: Lineage
) -> list[tuple[str, ...]]:
    """The key columns that the YAML names, else the keys that the messages name, under today's
    names."""
    if declared := keys_in_yaml(config, route, stats[-1].table):
        return [renamed(declared, lineage, ())]
    sent = {names for each in stats for names in each.key_columns if names}
    return sorted({renamed(names, lineage, ()) for names in sent})


def declared_keys(
    config: Config, route: Route, table: SourceTable, *, lineage: Lineage
) -> tuple[str, ...]:
    """The key columns that the YAML names, with the shard column; () = it names none."""
    named = renamed(keys_in_yaml(config, route, table), lineage, ())
    return (*named, *(name for name in shard_of(route) if named))


def check_shard_column(route: Route, columns: Iterable[str]) -> None:
    """Raise TableError if a target was made without the shard column that it is to have."""
    lacking = [name for name in shard_of(route) if name.lower() not in lowered(columns)]
    if lacking:
        raise TableError(
            f"expected the shard_column {lacking[0]} in {route.target}, got a table that was made "
            f"without; `ingest rebuild {route.target} --yes` makes it with that, or take "
            f"`shard_column` away"
        )


def check_excluded(route: Route, columns: Iterable[str]) -> None:
    """Raise TableError if a target has a column that is to be kept out of it."""
    kept_out = lowered(route.exclude)
    present = [name for name in columns if name.lower() in kept_out]
    if present:
        raise TableError(
            f"expected {route.target} without the excluded {', '.join(present)}, which it has from "
            f"before; `ingest rebuild {route.target}` takes it away"
        )
