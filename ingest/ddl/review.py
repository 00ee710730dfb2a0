"""What a DDL statement asks of a gold table: the risk of each clause, and how the columns change.

Clauses are taken in order, against a picture of the table's columns that each clause changes, so
that `CHANGE a b BIGINT` first renames and then widens `b`. Columns are matched without case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ColumnChange,
    DropColumn,
    LineageEntry,
    RenameColumn,
    brings,
    name_today,
    retyped,
)
from ingest.ddl.model import Clause, Column, Statement
from ingest.ddl.risks import Kind, Risk, worst
from ingest.ddl.widening import assumed, canonical_type, cuts, repads, risk_within, widens
from ingest.names import lowered


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one clause comes to: its risk for this table, the changes of its columns, and why."""

    clause: Clause
    risk: Risk
    proposed: tuple[ColumnChange, ...] = ()
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class Review:
    """What a statement comes to for one gold table; `proposed` is carried out in order."""

    kind: Kind
    risk: Risk
    proposed: tuple[ColumnChange, ...]
    clauses: tuple[Outcome, ...]


@dataclass(kw_only=True)
class _Picture:
    """The gold table as the clauses so far leave it; column name in lower case -> (name, Spark
    type)."""

    columns: dict[str, tuple[str, str]]
    source_types: dict[str, str]
    declared: dict[str, str]
    exclude: set[str]
    keys: set[str]
    dialect: str
    later: Sequence[LineageEntry]
    nothing: frozenset[Clause]

    def gold_type(self, column: Column) -> str | None:
        """The Spark type the column should have: the table's own declaration comes first."""
        return self.declared.get(column.name.lower(), column.type)

    def today(self, name: str) -> str | None:
        """Today's name of the column that has this name after the statement; None if it is gone
        since."""
        return name_today(name, self.later)

    def add(self, name: str, type_: str) -> AddColumn:
        self.columns[name.lower()] = (name, type_)
        return AddColumn(name, type_)

    def widen(self, name: str, type_: str) -> AlterColumnType:
        """`name`: the column's name now, folded."""
        self.columns[name] = (self.columns[name][0], type_)
        return AlterColumnType(self.columns[name][0], type_, in_place=True)

    def rename(self, old: str, new: str) -> RenameColumn:
        """`old`: the column's name now, folded."""
        name, type_ = self.columns.pop(old)
        self.columns[new.lower()] = (new, type_)
        if old in self.keys:
            self.keys ^= {old, new.lower()}
        return RenameColumn(name, new)


def review(
    statement: Statement,
    *,
    columns: Mapping[str, str],
    source_types: Mapping[str, str] | None = None,
    declared: Mapping[str, str] | None = None,
    exclude: Collection[str] = (),
    keys: Collection[str] = (),
    dialect: str = "mysql",
    later: Sequence[LineageEntry] = (),
) -> Review:
    """Compare a statement with the gold table it concerns.

    `columns` maps the gold table's columns to Spark types;
    `source_types` maps columns to the source types known before, which tells a shorter VARCHAR
    from a longer one, and by IF [NOT] EXISTS what happened from what did not;
    `declared`, `exclude` and `keys` are the table's own in the configuration;
    `dialect` is that of the statement; `later` are the changes in force from behind it, by which
    its columns may be called otherwise today.
    Clauses of other tables than the statement's first stand with their class and nothing proposed.
    """
    named = [c.keys for c in statement.clauses if c.kind == "change_key" and c.keys]
    known, here = lowered(source_types or ()), lowered(columns)
    picture = _Picture(
        columns={name.lower(): (name, canonical_type(type_)) for name, type_ in columns.items()},
        source_types={name.lower(): type_ for name, type_ in (source_types or {}).items()},
        declared={name.lower(): canonical_type(type_) for name, type_ in (declared or {}).items()},
        exclude=lowered(exclude),
        keys=lowered(named[-1] if named else keys),
        dialect=dialect,
        later=later,
        nothing=frozenset(
            clause
            for clause in statement.clauses
            if clause.if_exists and changes_nothing(clause, known, here)
        ),
    )
    outcomes = tuple(
        _outcome(clause, picture, own=clause.table.folded() == statement.table.folded())
        for clause in statement.clauses
    )
    heaviest = worst(outcomes)
    proposed = tuple(change for outcome in outcomes for change in outcome.proposed)
    return Review(
        kind=heaviest.clause.kind, risk=heaviest.risk, proposed=proposed, clauses=outcomes
    )


