"""A query that is read from the top: named relations, each made of those before it.

Spark replaces each name by its definition before it plans, in queries as well as in statements that
change a table, so naming a step costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingest.sql.quoting import quoted_list


def query(**relations: str) -> str:
    """The last of the relations, with all before it under their names.

    Each is SQL that may name those before it. A name hides the same name further out, but never a
    name within a text that is put into it whole.
    """
    *named, (_, last) = relations.items()
    if not named:
        return last
    return f"WITH {', '.join(f'{name} AS ({text})' for name, text in named)} {last}"


def union(queries: Iterable[str]) -> str:
    """The rows of some queries, each once."""
    return " UNION ".join(f"({each})" for each in queries)


def union_all(queries: Iterable[str]) -> str:
    """The rows of some queries."""
    return " UNION ALL ".join(f"({each})" for each in queries)


def at_most(query: str, most: int) -> str:
    """At most so many of a query's rows."""
    return f"SELECT * FROM ({query}) LIMIT {most}"


def select(relation: str, where: str | None = None, *, columns: str = "*") -> str:
    """Columns of a relation's rows, only of those for which `where` is true if it is given."""
    return f"SELECT {columns} FROM {relation}" + ("" if where is None else f" WHERE {where}")


def one_row(texts: Iterable[str]) -> str:
    """A row of values (SQL)."""
    return f"SELECT {', '.join(texts)}"


def first_row(query: str) -> str:
    """One row if the query gives any."""
    return f"SELECT 1 FROM ({query}) LIMIT 1"


def in_order(query: str, columns: Iterable[str]) -> str:
    """The rows of a query in the order of some columns."""
    return f"SELECT * FROM ({query}) ORDER BY {quoted_list(columns)}"
