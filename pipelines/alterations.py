"""What a schema change does to its target's columns; each step can be done again after a crash."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ingest.casts import misfit, sql_text, typed
from ingest.ddl_delta import Review, add_column, drop_column, quoted, review
from ingest.ddl_record import Statement
from ingest.ddl_widening import spelt, widens
from ingest.errors import TableError
from ingest.lineage import Effect, takes_over
from ingest.order import Pos, pos_literal
from ingest.routes import Route
from ingest.shape import column
from pipelines.ddl_entries import Entry
from pipelines.tables import Warehouse
from pipelines.targets import columns_of

DEFERRED = {"retype", "widen", "key", "move", "freeze"}
"""Effects of which something is left to do when the target's columns are as wanted."""


def as_stored(effect: Effect, columns: Mapping[str, str]) -> Effect | None:
    """The effect on a target with these columns: a new type may be held, or widened to, in place;
    None where nothing changes."""
    stored = {name.lower(): type_ for name, type_ in columns.items()}.get(effect.column)
    if effect.op != "retype" or stored is None:
        return effect
    old, new = spelt(stored), spelt(effect.args[1] or "")
    if old == new:
        return None
    return effect._replace(op="widen") if widens(old, new) else effect


def effects_on(
    found: Iterable[Effect],
    columns: Mapping[str, str],
    keys: Collection[str],
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
    if any(effect.op == "add" and effect.args[2] is not None for effect in entry.effects):
        return True
    return bool(entry.proposed) and any(e.op in ("add", "rename") for e in entry.effects)


def reviewed(
    warehouse: Warehouse,
    route: Route,
    statement: Statement,
    columns: Mapping[str, str],
    keys: Iterable[str],
) -> Review:
    """What the statement asks of the target as it is now."""
    return review(
        statement,
        target=warehouse.name("gold", route.target),
        columns=columns,
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


def check_values(warehouse: Warehouse, route: Route, entry: Entry, zone: str | None) -> None:
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
        if unfit is None or widens(spelt(columns[name]), spelt(effect.args[1])):
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


def fill_defaults(warehouse: Warehouse, entry: Entry, label: str, zone: str | None) -> None:
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
        warehouse.session.sql(f"UPDATE {target} SET {column(name)} = {value} WHERE {where}")


def _text(value: str, type_: str) -> str:
    """SQL of a stored value's canonical text."""
    if type_ == "binary":
        return f"base64({value})"
    if type_ == "timestamp":
        return f"concat(CAST(convert_timezone('UTC', {value}::timestamp_ntz) AS string), 'Z')"
    return f"CAST({value} AS string)"
