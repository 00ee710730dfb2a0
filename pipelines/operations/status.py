"""`ingest status`: where each source and each target stands, from the tables alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from ingest.config.modes import label
from ingest.config.sources import Source
from ingest.decode.spec import placed_by_timestamp
from ingest.errors import IngestError
from ingest.names import label_of
from ingest.sql.counts import status as counts
from pipelines.bronze.transports import transport_of, unread_of
from pipelines.gold.advance import gone_sentence
from pipelines.gold.cadence import Turn, turns
from pipelines.gold.known_targets import gold_tables
from pipelines.ledger.entries import load_entries
from pipelines.ledger.generations import frozen
from pipelines.operations.lags import Unapplied, unapplied, undecoded_since
from pipelines.operations.listings import ddl
from pipelines.platform.rows import Record, records
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.projects import check
from pipelines.targets.progress import (
    SOURCE_CURSOR,
    contract_in,
    has_rows_applied,
    is_target,
    moment,
)
from pipelines.targets.rejects import table_of
from pipelines.terminal.console import Advance

SOURCE = tuple(
    """
    kind source messages decoded_rows lag lag_seconds unread_files unread_messages rejects
    stepped_back gaps error
    """.split()
)
TABLE = tuple(
    """
    kind table source rows last_pos freshness age_seconds lag_seconds waiting late rejected parked
    error pending_ddl rows_of_old_epochs mode masks merge_every next_merge
    """.split()
)


_GAPS = 20
Failed = Callable[[str, Exception], None]
"""Is told what cannot be looked up, and why; the rest goes on."""


def source_rows(warehouse: Warehouse, *, failed: Failed) -> list[Record]:
    """A row for each declared source, by the columns SOURCE.

    `messages` are those of bronze; `decoded_rows` what silver has of messages that could be
    decoded. `lag` counts messages of bronze that silver has not looked at, and `lag_seconds` says
    how long the oldest of them has waited (0 if there is none). `unread_files` counts files that
    bronze has not read, `unread_messages` what topics and queues have beyond bronze (null for the
    other transport, and if it cannot be asked now). `stepped_back` counts messages whose timestamps
    contradict the order of their partition, `gaps` the spans of messages that were gone before they
    were read. `error` says why the transport cannot be asked, and `failed` is told so: the folder
    or the broker is not there, or the log of files is damaged.
    """
    messages = _messages(warehouse)
    lag = undecoded(warehouse, messages)
    rejects = _counts(
        warehouse,
        "silver",
        "cdc",
        counted=lambda silver: counts.open_decode_rejects(
            silver,
            table_of(warehouse) if warehouse.exists("gold", "_rejects") else None,
        ),
    )
    back = _stepped_back(
        warehouse,
        [name for name, source in warehouse.config.sources.items() if placed_by_timestamp(source)],
    )
    decoded, gaps = _decoded_and_gaps(warehouse)
    since = undecoded_since(warehouse, [name for name, behind in lag.items() if behind])

    def row(name: str, source: Source) -> Record:
        count, error = _unread(warehouse, source, failed=failed)
        values = [
            "source",
            name,
            messages.get(name, 0),
            decoded.get(name, 0),
            lag.get(name, 0),
            age(since.get(name)) or 0,
            *((count, None) if source.files is not None else (None, count)),
            rejects.get(name, 0),
            back.get(name, 0),
            gaps.get(name, 0),
            error,
        ]
        return dict(zip(SOURCE, values, strict=True))

    return [row(name, source) for name, source in warehouse.config.sources.items()]


def _messages(warehouse: Warehouse) -> dict[str, int]:
    """How many messages bronze has, by source."""
    return _counts(warehouse, "bronze", "messages", counted=counts.by_source)


def undecoded(warehouse: Warehouse, messages: dict[str, int] | None = None) -> dict[str, int]:
    """How many messages of bronze silver has not decoded, by source; `messages`: how many there
    are."""
    messages = _messages(warehouse) if messages is None else messages
    # Offsets are counted, since a message may have several rows: a joined pair of halves has a
    # second row 0. Those of bronze are counted among them, since retention removes messages once
    # they are decoded.
    known = _counts(
        warehouse, "silver", "cdc", counted=lambda silver: counts.messages_known([silver])
    )
    if not known:
        return messages
    bronze = warehouse.name("bronze", "messages")
    reached = _counts(
        warehouse,
        "silver",
        "cdc",
        counted=lambda silver: counts.messages_known([silver, bronze]),
    )
    return {name: reached.get(name, 0) - known.get(name, 0) for name in messages}


def _stepped_back(warehouse: Warehouse, sources: Collection[str]) -> dict[str, int]:
    """How many messages came with a timestamp that is not their place by arrival."""
    if not sources:
        return {}
    return _counts(
        warehouse, "silver", "cdc", counted=lambda silver: counts.stepped_back(silver, sources)
    )


def age(time: datetime | None) -> int | None:
    """How many whole seconds ago that was; None if it never was."""
    return None if time is None else max(0, int((datetime.now(UTC) - time).total_seconds()))


def table_rows(
    warehouse: Warehouse, *, advance: Advance, failed: Failed, counting: bool = True
) -> list[Record]:
    """A row for each target, created or not, and for each source table that is parked by itself, by
    the columns TABLE. `advance` is told of each that is done, `failed` what cannot be counted.

    `age_seconds`: how long ago the newest applied change happened. `waiting`: how many changes are
    not applied; `lag_seconds`: how long the oldest of those has waited that wait for a run and not
    for a decision, 0 if there is none. `merge_every`: how often the target is merged, if its tables
    file says so; `next_merge`: when its turn comes, or came, to take in what waits. Without
    `counting`, `rows` are not counted.
    """
    last_runs = {
        row["target"]: row
        for row in _progress(warehouse)
        # A source table has a row of its own only while it is parked.
        if is_target(row["target"]) or row["status"] == "parked"
    }
    schema_changes = ddl(warehouse)
    pending = Counter(c["target"] for c in schema_changes if c["status"] == "pending")
    rejected = _rejected(warehouse)
    created = set(gold_tables(warehouse))
    waiting = unapplied(warehouse, schema_changes)
    turn_of = turns(warehouse)

    def row(target: str) -> Record:
        last_run = last_runs.get(target, {})
        source = warehouse.config.sources.get(last_run.get("source", ""))
        epoch = source.epoch if source is not None else 0
        total, old = (None, None) if target in created else (0, 0)
        if target in created and counting:
            total, old = _size(warehouse, target, epoch, last_run=last_run, failed=failed)
        parked, why = _parked(last_run, target, created)
        changes, since = waiting.get(target, Unapplied())
        advance(target, False)
        values = [
            "table",
            target,
            last_run.get("source"),
            total,
            last_run.get("last_pos"),
            last_run.get("freshness"),
            age(last_run.get("freshness")),
            age(since) or 0,
            changes,
            last_run.get("late") or 0,
            rejected.get(target, 0),
            parked,
            why,
            pending[target],
            old,
            label(contract := contract_in(last_run.get("state"))),
            list(contract.masks or ()) if contract is not None else [],
            *turn_told(turn_of.get(target), None if parked else since),
        ]
        return dict(zip(TABLE, values, strict=True))

    with ThreadPoolExecutor(max_workers=warehouse.settings.merge_threads) as pool:
        return list(pool.map(row, sorted({*created, *last_runs})))


def _parked(
    last_run: Mapping[str, Any], target: str, created: Collection[str]
) -> tuple[bool, str | None]:
    """Whether a target is parked, and why."""
    if target not in created and has_rows_applied(last_run.get("state")):
        return True, gone_sentence(target)
    return last_run.get("status") == "parked", last_run.get("error")


def turn_told(
    turn: Turn | None, waiting_since: datetime | None
) -> tuple[str | None, datetime | None]:
    """How often a target is merged, and when its turn comes; no turn comes before something
    waits."""
    if turn is None:
        return None, None
    due = moment(turn.due)
    return str(turn.cadence), max(due, waiting_since) if due and waiting_since else None


def _rejected(warehouse: Warehouse) -> dict[str, int]:
    """How many rejects of gold are open, by target."""
    return _counts(warehouse, "gold", "_rejects", counted=counts.open_rejects)


def _progress(warehouse: Warehouse) -> list[dict[str, Any]]:
    """The newest row of each target. `late` is the sum over all its runs that are kept
    (`retention.runs`) of the keys that late changes caused to be folded again and of the late
    changes that newer ones had overtaken."""
    if not warehouse.exists("gold", "_progress"):
        return []
    progress = warehouse.name("gold", "_progress")
    return records(warehouse.session.sql(counts.last_runs(progress, but=SOURCE_CURSOR)))


def _size(
    warehouse: Warehouse,
    target: str,
    epoch: int,
    *,
    last_run: Mapping[str, Any],
    failed: Failed,
) -> tuple[int | None, int | None]:
    """The number of rows, and of those that were not seen again since the source's epoch was raised
    (semantics.md, 15); None if they cannot be counted. The second number is None for targets that
    keep versions or images: these stay at the position that they came with, however often their
    contents are seen again."""
    session: SparkSession = warehouse.session
    try:
        size = counts.rows_of_epochs(warehouse.name("gold", target), below=epoch)
        row = session.sql(size).first()
    except Exception as error:
        failed(f"table {target}", error)
        return None, None
    if row is None:
        return 0, 0
    contract = contract_in(last_run.get("state"))
    return int(row[0]), int(row[1]) if contract is None or contract.keeps.latest else None


def _counts(
    warehouse: Warehouse, layer: str, table: str, *, counted: Callable[[str], str]
) -> dict[str, int]:
    """The counts that SQL makes of a table, given by its name, by first column; nothing if the
    table does not exist."""
    if not warehouse.exists(layer, table):
        return {}
    found = warehouse.session.sql(counted(warehouse.name(layer, table)))
    return {row[0]: int(row[1]) for row in found.collect()}


def _decoded_and_gaps(warehouse: Warehouse) -> tuple[dict[str, int], dict[str, int]]:
    """By source, how many rows silver has of messages that could be decoded, and how many gaps."""
    if not warehouse.exists("silver", "cdc"):
        return {}, {}
    counted = counts.decoded_and_gaps(warehouse.name("silver", "cdc"))
    found = warehouse.session.sql(counted).collect()
    return {name: n for name, n, _ in found}, {name: n for name, _, n in found}


def gap_notes(warehouse: Warehouse) -> list[str]:
    """A sentence on each of the newest gaps: which messages were gone before they were read."""
    if not warehouse.exists("silver", "cdc"):
        return []
    silver = warehouse.name("silver", "cdc")
    found = warehouse.session.sql(counts.gaps(silver, most=_GAPS))
    return [
        f"source {row['source']}: {row['topic']}/{row['partition']} {row['offsets']} were gone"
        " before they were read"
        for row in reversed(records(found))
    ]


def frozen_notes(warehouse: Warehouse) -> list[str]:
    """A sentence on each source table that was dropped, by an approved entry, so that its target no
    longer changes."""
    entries = load_entries(warehouse)
    gone = {table for table in frozen(entries.values()) if table.source in warehouse.config.sources}
    targets = {(e.target, e.table) for e in entries.values() if e.target and e.table in gone}
    return [
        f"table {target}: {label_of(table)} was dropped at its source, and that is approved: what "
        "comes for it stays in silver until its CREATE is approved"
        for target, table in sorted(targets, key=str)
    ]


def _unread(
    warehouse: Warehouse, source: Source, *, failed: Failed
) -> tuple[int | None, str | None]:
    """How many files or messages the transport has that bronze has not read, or why that is not
    known."""
    try:
        check(warehouse, source.name)
        return unread_of(transport_of(source), warehouse, source), None
    except IngestError as error:
        failed(f"source {source.name}", error)
        return None, str(error)
