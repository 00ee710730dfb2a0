"""RabbitMQ to bronze: streams by offset, classic and quorum queues until they are empty.

A queue is a topic of bronze with one partition, 0. A super stream is a topic; its partitions are
the streams with its name and a number behind it, from `-0` on.
"""

from __future__ import annotations

from pathlib import Path

from ingest.config.sources import Source
from ingest.config.transports import RabbitMQ
from ingest.errors import PlatformError
from ingest.wire.contract import Message
from pipelines.bronze import queues
from pipelines.bronze.amqp.connection import Refused, Server, Tls, Unreachable, connect
from pipelines.bronze.amqp.queues import check_type, counted, peek
from pipelines.bronze.by_offset.rabbitmq_streams import Streams
from pipelines.bronze.by_offset.source import Partition, Span, Starting
from pipelines.bronze.draining import drain, folder
from pipelines.bronze.transport import Bronze, Reached, Sampling, Stop, Transport
from pipelines.platform.warehouse import Warehouse
from pipelines.terminal.console import counted as number_of

_FAILURES = (Refused, Unreachable)


def append(warehouse: Warehouse, source: Source, stop: Stop) -> Bronze:
    """Appends what is in the queues now.

    Raises:
        PlatformError: no server answers, or it refuses what is asked of it.
        SourceError: the streams cannot be read from where the source stands.
    """
    declared = _declared(source)
    if declared.queue_type != "stream":
        try:
            return Bronze(source.name, drain(warehouse, source, _server(declared), stop=stop))
        except _FAILURES as error:
            raise _unreachable(source, error) from None
        except OSError as error:
            raise _unkept(source, error, folder(warehouse, source)) from None
    client = _client(declared)
    _held(source, client)
    return queues.append(
        warehouse,
        source,
        client,
        starting=_starting(declared),
        lost=declared.lost,
        stop=stop,
    )


def reach(source: Source, root: str) -> Reached:
    """Asks for what every queue holds; raises as `append` does."""
    declared = _declared(source)
    if declared.queue_type == "stream":
        held = _held(source, _client(declared))
        count = sum(span.following - span.lowest for span in held.values())
        return Reached(True, f"{number_of(count, 'messages')} in {_named(declared)}")
    count = _waiting(source)
    return Reached(True, f"{number_of(count, 'messages')} in {_named(declared)}")


def sample(source: Source, root: str, sampling: Sampling) -> list[Message]:
    """A few messages of all queues. Those of queues that are emptied go back to their places,
    marked as redelivered. Raises as `append` does, and PlatformError if the newest messages of such
    a queue are asked for, since it delivers its oldest."""
    declared = _declared(source)
    try:
        if declared.queue_type == "stream":
            return queues.sampled(_client(declared), sampling)
        if sampling.newest:
            raise Refused(
                f"a queue of type {declared.queue_type} hands out its oldest messages: --oldest"
            )
        found: list[Message] = []
        for name in declared.queues or ():
            with connect(_server(declared)) as connection:
                check_type(connection, name, declared.queue_type)
                found += (
                    Message.of(delivery.record, name, partition=0, offset=number)
                    for number, delivery in enumerate(peek(connection, name, sampling.limit))
                )
        return found[: sampling.limit]
    except _FAILURES as error:
        raise _unreachable(source, error) from None


def unread(warehouse: Warehouse, source: Source) -> int | None:
    """How many messages the queues have that bronze does not; None if nobody answers. Raises
    SourceError if a run could not go on."""
    declared, checkpoint = _declared(source), warehouse.checkpoint("bronze", source.name)
    read = queues.reached(checkpoint)
    try:
        if declared.queue_type != "stream":
            return _waiting(source)
        held = _held(source, _client(declared))
    except PlatformError:
        return None
    return queues.unread(held, read, source=source, lost=declared.lost, checkpoint=checkpoint)


RABBITMQ = Transport(append, reach, sample, unread)


def _declared(source: Source) -> RabbitMQ:
    assert source.rabbitmq is not None
    return source.rabbitmq


def _server(declared: RabbitMQ) -> Server:
    given = declared.tls
    tls = None
    if given is not None:
        tls = Tls(given.ca_file, given.server_name, given.cert_file, given.key_file)
    return Server(
        declared.addresses, declared.virtual_host, declared.user, declared.password or "", tls
    )


def _client(declared: RabbitMQ) -> Streams:
    return Streams(_server(declared), declared.queues or (), declared.super_stream)


def _starting(declared: RabbitMQ) -> Starting:
    """Where to begin, by the names of partitions."""
    begin = declared.starting_offsets
    if isinstance(begin, str):
        return "latest" if begin == "latest" else "earliest"
    if declared.super_stream is None:
        return {str(Partition(name, 0)): offset for name, offset in begin.items()}
    prefix = f"{declared.super_stream}-"
    return {
        f"{declared.super_stream}/{name.removeprefix(prefix)}": offset
        for name, offset in begin.items()
    }


def _named(declared: RabbitMQ) -> str:
    return ", ".join(declared.queues or (f"the super stream {declared.super_stream}",))


def _held(source: Source, client: Streams) -> dict[Partition, Span]:
    try:
        return client.spans()
    except _FAILURES as error:
        raise _unreachable(source, error) from None


def _waiting(source: Source) -> int:
    declared = _declared(source)
    try:
        with connect(_server(declared)) as connection:
            for name in declared.queues or ():
                check_type(connection, name, declared.queue_type)
            return sum(counted(connection, name) for name in declared.queues or ())
    except _FAILURES as error:
        raise _unreachable(source, error) from None


def _unkept(source: Source, error: OSError, kept: Path) -> PlatformError:
    """The error for a failure on this side, while everything fetched and not acknowledged is still
    in the queue."""
    return PlatformError(
        f"source {source.name}: expected to keep what queues hand out in {error.filename or kept},"
        f" got: {error.strerror or error}; make room there or let it be written. What bronze has"
        " not is still in the queues."
    )


def _unreachable(source: Source, error: Refused | Unreachable) -> PlatformError:
    if isinstance(error, Refused):
        return PlatformError(f"source {source.name}: {error}.")
    return PlatformError(
        f"source {source.name}: RabbitMQ does not answer at {error}; start it or correct"
        " rabbitmq.servers."
    )
