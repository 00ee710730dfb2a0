"""Changes that no fold needs any more, because they lie below a whole image of their key."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.names import SourceTable, lowered
from ingest.position import source_part
from ingest.sql.delivery import DELIVERY, origin, same
from ingest.sql.projection import Projection, as_today, events
from ingest.sql.query import query
from ingest.sql.quoting import sql_text, sql_texts
from ingest.sql.silver import of_table


def with_names_beyond(projection: Projection, changes: str) -> str:
    """`events` of changes with one more column, `beyond`: the names in their image, in lower case,
    for which the target has no column. A schema change that waits, or another declaration, may add
    one."""
    columns = sql_texts(sorted(lowered(projection.columns)))
    names = f"array_except(transform(map_keys(after), n -> lower(n)), array({columns}))"
    delivery = (*DELIVERY, "batch")
    return query(
        events=events(projection, changes),
        more=f"SELECT {origin(names=delivery)}, {names} AS beyond "
        f"FROM ({as_today(projection, changes)}) WHERE size({names}) > 0",
        both="SELECT e.*, coalesce(m.beyond, CAST(array() AS array<string>)) AS beyond "
        f"FROM events e LEFT JOIN more m ON {same('e', 'm', delivery)}",
    )


def superseded(events: str, key_changes: str, *, soft: bool) -> str:
    """Those of the events that fit which lie below an event of their key that leaves nothing of
    what was before, with the position of that event: (delivery, batch, pos, event_time).

    `events` are those of `with_names_beyond`: an image with a name that the later one lacks leaves
    something. Keys that some of the events `key_changes` link to others are left out. `soft`:
    deletes leave rows.
    """
    base = "NOT partial AND lacks = 0 AND op <> 'delete'"
    base = base if soft else f"({base} OR op = 'delete')"
    return query(
        events=events,
        key_changes=key_changes,
        moved="SELECT explode(array(key, key_before)) AS key FROM key_changes "
        "WHERE key_before IS NOT NULL",
        old="SELECT o.* FROM events o LEFT ANTI JOIN moved m ON m.key = o.key "
        "WHERE o.key IS NOT NULL AND size(o.misfits) = 0",
        bases="SELECT key, max(struct(pos, event_time, op = 'delete' AS gone, beyond)) AS base "
        f"FROM old WHERE {base} GROUP BY key",
        superseded=f"SELECT {origin('o')}, o.batch, b.base.pos, b.base.event_time "
        "FROM old o JOIN bases b ON o.key = b.key "
        f"WHERE {source_part('o.pos')} < {source_part('b.base.pos')} "
        "AND (b.base.gone OR size(array_except(o.beyond, b.base.beyond)) = 0)",
    )


def highest(superseded: str) -> str:
    """A row: the highest position above superseded changes, a relation, and the latest time among
    them."""
    return f"SELECT max(pos), max(event_time) FROM {superseded}"


def delete(silver: str, superseded: str, *, tables: Sequence[SourceTable]) -> str:
    """The MERGE that takes superseded changes of a source table, a relation, out of silver;
    `tables`: all names that it has had."""
    names = " OR ".join(f"({of_table(table)})" for table in tables)
    return (
        f"MERGE INTO {silver} s USING {superseded} d "
        f"ON s.source = {sql_text(tables[0].source)} AND s.kind = 'change' AND ({names}) "
        f"AND {same('s', 'd', (*DELIVERY, 'batch'))} WHEN MATCHED THEN DELETE"
    )
