"""The names that SQL may use: tables and views, made known when a statement names them.

Locally a table is its folder and the session's catalog is empty at every start: so what a statement
names is registered just before it runs, some milliseconds a name, whatever else there is. In a
catalog tables have names anyway and views are created once, by `publish`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from ingest.config import Config
from ingest.errors import ConfigError, Mistake
from ingest.mistakes import nearest
from pipelines.history import data_columns, history_view, identity
from pipelines.known_targets import known, local_tables
from pipelines.tables import Warehouse, quote

LAYERS = ("bronze", "silver", "gold", "history")
VIEWS = ("changes", "ddl", "rejects", "schemas", "transactions")
_registered: WeakKeyDictionary[SparkSession, dict[str, str]] = WeakKeyDictionary()


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
        change = identity(config.sources.values())
        return (
            "SELECT source, tx_id, "
            "min(event_time) FILTER (WHERE op = 'begin') AS begin_time, "
            "min(event_time) FILTER (WHERE op IN ('commit', 'rollback')) AS end_time, "
            "bool_or(op = 'commit') AS complete, "
            "bool_or(op = 'rollback') AS rolled_back, "
            f"count(DISTINCT CASE WHEN kind = 'change' THEN {change} END) AS events, "
            "array_sort(collect_set(CASE WHEN kind = 'change' "
            "THEN concat_ws('.', db, schema, table) END)) AS tables, "
            "min(pos) AS first_pos, max(pos) AS last_pos "
            f"FROM {silver} WHERE tx_id IS NOT NULL "
            "AND (kind = 'change' OR op IN ('begin', 'commit', 'rollback')) "
            "GROUP BY source, tx_id"
        )
    kind = {"changes": "change", "ddl": "ddl", "rejects": "reject"}[name]
    return f"SELECT * FROM {silver} WHERE kind = '{kind}'"


def named(query: str, schemas: Iterable[str]) -> list[tuple[str, str]]:
    """The (schema, table) pairs that `query` may mean; `*` for every table of a schema.

    Found among the tokens, so that any statement will do, also one that only Spark can parse; a
    column `alias.name` found too many costs nothing.
    """
    from sqlglot import tokenize
    from sqlglot.errors import TokenError

    ours = {schema.casefold(): schema for schema in schemas}
    try:
        tokens = [token.text for token in tokenize(query, read="databricks")]
    except TokenError:
        # Spark will say what is wrong with it.
        return []
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


def register(warehouse: Warehouse, config: Config, query: str) -> None:
    """Make known what `query` names of the four schemas.

    Raises ConfigError where a named table or view does not exist, with the nearest that does.
    """
    if not warehouse.local:
        assert warehouse.settings.catalog is not None
        warehouse.session.sql(f"USE CATALOG {quote(warehouse.settings.catalog)}")
        return
    layers = {warehouse.schema(layer).casefold(): layer for layer in LAYERS}
    wrong = []
    for schema, table in named(query, [warehouse.schema(layer) for layer in LAYERS]):
        of_schema = [
            layer for layer in LAYERS if warehouse.schema(layer).casefold() == schema.casefold()
        ]
        assert layers
        _create_schema(warehouse, of_schema[0])
        tables = {name: layer for layer in of_schema for name in _offered(warehouse, config, layer)}
        wanted = list(tables) if table == "*" else _matching(table, tables)
        for name in wanted:
            _register(warehouse, config, tables[name], name)
        if not wanted and _must_be_table(query, schema, table):
            wrong.append(_unknown(f"{schema}.{table}", schema, tables))
    if wrong:
        raise ConfigError(wrong)


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
        query = history_view(
            warehouse, config, tables, data_columns(warehouse, target, tables)
        )
        session.sql(f"CREATE OR REPLACE VIEW {warehouse.name('history', target)} AS {query}")


def history_query(warehouse: Warehouse, config: Config, target: str) -> str:
    """The query behind `history.<target>`, with the columns that the target has now."""
    tables = known(warehouse, config).ways.get(target, ())
    return history_view(warehouse, config, tables, data_columns(warehouse, target, tables))
