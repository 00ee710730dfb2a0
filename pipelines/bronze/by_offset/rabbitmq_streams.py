"""Streams of RabbitMQ, as `source` reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ingest.files.record import Record
from pipelines.bronze.amqp.connection import Refused, Server, connect
from pipelines.bronze.amqp.queues import check_type, exists, read_stream, stream_span
from pipelines.bronze.by_offset.source import Gone, Partition, Span

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingConnection


class Streams(NamedTuple):
    """Streams of a cluster."""

    server: Server
    names: Sequence[str]
    super_stream: str | None

    def spans(self) -> dict[Partition, Span]:
        """What each stream holds; one that holds nothing has no place yet."""
        found: dict[Partition, Span] = {}
        with connect(self.server) as connection:
            for partition in self._partitions(connection):
                check_type(connection, self.stream(partition), "stream")
                span = stream_span(connection, self.stream(partition))
                if span is not None:
                    found[partition] = Span(*span)
        return found

    def read(self, partition: Partition, *, start: int, end: int) -> Iterator[Record]:
        """The messages between two offsets. An offset that a stream uses for its own bookkeeping
        has none, and reading begins above it as it does above what is gone."""
        with connect(self.server) as connection:
            name, first = self.stream(partition), True
            for delivery in read_stream(connection, name, start, end=end):
                offset = delivery.record.offset or 0
                if first and offset > start:
                    self._check(partition, start)
                first = False
                yield delivery.record
            if first:
                self._check(partition, start)

    def _check(self, partition: Partition, start: int) -> None:
        """Raise Gone if a stream begins above `start`."""
        with connect(self.server) as connection:
            span = stream_span(connection, self.stream(partition))
        if span is not None and span[0] > start:
            raise Gone(span[0])

    def stream(self, partition: Partition) -> str:
        """What the server calls a partition."""
        if self.super_stream is None:
            return partition.topic
        return f"{partition.topic}-{partition.number}"

    def _partitions(self, connection: BlockingConnection) -> list[Partition]:
        """The partitions there are now."""
        if self.super_stream is None:
            return [Partition(name, 0) for name in self.names]
        count = 0
        while exists(connection, f"{self.super_stream}-{count}"):
            count += 1
        if count == 0:
            raise Refused(
                f"{self.server.where} has no stream {self.super_stream}-0 in virtual host"
                f" {self.server.virtual_host!r}: declare the super stream or correct"
                " rabbitmq.super_stream; partitions without numbers are named in rabbitmq.queues"
            )
        return [Partition(self.super_stream, number) for number in range(count)]
