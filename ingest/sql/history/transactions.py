"""The transactions in silver, and which of them are complete."""

from __future__ import annotations

from ingest.position import Pos, pos_literal
from ingest.sql.query import query
from ingest.sql.quoting import equal, sql_text
from ingest.sql.silver import ERASURES, LAST_CHANGE

_WAIT = "NOT complete AND NOT rolled_back AND events > 0"
_COMMITS = f"(op = 'commit' OR {LAST_CHANGE})"
"""True for a row that tells the end of its transaction: a message of its own, or the last
change."""


def transactions(
    silver: str,
    *,
    change: str,
    source: str | None = None,
    above: int | None = None,
    among: str | None = None,
    published: int | None = None,
    without: str | None = None,
    epoch: int | None = None,
) -> str:
    """The transactions: (source, tx_id, begin_time, end_time, complete, rolled_back, events,
    expected, tables, first_pos, last_pos). They can be narrowed to one source, to rows `above` a
    batch, to those `among` (SQL of `tx_id`), and to one epoch.

    `published`: the batch up to which gold has published whole transactions. A transaction with a
    change up to there was complete, whatever retention or an erasure has taken out of silver since.
    `without`: SQL of changes that do not count. `change`: SQL of what the deliveries of one change
    have in common.
    """
    terms = [equal(source=source)] if source is not None else []
    terms += [f"batch > {above}"] if above is not None else []
    terms += [f"tx_id IN ({among})"] if among is not None else []
    terms += [f"epoch = {epoch}"] if epoch is not None else []
    terms += [f"coalesce(NOT (kind = 'change' AND ({without})), true)"] if without else []
    where = " AND ".join(terms) or "true"
    complete = "committed AND coalesce(events + coalesce(erased, 0) >= expected, true)"
    if published is not None:
        complete = f"({complete} OR coalesce(first_batch <= {published}, false))"
    return query(
        rows_=f"SELECT *, {_COMMITS} AS commits FROM {silver} WHERE tx_id IS NOT NULL "
        f"AND (kind = 'change' OR op IN ('begin', 'commit', 'rollback') "
        f"OR topic = {sql_text(ERASURES)}) AND {where}",
        # An erasure that was interrupted tells the same once more.
        told="SELECT source, epoch, tx_id, op_raw, max(CAST(after['erased'] AS bigint)) AS n "
        f"FROM rows_ WHERE topic = {sql_text(ERASURES)} GROUP BY source, epoch, tx_id, op_raw",
        gone="SELECT source, epoch, tx_id, sum(n) AS erased FROM told "
        "GROUP BY source, epoch, tx_id",
        counted=f"""SELECT source, epoch, tx_id,
  min(event_time) FILTER (WHERE op = 'begin') AS begin_time,
  min(event_time) FILTER (WHERE commits OR op = 'rollback') AS end_time,
  bool_or(commits) AS committed, bool_or(op = 'rollback') AS rolled_back,
  max(CAST(after['event_count'] AS bigint)) FILTER (WHERE op = 'commit') AS expected,
  count(DISTINCT CASE WHEN kind = 'change' THEN {change} END) AS events,
  array_sort(collect_set(CASE WHEN kind = 'change'
    THEN concat_ws('.', db, schema, table) END)) AS tables,
  min(pos) AS first_pos, max(pos) AS last_pos,
  min(batch) FILTER (WHERE kind = 'change') AS first_batch
FROM rows_ GROUP BY source, epoch, tx_id""",
        transactions="SELECT source, tx_id, begin_time, end_time, "
        f"{complete} AS complete, rolled_back, events, "
        "expected, tables, first_pos, last_pos "
        "FROM counted LEFT JOIN gone USING (source, epoch, tx_id)",
    )


def that_wait(transactions: str) -> str:
    """The ids, `tx_id`, of the transactions that are not complete."""
    return f"SELECT tx_id FROM ({transactions}) WHERE {_WAIT}"


def lowest_waiting(transactions: str) -> str:
    """The lowest transaction that is not complete: (tx_id, first_pos, events, expected)."""
    return (
        f"SELECT tx_id, first_pos, events, expected FROM ({transactions}) WHERE {_WAIT} "
        "ORDER BY first_pos LIMIT 1"
    )


def newest_epoch(silver: str, *, source: str, above: int) -> str:
    """A row: the highest epoch that came above a batch."""
    return f"SELECT max(epoch) FROM {silver} WHERE {equal(source=source)} AND batch > {above}"


def batches_from(silver: str, *, source: str, above: int, first: Pos) -> str:
    """A row: the lowest batch `above` one that has changes at a position or later, and the highest
    batch."""
    later = f"kind = 'change' AND pos >= {pos_literal(first)}"
    return (
        f"SELECT min(batch) FILTER (WHERE {later}), max(batch) FROM {silver} "
        f"WHERE {equal(source=source)} AND batch > {above}"
    )


def any_end(silver: str, *, source: str) -> str:
    """A row if some message of a source told the end of a transaction that it names."""
    return (
        f"SELECT 1 FROM {silver} WHERE {equal(source=source)} AND tx_id IS NOT NULL "
        f"AND (op = 'rollback' OR {_COMMITS}) LIMIT 1"
    )


def any_change(silver: str, *, source: str, tx_id: str | None = None, named: bool = False) -> str:
    """A row, of a change that a source streamed, with its format; of a transaction where that is
    given, or else of any that is `named`."""
    terms = [equal(source=source, kind="change"), "op <> 'snapshot'"]
    terms += [equal(tx_id=tx_id)] if tx_id is not None else []
    terms += ["tx_id IS NOT NULL"] if named else []
    return f"SELECT format FROM {silver} WHERE {' AND '.join(terms)} LIMIT 1"


def held_back(silver: str, *, source: str, above: int, only: str, until: str) -> str:
    """A row if a source has changes `above` a batch that may not be published (SQL `only`) and for
    which SQL `until` is true."""
    return (
        f"SELECT 1 FROM {silver} WHERE {equal(source=source, kind='change')} AND batch > {above} "
        f"AND NOT ({only}) AND {until} LIMIT 1"
    )
