"""What queues of RabbitMQ hold and deliver.

A stream keeps its messages and can be read from any offset ("Streams", "Consuming with AMQP 0-9-1":
`x-stream-offset`, a prefetch is required). Classic and quorum queues forget what is acknowledged.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pipelines.bronze.amqp.connection import Refused, Unreachable
from pipelines.bronze.amqp.messages import OFFSET_HEADER, Delivery, delivery, offset_of

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

PATIENCE = 30.0
"""Seconds within which a stream has to deliver a message that it holds."""
QUIET = 1.0
"""Seconds after which a stream that counts no message is taken to be empty, and a queue that
delivers nothing to have nothing more for now."""
_AHEAD = 500
_CHUNK_AHEAD = 20_000


def exists(connection: BlockingConnection, queue: str) -> bool:
    """Whether there is such a queue."""
    from pika.exceptions import ChannelClosedByBroker

    try:
        channel = connection.channel()
        channel.queue_declare(queue, passive=True)
        channel.close()
    except ChannelClosedByBroker as error:
        # A queue whose node is just starting gives 404, too.
        if "no queue" in error.reply_text:
            return False
        raise
    return True


def check_type(connection: BlockingConnection, queue: str, declared: str) -> None:
    """Raise Refused if a queue is not of the declared type.

    Every type refuses the argument of a stream without a prefetch, each in its own words, so
    nothing is delivered by this.
    """
    from pika.exceptions import ChannelClosedByBroker

    try:
        channel = connection.channel()
        channel.basic_consume(queue, lambda *_: None, arguments={OFFSET_HEADER: "first"})
    except ChannelClosedByBroker as error:
        if "prefetch" in error.reply_text and declared == "stream":
            return
        found = re.search(r"of queue type rabbit_(\w+)_queue", error.reply_text)
        if "prefetch" not in error.reply_text and found is None:
            raise
        actual = found[1] if found is not None else "stream"
        if actual != declared:
            raise Refused(
                f"the queue {queue!r} is of type {actual}: set rabbitmq.queue_type: {actual}, or"
                " correct its name"
            ) from None


def counted(connection: BlockingConnection, queue: str) -> int:
    """How many messages a queue has to deliver; for a stream, about as many as it holds."""
    channel = connection.channel()
    count = int(channel.queue_declare(queue, passive=True).method.message_count)
    channel.close()
    return count


def stream_span(connection: BlockingConnection, queue: str) -> tuple[int, int] | None:
    """The lowest offset that a stream holds, and the one after its last message; None if it holds
    none. Raises Unreachable if it claims to hold some and delivers none in time.

    Two consumers stay until the connection ends: ending one gives back what it was delivered, which
    a stream refuses by closing the connection.
    """
    lowest = _lowest(connection, queue)
    return None if lowest is None else (lowest, _last(connection, queue) + 1)


def read_stream(
    connection: BlockingConnection, queue: str, start: int, *, end: int
) -> Iterator[Delivery]:
    """The messages of a stream from `start` up to, but not including, `end`, which it has. The
    first one may be higher than asked for. Offsets that stand for no message are left out."""
    channel = _channel(connection, _AHEAD)
    arguments: dict[str, Any] = {OFFSET_HEADER: start}
    given = channel.consume(queue, arguments=arguments, inactivity_timeout=PATIENCE)
    for number, (method, properties, body) in enumerate(given, 1):
        if method is None:
            raise Unreachable(f"the stream {queue!r} hands out nothing from offset {start} on")
        one = delivery(method, properties, body)
        offset = offset_of(properties)
        if offset >= end:
            return
        # A stream delivers whole chunks, so messages before `start` in its chunk come too.
        if offset >= start:
            yield one
        if offset == end - 1:
            return
        if number % (_AHEAD // 2) == 0:
            channel.basic_ack(one.tag, multiple=True)


def _lowest(connection: BlockingConnection, queue: str) -> int | None:
    channel = _channel(connection, 1)
    found: list[int] = []

    def note(*handed_out: Any) -> None:
        _, _, properties, _ = handed_out
        found.append(offset_of(properties))

    channel.basic_consume(queue, note, arguments={OFFSET_HEADER: "first"})
    holds = counted(connection, queue) > 0
    _await(connection, found, PATIENCE if holds else QUIET)
    if holds and not found:
        raise Unreachable(f"the stream {queue!r} hands out nothing")
    return found[0] if found else None


def _last(connection: BlockingConnection, queue: str) -> int:
    """The offset of a stream's last message.

    Reading begins with the last chunk, which is delivered in one go; so the answer to a question
    that is asked after its first message comes after all of them.
    """
    channel = _channel(connection, _CHUNK_AHEAD)
    found: list[tuple[int, int]] = []

    def note(*handed_out: Any) -> None:
        _, method, properties, _ = handed_out
        found.append((offset_of(properties), method.delivery_tag))

    channel.basic_consume(queue, note, arguments={OFFSET_HEADER: "last"})
    _await(connection, found, PATIENCE)
    if not found:
        raise Unreachable(f"the stream {queue!r} hands out nothing")
    before = 0
    while True:
        channel.basic_qos(prefetch_count=_CHUNK_AHEAD)
        connection.process_data_events(time_limit=0)
        if len(found) < before + _CHUNK_AHEAD:
            break
        before = len(found)
        channel.basic_ack(found[-1][1], multiple=True)
    return found[-1][0]


def _await(connection: BlockingConnection, found: list[Any], seconds: float) -> None:
    """Process what arrives until something is found, at most for this long."""
    deadline = time.monotonic() + seconds
    while not found and time.monotonic() < deadline:
        connection.process_data_events(time_limit=QUIET / 4)


def _channel(connection: BlockingConnection, ahead: int) -> BlockingChannel:
    channel = connection.channel()
    channel.basic_qos(prefetch_count=ahead)
    return channel


def peek(connection: BlockingConnection, queue: str, most: int) -> list[Delivery]:
    """The oldest messages of a classic or quorum queue, which are put back to their places."""
    channel = _channel(connection, most)
    taken: list[Delivery] = []
    while len(taken) < most:
        method, properties, body = channel.basic_get(queue)
        if method is None:
            break
        taken.append(delivery(method, properties, body))
    if taken:
        channel.basic_nack(taken[-1].tag, multiple=True, requeue=True)
    return taken


class Drain:
    """Takes messages from a classic or quorum queue until they are acknowledged; those that are not
    go back to it when the connection ends."""

    def __init__(self, connection: BlockingConnection, queue: str, *, most: int) -> None:
        self._most = most
        self._channel = _channel(connection, most)
        self._given = self._channel.consume(queue, inactivity_timeout=QUIET)

    def take(self, most_bytes: int) -> list[Delivery]:
        """The next messages, in order: not more than the most that the drain takes, and not many
        more bytes than `most_bytes`; fewer if the queue has no more for now."""
        taken: list[Delivery] = []
        size = 0
        for method, properties, body in self._given:
            if method is None:
                break
            taken.append(delivery(method, properties, body))
            size += len(body)
            if len(taken) == self._most or size >= most_bytes:
                break
        return taken

    def acknowledge(self, last: Delivery, *, ends: bool) -> None:
        """Let the queue forget all messages up to `last`; returns when the server has heard of it.
        If the drain `ends`, nothing is delivered in their place: it would go back unread, which a
        delivery limit counts."""
        if ends:
            self._channel.cancel()
        self._channel.basic_ack(last.tag, multiple=True)
        # Answers come in order, so this one comes after the acknowledgement.
        self._channel.basic_qos(prefetch_count=self._most)
