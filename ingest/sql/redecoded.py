"""Which messages of a source gold has not come to, when all of them are decoded again."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.names import SourceTable
from ingest.sql.delivery import MESSAGE
from ingest.sql.query import query
from ingest.sql.quoting import equal, quoted_list
from ingest.sql.silver import beyond, named

_KEYS = quoted_list(MESSAGE)


def unseen(last: int, only: str) -> str:
    """True for silver's rows above a batch, and those up to it for which `only` is not true."""
    return f"(batch > {last} OR NOT coalesce({only}, false))"


def waiting(silver: str, *, source: str, unseen: str, held_at: Mapping[SourceTable, int]) -> str:
    """The messages of which something is not applied: MESSAGE, whether all of it is `unseen`, and
    whether all is above its batch of `held_at` that is of those tables (`held`)."""
    return query(
        rows=f"SELECT {_KEYS}, {unseen} AS unseen, {beyond(held_at) or 'false'} AS held, "
        f"{_of(held_at)} AS of_held FROM {silver} WHERE {equal(source=source)}",
        some=f"SELECT DISTINCT {_KEYS} FROM rows WHERE unseen OR held",
        waiting=f"SELECT {_KEYS}, bool_and(unseen) AS unseen, "
        f"bool_and(held) FILTER (WHERE of_held) AS held "
        f"FROM rows LEFT SEMI JOIN some USING ({_KEYS}) GROUP BY {_KEYS}",
    )


def waits(held_at: Mapping[SourceTable, int]) -> str:
    """True for a row, beside what `waiting` says of its message, that is not applied."""
    return f"unseen OR (held AND ({_of(held_at)}))"


def _of(tables: Mapping[SourceTable, int]) -> str:
    return " OR ".join(f"({named(table)})" for table in tables) or "false"
