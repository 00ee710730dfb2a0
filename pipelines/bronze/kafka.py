"""Kafka to bronze: one Structured Streaming query a source, its progress in the checkpoint."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from ingest.config.sources import Kafka, Source
from ingest.errors import IngestError, PlatformError, SourceError
from pipelines.platform.checkpoints import damaged
from pipelines.platform.failures import cause, log_hint
from pipelines.platform.session import connect_kafka
from pipelines.platform.warehouse import BRONZE, Warehouse

MOST_OFFSETS = 500_000
# The clients' own patience is a minute and more, and Spark asks three times.
PATIENCE = {
    "kafka.default.api.timeout.ms": "20000",
    "kafka.request.timeout.ms": "15000",
}
KNOCK_SECONDS = 3.0
POLL_SECONDS = 1

_REASON = re.compile(
    r"terminated with exception: (.*?)(?: SQLSTATE: \w+)?\s*(?:=== |\Z)", re.DOTALL
)
# Where Kafka's classes came by ADD JAR, a task's failure reaches the driver without its reason; the
# one failure of tasks that read Kafka is that the offsets are gone.
_LOST = re.compile(r"data may have been lost|data loss|OffsetOutOfRange|UnknownReason", re.I)
_STOOD = re.compile(r"Current Committed Offsets: \{[^\n]*?: (\{.*\})\}")
_CHANGED = re.compile(r"Reason: ([^\n]*)")


def ingest_kafka(
    warehouse: Warehouse, source: Source, kafka: Kafka, *, stop: Callable[[], bool]
) -> int:
    """Appends what is in the topics now; gives the number of messages.

    On `stop` the batch at work is given up: the next run does it again, and none is doubled.

    Raises:
        PlatformError: no broker answers, or this Spark cannot read Kafka.
        SourceError: the topics cannot be read from where the source stands.
    """
    if warehouse.local:
        knock(source.name, kafka.bootstrap_servers)
    connect_kafka(warehouse.session)
    checkpoint = warehouse.checkpoint("bronze", source.name)
    reader = warehouse.session.readStream.format("kafka").options(**_options(kafka))
    counts: dict[int, int] = {}
    try:
        rows = reader.load().withColumns(
            {
                "source": F.lit(source.name),
                "epoch": F.lit(source.epoch).cast("bigint"),
                "ingested_at": F.current_timestamp(),
            }
        )
        writer = (
            rows.select([name for name, _ in BRONZE])
            .writeStream.format("delta")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
        )
        if warehouse.local:
            query = writer.start(str(warehouse.folder("bronze", "messages")))
        else:
            query = writer.toTable(warehouse.name("bronze", "messages"))
        try:
            while not query.awaitTermination(POLL_SECONDS):
                _count(query, counts)
                if stop():
                    break
        finally:
            # A query outlives the interest in it; an interrupted one is done again.
            query.stop()
        _count(query, counts)
    except PySparkException as error:
        damage = damaged(source.name, checkpoint, remove=checkpoint)
        raise damage or _explained(error, source.name, kafka, checkpoint=checkpoint) from error
    return sum(counts.values())


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


def _count(query: Any, counts: dict[int, int]) -> None:
    """Notes the messages of each batch; Spark remembers the last hundred batches."""
    for progress in query.recentProgress:
        # Spark Connect gives the sum over the sources as None.
        counts[progress["batchId"]] = sum(part["numInputRows"] for part in progress["sources"])


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
    return SourceError(
        f"source {source}: Kafka cannot be read: {_without_secrets(reason, kafka)}{log_hint()}"
    )


def _without_secrets(text: str, kafka: Kafka) -> str:
    """The text without what options say that is nobody else's business."""
    for name, value in kafka.options.items():
        if re.search(r"password|jaas|secret|token|keystore\.key", name, re.I):
            hidden = [value, *re.findall(r"=\s*[\"']?([^\s\"';]+)", value)]
            for part in sorted((str(part) for part in hidden), key=len, reverse=True):
                text = text.replace(part, "[hidden]") if len(part) > 2 else text
    return text
