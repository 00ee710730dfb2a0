"""One row of `gold._ddl`, which has one for each schema change, and the conversion both ways."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from pyspark.sql import functions as F

from ingest.ddl.changes import (
    AddColumn,
    ColumnChange,
    DropColumn,
    Lineage,
    LineageEntry,
    RecreateTable,
    RenameColumn,
    SchemaChange,
    TableChange,
    brings,
    freed,
    lineage,
    only,
)
from ingest.ddl.risks import Kind, Risk
from ingest.names import SourceTable
from ingest.position import Pos
from ingest.sql.quoting import typed_columns
from ingest.sql.tables.alter import script
from pipelines.platform.upserts import add, upsert
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import moment

DDL = (
    ("id", "string"),
    ("source", "string"),
    ("db", "string"),
    ("schema", "string"),
    ("table", "string"),
    ("target", "string"),
    ("status", "string"),
    ("class", "string"),
    ("kind", "string"),
    ("statement", "string"),
    ("dialect", "string"),
    ("proposed", "string"),
    ("pos", "array<bigint>"),
    ("event_time", "timestamp"),
    ("waiting_rows", "bigint"),
    ("decided_by", "string"),
    ("decided_at", "timestamp"),
    ("why", "string"),
    ("effects", "string"),
    ("joined", "array<string>"),
    ("at", "timestamp"),
    ("version", "bigint"),
)
STATUSES = ("pending", "approved", "applied", "rejected", "ignored", "superseded", "failed")
Status = Literal["pending", "approved", "applied", "rejected", "ignored", "superseded", "failed"]
"""What became of a schema change so far."""
WAITING = ("pending", "failed")
IN_FORCE = ("approved", "applied", "superseded")
"""Statuses in which a schema change determines how earlier events are read. A superseded change was
overtaken by a later one that was applied."""
POLICY = "policy"


class Overtaken(msgspec.Struct, frozen=True, tag=True):
    """A change waited for approval while a later one, `by`, ended its columns."""

    by: str

    def __str__(self) -> str:
        return f"overtaken by {self.by}"


class SentAgain(msgspec.Struct, frozen=True, tag=True):
    """A column that had no longer come came again."""

    def __str__(self) -> str:
        return "it is sent again"


Reason = Overtaken | SentAgain


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One schema change. `effects`: what it does once approved; `proposed`: how the target's
    columns change for it. `reason`: why it was settled, if something depends on that; `why` is for
    people. `joined`: ids of further statements that it stands for, such as the DDL of a drift (54).
    `refold`: the target's rows are still to be folded again, since they are read otherwise while it
    waits. `version` 0: not written yet."""

    id: str
    table: SourceTable
    target: str | None = None
    status: Status = "pending"
    risk: Risk = "unparsed"
    kind: Kind = "unparsed"
    statement: str | None = None
    dialect: str | None = None
    proposed: tuple[ColumnChange, ...] = ()
    pos: Pos | None = None
    event_time: datetime | None = None
    waiting_rows: int | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    why: str | None = None
    effects: tuple[SchemaChange, ...] = ()
    reason: Reason | None = None
    joined: tuple[str, ...] = ()
    refold: bool = False
    version: int = 0

    @property
    def place(self) -> Pos:
        """Its position among the others; one without a position comes first."""
        return self.pos or ()

    @property
    def recreates(self) -> bool:
        """Whether it is a new generation of its table."""
        return RecreateTable() in self.effects

    def row(self, at: datetime, target: str) -> tuple[Any, ...]:
        """As the row of DDL that follows this version; `target` is the table's name, quoted."""
        return (
            self.id,
            self.table.source,
            self.table.db,
            self.table.schema,
            self.table.table,
            self.target,
            self.status,
            self.risk,
            self.kind,
            self.statement,
            self.dialect,
            script(target, self.proposed) or None,
            list(self.pos) if self.pos else None,
            self.event_time,
            self.waiting_rows,
            self.decided_by,
            self.decided_at,
            self.why,
            _Typed(self.effects, self.proposed, self.reason, self.refold).text(),
            list(self.joined),
            at,
            self.version + 1,
        )

    def with_status(
        self, status: Status, *, by: str = POLICY, why: str | Reason | None = None
    ) -> Entry:
        """The entry with a decision, and who took it and when."""
        return replace(
            self,
            status=status,
            decided_by=by,
            decided_at=datetime.now(UTC),
            why=str(why) if why is not None else self.why,
            reason=why if isinstance(why, Reason) else None,
        )


