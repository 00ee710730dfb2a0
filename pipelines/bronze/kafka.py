"""Kafka to bronze, by Spark's own source of Structured Streaming."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.config.sources import Source
from ingest.config.transports import Kafka
from ingest.errors import IngestError, PlatformError, SourceError
from pipelines.bronze.stream import append_stream
from pipelines.bronze.transport import Bronze, Reached, Stop, Transport, Waiting
from pipelines.platform.checkpoints import damaged
from pipelines.platform.failures import cause, log_hint
from pipelines.platform.rows import rows
from pipelines.platform.secrets import without_secrets
from pipelines.platform.session import connect_kafka
from pipelines.platform.warehouse import Warehouse

MOST_OFFSETS = 500_000
# The clients' own patience is a minute and more, and Spark asks three times.
PATIENCE = {
    "kafka.default.api.timeout.ms": "20000",
    "kafka.request.timeout.ms": "15000",
}
KNOCK_SECONDS = 3.0

_REASON = re.compile(
    r"terminated with exception: (.*?)(?: SQLSTATE: \w+)?\s*(?:=== |\Z)", re.DOTALL
)
# Where Kafka's classes came by ADD JAR, a task's failure reaches the driver without its reason; the
# one failure of tasks that read Kafka is that the offsets are gone.
_LOST = re.compile(r"data may have been lost|data loss|OffsetOutOfRange|UnknownReason", re.I)
_STOOD = re.compile(r"Current Committed Offsets: \{[^\n]*?: (\{.*\})\}")
_CHANGED = re.compile(r"Reason: ([^\n]*)")


def append(warehouse: Warehouse, source: Source, stop: Stop) -> Bronze:
    """Appends what is in the topics now.

    On `stop` the batch at work is given up: the next run does it again, and none is doubled.

    Raises:
        PlatformError: no broker answers, or this Spark cannot read Kafka.
        SourceError: the topics cannot be read from where the source stands.
    """
    kafka = _declared(source)
    if warehouse.local:
        knock(source.name, kafka.bootstrap_servers)
    connect_kafka(warehouse.session)
    checkpoint = warehouse.checkpoint("bronze", source.name)
    reader = warehouse.session.readStream.format("kafka").options(**_options(kafka))
    try:
        messages = append_stream(warehouse, source, reader.load(), checkpoint=checkpoint, stop=stop)
    except PySparkException as error:
        damage = damaged(source.name, checkpoint, remove=checkpoint)
        raise damage or _explained(error, source.name, kafka, checkpoint=checkpoint) from error
    return Bronze(source.name, messages)


def reach(source: Source, root: str) -> Reached:
    """Finds a broker that listens; raises PlatformError where none does."""
    servers = _declared(source).bootstrap_servers
    knock(source.name, servers)
    return Reached(True, f"a broker of {servers} is reachable; topics and login not tried")


def unread(warehouse: Warehouse, source: Source) -> int | None:
    """None: what the topics hold is not asked for."""
    return None


def waiting(warehouse: Warehouse, source: Source) -> list[Waiting]:
    """What the topics hold beyond the offsets that were read last, partition by partition; what
    waits is read for it, and nothing is kept."""
    kafka = _declared(source)
    if warehouse.local:
        knock(source.name, kafka.bootstrap_servers)
    connect_kafka(warehouse.session)
    checkpoint = warehouse.checkpoint("bronze", source.name)
    reader = warehouse.session.read.format("kafka")
    whole = {**_options(kafka), "startingOffsets": "earliest"}
    try:
        start = kafka.starting_offsets
        read = _offsets_read(checkpoint)
        if read is not None:
            # Spark asks for a place in every partition; -2 is the earliest, of those that are new.
            there = _partitions(reader.options(**whole).load())
            places: dict[str, dict[str, int]] = {}
            for topic, number in there:
                places.setdefault(topic, {})[str(number)] = read.get((topic, number), -2)
            start = json.dumps(places)
        if start == "latest":
            return []
        passed: set[_TopicPartition] = set()
        if read is None and start != "earliest":
            start, passed = _without_latest(start)
        messages = reader.options(**{**whole, "startingOffsets": start}).load()
        spans = messages.groupBy("topic", "partition").agg(F.min("offset"), F.max("offset"))
        found = rows(spans)
        return sorted(
            Waiting(topic, number, first, last + 1)
            for topic, number, first, last in found
            if (topic, number) not in passed
        )
    except PySparkException as error:
        raise _explained(error, source.name, kafka, checkpoint=checkpoint) from error


_TopicPartition = tuple[str, int]


def _without_latest(starting_offsets: str) -> tuple[str, set[_TopicPartition]]:
    """The places at which to begin, and the partitions among them that begin at their end, -1: a
    query that is no stream may not begin there, and nothing waits in them."""
    places = json.loads(starting_offsets)
    passed = {
        (topic, int(number))
        for topic, offsets in places.items()
        for number, offset in offsets.items()
        if offset == -1
    }
    for topic, number in passed:
        places[topic][str(number)] = -2
    return json.dumps(places), passed


def _partitions(messages: DataFrame) -> list[_TopicPartition]:
    """The partitions that a relation would read; none is read."""
    spans = [each.offsetRange() for each in messages._jdf.queryExecution().toRdd().partitions()]
    return [(span.topic(), span.partition()) for span in spans]


def _offsets_read(checkpoint: str) -> dict[_TopicPartition, int] | None:
    """Where the batch that was committed last ended; None where none was."""
    done = [int(name.name) for name in Path(checkpoint, "commits").glob("[0-9]*")]
    if not done:
        return None
    text = Path(checkpoint, "offsets", str(max(done))).read_text(encoding="utf-8")
    offsets = json.loads(text.splitlines()[-1])
    return {
        (topic, int(partition)): offset
        for topic, by_partition in offsets.items()
        for partition, offset in by_partition.items()
    }


KAFKA = Transport(append, reach, unread, waiting)


def _declared(source: Source) -> Kafka:
    assert source.kafka is not None
    return source.kafka


def _options(kafka: Kafka) -> dict[str, str]:
    subscribed = (
        {"subscribe": ",".join(kafka.topics)}
        if kafka.topics
        else {"subscribePattern": str(kafka.topics_pattern)}
    )
    return {
        **PATIENCE,
        **kafka.options,
        **subscribed,
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "startingOffsets": kafka.starting_offsets,
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(MOST_OFFSETS),
    }


def knock(source: str, servers: str) -> None:
    """Finds out in seconds what the Kafka client would in minutes, with a stack trace."""
    refusals = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        host = host.rpartition("//")[2].strip("[]")
        try:
            socket.create_connection((host, int(port)), timeout=KNOCK_SECONDS).close()
        except OSError as error:
            refusals.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return
    raise PlatformError(
        f"source {source}: no Kafka broker answers at {', '.join(refusals)};"
        " start it or correct kafka.bootstrap_servers."
    )


def _explained(
    error: PySparkException, source: str, kafka: Kafka, *, checkpoint: str
) -> IngestError:
    """One sentence instead of Spark's report of a failed query."""
    text = str(error)
    found = _REASON.search(text)
    message = found[1] if found else text.partition("\n")[0]
    reason = " ".join(message.partition("\n\tat ")[0].split())
    if _LOST.search(text):
        stood = _STOOD.search(text)
        why = _CHANGED.search(text)
        return SourceError(
            f"source {source}: Kafka no longer holds the messages that follow those read last"
            + (f" (read up to {stood[1]})" if stood else "")
            + (f": {why[1]}" if why else "")
            + "; they aged out, or a topic was deleted or made anew. To go on with what Kafka has,"
            f" remove the folder {checkpoint}: what it still has is read again, which changes no"
            " result; raise the source's epoch where its numbering starts again."
        )
    if "UnknownTopicOrPartition" in text:
        return SourceError(
            f"source {source}: {kafka.bootstrap_servers} has not all of the topics"
            f" {', '.join(kafka.topics or ())}: create what is missing or correct kafka.topics."
        )
    if "must specify all TopicPartitions" in text:
        return SourceError(
            f"source {source}: kafka.starting_offsets has to name every partition, -2 for the"
            f" earliest offset, -1 for the latest: {reason.rpartition('care.')[2].strip()}."
        )
    if "TimeoutException" in text:
        return PlatformError(
            f"source {source}: no answer from the Kafka broker {kafka.bootstrap_servers} in time:"
            f" {reason}; check that it runs and how it is to be reached (kafka.options)."
        )
    root = cause(error)
    if root is not None and root.partition(": ")[2] not in reason:
        reason = f"{reason.rstrip('.')}: {root}"
    reason = without_secrets(reason, kafka.options)
    return SourceError(f"source {source}: Kafka cannot be read: {reason}{log_hint()}")
