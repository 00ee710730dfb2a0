"""The topics of a Kafka source, asked without Spark: what they hold, and their messages.

Spark reads them; here is what it does not tell, the same under Spark Connect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ingest.config.sources import Source
from ingest.config.transports import Kafka
from ingest.errors import PlatformError
from ingest.files.record import Record
from pipelines.bronze.by_offset.source import Gone, Partition, Span
from pipelines.bronze.kafka_api.cluster import Cluster, NoPartition, NoPermission, NoTopic, Topic
from pipelines.bronze.kafka_api.login import Refused, Unsupported, login
from pipelines.platform.secrets import without_secrets

KEY_HEADER = "__kafka_key__"
"""Where Aliyun DataHub keeps the key of a message whose topic has no column for it."""
_OF_JAVA = re.compile(r"\\[pP]\{")
_INTERNAL = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
FAILURES = (OSError, ValueError, Unsupported)
"""What asking may raise."""


class Topics(NamedTuple):
    """The topics that a source names, by name or by a pattern."""

    cluster: Cluster
    declared: Kafka

    def held(self) -> Held:
        """What they are now, and what each partition holds; raises FAILURES."""
        pattern = self.declared.topics_pattern
        if pattern is not None and _OF_JAVA.search(pattern):
            raise Unsupported(f"a pattern of Java's own, {pattern}")
        with self.cluster.open() as client:
            topics = {
                name: topic
                for name, topic in client.topics(self.declared.topics).items()
                if declares(self.declared, name)
            }
            spans = client.spans(topics)
        return Held(
            topics, {Partition(*partition): Span(*span) for partition, span in spans.items()}
        )

    def spans(self) -> dict[Partition, Span]:
        """What each partition holds."""
        return self.held().spans

    def read(self, partition: Partition, *, start: int, end: int) -> Iterator[Record]:
        """The messages of a partition from `start` up to, not including, `end`, in order."""
        with self.cluster.open() as client:
            topic = client.topics([partition.topic])[partition.topic]
            topic.leader(partition.number)
            lowest, _ = client.spans({topic.name: topic})[partition]
            if start < lowest:
                raise Gone(lowest)
            records = client.read(topic, partition.number, start=start, end=end)
            yield from map(_keyed, records)

    def commit(self, group: str, offsets: dict[Partition, int]) -> None:
        """Notes how far a consumer group is; raises FAILURES."""
        with self.cluster.open() as client:
            client.commit(group, {(topic, number): at for (topic, number), at in offsets.items()})


def _keyed(record: Record) -> Record:
    """The record with the key that it has as a header, where it has no other."""
    if record.key is not None:
        return record
    found = (value for name, value in record.headers or () if name == KEY_HEADER)
    return record._replace(key=next(found, None))


class Held(NamedTuple):
    """Topics by name, and what their partitions hold."""

    topics: dict[str, Topic]
    spans: dict[Partition, Span]

    @property
    def ids(self) -> dict[str, str]:
        """The ids of those topics that have one."""
        return {name: topic.id for name, topic in self.topics.items() if topic.id is not None}


def topics_of(kafka: Kafka) -> Topics:
    """The topics that a source declares; raises Unsupported, and Refused where a file that the
    options name cannot be used."""
    committed = kafka.options.get("kafka.isolation.level") == "read_committed"
    cluster = Cluster(kafka.addresses, login(kafka.options), committed)
    return Topics(cluster, kafka)


def declares(kafka: Kafka, topic: str) -> bool:
    """Whether a source reads a topic, by its name or by a pattern that is not Java's own."""
    if kafka.topics_pattern is None:
        return topic in (kafka.topics or ())
    return topic not in _INTERNAL and re.fullmatch(kafka.topics_pattern, topic) is not None


def explained(error: Exception, source: Source) -> PlatformError:
    """The sentence on FAILURES, and the way out."""
    kafka = source.kafka
    assert kafka is not None
    where, servers = f"source {source.name}:", kafka.bootstrap_servers
    match error:
        case NoTopic():
            text = (
                f"{servers} has not all of the topics {', '.join(kafka.topics or ())}: create what"
                " is missing or correct kafka.topics"
            )
        case NoPermission():
            text = f"{error}: let it, or correct kafka.options"
        case NoPartition():
            text = f"{error}; run again"
        case Refused():
            text = f"{error}; correct kafka.options"
        case Unsupported():
            text = f"Kafka is read by Spark alone, which is not asked here: {error}"
        case OSError():
            text = (
                f"no Kafka broker answers at {error}; start it or correct kafka.bootstrap_servers"
            )
        case _:
            text = f"Kafka cannot be read: {error}"
    return PlatformError(without_secrets(f"{where} {' '.join(text.split())}.", kafka.options))
