"""Which rows of silver: those of a source table, of some batches, its changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ingest.names import SourceTable
from ingest.sql.casts import sql_text
from ingest.sql.metadata import in_gold

_LISTED = 64


def named(table: SourceTable) -> str:
    """SQL that is true for silver's rows of a source table."""
    return " AND ".join(
        f"`{name}` = {sql_text(value)}" if value is not None else f"`{name}` IS NULL"
        for name, value in (("db", table.db), ("schema", table.schema), ("table", table.table))
    )


def among(batches: Collection[int]) -> str:
    """SQL that is true for silver's rows of `batches`, where none lies between them but these.

    Lists, and of two numbers at least: Spark keeps a list beside the code that it generates, while
    a single number is a part of the code, which each batch would compile anew. And of neighbours:
    Delta reads the files whose batches meet the span of a list, whatever lies within it.
    """
    if not batches or len(batches) > _LISTED:
        return f"batch BETWEEN {min(batches, default=0)} AND {max(batches, default=-1)}"
    if len(batches) == 1:
        (batch,) = batches
        return f"batch IN ({batch}, {batch + 1}) AND batch NOT IN ({batch + 1}, {batch + 2})"
    return f"batch IN ({', '.join(map(str, sorted(batches)))})"


def holds_value(name: str, digits: int | None) -> str:
    """SQL that is true for silver's rows with a value of column `name`, in any case, before or
    after; with so many `digits` behind its point, as a plain number, where that is given."""
    value = "e.value IS NOT NULL"
    if digits is not None:
        point = f"[.][0-9]{{{digits}}}" if digits else ""
        value = f"e.value RLIKE {sql_text(f'^-?[0-9]+{point}$')}"
    of_column = f"e -> lower(e.key) = {sql_text(name.lower())} AND {value}"
    images = (f"exists(map_entries({image}), {of_column})" for image in ("before", "after"))
    return f"({' OR '.join(f'coalesce({found}, false)' for found in images)})"


def silver_changes(
    silver: str,
    tables: Sequence[SourceTable],
    where: str,
    *,
    renamed: bool = False,
    kind: str = "change",
) -> str:
    """SQL of the changes of one source table in `silver`, under all its names, narrowed by `where`.

    `renamed`: columns have the names that gold has them under. `kind`: rows of another kind
    instead.
    """
    names = " OR ".join(f"({named(table)})" for table in tables)
    silver = f"({in_gold(silver)})" if renamed else silver
    return (
        f"SELECT * FROM {silver} WHERE source = "
        f"{sql_text(tables[0].source)} AND ({names}) AND kind = {sql_text(kind)} AND {where}"
    )
