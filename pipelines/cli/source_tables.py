"""`ingest inspect`: which source tables the messages are of, and what gold would make of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ingest.names import SourceTable, label_of
from ingest.wire.declared import declared_for

if TYPE_CHECKING:
    from ingest.config.load import Config
    from ingest.config.routes import Route


class SourceTables:
    """The tables of the rows that pass: the key of each, and its columns with their types."""

    def __init__(self) -> None:
        self._keys: dict[SourceTable, tuple[str, ...]] = {}
        self._columns: dict[SourceTable, dict[str, str]] = {}

    def of(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The rows as they are, each seen."""
        for row in rows:
            if row["table"] and row["kind"] in ("change", "fragment", "schema"):
                self._see(row)
            yield row

    def _see(self, row: Mapping[str, Any]) -> None:
        table = SourceTable(row["source"], row["db"], row["schema"], row["table"])
        columns = self._columns.setdefault(table, {})
        columns |= {column["name"]: column["type"] for column in row["columns"] or ()}
        for image in (row["before"], row["after"]):
            columns.update((name, "string") for name in image or () if name not in columns)
        if row["key_columns"]:
            self._keys[table] = tuple(row["key_columns"])

    def unmatched(self, names: Iterable[str]) -> Iterator[str]:
        """A sentence for each table that `--keys` names and no message is of."""
        seen = [label_of(table) for table in self._columns]
        for name in names:
            if not any(declared_for({name: True}, table[1:]) for table in self._columns):
                there = f"; the messages are of {', '.join(seen)}" if seen else ""
                yield f"`--keys`: no message is of the table {name}{there}"

    def routed(self, config: Config) -> Iterator[str]:
        """A sentence for each table: its target, its key, its mode and the columns gold has."""
        for table, columns in self._columns.items():
            route = config.route(table.source, db=table.db, schema=table.schema, table=table.table)
            if route is None:
                yield f"{label_of(table)}: in silver only, no entry of its tables file matches"
                continue
            led = f"{label_of(table)} -> {config.settings.schemas.gold}.{route.target}"
            yield f"{led}, {_kept(route, self._keys.get(table, ()))}: {_columns(route, columns)}"


def _kept(route: Route, said: tuple[str, ...]) -> str:
    """`key (id), scd 1`."""
    from ingest.config.modes import mode_of
    from ingest.sql.metadata import gold_names

    keys = route.keys or gold_names(said)
    keys += (route.shard_column,) if keys and route.shard_column else ()
    key = f"key ({', '.join(keys)})" if keys else "no key"
    mode = mode_of(route, keys)
    if mode is None:
        return f"{key}, which scd 2 needs: every change would be set aside"
    return f"{key}, {'append' if mode == 'append' else f'scd {mode[-1]}'}"


def _columns(route: Route, types: Mapping[str, str]) -> str:
    """`id int, name string`, as gold has them."""
    from ingest.sql.metadata import gold_name

    declared = {name.casefold(): type_ for name, type_ in route.columns.items()}
    hidden = {name.casefold() for name in route.exclude}
    named = {gold_name(name): type_ for name, type_ in types.items()}
    shown = {
        name: declared.get(name.casefold(), type_)
        for name, type_ in named.items()
        if name.casefold() not in hidden
    }
    return ", ".join(f"{name} {type_}" for name, type_ in shown.items())
