"""Kafka to bronze, by Spark's own source of Structured Streaming.

What Spark's source does not tell is asked without it: what the topics hold (`kafka_topics`), and
which messages are gone that were still to be read (`lost_offsets`). If only Java can log in, Spark
reads alone.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from ingest.config.sources import Source
from ingest.config.transports import Kafka
from ingest.errors import IngestError, PlatformError, SourceError
from ingest.sql.headers import header_value
from ingest.wire.contract import Message
from pipelines.bronze import queues
from pipelines.bronze.by_offset.source import Gone, Partition, Span
from pipelines.bronze.far_times import append_apart, far_times, planned_ends
from pipelines.bronze.kafka_api.cluster import NoPermission, NoTopic
from pipelines.bronze.kafka_api.login import Unsupported
from pipelines.bronze.kafka_topics import (
    FAILURES,
    KEY_HEADER,
    Held,
    explained,
    topics_of,
)
from pipelines.bronze.lost_offsets import Loss, SourceOffsets, offsets_read
from pipelines.bronze.stream import append_stream, begun, check_begins
from pipelines.bronze.transport import Bronze, Reached, Sampling, Stop, Transport, Waiting
from pipelines.platform.checkpoints import damaged
from pipelines.platform.failures import cause, log_hint
from pipelines.platform.secrets import without_secrets
from pipelines.platform.session import connect_kafka
from pipelines.platform.warehouse import Warehouse
from pipelines.terminal.console import counted

# By themselves the clients wait for a minute and more, and Spark asks three times.
PATIENCE = {
    "kafka.default.api.timeout.ms": "20000",
    "kafka.request.timeout.ms": "15000",
}
KNOCK_SECONDS = 3.0
_ATTEMPTS = 5
"""How often, in one run, a source goes on although messages keep being lost."""

_KEY = f"coalesce(key, {header_value(KEY_HEADER)})"
_REASON = re.compile(
    r"terminated with exception: (.*?)(?: SQLSTATE: \w+)?\s*(?:=== |\Z)", re.DOTALL
)
# Where Kafka's classes came by ADD JAR, a task's failure reaches the driver without its reason.
_UNTOLD = "UnknownReason"
_ON_CLASS_PATH = (
    "; by OAUTHBEARER they log in where Kafka's jars stand on the class path: start Spark with them"
    " (--packages), or by spark(..., with_kafka=True)"
)
_LOST = re.compile(r"data may have been lost|data loss|OffsetOutOfRange|UnknownReason", re.I)
_FAR = re.compile(rf"ArithmeticException|long overflow|{_UNTOLD}")
_STOOD = re.compile(r"Current Committed Offsets: \{[^\n]*?: (\{.*\})\}")
_CHANGED = re.compile(r"Reason: ([^\n]*)")
_REFUSED = re.compile(
    r"Sasl\w*Exception|SslAuthentication|SSLHandshake|\w+AuthorizationException|mechanism"
)


def append(warehouse: Warehouse, source: Source, stop: Stop) -> Bronze:
    """Appends what is in the topics now.

    On `stop` the batch at work is given up: the next run does it again, and none is doubled.

    Raises:
        PlatformError: no broker answers or lets the source in, or this Spark cannot read Kafka.
        SourceError: the topics cannot be read from where the source stands.
    """
    kafka = _declared(source)
    if warehouse.local:
        knock(source.name, kafka.addresses)
    connect_kafka(warehouse.session)
    checkpoint = warehouse.checkpoint("bronze", source.name)
    lost: list[Loss] = []
    apart = 0
    for attempt in range(_ATTEMPTS):
        held = _held(source)
        offsets = SourceOffsets(warehouse, source, checkpoint)
        offsets.finish()
        if kafka.starting_offsets == "latest" and not (begun(checkpoint) or offsets.read()):
            check_begins(warehouse, source, held.topics if held is not None else kafka.topics or ())
        if held is not None:
            lost += _settled(offsets, held)
        if _waits_for_more(source, offsets, held):
            return Bronze(source.name, apart)
        waits = len(_beyond(held.spans, offsets.read(), kafka)) if held is not None else 1
        reader = warehouse.session.readStream.format("kafka").options(
            **_options(kafka, offsets.starting(held)), maxOffsetsPerTrigger=_most(kafka, waits)
        )
        try:
            messages = reader.load().withColumn("key", F.expr(_KEY))
            count = append_stream(warehouse, source, messages, checkpoint=checkpoint, stop=stop)
        except PySparkException as error:
            again = attempt < _ATTEMPTS - 1
            apart += _recovered(warehouse, source, held, error=error, again=again, stop=stop)
            continue
        said = tuple(f"{loss}: gone before it was read; a row of silver says so" for loss in lost)
        return Bronze(source.name, apart + count, failed=_noted(source, checkpoint), lost=said)
    raise AssertionError("the last attempt returns or raises")


def _recovered(
    warehouse: Warehouse,
    source: Source,
    held: Held | None,
    *,
    error: PySparkException,
    again: bool,
    stop: Stop,
) -> int:
    """Do what lets the source go on after its stream failed; gives how many messages were appended
    meanwhile. Raises the sentence on the failure if there is no such way, or no attempt is left
    (`again`)."""
    kafka, checkpoint = _declared(source), warehouse.checkpoint("bronze", source.name)
    damage = damaged(source.name, checkpoint, remove=checkpoint)
    if damage is None and again:
        if _goes_on(error, kafka, held):
            # What was lost while the stream began is found by the next attempt.
            return 0
        more = None
        if held is not None:
            more = _read_apart(warehouse, source, held, error=error, stop=stop)
        if more is not None:
            return more
    if damage is None and _UNTOLD in str(error) and not _is_lost(warehouse, source):
        damage = SourceError(
            f"source {source.name}: Spark's tasks cannot read Kafka, though all messages"
            f" that are to be read are there{_ON_CLASS_PATH if kafka.by_token else ''}"
            f"{log_hint()}"
        )
    raise damage or _explained(error, source, checkpoint=checkpoint) from error


def _held(source: Source) -> Held | None:
    """What the topics hold; None if only Spark can ask, or if it says better what is wrong.

    Raises PlatformError if a topic is missing or forbidden.
    """
    try:
        return topics_of(_declared(source)).held()
    except (NoTopic, NoPermission) as error:
        raise explained(error, source) from None
    except FAILURES:
        return None


def _settled(offsets: SourceOffsets, held: Held) -> list[Loss]:
    """The losses that were noted just now; raises SourceError if the source cannot go on."""
    losses = offsets.losses(held, offsets.read())
    offsets.check(losses)
    offsets.go_on(losses, held)
    return losses


def _waits_for_more(source: Source, offsets: SourceOffsets, held: Held | None) -> bool:
    """Whether the source leaves its messages for later: there are too few of them
    (`min_offsets_per_batch`), and they have not waited too long (`max_delay`)."""
    kafka = _declared(source)
    if kafka.min_offsets_per_batch <= 1 or held is None:
        return False
    read, ended = offsets.read(), offsets.last_batch()
    # If the clock was set back since the last batch, nobody waits for it.
    if read is None or ended is None or not 0 <= time.time() - ended < (kafka.max_delay or 0):
        return False
    waits = sum(wait.end - wait.start for wait in _beyond(held.spans, read, kafka))
    return waits < kafka.min_offsets_per_batch


def _goes_on(error: PySparkException, kafka: Kafka, held: Held | None) -> bool:
    """Whether the failure is a loss of messages, and the source is to go on after one."""
    return kafka.lost == "go_on" and held is not None and _LOST.search(str(error)) is not None


def _read_apart(
    warehouse: Warehouse, source: Source, held: Held, *, error: PySparkException, stop: Stop
) -> int | None:
    """Append the waiting messages of those partitions in which Spark failed at the time of a
    message, as far as bronze does not have them; gives how many. None if Spark failed for another
    reason."""
    if not _FAR.search(str(error)):
        return None
    kafka, checkpoint = _declared(source), warehouse.checkpoint("bronze", source.name)
    offsets = SourceOffsets(warehouse, source, checkpoint)
    client = topics_of(kafka)
    waits = _beyond(held.spans, offsets.read(), kafka)
    try:
        found = far_times(client, waits, planned_ends(checkpoint))
        if not found:
            return None
        count = append_apart(warehouse, source, client, waits=offsets.unread(found), stop=stop)
    except (*FAILURES, Gone):
        # Then the user is told what Spark failed for.
        return None
    offsets.go_on([], held, anew=True)
    return count


def _is_lost(warehouse: Warehouse, source: Source) -> bool:
    """Whether messages are gone, as far as can be told."""
    offsets = SourceOffsets(warehouse, source, warehouse.checkpoint("bronze", source.name))
    held = _held(source)
    return held is None or bool(offsets.losses(held, offsets.read()))


def _noted(source: Source, checkpoint: str) -> tuple[str, ...]:
    """Note how far the source is for the consumer group that it declares; gives the sentence on it
    if that failed."""
    kafka, read = _declared(source), offsets_read(checkpoint)
    if kafka.group is None or read is None:
        return ()
    try:
        topics_of(kafka).commit(kafka.group, read)
    except FAILURES as error:
        text = str(explained(error, source)).removeprefix(f"source {source.name}: ")
        return (f"the consumer group {kafka.group} is not told how far it is: {text}",)
    return ()


def reach(source: Source, root: str) -> Reached:
    """Asks for what the topics hold; raises PlatformError where nobody answers or lets it in."""
    kafka = _declared(source)
    knock(source.name, kafka.addresses)
    try:
        held = topics_of(kafka).held()
    except Unsupported as error:
        servers = kafka.bootstrap_servers
        return Reached(True, f"a broker of {servers} is reachable; not tried: {error}")
    except FAILURES as error:
        raise explained(error, source) from None
    count = sum(span.following - span.lowest for span in held.spans.values())
    names = ", ".join(sorted(held.topics)) or f"no topic yet like {kafka.topics_pattern}"
    return Reached(True, f"{counted(count, 'messages')} in {names}")


def sample(source: Source, root: str, sampling: Sampling) -> list[Message]:
    """A few messages of all topics; raises as `reach` does, and where only Java can log in."""
    kafka = _declared(source)
    knock(source.name, kafka.addresses)
    try:
        return queues.sampled(topics_of(kafka), sampling)
    except FAILURES as error:
        raise explained(error, source) from None


def unread(warehouse: Warehouse, source: Source) -> int | None:
    """How many offsets the topics hold above those that were read; None if that cannot be told now.
    Raises SourceError if messages are gone and a run could not go on."""
    try:
        return sum(wait.end - wait.start for wait in waiting(warehouse, source))
    except PlatformError:
        return None


def waiting(warehouse: Warehouse, source: Source) -> list[Waiting]:
    """What the topics hold beyond the offsets that were read last, by partition. Offsets without a
    message, of transactions and compacted topics, are counted too. Raises SourceError if messages
    are gone and a run could not go on."""
    kafka = _declared(source)
    if warehouse.local:
        knock(source.name, kafka.addresses)
    # Read before the topics are asked, since a run may advance meanwhile.
    offsets = SourceOffsets(warehouse, source, warehouse.checkpoint("bronze", source.name))
    read = offsets.read()
    try:
        held = topics_of(kafka).held()
    except FAILURES as error:
        raise explained(error, source) from None
    offsets.check(offsets.losses(held, read))
    return _beyond(held.spans, read, kafka)


def _beyond(
    held: dict[Partition, Span], read: dict[Partition, int] | None, kafka: Kafka
) -> list[Waiting]:
    """What partitions hold beyond what was read."""
    if read is None and kafka.starting_offsets == "latest":
        return []
    if read is None and kafka.starting_offsets != "earliest":
        read = {
            Partition(topic, int(number)): offset
            for topic, offsets in json.loads(kafka.starting_offsets).items()
            for number, offset in offsets.items()
        }
    found = []
    for partition, span in held.items():
        start = (read or {}).get(partition, -2)
        start = span.following if start == -1 else max(start, span.lowest)
        if start < span.following:
            found.append(Waiting(*partition, start, span.following))
    return sorted(found)


KAFKA = Transport(append, reach, sample, unread, waiting)


def _declared(source: Source) -> Kafka:
    assert source.kafka is not None
    return source.kafka


def _options(kafka: Kafka, starting: str) -> dict[str, str]:
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
        "startingOffsets": starting,
        "includeHeaders": "true",
        "failOnDataLoss": "true",
    }


def _most(kafka: Kafka, waits: int) -> str:
    """How many offsets Spark takes in a batch. It gives at least one to each partition in which
    something `waits`, even if the partition's share is less than one."""
    return str(max(1, kafka.max_offsets_per_batch - max(0, waits - 1)))


