"""Which targets there are: what the configuration makes of the source tables seen in silver."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ingest.config.load import Config
from ingest.config.mistakes import nearest
from ingest.config.routes import Route, collisions, through_renames
from ingest.config.settings import Settings
from ingest.ddl.parse import ghost
from ingest.errors import ConfigError, Mistake
from ingest.names import RESERVED, SourceTable, lowered
from pipelines.ledger.entries import Entry, load_entries, naming_of
from pipelines.ledger.renames import FirstNames, renames
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.source_tables import source_tables
from pipelines.targets.feeders import feeders
from pipelines.targets.progress import load_progress

_LISTED = 20
"""Names that a sentence lists."""


class KnownTarget(NamedTuple):
    """A target and the source tables that feed it, each with its route."""

    name: str
    tables: Sequence[tuple[SourceTable, Route]]

    @property
    def route(self) -> Route:
        """What all of its routes have in common."""
        return self.tables[0][1]

    @property
    def source(self) -> str:
        """The source that its tables are of."""
        return self.route.source


class KnownTargets(NamedTuple):
    """The targets that can be asked for: those that source tables feed, and the names of all."""

    fed: Mapping[str, KnownTarget]
    names: tuple[str, ...]


def fed_targets(
    config: Config,
    tables: Iterable[SourceTable],
    first_names: FirstNames,
    *,
    entries_of: Callable[[SourceTable], Iterable[Entry]] = lambda _: (),
) -> dict[str, KnownTarget]:
    """The targets that the tables feed. A renamed table goes where it went under its first name; a
    table of an undeclared source, or without a matching entry, goes nowhere. `entries_of`: the
    ledger's entries of a table, by its first name, for callers who ask which columns it has."""
    by_target: dict[str, list[tuple[SourceTable, Route]]] = {}
    for table in tables:
        if table.source not in config.sources or ghost(table.table):
            continue
        first = first_names.get(table, table)
        route = config.route(first.source, db=first.db, schema=first.schema, table=first.table)
        if route is not None:
            by_target.setdefault(route.target, []).append((table, route))
    targets = {}
    for name, routed in by_target.items():
        firsts = {first_names.get(table, table) for table, _ in routed}
        _, route = routed[0]
        now = through_renames(route, (naming_of(entries_of(first)) for first in firsts))
        targets[name] = KnownTarget(
            name,
            [
                (table, replace(own, exclude=now.exclude, columns=now.columns))
                for table, own in routed
            ],
        )
    return targets


def known_targets(warehouse: Warehouse) -> KnownTargets:
    """The targets that silver's source tables feed, and those that gold holds."""
    entries = load_entries(warehouse).values()
    first_names = renames(entries)
    by_table: dict[SourceTable, list[Entry]] = {}
    for entry in entries:
        by_table.setdefault(first_names.get(entry.table, entry.table), []).append(entry)
    fed = fed_targets(
        warehouse.config,
        source_tables(warehouse),
        first_names,
        entries_of=lambda first: by_table.get(first, ()),
    )
    fed = _without_parked(warehouse, fed)
    return KnownTargets(fed, tuple(sorted({*fed, *gold_tables(warehouse)})))


def _without_parked(warehouse: Warehouse, fed: Mapping[str, KnownTarget]) -> dict[str, KnownTarget]:
    """The targets, without the source tables that are parked by themselves (semantics.md, 70)."""
    feeding = feeders(warehouse.config, load_progress(warehouse))
    clashes = collisions((route for target in fed.values() for route in target.tables), feeding)
    apart = {table for clash in clashes.values() if clash.feeding for table in clash.parked}
    kept = {
        name: KnownTarget(
            name, [(table, route) for table, route in target.tables if table not in apart]
        )
        for name, target in fed.items()
    }
    return {name: target for name, target in kept.items() if target.tables}


def target_called(warehouse: Warehouse, text: str) -> KnownTarget:
    """The target that the user means; raises ConfigError with the nearest where there is none."""
    fed = known_targets(warehouse).fed
    return fed[one_of(text, fed, warehouse.settings)]


def gold_tables(warehouse: Warehouse) -> list[str]:
    """The targets that have been created."""
    return [name for name in warehouse.tables("gold") if name.lower() not in RESERVED]


def _bare(text: str, settings: Settings) -> str:
    """A target as the user typed it, without the schema of gold or history before it."""
    schema, dot, name = text.rpartition(".")
    plain = schema.rpartition(".")[2].lower()
    ours = (settings.schemas.gold.lower(), settings.schemas.history.lower())
    return name if dot and plain in ours else text


def one_of(text: str, names: Iterable[str], settings: Settings) -> str:
    """The name that the user means; raises ConfigError with the nearest where there is none."""
    wanted = _bare(text, settings)
    names = list(names)
    for name in names:
        if name.lower() == wanted.lower():
            return name
    text = f"expected a target table, got `{text}`{_near_or_all(wanted, names)}"
    raise ConfigError([Mistake("command line", None, text)])


def _near_or_all(wanted: str, names: Iterable[str]) -> str:
    """What to say of a name that does not exist: the nearest one that does, else all that do."""
    names = sorted(names)
    if not names:
        return "; there are none yet: `ingest run` makes them"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return nearest(wanted, names) or f"; there are {', '.join(names[:_LISTED])}{more}"


def unknown_targets(asked: Iterable[str], names: Iterable[str]) -> list[str]:
    """Those of the targets asked for that are none of `names`, whatever their case."""
    there = lowered(names)
    return [target for target in asked if target.lower() not in there]


def no_target(target: str, names: Iterable[str]) -> str:
    """The sentence on a target that no source table feeds."""
    return f"there is no target {target}: no source table leads there{_near_or_all(target, names)}"


def check_there(asked: Sequence[str], warehouse: Warehouse) -> None:
    """Raise ConfigError for targets that do not exist, unless there are none yet. Targets that the
    configuration names in full may still come."""
    names = known_targets(warehouse).names
    if not names:
        return
    written = {
        entry.target
        for tables in warehouse.config.tables.values()
        for entry in tables.tables
        if "target" in entry.model_fields_set and "{" not in entry.target
    }
    wrong = [
        Mistake("command line", None, f"`--table`: {no_target(target, names)}")
        for target in unknown_targets(asked, {*names, *written})
    ]
    if wrong:
        raise ConfigError(wrong)


def check_reachable(text: str, config: Config) -> str:
    """The bare name of a target; raises ConfigError if no entry of a tables file can make it."""
    wanted = _bare(text, config.settings)
    templates = {
        (entry if "target" in entry.model_fields_set else tables.defaults).target
        for tables in config.tables.values()
        for entry in tables.tables
    }
    if any(re.fullmatch(_possible(template), wanted, re.IGNORECASE) for template in templates):
        return wanted
    near = nearest(wanted, [template for template in templates if "{" not in template])
    text = f"no tables file makes a target `{text}`; targets are {', '.join(sorted(templates))}"
    raise ConfigError([Mistake("command line", None, text + near)])


def _possible(template: str) -> str:
    """A pattern that every target of the template matches."""
    written = ""
    for literal, field, _, _ in string.Formatter().parse(template):
        # A level that the source lacks takes its separator with it.
        written += re.escape(re.sub(r"[^A-Za-z0-9_]", "_", literal)).replace("_", "_?")
        written += ".*" if field else ""
    return written
