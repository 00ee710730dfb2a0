"""Rejects as `ingest rejects` lists them: messages that silver could not decode, and changes that
gold set aside."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ingest.sql.delivery import origin
from ingest.sql.query import query, select
from ingest.sql.quoting import quoted, quoted_list, sql_text, sql_texts
from ingest.sql.rejects.rows import DECODE_ID

ORDER = f"source, {origin()}, stage, target"
_REPLAYED = ("code", "error", "status", "attempts")
"""The columns in which a replay may differ from silver."""


def of_silver(silver: str, source: str | None) -> str:
    """The messages that could not be decoded, of one source if it is given. A silver that lost its
    checkpoint has a message twice: the last row counts."""
    last = ", ".join(
        f"max_by({name}, batch) AS {called}"
        for name, called in (("error_code", "code"), ("error", "error"), ("value", "value"))
    )
    return (
        f"SELECT {DECODE_ID} AS id, 'decode' AS stage, source, {origin()}, "
        "CAST(NULL AS string) AS target, code, error, value, "
        "'open' AS status, CAST(0 AS bigint) AS attempts "
        f"FROM (SELECT source, {origin()}, {last} FROM {silver} "
        f"WHERE kind = 'reject' AND {_of(source)} GROUP BY source, {origin()})"
    )


def of_gold(rejects: str, source: str | None, *, columns: Sequence[str]) -> str:
    """The changes that gold set aside, of one source if it is given."""
    return select(rejects, f"stage = 'gold' AND {_of(source)}", columns=_names(columns))


def replayed(found: str, rejects: str, *, columns: Sequence[str]) -> str:
    """The messages that could not be decoded, with what replays have since noted of them in the
    table `rejects`; their bytes are in silver."""
    said = ", ".join(
        f"coalesce(r.{quoted(name)}, s.{quoted(name)}) AS {quoted(name)}"
        if name in _REPLAYED
        else f"s.{quoted(name)}"
        for name in columns
    )
    return query(
        found=found,
        replayed=f"SELECT {said} FROM found s LEFT JOIN {rejects} r ON r.id = s.id",
    )


def narrowed(
    parts: Sequence[str],
    *,
    columns: Sequence[str],
    code: str | None,
    status: str | None,
    id_: str | None,
) -> str:
    """The rejects of some relations, narrowed to a code, a status, and an id that begins so, if
    these are given."""
    where = [
        f"{name} = {sql_text(value)}"
        for name, value in (("code", code), ("status", status))
        if value is not None
    ]
    if id_ is not None:
        where.append(f"startswith(id, {sql_text(id_)})")
    every = " UNION ALL ".join(parts if len(parts) == 1 else (f"({part})" for part in parts))
    return select(f"({every})", " AND ".join(where) or "true", columns=_names(columns))


def in_order(rejects: str, *, columns: Sequence[str], limit: int | None, values: bool) -> str:
    """Rejects in order of place, at most so many, with their bytes (`values`) or NULL. People, who
    are not shown the bytes, want the open ones first."""
    value = "`value`" if values else "CAST(NULL AS binary) AS `value`"
    names = ", ".join(value if name == "value" else quoted(name) for name in columns)
    most = f" LIMIT {limit}" if limit is not None else ""
    order = ORDER if values else f"status <> 'open', {ORDER}"
    return f"SELECT {names} FROM ({rejects}) ORDER BY {order}{most}"


def like(rejects: str, id_: str) -> str:
    """A row: how many rejects there are, whether one has the id, and one of their ids."""
    return f"SELECT count(*), max(id = {sql_text(id_)}), min(id) FROM ({rejects})"


def ids_like(rejects: str, beginnings: Collection[str], *, most: int) -> str:
    """The ids that begin in one of these ways, which all have one length; at most so many."""
    length = len(next(iter(beginnings)))
    texts = sql_texts(sorted(beginnings))
    return f"SELECT id FROM ({rejects}) WHERE left(id, {length}) IN ({texts}) LIMIT {most}"


def summary(rejects: str, *, kind: Sequence[str]) -> str:
    """How many rejects there are of each kind, the most first, with the error of one of them."""
    names = ", ".join(kind)
    return (
        f"SELECT {names}, count(*), min_by(error, struct({origin()})) FROM ({rejects}) "
        f"GROUP BY {names} ORDER BY count(*) DESC, {names}"
    )


def _of(source: str | None) -> str:
    return "true" if source is None else f"source = {sql_text(source)}"


def _names(columns: Sequence[str]) -> str:
    return quoted_list(columns)
