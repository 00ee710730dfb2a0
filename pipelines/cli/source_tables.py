"""`ingest inspect`: which source tables the messages are of, and what gold would make of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ingest.errors import TableError
from ingest.names import SourceTable, declared_for, label_of, lowered

if TYPE_CHECKING:
    from ingest.config.load import Config
    from ingest.config.routes import Route


class SourceTables:
    """The tables of the rows that pass: the key of each, and its columns with their types."""

    def __init__(self) -> None:
        self._keys: dict[SourceTable, tuple[str, ...]] = {}
        self._columns: dict[SourceTable, dict[str, str]] = {}
        self._images: dict[SourceTable, set[tuple[str, ...]]] = {}
        self._keys_of_schemas: dict[SourceTable, tuple[str, ...]] = {}

    def of(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The rows as they are, each seen."""
        for row in rows:
            if row["table"] and row["kind"] in ("change", "fragment", "schema"):
                self._see(row)
            if row["table"] and row["kind"] in ("ddl", "schema") and row["key_columns"]:
                self._keys_of_schemas[_table(row)] = tuple(row["key_columns"])
            yield row

    def _see(self, row: Mapping[str, Any]) -> None:
        table = _table(row)
        columns = self._columns.setdefault(table, {})
        columns |= {column["name"]: column["type"] for column in row["columns"] or ()}
        for image in (row["before"], row["after"]):
            columns.update((name, "string") for name in image or () if name not in columns)
            self._images.setdefault(table, set()).add(tuple(image or ()))
        if row["key_columns"] and row["kind"] != "schema":
            self._keys[table] = tuple(row["key_columns"])

    def unmatched(self, names: Iterable[str]) -> Iterator[str]:
        """A sentence for each table that `--keys` names and no message is of."""
        seen = [label_of(table) for table in self._columns]
        for name in names:
            if not any(declared_for({name: True}, table.path) for table in self._columns):
                there = f"; the messages are of {', '.join(seen)}" if seen else ""
                yield f"`--keys`: no message is of the table {name}{there}"

    def routed(self, config: Config) -> Iterator[str]:
        """A sentence for each table: its target, its key, its mode and the columns gold has; or why
        it would be parked."""
        from ingest.config.routes import collisions

        routes = {table: _route(config, table) for table in self._columns}
        led = {table: route for table, route in routes.items() if route is not None}
        clashes = collisions(led.items(), {})
        for table, route in routes.items():
            if route is None:
                yield f"{label_of(table)}: in silver only, no entry of its tables file matches"
                continue
            clash = clashes.get(route.target.lower())
            error = clash.why(table) if clash else self._without_names(table, route)
            what = f"would be parked: {error}" if error else self._made(table, route)
            yield f"{label_of(table)} -> {config.settings.schemas.gold}.{route.target}, {what}"

    def without_columns(self, config: Config) -> Iterator[str]:
        """A sentence for each column that a tables file names and that no message has of the tables
        concerned: a mask or an `exclude` of a misspelt column hides nothing."""
        from ingest.config.mistakes import nearest
        from ingest.sql.metadata import gold_name

        named: dict[tuple[str, str, str], str] = {}
        found: set[tuple[str, str, str]] = set()
        there: dict[str, str] = {}
        for table, columns in self._columns.items():
            route = _route(config, table)
            if route is None:
                continue
            own = {gold_name(name).lower(): name for name in columns}
            there |= own
            for option, name in _named_columns(route):
                place = (route.source, option, name.lower())
                named.setdefault(place, name)
                if name.lower() in own:
                    found.add(place)
        for place, name in named.items():
            if place not in found:
                source, option, _ = place
                text = f"no message here has the column `{name}` of `{option}:` in its tables file"
                yield f"source {source}: {text}{nearest(name, there.values())}"

    def _made(self, table: SourceTable, route: Route) -> str:
        """`key (id), scd 1: id int`."""
        keys = self._keys.get(table) or self._keys_of_schemas.get(table, ())
        columns = _columns(route, self._columns[table]) or "no columns yet"
        return f"{_kept(route, keys)}: {columns}"

    def _without_names(self, table: SourceTable, route: Route) -> str | None:
        """Why no table can hold the table's columns; None where one can."""
        from ingest.sql.metadata import check_column_names

        try:
            check_column_names(self._images[table], lowered(route.exclude))
        except TableError as error:
            return str(error)
        return None


def _named_columns(route: Route) -> Iterator[tuple[str, str]]:
    """Each option of the tables file that names columns, with each of them."""
    for option, names in (
        ("keys", route.keys or ()),
        ("sequence_by", route.sequence_by or ()),
        ("columns", tuple(dict.fromkeys((*route.columns, *route.masks)))),
        ("exclude", route.exclude),
    ):
        yield from ((option, name) for name in names)


def _route(config: Config, table: SourceTable) -> Route | None:
    return config.route(table.source, db=table.db, schema=table.schema, table=table.table)


def _table(row: Mapping[str, Any]) -> SourceTable:
    return SourceTable(*(row[name] for name in SourceTable._fields))


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
    """`id int, name string masked by hash`, as gold has them."""
    from ingest.sql.metadata import gold_name

    declared = {name.lower(): type_ for name, type_ in route.columns.items()}
    hidden = lowered(route.exclude)
    named = {gold_name(name): type_ for name, type_ in types.items()}
    shown = {
        name: declared.get(name.lower(), type_)
        for name, type_ in named.items()
        if name.lower() not in hidden
    }
    masked = {name.lower(): f" masked by {mask.mode}" for name, mask in route.masks.items()}
    said = (f"{name} {type_}{masked.get(name.lower(), '')}" for name, type_ in shown.items())
    return ", ".join(said)
