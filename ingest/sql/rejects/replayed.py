"""Rejects of silver whose messages are decoded again, and the results of that."""

from __future__ import annotations

from collections.abc import Iterable

from ingest.codes import Code
from ingest.sql.delivery import MESSAGE, origin, same
from ingest.sql.query import query
from ingest.sql.quoting import quoted, sql_text
from ingest.sql.rejects.rows import DECODE_ID, NO_MISFITS

_SHARD = sql_text(Code.SHARD.value)
_SHARDS = Code.FRAGMENT_INCOMPLETE.value
"""The code of a message that lacks others: it is completed when they come, and decoding it again
brings nothing."""

_GONE = sql_text("; it cannot be decoded again: bronze no longer has its message")


def undecoded(silver: str, rejects: str, *, source: str, code: str | None) -> str:
    """The open rejects of silver, with what the table `rejects` says of them: (id, delivery, code,
    error, attempts, version, done). `done` is true if silver has rows of the message by now."""
    own = f"source = {sql_text(source)}"
    said = "coalesce(r.code, s.why.error_code)"
    where = f"coalesce(r.status, 'open') = 'open' AND {said} <> {sql_text(_SHARDS)}"
    if code is not None:
        where += f" AND {said} = {sql_text(code)}"
    return query(
        # The `id` of silver itself is that of the message.
        rejected=f"SELECT {DECODE_ID} AS reject, {origin()}, min(struct(error_code, error)) AS why "
        f"FROM {silver} WHERE {own} AND kind = 'reject' GROUP BY ALL",
        # A shard is in silver even if the record that it is a part of was rejected.
        decoded=f"SELECT DISTINCT {origin(names=MESSAGE)} FROM {silver} "
        f"WHERE {own} AND kind <> 'reject' "
        f"AND NOT coalesce(array_contains(warnings, {_SHARD}), false)",
        undecoded=f"""SELECT s.reject AS id, {origin("s")}, {said} AS code,
  coalesce(r.error, s.why.error) AS error, coalesce(r.attempts, 0) AS attempts,
  coalesce(r.version, 0) AS version, max(d.offset) IS NOT NULL AS done
FROM rejected s LEFT JOIN {rejects} r ON r.id = s.reject
LEFT JOIN decoded d ON {same("d", "s", MESSAGE)}
WHERE {where} GROUP BY ALL""",
    )


def counted(undecoded: str) -> str:
    """A row: how many rejects there are, and for how many of them silver has rows of the
    message."""
    return f"SELECT count(*), count_if(done) FROM ({undecoded})"


def messages(undecoded: str) -> str:
    """The messages that silver has no rows of."""
    return f"SELECT DISTINCT {origin(names=MESSAGE)} FROM ({undecoded}) WHERE NOT done"


def without_messages(bronze: str, old: str, *, kept: str) -> str:
    """The MERGE that deletes the messages of bronze for which `old` is true, except those of `kept`
    (SQL of their places)."""
    gone = query(
        kept=kept,
        gone=f"SELECT DISTINCT {origin('m', MESSAGE)} FROM {bronze} m "
        f"LEFT ANTI JOIN kept k ON {same('m', 'k', MESSAGE)} WHERE {old}",
    )
    return (
        f"MERGE INTO {bronze} b USING ({gone}) d ON {old} AND {same('b', 'd', MESSAGE)} "
        "WHEN MATCHED THEN DELETE"
    )


def as_rejects(undecoded: str, failed: str, *, source: str, columns: Iterable[str]) -> str:
    """The results as rejects: those that are done are resolved; for the others `failed`, a relation
    of silver's rejects, says why they failed again. If it says nothing of one, bronze has no
    message of it any more."""
    place = origin(names=MESSAGE)
    now = {
        "stage": "'decode'",
        "source": sql_text(source),
        "target": "CAST(NULL AS string)",
        "value": "CAST(NULL AS binary)",
        "misfits": NO_MISFITS,
        "code": "coalesce(f.why.error_code, u.code)",
        "error": "coalesce(f.why.error, "
        f"IF(u.done OR endswith(u.error, {_GONE}), u.error, concat(u.error, {_GONE})))",
        "status": "IF(u.done, 'resolved', 'open')",
        "attempts": "u.attempts + IF(u.done, 0, 1)",
        "at": "current_timestamp()",
        "version": "u.version + 1",
    }
    said = ", ".join(f"{now.get(name, f'u.`{name}`')} AS `{name}`" for name in columns)
    return query(
        undecoded=undecoded,
        reasons=f"SELECT {place}, min_by(struct(error_code, error), `row`) AS why FROM {failed} "
        f"GROUP BY {place}",
        now=f"SELECT {said} FROM undecoded u LEFT JOIN reasons f ON {same('f', 'u', MESSAGE)}",
    )


def dismissed(found: str, rejects: str, *, by: str, why: str, columns: Iterable[str]) -> str:
    """Rejects (`ingest.sql.rejects.listings`) as dismissed ones, with what the table `rejects`
    already has of them."""
    reason = sql_text(f" [dismissed by {by}: {why}]")
    new = {
        "error": f"concat(a.error, {reason})",
        "misfits": f"coalesce(r.misfits, {NO_MISFITS})",
        # The bytes of a message that could not be decoded stand in silver.
        "value": "IF(a.stage = 'decode', NULL, a.value)",
        "status": "'dismissed'",
        "at": "current_timestamp()",
        "version": "coalesce(r.version, 0) + 1",
    }
    said = ", ".join(f"{new.get(name, f'a.{quoted(name)}')} AS {quoted(name)}" for name in columns)
    return query(
        found=found,
        dismissed=f"SELECT {said} FROM found a LEFT JOIN {rejects} r ON r.id = a.id",
    )
