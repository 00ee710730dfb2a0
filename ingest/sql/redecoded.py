"""Which messages of a source gold has not applied when all of them are decoded again."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.names import SourceTable
from ingest.sql.delivery import MESSAGE
from ingest.sql.query import query, select
from ingest.sql.quoting import equal, quoted_list
from ingest.sql.silver import of_table

_KEYS = quoted_list(MESSAGE)


def unseen(last: int, only: str) -> str:
    """True for silver's rows above a batch, and for rows up to it for which `only` is not true."""
    return f"(batch > {last} OR NOT coalesce({only}, false))"


def any_unseen(silver: str, *, source: str, unseen: str) -> str:
    """A row if a source has any that gold has not come to."""
    return select(silver, f"{equal(source=source)} AND {unseen}", columns=_KEYS)


def messages(silver: str, *, source: str, unseen: str, above: int | None) -> str:
    """The messages of a source that first came `above` a batch, or of which gold has seen nothing:
    MESSAGE, the batch in which each `came` first, and whether gold has seen nothing of it
    (`new`)."""
    late = f" OR min(batch) > {above}" if above is not None else ""
    return query(
        rows=f"SELECT {_KEYS}, batch, {unseen} AS unseen FROM {silver} "
        f"WHERE {equal(source=source)}",
        messages=f"SELECT {_KEYS}, min(batch) AS came, bool_and(unseen) AS new "
        f"FROM rows GROUP BY {_KEYS} HAVING bool_and(unseen){late}",
    )


def is_unapplied(applied_at: Mapping[SourceTable, int]) -> str:
    """True for a row that is not applied, beside what `messages` says of its message; decided by
    the last batch of its table that was applied, if that is given."""
    cases = " ".join(f"WHEN {of_table(table)} THEN came > {at}" for table, at in applied_at.items())
    return f"CASE {cases} ELSE new END" if cases else "new"
