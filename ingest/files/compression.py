"""The bytes of a file in chunks, unpacked as the file's suffix says, in bounded memory.

A file that is damaged in the middle gives everything before the damage, and the reason.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import zstandard

from ingest.codes import Code

CHUNK = 256 * 1024
LARGEST = 32 * 1024 * 1024
"""The most bytes of a record. A longer one is cut into broken pieces, so that memory is bounded."""
_ERRORS = (zlib.error, OSError, EOFError, ValueError, zstandard.ZstdError)


def _gunzip(member: Any, packed: bytes) -> Iterator[bytes]:
    while True:
        piece = member.decompress(packed, CHUNK)
        yield piece
        packed = member.unconsumed_tail
        # After a full piece there may be more output, although all input was taken.
        if member.eof or (not packed and len(piece) < CHUNK):
            return


def _bunzip(member: Any, packed: bytes) -> Iterator[bytes]:
    yield member.decompress(packed, CHUNK)
    while not (member.needs_input or member.eof):
        yield member.decompress(b"", CHUNK)


def _unzst(member: Any, packed: bytes) -> Iterator[bytes]:
    yield member.decompress(packed)


class _Packing(NamedTuple):
    """A way to pack files: `new` begins a member of an archive, `unpack` gives what some bytes of
    it hold.

    `step`: how many bytes are unpacked at a time, at most. The output of zstandard has no bound,
    and 64 bytes can hold a megabyte.
    """

    new: Callable[[], Any]
    unpack: Callable[[Any, bytes], Iterator[bytes]]
    step: int = CHUNK


_GZIP = _Packing(lambda: zlib.decompressobj(wbits=31), _gunzip)
_BZIP2 = _Packing(bz2.BZ2Decompressor, _bunzip)
_ZSTD = _Packing(lambda: zstandard.ZstdDecompressor().decompressobj(), _unzst, 1024)
_PACKINGS = {
    ".gz": _GZIP,
    ".gzip": _GZIP,
    ".bz2": _BZIP2,
    ".bzip2": _BZIP2,
    ".zst": _ZSTD,
    ".zstd": _ZSTD,
}
_LEAST_STEP = 64
_GIGABYTE = 2**30
RATIO = 1_000
"""Text packs a hundredfold at most; what unpacks to more than this was made to fill a disk."""


class _Members:
    """Unpacks the members of an archive, one after the other, as its bytes come."""

    def __init__(self, packing: _Packing) -> None:
        self._packing = packing
        self._member: Any = None
        self._any = False

    @property
    def unfinished(self) -> bool:
        """Whether a member has begun and not ended."""
        return self._member is not None

    def content(self, packed: bytes) -> Iterator[bytes]:
        """What the next bytes of the archive hold."""
        while packed:
            if self._member is None:
                if self._any:
                    # Writers of tapes and blocks pad with zeros after the last member.
                    packed = packed.lstrip(b"\0")
                    if not packed:
                        return
                self._member = self._packing.new()
                self._any = True
            yield from self._packing.unpack(self._member, packed)
            packed = b""
            if self._member.eof:
                packed = self._member.unused_data
                self._member = None


class Damage(NamedTuple):
    """Why bytes cannot be cut or unpacked: too_large above a limit, else bad_framing."""

    text: str
    code: Code = Code.BAD_FRAMING


class Chunks:
    """The unpacked bytes of `stream` in chunks of about CHUNK bytes, none of them empty.

    Iterate once. Afterwards `damage` says why the bytes ended too early; None if they did not. An
    error of `stream` itself is raised: then the file cannot be read, and its content is not at
    fault. `most`: to how many bytes an archive may unpack; if not given, to more than any honest
    one does.
    """

    def __init__(self, stream: BinaryIO, name: str = "", *, most: int | None = None) -> None:
        self.damage: Damage | None = None
        self._stream = stream
        self._begin = stream.tell() if stream.seekable() else None
        self._most = most
        self._packing = next(
            (packing for suffix, packing in _PACKINGS.items() if name.lower().endswith(suffix)),
            None,
        )

    def __iter__(self) -> Iterator[bytes]:
        if self._packing is None:
            while chunk := self._read():
                yield chunk
            return
        pieces: list[bytes] = []
        size = 0
        for piece in self._unpacked(self._packing):
            pieces.append(piece)
            size += len(piece)
            if size >= CHUNK:
                yield b"".join(pieces)
                pieces.clear()
                size = 0
        if size:
            yield b"".join(pieces)

    def _read(self) -> bytes:
        """The next CHUNK bytes, fewer only at the end. A mounted store may give fewer at a time,
        and what comes of a file must not depend on how its bytes came."""
        chunk = self._stream.read(CHUNK)
        while len(chunk) < CHUNK and (more := self._stream.read(CHUNK - len(chunk))):
            chunk += more
        return chunk

    def _unpacked(self, packing: _Packing) -> Iterator[bytes]:
        """The content of every member, one after the other: archives may be concatenated."""
        members = _Members(packing)
        at = unpacked = 0
        step = _LEAST_STEP
        while packed := self._read():
            start = 0
            while start < len(packed):
                part = packed[start : start + step]
                start += len(part)
                at += len(part)
                before = unpacked
                try:
                    for piece in members.content(part):
                        unpacked += len(piece)
                        yield piece
                        if unpacked > self._allowed(at):
                            self.damage = _bomb(self._allowed(at), at)
                            return
                except _ERRORS as error:
                    yield from self._withheld(packing, at - len(part), given=unpacked)
                    self.damage = _damaged(at, error)
                    return
                step = _LEAST_STEP if unpacked - before > CHUNK else min(step * 2, packing.step)
        if members.unfinished:
            self.damage = Damage(f"the archive ends in the middle, at byte {at}")

    def _withheld(self, packing: _Packing, sound: int, *, given: int) -> Iterator[bytes]:
        """What stands before a damage that lies behind the first `sound` bytes of the archive, of
        whose content `given` bytes have been given.

        Bytes that cannot be unpacked give nothing of those before them. So the archive is read
        anew, and what follows the sound bytes one byte after the other.
        """
        if self._begin is None:
            return
        self._stream.seek(self._begin)
        members = _Members(packing)
        at = unpacked = 0
        while packed := self._read():
            start = 0
            while start < len(packed):
                size = min(packing.step, sound - at) if at < sound else 1
                part = packed[start : start + size]
                start += len(part)
                at += len(part)
                try:
                    for piece in members.content(part):
                        unpacked += len(piece)
                        if unpacked > given:
                            yield piece[max(0, len(piece) - (unpacked - given)) :]
                except _ERRORS:
                    return

    @property
    def spare(self) -> int:
        """How many bytes all blocks of a container in the file may unpack to beyond RATIO times
        their size."""
        return _GIGABYTE if self._most is None else self._most

    def _allowed(self, packed: int) -> int:
        return max(_GIGABYTE, RATIO * packed) if self._most is None else self._most


def _damaged(at: int, error: Exception) -> Damage:
    return Damage(
        f"damaged archive near byte {at}: {error}; what follows is not read: bring a sound copy "
        f"under another name"
    )


def _bomb(most: int, packed: int) -> Damage:
    return Damage(
        f"expected an archive that unpacks to at most {most} bytes, got more from its first "
        f"{packed}; what follows is not read: set limits.unpacked_bytes of the source and bring "
        f"the file again under another name",
        Code.TOO_LARGE,
    )


class Cursor:
    """Takes a number of bytes from chunks, or looks at bytes ahead.

    What was read stays in place until more is read, so that a look ahead costs no more than what it
    shows.
    """

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = iter(chunks)
        self._buffer = b""
        self._at = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes; fewer only at the end."""
        taken = self.peek(size)
        self._at += len(taken)
        return taken

    def peek(self, size: int, *, after: int = 0) -> bytes:
        """The `size` bytes behind the next `after`, all left where they are; fewer at the end."""
        assert size >= 0, size
        self._read_ahead(after + size)
        start = self._at + after
        return self._buffer[start : start + size]

    def take_past(self, mark: bytes) -> tuple[bytes, bool]:
        """The bytes up to and with the next `mark`, and whether they end in it.

        Without it: all that is left, or a piece of about LARGEST bytes after which to ask again.
        """
        searched = 0
        while True:
            start = self._at + searched
            place = self._buffer.find(mark, start, self._at + LARGEST)
            if place >= 0:
                return self.take(place - self._at + len(mark)), True
            ahead = len(self._buffer) - self._at
            # The mark may have begun in the last bytes.
            searched = max(0, min(ahead, LARGEST) - len(mark) + 1)
            if ahead >= LARGEST:
                return self.take(searched), False
            if not self._read_ahead(ahead + 1):
                return self.take(ahead), False

    def _read_ahead(self, size: int) -> bool:
        """Whether there are `size` bytes ahead, which are then in the buffer."""
        ahead = len(self._buffer) - self._at
        if ahead >= size:
            return True
        read: list[bytes] = []
        # With an eighth more than is asked for, no byte moves more than some nine times, however
        # far ahead one looks from each place.
        while ahead < size + size // 8 and (chunk := next(self._chunks, b"")):
            read.append(chunk)
            ahead += len(chunk)
        if read:
            self._buffer, self._at = b"".join((self._buffer[self._at :], *read)), 0
        return ahead >= size
