"""`gold._rejects`: events that gold sets aside, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.codes import Code
from ingest.sql.query import select
from ingest.sql.rejects import rows as texts
from ingest.sql.rejects.reasons import keyless
from ingest.sql.rejects.rows import MISFITS
from pipelines.platform.rows import rows, temporary_view
from pipelines.platform.upserts import add, change_from, upsert_from
from pipelines.platform.warehouse import Warehouse

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
    ("misfits", MISFITS),
    ("value", "binary"),
    ("status", "string"),
    ("attempts", "bigint"),
    ("at", "timestamp"),
    ("version", "bigint"),
    ("epoch", "bigint"),
)
"""`misfits`: of a `type_mismatch` each column whose value did not fit, the type it was to have and
the value's text, its first 200 characters. `error` is the sentence on them, for people alone."""


def create_rejects(warehouse: Warehouse) -> None:
    """`gold._rejects`."""
    warehouse.create("gold", "_rejects", REJECTS)


def table_of(warehouse: Warehouse) -> str:
    """The table's name, as SQL takes it."""
    return warehouse.name("gold", "_rejects")


def claimed(warehouse: Warehouse, source: str, target: str) -> str | None:
    """SQL of the open rejects of changes whose key another source table's row holds; None if there
    is none."""
    if not have_rejects(warehouse, source, target, code=Code.SHARD_KEY_CONFLICT.value):
        return None
    return texts.claimed(table_of(warehouse), source=source, target=target)


def left_aside(warehouse: Warehouse, source: str, target: str, *, shared: bool) -> str | None:
    """SQL of the rejects of changes that no fold takes in (`ingest.sql.rejects.rows`); None if
    there is none. `shared`: several source tables may claim one key of the target."""
    found = [(code, "dismissed") for code in texts.DISMISSIBLE]
    if shared:
        found += [(Code.SHARD_KEY_CONFLICT, status) for status in ("open", "dismissed")]
    if not any(
        have_rejects(warehouse, source, target, code=code.value, status=status)
        for code, status in found
    ):
        return None
    return texts.left_aside(table_of(warehouse), source=source, target=target, shared=shared)


def not_left_aside(warehouse: Warehouse, source: str, target: str, *, shared: bool) -> str:
    """SQL that is true for the rows of silver that folds take in."""
    aside = left_aside(warehouse, source, target, shared=shared)
    if aside is None:
        return "true"
    return texts.not_among(aside, silver=warehouse.name("silver", "cdc"), source=source)


def have_misfits(warehouse: Warehouse, source: str, target: str, *, columns: Sequence[str]) -> bool:
    """Whether events are set aside now for a value of some of the target's columns."""
    if not warehouse.exists("gold", "_rejects"):
        return False
    where = f"{texts.is_open(source, target)} AND {texts.misfits_in(columns)}"
    return not warehouse.session.sql(select(table_of(warehouse), where)).isEmpty()


def have_rejects(
    warehouse: Warehouse, source: str, target: str, *, code: str, status: str = "open"
) -> bool:
    """Whether events for a target are set aside now with this code."""
    if not warehouse.exists("gold", "_rejects"):
        return False
    return (source, target, code, status) in warehouse.cached(
        "gold", "_rejects", lambda: _unresolved(warehouse)
    )


def _unresolved(warehouse: Warehouse) -> set[tuple[str, str, str, str]]:
    """The sources, targets, codes and statuses of all unresolved rejects of gold: at most twice as
    many as targets times codes."""
    return set(map(tuple, rows(warehouse.session.sql(texts.unresolved(table_of(warehouse))))))


def no_key_rejects(warehouse: Warehouse, source: str, target: str, *, changes: str) -> int:
    """Set aside every change of a table whose key columns nobody names; gives how many."""
    rejects = texts.as_rejects(keyless(changes), source=source, target=target)
    return append(warehouse, warehouse.session.sql(rejects))


def merge_rejects(warehouse: Warehouse, rows: str) -> None:
    """Write the rejects that SQL gives, with all columns, over those with the same ids."""
    create_rejects(warehouse)
    upsert_from(warehouse, "gold", "_rejects", rows=rows)


def change_rejects(warehouse: Warehouse, rows: str) -> None:
    """Change rejects: SQL of `id`, the `version` they have now, and the columns that are new."""
    change_from(warehouse, "gold", "_rejects", rows=rows, counted="version")


def append(warehouse: Warehouse, set_aside: DataFrame) -> int:
    """Set aside what is not set aside yet; gives how many there were. Only counts come to the
    driver.

    A resolved reject is open again, and one that waits for another reason waits for this one from
    now on. But if another source table's row holds its key, it waits for that first.
    """
    create_rejects(warehouse)
    known = warehouse.read("gold", "_rejects").selectExpr(
        "id", "status AS was", "version AS had", "code AS why"
    )
    rejected = set_aside.dropDuplicates(["id"]).join(known, "id", "left")
    conflict = Code.SHARD_KEY_CONFLICT.value
    other = f"was = 'open' AND why <> code AND why <> '{conflict}'"
    row = rejected.selectExpr(
        "count_if(was IS NULL) AS n",
        "count_if(was = 'resolved') AS m",
        f"count_if({other}) AS others",
    ).first()
    assert row is not None
    columns = [name for name, _ in REJECTS]
    if row["n"]:
        add(warehouse, "gold", "_rejects", rows=rejected.where("was IS NULL").select(columns))
    if row["m"] or row["others"]:
        again = rejected.where(f"was = 'resolved' OR {other}")
        with temporary_view(again.withColumn("version", F.expr("had + 1")).select(columns)) as view:
            merge_rejects(warehouse, select(view))
    return int(row["n"] + row["m"])
