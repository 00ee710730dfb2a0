"""`gold._rejects`: events that gold sets aside, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.casts import sql_text
from ingest.codes import Code
from ingest.shape import Shape, events
from pipelines.key_history import array_of
from pipelines.tables import Warehouse
from pipelines.upserts import add, upsert
from pipelines.work import Work

REJECTS = (
    ("id", "string"),
    ("stage", "string"),
    ("source", "string"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("row", "int"),
    ("target", "string"),
    ("code", "string"),
    ("error", "string"),
    ("value", "binary"),
    ("status", "string"),
    ("attempts", "bigint"),
    ("at", "timestamp"),
    ("version", "bigint"),
)
DECODE_ID = "sha1(concat_ws('/', source, topic, `partition`, offset, `row`))"
"""SQL of the id of a reject that stands in silver."""
_ID = "sha1(concat_ws('/', {source}, topic, `partition`, offset, `row`, {target}))"


def create_rejects(warehouse: Warehouse) -> None:
    """`gold._rejects`."""
    warehouse.create("gold", "_rejects", REJECTS)


def misfit_rejects(work: Work, events: str) -> int:
    """Set aside the events whose key is null or whose values do not fit; how many there are."""
    warehouse = work.warehouse
    found = warehouse.session.sql(
        _rows(
            work,
            f"""SELECT topic, `partition`, offset, `row`,
  {reason(work.shape)}, image
FROM ({events}) WHERE op <> 'truncate' AND (key IS NULL OR size(misfits) > 0)""",
        )
    )
    return _append(warehouse, found)


def conflict_rejects(work: Work, events: str, stored: str) -> int:
    """Set aside events whose key another source table's row holds (27); how many there are."""
    text = "expected a key that one source table has alone, got one that another's row holds"
    return _append(
        work.warehouse,
        work.warehouse.session.sql(
            _rows(
                work,
                f"SELECT e.topic, e.`partition`, e.offset, e.`row`, "
                f"'{Code.SHARD_KEY_CONFLICT.value}' AS code, {sql_text(text)} AS error, e.image "
                f"FROM ({events}) e JOIN ({stored}) t ON t.key = e.key "
                f"WHERE t._source_table <> e.label",
            )
        ),
    )


def unclaimed(warehouse: Warehouse, source: str, target: str) -> str:
    """SQL that is true for silver's rows that no such conflict sets aside now."""
    place = "concat_ws('/', topic, `partition`, offset, `row`)"
    if not warehouse.exists("gold", "_rejects"):
        return "true"
    return (
        f"{place} NOT IN (SELECT {place} FROM ({present(warehouse)}) WHERE status = 'open' "
        f"AND code = '{Code.SHARD_KEY_CONFLICT.value}' AND source = {sql_text(source)} "
        f"AND target = {sql_text(target)})"
    )


def baseless_rejects(work: Work, baseless: pa.Table) -> int:
    """Set aside partial images without a base; they resolve themselves when it comes."""
    if not baseless.num_rows:
        return 0
    origins = baseless.select(["topic", "partition", "offset", "place"]).rename_columns(
        ["topic", "partition", "offset", "row"]
    )
    warehouse = work.warehouse
    text = (
        "expected the row that a partial image changes, got none; it is tried again when it comes"
    )
    found = warehouse.session.sql(
        _rows(
            work,
            f"SELECT *, '{Code.NO_BASE_IMAGE.value}' AS code, {sql_text(text)} AS error, "
            f"CAST(NULL AS map<string,string>) AS image FROM {work.view(origins)}",
        )
    )
    return _append(warehouse, found)


def horizon_rejects(work: Work) -> int:
    """Set aside changes that history, trimmed above them, can no longer place; how many."""
    beyond = work.beyond()
    if beyond is None:
        return 0
    text = "expected a change from after the history that was trimmed, got one from before"
    found = work.warehouse.session.sql(
        _rows(
            work,
            f"SELECT topic, `partition`, offset, `row`, '{Code.LATE_BEYOND_HORIZON.value}' AS code,"
            f" {sql_text(text)} AS error, coalesce(after, before, key) AS image FROM ({beyond})",
        )
    )
    return _append(work.warehouse, found)


def no_key_rejects(warehouse: Warehouse, source: str, target: str, changes: str) -> int:
    """Set aside every change of a table whose key columns nobody names."""
    text = "expected key columns from the YAML, the message or the Kafka key, got none; set keys"
    found = warehouse.session.sql(
        _selected(
            source,
            target,
            f"SELECT topic, `partition`, offset, `row`, '{Code.NO_KEY.value}' AS code, "
            f"{sql_text(text)} AS error, coalesce(after, before) AS image FROM ({changes})",
        )
    )
    return _append(warehouse, found)


