"""Events that gold sets aside when it applies a batch, each with its reason."""

from __future__ import annotations

from ingest.codes import Code
from ingest.sql.casts import sql_text
from ingest.sql.delivery import MESSAGE, listed, same
from ingest.sql.projection import Projection, events
from ingest.sql.sequence import place
from ingest.sql.silver import silver_changes
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.targets.rejects import (
    BASELESS,
    CONFLICT,
    NO_MISFITS,
    append,
    as_rejects,
    change_rejects,
    claimed,
    code_and_error,
    present,
)

ORIGIN = f"{listed(names=MESSAGE)}, place AS `row`"
"""SQL of the delivery that a result of `ingest.fold.arrow` is of."""


def placeless(projection: Projection) -> str:
    """SQL of code and error of a change that no value orders."""
    names = ", ".join(spellings[0] for spellings, _ in projection.sequence)
    text = f"expected a value to order the change by ({names}), got NULL, none or a misfit"
    return code_and_error(Code.ORDER_KEY_MISSING, text)


def misfit_rejects(frames: Frames, batch: TableBatch, events: str) -> int:
    """Set aside the events whose key is null or whose values do not fit; how many there are."""
    warehouse = frames.warehouse
    found = warehouse.session.sql(
        _rows(
            batch,
            f"""SELECT {listed()},
  {reason(batch.projection)}, image
FROM ({events}) WHERE op <> 'truncate' AND (key IS NULL OR size(misfits) > 0)""",
            misfits="misfits",
        )
    )
    return append(warehouse, found)


def conflict_rejects(frames: Frames, batch: TableBatch, events: str, *, stored: str) -> int:
    """Set aside events whose key another source table's row holds (27); how many there are."""
    return append(
        frames.warehouse,
        frames.sql(
            _rows(
                batch,
                f"SELECT {listed('e')}, {CONFLICT}, e.image "
                f"FROM ({events}) e JOIN ({stored}) t ON t.key = e.key "
                f"WHERE t._source_table <> e.label",
            )
        ),
    )


def without_claimed(
    frames: Frames, batch: TableBatch, events: str, *, given: str | None = None
) -> str:
    """SQL of the events (`ingest.sql.projection.events`) without those that such a conflict sets
    aside: what gold has not applied no fold applies (34). Those of the keys `given` (SQL) stay."""
    found = (
        claimed(frames.warehouse, batch.projection.source, batch.target) if batch.shared else None
    )
    if found is None:
        return events
    on = same("c", "e")
    if given is None:
        return f"SELECT e.* FROM ({events}) e LEFT ANTI JOIN ({found}) c ON {on}"
    return (
        f"SELECT e.* EXCEPT (given) FROM (SELECT e.*, g.key AS given FROM ({events}) e "
        f"LEFT JOIN ({given}) g ON g.key = e.key) e "
        f"LEFT ANTI JOIN ({found}) c ON e.given IS NULL AND {on}"
    )


def baseless_rejects(frames: Frames, batch: TableBatch, baseless: str) -> int:
    """Set aside partial images without a base, a relation of results of `ingest.fold.arrow`; they
    resolve themselves when it comes."""
    nothing = "CAST(NULL AS map<string,string>) AS image"
    found = _rows(batch, f"SELECT {ORIGIN}, {BASELESS}, {nothing} FROM {baseless}")
    return append(frames.warehouse, frames.sql(found))


def horizon_rejects(frames: Frames, batch: TableBatch) -> int:
    """Set aside changes that history, trimmed above them, can no longer place; how many."""
    beyond = batch.beyond()
    if beyond is None:
        return 0
    text = "expected a change from after the history that was trimmed, got one from before"
    found = frames.sql(
        _rows(
            batch,
            f"SELECT {listed()}, '{Code.LATE_BEYOND_HORIZON.value}' AS code, "
            f"{sql_text(text)} AS error, coalesce(after, before, key) AS image "
            f"FROM ({batch.projection.seen(beyond, as_sent=True)})",
        )
    )
    return append(frames.warehouse, found)


