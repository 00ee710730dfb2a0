"""Approved schema changes carried out on their targets' tables, here and nowhere else.

`carry_out` does it for a run, for a decision, and for what a killed run left; `add_columns` does
the same for many entries that add a column each, by one commit. (`_deleted_at`, which no source
has, is added by `pipelines.targets.table`.) `carry_out` looks at the table as it is, so each step
can be done again:

1. The columns, as a review of now proposes them. If this entry takes a column away that a later
   change has added again, that column begins anew.
2. The key, as comments on its columns.
3. The literal DEFAULT in rows from before the change, unless all rows are to be folded again
   (`backfill.py`).

If columns take each other's names, the table does not show what is left to do: `a` and `b` are
there both before `a` becomes `b` and `b` becomes `a` and after it, and doing it twice undoes it. In
that case the target itself holds the entry's id, from before the first statement on (as a property,
which is a commit), and the commits after that one tell how many statements were carried out. If a
target's first rows came together with such a change, its columns may be from before it or after it:
they get the types of after it, and their values from history.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, assert_never

from ingest.config.modes import declared_keeping
from ingest.config.routes import Route
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
    freed,
    frees,
    name_after,
    name_today,
    only,
    retyped,
    takes_over,
)
from ingest.ddl.widening import canonical_type, widens
from ingest.errors import TableError
from ingest.names import SourceTable, label_of, lowered
from ingest.sql.casts import misfit
from ingest.sql.ledger.columns_sent import schema_behind
from ingest.sql.metadata import gold_name
from ingest.sql.quoting import quoted
from ingest.sql.silver import silver_changes
from ingest.sql.tables import rows as texts
from ingest.sql.tables.alter import commits, statements
from ingest.sql.tables.definition import comment, set_properties
from ingest.sql.tables.upkeep import history as history_of
from pipelines.ledger.backfill import backfill_needed, fill_defaults, masked_default
from pipelines.ledger.entries import Entry, added_again, changes_behind, was_hidden
from pipelines.ledger.review import proposed_now
from pipelines.ledger.shared_columns import others
from pipelines.ledger.store import Ledger
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.table import columns_of, keys_of


def carry_out(ledger: Ledger, entry: Entry, route: Route) -> bool:
    """Change the target's table as the entry asks for; gives whether its rows have to be folded
    again.

    Raises TableError if the table cannot be changed so.
    """
    warehouse = ledger.warehouse
    # With excluded columns under the names that the entry gives them.
    route = ledger.route(entry.table) or route
    zone = ledger.warehouse.config.sources[ledger.source].time_zone
    later = changes_behind(entry, ledger.of(entry.table))
    if not entry.recreates:
        # Of a table that was dropped, no value is left that would have to fit.
        _check_values(warehouse, route, entry, later=later, zone=zone)
    proposed = proposed_now(ledger, entry, route)
    again = added_again(entry, ledger.of(entry.table))
    steps = _begin_steps(warehouse, entry, proposed)
    _alter(warehouse, route, due(warehouse, entry, steps, again=again, later=later))
    names = ledger.names(entry.table)
    _alter(warehouse, route, _types_behind(warehouse, entry, route, names=names))
    if entry.recreates:
        return bool(only(DropColumn, entry.proposed))
    restored = _restore(ledger, entry, route)
    keyed = only(ChangeKey, entry.effects)
    for change in keyed:
        _set_key(warehouse, route, [name_today(key, later) or key for key in change.keys])
    shown = was_hidden(entry, ledger.of(entry.table))
    if keyed or again or restored or shown or only(RenameTable, entry.effects):
        return True
    if backfill_needed(entry, ledger.applied(entry)):
        return True
    present = lowered(columns_of(warehouse, route.target) or {})
    keys = lowered(keys_of(warehouse, route.target))
    kept = freed(entry.effects) & present
    if kept and (kept - keys or others(ledger, entry)):
        # The column stays for other source tables, but this one's rows no longer have it.
        return True
    if only(DropColumn, entry.effects) and declared_keeping(route).versions:
        # Versions that differed only in this column are one from now on.
        return True
    if masked_default(entry, route.masks, later) or _had_defaulted(entry):
        return True
    new = {added.name.lower() for added in only(AddColumn, proposed)}
    label = label_of(entry.table)
    return fill_defaults(warehouse, entry, later, new=new, label=label, zone=zone)


def _had_defaulted(entry: Entry) -> bool:
    """Whether a column that the entry adds with a DEFAULT was there already: only history tells
    which of its NULLs were sent."""
    proposed = {added.name.lower() for added in only(AddColumn, entry.proposed)}
    defaulted = (added for added in only(AddColumn, entry.effects) if added.default is not None)
    return any(added.name.lower() not in proposed for added in defaulted)


def add_columns(ledger: Ledger, entries: Sequence[Entry], route: Route) -> None:
    """`carry_out` for entries that each add a column and fill none, by one commit."""
    _alter(ledger.warehouse, route, [change for entry in entries for change in entry.proposed])


def _alter(warehouse: Warehouse, route: Route, changes: Iterable[ColumnChange]) -> None:
    for text in statements(warehouse.name("gold", route.target), changes):
        warehouse.execute(text)


def deferred(effect: SchemaChange) -> bool:
    """Whether the change leaves something to do after the target's columns are as wanted."""
    match effect:
        case AddColumn() | DropColumn() | RenameColumn():
            return False
        case AlterColumnType() | ChangeKey() | RenameTable() | FreezeTable() | RecreateTable():
            return True
        case _:
            assert_never(effect)


