"""Topics of a Kafka cluster: their partitions, what each holds, messages of them, and groups.

Each API is asked in the newest version without tagged fields that brokers from 1.0 to 4.x speak, so
that one form does for all; only a topic's id is told in a younger one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from ingest.files.record import Record
from pipelines.bronze.kafka_api import wire
from pipelines.bronze.kafka_api.connection import SECONDS, Connection
from pipelines.bronze.kafka_api.login import Login, Refused
from pipelines.bronze.kafka_api.records import batches
from pipelines.bronze.kafka_api.wire import Reader

TopicPartition = tuple[str, int]
"""A topic and the number of a partition."""
_FETCH, _LIST_OFFSETS, _METADATA, _OFFSET_COMMIT, _FIND_COORDINATOR = 1, 2, 3, 8, 10
_LATEST, _EARLIEST = -1, -2
_FETCH_BYTES = 4 << 20
_NO_TOPIC, _TOPIC_FORBIDDEN, _GROUP_FORBIDDEN = 3, 29, 30
_OUT_OF_RANGE = 1
_SOON = (14, 15, 16)
"""Errors of a coordinator that goes by: the first group of a cluster has to wait for its topic."""
_PAUSE = 0.2
_NAMES = {
    5: "the partition has no leader now",
    6: "the partition's leader has moved",
    14: "the group's coordinator is loading",
    15: "the group's coordinator does not answer",
    16: "the group's coordinator has moved",
    17: "Kafka allows no such topic name",
    22: "the group has members of its own, which tell where it stands",
    25: "the group has members of its own, which tell where it stands",
}


class NoTopic(Refused):
    """A topic does not exist, or is not shown to who asks."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"there is no topic {topic}")
        self.topic = topic


class NoPartition(Refused):
    """A topic lacks a partition that it had: it was made anew, with fewer."""

    def __init__(self, topic: str, number: int) -> None:
        super().__init__(
            f"the topic {topic} has no partition {number} any more: it was deleted and made anew"
        )


class NoPermission(Refused):
    """Who asks may not; the text says what."""


class Topic(NamedTuple):
    """A topic: an id that a topic of the same name made later has not (None: the brokers are older
    than 2.8), and the node that leads each partition, -1 where none does now."""

    name: str
    id: str | None
    leaders: Mapping[int, int]

    def leader(self, number: int) -> int:
        """The node that leads a partition; raises NoPartition if the topic lacks it by now."""
        if number not in self.leaders:
            raise NoPartition(self.name, number)
        return self.leaders[number]


class Cluster(NamedTuple):
    """How a cluster is reached: brokers, asked in turn. With `committed`, what an open transaction
    has written does not count yet."""

    servers: Sequence[tuple[str, int]]
    login: Login
    committed: bool = False

    @contextmanager
    def open(self) -> Iterator[Client]:
        """A client of the first broker that answers.

        Raises Refused if one answers and does not take the login, else OSError.
        """
        with ExitStack() as stack:
            refusals = []
            for host, port in self.servers:
                try:
                    first = stack.enter_context(Connection(host, port, self.login))
                except Refused:
                    raise
                except (OSError, ValueError) as error:
                    reason = getattr(error, "strerror", None) or error
                    refusals.append(f"{host}:{port} ({reason})")
                else:
                    yield Client(self, stack, first)
                    return
            raise OSError(", ".join(refusals))


