"""Files cut into records: what one message is in a file, for each `files.framing`.

Records come one after the other in bounded memory. One that cannot be cut or unpacked stops nothing
and spares its neighbours: it becomes a record of the raw bytes with the header ERROR_HEADER, which
the decoder turns into a reject.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable, Iterator
from typing import Annotated, BinaryIO

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ingest.files import avro_container
from ingest.files.compression import LARGEST, Chunks, Cursor
from ingest.files.record import Record, broken
from ingest.values.jsontext import excerpt, is_utf8

BOM = b"\xef\xbb\xbf"
LENGTH = 4


def records(
    stream: BinaryIO, framing: str, *, name: str = "", most: int | None = None
) -> Iterator[Record]:
    """The records of a file, in order; `name` ends in .gz, .bz2 or .zst (or .gzip, .bzip2,
    .zstd) where it is packed.

    `most`: bytes to which it may unpack, see `limits.Limits`. Raises only what reading `stream`
    raises.
    """
    return FRAMINGS[framing](Chunks(stream, name, most=most))


def _too_long(what: str) -> str:
    return f"expected {what} of at most {LARGEST} bytes, got a longer one; this is a piece of it"


def _by_line(read: Callable[[bytes], Record]) -> Callable[[Chunks], Iterator[Record]]:
    """Only \\n ends a line, and one \\r before it is dropped; an empty line is no message."""

    def cut(chunks: Chunks) -> Iterator[Record]:
        pieces: list[bytes] = []
        size = 0
        overlong = False
        first = True
        for chunk in chunks:
            if first:
                chunk = chunk.removeprefix(BOM)
                first = False
            lines = chunk.split(b"\n")
            if len(lines) > 1:
                pieces.append(lines[0])
                lines[0] = b"".join(pieces)
                pieces = []
                size = 0
                if overlong:
                    yield broken(lines.pop(0), _too_long("a line"))
                    overlong = False
                last = lines.pop()
                for line in lines:
                    if line.endswith(b"\r"):
                        line = line[:-1]
                    if line:
                        yield read(line)
            else:
                last = chunk
            pieces.append(last)
            size += len(last)
            if size > LARGEST:
                yield broken(b"".join(pieces), _too_long("a line"))
                overlong = True
                pieces = []
                size = 0
        rest = b"".join(pieces)
        if chunks.damage:
            yield broken(rest, chunks.damage)
        elif overlong:
            yield broken(rest, _too_long("a line"))
        elif rest := rest.removesuffix(b"\r"):
            yield read(rest)

    return cut


def _hex(line: bytes) -> Record:
    try:
        return Record(bytes.fromhex(line.decode("ascii")))
    except ValueError as error:
        return broken(line, f"expected a line of hexadecimal digits: {error}; got {excerpt(line)}")


def _base64(line: bytes) -> Record:
    text = line.strip()
    try:
        # Python accepts one `=` too many.
        if len(text) % 4:
            raise ValueError("Incorrect padding")
        return Record(binascii.a2b_base64(text, strict_mode=True))
    except ValueError as error:
        return broken(line, f"expected a line of base64: {error}; got {excerpt(line)}")


def _whole(chunks: Chunks) -> Iterator[Record]:
    pieces: list[bytes] = []
    size = 0
    overlong = False
    for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if size > LARGEST:
            yield broken(b"".join(pieces), _too_long("a file"))
            overlong = True
            pieces = []
            size = 0
    value = b"".join(pieces)
    if chunks.damage:
        yield broken(value, chunks.damage)
    elif overlong:
        yield broken(value, _too_long("a file"))
    elif value:
        yield Record(value)


def _length_prefixed(chunks: Chunks) -> Iterator[Record]:
    """Four bytes, the length as an unsigned big-endian number, then so many bytes."""
    take = Cursor(chunks).take
    while head := take(LENGTH):
        length = int.from_bytes(head, "big")
        if len(head) < LENGTH:
            yield broken(head, chunks.damage or f"expected {LENGTH} bytes of length before the end")
            return
        if length <= LARGEST:
            value = take(length)
            if len(value) == length:
                yield Record(value)
                continue
            text = f"expected {length} bytes, got {len(value)} before the end"
            yield broken(head + value, chunks.damage or text)
            return
        left = length
        piece = head
        while piece and left:
            piece = take(min(left, LARGEST - LENGTH))
            left -= len(piece)
            if head or piece:
                yield broken(head + piece, _too_long(f"a record (its length says {length})"))
            head = b""
    if chunks.damage:
        yield broken(b"", chunks.damage)


class _Captured(msgspec.Struct, gc=False):
    """One line of `kcat -J`."""

    topic: str | None = None
    partition: Annotated[int, Meta(ge=0, lt=2**31)] | None = None
    offset: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    # Years 1 to 9999: what a Spark timestamp prints.
    ts: Annotated[int, Meta(ge=-62_135_596_800_000, lt=253_402_300_800_000)] | None = None
    key: str | None = None
    key_hex: str | None = None
    payload: str | UnsetType | None = UNSET
    payload_hex: str | None = None
    headers: list[str | None] | dict[str, str | None] | None = None


_read_captured = msgspec.json.Decoder(_Captured).decode


def _kcat(line: bytes) -> Record:
    """One record of Kafka as `kcat -J` prints it, with the topic, partition and offset that it had
    there. If a line lacks one of these, none of them counts: the missing one would have to be made
    up from the file's own, and then the place could be that of another message.

    Source: https://github.com/edenhill/kcat, json.c of 1.7.0. It escapes quotes, backslashes and
    bytes below 0x20; all others stay as they are, whether UTF-8 or not. `key_hex` and `payload_hex`
    are ours.
    """
    try:
        captured = _read_captured(line) if is_utf8(line) else _of_any_bytes(line)
        if captured.payload is UNSET and captured.payload_hex is None:
            raise ValueError("Object missing required field `payload`")
        headers = _headers(captured)
        for name in (captured.topic or "", *(name for name, _ in headers)):
            name.encode()
        place = captured.topic, captured.partition, captured.offset
        topic, partition, offset = (None, None, None) if None in place else place
        return Record(
            _bytes(captured.payload_hex, captured.payload),
            _bytes(captured.key_hex, captured.key),
            tuple((name, _bytes(None, value)) for name, value in headers) or None,
            topic,
            partition,
            offset,
            captured.ts,
        )
    except (ValueError, RecursionError) as error:
        return broken(line, f"expected a line of kcat -J: {error}; got {excerpt(line)}")


def _headers(captured: _Captured) -> list[tuple[str, str | None]]:
    """Names and values in turn, as kcat writes them, or an object, as other tools do."""
    sent = captured.headers or []
    if isinstance(sent, dict):
        return list(sent.items())
    names = [name for name in sent[::2] if name is not None]
    if len(sent) % 2 or 2 * len(names) != len(sent):
        raise ValueError("Expected names and values by turns - at `$.headers`")
    return list(zip(names, sent[1::2], strict=True))


def _bytes(digits: str | None, text: str | UnsetType | None) -> bytes | None:
    if digits is not None:
        return bytes.fromhex(digits)
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else None


def _of_any_bytes(line: bytes) -> _Captured:
    """A line that is not UTF-8, read with a surrogate for each byte that is not."""
    return msgspec.convert(json.loads(line.decode("utf-8", "surrogateescape")), _Captured)


FRAMINGS: dict[str, Callable[[Chunks], Iterator[Record]]] = {
    "lines": _by_line(Record),
    "whole": _whole,
    "length_prefixed": _length_prefixed,
    "avro_container": avro_container.data,
    "hex_lines": _by_line(_hex),
    "base64_lines": _by_line(_base64),
    "kcat": _by_line(_kcat),
}
"""By name. To add one: a row here, its name in `Files` (`ingest/config/transports.py`), and what is
one message by it in `files.framing` of `pipelines/documentation/keys.py`."""