def due(
    warehouse: Warehouse,
    entry: Entry,
    proposed: Iterable[ColumnChange],
    *,
    again: Iterable[AddColumn],
    later: Sequence[LineageEntry],
) -> list[ColumnChange]:
    """The changes that bring the target's columns to where the entry wants them.

    `proposed`: what a review of now proposes, against the columns as they are. `again`: columns
    that are added anew under a name that the target has (52); they start empty. A crash between the
    two statements of a new generation leaves its column missing: it is added, unless a `later`
    change has renamed it or taken it away.
    """
    assert entry.target is not None
    columns = {name.lower(): name for name in columns_of(warehouse, entry.target) or {}}
    steps = list(proposed)
    for added in again:
        if (name := columns.get(added.name.lower())) is not None:
            steps += [DropColumn(name), AddColumn(added.name, added.type)]
    begun = {column_of(change) for change in only(DropColumn, entry.proposed)}
    for change in only(AlterColumnType, entry.effects):
        name = name_today(change.name, later)
        if change.in_place or name is None or name.lower() in columns:
            continue
        if {change.name.lower(), name.lower()} & begun:
            steps.append(AddColumn(name, change.type))
    return steps


def _check_values(
    warehouse: Warehouse,
    route: Route,
    entry: Entry,
    *,
    later: Sequence[LineageEntry],
    zone: str | None,
) -> None:
    """Raise TableError if the target holds a value that does not fit the column's new type: it
    would be lost."""
    columns = columns_of(warehouse, route.target) or {}
    spelling = {name.lower(): name for name in columns}
    # Under the name from before the entry's own renames.
    old = {rename.new.lower(): rename.old.lower() for rename in only(RenameColumn, entry.effects)}
    for change in only(AlterColumnType, entry.effects):
        if change.in_place or retyped(change.name, later):
            continue
        new, type_ = change.name.lower(), change.type
        today = (name_today(new, later) or "").lower()
        name = spelling.get(old.get(new, today)) or spelling.get(today)
        if name is None or type_ == columns[name]:
            continue
        text = _text(quoted(name), columns[name])
        unfit = misfit(text, type_, zone)
        if unfit is None or widens(canonical_type(columns[name]), canonical_type(type_)):
            continue
        target = warehouse.name("gold", route.target)
        row = warehouse.session.sql(texts.unfit(target, text, misfit=unfit)).first()
        if row is not None and row[0]:
            raise TableError(
                f"expected values that fit {type_} in {route.target}.{name}, got "
                f"{row[0]} that do not, {row[1]!r} among them; approve again when the source has "
                f"changed them, or reject to keep {columns[name]}"
            )


def _set_key(warehouse: Warehouse, route: Route, wanted: Sequence[str]) -> None:
    """Make the `wanted` columns the target's key, in addition to its shard column.

    Raises TableError if the target lacks one of them.
    """
    target = warehouse.name("gold", route.target)
    spelling = {name.lower(): name for name in columns_of(warehouse, route.target) or {}}
    if route.shard_column and route.shard_column.lower() not in map(str.lower, wanted):
        wanted = [*wanted, route.shard_column]
    lacking = [name for name in wanted if name.lower() not in spelling]
    if lacking:
        raise TableError(
            f"expected the new key's columns in {route.target}, got none called "
            f"{', '.join(lacking)}: approve what adds them first"
        )
    keys = [spelling[name.lower()] for name in wanted]
    for old in set(keys_of(warehouse, route.target)) - set(keys):
        warehouse.execute(comment(target, old, ""))
    for number, key in enumerate(keys, 1):
        warehouse.execute(comment(target, key, f"key {number}"))


def _restore(ledger: Ledger, entry: Entry, route: Route) -> list[AddColumn]:
    """Add again, empty, the columns that the entry took away although a later change had added
    them."""
    types = columns_of(ledger.warehouse, route.target) or {}
    held = {name.lower(): type_ for name, type_ in types.items()}
    taken = {frees(effect): effect for effect in entry.effects}
    later = changes_behind(entry, ledger.of(entry.table))
    found = [
        AddColumn(change.new, _moved_type(taken[change.new.lower()], later, held))
        if isinstance(change, RenameColumn)
        else change
        for change in (each.change for each in later)
        if isinstance(change, AddColumn | RenameColumn) and brings(change) in taken
    ]
    lacking = {e.name.lower(): e for e in found if e.name.lower() not in held}
    _alter(ledger.warehouse, route, lacking.values())
    return found


