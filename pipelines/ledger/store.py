"""The ledger's entries of one source during a run: read once, held here, written here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any

from ingest.config.routes import Route, through_renames
from ingest.ddl.changes import Lineage, RenameTable, only, schema_changes
from ingest.ddl.model import Statement
from ingest.names import SourceTable, label_of
from ingest.position import Pos
from pipelines.ledger import generations
from pipelines.ledger.entries import (
    WAITING,
    Entry,
    lineage_of,
    load_entries,
    naming_of,
    write_entries,
)
from pipelines.ledger.renames import FirstNames, names_of, renames, waiting_names
from pipelines.ledger.statements import statement_of
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.contract import made_otherwise
from pipelines.targets.progress import Progress, ProgressByTarget


class _Known:
    """The entries by id and by their source table, and for each target the source tables that have
    any."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.by_id: dict[str, Entry] = {}
        self.of_tables: dict[SourceTable, dict[str, Entry]] = {}
        self.of_targets: dict[str, set[SourceTable]] = {}
        for entry in entries:
            self.put(entry)

    def put(self, entry: Entry) -> None:
        """Add an entry, or replace it by its new state."""
        self.by_id[entry.id] = entry
        self.of_tables.setdefault(entry.table, {})[entry.id] = entry
        if entry.target is not None:
            self.of_targets.setdefault(entry.target, set()).add(entry.table)


