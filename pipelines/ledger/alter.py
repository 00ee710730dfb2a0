"""What a schema change does to its target's columns; each step can be done again after a crash.

What is left to do of a schema change whose columns take each other's names.

Whether a column was added or renamed shows in the table: it is there. Where `a` becomes `b` and `b`
becomes `a` the names are the same before and after, and doing it twice undoes it. There the target
itself holds the entry's id from before the first statement on (a property, and so a commit), and
the commits behind it tell how many statements were carried out. Whether a target that began with
such a change in its first rows has the columns from before it or from after it cannot be told at
all: they get the types that they have behind it, and their values from history.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, assert_never

from ingest.config.routes import Route
from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    ColumnChange,
    DropColumn,
    RecreateTable,
    RenameColumn,
    SchemaChange,
    brings,
    column_of,
    name_after,
    takes_over,
)
from ingest.ddl.model import Statement
from ingest.ddl.review import Review, review
from ingest.ddl.widening import canonical_type, widens
from ingest.errors import TableError
from ingest.position import Pos, pos_literal
from ingest.sql.alter import commits
from ingest.sql.casts import misfit, sql_text, typed
from ingest.sql.metadata import gold_name
from ingest.sql.projection import column
from pipelines.ledger.entries import Entry
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import named
from pipelines.targets.table import columns_of, keys_of


def deferred(effects: Iterable[SchemaChange]) -> bool:
    """Whether something is left to do when the target's columns are as wanted."""
    return not all(isinstance(e, AddColumn | DropColumn | RenameColumn) for e in effects)


def as_stored(change: SchemaChange, columns: Mapping[str, str]) -> SchemaChange | None:
    """The change on a target with these columns: a new type may be held, or widened to, in place;
    None where nothing changes."""
    stored = {name.lower(): type_ for name, type_ in columns.items()}.get(column_of(change) or "")
    if not isinstance(change, AlterColumnType) or stored is None:
        return change
    old, new = canonical_type(stored), canonical_type(change.type)
    if old == new:
        return None
    return AlterColumnType(change.name, change.type, in_place=widens(old, new))


def effects_on(
    found: Iterable[SchemaChange],
    columns: Mapping[str, str],
    keys: Collection[str],
    *,
    exclude: Iterable[str],
) -> tuple[SchemaChange, ...]:
    """What effects of a statement come to on a target with these columns and keys."""
    hidden = {name.lower() for name in exclude}
    held = {name.lower(): type_ for name, type_ in columns.items()}
    fixed = list(keys)
    done: list[SchemaChange] = []
    anew = False
    for effect in found:
        stored = as_stored(effect, held) if column_of(effect) not in hidden else None
        keyed = stored is not None and column_of(stored) in {key.lower() for key in fixed}
        if stored is None or (keyed and isinstance(stored, DropColumn)):
            continue
        done.append(stored)
        match stored:
            case AlterColumnType(in_place=False):
                anew |= keyed
            case RenameColumn(old, new) if old.lower() in held:
                held[new.lower()] = held.pop(old.lower())
                fixed = [new if key.lower() == old.lower() else key for key in fixed]
    if anew:
        # Rows are told apart anew: the same key, read as another type.
        done.append(ChangeKey(tuple(fixed)))
    return tuple(done)


def refill_needed(entry: Entry, applied: Pos | None) -> bool:
    """Whether the target has to be folded again after its columns are changed.

    It has where a column begins anew from all of history, where names are taken over, or where
    events above the change were applied (the highest is at `applied`) while the column was not
    there or had no default.
    """
    if takes_over(entry.effects):
        return True
    begins_anew = any(isinstance(change, DropColumn) for change in entry.proposed)
    if begins_anew and any(map(_keeps_values, entry.effects)):
        return True
    if applied is None or (entry.pos is not None and applied < entry.pos):
        return False
    if RecreateTable() in entry.effects:
        # What came since waits for it.
        return False
    if any(isinstance(e, AddColumn) and e.default is not None for e in entry.effects):
        return True
    return bool(entry.proposed) and any(brings(e) is not None for e in entry.effects)


