"""`gold._ddl`: every schema change once, reviewed by policy before it touches gold.

Broadcast copies and replays of one statement have one id (`ingest.ddl.identity`). A change that the
policy lets in is entered as `approved` before anything is done, and as `applied` when all of it is:
whatever a crash leaves in between is finished first by the next run (`pipelines.review`). The rest
waits as `pending`, and so do its columns: data for them goes on in silver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from threading import Lock

from pyspark.errors import PySparkException

from ingest.config import Config
from ingest.ddl_record import Statement
from ingest.errors import TableError
from ingest.lineage import Effect, Lineage, brought, effects, ended
from ingest.names import SourceTable, label_of
from ingest.order import Pos
from ingest.routes import Route
from pipelines.alterations import (
    DEFERRED,
    check_values,
    due,
    effects_on,
    fill_defaults,
    refill_needed,
    reviewed,
)
from pipelines.ddl_entries import (
    POLICY,
    Entry,
    lineage_of,
    load,
    readded,
    write,
)
from pipelines.ddl_events import in_silver, statement_of, taken_up, unreviewed
from pipelines.ddl_steps import left
from pipelines.drift import Drift
from pipelines.moves import Moves, also, held, moves
from pipelines.progress import Stands
from pipelines.survey import Survey
from pipelines.tables import Warehouse
from pipelines.targets import columns_of, keys_of


class Ledger:
    """The schema changes of one source in one run."""

    def __init__(
        self, warehouse: Warehouse, config: Config, source: str, stands: Stands | None = None
    ) -> None:
        self.warehouse = warehouse
        self.config = config
        self.source = source
        self.stands = stands or {}
        self.drift = Drift(self)
        self._waiting: dict[SourceTable, list[Entry]] = {}
        self._unsaved: dict[str, Entry] = {}
        self._statements: dict[str, Statement] = {}
        self._writing = Lock()

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """Every entry of the source as it stands, by id."""
        return load(self.warehouse, self.source)

    def of(self, table: SourceTable) -> list[Entry]:
        """The entries of one source table, in order of position."""
        names = {table, *also(table, self.moves)}
        return [entry for entry in list(self.entries.values()) if entry.table in names]

    def lineage(self, table: SourceTable) -> Lineage:
        """The schema changes through which events of `table` are read."""
        return lineage_of(self.of(table))

    @property
    def moves(self) -> Moves:
        """The source tables that were renamed: new name -> first name."""
        return moves(list(self.entries.values()))

    def closed(self, found: Survey) -> set[SourceTable]:
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
        gone = {e.table for e in self.entries.values() if e.status == "applied" and _freezes(e)}
        return gone | {table for table in waiting if not self._made(table)}

    def _made(self, table: SourceTable) -> bool:
        route = self.route(table)
        return route is not None and self.warehouse.exists("gold", route.target)

    def unfinished(self) -> list[Entry]:
        """What was approved and not seen through: a run ended in the middle of it."""
        return [entry for entry in list(self.entries.values()) if entry.status == "approved"]

    def note(self, entry: Entry) -> None:
        """Hold an entry as it now is; it is written by `save`."""
        self.entries[entry.id] = entry
        self._unsaved[entry.id] = entry

    def put(self, entry: Entry) -> Entry:
        """Hold an entry and write it at once."""
        self._unsaved.pop(entry.id, None)
        with self._writing:
            (written,) = write(self.warehouse, [entry])
        self.entries[entry.id] = written
        return written

    def log(self, found: Survey) -> None:
        """Take up DDL and truncates: new ones, and those of tables that were in silver only."""
        for again in taken_up(self.entries.values(), lambda table: bool(self.route(table))):
            self._waiting.setdefault(again.table, []).append(again)
            self._statements[again.id] = statement_of(again)
        batches = [s.batch for s in found.slices if s.ddl or s.truncates]
        if not batches:
            return
        seen = [*(entry.table for entry in self.entries.values()), *(s.table for s in found.slices)]
        spelt = {_folded(table): self.moves.get(table, table) for table in seen if table.table}
        known = {*self.entries, *(id_ for e in self.entries.values() for id_ in e.joined)}
        source = self.config.sources[self.source]
        for entry, statement in in_silver(self.warehouse, source, min(batches), max(batches)):
            if entry.id not in known:
                entry = replace(entry, table=spelt.get(_folded(entry.table), entry.table))
                known.add(entry.id)
                self._waiting.setdefault(entry.table, []).append(entry)
                self._statements[entry.id] = statement

    def beginning(
        self, table: SourceTable, wanted: Mapping[str, str], keys: Iterable[str], lowest: Pos | None
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

    def effects(self, entry: Entry) -> tuple[Effect, ...]:
        """What an entry does; of one that is not reviewed yet, by its statement."""
        statement = self._statements.get(entry.id)
        return entry.effects or (effects(statement.clauses, {}) if statement else ())

    def save(self) -> None:
        """Settle what concerns tables without rows in this run, and write the entries."""
        for table in list(self._waiting):
            route = self.route(table)
            stored = columns_of(self.warehouse, route.target) if route is not None else None
            if route is not None and stored is not None:
                self.settle(table, route, stored, keys_of(self.warehouse, route.target))
            else:
                for entry in self._waiting.pop(table):
                    self.note(unreviewed(entry, self._statements[entry.id], self.route(table)))
        unsaved, self._unsaved = self._unsaved, {}
        self.entries.update((e.id, e) for e in write(self.warehouse, unsaved.values()))

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
        self, entry: Entry, route: Route, columns: Mapping[str, str], keys: Collection[str]
    ) -> Entry:
        """The entry as it concerns the target as it is now."""
        if entry.statement is None:
            return self.drift.look(entry, route, columns)
        statement = self._statements.get(entry.id) or statement_of(entry)
        found = reviewed(self.warehouse, route, statement, columns, keys)
        types = {name.lower(): type_ for name, type_ in route.columns.items()}
        done = effects_on(effects(statement.clauses, types), columns, keys, route.exclude)
        notes = "; ".join(dict.fromkeys(o.note for o in found.clauses if o.note)) or None
        return replace(
            entry,
            target=route.target,
            risk=found.risk,
            kind=found.kind,
            proposed=found.proposed,
            effects=done,
            why=notes if entry.decided_by in (None, POLICY) else entry.why,
        )

    def settle(
        self, table: SourceTable, route: Route, columns: dict[str, str], keys: Collection[str]
    ) -> dict[str, str]:
        """The target's columns after the DDL that the policy lets in, which is carried out here."""
        for entry in self._waiting.pop(table, []):
            if entry.kind == "truncate":
                self.note(self._judged(replace(entry, target=route.target), route))
                continue
            entry = self.drift.joined(self.look(entry, route, columns, keys))
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
            names = ", ".join(effect.args[0] or "" for effect in waits)
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
        known = self.entries.get(entry.id)
        if known is not None and not entry.version:
            if known.status not in ("applied", "superseded"):
                return
            entry = replace(entry, version=known.version)
        entry = self._judged(entry, route)
        self.note(entry)
        if entry.status == "approved":
            self.begin(entry, route)

    def begin(self, entry: Entry, route: Route) -> None:
        """Change the target's columns and fill in defaults; where rows have to be folded again, the
        entry stays `approved` for `pipelines.review` to finish, which alone changes keys."""
        if entry.proposed or any(effect.op in DEFERRED for effect in entry.effects):
            entry = self.put(entry)
        if any(effect.op == "key" for effect in entry.effects):
            return
        zone = self.config.sources[self.source].time_zone
        try:
            check_values(self.warehouse, route, entry, zone)
            proposed = left(self.warehouse, entry, entry.proposed)
            for text in due(self.warehouse, entry, proposed, again=()):
                self.warehouse.session.sql(text)
        except (PySparkException, TableError) as error:
            self.note(entry.settled("failed", why=str(error)[:2000]))
            return
        if refill_needed(entry, self.applied(entry)):
            return
        fill_defaults(self.warehouse, entry, label_of(entry.table), zone)
        if not any(effect.op in DEFERRED for effect in entry.effects):
            self.note(replace(entry, status="applied"))


def _folded(table: SourceTable) -> tuple[str, ...]:
    return tuple((name or "").casefold() for name in table)


def _freezes(entry: Entry) -> bool:
    return any(effect.op == "freeze" for effect in entry.effects)
