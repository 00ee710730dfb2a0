"""The columns that gold adds to rows, and what gold calls a source's columns of the same names.

A column of the source whose name is one of gold's own is called `<name>_source` in gold and in
history (semantics.md, 73). So is a column that already has such a name: two columns never get one
name, whichever of them comes first. If there is such a column, gold reads silver through `in_gold`;
from there on, in schema changes and the configuration as well, the column has only its name in
gold.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from ingest.ddl.model import Column, Statement
from ingest.errors import TableError
from ingest.sql.quoting import sql_text

ROW_METADATA = {
    "_pos": "array<bigint>",
    "_event_time": "timestamp",
    "_source": "string",
    "_source_table": "string",
}
"""Columns that gold adds to every table, with their Spark types."""
METADATA = (*ROW_METADATA, "_valid_from", "_valid_to", "_current", "_deleted_at")
"""Columns that gold adds to every table or to some; no column of the user's has such a name in
gold."""
_SUFFIX = "_source"
_PATTERN = rf"(?iu)^({'|'.join(METADATA)})({_SUFFIX})*"
_CALLED = re.compile(_PATTERN)
_MAPS = ("before", "after", "key", "key_before")


def gold_name(name: str) -> str:
    """What a column of the source is called in gold."""
    return name + _SUFFIX if _CALLED.fullmatch(name) else name


def source_name(name: str) -> str:
    """What the source calls a column of gold that came from it."""
    return name[: -len(_SUFFIX)] if renamed_in_gold(name) else name


def renamed_in_gold(name: str) -> bool:
    """Whether a column of gold has another name at its source."""
    return _CALLED.fullmatch(name) is not None and name.lower() not in METADATA


def gold_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(gold_name, names))


def in_gold(changes: str) -> str:
    """SQL of silver rows with the names in their images and keys as gold has them."""
    whole = sql_text(_PATTERN + r"\z")
    called = f"IF(k RLIKE {whole}, concat(k, '{_SUFFIX}'), k)"
    maps = ", ".join(f"transform_keys({name}, (k, v) -> {called}) AS {name}" for name in _MAPS)
    lists = f"transform(unavailable, k -> {called}) AS unavailable"
    return f"SELECT * EXCEPT ({', '.join(_MAPS)}, unavailable), {maps}, {lists} FROM ({changes})"


def statement_in_gold(statement: Statement) -> Statement:
    """The statement with its columns' names as gold has them."""
    clauses = tuple(
        replace(
            clause,
            column=clause.column and _column_in_gold(clause.column),
            columns=tuple(map(_column_in_gold, clause.columns)),
            new_name=clause.new_name and gold_name(clause.new_name),
            keys=gold_names(clause.keys),
        )
        for clause in statement.clauses
    )
    return statement if clauses == statement.clauses else replace(statement, clauses=clauses)


def _column_in_gold(column: Column) -> Column:
    return replace(column, name=gold_name(column.name))


def check_column_names(rows: Iterable[Sequence[str]], excluded: Collection[str]) -> None:
    """Raise TableError if one table cannot hold the columns of a row, because one has no name or
    two differ only in case (semantics.md, 25). `excluded`: the columns that gold leaves out, in
    lower case."""
    for row in dict.fromkeys(map(tuple, rows)):
        met: dict[str, str] = {}
        for name in row:
            lower = name.lower()
            if lower in excluded:
                continue
            if not name:
                raise TableError(
                    "expected a name for every column, got one without; no table can hold it: name "
                    "it at the source"
                )
            if met.setdefault(lower, name) != name:
                raise TableError(
                    f"columns `{met[lower]}` and `{name}` differ only in case; exclude them"
                )