def placeless_rejects(work: Work) -> int:
    """Set aside changes without a value in the columns that order the rows; how many there are."""
    from ingest.sequence import place
    from pipelines.work import silver_changes

    names = ", ".join(spellings[0] for spellings, _ in work.shape.sequence)
    text = f"expected a value to order the change by ({names}), got NULL, none or a misfit"
    where = f"batch > {work.above} AND batch <= {work.last} AND ({place(work.shape)}) IS NULL"
    if not work.shape.truncates:
        where += " AND op <> 'truncate'"
    return _append(
        work.warehouse,
        work.warehouse.session.sql(
            _rows(
                work,
                f"SELECT topic, `partition`, offset, `row`, '{Code.ORDER_KEY_MISSING.value}' AS "
                f"code, {sql_text(text)} AS error, coalesce(after, before) AS image "
                f"FROM ({silver_changes(work.warehouse, (work.table, *work.also), where)})",
            )
        ),
    )


def settle(
    work: Work,
    keys: list[tuple[str, ...]],
    *,
    code: Code,
    where: str,
    still: pa.Table | None = None,
) -> None:
    """Mark as resolved the rejects with `code` of changes of `keys`, but for those in `still`.

    `where` narrows silver to changes that can have been rejected so.
    """
    place = ("topic", "partition", "offset", "place")
    again = still.select(place).to_pylist() if still is not None else []
    kept = {tuple(row[name] for name in place) for row in again}
    warehouse, session = work.warehouse, work.warehouse.session
    named = work.view(pa.table({"key": array_of(keys)}))
    changes = work.history(where)
    opened = session.sql(
        f"""SELECT r.* FROM ({present(warehouse)}) r
JOIN ({events(work.shape, changes)}) e
  ON e.topic = r.topic AND e.`partition` = r.`partition` AND e.offset = r.offset
    AND e.`row` = r.`row`
JOIN {named} k ON k.key = e.key
WHERE r.status = 'open' AND r.code = '{code.value}'
  AND r.target = {sql_text(work.target)}"""
    ).collect()
    settled = [
        {**row.asDict(), "status": "resolved", "version": row["version"] + 1}
        for row in opened
        if (row["topic"], row["partition"], row["offset"], row["row"]) not in kept
    ]
    log(warehouse, settled)


def log(warehouse: Warehouse, versions: Sequence[Mapping[str, Any]]) -> None:
    """Write rejects as they are now, each with all columns."""
    if versions:
        create_rejects(warehouse)
        rows = [tuple(row[name] for name, _ in REJECTS) for row in versions]
        upsert(warehouse, "gold", "_rejects", REJECTS, rows)


def present(warehouse: Warehouse) -> str:
    """SQL of the rejects as they stand."""
    return f"SELECT * FROM {warehouse.name('gold', '_rejects')}"


def _rows(work: Work, found: str) -> str:
    return _selected(work.shape.source, work.target, found)


def _selected(source: str, target: str, found: str) -> str:
    named = _ID.format(source=sql_text(source), target=sql_text(target))
    return f"""SELECT {named} AS id, 'gold' AS stage, {sql_text(source)} AS source, topic,
  `partition`, offset, `row`, {sql_text(target)} AS target, code, error,
  encode(to_json(image), 'utf-8') AS value, 'open' AS status,
  CAST(0 AS bigint) AS attempts, current_timestamp() AS at,
  CAST(1 AS bigint) AS version
FROM ({found})"""


def _append(warehouse: Warehouse, found: object) -> int:
    from pyspark.sql import DataFrame

    assert isinstance(found, DataFrame)
    create_rejects(warehouse)
    known = warehouse.read("gold", "_rejects").selectExpr("id", "status AS was", "version AS had")
    aside = found.dropDuplicates(["id"]).join(known, "id", "left")
    rows = aside.where("was IS NULL OR was = 'resolved'").toArrow()
    fresh = rows.filter(pc.is_null(rows["was"])).select([name for name, _ in REJECTS])
    if fresh.num_rows:
        add(warehouse, "gold", "_rejects", warehouse.session.createDataFrame(fresh))
    # What was resolved once, and is set aside again by what came since, is open again.
    again = rows.filter(pc.is_valid(rows["was"])).to_pylist()
    log(warehouse, [{**row, "version": row["had"] + 1} for row in again])
    return int(rows.num_rows)


def reason(shape: Shape) -> str:
    """SQL of code and error of an event (`ingest.shape.events`) that does not fit."""
    return (
        f"IF(key IS NULL, '{Code.NULL_KEY.value}', '{Code.TYPE_MISMATCH.value}') AS code, "
        f"IF(key IS NULL, {sql_text(_null_key(shape))}, {_mismatch(shape)}) AS error"
    )


def _null_key(shape: Shape) -> str:
    keys = ", ".join(shape.keys)
    return f"expected a value that fits in every key column ({keys}), got NULL, none or a misfit"


def _mismatch(shape: Shape) -> str:
    """SQL of the sentence that names each misfit, what was expected and what came."""
    types = ", ".join(
        f"{sql_text(name)}, {sql_text(type_)}" for name, type_ in shape.columns.items()
    )
    each = (
        f"concat('column ', m, ': expected ', map({types})[m], ', got ', "
        f"left(coalesce(image[m], 'NULL'), 200))"
    )
    return f"array_join(transform(misfits, m -> {each}), '; ')"