def knock(source: str, brokers: Sequence[tuple[str, int]]) -> None:
    """Find out within seconds that no broker answers; the Kafka client takes minutes for it and
    ends with a stack trace."""
    refusals = []
    for host, port in brokers:
        try:
            socket.create_connection((host, port), timeout=KNOCK_SECONDS).close()
        except OSError as error:
            refusals.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return
    raise PlatformError(
        f"source {source}: no Kafka broker answers at {', '.join(refusals)};"
        " start it or correct kafka.bootstrap_servers."
    )


def _explained(error: PySparkException, source: Source, *, checkpoint: str) -> IngestError:
    """One sentence in place of Spark's report of a failed query."""
    kafka, where, text = _declared(source), f"source {source.name}:", str(error)
    found = _REASON.search(text)
    message = found[1] if found else text.partition("\n")[0]
    reason = " ".join(message.partition("\n\tat ")[0].split())
    if _LOST.search(text):
        stood = _STOOD.search(text)
        why = _CHANGED.search(text)
        return SourceError(
            f"{where} Kafka no longer holds the messages that follow those read last"
            + (f" (read up to {stood[1]})" if stood else "")
            + (f": {why[1]}" if why else "")
            + "; they aged out, or a topic was deleted or made anew. Where it was made anew, raise"
            " the source's epoch first: its messages would be taken for copies of others. To go on"
            f" with what Kafka has, remove the folder {checkpoint}: what it still has is read"
            " again, as copies that count once."
        )
    if "UnknownTopicOrPartition" in text:
        return explained(NoTopic(""), source)
    if "must specify all TopicPartitions" in text:
        return SourceError(
            f"{where} kafka.starting_offsets has to name every partition, -2 for the"
            f" earliest offset, -1 for the latest: {reason.rpartition('care.')[2].strip()}."
        )
    if "TimeoutException" in text:
        return PlatformError(
            f"{where} no answer from the Kafka broker {kafka.bootstrap_servers} in time:"
            f" {reason}; check that it runs and how it is to be reached (kafka.options)."
        )
    root = cause(error)
    if root is not None and root.partition(": ")[2] not in reason:
        reason = f"{reason.rstrip('.')}: {root}"
    reason = without_secrets(reason, kafka.options)
    kind = PlatformError if _REFUSED.search(text) else SourceError
    return kind(f"{where} Kafka cannot be read: {reason}{log_hint()}")