def changes_nothing(clause: Clause, known: Collection[str], columns: Collection[str] = ()) -> bool:
    """Whether a column was to be added if it did not exist, and is among the source's columns; or
    was to be changed if it existed, and is neither among these nor among gold's. `known`: the
    source's columns before the statement, none if they are not known; `columns`: gold's, both in
    lower case."""
    if clause.if_exists is not None:
        name = clause.if_exists.lower()
        return bool(known) and name not in known and name not in columns
    column = clause.column
    return clause.if_not_exists and column is not None and column.name.lower() in known


def _outcome(clause: Clause, picture: _Picture, *, own: bool) -> Outcome:
    judge = _JUDGES.get(clause.kind)
    column = clause.column
    if judge is None or column is None:
        return Outcome(clause=clause, risk=clause.risk, note=_NOTES.get(clause.kind))
    if not own:
        return Outcome(clause=clause, risk=clause.risk, note="concerns another table")
    if column.name.lower() in picture.exclude:
        note = f"{column.name} is excluded from gold"
        if clause.kind == "rename_column" and clause.new_name is not None:
            picture.exclude.add(clause.new_name.lower())
            note += f", and so is {clause.new_name}"
        return Outcome(clause=clause, risk="none", note=note)
    if clause in picture.nothing:
        note = (
            f"the source has no column {clause.if_exists}, and IF EXISTS leaves the table as it is"
        )
        return Outcome(clause=clause, risk="none", note=note)
    return judge(clause, column, picture)


def _added(clause: Clause, column: Column, picture: _Picture) -> Outcome:
    type_, name = picture.gold_type(column), picture.today(column.name)
    note: str | None
    if changes_nothing(clause, picture.source_types):
        note = f"the source has {column.name} already, and IF NOT EXISTS leaves it as it is"
        return Outcome(clause=clause, risk="none", note=note)
    if name is None:
        note = f"{column.name} is gone since"
        return Outcome(clause=clause, risk="additive", note=note)
    known = picture.columns.get(name.lower())
    if known is not None and (type_ in (None, known[1]) or widens(type_ or "", known[1])):
        note = f"gold already has {known[0]} as {known[1]}"
        return Outcome(clause=clause, risk="additive", note=note)
    if known is not None:
        return _modified(clause, column, picture)
    if type_ is None:
        note = "the statement gives no type; the column comes with its data"
        return Outcome(clause=clause, risk="additive", note=note)
    lacking = (
        f"rows without a later change have NULL, not what the source gave them by "
        f"{column.expression}"
    )
    note = lacking if column.expression is not None else None
    added = picture.add(name, type_)
    return Outcome(clause=clause, risk="additive", proposed=(added,), note=note)


def _modified(clause: Clause, column: Column, picture: _Picture) -> Outcome:
    """A changed type: in place where Delta can, else a new generation filled from history."""
    own, folded = column.name.lower(), (picture.today(column.name) or "").lower()
    known, type_ = picture.columns.get(folded), picture.gold_type(column)
    before, after = picture.source_types.get(own), column.source_type
    if after is not None:
        picture.source_types[own] = after
    if retyped(column.name, picture.later):
        note = f"the type of {column.name} was changed again since"
        return Outcome(clause=clause, risk="none", note=note)
    if known is None or (type_ is None and clause.using is None):
        note = f"gold has no column {column.name}; it comes with its data"
        return Outcome(clause=clause, risk="none", note=note)
    name, old = known
    if clause.using is not None or type_ is None:
        note = f"the source rewrote {name} by {clause.using}, which no event shows"
        wide = () if type_ is None or not widens(old, type_) else (picture.widen(folded, type_),)
        return Outcome(clause=clause, risk="destructive", proposed=wide, note=note)
    if type_ == old:
        if before is None and column.type == old:
            before = assumed(after or "", old)
        risk = risk_within(before, after or "", type_, dialect=picture.dialect)
        note = f"gold's {name} stays {old}"
        if risk == "destructive" and repads(before or "", after or "", dialect=picture.dialect):
            note += "; the source pads or strips its values, which no event shows"
        elif risk == "destructive":
            note += f"; {_CUT_OFF}"
        return Outcome(clause=clause, risk=risk, note=note)
    if widens(old, type_):
        wider = picture.widen(folded, type_)
        if before is not None and cuts(before, after or "", dialect=picture.dialect):
            return Outcome(clause=clause, risk="destructive", proposed=(wider,), note=_CUT_OFF)
        return Outcome(clause=clause, risk="widening", proposed=(wider,))
    again = (DropColumn(name), picture.add(name, type_))
    note = f"{old} does not widen to {type_}: a new generation of {name}, filled from history"
    if "binary" in (old, type_):
        note += "; bytes come as base64 and texts as they are: earlier values would be others"
    if folded in picture.keys:
        note = f"{name} is part of the key: approval folds every row again with it as {type_}"
    return Outcome(clause=clause, risk="destructive", proposed=again, note=note)


