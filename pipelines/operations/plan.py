"""`ingest plan`: what the next run would do, judged by what there is now; nothing is written.

What waits is looked up where it is: files and topics beyond what bronze has read, messages of
bronze that silver has not decoded, changes of silver that gold has not applied. How many events the
first two will become is an estimate, from what the source's messages became so far; for files also
from how many messages the last files had for their size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ingest.config.routes import Route
from ingest.config.sources import Source
from ingest.errors import IngestError
from ingest.names import label_of, lowered
from ingest.sql.silver import changes_per_message
from ingest.sql.tables.alter import script
from pipelines.bronze.files import messages_to_read
from pipelines.bronze.transport import Waiting
from pipelines.bronze.transports import transport_of, unread_of
from pipelines.gold import cadence
from pipelines.gold.advance import gone_sentence
from pipelines.gold.known_targets import gold_tables
from pipelines.gold.run import Foreseen, foreseen
from pipelines.ledger.entries import WAITING, Entry, load_entries
from pipelines.operations.status import Failed, undecoded
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.projects import check
from pipelines.targets.progress import Progress, ProgressByTarget, load_progress, moment

SOURCE = ("kind", "source", "new_files", "new_messages", "to_decode", "estimated_events", "waits")
PARTITION = ("kind", "source", "topic", "partition", "start", "end", "messages")
DDL = ("kind", "id", "source", "table", "target", "action", "class", "statement", "proposed")


class Table(NamedTuple):
    """What would become of a target, or of a source table that is parked by itself."""

    kind: str
    table: str
    source: str
    source_tables: list[str]
    events: int
    action: str
    why: str | None


TABLE = Table._fields


class Plan(NamedTuple):
    """What the next run would do: rows of the columns SOURCE, PARTITION, TABLE and DDL."""

    sources: list[list[Any]]
    partitions: list[list[Any]]
    tables: list[Table]
    ddl: list[list[Any]]


class Beyond(NamedTuple):
    """What a transport has that bronze has not read: files, or messages, and these by partition if
    it has some. None: not a thing of this transport, or not known. `expected`: about how many
    messages that is, if those of files were not counted."""

    files: int | None
    messages: int | None
    partitions: Sequence[Waiting]
    expected: int | None


def plan(warehouse: Warehouse, sources: Sequence[str], *, failed: Failed) -> Plan:
    """What the next run of these sources would do; `failed` is told of what cannot be looked up.

    The `action` of a table is `create`, `merge`, `park`, or `rest` if its turn by `merge_every` has
    not come. That of a schema change is `apply`, `review` (it would wait for a decision), `log`
    (nothing would change in gold) or `wait` (it waits already).
    """
    made = Plan([], [], [], [])
    lag = undecoded(warehouse)
    progress_by_target = load_progress(warehouse)
    per_message = _events_per_message(warehouse)
    for name in sources:
        source = warehouse.config.sources[name]
        try:
            check(warehouse, name)
        except IngestError as error:
            failed(f"source {name}", error)
            continue
        waiting = beyond(warehouse, source, failed)
        made.partitions.extend(
            ["partition", name, *span, span.end - span.start] for span in waiting.partitions
        )
        coming = _foreseen(warehouse, name, progress_by_target=progress_by_target, failed=failed)
        tables = list(_tables(warehouse, name, coming, progress_by_target=progress_by_target))
        estimate = _estimate(
            per_message.get(name),
            new=waiting.expected,
            to_decode=lag.get(name, 0),
            ready=sum(table.events for table in tables if table.action != "rest"),
        )
        made.sources.append(
            ["source", name, *waiting[:2], lag.get(name, 0), estimate, coming.waits]
        )
        made.tables.extend(tables)
        made.ddl.extend(_ddl(warehouse, name, coming.statements))
    return made


def _foreseen(
    warehouse: Warehouse,
    source: str,
    *,
    progress_by_target: ProgressByTarget,
    failed: Failed,
) -> Foreseen:
    if warehouse.exists("silver", "cdc"):
        try:
            return foreseen(warehouse, source, progress_by_target=progress_by_target)
        except Exception as error:
            failed(f"source {source}", error)
    return Foreseen({}, {}, [], None)


def beyond(warehouse: Warehouse, source: Source, failed: Failed) -> Beyond:
    """What the source's transport has that bronze has not read; if that cannot be known now,
    `failed` is told why."""
    transport = transport_of(source)
    try:
        if transport.waiting is not None:
            partitions = transport.waiting(warehouse, source)
            count: int | None = sum(span.end - span.start for span in partitions)
            return Beyond(None, count, partitions, count)
        count = unread_of(transport, warehouse, source)
        if source.files is None:
            return Beyond(None, count, (), count)
        # If there are no new files, they need not be listed a second time.
        return Beyond(count, None, (), messages_to_read(warehouse, source) if count else count)
    except Exception as error:
        # The failure of one source does not stop the others.
        failed(f"source {source.name}", error)
        return Beyond(None, None, (), None)


def _events_per_message(warehouse: Warehouse) -> Mapping[str, tuple[int, int]]:
    """By source, how many changes silver has, and of how many messages."""
    if not warehouse.exists("silver", "cdc"):
        return {}
    found = warehouse.session.sql(changes_per_message(warehouse.name("silver", "cdc")))
    return {source: (changes, messages) for source, changes, messages in rows(found)}


def _estimate(
    so_far: tuple[int, int] | None, *, new: int | None, to_decode: int, ready: int
) -> int | None:
    """How many events a run would apply: `ready` ones, and those that new or undecoded messages
    will become. None if it is not known how many messages are new, as with the first files, or what
    the source's messages become."""
    if new is None:
        return None
    messages = new + to_decode
    if not messages:
        return ready
    if so_far is None or not so_far[1]:
        return None
    return ready + round(messages * so_far[0] / so_far[1])


