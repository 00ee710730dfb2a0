"""What a schema change means for its target as that is now: its risk, its effects, and how the
target's columns change for it.

An entry is reviewed when it is taken up and when it is decided on. When it is carried out, its
proposal for the columns is reviewed once more, since they may have changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, assert_never

from ingest.config.routes import Route, excluded_through
from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    ColumnChange,
    DropColumn,
    FreezeTable,
    LineageEntry,
    RecreateTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    brings,
    column_of,
    frees,
    name_today,
    only,
    retyped,
    schema_changes,
)
from ingest.ddl.model import Statement
from ingest.ddl.review import Review, changes_nothing, review
from ingest.ddl.risks import Risk
from ingest.ddl.widening import canonical_type, widens
from ingest.names import declared_for, lowered
from ingest.sql.metadata import source_name
from pipelines.ledger import generations
from pipelines.ledger.entries import POLICY, Entry, changes_behind, naming_of
from pipelines.ledger.shared_columns import without_others
from pipelines.ledger.statements import types_after, types_before
from pipelines.ledger.store import Ledger
from pipelines.targets.table import columns_of, keys_of


def reviewed(ledger: Ledger, entry: Entry, route: Route) -> Entry:
    """The entry as it concerns its target."""
    columns = columns_of(ledger.warehouse, route.target) or {}
    keys = keys_of(ledger.warehouse, route.target) or route.keys or ()
    if entry.statement is None:
        entry = of_data(entry, route, columns, keys=keys, later=_later(ledger, entry))
        return replace(entry, proposed=_on_target(ledger, entry, entry.proposed, columns=columns))
    statement = _statement(ledger, entry, columns)
    types = _source_types(ledger, entry, statement)
    hidden, later = _excluded_at(ledger, entry), _later(ledger, entry)
    known = _Known(route.columns, columns, keys, hidden, later)
    outcome = _review(entry, statement, known, types=types)
    declared = {name.lower(): type_ for name, type_ in route.columns.items()}
    here = lowered(columns)
    done = [clause for clause in statement.clauses if not changes_nothing(clause, types, here)]
    stated = schema_changes(done, declared)
    effects = effects_on(stated, columns, keys, exclude=hidden, later=later)
    stated_on_target = replace(entry, target=route.target, effects=effects)
    proposed = _on_target(ledger, stated_on_target, outcome.proposed, columns=columns)
    listed = [o.note for o in outcome.clauses if o.note]
    if proposed != outcome.proposed:
        listed.append(
            "other source tables of the target still have what goes: it stays for theirs"
            if _without_excluded(ledger, entry, outcome.proposed) != proposed
            else "a column of that name is excluded from gold in other source tables of the target"
        )
        outcome = replace(outcome, proposed=proposed)
    listed += _declared_otherwise(ledger, entry, effects, columns=columns)
    notes = "; ".join(dict.fromkeys(listed)) or None
    if entry.recreates:
        outcome = replace(outcome, risk="destructive", kind="create_table")
        effects = (RecreateTable(), *effects)
        notes = "the table was dropped and created again; approval empties it at that place"
    return replace(
        entry,
        target=route.target,
        risk=outcome.risk,
        kind=outcome.kind,
        proposed=outcome.proposed,
        effects=effects,
        why=notes if entry.decided_by in (None, POLICY) else entry.why,
    )


def _declared_otherwise(
    ledger: Ledger, entry: Entry, effects: Iterable[SchemaChange], *, columns: Mapping[str, str]
) -> Iterator[str]:
    """For each name that a column is given, why its values would not fit: the configuration
    declares for that name the type of another column, which had it before."""
    way = ledger.declared_route(entry.table)
    of_source = declared_for(
        ledger.warehouse.config.sources[ledger.source].columns, entry.table.path
    )
    renames = only(RenameColumn, effects)
    for file, before, declared, more in (
        ("tables file", columns, way.columns if way is not None else {}, ""),
        ("source's file", of_source, of_source, " and redecode the source"),
    ):
        types = {name.lower(): type_ for name, type_ in before.items()}
        said = {name.lower(): type_ for name, type_ in declared.items()}
        given = {}
        for change in renames:
            # A swap is carried out by way of a third name.
            if (type_ := types.pop(frees(change), None)) is not None:
                types[brings(change)] = given[change.new] = type_
        for name, type_ in given.items():
            told = said.get(name.lower(), type_)
            if canonical_type(told) != canonical_type(type_):
                yield (
                    f"`columns` of the {file} says that {name} is {told}, but the column called so "
                    f"from now on is {type_}: change that{more} once this is approved, else rows "
                    "are set aside as type_mismatch"
                )


def proposed_now(ledger: Ledger, entry: Entry, route: Route) -> tuple[ColumnChange, ...]:
    """What a review of the entry proposes for its target's columns as they are now.

    Silver is asked for the source's own types only where a clause says IF [NOT] EXISTS: otherwise
    they say how large a risk is, but change nothing in the proposal.
    """
    columns = columns_of(ledger.warehouse, route.target) or {}
    keys = keys_of(ledger.warehouse, route.target) or route.keys or ()
    later = _later(ledger, entry)
    if entry.statement is None:
        proposed = of_data(entry, route, columns, keys=keys, later=later).proposed
    else:
        known = _Known(route.columns, columns, keys, _excluded_at(ledger, entry), later)
        statement = _statement(ledger, entry, columns)
        types = _source_types(ledger, entry, statement) if _guarded(statement) else None
        proposed = _review(entry, statement, known, types=types).proposed
    return _on_target(ledger, entry, proposed, columns=columns)


def _on_target(
    ledger: Ledger,
    entry: Entry,
    proposed: Iterable[ColumnChange],
    *,
    columns: Mapping[str, str],
) -> tuple[ColumnChange, ...]:
    """What an entry proposes for a target that other source tables feed too: their columns stay,
    and no column is added under a name that an excluded column has in one of them."""
    kept = _without_excluded(ledger, entry, proposed)
    return without_others(ledger, entry, kept, columns=columns)


def _without_excluded(
    ledger: Ledger, entry: Entry, proposed: Iterable[ColumnChange]
) -> tuple[ColumnChange, ...]:
    way = ledger.route(entry.table)
    excluded = lowered(way.exclude) if way is not None else set()
    return tuple(
        change
        for change in proposed
        if not (isinstance(change, AddColumn) and change.name.lower() in excluded)
    )


def _statement(ledger: Ledger, entry: Entry, columns: Mapping[str, str]) -> Statement:
    """The entry's statement; a CREATE of a table that was dropped becomes clauses on its
    columns."""
    statement = ledger.statement(entry)
    if entry.recreates:
        return generations.columns_as_clauses(statement, columns)
    if not any(clause.if_exists for clause in statement.clauses):
        return statement
    # What an earlier change brought is there, whether or not it was let in.
    there = _brought_before(ledger, entry)
    clauses = (
        replace(c, if_exists=None) if (c.if_exists or "").lower() in there else c
        for c in statement.clauses
    )
    return replace(statement, clauses=tuple(clauses))


def _brought_before(ledger: Ledger, entry: Entry) -> set[str | None]:
    """The names, in lower case, that columns got by changes before the entry's, and still have."""
    found: set[str | None] = set()
    for other in sorted(ledger.of(entry.table), key=lambda other: other.place):
        if other.place >= entry.place:
            break
        for effect in other.effects:
            found.discard(frees(effect))
            found.add(brings(effect))
    return found - {None}