def _dropped(clause: Clause, column: Column, picture: _Picture) -> Outcome:
    folded = column.name.lower()
    known = picture.columns.get(folded)
    if known is None:
        note = f"gold has no column {column.name}"
        return Outcome(clause=clause, risk="destructive", note=note)
    if folded in {brings(entry.change) for entry in picture.later}:
        note = f"gold's {known[0]} is another column since, and stays"
        return Outcome(clause=clause, risk="destructive", note=note)
    if folded in picture.keys:
        note = f"{known[0]} is part of the key: gold keeps it until the table is rebuilt"
        return Outcome(clause=clause, risk="destructive", note=note)
    del picture.columns[folded]
    picture.source_types.pop(folded, None)
    return Outcome(clause=clause, risk="destructive", proposed=(DropColumn(known[0]),))


def _renamed(clause: Clause, column: Column, picture: _Picture) -> Outcome:
    old, new = column.name.lower(), clause.new_name or ""
    known = picture.columns.get(old)
    for said in (picture.declared, picture.source_types):
        if old in said:
            said.setdefault(new.lower(), said[old])
    today = picture.today(new)
    if today is None and known is not None and old not in picture.keys:
        del picture.columns[old]
        note = f"{new} is gone since"
        gone = DropColumn(known[0])
        return Outcome(clause=clause, risk="destructive", proposed=(gone,), note=note)
    new = today or new
    if known is None or (old != new.lower() and new.lower() in picture.columns):
        there = picture.columns.get(new.lower())
        lacks = f"gold has no column {column.name}" if known is None else ""
        has = f"gold already has {there[0]} as {there[1]}" if there is not None else ""
        note = "; ".join(part for part in (lacks, has) if part)
        if known is None or new.lower() in picture.keys:
            return Outcome(clause=clause, risk="destructive", note=note)
        if there is not None and old in picture.keys:
            # At that time the source had no column of that name, and rows were told apart by the
            # old one.
            renamed = (DropColumn(there[0]), picture.rename(old, new))
            return Outcome(clause=clause, risk="destructive", proposed=renamed, note=note)
        # Data came under the new name before the DDL, so the values of the old column are filled in
        # there.
        del picture.columns[old]
        gone = DropColumn(known[0])
        type_ = picture.declared.get(new.lower())
        again: tuple[ColumnChange, ...] = ()
        if there is not None and type_ is not None and there[1] != type_:
            # The column came with another type than the configuration declares.
            again = (DropColumn(there[0]), picture.add(there[0], type_))
        return Outcome(clause=clause, risk="destructive", proposed=(gone, *again), note=note)
    if old == new.lower():
        note = f"gold's {known[0]} stays: names are matched without case"
        return Outcome(clause=clause, risk="none", note=note)
    return Outcome(clause=clause, risk="destructive", proposed=(picture.rename(old, new),))


_JUDGES: dict[str, Callable[[Clause, Column, _Picture], Outcome]] = {
    "add_column": _added,
    "modify_column": _modified,
    "drop_column": _dropped,
    "rename_column": _renamed,
}
_CUT_OFF = "what the source cut off is in no event"
MEANINGS = {
    "add_column": "the column is added, and filled with what silver has for it",
    "drop_column": "its values go with it; added again it is a new column",
    "rename_column": "the column keeps its values; earlier changes are read under the new name",
}
"""What plain changes mean, for those who decide on them."""
_NOTES = {
    "drop_table": "gold is never dropped; approval freezes the target",
    "drop_database": "gold is never dropped; approval freezes its targets",
    "rename_table": "approval points the table's entry at the new name",
    "change_key": "approval folds every row again under the new key",
    "change_partition": "rows went or came without events",
    "unparsed": "the clause could not be read",
}
