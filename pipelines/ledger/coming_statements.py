"""The schema changes and truncates that a run meets in silver, each until it is reviewed.

`coming_statements` takes them up: new ones, and those of tables that were in silver only. What
online schema tools do to tables of their own counts when these take over a table's name. A CREATE
of a table that was dropped is its new generation.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from ingest.ddl.changes import RecreateTable, RenameColumn, only
from ingest.ddl.model import Clause, Statement, TableName
from ingest.ddl.parse import ghost, identity
from ingest.ddl.risks import Kind
from ingest.names import SourceTable
from ingest.position import Pos
from pipelines.ledger import generations
from pipelines.ledger.entries import IN_FORCE, WAITING, Entry
from pipelines.ledger.renames import TakenAgain, taken_again
from pipelines.ledger.statements import STEP_OF_ANOTHER, in_silver, taken_up
from pipelines.ledger.store import Ledger
from pipelines.silver.pending import PendingChanges
from pipelines.targets.progress import source_cursor


class ComingStatements:
    """The statements that are not reviewed yet, by source table, in order. Targets are brought
    forward at the same time, and each takes those of its own source tables."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._by_table: dict[SourceTable, list[Entry]] = {}
        self.met: set[str] = set()
        """The ids of all that were met, those that are reviewed by now among them."""

    def __iter__(self) -> Iterator[Entry]:
        for entries in list(self._by_table.values()):
            yield from list(entries)

    @property
    def tables(self) -> list[SourceTable]:
        """The source tables that have statements here, in the order of these."""
        places = {table: [e.place for e in found] for table, found in self._by_table.items()}
        return sorted(places, key=lambda table: places[table])

    def of(self, table: SourceTable) -> list[Entry]:
        """Those of one source table."""
        return list(self._by_table.get(table, ()))

    def take(self, table: SourceTable) -> list[Entry]:
        """The statements of one source table, which are removed here."""
        return self._by_table.pop(table, [])

    def take_one(self, entry: Entry) -> None:
        """Remove one statement."""
        others = [other for other in self.of(entry.table) if other.id != entry.id]
        self._by_table[entry.table] = others

    def add(self, entry: Entry) -> None:
        """Add a statement after the others of its table."""
        self._by_table.setdefault(entry.table, []).append(entry)
        self.met.add(entry.id)

    def creates(self, entry: Entry) -> bool:
        """Whether an entry makes a table that is no new generation of an earlier one."""
        read = self._read(entry)
        made = entry.kind == "create_table" or (read is not None and read.creates_table)
        return made and not entry.recreates

    def drops(self, entry: Entry) -> bool:
        """Whether no table has the entry's name after it. If a rename is in force, gold follows the
        table, and `taken_again` deals with the name."""
        if entry.kind in ("ghost", "truncate"):
            return False
        read = self._read(entry)
        if (read is not None and generations.drops(read)) or entry.kind == "drop_table":
            return True
        away = entry.kind == generations.RENAMED or (
            read is not None and generations.renames_away(read)
        )
        return away and entry.status not in IN_FORCE

    def taken_again(self) -> dict[SourceTable, TakenAgain]:
        """The tables that were renamed and whose names other tables have by now, each with the
        other."""
        waiting = map(self._ledger.stated, self)
        return taken_again([*self._ledger.entries.values(), *waiting], self.creates)

    def renames_to_come(self, table: SourceTable) -> dict[str, str]:
        """For columns whose renaming is not carried out yet: the new name, in lower case -> the old
        name."""
        waiting = [entry for entry in self._ledger.of(table) if entry.status in WAITING]
        waiting += map(self._ledger.stated, self.of(table))
        return {
            rename.new.lower(): rename.old
            for entry in waiting
            for rename in only(RenameColumn, entry.effects)
        }

    def _read(self, entry: Entry) -> Statement | None:
        """The statement of an entry that was met in this run."""
        return self._ledger.statement(entry) if entry.id in self.met else None

    def join_generations(self) -> None:
        """Make each CREATE of a table that was dropped a new generation of it, which takes up the
        DROP."""
        for entries in self._by_table.values():
            entries.sort(key=lambda entry: entry.place)
            dropped = set[str]()
            for place, entry in enumerate(entries):
                gone = self._dropped_before(entry)
                if gone is None and not self._replaces(entry):
                    continue
                if gone is not None and gone.status in WAITING:
                    self._ledger.stage_entry(self._superseded(gone, entry))
                    dropped.add(gone.id)
                joined = (*entry.joined, *([gone.id] if gone is not None else []))
                entries[place] = replace(entry, effects=(RecreateTable(),), joined=joined)
            entries[:] = [entry for entry in entries if entry.id not in dropped]

    def _makes_table(self, entry: Entry) -> bool:
        made = entry.pos is not None and entry.kind != "truncate"
        return made and self._ledger.statement(entry).creates_table

    def _replaces(self, entry: Entry) -> bool:
        return self._makes_table(entry) and generations.replaces(self._ledger.statement(entry))

    def _dropped_before(self, entry: Entry) -> Entry | None:
        """The DROP that an entry makes good, if there is one."""
        if not self._makes_table(entry):
            return None
        others = [*self._ledger.of(entry.table), *self.of(entry.table)]
        return generations.dropped_before(entry, ((e, self.drops(e)) for e in others))

    def _superseded(self, gone: Entry, by: Entry) -> Entry:
        """The DROP as superseded by the CREATE after it: there is one proposal for both."""
        route, read = self._ledger.route(gone.table), self._ledger.statement(gone)
        kind: Kind = generations.RENAMED if generations.renames_away(read) else "drop_table"
        target = route.target if route is not None else None
        # If it is a rename, it is not carried out.
        gone = replace(gone, target=target, risk="destructive", kind=kind, effects=())
        return gone.with_status("superseded", why=f"the table was created again: see {by.id}")


