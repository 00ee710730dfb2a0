"""`ingest redecode --source S`: all of bronze decoded again into silver, by today's configuration.

1. Every target of the source is marked: until it is rebuilt nothing is applied to it.
2. What bronze holds of the messages that silver knows is decoded into one batch, which takes the
   place of the source's rows by one commit of Delta Lake. Messages that retention has taken out of
   bronze keep their rows, in that batch, too. What gold has not applied of tables that wait for a
   decision is in a batch of its own, above it.
3. Halves of updates and shards are joined as behind a stream.
4. What the decoding said of itself is noted: the declaration, rejects that are none any more, how
   far the targets are once they are rebuilt. Then they are.

Readers of silver see the old rows or the new. A process that is killed leaves the targets marked,
and a second call does all of it again, so nothing is there twice. Messages that silver has not seen
yet stay where they are, for the stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.config.declaration import Declaration
from ingest.config.sources import Source
from ingest.decode.batches import decode
from ingest.decode.spec import decode_spec
from ingest.errors import IngestError, SourceError
from ingest.names import SourceTable
from ingest.sql.delivery import MESSAGE
from ingest.sql.quoting import equal
from ingest.sql.silver import last_batches, named
from ingest.sql.tables.rows import delete
from pipelines.gold.backlog import progress_of_route
from pipelines.gold.known_targets import known_targets
from pipelines.gold.run import Merged, merge_tables
from pipelines.ledger.decisions import Ledger
from pipelines.ledger.entries import Entry, load_entries, write_entries
from pipelines.ledger.generations import append_truncates, recreates
from pipelines.ledger.renames import renames
from pipelines.ledger.statements import in_silver
from pipelines.operations.rebuild import Rebuilt, rebuild
from pipelines.platform.leases import lease
from pipelines.platform.warehouse import Warehouse, create_bronze
from pipelines.silver import declarations, projects
from pipelines.silver.arrivals import forget_places, placed_again
from pipelines.silver.counts import Counts, count
from pipelines.silver.shards import join_shards, walk_from
from pipelines.silver.split_updates import join_split_updates
from pipelines.silver.stream import DECODED, INPUT, last_batch
from pipelines.silver.transactions import publish_limit
from pipelines.targets.progress import (
    SOURCE_CURSOR,
    Names,
    Outdated,
    Progress,
    Watermarks,
    create_progress,
    load_progress,
    record_progress,
    source_cursor,
)
from pipelines.targets.table import keep_horizons

_BEHIND = 3
"""How many batches behind the one that is decoded hold what comes of it: pairs, shards that are put
together, and truncates of new generations."""
_PAIRS = "silver/redecode/pairs"

REDECODED = ("kind", "source", "messages", "rows", "rejects", "kept")


class Redecoded(NamedTuple):
    """What silver has of the source now: messages decoded again, rows of all kinds, rejects among
    them, and messages that keep their rows since bronze has them no more. `targets`: what became
    of each, or why it waits."""

    messages: int
    rows: int
    rejects: int
    kept: int
    targets: dict[str, Rebuilt | str]
    merged: list[Merged]


def redecode(warehouse: Warehouse, source: str) -> Redecoded:
    """Decode a source again, see above, and rebuild its targets."""
    declared = warehouse.config.sources[source]
    projects.check(warehouse, source)
    create_bronze(warehouse)
    if not warehouse.exists("silver", "cdc"):
        declarations.remember(warehouse, declared)
        return Redecoded(0, 0, 0, 0, {}, [])
    with lease(warehouse, "gold"), lease(warehouse, "silver"):
        create_progress(warehouse)
        reordered = _reordered(warehouse, declared)
        unapplied = _unapplied(warehouse, source)
        _mark(warehouse, source)
        counts, kept, batch = _decoded(warehouse, declared, unapplied)
        forget_places(warehouse.checkpoint("silver", source))
        _forget_rejects(warehouse, source)
        if reordered:
            _place_entries(warehouse, declared)
        _empty_again(warehouse, source, batch=batch + _BEHIND)
        declarations.remember(warehouse, declared)
        applied = {table[1:]: batch + _BEHIND for table in unapplied}
        rebuilt = _reached(warehouse, source, applied)
    targets = {target: _rebuilt(warehouse, target) for target in rebuilt}
    _mark_unconfirmed(warehouse, source, targets)
    merged = merge_tables(warehouse, sources=[source])
    return Redecoded(counts.messages, counts.rows, counts.rejects, kept, targets, merged)


def _reordered(warehouse: Warehouse, source: Source) -> bool:
    """Whether the source's changes are ordered otherwise than silver has them. Raises SourceError
    where some of these cannot be decoded again: theirs are places of the other order."""
    before = declarations.declared(warehouse, source.name)
    if before is None or before.order == Declaration.of(source).order:
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
    if lost is not None:
        raise SourceError(
            f"source {source.name}: expected all of its history for another order, but {lost}, and "
            "places of two orders cannot be compared; put `order` back, or take a new snapshot "
            "into a source of another name"
        )
    return True


def _place_entries(warehouse: Warehouse, source: Source) -> None:
    """Give the ledger's statements the places that they have in today's order, and the ids by which
    they are known there."""
    entries = load_entries(warehouse, source.name)
    first_names = renames(entries.values())

    def told(entry: Entry) -> tuple[object, ...]:
        first = first_names.get(entry.table, entry.table)
        return first, entry.statement, entry.event_time, entry.kind == "truncate"

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
    """Let what is said of targets whose rebuild waits for a confirmation be that."""
    refused = [name for name, made in targets.items() if isinstance(made, Rebuilt) and made.refused]
    if not refused:
        return
    with lease(warehouse, "gold"):
        progress_by_target = load_progress(warehouse)
        waiting = [progress_by_target[source, target] for target in refused]
        waiting = [_outdated(one, "unconfirmed") for one in waiting if one.outdated == "decoded"]
        record_progress(warehouse, waiting, progress_by_target)


def _mark(warehouse: Warehouse, source: str) -> None:
    """Let nothing be applied to what the source has fed, until it is rebuilt."""
    progress_by_target = load_progress(warehouse)
    own = [
        progress
        for (of, target), progress in progress_by_target.items()
        if of == source and target != SOURCE_CURSOR
    ]
    record_progress(
        warehouse,
        [_outdated(progress, "decoding") for progress in own if progress.watermarks],
        progress_by_target,
    )


def _outdated(progress: Progress, how: Outdated) -> Progress:
    progress = replace(progress.fresh(), outdated=how)
    return replace(progress, status="parked", error=progress.why_outdated)


def _unapplied(warehouse: Warehouse, source: str) -> dict[SourceTable, int]:
    """The source tables whose changes wait for a decision, by each of their names, and up to which
    of silver's batches they are applied."""
    progress_by_target = load_progress(warehouse)
    ledger = Ledger(warehouse, source, progress_by_target=progress_by_target)
    cursor = source_cursor(progress_by_target, source)
    closed = ledger.closed()
    found: dict[SourceTable, int] = {}
    for names in cursor.tables:
        table = SourceTable(source, *names)
        first = ledger.first_names.get(table, table)
        if first in closed:
            route = ledger.route(first)
            applied = {} if route is None else progress_of_route(ledger, route).tables
            found[table] = applied.get(names, 0)
    if not found or all(p.outdated != "decoding" for p in progress_by_target.values()):
        return found
    silver = warehouse.read("silver", "cdc").where(equal(source=source))
    lowest = silver.agg(F.min("batch")).first()
    if lowest is None or lowest[0] is None or lowest[0] <= cursor.batch:
        return found
    # A run was killed behind the commit: silver is numbered anew, gold's progress is not yet.
    return dict.fromkeys(found, lowest[0] + _BEHIND)


