"""A target as silver's history makes it, for `as-of`, `rebuild` and `reconcile`.

The history of each source table is folded by itself, as gold folds it: it is a batch from the
beginning, which `pipelines.gold.plan` builds, and one SQL query folds it if that suffices. Of what
gold holds only two things matter: its columns, and which of two source tables owns a key that both
bring (semantics.md, 27). The owner's row counts, and changes that were set aside for it do not.

The result has the target's keys as `_k0`…, its columns by their slots, and what gold adds, in each
mode: rows as they are, versions, or every image (`pipelines.apply.modes`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, assert_never

from pyspark.sql import DataFrame

from ingest.config.modes import TargetContract, mode_of
from ingest.config.routes import Route
from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    DropColumn,
    FreezeTable,
    Lineage,
    RecreateTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
)
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.names import SourceTable, lowered
from ingest.sql.fold import reconstruction as texts
from ingest.sql.history.asof import Moment
from ingest.sql.metadata import ROW_METADATA
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.apply.modes import MODES
from pipelines.apply.surprise import Surprise, surprises
from pipelines.gold.column_warnings import stated_names
from pipelines.gold.encodings import check_encodings
from pipelines.gold.keys import declared_keys, key_of, shard_of
from pipelines.gold.known_targets import KnownTarget
from pipelines.gold.plan import (
    ALL_HISTORY,
    Extent,
    Feed,
    Histories,
    TargetTable,
    histories,
    history_batches,
    last_applied,
)
from pipelines.gold.todays_columns import todays_columns
from pipelines.ledger.entries import IN_FORCE, Entry, lineage_of, load_entries
from pipelines.ledger.renames import renames, taken_again
from pipelines.ledger.statements import gold_types_before, statement_of
from pipelines.ledger.store import Ledger
from pipelines.platform.session import NO_CONSTRAINTS, having
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import ColumnValues, has_values, images_of, names_sent
from pipelines.targets.contract import may_share_keys, other_masks
from pipelines.targets.progress import Progress, load_progress, micros_of, progress_of
from pipelines.targets.progress import moment as moment_of
from pipelines.targets.rejects import not_left_aside
from pipelines.targets.table import columns_of, contract_of, wanted_columns

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Reconstruction:
    """The rows of one target, to be folded from as much of silver as was asked for.

    A context: when it ends, it drops the names that it gave to its DataFrames.

    `keys` and `columns` (name -> Spark type, without what gold adds) are the target's;
    `typed_names` are the columns to which messages or statements give a type; `entries` are the
    ledger's entries of the target's source tables, `fed_by` these tables, and `batches` their
    histories. `past`: it is the target of a moment at which other source tables may have owned keys
    than now.
    """

    warehouse: Warehouse
    frames: Frames
    route: Route
    contract: TargetContract
    keys: tuple[str, ...]
    columns: Mapping[str, str]
    typed_names: Collection[str]
    entries: Sequence[Entry]
    batches: Sequence[TableBatch]
    fed_by: int
    past: bool
    _held: ExitStack = field(init=False, default_factory=ExitStack)

    @property
    def target(self) -> str:
        """The table's name in gold."""
        return self.route.target

    @property
    def source(self) -> str:
        """The source that feeds it."""
        return self.route.source

    @property
    def soft(self) -> bool:
        """Whether deleted rows stay, marked."""
        return self.route.deletes == "soft" and self.contract.keeps.keyed

    @property
    def added(self) -> dict[str, str]:
        """The columns that gold adds: name -> Spark type."""
        deleted = {"_deleted_at": "timestamp"} if self.soft else {}
        return {**ROW_METADATA, **self.contract.keeps.added, **deleted}

    @property
    def names(self) -> list[str]:
        """All columns of the rows."""
        return [*self.columns, *self.added]

    @property
    def row_keys(self) -> tuple[str, ...]:
        """The columns that tell rows apart: of versions only the keys, of images their place."""
        return self.keys if self.contract.keeps.keyed else ("_source_table", "_pos")

    @property
    def compared(self) -> list[str]:
        """The columns whose values follow from history."""
        ours = ("_pos", "_event_time", "_source")
        added = [name for name in self.added if name not in ours or name in self.row_keys]
        return [*self.columns, *added]

    @property
    def present(self) -> list[str]:
        """Conditions (SQL) that are all true for those gold rows that the source has now."""
        soft = ["_deleted_at IS NULL"] if self.soft else []
        return [*soft, "_current"] if self.contract.keeps.versions else soft

    def __enter__(self) -> Reconstruction:
        self._held.enter_context(having(self.warehouse.session, NO_CONSTRAINTS))
        self._held.push(self.frames)
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def tried(
        self, act: Callable[[str], Result], *, before: Callable[[], None] = lambda: None
    ) -> Result:
        """Call `act` with the rows, a relation on which it runs SQL, and give its result. The rows
        are folded the fast way if possible; if Spark then meets something that this way cannot
        fold, `act` is called again with rows that are folded exactly.

        `before` is called once, before `act` gets a fold that may leave out some change.
        """
        frames, batches = self.frames, self.batches
        with self.warehouse.shuffling(sum(batch.total("changes") for batch in batches)):
            fast = [MODES[batch.mode].fast_history(frames, batch) for batch in batches]
            whole = all(batch.whole and not batch.projection.sequence for batch in batches)
            plain = whole and all(fast)
            if not plain:
                before()
            if any(fast):
                pairs = zip(fast, batches, strict=True)
                rows = self._owned([part or _exact(frames, batch) for part, batch in pairs])
                with suppress(Surprise), surprises():
                    # The fast way reports what it cannot fold in `_pos`, at which `act` may not
                    # look.
                    return act(texts.placed(rows))
                if plain:
                    before()
            return act(self.exact())

    def typed(self, rows: str) -> DataFrame:
        """Rows of the fold, each column of the target's type."""
        types = {**self.columns, **self.added}
        return self.warehouse.session.sql(texts.typed(rows, types))

    @property
    def shared(self) -> bool:
        """Whether rows of several source tables may claim one key."""
        return self.contract.keeps.latest and may_share_keys(
            self.route, self.contract.keeps, tables=len(self.batches)
        )

    @property
    def may_have_owners(self) -> bool:
        """Whether several source tables may have current versions of one key."""
        return self.contract.keeps.versions and may_share_keys(
            self.route, self.contract.keeps, tables=len(self.batches)
        )

    @property
    def leaves_out_claims(self) -> bool:
        """Whether the fold leaves out changes that wait for a key which another source table's row
        holds."""
        return may_share_keys(self.route, self.contract.keeps, tables=self.fed_by)

    def exact(self) -> str:
        """SQL of the rows, folded event by event."""
        return self._owned([_exact(self.frames, batch) for batch in self.batches])

    def _owned(self, parts: Sequence[str]) -> str:
        """Rows of the fold as rows of the target, each key once."""
        columns, added = self.columns, self.added
        if not parts:
            return texts.no_rows({**columns, **added})
        rows = texts.together(
            parts, keys=self.keys, columns=columns, added=added, source=self.source
        )
        if len(parts) > 1 and self.contract.keeps.latest:
            held = not self.past and self.warehouse.exists("gold", self.target)
            target = self.warehouse.name("gold", self.target) if held else None
            rows = texts.one_owner(
                rows, keys=self.keys, columns=columns, added=added, target=target
            )
        return texts.with_own_names(rows, columns=columns, added=added)


