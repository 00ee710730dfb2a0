"""An Avro object container file, cut into its data with the bytes that each has in the file.

Source: https://avro.apache.org/docs/1.12.0/specification/#object-container-files

A datum cannot be read without the schema it was written with, so every record carries that schema,
as the file has it, in the header SCHEMA_HEADER. A damaged block becomes one broken record of its
raw bytes; reading goes on behind the next sync marker.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import zstandard

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.files.compression import CHUNK, LARGEST, RATIO, Chunks, Cursor, Damage
from ingest.files.record import SCHEMA_HEADER, Record, broken
from ingest.wire.avro.reader import UNREADABLE, long
from ingest.wire.avro.schema import parse_schema
from ingest.wire.avro.skipper import Skip, skipper

BLOCK_LARGEST = 8 * LARGEST
"""A block that unpacks to more bytes is refused."""
_MOST_BOMBS = 100
"""After this many blocks that unpack to too much, no other block of the file is unpacked: bzip2
takes 30 milliseconds to find that out, for 200 bytes."""
_MAGIC = b"Obj\x01"
_SYNC = 16
_NUMBERS = 20
"""The most bytes that the two numbers of a block take."""


def data(chunks: Chunks) -> Iterator[Record]:
    """The data of a container, in order, each with its writer's schema."""
    cursor = Cursor(chunks)
    taken = bytearray()
    try:
        fields = _header(cursor, taken)
        schema = fields[SCHEMA_HEADER]
        skip = _skipper(schema)
    except _Unreadable as error:
        yield from _rest(cursor, bytes(taken), chunks.damage or str(error))
        return
    marker = cursor.take(_SYNC)
    codec = fields.get("avro.codec", b"null").decode("ascii", "replace")
    headers = ((SCHEMA_HEADER, schema),)
    spare, bombs = chunks.spare, 0
    while cursor.peek(1):
        try:
            count, block = _block(cursor, marker)
        except _Unreadable as error:
            found = False
            while not found and (piece := cursor.take_past(marker))[0]:
                yield broken(piece[0], chunks.damage or str(error))
                found = piece[1]
            continue
        most = min(BLOCK_LARGEST, max(RATIO * len(block), spare))
        used = most
        try:
            if bombs == _MOST_BOMBS:
                raise _TooLarge
            plain = _unpack(codec, block, most)
            used = len(plain)
        except _TooLarge:
            bombs = min(bombs + 1, _MOST_BOMBS)
            yield broken(block, _bomb(most))
            continue
        except Exception as error:
            yield broken(block, f"block of codec {codec}: {type(error).__name__}: {error}")
            continue
        finally:
            # A block that takes more than its own share takes it from the blocks behind it.
            spare -= max(0, used - RATIO * len(block))
        yield from _cut(plain, count, skip, headers=headers)
    if chunks.damage:
        yield broken(b"", chunks.damage)


class _Unreadable(Exception):
    """No header, or no block."""


def _skipper(schema: bytes) -> Skip:
    try:
        type_ = parse_schema([schema])
        skip = skipper(type_)
    except (DecodeError, RecursionError) as error:
        raise _Unreadable(f"expected a schema in the header that can be read: {error}") from None
    if not type_.least:
        # Then no number of bytes would limit how many data a block may claim to hold.
        raise _Unreadable("expected data of a byte at least, got a schema of data that take none")
    return skip


def _rest(cursor: Cursor, taken: bytes, why: str | Damage) -> Iterator[Record]:
    piece = taken + cursor.take(max(0, LARGEST - len(taken)))
    yield broken(piece, why)
    while piece := cursor.take(LARGEST):
        yield broken(piece, why)


def _number(cursor: Cursor, taken: bytearray) -> int:
    """A zigzag varint; the bytes read are added to `taken`."""
    number = 0
    for shift in range(0, 70, 7):
        byte = cursor.take(1)
        if not byte:
            raise _Unreadable("expected a number, got the end of the file")
        taken += byte
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return number >> 1 ^ -(number & 1)
    raise _Unreadable("expected a number of at most ten bytes")


def _text(cursor: Cursor, taken: bytearray) -> bytes:
    size = _number(cursor, taken)
    if not 0 <= size <= LARGEST - len(taken):
        raise _Unreadable(f"expected a header of at most {LARGEST} bytes, got more")
    found = cursor.take(size)
    taken += found
    if len(found) < size:
        raise _Unreadable("the file ends in its header")
    return found


