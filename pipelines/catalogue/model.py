"""What is known of a database: its tables, and the settings that capturing its changes needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class CatalogueTable(NamedTuple):
    """A table: `schema` is None if the database has none; `columns` are source types by name.

    `identity`: PostgreSQL's REPLICA IDENTITY: default, full, index or nothing.
    """

    schema: str | None
    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    identity: str | None = None

    def named(self, database: str) -> str:
        """Its name in the YAML."""
        return ".".join(part for part in (database, self.schema, self.name) if part)


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """A database. `kind` is postgresql, mysql or mariadb; `settings` are those of the server.

    `may_replicate`: whether the user who reads the catalogue could read the log as well.
    """

    kind: str
    version: str
    database: str
    user: str
    tables: tuple[CatalogueTable, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    may_replicate: bool = False
