"""One target brought forward by what its source tables have new, in the way it keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ingest.config.load import Config
from ingest.config.modes import TargetContract, mode_of
from ingest.config.routes import Route
from ingest.ddl.changes import ChangeKey, renamed
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.names import SourceTable, label_of
from ingest.position import Pos
from ingest.wire.declared import declared_for
from pipelines.apply.batch import TableBatch
from pipelines.apply.modes import apply
from pipelines.gold.backlog import unkeyed
from pipelines.gold.encodings import Doubt, check_encodings
from pipelines.gold.plan import (
    Feed,
    key_of,
    named_keys,
    set_aside,
    shard_of,
    table_batch,
)
from pipelines.gold.redeclared import check_masks
from pipelines.gold.retyping import outgrowing, typed_at_last
from pipelines.gold.schema_evolution import apply_schema_changes, create_target
from pipelines.gold.shared_keys import try_again
from pipelines.gold.untyped import stated_names, untyped_columns
from pipelines.ledger.decisions import Ledger
from pipelines.ledger.renames import later_names, under_first_names
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import BatchStats, PendingChanges, has_values, schema_hints
from pipelines.targets.progress import Names, Progress, Watermarks, highest
from pipelines.targets.table import columns_of, contract_of, horizons_of


class TargetBatch(NamedTuple):
    """A target with changes: its route and the source tables that feed it.

    `above`: the batch up to which each source table is applied. `applied_batches`: how far it then
    is.
    """

    route: Route
    stats: dict[SourceTable, list[BatchStats]]
    error: str | None
    above: dict[SourceTable, int]
    applied_batches: dict[Names, int | None]

    @property
    def rows(self) -> int:
        """How many changes there are."""
        return sum(each.changes for of_table in self.stats.values() for each in of_table)


def advance(
    warehouse: Warehouse,
    config: Config,
    task: TargetBatch,
    *,
    progress: Progress,
    found: PendingChanges,
    ledger: Ledger,
) -> Progress:
    """Apply the task's changes; raises TableError where the target cannot take them."""
    route = task.route
    was_unkeyed = unkeyed(progress)
    if (why := progress.why_outdated) is not None:
        raise TableError(why)
    if gone(warehouse, progress):
        raise TableError(is_gone(route.target))
    row = progress = _known(warehouse, route, progress.fresh())
    feeding = _new(task)
    if not feeding:
        return replace(row, batch=found.last, below=found.limit.below, seen=found.limit.newest)
    stats = [each for of_table in feeding.values() for each in of_table]
    if progress.contract is None:
        found = _with_schema_hints(warehouse, feeding, found)
    keys = _keys(config, route, feeding, progress=progress, found=found, ledger=ledger)
    mode = mode_of(route, keys)
    if mode is None:
        return _all_aside(warehouse, route, feeding, row=row, found=found)
    contract = TargetContract.by(route, mode, keys)
    check_masks(route, progress.contract)
    _check_contract(route, progress, contract)
    fresh = create_target(warehouse, route, feeding, found=found, ledger=ledger, contract=contract)
    # Batches up to `seen` were applied but for open transactions. They come again, and Delta's log
    # cannot tell which rows they wrote.
    again = any(each.first <= (progress.seen or 0) for each in stats)
    labels = {*row.watermarks, *map(label_of, task.stats)}
    shared = len(labels) > 1 and route.shard_column is None
    for number, (table, of_table) in enumerate(feeding.items()):
        about = Feeding(config, route, table, of_table, contract, found, ledger)
        row, columns = _grown(about, row, fresh=fresh)
        batch = table_batch(
            *(warehouse, config, _feed(about, columns)),
            contract=contract,
            columns=columns,
            watermarks=row.watermarks.get(label_of(table), Watermarks()),
            above=task.above[table],
            only=found.limit.only,
            fresh=fresh,
            shared=shared,
            newest=row.freshness,
            version=None if again else _version(row),
        )
        if number == 0 and len(feeding) > 1 and not contract.keeps.latest:
            # What a killed run left of the others no longer shows once the first is recorded.
            again = again or batch.version is None
        row = _applied(about, row, batch, was_unkeyed=was_unkeyed)
        fresh = False
    if shared and contract.keeps.keyed and _freed(row):
        row = try_again(ledger, route, contract, row=row, last=found.last)
    row = replace(row, below=found.limit.below, seen=found.limit.newest)
    return replace(row, batch=found.last, contract=contract)


