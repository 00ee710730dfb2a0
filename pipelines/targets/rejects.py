"""`gold._rejects`: events that gold sets aside, each with its reason."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.codes import Code
from ingest.sql.casts import sql_text
from ingest.sql.delivery import listed
from pipelines.platform.warehouse import Warehouse, add, change_from, upsert, upsert_from

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
    ("misfits", "array<struct<column:string,expected:string,value:string>>"),
    ("value", "binary"),
    ("status", "string"),
    ("attempts", "bigint"),
    ("at", "timestamp"),
    ("version", "bigint"),
    ("epoch", "bigint"),
)
"""`misfits`: of a `type_mismatch` each column whose value did not fit, the type it was to have and
the value's text, its first 200 characters. `error` is the sentence on them, for people alone."""
NO_MISFITS = "CAST(NULL AS array<struct<column:string,expected:string,value:string>>)"
DECODE_ID = f"sha1(concat_ws('/', source, {listed()}))"
"""SQL of the id of a reject that stands in silver."""
_ID = f"sha1(concat_ws('/', {{source}}, {listed()}, {{target}}))"


def code_and_error(code: Code, text: str) -> str:
    return f"'{code.value}' AS code, {sql_text(text)} AS error"


CONFLICT = code_and_error(
    Code.SHARD_KEY_CONFLICT,
    "expected a key that one source table has alone, got one that another's row holds",
)
BASELESS = code_and_error(
    Code.NO_BASE_IMAGE,
    "expected the row that a partial image changes, got none; it is tried again when it comes",
)
"""SQL of code and error, as of `CONFLICT`."""


def create_rejects(warehouse: Warehouse) -> None:
    """`gold._rejects`."""
    warehouse.create("gold", "_rejects", REJECTS)


def claimed(warehouse: Warehouse, source: str, target: str) -> str | None:
    """SQL of the rejects, open now, of changes whose key another source table's row holds; None
    where there is none."""
    if not warehouse.exists("gold", "_rejects"):
        return None
    found = (
        f"SELECT * FROM ({present(warehouse)}) WHERE status = 'open' "
        f"AND code = '{Code.SHARD_KEY_CONFLICT.value}' AND source = {sql_text(source)} "
        f"AND target = {sql_text(target)}"
    )
    return None if warehouse.session.sql(found).isEmpty() else found


def unclaimed(warehouse: Warehouse, source: str, target: str) -> str:
    """SQL that is true for silver's rows that no such conflict sets aside now."""
    place = f"concat_ws('/', {listed()})"
    found = claimed(warehouse, source, target)
    return "true" if found is None else f"{place} NOT IN (SELECT {place} FROM ({found}))"


def no_key_rejects(warehouse: Warehouse, source: str, target: str, *, changes: str) -> int:
    """Set aside every change of a table whose key columns nobody names."""
    text = "expected key columns from the YAML, the message or the Kafka key, got none; set keys"
    found = warehouse.session.sql(
        as_rejects(
            source,
            target,
            f"SELECT {listed()}, '{Code.NO_KEY.value}' AS code, "
            f"{sql_text(text)} AS error, coalesce(after, before) AS image FROM ({changes})",
        )
    )
    return append(warehouse, found)


def write_rejects(warehouse: Warehouse, versions: Sequence[Mapping[str, Any]]) -> None:
    """Write rejects as they are now, each with all columns."""
    if versions:
        create_rejects(warehouse)
        rows = [tuple(row[name] for name, _ in REJECTS) for row in versions]
        upsert(warehouse, "gold", "_rejects", columns=REJECTS, rows=rows)


def merge_rejects(warehouse: Warehouse, rows: str) -> None:
    """Put in the rejects that SQL gives, with all columns, over those with their ids."""
    create_rejects(warehouse)
    upsert_from(warehouse, "gold", "_rejects", rows=rows)


def change_rejects(warehouse: Warehouse, rows: str) -> None:
    """Change rejects: SQL of `id`, the `version` they have now, and the columns that are new."""
    change_from(warehouse, "gold", "_rejects", rows=rows, counted="version")


def present(warehouse: Warehouse) -> str:
    """SQL of the rejects as they stand."""
    return f"SELECT * FROM {warehouse.name('gold', '_rejects')}"


def as_rejects(
    source: str, target: str, found: str, *, misfits: str = NO_MISFITS, more: str = ""
) -> str:
    """SQL of changes (coordinates, code, error, image) as rows of REJECTS, open and new; `misfits`:
    SQL of what does not fit of them; `more`: further columns of `found`, each after a comma."""
    named = _ID.format(source=sql_text(source), target=sql_text(target))
    return f"""SELECT {named} AS id, 'gold' AS stage, {sql_text(source)} AS source, topic,
  `partition`, offset, `row`, {sql_text(target)} AS target, code, error,
  {misfits} AS misfits, encode(to_json(image), 'utf-8') AS value, 'open' AS status,
  CAST(0 AS bigint) AS attempts, current_timestamp() AS at,
  CAST(1 AS bigint) AS version, epoch{more}
FROM ({found})"""


def append(warehouse: Warehouse, found: DataFrame) -> int:
    """Set aside what is not yet; how many there were. Only counts come to the driver."""
    create_rejects(warehouse)
    known = warehouse.read("gold", "_rejects").selectExpr("id", "status AS was", "version AS had")
    aside = found.dropDuplicates(["id"]).join(known, "id", "left")
    row = aside.selectExpr("count_if(was IS NULL) AS n", "count_if(was = 'resolved') AS m").first()
    assert row is not None
    columns = [name for name, _ in REJECTS]
    if row["n"]:
        add(warehouse, "gold", "_rejects", rows=aside.where("was IS NULL").select(columns))
    if row["m"]:
        # What was resolved once, and is set aside again by what came since, is open again.
        again = aside.where("was = 'resolved'").withColumn("version", F.expr("had + 1"))
        name = f"_again_{uuid.uuid4().hex}"
        again.select(columns).createOrReplaceTempView(name)
        try:
            merge_rejects(warehouse, f"SELECT * FROM {name}")
        finally:
            warehouse.session.catalog.dropTempView(name)
    return int(row["n"] + row["m"])
