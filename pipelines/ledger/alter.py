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
from typing import NamedTuple

from ingest.config.routes import Route
from ingest.ddl.model import Statement
from ingest.ddl.review import Review, add_column, drop_column, quoted, review
from ingest.ddl.widening import canonical_type, widens
from ingest.errors import TableError
from ingest.position import Pos, pos_literal
from ingest.sql.casts import misfit, sql_text, typed
from ingest.sql.lineage import Effect, takes_over
from ingest.sql.metadata import gold_name
from ingest.sql.projection import column
from pipelines.ledger.entries import Entry
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import named
from pipelines.targets.table import columns_of, keys_of

DEFERRED = {"retype", "widen", "key", "move", "freeze", "anew"}
"""Effects of which something is left to do when the target's columns are as wanted."""


def as_stored(effect: Effect, columns: Mapping[str, str]) -> Effect | None:
    """The effect on a target with these columns: a new type may be held, or widened to, in place;
    None where nothing changes."""
    stored = {name.lower(): type_ for name, type_ in columns.items()}.get(effect.column)
    if effect.op != "retype" or stored is None:
        return effect
    old, new = canonical_type(stored), canonical_type(effect.args[1] or "")
    if old == new:
        return None
    return effect._replace(op="widen") if widens(old, new) else effect


def effects_on(
    found: Iterable[Effect],
    columns: Mapping[str, str],
    keys: Collection[str],
    *,
    exclude: Iterable[str],
) -> tuple[Effect, ...]:
    """What effects of a statement come to on a target with these columns and keys."""
    hidden = {name.lower() for name in exclude}
    held = {name.lower(): type_ for name, type_ in columns.items()}
    fixed = list(keys)
    done: list[Effect] = []
    anew = False
    for effect in found:
        stored = as_stored(effect, held) if effect.column not in hidden else None
        keyed = stored is not None and stored.column in map(str.lower, fixed)
        if stored is None or (stored.op == "drop" and keyed):
            continue
        done.append(stored)
        anew |= stored.op == "retype" and keyed
        new = stored.args[1] if stored.op == "rename" else None
        if new is not None and stored.column in held:
            held[new.lower()] = held.pop(stored.column)
            fixed = [new if key.lower() == stored.column else key for key in fixed]
    if anew:
        # Rows are told apart anew: the same key, read as another type.
        done.append(Effect("key", tuple(fixed)))
    return tuple(done)


def refill_needed(entry: Entry, applied: Pos | None) -> bool:
    """Whether the target has to be folded again after the entry's statements.

    It has where a column begins anew from all of history, where names are taken over, or where
    events above the change were applied (the highest is at `applied`) while the column was not
    there or had no default.
    """
    if takes_over(entry.effects):
        return True
    if any(" DROP COLUMN " in text for text in entry.proposed) and any(
        effect.op in ("retype", "rename") for effect in entry.effects
    ):
        return True
    if applied is None or (entry.pos is not None and applied < entry.pos):
        return False
    if any(effect.op == "anew" for effect in entry.effects):
        # What came since waits for it.
        return False
    if any(effect.op == "add" and effect.args[2] is not None for effect in entry.effects):
        return True
    return bool(entry.proposed) and any(e.op in ("add", "rename") for e in entry.effects)


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
        target=warehouse.name("gold", route.target),
        columns=columns,
        source_types=source_types,
        dialect=dialect,
        declared=route.columns,
        exclude=route.exclude,
        keys=tuple(keys),
    )


def due(
    warehouse: Warehouse, entry: Entry, proposed: Iterable[str], *, again: Iterable[Effect]
) -> list[str]:
    """The statements that bring the target's columns to where the entry wants them.

    `proposed` are those of its review against the columns as they are; `again` are columns that are
    added anew under a name that the target has (52), and start empty. A crash between the two
    statements of a new generation leaves its column missing: it is added.
    """
    assert entry.target is not None
    target = warehouse.name("gold", entry.target)
    columns = {name.lower(): name for name in columns_of(warehouse, entry.target) or {}}
    found = list(proposed)
    for effect in again:
        if effect.column in columns:
            name, type_ = effect.args[0] or "", effect.args[1] or "string"
            found.append(drop_column(target, columns[effect.column]))
            found.append(add_column(target, name, type_))
    begun = "\n".join(entry.proposed).lower()
    for effect in entry.effects:
        if effect.op != "retype" or effect.column in columns:
            continue
        if f"drop column {quoted(effect.column)}" in begun:
            assert effect.args[1] is not None
            found.append(add_column(target, effect.args[0] or "", effect.args[1]))
    return found


