"""The names that SQL may use: tables and views, registered when a statement names them.

Locally a table is its folder, and the catalog of the session is empty at every start. So what a
statement names is registered just before the statement runs; that takes some milliseconds a name,
however much else there is. In a catalog tables have names anyway, and `publish` creates the views
once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from ingest.config.load import Config
from ingest.config.mistakes import nearest, unknown_word
from ingest.errors import ConfigError, Mistake
from ingest.names import SourceTable
from ingest.sql.casts import as_text, typed
from ingest.sql.history import view as texts
from ingest.sql.history.view import Earlier, Looked, of_key, previous_keys
from ingest.sql.query import one_row, select
from ingest.sql.quoting import quoted, sql_text
from ingest.sql.tables import definition
from pipelines.gold.known_targets import KnownTarget, known_targets, target_called
from pipelines.ledger.entries import load_entries
from pipelines.ledger.renames import namings
from pipelines.platform.checkpoints import read_note, write_whole
from pipelines.platform.mask_secret import offer_secret
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.history import TableNames, data_columns, hidden_by_masks, history_view
from pipelines.silver.transactions import transactions
from pipelines.targets.table import keys_of

LAYERS = ("bronze", "silver", "gold", "history")
VIEWS = ("changes", "ddl", "rejects", "schemas", "transactions")


class Registered(NamedTuple):
    """What a session knows of one warehouse: name -> TABLE or VIEW."""

    folder: str
    names: dict[str, str]


_registered: WeakKeyDictionary[SparkSession, Registered] = WeakKeyDictionary()


def silver_view(warehouse: Warehouse, name: str) -> str:
    """The query of one of VIEWS."""
    silver = warehouse.name("silver", "cdc")
    if name == "schemas":
        return texts.schemas(silver)
    if name == "transactions":
        return transactions(warehouse)
    kind = {"changes": "change", "ddl": "ddl", "rejects": "reject"}[name]
    query = select(silver, f"kind = '{kind}'")
    return _without_joined(query, warehouse.config) if name == "changes" else query


def _without_joined(changes: str, config: Config) -> str:
    """SQL of the changes without the lone halves of updates that were joined."""
    splitting = [name for name, source in config.sources.items() if source.splits_updates]
    return texts.without_joined(changes, splitting) if splitting else changes


def named(query: str, schemas: Iterable[str]) -> list[tuple[str, str]]:
    """The (schema, table) pairs that `query` may mean; `*` for every table of a schema.

    They are found among the tokens, so the statement may be one that only Spark can parse. A column
    `alias.name` that is found as well does no harm.
    """
    ours = {schema.lower(): schema for schema in schemas}
    tokens = _tokens(query)
    found: dict[tuple[str, str], None] = {}
    for i, text in enumerate(tokens):
        schema = ours.get(text.lower())
        if schema is None:
            continue
        if tokens[i + 1 : i + 2] == ["."] and len(tokens) > i + 2:
            found[schema, tokens[i + 2]] = None
        elif tokens[0].lower() == "show":
            found[schema, "*"] = None
    return list(found)


def _tokens(query: str) -> list[str]:
    from sqlglot import Tokenizer, tokenize
    from sqlglot.errors import TokenError

    try:
        tokens = tokenize(query, read="databricks")
    except TokenError:
        # Spark will say what is wrong with the statement.
        return []
    texts = [token.text for token in tokens]
    if len(tokens) > 1 and tokens[0].token_type in Tokenizer.COMMANDS:
        # The rest of a statement that sqlglot takes for a command (SHOW, OPTIMIZE) is one token.
        texts[1:2] = _tokens(texts[1])
    return texts


def register(warehouse: Warehouse, query: str) -> None:
    """Register what `query` names in the four schemas; names that do not exist are left to
    Spark."""
    session = warehouse.session
    if not warehouse.local:
        assert warehouse.settings.catalog is not None
        session.catalog.setCurrentCatalog(warehouse.settings.catalog)
        return
    _forget_others(warehouse)
    for schema, table in named(query, _schemas(warehouse)):
        schema_name = quoted(schema)
        folder = warehouse.folder(_schemas(warehouse)[schema][0], "_").parent
        session.sql(definition.create_schema(schema_name, location=str(folder)))
        for layer in _schemas(warehouse)[schema]:
            for name in offered(warehouse, layer):
                if table == "*" or table.lower() == name.lower():
                    _register(warehouse, layer, name=name)


def offered(warehouse: Warehouse, layer: str) -> list[str]:
    """The tables and views of a layer that there are to query."""
    if layer == "history":
        return sorted(known_targets(warehouse).fed)
    names = warehouse.tables(layer)
    return [*names, *VIEWS] if layer == "silver" and "cdc" in names else names


def unknown_table(warehouse: Warehouse, error: AnalysisException) -> str | None:
    """The sentence on a table that Spark did not find, with the nearest name; None for other
    errors."""
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return None
    relation = error.getMessageParameters() or {}
    name = relation.get("relationName", "").replace("`", "")
    schema = name.rpartition(".")[0].lower()
    names = [
        f"{known_schema}.{table}"
        for known_schema, layers in (_schemas(warehouse) if warehouse.local else {}).items()
        if known_schema.lower() == schema or schema not in map(str.lower, _schemas(warehouse))
        for layer in layers
        for table in offered(warehouse, layer)
    ]
    there = nearest(name, names) if names else "; `ingest run` makes the tables"
    return f"there is no table or view {name}{there}"


def _schemas(warehouse: Warehouse) -> dict[str, list[str]]:
    """Schema -> its layers: bronze and silver may share one."""
    found: dict[str, list[str]] = {}
    for layer in LAYERS:
        found.setdefault(warehouse.schema(layer), []).append(layer)
    return found


def _register(warehouse: Warehouse, layer: str, *, name: str) -> None:
    session = warehouse.session
    full = quoted(warehouse.schema(layer), name)
    names = _registered[session].names
    if layer == "history" or (layer == "silver" and name in VIEWS):
        view = history_query if layer == "history" else silver_view
        session.sql(definition.create_view(full, view(warehouse, name)))
        names[full] = "VIEW"
    elif full not in names:
        location = str(warehouse.folder(layer, name))
        session.sql(definition.register(full, location=location))
        names[full] = "TABLE"


def _forget_others(warehouse: Warehouse) -> None:
    """Drop the names that this session has for the tables of another warehouse.

    Their files stay, since they are external tables.
    """
    folder = warehouse.settings.warehouse
    ours = _registered.setdefault(warehouse.session, Registered(folder, {}))
    if ours.folder != folder:
        for full, kind in ours.names.items():
            warehouse.session.sql(definition.drop(kind, full))
        _registered[warehouse.session] = Registered(folder, {})


def publish(warehouse: Warehouse) -> None:
    """Create those views in the catalog that are missing or out of date; locally there is nothing
    to do."""
    if warehouse.local or not warehouse.exists("silver", "cdc"):
        return
    wanted = {("silver", view): silver_view(warehouse, view) for view in VIEWS}
    for target in known_targets(warehouse).fed.values():
        wanted["history", target.name] = _view(warehouse, target)
    assert warehouse.settings.catalog is not None
    schema_name = quoted(warehouse.settings.catalog, warehouse.schema("history"))
    warehouse.session.sql(definition.create_schema(schema_name))
    there = {
        (layer, name.lower()) for layer in ("silver", "history") for name in warehouse.tables(layer)
    }
    noted = Path(warehouse.checkpoint("views.json"))
    # View -> a fingerprint of its query, as it was created last.
    before = read_note(noted)
    now = {}
    for (layer, name), query in wanted.items():
        full = warehouse.name(layer, name)
        now[full] = hashlib.sha256(query.encode()).hexdigest()
        if before.get(full) != now[full] or (layer, name.lower()) not in there:
            warehouse.session.sql(definition.create_view(full, query))
    if now != before:
        write_whole(noted, json.dumps(now).encode())


def history_query(warehouse: Warehouse, target: str) -> str:
    """The query behind `history.<target>`, with the columns that the target has now."""
    return _view(warehouse, known_targets(warehouse).fed[target])


def _view(warehouse: Warehouse, target: KnownTarget) -> str:
    """The query behind `history.<target>` for a view, which other sessions run too."""
    tables, read = target.tables, _read(warehouse, target)
    without = hidden_by_masks(tables, read)
    columns = data_columns(warehouse, target.name, tables, without=without)
    return history_view(warehouse, tables, columns=columns, read=read)


def _history(
    warehouse: Warehouse,
    target: KnownTarget,
    *,
    columns: Mapping[str, str],
    looked: Sequence[str] = (),
) -> str:
    tables, read = target.tables, _read(warehouse, target)
    if any(route.mask_secret for _, route in tables):
        offer_secret(warehouse.session, warehouse.config.mask_secret)
    return history_view(warehouse, tables, columns=columns, read=read, looked=looked, secret=True)


def _read(warehouse: Warehouse, target: KnownTarget) -> Mapping[SourceTable, TableNames]:
    """The changes of names through which each source table's events are read."""
    return namings(load_entries(warehouse).values(), [table for table, _ in target.tables])


