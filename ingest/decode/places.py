"""Where the events of one source stand: in which stream, and at which position."""

from __future__ import annotations

from typing import NamedTuple

from ingest import position as order
from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.files.record import file_header
from ingest.formats import FORMATS, order_scheme
from ingest.memo import Memo
from ingest.wire.contract import Format, Message

_SENT = ("sequenceId", "storeDataSequence", "scn")
_SHOWN = 80


class Place(NamedTuple):
    """The number of a message's stream, and whether its events are ordered by arrival."""

    stream: int
    by_arrival: bool


class Places:
    """The places of a source's messages, and the positions of their events.

    `order`, `files`, `captured`, `statements`: see `DecodeSpec`.
    """

    def __init__(self, *, order: str, files: bool, captured: bool, statements: str) -> None:
        self._order = order
        self._files = files
        self._captured = captured
        self._statements = statements
        self._known: Memo[tuple[str | None, str, int], Place] = Memo(most=10_000)

    def of(self, name: str | None, message: Message) -> Place:
        """The place of a message of a format; remembered by topic and partition.

        Files are in the order of their ordinals, even if captured records come with them.
        """
        topic, partition = message.topic, message.partition
        known = self._known.get((name, topic, partition))
        if known is not None:
            return known
        own = file_header(partition, topic)
        of_file = self._files or (self._captured and own in message.headers[-1:])
        stream = partition if of_file else order.stream_number(topic, partition)
        by_arrival = order_scheme(self._order, name) == "arrival"
        place = self._known[name, topic, partition] = Place(stream, by_arrival)
        return place

    def arrival(self, message: Message) -> tuple[int, ...]:
        """The order key of a message by its arrival."""
        ordinal = message.partition if self._files else None
        placed = message.place if message.place is not None else message.timestamp
        return order.arrival(timestamp=placed, ordinal=ordinal)

    def position(
        self,
        event: Event,
        message: Message,
        epoch: int,
        *,
        row: int,
        name: str | None,
        place: Place,
    ) -> order.Pos | None:
        """The position of the event; None if it has none and needs none.

        Raises order_key_missing for a change without the position by which its source is ordered.
        """
        stream, by_arrival = place
        order_key = self.arrival(message) if by_arrival else event.order
        if order_key is None and event.snapshot:
            order_key = ()
        if order_key is not None:
            return order.position(
                epoch=epoch,
                snapshot=event.snapshot,
                order=order_key,
                stream=stream,
                offset=message.offset,
                row=row,
                half=self._half(event) if by_arrival else event.half,
            )
        if event.kind == "change" or event.kind == "fragment":
            format_ = event.format or name
            what_to_do = (FORMATS[format_] if format_ in FORMATS else Format).orderless
            raise DecodeError(
                Code.ORDER_KEY_MISSING,
                f"expected the order key of format {format_}, got none in row {row}"
                f"{_sent(event)}; {what_to_do}",
            )
        return None

    def _half(self, event: Event) -> int:
        """`half` by arrival. Files have one order, in which a truncate reaches everything before
        it."""
        copied = self._statements == "every_partition" or (
            event.broadcast and self._statements == "auto"
        )
        if event.op == "truncate" and copied and not self._files:
            return order.OWN_PARTITION
        return event.half


def _sent(event: Event) -> str:
    """What the message of an event without an order key has in its place, for a sentence about the
    row: the word `none` would not show that there is a text which cannot be read."""
    sent = ((name, getattr(event, name)) for name in _SENT)
    named = [f"{name} is {text[:_SHOWN]!r}" for name, text in sent if text]
    return f", whose {' and '.join(named)}" if named else ""
