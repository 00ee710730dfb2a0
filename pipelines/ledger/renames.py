"""Source tables that were renamed (semantics.md, 53).

Once a RENAME TABLE is approved, what comes under the new name belongs to the target of the old one,
and the table is known by its first name: in progress, in the ledger and in `_source_table`. Until
then the changes under the new name wait in silver, unless a table of that name has a target of its
own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ingest.ddl.changes import RenameColumn, RenameTable, frees, only
from ingest.names import SourceTable, label_of
from pipelines.ledger.entries import IN_FORCE, WAITING, Entry, lineage_of
from pipelines.silver.history import TableNames
from pipelines.silver.pending import PendingChanges

FirstNames = Mapping[SourceTable, SourceTable]
"""New name -> the name that the table began with."""


def renames(entries: Iterable[Entry]) -> FirstNames:
    """The renames that are in force."""
    first_names: dict[SourceTable, SourceTable] = {}
    for entry in sorted(entries, key=lambda entry: entry.place):
        if entry.status in IN_FORCE:
            for new in _new_names(entry):
                first_names[new] = first_names.get(entry.table, entry.table)
    return {new: old for new, old in first_names.items() if new != old}


def is_rename(entry: Entry) -> bool:
    """Whether the entry gives its table another name."""
    return bool(_new_names(entry))


def namings(
    entries: Collection[Entry], tables: Iterable[SourceTable]
) -> dict[SourceTable, TableNames]:
    """The changes of column names through which the events of each table are read.

    A DEFAULT is not among them: at the time of the event there was no such value.
    """
    first_names = renames(entries)
    found = {}
    for table in tables:
        first = first_names.get(table, table)
        own = [e for e in entries if first_names.get(e.table, e.table) == first]
        found[table] = TableNames(
            tuple(e for e in lineage_of(own) if e.hidden or frees(e.change)),
            tuple(rename for e in own for rename in only(RenameColumn, e.effects)),
        )
    return found


def waiting_names(entries: Iterable[Entry]) -> set[SourceTable]:
    """The new names of renames that wait for a decision."""
    return {new for entry in entries if entry.status in WAITING for new in _new_names(entry)}


class TakenAgain(NamedTuple):
    """A table was renamed and another one has its former name, so rows of both come under that
    name.

    `away` is the rename, `by` the rename or CREATE TABLE that took the name; `tables` are all
    tables whose rows would meet.
    """

    away: Entry
    by: Entry
    tables: frozenset[SourceTable]

    def why(self, target: str) -> str:
        """Why the target is parked, and what lets it go on."""
        old = self.away.table
        new = ", ".join(label_of(name) for name in _new_names(self.away))
        text = (
            f"{label_of(old)} was renamed to {new} (schema change {self.away.id}) and its name is "
            f"another table's since ({self.by.id}): {target} would mix the rows of both; "
        )
        if self.by.table == old:
            return text + f"`ingest reset {target} --yes` makes it anew with the later one's"
        both = f"rejecting both, {target} goes on with whatever comes as {label_of(old)}"
        if self.away.status in WAITING:
            return f"{text}by `ingest ddl reject`, {both}"
        return (
            f"{text}with `ddl: {{destructive: review}}`, `ingest reset {target} --yes` and {both}"
        )


def taken_again(
    entries: Collection[Entry], created: Callable[[Entry], bool]
) -> dict[SourceTable, TakenAgain]:
    """The tables whose rows would meet in one target because one has the other's former name.

    `created`: whether an entry creates its table, other than as a new generation.
    """
    first_names = renames(entries)
    again: dict[SourceTable, TakenAgain] = {}
    accepted = [e for e in entries if e.pos is not None and e.status != "rejected"]
    # Entries that may take a name, grouped by the table that would get it: a table that is swapped
    # every night is a single taker.
    takers: dict[SourceTable, dict[SourceTable, list[tuple[int, Entry]]]] = {}
    for place, entry in enumerate(accepted):
        for name in {*_new_names(entry), *([entry.table] if created(entry) else ())}:
            takers.setdefault(name, {}).setdefault(entry.table, []).append((place, entry))
    for away in accepted:
        names = _new_names(away) if away.status in (*WAITING, *IN_FORCE) else []
        if not names:
            continue

        last = [
            _last_taker(of_table, away, first_names, created=created)
            for of_table in takers.get(away.table, {}).values()
        ]
        for _, other in sorted(filter(None, last), key=lambda each: each[0]):
            known = {away.table, other.table, *names}
            tables = frozenset(known | {first_names.get(name, name) for name in known})
            for table in tables:
                again[table] = TakenAgain(away, other, tables)
    return again


def _last_taker(
    places: Sequence[tuple[int, Entry]],
    away: Entry,
    first_names: FirstNames,
    *,
    created: Callable[[Entry], bool],
) -> tuple[int, Entry] | None:
    """The last entry among those of one table, given with their places, that takes the name."""
    for place, other in reversed(places):
        if _takes(other, away, first_names, created=created):
            return place, other
    return None


def _takes(
    other: Entry, away: Entry, first_names: FirstNames, *, created: Callable[[Entry], bool]
) -> bool:
    """Whether an entry gives the name that `away` gives up to another table."""
    if other.id == away.id or other.place < away.place:
        return False
    if other.table == away.table:
        return away.status in IN_FORCE and created(other)
    back = other.table in _new_names(away) or first_names.get(other.table) == away.table
    return away.table in _new_names(other) and not back


def names_of(table: SourceTable, first_names: FirstNames) -> tuple[SourceTable, ...]:
    """All names that a table has had; `table` is the first."""
    return (table, *(new for new, old in first_names.items() if old == table))


def under_first_names(pending: PendingChanges, first_names: FirstNames) -> PendingChanges:
    """The pending changes, with each renamed table under its first name."""
    if not first_names:
        return pending
    stats = [each._replace(table=first_names.get(each.table, each.table)) for each in pending.stats]
    types = {
        table: list(columns) for table, columns in pending.types.items() if table not in first_names
    }
    for table, columns in pending.types.items():
        if table in first_names:
            types.setdefault(first_names[table], []).extend(columns)
    return pending._replace(stats=stats, types=types)


def _new_names(entry: Entry) -> list[SourceTable]:
    return [
        SourceTable(entry.table.source, rename.db, rename.schema, rename.name)
        for rename in only(RenameTable, entry.effects)
    ]
