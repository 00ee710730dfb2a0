"""What approved schema changes mean for events from before them (rulings.md, 46, 51 and 52).

A target has today's columns; an event was written under those of its time. An Edit is one change of
a column at a position, and `translated` reads every event through the edits above it: a value of a
renamed column comes under the name of now, a value of a dropped column does not come at all, and
where a column was added with a literal DEFAULT, an image from before has that, as the source's row
had. So every fold, of a batch as of all history, gives the rows that the source has, in whichever
order events and schema changes come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from ingest.casts import sql_text
from ingest.ddl_record import Clause
from ingest.order import Pos, pos_literal


class Effect(NamedTuple):
    """One thing that a schema change does, once approved.

    `op` and `args`: add (column, Spark type or None, DEFAULT as canonical text or None) · drop
    (column) · rename (old, new) · retype (column, Spark type: a new generation, filled
    from history) · widen (column, Spark type: in place) · key (columns…) · freeze () · move
    (db, schema and table that it is called from now on).
    """

    op: str
    args: tuple[str | None, ...] = ()

    @property
    def column(self) -> str:
        """The column concerned, in lower case; '' where the change is of the whole table."""
        of_columns = self.op in ("add", "drop", "rename", "retype", "widen")
        return (self.args[0] or "").lower() if of_columns else ""

    @property
    def brings(self) -> str | None:
        """The column that there is from now on, in lower case."""
        name = {"add": 0, "rename": 1}.get(self.op)
        return None if name is None else (self.args[name] or "").lower()


def brought(effects: Iterable[Effect]) -> set[str]:
    """The columns that these effects, one after the other, bring to a table that had them not: a
    name that is given up before it is taken was there."""
    first: dict[str, bool] = {}
    for effect in effects:
        if effect.op in ("drop", "rename"):
            first.setdefault(effect.column, False)
        if effect.brings is not None:
            first.setdefault(effect.brings, True)
    return {name for name, new in first.items() if new}


def takes_over(effects: Sequence[Effect]) -> bool:
    """Whether a column takes the name of one that goes, or goes by another, in the same change."""
    gone = {effect.column for effect in effects if effect.op in ("rename", "drop")}
    return any(effect.brings in gone for effect in effects)


class Edit(NamedTuple):
    """An effect at its place in the order of events. `hidden`: it waits for its approval, and what
    comes under the name from here on is not what the target has under it."""

    pos: Pos
    effect: Effect
    hidden: bool = False


Lineage = tuple[Edit, ...]
"""The edits of one source table, in order of position."""
NAMING = {"add", "drop", "rename"}
"""Effects on which columns there are."""
SHAPING = {"add", "drop", "rename", "retype"}
"""Effects that tell how earlier events are read."""


class Default(NamedTuple):
    """The literal DEFAULT (canonical text) of a column under one of its names, from `since` on and,
    where that is known, until the name ceased to be the column's. `named`: not added then, but
    renamed."""

    column: str
    text: str
    since: Pos
    until: Pos | None = None
    named: bool = False


def effects(clauses: Iterable[Clause], types: Mapping[str, str]) -> tuple[Effect, ...]:
    """What the clauses of one statement do; `types`: the table's own declarations, by lower-case
    column."""
    found: list[Effect] = []
    for clause in clauses:
        column, name = clause.column, clause.column.name if clause.column else None
        type_ = types.get((name or "").lower(), column.type if column else None)
        if clause.kind == "add_column" and column is not None:
            found.append(Effect("add", (name, type_, column.default)))
        elif clause.kind == "drop_column":
            found.append(Effect("drop", (name,)))
        elif clause.kind == "rename_column" and clause.new_name is not None:
            found.append(Effect("rename", (name, clause.new_name)))
        elif clause.kind == "modify_column" and type_ is not None:
            found.append(Effect("retype", (name, type_)))
        elif clause.kind == "change_key" and clause.keys:
            found.append(Effect("key", clause.keys))
        elif clause.kind in ("drop_table", "drop_database"):
            found.append(Effect("freeze"))
        elif clause.kind == "rename_table" and clause.new_table is not None:
            found.append(Effect("move", tuple(clause.new_table)))
    return tuple(found)


def to_json(found: Sequence[Effect]) -> str | None:
    """The effects as a text; None where there are none."""
    return msgspec.json.encode(found).decode() if found else None


def from_json(text: str | None) -> tuple[Effect, ...]:
    """The effects that `to_json` wrote."""
    return tuple(msgspec.json.decode(text, type=list[Effect])) if text else ()


def lineage(edits: Iterable[Edit]) -> Lineage:
    """The edits that tell how events are read, in order."""
    return tuple(sorted((e for e in edits if e.effect.op in SHAPING), key=lambda e: e.pos))


def reaches(
    edits: Lineage, lowest: Pos | None, highest: Pos | None, images: Iterable[Iterable[str]]
) -> bool:
    """Whether some event between two positions, with images of these columns, is read otherwise
    than as it stands."""
    if lowest is None or highest is None or not edits:
        return False
    if any(highest > e.pos if e.hidden else lowest < e.pos for e in edits):
        return True
    filled = {default.column.lower() for default in defaults(edits) if default.until is None}
    return any(not filled <= {name.lower() for name in image} for image in images)


def renamed(names: Sequence[str], edits: Lineage, columns: Iterable[str]) -> tuple[str, ...]:
    """What `names` are called now, each that is not among `columns` followed through renames."""
    held = {name.lower() for name in columns}
    found = []
    for name in names:
        for edit in edits:
            if name.lower() in held:
                break
            if edit.effect.op == "rename" and edit.effect.column == name.lower():
                name = edit.effect.args[1] or name
        found.append(name)
    return tuple(found)


def ended(edits: Lineage, column: str) -> Pos | None:
    """Where the name `column` last ceased to be one of the table's; None where it is one."""
    end: Pos | None = None
    for edit in edits:
        if edit.hidden:
            continue
        if edit.effect.brings == column.lower():
            end = None
        elif edit.effect.op in ("drop", "rename") and edit.effect.column == column.lower():
            end = edit.pos
    return end