def reconstruct(
    warehouse: Warehouse,
    target: KnownTarget,
    *,
    extent: Extent = ALL_HISTORY,
    today: bool = False,
    before: TargetContract | None = None,
    past: bool = False,
) -> Reconstruction:
    """A target's rows, as that much of silver makes them which `extent` says.

    `today`: under the columns and the key that it would have if it were made today; a table that is
    gone, which was made for `before`, gets these in any case. `past`: see `Reconstruction`.

    Raises TableError if it can have no rows.
    """
    route, source = target.route, target.route.source
    entries = load_entries(warehouse, source).values()
    first_names = renames(entries)
    own = {first_names.get(table, table): route for table, route in sorted(target.tables, key=str)}
    _check_unmixed(target.name, own, entries)

    def of(table: SourceTable) -> list[Entry]:
        return [e for e in entries if first_names.get(e.table, e.table) == table]

    history = histories(
        warehouse,
        own,
        first_names=first_names,
        lineage=lambda table: lineage_of(of(table)),
        extent=extent,
    )
    of_target = [e for e in entries if first_names.get(e.table, e.table) in own]
    _check_encodings(warehouse, history.feeds if today else (), entries_of=of)
    left = _shard_left(route, before) if today else set[str]()
    keys = _key(warehouse, route, history, today=today, before=before)
    keys = tuple(name for name in keys if name.lower() not in left)
    contract = _contract(route, keys)
    columns = _columns(warehouse, route, history.feeds, entries=of_target, keys=keys, today=today)
    columns = {name: type_ for name, type_ in columns.items() if name.lower() not in left}
    made = TargetTable(contract=contract, columns=columns)
    by_lower = {name.lower(): name for name in columns}
    shared = may_share_keys(route, contract.keeps, tables=len(own))
    folded = not_left_aside(warehouse, source, route.target, shared=shared)
    extent = extent._replace(only=f"({extent.only}) AND {folded}")
    return Reconstruction(
        warehouse=warehouse,
        frames=Frames(warehouse),
        route=route,
        contract=contract,
        keys=tuple(by_lower[key.lower()] for key in keys),
        columns=columns,
        typed_names=_typed_names(history.feeds) | stated_names(of_target),
        entries=of_target,
        batches=history_batches(warehouse, history.feeds, made, extent=extent),
        fed_by=len(own),
        past=past,
    )


