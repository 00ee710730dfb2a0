"""Messages as brokers store them and hand them out: RocketMQ's binary layout of a commit log entry.

Layout: RocketMQ 5.3, `MessageDecoder.decode` and `MessageDecoder.decodeMessage`
(https://github.com/apache/rocketmq/blob/rocketmq-all-5.3.3/common/src/main/java/org/apache/rocketmq/common/message/MessageDecoder.java).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

_START = struct.Struct(">iiiiiqqiq")
"""Size, magic, CRC of the body, queue, flag, queue offset, commit log offset, sysFlag, born at."""
_INNER = struct.Struct(">iiiii")
"""Of a message in a batch: size, magic, CRC of the body, flag, length of the body."""
_LONG_TOPIC = -626843477
"""The magic of entries whose topic has two bytes for its length: MESSAGE_MAGIC_CODE_V2."""
_PACKED = 1
_PACKED_BY = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}
_BORN_V6, _STORED_V6 = 1 << 4, 1 << 5
_BATCH = 1 << 6 | 1 << 7
"""NEED_UNWRAP and INNER_BATCH: the body holds several messages, of offsets from its own on."""
_UNPACKED_MOST = 1 << 27


class Stored(NamedTuple):
    """One message of a queue. `stored_at` is the broker's clock, in milliseconds of the epoch;
    `properties` hold the keys, the tag and what the producer added."""

    topic: str
    queue: int
    offset: int
    stored_at: int
    body: bytes
    properties: Mapping[str, str]


def stored(body: bytes) -> Iterator[Stored]:
    """The messages of a pulled body, in their order.

    Raises ValueError if the bytes are not laid out like messages.
    """
    at = 0
    try:
        while at < len(body):
            size = _START.unpack_from(body, at)[0]
            if not 0 < size <= len(body) - at:
                raise ValueError(f"a message of {size} bytes, of which {len(body) - at} came")
            yield from _entry(body, at)
            at += size
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"a message at byte {at} that cannot be read: {error}") from error


def _entry(body: bytes, at: int) -> Iterator[Stored]:
    """The message, or the messages of a batch, at a place of a pulled body."""
    _, magic, _, queue, _, offset, _, flags, _ = _START.unpack_from(body, at)
    at += _START.size + (20 if flags & _BORN_V6 else 8)
    (stored_at,) = struct.unpack_from(">q", body, at)
    # Behind the time: the storing host, how often it was consumed, a transaction's place.
    at += 8 + (20 if flags & _STORED_V6 else 8) + 4 + 8
    content, at = _sized(body, at, ">i")
    topic, at = _sized(body, at, ">h" if magic == _LONG_TOPIC else ">b")
    written, at = _sized(body, at, ">h")
    name, properties = topic.decode(), _properties(written)
    if flags & _BATCH == _BATCH:
        for ordinal, (inner, own) in enumerate(_batch(_unpacked(content, flags))):
            coordinates = (name, queue, offset + ordinal, stored_at)
            yield Stored(*coordinates, inner, {**properties, **own})
    else:
        yield Stored(name, queue, offset, stored_at, _unpacked(content, flags), properties)


def _batch(body: bytes) -> Iterator[tuple[bytes, dict[str, str]]]:
    """The bodies of a batch, each with its properties."""
    at = 0
    while at < len(body):
        size = _INNER.unpack_from(body, at)[0]
        content, end = _sized(body, at + _INNER.size - 4, ">i")
        written, end = _sized(body, end, ">h")
        if end != at + size:
            raise ValueError(f"a message of {size} bytes in a batch, of which {end - at} are told")
        yield content, _properties(written)
        at = end


def _sized(body: bytes, at: int, length: str) -> tuple[bytes, int]:
    """What stands behind its own length, and where it ends."""
    (size,) = struct.unpack_from(length, body, at)
    start = at + struct.calcsize(length)
    if not 0 <= size <= len(body) - start:
        raise ValueError(f"a part of {size} bytes, of which {len(body) - start} came")
    return body[start : start + size], start + size


def _properties(written: bytes) -> dict[str, str]:
    """`name, 0x01, value, 0x02` again and again."""
    text = written.decode(errors="replace")
    pairs = (pair.partition("\x01") for pair in text.split("\x02") if pair)
    return {name: value for name, _, value in pairs}


def _unpacked(content: bytes, flags: int) -> bytes:
    """The body as the producer gave it. One that is damaged, or unpacks to more than 128 MiB, stays
    as it came: it is kept, and silver says of it that it cannot be read."""
    if not flags & _PACKED:
        return content
    codec = _PACKED_BY.get(flags >> 8 & 7, "zlib")
    try:
        if codec == "zlib":
            whole = zlib.decompressobj().decompress(content, _UNPACKED_MOST + 1)
        else:
            with pa.input_stream(pa.py_buffer(content), compression=codec) as stream:
                whole = stream.read(_UNPACKED_MOST + 1)
    except (zlib.error, OSError):
        return content
    return whole if len(whole) <= _UNPACKED_MOST else content