def _moved_type(
    change: SchemaChange, later: Iterable[LineageEntry], held: Mapping[str, str]
) -> str | None:
    """The stored type of the column that a late rename moved, looked up by its present name."""
    now = name_today(change.new, later) if isinstance(change, RenameColumn) else None
    return held.get((now or "").lower())


def _text(value: str, type_: str) -> str:
    """SQL of a stored value's canonical text."""
    if type_ == "binary":
        return f"base64({value})"
    if type_ == "timestamp":
        return f"concat(CAST(convert_timezone('UTC', {value}::timestamp_ntz) AS string), 'Z')"
    return f"CAST({value} AS string)"


MARK = "ingest.ddl"


def _types_behind(
    warehouse: Warehouse, entry: Entry, route: Route, *, names: Sequence[SourceTable]
) -> list[ColumnChange]:
    """The changes that give columns whose names are taken over the types that they have in the
    source's first row after the change, or the declared types; the columns are empty then. `names`:
    all names that the source table has had."""
    if entry.target is None or entry.pos is None or not takes_over(entry.effects):
        return []
    silver = warehouse.name("silver", "cdc")
    sent = silver_changes(silver, names, "true")
    schemas = silver_changes(silver, names, "true", kind="schema")
    listings = warehouse.session.sql(schema_behind(sent, schemas, above=entry.pos))
    types = {
        gold_name(c["name"]).lower(): c["type"] for (listed,) in rows(listings) for c in listed
    }
    types |= {name.lower(): type_ for name, type_ in route.columns.items()}
    excluded = lowered(route.exclude)
    columns = columns_of(warehouse, entry.target) or {}
    keys = lowered(keys_of(warehouse, entry.target))
    stored = {name.lower(): (name, type_) for name, type_ in columns.items()}
    changes: list[ColumnChange] = []
    for effect in entry.effects:
        if not isinstance(effect, AddColumn | RenameColumn):
            continue
        sent_name = name_after(effect)
        name = sent_name.lower()
        if name not in types or name in keys or name in excluded:
            continue
        if name in stored and canonical_type(stored[name][1]) == canonical_type(types[name]):
            continue
        if name in stored:
            changes.append(DropColumn(stored[name][0]))
        changes.append(AddColumn(sent_name, types[name]))
    return changes


class Alteration(NamedTuple):
    """A commit that changed the target's columns or properties: Delta's name for the operation, and
    what the log says of it."""

    operation: str
    parameters: Mapping[str, str]


_MARKED = "SET TBLPROPERTIES"


def _begin_steps(
    warehouse: Warehouse, entry: Entry, proposed: Sequence[ColumnChange]
) -> Sequence[ColumnChange]:
    """The changes to carry out. Usually these are `proposed`, which were reviewed against the
    columns as they are. If names are taken over, they are those of the entry that were not carried
    out before; if none was, the target is told first that they begin."""
    if not takes_over(entry.effects):
        return proposed
    assert entry.target is not None
    target = warehouse.name("gold", entry.target)
    history = warehouse.session.sql(history_of(target))
    operations = (_MARKED, "ADD COLUMNS", "CHANGE COLUMN", "DROP COLUMNS", "RENAME COLUMN")
    alterations = rows(
        history.where(history.operation.isin(*operations))
        .orderBy("version")
        .select("operation", "operationParameters")
    )
    done = carried_out(entry, [Alteration(*row) for row in alterations])
    if done is None:
        warehouse.execute(set_properties(target, {MARK: entry.id}))
        done = 0
    return [change for commit in commits(entry.proposed)[done:] for change in commit]


def carried_out(entry: Entry, alterations: Sequence[Alteration]) -> int | None:
    """How many of the entry's commits are among these, in the order of the log; None if they were
    not begun."""
    begun = [
        place
        for place, (operation, parameters) in enumerate(alterations)
        if operation == _MARKED
        and json.loads(parameters.get("properties") or "{}").get(MARK) == entry.id
    ]
    if not begun:
        return None
    wanted, done = commits(entry.proposed), 0
    for alteration in alterations[begun[-1] + 1 :]:
        if done < len(wanted) and _makes(alteration, wanted[done][0]):
            done += 1
    return done


def _makes(alteration: Alteration, change: ColumnChange) -> bool:
    operation, parameters = alteration
    match change:
        case AddColumn():
            return operation == "ADD COLUMNS"
        case DropColumn():
            return operation == "DROP COLUMNS"
        case AlterColumnType():
            return operation == "CHANGE COLUMN"
        case RenameColumn(old, new):
            paths = [_bare(parameters.get(f"{which}ColumnPath", "")) for which in ("old", "new")]
            return operation == "RENAME COLUMN" and paths == [old, new]
        case _:
            assert_never(change)


def _bare(path: str) -> str:
    """The name of a column without the quotes that the log puts around it."""
    return path[1:-1].replace("``", "`") if path.startswith("`") else path
