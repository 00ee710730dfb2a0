"""Schema changes that no DDL announced: columns, types and keys that turn up in data.

They enter the ledger under the same policy as DDL. A column that a decision keeps out of gold, or
that a rename or drop ended for the events it comes with, is no drift. A DDL that arrives after its
data joins the entry that its data made (semantics.md, 54).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

import msgspec

from ingest.config.routes import Route
from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    ColumnChange,
    DropColumn,
    FreezeTable,
    RecreateTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    brings,
    column_of,
    ended,
    frees,
    retyped,
)
from ingest.ddl.widening import canonical_type, outgrown, widens
from ingest.names import SourceTable
from ingest.position import Pos, pos_literal
from ingest.sql.casts import sql_text
from ingest.sql.metadata import source_name, steps_aside
from pipelines.ledger.alter import as_stored
from pipelines.ledger.entries import IN_FORCE, POLICY, WAITING, Entry, SentAgain
from pipelines.silver.pending import BatchStats, named
from pipelines.targets.table import columns_of, keys_of

if TYPE_CHECKING:
    from pipelines.ledger.decisions import Ledger


_ALL_COLUMNS = {"debezium", "debezium_avro"}
"""Formats whose new rows have every column, types or none: others may leave out NULLs."""


class Drift:
    """What the data of one source showed beside its DDL."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def grown(
        self,
        table: SourceTable,
        route: Route,
        columns: dict[str, str],
        *,
        wanted: Mapping[str, str],
        typed_names: set[str],
    ) -> dict[str, str]:
        """The target's columns, with those that data brings and the policy lets in."""
        by_lower = {name.lower(): name for name in columns}
        declared = _folded(route.columns)
        added = [
            change
            for name, type_ in wanted.items()
            if name.lower() not in by_lower
            for change in [AddColumn(name, type_)]
            if not self._kept_out(table, change) and not self._over(table, change)
        ]
        if added:
            columns = self._added(table, route, columns, added=added)
        for name, type_ in wanted.items():
            held = by_lower.get(name.lower())
            if held is None:
                continue
            if name.lower() in declared or name in typed_names:
                change = AlterColumnType(held, type_)
                fits = _holds(route, name, columns[held], coming=type_)
                if not fits and not self._kept_out(table, change) and not self._over(table, change):
                    columns = self._entered(table, route, columns, change=change, was=columns[held])
        return columns

    def stepping_aside(self, table: SourceTable, route: Route, columns: Iterable[str]) -> None:
        """Enter the columns that have another name in gold than at the source (73)."""
        for name in filter(steps_aside, columns):
            parts = ("aside", str(table), route.target, name.lower())
            id_ = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=6).hexdigest()
            if id_ not in self._ledger.entries:
                given = source_name(name)
                why = f"`{given}` is a column of gold's own: the source's is `{name}` there"
                entry = Entry(
                    id=id_, table=table, target=route.target, risk="none", kind="rename_column"
                )
                self._ledger.note(entry.settled("applied", why=why))

    def declared(self, table: SourceTable, route: Route) -> None:
        """Enter declared types that are wider than, or other than, those of the target."""
        columns = columns_of(self._ledger.warehouse, route.target)
        if columns is not None:
            held = {name.lower() for name in columns}
            own = {name: type_ for name, type_ in route.columns.items() if name.lower() in held}
            self.grown(table, route, columns, wanted=own, typed_names=set())

    def key(
        self, table: SourceTable, route: Route, held: Sequence[str], *, named_: Sequence[str]
    ) -> None:
        """Enter a key that differs from the one the target was made with (21)."""
        shard = (route.shard_column or "").lower()
        change = ChangeKey(tuple(name for name in named_ if name.lower() != shard))
        known = (e for entry in self._ledger.of(table) for e in entry.effects)
        if any(
            isinstance(e, ChangeKey) and _folded(e.keys) - {shard} == _folded(change.keys)
            for e in known
        ):
            return
        came, has = ", ".join(named_), ", ".join(held)
        entry = self._entry(table, route, change, was=f"({has})", first=self._first(table, change))
        entry = replace(
            entry,
            risk="destructive",
            kind="change_key",
            why=f"messages name the key ({came}), gold has ({has}); no DDL announced it",
        )
        self._ledger.enter(entry, route)

    def outgrown(
        self, table: SourceTable, route: Route, numbers: Mapping[str, Sequence[str]]
    ) -> None:
        """Enter the wider types that numbers which did not fit need (23); `numbers`: by column."""
        columns = columns_of(self._ledger.warehouse, route.target) or {}
        declared = _folded(route.columns)
        for name, texts in numbers.items():
            type_ = columns.get(name, "string")
            wider = outgrown(type_, texts)
            if wider is None or name.lower() in declared:
                continue
            change = AlterColumnType(name, wider)
            if self._kept_out(table, change):
                continue
            first = self._first(table, change)
            entry = self.look(
                self._entry(table, route, change, was=type_, first=first), route, columns
            )
            why = f"values of {name} outgrew {type_}; no DDL announced it"
            self._ledger.enter(replace(entry, why=why), route)

    def unsent(
        self,
        table: SourceTable,
        route: Route,
        columns: Iterable[str],
        *,
        slices: Sequence[BatchStats],
        listed: Sequence[str] | None,
        never: Collection[str],
    ) -> tuple[str, ...]:
        """Enter the columns that whole images have no longer, and did have.

        `columns`: those of the target beside its key; `listed`: those that came with a type, where
        the messages tell types. Gives the columns, in lower case, that the source table never sent:
        `never`, as known before, and those found now.
        """
        sent = {name.lower() for slice_ in slices for image in slice_.images for name in image}
        self._sent_again(table, sent, slices)
        never = set(never) - sent
        partial = any(slice_.partials for slice_ in slices)
        formats = {name for slice_ in slices for name in slice_.formats}
        if partial or not sent or (listed is None and not formats <= _ALL_COLUMNS):
            return tuple(sorted(never))
        typed = _folded(listed or ())
        lacking = {name.lower(): name for name in columns}
        lacking = {low: name for low, name in lacking.items() if low not in sent | typed | never}
        lacking = {low: name for low, name in lacking.items() if not self._going(table, low)}
        if not lacking:
            return tuple(sorted(never))
        last = self._last(table, list(lacking))
        for low, since in self._since(table, last).items():
            change = DropColumn(lacking[low])
            entry = self._entry(table, route, change, was=str(since), first=since)
            entry = replace(
                entry,
                risk="destructive",
                kind="drop_column",
                proposed=(change,),
                why=f"{lacking[low]} is no longer sent since {list(since)}; no DDL announced it",
            )
            if route.ddl.destructive == "ignore":
                self._ledger.enter(entry, route)
            elif entry.id not in self._ledger.entries:
                # Whatever the policy: that nothing came is not said by the source.
                self._ledger.note(entry)
        return tuple(sorted(never | (lacking.keys() - last.keys())))

    def look(self, entry: Entry, route: Route, columns: Mapping[str, str]) -> Entry:
        """A drift entry as it concerns the target's columns as they are."""
        change, *more = entry.effects
        entry = replace(entry, target=route.target)
        match change:
            case AddColumn() | AlterColumnType():
                return self._looked(entry, route, columns, change=change, more=more)
            case DropColumn(name):
                gone = [DropColumn(known) for known in columns if known.lower() == name.lower()]
                return replace(entry, proposed=tuple(gone))
            case ChangeKey():
                return replace(entry, risk="destructive", kind="change_key")
            case RenameColumn() | RenameTable() | FreezeTable() | RecreateTable():
                raise AssertionError(f"expected what data can show, got {change}")
            case _:
                assert_never(change)

    def _looked(
        self,
        entry: Entry,
        route: Route,
        columns: Mapping[str, str],
        *,
        change: AddColumn | AlterColumnType,
        more: Sequence[SchemaChange],
    ) -> Entry:
        name, type_ = change.name, change.type or "string"
        held = {known.lower(): known for known in columns}.get(name.lower())
        proposed: tuple[ColumnChange, ...]
        if held is None:
            risk, proposed = "additive", (AddColumn(name, type_),)
        elif _holds(route, name, columns[held], coming=type_):
            risk, proposed = "additive" if isinstance(change, AddColumn) else "widening", ()
        elif widens(canonical_type(columns[held]), canonical_type(type_)):
            risk, proposed = "widening", (AlterColumnType(held, type_, in_place=True),)
        else:
            risk, proposed = "destructive", (DropColumn(held), AddColumn(name, type_))
            keys = keys_of(self._ledger.warehouse, route.target)
            if not more and name.lower() in _folded(keys):
                # Rows are told apart anew: the same key, read as another type.
                more = [ChangeKey(keys)]
        return replace(
            entry,
            risk=risk,
            kind="add_column" if isinstance(change, AddColumn) else "modify_column",
            proposed=proposed,
            effects=(as_stored(change, columns) or change, *more),
        )

    def joined(self, entry: Entry) -> Entry:
        """The entry of the drift that this DDL announces late, with the DDL in it; else itself."""
        ours = {_seen(effect) for effect in entry.effects}
        drifts = [
            other
            for other in self._ledger.of(entry.table)
            if other.statement is None
            and other.kind in ("add_column", "modify_column", "drop_column")
            and {_seen(effect) for effect in other.effects} <= ours
        ]
        if len(entry.effects) == 1 and drifts and not entry.version:
            drift = drifts[-1]
            return replace(
                drift,
                target=entry.target,
                risk=entry.risk,
                kind=entry.kind,
                statement=entry.statement,
                proposed=entry.proposed,
                pos=entry.pos,
                event_time=entry.event_time,
                effects=entry.effects,
                why=entry.why if drift.decided_by in (None, POLICY) else drift.why,
                joined=(*drift.joined, entry.id),
            )
        for drift in drifts:
            if drift.status in WAITING:
                self._ledger.note(drift.settled("superseded", why=f"announced by {entry.id}"))
        return entry

    def _added(
        self,
        table: SourceTable,
        route: Route,
        columns: dict[str, str],
        *,
        added: Sequence[AddColumn],
    ) -> dict[str, str]:
        """The target's columns, with those among `added` that the policy lets in."""
        first = self._firsts(table, [change.name.lower() for change in added])
        entries = []
        for change in added:
            place = first.get(change.name.lower())
            entry = self._entry(table, route, change, was=None, first=place)
            why = f"column {change.name} came as {change.type}; no DDL announced it"
            entries.append(replace(self.look(entry, route, columns), why=why))
        self._ledger.enter_columns(entries, route)
        return columns_of(self._ledger.warehouse, route.target) or columns

    def _entered(
        self,
        table: SourceTable,
        route: Route,
        columns: dict[str, str],
        *,
        change: AlterColumnType,
        was: str,
    ) -> dict[str, str]:
        first = self._first(table, change)
        entry = self.look(self._entry(table, route, change, was=was, first=first), route, columns)
        came = f"column {change.name} came as {change.type}"
        entry = replace(entry, why=f"{came}, gold has {was}; no DDL announced it")
        self._ledger.enter(entry, route)
        return columns_of(self._ledger.warehouse, route.target) or columns

    def _entry(
        self,
        table: SourceTable,
        route: Route,
        change: SchemaChange,
        *,
        was: str | None,
        first: Pos | None,
    ) -> Entry:
        parts = ("drift", str(table), msgspec.json.encode(change).decode(), was or "")
        id_ = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=6).hexdigest()
        return Entry(
            id=id_,
            table=table,
            target=route.target,
            effects=(change,),
            pos=first,
        )

    def _sent_again(
        self, table: SourceTable, sent: Collection[str], slices: Sequence[BatchStats]
    ) -> None:
        """Take back what waits because a column came no longer, where it comes again."""
        top = max((s.highest for s in slices if s.highest is not None), default=())
        for entry in self._ledger.of(table):
            waits = entry.status in WAITING and entry.statement is None
            if waits and entry.kind == "drop_column" and (entry.pos or ()) < top:
                if column_of(entry.effects[0]) in sent:
                    self._ledger.note(entry.settled("ignored", why=SentAgain()))

    def _going(self, table: SourceTable, column: str) -> bool:
        """Whether the ledger has it that the column goes, decided or not."""
        return any(
            frees(effect) == column
            for entry in self._ledger.of(table)
            if entry.status not in IN_FORCE and entry.reason != SentAgain()
            for effect in entry.effects
        )

    def _last(self, table: SourceTable, names: Sequence[str]) -> dict[str, Pos]:
        """Of columns, in lower case, the highest position of a change that had each, or said that
        it was not supplied; none of those that never came."""
        listed = ", ".join(map(sql_text, names))
        known = "concat(coalesce(map_keys(after), array()), coalesce(unavailable, array()))"
        rows = self._ledger.warehouse.session.sql(
            f"SELECT name, max(pos) FROM (SELECT pos, explode(array_intersect(transform({known}, "
            f"k -> lower(k)), array({listed}))) AS name FROM {self._changes(table)}) GROUP BY name"
        ).collect()
        return {row[0]: tuple(row[1]) for row in rows if row[1] is not None}

    def _since(self, table: SourceTable, last: Mapping[str, Pos]) -> dict[str, Pos]:
        """Of columns the position of the first new row behind the last change that had each."""
        if not last:
            return {}
        each = ", ".join(
            f"min(pos) FILTER (WHERE pos > {pos_literal(pos)})" for pos in last.values()
        )
        row = self._ledger.warehouse.session.sql(
            f"SELECT {each} FROM {self._changes(table)} "
            "AND op IN ('insert', 'snapshot') AND after_image = 'full'"
        ).first()
        assert row is not None
        found = zip(last, row, strict=True)
        return {name: tuple(pos) for name, pos in found if pos is not None}

    def _changes(self, table: SourceTable) -> str:
        """SQL of where a source table's changes stand."""
        return (
            f"{self._ledger.warehouse.name('silver', 'cdc')} WHERE source = "
            f"{sql_text(table.source)} AND {named(table)} AND kind = 'change'"
        )

    def _kept_out(self, table: SourceTable, change: AddColumn | AlterColumnType) -> bool:
        """Whether the ledger has a decision on this, or waits for one."""
        name = change.name.lower()
        for entry in self._ledger.of(table):
            if entry.status in IN_FORCE:
                continue
            for known in entry.effects:
                if brings(known) == name:
                    return True
                if isinstance(known, AlterColumnType) and isinstance(change, AlterColumnType):
                    same_type = canonical_type(known.type) == canonical_type(change.type)
                    if known.name.lower() == name and same_type:
                        return True
        return False

    def _over(self, table: SourceTable, change: AddColumn | AlterColumnType) -> bool:
        """Whether the column, or type, is of before a change that ended it."""
        edits = self._ledger.lineage(table)
        end = ended if isinstance(change, AddColumn) else retyped
        since = end(edits, change.name.lower())
        if since is None:
            return False
        return self._first(table, change, above=since) is None

    def _firsts(self, table: SourceTable, names: Sequence[str]) -> dict[str, Pos]:
        """Of columns, in lower case, the lowest position of a change that has each."""
        warehouse = self._ledger.warehouse
        listed = ", ".join(map(sql_text, names))
        rows = warehouse.session.sql(
            f"SELECT name, min(pos) FROM (SELECT pos, explode(array_intersect(transform("
            f"map_keys(after), k -> lower(k)), array({listed}))) AS name "
            f"FROM {warehouse.name('silver', 'cdc')} WHERE source = {sql_text(table.source)} "
            f"AND {named(table)} AND kind = 'change') GROUP BY name"
        ).collect()
        return {row[0]: tuple(row[1]) for row in rows if row[1] is not None}

    def _first(
        self,
        table: SourceTable,
        change: AddColumn | AlterColumnType | ChangeKey,
        above: Pos | None = None,
    ) -> Pos | None:
        """The lowest position of a change that shows the schema change; None where there is
        none."""
        warehouse = self._ledger.warehouse
        silver = warehouse.name("silver", "cdc")
        own = f"source = {sql_text(table.source)} AND {named(table)}"
        where = f"{own} AND kind = 'change'"
        if above is not None:
            where += f" AND pos > {pos_literal(above)}"
        match change:
            case AddColumn(name):
                name = sql_text(source_name(name.lower()))
                where += f" AND exists(map_keys(after), k -> lower(k) = {name})"
            case AlterColumnType(name, type_):
                name = sql_text(source_name(name.lower()))
                where += (
                    f" AND schema_id IN (SELECT schema_id FROM {silver} WHERE {own} "
                    f"AND kind = 'schema' AND exists(columns, c -> lower(c.name) = {name} "
                    f"AND c.type = {sql_text(type_)}))"
                )
            case ChangeKey():
                pass
            case _:
                assert_never(change)
        row = warehouse.session.sql(f"SELECT min(pos) FROM {silver} WHERE {where}").first()
        return tuple(row[0]) if row is not None and row[0] is not None else None


def _seen(effect: SchemaChange) -> tuple[bool, str | None]:
    """What of an effect shows in data: a new column, or another change of one."""
    return isinstance(effect, AddColumn), column_of(effect)


def _folded(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _holds(route: Route, name: str, stored: str, *, coming: str) -> bool:
    """Whether every value of type `coming` fits the column `name` of type `stored`, as it should.

    A string holds them all, but is not what was asked for where the configuration declares a type.
    """
    if stored == coming:
        return True
    if stored == "string":
        return name.lower() not in _folded(route.columns)
    return widens(canonical_type(coming), canonical_type(stored))
