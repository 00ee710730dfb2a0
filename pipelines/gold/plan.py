"""The only builder of batches: how the changes of a target's source tables become its rows.

All batches are built here, from what source tables have new (`table_batches`) and from their whole
history (`history_batches`). What must be asked of Spark for them is asked here too, for all tables
of a target at once. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from ingest.config.load import Config
from ingest.config.modes import KEEPING, TargetContract, mode_of
from ingest.config.routes import Route
from ingest.config.sources import Source
from ingest.ddl.changes import Lineage, name_after, names_through, renamed
from ingest.decode.spec import domain, scheme
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.formats import FORMATS
from ingest.names import SourceTable, label_of, lowered
from ingest.position import Pos, lowest_copies, pos_literal
from ingest.sql.masks import Masking, as_it_is
from ingest.sql.projection import OrderColumn, Projection
from ingest.sql.query import union_all
from ingest.sql.silver import TRUNCATES, below_pos, truncates, up_to_batches
from pipelines.apply.batch import TableBatch, TruncateTimes
from pipelines.gold.keys import check_shard_column
from pipelines.ledger.renames import FirstNames, names_of, under_first_names
from pipelines.platform.mask_secret import maskings, offer_secret
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import (
    BatchStats,
    ProjectedStats,
    names_read,
    pending_changes,
    with_key_changes,
    with_sequence_positions,
)
from pipelines.targets.progress import Progress, Watermarks
from pipelines.targets.table import with_spellings


class Feed(NamedTuple):
    """What silver has of a source table for the target of `route`. `names`: all names that the
    table has had; `types`: the column types that came with it; `lineage`: the schema changes
    through which earlier changes are read."""

    route: Route
    table: SourceTable
    names: tuple[SourceTable, ...]
    stats: list[BatchStats]
    types: Sequence[Sequence[ColumnType]]
    lineage: Lineage


class Histories(NamedTuple):
    """Everything that silver has of a target's source tables, and for each the key that schema
    messages name."""

    feeds: list[Feed]
    keys: Mapping[SourceTable, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class TargetTable:
    """The target that batches are for: what it was made for, and its columns. `shared`: several
    source tables may claim one of its keys."""

    contract: TargetContract
    columns: dict[str, str]
    shared: bool = False


class Extent(NamedTuple):
    """How much of history counts.

    `last`: the last batch that counts; None: all do. `only`: SQL that narrows it. `watermarks`:
    those of each source table, which tell where it was trimmed. `closed_at`: a name of a source
    table whose later changes wait for a decision -> the last batch that counts of it. `partly`: SQL
    of what counts of all other names, if only a part of the last batches does.
    """

    watermarks: Mapping[str, Watermarks] = MappingProxyType({})
    last: int | None = None
    partly: str = "true"
    only: str = "true"
    closed_at: Mapping[SourceTable, int] = MappingProxyType({})

    @classmethod
    def applied(cls, progress: Progress, closed: Collection[SourceTable]) -> Extent:
        """What was applied to a target. `closed`: the names of source tables whose changes wait for
        a decision."""
        closed_at = last_applied(progress, closed)
        if progress.tables.keys() <= {table.path for table in closed}:
            # Nothing has brought the target forward since the last of them closed, so it is still
            # there.
            last = max(progress.tables.values(), default=0)
            open_then = {names for names, at in progress.tables.items() if at == last}
            closed_at = {t: at for t, at in closed_at.items() if t.path not in open_then}
        last, partly = progress.last_batch, progress.applied_rows
        return cls(progress.watermarks, last, partly, closed_at=closed_at)

    def counting(self, names: Collection[SourceTable]) -> str:
        """SQL that is true for those of silver's rows that count of some source tables, given by
        name."""
        partly = "true" if all(name in self.closed_at for name in names) else self.partly
        terms = (self.only, partly, self.let_in(names))
        return " AND ".join(f"({term})" for term in terms if term != "true") or "true"

    def let_in(self, names: Iterable[SourceTable]) -> str:
        """SQL that is true for silver's rows of source tables that wait for no decision."""
        return up_to_batches({n: self.closed_at[n] for n in names if n in self.closed_at})


ALL_HISTORY = Extent()


def last_applied(progress: Progress, tables: Iterable[SourceTable]) -> dict[SourceTable, int]:
    """The last batch that a target has applied completely, by name of a source table; 0: none."""
    return {table: progress.tables.get(table.path, 0) for table in tables}