def _keeps_values(effect: SchemaChange) -> bool:
    """Whether a column's values are to go on, as another type or under another name."""
    match effect:
        case RenameColumn() | AlterColumnType(in_place=False):
            return True
        case _:
            return False


def reviewed(
    warehouse: Warehouse,
    route: Route,
    statement: Statement,
    *,
    columns: Mapping[str, str],
    keys: Iterable[str],
    source_types: Mapping[str, str],
    dialect: str,
) -> Review:
    """What the statement asks of the target as it is now; `source_types`: those of its columns
    before, as far as they are known."""
    return review(
        statement,
        columns=columns,
        source_types=source_types,
        dialect=dialect,
        declared=route.columns,
        exclude=route.exclude,
        keys=tuple(keys),
    )


def due(
    warehouse: Warehouse,
    entry: Entry,
    proposed: Iterable[ColumnChange],
    *,
    again: Iterable[AddColumn],
) -> list[ColumnChange]:
    """The changes that bring the target's columns to where the entry wants them.

    `proposed` are those of its review against the columns as they are; `again` are columns that are
    added anew under a name that the target has (52), and start empty. A crash between the two
    statements of a new generation leaves its column missing: it is added.
    """
    assert entry.target is not None
    columns = {name.lower(): name for name in columns_of(warehouse, entry.target) or {}}
    found = list(proposed)
    for added in again:
        if (name := columns.get(added.name.lower())) is not None:
            found += [DropColumn(name), AddColumn(added.name, added.type)]
    begun = {column_of(change) for change in entry.proposed if isinstance(change, DropColumn)}
    for effect in entry.effects:
        match effect:
            case AlterColumnType(name, type_, False) if name.lower() in begun - columns.keys():
                found.append(AddColumn(name, type_))
    return found


def check_values(warehouse: Warehouse, route: Route, entry: Entry, *, zone: str | None) -> None:
    """Raise TableError where the target holds a value that has no place in the column's new type:
    it would be lost."""
    columns = columns_of(warehouse, route.target) or {}
    held = {name.lower(): name for name in columns}
    for effect in entry.effects:
        if not isinstance(effect, AlterColumnType) or effect.in_place:
            continue
        name, type_ = held.get(effect.name.lower()), effect.type
        if name is None or type_ == columns[name]:
            continue
        text = _text(column(name), columns[name])
        unfit = misfit(text, type_, zone)
        if unfit is None or widens(canonical_type(columns[name]), canonical_type(type_)):
            continue
        target = warehouse.name("gold", route.target)
        row = warehouse.session.sql(
            f"SELECT count(*), min({text}) FROM {target} WHERE {unfit}"
        ).first()
        if row is not None and row[0]:
            raise TableError(
                f"expected values that fit {type_} in {route.target}.{name}, got "
                f"{row[0]} that do not, {row[1]!r} among them; approve again when the source has "
                f"changed them, or reject to keep {columns[name]}"
            )


def fill_defaults(warehouse: Warehouse, entry: Entry, label: str, *, zone: str | None) -> None:
    """Rows from before an ADD COLUMN hold its literal default at the source (51).

    Holds where no event above the change was applied yet.
    """
    assert entry.target is not None
    now = columns_of(warehouse, entry.target) or {}
    held = {name.lower(): name for name in now}
    for effect in entry.effects:
        if not isinstance(effect, AddColumn) or effect.default is None:
            continue
        name = held.get(effect.name.lower())
        if name is None:
            continue
        value = typed(sql_text(effect.default), now[name], zone)
        where = f"_source_table = {sql_text(label)} AND {column(name)} IS NULL"
        if entry.pos is not None:
            where += f" AND _pos < {pos_literal(entry.pos)}"
        target = warehouse.name("gold", entry.target)
        warehouse.execute(f"UPDATE {target} SET {column(name)} = {value} WHERE {where}")


