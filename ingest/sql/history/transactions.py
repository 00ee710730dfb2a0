"""Transactions in silver: which are complete."""

from __future__ import annotations

from ingest.position import Pos, pos_literal
from ingest.sql.query import query
from ingest.sql.quoting import equal

_WAIT = "NOT complete AND NOT rolled_back AND events > 0"


def transactions(
    silver: str,
    *,
    change: str,
    source: str | None = None,
    above: int | None = None,
    among: str | None = None,
) -> str:
    """The transactions: (source, tx_id, begin_time, end_time, complete, rolled_back, events,
    expected, tables, first_pos, last_pos). Where they are given, of one source, as far as they lie
    above a batch, and of those `among` (SQL of `tx_id`).

    `change`: SQL of what the deliveries of one change have in common.
    """
    terms = [equal(source=source)] if source is not None else []
    terms += [f"batch > {above}"] if above is not None else []
    terms += [f"tx_id IN ({among})"] if among is not None else []
    where = " AND ".join(terms) or "true"
    return query(
        rows_=f"SELECT * FROM {silver} WHERE tx_id IS NOT NULL "
        f"AND (kind = 'change' OR op IN ('begin', 'commit', 'rollback')) AND {where}",
        counted=f"""SELECT source, tx_id,
  min(event_time) FILTER (WHERE op = 'begin') AS begin_time,
  min(event_time) FILTER (WHERE op IN ('commit', 'rollback')) AS end_time,
  bool_or(op = 'commit') AS committed, bool_or(op = 'rollback') AS rolled_back,
  max(CAST(after['event_count'] AS bigint)) FILTER (WHERE op = 'commit') AS expected,
  count(DISTINCT CASE WHEN kind = 'change' THEN {change} END) AS events,
  array_sort(collect_set(CASE WHEN kind = 'change'
    THEN concat_ws('.', db, schema, table) END)) AS tables,
  min(pos) AS first_pos, max(pos) AS last_pos
FROM rows_ GROUP BY source, epoch, tx_id""",
        transactions="SELECT source, tx_id, begin_time, end_time, "
        "committed AND coalesce(events >= expected, true) AS complete, rolled_back, events, "
        "expected, tables, first_pos, last_pos FROM counted",
    )


def that_wait(transactions: str) -> str:
    """The ids of those that are not complete: `tx_id`."""
    return f"SELECT tx_id FROM ({transactions}) WHERE {_WAIT}"


def lowest_waiting(transactions: str) -> str:
    """The lowest of those that are not complete: (tx_id, first_pos, events, expected)."""
    return (
        f"SELECT tx_id, first_pos, events, expected FROM ({transactions}) WHERE {_WAIT} "
        "ORDER BY first_pos LIMIT 1"
    )


def batches_from(silver: str, *, source: str, above: int, first: Pos) -> str:
    """A row: the lowest batch `above` one that has changes at a position or later, and the highest
    batch."""
    later = f"kind = 'change' AND pos >= {pos_literal(first)}"
    return (
        f"SELECT min(batch) FILTER (WHERE {later}), max(batch) FROM {silver} "
        f"WHERE {equal(source=source)} AND batch > {above}"
    )