def histories(
    warehouse: Warehouse,
    routes: Mapping[SourceTable, Route],
    *,
    first_names: FirstNames,
    lineage: Callable[[SourceTable], Lineage],
    extent: Extent,
) -> Histories:
    """What silver has of source tables of one source under all their names, as far as it counts."""
    names = {table: names_of(table, first_names) for table in routes}
    every = [name for of_table in names.values() for name in of_table]
    pending = pending_changes(
        warehouse,
        every[0].source,
        0,
        tables=every,
        until=extent.last,
        only=extent.let_in(every),
    )
    pending = under_first_names(pending, first_names)
    feeds = [
        Feed(
            route=route,
            table=table,
            names=names[table],
            stats=[each for each in pending.stats if each.table == table and each.changes],
            types=pending.types.get(table, []),
            lineage=lineage(table),
        )
        for table, route in routes.items()
    ]
    return Histories(feeds, pending.keys)


def history_batches(
    warehouse: Warehouse, feeds: Iterable[Feed], target: TargetTable, *, extent: Extent
) -> list[TableBatch]:
    """The histories of a target's source tables, each as a batch that begins at 0."""
    changed = [feed for feed in feeds if feed.stats]
    kept = {}
    for feed in changed:
        known = extent.watermarks.get(label_of(feed.table), Watermarks())
        kept[label_of(feed.table)] = Watermarks(
            horizons=known.horizons, last_baseless=known.last_baseless
        )
    batches = _batches(warehouse, changed, target, watermarks=kept)
    return _with_truncates(
        warehouse, [replace(batch, only=extent.counting(batch.names)) for batch in batches]
    )


def table_batches(
    warehouse: Warehouse,
    feeds: Sequence[Feed],
    target: TargetTable,
    *,
    progress: Progress,
    above: Mapping[SourceTable, int],
    only: str,
    staged: str | None,
    fresh: bool,
) -> list[TableBatch]:
    """What source tables have new for their target, in the order in which it is applied. Each batch
    begins above the table's own batch of `above`. `fresh`, `staged`: see `TableBatch`."""
    new: list[TableBatch] = []
    for batch in _batches(warehouse, feeds, target, watermarks=progress.watermarks):
        batch = replace(batch, above=above[batch.table], only=only, staged=staged)
        newest = new[-1].newest_after if new else progress.freshness
        before = _applied_before(batch, progress)
        new.append(replace(batch, fresh=fresh and not new, newest=newest, applied_before=before))
    return _with_truncates(warehouse, new)


def _applied_before(batch: TableBatch, progress: Progress) -> str:
    """`TableBatch.applied_before`. What the progress of the table does not show as applied counts
    as new: a source table that was closed then, or lags behind, had nothing applied there."""
    applied, below, partly = batch.watermarks.applied, progress.below, progress.partly_applied
    lags = batch.above < progress.batch or bool(batch.projection.sequence)
    if below is None or partly is None or applied is None or lags:
        return "false"
    return f"(batch <= {partly} AND {below_pos(below)} AND pos <= {pos_literal(applied)})"


def _batches(
    warehouse: Warehouse,
    feeds: Sequence[Feed],
    target: TargetTable,
    *,
    watermarks: Mapping[str, Watermarks],
) -> list[TableBatch]:
    """Batches from the statistics of their tables; what these do not tell is asked of silver, for
    all batches at once."""
    known = [watermarks.get(label_of(feed.table), Watermarks()) for feed in feeds]
    tables = [
        _projected(warehouse, feed, target, known=each)
        for feed, each in zip(feeds, known, strict=True)
    ]
    tables = with_sequence_positions(warehouse, with_key_changes(warehouse, tables))
    return [
        _batch(warehouse, feed, target, table=table, watermarks=each)
        for feed, table, each in zip(feeds, tables, known, strict=True)
    ]


def _projected(
    warehouse: Warehouse, feed: Feed, target: TargetTable, *, known: Watermarks
) -> ProjectedStats:
    if feed.route.mask_secret is not None:
        offer_secret(warehouse.session, warehouse.config.mask_secret)
    sent = {name for names in names_read(feed.stats) for name in names}
    before = tuple(sorted(known.names_before(target.columns, sent)))
    projection = _projection_of(warehouse.config, feed, target, known=before)
    projection = replace(projection, keeps_states=not target.contract.keeps.latest)
    if known.key_overridden:
        # Then the keys and hashes of silver are not those of the target.
        projection = replace(projection, native=False)
    return ProjectedStats(feed.stats, feed.names, projection)


