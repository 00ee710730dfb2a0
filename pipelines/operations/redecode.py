"""`ingest redecode --source S`: all of bronze decoded again into silver, by today's configuration.

1. Every target of the source is marked: nothing is applied to it until it is rebuilt.
2. Those messages in bronze that silver knows are decoded into one batch, which replaces the
   source's rows by one commit of Delta Lake. Messages that retention has removed from bronze keep
   their rows, in that batch too. What gold has not applied yet, because it waits for a decision or
   for a run, goes into a batch of its own above it, which no rebuild reads.
3. Halves of updates and shards are joined, as after a stream.
4. What belongs to the decoding is noted: the declaration, rejects that are none any more, how far
   the targets are once they are rebuilt. Then they are rebuilt.

Readers of silver see the old rows or the new ones. If the process is killed, the targets stay
marked, and a second call does all of it again, so nothing is there twice. Messages that silver has
not seen yet stay where they are, for the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.config.declaration import Declaration
from ingest.config.sources import Source
from ingest.decode.batches import decode
from ingest.decode.silver_rows import SILVER_COLUMNS
from ingest.decode.spec import decode_spec
from ingest.errors import IngestError, SourceError
from ingest.names import SourceTable
from ingest.position import EPOCH
from ingest.sql import redecoded as texts
from ingest.sql.delivery import MESSAGE
from ingest.sql.quoting import equal
from ingest.sql.silver import last_batches
from ingest.sql.tables.rows import delete
from pipelines.gold.backlog import applied_beyond
from pipelines.gold.known_targets import known_targets
from pipelines.gold.run import Merged, merge_tables
from pipelines.ledger.entries import Entry, load_entries, write_entries
from pipelines.ledger.generations import append_truncates
from pipelines.ledger.renames import renames
from pipelines.ledger.statements import in_silver
from pipelines.ledger.store import Ledger
from pipelines.operations.rebuild import Rebuilt, rebuild
from pipelines.platform.leases import lease
from pipelines.platform.scratch import set_down
from pipelines.platform.warehouse import Warehouse, create_bronze
from pipelines.silver import declarations, projects
from pipelines.silver.arrivals import forget_places, placed_again
from pipelines.silver.chunks import join_chunks, walk_from
from pipelines.silver.counts import Counts, count
from pipelines.silver.split_updates import join_split_updates
from pipelines.silver.stream import INPUT, last_batch
from pipelines.targets.progress import (
    Names,
    Outdated,
    Progress,
    Watermarks,
    create_progress,
    load_progress,
    record_progress,
    source_cursor,
    targets_of,
)
from pipelines.targets.table import keep_horizons

_Numbering = Callable[[int], Callable[[DataFrame], DataFrame]]
"""For a number of a batch: the function that gives rows this batch, or another one."""

REDECODED = ("kind", "source", "messages", "rows", "rejects", "kept")


class Redecoded(NamedTuple):
    """What silver has of the source now; how many messages were decoded again, and how many keep
    their rows because bronze no longer has them. `targets`: what became of each, or why it
    waits."""

    counts: Counts
    kept: int
    targets: dict[str, Rebuilt | str]
    merged: list[Merged]


def redecode(warehouse: Warehouse, source: str) -> Redecoded:
    """Decode a source again, as described above, and rebuild its targets."""
    declared = warehouse.config.sources[source]
    projects.check(warehouse, source)
    create_bronze(warehouse)
    if not warehouse.exists("silver", "cdc"):
        declarations.remember(warehouse, declared)
        return Redecoded(Counts(), 0, {}, [])
    with lease(warehouse, "gold"), lease(warehouse, "silver"):
        create_progress(warehouse)
        declarations.check_arrival(warehouse, declared)
        reordered = _reordered(warehouse, declared)
        unapplied = _unapplied(warehouse, source)
        numbers = _Numbers(last_batch(warehouse) + 1)
        _mark(warehouse, source, [*filter(None, [unapplied.begins]), numbers.decoded])
        declarations.doubt(warehouse, declared)
        counts, kept = _decoded(warehouse, declared, unapplied, to=numbers)
        forget_places(warehouse.checkpoint("silver", source))
        _forget_rejects(warehouse, source)
        if reordered:
            _place_entries(warehouse, declared)
        _empty_again(warehouse, source, batch=numbers.applied)
        declarations.remember(warehouse, declared)
        rebuilt = _reached(warehouse, source, numbers)
    targets = {target: _rebuilt(warehouse, target) for target in rebuilt}
    _mark_unconfirmed(warehouse, source, targets)
    merged = merge_tables(warehouse, sources=[source])
    return Redecoded(counts, kept, targets, merged)


def _reordered(warehouse: Warehouse, source: Source) -> bool:
    """Whether the source's changes are, or may be, ordered otherwise than in silver. Raises
    SourceError if some of them cannot be decoded again, since their positions would be of the other
    order.

    If nothing tells silver's order, it may be another one as long as everything is decoded again.
    """
    try:
        before = declarations.declared(warehouse, source.name)
    except SourceError:
        # That error tells the user to redecode, which is what is being done.
        before = None
    if before is not None and before.order == Declaration.of(source).order:
        return False
    silver = warehouse.read("silver", "cdc").where(equal(source=source.name))
    silver = silver.where("kind IN ('change', 'ddl', 'fragment')")
    bronze = warehouse.read("bronze", "messages").where(equal(source=source.name))
    whole = silver.join(bronze.select(*MESSAGE), list(MESSAGE), "left_anti").isEmpty()
    trimmed = [
        target
        for (of, target), progress in load_progress(warehouse).items()
        if of == source.name and any(m.horizons for m in progress.watermarks.values())
    ]
    lost = f"the history of {', '.join(trimmed)} was trimmed" if trimmed else None
    if not whole:
        lost = "bronze has no longer all messages that silver has changes of"
    if lost is not None and before is None:
        return False
    if lost is not None:
        raise SourceError(
            f"source {source.name}: expected all of its history for another order, but {lost}, and "
            "places of two orders cannot be compared; put `order` back, or take a new snapshot "
            "into a source of another name"
        )
    return True


def _place_entries(warehouse: Warehouse, source: Source) -> None:
    """Give the ledger's statements their positions in today's order, and the ids that follow from
    these."""
    entries = load_entries(warehouse, source.name)
    first_names = renames(entries.values())

    def told(entry: Entry) -> tuple[object, ...]:
        first = first_names.get(entry.table, entry.table)
        epoch = entry.pos[EPOCH] if entry.pos is not None else None
        return epoch, first, entry.statement, entry.event_time, entry.kind == "truncate"

    now = {
        told(found): found
        for found, _ in in_silver(warehouse, source, 0, last=last_batch(warehouse))
    }
    moved = [
        replace(entry, pos=found.pos, joined=tuple(dict.fromkeys((*entry.joined, found.id))))
        for entry in entries.values()
        if (found := now.get(told(entry))) is not None
    ]
    write_entries(warehouse, moved)


def _rebuilt(warehouse: Warehouse, target: str) -> Rebuilt | str:
    """What a rebuild did, or why there was none."""
    known = known_targets(warehouse).fed.get(target)
    if known is None:
        return "no source table leads there any more"
    try:
        return rebuild(warehouse, known, confirmed=False)
    except IngestError as error:
        return str(error)


def _mark_unconfirmed(
    warehouse: Warehouse, source: str, targets: Mapping[str, Rebuilt | str]
) -> None:
    """Note for targets whose rebuild has to be confirmed that this is what they wait for."""
    refused = [name for name, made in targets.items() if isinstance(made, Rebuilt) and made.refused]
    if not refused:
        return
    with lease(warehouse, "gold"):
        progress_by_target = load_progress(warehouse)
        waiting = [progress_by_target[source, target] for target in refused]
        waiting = [_outdated(one, "unconfirmed") for one in waiting if one.outdated == "decoded"]
        record_progress(warehouse, waiting, progress_by_target)


def _mark(warehouse: Warehouse, source: str, begins: Sequence[int]) -> None:
    """Let nothing be applied to what the source has fed until it is rebuilt, and note the batch
    with which silver `begins` once it is decoded again: that shows later whether it was."""
    progress_by_target = load_progress(warehouse)
    own = targets_of(progress_by_target, source).values()
    outdated = [_outdated(progress, "decoding") for progress in own if progress.watermarks]
    cursor = source_cursor(progress_by_target, source)
    cursor = replace(cursor.uncounted(), redecoded=tuple(begins))
    record_progress(warehouse, [*outdated, cursor], progress_by_target)


def _outdated(progress: Progress, how: Outdated) -> Progress:
    progress = replace(progress, outdated=how)
    return progress.parked(progress.why_outdated or "")


class _Numbers(NamedTuple):
    """The batches of silver that a redecode makes: `decoded`, and above it those of what follows
    from it. Those up to `applied` hold what gold has applied."""

    decoded: int

    @property
    def pairs(self) -> int:
        return self.decoded + 1

    @property
    def shards(self) -> int:
        return self.decoded + 2

    @property
    def applied(self) -> int:
        """The last batch of what gold has applied; also that of the truncates which new generations
        are."""
        return self.decoded + 3

    @property
    def waiting(self) -> int:
        return self.decoded + 4

    @property
    def waiting_pairs(self) -> int:
        return self.decoded + 5


class _Unapplied(NamedTuple):
    """What gold has not applied of a source.

    `unseen`: SQL of the rows of silver that gold has not looked at. `applied_at`: for each name
    whose rows gold has looked at and left waiting, the last batch that was applied. `begins`:
    silver's first batch, if a redecode was killed.
    """

    unseen: str
    applied_at: dict[SourceTable, int]
    begins: int | None = None


def _unapplied(warehouse: Warehouse, source: str) -> _Unapplied:
    """What gold has not applied, by its own progress or, after a kill, by the numbers of silver's
    batches."""
    progress_by_target = load_progress(warehouse)
    ledger = Ledger(warehouse, source, progress_by_target=progress_by_target)
    own = [each for each in targets_of(progress_by_target, source).values() if each.watermarks]
    if not own:
        return _Unapplied("false", {})
    cursor = source_cursor(progress_by_target, source)
    last, partly = cursor.last_batch, cursor.applied_rows
    closed, lowest = ledger.closed_names(), _lowest_batch(warehouse, source)
    unreached = any(each.outdated == "decoding" for each in own)
    # A redecode was killed after its commit: neither the cursor nor the progress of a target that
    # it did not come to has the new numbers.
    begins = lowest if lowest in cursor.redecoded and (unreached or last < lowest) else None
    if begins is not None:
        last, partly = _Numbers(begins).applied, "true"
    if begins is not None and unreached:
        return _Unapplied(texts.unseen(last, partly), dict.fromkeys(closed, last), begins)
    applied_at = applied_beyond(ledger, cursor)
    for table in closed:
        route = ledger.route(ledger.first_name(table))
        tables = {} if route is None else ledger.progress_of(route).tables
        applied_at[table] = tables.get(table.path, 0)
    return _Unapplied(texts.unseen(last, partly), applied_at, begins)


def _lowest_batch(warehouse: Warehouse, source: str) -> int:
    """The lowest batch with rows of a source; 0 where it has none."""
    silver = warehouse.read("silver", "cdc").where(equal(source=source))
    row = silver.agg(F.min("batch")).first()
    return row[0] if row is not None and row[0] is not None else 0


def _decoded(
    warehouse: Warehouse, source: Source, unapplied: _Unapplied, *, to: _Numbers
) -> tuple[Counts, int]:
    """Replace the source's rows; gives the counts of the new ones, and how many messages keep
    theirs."""
    silver = warehouse.read("silver", "cdc").where(F.col("source") == source.name)
    bronze = warehouse.read("bronze", "messages").where(F.col("source") == source.name)
    decoded_before = silver.select(*MESSAGE).distinct()
    messages = bronze.join(decoded_before, list(MESSAGE), "left_semi").select(*INPUT)
    messages = placed_again(warehouse, source, messages)
    run = decode({source.name: decode_spec(source)})
    decoded = messages.sortWithinPartitions(*MESSAGE).mapInArrow(run, SILVER_COLUMNS)
    rest = silver.join(bronze.select(*MESSAGE), list(MESSAGE), "left_anti").drop("batch")
    kept = rest.select(*MESSAGE).distinct().count()
    rows = decoded.unionByName(rest) if kept else decoded
    if source.shards:
        # If this is killed after its commit and not repeated, the next run joins them.
        walk_from(warehouse.checkpoint("silver", source.name), to.decoded)
    with _numbering(warehouse, source.name, unapplied, to=to) as numbered:
        rows = numbered(to.decoded)(rows).select(*silver.columns)
        own = equal(source=source.name)
        warehouse.replace(rows, "silver", "cdc", where=own, note=to.waiting_pairs)
        now = warehouse.read("silver", "cdc").where(F.col("source") == source.name)
        counts = count(now.where(F.col("batch") >= to.decoded))
        _join(warehouse, source, counts, to=to, numbered=numbered(to.shards))
    return counts._replace(messages=counts.messages - kept), kept


def _join(
    warehouse: Warehouse,
    source: Source,
    counts: Counts,
    *,
    to: _Numbers,
    numbered: Callable[[DataFrame], DataFrame],
) -> None:
    """Append the joined halves and shards of the source's rows."""
    top = to.waiting_pairs
    if source.splits_updates:
        for batch, next_ in ((to.decoded, to.pairs), (to.waiting, to.waiting_pairs)):
            once = ("silver/redecode/pairs", batch)
            join_split_updates(
                warehouse, source, batch, counts=counts, once=once, to=next_, top=top
            )
    if source.shards:
        checkpoint = warehouse.checkpoint("silver", source.name)
        walk_from(checkpoint, to.decoded, anew=True)
        span, came = (to.decoded - 1, top), bool(counts.shards)
        join_chunks(warehouse, source, checkpoint, span=span, came=came, numbered=numbered)