def _keys(
    config: Config,
    route: Route,
    feeding: Mapping[SourceTable, list[BatchStats]],
    *,
    progress: Progress,
    found: PendingChanges,
    ledger: Ledger,
) -> tuple[str, ...]:
    """The key columns of the target; () = it has none, or none is known."""
    if progress.contract is not None and not progress.contract.keeps.keyed:
        _check_keyless(config, route, feeding, ledger=ledger, keys=progress.contract.keys)
        return progress.contract.keys
    first = next(iter(feeding))
    stats = [each for of_table in feeding.values() for each in of_table]
    hinted_keys = found.keys.get(first, ())
    lineage = ledger.lineage(first)
    return key_of(
        ledger.warehouse, config, route, stats=stats, lineage=lineage, hinted_keys=hinted_keys
    )


def _check_contract(route: Route, progress: Progress, contract: TargetContract) -> None:
    """Raise TableError where the configuration asks for another kind of target than there is."""
    if progress.contract is None or not progress.contract.differs(contract):
        return
    grave = "" if progress.contract.mode == contract.mode else " --yes"
    raise TableError(
        f"expected {progress.contract}, with which {route.target} was made, got {contract}; "
        f"`ingest rebuild {route.target}{grave}` makes it so, or set what it was made with"
    )


class Feeding(NamedTuple):
    """A source table, with its statistics of the pending changes, and the target that it feeds."""

    config: Config
    route: Route
    table: SourceTable
    stats: list[BatchStats]
    contract: TargetContract
    found: PendingChanges
    ledger: Ledger


def _grown(about: Feeding, row: Progress, *, fresh: bool) -> tuple[Progress, dict[str, str]]:
    """The progress that knows the target's columns, and these, with what the table brings and the
    ledger lets in; what else of them differs from what there was is entered in the ledger."""
    config, route, table, stats, contract, found, ledger = about
    warehouse, keys = ledger.warehouse, contract.keys
    before = columns_of(warehouse, route.target) or {}
    apply_schema_changes(route, keys, before, table=table, found=found, stats=stats, ledger=ledger)
    said = ((e.pos, ledger.statement(e)) for e in ledger.of(table) if e.statement and e.pos)
    types = found.types.get(table, ())

    def met(doubt: Doubt) -> bool:
        names = later_names(table, ledger.first_names)
        return has_values(warehouse, stats, names, **doubt._asdict())

    check_encodings(config.sources[route.source], table, said, types=types, stats=stats, met=met)
    columns = columns_of(warehouse, route.target) or {}
    typed = [column.name for listed in found.types.get(table, ()) for column in listed]
    typed += stated_names(ledger.of(table))
    new = [name for name in columns if fresh or name not in before]
    untyped = untyped_columns(row.untyped, columns, route, new=new, typed=typed)
    row = replace(row, untyped=untyped, declared=dict(route.columns)).with_columns(columns)
    if not fresh:
        row = _unsent(row, table, route, columns=columns, stats=stats, found=found, ledger=ledger)
    if keys:
        hinted_keys = found.keys.get(table, ())
        _check_key(
            config, route, table, stats=stats, keys=keys, ledger=ledger, hinted_keys=hinted_keys
        )
    return row, columns


