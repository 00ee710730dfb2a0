"""Messages of Kafka whose time Spark cannot hold, read and appended without Spark.

A producer may give any number of milliseconds as the time of a message, and brokers up to 3.x
accept it: nanoseconds by mistake, for example. Spark counts in microseconds, and if there is a
message with too many of them, its source fails for the whole batch, again and again.

So when a batch failed, what it was to read is searched. Partitions that have such a message are
read to their end without Spark; its time becomes the last of the calendar (or the first), and the
number that came is kept in the header TIME_HEADER. Then the stream begins anew behind what bronze
has, as after a loss. A run that is killed meanwhile leaves nothing that would be done twice, since
bronze shows how far it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from ingest.config.sources import Source
from ingest.files.record import Record
from pipelines.bronze.by_offset.source import Client, Partition, partition_batch, portions
from pipelines.bronze.stream import bronze_rows
from pipelines.bronze.transport import Stop, Waiting
from pipelines.platform.warehouse import Warehouse

TIME_HEADER = "kafka.timestamp"
_MOST = (1 << 63) // 1000 - 1
"""The most milliseconds of which Spark can make microseconds of 64 bits."""
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999  # of the years 1 and 9999
_BATCH_MESSAGES, _BATCH_BYTES = 20_000, 32 << 20


def far_times(
    client: Client, waits: Iterable[Waiting], planned: Mapping[Partition, int]
) -> list[Waiting]:
    """What waits in those partitions in which such a message is among those that a batch was
    planned to read."""

    def has_one(wait: Waiting) -> bool:
        partition = Partition(wait.topic, wait.partition)
        end = min(wait.end, planned.get(partition, wait.end))
        records = client.read(partition, start=wait.start, end=end)
        return any(abs(record.timestamp or 0) > _MOST for record in records)

    return [wait for wait in waits if has_one(wait)]


def planned_ends(checkpoint: str) -> dict[Partition, int]:
    """Where the last planned batch of a stream ends; empty if none was planned."""
    batches = [int(file.name) for file in Path(checkpoint, "offsets").glob("[0-9]*")]
    if not batches:
        return {}
    try:
        text = Path(checkpoint, "offsets", str(max(batches))).read_text(encoding="utf-8")
        ends: Mapping[str, Mapping[str, int]] = json.loads(text.splitlines()[-1])
    except (OSError, ValueError, LookupError):
        return {}
    return {
        Partition(topic, int(number)): end
        for topic, numbers in ends.items()
        for number, end in numbers.items()
    }


def append_apart(
    warehouse: Warehouse, source: Source, client: Client, *, waits: Iterable[Waiting], stop: Stop
) -> int:
    """Appends what waits in some partitions; gives how many messages that was."""
    count = 0
    for topic, number, start, end in waits:
        partition = Partition(topic, number)
        read = map(_within_calendar, client.read(partition, start=start, end=end))
        for records in portions(read, most=_BATCH_MESSAGES, bytes_most=_BATCH_BYTES):
            if stop():
                return count
            _append(warehouse, source, partition, records=records)
            count += len(records)
    return count


def _within_calendar(record: Record) -> Record:
    time = record.timestamp
    if time is None or abs(time) <= _MOST:
        return record
    told = (TIME_HEADER, str(time).encode())
    nearest = _LAST if time > 0 else _FIRST
    return record._replace(timestamp=nearest, headers=(*(record.headers or ()), told))


def _append(
    warehouse: Warehouse, source: Source, partition: Partition, *, records: Sequence[Record]
) -> None:
    table = pa.Table.from_batches([partition_batch(partition, records)])
    rows = bronze_rows(warehouse.session.createDataFrame(table), source)
    warehouse.append(rows, "bronze", "messages")