@contextmanager
def _numbering(
    warehouse: Warehouse, source: str, unapplied: _Unapplied, *, to: _Numbers
) -> Iterator[_Numbering]:
    """The function that gives all rows one batch, or another one to those rows that are not
    applied."""
    unseen, applied_at, _ = unapplied
    silver = warehouse.name("silver", "cdc")

    def all_as(batch: int) -> Callable[[DataFrame], DataFrame]:
        return lambda rows: rows.withColumn("batch", F.lit(batch).cast("bigint"))

    some = texts.any_unseen(silver, source=source, unseen=unseen)
    if not applied_at and warehouse.session.sql(some).isEmpty():
        yield all_as
        return
    # Stored beforehand: after the commit silver no longer tells what was applied.
    least = min(applied_at.values(), default=None)
    asked = texts.messages(silver, source=source, unseen=unseen, above=least)
    with set_down(warehouse, warehouse.session.sql(asked)) as table:
        messages = warehouse.session.table(table)
        if messages.isEmpty():
            yield all_as
            return

        def split(batch: int) -> Callable[[DataFrame], DataFrame]:
            waits = F.when(F.expr(texts.is_unapplied(applied_at)), F.lit(to.waiting))
            number = F.coalesce(waits, F.lit(batch)).cast("bigint")
            return lambda rows: rows.join(messages, list(MESSAGE), "left").withColumn(
                "batch", number
            )

        yield split


