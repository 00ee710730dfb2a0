"""Source tables that were renamed (rulings.md, 53).

Once a RENAME TABLE is approved, what comes under the new name belongs to the old one's target, and
the table is known by its first name: to progress, to the ledger, in `_source_table`. Until then the
new name's changes wait in silver, unless it is a table with a target of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ingest.lineage import Lineage
from ingest.names import SourceTable
from pipelines.ddl_entries import IN_FORCE, WAITING, Entry, lineage_of
from pipelines.survey import Survey

Moves = Mapping[SourceTable, SourceTable]
"""New name -> the name that the table began with."""


def moves(entries: Iterable[Entry]) -> Moves:
    """The renames that are in force."""
    found: dict[SourceTable, SourceTable] = {}
    for entry in entries:
        if entry.status in IN_FORCE:
            for new in _new_names(entry):
                found[new] = found.get(entry.table, entry.table)
    return {new: old for new, old in found.items() if new != old}


def namings(
    entries: Collection[Entry], tables: Iterable[SourceTable]
) -> dict[SourceTable, Lineage]:
    """The changes of columns' names through which each table's events are read.

    A DEFAULT is none: when the event happened, nothing of the kind was there.
    """
    moved = moves(entries)
    found = {}
    for table in tables:
        first = moved.get(table, table)
        own = lineage_of(e for e in entries if moved.get(e.table, e.table) == first)
        found[table] = tuple(e for e in own if e.hidden or e.effect.op in ("drop", "rename"))
    return found


def held(entries: Iterable[Entry]) -> set[SourceTable]:
    """The new names of renames that wait for a decision."""
    return {new for entry in entries if entry.status in WAITING for new in _new_names(entry)}


def also(table: SourceTable, moved: Moves) -> tuple[SourceTable, ...]:
    """The names that a table has had since its first."""
    return tuple(new for new, old in moved.items() if old == table)


def under_first_names(found: Survey, moved: Moves) -> Survey:
    """The survey with each renamed table's slices and types under its first name."""
    if not moved:
        return found
    slices = [
        slice_._replace(table=moved.get(slice_.table, slice_.table)) for slice_ in found.slices
    ]
    types = {table: list(columns) for table, columns in found.types.items() if table not in moved}
    for table, columns in found.types.items():
        if table in moved:
            types.setdefault(moved[table], []).extend(columns)
    return found._replace(slices=slices, types=types)


def _new_names(entry: Entry) -> list[SourceTable]:
    return [
        SourceTable(entry.table.source, db, schema, name or "")
        for effect in entry.effects
        if effect.op == "move"
        for db, schema, name in [effect.args]
    ]
