"""A schema change of one source table on a target that others feed too.

Each source table has its own ALTERs, at times and in an order of its own. Until the last of them
has dropped or renamed a column, the target keeps it for those that still have it; of the others'
rows it holds nothing from then on, as they are folded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ingest.ddl.changes import AddColumn, ColumnChange, DropColumn, RenameColumn, ended, takes_over
from ingest.names import SourceTable, label_of
from pipelines.ledger.entries import Entry
from pipelines.ledger.store import EntryStore


def others(store: EntryStore, entry: Entry) -> list[SourceTable]:
    """The other source tables that feed the entry's target, under their first names."""
    progress = store.progress_by_target.get((store.source, entry.target or ""))
    if progress is None:
        return []
    first = store.first_names
    fed = (SourceTable(store.source, *names) for names in progress.tables)
    known = dict.fromkeys(first.get(table, table) for table in fed)
    known.pop(first.get(entry.table, entry.table), None)
    return [table for table in known if label_of(table) in progress.watermarks]


def held_by_others(store: EntryStore, entry: Entry, column: str) -> bool:
    """Whether another source table of the target still has the column."""
    progress = store.progress_by_target.get((store.source, entry.target or ""))
    unsent = progress.unsent if progress is not None else {}
    return any(
        ended(store.lineage(table), column) is None
        and column.lower() not in unsent.get(label_of(table), ())
        for table in others(store, entry)
    )


def without_others(
    store: EntryStore,
    entry: Entry,
    proposed: Iterable[ColumnChange],
    *,
    columns: Mapping[str, str],
) -> tuple[ColumnChange, ...]:
    """What an entry proposes for the target's `columns`, but for what others still have: a column
    that goes stays, one that is renamed gets another beside it."""
    proposed = tuple(proposed)
    if takes_over(entry.effects):
        return proposed
    added = {change.name.lower() for change in proposed if isinstance(change, AddColumn)}
    types = {name.lower(): type_ for name, type_ in columns.items()}
    found: list[ColumnChange] = []
    for change in proposed:
        match change:
            case DropColumn(name) if name.lower() not in added:
                if not held_by_others(store, entry, name):
                    found.append(change)
            case RenameColumn(old, new) if held_by_others(store, entry, old):
                found.append(AddColumn(new, types.get(old.lower())))
            case _:
                found.append(change)
    return tuple(found)