def _tables(
    warehouse: Warehouse, source: str, coming: Foreseen, *, progress_by_target: ProgressByTarget
) -> Iterator[Table]:
    """What would become of each target with changes, and of source tables that are parked by
    themselves."""
    there = lowered(gold_tables(warehouse))
    for target, batch in sorted(coming.batches.items()):
        progress = progress_by_target.get((source, target))
        why = batch.error
        made = target.lower() in there
        if why is None and not made and progress is not None and progress.watermarks:
            why = gone_sentence(target)
        action = "park" if why is not None else "merge" if made else "create"
        if why is None and progress is not None and progress.status == "parked":
            why = f"it is parked, and tried again: {progress.error}"
        elif why is None and progress is not None:
            if cadence.rests(batch.route, progress, events=batch.rows, at=cadence.now()):
                action, why = "rest", _why_it_rests(batch.route, progress)
        tables = sorted(map(label_of, batch.stats))
        yield Table("table", target, source, tables, batch.rows, action, why)
    for table, why in coming.apart.items():
        yield Table("table", label_of(table), source, [label_of(table)], 0, "park", why)


def _why_it_rests(route: Route, progress: Progress) -> str:
    """The sentence on a target whose turn has not come."""
    every = route.merge_every
    due = moment(every.due_at(progress.merged_at)) if every is not None else None
    until = f", its next turn is at {due:%Y-%m-%d %H:%M:%S} UTC" if due is not None else ""
    return f"it is merged every {every}{until}"


def _ddl(warehouse: Warehouse, source: str, statements: Sequence[Entry]) -> Iterator[list[Any]]:
    """What would become of the schema changes that are new, and those that wait."""
    waiting = [
        entry for entry in load_entries(warehouse, source).values() if entry.status in WAITING
    ]
    gold = warehouse.settings.schemas.gold
    for entry, action in (
        *((entry, _action(entry)) for entry in statements),
        *((entry, "wait") for entry in waiting),
    ):
        proposed = script(f"{gold}.{entry.target}", entry.proposed) if entry.proposed else None
        yield [
            "ddl",
            entry.id,
            source,
            label_of(entry.table),
            entry.target,
            action,
            entry.risk,
            entry.statement,
            proposed,
        ]


def _action(entry: Entry) -> str:
    """What a run would do with a new schema change."""
    match entry.status:
        case "approved" | "applied":
            return "apply"
        case "pending":
            return "review"
        case _:
            return "log"