def _header(cursor: Cursor, taken: bytearray) -> dict[str, bytes]:
    """The metadata of the file, a map of bytes; the bytes read are added to `taken`."""
    taken += cursor.take(len(_MAGIC))
    if taken != _MAGIC:
        raise _Unreadable(f"expected an Avro container ({_MAGIC!r} first)")
    fields = {}
    while count := _number(cursor, taken):
        if count < 0:
            # Then the size of the map's block in bytes follows.
            _number(cursor, taken)
        for _ in range(abs(count)):
            try:
                name = _text(cursor, taken).decode()
            except UnicodeDecodeError:
                raise _Unreadable("expected UTF-8 in the header") from None
            fields[name] = _text(cursor, taken)
    if SCHEMA_HEADER not in fields:
        raise _Unreadable(f"expected {SCHEMA_HEADER} in the header")
    return fields


def _block(cursor: Cursor, marker: bytes) -> tuple[int, bytes]:
    """How many data the next block has, and its bytes; if it is unreadable, nothing is taken."""
    try:
        head = cursor.peek(_NUMBERS)
        count, at = long(head, 0)
        size, at = long(head, at)
    except IndexError:
        raise _Unreadable("expected a number, got the end of the file") from None
    except ValueError as error:
        raise _Unreadable(str(error)) from None
    if not (0 <= count <= LARGEST and 0 <= size <= LARGEST):
        raise _Unreadable(f"a block of {count} data in {size} bytes")
    end = cursor.peek(_SYNC, after=at + size)
    if end != marker:
        found = "the end of the file" if len(end) < _SYNC else "other bytes"
        raise _Unreadable(f"expected the sync marker after the block, got {found}")
    cursor.take(at)
    block = cursor.take(size)
    cursor.take(_SYNC)
    return count, block


class _TooLarge(Exception):
    """A block unpacks to more than it may."""


def _bomb(most: int) -> Damage:
    text = (
        f"expected a block that unpacks to at most {most} bytes, got more; those of a file that "
        f"are packed more than {RATIO} times share limits.unpacked_bytes of the source: set it and "
        f"bring the file again under another name; none may have more than {BLOCK_LARGEST}"
    )
    return Damage(text, Code.TOO_LARGE)


def _unpack(codec: str, block: bytes, most: int) -> bytes:
    if codec not in _CODECS:
        raise ValueError(f"expected a codec of {', '.join(_CODECS)}")
    plain = _CODECS[codec](block, most)
    if len(plain) > most:
        raise _TooLarge
    return plain


def _plain(block: bytes, most: int) -> bytes:
    return block


def _deflate(block: bytes, most: int) -> bytes:
    return _ended(zlib.decompressobj(wbits=-zlib.MAX_WBITS), block, most)


def _bzip2(block: bytes, most: int) -> bytes:
    return _ended(bz2.BZ2Decompressor(), block, most)


def _xz(block: bytes, most: int) -> bytes:
    return _ended(lzma.LZMADecompressor(), block, most)


def _ended(member: Any, block: bytes, most: int) -> bytes:
    """What a member of an archive holds, at most one byte more than is allowed."""
    plain: bytes = member.decompress(block, most + 1)
    if not member.eof and len(plain) <= most:
        raise EOFError("the block ends in the middle")
    return plain


def _snappy(block: bytes, most: int) -> bytes:
    import pyarrow as pa

    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > most:
        raise _TooLarge
    plain: bytes = pa.decompress(block[:-4], decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(block[-4:], "big"):
        raise ValueError("the checksum differs")
    return plain


def _zstandard(block: bytes, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    with zstandard.ZstdDecompressor().stream_reader(block) as stream:
        while size <= most and (piece := stream.read(CHUNK)):
            pieces.append(piece)
            size += len(piece)
    return b"".join(pieces)


_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "null": _plain,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}


def _cut(
    block: bytes, count: int, skip: Skip, *, headers: tuple[tuple[str, bytes], ...]
) -> Iterator[Record]:
    start = 0
    for number in range(count):
        try:
            end = skip(block, start)
        except UNREADABLE as error:
            text = f"datum {number} of a block of {count}: {type(error).__name__}: {error}"
            yield broken(block[start:], text)
            return
        yield Record(block[start:end], headers=headers)
        start = end
    if start < len(block):
        yield broken(block[start:], f"{len(block) - start} bytes after the last datum of a block")
