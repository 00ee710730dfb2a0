"""RocketMQ to bronze: the queues of its topics by offset.

A queue is numbered within its broker, a partition of bronze within its topic: the number of a
partition is that of the queue, plus 4096 for each broker that was met before the queue's own. The
order in which brokers were met is in a note apart from the stream's checkpoint, which may have to
be removed. If the note is lost, it is in the messages that bronze has: each names its broker in a
header.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypedDict

import orjson

from ingest.config.sources import Source
from ingest.config.transports import RocketMQ
from ingest.errors import PlatformError
from ingest.sql.headers import header_value
from ingest.sql.quoting import equal
from ingest.wire.contract import Message
from pipelines.bronze import queues
from pipelines.bronze.by_offset.rocketmq_topics import BROKER_HEADER, QUEUES_MOST, Topics
from pipelines.bronze.remoting.cluster import (
    Cluster,
    NoPermission,
    NoTopic,
    Queue,
    Refused,
    ends,
)
from pipelines.bronze.remoting.connection import Access
from pipelines.bronze.transport import Bronze, Reached, Sampling, Stop, Transport
from pipelines.platform.checkpoints import kept, read_whole, write_whole
from pipelines.platform.warehouse import Warehouse
from pipelines.terminal.console import counted

_NOTE = "brokers.json"


def append(warehouse: Warehouse, source: Source, stop: Stop) -> Bronze:
    """Appends what is in the topics now.

    Raises:
        PlatformError: no name server answers, or it refuses what is asked of it.
        SourceError: the topics cannot be read from where the source stands.
    """
    declared = _declared(source)
    cluster = _cluster(declared)
    found = _found(source, cluster)
    brokers = _numbered(warehouse, source, {queue.broker for queue in found})
    client = Topics(cluster, declared.topics, declared.tags or (), declared.group, brokers)
    return queues.append(
        warehouse,
        source,
        client,
        starting=declared.starting_offsets,
        lost=declared.lost,
        stop=stop,
    )


def reach(source: Source, root: str) -> Reached:
    """Asks for the queues of all topics and what they hold; raises as `append` does."""
    found = _found(source, _cluster(_declared(source)))
    topics = ", ".join(_declared(source).topics)
    return Reached(True, f"{counted(len(found), 'queues')} of {topics} can be read")


def sample(source: Source, root: str, sampling: Sampling) -> list[Message]:
    """A few messages of all queues; raises as `append` does."""
    declared = _declared(source)
    cluster = _cluster(declared)
    brokers = sorted({queue.broker for queue in _found(source, cluster)})
    client = Topics(cluster, declared.topics, declared.tags or (), declared.group, brokers)
    try:
        return queues.sampled(client, sampling)
    except OSError as error:
        raise PlatformError(f"source {source.name}: RocketMQ: {error}.") from None


def unread(warehouse: Warehouse, source: Source) -> int | None:
    """How many messages the queues have above those that bronze has; None if nobody answers. Raises
    SourceError if a run could not go on."""
    declared, checkpoint = _declared(source), warehouse.checkpoint("bronze", source.name)
    read = queues.reached(checkpoint)
    cluster = _cluster(declared)
    try:
        found = cluster.queues(*declared.topics)
        brokers = _numbered(warehouse, source, {queue.broker for queue in found}, noted=False)
        held = Topics(cluster, declared.topics, (), declared.group, brokers).spans_of(found)
    except OSError:
        return None
    return queues.unread(held, read, source=source, lost=declared.lost, checkpoint=checkpoint)


ROCKETMQ = Transport(append, reach, sample, unread)


def _declared(source: Source) -> RocketMQ:
    assert source.rocketmq is not None
    return source.rocketmq


def _cluster(declared: RocketMQ) -> Cluster:
    access = None
    if declared.access_key is not None and declared.secret_key is not None:
        access = Access(declared.access_key, declared.secret_key)
    return Cluster(declared.addresses, access, declared.tls, declared.ca_file)


def _found(source: Source, cluster: Cluster) -> list[Queue]:
    """The queues of all topics of a source; every topic must answer."""
    declared = _declared(source)
    where = f"source {source.name}:"
    try:
        found = cluster.queues(*declared.topics)
        for queue in {queue.address: queue for queue in found}.values():
            with cluster.connect(queue.address) as broker:
                ends(broker, queue)
    except Refused as error:
        raise PlatformError(f"{where} RocketMQ refuses {error}; {_cure(error)}.") from None
    except OSError as error:
        raise PlatformError(
            f"{where} RocketMQ does not answer at {error}; start it or correct"
            " rocketmq.name_servers."
        ) from None
    return found


def _cure(error: Refused) -> str:
    """What to do if a server refuses."""
    if isinstance(error, NoTopic):
        return "create the topic or correct rocketmq.topics"
    if isinstance(error, NoPermission):
        return "correct rocketmq.access_key and secret_key, or let them read the topic"
    return "the broker's log says more"


class _Brokers(TypedDict):
    brokers: list[str | None]


def _numbered(
    warehouse: Warehouse, source: Source, met: Iterable[str], *, noted: bool = True
) -> tuple[str | None, ...]:
    """The brokers by number, None for a number whose broker nobody knows. Brokers that a source
    meets for the first time come last; they keep their numbers if this is `noted`, which only runs
    may do."""
    note = Path(kept(warehouse, source.name), _NOTE)
    then = "bronze's messages name the brokers"
    before = read_whole(note, _Brokers, source=source.name, then=then)
    known = _placed(_in_bronze(warehouse, source)) if before is None else before["brokers"]
    brokers = (*known, *sorted(set(met) - set(known)))
    if noted and (before is None or list(brokers) != before["brokers"]):
        write_whole(note, orjson.dumps({"brokers": brokers}))
    return brokers


class _Met(NamedTuple):
    """The number of a broker in bronze, the name that messages there give, and how many messages do
    so."""

    number: int
    broker: str | None
    messages: int


def _placed(met: Iterable[_Met]) -> list[str | None]:
    """The brokers by number. A number may belong to a broker without a message in bronze; no other
    broker may get it, since the messages of both would be taken for copies."""
    brokers: list[str | None] = []
    for number, broker, _ in sorted(met, key=lambda one: (one.number, one.messages)):
        brokers += [None] * (number + 1 - len(brokers))
        brokers[number] = broker or brokers[number]
    return brokers


def _in_bronze(warehouse: Warehouse, source: Source) -> list[_Met]:
    """The brokers as the messages in bronze name them; rows that stand for lost messages name
    none."""
    if not warehouse.exists("bronze", "messages"):
        return []
    found = (
        warehouse.read("bronze", "messages")
        .where(equal(source=source.name))
        .selectExpr(
            f"`partition` DIV {QUEUES_MOST} AS number",
            f"string({header_value(BROKER_HEADER)}) AS broker",
        )
        .groupBy("number", "broker")
        .count()
    )
    return [_Met(*row) for row in found.collect()]