def _guarded(statement: Statement) -> bool:
    """Whether what a clause does depends on which columns the source has."""
    return any(c.if_exists or (c.column and c.if_not_exists) for c in statement.clauses)


class _Known(NamedTuple):
    """What a statement is reviewed against: the declared types, the target's columns and keys, the
    columns that are excluded at the statement's position, and the changes in force after it."""

    declared: Mapping[str, str]
    columns: Mapping[str, str]
    keys: Collection[str]
    exclude: Collection[str]
    later: Sequence[LineageEntry]


def _review(
    entry: Entry, statement: Statement, known: _Known, *, types: Mapping[str, str] | None = None
) -> Review:
    dialect = entry.dialect or "mysql"
    return review(statement, source_types=types, dialect=dialect, **known._asdict())


def _later(ledger: Ledger, entry: Entry) -> list[LineageEntry]:
    return changes_behind(entry, ledger.of(entry.table))


def _excluded_at(ledger: Ledger, entry: Entry) -> list[str]:
    """The excluded columns under the names that they have at the position of the entry's statement;
    a column that had such a name before, or gets it later, is another one."""
    way = ledger.declared_route(entry.table)
    if way is None:
        return []
    before = [
        other
        for other in ledger.of(entry.table)
        if other.pos is not None and entry.pos is not None and other.pos < entry.pos
    ]
    return sorted(excluded_through(way, [naming_of(before)]))


def _source_types(ledger: Ledger, entry: Entry, statement: Statement) -> dict[str, str]:
    """The source types that columns had before the statement, by messages and statements before it
    that name those which it modifies, or changes IF [NOT] EXISTS; none if it does neither."""
    names = {
        clause.column.name.lower()
        for clause in statement.clauses
        if clause.column is not None
        if clause.if_exists or clause.kind in ("modify_column", "add_column")
    }
    modified = any(clause.kind == "modify_column" for clause in statement.clauses)
    if not (modified or _guarded(statement)) or entry.pos is None:
        return {}
    since, types = types_before(ledger.warehouse, entry, ledger.names(entry.table))
    earlier = [
        other
        for other in ledger.of(entry.table)
        if other.statement and other.pos is not None and since <= other.pos < entry.pos
        if any(source_name(name) in other.statement.lower() for name in names) or other.recreates
    ]
    for other in sorted(earlier, key=lambda other: other.place):
        types = types_after(ledger.statement(other), {} if other.recreates else types)
    return types


