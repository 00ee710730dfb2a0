"""The changes that a fold of all history leaves out, compared with those that `gold._rejects` has.

A relation of changes that are left out has the columns of reasons (`ingest.sql.rejects.rows`) and
`voided`: a truncate has since taken what the change had brought.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingest.codes import Code
from ingest.sql.delivery import origin
from ingest.sql.projection import Projection
from ingest.sql.query import query
from ingest.sql.quoting import sql_texts
from ingest.sql.rejects.reasons import reason
from ingest.sql.rejects.rows import CONFLICT, NO_MISFITS, as_rejects, of_gold

_COLUMNS = {
    **{"epoch": "0L", "topic": "CAST(NULL AS string)", "`partition`": "0", "offset": "0L"},
    **{"`row`": "0", "code": "''", "error": "''", "misfits": NO_MISFITS},
    **{"image": "CAST(NULL AS map<string,string>)", "voided": "false"},
}
"""Each column, with a value of its type."""


def unfit(projection: Projection, events: str, *, voided: str) -> str:
    """The events whose key is NULL or whose values do not fit; `voided`: SQL of that column."""
    return (
        f"SELECT {origin()}, {reason(projection)}, image, {voided} AS voided "
        f"FROM ({events}) WHERE key IS NULL OR size(misfits) > 0"
    )


def not_voided(reasons: str) -> str:
    """Reasons whose changes no truncate has taken anything of."""
    return f"SELECT *, false AS voided FROM ({reasons})"


def lost(events: str, held: str, *, voided: str) -> str:
    """For each key that a row of another source table holds (`held`: the `key` of such rows): the
    newest event that fits, if it leaves a row under that key. `voided`: SQL that is true for an
    event if a truncate has taken what it brought."""
    each = f"struct({origin()}, image) AS e"
    return query(
        events=events,
        **touched_keys(each, voided=voided),
        newest="SELECT key, max_by(struct(e, leaves), pos) AS n FROM touched GROUP BY key",
        left="SELECT key, n.e AS e FROM newest WHERE n.leaves",
        held=held,
        lost=f"SELECT {origin('n.e')}, {CONFLICT}, {NO_MISFITS} AS misfits, n.e.image, "
        "false AS voided FROM left n JOIN held o ON o.key = n.key",
    )


def touched_keys(*columns: str, voided: str) -> dict[str, str]:
    """Relations for a query that has `events`. The last of them, `touched`, has each `key` that an
    event which fits gives its row or takes from it, with the event's `pos` and `columns`, and
    whether it `leaves` a row under that key. `voided`: see `lost`."""
    each = ", ".join(("pos", *columns))
    return {
        "fitting": "SELECT * FROM events WHERE key IS NOT NULL AND size(misfits) = 0",
        "touched": f"SELECT key, {each}, op <> 'delete' AND NOT ({voided}) AS leaves FROM fitting "
        f"UNION ALL SELECT key_before, {each}, false FROM fitting WHERE key_before <> key",
    }


def as_rows(parts: Sequence[str], *, source: str, target: str) -> str:
    """The changes that are left out, made of `parts`, as rejects with `voided`, each once."""
    names = ", ".join(_COLUMNS)
    nothing = ", ".join(f"{value} AS {name}" for name, value in _COLUMNS.items())
    every = " UNION ALL ".join(f"SELECT {names} FROM ({part})" for part in parts)
    return query(
        left_out=every or f"SELECT {nothing} WHERE false",
        rejects=as_rejects("SELECT * FROM left_out", source=source, target=target, more=", voided"),
        by_id="SELECT min_by(struct(*), struct(voided, code)) AS r FROM rejects GROUP BY id",
        once="SELECT r.* FROM by_id",
    )


def enter(rejects: str, found: str, *, at: str, misfits: bool) -> str:
    """The MERGE that enters the changes that are left out (`found`, a relation of `as_rows`) in the
    table `rejects`, or notes there that they were still left out at the moment `at`. `misfits`:
    together with their misfits."""
    new = "misfits = s.misfits, value = s.value" if misfits else "misfits = NULL"
    return f"""MERGE INTO {rejects} r
USING (SELECT * EXCEPT (at), {at} AS at FROM {found}) s ON r.id = s.id
WHEN MATCHED AND r.status = 'resolved' AND NOT s.voided THEN UPDATE SET
  status = 'open', code = s.code, error = s.error, {new}, at = s.at, version = r.version + 1
WHEN MATCHED AND r.status = 'open' AND NOT s.voided AND r.code <> s.code
  AND r.code <> '{Code.SHARD_KEY_CONFLICT.value}' THEN UPDATE SET
  code = s.code, error = s.error, {new}, at = s.at, version = r.version + 1
WHEN MATCHED AND r.status = 'open' THEN UPDATE SET at = s.at, version = r.version + 1
WHEN NOT MATCHED AND NOT s.voided THEN INSERT *"""


def noted_at(rejects: str, *, source: str, target: str, at: str) -> str:
    """How many open rejects of a target, in the table `rejects`, were noted at a moment."""
    return (
        f"SELECT count(*) FROM {rejects} "
        f"WHERE {of_gold(source, target)} AND status = 'open' AND at = {at}"
    )


def resolve(
    rejects: str, *, source: str, target: str, noted_at: str, now: str, but: Sequence[str]
) -> str:
    """The UPDATE that resolves a target's open rejects in the table `rejects`, except those
    `noted_at` a moment and those of the codes `but`. Another moment may be of another machine,
    whose clock is ahead."""
    return (
        f"UPDATE {rejects} SET status = 'resolved', version = version + 1, at = {now} "
        f"WHERE {of_gold(source, target)} AND status = 'open' AND at <> {noted_at} "
        f"AND code NOT IN ({sql_texts(but)})"
    )


def counted(found: str, rejects: str) -> str:
    """A row: how many changes are left out (`found`, SQL of `as_rows`), and how many of them have
    no open reject in the table `rejects`."""
    return query(
        found=found,
        counted="SELECT count(*), count_if(coalesce(r.status, 'resolved') = 'resolved') "
        f"FROM found s LEFT JOIN {rejects} r ON r.id = s.id WHERE NOT s.voided",
    )
