"""Topics of RocketMQ, as `source` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ingest.files.record import Record
from pipelines.bronze.by_offset import source
from pipelines.bronze.by_offset.source import Partition, Span
from pipelines.bronze.remoting.cluster import Cluster, Gone, Queue, ends, pull
from pipelines.bronze.remoting.messages import Stored

BROKER_HEADER = "rocketmq.broker"
QUEUES_MOST = 4096
_KEYS = "KEYS"


class Topics(NamedTuple):
    """Topics of a cluster, its brokers in the order of their numbers, None where nobody knows whose
    that was."""

    cluster: Cluster
    topics: Sequence[str]
    tags: Sequence[str]
    group: str
    brokers: Sequence[str | None]

    def spans(self) -> dict[Partition, Span]:
        """What each queue holds; those of a broker without a number wait for the next run."""
        return self.spans_of(self.cluster.queues(*self.topics))

    def spans_of(self, queues: Iterable[Queue]) -> dict[Partition, Span]:
        """What each of these queues holds."""
        found: dict[Partition, Span] = {}
        for queue in queues:
            if queue.broker in self.brokers:
                with self.cluster.connect(queue.address) as broker:
                    found[self._partition(queue)] = Span(*ends(broker, queue), queue.replica)
        return found

    def read(self, partition: Partition, *, start: int, end: int) -> Iterator[Record]:
        """The messages between two offsets, by the queue's broker of this moment."""
        for queue in self.cluster.queues(partition.topic):
            if queue.broker in self.brokers and self._partition(queue) == partition:
                yield from self._read(queue, start, end)
                return
        raise OSError(f"no broker offers {partition} to readers now")

    def _read(self, queue: Queue, start: int, end: int) -> Iterator[Record]:
        with self.cluster.connect(queue.address) as broker:
            pulled = pull(broker, queue, start, end=end, group=self.group, tags=self.tags)
            try:
                yield from (_record(message, queue.broker) for message in pulled)
            except Gone as error:
                raise source.Gone(error.lowest) from None

    def _partition(self, queue: Queue) -> Partition:
        return Partition(queue.topic, self.brokers.index(queue.broker) * QUEUES_MOST + queue.number)


def _record(message: Stored, broker: str) -> Record:
    """A message as bronze keeps it: its key is what the producer named `keys`, its other
    properties, the keys among them, are headers. The last one is the broker, whatever a producer
    called its own: of headers of one name the last counts. Its time is the broker's."""
    keys = message.properties.get(_KEYS)
    headers = (*message.properties.items(), (BROKER_HEADER, broker))
    return Record(
        message.body,
        key=None if keys is None else keys.encode(),
        headers=tuple((name, value.encode()) for name, value in headers),
        offset=message.offset,
        timestamp=message.stored_at,
    )
