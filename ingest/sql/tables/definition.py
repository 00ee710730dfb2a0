"""Statements that make and describe tables, views and schemas. Names are passed as SQL takes them,
quoted where they must be; columns and properties are passed by their plain names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ingest.sql.quoting import quoted, quoted_list, sql_text, typed_columns


def create_schema(name: str, *, location: str | None = None) -> str:
    """Make a schema if it does not exist, in a folder if one is given."""
    place = f" LOCATION {sql_text(location)}" if location is not None else ""
    return f"CREATE SCHEMA IF NOT EXISTS {name}{place}"


def create_table(
    name: str,
    columns: Iterable[tuple[str, str]],
    *,
    partitioned_by: Iterable[str] = (),
    properties: Iterable[tuple[str, str]] = (),
) -> str:
    """Make a table of Delta Lake if it does not exist."""
    parts = quoted_list(partitioned_by)
    pairs = ", ".join(f"{sql_text(key)} = {sql_text(value)}" for key, value in properties)
    return (
        f"CREATE TABLE IF NOT EXISTS {name} ({typed_columns(columns)}) USING DELTA"
        + (f" PARTITIONED BY ({parts})" if parts else "")
        + (f" TBLPROPERTIES ({pairs})" if pairs else "")
    )


def register(name: str, *, location: str) -> str:
    """Give a name to the table of Delta Lake in a folder."""
    return f"CREATE TABLE {name} USING DELTA LOCATION {sql_text(location)}"


def create_view(name: str, query: str) -> str:
    """Make a view, or replace it."""
    return f"CREATE OR REPLACE VIEW {name} AS {query}"


def drop(kind: str, name: str) -> str:
    """Drop a TABLE or a VIEW if it exists."""
    return f"DROP {kind} IF EXISTS {name}"


def add_columns(name: str, columns: Iterable[tuple[str, str]]) -> str:
    """Add columns behind those of a table."""
    return f"ALTER TABLE {name} ADD COLUMNS ({typed_columns(columns)})"


def comment(name: str, of: str, text: str) -> str:
    """Give a table's column a comment."""
    return f"ALTER TABLE {name} ALTER COLUMN {quoted(of)} COMMENT {sql_text(text)}"


def set_properties(name: str, properties: Mapping[str, str]) -> str:
    """Set properties of a table."""
    pairs = (f"{sql_text(key)} = {sql_text(value)}" for key, value in properties.items())
    return f"ALTER TABLE {name} SET TBLPROPERTIES ({', '.join(pairs)})"


def properties(name: str) -> str:
    """The properties of a table: (key, value)."""
    return f"SHOW TBLPROPERTIES {name}"


def describe_schema(name: str) -> str:
    """The description of a schema: (info_name, info_value)."""
    return f"DESCRIBE SCHEMA {name}"


def schemas(catalog: str) -> str:
    """The schemas of a catalog."""
    return f"SHOW SCHEMAS IN {quoted(catalog)}"


def tables(schema: str) -> str:
    """The tables and views of a schema: (namespace, tableName, isTemporary)."""
    return f"SHOW TABLES IN {schema}"
