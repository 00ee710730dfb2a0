"""What schema changes do to a table, as types, and what follows from them.

A statement, or what data shows without one, comes to some of a closed set of changes. Each stands
at a place in the log, as a LineageEntry. Those of one source table, in order, are its Lineage,
which tells what the columns of an event of any age are called today (`ingest.sql.lineage` reads
events by it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar, assert_never, overload

import msgspec

from ingest.ddl.model import Clause
from ingest.names import lowered
from ingest.position import EPOCH, PHASE, SNAPSHOT, Pos

Fact = TypeVar("Fact")


class _Change(msgspec.Struct, frozen=True, tag_field="change", tag=True, omit_defaults=True):
    """Kept as JSON: a field `change` has the name of the type."""


class AddColumn(_Change, frozen=True):
    """`type` is a Spark type, None if it is not given; `default` the literal DEFAULT as canonical
    text; `if_not_exists`: a column of the name that was there stayed as it was."""

    name: str
    type: str | None = None
    default: str | None = None
    if_not_exists: bool = False


class DropColumn(_Change, frozen=True):
    name: str


class RenameColumn(_Change, frozen=True):
    old: str
    new: str


class AlterColumnType(_Change, frozen=True):
    """`in_place`: Delta widens the column as it is. Otherwise it becomes a new generation of the
    column, filled from history."""

    name: str
    type: str
    in_place: bool = False


class ChangeKey(_Change, frozen=True):
    keys: tuple[str, ...]


class RenameTable(_Change, frozen=True):
    """What the table is called from now on."""

    db: str | None
    schema: str | None
    name: str


class FreezeTable(_Change, frozen=True):
    """The table was dropped: its target stays as it is."""


class RecreateTable(_Change, frozen=True):
    """The table was dropped and created again: nothing from before is left."""


ColumnChange = AddColumn | DropColumn | RenameColumn | AlterColumnType
TableChange = ChangeKey | RenameTable | FreezeTable | RecreateTable
"""Those of the whole table."""
SchemaChange = ColumnChange | TableChange
Change = TypeVar("Change", bound=_Change)


def only(kind: type[Change], changes: Iterable[SchemaChange]) -> list[Change]:
    """Those of the changes that are of one kind."""
    return [change for change in changes if isinstance(change, kind)]


def schema_changes(clauses: Iterable[Clause], types: Mapping[str, str]) -> tuple[SchemaChange, ...]:
    """What the clauses of one statement do; `types`: the table's own declarations, by lower-case
    column."""
    found: list[SchemaChange] = []
    types = dict(types)
    for clause in clauses:
        name = clause.column.name if clause.column else ""
        type_ = types.get(name.lower(), clause.column.type if clause.column else None)
        if clause.kind == "add_column" and clause.column is not None:
            found.append(AddColumn(name, type_, clause.column.default, clause.if_not_exists))
        elif clause.kind == "drop_column":
            found.append(DropColumn(name))
        elif clause.kind == "rename_column" and clause.new_name is not None:
            found.append(RenameColumn(name, clause.new_name))
            if name.lower() in types:
                types.setdefault(clause.new_name.lower(), types[name.lower()])
        elif clause.kind == "modify_column" and type_ is not None:
            found.append(AlterColumnType(name, type_))
        elif clause.kind == "change_key" and clause.keys:
            found.append(ChangeKey(clause.keys))
        elif clause.kind in ("drop_table", "drop_database"):
            found.append(FreezeTable())
        elif clause.kind == "rename_table" and clause.new_table is not None:
            new = clause.new_table
            found.append(RenameTable(new.db, new.schema, new.name or ""))
    return tuple(found)


@overload
def column_of(change: ColumnChange) -> str: ...
@overload
def column_of(change: SchemaChange) -> str | None: ...
def column_of(change: SchemaChange) -> str | None:
    """The column concerned, in lower case; None if the change is of the whole table."""
    match change:
        case AddColumn(name) | DropColumn(name) | AlterColumnType(name):
            return name.lower()
        case RenameColumn(old):
            return old.lower()
        case ChangeKey() | RenameTable() | FreezeTable() | RecreateTable():
            return None
        case _:
            assert_never(change)


def name_after(change: ColumnChange) -> str:
    """What the column concerned is called from now on, as it is spelled there."""
    return change.new if isinstance(change, RenameColumn) else change.name


def brings(change: SchemaChange) -> str | None:
    """The name, in lower case, that a column has from now on and did not have before."""
    match change:
        case AddColumn(name) | RenameColumn(_, name):
            return name.lower()
        case (
            DropColumn()
            | AlterColumnType()
            | ChangeKey()
            | RenameTable()
            | FreezeTable()
            | RecreateTable()
        ):
            return None
        case _:
            assert_never(change)


def frees(change: SchemaChange) -> str | None:
    """The name, in lower case, that no column has any more from now on."""
    match change:
        case DropColumn(name) | RenameColumn(name):
            return name.lower()
        case (
            AddColumn()
            | AlterColumnType()
            | ChangeKey()
            | RenameTable()
            | FreezeTable()
            | RecreateTable()
        ):
            return None
        case _:
            assert_never(change)


def freed(changes: Iterable[SchemaChange]) -> set[str]:
    """The names, in lower case, that some change frees."""
    return {name for change in changes if (name := frees(change)) is not None}


def brought(changes: Iterable[SchemaChange]) -> set[str]:
    """The columns that these changes, one after the other, add to a table; a name that is given up
    before it is taken was there already."""
    first: dict[str, bool] = {}
    for change in changes:
        if (gone := frees(change)) is not None:
            first.setdefault(gone, False)
        if (new := brings(change)) is not None:
            first.setdefault(new, True)
    return {name for name, new in first.items() if new}


def takes_over(changes: Sequence[SchemaChange]) -> bool:
    """Whether a column takes the name of another that goes, or gets another name, in the same
    changes."""
    gone = freed(changes)
    return any(brings(change) in gone for change in changes)


class LineageEntry(NamedTuple):
    """A change at its place in the order of events. `hidden`: it waits for approval or was refused,
    and what comes under the name that it brings is not the target's column of that name from here
    on. A hidden drop says that the source has no such column from here on, though the target has:
    new rows do not get its DEFAULT."""

    pos: Pos
    change: ColumnChange
    hidden: bool = False


Lineage = tuple[LineageEntry, ...]
"""The changes through which events of one source table are read, in order of position."""


class Default(NamedTuple):
    """The literal DEFAULT (canonical text) of a column under one of its names, from `since` on and,
    if that is known, `until` the name was no longer the column's. `named`: the column was not added
    there, but renamed."""

    column: str
    text: str
    since: Pos
    until: Pos | None = None
    named: bool = False


def lineage(placed: Iterable[tuple[Pos, SchemaChange, bool]]) -> Lineage:
    """Those of the changes that tell how events are read, in order; each comes with its place and
    whether it is hidden. A column that was to be added if it did not exist, and had been brought
    before, is not among them, nor is a hidden drop of a column without a DEFAULT."""
    found: list[LineageEntry] = []
    there: set[str | None] = set()
    for pos, change, hidden in sorted(placed, key=lambda entry: entry[0]):
        if isinstance(change, AddColumn) and change.if_not_exists and brings(change) in there:
            continue
        if isinstance(change, RecreateTable):
            there.clear()
        there.discard(frees(change))
        there.add(brings(change))
        match change:
            case (
                AlterColumnType(in_place=True)
                | ChangeKey()
                | RenameTable()
                | FreezeTable()
                | RecreateTable()
            ):
                pass
            case AddColumn() | DropColumn() | RenameColumn() | AlterColumnType():
                found.append(LineageEntry(pos, change, hidden))
            case _:
                assert_never(change)
    if not any(entry.hidden and frees(entry.change) for entry in found):
        return tuple(found)
    known = defaults(tuple(found))
    return tuple(entry for entry in found if not entry.hidden or _hides(entry, known))


def _hides(entry: LineageEntry, known: Iterable[Default]) -> bool:
    """Whether a hidden entry changes how events are read, with these DEFAULTs."""
    if brings(entry.change) is not None:
        return True
    gone = frees(entry.change)
    return any(
        default.column.lower() == gone
        and default.since <= entry.pos
        and (default.until is None or default.until > entry.pos)
        for default in known
    )


def reaches(
    entries: Lineage, lowest: Pos | None, highest: Pos | None, *, images: Iterable[Iterable[str]]
) -> bool:
    """Whether some event between two positions, with images of these columns, is read otherwise
    than as it stands."""
    if lowest is None or highest is None or not entries:
        return False
    # A row of a snapshot stands below all places of its epoch at which the columns of its table may
    # have changed. There may be some in a later epoch, too.
    snapshot = lowest[PHASE] == SNAPSHOT or lowest[EPOCH] < highest[EPOCH]
    if any(snapshot or highest > e.pos if e.hidden else lowest < e.pos for e in entries):
        return True
    filled = {default.column.lower() for default in defaults(entries) if default.until is None}
    return any(not filled <= lowered(image) for image in images)


def renamed(names: Sequence[str], entries: Lineage, columns: Iterable[str]) -> tuple[str, ...]:
    """What `names` are called now; those that are not among `columns` are followed through
    renames."""
    held = lowered(columns)
    found = []
    for name in names:
        for entry in entries:
            if name.lower() in held:
                break
            change = entry.change
            if isinstance(change, RenameColumn) and change.old.lower() == name.lower():
                name = change.new
        found.append(name)
    return tuple(found)


def ended(entries: Lineage, column: str) -> Pos | None:
    """Where the name `column` last stopped being one of the table's; None if it is one."""
    end: Pos | None = None
    for entry in entries:
        if entry.hidden:
            continue
        if brings(entry.change) == column.lower():
            end = None
        elif frees(entry.change) == column.lower():
            end = entry.pos
    return end


