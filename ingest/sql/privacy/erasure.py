"""SQL that counts and removes what each table has of a person.

The person's rows are a relation with a delivery's columns and `mine`; the messages that they came
in are a relation with a message's columns. See `ingest.sql.privacy.person`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingest.sql.casts import as_text
from ingest.sql.delivery import DELIVERY, MESSAGE, origin, same
from ingest.sql.query import query, select
from ingest.sql.quoting import quoted, sql_text
from ingest.sql.silver import LAST_CHANGE

_FOUND = "SELECT DISTINCT s.said FROM said s JOIN {held} a ON contains(s.said, a.text)"


def undecoded(bronze: str, silver: str, *, source: str | None) -> str:
    """How many messages silver does not know, of one source or of each that has some: (source,
    n)."""
    own = "true" if source is None else f"source = {sql_text(source)}"
    names = ("source", *MESSAGE)
    return query(
        messages=select(bronze, own),
        known=f"SELECT DISTINCT {origin(names=names)} FROM {silver} WHERE {own}",
        waiting="SELECT b.source, count(*) AS n FROM messages b LEFT ANTI JOIN known s "
        f"ON {same('b', 's', names)} GROUP BY b.source",
    )


def in_a_span(keys: Mapping[str, str]) -> str:
    """True for a row `t` of a target with these keys (name -> type) that lies in a span `h`."""
    parts = ", ".join(as_text(f"t.{quoted(name)}", type_) for name, type_ in keys.items())
    return (
        f"t._source_table = h.label AND array({parts}) = h.key "
        "AND (h.first IS NULL OR h.first <= t._pos) AND (h.last IS NULL OR t._pos <= h.last)"
    )


def number_in_gold(target: str, spans: str, on: str) -> str:
    """How many rows `t` of a target match a relation `h`, as the condition `on` says."""
    return f"SELECT count(*) FROM {target} t WHERE EXISTS (SELECT 1 FROM {spans} h WHERE {on})"


def number_of_deliveries(table: str, held: str, *, source: str, by_message: bool = False) -> str:
    """How many rows of a source a table has of the deliveries, or of the messages, of a
    relation."""
    names = MESSAGE if by_message else DELIVERY
    return (
        f"SELECT count(*) FROM {table} r WHERE source = {sql_text(source)} "
        f"AND EXISTS (SELECT 1 FROM {held} m WHERE {same('r', 'm', names)})"
    )


def number_of_others(silver: str, held: str, *, messages: str, source: str) -> str:
    """How many changes of silver came in the messages (a relation) without being the rows
    `held`."""
    return query(
        changes=f"SELECT s.* FROM {silver} s LEFT SEMI JOIN {messages} m "
        f"ON {same('s', 'm', MESSAGE)} WHERE source = {sql_text(source)} AND kind = 'change'",
        others=f"SELECT count(*) FROM changes s LEFT ANTI JOIN {held} m ON {same('s', 'm')}",
    )


def number_of_messages(bronze: str, messages: str, *, source: str) -> str:
    """How many of the messages (a relation) bronze has."""
    return (
        f"SELECT count(*) FROM {bronze} b JOIN {messages} m ON {same('b', 'm', MESSAGE)} "
        f"WHERE source = {sql_text(source)}"
    )


def marks(silver: str, held: str, *, source: str, change: str) -> str:
    """The rows that record an erasure, numbered from 0: (epoch, tx_id, n, last, number).

    First that it took place; then, for each transaction, how many changes `n` of it go with those
    of the rows `held` that are the person's, and whether the `last` is among them: the end of a
    transaction says how many changes there were. `change`: SQL of what the deliveries of one change
    have in common.
    """
    return query(
        own=f"SELECT s.* FROM {silver} s LEFT SEMI JOIN (SELECT * FROM {held} WHERE mine) m "
        f"ON {same('s', 'm')} WHERE source = {sql_text(source)} AND kind = 'change'",
        counted=f"SELECT epoch, tx_id, count(DISTINCT {change}) AS n, "
        f"bool_or({LAST_CHANGE}) AS last FROM own "
        "WHERE tx_id IS NOT NULL GROUP BY epoch, tx_id",
        marks="SELECT CAST(0 AS bigint) AS epoch, CAST(NULL AS string) AS tx_id, "
        "CAST(NULL AS bigint) AS n, false AS last, 0 AS number UNION ALL "
        "SELECT epoch, tx_id, n, last, row_number() OVER (ORDER BY epoch, tx_id) FROM counted",
    )


def from_gold(target: str, spans: str, on: str) -> str:
    """The MERGE that deletes the rows `t` of a target that match a relation `h`."""
    return f"MERGE INTO {target} t USING {spans} h ON {on} WHEN MATCHED THEN DELETE"


def from_rejects(rejects: str, held: str, *, source: str, error: str) -> str:
    """The MERGE that deletes the person's rejects, and the bytes of others' rejects from the same
    messages."""
    return (
        f"MERGE INTO {rejects} r USING {held} m ON r.source = {sql_text(source)} "
        f"AND {same('r', 'm')} WHEN MATCHED AND m.mine THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET value = NULL, error = {sql_text(error)}"
    )


def from_bronze(bronze: str, messages: str, *, source: str) -> str:
    """The MERGE that deletes the messages."""
    return (
        f"MERGE INTO {bronze} b USING {messages} m ON b.source = {sql_text(source)} "
        f"AND {same('b', 'm', MESSAGE)} WHEN MATCHED THEN DELETE"
    )


def from_silver(silver: str, held: str, *, source: str, error: str) -> str:
    """The MERGE that deletes the person's rows, and the bytes of others' rejects from the same
    messages."""
    return (
        f"MERGE INTO {silver} s USING {held} m ON s.source = {sql_text(source)} "
        f"AND s.kind IN ('change', 'fragment', 'reject') AND {same('s', 'm')} "
        "WHEN MATCHED AND m.mine THEN DELETE WHEN MATCHED AND s.kind = 'reject' "
        f"THEN UPDATE SET value = NULL, error = {sql_text(error)}"
    )


def from_sentences(table: str, column: str, *, own: str, held: str, instead: str) -> str:
    """The MERGE that replaces, in the rows `own` of a table, the sentences that contain one of some
    texts. The texts are a relation (`text`), since as literals they would stand in the table's
    log."""
    name = quoted(column)
    said = query(
        said=f"SELECT DISTINCT {name} AS said FROM {table} WHERE {own}",
        found=_FOUND.format(held=held),
    )
    return (
        f"MERGE INTO {table} t USING ({said}) s ON t.{name} = s.said "
        f"WHEN MATCHED THEN UPDATE SET {name} = {sql_text(instead)}"
    )


def from_lists(table: str, column: str, *, held: str, instead: str) -> str:
    """The same for lists of sentences, in all rows."""
    name = quoted(column)
    lists = query(
        lists=f"SELECT DISTINCT {name} AS said_then FROM {table} WHERE size({name}) > 0",
        said="SELECT DISTINCT explode(said_then) AS said FROM lists",
        found=_FOUND.format(held=held),
        gone="SELECT collect_set(said) AS gone FROM found",
        now="SELECT l.said_then, transform(l.said_then, said -> CASE WHEN array_contains(g.gone, "
        f"said) THEN {sql_text(instead)} ELSE said END) AS said_now FROM lists l CROSS JOIN gone g "
        "WHERE arrays_overlap(l.said_then, g.gone)",
    )
    return (
        f"MERGE INTO {table} t USING ({lists}) s ON t.{name} = s.said_then "
        f"WHEN MATCHED THEN UPDATE SET {name} = s.said_now"
    )


def unproved(erasures: str, *, target: str) -> str:
    """The erasures of a target that no proof has ended."""
    return select(erasures, f"status <> 'proved' AND target = {sql_text(target)}")
