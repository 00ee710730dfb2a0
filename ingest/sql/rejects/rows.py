"""Rows of `gold._rejects` (`pipelines.targets.rejects.REJECTS`): which they are, and how changes
become them.

A relation of reasons has the columns of a delivery (`ingest.sql.delivery`), `code`, `error`,
`misfits` and `image`, the map of names and texts that the reject keeps.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingest.codes import Code
from ingest.position import source_part
from ingest.sql.delivery import origin, same
from ingest.sql.projection import LEAVES_KEY, NAMES_OLD_KEY, Projection
from ingest.sql.query import query, select
from ingest.sql.quoting import equal, sql_text, sql_texts

MISFITS = "array<struct<column:string,expected:string,value:string>>"
"""The misfits of a `type_mismatch`: each column whose value did not fit, its type, and the text
that came."""
MISFIT = (Code.TYPE_MISMATCH, Code.NULL_KEY)
"""The reasons to set an event aside that are found when its values are typed."""
_PLACELESS = (Code.NO_BASE_IMAGE, Code.ORDER_KEY_MISSING, Code.LATE_BEYOND_HORIZON)
"""The reasons to set an event aside that has no place among the events of its row, or no row."""
DISMISSIBLE = (*MISFIT, *_PLACELESS)
"""The reasons whose rejects no fold applies once they are dismissed. A table that had no key is
made of all its changes once it has one."""
NO_MISFITS = f"CAST(NULL AS {MISFITS})"
_SIZE = (
    "coalesce(octet_length(value), 0) + coalesce(octet_length(error), 0)"
    " + coalesce(octet_length(to_json(misfits)), 0)"
)
"""The bytes of a reject: of its change, whose key is no longer than that, and of its sentences."""
DECODE_ID = f"sha1(concat_ws('/', source, {origin()}))"
"""The id of a reject that stands in silver."""


def code_and_error(code: Code, text: str) -> str:
    """The columns `code` and `error`."""
    return f"'{code.value}' AS code, {sql_text(text)} AS error"


CONFLICT_ERROR = "expected a key that one source table has alone, got one that another's row holds"
BASELESS_ERROR = (
    "expected the row that a partial image changes, got none; it is tried again when it comes"
)
"""The sentence of rejects without a base, whether they are found in a batch or tried again."""
CONFLICT = code_and_error(Code.SHARD_KEY_CONFLICT, CONFLICT_ERROR)
BASELESS = code_and_error(Code.NO_BASE_IMAGE, BASELESS_ERROR)
"""The columns `code` and `error` of these, as in `CONFLICT`."""


def as_rejects(reasons: str, *, source: str, target: str, more: str = "") -> str:
    """Reasons as rejects, open and new; `more`: further columns, each after a comma."""
    texts = f"{sql_text(source)}, {origin()}, {sql_text(target)}"
    return f"""SELECT sha1(concat_ws('/', {texts})) AS id, 'gold' AS stage,
  {sql_text(source)} AS source, topic, `partition`, offset, `row`, {sql_text(target)} AS target,
  code, error, misfits, encode(to_json(image), 'utf-8') AS value, 'open' AS status,
  CAST(0 AS bigint) AS attempts, current_timestamp() AS at,
  CAST(1 AS bigint) AS version, epoch{more}
FROM ({reasons})"""


def is_open(source: str, target: str | None = None, code: str | None = None) -> str:
    """True for gold's open rejects of a source, and of a target and a code if these are given."""
    return equal(status="open", stage="gold", source=source, target=target, code=code)


def of_gold(source: str, target: str | None) -> str:
    """True for gold's rejects of a source, and of a target if it is given."""
    return equal(stage="gold", source=source, target=target)


def misfits_in(columns: Iterable[str]) -> str:
    """True for rejects with a misfit in one of the columns, whose names are matched without
    case."""
    listed_names = sql_texts(name.lower() for name in columns)
    return f"coalesce(exists(misfits, m -> lower(m.column) IN ({listed_names})), false)"


def claimed(rejects: str, *, source: str, target: str) -> str:
    """The open rejects, in the table `rejects`, of changes whose key is held by a row of another
    source table."""
    return select(rejects, is_open(source, target, Code.SHARD_KEY_CONFLICT.value))