def names_since(name: str, entries: Iterable[LineageEntry]) -> set[str]:
    """All names, in lower case, that a column declared as `name` has today. The declared name is
    always among them, whichever column has it by now."""
    declared = name.lower()
    now = {declared}
    for _, changes in _at_once(entries):
        renames = only(RenameColumn, changes)
        new = {change.new.lower() for change in renames if change.old.lower() in now}
        now = (now - freed(changes)) | new | {declared}
    return now


def ever_called(name: str, renames: Iterable[RenameColumn]) -> set[str]:
    """All names, in lower case, that a column called `name` may have had or got by the renames."""
    pairs = [(change.old.lower(), change.new.lower()) for change in renames]
    found, met = {name.lower()}, 0
    while len(found) > met:
        met = len(found)
        found |= {name for pair in pairs if found & {*pair} for name in pair}
    return found


def name_today(name: str, entries: Iterable[LineageEntry]) -> str | None:
    """The name, after these changes, of the column that is called `name` before them; None if one
    of them removes it."""
    for _, changes in _at_once(entries):
        for change in changes:
            if frees(change) == name.lower():
                if not isinstance(change, RenameColumn):
                    return None
                name = change.new
                break
    return name


class NameBelow(NamedTuple):
    """What a column is called in events below a position; None: in all later ones, too."""

    below: Pos | None
    name: str


