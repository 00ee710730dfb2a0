"""A query that is read from the top: named relations, each made of those before it.

Spark puts in the place of a name what it stands for before it plans, in queries and in statements
that change a table, so naming a step costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingest.sql.quoting import quoted_list


def query(**relations: str) -> str:
    """The last of the relations, with all before it under their names.

    Each is SQL that may name those before it. A name hides others of its kind further out, never
    those of a text that is put into it whole.
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
    """So many of a query's rows at most."""
    return f"SELECT * FROM ({query}) LIMIT {most}"


def select(relation: str, where: str | None = None, *, columns: str = "*") -> str:
    """Columns of a relation's rows, of those for which `where` is true where it is given."""
    return f"SELECT {columns} FROM {relation}" + ("" if where is None else f" WHERE {where}")


def one_row(texts: Iterable[str]) -> str:
    """A row of values (SQL)."""
    return f"SELECT {', '.join(texts)}"


def first_row(query: str) -> str:
    """A row where a query gives any."""
    return f"SELECT 1 FROM ({query}) LIMIT 1"


def in_order(query: str, columns: Iterable[str]) -> str:
    """The rows of a query in the order of some columns."""
    return f"SELECT * FROM ({query}) ORDER BY {quoted_list(columns)}"
