"""Values as Kafka's protocol writes them (https://kafka.apache.org/protocol, "Protocol Primitive
Types")."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def int8(value: int) -> bytes:
    """A signed byte; also how a boolean is written."""
    return struct.pack(">b", value)


def int16(value: int) -> bytes:
    """Two bytes, the high one first."""
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    """Four bytes, the highest first."""
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    """Eight bytes, the highest first."""
    return struct.pack(">q", value)


def text(value: str | None) -> bytes:
    """A string with its length before it, -1 for none."""
    if value is None:
        return int16(-1)
    encoded = value.encode()
    return int16(len(encoded)) + encoded


def blob(value: bytes) -> bytes:
    """Bytes with their length before them."""
    return int32(len(value)) + value


def array(items: Iterable[bytes]) -> bytes:
    """Values with their number before them."""
    whole = list(items)
    return int32(len(whole)) + b"".join(whole)


def varint(value: int) -> bytes:
    """A number of flexible versions: seven bits a byte, the lowest first."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def compact_text(value: str) -> bytes:
    """A string of flexible versions: its length, plus one, before it."""
    encoded = value.encode()
    return varint(len(encoded) + 1) + encoded


class Reader:
    """Takes values off bytes, one after the other; raises ValueError if they end too early."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._at = 0

    @property
    def left(self) -> int:
        """How many bytes are not taken yet."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if not 0 <= count <= self.left:
            raise ValueError(f"Kafka sent {self.left} bytes where {count} were announced")
        self._at += count
        return bytes(self._data[self._at - count : self._at])

    def int8(self) -> int:
        """A signed byte."""
        return int.from_bytes(self.take(1), signed=True)

    def int16(self) -> int:
        """Two bytes."""
        return int.from_bytes(self.take(2), signed=True)

    def int32(self) -> int:
        """Four bytes."""
        return int.from_bytes(self.take(4), signed=True)

    def int64(self) -> int:
        """Eight bytes."""
        return int.from_bytes(self.take(8), signed=True)

    def text(self) -> str | None:
        """A string, or none."""
        length = self.int16()
        return None if length < 0 else self.take(length).decode()

    def blob(self) -> bytes:
        """Bytes; none are as no bytes."""
        return self.take(max(0, self.int32()))

    def array(self, item: Callable[[], Item]) -> list[Item]:
        """Values, each taken by `item`."""
        return [item() for _ in range(max(0, self.int32()))]

    def varint(self) -> int:
        """An unsigned number of seven bits a byte."""
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def zigzag(self) -> int:
        """A signed number as records have them: 0, -1, 1, -2 … are 0, 1, 2, 3 …"""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def compact_text(self) -> str | None:
        """A string of flexible versions, or none."""
        length = self.varint() - 1
        return None if length < 0 else self.take(length).decode()

    def compact_array(self, item: Callable[[], Item]) -> list[Item]:
        """Values of flexible versions, each taken by `item`."""
        return [item() for _ in range(max(0, self.varint() - 1))]

    def tags(self) -> None:
        """Passes over the tagged fields that end a structure of flexible versions."""
        for _ in range(self.varint()):
            self.varint()
            self.take(self.varint())