def _forget_rejects(warehouse: Warehouse, source: str) -> None:
    """Remove what replays noted about messages that are decoded anew, except about dismissed
    ones."""
    if warehouse.exists("gold", "_rejects"):
        own = f"{equal(stage='decode', source=source)} AND status <> 'dismissed'"
        warehouse.execute(delete(warehouse.name("gold", "_rejects"), own))


def _empty_again(warehouse: Warehouse, source: str, *, batch: int) -> None:
    """Bring back, as this batch, the truncates that new generations of tables are."""
    entries = load_entries(warehouse, source).values()
    applied = [e for e in entries if e.recreates and e.status == "applied"]
    append_truncates(warehouse, applied, batch=batch)


def _reached(warehouse: Warehouse, source: str, to: _Numbers) -> list[str]:
    """Note how far each target of the source is once it is rebuilt from silver as it is now."""
    progress_by_target = load_progress(warehouse)
    ledger = Ledger(warehouse, source, progress_by_target=progress_by_target)
    batches = last_batches(warehouse.name("silver", "cdc"), source=source)
    rows = warehouse.session.sql(batches).collect()
    own = targets_of(progress_by_target, source)
    # A source table that is parked by itself is not part of a rebuild, and comes after it.
    led = {table for known in known_targets(warehouse).fed.values() for table, _ in known.tables}
    came = {SourceTable(source, *names): batch for *names, batch in rows}
    before = {SourceTable(source, *names) for p in own.values() for names in p.tables}
    # Some tables that were applied may have nothing decoded this time.
    found = dict.fromkeys(before - came.keys(), to.applied)
    found |= {table: batch for table, batch in came.items() if table in led}
    fed: dict[str, dict[Names, int]] = {}
    for table, batch in found.items():
        route = ledger.route(ledger.first_name(table))
        if route is not None:
            fed.setdefault(route.target, {})[table.path] = min(batch, to.applied)
    noted: list[Progress] = []
    for target, progress in own.items():
        if progress.outdated is None:
            continue
        watermarks = {
            label: _with_horizons_at(known, to.applied)
            for label, known in progress.watermarks.items()
        }
        now = replace(
            progress,
            watermarks=watermarks,
            batch=to.applied,
            below=None,
            partly_applied=None,
            tables=fed.get(target, {}),
        )
        noted.append(_outdated(now, "decoded"))
        kept = {label: known.horizons for label, known in watermarks.items()}
        if any(kept.values()) and warehouse.exists("gold", target):
            keep_horizons(warehouse, target, kept)
    cursor = source_cursor(progress_by_target, source)
    cursor = replace(cursor.uncounted(), reached=to.applied)
    record_progress(warehouse, [*noted, cursor], progress_by_target)
    return [row.target for row in noted]


def _with_horizons_at(known: Watermarks, last: int) -> Watermarks:
    """The watermarks with the horizons of a source table once everything that is left of it is in
    present batches, up to `last`."""
    return replace(known, horizons=tuple(each._replace(batch=last) for each in known.horizons))
