"""The events that wait among the rejects, and those of them that wait no more."""

from __future__ import annotations

from ingest.sql.delivery import same
from ingest.sql.projection import NAMES_OLD_KEY
from ingest.sql.query import query
from ingest.sql.quoting import sql_text
from ingest.sql.rejects.left_out import touched_keys
from ingest.sql.rejects.reasons import ORIGIN


def without_set_aside(events: str, set_aside: str, *, freed: str | None = None) -> str:
    """The events (`ingest.sql.projection.that_fit`) without those of `left_aside`
    (`ingest.sql.rejects.rows`); of these, inserts of key changes in two messages stay, marked as
    `void`. Events that wait for one of the keys `freed` (SQL of `key`) stay as they are."""
    found = {"events": events, "aside": set_aside}
    beside, on, columns = "events", same("c", "e"), "void"
    if freed is not None:
        found["freed_keys"] = freed
        found["beside"] = (
            "SELECT e.*, g.key AS freed FROM events e LEFT JOIN freed_keys g ON g.key = e.key"
        )
        beside, columns = "beside", "void, freed"
        on = f"(e.freed IS NULL OR c.status = 'dismissed') AND {on}"
    return query(
        **found,
        rest=f"SELECT e.* EXCEPT ({columns}), e.void OR c.id IS NOT NULL AS void "
        f"FROM {beside} e LEFT JOIN aside c ON {on} WHERE c.id IS NULL OR {NAMES_OLD_KEY}",
    )


def of_keys(opened: str, events: str, *, keys: str) -> str:
    """The open rejects (`opened`) of the events that concern the relation `keys` (`key`)."""
    return query(
        waiting=opened,
        events=events,
        of_keys=f"SELECT r.* FROM waiting r JOIN events e ON {same('e', 'r')} "
        f"JOIN {keys} k ON k.key = e.key",
    )


def of_events(opened: str, events: str) -> str:
    """The open rejects (`opened`) of the events that fit."""
    return query(
        waiting=opened,
        events=events,
        of_events=f"SELECT r.* FROM waiting r JOIN events e ON {same('e', 'r')} "
        "WHERE e.key IS NOT NULL AND size(e.misfits) = 0",
    )


def of_deliveries(opened: str, changes: str) -> str:
    """The open rejects (`opened`) of silver's rows `changes`."""
    return query(
        waiting=opened,
        changes=changes,
        of_changes=f"SELECT r.* FROM waiting r LEFT SEMI JOIN changes c ON {same('c', 'r')}",
    )


def without_same(waiting: str, others: str) -> str:
    """The rejects without those whose deliveries are in `others`, SQL with the same columns."""
    return query(
        waiting=waiting,
        others=others,
        rest=f"SELECT w.* FROM waiting w LEFT ANTI JOIN others o ON {same('o', 'w')}",
    )


def without_results(waiting: str, results: str) -> str:
    """The rejects without those that a relation of results of `ingest.fold.arrow` has."""
    return query(
        waiting=waiting,
        still=f"SELECT {ORIGIN} FROM {results}",
        done=f"SELECT w.* FROM waiting w LEFT ANTI JOIN still s ON {same('s', 'w')}",
    )


def resolved(done: str) -> str:
    """The rejects as updates of them: `id`, `version`, `status`."""
    return f"SELECT DISTINCT id, version, 'resolved' AS status FROM ({done})"


def baseless_among(results: str, asked: str) -> str:
    """Those results without a base whose deliveries are in the relation `asked`, and where they
    stand: (delivery, pos)."""
    return query(
        without_base=f"SELECT {ORIGIN}, pos FROM {results}",
        found=f"SELECT b.* FROM without_base b JOIN {asked} a ON {same('a', 'b')}",
    )


def free_keys(events: str, claimed: str, *, held: str, voided: str, soft: bool) -> str:
    """The keys of events that are `claimed`, without those that other source tables hold (`held`):
    (key, fits). `fits` is true if some event of the key fits; what the others wait for is worked
    out anew.

    A key is also free if its newest event leaves no row, which contests nothing. In a `soft` target
    what is gone stays as a row that is marked, unless another has the key: there it waits if the
    row that has it may have ended before. `voided`: SQL that is true for an event if a truncate has
    taken what it brought.
    """
    contested = "coalesce(l.leaves, true)"
    if soft:
        contested = f"({contested} OR o._pos < l.pos)"
    return query(
        events=events,
        claims=claimed,
        waiting="SELECT e.key, bool_or(size(e.misfits) = 0) AS fits FROM events e "
        f"JOIN claims r ON {same('e', 'r')} WHERE e.key IS NOT NULL GROUP BY e.key",
        **touched_keys(voided=voided),
        newest="SELECT t.key, max_by(leaves, pos) AS leaves, max(pos) AS pos FROM touched t "
        "LEFT SEMI JOIN waiting w ON w.key = t.key GROUP BY t.key",
        held=held,
        free="SELECT w.key, w.fits FROM waiting w LEFT JOIN newest l ON l.key = w.key "
        f"LEFT ANTI JOIN held o ON o.key = w.key AND {contested}",
    )


def tables_of(silver: str, claimed: str, *, source: str) -> str:
    """The source tables of the changes that are `claimed`, found in the table `silver`: (source,
    db, schema, table)."""
    return query(
        claims=claimed,
        tables="SELECT DISTINCT s.source, s.db, s.schema, s.`table` "
        f"FROM {silver} s JOIN claims r ON s.source = r.source AND {same('s', 'r')} "
        f"WHERE s.kind = 'change' AND s.source = {sql_text(source)}",
    )
