"""Rows of the ledger `gold._ddl`, and how many rows of silver and gold wait for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ingest.sql.query import select
from ingest.sql.quoting import quoted, quoted_list, sql_text


def in_order(ddl: str, *, columns: Sequence[str], status: str | None) -> str:
    """Columns of the ledger's rows, of one status if it is given, in order of position."""
    where = None if status is None else f"status = {sql_text(status)}"
    return f"{select(ddl, where, columns=quoted_list(columns))} ORDER BY source, pos, id"


def counts(relation: str, where: str, *, terms: Sequence[str]) -> str:
    """A row: for how many of a relation's rows each of the terms is true. Only rows are read for
    which `where` and at least one of the terms are true."""
    numbers = ", ".join(f"count_if({term}) AS n{place}" for place, term in enumerate(terms))
    either = " OR ".join(f"({term})" for term in terms)
    return select(relation, f"{where} AND ({either})", columns=numbers)


def holding_a_value(target: str, columns: Iterable[str]) -> str:
    """How many rows of a target have a value in some of these columns."""
    held = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in columns)
    return f"SELECT count_if({held}) FROM {target}"