class _Typed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The typed part of an entry, as the JSON in `effects`."""

    effects: tuple[SchemaChange, ...] = ()
    proposed: tuple[ColumnChange, ...] = ()
    reason: Reason | None = None
    refold: bool = False

    def text(self) -> str | None:
        """None if there is nothing to say."""
        return msgspec.json.encode(self).decode() if self != _Typed() else None


def _create_ddl(warehouse: Warehouse) -> None:
    """`gold._ddl`."""
    warehouse.create("gold", "_ddl", DDL)


def load_entries(warehouse: Warehouse, source: str | None = None) -> dict[str, Entry]:
    """The entries as they stand, of one source or all, by id, in order of position."""
    if not warehouse.exists("gold", "_ddl"):
        return {}
    entries: list[Entry] = warehouse.cached("gold", "_ddl", lambda: _read(warehouse))
    return {entry.id: entry for entry in entries if source in (None, entry.table.source)}


def _read(warehouse: Warehouse) -> list[Entry]:
    table = warehouse.read("gold", "_ddl")
    micros = [F.unix_micros(name).alias(name) for name in ("event_time", "decided_at")]
    names = [name for name, _ in DDL if name not in ("event_time", "decided_at", "at")]
    rows = table.select(*names, *micros).collect()
    return sorted((entry_of(row.asDict()) for row in rows), key=_order)


def write_entries(warehouse: Warehouse, entries: Iterable[Entry]) -> list[Entry]:
    """Write the entries, new ones beside the others; gives them with their new versions."""
    entries = list(entries)
    if not entries:
        return []
    _create_ddl(warehouse)
    before = load_entries(warehouse)
    at = datetime.now(UTC)
    rows = [entry.row(at, warehouse.name("gold", entry.target or "")) for entry in entries]
    known = [row for entry, row in zip(entries, rows, strict=True) if entry.version]
    new = [row for entry, row in zip(entries, rows, strict=True) if not entry.version]
    if new and not known:
        schema = typed_columns(DDL)
        frame = warehouse.session.createDataFrame(new, schema)
        add(warehouse, "gold", "_ddl", rows=frame)
    else:
        upsert(warehouse, "gold", "_ddl", columns=DDL, rows=[*known, *new])
    written = [replace(entry, version=entry.version + 1) for entry in entries]
    entries_by_id = {**before, **{entry.id: entry for entry in written}}
    warehouse.cache("gold", "_ddl", sorted(entries_by_id.values(), key=_order))
    return written


def lineage_of(entries: Iterable[Entry]) -> Lineage:
    """The schema changes of one source table through which its events are read.

    A column is hidden if adding it, or giving it this name, waits or was refused while the target
    has another column of that name: what comes for it must not get into the other column (52),
    which stays because somebody refused to let it go. So is the drop or rename of a column that is
    not let in: the target keeps the column, but its DEFAULT is no longer the source's.
    """
    own = [entry for entry in entries if entry.pos is not None]
    kept = (*WAITING, "rejected")
    ever_freed = freed(effect for e in own if e.status in kept for effect in e.effects)
    placed = [
        (entry.pos, effect, False)
        for entry in own
        if entry.status in IN_FORCE and entry.pos is not None
        for effect in entry.effects
    ]
    placed += [
        (entry.pos, DropColumn(name), True)
        for entry in own
        if entry.status in (*kept, "ignored") and entry.pos is not None and not is_unsent(entry)
        for name in sorted(freed(entry.effects))
    ]
    placed += [
        (entry.pos, again, True)
        for entry in own
        # Usually nothing waits that frees a name, so most entries need no closer look.
        if entry.pos is not None and any(brings(e) in ever_freed for e in entry.effects)
        for again in readded(entry, own, kept=kept, own=True)
    ]
    return lineage(placed)


def changes_behind(entry: Entry, others: Iterable[Entry]) -> list[LineageEntry]:
    """The changes of columns in force after an entry, in order, new types that Delta widens to in
    place included; `others`: the entries of its source table."""
    if entry.pos is None:
        return []
    later = [
        other
        for other in others
        if other.status in IN_FORCE and other.id != entry.id
        if other.pos is not None and other.pos > entry.pos
    ]
    return [
        LineageEntry(other.pos, effect)
        for other in sorted(later, key=lambda other: other.place)
        for effect in other.effects
        if other.pos is not None and not isinstance(effect, TableChange)
    ]


def readded(
    entry: Entry, others: Iterable[Entry], *, kept: Collection[str] = WAITING, own: bool = False
) -> list[AddColumn | RenameColumn]:
    """The columns that an entry which is not let in would bring under names that another column
    still has: an earlier entry of the same source table would take that column away, and is not let
    in either, by its status (`kept`). `own`: or the entry takes it away itself."""
    if entry.status not in (*WAITING, "rejected", "ignored") or entry.pos is None:
        return []
    brought_again = [e for e in entry.effects if isinstance(e, AddColumn | RenameColumn)]
    if not brought_again:
        return []
    taken = freed(
        effect
        for other in others
        if other.status in kept and other.id != entry.id
        if other.pos is not None and other.pos < entry.pos
        for effect in other.effects
    )
    taken |= freed(entry.effects) if own and entry.status in kept else set()
    return [effect for effect in brought_again if brings(effect) in taken]


def renames_another(entry: Entry, others: Collection[Entry]) -> Entry | None:
    """The waiting change that brings the column which the entry renames, while another column of
    that name is there and waits to go."""
    old = {rename.old.lower() for rename in only(RenameColumn, entry.effects)}
    for other in others if old else ():
        before = other.place < entry.place
        if other.status in WAITING and other.id != entry.id and before:
            if old & {brings(effect) for effect in readded(other, others)}:
                return other
    return None


def is_unsent(entry: Entry) -> bool:
    """Whether the entry is about a column that no longer comes although no statement says so."""
    return entry.statement is None and entry.kind == "drop_column"


def was_hidden(entry: Entry, others: Iterable[Entry]) -> bool:
    """Whether what came for a column that an approved entry adds was kept out, until now, of an
    earlier column of that name, which stays (see `lineage_of`)."""
    waiting = replace(entry, status="pending")
    return bool(readded(waiting, others, kept=("rejected",)))


def added_again(entry: Entry, others: Iterable[Entry]) -> list[AddColumn]:
    """The columns that an entry adds under names that the target still has from before an earlier
    change, which the entry overtook or overtakes."""
    open_ = [
        replace(other, status="pending") if other.reason == Overtaken(entry.id) else other
        for other in others
    ]
    return only(AddColumn, readded(replace(entry, status="pending"), open_))


def naming_of(entries: Iterable[Entry]) -> Lineage:
    """The changes in force that give the columns of one source table their present names, from its
    newest generation on: a column from before it is none of the present ones, whatever its name."""
    placed = [entry for entry in entries if entry.pos is not None]
    begun = max(
        (e.pos for e in placed if e.status in IN_FORCE and e.recreates and e.pos),
        default=(),
    )
    own = [entry for entry in placed if entry.place > begun]
    return tuple(step for step in lineage_of(own) if not step.hidden)


def names_reused(entries: Iterable[Entry]) -> dict[str, Entry]:
    """The names, in lower case, that another column takes after a column has given them up, each
    with the change that gave it up first. `entries`: of one source table, in order of position."""
    given_up: dict[str, Entry] = {}
    found: dict[str, Entry] = {}
    for entry in entries:
        for name in freed(entry.effects):
            given_up.setdefault(name, entry)
        for effect in entry.effects:
            if (new := brings(effect)) in given_up:
                found.setdefault(new, given_up[new])
    return found


def entry_of(row: dict[str, Any]) -> Entry:
    """The entry that a row of DDL keeps, its times as numbers of microseconds."""
    typed = msgspec.json.decode(row["effects"] or "{}", type=_Typed)
    return Entry(
        id=row["id"],
        table=SourceTable(row["source"], row["db"], row["schema"], row["table"]),
        target=row["target"],
        status=row["status"],
        risk=row["class"],
        kind=row["kind"],
        statement=row["statement"],
        dialect=row["dialect"],
        proposed=typed.proposed,
        pos=tuple(row["pos"]) if row["pos"] else None,
        event_time=moment(row["event_time"]),
        waiting_rows=row["waiting_rows"],
        decided_by=row["decided_by"],
        decided_at=moment(row["decided_at"]),
        why=row["why"],
        effects=typed.effects,
        reason=typed.reason,
        joined=tuple(row["joined"] or ()),
        refold=typed.refold,
        version=row["version"],
    )


def _order(entry: Entry) -> tuple[bool, Pos, str]:
    return entry.pos is None, entry.place, entry.id
