"""Record batches of Kafka's log, format 2 (https://kafka.apache.org/documentation/#recordbatch)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from ingest.files.record import Record
from pipelines.bronze.kafka_api.wire import Reader

_CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_APPEND_TIME = 0x08
_XERIAL = b"\x82SNAPPY\x00"
_MOST_BYTES = 1 << 28


class _Batch(NamedTuple):
    """A batch of the log: the offset after it, its producer, and its records, none where it only
    marks the end of a transaction (`ends`)."""

    following: int
    producer: int
    transactional: bool
    ends: bool
    records: list[Record]


def batches(
    data: bytes, aborted: Sequence[tuple[int, int]] = ()
) -> Iterator[tuple[int, list[Record]]]:
    """The batches of a fetched piece of log: the offset after each, and its records, none of a
    control batch. The last batch may be cut off by the fetch, and is left out then.

    `aborted` has producers, each with the offset at which it began a transaction that it gave up:
    of these, up to their ends, there are no records.

    Raises ValueError for a batch of format 0 or 1, which brokers before 0.11 wrote.
    """
    begun = sorted(aborted, key=lambda each: each[1], reverse=True)
    given_up: set[int] = set()
    reader = Reader(data)
    while reader.left >= 12:
        first = reader.int64()
        length = reader.int32()
        if reader.left < length:
            return
        batch = _batch(first, Reader(reader.take(length)))
        while begun and begun[-1][1] < batch.following:
            given_up.add(begun.pop()[0])
        if batch.ends:
            given_up.discard(batch.producer)
        left_out = batch.transactional and batch.producer in given_up
        yield batch.following, [] if left_out else batch.records


def _batch(first: int, reader: Reader) -> _Batch:
    reader.int32()  # the leader's epoch
    form = reader.int8()
    if form != 2:
        raise ValueError(f"the log holds messages of the old format {form}, which only Spark reads")
    reader.int32()  # a checksum, as TCP has its own
    attributes = reader.int16()
    following = first + reader.int32() + 1
    began, newest = reader.int64(), reader.int64()
    producer = reader.int64()
    reader.take(2 + 4)  # the producer's epoch and sequence
    count = reader.int32()
    transactional = bool(attributes & _TRANSACTIONAL)
    if attributes & _CONTROL:
        return _Batch(following, producer, transactional, True, [])
    body = Reader(_unpacked(reader.take(reader.left), attributes & 7))
    appended = newest if attributes & _APPEND_TIME else None
    records = [_record(body, first, began=began, appended=appended) for _ in range(count)]
    return _Batch(following, producer, transactional, False, records)


def _record(reader: Reader, first: int, *, began: int, appended: int | None) -> Record:
    reader.zigzag()
    reader.int8()
    time = began + reader.zigzag()
    offset = first + reader.zigzag()
    key, value = _bytes(reader), _bytes(reader)
    headers = tuple(
        ((_bytes(reader) or b"").decode(errors="replace"), _bytes(reader))
        for _ in range(reader.zigzag())
    )
    return Record(
        value,
        key=key,
        headers=headers or None,
        offset=offset,
        timestamp=time if appended is None else appended,
    )


def _bytes(reader: Reader) -> bytes | None:
    length = reader.zigzag()
    return None if length < 0 else reader.take(length)


def _unpacked(data: bytes, codec: int) -> bytes:
    """The records of a batch, uncompressed."""
    if codec == 0:
        return data
    name = _CODECS.get(codec)
    if name is None:
        raise ValueError(f"a batch is compressed by a codec that is not known ({codec})")
    if name == "snappy":
        return _snappy(data)
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
            unpacked = stream.read(_MOST_BYTES)
    except OSError as error:
        raise ValueError(f"a batch compressed by {name} cannot be read: {error}") from None
    return bytes(unpacked)


def _snappy(data: bytes) -> bytes:
    """Snappy as Kafka's Java clients write it, in blocks behind a header; or one bare block."""
    if not data.startswith(_XERIAL):
        return _block(data)
    reader, unpacked = Reader(data[16:]), bytearray()
    while reader.left:
        unpacked += _block(reader.take(reader.int32()))
    return bytes(unpacked)


def _block(data: bytes) -> bytes:
    size = Reader(data).varint()
    if size > _MOST_BYTES:
        raise ValueError(f"a compressed batch says to hold {size} bytes")
    unpacked: bytes = pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True)
    return unpacked