def coming_statements(ledger: Ledger, pending: PendingChanges) -> ComingStatements:
    """The statements that come with the pending changes. Steps of schema tools are entered as
    ignored."""
    coming = ComingStatements(ledger)
    waiting = ledger.held_tables()
    for again in taken_up(
        ledger.entries.values(),
        lambda table: table not in waiting and bool(ledger.route(ledger.first_name(table))),
    ):
        coming.add(replace(again, table=ledger.first_name(again.table)))
    batches = [batch for s in pending.stats for batch in s.logged or ()]
    if batches:
        _read(ledger, coming, pending, first=min(batches), last=max(batches))
    coming.join_generations()
    return coming


def _read(
    ledger: Ledger, coming: ComingStatements, pending: PendingChanges, *, first: int, last: int
) -> None:
    """Take up the DDL and truncates of these batches that are not known yet."""
    cursor = source_cursor(ledger.progress_by_target, ledger.source)
    met = [
        *(SourceTable(ledger.source, *names) for names in cursor.tables),
        *(entry.table for entry in ledger.entries.values()),
        *(s.table for s in pending.stats),
        *ledger.first_names,
    ]
    known_names = {_folded(table): ledger.first_name(table) for table in met if table.table}
    known = {*ledger.entries, *(id_ for e in ledger.entries.values() for id_ in e.joined)}
    source = ledger.warehouse.config.sources[ledger.source]
    found = in_silver(ledger.warehouse, source, first, last=last)
    tables = {*known_names.values()}
    for entry, statement in itertools.chain.from_iterable(
        (each, *_of_dropped_database(*each, tables)) for each in found
    ):
        if entry.id in known:
            continue
        known.add(entry.id)
        coming.met.add(entry.id)
        ledger.keep_statement(entry.id, statement)
        if statement.ghost is not None:
            # It counts once the shadow table takes over the name of the table that it stands for.
            step = replace(entry, table=entry.table._replace(table=statement.ghost))
            step = replace(step, kind="ghost", risk="none")
            ledger.stage_entry(step.with_status("ignored", why=STEP_OF_ANOTHER))
            continue
        coming.add(replace(entry, table=known_as(entry.table, statement, known_names)))
        for step, read in _cut_over(ledger, coming, entry, statement=statement):
            if step.id not in known:
                known.add(step.id)
                ledger.keep_statement(step.id, read)
                coming.add(replace(step, table=known_as(step.table, read, known_names)))


def _cut_over(
    ledger: Ledger, coming: ComingStatements, entry: Entry, *, statement: Statement
) -> Iterator[tuple[Entry, Statement]]:
    """What online schema changes did to tables whose names their shadow tables take over by this
    statement, as if done at its position (semantics.md, 53)."""
    for clause in statement.clauses:
        shadow, new = clause.table, clause.new_table
        if clause.kind != "ghost" or new is None or not ghost(shadow.name) or ghost(new.name):
            continue
        steps = _steps(ledger, coming, shadow, below=entry.place)
        made = max((e.place for e, read in steps if read.ghost is None), default=())
        for step, read in steps:
            if read.ghost is not None and step.place > made:
                yield (
                    Entry(
                        id=f"{step.id}-0",
                        table=SourceTable(ledger.source, *new),
                        statement=step.statement,
                        dialect=step.dialect,
                        pos=entry.pos,
                        event_time=entry.event_time,
                    ),
                    read,
                )


def _steps(
    ledger: Ledger, coming: ComingStatements, shadow: TableName, *, below: Pos
) -> list[tuple[Entry, Statement]]:
    """The statements on a shadow table below a position, without its renames."""
    entries = itertools.chain(ledger.entries.values(), coming)
    of_shadow = (e for e in entries if TableName(*e.table.path).folded() == shadow.folded())
    steps = ((e, ledger.statement(e)) for e in of_shadow if e.place < below)
    return [
        (entry, read)
        for entry, read in steps
        if not any(clause.new_table is not None for clause in read.clauses)
    ]


def _of_dropped_database(
    entry: Entry, statement: Statement, tables: Collection[SourceTable]
) -> Iterator[tuple[Entry, Statement]]:
    """What a DROP DATABASE means for those of the source's tables that were in it: each is
    dropped."""
    for gone in (clause.table for clause in statement.clauses if clause.kind == "drop_database"):
        for table in sorted(tables, key=str):
            own = TableName(*table.path)
            db, schema, _ = gone.folded()
            if own.folded()[0] != db or (schema and own.folded()[1] != schema):
                continue
            id_ = identity(entry.id, source=entry.table.source, table=own)
            dropped = Clause(kind="drop_table", table=own)
            yield (
                replace(entry, id=id_, table=table),
                replace(statement, table=own, clauses=(dropped,)),
            )


def known_as(
    table: SourceTable, statement: Statement, known: Mapping[tuple[str, ...], SourceTable]
) -> SourceTable:
    """The table under the name that its rows have. A shadow table may have more than one underscore
    in front, since pt-online-schema-change adds them until the name is free."""
    named, name = table, table.table or ""
    while _folded(named) not in known and statement.ghost and name.startswith("_"):
        name = name[1:]
        named = named._replace(table=name)
    return known.get(_folded(named), table)


def _folded(table: SourceTable) -> tuple[str, ...]:
    return tuple((name or "").lower() for name in table)