def _text(value: str, type_: str) -> str:
    """SQL of a stored value's canonical text."""
    if type_ == "binary":
        return f"base64({value})"
    if type_ == "timestamp":
        return f"concat(CAST(convert_timezone('UTC', {value}::timestamp_ntz) AS string), 'Z')"
    return f"CAST({value} AS string)"


MARK = "ingest.ddl"


def types_behind(
    warehouse: Warehouse, entry: Entry, declared: Mapping[str, str]
) -> list[ColumnChange]:
    """The changes that give the columns whose names are taken over the types that the source's
    first row behind the change has, or the `declared` ones; they are empty then."""
    if entry.target is None or entry.pos is None or not takes_over(entry.effects):
        return []
    silver = warehouse.name("silver", "cdc")
    its = f"source = {sql_text(entry.table.source)} AND {named(entry.table)}"
    found = warehouse.session.sql(
        f"SELECT columns FROM {silver} WHERE {its} AND kind = 'schema' AND schema_id = ("
        f"SELECT min_by(schema_id, pos) FROM {silver} WHERE {its} AND kind = 'change' "
        f"AND schema_id IS NOT NULL AND pos > {pos_literal(entry.pos)}) LIMIT 1"
    )
    types = {gold_name(c["name"]).lower(): c["type"] for (listed,) in rows(found) for c in listed}
    types |= {name.lower(): type_ for name, type_ in declared.items()}
    columns = columns_of(warehouse, entry.target) or {}
    keys = {name.lower() for name in keys_of(warehouse, entry.target)}
    held = {name.lower(): (name, type_) for name, type_ in columns.items()}
    changes: list[ColumnChange] = []
    for effect in entry.effects:
        name = brings(effect)
        if name is None or name not in types or name in keys:
            continue
        if name in held and canonical_type(held[name][1]) == canonical_type(types[name]):
            continue
        if name in held:
            changes.append(DropColumn(held[name][0]))
        changes.append(AddColumn(name_after(effect) or name, types[name]))
    return changes


class Alteration(NamedTuple):
    """A commit that changed the target's columns or properties: Delta's name for it, and what the
    log says of it."""

    operation: str
    parameters: Mapping[str, str]


_MARKED = "SET TBLPROPERTIES"


def left(
    warehouse: Warehouse, entry: Entry, proposed: Sequence[ColumnChange]
) -> Sequence[ColumnChange]:
    """The changes to carry out: `proposed`, which were reviewed against the columns as they are,
    unless names are taken over; then those of the entry that were not carried out before."""
    if not takes_over(entry.effects):
        return proposed
    assert entry.target is not None
    target = warehouse.name("gold", entry.target)
    history = warehouse.session.sql(f"DESCRIBE HISTORY {target}")
    operations = (_MARKED, "ADD COLUMNS", "CHANGE COLUMN", "DROP COLUMNS", "RENAME COLUMN")
    found = rows(
        history.where(history.operation.isin(*operations))
        .orderBy("version")
        .select("operation", "operationParameters")
    )
    done = carried_out(entry, [Alteration(*row) for row in found])
    if done is None:
        mark = f"{sql_text(MARK)} = {sql_text(entry.id)}"
        warehouse.execute(f"ALTER TABLE {target} SET TBLPROPERTIES ({mark})")
        done = 0
    return [change for commit in commits(entry.proposed)[done:] for change in commit]


def carried_out(entry: Entry, alterations: Sequence[Alteration]) -> int | None:
    """How many of the commits that the entry comes to are among these, in the order of the log;
    None where they were not begun."""
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
    """A column's name, however the log quotes it."""
    return path[1:-1].replace("``", "`") if path.startswith("`") else path
