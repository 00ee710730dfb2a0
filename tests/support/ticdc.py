"""Batches of TiCDC's Open protocol."""

from __future__ import annotations

from ingest.wire.contract import Message


def batch(*events: tuple[bytes, bytes]) -> Message:
    """A message of the events' keys and values, as TiCDC writes it."""
    keys, values = zip(*events, strict=True)
    return Message(_parts(values), (1).to_bytes(8, "big") + _parts(keys))


def events(message: Message) -> list[tuple[bytes, bytes]]:
    """The keys and values of a batch's events."""
    keys = _cut((message.key or b"")[8:])
    return list(zip(keys, _cut(message.value or b"") or [b""] * len(keys), strict=True))


def _cut(data: bytes) -> list[bytes]:
    parts = []
    while data:
        size = int.from_bytes(data[:8], "big")
        parts.append(data[8 : 8 + size])
        data = data[8 + size :]
    return parts


def _parts(parts: tuple[bytes, ...]) -> bytes:
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