def _contract(route: Route, keys: tuple[str, ...]) -> TargetContract:
    """What the target is made for, by its key; raises TableError if it has none."""
    mode = mode_of(route, keys)
    if mode is None:
        raise TableError(f"{route.target} has no rows: its messages name no key; set keys for it")
    return TargetContract.by(route, mode, keys)


def _key(
    warehouse: Warehouse,
    route: Route,
    history: Histories,
    *,
    today: bool,
    before: TargetContract | None,
) -> tuple[str, ...]:
    """The key columns that the target has or, if it is gone, had; but those of today if these are
    asked for and the YAML names some."""
    first, *_ = history.feeds
    stats = [each for feed in history.feeds for each in feed.stats]
    named = (
        declared_keys(warehouse.config, route, first.table, lineage=first.lineage)
        if today and stats
        else ()
    )
    gone = not warehouse.exists("gold", route.target)
    contract = before if gone else contract_of(warehouse, route.target)
    if named and contract is not None and lowered(named) == lowered(contract.keys):
        return contract.keys
    if named:
        return named
    if contract is not None and (gone or not contract.keeps.keyed or not stats):
        return contract.keys
    hinted_keys = history.keys.get(first.table, ())
    found = key_of(warehouse, route, stats=stats, lineage=first.lineage, hinted_keys=hinted_keys)
    # A shard column that was declared since is part of the key from now on.
    shard = shard_of(route) if today and found else ()
    return (*found, *(name for name in shard if name.lower() not in lowered(found)))


def _shard_left(route: Route, before: TargetContract | None) -> set[str]:
    """The shard column, in lower case, with which the target was made and which the configuration
    no longer names."""
    made = before.shard if before is not None else None
    return lowered([made] if made is not None else []) - lowered(shard_of(route))


def _columns(
    warehouse: Warehouse,
    route: Route,
    feeds: Sequence[Feed],
    *,
    entries: Sequence[Entry],
    keys: tuple[str, ...],
    today: bool,
) -> dict[str, str]:
    """The columns that the target has, or would have if it were made today."""
    held = columns_of(warehouse, route.target)
    if held is not None and not today:
        return held
    types = [listed for feed in feeds for listed in types_of_today(feed)]
    images = images_of(stats for feed in feeds for stats in feed.stats)
    keys = keys or shard_of(route)
    wanted = wanted_columns(route, keys, types, images=sorted(images))
    lineages: dict[Lineage, set[str]] = {}
    for feed in feeds:
        lineages.setdefault(feed.lineage, set()).update(names_sent(feed.stats))

    def before(entry: Entry) -> Mapping[str, str]:
        if entry.pos is None:
            return {}
        named = (feed.names for feed in feeds if entry.table in feed.names)
        return gold_types_before(warehouse, entry, next(named, (entry.table,)))

    return todays_columns(
        route, wanted, entries, held=held or {}, lineages=lineages, keys=keys, before=before
    )


def as_applied(warehouse: Warehouse, target: KnownTarget, progress: Progress) -> Reconstruction:
    """The target as everything that was applied makes it, under its present columns, key and
    mode."""
    extent, before = _applied(warehouse, progress), progress.contract
    return reconstruct(warehouse, target, extent=extent, before=before)


def as_made_today(warehouse: Warehouse, target: KnownTarget, progress: Progress) -> Reconstruction:
    """The same under the columns, key and mode that it would have if it were made today."""
    extent, before = _applied(warehouse, progress), progress.contract
    return reconstruct(warehouse, target, extent=extent, today=True, before=before)