def retyped(edits: Lineage, column: str) -> Pos | None:
    """Where `column` last got another type: what came before need not fit it."""
    own = [e.pos for e in edits if e.effect.op == "retype" and e.effect.column == column.lower()]
    return own[-1] if own else None


def defaults(edits: Lineage) -> list[Default]:
    """The DEFAULTs that columns had, in order of position: a rename keeps one, and what brings
    another column of the name, or takes it away, ends it."""
    found: list[Default] = []
    current: dict[str, int] = {}
    for pos, effect in ((e.pos, e.effect) for e in edits if not e.hidden):
        text = effect.args[2] if effect.op == "add" else None
        for name in {effect.column, effect.brings} if effect.op in NAMING else ():
            if name in current:
                ending = current.pop(name)
                found[ending] = found[ending]._replace(until=pos)
                if effect.op == "rename" and name == effect.column:
                    text = found[ending].text
        if text is not None and effect.brings is not None:
            current[effect.brings] = len(found)
            name = effect.args[effect.op == "rename"] or ""
            found.append(Default(name, text, pos, named=effect.op == "rename"))
    return found


def translated(changes: str, edits: Lineage, *, pos: str = "pos") -> str:
    """SQL of the changes (silver rows) with images and keys as they read under today's columns.

    `pos` is SQL of where a change stands in the log. Names are matched without case. One SELECT for
    each edit: a map is rewritten by one lambda, so that the text does not grow with the number of
    edits.
    """
    filled = defaults(edits)
    for edit in edits:
        changes = _edited(changes, edit, pos)
        for default in filled:
            if default.since == edit.pos and default.column.lower() == edit.effect.brings:
                changes = _filled(changes, default, pos)
    return changes


def without_early(
    changes: str, names: Iterable[str], *, before: Pos, where: str, pos: str = "pos"
) -> str:
    """SQL of the changes, their after images without the columns `names` below a position where
    `where` (SQL on a change) is true."""
    listed = ", ".join(map(sql_text, names))
    early = f"coalesce({pos} < {pos_literal(before)}, false)"
    kept = f"map_filter(after, (k, v) -> k NOT IN ({listed}))"
    return _replaced(changes, {"after": f"IF({early} AND {where}, {kept}, after)"})


def _edited(changes: str, edit: Edit, pos: str) -> str:
    effect, name = edit.effect, sql_text(edit.effect.column)
    at = pos_literal(edit.pos)
    early = f"coalesce({pos} < {at}, false)"
    if edit.hidden:
        gone = f"(k, v) -> NOT (coalesce({pos} > {at}, false) AND lower(k) = {name})"
        return _replaced(changes, {m: f"map_filter({m}, {gone})" for m in ("before", "after")})
    if effect.op == "drop":
        gone = f"(k, v) -> NOT ({early} AND lower(k) = {name})"
        return _replaced(changes, {m: f"map_filter({m}, {gone})" for m in ("before", "after")})
    if effect.op == "rename":
        new = sql_text(effect.args[1] or "")
        respelt = f"(k, v) -> IF({early} AND lower(k) = {name}, {new}, k)"
        maps = ("before", "after", "key", "key_before")
        # An image that has both names keeps the new one: two entries of one name cannot be.
        clear = {
            m: f"IF({early} AND map_contains_key({m}, {new}), {_without(m, name)}, {m})"
            for m in maps
        }
        changes = _replaced(changes, clear)
        return _replaced(changes, {m: f"transform_keys({m}, {respelt})" for m in maps})
    return changes


def _filled(changes: str, default: Default, pos: str) -> str:
    """A DEFAULT given to what was before the column, and to new rows that came without it."""
    name = sql_text(default.column)
    fitting = "op IN ('insert', 'snapshot') AND after_image = 'full'"
    since = f"coalesce({pos} < {pos_literal(default.since)}, false)"
    fitting = f"({fitting}) AND NOT {since}" if default.named else f"({fitting}) OR {since}"
    if default.until is not None:
        fitting = f"({fitting}) AND NOT coalesce({pos} >= {pos_literal(default.until)}, false)"
    known = "concat(map_keys(after), coalesce(unavailable, array()))"
    lacks = f"NOT exists({known}, k -> lower(k) = lower({name}))"
    image = f"map_concat(after, map({name}, {sql_text(default.text)}))"
    return _replaced(changes, {"after": f"IF(({fitting}) AND {lacks}, {image}, after)"})


def _without(image: str, name: str) -> str:
    return f"map_filter({image}, (k, v) -> lower(k) <> {name})"


def _replaced(changes: str, values: Mapping[str, str]) -> str:
    new = ", ".join(f"{value} AS {name}" for name, value in values.items())
    return f"SELECT * EXCEPT ({', '.join(values)}), {new} FROM ({changes})"
