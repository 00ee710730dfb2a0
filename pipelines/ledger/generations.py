"""A table dropped and created again (semantics.md, 77): a new generation under an old name.

1. The CREATE takes up the DROP before it, so the ledger has one proposal for both. Until it is
   decided, the table's changes wait in silver, late ones of the old generation included.
2. Applied, it is a truncate at the position of the CREATE: silver's row of the statement is
   appended to silver once more, as a change that empties the table. So every way of reading history
   (folds, versions, as-of, rebuild, reconcile) knows it without being told. If the row is there
   already, it is not appended again.
3. Columns that the new table has and gold does not are added; the others stay.

When silver is decoded anew, these rows are lost with the others; `empty` brings them back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.ddl.changes import FreezeTable, RecreateTable
from ingest.ddl.model import Clause, Statement
from ingest.ddl.risks import Kind
from ingest.names import SourceTable, lowered
from ingest.position import EPOCH, SOURCE_PART, pos_literal, source_part
from ingest.sql.query import select
from ingest.sql.quoting import equal
from ingest.sql.silver import TRUNCATES, first_of
from pipelines.ledger.entries import Entry
from pipelines.platform.leases import lease
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.history import by_arrival
from pipelines.silver.stream import last_batch
from pipelines.targets.progress import micros_of

RENAMED: Kind = "rename_table"
DROPPED = ("drop_table", "change_partition")
"""Kinds of clauses after which a CREATE TABLE of the same name makes a table without the earlier
rows."""


def drops(read: Statement) -> bool:
    """Whether the table is gone after the statement."""
    kinds = [clause.kind for clause in read.clauses]
    return "drop_table" in kinds and "create_table" not in kinds[kinds.index("drop_table") :]


def renames_away(read: Statement) -> bool:
    """Whether the table has another name after the statement."""
    return any(clause.kind == RENAMED for clause in read.clauses)


def replaces(read: Statement) -> bool:
    """Whether one statement both drops its table and creates it."""
    kinds = [clause.kind for clause in read.clauses]
    if "create_table" not in kinds:
        return False
    last = len(kinds) - 1 - kinds[::-1].index("create_table")
    return any(kind in DROPPED for kind in kinds[:last])


def dropped_before(entry: Entry, others: Iterable[tuple[Entry, bool]]) -> Entry | None:
    """The DROP that this CREATE makes good: the last one before it, unless the table was created
    again in between. `others`: entries of the table, each with whether it is a DROP."""
    found: Entry | None = None
    for other, gone in sorted(others, key=lambda pair: pair[0].place):
        if other.id == entry.id or other.pos is None or other.pos >= entry.place:
            continue
        if gone:
            found = other
        elif other.recreates:
            found = None
    return found


def columns_as_clauses(read: Statement, columns: Collection[str]) -> Statement:
    """The created columns as changes of a target with `columns`: new ones are added, the others get
    their types. Values of a DEFAULT are in the rows, which are all new."""
    there = lowered(columns)
    clauses = tuple(
        Clause(
            kind="modify_column" if column.name.lower() in there else "add_column",
            table=read.table,
            column=replace(column, default=None, expression=None),
        )
        for column in read.columns
    )
    # With `LIKE` and `AS SELECT` the columns are known when their data comes.
    return replace(read, clauses=clauses or (Clause(kind="create_table", table=read.table),))


def frozen(entries: Iterable[Entry]) -> set[SourceTable]:
    """The tables that were dropped, by an applied entry, and not created again since."""
    last: dict[SourceTable, bool] = {}
    ends = FreezeTable | RecreateTable
    for entry in sorted(entries, key=lambda entry: entry.place):
        if entry.status == "applied" and any(isinstance(e, ends) for e in entry.effects):
            last[entry.table] = not entry.recreates
    return {table for table, gone in last.items() if gone}


def empty(warehouse: Warehouse, entries: Sequence[Entry]) -> bool:
    """Append to silver the truncates that these new generations are, if it lacks them; gives
    whether there were any to append. Waits for silver to be free."""
    if not entries:
        return False
    with lease(warehouse, "silver"):
        return append_truncates(warehouse, entries)


def append_truncates(
    warehouse: Warehouse, entries: Sequence[Entry], *, batch: int | None = None
) -> bool:
    """`empty` for a caller that holds silver's lease. `batch`: the number of the append, which may
    be below the last one; the next one if not given."""
    lacking = [entry for entry in entries if not _emptied(warehouse, entry)]
    if not lacking:
        return False
    top = last_batch(warehouse)
    batch = batch or top + 1
    frames = [_truncates(warehouse, entry, batch) for entry in lacking]
    made = frames[0]
    for frame in frames[1:]:
        made = made.unionByName(frame)
    once = ("silver/generations", warehouse.next_version("silver", "cdc"))
    warehouse.append(made.coalesce(1), "silver", "cdc", once=once, note=max(batch, top))
    return True


def _emptied(warehouse: Warehouse, entry: Entry) -> bool:
    assert entry.pos is not None
    truncate = f"kind = 'change' AND {TRUNCATES} AND pos = {pos_literal(entry.pos)}"
    found = first_of(warehouse.name("silver", "cdc"), entry.table, truncate)
    return not warehouse.session.sql(found).isEmpty()


def _truncates(warehouse: Warehouse, entry: Entry, batch: int) -> DataFrame:
    """The statement's rows in silver, every copy of it, as truncates of the entry's table."""
    assert entry.pos is not None
    own = pos_literal(entry.pos[:SOURCE_PART])
    micros = micros_of(entry.event_time)
    when = f"timestamp_micros({micros})" if micros is not None else "NULL"
    # As `ingest.ddl.parse.identity` tells statements apart: by arrival several have one place.
    arrives = by_arrival(warehouse.config.sources[entry.table.source])
    same = (
        equal(source=entry.table.source, kind="ddl", ddl=entry.statement or "")
        + f" AND epoch = {entry.pos[EPOCH]}"
        + f" AND IF({arrives}, event_time <=> {when}, {source_part('pos')} = {own})"
    )
    truncates = warehouse.session.sql(select(warehouse.name("silver", "cdc"), same))
    now = {
        "kind": F.lit("change"),
        "op": F.lit("truncate"),
        **{
            name: F.lit(value).cast("string")
            for name, value in zip(("db", "schema", "table"), entry.table.path, strict=True)
        },
        "columns": F.lit(None).cast(truncates.schema["columns"].dataType),
        "decoded_at": F.current_timestamp(),
        "batch": F.lit(batch).cast("bigint"),
    }
    return truncates.withColumns(now).dropDuplicates(["topic", "partition", "offset", "row"])