def check_values(warehouse: Warehouse, route: Route, entry: Entry, *, zone: str | None) -> None:
    """Raise TableError where the target holds a value that has no place in the column's new type:
    it would be lost."""
    columns = columns_of(warehouse, route.target) or {}
    held = {name.lower(): name for name in columns}
    for effect in entry.effects:
        name = held.get(effect.column)
        if effect.op != "retype" or name is None or effect.args[1] in (None, columns[name]):
            continue
        assert effect.args[1] is not None
        text = _text(column(name), columns[name])
        unfit = misfit(text, effect.args[1], zone)
        if unfit is None or widens(canonical_type(columns[name]), canonical_type(effect.args[1])):
            continue
        target = warehouse.name("gold", route.target)
        row = warehouse.session.sql(
            f"SELECT count(*), min({text}) FROM {target} WHERE {unfit}"
        ).first()
        if row is not None and row[0]:
            raise TableError(
                f"expected values that fit {effect.args[1]} in {route.target}.{name}, got "
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
        name = held.get(effect.column)
        if effect.op != "add" or name is None or effect.args[2] is None:
            continue
        value = typed(sql_text(effect.args[2]), now[name], zone)
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
_OPERATIONS = {
    "ADD COLUMNS": " ADD COLUMNS ",
    "CHANGE COLUMN": " ALTER COLUMN ",
    "DROP COLUMNS": " DROP COLUMN ",
    "RENAME COLUMN": " RENAME COLUMN ",
}
"""Delta's operations -> the words of the statements that make them."""


def types_behind(warehouse: Warehouse, entry: Entry, declared: Mapping[str, str]) -> list[str]:
    """The statements that give the columns whose names are taken over the types that the source's
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
    target = warehouse.name("gold", entry.target)
    statements = []
    for effect in entry.effects:
        name = effect.brings
        if name is None or name not in types or name in keys:
            continue
        if name in held and canonical_type(held[name][1]) == canonical_type(types[name]):
            continue
        if name in held:
            statements.append(drop_column(target, held[name][0]))
        given = effect.args[effect.op == "rename"] or ""
        statements.append(add_column(target, given, types[name]))
    return statements


class Alteration(NamedTuple):
    """A commit that changed the target's columns or properties."""

    operation: str
    parameters: Mapping[str, str]


def left(warehouse: Warehouse, entry: Entry, proposed: Sequence[str]) -> Sequence[str]:
    """The statements to carry out: `proposed`, which were reviewed against the columns as they are,
    unless names are taken over; then those of the entry that were not carried out before."""
    if not takes_over(entry.effects):
        return proposed
    assert entry.target is not None
    target = warehouse.name("gold", entry.target)
    history = warehouse.session.sql(f"DESCRIBE HISTORY {target}")
    found = rows(
        history.where(history.operation.isin("SET TBLPROPERTIES", *_OPERATIONS))
        .orderBy("version")
        .select("operation", "operationParameters")
    )
    done = carried_out(entry, [Alteration(*row) for row in found])
    if done is None:
        mark = f"{sql_text(MARK)} = {sql_text(entry.id)}"
        warehouse.execute(f"ALTER TABLE {target} SET TBLPROPERTIES ({mark})")
        done = 0
    return entry.proposed[done:]


def carried_out(entry: Entry, alterations: Sequence[Alteration]) -> int | None:
    """How many of the entry's statements are among these commits, in the order of the log; None
    where they were not begun."""
    begun = [
        place
        for place, (operation, parameters) in enumerate(alterations)
        if operation == "SET TBLPROPERTIES"
        and json.loads(parameters.get("properties") or "{}").get(MARK) == entry.id
    ]
    if not begun:
        return None
    done = 0
    for alteration in alterations[begun[-1] + 1 :]:
        if done < len(entry.proposed) and _made_by(entry.proposed[done], alteration):
            done += 1
    return done


def _made_by(statement: str, alteration: Alteration) -> bool:
    operation, parameters = alteration
    if operation == "RENAME COLUMN":
        old, new = (parameters.get(f"{which}ColumnPath", "") for which in ("old", "new"))
        return statement.endswith(f" RENAME COLUMN {_bare(old)} TO {_bare(new)}")
    return _OPERATIONS.get(operation, "?") in statement


def _bare(path: str) -> str:
    """A column as a statement has it, however the log quotes it."""
    return quoted(path[1:-1].replace("``", "`") if path.startswith("`") else path)