def unresolved(rejects: str) -> str:
    """What rejects of gold the table `rejects` has that are not resolved: (source, target, code,
    status)."""
    return (
        f"SELECT DISTINCT source, target, code, status FROM {rejects} "
        f"WHERE {equal(stage='gold')} AND status <> 'resolved'"
    )


def left_aside(rejects: str, *, source: str, target: str, shared: bool) -> str:
    """The rejects, in the table `rejects`, of changes that no fold applies, even if what they
    lacked has come by now: those that somebody dismissed and, if the target is `shared`, those that
    are `claimed` and not resolved."""
    either = f"status = 'dismissed' AND code IN ({sql_texts(code.value for code in DISMISSIBLE)})"
    if shared:
        either = f"({either} OR status <> 'resolved' AND code = '{Code.SHARD_KEY_CONFLICT.value}')"
    return f"SELECT * FROM {rejects} WHERE {of_gold(source, target)} AND {either}"


def not_among(set_aside: str, *, silver: str, source: str) -> str:
    """True for the rows of a source, in the table `silver`, that are not `set_aside`. The delete of
    a key change in two messages is set aside together with its insert (semantics.md, 34)."""
    place = f"concat_ws('/', {origin()})"
    inserts = query(
        aside=set_aside,
        inserts=f"SELECT {_half('s.', 'key_before')} FROM {silver} s JOIN aside a "
        f"ON {same('s', 'a')} WHERE s.source = {sql_text(source)} AND {NAMES_OLD_KEY}",
    )
    return (
        f"{place} NOT IN (SELECT {place} FROM ({set_aside})) "
        f"AND NOT ({LEAVES_KEY} AND {_half('', 'key')} IN ({inserts}))"
    )


def _half(of: str, key: str) -> str:
    """SQL of what the two messages of a change of the key have in common; `key` is the old key, and
    `of` an alias of silver, with its dot."""
    names = ", ".join(f"{of}{name}" for name in ("db", "schema", "`table`"))
    return f"to_json(struct({names}, {source_part(of + 'pos')} AS part, {of}{key} AS key))"


def without_insert(projection: Projection, deletes: str, inserts: str) -> str:
    """Deletes of key changes in two messages, silver's rows as they read today, whose inserts are
    not among `inserts`. Those are all inserts there ever were; only the parts of files that have
    changes of the deletes' times are read, since both messages name the same time."""
    return query(
        deletes=deletes,
        # A join instead of NOT IN, for which Spark would bring all inserts to the driver.
        inserts=f"SELECT {_event_of(projection, before=True)} AS _event FROM ({inserts}) "
        "WHERE event_time IS NULL OR event_time BETWEEN "
        "(SELECT min(event_time) FROM deletes) AND (SELECT max(event_time) FROM deletes)",
        without="SELECT * FROM deletes LEFT ANTI JOIN inserts "
        f"ON _event = {_event_of(projection, before=False)}",
    )


def _event_of(projection: Projection, *, before: bool) -> str:
    """SQL of what the two messages of a change of the key have in common: the old key, and what the
    source says of the one event that they are."""
    names = "epoch, db, schema, `table`, format, scn, event_time, tx_id"
    place = "" if projection.by_arrival else f", {source_part('pos')} AS place"
    return f"to_json(struct({names}{place}, {projection.key_text(before=before)} AS key))"


def targets_with(rejects: str, *, source: str, code: str | None) -> str:
    """The targets with open rejects, in the table `rejects`, of a source, and of a code if it is
    given: `target`."""
    return f"SELECT DISTINCT target FROM {rejects} WHERE {is_open(source, code=code)}"


def page_of(
    rejects: str,
    *,
    source: str,
    target: str,
    code: str | None,
    columns: str,
    after: str,
    most: int,
    bytes_most: int,
) -> str:
    """The `columns` of open rejects in the table `rejects`, in the order of their ids, beginning
    behind the id `after`: at most so many, and none after their changes and sentences have reached
    so many bytes."""
    where = is_open(source, target, code)
    return query(
        following=f"SELECT {columns}, {_SIZE} AS size FROM {rejects} "
        f"WHERE {where} AND id > {sql_text(after)} ORDER BY id LIMIT {most}",
        measured="SELECT *, sum(size) OVER (PARTITION BY target ORDER BY id) - size AS earlier "
        "FROM following",
        page=f"SELECT {columns} FROM measured WHERE earlier < {bytes_most} ORDER BY id",
    )
