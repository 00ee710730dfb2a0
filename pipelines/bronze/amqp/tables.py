"""The headers of a message, as AMQP 0-9-1 writes them: a field table.

The driver's own decoder closes the connection over things that senders do write (a time beyond the
calendar, a double that is no number), and cuts doubles to integers. Here every table has entries,
whatever it contains. If a list or a table within it cannot be read, its value is its bytes. If an
entry has an unknown type, whose length nobody knows, that entry and everything after it become the
bytes of REST.

Source: AMQP 0-9-1 specification, 4.2.5.5; RabbitMQ, "AMQP 0-9-1 Errata", field types.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

REST = "rabbitmq.headers"
"""The name of the bytes of a table from its first unreadable entry on."""
DEPTH = 100
"""How many levels of lists and tables are read; what is nested deeper stays bytes."""
Table = list[tuple[str, Any]]
_FRAME = struct.Struct(">BHL")
_HEADER_FRAME = 2
_BEFORE_FLAGS = 12  # class, weight, size of the body
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS = 1 << 15, 1 << 14, 1 << 13
_MORE_FLAGS = 1
_NUMBERS = {
    **{b"b": ">b", b"B": ">B", b"U": ">h", b"s": ">h", b"u": ">H", b"I": ">i", b"i": ">I"},
    **{b"L": ">q", b"l": ">q"},
}


def decode_table(data: bytes) -> Table:
    """The entries of a table, without its length, in their order; a name may come twice."""
    reader, found = _Reader(data), Table()
    while reader.at < len(data):
        begin = reader.at
        try:
            name = reader.name()
            found.append((name, _value(reader, 0)))
        except ValueError:
            found.append((REST, data[begin:]))
            break
    return found


def decode_frame(data: bytes, decode: Callable[[bytes], Any]) -> Any:
    """What `decode`, the driver's function, makes of the first frame in `data`: how many bytes it
    has, and the frame. The headers in a message's properties become a Table, which the driver never
    sees."""
    if data[:1] != bytes([_HEADER_FRAME]) or len(data) < _FRAME.size:
        return decode(data)
    _, channel, size = _FRAME.unpack_from(data)
    end = _FRAME.size + size + 1
    if len(data) < end:
        return decode(data)
    try:
        payload, table = _without_headers(bytes(data[_FRAME.size : end - 1]))
    except ValueError:
        return decode(data)
    if table is None:
        return decode(data)
    head = _FRAME.pack(_HEADER_FRAME, channel, len(payload))
    _, frame = decode(head + payload + bytes(data[end - 1 : end]))
    frame.properties.headers = decode_table(table)
    return end, frame


def _without_headers(payload: bytes) -> tuple[bytes, bytes | None]:
    """The payload of a header frame without the table in it, and the table; None if there is
    none."""
    reader = _Reader(payload, _BEFORE_FLAGS)
    flags = more = reader.number(">H")
    if not flags & _HEADERS:
        return payload, None
    while more & _MORE_FLAGS:
        more = reader.number(">H")
    for flag in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if flags & flag:
            reader.take(reader.number(">B"))
    begin = reader.at
    table = reader.sized()
    cleared = struct.pack(">H", flags & ~_HEADERS)
    before = payload[:_BEFORE_FLAGS] + cleared + payload[_BEFORE_FLAGS + len(cleared) : begin]
    return before + payload[reader.at :], table


class _Reader:
    """Reads bytes in order; raises ValueError behind their end."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self._data):
            raise ValueError("the table ends within an entry")
        taken = self._data[self.at : end]
        self.at = end
        return taken

    def number(self, form: str) -> Any:
        (number,) = struct.unpack(form, self.take(struct.calcsize(form)))
        return number

    def sized(self) -> bytes:
        return self.take(self.number(">I"))

    def name(self) -> str:
        return self.take(self.number(">B")).decode(errors="replace")


def _value(reader: _Reader, depth: int) -> Any:
    """The value of an entry: lists and tables as Python's own, text that is not UTF-8 as bytes, a
    time beyond the calendar as its seconds, a double that is no number as its text."""
    kind = reader.take(1)
    if kind in _NUMBERS:
        return reader.number(_NUMBERS[kind])
    match kind:
        case b"t":
            return reader.number(">B") != 0
        case b"f" | b"d":
            number = reader.number(">" + kind.decode())
            return number if math.isfinite(number) else repr(number)
        case b"D":
            scale = reader.number(">B")
            return Decimal(reader.number(">i")).scaleb(-scale)
        case b"S":
            return _text(reader.sized())
        case b"x":
            return reader.sized()
        case b"T":
            return _time(reader.number(">Q"))
        case b"V":
            return None
        case b"A" | b"F":
            return _nested(kind, reader.sized(), depth)
    raise ValueError(f"no entry has the type {kind!r}")


def _nested(kind: bytes, data: bytes, depth: int) -> Any:
    """A list or a table; on the outermost level, the bytes of one that cannot be read
    completely."""
    try:
        if depth == DEPTH:
            raise ValueError(f"more than {DEPTH} levels")
        reader = _Reader(data)
        if kind == b"A":
            values = []
            while reader.at < len(data):
                values.append(_value(reader, depth + 1))
            return values
        named: dict[str, Any] = {}
        while reader.at < len(data):
            name = reader.name()
            if name in named:
                raise ValueError(f"two entries are called {name}")
            named[name] = _value(reader, depth + 1)
        return named
    except ValueError:
        if depth > 0:
            raise
        return data


def _text(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _time(seconds: int) -> datetime | int:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return seconds
