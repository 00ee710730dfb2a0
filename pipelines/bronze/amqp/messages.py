"""A message of RabbitMQ as bronze keeps it.

The body is the value. Headers stay headers, with their values as text; the properties, and where
the message was sent to, become headers that begin with `rabbitmq.`. What only belongs to a delivery
is left out, so the same message is the same row however often it is delivered. Properties and types
of headers: AMQP 0-9-1 specification, 4.2.5.5 and 4.2.6; RabbitMQ, "AMQP 0-9-1 Errata", field types.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import orjson

from ingest.files.record import Record
from pipelines.bronze.amqp.connection import Unreachable
from pipelines.bronze.amqp.tables import Table

PREFIX = "rabbitmq."
OFFSET_HEADER = "x-stream-offset"
MILLIS_HEADER = "timestamp_in_ms"
"""Set by RabbitMQ itself if it stamps messages (`message_interceptors`, or the plugin
rabbitmq_message_timestamp); the property is in seconds, and comes from the publisher."""
_OF_DELIVERY = frozenset((OFFSET_HEADER, "x-delivery-count", "x-acquired-count"))
_PROPERTIES = tuple(
    """
    content_type content_encoding delivery_mode priority correlation_id reply_to expiration
    message_id timestamp type user_id app_id
    """.split()
)
_LAST_MILLI = 253_402_300_799_999  # of the year 9999
Headers = tuple[tuple[str, bytes | None], ...]


class Delivery(NamedTuple):
    """A message as it was delivered. `tag` is what acknowledges it. `again`: the server may have
    delivered it before; if false, it certainly has not (RabbitMQ, "Reliability Guide", Consumer
    Side)."""

    tag: int
    again: bool
    record: Record

    @property
    def digest(self) -> str:
        """Tells the message from others by its body, headers and properties, its id included if the
        publisher gave one."""
        found = hashlib.blake2b(digest_size=16)
        found.update(repr((self.record.headers, self.record.timestamp)).encode())
        found.update(self.record.value or b"")
        return found.hexdigest()


def delivery(method: Any, properties: Any, body: bytes) -> Delivery:
    """What the driver hands over, with its offset in the stream if it has one."""
    headers: Table = properties.headers or []
    record = Record(
        body,
        headers=_headers(method, properties, headers),
        offset=_number(headers, OFFSET_HEADER),
        timestamp=_millis(properties.timestamp, _number(headers, MILLIS_HEADER)),
    )
    return Delivery(method.delivery_tag, method.redelivered, record)


def offset_of(properties: Any) -> int:
    """The place in its stream of a message."""
    offset = _number(properties.headers or [], OFFSET_HEADER)
    if offset is None:
        raise Unreachable("a stream hands out a message without its offset")
    return offset


def _number(headers: Table, name: str) -> int | None:
    """The integer in a header; a text of a sender with the same name is none."""
    found = [value for key, value in headers if key == name and type(value) is int]
    return found[-1] if found else None


def _headers(method: Any, properties: Any, headers: Table) -> Headers:
    found = [(name, _bytes(value)) for name, value in headers if name not in _OF_DELIVERY]
    for name in _PROPERTIES:
        value = getattr(properties, name)
        if value is not None:
            found.append((f"{PREFIX}{name}", _bytes(value)))
    if method.exchange:
        found.append((f"{PREFIX}exchange", _bytes(method.exchange)))
    found.append((f"{PREFIX}routing_key", _bytes(method.routing_key)))
    return tuple(found)


def _bytes(value: Any) -> bytes | None:
    """A header's value as text: times in ISO 8601, nested ones as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, dict | list):
        return orjson.dumps(value, default=_text)
    return _text(value).encode()


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _millis(seconds: int | None, millis: int | None) -> int | None:
    """When the message was stamped; a time outside of this calendar stays a header only."""
    found = seconds * 1000 if millis is None and seconds is not None else millis
    return found if found is not None and 0 <= found <= _LAST_MILLI else None