def names_through(name: str, entries: Iterable[LineageEntry]) -> list[NameBelow]:
    """The names that a column has had, in order; the last one is today's. It is declared as `name`,
    which may be its name before or after a rename."""
    steps = [(pos, only(RenameColumn, changes)) for pos, changes in _at_once(entries)]
    given_up = (i for i, (_, made) in enumerate(steps) if name.lower() in freed(made))
    first = name
    for _, made in reversed(steps[: next(given_up, len(steps))]):
        first = next((change.old for change in made if brings(change) == first.lower()), first)
    found: list[NameBelow] = []
    now = first
    for pos, made in steps:
        new = next((change.new for change in made if frees(change) == now.lower()), None)
        if new is not None:
            found.append(NameBelow(pos, now))
            now = new
    return [*found, NameBelow(None, now)]


def retyped(name: str, entries: Iterable[LineageEntry]) -> bool:
    """Whether one of these changes gives another type to the column that is called `name` before
    them."""
    now: str | None = name.lower()
    for _, changes in _at_once(entries):
        gone = [change for change in changes if now is not None and frees(change) == now]
        if gone:
            now = gone[0].new.lower() if isinstance(gone[0], RenameColumn) else None
        if any(change.name.lower() == now for change in only(AlterColumnType, changes)):
            return True
    return False


def _at_once(entries: Iterable[LineageEntry]) -> Iterator[tuple[Pos, list[ColumnChange]]]:
    """The changes in force, those of one position together: renames at one position happen at the
    same time."""
    for pos, several in groupby(entries, lambda entry: entry.pos):
        yield pos, [entry.change for entry in several if not entry.hidden]


def retypings(entries: Lineage) -> dict[str, Pos]:
    """Where each of today's columns, in lower case, last got another type, whatever its name was
    then; values from before need not fit it."""
    return _by_todays_names(
        entries, lambda pos, change: pos if isinstance(change, AlterColumnType) else None
    )


def defaults(entries: Lineage) -> list[Default]:
    """The DEFAULTs that columns had, in order of position. A rename keeps a DEFAULT; a change that
    brings another column of the name, or removes the column, ends it."""
    found: list[Default] = []
    current: dict[str, int] = {}
    for pos, change in ((entry.pos, entry.change) for entry in entries if not entry.hidden):
        text = change.default if isinstance(change, AddColumn) else None
        gone, new = frees(change), brings(change)
        for name in current.keys() & {gone, new}:
            number = current.pop(name)
            found[number] = found[number]._replace(until=pos)
            if name == gone:
                text = found[number].text
        if text is not None and new is not None:
            current[new] = len(found)
            named = isinstance(change, RenameColumn)
            found.append(Default(name_after(change), text, pos, named=named))
    return found


class Added(NamedTuple):
    """Where a column was added with a literal DEFAULT, and that as canonical text: rows from before
    have had this value since."""

    since: Pos
    text: str


def added_with_default(entries: Lineage) -> dict[str, Added]:
    """Today's columns, in lower case, that were added with a literal DEFAULT, whatever their names
    were then."""

    def added(pos: Pos, change: ColumnChange) -> Added | None:
        literal = change.default if isinstance(change, AddColumn) else None
        return Added(pos, literal) if literal is not None else None

    return _by_todays_names(entries, added)


def _by_todays_names(
    entries: Lineage, said: Callable[[Pos, ColumnChange], Fact | None]
) -> dict[str, Fact]:
    """What the changes in force say about columns (`said`; None: nothing), by today's names, in
    lower case. A rename keeps it, and it goes with the column."""
    found: dict[str, Fact] = {}
    for pos, changes in _at_once(entries):
        before = dict(found)
        for name in freed(changes):
            found.pop(name, None)
        for change in changes:
            new, known = name_after(change).lower(), said(pos, change)
            if known is None and isinstance(change, RenameColumn):
                known = before.get(change.old.lower())
            if known is not None:
                found[new] = known
    return found
