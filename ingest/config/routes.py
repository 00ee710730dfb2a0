"""Which target a source table goes to, with every option that holds for it there.

The bottom-most entry with a matching pattern wins whole; what it leaves out comes from the file's
`defaults`, never from another entry. `columns` and `ddl` add to the defaults key by key, and the
policy of a DDL class that neither names comes from the settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ingest.config.cadence import Cadence
from ingest.config.masks import Mask
from ingest.config.settings import DdlPolicy
from ingest.config.tables import ScdType, TableEntry, TableOptions, Tables, with_defaults
from ingest.ddl.changes import Lineage, ended, names_since
from ingest.names import (
    DEFAULT_TARGET,
    LONGEST_TARGET,
    RESERVED,
    SourceTable,
    fields_of,
    lowered,
    matches,
    target_name,
)
from ingest.sql.metadata import gold_name, gold_names


@dataclass(frozen=True, kw_only=True)
class Route:
    """Where one source table goes in gold, and how.

    `keys` None: they come from the source's YAML, the message or the Kafka key. `sequence_by` None:
    the order is the format's. `columns` are Spark types; `masks` says what stands in place of
    values, and `mask_secret` is the name of the secret that it takes. Columns have the names that
    they have in gold. `merges` is equal for source tables that the user meant to share a target:
    they match the same entry, and its template names the same parts of them.
    """

    source: str
    target: str
    merges: tuple[Any, ...]
    keys: tuple[str, ...] | None
    sequence_by: tuple[str, ...] | None
    stored_as_scd_type: ScdType
    deletes: Literal["hard", "soft"]
    truncates: Literal["apply", "ignore"]
    columns: Mapping[str, str]
    masks: Mapping[str, Mask] = field(default_factory=dict)
    mask_secret: str | None = None
    exclude: tuple[str, ...]
    shard_column: str | None
    merge_every: Cadence | None = None
    ddl: DdlPolicy


def route(
    tables: Tables,
    db: str | None,
    schema: str | None,
    *,
    table: str,
    ddl: DdlPolicy,
    secret: str | None = None,
) -> Route | None:
    """The route of a source table; None if nothing matches: it lives in silver only.

    `ddl` is the settings' policy, `secret` the name of their secret of masks.
    """
    number = _last_entry(tables, db, schema, table=table)
    if number is None:
        return None
    entry = tables.tables[number]
    options = {name: _inherited(name, entry, tables.defaults) for name in TableOptions.model_fields}
    template = options.pop("target")
    columns = with_defaults(tables.defaults.columns, entry.columns)
    named = {gold_name(name): said for name, said in columns.items()}
    options["columns"] = {name: said.held for name, said in named.items() if said.held}
    masks = {name: Mask(said.mask, said.type) for name, said in named.items() if said.mask}
    keyed = any(mask.mode != "null" for mask in masks.values())
    options |= {"masks": masks, "mask_secret": secret if keyed else None}
    for option in ("keys", "sequence_by", "exclude"):
        if options[option] is not None:
            options[option] = gold_names(options[option])
    policy: dict[Any, Any] = {**tables.defaults.ddl, **entry.ddl}
    options["ddl"] = ddl.model_copy(update=policy)
    names = {"db": db, "schema": schema, "table": table}
    # The default name is not meant to merge two tables; it does so only if they differ in their
    # schema alone, or by chance.
    fields = tuple(names) if template == DEFAULT_TARGET else fields_of(template)
    return Route(
        source=tables.source,
        target=target_name(template, db=db, schema=schema, table=table),
        merges=(tables.source, number, *(names[field] for field in fields)),
        **options,
    )


def _last_entry(tables: Tables, db: str | None, schema: str | None, *, table: str) -> int | None:
    """The number of the last entry that means a source table."""
    outer = schema if db is None else db
    names = ((table,), (outer or "", table), (db or "", schema or "", table))
    last = max((tables.named.get(each, -1) for each in names), default=-1)
    for number, pattern in sorted(tables.wild.of(db, schema, table), reverse=True):
        if number < last:
            break
        if matches(pattern, db=db, schema=schema, table=table):
            return number
    return None if last < 0 else last


def through_renames(route: Route, lineages: Iterable[Lineage]) -> Route:
    """The route with everything that it says of a column said of the column's later names too: a
    column that is excluded or masked stays so under a new name.

    `lineages`: those of the source tables that feed the target, whose rows all have its columns. A
    declared type is not carried over once another column has the declared name.
    """
    if not (route.columns or route.exclude):
        return route
    lineages = {*lineages}
    columns = dict(route.columns)
    declared = lowered(route.columns)
    masked = lowered(route.masks)
    for entries in lineages:
        for name, type_ in route.columns.items():
            if name.lower() in masked or ended(entries, name) is not None:
                columns |= dict.fromkeys(sorted(names_since(name, entries) - declared), type_)
    known = lowered(route.exclude)
    new = sorted(excluded_through(route, lineages) - known)
    return replace(route, exclude=(*route.exclude, *new), columns=columns)


def excluded_through(route: Route, lineages: Iterable[Lineage]) -> set[str]:
    """The excluded columns, in lower case, by all names that these changes gave them."""
    found = lowered(route.exclude)
    return found.union(*(names_since(name, e) for e in lineages for name in route.exclude))


def _inherited(name: str, entry: TableEntry, defaults: TableOptions) -> Any:
    return getattr(entry if name in entry.model_fields_set else defaults, name)


@dataclass(frozen=True)
class Collision:
    """Source tables that lead to one target without being meant to share it.

    `feeding`: those that keep feeding it, because one of them was first. `parked`: the others; all
    of them if none was first. A single table is parked if nobody can have the target.
    """

    target: str
    feeding: tuple[SourceTable, ...]
    parked: tuple[SourceTable, ...]

    def why(self, table: SourceTable) -> str:
        """Why one of the parked tables is parked."""
        if self.target.lower() in RESERVED:
            owner = "a table of gold's own" if self.target else "no name at all"
            return f"{table} would become {self.target or '``'}, which is {owner}; {_ANOTHER}"
        if len(self.target) > LONGEST_TARGET:
            return (
                f"expected a target of at most {LONGEST_TARGET} characters, got "
                f"{self.target[:40]}… of {len(self.target)} for {table}; {_ANOTHER}"
            )
        if not self.feeding:
            among = ", ".join(map(str, self.parked))
            one_source = len({parked.source for parked in self.parked}) == 1
            together = ", or one entry for all of them" if one_source else ""
            return (
                f"source tables {among} lead to one target, {self.target}; give each a `target` "
                f"of its own{together}, in a tables file (conf/tables)"
            )
        if self.feeding[0].source != table.source:
            # No order holds across sources.
            only = f"by one source, which is {self.feeding[0].source}"
            return f"expected {self.target} to be fed {only}, got {table}; {_ANOTHER}"
        first = ", ".join(map(str, self.feeding))
        return (
            f"expected {self.target} to be fed by {first} alone, as it was before, got {table}; "
            f"{_ANOTHER}"
        )


_ANOTHER = "set `target` for it in a tables file (conf/tables)"

Feeders = Mapping[str, Sequence[SourceTable]]
"""Target, in lower case -> the source tables that feed it, in the order in which they began to."""


def collisions(
    routed: Iterable[tuple[SourceTable, Route]], feeders: Feeders
) -> dict[str, Collision]:
    """The collisions by target, in lower case.

    Targets are compared without case, as catalogs do. The tables that fed a target first keep
    feeding it, with those that are meant to share it (semantics.md, 70); if none was first, all are
    parked (semantics.md, 25).
    """
    meeting: dict[str, dict[SourceTable, Route]] = {}
    for table, way in routed:
        meeting.setdefault(way.target.lower(), {})[table] = way
    by_target = {}
    for target, ways in meeting.items():
        name = next(iter(ways.values())).target
        if target in RESERVED or len(target) > LONGEST_TARGET:
            by_target[target] = Collision(name, (), tuple(sorted(ways, key=str)))
            continue
        sources = {table.source for table in ways}
        # A table that fed it and is routed elsewhere now no longer feeds it.
        first = next(
            (
                table
                for table in feeders.get(target, ())
                if table in ways or table.source not in sources
            ),
            None,
        )
        if first is None:
            sharing: tuple[SourceTable, ...] = ()
            alike = len({way.merges for way in ways.values()}) == 1
        elif first in ways:
            merged = ways[first].merges
            sharing = tuple(sorted((t for t, way in ways.items() if way.merges == merged), key=str))
            alike = len(sharing) == len(ways)
            name = ways[first].target
        else:
            sharing, alike = (first,), False
        if not alike:
            parked = tuple(sorted(set(ways) - set(sharing), key=str))
            by_target[target] = Collision(name, sharing, parked)
    return by_target