class Client:
    """Connections to the brokers of a cluster, opened when they are needed."""

    def __init__(self, cluster: Cluster, stack: ExitStack, first: Connection) -> None:
        self._cluster = cluster
        self._stack = stack
        self._first = first
        self._addresses: dict[int, tuple[str, int]] = {}
        self._opened: dict[tuple[str, int], Connection] = {}

    def topics(self, names: Collection[str] | None = None) -> dict[str, Topic]:
        """The topics of these names, all there are where that is None.

        Raises NoTopic or NoPermission where one of them cannot be had.
        """
        with_ids = self._first.newest(_METADATA) >= 10
        asked = _metadata_10 if with_ids else _metadata_4
        body, take = asked(None if names is None else sorted(names))
        answer = self._first.ask(_METADATA, 10 if with_ids else 4, body, flexible=with_ids)
        self._addresses, found = take(answer)
        topics = {}
        for error, topic in found:
            if error == _NO_TOPIC:
                raise NoTopic(topic.name)
            if error == _TOPIC_FORBIDDEN:
                raise NoPermission(f"the topic {topic.name} may not be read by this login")
            if error not in (0, 5):
                raise Refused(f"topic {topic.name}: {_named(error)}")
            topics[topic.name] = topic
        return topics

    def spans(self, topics: Mapping[str, Topic]) -> dict[TopicPartition, tuple[int, int]]:
        """What each partition holds: its lowest offset, and the one its next message will have."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for topic in topics.values():
            for number, leader in topic.leaders.items():
                by_leader.setdefault(leader, []).append((topic.name, number))
        lowest: dict[TopicPartition, int] = {}
        following: dict[TopicPartition, int] = {}
        for leader, partitions in by_leader.items():
            lowest |= self._offsets(leader, partitions, _EARLIEST)
            following |= self._offsets(leader, partitions, _LATEST)
        return {each: (lowest[each], following[each]) for each in sorted(lowest)}

    def read(self, topic: Topic, number: int, *, start: int, end: int) -> Iterator[Record]:
        """The messages of a partition from `start` up to, not including, `end`, in order; raises
        NoPartition where the topic lacks it by now."""
        broker = self._broker(topic.leader(number))
        while start < end:
            reached = start
            piece, aborted = self._fetched(broker, (topic.name, number), start)
            for following, records in batches(piece, aborted):
                for record in records:
                    assert record.offset is not None
                    if start <= record.offset < end:
                        yield record
                reached = max(reached, following)
            if reached == start:
                return
            start = reached

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Notes for a consumer group without members how far it has read; raises Refused."""
        deadline = time.monotonic() + SECONDS
        while (error := self._committed(group, offsets)) in _SOON and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        if error in (_GROUP_FORBIDDEN, _TOPIC_FORBIDDEN):
            raise NoPermission(f"the consumer group {group} may not be used by this login")
        if error:
            raise Refused(f"the consumer group {group} cannot be told: {_named(error)}")

    def _committed(self, group: str, offsets: Mapping[TopicPartition, int]) -> int:
        """Tries to note how far a group is; the error, 0 for none."""
        answer = self._first.ask(_FIND_COORDINATOR, 0, wire.text(group))
        error, _, host, port = answer.int16(), answer.int32(), answer.text(), answer.int32()
        if error:
            return error
        partitions = _grouped(offsets)
        body = wire.text(group) + wire.int32(-1) + wire.text("") + wire.int64(-1)
        body += wire.array(
            wire.text(topic)
            + wire.array(
                wire.int32(number) + wire.int64(offsets[topic, number]) + wire.text(None)
                for number in numbers
            )
            for topic, numbers in partitions.items()
        )
        answer = self._connected(host or "", port).ask(_OFFSET_COMMIT, 2, body)
        listed = answer.array(
            lambda: (answer.text(), answer.array(lambda: (answer.int32(), answer.int16())))
        )
        return next((error for _, each in listed for _, error in each if error), 0)

    def _offsets(
        self, leader: int, partitions: Sequence[TopicPartition], which: int
    ) -> dict[TopicPartition, int]:
        """The earliest or the latest offset of partitions that one broker leads."""
        broker = self._broker(leader)
        version = min(2, broker.newest(_LIST_OFFSETS))
        body = wire.int32(-1)
        if version == 2:
            body += wire.int8(1 if self._cluster.committed and which == _LATEST else 0)
        body += wire.array(
            wire.text(topic)
            + wire.array(wire.int32(number) + wire.int64(which) for number in numbers)
            for topic, numbers in _grouped(partitions).items()
        )
        answer = broker.ask(_LIST_OFFSETS, version, body)
        if version == 2:
            answer.int32()
        found: dict[TopicPartition, int] = {}

        def partition() -> tuple[int, int, int, int]:
            return answer.int32(), answer.int16(), answer.int64(), answer.int64()

        for topic, listed in answer.array(lambda: (answer.text() or "", answer.array(partition))):
            for number, error, _, offset in listed:
                if error == _TOPIC_FORBIDDEN:
                    raise NoPermission(f"the topic {topic} may not be read by this login")
                if error:
                    raise OSError(f"{topic}/{number}: {_named(error)}")
                found[topic, number] = offset
        return found

    def _fetched(
        self, broker: Connection, partition: TopicPartition, start: int
    ) -> tuple[bytes, list[tuple[int, int]]]:
        """A piece of a partition's log that holds the message at `start`, if there is one; and the
        producers of transactions in it that were given up, each with where it began, where only
        those that were committed are read."""
        topic, number = partition
        body = wire.int32(-1) + wire.int32(100) + wire.int32(1) + wire.int32(_FETCH_BYTES)
        body += wire.int8(1 if self._cluster.committed else 0)
        one = wire.int32(number) + wire.int64(start) + wire.int32(_FETCH_BYTES)
        answer = broker.ask(_FETCH, 4, body + wire.array([wire.text(topic) + wire.array([one])]))
        answer.int32()
        pieces: list[bytes] = []
        aborted: list[tuple[int, int]] = []

        def piece() -> None:
            answer.int32()
            error = answer.int16()
            answer.take(16)
            aborted.extend(answer.array(lambda: (answer.int64(), answer.int64())))
            pieces.append(answer.blob())
            if error == _TOPIC_FORBIDDEN:
                raise NoPermission(f"the topic {topic} may not be read by this login")
            if error and error != _OUT_OF_RANGE:
                raise OSError(f"{topic}/{number}: {_named(error)}")

        answer.array(lambda: (answer.text(), answer.array(piece)))
        return b"".join(pieces), aborted

    def _broker(self, node: int) -> Connection:
        if node not in self._addresses:
            raise OSError(f"{_named(5)}; run again once it has")
        return self._connected(*self._addresses[node])

    def _connected(self, host: str, port: int) -> Connection:
        if (host, port) not in self._opened:
            try:
                opened = Connection(host, port, self._cluster.login)
            except Refused:
                raise
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise OSError(
                    f"{host}:{port} ({reason}; that is the address the cluster gives)"
                ) from None
            self._opened[host, port] = self._stack.enter_context(opened)
        return self._opened[host, port]