def history_frame(
    warehouse: Warehouse, table: str, *, key: Mapping[str, str]
) -> tuple[DataFrame, dict[str, str]]:
    """The changes of a target in order, or those of its rows with `key`; and its columns.

    Raises ConfigError for a table or column that does not exist, or a value that its column cannot
    have.
    """
    target = target_called(warehouse, table)
    columns = data_columns(warehouse, target.name, target.tables)
    where, looked = "true", None
    if key:
        looked = _looked(warehouse, target, columns=columns, key=key)
    query = _history(warehouse, target, columns=columns, looked=looked.columns if looked else ())
    if looked is not None:
        where = of_key(columns, looked, _earlier(warehouse, query, columns, looked=looked))
    frame = warehouse.session.sql(texts.shown(query, columns, where=where))
    return frame, columns


def _looked(
    warehouse: Warehouse,
    target: KnownTarget,
    *,
    columns: Mapping[str, str],
    key: Mapping[str, str],
) -> Looked:
    """What `--key` asks for, by the target's own names and types."""
    by_case = {name.lower(): name for name in columns}
    wrong = [
        Mistake("command line", None, unknown_word("--key", name, columns))
        for name in key
        if name.lower() not in by_case
    ]
    if wrong:
        raise ConfigError(wrong)
    asked = {by_case[name.lower()]: value for name, value in key.items()}
    zone = warehouse.config.sources[target.source].time_zone
    spelled = [
        as_text(typed(sql_text(value), columns[name], zone), columns[name])
        for name, value in asked.items()
    ]
    [found] = rows(warehouse.session.sql(one_row(spelled)))
    wrong = [
        Mistake("command line", None, f"`--key {name}`: expected {columns[name]}, got `{value}`")
        for (name, value), text in zip(asked.items(), found, strict=True)
        if text is None
    ]
    if wrong:
        raise ConfigError(wrong)
    keys = [name for name in keys_of(warehouse, target.name) if name in columns] or list(asked)
    names = tuple(dict.fromkeys([*keys, *asked]))
    wanted = {names.index(name): text for name, text in zip(asked, found, strict=True)}
    return Looked(names, len(keys), wanted)


def _earlier(
    warehouse: Warehouse, query: str, columns: Mapping[str, str], *, looked: Looked
) -> list[Earlier]:
    """The keys that the wanted rows had before, found by following changes of the key backwards."""
    found: dict[str, Earlier] = {}
    asked = previous_keys(query, columns, looked, held=None)
    while True:
        met = [Earlier(was, tuple(until)) for was, until in rows(warehouse.session.sql(asked))]
        new = [was for was in met if was.key not in found or found[was.key].until < was.until]
        if not new:
            return list(found.values())
        found.update((was.key, was) for was in new)
        asked = previous_keys(query, columns, looked, held=new)
