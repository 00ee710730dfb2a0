"""Schema changes that no DDL announced: columns, types and keys that show only in the data.

They become entries of the ledger, under the same policy as DDL. It is no drift if a decision keeps
a column out of gold, or if a rename or drop had ended the column for the events that it comes with.
A DDL that arrives after its data joins the entry that the data made (semantics.md, 54).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from ingest.config.routes import Route
from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    DropColumn,
    SchemaChange,
    brings,
    column_of,
    ended,
    frees,
    only,
    retypings,
)
from ingest.ddl.widening import canonical_type, outgrown
from ingest.formats import FORMATS
from ingest.names import SourceTable, lowered
from ingest.position import Pos
from ingest.sql.ledger import columns_sent
from ingest.sql.metadata import renamed_in_gold, source_name
from ingest.sql.silver import above_pos, silver_changes
from pipelines.ledger.entries import IN_FORCE, POLICY, WAITING, Entry, SentAgain, is_unsent
from pipelines.ledger.review import holds, of_data
from pipelines.ledger.store import Ledger
from pipelines.silver.pending import BatchStats, names_sent
from pipelines.targets.table import columns_of, keys_of

Shown = AddColumn | AlterColumnType | DropColumn | ChangeKey
"""The changes that data can show without a statement."""
_WHOLE_ROWS = {name for name, format_ in FORMATS.items() if format_.whole_rows}


class Drift:
    """What the data of a source table shows that its DDL does not say, as entries to be taken up
    before the data is applied to the target."""

    def __init__(self, ledger: Ledger, table: SourceTable, route: Route) -> None:
        self._ledger = ledger
        self._table = table
        self._route = route

    def new_columns(self, columns: Mapping[str, str], *, wanted: Mapping[str, str]) -> list[Entry]:
        """Those of the columns `wanted` that came and that the target does not have."""
        held = lowered(columns)
        added = [
            change
            for name, type_ in wanted.items()
            if name.lower() not in held
            for change in [AddColumn(name, type_)]
            if not self._kept_out(change) and not self._over(change)
        ]
        first = self._firsts([change.name.lower() for change in added]) if added else {}
        entries = []
        for change in added:
            why = f"column {change.name} came as {change.type}; no DDL announced it"
            entry = _entry(self._table, change, first=first.get(change.name.lower()))
            entries.append(replace(of_data(entry, self._route, columns, keys=()), why=why))
        return entries

    def other_types(
        self,
        columns: Mapping[str, str],
        *,
        wanted: Mapping[str, str],
        typed: Collection[str],
    ) -> Iterator[Entry]:
        """Those of the columns `wanted` whose type in the target does not hold their values, and
        that came with a type (`typed`) or have a declared one."""
        spelling = {name.lower(): name for name in columns}
        declared = lowered(self._route.columns)
        for name, type_ in wanted.items():
            own = spelling.get(name.lower())
            if own is None or not (name.lower() in declared or name in typed):
                continue
            change, was = AlterColumnType(own, type_), columns[own]
            fits = holds(self._route, name, was, coming=type_)
            if not fits and not self._kept_out(change) and not self._over(change):
                why = f"column {own} came as {type_}, gold has {was}; no DDL announced it"
                yield replace(self._retyped(columns, change), why=why)

    def declared(self) -> Iterator[Entry]:
        """Declared types that are wider than those of the target, or differ from them."""
        columns = columns_of(self._ledger.warehouse, self._route.target) or {}
        return self.other_types(columns, wanted=self._route.columns, typed=())

    def outgrown(self, numbers: Mapping[str, Sequence[str]]) -> Iterator[Entry]:
        """The wider types that are needed for numbers which did not fit (23); `numbers`: by
        column."""
        columns = columns_of(self._ledger.warehouse, self._route.target) or {}
        declared = lowered(self._route.columns)
        for name, texts in numbers.items():
            was = columns.get(name, "string")
            wider = outgrown(was, texts)
            if wider is None or name.lower() in declared:
                continue
            change = AlterColumnType(name, wider)
            if not self._kept_out(change):
                why = f"values of {name} outgrew {was}; no DDL announced it"
                yield replace(self._retyped(columns, change), why=why)

    def _retyped(self, columns: Mapping[str, str], change: AlterColumnType) -> Entry:
        was = columns.get(change.name, "string")
        entry = _entry(self._table, change, was=was, first=self._first(change))
        keys = keys_of(self._ledger.warehouse, self._route.target)
        return of_data(entry, self._route, columns, keys=keys)

    def reserved_names(self, columns: Iterable[str]) -> Iterator[Entry]:
        """The columns that have another name in gold than at the source (73), as settled
        entries."""
        for name in filter(renamed_in_gold, columns):
            id_ = _id("aside", str(self._table), self._route.target, name.lower())
            if id_ not in self._ledger.entries:
                entry = Entry(
                    id=id_,
                    table=self._table,
                    target=self._route.target,
                    risk="none",
                    kind="rename_column",
                )
                given = source_name(name)
                why = f"`{given}` is a column of gold's own: the source's is `{name}` there"
                yield entry.with_status("applied", why=why)

    def other_key(self, held: Sequence[str], *, names: Sequence[str]) -> Iterator[Entry]:
        """The key, if it differs from the one the target was made with (21) and is not known
        yet."""
        shard = (self._route.shard_column or "").lower()
        change = ChangeKey(tuple(name for name in names if name.lower() != shard))
        known = (effect for entry in self._ledger.of(self._table) for effect in entry.effects)
        keys = (lowered(other.keys) - {shard} for other in only(ChangeKey, known))
        if lowered(change.keys) not in keys:
            came, has = ", ".join(names), ", ".join(held)
            entry = _entry(self._table, change, was=f"({has})", first=self._first(change))
            why = f"messages name the key ({came}), gold has ({has}); no DDL announced it"
            yield replace(of_data(entry, self._route, {}, keys=held), why=why)

    def sent_again(self, stats: Sequence[BatchStats]) -> list[Entry]:
        """Entries that waited because a column no longer came, taken back because it comes
        again."""
        sent, top = _sent(stats), max((s.highest for s in stats if s.highest), default=())
        return [
            entry.with_status("ignored", why=SentAgain())
            for entry in self._ledger.of(self._table)
            if entry.status in WAITING and is_unsent(entry)
            if entry.place < top and column_of(entry.effects[0]) in sent
        ]

    def unsent(
        self,
        columns: Iterable[str],
        *,
        stats: Sequence[BatchStats],
        listed: Sequence[str] | None,
        never: Collection[str],
    ) -> tuple[list[Entry], tuple[str, ...]]:
        """The columns that whole images had and no longer have; and, in lower case, those that the
        source table never sent: `never`, as known before, and those found now.

        `columns`: those of the target without its key. `listed`: those that came with a type, if
        the messages tell types.
        """
        sent = _sent(stats)
        never = set(never) - sent
        partial = any(each.partials for each in stats)
        formats = {name for each in stats for name in each.formats}
        if partial or not sent or (listed is None and not formats <= _WHOLE_ROWS):
            return [], tuple(sorted(never))
        known = sent | lowered(listed or ()) | never
        lacking = {name.lower(): name for name in columns if name.lower() not in known}
        lacking = {low: name for low, name in lacking.items() if not self._going(low)}
        if not lacking:
            return [], tuple(sorted(never))
        last = self._last(list(lacking))
        gone = []
        for low, since in self._since(last).items():
            change = DropColumn(lacking[low])
            entry = replace(
                _entry(self._table, change, was=str(since), first=since),
                target=self._route.target,
                risk="destructive",
                kind="drop_column",
                proposed=(change,),
                why=f"{lacking[low]} is no longer sent since {list(since)}; no DDL announced it",
            )
            gone.append(entry)
        return gone, tuple(sorted(never | (lacking.keys() - last.keys())))

    def _going(self, column: str) -> bool:
        """Whether the ledger has a change, decided or not, by which the column goes; or it is gone,
        and the target keeps it only for other source tables."""
        return ended(self._ledger.lineage(self._table), column) is not None or any(
            frees(effect) == column
            for entry in self._ledger.of(self._table)
            if entry.status not in IN_FORCE and entry.reason != SentAgain()
            for effect in entry.effects
        )

    def _last(self, names: Sequence[str]) -> dict[str, Pos]:
        """For columns, in lower case, the highest position of a change that had the column or said
        that it was not supplied; columns that never came are left out."""
        found = columns_sent.last_known(self._changes(), names)
        rows = self._ledger.warehouse.session.sql(found).collect()
        return {row[0]: tuple(row[1]) for row in rows if row[1] is not None}

    def _since(self, last: Mapping[str, Pos]) -> dict[str, Pos]:
        """For columns, the position of the first new row after the last change that had the
        column."""
        if not last:
            return {}
        found = columns_sent.new_rows_above(self._changes(), last.values())
        row = self._ledger.warehouse.session.sql(found).first()
        assert row is not None
        pairs = zip(last, row, strict=True)
        return {name: tuple(pos) for name, pos in pairs if pos is not None}

    def _firsts(self, names: Sequence[str]) -> dict[str, Pos]:
        """For columns, in lower case, the lowest position of a change that has the column."""
        found = columns_sent.first_sent(self._changes(), names)
        rows = self._ledger.warehouse.session.sql(found).collect()
        return {row[0]: tuple(row[1]) for row in rows if row[1] is not None}

    def _first(
        self, change: AddColumn | AlterColumnType | ChangeKey, above: Pos | None = None
    ) -> Pos | None:
        """The lowest position of a row change that shows the schema change; None if there is
        none."""
        where = "true" if above is None else above_pos(above)
        match change:
            case AddColumn(name):
                where += f" AND {columns_sent.sends(source_name(name.lower()))}"
            case AlterColumnType(name, type_):
                name, schemas = source_name(name.lower()), self._changes(kind="schema")
                where += f" AND {columns_sent.typed_as(name, type_, schemas=schemas)}"
            case ChangeKey():
                pass
            case _:
                assert_never(change)
        found = columns_sent.first_position(self._changes(), where)
        row = self._ledger.warehouse.session.sql(found).first()
        return tuple(row[0]) if row is not None and row[0] is not None else None

    def _changes(self, *, kind: str = "change") -> str:
        """SQL of the source table's changes, under all its names, or its rows of another kind."""
        silver = self._ledger.warehouse.name("silver", "cdc")
        return silver_changes(silver, self._ledger.names(self._table), "true", kind=kind)

    def _kept_out(self, change: AddColumn | AlterColumnType) -> bool:
        """Whether the ledger has a decision on this, or waits for one."""
        # An entry that had nothing to change in gold has decided nothing, unless it waits.
        open_ = (
            entry
            for entry in self._ledger.of(self._table)
            if entry.status not in IN_FORCE
            if entry.risk != "none" or entry.status in WAITING
        )
        return any(_keeps_out(effect, change) for entry in open_ for effect in entry.effects)

    def _over(self, change: AddColumn | AlterColumnType) -> bool:
        """Whether the column or type is from before a change that ended it."""
        lineage, name = self._ledger.lineage(self._table), change.name.lower()
        added = isinstance(change, AddColumn)
        since = ended(lineage, name) if added else retypings(lineage).get(name)
        return since is not None and self._first(change, above=since) is None


