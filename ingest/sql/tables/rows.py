"""Rows of a table put in, changed and taken out, whatever the table is of."""

from __future__ import annotations

from collections.abc import Iterable

from ingest.sql.quoting import quoted, quoted_list


def upsert(table: str, rows: str) -> str:
    """Put rows (SQL of all columns of the table) in, over those with their `id`."""
    return (
        f"MERGE INTO {table} t USING ({rows}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def change(table: str, rows: str, *, columns: Iterable[str], counted: str) -> str:
    """Set `columns` of the rows with the `id` of some rows (SQL) as these have them; `counted`, of
    which they have the value of now, goes up by one."""
    changes = ", ".join(
        f"t.`{name}` = s.`{name}`{' + 1' if name == counted else ''}" for name in columns
    )
    matched = f"WHEN MATCHED THEN UPDATE SET {changes}"
    return f"MERGE INTO {table} t USING ({rows}) s ON t.id = s.id {matched}"


def delete(table: str, where: str) -> str:
    """Take out the rows for which `where` is true."""
    return f"DELETE FROM {table} WHERE {where}"


def fill(table: str, name: str, value: str, *, where: str) -> str:
    """Give a column a value (SQL) where it is NULL and `where` is true."""
    return f"UPDATE {table} SET {quoted(name)} = {value} WHERE {where} AND {quoted(name)} IS NULL"


def unfit(table: str, text: str, *, misfit: str) -> str:
    """A row: for how many rows `misfit` is true, and the lowest `text` of theirs (SQL)."""
    return f"SELECT count(*), min({text}) FROM {table} WHERE {misfit}"


def overwritten(table: str, rows: str, *, columns: Iterable[str]) -> str:
    """Put rows (SQL of some columns) in the place of all that there are."""
    return f"INSERT OVERWRITE {table} ({quoted_list(columns)}) {rows}"
