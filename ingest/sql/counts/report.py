"""The figures of a report beside those of status."""

from __future__ import annotations

from ingest.sql.delivery import origin
from ingest.sql.query import query
from ingest.sql.quoting import sql_text


def newest(bronze: str) -> str:
    """When the newest message came: (source, newest)."""
    return f"SELECT source, max(ingested_at) AS newest FROM {bronze} GROUP BY source"


def kinds(silver: str) -> str:
    """How many rows of each kind there are, the most first: (kind, rows)."""
    return f"SELECT kind, count(*) AS rows FROM {silver} GROUP BY kind ORDER BY rows DESC, kind"


def runs(runs: str, *, most: int) -> str:
    """The newest runs, the newest first."""
    return f"SELECT * FROM {runs} ORDER BY ended DESC, part DESC LIMIT {most}"


def by_hour(progress: str, *, but: str, most: int) -> str:
    """What gold applied in each of the newest hours: (hour, events, late, stale, keys_refolded,
    rejected)."""
    return query(
        applied=_applied(progress, but=but),
        hours="SELECT date_trunc('hour', at) AS hour, sum(events) AS events, sum(late) AS late, "
        "sum(stale) AS stale, sum(keys_refolded) AS keys_refolded, sum(rejected) AS rejected "
        f"FROM applied GROUP BY 1 ORDER BY 1 DESC LIMIT {most}",
    )


def slowest(progress: str, *, but: str, most: int) -> str:
    """The targets that took longest: (target, batches, events, seconds, median, longest)."""
    return query(
        applied=_applied(progress, but=but),
        slowest="SELECT target, count(*) AS batches, sum(events) AS events, "
        "sum(seconds) AS seconds, percentile(seconds, 0.5) AS median, max(seconds) AS longest "
        f"FROM applied GROUP BY target ORDER BY 4 DESC, target LIMIT {most}",
    )


def late(progress: str, *, but: str, most: int) -> str:
    """The targets that changes came late to, the most first: (target, late, stale,
    keys_refolded)."""
    return query(
        applied=_applied(progress, but=but),
        summed="SELECT target, sum(late) AS late, sum(stale) AS stale, "
        "sum(keys_refolded) AS keys_refolded FROM applied GROUP BY target",
        late="SELECT * FROM summed WHERE late + stale > 0 "
        f"ORDER BY late + stale DESC, target LIMIT {most}",
    )


def _applied(progress: str, *, but: str) -> str:
    """What gold did, a row for each run of each target except `but`."""
    own = f"target <> {sql_text(but)} AND NOT contains(target, ':')"
    return f"SELECT * FROM {progress} WHERE {own} AND events > 0"


def rejects(relation: str, *, most: int, example: int) -> str:
    """Rejects by code, the most first, each with an example of at most so many bytes: (code, stage,
    source, target, rejects, example)."""
    kind = "code, stage, source, target"
    shown = f"id, error, substring(value, 1, {example}) AS value, octet_length(value) AS bytes"
    return (
        f"SELECT {kind}, count(*) AS rejects, min_by(struct({shown}), struct({origin()})) "
        f"AS example FROM ({relation}) GROUP BY {kind} ORDER BY rejects DESC, 1, 2, 3, 4 "
        f"LIMIT {most}"
    )