def _feed(about: Feeding, columns: Mapping[str, str]) -> Feed:
    """What the table has new for the target."""
    _, route, table, stats, _, found, ledger = about
    types = _ordering_types(
        ledger.warehouse, route, table, columns=columns, found=found, ledger=ledger
    )
    names = later_names(table, ledger.first_names)
    return Feed(route, table, names, stats, types, ledger.lineage(table))


def _applied(about: Feeding, row: Progress, batch: TableBatch, *, was_unkeyed: bool) -> Progress:
    """The target's progress once a source table's batch is applied."""
    ledger, route = about.ledger, about.route
    watermarks, counts = apply(ledger.warehouse, batch)
    # Not only what is new among the rejects: a run that was killed may have recorded them.
    if counts.pop("unfit", 0) or counts["rejected"]:
        grew = outgrowing(ledger.warehouse, about.table.source, route.target)
        ledger.enter(ledger.drift.outgrown(about.table, route, grew), route)
    if was_unkeyed:
        typed_at_last(ledger.warehouse, batch)
    times = (row.freshness, *(stats.newest for stats in batch.stats))
    return replace(
        row,
        watermarks={**row.watermarks, batch.projection.label: watermarks},
        last_pos=highest([row.last_pos, watermarks.applied]),
        freshness=max((time for time in times if time is not None), default=None),
        **{name: getattr(row, name) + number for name, number in counts.items()},
    )


def gone(warehouse: Warehouse, progress: Progress) -> bool:
    """Whether a target that has rows applied to it is not there: to begin it anew would leave out
    all that it had."""
    return bool(progress.watermarks) and not warehouse.exists("gold", progress.target)


def is_gone(target: str) -> str:
    """The sentence on such a target."""
    return (
        f"the table gold.{target} is gone, which held what was applied so far; `ingest rebuild "
        f"{target}` makes it again from history"
    )


def _with_schema_hints(
    warehouse: Warehouse, feeding: dict[SourceTable, list[BatchStats]], found: PendingChanges
) -> PendingChanges:
    """The survey with what earlier messages told of a new target's tables, where those of now say
    no key or no types: a format may tell a table's schema once, before its rows."""
    lacking = [
        table
        for table, stats in feeding.items()
        if table not in found.types
        or (table not in found.keys and any(each.keyless for each in stats))
    ]
    if not lacking:
        return found
    before = schema_hints(warehouse, lacking, found.last)
    # Types of before count as they were last: a column that is gone since does not come again.
    last = {table: types[-1:] for table, types in before.types.items()}
    return found._replace(types={**last, **found.types}, keys={**before.keys, **found.keys})


def _ordering_types(
    warehouse: Warehouse,
    route: Route,
    table: SourceTable,
    *,
    columns: Mapping[str, str],
    found: PendingChanges,
    ledger: Ledger,
) -> list[tuple[ColumnType, ...]]:
    """The types that came with columns of `sequence_by` which the target has not; one batch may
    have come without them."""
    known = {name.lower() for name in (*columns, *route.columns)}
    if {name.lower() for name in route.sequence_by or ()} <= known:
        return []
    if table not in found.types:
        names = [table, *later_names(table, ledger.first_names)]
        found = under_first_names(schema_hints(warehouse, names, found.last), ledger.first_names)
    return found.types.get(table, [])[-1:]


def _check_key(
    config: Config,
    route: Route,
    table: SourceTable,
    *,
    stats: list[BatchStats],
    keys: tuple[str, ...],
    ledger: Ledger,
    hinted_keys: tuple[str, ...],
) -> None:
    """Enter other keys that the YAML or the messages name now; the target's own stays."""
    found = named_keys(config, route, stats, lineage=ledger.lineage(table))
    held = {key.lower() for key in keys}
    top = highest(each.highest for each in stats) or ()
    for own in found or [hinted_keys]:
        named = (*own, *shard_of(route))
        if not own or {name.lower() for name in named} == held:
            continue
        if not _of_before(ledger, table, top, beside=len(found) > 1):
            ledger.enter(ledger.drift.other_key(table, route, keys, names=named), route)


