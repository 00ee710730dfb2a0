"""Queues that are read by offset: their stream into bronze, what is said if it fails, a sample, and
what waits."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Literal

from pyspark.errors import PySparkException

from ingest.config.sources import Source
from ingest.errors import SourceError
from ingest.wire.contract import Message
from pipelines.bronze.by_offset.source import (
    Client,
    Lost,
    Offsets,
    Partition,
    Recreated,
    Span,
    Starting,
    Stopped,
    check_following,
    lost_before,
    noted,
    stopped,
    stream,
)
from pipelines.bronze.stream import append_stream, begun, check_begins
from pipelines.bronze.transport import Bronze, Sampling, Stop
from pipelines.platform.checkpoints import damaged
from pipelines.platform.failures import cause, log_hint
from pipelines.platform.warehouse import Warehouse


def append(
    warehouse: Warehouse,
    source: Source,
    client: Client,
    *,
    starting: Starting,
    lost: Literal["fail", "go_on"],
    stop: Stop,
) -> Bronze:
    """Appends what the queues of a source have now.

    Raises SourceError if they cannot be read from the place that the source has reached.
    """
    checkpoint = warehouse.checkpoint("bronze", source.name)
    if starting == "latest" and not begun(checkpoint):
        check_begins(warehouse, source, _topics(source, client))
    found = stream(warehouse.session, client, checkpoint=checkpoint, starting=starting, lost=lost)
    try:
        count = append_stream(warehouse, source, found, checkpoint=checkpoint, stop=stop)
    except PySparkException as error:
        damage = damaged(source.name, checkpoint, remove=checkpoint)
        raise damage or explained(error, source, checkpoint) from error
    return Bronze(source.name, count)


def _topics(source: Source, client: Client) -> set[str]:
    """The topics that exist. Raises SourceError if that cannot be found out."""
    try:
        return {partition.topic for partition in client.spans()}
    except OSError as error:
        raise SourceError(f"source {source.name}: {error}") from None


def explained(error: Exception, source: Source, checkpoint: str) -> SourceError:
    """The sentence on a stream that failed, and what to do about it; `checkpoint` is its folder."""
    where = f"source {source.name}:"
    match stopped(error):
        case None:
            reason = cause(error) or str(error).partition("\n")[0]
            return SourceError(f"{where} its queues cannot be read: {reason}{log_hint()}")
        case Lost() as found:
            return SourceError(
                f"{where} {found.text}. To go on with what is there, set {source.transport}.lost:"
                " go_on; a row of silver then says which are missing."
            )
        case Recreated() as found:
            return SourceError(
                f"{where} {found.text}. Its numbering starts again: raise the source's epoch,"
                f" remove the folder {checkpoint} and run again."
            )
        case found:
            return SourceError(f"{where} {found.text}")


def sampled(client: Client, sampling: Sampling) -> list[Message]:
    """The newest or the oldest messages of all partitions, by their times, then offsets; as many as
    are asked for, if there are so many. They do not count as read."""
    found: list[Message] = []
    for partition, span in client.spans().items():
        start, end = span.lowest, span.following
        if sampling.newest:
            start = max(start, end - sampling.limit)
        records = client.read(partition, start=start, end=end)
        found += (
            Message.of(
                record, partition.topic, partition=partition.number, offset=record.offset or 0
            )
            for record in islice(records, sampling.limit)
        )
    found.sort(key=lambda one: (one.timestamp or 0, one.topic, one.partition, one.offset))
    return found[-sampling.limit :] if sampling.newest else found[: sampling.limit]


def reached(checkpoint: str) -> Offsets:
    """How far the stream of a checkpoint has read."""
    return noted(Path(checkpoint), "commits")


def unread(
    held: Mapping[Partition, Span],
    read: Offsets,
    *,
    source: Source,
    lost: Literal["fail", "go_on"],
    checkpoint: str,
) -> int:
    """How many messages partitions have above what a stream has `read`. That was looked up before
    the partitions were asked, since a run may advance meanwhile.

    Raises SourceError if a run could not go on from there, with the sentence that the run would
    give.
    """
    count = 0
    for partition, span in held.items():
        start = read.get(str(partition), [0, span.lowest])[1]
        try:
            check_following(partition, span, start)
            if lost == "fail" and start < span.lowest:
                raise lost_before(partition, start, span.lowest)
        except Stopped as error:
            raise explained(error, source, checkpoint) from None
        count += max(0, span.following - max(start, span.lowest))
    return count
