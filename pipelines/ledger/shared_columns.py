"""A schema change of one source table on a target that others feed too.

Each source table has its own ALTERs, at its own times and in its own order. Until the last of them
has dropped or renamed a column, the target keeps it for those that still have it; the rows of the
others hold nothing in it from then on, since they are folded again. The first source table that
gets another key gives that key to the target; messages of the others may name the old key until
they follow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import assert_never

from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    ColumnChange,
    DropColumn,
    RenameColumn,
    column_of,
    ended,
    only,
    takes_over,
)
from ingest.names import SourceTable, label_of
from pipelines.ledger.entries import Entry
from pipelines.ledger.store import Ledger


def others(ledger: Ledger, entry: Entry) -> list[SourceTable]:
    """The other source tables, under their first names, that feed the entry's target or begin to in
    this run."""
    return _beside(ledger, entry.table, entry.target or "")


def _beside(ledger: Ledger, table: SourceTable, target: str) -> list[SourceTable]:
    found = dict.fromkeys([*_applied(ledger, target), *_beginning(ledger, target)])
    found.pop(ledger.first_name(table), None)
    return list(found)


def _applied(ledger: Ledger, target: str) -> list[SourceTable]:
    """The source tables whose changes the target has."""
    progress = ledger.progress(target)
    if progress is None:
        return []
    fed = (SourceTable(ledger.source, *names) for names in progress.tables)
    known = dict.fromkeys(map(ledger.first_name, fed))
    return [table for table in known if label_of(table) in progress.watermarks]


def _beginning(ledger: Ledger, target: str) -> dict[SourceTable, Collection[str]]:
    """The source tables whose first changes the target gets in this run, with the columns that they
    send."""
    applied = {*_applied(ledger, target)}
    coming = ledger.columns_sent(target)
    return {table: sent for table, sent in coming.items() if table not in applied}


def keyed_by_others(ledger: Ledger, table: SourceTable, target: str) -> bool:
    """Whether the target has a key that other source tables were given and this one has not got
    yet. Its messages go on naming the part of it that was the key before."""

    def rekeyed(table: SourceTable) -> bool:
        applied = (entry for entry in ledger.of(table) if entry.status == "applied")
        return any(only(ChangeKey, entry.effects) for entry in applied)

    return not rekeyed(table) and any(map(rekeyed, _beside(ledger, table, target)))


def _held_by_others(ledger: Ledger, entry: Entry, column: str) -> bool:
    """Whether another source table of the target still has the column."""
    progress = ledger.progress(entry.target)
    unsent = progress.unsent if progress is not None else {}
    beginning = _beginning(ledger, entry.target or "")

    def sends(table: SourceTable) -> bool:
        if table in beginning:
            return column.lower() in beginning[table]
        return column.lower() not in unsent.get(label_of(table), ())

    return any(
        ended(ledger.lineage(table), column) is None and sends(table)
        for table in others(ledger, entry)
    )


def without_others(
    ledger: Ledger,
    entry: Entry,
    proposed: Iterable[ColumnChange],
    *,
    columns: Mapping[str, str],
) -> tuple[ColumnChange, ...]:
    """What an entry proposes for the target's `columns`, without what would take a column from
    another source table: a column that another one still has is not dropped, and a rename adds the
    new name beside the old one.

    From an approved entry nothing is removed except what it proposed when it was approved: a run
    that finishes the work of a killed one may no longer know which source tables have the column.
    """
    proposed = tuple(proposed)
    if takes_over(entry.effects):
        return proposed
    approved = {column_of(change) for change in entry.proposed}

    def stays(name: str) -> bool:
        left_alone = entry.status == "approved" and name.lower() not in approved
        return left_alone or _held_by_others(ledger, entry, name)

    added = {change.name.lower() for change in only(AddColumn, proposed)}
    types = {name.lower(): type_ for name, type_ in columns.items()}
    kept: list[ColumnChange] = []
    for change in proposed:
        match change:
            case DropColumn(name) if name.lower() not in added:
                if not stays(name):
                    kept.append(change)
            case RenameColumn(old, new) if stays(old):
                kept.append(AddColumn(new, types.get(old.lower())))
            case AddColumn() | AlterColumnType() | DropColumn() | RenameColumn():
                kept.append(change)
            case _:
                assert_never(change)
    return tuple(kept)
