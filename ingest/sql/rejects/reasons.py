"""Why a change is set aside: the relations of reasons of `ingest.sql.rejects.rows`."""

from __future__ import annotations

from ingest.codes import Code
from ingest.sql.delivery import MESSAGE, origin
from ingest.sql.projection import Projection
from ingest.sql.quoting import sql_text, sql_texts
from ingest.sql.rejects.rows import BASELESS, CONFLICT, NO_MISFITS, code_and_error

ORIGIN = f"{origin(names=MESSAGE)}, place AS `row`"
"""The delivery that a result of `ingest.fold.arrow` belongs to."""
_NO_IMAGE = "CAST(NULL AS map<string,string>) AS image"


def unfit(projection: Projection, events: str) -> str:
    """The events whose key is NULL or whose values do not fit."""
    return f"""SELECT {origin()}, {reason(projection)}, image
FROM ({events}) WHERE op <> 'truncate' AND (key IS NULL OR size(misfits) > 0)"""


def of_others(events: str, held: str) -> str:
    """The events whose key is that of a row that another source table brought. `held` has such
    rows' `key` and `_source_table`, and may have other rows too."""
    return (
        f"SELECT {origin('e')}, {CONFLICT}, {NO_MISFITS} AS misfits, e.image "
        f"FROM ({events}) e JOIN ({held}) t ON t.key = e.key WHERE t._source_table <> e.label"
    )


def baseless(results: str) -> str:
    """The partial images without a base, given as a relation of results."""
    return f"SELECT {ORIGIN}, {BASELESS}, {NO_MISFITS} AS misfits, {_NO_IMAGE} FROM {results}"


def beyond_horizon(changes: str) -> str:
    """The changes (silver rows), each set aside because it is from before the history that was
    trimmed."""
    text = "expected a change from after the history that was trimmed, got one from before"
    why = code_and_error(Code.LATE_BEYOND_HORIZON, text)
    image = "coalesce(after, before, key) AS image"
    return f"SELECT {origin()}, {why}, {NO_MISFITS} AS misfits, {image} FROM ({changes})"


def missing_order_key(projection: Projection, changes: str) -> str:
    """The changes (silver rows), each set aside because it has no value to be ordered by."""
    names = ", ".join(column.spellings[0] for column in projection.sequence)
    text = f"expected a value to order the change by ({names}), got NULL, none or a misfit"
    whole = f"{text}; a delete stands where its row did, so its source has to log rows whole before"
    whole += " they go (PostgreSQL: REPLICA IDENTITY FULL)"
    error = f"IF(op = 'delete', {sql_text(whole)}, {sql_text(text)}) AS error"
    return _with_image(changes, f"'{Code.ORDER_KEY_MISSING.value}' AS code, {error}")


def without_insert(changes: str) -> str:
    """The deletes (silver rows) of key changes in two messages whose inserts have not come."""
    text = (
        "expected the insert of this change of the key, by which both stand in the table's order, "
        "got none yet; the row keeps its key until it comes"
    )
    return _with_image(changes, code_and_error(Code.ORDER_KEY_MISSING, text))


def keyless(changes: str) -> str:
    """The changes (silver rows) of a table whose key columns are named nowhere."""
    text = "expected key columns from the YAML, the message or the Kafka key, got none; set keys"
    return _with_image(changes, code_and_error(Code.NO_KEY, text))


def _with_image(changes: str, why: str) -> str:
    image = "coalesce(after, before) AS image"
    return f"SELECT {origin()}, {why}, {NO_MISFITS} AS misfits, {image} FROM ({changes})"


def reason(projection: Projection) -> str:
    """The columns `code`, `error` and `misfits` of an event that does not fit."""
    null = "key IS NULL"
    if projection.keys:
        # A value that does not fit is no key either, and the misfit says more.
        null += f" AND NOT arrays_overlap(misfits, array({sql_texts(projection.keys)}))"
    return (
        f"IF({null}, '{Code.NULL_KEY.value}', '{Code.TYPE_MISMATCH.value}') AS code, "
        f"IF({null}, {_null_key(projection)}, {_sentence(_misfits(projection))}) AS error, "
        f"IF({null}, {NO_MISFITS}, {_misfits(projection)}) AS misfits"
    )


def _null_key(projection: Projection) -> str:
    """The sentence on an event without a key: which values its images have for the key columns."""
    got = [
        f"concat({sql_text(name + ' ')}, "
        f"coalesce(left(coalesce(image, before)[{sql_text(name)}], 60), 'NULL or none'))"
        for name in projection.keys
        if name != projection.shard
    ]
    text = sql_text("expected a value that fits in every key column, got ")
    return f"concat({text}, concat_ws(', ', {', '.join(got)}))" if got else text


def _misfits(projection: Projection) -> str:
    """The event's misfits as a reject has them."""
    types = ", ".join(
        f"{sql_text(name)}, {sql_text(type_)}" for name, type_ in projection.columns.items()
    )
    each = f"'column', m, 'expected', map({types})[m], 'value', left(image[m], 200)"
    return f"transform(misfits, m -> named_struct({each}))"


def _sentence(misfits: str) -> str:
    """The sentence that names each misfit, what was expected and what came."""
    each = (
        "concat('column ', m.column, ': expected ', m.expected, ', got ', "
        "coalesce(m.value, 'NULL'))"
    )
    return f"array_join(transform({misfits}, m -> {each}), '; ')"