def _decoded(
    warehouse: Warehouse, source: Source, unapplied: Mapping[SourceTable, int]
) -> tuple[Counts, int, int]:
    """Replace the source's rows; what there is of them now, how many messages keep theirs, and the
    first batch that they are in."""
    batch = last_batch(warehouse) + 1
    silver = warehouse.read("silver", "cdc").where(F.col("source") == source.name)
    bronze = warehouse.read("bronze", "messages").where(F.col("source") == source.name)
    decoded_before = silver.select(*MESSAGE).distinct()
    messages = bronze.join(decoded_before, list(MESSAGE), "left_semi").select(*INPUT)
    messages = placed_again(warehouse, source, messages)
    run = decode({source.name: decode_spec(source)})
    decoded = messages.sortWithinPartitions(*MESSAGE).mapInArrow(run, DECODED)
    rest = silver.join(bronze.select(*MESSAGE), list(MESSAGE), "left_anti").drop("batch")
    kept = rest.select(*MESSAGE).distinct().count()
    rows = decoded.unionByName(rest) if kept else decoded
    rows = rows.withColumn("batch", F.lit(batch).cast("bigint"))
    late = _waiting(silver, unapplied)
    above = None if late is None else batch + _BEHIND + 1
    if late is not None:
        tables = " OR ".join(f"({named(table)})" for table in unapplied)
        waits = F.col("late") & F.expr(f"kind IN ('change', 'fragment') AND ({tables})")
        rows = rows.join(F.broadcast(late), list(MESSAGE), "left")
        rows = rows.withColumn("batch", F.when(waits, F.lit(above)).otherwise(F.col("batch")))
    own, top = equal(source=source.name), above or batch
    warehouse.replace(rows.select(*silver.columns), "silver", "cdc", where=own, note=top)
    now = warehouse.read("silver", "cdc").where(F.col("source") == source.name)
    counts = count(now.where(F.col("batch") >= batch))
    last = batch
    if source.splits_updates:
        pairs = partial(join_split_updates, warehouse, source, counts=counts)
        last += bool(pairs(batch, once=(_PAIRS, batch), to=batch + 1, top=top))
        if above is not None:
            top += bool(pairs(above, once=(_PAIRS, above), to=above + 1))
    if source.shards:
        checkpoint = warehouse.checkpoint("silver", source.name)
        walk_from(checkpoint, batch, anew=True)
        span = (batch - 1, last)
        came = bool(counts.shards)
        join_shards(warehouse, source, checkpoint, span=span, came=came, top=top)
    return counts._replace(messages=counts.messages - kept), kept, batch