def _applied(warehouse: Warehouse, progress: Progress) -> Extent:
    return Extent.applied(progress, _closed(warehouse, progress.source))


def _closed(warehouse: Warehouse, source: str) -> set[SourceTable]:
    known = load_progress(warehouse)
    return Ledger(warehouse, source, progress_by_target=known).closed_names()


def as_of(warehouse: Warehouse, target: KnownTarget, moment: Moment) -> Reconstruction:
    """The target as it was at a past moment.

    Raises TableError if retention removed what would tell that.
    """
    progress = progress_of(warehouse, target.source, target.name)
    for label, known in progress.watermarks.items():
        for horizon in known.horizons:
            if moment.before(horizon.pos, horizon.time):
                raise TableError(
                    f"the history of {label} was trimmed up to position {list(horizon.pos)}, "
                    f"event time {moment_of(horizon.time)}; ask for a later moment"
                )
    closed_at = last_applied(progress, _closed(warehouse, target.source))
    extent = Extent(progress.watermarks, only=moment.until, closed_at=closed_at)
    # Its columns may have other types under masks that its rows do not have yet.
    today = other_masks(target.route, progress.contract) is not None
    return reconstruct(warehouse, target, extent=extent, today=today, past=True)


def otherwise_since(past: Reconstruction, moment: Moment) -> list[str]:
    """Which columns a table as of a moment shows otherwise than they were then, in words, because
    it has today's columns: those that were dropped since, and those whose type changed to one that
    some of their values may not fit."""
    now = lowered(past.columns)
    changes = [
        effect
        for entry in past.entries
        if entry.status in IN_FORCE and entry.pos is not None
        if moment.before(entry.pos, micros_of(entry.event_time))
        for effect in entry.effects
    ]
    said = (_shown_otherwise(change, now) for change in changes)
    return list(dict.fromkeys(text for text in said if text is not None))


def _shown_otherwise(change: SchemaChange, now: Collection[str]) -> str | None:
    match change:
        case DropColumn(name=name):
            return None if name.lower() in now else f"{name} was dropped and is not shown"
        case AlterColumnType(name=name, in_place=widened):
            known = name.lower() in now and not widened
            return f"{name} changed its type: what does not fit it is NULL" if known else None
        case (
            AddColumn()
            | RenameColumn()
            | ChangeKey()
            | RenameTable()
            | FreezeTable()
            | RecreateTable()
        ):
            return None
        case _:
            assert_never(change)


def types_of_today(feed: Feed) -> list[Sequence[ColumnType]]:
    """The types that messages named. A renamed column also has them under its new name, if no
    message has given that one a type yet."""
    typed = {column.name.lower(): column for listed in feed.types for column in listed}
    renamed: list[ColumnType] = []
    for change in (entry.change for entry in feed.lineage):
        if isinstance(change, RenameColumn) and change.new.lower() not in typed:
            column = typed.get(change.old.lower())
            if column is not None:
                typed[change.new.lower()] = moved = column._replace(name=change.new)
                renamed.append(moved)
    return [*feed.types, *([tuple(renamed)] if renamed else [])]


def _typed_names(feeds: Iterable[Feed]) -> set[str]:
    return {column.name for feed in feeds for listed in feed.types for column in listed}


def _check_encodings(
    warehouse: Warehouse,
    feeds: Iterable[Feed],
    *,
    entries_of: Callable[[SourceTable], list[Entry]],
) -> None:
    def met(values: ColumnValues, feed: Feed) -> bool:
        return has_values(warehouse, feed.stats, feed.names, values=values)

    for feed in feeds:
        source = warehouse.config.sources[feed.table.source]
        limits = source.limits.filled()
        entries = [entry for entry in entries_of(feed.table) if entry.statement]
        said = ((e.pos, statement_of(e, limits, feed.names)) for e in entries if e.pos)
        found = partial(met, feed=feed)
        check_encodings(source, feed.table, said, types=feed.types, stats=feed.stats, met=found)


def _check_unmixed(
    target: str, tables: Collection[SourceTable], entries: Collection[Entry]
) -> None:
    """Raise TableError if rows of a renamed table would meet those of another table that has its
    former name."""
    again = taken_again(entries, lambda e: e.kind == "create_table" and not e.recreates)
    for table in tables:
        if table in again:
            raise TableError(again[table].why(target))


def _exact(frames: Frames, batch: TableBatch) -> str:
    return MODES[batch.mode].exact_history(frames, batch)
