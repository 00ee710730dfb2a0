"""How many rows wait for a schema change to be approved, and how many would lose a value by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    DropColumn,
    FreezeTable,
    RecreateTable,
    RenameColumn,
    RenameTable,
    only,
)
from ingest.names import SourceTable
from ingest.sql.ledger.columns_sent import sends
from ingest.sql.ledger.entries import counts, holding_a_value
from ingest.sql.metadata import source_name
from ingest.sql.pending import of_tables
from ingest.sql.quoting import equal
from ingest.sql.rejects.rows import misfits_in
from ingest.sql.silver import above_pos, of_table
from pipelines.ledger.entries import WAITING, Entry, load_entries
from pipelines.ledger.renames import names_of, renames
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.history import schema_pos
from pipelines.targets.table import columns_of

_AT_ONCE = 50
"""Entries a query: each is a count in its plan."""


def impact(warehouse: Warehouse, entries: Iterable[Entry]) -> dict[str, int | None]:
    """By id of an entry: how many changes in silver have a value that gold takes once the entry is
    approved, and how many events were set aside because of it. For a decided entry, how many had
    waited for it."""
    known = list(entries)
    waiting = [entry for entry in known if entry.status in WAITING]
    counted = dict.fromkeys((entry.id for entry in waiting), 0)
    sources = warehouse.config.sources
    first_names = renames(load_entries(warehouse).values())

    def held_back(entry: Entry) -> str | None:
        source = sources.get(entry.table.source)
        where = schema_pos(source) if source is not None else "pos"
        return _held_back(entry, where, of_tables(names_of(entry.table, first_names)))

    for layer, table, where, condition in (
        ("silver", "cdc", "kind = 'change'", held_back),
        ("gold", "_rejects", "status = 'open'", _rejected_because_of),
    ):
        if warehouse.exists(layer, table):
            name = warehouse.name(layer, table)
            terms = {e.id: term for e in waiting if (term := condition(e)) is not None}
            for id_, number in _counts(warehouse, name, where, terms=terms).items():
                counted[id_] += number
    return {entry.id: counted.get(entry.id, entry.waiting_rows) for entry in known}


def lost_rows(warehouse: Warehouse, id_: str) -> int | None:
    """How many rows of gold have a value in the columns that a schema change removes once it is
    approved; None if it removes none or is decided already."""
    entry = load_entries(warehouse)[id_]
    if entry.status not in WAITING or entry.target is None:
        return None
    held = columns_of(warehouse, entry.target) or {}
    spelling = {name.lower(): name for name in held}
    taken = {change.name.lower() for change in only(DropColumn, entry.effects)}
    lost_names = [spelling[name] for name in sorted(taken & set(spelling))]
    if not lost_names or not entry.proposed:
        return None
    counted = holding_a_value(warehouse.name("gold", entry.target), lost_names)
    ((lost,),) = rows(warehouse.session.sql(counted))
    return int(lost)


def _counts(
    warehouse: Warehouse, relation: str, where: str, *, terms: Mapping[str, str]
) -> dict[str, int]:
    """By id: for how many rows of a relation, narrowed by `where`, the entry's term is true."""
    counted: dict[str, int] = {}
    for start in range(0, len(terms), _AT_ONCE):
        some = [*terms.items()][start : start + _AT_ONCE]
        asked = counts(relation, where, terms=[term for _, term in some])
        (row,) = rows(warehouse.session.sql(asked))
        counted |= {id_: number for (id_, _), number in zip(some, row, strict=True)}
    return counted


def _held_back(entry: Entry, schema_pos: str, own: str) -> str | None:
    """SQL that is true for the changes of silver that hold what the entry brings; `schema_pos`: SQL
    of where each stands among the schema changes; `own`: SQL that is true for those of its
    table."""
    table = entry.table
    brought, terms = [], []
    for effect in entry.effects:
        match effect:
            case AddColumn(name) | RenameColumn(_, name):
                brought.append(name.lower())
            case RenameTable(db, schema, name):
                terms.append(f"({of_table(SourceTable(table.source, db, schema, name))})")
            case RecreateTable() if entry.pos is not None:
                terms.append(f"({own} AND {above_pos(entry.pos)})")
            case (
                AlterColumnType()
                | DropColumn()
                | ChangeKey()
                | RenameTable()
                | FreezeTable()
                | RecreateTable()
            ):
                pass
            case _:
                assert_never(effect)
    if brought:
        since = entry.pos if entry.statement else None
        where = above_pos(since, of=schema_pos) if since else "true"
        terms.append(f"({own} AND {where} AND {sends(*map(source_name, brought))})")
    if not terms:
        return None
    return f"{equal(source=table.source)} AND ({' OR '.join(terms)})"


def _rejected_because_of(entry: Entry) -> str | None:
    """SQL that is true for the rejects with a value that fits no column until the entry is
    approved."""
    columns = [change.name for change in only(AlterColumnType, entry.effects)]
    if not columns:
        return None
    whose = equal(target=entry.target or "", source=entry.table.source)
    return f"{whose} AND {misfits_in(columns)}"
