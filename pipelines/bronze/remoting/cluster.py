"""Topics of a RocketMQ cluster: the queues they have, what each holds, and its messages."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import orjson

from pipelines.bronze.remoting.connection import Access, Answer, Connection
from pipelines.bronze.remoting.messages import Stored, stored

_PULL, _HIGHEST, _LOWEST, _ROUTE = 11, 30, 31, 105
_DONE, _NO_PERMISSION, _NO_TOPIC = 0, 16, 17
_NOTHING_NEW, _NONE_MATCHED, _MOVED = 19, 20, 21
_MESSAGES = 32
"""What a broker hands out at most in one answer, unless it is told otherwise."""
_SUBSCRIPTION = 1 << 2
"""The bit of a pull's `sysFlag` that says that it brings its own filter."""
_READABLE = 1 << 2
_MASTER = "0"


class Queue(NamedTuple):
    """A queue of a topic: numbered within its broker, whose address is where it is read. A replica
    has what its master has, a little later."""

    topic: str
    broker: str
    number: int
    address: str
    replica: bool = False


class Refused(OSError):
    """A server answered, and did not do what was asked."""

    def __init__(self, asked: str, answer: Answer) -> None:
        reason = " ".join(answer.remark.partition("\n")[0].split()).rstrip(".")
        super().__init__(f"{asked}: {reason or f'code {answer.code}'}")
        self.code = answer.code


class NoTopic(Refused):
    """The name servers know no such topic, or none that can be read."""


class NoPermission(Refused):
    """A broker with access control does not know the key pair, or does not let it read."""


class Gone(Exception):
    """Messages that the broker no longer has; `lowest` is the first offset it has."""

    def __init__(self, lowest: int) -> None:
        super().__init__(lowest)
        self.lowest = lowest


class Cluster(NamedTuple):
    """How a cluster is reached: `name_servers` as `host:port`, asked one after the other. With
    `tls`, certificates are checked against those in `ca_file`, else against the system's."""

    name_servers: Sequence[str]
    access: Access | None = None
    tls: bool = False
    ca_file: str | None = None

    def connect(self, address: str) -> Connection:
        """A connection to a broker; raises OSError."""
        tls = ssl.create_default_context(cafile=self.ca_file) if self.tls else None
        return Connection(address, access=self.access, tls=tls)

    def queues(self, *topics: str) -> list[Queue]:
        """The readable queues of some topics, on all brokers.

        Raises:
            OSError: no name server answers.
            NoTopic: none of them knows a topic.
            Refused: they do not tell.
        """
        return [queue for topic in topics for queue in self._queues(topic)]

    def _queues(self, topic: str) -> list[Queue]:
        answer = self._asked(topic)
        if answer.code == _NO_TOPIC:
            raise NoTopic(f"topic {topic}", answer)
        if answer.code != _DONE:
            raise Refused(f"topic {topic}", answer)
        route = orjson.loads(answer.body)
        addresses = {broker["brokerName"]: broker["brokerAddrs"] for broker in route["brokerDatas"]}
        found = []
        for part in route["queueDatas"]:
            name, at = part["brokerName"], addresses[part["brokerName"]]
            if part["perm"] & _READABLE and at:
                node = min(at, key=int)
                found += [
                    Queue(topic, name, number, at[node], replica=node != _MASTER)
                    for number in range(part["readQueueNums"])
                ]
        if not found:
            raise NoTopic(
                f"topic {topic}", answer._replace(remark="no broker offers it to readers")
            )
        return sorted(found)

    def _asked(self, topic: str) -> Answer:
        """What the first name server that answers says of a topic."""
        refusals = []
        for address in self.name_servers:
            try:
                with self.connect(address) as server:
                    return server.ask(_ROUTE, topic=topic, acceptStandardJsonOnly=True)
            except OSError as error:
                refusals.append(f"{address} ({error.strerror or error})")
        raise ConnectionError(", ".join(refusals))


def ends(broker: Connection, queue: Queue) -> tuple[int, int]:
    """The lowest offset that a queue holds, and the one that its next message will have."""
    lowest, highest = (
        _done(broker.ask(code, topic=queue.topic, queueId=queue.number), queue)
        for code in (_LOWEST, _HIGHEST)
    )
    return int(lowest.fields["offset"]), int(highest.fields["offset"])


def pull(
    broker: Connection, queue: Queue, start: int, *, end: int, group: str, tags: Sequence[str] = ()
) -> Iterator[Stored]:
    """The messages of a queue from `start` up to, not including, `end`; with `tags` those that have
    one of them.

    Raises:
        Gone: the broker no longer has some of them.
        Refused: it does not hand them out.
        OSError: it does not answer.
    """
    wanted = frozenset(tags)
    while start < end:
        answer = broker.ask(
            _PULL,
            consumerGroup=group,
            topic=queue.topic,
            queueId=queue.number,
            queueOffset=start,
            maxMsgNums=min(_MESSAGES, end - start),
            sysFlag=_SUBSCRIPTION,
            commitOffset=0,
            suspendTimeoutMillis=0,
            subscription=" || ".join(tags) or "*",
            subVersion=0,
            expressionType="TAG",
        )
        # It is said of an offset above the highest, too, which a replica may not have yet.
        if answer.code == _MOVED and int(answer.fields["minOffset"]) > start:
            raise Gone(int(answer.fields["minOffset"]))
        if answer.code not in (_NOTHING_NEW, _NONE_MATCHED):
            for message in stored(_done(answer, queue).body):
                # Brokers compare tags by their hashes, and hand out a batch from its beginning.
                matches = not wanted or message.properties.get("TAGS") in wanted
                if matches and start <= message.offset < end:
                    yield message
        following = int(answer.fields["nextBeginOffset"])
        if following <= start:
            raise Refused(
                f"{_name(queue)}, offset {start}", answer._replace(remark="not handed out")
            )
        start = following


def _done(answer: Answer, queue: Queue) -> Answer:
    """The answer, where it is one."""
    if answer.code != _DONE:
        raise (NoPermission if answer.code == _NO_PERMISSION else Refused)(_name(queue), answer)
    return answer


def _name(queue: Queue) -> str:
    return f"topic {queue.topic}, queue {queue.number} of broker {queue.broker}"
