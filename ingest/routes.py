"""Which target a source table goes to, with every option that holds for it there.

The bottom-most entry with a matching pattern wins whole; what it leaves out comes from the file's
`defaults`, never from another entry. `columns` and `ddl` add to the defaults key by key, and the
policy of a DDL class that neither names comes from the settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ingest.entries import TableEntry, TableOptions, Tables
from ingest.names import DEFAULT_TARGET, RESERVED, SourceTable, fields_of, matches, target_name
from ingest.settings import DdlPolicy


@dataclass(frozen=True, kw_only=True)
class Route:
    """The way of one source table into gold.

    `keys` None: from the source's YAML, the message or the Kafka key. `sequence_by` None: the
    format's order. `columns` are Spark types. `merges` is equal for source tables that the user
    meant to share a target: the same entry, by a template that names the same things of them.
    """

    source: str
    target: str
    merges: tuple[Any, ...]
    keys: tuple[str, ...] | None
    sequence_by: tuple[str, ...] | None
    stored_as_scd_type: Literal[1, 2, "append"]
    deletes: Literal["hard", "soft"]
    truncates: Literal["apply", "ignore"]
    columns: Mapping[str, str]
    exclude: tuple[str, ...]
    shard_column: str | None
    ddl: DdlPolicy


def route(
    tables: Tables, db: str | None, schema: str | None, table: str, *, ddl: DdlPolicy
) -> Route | None:
    """The route of a source table; None where nothing matches: it lives in silver only.

    `ddl` is the settings' policy.
    """
    for number in range(len(tables.tables) - 1, -1, -1):
        entry = tables.tables[number]
        if any(matches(pattern, db=db, schema=schema, table=table) for pattern in entry.patterns):
            break
    else:
        return None
    given = {name: _inherited(name, entry, tables.defaults) for name in TableOptions.model_fields}
    template = given.pop("target")
    given["columns"] = _added(tables.defaults.columns, entry.columns)
    policy: dict[Any, Any] = {**tables.defaults.ddl, **entry.ddl}
    given["ddl"] = ddl.model_copy(update=policy)
    names = {"db": db, "schema": schema, "table": table}
    # The default name never merges two tables: it tells them apart, but for a schema or by chance.
    named = tuple(names) if template == DEFAULT_TARGET else fields_of(template)
    return Route(
        source=tables.source,
        target=target_name(template, db=db, schema=schema, table=table),
        merges=(tables.source, number, *(names[field] for field in named)),
        **given,
    )


def _inherited(name: str, entry: TableEntry, defaults: TableOptions) -> Any:
    return getattr(entry if name in entry.model_fields_set else defaults, name)


def _added(defaults: Mapping[str, str], entry: Mapping[str, str]) -> dict[str, str]:
    """Both tables' columns; matched without case, the entry's win."""
    given = {name.casefold() for name in entry}
    kept = {name: type_ for name, type_ in defaults.items() if name.casefold() not in given}
    return {**kept, **entry}


def collisions(
    routed: Iterable[tuple[SourceTable, Route]],
) -> dict[str, tuple[SourceTable, ...]]:
    """Targets, in lower case, that source tables reach without being meant to share them.

    Targets are compared without case, as catalogs do. All the source tables of such a target are
    to be parked; one alone is named where the target is not to be had by any.
    """
    meeting: dict[str, dict[SourceTable, Route]] = {}
    for table, way in routed:
        meeting.setdefault(way.target.lower(), {})[table] = way
    return {
        target: tuple(sorted(ways, key=str))
        for target, ways in meeting.items()
        if target in RESERVED or len({way.merges for way in ways.values()}) > 1
    }
