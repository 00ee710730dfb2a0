"""What waits, and since when: messages to be decoded, and changes to be applied to their target."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ingest.sql.delivery import origin
from ingest.sql.query import query
from ingest.sql.quoting import sql_text, sql_texts

_STREAM = ("source", "epoch", "topic", "partition")


def undecoded(bronze: str, silver: str | None, *, sources: Collection[str]) -> str:
    """When the oldest message of some sources came of those of which the table `silver` has
    nothing: (source, since)."""
    among = f"source IN ({sql_texts(sorted(sources))})"
    found = {"messages": f"SELECT * FROM {bronze} WHERE {among}"}
    if silver is not None:
        on = " AND ".join(f"b.`{name}` <=> k.`{name}`" for name in _STREAM)
        found["reached"] = (
            f"SELECT {origin(names=_STREAM)}, max(offset) AS reached FROM {silver} "
            f"WHERE {among} GROUP BY ALL"
        )
        found["undecoded"] = (
            f"SELECT b.* FROM messages b LEFT JOIN reached k ON {on} "
            "WHERE k.reached IS NULL OR b.offset > k.reached"
        )
    *_, last = found
    return query(
        **found, since=f"SELECT source, min(ingested_at) AS since FROM {last} GROUP BY source"
    )


def unapplied(silver: str, conditions: Sequence[str]) -> str:
    """The changes for which one of some conditions on `c` is true, each change counted once: how
    many there are, and when the oldest was decoded: (source, db, schema, table, changes, since)."""
    tables = "source, db, schema, `table`"
    waiting = " UNION ALL ".join(
        f"SELECT {tables}, decoded_at FROM {silver} c WHERE kind = 'change' AND {condition}"
        for condition in conditions
    )
    return query(
        waiting=waiting,
        counted=f"SELECT {tables}, count(*) AS changes, min(decoded_at) AS since FROM waiting "
        f"WHERE `table` IS NOT NULL GROUP BY {tables}",
    )


def beyond(batches: Mapping[str, int]) -> str:
    """True for changes of sources above a batch of each."""
    each = (f"source = {sql_text(source)} AND batch > {batch}" for source, batch in batches.items())
    return f"({' OR '.join(each)})"


def above(batches: Mapping[tuple[str | None, ...], int]) -> str:
    """True for changes `c` of source tables (source, db, schema, table) above a batch of each."""
    return f"batch > {min(batches.values())} AND {_of_tables(batches, 'c.batch > l.batch')}"


def up_to(batches: Mapping[tuple[str | None, ...], int]) -> str:
    """True for changes `c` of source tables up to a batch of each."""
    return _of_tables(batches, "c.batch <= l.batch")


def _of_tables(batches: Mapping[tuple[str | None, ...], int], condition: str) -> str:
    values = ", ".join(
        f"({', '.join('NULL' if name is None else sql_text(name) for name in names)}, {batch})"
        for names, batch in batches.items()
    )
    return (
        f"EXISTS (SELECT 1 FROM VALUES {values} AS l(of, d, s, t, batch) WHERE l.of = c.source "
        f"AND l.d <=> c.db AND l.s <=> c.schema AND l.t <=> c.`table` AND {condition})"
    )