def _batch(
    warehouse: Warehouse,
    feed: Feed,
    target: TargetTable,
    *,
    table: ProjectedStats,
    watermarks: Watermarks,
) -> TableBatch:
    route, stats, contract = feed.route, table.stats, target.contract
    source = warehouse.config.sources[feed.table.source]
    return TableBatch(
        table=feed.table,
        names=feed.names,
        projection=table.projection,
        stats=stats,
        silver=warehouse.name("silver", "cdc"),
        target=route.target,
        target_table=warehouse.name("gold", route.target),
        mode=contract.mode,
        soft=route.deletes == "soft",
        above=0,
        last=max(each.batch for each in stats),
        watermarks=replace(
            watermarks,
            domain=_order_domain(source, stats, watermarks.domain),
            tenant=_one_tenant(source, stats, watermarks.tenant),
        ),
        missing_order_keys=table.missing_order_keys,
        shared=target.shared,
    )


def _with_truncates(warehouse: Warehouse, batches: Sequence[TableBatch]) -> list[TableBatch]:
    """The batches with their truncates, found by one query for all of them; a batch without any
    needs none."""
    known = [_known_truncates(batch) for batch in batches]
    asked = [
        truncates(changes, number=number, above=batch.above)
        for number, (batch, (_, changes)) in enumerate(zip(batches, known, strict=True))
        if changes is not None
    ]
    new: list[dict[Pos, int | None]] = [{} for _ in batches]
    earlier = [dict(before) for before, _ in known]
    if asked:
        for row in warehouse.session.sql(union_all(asked)).collect():
            at = tuple(row["pos"])
            for found, came in ((new, row["new"]), (earlier, row["old"])):
                if came:
                    found[row["number"]][at] = row["time"]
    return [
        _with_truncates_once(batch, these, those)
        for batch, these, those in zip(batches, new, earlier, strict=True)
    ]


def _with_truncates_once(
    batch: TableBatch, new: TruncateTimes, earlier: TruncateTimes
) -> TableBatch:
    """The batch with its truncates, each once even if copies of it came."""
    everything = {*earlier, *new}
    once = everything if batch.projection.by_arrival else lowest_copies(everything)
    return replace(
        batch,
        new_truncates={pos: time for pos, time in new.items() if pos in once},
        earlier_truncates={pos: time for pos, time in earlier.items() if pos in once},
    )


def _known_truncates(batch: TableBatch) -> tuple[Mapping[Pos, int | None], str | None]:
    """The earlier truncates, as far as gold remembers them, and SQL of the changes among which
    silver is asked for the others; None: silver need not be asked."""
    shown = batch.soft or batch.keeps.versions
    remembered = batch.watermarks.all_truncates
    if remembered is None and not batch.watermarks.more_truncates and not shown:
        remembered = dict.fromkeys(batch.watermarks.truncates)
    if not batch.projection.truncates or not batch.keeps.keyed:
        return remembered or {}, None
    if remembered is None:
        return {}, batch.history(TRUNCATES)
    brought = batch.brought(TRUNCATES) if batch.total("truncates") else None
    return remembered, brought


def _projection_of(
    config: Config, feed: Feed, target: TargetTable, *, known: tuple[str, ...]
) -> Projection:
    """How the source table becomes rows of the target. `known`: names of earlier images that are
    spelled otherwise than the target's columns."""
    keys, columns = target.contract.keys, target.columns
    route, table, stats, lineage = feed.route, feed.table, feed.stats, feed.lineage
    images = {known, *names_read(stats)}
    by_lower = {name.lower(): name for name in columns}
    check_shard_column(route, columns)
    shard = (route.shard_column or "").lower()
    own = tuple(key for key in keys if key.lower() != shard)
    source = config.sources[table.source]
    # An append target keeps a row for each change, so no row replaces another.
    mode = mode_of(route, keys)
    ordered = mode is None or KEEPING[mode].keyed
    projection = Projection(
        keys=tuple(by_lower[key.lower()] for key in keys),
        columns=columns,
        label=label_of(table),
        source=table.source,
        zone=source.time_zone,
        by_arrival=scheme(source, stats[-1].format) == "arrival",
        truncates=route.truncates == "apply",
        native=not any(each.keyless for each in stats)
        and {renamed(names, lineage, ()) for each in stats for names in each.key_columns} == {own},
        lineage=lineage,
        shard=by_lower[route.shard_column.lower()] if route.shard_column else None,
        sequence=_sequence(feed, columns, images) if ordered else (),
        masks=_masks(config, route, columns, keys=keys, lineage=lineage),
        read_positions=FORMATS[stats[-1].format].read_positions,
    )
    brought = {(name_after(entry.change),) for entry in lineage}
    return with_spellings(projection, sorted(images | brought | {own}))


