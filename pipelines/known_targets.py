"""Which targets there are: what the configuration makes of the source tables seen in silver."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ingest.config import Config
from ingest.ddl import ghost
from ingest.errors import ConfigError, Mistake
from ingest.mistakes import nearest
from ingest.names import RESERVED, SourceTable
from ingest.routes import Route
from ingest.settings import Settings
from pipelines.ddl_entries import load
from pipelines.moves import Moves, moves
from pipelines.results import rows
from pipelines.tables import Warehouse

Ways = Mapping[str, Sequence[tuple[SourceTable, Route]]]
"""Target -> the source tables that go there, each with its route."""


class Known(NamedTuple):
    """The targets that can be asked for: by their ways, and all by name."""

    ways: Ways
    names: tuple[str, ...]


def source_tables(warehouse: Warehouse) -> list[SourceTable]:
    """Every source table with a change in silver, in order of name."""
    if not warehouse.exists("silver", "cdc"):
        return []
    return warehouse.kept("silver", "cdc", lambda: _read(warehouse))


def _read(warehouse: Warehouse) -> list[SourceTable]:
    found = warehouse.session.sql(
        f"SELECT DISTINCT source, db, schema, table FROM {warehouse.name('silver', 'cdc')} "
        "WHERE kind = 'change' AND table IS NOT NULL"
    )
    return sorted((SourceTable(*row) for row in rows(found)), key=str)


def ways(config: Config, tables: Iterable[SourceTable], moved: Moves) -> Ways:
    """Where the tables go: renamed ones where they went under their first names, those of
    undeclared sources and without a matching entry nowhere."""
    found: dict[str, list[tuple[SourceTable, Route]]] = {}
    for table in tables:
        if table.source not in config.sources or ghost(table.table):
            continue
        first = moved.get(table, table)
        way = config.route(first.source, db=first.db, schema=first.schema, table=first.table)
        if way is not None:
            found.setdefault(way.target, []).append((table, way))
    return found


def known(warehouse: Warehouse, config: Config) -> Known:
    """The targets that silver's source tables have, and those that gold holds."""
    reached = ways(config, source_tables(warehouse), moves(load(warehouse).values()))
    return Known(reached, tuple(sorted({*reached, *gold_tables(warehouse)})))


def gold_tables(warehouse: Warehouse) -> list[str]:
    """The targets that have been created."""
    if warehouse.local:
        names = local_tables(warehouse, "gold")
    else:
        assert warehouse.settings.catalog is not None
        place = f"{warehouse.settings.catalog}.{warehouse.schema('gold')}"
        catalog = warehouse.session.catalog
        found = catalog.listTables(place) if catalog.databaseExists(place) else []
        names = [table.name for table in found]
    return sorted(name for name in names if name.lower() not in RESERVED)


def local_tables(warehouse: Warehouse, layer: str) -> list[str]:
    """The tables of a layer whose folders exist."""
    folder = warehouse.folder(layer, "_").parent
    return sorted(log.parent.name for log in folder.glob("*/_delta_log"))


def bare(text: str, settings: Settings) -> str:
    """A target as the user typed it, without the schema of gold or history before it."""
    schema, dot, name = text.rpartition(".")
    plain = schema.rpartition(".")[2].casefold()
    ours = (settings.schemas.gold.casefold(), settings.schemas.history.casefold())
    return name if dot and plain in ours else text


def one_of(text: str, names: Iterable[str], settings: Settings) -> str:
    """The target that the user means; raises ConfigError with the nearest where there is none."""
    wanted = bare(text, settings)
    names = list(names)
    for name in names:
        if name.casefold() == wanted.casefold():
            return name
    text = f"expected a target table, got `{text}`{nearest(wanted, names)}"
    if not names:
        text += "; there are none yet: `ingest run` makes them"
    raise ConfigError([Mistake("command line", None, text)])


def check_reachable(text: str, config: Config) -> str:
    """The target's bare name; raises ConfigError where no entry of a tables file can make it."""
    wanted = bare(text, config.settings)
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
