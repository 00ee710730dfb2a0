"""Changes that gold set aside, typed again with the target's columns of today."""

from __future__ import annotations

from ingest.codes import Code
from ingest.sql.delivery import origin, same
from ingest.sql.projection import Projection
from ingest.sql.query import query, select
from ingest.sql.quoting import sql_text
from ingest.sql.rejects.reasons import ORIGIN, reason
from ingest.sql.rejects.rows import BASELESS_ERROR, NO_MISFITS, is_open

_SAID = {"reject": "id", "had": "version"} | {
    f"was_{name}": name for name in ("code", "error", "misfits")
}
"""What a reject says of its change, under the names that it has beside the change."""
_PARTS = ("^[+-]?0*([0-9]*)", "[.]([0-9]*?)0*$")
"""A number's digits before the point, and behind it."""
_NUMBER = "^[+-]?[0-9]+([.][0-9]+)?$"


def typed_again(projection: Projection, events: str, wanted: str, *, rejects: bool = False) -> str:
    """The events whose deliveries the relation `wanted` has, and whether each `fits`: (delivery,
    key, key_before, fits, code, error, misfits). If `wanted` is a relation of `rejects`, what it
    says of each comes first: (reject, had, was_code, was_error, was_misfits)."""
    said = _SAID if rejects else {}
    keyed = "key IS NOT NULL AND " if projection.keys else ""
    beside = "".join(f", o.{name} AS {alias}" for alias, name in said.items())
    return query(
        events=events,
        wanted=wanted,
        found=f"SELECT e.*{beside} FROM events e JOIN wanted o ON {same('o', 'e')}",
        verdicts=f"SELECT {''.join(f'{alias}, ' for alias in said)}{origin()}, key, key_before, "
        f"op = 'truncate' OR ({keyed}size(misfits) = 0) AS fits, {reason(projection)} FROM found",
    )


def as_changes(verdicts: str, *, baseless: str | None = None) -> str:
    """Verdicts on rejects as updates of them: a reject whose change fits is resolved; one that does
    not fit, or is among `baseless` (a relation of results without a base), says why."""
    found = {"verdicts": verdicts}
    if baseless is None:
        found["told"] = "SELECT *, false AS waits FROM verdicts"
    else:
        found["baseless"] = f"SELECT DISTINCT {ORIGIN} FROM {baseless}"
        found["told"] = (
            "SELECT v.*, b.offset IS NOT NULL AS waits FROM verdicts v "
            f"LEFT JOIN baseless b ON {same('b', 'v')}"
        )
    return query(
        **found,
        changed="SELECT DISTINCT reject AS id, had AS version, "
        "IF(fits AND NOT waits, 'resolved', 'open') AS status, "
        f"CASE WHEN NOT fits THEN code WHEN waits THEN '{Code.NO_BASE_IMAGE.value}' "
        "ELSE was_code END AS code, "
        f"CASE WHEN NOT fits THEN error WHEN waits THEN {sql_text(BASELESS_ERROR)} "
        "ELSE was_error END AS error, "
        f"CASE WHEN NOT fits THEN misfits WHEN waits THEN {NO_MISFITS} "
        "ELSE was_misfits END AS misfits FROM told",
    )


def numbers_that_ask_most(rejects: str, *, source: str, target: str) -> str:
    """By column of a target, the extremes of the numbers among the misfits of its open rejects in
    the table `rejects`: the longest before and behind the point, the smallest and the largest, in a
    list."""
    whole, behind = (f"length(regexp_extract(m.value, '{part}', 1))" for part in _PARTS)
    size = "try_cast(m.value AS decimal(38,0))"
    most = (
        f"max_by(m.value, {whole}), max_by(m.value, {behind}), "
        f"min_by(m.value, {size}), max_by(m.value, {size})"
    )
    return query(
        waiting=select(rejects, is_open(source, target, Code.TYPE_MISMATCH.value)),
        each="SELECT explode(misfits) AS m FROM waiting",
        numbers=f"SELECT m.column, array({most}) FROM each WHERE m.value RLIKE '{_NUMBER}' "
        "AND m.value NOT RLIKE '[^0-9.+-]' GROUP BY m.column",
    )
