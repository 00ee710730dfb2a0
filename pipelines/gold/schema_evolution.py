"""Before a MERGE: the target's table created, or altered as the schema changes of its source tables
ask for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ingest.config.modes import TargetContract
from ingest.config.routes import Route
from ingest.ddl.changes import ChangeKey, only
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.names import SourceTable, label_of, lowered
from ingest.position import Pos, highest, lowest
from pipelines.gold.column_warnings import misspelt_columns, stated_names, untyped_columns
from pipelines.gold.encodings import check_encodings
from pipelines.gold.keys import (
    before_renames,
    check_excluded,
    check_shard_column,
    declared_keys,
    named_keys,
    shard_of,
)
from pipelines.ledger import decisions
from pipelines.ledger.coming_statements import ComingStatements
from pipelines.ledger.drift import Drift
from pipelines.ledger.shared_columns import keyed_by_others
from pipelines.ledger.store import Ledger
from pipelines.silver.pending import (
    BatchStats,
    ColumnValues,
    PendingChanges,
    has_values,
    images_of,
    names_sent,
)
from pipelines.targets.progress import Progress
from pipelines.targets.table import (
    add_deletion_time,
    check_contract,
    columns_of,
    create,
    keys_of,
    wanted_columns,
)


def create_target(
    ledger: Ledger,
    route: Route,
    new: Mapping[SourceTable, Sequence[BatchStats]],
    *,
    pending: PendingChanges,
    contract: TargetContract,
    statements: ComingStatements,
) -> bool:
    """Create the target, unless it exists, with the columns of all tables that have something `new`
    for it; gives whether it was created. `statements`: the DDL and truncates that came."""
    warehouse, soft = ledger.warehouse, route.deletes == "soft"
    if warehouse.exists("gold", route.target):
        check_contract(warehouse, route.target, contract=contract)
        if soft and contract.keeps.keyed:
            add_deletion_time(warehouse, route.target)
        check_excluded(route, columns_of(warehouse, route.target) or {})
        return False
    types = [columns for table in new for columns in pending.types.get(table, [])]
    images = images_of(chain.from_iterable(new.values()))
    shard = (route.shard_column or "").lower()
    if shard and shard in {name.lower() for image in images for name in image}:
        raise TableError(f"`{shard}` is a column of the source; choose a new name as shard_column")
    # The shard column is a column even of a target without a key.
    first = contract.keys or shard_of(route)
    wanted = wanted_columns(route, first, types, images=sorted(images))
    sent = ledger.columns_sent(route.target)
    begun: dict[SourceTable, Mapping[str, str]] = {}
    for table, stats in new.items():
        begun[table] = decisions.begin_columns(
            ledger,
            table,
            wanted,
            keys=first,
            lowest=lowest(each.lowest for each in stats),
            coming=statements,
        )
    # The statements just settled may have renamed columns that the configuration names.
    route = ledger.route(next(iter(new))) or route
    wanted = wanted_columns(route, first, types, images=sorted(images))
    columns = _together(wanted, begun, sent=sent, declared=lowered(route.columns))
    create(warehouse, route.target, columns, contract=contract, soft=soft)
    return True


def _together(
    wanted: Mapping[str, str],
    begun: Mapping[SourceTable, Mapping[str, str]],
    *,
    sent: Mapping[SourceTable, Collection[str]],
    declared: Collection[str],
) -> dict[str, str]:
    """Those of the `wanted` columns that a new target begins with, where its source tables begin
    with the columns `begun`.

    A column that one source table has dropped, or waits for, may be there for another that sends
    it. A type is that of a source table which begins with another one, unless it is `declared`.
    """
    columns = {}
    for name, type_ in wanted.items():
        sending = [own for table, own in begun.items() if name.lower() in sent[table]]
        if not (any(name in own for own in sending) or all(name in own for own in begun.values())):
            continue
        others = (own[name] for own in begun.values() if own.get(name, type_) != type_)
        columns[name] = type_ if name.lower() in declared else next(others, type_)
    return columns


def columns_sent(
    new: Mapping[SourceTable, Sequence[BatchStats]], pending: PendingChanges
) -> dict[SourceTable, set[str]]:
    """The columns, in lower case, that the changes of each source table have, in images or by their
    types."""
    sent: dict[SourceTable, set[str]] = {}
    for table, stats in new.items():
        typed = {column.name for listed in pending.types.get(table, ()) for column in listed}
        sent[table] = lowered(names_sent(stats) | typed)
    return sent


@dataclass(frozen=True, kw_only=True)
class Feeding:
    """A source table on its way to the target that it feeds: its statistics, the pending changes,
    and the ledger. `statements`: the DDL and truncates that came, of all source tables."""

    route: Route
    table: SourceTable
    stats: list[BatchStats]
    pending: PendingChanges
    ledger: Ledger
    statements: ComingStatements

    @property
    def drift(self) -> Drift:
        """What its data shows that its DDL does not say."""
        return Drift(self.ledger, self.table, self.route)

    @property
    def names(self) -> tuple[SourceTable, ...]:
        """All names that the source table has had."""
        return self.ledger.names(self.table)

    @property
    def types(self) -> Sequence[tuple[ColumnType, ...]]:
        """The types that came with its columns."""
        return self.pending.types.get(self.table, ())

    @property
    def hinted_keys(self) -> tuple[str, ...]:
        """The key that its schema messages name."""
        return self.pending.keys.get(self.table, ())


def evolve(
    feeding: Feeding, row: Progress, contract: TargetContract, *, fresh: bool
) -> tuple[Progress, TargetContract, dict[str, str]]:
    """Alter the target as the source table's schema changes ask for: those of its DDL and those
    that its data shows, as far as the policy lets them in. The others wait in the ledger.

    Gives what there is afterwards: the progress, which knows the target's columns; what the target
    is made for, with today's names of its key; and its columns.
    """
    route, table, ledger = feeding.route, feeding.table, feeding.ledger
    before = columns_of(ledger.warehouse, route.target) or {}
    _apply_schema_changes(feeding, before, keys=contract.keys)
    _check_encodings(feeding)
    columns = columns_of(ledger.warehouse, route.target) or {}
    typed = [column.name for listed in feeding.types for column in listed]
    typed += stated_names(ledger.of(table))
    new = [name for name in columns if fresh or name not in before]
    untyped = untyped_columns(row.untyped, columns, route, new=new, typed=typed)
    met = {*columns, *typed, *chain.from_iterable(ledger.columns_sent(route.target).values())}
    # With the names of now, also those that statements of this batch gave.
    misspelt = misspelt_columns(ledger.route(table) or route, columns, met=met)
    row = replace(row, untyped=untyped, declared=dict(route.columns), misspelt=misspelt)
    row = row.with_columns(columns)
    if not fresh:
        row = _enter_unsent(feeding, row, columns)
    if not lowered(contract.keys) <= lowered(columns):
        # Statements of this very batch have renamed key columns.
        contract = contract._replace(keys=keys_of(ledger.warehouse, route.target))
    if contract.keys:
        _enter_other_keys(feeding, contract.keys)
    return row, contract, columns


def _check_encodings(feeding: Feeding) -> None:
    ledger, table = feeding.ledger, feeding.table
    said = ((e.pos, ledger.statement(e)) for e in ledger.of(table) if e.statement and e.pos)

    def met(values: ColumnValues) -> bool:
        return has_values(ledger.warehouse, feeding.stats, feeding.names, values=values)

    source = ledger.warehouse.config.sources[ledger.source]
    check_encodings(source, table, said, types=feeding.types, stats=feeding.stats, met=met)


def _apply_schema_changes(
    feeding: Feeding, columns: Mapping[str, str], *, keys: tuple[str, ...]
) -> None:
    """Take up the schema changes of a source table, first those of its DDL and then those that its
    data shows, and carry out on the target what the policy lets in. The target has these columns
    and keys."""
    ledger, route = feeding.ledger, feeding.route
    held = lowered(columns)
    check_shard_column(route, columns)
    missing = [key for key in keys if key.lower() not in held]
    if missing:
        raise TableError(
            f"expected the key column {', '.join(missing)} in {route.target}, got a table without; "
            f"`ingest rebuild {route.target} --yes` makes it anew, or choose another target if "
            f"the table is somebody else's"
        )
    left = decisions.begin_again(ledger, feeding.table, route)
    coming = feeding.statements
    if decisions.apply_statements(ledger, feeding.table, route, coming=coming) or left:
        columns = columns_of(ledger.warehouse, route.target) or {}
    # What the configuration says of a column also holds under a name that it was given just now.
    route = ledger.route(feeding.table) or route
    check_excluded(route, columns)
    images = sorted(images_of(feeding.stats))
    wanted = wanted_columns(route, keys, feeding.types, images=images)
    drift = Drift(ledger, feeding.table, route)
    for entry in drift.reserved_names(wanted):
        ledger.stage_entry(entry)
    typed = {column.name for listed in feeding.types for column in listed}
    if added := drift.new_columns(columns, wanted=wanted):
        decisions.enter_columns(ledger, added, route)
    decisions.enter(ledger, drift.other_types(columns, wanted=wanted, typed=typed), route)


def _enter_other_keys(feeding: Feeding, keys: tuple[str, ...]) -> None:
    """Enter for review other keys that the YAML or the messages name now; the target keeps its own,
    `keys`."""
    route, table, ledger = feeding.route, feeding.table, feeding.ledger
    declared = declared_keys(ledger.warehouse.config, route, table, lineage=ledger.lineage(table))
    followed = bool(declared) or not keyed_by_others(ledger, table, route.target)
    found = named_keys(ledger.warehouse.config, route, feeding.stats, lineage=ledger.lineage(table))
    held = lowered(keys)
    top = highest(each.highest for each in feeding.stats) or ()
    for own in found or [feeding.hinted_keys]:
        named = (*own, *shard_of(route))
        names = lowered(named)
        if not own or names == held or (names < held and not followed):
            continue
        if lowered(before_renames(named, feeding.statements.renames_to_come(table))) == held:
            # It is the same key, under names that it will get by renames still to come.
            continue
        if not _of_before(ledger, table, top, beside=len(found) > 1):
            decisions.enter(ledger, feeding.drift.other_key(keys, names=named), route)


def _of_before(ledger: Ledger, table: SourceTable, top: Pos, *, beside: bool) -> bool:
    """Whether messages up to `top` that name another key are from before an applied change of the
    key. If others stand `beside` them, they may be, and count so."""
    return any(
        beside or entry.place > top
        for entry in ledger.of(table)
        if entry.status == "applied" and only(ChangeKey, entry.effects)
    )


def _enter_unsent(feeding: Feeding, row: Progress, columns: Iterable[str]) -> Progress:
    """Enter columns that are no longer sent; gives the progress that remembers those that were
    never sent."""
    route, drift = feeding.route, feeding.drift
    label = label_of(feeding.table)
    keys = lowered((*(row.contract.keys if row.contract else ()), *shard_of(route)))
    for entry in drift.sent_again(feeding.stats):
        feeding.ledger.stage_entry(entry)
    gone, never = drift.unsent(
        [name for name in columns if name.lower() not in keys],
        stats=feeding.stats,
        listed=[column.name for column in feeding.types[-1]] if feeding.types else None,
        never=row.unsent.get(label, ()),
    )
    decisions.enter(feeding.ledger, gone, route)
    return replace(row, unsent={**row.unsent, label: never})