Found = tuple[dict[int, tuple[str, int]], list[tuple[int, Topic]]]
"""The addresses of nodes, and topics with the error of each."""
_Take = Callable[[Reader], Found]


def _metadata_4(names: Sequence[str] | None) -> tuple[bytes, _Take]:
    asked = wire.int32(-1) if names is None else wire.array(map(wire.text, names))

    def take(answer: Reader) -> Found:
        answer.int32()
        nodes = answer.array(
            lambda: (answer.int32(), (answer.text() or "", answer.int32()), answer.text())
        )
        answer.text()
        answer.int32()

        def partition() -> tuple[int, int]:
            answer.int16()
            number, leader = answer.int32(), answer.int32()
            answer.array(answer.int32)
            answer.array(answer.int32)
            return number, leader

        def topic() -> tuple[int, Topic]:
            error, name = answer.int16(), answer.text() or ""
            answer.int8()
            return error, Topic(name, None, dict(answer.array(partition)))

        return {node: address for node, address, _ in nodes}, answer.array(topic)

    return asked + wire.int8(0), take


def _metadata_10(names: Sequence[str] | None) -> tuple[bytes, _Take]:
    asked = wire.varint(0)
    if names is not None:
        of_names = (bytes(16) + wire.compact_text(name) + b"\x00" for name in names)
        asked = wire.varint(len(names) + 1) + b"".join(of_names)

    def take(answer: Reader) -> Found:
        answer.int32()

        def node() -> tuple[int, tuple[str, int]]:
            number, host, port = answer.int32(), answer.compact_text() or "", answer.int32()
            answer.compact_text()
            answer.tags()
            return number, (host, port)

        nodes = dict(answer.compact_array(node))
        answer.compact_text()
        answer.int32()

        def partition() -> tuple[int, int]:
            answer.int16()
            number, leader, _ = answer.int32(), answer.int32(), answer.int32()
            for _ in range(3):
                answer.compact_array(answer.int32)
            answer.tags()
            return number, leader

        def topic() -> tuple[int, Topic]:
            error, name = answer.int16(), answer.compact_text() or ""
            id_, _ = answer.take(16), answer.int8()
            leaders = dict(answer.compact_array(partition))
            answer.int32()
            answer.tags()
            return error, Topic(name, id_.hex() if any(id_) else None, leaders)

        return nodes, answer.compact_array(topic)

    return asked + wire.int8(0) * 3 + b"\x00", take


def _grouped(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    """Partitions by their topics."""
    grouped: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        grouped.setdefault(topic, []).append(number)
    return grouped


def _named(error: int) -> str:
    return _NAMES.get(error, f"error {error} of Kafka's protocol")