def _as_stored(
    change: SchemaChange, columns: Mapping[str, str], *, name: str | None
) -> SchemaChange | None:
    """The change on a target with these columns, where the column concerned is called `name`: a new
    type may be held already, or be widened to in place. None if nothing changes."""
    stored = {known.lower(): type_ for known, type_ in columns.items()}.get(name or "")
    if not isinstance(change, AlterColumnType) or stored is None:
        return change
    old, new = canonical_type(stored), canonical_type(change.type)
    if old == new:
        return None
    return AlterColumnType(change.name, change.type, in_place=widens(old, new))


def effects_on(
    changes: Iterable[SchemaChange],
    columns: Mapping[str, str],
    keys: Collection[str],
    *,
    exclude: Iterable[str],
    later: Sequence[LineageEntry] = (),
) -> tuple[SchemaChange, ...]:
    """The effects of a statement's changes on a target with these columns and keys, whose names may
    come from `later` changes."""
    hidden = lowered(exclude)
    stored_types = {name.lower(): type_ for name, type_ in columns.items()}
    fixed = list(keys)
    changes = list(changes)
    # A key column that is dropped together with the key is a column like any other.
    named = [change.keys for change in only(ChangeKey, changes)]
    kept = lowered(named[-1]) if named else None
    done: list[SchemaChange] = []
    rekeyed = False
    for change in changes:
        if isinstance(change, RenameColumn) and brings(change) == frees(change):
            # Names are matched without case.
            continue
        if column_of(change) in hidden:
            # The new name of a column that gold does not have says which name must stay out later.
            if isinstance(change, DropColumn | RenameColumn):
                done.append(change)
                hidden |= {change.new.lower()} if isinstance(change, RenameColumn) else set()
            continue
        name = column_of(change)
        if isinstance(change, AlterColumnType):
            if retyped(change.name, later):
                # Its present type is the one that it was given later.
                continue
            name = (name_today(change.name, later) or "").lower()
        stored = _as_stored(change, stored_types, name=name)
        keyed = stored is not None and name in lowered(fixed)
        stays = keyed and (kept is None or column_of(change) in kept)
        if stored is None or (stays and isinstance(stored, DropColumn)):
            continue
        done.append(stored)
        if isinstance(stored, AlterColumnType) and not stored.in_place:
            rekeyed |= keyed
        if isinstance(stored, RenameColumn) and stored.old.lower() in stored_types:
            new = name_today(stored.new, later) or stored.new
            stored_types[new.lower()] = stored_types.pop(stored.old.lower())
            fixed = [new if key.lower() == stored.old.lower() else key for key in fixed]
    if rekeyed:
        # Rows are told apart anew: the same key, read as another type.
        done.append(ChangeKey(tuple(fixed)))
    return tuple(done)


def of_data(
    entry: Entry,
    route: Route,
    columns: Mapping[str, str],
    *,
    keys: Collection[str],
    later: Sequence[LineageEntry] = (),
) -> Entry:
    """An entry that data made, as it concerns a target with these columns and keys, whose names may
    come from `later` changes."""
    change, *more = entry.effects
    entry = replace(entry, target=route.target)
    came = column_of(change)
    today = name_today(came, later) if came is not None else ""
    stored = {name.lower(): name for name in columns}.get((today or "").lower())
    match change:
        case DropColumn():
            return replace(entry, proposed=(DropColumn(stored),) if stored is not None else ())
        case ChangeKey():
            return replace(entry, risk="destructive", kind="change_key")
        case AddColumn(name, type_) | AlterColumnType(name, type_):
            added, type_ = isinstance(change, AddColumn), type_ or "string"
            if today is None or (not added and retyped(name, later)):
                return replace(entry, risk="none", proposed=())
            name = name if today == name.lower() else today
        case RenameColumn() | ChangeKey() | RenameTable() | FreezeTable() | RecreateTable():
            raise AssertionError(f"expected a change that data shows, got {change}")
        case _:
            assert_never(change)
    risk: Risk
    proposed: tuple[ColumnChange, ...]
    if stored is None:
        risk, proposed = "additive", (AddColumn(name, type_),)
    elif holds(route, name, columns[stored], coming=type_):
        risk, proposed = "additive" if added else "widening", ()
    elif widens(canonical_type(columns[stored]), canonical_type(type_)):
        risk, proposed = "widening", (AlterColumnType(stored, type_, in_place=True),)
    else:
        risk, proposed = "destructive", (DropColumn(stored), AddColumn(name, type_))
        if not more and name.lower() in lowered(keys):
            # Rows are told apart anew: the same key, read as another type.
            more = [ChangeKey(tuple(keys))]
    return replace(
        entry,
        risk=risk,
        kind="add_column" if added else "modify_column",
        proposed=proposed,
        effects=(_as_stored(change, columns, name=name.lower()) or change, *more),
    )


def holds(route: Route, name: str, stored: str, *, coming: str) -> bool:
    """Whether every value of type `coming` fits the column `name` of type `stored` in the right
    way.

    A string holds every value, but is not what was asked for if the configuration declares a type.
    """
    if stored == coming:
        return True
    if stored == "string":
        return name.lower() not in lowered(route.columns)
    return widens(canonical_type(coming), canonical_type(stored))
