"""The columns that a target would have if it were made today, from all of its history.

Runs leave the target's columns alone. If the configuration has declared another type since, or
silver has another one since it was decoded again, that comes in by `ingest rebuild`, which asks
here. A decision in the ledger stands: what it keeps out stays out, and a type that it gave stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import assert_never

from ingest.config.routes import Route
from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    DropColumn,
    FreezeTable,
    Lineage,
    RecreateTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    brought,
    ended,
    only,
)
from ingest.ddl.widening import canonical_type, widens
from ingest.names import lowered
from pipelines.ledger.entries import IN_FORCE, Entry, names_reused


def todays_columns(
    route: Route,
    wanted: Mapping[str, str],
    entries: Sequence[Entry],
    *,
    held: Mapping[str, str],
    lineages: Mapping[Lineage, Collection[str]],
    keys: Iterable[str],
    before: Callable[[Entry], Mapping[str, str]] = lambda _: {},
) -> dict[str, str]:
    """Column -> Spark type. `wanted`: as messages and configuration have them, keys first. `held`:
    the target's own, empty if it is gone; none of them goes except those that `exclude` names.
    `lineages`: those of the source tables, each with the names that its images have. A column that
    one source table has dropped stays while another sends it. `before`: the types, by lower-case
    name, that messages had before a change that was not let in."""
    sent = {
        name.lower()
        for lineage, names in lineages.items()
        for name in names
        if ended(lineage, name.lower()) is None
    }
    always = lowered(keys)
    excluded = lowered(route.exclude)
    barred = brought(
        effect
        for entry in entries
        if entry.status not in ("applied", "superseded")
        for effect in entry.effects
    )
    of_ledger = _types(entries)
    own = {name.lower(): type_ for name, type_ in held.items()}
    kept = _kept(entries, own, before)
    declared = lowered(route.columns)
    columns: dict[str, str] = {}
    for name, type_ in [*wanted.items(), *_added(entries), *held.items()]:
        lower = name.lower()
        if lower in excluded or lower in lowered(columns):
            continue
        dropped = any(ended(lineage, lower) is not None for lineage in lineages)
        over = lower in barred or (dropped and lower not in sent)
        if over and lower not in always and lower not in own:
            continue
        if lower not in declared:
            stored = own.get(lower)
            type_ = kept.get(lower) or of_ledger.get(lower, type_)
            if stored is not None and widens(canonical_type(type_), canonical_type(stored)):
                type_ = stored
        columns[name] = type_
    spelling = {name.lower(): name for name in held}
    return {spelling.get(name.lower(), name): type_ for name, type_ in columns.items()}


def _kept(
    entries: Sequence[Entry],
    own: Mapping[str, str],
    before: Callable[[Entry], Mapping[str, str]],
) -> dict[str, str]:
    """The types, by lower-case name, of columns that a change which was not let in would give
    another type, or whose name another column would get. `own`: the types of the target."""
    of_ledger = _types(entries)
    kept: dict[str, str] = {}
    for name, entry in _undecided(entries).items():
        stored = own.get(name)
        if stored == "string":
            # The column was made before anything told its type, and the waiting change would change
            # that.
            kept[name] = of_ledger.get(name) or before(entry).get(name, stored)
        elif stored is not None:
            kept[name] = stored
    for name, entry in names_reused(_not_let_in(entries)).items():
        type_ = own.get(name) or before(entry).get(name)
        if type_ is not None:
            kept.setdefault(name, type_)
    return kept


def _types(entries: Iterable[Entry]) -> dict[str, str]:
    """The types that changes in force gave to columns, by lower-case name."""
    types: dict[str, str] = {}
    for effect in _effects(entries):
        match effect:
            case AddColumn(name, if_not_exists=True) if name.lower() in types:
                pass
            case AlterColumnType(name, type_) | AddColumn(name, str(type_)):
                types[name.lower()] = type_
            case RenameColumn(old, new) if old.lower() in types:
                types[new.lower()] = types.pop(old.lower())
            case AddColumn(name) | DropColumn(name):
                types.pop(name.lower(), None)
            case RenameColumn() | ChangeKey() | RenameTable() | FreezeTable() | RecreateTable():
                pass
            case _:
                assert_never(effect)
    return types


def _added(entries: Iterable[Entry]) -> list[tuple[str, str]]:
    """The columns that changes in force added, even if no message has shown them yet."""
    return [(added.name, added.type or "string") for added in only(AddColumn, _effects(entries))]


def _effects(entries: Iterable[Entry]) -> Iterable[SchemaChange]:
    for entry in entries:
        if entry.status in IN_FORCE:
            yield from entry.effects


def _undecided(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Columns, in lower case, for which another type waits for approval or was refused, each with
    the first such change."""
    waiting: dict[str, Entry] = {}
    for entry in _not_let_in(entries):
        for change in only(AlterColumnType, entry.effects):
            waiting.setdefault(change.name.lower(), entry)
    return waiting


def _not_let_in(entries: Iterable[Entry]) -> list[Entry]:
    """The changes that wait or were refused, in order of position."""
    return sorted(
        (e for e in entries if e.status not in IN_FORCE and e.risk != "none"),
        key=lambda entry: entry.place,
    )
