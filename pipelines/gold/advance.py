"""One target brought forward: the new changes of its source tables applied to it, in the way it
keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ingest.codes import Code
from ingest.config.modes import TargetContract, declared_keeping, mode_of
from ingest.config.routes import Route
from ingest.ddl.changes import names_through, renamed
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.names import SourceTable, label_of, lowered
from ingest.position import highest, lowest
from ingest.sql.silver import silver_changes
from pipelines.apply.batch import Count, TableBatch
from pipelines.apply.modes import apply
from pipelines.gold.backlog import unkeyed
from pipelines.gold.keys import key_of, keys_in_yaml
from pipelines.gold.plan import Feed, TargetTable, table_batches
from pipelines.gold.retyping import outgrowing, typed_at_last
from pipelines.gold.schema_evolution import (
    Feeding,
    columns_sent,
    create_target,
    evolve,
)
from pipelines.gold.shared_keys import shares_keys, try_again
from pipelines.ledger import decisions
from pipelines.ledger.coming_statements import ComingStatements
from pipelines.ledger.renames import under_first_names
from pipelines.ledger.store import Ledger
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import BatchStats, PendingChanges, schema_hints, spanned
from pipelines.targets.contract import check_made_for, may_share_keys
from pipelines.targets.progress import (
    Horizon,
    Names,
    Progress,
    Watermarks,
    record_progress,
    source_cursor,
)
from pipelines.targets.rejects import have_rejects, no_key_rejects
from pipelines.targets.table import contract_of, horizons_of, recorded

_FREEING: tuple[Count, ...] = ("deletes", "key_changes", "truncates")
"""The changes that may take a row away and so free its key for another source table."""


@dataclass(frozen=True, kw_only=True)
class TargetBatch:
    """A target with changes: its route, and what each source table that feeds it has new.

    `error`: why nothing can be applied. `statements`: the DDL and truncates that came, of all
    source tables. `above`: for each source table, the batch up to which it is applied already.
    `applied_batches`: for each of their names, the batch up to which it will be applied afterwards.
    `staged`: see `pipelines.gold.staged_changes`.
    """

    route: Route
    stats: Mapping[SourceTable, list[BatchStats]]
    error: str | None
    statements: ComingStatements
    above: Mapping[SourceTable, int]
    applied_batches: dict[Names, int]
    staged: str | None = None

    @property
    def rows(self) -> int:
        """How many changes there are."""
        return sum(each.changes for of_table in self.stats.values() for each in of_table)


def advance(
    ledger: Ledger, target: TargetBatch, pending: PendingChanges, *, progress: Progress
) -> Progress:
    """Bring a target forward by all that came for it, and give its progress afterwards. Raises
    TableError where the target cannot take these changes.

    1. Find out what is new, by which key and in which mode. Changes without a key are set aside.
    2. Make the table, or alter it as the schema changes of its source tables ask for.
    3. Apply a batch for each source table, one after the other.
    4. Enter into the ledger what outgrew its column, and try again what waited for a key that is
       free now.
    """
    warehouse, route = ledger.warehouse, target.route
    was_unkeyed = _was_unkeyed(warehouse, progress)
    _check_applicable(warehouse, progress)
    new = _unapplied(target)
    now = _with_contract(ledger, route, progress.unparked(), tables=target.stats)
    if not new:
        return _up_to(now, target, pending)
    stats = [each for of_table in new.values() for each in of_table]
    if now.contract is None:
        pending = _with_schema_hints(warehouse, new, pending)
    keys = _keys(ledger, target, new, progress=now, pending=pending)
    mode = mode_of(route, keys)
    key_unknown = now.contract is None and not keys and _truncates_alone(stats)
    if mode is None or key_unknown:
        return _up_to(_without_key(ledger, route, new, now=now, pending=pending), target, pending)
    contract = TargetContract.by(route, mode, keys)
    check_made_for(route, now.contract)
    ledger.bring_forward(route.target, columns_sent(new, pending))
    fresh = create_target(
        ledger, route, new, contract=contract, pending=pending, statements=target.statements
    )
    labels = {*now.watermarks, *map(label_of, target.stats)}
    shared = may_share_keys(route, contract.keeps, tables=len(labels))
    feedings = _feedings(ledger, target, new, pending=pending)
    now, table = _evolved(feedings, now, contract, fresh=fresh)
    batches = table_batches(
        warehouse,
        [_feed(feeding, table.columns) for feeding in feedings],
        replace(table, shared=shared),
        progress=now,
        above=target.above,
        only=pending.limit.only,
        staged=target.staged,
        fresh=fresh,
    )
    now, unfit = _apply_in_turn(ledger, target, now, batches=batches, was_unkeyed=was_unkeyed)
    _enter_outgrown([feeding for feeding in feedings if feeding.table in unfit])
    now = replace(_up_to(now, target, pending), contract=table.contract)
    if not (any(map(_frees, batches)) and shares_keys(route, now)):
        return now
    return try_again(ledger, route, row=now, closed=ledger.closed_names(target.statements))


def _frees(batch: TableBatch) -> bool:
    """Whether a key that changes wait for may be free after the batch: it may have taken a row
    away, or have brought late what was before the end of a row that is gone.

    By what it holds, not by what was counted: a run that was cut off may have freed keys.
    """
    return batch.overlaps or any(batch.total(name) for name in _FREEING)


def _feedings(
    ledger: Ledger,
    target: TargetBatch,
    new: Mapping[SourceTable, list[BatchStats]],
    *,
    pending: PendingChanges,
) -> list[Feeding]:
    """The source tables that have something new, each with the target that it feeds."""
    return [
        Feeding(
            route=target.route,
            table=table,
            stats=stats,
            pending=pending,
            ledger=ledger,
            statements=target.statements,
        )
        for table, stats in new.items()
    ]


def _evolved(
    feedings: Sequence[Feeding], now: Progress, contract: TargetContract, *, fresh: bool
) -> tuple[Progress, TargetTable]:
    """Alter the target as one source table after the other asks for; gives its progress and its
    table afterwards. `fresh`: the target was made just now, with the columns of all of them."""
    columns: dict[str, str] = {}
    for number, feeding in enumerate(feedings):
        now, contract, columns = evolve(feeding, now, contract, fresh=fresh and not number)
    return now, TargetTable(contract=contract, columns=columns)


def _was_unkeyed(warehouse: Warehouse, progress: Progress) -> bool:
    """Whether changes for the target may be among the rejects because they had no key. A run that
    was cut off may have set some aside without recording it."""
    if progress.contract is not None:
        return False
    return unkeyed(progress) or have_rejects(
        warehouse, progress.source, progress.target, code=Code.NO_KEY.value
    )


def _check_applicable(warehouse: Warehouse, progress: Progress) -> None:
    """Raise TableError if nothing can be applied to the target until it is rebuilt."""
    if (why := progress.why_outdated) is not None:
        raise TableError(why)
    if gone(warehouse, progress):
        raise TableError(gone_sentence(progress.target))


def _apply_in_turn(
    ledger: Ledger,
    target: TargetBatch,
    now: Progress,
    *,
    batches: Sequence[TableBatch],
    was_unkeyed: bool,
) -> tuple[Progress, set[SourceTable]]:
    """Apply the batches of the source tables, one after the other. Gives the target's progress
    afterwards, and the tables of which some value did not fit.

    The version of the target is looked up only when a batch's turn comes, and it counts only if
    gold recorded everything that was written to the target. That cannot be known (`again`) in two
    cases: for batches up to `partly_applied`, which were applied except for open transactions and
    now come once more; and, once the first source table is recorded, for what a killed run wrote of
    the others.
    """
    warehouse, partly = ledger.warehouse, now.partly_applied or 0
    again = any(stats.first <= partly for batch in batches for stats in batch.stats)
    unfit = set[SourceTable]()
    for number, batch in enumerate(batches):
        if not batch.keeps.latest:
            batch = replace(batch, version=_version(warehouse, now, fresh=batch.fresh, again=again))
            again = again or (number == 0 and len(batches) > 1 and batch.version is None)
        now, misfit = _applied(warehouse, now, batch, was_unkeyed=was_unkeyed)
        unfit |= {batch.table} if misfit else set()
        if number + 1 < len(batches) and _moves_parts(batch):
            _record(ledger, target, now, batch=batch)
    return now, unfit


def _moves_parts(batch: TableBatch) -> bool:
    """Whether the batch must be recorded before the next source table is applied.

    It must if it may give up a key that the next one takes, and also has partial images of rows
    that moved. Were the run killed in between, the batch would be applied again and find the key
    held by the other table, and the image that a partial one is based on would be set aside.
    """
    return bool(batch.shared and batch.total("key_changes") and batch.total("partials"))


def _record(ledger: Ledger, target: TargetBatch, now: Progress, *, batch: TableBatch) -> None:
    """Record that the batch of one source table is applied, before those of the others are."""
    names = {name.path for name in batch.names}
    applied = {name: to for name, to in target.applied_batches.items() if name in names}
    row = replace(now.uncounted(), tables={**now.tables, **applied})
    record_progress(ledger.warehouse, [row], ledger.progress_by_target)


def _up_to(now: Progress, target: TargetBatch, pending: PendingChanges) -> Progress:
    """The progress once everything pending is applied."""
    limit = pending.limit
    return replace(
        now,
        batch=pending.last,
        below=limit.below,
        partly_applied=limit.newest,
        tables=target.applied_batches,
    )


def _keys(
    ledger: Ledger,
    target: TargetBatch,
    new: Mapping[SourceTable, list[BatchStats]],
    *,
    progress: Progress,
    pending: PendingChanges,
) -> tuple[str, ...]:
    """The key columns of the target; () if it has none or none is known."""
    route = target.route
    if progress.contract is not None and not progress.contract.keeps.keyed:
        _check_keyless(ledger, route, new, keys=progress.contract.keys)
        return progress.contract.keys
    first = next(iter(new))
    return key_of(
        ledger.warehouse,
        route,
        stats=[each for of_table in new.values() for each in of_table],
        lineage=ledger.lineage(first),
        hinted_keys=pending.keys.get(first, ()),
        renames_to_come=target.statements.renames_to_come(first),
    )


def _feed(feeding: Feeding, columns: Mapping[str, str]) -> Feed:
    """What the table has new for the target."""
    return Feed(
        route=feeding.route,
        table=feeding.table,
        names=feeding.names,
        stats=feeding.stats,
        types=_ordering_types(feeding, columns),
        lineage=feeding.ledger.lineage(feeding.table),
    )


def _applied(
    warehouse: Warehouse, now: Progress, batch: TableBatch, *, was_unkeyed: bool
) -> tuple[Progress, bool]:
    """Apply the batch of a source table. Gives the target's progress afterwards, and whether some
    value did not fit its column."""
    applied = apply(warehouse, batch)
    watermarks, counts = applied.watermarks, applied.counts
    # Rejects that are not new count too: a killed run may have recorded them.
    unfit = applied.unfit or bool(counts["rejected"])
    if was_unkeyed:
        typed_at_last(warehouse, batch)
    now = replace(
        now,
        watermarks={**now.watermarks, batch.projection.label: watermarks},
        last_pos=highest([now.last_pos, watermarks.applied]),
        freshness=batch.newest_after,
    )
    return now.counting(counts), unfit


def _enter_outgrown(misfits: Sequence[Feeding]) -> None:
    """Enter the wider types that the values which did not fit need. What the policy lets in is
    carried out once all tables are applied, and these values are tried again after that."""
    if not misfits:
        return
    first = misfits[0]
    grew = outgrowing(first.ledger.warehouse, first.table.source, first.route.target)
    for feeding in misfits:
        decisions.enter(feeding.ledger, feeding.drift.outgrown(grew), feeding.route)


def gone(warehouse: Warehouse, progress: Progress) -> bool:
    """Whether changes were applied to a target whose table is no longer there. Made anew by a
    batch, it would lack all rows that it had."""
    return bool(progress.watermarks) and not warehouse.exists("gold", progress.target)


def gone_sentence(target: str) -> str:
    """The sentence on such a target."""
    return (
        f"the table gold.{target} is gone, which held what was applied so far; `ingest rebuild "
        f"{target}` makes it again from history"
    )


def _with_schema_hints(
    warehouse: Warehouse, new: Mapping[SourceTable, list[BatchStats]], pending: PendingChanges
) -> PendingChanges:
    """The pending changes, completed by what earlier messages said of the key and the types of a
    new target's tables, where the present ones do not say it: a format may send the schema of a
    table once, before its rows."""
    lacking = [
        table
        for table, stats in new.items()
        if table not in pending.types
        or (table not in pending.keys and any(each.keyless for each in stats))
    ]
    if not lacking:
        return pending
    before = schema_hints(warehouse, lacking, pending.last)
    # Of the earlier types the last ones count, so that a column that was dropped does not come
    # back.
    last = {table: types[-1:] for table, types in before.types.items()}
    types, keys = {**last, **pending.types}, {**before.keys, **pending.keys}
    return pending._replace(types=types, keys=keys)


def _ordering_types(
    feeding: Feeding, columns: Mapping[str, str]
) -> Sequence[tuple[ColumnType, ...]]:
    """The types of those `sequence_by` columns that the target does not have. If this batch came
    without types, those of earlier messages count."""
    route, ledger = feeding.route, feeding.ledger
    if not route.sequence_by:
        return []
    known = lowered((*columns, *route.columns))
    lineage = ledger.lineage(feeding.table)
    ordering = {names_through(name, lineage)[-1].name.lower() for name in route.sequence_by}
    if ordering <= known:
        return []
    if feeding.table in feeding.pending.types:
        return feeding.types[-1:]
    earlier = schema_hints(ledger.warehouse, feeding.names, feeding.pending.last)
    return under_first_names(earlier, ledger.first_names).types.get(feeding.table, [])[-1:]


def _check_keyless(
    ledger: Ledger, route: Route, tables: Iterable[SourceTable], *, keys: tuple[str, ...]
) -> None:
    """Raise TableError if the YAML names a key for a target that keeps every image because it
    had no key."""
    if keys or not declared_keeping(route).keyed:
        return
    for table in tables:
        declared = keys_in_yaml(ledger.warehouse.config, route, table)
        named = renamed(declared, ledger.lineage(table), ())
        if named:
            raise TableError(
                f"expected no key, as when {route.target} was made, got ({', '.join(named)}); "
                f"`ingest rebuild {route.target} --yes` makes it with that key, or take `keys` away"
            )


def _version(warehouse: Warehouse, now: Progress, *, fresh: bool, again: bool) -> int | None:
    """The target's version, if everything that was applied to it is recorded. `again`: parts of the
    batch may have been applied before, as after a kill."""
    if fresh:
        return warehouse.last_commit("gold", now.target).version
    versions = (known.version for known in now.watermarks.values() if known.version)
    return recorded(warehouse, now.target, None if again else max(versions, default=None))


def _with_contract(
    ledger: Ledger, route: Route, progress: Progress, *, tables: Iterable[SourceTable]
) -> Progress:
    """The progress, completed from what the table itself says where no record exists: what the
    target was created for, and where the history of its source tables was trimmed. A trim from
    before a reset of the target counts too."""
    warehouse, contract = ledger.warehouse, progress.contract
    horizons: dict[str, tuple[Horizon, ...]] = {}
    if contract is None:
        contract = contract_of(warehouse, route.target)
        horizons = horizons_of(warehouse, route.target) if contract is not None else {}
    noted = source_cursor(ledger.progress_by_target, route.source).watermarks
    before = {label: noted[label] for table in tables if (label := label_of(table)) in noted}
    trimmed = {label: Watermarks(horizons=found) for label, found in horizons.items()}
    watermarks = {**trimmed, **progress.watermarks}
    for label, kept in before.items():
        watermarks.setdefault(label, kept)
    return replace(progress, contract=contract, watermarks=watermarks)


def _unapplied(target: TargetBatch) -> dict[SourceTable, list[BatchStats]]:
    """The source tables with batches not applied, in the order of their first change."""
    new = {
        table: [each for each in stats if each.batch > target.above[table]]
        for table, stats in target.stats.items()
    }
    first = {table: lowest(each.lowest for each in stats) or () for table, stats in new.items()}
    return {
        table: new[table] for table in sorted(new, key=lambda t: (first[t], str(t))) if new[table]
    }


def _without_key(
    ledger: Ledger,
    route: Route,
    new: Mapping[SourceTable, list[BatchStats]],
    *,
    now: Progress,
    pending: PendingChanges,
) -> Progress:
    """Set aside every change of tables whose rows nothing tells apart, and give the progress
    afterwards. Truncates are not set aside: they do not say whether rows have a key, and they come
    again once some do."""
    for table, stats in new.items():
        now = now.counting({"events": sum(each.changes for each in stats)})
        if _truncates_alone(stats):
            continue
        changes = silver_changes(
            ledger.warehouse.name("silver", "cdc"),
            ledger.names(table),
            f"{spanned(stats)} AND {pending.limit.only}",
        )
        rejected = no_key_rejects(ledger.warehouse, table.source, route.target, changes=changes)
        now = now.counting({"rejected": rejected})
    return now


def _truncates_alone(stats: Iterable[BatchStats]) -> bool:
    return all(each.changes == each.truncates for each in stats)
