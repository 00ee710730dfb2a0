"""The names that SQL may use: tables and views, made known when a statement names them.

Locally a table is its folder and the session's catalog is empty at every start: so what a statement
names is registered just before it runs, some milliseconds a name, whatever else there is. In a
catalog tables have names anyway and views are created once, by `publish`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from ingest.casts import sql_text
from ingest.config import Config
from ingest.errors import ConfigError, Mistake
from ingest.mistakes import nearest, unknown_word
from ingest.names import SourceTable
from ingest.routes import Route
from pipelines.ddl_entries import load
from pipelines.history import (
    Earlier,
    data_columns,
    history_view,
    moves,
    of_key,
    order,
)
from pipelines.known_targets import known, local_tables, one_of
from pipelines.moves import namings
from pipelines.results import rows
from pipelines.tables import Warehouse, quote
from pipelines.transactions import transactions

LAYERS = ("bronze", "silver", "gold", "history")
VIEWS = ("changes", "ddl", "rejects", "schemas", "transactions")


class Registered(NamedTuple):
    """What a session knows of one warehouse: name -> TABLE or VIEW."""

    folder: str
    names: dict[str, str]


_registered: WeakKeyDictionary[SparkSession, Registered] = WeakKeyDictionary()


def silver_view(warehouse: Warehouse, config: Config, name: str) -> str:
    """The query of one of VIEWS."""
    silver = warehouse.name("silver", "cdc")
    if name == "schemas":
        return (
            "SELECT * EXCEPT (_copy) FROM (SELECT *, row_number() OVER ("
            "PARTITION BY source, db, schema, table, schema_id "
            "ORDER BY batch, topic, partition, offset) AS _copy "
            f"FROM {silver} WHERE kind = 'schema') WHERE _copy = 1"
        )
    if name == "transactions":
        return transactions(warehouse, config)
    kind = {"changes": "change", "ddl": "ddl", "rejects": "reject"}[name]
    return f"SELECT * FROM {silver} WHERE kind = '{kind}'"


def named(query: str, schemas: Iterable[str]) -> list[tuple[str, str]]:
    """The (schema, table) pairs that `query` may mean; `*` for every table of a schema.

    Found among the tokens, so that any statement will do, also one that only Spark can parse; a
    column `alias.name` found too many costs nothing.
    """
    ours = {schema.casefold(): schema for schema in schemas}
    tokens = _tokens(query)
    found: dict[tuple[str, str], None] = {}
    for i, text in enumerate(tokens):
        schema = ours.get(text.casefold())
        if schema is None:
            continue
        if tokens[i + 1 : i + 2] == ["."] and len(tokens) > i + 2:
            found[schema, tokens[i + 2]] = None
        elif tokens[0].casefold() == "show":
            found[schema, "*"] = None
    return list(found)


def _tokens(query: str) -> list[str]:
    from sqlglot import Tokenizer, tokenize
    from sqlglot.errors import TokenError

    try:
        tokens = tokenize(query, read="databricks")
    except TokenError:
        # Spark will say what is wrong with it.
        return []
    texts = [token.text for token in tokens]
    if len(tokens) > 1 and tokens[0].token_type in Tokenizer.COMMANDS:
        # The rest of a statement that sqlglot takes for a command (SHOW, OPTIMIZE) is one token.
        texts[1:2] = _tokens(texts[1])
    return texts


def register(warehouse: Warehouse, config: Config, query: str) -> None:
    """Make known what `query` names of the four schemas; what does not exist is left to Spark."""
    session = warehouse.session
    if not warehouse.local:
        assert warehouse.settings.catalog is not None
        session.sql(f"USE CATALOG {quote(warehouse.settings.catalog)}")
        return
    _forget_others(warehouse)
    for schema, table in named(query, _schemas(warehouse)):
        place = quote(schema)
        folder = warehouse.folder(_schemas(warehouse)[schema][0], "_").parent
        session.sql(f"CREATE SCHEMA IF NOT EXISTS {place} LOCATION {sql_text(str(folder))}")
        for layer in _schemas(warehouse)[schema]:
            for name in offered(warehouse, config, layer):
                if table == "*" or table.casefold() == name.casefold():
                    _register(warehouse, config, layer, name)


def offered(warehouse: Warehouse, config: Config, layer: str) -> list[str]:
    """The tables and views of a layer that there are to query."""
    if layer == "history":
        return sorted(known(warehouse, config).ways)
    names = local_tables(warehouse, layer)
    return [*names, *VIEWS] if layer == "silver" and "cdc" in names else names


def unknown_table(warehouse: Warehouse, config: Config, error: AnalysisException) -> str | None:
    """The sentence on a table that Spark did not find, with the nearest; None for other errors."""
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return None
    relation = error.getMessageParameters() or {}
    name = relation.get("relationName", "").replace("`", "")
    schema = name.rpartition(".")[0].casefold()
    names = [
        f"{known_schema}.{table}"
        for known_schema, layers in (_schemas(warehouse) if warehouse.local else {}).items()
        if known_schema.casefold() == schema or schema not in map(str.casefold, _schemas(warehouse))
        for layer in layers
        for table in offered(warehouse, config, layer)
    ]
    there = nearest(name, names) if names else "; `ingest run` makes the tables"
    return f"there is no table or view {name}{there}"


def _schemas(warehouse: Warehouse) -> dict[str, list[str]]:
    """Schema -> its layers: bronze and silver may share one."""
    found: dict[str, list[str]] = {}
    for layer in LAYERS:
        found.setdefault(warehouse.schema(layer), []).append(layer)
    return found


def _register(warehouse: Warehouse, config: Config, layer: str, name: str) -> None:
    session = warehouse.session
    full = quote(warehouse.schema(layer), name)
    names = _registered[session].names
    if layer == "history" or (layer == "silver" and name in VIEWS):
        view = history_query if layer == "history" else silver_view
        session.sql(f"CREATE OR REPLACE VIEW {full} AS {view(warehouse, config, name)}")
        names[full] = "VIEW"
    elif full not in names:
        location = sql_text(str(warehouse.folder(layer, name)))
        session.sql(f"CREATE TABLE {full} USING DELTA LOCATION {location}")
        names[full] = "TABLE"


def _forget_others(warehouse: Warehouse) -> None:
    """Drop the names that this session has for the tables of another warehouse.

    Their files stay where they are: they are external tables.
    """
    folder = warehouse.settings.warehouse
    ours = _registered.setdefault(warehouse.session, Registered(folder, {}))
    if ours.folder != folder:
        for full, kind in ours.names.items():
            warehouse.session.sql(f"DROP {kind} IF EXISTS {full}")
        _registered[warehouse.session] = Registered(folder, {})


def publish(warehouse: Warehouse, config: Config) -> None:
    """Create the views in the catalog, or bring them up to date; locally there is nothing to do."""
    if warehouse.local or not warehouse.exists("silver", "cdc"):
        return
    session = warehouse.session
    for view in VIEWS:
        query = silver_view(warehouse, config, view)
        session.sql(f"CREATE OR REPLACE VIEW {warehouse.name('silver', view)} AS {query}")
    assert warehouse.settings.catalog is not None
    place = quote(warehouse.settings.catalog, warehouse.schema("history"))
    session.sql(f"CREATE SCHEMA IF NOT EXISTS {place}")
    for target, tables in known(warehouse, config).ways.items():
        query = _history(warehouse, config, tables, data_columns(warehouse, target, tables))
        session.sql(f"CREATE OR REPLACE VIEW {warehouse.name('history', target)} AS {query}")


def history_query(warehouse: Warehouse, config: Config, target: str) -> str:
    """The query behind `history.<target>`, with the columns that the target has now."""
    tables = known(warehouse, config).ways[target]
    return _history(warehouse, config, tables, data_columns(warehouse, target, tables))


def _history(
    warehouse: Warehouse,
    config: Config,
    tables: Sequence[tuple[SourceTable, Route]],
    columns: Mapping[str, str],
) -> str:
    entries = load(warehouse).values()
    read = namings(entries, [table for table, _ in tables])
    return history_view(warehouse, config, tables, columns, read)


def history_frame(
    warehouse: Warehouse, config: Config, table: str, key: Mapping[str, str]
) -> tuple[DataFrame, dict[str, str]]:
    """The changes of a target, or of those of its rows with `key`, in order; and its columns.

    Raises ConfigError for a table or column that does not exist.
    """
    ways = known(warehouse, config).ways
    target = one_of(table, ways, warehouse.settings)
    columns = data_columns(warehouse, target, ways[target])
    by_case = {name.casefold() for name in columns}
    wrong = [
        Mistake("command line", None, unknown_word("--key", name, columns))
        for name in key
        if name.casefold() not in by_case
    ]
    if wrong:
        raise ConfigError(wrong)
    query = _history(warehouse, config, ways[target], columns)
    where = of_key(columns, key, _earlier(warehouse, query, columns, key)) if key else "true"
    frame = warehouse.session.sql(
        f"SELECT * FROM ({query}) WHERE {where} ORDER BY {order(columns)}"
    )
    return frame, columns


def _earlier(
    warehouse: Warehouse, query: str, columns: Mapping[str, str], key: Mapping[str, str]
) -> list[Earlier]:
    """The keys that the rows with `key` had before, followed back through changes of the key."""
    found: dict[str, Earlier] = {}
    asked = moves(query, columns, key, ())
    while True:
        met = [Earlier(was, tuple(until)) for was, until in rows(warehouse.session.sql(asked))]
        new = [was for was in met if was.key not in found or found[was.key].until < was.until]
        if not new:
            return list(found.values())
        found.update((was.key, was) for was in new)
        asked = moves(query, columns, None, new)
