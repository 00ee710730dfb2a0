"""Statements that insert, change and delete rows, for tables of any kind."""

from __future__ import annotations

from collections.abc import Iterable

from ingest.sql.quoting import quoted, quoted_list


def upsert(table: str, rows: str) -> str:
    """Insert rows (SQL of all columns of the table), replacing those with the same `id`."""
    return (
        f"MERGE INTO {table} t USING ({rows}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def change(table: str, rows: str, *, columns: Iterable[str], counted: str) -> str:
    """Set `columns` of the rows whose `id` is among some rows (SQL) to the values there. One of the
    columns, `counted`, is set to the value there plus one."""
    changes = ", ".join(
        f"t.`{name}` = s.`{name}`{' + 1' if name == counted else ''}" for name in columns
    )
    matched = f"WHEN MATCHED THEN UPDATE SET {changes}"
    return f"MERGE INTO {table} t USING ({rows}) s ON t.id = s.id {matched}"


def delete(table: str, where: str) -> str:
    """Delete the rows for which `where` is true."""
    return f"DELETE FROM {table} WHERE {where}"


def fill(table: str, name: str, value: str, *, where: str) -> str:
    """Set a column to a value (SQL) where it is NULL and `where` is true."""
    return f"UPDATE {table} SET {quoted(name)} = {value} WHERE {where} AND {quoted(name)} IS NULL"


def lacking(table: str, name: str, *, where: str) -> str:
    """A row, if a column is NULL somewhere where `where` is true."""
    return f"SELECT 1 FROM {table} WHERE {where} AND {quoted(name)} IS NULL LIMIT 1"


def unfit(table: str, text: str, *, misfit: str) -> str:
    """A row: for how many rows `misfit` is true, and the lowest `text` (SQL) of these rows."""
    return f"SELECT count(*), min({text}) FROM {table} WHERE {misfit}"


def overwritten(table: str, rows: str, *, columns: Iterable[str]) -> str:
    """Replace all rows of the table by others (SQL of some columns)."""
    return f"INSERT OVERWRITE {table} ({quoted_list(columns)}) {rows}"
