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
    """The way of one source table into gold.

    `keys` None: from the source's YAML, the message or the Kafka key. `sequence_by` None: the
    format's order. `columns` are Spark types, `masks` what stands in place of values, `mask_secret`
    the name of the secret that it takes. Columns have the names that gold has them under.
    `merges` is equal for source tables that the user meant to share a target: the same entry, by a
    template that names the same things of them.
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
    """The route of a source table; None where nothing matches: it lives in silver only.

    `ddl` is the settings' policy, `secret` the name of their secret of masks.
    """
    for number in range(len(tables.tables) - 1, -1, -1):
        entry = tables.tables[number]
        if any(matches(pattern, db=db, schema=schema, table=table) for pattern in entry.patterns):
            break
    else:
        return None
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
    # The default name never merges two tables: it tells them apart, but for a schema or by chance.
    fields = tuple(names) if template == DEFAULT_TARGET else fields_of(template)
    return Route(
        source=tables.source,
        target=target_name(template, db=db, schema=schema, table=table),
        merges=(tables.source, number, *(names[field] for field in fields)),
        **options,
    )


def followed(way: Route, lineages: Iterable[Lineage]) -> Route:
    """The route with what it says of columns said of them under the names that they have been given
    since, too: a column that was excluded or masked is no less so for its new name.

    `lineages`: of the source tables that feed the target, whose rows all have its columns. A type
    is not followed, once another column has the name that it is declared by.
    """
    if not (way.columns or way.exclude):
        return way
    lineages = {*lineages}
    columns = dict(way.columns)
    declared = lowered(way.columns)
    masked = lowered(way.masks)
    for entries in lineages:
        for name, type_ in way.columns.items():
            if name.lower() in masked or ended(entries, name) is not None:
                columns |= dict.fromkeys(sorted(names_since(name, entries) - declared), type_)
    known = lowered(way.exclude)
    new = sorted(excluded_through(way, lineages) - known)
    return replace(way, exclude=(*way.exclude, *new), columns=columns)


def excluded_through(way: Route, lineages: Iterable[Lineage]) -> set[str]:
    """What the route excludes, in lower case, by the names that it has behind these changes."""
    found = lowered(way.exclude)
    return found.union(*(names_since(name, e) for e in lineages for name in way.exclude))


def _inherited(name: str, entry: TableEntry, defaults: TableOptions) -> Any:
    return getattr(entry if name in entry.model_fields_set else defaults, name)


@dataclass(frozen=True)
class Collision:
    """Source tables that reach one target without being meant to share it.

    `feeding`: those that go on feeding it, since one of them was first; `parked`: the others, all
    where nobody was first. One alone is parked where the target is not to be had by any.
    """

    target: str
    feeding: tuple[SourceTable, ...]
    parked: tuple[SourceTable, ...]

    def why(self, table: SourceTable) -> str:
        """What is said of one of the parked ones."""
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
"""Target, in lower case -> the source tables that feed it, whoever was first standing first."""


def collisions(
    routed: Iterable[tuple[SourceTable, Route]], feeders: Feeders
) -> dict[str, Collision]:
    """By target, in lower case, where source tables meet that are not meant to share it.

    Targets are compared without case, as catalogs do. What a target was fed by first goes on, with
    those that are meant to share it (semantics.md, 70); where nobody was first,
    all are parked (semantics.md, 25).
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
        # Who fed it and is led elsewhere by now feeds it no more.
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