def _waiting(silver: DataFrame, unapplied: Mapping[SourceTable, int]) -> DataFrame | None:
    """The messages with changes that are not applied (`late`); None where there are none."""
    if not unapplied:
        return None
    beyond = (f"({named(table)} AND batch > {batch})" for table, batch in unapplied.items())
    changes = silver.where(f"kind IN ('change', 'fragment') AND ({' OR '.join(beyond)})")
    late = changes.select(*MESSAGE).distinct().withColumn("late", F.lit(True))
    return None if late.isEmpty() else late


def _forget_rejects(warehouse: Warehouse, source: str) -> None:
    """Take away what replays said of messages that are decoded anew, but for what was dismissed."""
    if warehouse.exists("gold", "_rejects"):
        own = f"{equal(stage='decode', source=source)} AND status <> 'dismissed'"
        warehouse.execute(delete(warehouse.name("gold", "_rejects"), own))


def _empty_again(warehouse: Warehouse, source: str, *, batch: int) -> None:
    """Bring back the truncates that new generations of tables are, as this batch."""
    entries = load_entries(warehouse, source).values()
    applied = [e for e in entries if recreates(e) and e.status == "applied"]
    append_truncates(warehouse, applied, batch=batch)


def _reached(warehouse: Warehouse, source: str, applied: Mapping[Names, int]) -> list[str]:
    """Note how far each target of the source is once it is rebuilt from silver as it is now;
    `applied`: of names whose changes wait for a decision, the last batch that is."""
    progress_by_target = load_progress(warehouse)
    ledger = Ledger(warehouse, source, progress_by_target=progress_by_target)
    batches = last_batches(warehouse.name("silver", "cdc"), source=source)
    rows = warehouse.session.sql(batches).collect()
    limit = publish_limit(warehouse, source, above=0)
    # A source table that is parked by itself is in no rebuild, and comes after it.
    led = {table for known in known_targets(warehouse).fed.values() for table, _ in known.tables}
    fed: dict[str, dict[Names, int]] = {}
    seen: dict[Names, int] = {}
    for *names, batch in rows:
        name = SourceTable(source, *names)
        route = ledger.route(ledger.first_names.get(name, name))
        # What an open transaction keeps back is still to come.
        seen[name[1:]] = known = batch if limit.last is None else min(batch, limit.last)
        if route is not None and name in led:
            known = min(known, applied.get(name[1:], known))
            fed.setdefault(route.target, {})[name[1:]] = known
    last = last_batch(warehouse)
    noted: list[Progress] = []
    for (of, target), progress in list(progress_by_target.items()):
        if of != source or target == SOURCE_CURSOR or progress.outdated is None:
            continue
        watermarks = {
            label: _with_horizons_at(known, last) for label, known in progress.watermarks.items()
        }
        now = replace(
            progress,
            watermarks=watermarks,
            batch=limit.last if limit.last is not None else last,
            below=limit.below,
            partly_applied=limit.newest,
            tables=fed.get(target, {}),
        )
        noted.append(_outdated(now, "decoded"))
        kept = {label: known.horizons for label, known in watermarks.items()}
        if any(kept.values()) and warehouse.exists("gold", target):
            keep_horizons(warehouse, target, kept)
    cursor = source_cursor(progress_by_target, source)
    cursor = replace(cursor.fresh(), tables={**cursor.tables, **seen})
    record_progress(warehouse, [*noted, cursor], progress_by_target)
    return [row.target for row in noted]


def _with_horizons_at(known: Watermarks, last: int) -> Watermarks:
    """Where the history of a source table was trimmed, once all that is left of it is in batches
    of now, up to `last`."""
    return replace(known, horizons=tuple(each._replace(batch=last) for each in known.horizons))