def _of_before(ledger: Ledger, table: SourceTable, top: Pos, *, beside: bool) -> bool:
    """Whether messages up to `top` that name another key are from before a change of it that was
    applied, or may be, where others stand `beside` them."""
    return any(
        isinstance(effect, ChangeKey) and (beside or (entry.pos or ()) > top)
        for entry in ledger.of(table)
        if entry.status == "applied"
        for effect in entry.effects
    )


def _unsent(
    row: Progress,
    table: SourceTable,
    route: Route,
    *,
    columns: Mapping[str, str],
    stats: list[BatchStats],
    found: PendingChanges,
    ledger: Ledger,
) -> Progress:
    """The progress, once columns that are no longer sent are entered."""
    label = label_of(table)
    keys = {key.lower() for key in (*(row.contract.keys if row.contract else ()), *shard_of(route))}
    own = [name for name in columns if name.lower() not in keys]
    types = found.types.get(table)
    listed = [column.name for column in types[-1]] if types else None
    for entry in ledger.drift.sent_again(table, stats):
        ledger.stage_entry(entry)
    gone, never = ledger.drift.unsent(
        table, route, own, stats=stats, listed=listed, never=row.unsent.get(label, ())
    )
    ledger.enter(gone, route)
    return replace(row, unsent={**row.unsent, label: never})


def _check_keyless(
    config: Config,
    route: Route,
    feeding: Iterable[SourceTable],
    *,
    ledger: Ledger,
    keys: tuple[str, ...],
) -> None:
    """Raise TableError where the YAML names a key for a target that keeps every image for want of
    one."""
    if keys or route.stored_as_scd_type == "append":
        return
    for table in feeding:
        declared = route.keys or declared_for(config.sources[route.source].keys, table[1:])
        named = renamed(tuple(declared), ledger.lineage(table), ())
        if named:
            raise TableError(
                f"expected no key, as when {route.target} was made, got ({', '.join(named)}); "
                f"`ingest rebuild {route.target} --yes` makes it with that key, or take `keys` away"
            )


def _version(row: Progress) -> int | None:
    """The target's version when it was last recorded."""
    return max((known.version for known in row.watermarks.values() if known.version), default=None)


def _freed(row: Progress) -> bool:
    """Whether some row may have gone."""
    return bool(row.deleted or row.updated)


def _known(warehouse: Warehouse, route: Route, progress: Progress) -> Progress:
    """The progress with what the target was created for, and where its history was trimmed, told
    by itself where need be."""
    if progress.contract is not None:
        return progress
    contract = contract_of(warehouse, route.target)
    trimmed = horizons_of(warehouse, route.target) if contract is not None else {}
    watermarks = {label: Watermarks(horizons=found) for label, found in trimmed.items()}
    return replace(progress, contract=contract, watermarks={**watermarks, **progress.watermarks})


def _new(task: TargetBatch) -> dict[SourceTable, list[BatchStats]]:
    """The source tables with batches not applied, in the order of their first change."""
    new = {
        table: [each for each in stats if each.batch > task.above[table]]
        for table, stats in task.stats.items()
    }
    first = {
        table: min((s.lowest for s in stats if s.lowest is not None), default=())
        for table, stats in new.items()
    }
    return {
        table: new[table] for table in sorted(new, key=lambda t: (first[t], str(t))) if new[table]
    }


def _all_aside(
    warehouse: Warehouse,
    route: Route,
    feeding: dict[SourceTable, list[BatchStats]],
    *,
    row: Progress,
    found: PendingChanges,
) -> Progress:
    """Set aside every change of tables whose rows nothing tells apart."""
    for table, stats in feeding.items():
        row = replace(
            row,
            rejected=row.rejected + set_aside(warehouse, table, route, stats=stats),
            events=row.events + sum(each.changes for each in stats),
        )
    return replace(row, batch=found.last, below=found.limit.below, seen=found.limit.newest)
