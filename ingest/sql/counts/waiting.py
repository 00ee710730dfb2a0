"""When the oldest of what waits came: messages to be decoded, changes for their target."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ingest.sql.delivery import origin
from ingest.sql.query import query
from ingest.sql.quoting import sql_text, sql_texts

_STREAM = ("source", "epoch", "topic", "partition")


def undecoded(bronze: str, silver: str | None, *, sources: Collection[str]) -> str:
    """When the oldest message of some sources came that the table `silver` has nothing of: (source,
    since)."""
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
    """When the oldest change was decoded for which one of some conditions on `c` is true: (source,
    db, schema, table, since)."""
    tables = "source, db, schema, `table`"
    waiting = " UNION ALL ".join(
        f"SELECT {tables}, decoded_at FROM {silver} c WHERE kind = 'change' AND {condition}"
        for condition in conditions
    )
    return query(
        waiting=waiting,
        since=f"SELECT {tables}, min(decoded_at) AS since FROM waiting "
        f"WHERE `table` IS NOT NULL GROUP BY {tables}",
    )


def beyond(batches: Mapping[str, int | None]) -> str:
    """True for changes of sources above a batch, where one is given for the source."""
    each = (
        f"source = {sql_text(source)}" + (f" AND batch > {batch}" if batch is not None else "")
        for source, batch in batches.items()
    )
    return f"({' OR '.join(each)})"


def above(batches: Mapping[tuple[str | None, ...], int]) -> str:
    """True for changes `c` of source tables (source, db, schema, table) above a batch of each."""
    values = ", ".join(
        f"({', '.join('NULL' if name is None else sql_text(name) for name in names)}, {batch})"
        for names, batch in batches.items()
    )
    return (
        f"batch > {min(batches.values())} AND EXISTS (SELECT 1 FROM VALUES {values} AS l"
        "(of, d, s, t, above) WHERE l.of = c.source AND l.d <=> c.db AND l.s <=> c.schema "
        "AND l.t <=> c.`table` AND c.batch > l.above)"
    )