def _masks(
    config: Config,
    route: Route,
    columns: Mapping[str, str],
    *,
    keys: Sequence[str],
    lineage: Lineage,
) -> dict[str, Masking]:
    """How the target's columns, and other columns of the source table, are masked.

    Raises TableError if a key would no longer tell rows apart.
    """
    masks = {}
    by_lower = {name.lower(): name for name in columns}
    of_key = lowered(keys)
    for name, mask in as_it_is(maskings(config, route), lineage).items():
        if name.lower() in of_key and mask.mode != "hash":
            raise TableError(
                f"expected the key column {name} of {route.target} to be masked by hash or not at "
                f"all, got {mask.mode}; change its mask in the tables file"
            )
        # Values of a column that the target no longer has may be set aside, so its mask still
        # counts.
        masks[by_lower.get(name.lower(), name)] = mask
    return masks


def _order_domain(source: Source, stats: Sequence[BatchStats], before: str | None = None) -> str:
    """The domain of the positions of a source table's changes; `before`: that of the changes that
    were applied.

    Raises TableError if they are of two domains.
    """
    formats = {name for each in stats for name in each.formats}
    domains = sorted({domain(source, name) for name in formats} | ({before} if before else set()))
    if len(domains) > 1:
        listed = " and ".join("arrival" if d == "arrival" else f"the log of {d}" for d in domains)
        raise TableError(
            f"expected the changes of {label_of(stats[-1].table)} in one order, got positions by "
            f"{listed}, which cannot be compared; set `order: arrival` for the source {source.name}"
            f" and run `ingest redecode --source {source.name}`, or declare a source for each"
        )
    return domains[0] if domains else "arrival"


def _one_tenant(
    source: Source, stats: Sequence[BatchStats], before: str | None = None
) -> str | None:
    """The OceanBase tenant that a source table's changes name; `before`: the one of the changes
    that were applied.

    Raises TableError if there are two: tables of two tenants are not one table, although their
    names are equal.
    """
    named = {name for each in stats for name in each.tenants} | ({before} if before else set())
    if len(named) > 1:
        raise TableError(
            f"expected the changes of {label_of(stats[-1].table)} of one OceanBase tenant, got "
            f"those of {' and '.join(sorted(named))}; set `options: {{tenant: …}}` for the source "
            f"{source.name} and run `ingest redecode --source {source.name}`; declare a source for "
            "each tenant"
        )
    return next(iter(named), None)


def _sequence(
    feed: Feed, columns: Mapping[str, str], images: Iterable[tuple[str, ...]]
) -> tuple[OrderColumn, ...]:
    """The columns of `sequence_by`, whether or not the target has them."""
    route = feed.route
    typed = {column.name.lower(): column.type for listed in feed.types for column in listed}
    declared = {name.lower(): type_ for name, type_ in [*columns.items(), *route.columns.items()]}
    sent: dict[str, set[str]] = {}
    for spelling in {spelling for image in images for spelling in image}:
        sent.setdefault(spelling.lower(), set()).add(spelling)

    def spelled(name: str) -> tuple[str, ...]:
        return tuple(sorted(sent.get(name.lower(), set()) | {name}))

    sequence = []
    for named in route.sequence_by or ():
        *earlier, today = names_through(named, feed.lineage)
        name = today.name
        type_ = declared.get(name.lower()) or typed.get(name.lower()) or "string"
        before = tuple((old.below, spelled(old.name)) for old in earlier if old.below is not None)
        sequence.append(OrderColumn(spelled(name), type_, before))
    return tuple(sequence)
