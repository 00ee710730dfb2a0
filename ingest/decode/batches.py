"""Bronze to silver as a function over Arrow batches: one `mapInArrow` for every format and source.

Each row is read by the reader of its source, which dispatches by format, and one format is read
after the other: a stream that mixes them costs hardly more than one that does not. A batch is taken
in parts, which keeps what is in hand in the processor's cache and the memory of a worker small,
whatever the platform's batch size.
"""

from __future__ import annotations

import gc
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, repeat

import pyarrow as pa

from ingest.codes import Code
from ingest.decode.silver_rows import record_batch
from ingest.decode.source import DecodeSpec, SilverRow, SourceDecoder
from ingest.wire.contract import Message

_PART_ROWS = 1_000
_PART_BYTES = 16 * 2**20
_UNFIT = (pa.ArrowException, struct.error, OverflowError, TypeError, ValueError)


def decode(
    readings: Mapping[str, DecodeSpec],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `bronze.mapInArrow`: bronze columns in, silver columns without `batch` out.

    Expects the columns source, topic, partition, offset, timestamp, key, value, headers, epoch, and
    takes `place` where there is one (`pipelines.silver.arrivals`).
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers: dict[str, SourceDecoder] = {
            name: SourceDecoder(reading) for name, reading in readings.items()
        }
        for batch in batches:
            for part in _parts(batch):
                # Events and rows make no cycles, and looking for some costs a tenth of the time.
                gc.disable()
                try:
                    decoded = _decoded(part, readers)
                finally:
                    gc.enable()
                yield decoded

    return run


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    size = batch.num_rows
    if size > 1 and (size > _PART_ROWS or batch.nbytes > _PART_BYTES):
        half = size // 2
        yield from _parts(batch.slice(0, half))
        yield from _parts(batch.slice(half))
    elif size:
        yield batch


def _decoded(batch: pa.RecordBatch, readers: Mapping[str, SourceDecoder]) -> pa.RecordBatch:
    now = time.time_ns() // 1000
    sources = batch.column("source").to_pylist()
    epochs = batch.column("epoch").to_pylist()
    messages = _messages(batch)
    pairs = zip(sources, messages, strict=True)
    known = [readers[source].recognised(message) for source, message in pairs]
    formats = [found.name if found is not None else "" for found in known]
    rows: list[list[SilverRow]] = [[]] * len(messages)
    # One format after the other: what it takes to read one stays in the processor's cache.
    for index in sorted(range(len(messages)), key=formats.__getitem__):
        reader = readers[sources[index]]
        rows[index] = reader.rows(messages[index], epochs[index], now, known=known[index])
    try:
        return record_batch(list(chain.from_iterable(rows)))
    except _UNFIT:
        pass
    # A row that no Arrow array takes is a defect of its decoder, and its neighbours' no matter.
    for index, (source, epoch, message) in enumerate(zip(sources, epochs, messages, strict=True)):
        try:
            record_batch(rows[index])
        except _UNFIT as error:
            text = f"{type(error).__name__}: {error}"
            code = Code.DECODER_FAILED
            rows[index] = [
                readers[source].reject(message, epoch, now, name=None, code=code, text=text)
            ]
    return record_batch(list(chain.from_iterable(rows)))


def _messages(batch: pa.RecordBatch) -> list[Message]:
    columns = {name: batch.column(name) for name in batch.schema.names}
    times = columns["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    headers = columns["headers"]
    if headers.null_count == len(headers):
        sent: list[object] = [()] * len(headers)
    else:
        sent = [
            [(header["key"], header["value"]) for header in row] if row else ()
            for row in headers.to_pylist()
        ]
    return list(
        map(
            Message,
            columns["value"].to_pylist(),
            columns["key"].to_pylist(),
            sent,
            columns["topic"].to_pylist(),
            columns["partition"].to_pylist(),
            columns["offset"].to_pylist(),
            times.to_pylist(),
            columns["place"].to_pylist() if "place" in columns else repeat(None),
        )
    )
