"""`gold._ddl`: every schema change once, reviewed by policy before it touches gold.

Broadcast copies and replays of one statement have one id (`ingest.ddl.parse.identity`). A change
that the policy lets in is entered as `approved` before anything is done, and as `applied` when all
of it is: whatever a crash leaves in between is finished first by the next run
(`pipelines.gold.approvals`). The rest waits as `pending`, and so do its columns: data for them goes
on in silver.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, assert_never

from pyspark.errors import PySparkException

from ingest.codes import Code
from ingest.config.routes import Route
from ingest.config.settings import DdlPolicy
from ingest.ddl.changes import (
    AlterColumnType,
    ChangeKey,
    DropColumn,
    RecreateTable,
    RenameColumn,
    RenameTable,
    brings,
    brought,
    column_of,
    ended,
    frees,
    name_after,
    names_through,
    schema_changes,
)
from ingest.ddl.model import Clause, Statement, TableName
from ingest.ddl.parse import ghost, identity
from ingest.ddl.widening import canonical_type, widens
from ingest.errors import TableError
from ingest.names import SourceTable, lowered
from ingest.position import Pos
from pipelines.ledger import generations
from pipelines.ledger.alter import add_columns, carry_out, deferred
from pipelines.ledger.backfill import backfill_needed
from pipelines.ledger.drift import announced
from pipelines.ledger.entries import (
    IN_FORCE,
    POLICY,
    WAITING,
    Entry,
    Overtaken,
    added_again,
    is_unsent,
    names_reused,
    readded,
    renames_another,
)
from pipelines.ledger.renames import TakenAgain, held, is_rename, later_names, taken_again
from pipelines.ledger.review import proposed_now, reviewed
from pipelines.ledger.statements import (
    STEP_OF_ANOTHER,
    gold_types_before,
    in_silver,
    taken_up,
    unreviewed,
)
from pipelines.ledger.store import EntryStore
from pipelines.platform.failures import described
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import PendingChanges
from pipelines.targets.progress import ProgressByTarget, source_cursor
from pipelines.targets.rejects import have_misfits, have_rejects


def _first_retyping(entries: Iterable[Entry], column: str) -> Entry | None:
    """The first change that is not in force and gives a column, in lower case, another type."""
    for entry in entries:
        for effect in entry.effects if entry.status not in IN_FORCE else ():
            if isinstance(effect, AlterColumnType) and effect.name.lower() == column:
                return entry
    return None


def _holds(type_: str, before: str) -> bool:
    """Whether a type has room for every value of the one before it: a text has, too."""
    return type_ == "string" or widens(canonical_type(before), canonical_type(type_))


class Verdict(NamedTuple):
    """What becomes of an entry, and why, where there is more to say than the entry does."""

    status: str
    why: str | None = None


def decide(entry: Entry, policy: DdlPolicy, others: Iterable[Entry]) -> Verdict:
    """What the policy says of a reviewed entry; `others`: those of its table."""
    others = list(others)
    waits = readded(entry, others)
    if waits:
        names = ", ".join(map(name_after, waits))
        return Verdict("pending", f"{names} is taken away by a change that waits itself")
    if entry.risk == "none":
        # What an excluded column is called from now on is so, whatever anybody decides.
        named = any(isinstance(effect, DropColumn | RenameColumn) for effect in entry.effects)
        return Verdict("applied" if named else "ignored", entry.why or "nothing to change in gold")
    if renames_another(entry, others):
        return Verdict("pending", "what it renames is brought by a change that waits itself")
    mild = entry.risk in ("additive", "widening")
    if mild and not entry.proposed and not entry.effects:
        return Verdict("applied")
    choice = policy.choice(entry.risk)
    if is_unsent(entry) and choice == "apply":
        # That nothing came is not said by the source.
        choice = "review"
    match choice:
        case "apply":
            return Verdict("approved")
        case "ignore":
            return Verdict("ignored")
        case "review":
            return Verdict("approved" if mild and not entry.proposed else "pending")
        case _:
            assert_never(choice)


def retypes(entry: Entry) -> bool:
    """Whether the entry waits for another type of a column, and for no other key."""
    kinds = {type(effect) for effect in entry.effects}
    return entry.status in WAITING and AlterColumnType in kinds and ChangeKey not in kinds


def overtaken(entry: Entry, others: Iterable[Entry]) -> list[Entry]:
    """Of `others`, those of its table, waiting changes from before the entry of columns that it
    ends."""
    if entry.pos is None:
        return []
    others = list(others)
    waiting = [
        other
        for other in others
        if other.status in WAITING and other.id != entry.id and other.effects
        if other.pos is not None and other.pos < entry.pos
    ]
    if not waiting:
        # As mostly; hundreds of columns may be added one after the other.
        return []
    ends = {column_of(effect) for effect in entry.effects if isinstance(effect, DropColumn)}
    ends |= {column_of(effect) for effect in added_again(entry, others)}
    return [
        other
        for other in waiting
        # A column that was renamed and then dropped is there under its old name: whether it goes
        # is for who decides on the rename.
        if not any(isinstance(effect, RenameColumn) for effect in other.effects)
        if all((brings(effect) or column_of(effect)) in ends for effect in other.effects)
    ]


def superseded_by(entry: Entry, others: Iterable[Entry]) -> list[Entry]:
    """Those that the entry overtakes, as they are once it is let in."""
    why = Overtaken(entry.id)
    return [other.with_status("superseded", why=why) for other in overtaken(entry, others)]


def waiting_again(entry: Entry, others: Iterable[Entry]) -> list[Entry]:
    """Those that the entry overtook, as they are once it has failed."""
    overtaken_by = Overtaken(entry.id)
    return [
        replace(other, status="pending", reason=None, why=None, decided_by=None, decided_at=None)
        for other in others
        if other.status == "superseded" and other.reason == overtaken_by
    ]


class Ledger(EntryStore):
    """The schema changes of one source in one run, taken up, decided and carried out."""

    def __init__(
        self,
        warehouse: Warehouse,
        source: str,
        *,
        progress_by_target: ProgressByTarget | None = None,
    ) -> None:
        super().__init__(warehouse, source, progress_by_target=progress_by_target)
        self._waiting: dict[SourceTable, list[Entry]] = {}
        self._new: set[str] = set()

    def closed(self, coming: Collection[SourceTable] = ()) -> set[SourceTable]:
        """Source tables whose changes stay in silver: dropped ones, once that is approved, and new
        names without a target, until that is decided; `coming` are those with changes now."""
        new = [
            self._stated(entry)
            # Other targets are brought forward meanwhile, which takes entries away.
            for table, entries in list(self._waiting.items())
            for entry in list(entries)
            if table in coming or self._target_exists(table)
        ]
        waiting = self.held_tables(new)
        gone = generations.frozen(self.entries.values())
        recreated = {
            entry.table
            for entry in [*self.entries.values(), *new]
            if generations.recreates(entry) and entry.status in (*WAITING, "approved")
        }
        return gone | recreated | waiting

    def closed_names(self) -> set[SourceTable]:
        """The source tables whose changes stay in silver, under each of their names."""
        return {
            name
            for table in self.closed()
            for name in (table, *later_names(table, self.first_names))
        }

    def held_tables(self, beside: Iterable[Entry] = ()) -> set[SourceTable]:
        """The new names of tables that wait for a rename, by the entries and those `beside` them,
        and have no target of their own."""
        waiting = held([*self.entries.values(), *beside])
        return {table for table in waiting if not self._target_exists(table)}

    def taken_again(self) -> dict[SourceTable, TakenAgain]:
        """The tables that were renamed and whose names others have since, and those others."""
        waiting = [self._stated(e) for entries in self._waiting.values() for e in entries]
        return taken_again([*self.entries.values(), *waiting], self._creates)

    def _stated(self, entry: Entry) -> Entry:
        """An entry that is not reviewed yet, with what its statement does."""
        effects = entry.effects or schema_changes(self.statement(entry).clauses, {})
        return replace(entry, effects=effects)

    def renames_to_come(self, table: SourceTable) -> dict[str, str]:
        """Of the columns whose renaming is not carried out yet: the new name, in lower case, and
        the one before it."""
        waiting = [entry for entry in self.of(table) if entry.status in WAITING]
        waiting += map(self._stated, self._waiting.get(table, ()))
        return {
            effect.new.lower(): effect.old
            for entry in waiting
            for effect in entry.effects
            if isinstance(effect, RenameColumn)
        }

    def _creates(self, entry: Entry) -> bool:
        read = self._read_now(entry)
        creates = entry.kind == "create_table" or (read is not None and read.creates_table)
        return creates and not generations.recreates(entry)

    def _target_exists(self, table: SourceTable) -> bool:
        route = self.route(table)
        return route is not None and self.warehouse.exists("gold", route.target)

    def log_statements(self, pending: PendingChanges) -> None:
        """Take up DDL and truncates: new ones, and those of tables that were in silver only."""
        waiting = self.held_tables()
        for again in taken_up(
            self.entries.values(),
            lambda table: table not in waiting and bool(self.route(self.first_name(table))),
        ):
            again = replace(again, table=self.first_name(again.table))
            self._waiting.setdefault(again.table, []).append(again)
            self._new.add(again.id)
        batches = [batch for s in pending.stats for batch in s.logged or ()]
        if batches:
            self._read(pending, min(batches), max(batches))
        for entries in self._waiting.values():
            entries.sort(key=lambda entry: entry.pos or ())
            for place, entry in enumerate(entries):
                entries[place] = self._generation(entry)
            entries[:] = [entry for entry in entries if entry.id not in self._unsaved]

    def _read(self, pending: PendingChanges, first: int, last: int) -> None:
        """Take up the DDL and truncates of these batches that are not known yet."""
        cursor = source_cursor(self.progress_by_target, self.source)
        met = [SourceTable(self.source, *names) for names in cursor.tables]
        met += [
            *(entry.table for entry in self.entries.values()),
            *(s.table for s in pending.stats),
            *self.first_names,
        ]
        known_names = {_folded(table): self.first_name(table) for table in met if table.table}
        known = {*self.entries, *(id_ for e in self.entries.values() for id_ in e.joined)}
        source = self.warehouse.config.sources[self.source]
        found = in_silver(self.warehouse, source, first, last=last)
        tables = {*known_names.values()}
        for entry, statement in itertools.chain.from_iterable(
            (each, *of_dropped_database(*each, tables)) for each in found
        ):
            if entry.id in known:
                continue
            known.add(entry.id)
            self._statements[entry.id] = statement
            self._new.add(entry.id)
            if statement.ghost is not None:
                # It counts once the shadow table takes the name of the table it stands for.
                step = replace(entry, table=entry.table._replace(table=statement.ghost))
                step = replace(step, kind="ghost", risk="none")
                self.stage_entry(step.with_status("ignored", why=STEP_OF_ANOTHER))
                continue
            self._take_up(entry, statement, known_names)
            for step in self._cut_over(entry, statement):
                if step.id not in known:
                    known.add(step.id)
                    self._new.add(step.id)
                    self._take_up(step, self.statement(step), known_names)

    def _take_up(
        self, entry: Entry, read: Statement, known: Mapping[tuple[str, ...], SourceTable]
    ) -> None:
        entry = replace(entry, table=known_as(entry.table, read, known))
        self._waiting.setdefault(entry.table, []).append(entry)

    def _cut_over(self, entry: Entry, statement: Statement) -> Iterator[Entry]:
        """What online schema changes have made of the tables whose names their shadow tables take
        by this statement, where it stands (semantics.md, 53)."""
        for clause in statement.clauses:
            shadow, new = clause.table, clause.new_table
            if clause.kind != "ghost" or new is None or not ghost(shadow.name) or ghost(new.name):
                continue
            steps = self._steps(shadow, below=entry.pos or ())
            made = max((e.pos or () for e, read in steps if read.ghost is None), default=())
            for step, read in steps:
                if read.ghost is not None and (step.pos or ()) > made:
                    again = Entry(
                        id=f"{step.id}-0",
                        table=SourceTable(self.source, *new),
                        statement=step.statement,
                        dialect=step.dialect,
                        pos=entry.pos,
                        event_time=entry.event_time,
                    )
                    self._statements[again.id] = read
                    yield again

    def _steps(self, shadow: TableName, *, below: Pos) -> list[tuple[Entry, Statement]]:
        """What there was of a shadow table below a position, but its renames."""
        entries = itertools.chain(self.entries.values(), *self._waiting.values())
        of_shadow = (e for e in entries if TableName(*e.table[1:]).folded() == shadow.folded())
        steps = ((e, self.statement(e)) for e in of_shadow if (e.pos or ()) < below)
        return [
            (entry, read)
            for entry, read in steps
            if not any(clause.new_table is not None for clause in read.clauses)
        ]

    def _generation(self, entry: Entry) -> Entry:
        """The entry, as a new generation where it creates a table that was dropped; the DROP is
        taken up by it."""
        read = self.statement(entry)
        if entry.pos is None or not read.creates_table or entry.kind == "truncate":
            return entry
        others = [*self.of(entry.table), *self._waiting[entry.table]]
        gone = generations.dropped_before(entry, ((e, self._drops(e)) for e in others))
        if gone is None and not generations.replaces(read):
            return entry
        if gone is not None and gone.status in WAITING:
            # One proposal for both.
            why = f"the table was created again: see {entry.id}"
            route = self.route(gone.table)
            target = route.target if route is not None else None
            read = self.statement(gone)
            kind = generations.RENAMED if generations.renames_away(read) else "drop_table"
            # What it would have done, were it a rename, is not done.
            gone = replace(gone, target=target, risk="destructive", kind=kind, effects=())
            self.stage_entry(gone.with_status("superseded", why=why))
        joined = (*entry.joined, *([gone.id] if gone is not None else []))
        return replace(entry, effects=(RecreateTable(),), joined=joined)

    def _drops(self, entry: Entry) -> bool:
        """Whether no table has the entry's name behind it. Where a rename is in force, gold follows
        the table, and the name is looked after by `reused`."""
        if entry.kind in ("ghost", "truncate"):
            return False
        read = self._read_now(entry)
        if (read is not None and generations.drops(read)) or entry.kind == "drop_table":
            return True
        away = entry.kind == generations.RENAMED or (
            read is not None and generations.renames_away(read)
        )
        return away and entry.status not in IN_FORCE

    def recreate_missing(self) -> bool:
        """Carry out the new generations of tables that have no target, where there is nothing to
        review; whether silver got truncates by that, which what was counted before lacks."""
        fresh = [
            entry
            for table, entries in self._waiting.items()
            if (route := self.route(table)) is not None
            and not self.warehouse.exists("gold", route.target)
            for entry in entries
            if generations.recreates(entry)
        ]
        appended = generations.empty(self.warehouse, fresh)
        if fresh:
            self.save_staged()
        for entry in fresh:
            entry = replace(entry, risk="destructive", kind="create_table")
            self._waiting[entry.table] = [
                other for other in self._waiting[entry.table] if other.id != entry.id
            ]
            route = self.route(entry.table)
            assert route is not None
            why = "the target does not exist yet"
            self.save_entry(replace(entry, target=route.target).with_status("applied", why=why))
        return appended

    def begin_columns(
        self,
        table: SourceTable,
        wanted: Mapping[str, str],
        keys: Iterable[str],
        *,
        lowest: Pos | None,
    ) -> dict[str, str]:
        """The columns a new target begins with: those of its rows before the first schema change.

        `wanted`: as the messages and the configuration have them. A column keeps its own earlier
        type if another one has taken its name since, or if today's type would not hold its values.
        What changed before the first row is settled here: there was nothing to review.
        """
        waiting = self._waiting.pop(table, [])
        for entry in waiting:
            if entry.pos is None or lowest is None or entry.pos < lowest:
                self.stage_entry(unreviewed(entry, self.statement(entry), self.route(table)))
            else:
                self._waiting.setdefault(table, []).append(entry)
        stated = map(self._stated, self._waiting.get(table, ()))
        met = sorted([*stated, *self.of(table)], key=lambda entry: entry.pos or ())
        undecided = [entry for entry in met if entry.status not in ("applied", "superseded")]
        barred = brought(effect for entry in undecided for effect in entry.effects)
        lineage = self.lineage(table)
        always = lowered(keys)
        own = self._own_types(table, met, wanted)
        return {
            name: own.get(name.lower(), type_)
            for name, type_ in wanted.items()
            if name.lower() in always
            or (name.lower() not in barred and ended(lineage, name.lower()) is None)
        }

    def _own_types(
        self, table: SourceTable, met: Sequence[Entry], wanted: Mapping[str, str]
    ) -> dict[str, str]:
        """The types, by lower-case name, that columns had before the first change after which their
        name is another column's, or their type one that does not hold their values."""
        route = self.route(table)
        declared = lowered(route.columns) if route is not None else set()
        reused = names_reused(met)
        changed = {}
        for name in (name for name in wanted if name.lower() not in declared):
            entry = reused.get(name.lower()) or _first_retyping(met, name.lower())
            if entry is not None and entry.pos is not None:
                changed[name] = entry
        entries = {entry.id: entry for entry in changed.values()}
        types = {id_: gold_types_before(self.warehouse, e) for id_, e in entries.items()}
        found = {}
        for name, entry in changed.items():
            before = types[entry.id].get(name.lower())
            if before is not None and (name.lower() in reused or not _holds(wanted[name], before)):
                found[name.lower()] = before
        return found

    def _read_now(self, entry: Entry) -> Statement | None:
        """The statement of an entry that was taken up in this run."""
        return self.statement(entry) if entry.id in self._new else None

    def foreseen(self) -> list[Entry]:
        """The statements that were taken up, as the policy will have them; nothing is done."""
        found = []
        waiting = self.held_tables(map(self._stated, itertools.chain(*self._waiting.values())))
        for table, entries in self._waiting.items():
            route = self.route(table)
            there = route is not None and self.warehouse.exists("gold", route.target)
            for entry in entries:
                if route is None or not there:
                    found.append(self._unreviewed(entry, waiting))
                elif entry.kind == "truncate":
                    found.append(self._decided(replace(entry, target=route.target), route))
                else:
                    found.append(self._decided(reviewed(self, entry, route), route))
        return found

    def settle_rest(self) -> None:
        """Settle what concerns tables without rows in this run, and write the entries."""
        waiting = self.held_tables()
        places = {table: [e.pos or () for e in found] for table, found in self._waiting.items()}
        for table in sorted(places, key=lambda table: places[table]):
            first = self.first_name(table)
            route = self.route(first)
            entries = self._waiting.pop(table, [])
            if route is not None and self.warehouse.exists("gold", route.target):
                # A rename that was let in just now may have made the table another's.
                own = [replace(entry, table=first) for entry in entries]
                self._waiting[first] = [*self._waiting.pop(first, []), *own]
                self.apply_statements(first, route)
                if any(map(is_rename, self.of(first))):
                    waiting = self.held_tables()
                continue
            for entry in entries:
                self.stage_entry(self._unreviewed(entry, waiting))
        self.save_staged()

    def _unreviewed(self, entry: Entry, waiting: Collection[SourceTable]) -> Entry:
        """An entry of a table without a target; one that is `waiting` for its rename, as its
        changes do, is taken up once that is decided."""
        route = self.route(entry.table) if entry.table not in waiting else None
        why = "the table waits for its rename" if entry.table in waiting else None
        read = self.statement(entry)
        found = unreviewed(entry, read, route, why=why)
        taken = self._name_taken_by(read) if route is not None else None
        if taken is None:
            return found
        found = replace(found, kind="rename_table", effects=(*found.effects, taken))
        why = "the new name is that of a table with a target, whose rows its own would come among"
        return replace(found, status="pending", decided_by=None, decided_at=None, why=why)

    def _name_taken_by(self, read: Statement) -> RenameTable | None:
        """The renaming among a statement's clauses to a name that a table with a target has."""
        renames = (e for e in schema_changes(read.clauses, {}) if isinstance(e, RenameTable))
        for change in renames:
            table = SourceTable(self.source, change.db, change.schema, change.name)
            if self._target_exists(table):
                return change
        return None

    def apply_statements(self, table: SourceTable, route: Route) -> bool:
        """Take up the DDL of a source table, and carry out what the policy lets in; whether there
        was any."""
        waiting = self._waiting.pop(table, [])
        for entry in waiting:
            if entry.kind == "truncate":
                self.stage_entry(self._decided(replace(entry, target=route.target), route))
                continue
            read = self.statement(entry)
            entry, superseded = announced(reviewed(self, entry, route), self.of(table))
            self._statements[entry.id] = read
            for drift in superseded:
                self.stage_entry(drift)
            if entry.version and entry.status in ("rejected", "ignored"):
                self.stage_entry(entry)
            else:
                self.enter([entry], route)
        return bool(waiting)

    def begin_again(self, table: SourceTable, route: Route) -> bool:
        """Carry out, before the rows, what a run left that was killed while it made the target (see
        `unfinished`); whether there was any."""
        left = [entry for entry in self.of(table) if entry.status == "approved"]
        for entry in left:
            self._begin(entry, route)
        return bool(left)

    def enter(self, entries: Iterable[Entry], route: Route) -> None:
        """Take up reviewed entries, each as it comes: decide by the policy, and begin what that
        lets in."""
        for entry in entries:
            taken = self._taken_up(entry, route)
            if taken is not None and taken.status == "approved":
                self._begin(taken, route)

    def review_again(self, entries: Iterable[Entry], route: Route) -> None:
        """Review the waiting entries of a target whose columns were made anew, and decide those of
        which something else comes now: what had to be replaced while the column was string may be a
        widening. What the policy lets in is `approved`, for the next run of gold to see through."""
        for entry in entries:
            again = reviewed(self, entry, route)
            if (again.risk, again.proposed) != (entry.risk, entry.proposed):
                self.stage_entry(self._decided(again, route))
        self.save_staged()

    def review_retyped(self) -> None:
        """Review again what waits for another type of a column that has another one by now: a
        rebuild was killed before it did. What failed may have been half done itself: who approves
        it again sees it through."""
        waiting = [e for e in self.entries.values() if e.status == "pending" and retypes(e)]
        for entry in waiting:
            route = self.route(entry.table)
            if route is None or not self.warehouse.exists("gold", route.target):
                continue
            if proposed_now(self, entry, route) != entry.proposed:
                self.review_again([entry], route)

    def enter_columns(self, entries: Sequence[Entry], route: Route) -> None:
        """Take up reviewed entries that add a column each: what the policy lets in by one change of
        the target and one of the ledger."""
        taken = [taken for entry in entries if (taken := self._taken_up(entry, route)) is not None]
        begun = self.save_entries([entry for entry in taken if entry.status == "approved"])
        try:
            add_columns(self, begun, route)
        except PySparkException:
            # Which of them it is shows when they are added one by one.
            for entry in begun:
                self._begin(entry, route)
            return
        for entry in begun:
            if not backfill_needed(entry, self.applied(entry)):
                self._stage_applied(entry)

    def _taken_up(self, entry: Entry, route: Route) -> Entry | None:
        """The entry, decided; None where it is known and undecided, or has no part."""
        known = self.entries.get(entry.id)
        if known is not None and not entry.version:
            if known.status not in ("applied", "superseded"):
                return None
            entry = replace(entry, version=known.version)
        entry = self._decided(entry, route)
        self.stage_entry(entry)
        return entry

    def _decided(self, entry: Entry, route: Route) -> Entry:
        """The entry as the policy has it."""
        status, why = decide(entry, route.ddl, self.of(entry.table))
        if status == "pending":
            return replace(entry, status=status, why=why or entry.why)
        return entry.with_status(status, by=entry.decided_by or POLICY, why=why)

    def _begin(self, entry: Entry, route: Route) -> None:
        """Carry an approved entry out as far as that can be before the rows of the batch: where
        rows have to be folded again it stays `approved` for `pipelines.gold.approvals` to finish,
        which alone changes keys. What is too early stays so, too."""
        if self.too_early(entry):
            self.stage_entry(entry)
            return
        later = any(map(deferred, entry.effects)) or self._frees_rejects(entry, route)
        if entry.proposed or later:
            entry = self.save_entry(entry)
        if any(isinstance(effect, ChangeKey) for effect in entry.effects):
            return
        try:
            backfill = carry_out(self, entry, route)
        except (PySparkException, TableError) as error:
            self.stage_entry(entry.with_status("failed", why=described(error)[:2000]))
            return
        if not backfill and not later:
            self._stage_applied(entry)

    def _frees_rejects(self, entry: Entry, route: Route) -> bool:
        """Whether events were set aside for a value of a column that the entry takes away, or for
        want of one that it tells the name of: they are tried again once that is so."""
        of_target = self.warehouse, self.source, route.target
        gone = [effect.name for effect in entry.effects if isinstance(effect, DropColumn)]
        if gone and have_misfits(*of_target, columns=gone):
            return True
        lineage = self.lineage(entry.table) if route.sequence_by else ()
        ordering = {
            name.lower()
            for declared in route.sequence_by or ()
            for _, name in names_through(declared, lineage)
        }
        named = ({frees(e), brings(e)} for e in entry.effects if isinstance(e, RenameColumn))
        if not any(ordering & names for names in named):
            return False
        return have_rejects(*of_target, code=Code.ORDER_KEY_MISSING.value)

    def _stage_applied(self, entry: Entry) -> None:
        """The entry as applied: what waited of columns that it ends has nothing to wait for."""
        self.stage_entry(replace(entry, status="applied"))
        for other in superseded_by(entry, self.of(entry.table)):
            self.stage_entry(other)


def of_dropped_database(
    entry: Entry, statement: Statement, tables: Collection[SourceTable]
) -> Iterator[tuple[Entry, Statement]]:
    """What a DROP DATABASE is to those of the source's tables that were in it: each is dropped."""
    for gone in (clause.table for clause in statement.clauses if clause.kind == "drop_database"):
        for table in sorted(tables, key=str):
            own = TableName(*table[1:])
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
    """The table under the name that its rows have. A shadow table may have got more underscores
    than one: pt-online-schema-change puts them before its name until that is free."""
    named, name = table, table.table or ""
    while _folded(named) not in known and statement.ghost and name.startswith("_"):
        name = name[1:]
        named = named._replace(table=name)
    return known.get(_folded(named), table)


def _folded(table: SourceTable) -> tuple[str, ...]:
    return tuple((name or "").lower() for name in table)
