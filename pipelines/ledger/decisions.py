"""`gold._ddl`: every schema change once, reviewed by policy before it touches gold.

Broadcast copies and replays of one statement have one id (`ingest.ddl.parse.identity`). A change
that the policy lets in is entered as `approved` before anything is done, and as `applied` when all
of it is: whatever a crash leaves in between is finished first by the next run
(`pipelines.gold.approvals`). The rest waits as `pending`, and so do its columns: data for them goes
on in silver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock

from pyspark.errors import PySparkException

from ingest.config.load import Config
from ingest.config.routes import Route
from ingest.ddl.changes import (
    ChangeKey,
    Lineage,
    RecreateTable,
    RenameTable,
    SchemaChange,
    brought,
    ended,
    schema_changes,
)
from ingest.ddl.model import Statement
from ingest.errors import TableError
from ingest.names import SourceTable, label_of
from ingest.position import Pos
from ingest.sql.alter import statements
from ingest.sql.metadata import source_name
from pipelines.ledger import generations
from pipelines.ledger.alter import (
    check_values,
    deferred,
    due,
    effects_on,
    fill_defaults,
    left,
    refill_needed,
    reviewed,
)
from pipelines.ledger.drift import Drift
from pipelines.ledger.entries import (
    IN_FORCE,
    POLICY,
    WAITING,
    Entry,
    lineage_of,
    load,
    readded,
    write,
)
from pipelines.ledger.renames import (
    Moves,
    TakenAgain,
    held,
    later_names,
    renames,
    taken_again,
)
from pipelines.ledger.statements import (
    in_silver,
    statement_of,
    taken_up,
    typed_columns,
    types_before,
    unreviewed,
)
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import PendingChanges
from pipelines.targets.progress import SWEEP, Stands
from pipelines.targets.table import columns_of, keys_of


class Ledger:
    """The schema changes of one source in one run."""

    def __init__(
        self, warehouse: Warehouse, config: Config, source: str, *, stands: Stands | None = None
    ) -> None:
        self.warehouse = warehouse
        self.config = config
        self.source = source
        # An empty one too is the run's own, which its record fills.
        self.stands = stands if stands is not None else {}
        self.drift = Drift(self)
        self._waiting: dict[SourceTable, list[Entry]] = {}
        self._unsaved: dict[str, Entry] = {}
        self._statements: dict[str, Statement] = {}
        self._writing = Lock()
        self._limits = config.sources[source].limits.filled()
        self._moves: Moves | None = None
        self._of_tables: dict[SourceTable, dict[str, Entry]] = {}

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """Every entry of the source as it stands, by id; `note` and `put` alone change it."""
        found = load(self.warehouse, self.source)
        for entry in found.values():
            self._of_tables.setdefault(entry.table, {})[entry.id] = entry
        return found

    def _hold(self, entry: Entry) -> None:
        self.entries[entry.id] = entry
        self._of_tables.setdefault(entry.table, {})[entry.id] = entry
        if any(isinstance(effect, RenameTable) for effect in entry.effects):
            self._moves = None

    def of(self, table: SourceTable) -> list[Entry]:
        """The entries of one source table, under all names it has had."""
        names = [table, *later_names(table, self.moves)]  # which has the entries loaded
        return [entry for name in names for entry in list(self._of_tables.get(name, {}).values())]

    def lineage(self, table: SourceTable) -> Lineage:
        """The schema changes through which events of `table` are read."""
        return lineage_of(self.of(table))

    @property
    def moves(self) -> Moves:
        """The source tables that were renamed: new name -> first name."""
        found = self._moves
        if found is None:
            found = self._moves = renames(list(self.entries.values()))
        return found

    def closed(self, found: PendingChanges) -> set[SourceTable]:
        """Source tables whose changes stay in silver: dropped ones, once that is approved, and new
        names without a target, until that is decided."""
        coming = {slice_.table for slice_ in found.slices if slice_.changes}
        new = [
            replace(entry, effects=self.effects(entry))
            for table, entries in self._waiting.items()
            for entry in entries
            if table in coming or self._made(table)
        ]
        waiting = held([*self.entries.values(), *new])
        gone = generations.frozen(self.entries.values())
        anew = {
            entry.table
            for entry in [*self.entries.values(), *new]
            if generations.anew(entry) and entry.status in (*WAITING, "approved")
        }
        return gone | anew | {table for table in waiting if not self._made(table)}

    def taken_again(self) -> dict[SourceTable, TakenAgain]:
        """The tables that were renamed and whose names others have since, and those others."""
        waiting = [
            replace(entry, effects=self.effects(entry))
            for entries in self._waiting.values()
            for entry in entries
        ]
        return taken_again([*self.entries.values(), *waiting], self._creates)

    def _creates(self, entry: Entry) -> bool:
        read = self._statements.get(entry.id)
        creates = entry.kind == "create_table" or (read is not None and generations.creates(read))
        return creates and not generations.anew(entry)

    def _made(self, table: SourceTable) -> bool:
        route = self.route(table)
        return route is not None and self.warehouse.exists("gold", route.target)

    def unfinished(self) -> list[Entry]:
        """What was approved and not seen through: a run ended in the middle of it."""
        return [entry for entry in list(self.entries.values()) if entry.status == "approved"]

    def note(self, entry: Entry) -> None:
        """Hold an entry as it now is; it is written by `save`."""
        self._hold(entry)
        self._unsaved[entry.id] = entry

    def put(self, entry: Entry) -> Entry:
        """Hold an entry and write it at once."""
        (written,) = self.put_all([entry])
        return written

    def put_all(self, entries: Sequence[Entry]) -> list[Entry]:
        """Hold entries and write them at once, by one commit."""
        for entry in entries:
            self._unsaved.pop(entry.id, None)
        with self._writing:
            written = write(self.warehouse, entries)
        for entry in written:
            self._hold(entry)
        return written

    def log(self, found: PendingChanges) -> None:
        """Take up DDL and truncates: new ones, and those of tables that were in silver only."""
        for again in taken_up(self.entries.values(), lambda table: bool(self.route(table))):
            self._waiting.setdefault(again.table, []).append(again)
            self._statements[again.id] = statement_of(again, self._limits)
        batches = [batch for s in found.slices for batch in s.logged or ()]
        if batches:
            self._read(found, min(batches), max(batches))
        for entries in self._waiting.values():
            entries.sort(key=lambda entry: entry.pos or ())
            for place, entry in enumerate(entries):
                entries[place] = self._generation(entry)
            entries[:] = [entry for entry in entries if entry.id not in self._unsaved]

    def _read(self, found: PendingChanges, first: int, last: int) -> None:
        """Take up the DDL and truncates of these batches that are not known yet."""
        swept = self.stands.get((self.source, SWEEP))
        seen = [SourceTable(self.source, *names) for names in (swept.tables if swept else ())]
        seen += [
            *(entry.table for entry in self.entries.values()),
            *(s.table for s in found.slices),
        ]
        spelt = {_folded(table): self.moves.get(table, table) for table in seen if table.table}
        known = {*self.entries, *(id_ for e in self.entries.values() for id_ in e.joined)}
        source = self.config.sources[self.source]
        for entry, statement in in_silver(self.warehouse, source, first, last=last):
            if entry.id not in known:
                entry = replace(entry, table=known_as(entry.table, statement, spelt))
                known.add(entry.id)
                self._waiting.setdefault(entry.table, []).append(entry)
                self._statements[entry.id] = statement

    def _generation(self, entry: Entry) -> Entry:
        """The entry, as a new generation where it creates a table that was dropped; the DROP is
        taken up by it."""
        read = self._statements[entry.id]
        if entry.pos is None or not generations.creates(read) or entry.kind == "truncate":
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
            read = self._statements.get(gone.id) or statement_of(gone, self._limits)
            kind = generations.RENAMED if generations.renames_away(read) else "drop_table"
            # What it would have done, were it a rename, is not done.
            gone = replace(gone, target=target, risk="destructive", kind=kind, effects=())
            self.note(gone.settled("superseded", why=why))
        joined = (*entry.joined, *([gone.id] if gone is not None else []))
        return replace(entry, effects=(RecreateTable(),), joined=joined)

    def _drops(self, entry: Entry) -> bool:
        """Whether no table has the entry's name behind it. Where a rename is in force, gold follows
        the table, and the name is looked after by `reused`."""
        if entry.kind in ("ghost", "truncate"):
            return False
        read = self._statements.get(entry.id)
        if (read is not None and generations.drops(read)) or entry.kind == "drop_table":
            return True
        away = entry.kind == generations.RENAMED or (
            read is not None and generations.renames_away(read)
        )
        return away and entry.status not in IN_FORCE

    def renewed(self) -> bool:
        """Carry out the new generations of tables that have no target, where there is nothing to
        review; whether silver got truncates by that, which a survey of before lacks."""
        fresh = [
            entry
            for table, entries in self._waiting.items()
            if (route := self.route(table)) is not None
            and not self.warehouse.exists("gold", route.target)
            for entry in entries
            if generations.anew(entry)
        ]
        appended = generations.empty(self.warehouse, fresh)
        if fresh:
            self.put_all(list(self._unsaved.values()))
        for entry in fresh:
            entry = replace(entry, risk="destructive", kind="create_table")
            self._waiting[entry.table] = [
                other for other in self._waiting[entry.table] if other.id != entry.id
            ]
            route = self.route(entry.table)
            assert route is not None
            why = "the target does not exist yet"
            self.put(replace(entry, target=route.target).settled("applied", why=why))
        return appended

    def beginning(
        self,
        table: SourceTable,
        wanted: Mapping[str, str],
        keys: Iterable[str],
        *,
        lowest: Pos | None,
    ) -> dict[str, str]:
        """The columns a new target begins with: those of its rows before the first schema change.

        What changed before the first row is settled here: there was nothing to review.
        """
        waiting = self._waiting.pop(table, [])
        for entry in waiting:
            if entry.pos is None or lowest is None or entry.pos < lowest:
                self.note(unreviewed(entry, self._statements[entry.id], self.route(table)))
            else:
                self._waiting.setdefault(table, []).append(entry)
        met = sorted(
            [*self._waiting.get(table, ()), *self.of(table)], key=lambda entry: entry.pos or ()
        )
        undecided = [entry for entry in met if entry.status not in ("applied", "superseded")]
        barred = brought(effect for entry in undecided for effect in self.effects(entry))
        edits = self.lineage(table)
        always = {key.lower() for key in keys}
        return {
            name: type_
            for name, type_ in wanted.items()
            if name.lower() in always
            or (name.lower() not in barred and ended(edits, name.lower()) is None)
        }

    def effects(self, entry: Entry) -> tuple[SchemaChange, ...]:
        """What an entry does; of one that is not reviewed yet, by its statement."""
        statement = self._statements.get(entry.id)
        return entry.effects or (schema_changes(statement.clauses, {}) if statement else ())

    def save(self) -> None:
        """Settle what concerns tables without rows in this run, and write the entries."""
        for table in list(self._waiting):
            route = self.route(table)
            stored = columns_of(self.warehouse, route.target) if route is not None else None
            if route is not None and stored is not None:
                self.settle(table, route, stored, keys=keys_of(self.warehouse, route.target))
            else:
                for entry in self._waiting.pop(table):
                    self.note(unreviewed(entry, self._statements[entry.id], self.route(table)))
        self.put_all(list(self._unsaved.values()))

    def route(self, table: SourceTable) -> Route | None:
        """The way of a source table into gold; None where it lives in silver only."""
        if not table.table:
            return None
        return self.config.route(table.source, db=table.db, schema=table.schema, table=table.table)

    def applied(self, entry: Entry) -> Pos | None:
        """The highest position of the entry's source table that its target has applied."""
        stand = self.stands.get((entry.table.source, entry.target or ""))
        marks = stand.marks.get(label_of(entry.table)) if stand is not None else None
        sequenced = stand is not None and stand.made is not None and stand.made.sequence
        # By `sequence_by` the highest may be anywhere in the log.
        return (entry.pos if sequenced else marks.applied) if marks is not None else None

    def look(
        self, entry: Entry, route: Route, columns: Mapping[str, str], *, keys: Collection[str]
    ) -> Entry:
        """The entry as it concerns the target as it is now."""
        if entry.statement is None:
            return self.drift.look(entry, route, columns)
        statement = self._statements.get(entry.id) or statement_of(entry, self._limits)
        anew = generations.anew(entry)
        if anew:
            statement = generations.columns_as_clauses(statement, columns)
        found = reviewed(
            *(self.warehouse, route, statement),
            columns=columns,
            keys=keys,
            source_types=self._source_types(entry, statement),
            dialect=entry.dialect or "mysql",
        )
        types = {name.lower(): type_ for name, type_ in route.columns.items()}
        done = effects_on(
            schema_changes(statement.clauses, types), columns, keys, exclude=route.exclude
        )
        notes = "; ".join(dict.fromkeys(o.note for o in found.clauses if o.note)) or None
        if anew:
            found = replace(found, risk="destructive", kind="create_table")
            done = (RecreateTable(), *done)
            notes = "the table was dropped and created again; approval empties it at that place"
        return replace(
            entry,
            target=route.target,
            risk=found.risk,
            kind=found.kind,
            proposed=found.proposed,
            effects=done,
            why=notes if entry.decided_by in (None, POLICY) else entry.why,
        )

    def _source_types(self, entry: Entry, statement: Statement) -> dict[str, str]:
        """The types, as the source has them, that columns which the statement modifies had before
        it: by the messages and statements from before it."""
        names = {
            clause.column.name.casefold()
            for clause in statement.clauses
            if clause.kind in ("modify_column", "add_column") and clause.column is not None
        }
        modified = any(clause.kind == "modify_column" for clause in statement.clauses)
        if not modified or entry.pos is None:
            return {}
        since, types = types_before(self.warehouse, entry)
        earlier = [
            other
            for other in [*self.of(entry.table), *self._waiting.get(entry.table, ())]
            if other.statement and other.pos is not None and since <= other.pos < entry.pos
            if any(source_name(name) in other.statement.casefold() for name in names)
        ]
        for other in sorted(earlier, key=lambda other: other.pos or ()):
            read = self._statements.get(other.id) or statement_of(other, self._limits)
            self._statements[other.id] = read
            types |= {name.casefold(): type_ for name, type_ in typed_columns(read)}
        return {name: type_ for name, type_ in types.items() if name in names}

    def settle(
        self, table: SourceTable, route: Route, columns: dict[str, str], *, keys: Collection[str]
    ) -> dict[str, str]:
        """The target's columns after the DDL that the policy lets in, which is carried out here."""
        for entry in self._waiting.pop(table, []):
            if entry.kind == "truncate":
                self.note(self._judged(replace(entry, target=route.target), route))
                continue
            entry = self.drift.joined(self.look(entry, route, columns, keys=keys))
            if entry.version and entry.status in ("rejected", "ignored"):
                self.note(entry)
                continue
            self.enter(entry, route)
            columns = columns_of(self.warehouse, route.target) or columns
        return columns

    def _judged(self, entry: Entry, route: Route) -> Entry:
        """What the policy says of an entry."""
        by = entry.decided_by or POLICY
        if entry.risk == "none":
            why = entry.why or "nothing to change in gold"
            return entry.settled("ignored", by=by, why=why)
        waits = readded(entry, self.of(entry.table))
        if waits:
            names = ", ".join(effect.name for effect in waits)
            return replace(
                entry, status="pending", why=f"{names} is taken away by a change that waits itself"
            )
        if entry.risk in ("additive", "widening") and not entry.proposed and not entry.effects:
            return entry.settled("applied", by=by)
        policy: str = getattr(route.ddl, entry.risk)
        if policy == "review" and entry.risk in ("additive", "widening") and not entry.proposed:
            policy = "apply"
        if policy == "review":
            return replace(entry, status="pending")
        return entry.settled("ignored" if policy == "ignore" else "approved", by=by)

    def enter(self, entry: Entry, route: Route) -> None:
        """Take up a reviewed entry: decide by the policy, and begin what it lets in."""
        taken = self._taken_up(entry, route)
        if taken is not None and taken.status == "approved":
            self.begin(taken, route)

    def enter_columns(self, entries: Sequence[Entry], route: Route) -> None:
        """Take up reviewed entries that add a column each: what the policy lets in by one change of
        the target and one of the ledger."""
        taken = [
            entry for entry in (self._taken_up(e, route) for e in entries) if entry is not None
        ]
        begun = self.put_all([entry for entry in taken if entry.status == "approved"])
        target = self.warehouse.name("gold", route.target)
        proposed = [change for entry in begun for change in entry.proposed]
        try:
            for text in statements(target, proposed):
                self.warehouse.execute(text)
        except PySparkException:
            # Which of them it is shows when they are added one by one.
            for entry in begun:
                self.begin(entry, route)
            return
        for entry in begun:
            if not refill_needed(entry, self.applied(entry)):
                self.note(replace(entry, status="applied"))

    def _taken_up(self, entry: Entry, route: Route) -> Entry | None:
        """The entry as the policy has it; None where it is known and undecided, or has no part."""
        known = self.entries.get(entry.id)
        if known is not None and not entry.version:
            if known.status not in ("applied", "superseded"):
                return None
            entry = replace(entry, version=known.version)
        entry = self._judged(entry, route)
        self.note(entry)
        return entry

    def begin(self, entry: Entry, route: Route) -> None:
        """Change the target's columns and fill in defaults; where rows have to be folded again, the
        entry stays `approved` for `pipelines.gold.approvals` to finish, which alone changes
        keys."""
        if entry.proposed or deferred(entry.effects):
            entry = self.put(entry)
        if any(isinstance(effect, ChangeKey) for effect in entry.effects):
            return
        zone = self.config.sources[self.source].time_zone
        try:
            if not generations.anew(entry):
                check_values(self.warehouse, route, entry, zone=zone)
            proposed = left(self.warehouse, entry, entry.proposed)
            target = self.warehouse.name("gold", route.target)
            for text in statements(target, due(self.warehouse, entry, proposed, again=())):
                self.warehouse.execute(text)
        except (PySparkException, TableError) as error:
            self.note(entry.settled("failed", why=str(error)[:2000]))
            return
        if refill_needed(entry, self.applied(entry)):
            return
        fill_defaults(self.warehouse, entry, label_of(entry.table), zone=zone)
        if not deferred(entry.effects):
            self.note(replace(entry, status="applied"))


def known_as(
    table: SourceTable, statement: Statement, known: Mapping[tuple[str, ...], SourceTable]
) -> SourceTable:
    """The table under the name that its rows have. A shadow table may have got more underscores
    than one: pt-online-schema-change puts them before its name until that is free."""
    named = table
    while _folded(named) not in known and statement.ghost and named.table.startswith("_"):
        named = named._replace(table=named.table[1:])
    return known.get(_folded(named), table)


def _folded(table: SourceTable) -> tuple[str, ...]:
    return tuple((name or "").casefold() for name in table)