def placeless_rejects(frames: Frames, batch: TableBatch) -> int:
    """Set aside changes without a value in the columns that order the rows; how many there are."""
    where = (
        f"batch > {batch.above} AND batch <= {batch.last} AND ({place(batch.projection)}) IS NULL"
    )
    if not batch.projection.truncates:
        where += " AND op <> 'truncate'"
    tables = (batch.table, *batch.later_names)
    changes = silver_changes(batch.silver, tables, where, renamed=batch.projection.aside)
    return append(
        frames.warehouse,
        frames.sql(
            _rows(
                batch,
                f"SELECT {listed()}, {placeless(batch.projection)}, "
                f"coalesce(after, before) AS image "
                f"FROM ({batch.projection.seen(changes, as_sent=True)})",
            )
        ),
    )


def resolve_rejects(
    frames: Frames,
    batch: TableBatch,
    keys: str,
    *,
    code: Code,
    where: str,
    still: str | None = None,
) -> None:
    """Mark as resolved the rejects with `code` of changes of the relation `keys`, but for those in
    `still`, a relation of results of `ingest.fold.arrow`.

    `where` narrows silver to changes that can have been rejected so.
    """
    warehouse = frames.warehouse
    changes = batch.history(where)
    settled = (
        f"SELECT r.* FROM ({present(warehouse)}) r JOIN ({events(batch.projection, changes)}) e "
        f"ON {same('e', 'r')} JOIN {keys} k ON k.key = e.key "
        f"WHERE r.status = 'open' AND r.code = '{code.value}' "
        f"AND r.target = {sql_text(batch.target)}"
    )
    if still is not None:
        kept = f"SELECT {ORIGIN} FROM {still}"
        settled = f"SELECT s.* FROM ({settled}) s LEFT ANTI JOIN ({kept}) k ON {same('k', 's')}"
    found = frames.sql(f"SELECT DISTINCT id, version FROM ({settled})")
    if not found.isEmpty():
        change_rejects(
            warehouse, f"SELECT DISTINCT id, version, 'resolved' AS status FROM ({settled})"
        )


def _rows(batch: TableBatch, found: str, *, misfits: str = NO_MISFITS) -> str:
    return as_rejects(batch.projection.source, batch.target, found, misfits=misfits)


def reason(projection: Projection) -> str:
    """SQL of code, error and misfits of an event (`ingest.sql.projection.events`) that does not
    fit."""
    null = "key IS NULL"
    return (
        f"IF({null}, '{Code.NULL_KEY.value}', '{Code.TYPE_MISMATCH.value}') AS code, "
        f"IF({null}, {_null_key(projection)}, {_sentence(_misfits(projection))}) AS error, "
        f"IF({null}, {NO_MISFITS}, {_misfits(projection)}) AS misfits"
    )


def _null_key(projection: Projection) -> str:
    """SQL of the sentence on an event without a key: what its images have for each key column."""
    got = [
        f"concat({sql_text(name + ' ')}, "
        f"coalesce(left(coalesce(image, before)[{sql_text(name)}], 60), 'NULL or none'))"
        for name in projection.keys
        if name != projection.shard
    ]
    text = sql_text("expected a value that fits in every key column, got ")
    return f"concat({text}, concat_ws(', ', {', '.join(got)}))" if got else text


def _misfits(projection: Projection) -> str:
    """SQL of what REJECTS has of the event's misfits."""
    types = ", ".join(
        f"{sql_text(name)}, {sql_text(type_)}" for name, type_ in projection.columns.items()
    )
    each = f"'column', m, 'expected', map({types})[m], 'value', left(image[m], 200)"
    return f"transform(misfits, m -> named_struct({each}))"


def _sentence(misfits: str) -> str:
    """SQL of the sentence that names each misfit, what was expected and what came."""
    each = (
        "concat('column ', m.column, ': expected ', m.expected, ', got ', "
        "coalesce(m.value, 'NULL'))"
    )
    return f"array_join(transform({misfits}, m -> {each}), '; ')"
