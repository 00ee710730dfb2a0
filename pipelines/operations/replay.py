"""`ingest rejects replay`: what was set aside, tried again with today's code and configuration.

The bytes of messages that could not be decoded are in bronze. They are decoded once more, and the
result is appended to silver in one commit, each row at its own position and epoch, as gold's next
batch. A message of which silver has rows is done; so a replay that was killed can be told from one
that never ran, and a second one does nothing. Events that gold set aside are dealt with by
`pipelines.gold.retyping`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.codes import Code
from ingest.config.sources import Source
from ingest.decode.batches import decode
from ingest.decode.silver_rows import SILVER_COLUMNS
from ingest.decode.spec import decode_spec
from ingest.events import SILVER
from ingest.sql.delivery import MESSAGE
from ingest.sql.rejects import replayed as texts
from pipelines.gold.approvals import finish
from pipelines.gold.known_targets import known_targets
from pipelines.gold.retyping import replay_target, tables_of, waiting_targets
from pipelines.gold.run import Merged, merge_tables
from pipelines.gold.shared_keys import hand_over
from pipelines.ledger import decisions
from pipelines.ledger.drift import Drift
from pipelines.ledger.store import Ledger
from pipelines.platform.leases import lease
from pipelines.platform.rows import temporary_view
from pipelines.platform.scratch import set_down
from pipelines.platform.warehouse import Warehouse
from pipelines.silver import declarations, projects
from pipelines.silver.arrivals import placed_again
from pipelines.silver.chunks import join_chunks, walk_from
from pipelines.silver.counts import count
from pipelines.silver.split_updates import completed_pairs
from pipelines.silver.stream import INPUT, last_batch
from pipelines.targets.contract import made_otherwise
from pipelines.targets.progress import load_progress
from pipelines.targets.rejects import (
    REJECTS,
    create_rejects,
    merge_rejects,
    table_of,
)


class Replayed(NamedTuple):
    """What became of the rejects of one stage of one source."""

    stage: str
    source: str
    tried: int
    resolved: int


class Replay(NamedTuple):
    """What one replay did: with the rejects of each stage, and in gold."""

    stages: tuple[Replayed, Replayed]
    merged: list[Merged]


def replay(warehouse: Warehouse, source: str, *, code: str | None) -> Replay:
    """Try the open rejects of a source again; with `code`, only those with that code.

    Raises SourceError if silver was decoded by other declarations than today's.
    """
    projects.check(warehouse, source)
    if not warehouse.exists("silver", "cdc"):
        return Replay((Replayed("decode", source, 0, 0), Replayed("gold", source, 0, 0)), [])
    # Rejects are a table of gold: without its lease, this or a run that sets others aside would be
    # refused.
    with lease(warehouse, "gold"), lease(warehouse, "silver"):
        declared = warehouse.config.sources[source]
        declarations.check(warehouse, declared)
        decoded = _decoded(warehouse, declared, code)
    merged = merge_tables(warehouse, sources=[source]) if decoded.resolved else []
    merged += _created(warehouse, source)
    with lease(warehouse, "gold"):
        typed = _typed(warehouse, source, code=code)
    return Replay((decoded, typed), merged)


def _decoded(warehouse: Warehouse, source: Source, code: str | None) -> Replayed:
    """Decode the open rejects of silver once more, only once, and record what became of them.

    Only counts come to the driver.
    """
    create_rejects(warehouse)
    tried = _counted(warehouse, source.name, code)
    if not tried.found:
        return Replayed("decode", source.name, 0, 0)
    # If it were decoded twice, the results could differ.
    with set_down(warehouse, _today(warehouse, source, code)) as table:
        decoded = warehouse.session.table(table)
        failed = decoded.where("kind = 'reject'")
        good = decoded.join(failed.select(*MESSAGE).distinct(), list(MESSAGE), "left_anti")
        if tried.found > tried.done and not good.isEmpty():
            _append(warehouse, source, good)
        # What silver has by now is done, whoever appended it.
        now = _counted(warehouse, source.name, code)
        _note(warehouse, source.name, code, failed=failed)
    return Replayed("decode", source.name, now.found, now.done)


class _Counted(NamedTuple):
    """How many open rejects there are, and for how many of them silver has rows of the message."""

    found: int
    done: int


def _counted(warehouse: Warehouse, source: str, code: str | None) -> _Counted:
    row = warehouse.session.sql(texts.counted(_undecoded(warehouse, source, code))).first()
    assert row is not None
    return _Counted(*row)


def _today(warehouse: Warehouse, source: Source, code: str | None) -> DataFrame:
    """The silver rows that the messages of open rejects become today."""
    run = decode({source.name: decode_spec(source)})
    messages = _messages(warehouse, source.name, code).select(*INPUT)
    messages = placed_again(warehouse, source, messages)
    return messages.sortWithinPartitions(*MESSAGE).mapInArrow(run, SILVER_COLUMNS)


def _append(warehouse: Warehouse, source: Source, good: DataFrame) -> None:
    """Append to silver, in one commit, what could be decoded, with the updates that it completes.
    Records in parts are put together afterwards, or by the next run if this one is killed."""
    batch = last = last_batch(warehouse) + 1
    rows = good.withColumn("batch", F.lit(batch).cast("bigint"))
    rows = rows.select([column.name for column in SILVER])
    if source.splits_updates:
        pairs = completed_pairs(
            warehouse, source, batch, counts=count(rows), to=batch + 1, coming=rows
        )
        if pairs is not None and not pairs.isEmpty():
            rows, last = rows.unionByName(pairs), batch + 1
    checkpoint = warehouse.checkpoint("silver", source.name)
    if source.shards:
        walk_from(checkpoint, batch)
    once = ("silver/replay", warehouse.next_version("silver", "cdc"))
    warehouse.append(rows, "silver", "cdc", once=once, note=last)
    if source.shards:
        join_chunks(warehouse, source, checkpoint, span=(batch - 1, last), came=True)


def _note(warehouse: Warehouse, source: str, code: str | None, *, failed: DataFrame) -> None:
    """Record what became of the open rejects: which are done, and why the others are not."""
    undecoded, columns = _undecoded(warehouse, source, code), [name for name, _ in REJECTS]
    with temporary_view(failed) as view:
        merge_rejects(warehouse, texts.as_rejects(undecoded, view, source=source, columns=columns))


def _undecoded(warehouse: Warehouse, source: str, code: str | None) -> str:
    """SQL of the open rejects of silver; `done`: silver has rows of the message."""
    silver = warehouse.name("silver", "cdc")
    return texts.undecoded(silver, table_of(warehouse), source=source, code=code)


def _messages(warehouse: Warehouse, source: str, code: str | None) -> DataFrame:
    """The messages of open rejects that silver has no rows of, as bronze holds them."""
    undecoded = warehouse.session.sql(texts.messages(_undecoded(warehouse, source, code)))
    bronze = warehouse.read("bronze", "messages").where(F.col("source") == source)
    return bronze.join(undecoded, list(MESSAGE), "left_semi")


def _created(warehouse: Warehouse, source: str) -> list[Merged]:
    """Make the targets that could not be made for want of a key, if they have one now."""
    if not warehouse.exists("gold", "_rejects"):
        return []
    waiting = waiting_targets(warehouse, source, Code.NO_KEY.value)
    lacking = [target for target in waiting if not warehouse.exists("gold", target)]
    if not lacking:
        return []
    return merge_tables(warehouse, sources=[source], targets=lacking)


def _typed(warehouse: Warehouse, source: str, *, code: str | None) -> Replayed:
    """Type the open rejects of gold once more."""
    if not warehouse.exists("gold", "_rejects"):
        return Replayed("gold", source, 0, 0)
    progress_by_target = load_progress(warehouse)
    ledger = Ledger(warehouse, source, progress_by_target=progress_by_target)
    tried = resolved = 0
    fed = known_targets(warehouse).fed
    for target in waiting_targets(warehouse, source, code):
        progress = progress_by_target.get((source, target))
        if progress is not None and progress.outdated is not None:
            continue
        route = fed[target].route if target in fed else None
        if route is not None and progress is not None and made_otherwise(route, progress.contract):
            # Its own message says that nothing is applied to it until it is made anew.
            continue
        grow = partial(_grow, ledger)
        done = replay_target(ledger, target, code=code, attempt=True, begin=grow)
        tried, resolved = tried + done.tried, resolved + done.resolved
        if route is not None:
            hand_over(ledger, route)
    return Replayed("gold", source, tried, resolved)


def _grow(ledger: Ledger, chosen: list[dict[str, Any]]) -> None:
    """Give the target of these rejects the types that are declared for it today."""
    for table in tables_of(ledger.warehouse, ledger.source, chosen):
        route = ledger.route(table)
        if route is not None and route.target == chosen[0]["target"]:
            decisions.enter(ledger, Drift(ledger, table, route).declared(), route)
    ledger.save_staged()
    for entry in ledger.unfinished():
        finish(ledger, entry)