class Ledger:
    """The entries of one source in one run, and what follows from them for its tables: their names,
    their routes into gold, the schema changes through which they are read."""

    def __init__(
        self,
        warehouse: Warehouse,
        source: str,
        *,
        progress_by_target: ProgressByTarget | None = None,
    ) -> None:
        self.warehouse = warehouse
        self.source = source
        # An empty mapping is the run's own too, and is filled when progress is recorded.
        self.progress_by_target = progress_by_target if progress_by_target is not None else {}
        self._columns_sent: dict[str, Mapping[SourceTable, Collection[str]]] = {}
        self._unsaved: dict[str, Entry] = {}
        self._statements: dict[str, Statement] = {}
        self._writing = Lock()
        self._first_names: FirstNames | None = None
        self._followed: dict[str, tuple[tuple[Any, ...], Route]] = {}
        """By target: what is declared of its columns, and the route with that under the names of
        now; forgotten when a schema change of its tables comes."""

    @cached_property
    def _known(self) -> _Known:
        return _Known(load_entries(self.warehouse, self.source).values())

    @property
    def entries(self) -> Mapping[str, Entry]:
        """Every entry of the source as it is, by id; `stage_entry` and `save_entry` alone change
        it."""
        return self._known.by_id

    def of(self, table: SourceTable) -> list[Entry]:
        """The entries of one source table, under all names it has had."""
        of_tables = self._known.of_tables
        of_names = (of_tables.get(name, {}) for name in self.names(table))
        return [entry for of_name in of_names for entry in list(of_name.values())]

    def first_name(self, table: SourceTable) -> SourceTable:
        """What a source table was called before it was renamed."""
        return self.first_names.get(table, table)

    def names(self, table: SourceTable) -> tuple[SourceTable, ...]:
        """All names that a source table has had; `table` is the first."""
        return names_of(table, self.first_names)

    def progress(self, target: str | None) -> Progress | None:
        """The progress of a target that the source feeds."""
        return self.progress_by_target.get((self.source, target or ""))

    def progress_of(self, route: Route) -> Progress:
        """The progress of the target of a route, which may not have begun."""
        return self.progress(route.target) or Progress(target=route.target, source=route.source)

    def lineage(self, table: SourceTable) -> Lineage:
        """The schema changes through which events of `table` are read."""
        return lineage_of(self.of(table))

    @property
    def first_names(self) -> FirstNames:
        """The source tables that were renamed: new name -> first name."""
        first_names = self._first_names
        if first_names is None:
            first_names = self._first_names = renames(list(self.entries.values()))
        return first_names

    def unfinished(self) -> list[Entry]:
        """The entries that were approved and not seen through, because a run ended in the middle.
        Those that are too early are left to the run that makes the target."""
        approved = [entry for entry in list(self.entries.values()) if entry.status == "approved"]
        return [entry for entry in approved if not self.too_early(entry)]

    def bring_forward(self, target: str, sent: Mapping[SourceTable, Collection[str]]) -> None:
        """Note, for the rest of the run, that a target is brought forward. `sent`: the source
        tables with changes for it, each with the columns (in lower case) that it sends."""
        self._columns_sent[target] = sent

    def columns_sent(self, target: str) -> Mapping[SourceTable, Collection[str]]:
        """See `bring_forward`; nothing for a target that is not brought forward."""
        return self._columns_sent.get(target, {})

    def target_exists(self, table: SourceTable) -> bool:
        """Whether the source table has a target that is there."""
        route = self.route(table)
        return route is not None and self.warehouse.exists("gold", route.target)

    def held_tables(self, beside: Iterable[Entry] = ()) -> set[SourceTable]:
        """The new names of tables that wait for a rename, by the entries and those `beside` them,
        and have no target of their own."""
        waiting = waiting_names([*self.entries.values(), *beside])
        return {table for table in waiting if not self.target_exists(table)}

    def too_early(self, entry: Entry) -> bool:
        """Whether the entry's target must not be touched yet.

        If a run was killed while it made the target, it left a table without any record. Nobody
        knows which source tables feed it, and which columns these share, until changes come again.
        And a target that the tables file wants otherwise than it was made has to be made anew
        first; where it names the table no more, it must do so again.
        """
        if entry.target is None:
            return False
        if self.without_route(entry):
            return True
        # Changes of a new generation wait until that is seen through.
        if entry.recreates:
            return False
        progress = self.progress(entry.target)
        if progress is not None and self._made_otherwise(entry, progress):
            return True
        recorded = progress is not None and progress.watermarks
        if recorded or entry.target in self._columns_sent:
            return False
        return self.warehouse.exists("gold", entry.target)

    def without_route(self, entry: Entry) -> bool:
        """Whether the configuration does not say any more that the entry's table feeds its target,
        which is there."""
        there = entry.target is not None and self.warehouse.exists("gold", entry.target)
        return there and self.route(entry.table) is None

    def _made_otherwise(self, entry: Entry, progress: Progress) -> bool:
        """Whether the tables file wants the entry's target otherwise than it was made."""
        route = self.route(entry.table) if progress.contract is not None else None
        if route is None or route.target != entry.target:
            return False
        return made_otherwise(route, progress.contract)

    def statement(self, entry: Entry) -> Statement:
        """The entry's statement, read."""
        if entry.id not in self._statements:
            limits = self.warehouse.config.sources[self.source].limits.filled()
            names = self.names(entry.table)
            self._statements[entry.id] = statement_of(entry, limits, names)
        return self._statements[entry.id]

    def keep_statement(self, id_: str, statement: Statement) -> None:
        """Keep a statement that was read already for the entry with this id."""
        self._statements[id_] = statement

    def stated(self, entry: Entry) -> Entry:
        """An entry that is not reviewed yet, with the effects of its statement."""
        effects = entry.effects or schema_changes(self.statement(entry).clauses, {})
        return replace(entry, effects=effects)

    def stage_entry(self, entry: Entry) -> None:
        """Hold an entry in its new state; `save_staged` writes it."""
        self._hold(entry)
        self._unsaved[entry.id] = entry

    def reads_otherwise(self, entry: Entry) -> bool:
        """Whether the target has applied events above a change that waits which are read otherwise
        since the change is held here."""
        applied = self.applied(entry)
        # Where columns of the rows order them, `applied` is the entry's own place.
        if applied is None or entry.pos is None or entry.pos > applied:
            return False
        return any(step.hidden and step.pos == entry.pos for step in self.lineage(entry.table))

    def save_entry(self, entry: Entry) -> Entry:
        """Hold an entry and write it at once."""
        (written,) = self.save_entries([entry])
        return written

    def save_entries(self, entries: Sequence[Entry]) -> list[Entry]:
        """Hold entries and write them at once, by one commit. If that fails, those that were staged
        stay so: only their own target need be parked for it, and the others' entries are written
        later."""
        staged = {entry.id: self._unsaved.get(entry.id) for entry in entries}
        with self._writing:
            written = write_entries(self.warehouse, entries)
        for entry in written:
            # Another thread may have staged it anew meanwhile.
            if self._unsaved.get(entry.id) is staged[entry.id]:
                self._unsaved.pop(entry.id, None)
            self._hold(entry)
        return written

    def save_staged(self) -> None:
        """Write the entries that were staged, by one commit."""
        self.save_entries(list(self._unsaved.values()))

    def _hold(self, entry: Entry) -> None:
        self._known.put(entry)
        self._followed.pop(entry.target or "", None)
        if only(RenameTable, entry.effects):
            self._first_names = None

    def route(self, table: SourceTable) -> Route | None:
        """The route of a source table into gold, with today's names of its columns; None if the
        table stays in silver only."""
        way = self.declared_route(table)
        if way is None or not (way.columns or way.exclude):
            return way
        declared = way.exclude, way.columns
        known, now = self._followed.get(way.target, (None, way))
        if known != declared:
            changed = set(map(self.first_name, self._known.of_targets.get(way.target, ())))
            now = through_renames(way, (naming_of(self.of(of)) for of in sorted(changed, key=str)))
            self._followed[way.target] = declared, now
        return replace(way, exclude=now.exclude, columns=now.columns)

    def declared_route(self, table: SourceTable) -> Route | None:
        """The same with the names that the configuration has."""
        return self.warehouse.config.route(
            table.source, db=table.db, schema=table.schema, table=table.table
        )

    def applied(self, entry: Entry) -> Pos | None:
        """The highest position of the entry's source table that its target has applied."""
        progress = self.progress(entry.target)
        watermarks = (
            progress.watermarks.get(label_of(entry.table)) if progress is not None else None
        )
        sequenced = (
            progress is not None and progress.contract is not None and progress.contract.sequence
        )
        # With `sequence_by` the highest position may be anywhere in the log.
        return (entry.pos if sequenced else watermarks.applied) if watermarks is not None else None

    def closed(
        self, coming: Iterable[Entry] = (), *, changed: Collection[SourceTable] = ()
    ) -> set[SourceTable]:
        """Source tables whose changes stay in silver: dropped tables, once the drop is approved,
        and new names without a target, until the rename is decided. `coming`: the statements that
        are not reviewed yet; they do not count for tables that have neither a target nor changes
        (`changed`)."""
        new = [
            self.stated(entry)
            for entry in coming
            if entry.table in changed or self.target_exists(entry.table)
        ]
        waiting = self.held_tables(new)
        gone = generations.frozen(self.entries.values())
        recreated = {
            entry.table
            for entry in [*self.entries.values(), *new]
            if entry.recreates and entry.status in (*WAITING, "approved")
        }
        return gone | recreated | waiting

    def closed_names(self, coming: Iterable[Entry] = ()) -> set[SourceTable]:
        """The source tables whose changes stay in silver, under each of their names."""
        return {name for table in self.closed(coming) for name in self.names(table)}