def announced(entry: Entry, others: Iterable[Entry]) -> tuple[Entry, list[Entry]]:
    """The entry of the drift, among `others` of its table, that this DDL announces late, with the
    DDL joined to it; else the entry itself, with the drifts that it replaces, settled."""
    ours = {_shown(effect) for effect in entry.effects}
    drifts = [
        other
        for other in others
        if other.statement is None
        and other.reason != SentAgain()
        and other.kind in ("add_column", "modify_column", "drop_column")
        and {_shown(effect) for effect in other.effects} <= ours
    ]
    if len(entry.effects) == 1 and drifts and not entry.version:
        drift = drifts[-1]
        joined = replace(
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
        return joined, []
    why = f"announced by {entry.id}"
    return entry, [d.with_status("superseded", why=why) for d in drifts if d.status in WAITING]


def _keeps_out(known: SchemaChange, change: AddColumn | AlterColumnType) -> bool:
    name = change.name.lower()
    if isinstance(known, AlterColumnType) and isinstance(change, AlterColumnType):
        same_type = canonical_type(known.type) == canonical_type(change.type)
        return known.name.lower() == name and same_type
    return brings(known) == name


def _sent(stats: Iterable[BatchStats]) -> set[str]:
    """The columns, in lower case, that some image has."""
    return lowered(names_sent(stats))


def _shown(effect: SchemaChange) -> tuple[str, str | None]:
    """What data shows of a change: a new column, another type of one, or one that is gone."""
    if isinstance(effect, AddColumn):
        return "new", column_of(effect)
    return "type" if isinstance(effect, AlterColumnType) else "gone", column_of(effect)


def _entry(table: SourceTable, change: Shown, *, was: str = "", first: Pos | None) -> Entry:
    id_ = _id("drift", str(table), *_words(change), was)
    return Entry(id=id_, table=table, effects=(change,), pos=first)


def _words(change: Shown) -> tuple[str, ...]:
    """What tells one such change from another."""
    match change:
        case AddColumn(name, type_, default):
            return name, type_ or "", default or ""
        case AlterColumnType(name, type_):
            return name, type_
        case DropColumn(name):
            return (name,)
        case ChangeKey(keys):
            return keys
        case _:
            assert_never(change)


def _id(*parts: str) -> str:
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=6).hexdigest()
