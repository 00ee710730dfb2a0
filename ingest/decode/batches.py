"""Bronze to silver as a function over Arrow batches: one `mapInArrow` for every format and source.

Messages are grouped by source and format, and each group is decoded in one go, so that a stream of
mixed formats costs hardly more than one of a single format. A batch is taken in parts, so that what
is at hand stays in the processor's cache and a worker's memory small, whatever the platform's batch
size.

Within a part, the regular changes of a table are read by column if their format has a way to
(`Format.tables`): images become columns of texts, and these become columns of silver, without a
call for each value. All other messages, and all that are in doubt, are read one by one. Both ways
give the same rows, so it never matters which way a message goes.
"""

from __future__ import annotations

import gc
import logging
import struct
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain, islice, repeat
from typing import NamedTuple

import pyarrow as pa
from pyarrow import compute

from ingest.codes import Code
from ingest.decode.silver_rows import record_batch
from ingest.decode.source import DecodeSpec, SilverRow, SourceDecoder
from ingest.decode.tables import Batch, Coordinates, Table, silver_batch, table_of
from ingest.formats import FORMATS
from ingest.values.jsontext import is_utf8
from ingest.wire.contract import Message

_PART_ROWS = 1_000
_PART_BYTES = 16 * 2**20
_UNFIT = (pa.ArrowException, struct.error, OverflowError, TypeError, ValueError)


def decode(
    specs: Mapping[str, DecodeSpec],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `bronze.mapInArrow`: bronze columns in, silver columns without `batch` out.

    Expects the columns source, topic, partition, offset, timestamp, key, value, headers, epoch, and
    takes `place` where there is one (`pipelines.silver.arrivals`).
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoders: dict[str, SourceDecoder] = {
            name: SourceDecoder(spec) for name, spec in specs.items()
        }
        for batch in batches:
            for part in _parts(batch):
                # Events and rows form no cycles, and searching for cycles costs a tenth of the
                # time.
                gc.disable()
                try:
                    decoded = _Part(part, decoders).decoded()
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


class _Piece(NamedTuple):
    """Silver rows, and the message that each of them comes from."""

    rows: pa.RecordBatch
    at: list[int]


class _Part:
    """The messages of one batch of bronze, and their rows as far as they have been read."""

    def __init__(self, batch: pa.RecordBatch, decoders: Mapping[str, SourceDecoder]) -> None:
        self._decoders = decoders
        self._now = time.time_ns() // 1000
        self._sources: list[str] = batch.column("source").to_pylist()
        self._epochs: list[int] = batch.column("epoch").to_pylist()
        self._messages = _messages(batch)
        self._utf8 = _utf8(batch.column("value"))
        self._coordinates = Coordinates.of(batch)
        pairs = zip(self._sources, self._messages, strict=True)
        self._known = [decoders[source].recognised(message) for source, message in pairs]
        self._rows: list[list[SilverRow]] = [[]] * len(self._messages)
        self._pieces: list[_Piece] = []

    def decoded(self) -> pa.RecordBatch:
        """The rows of all messages, in the order of the messages."""
        kinds: dict[tuple[str, str], list[int]] = {}
        for index, (known, source) in enumerate(zip(self._known, self._sources, strict=True)):
            kind = known.name if known is not None else "", source
            kinds.setdefault(kind, []).append(index)
        # One format after the other, so that the code that reads it stays in the processor's cache.
        for (name, source), indexes in sorted(kinds.items()):
            self._read(name, self._decoders[source], indexes)
        counts = [len(rows) for rows in self._rows]
        if any(counts):
            at = chain.from_iterable(map(repeat, range(len(counts)), counts))
            self._pieces.append(_Piece(self._by_rows(), list(at)))
        return _in_order(self._pieces)

    def _read(self, name: str, decoder: SourceDecoder, indexes: list[int]) -> None:
        """Reads the messages of one format and source: by column what can be read so, the others
        one by one."""
        messages = self._messages
        batch = Batch(decoder, name, messages, self._epochs, self._coordinates, self._now)
        tables: list[Table] = []
        if name and FORMATS[name].tables is not None:
            sound = indexes if self._utf8 else [at for at in indexes if _is_utf8(messages[at])]
            tables = _tables(batch, [(at, messages[at]) for at in sound])
        # The first message with new types is read by itself, since it brings the row of these
        # types.
        tables = [table if table.known(decoder) else table.tail() for table in tables]
        tables = [table for table in tables if table.changes.at]
        by_column = {at for table in tables for at in table.changes.at}
        for at in indexes:
            if at not in by_column:
                self._read_one(at)
        for table in tables:
            try:
                if table.known(decoder):
                    self._pieces.append(_Piece(silver_batch(table, batch), table.changes.at))
                    continue
            except Exception as error:
                # Whatever the error is, reading the messages one by one reports it for the message
                # concerned.
                _not_by_column(name, error)
            for index in table.changes.at:
                self._read_one(index)

    def _read_one(self, at: int) -> None:
        decoder, message = self._decoders[self._sources[at]], self._messages[at]
        self._rows[at] = decoder.rows(message, self._epochs[at], self._now, known=self._known[at])

    def _by_rows(self) -> pa.RecordBatch:
        """The rows of the messages that were read one by one."""
        try:
            return record_batch(list(chain.from_iterable(self._rows)))
        except _UNFIT:
            pass
        # A row that no Arrow array takes is a defect of its decoder, and must not affect its
        # neighbours.
        for at, rows in enumerate(self._rows):
            try:
                record_batch(rows)
            except _UNFIT as error:
                decoder = self._decoders[self._sources[at]]
                text = f"{type(error).__name__}: {error}"
                code = Code.DECODER_FAILED
                rejected = decoder.reject(
                    self._messages[at],
                    self._epochs[at],
                    self._now,
                    name=None,
                    code=code,
                    text=text,
                )
                self._rows[at] = [rejected]
        return record_batch(list(chain.from_iterable(self._rows)))


def _tables(batch: Batch, messages: list[tuple[int, Message]]) -> list[Table]:
    """The changes among messages, each with its index, that are read by column."""
    try:
        changes = batch.decoder.changes(batch.format, messages)
        return [table for found in changes if (table := table_of(found, batch)) is not None]
    except Exception as error:
        _not_by_column(batch.format, error)
        return []


def _not_by_column(name: str, error: Exception) -> None:
    """Log that a defect keeps messages of a format from being read by column, so they are read one
    by one: the rows are the same, but it takes longer."""
    *_, last = traceback.extract_tb(error.__traceback__)
    _log_slow(name, type(error).__name__, f"{last.filename}:{last.lineno}")


@lru_cache(maxsize=64)
def _log_slow(name: str, kind: str, place: str) -> None:
    """Log it once a process for each place. The error's text may hold values, and is left out."""
    logging.getLogger(__name__).warning(
        "%s messages are read one by one, which is slower: %s at %s; please report it",
        name,
        kind,
        place,
    )


def _in_order(pieces: list[_Piece]) -> pa.RecordBatch:
    """The rows of all pieces, in the order of their messages."""
    if len(pieces) == 1:
        return pieces[0].rows
    at = list(chain.from_iterable(piece.at for piece in pieces))
    order = pa.array(sorted(range(len(at)), key=at.__getitem__), pa.int32())
    rows = pa.Table.from_batches([piece.rows for piece in pieces]).take(order)
    [batch] = rows.combine_chunks().to_batches()
    return batch


def _messages(batch: pa.RecordBatch) -> list[Message]:
    columns = {name: batch.column(name) for name in batch.schema.names}
    times = columns["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    count = batch.num_rows
    fields = zip(
        columns["value"].to_pylist(),
        columns["key"].to_pylist(),
        _headers(columns["headers"]),
        columns["topic"].to_pylist(),
        columns["partition"].to_pylist(),
        columns["offset"].to_pylist(),
        times.to_pylist(),
        columns["place"].to_pylist() if "place" in columns else [None] * count,
        [None] * count,
        strict=True,
    )
    # This takes half the time of calling Message for each.
    return list(map(partial(tuple.__new__, Message), fields))


def _utf8(values: pa.BinaryArray) -> bool:
    """Whether all messages are UTF-8; asking them all at once costs a fifth of asking each."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _is_utf8(message: Message) -> bool:
    return message.value is None or is_utf8(message.value)


def _headers(column: pa.ListArray) -> Sequence[Sequence[tuple[str, bytes | None]]]:
    """The headers of each message, those of all of them taken apart at once."""
    if column.null_count == len(column):
        return [()] * len(column)
    # flat without what stands behind nulls and before and after a slice
    pairs = column.flatten()
    names, values = pairs.field("key").to_pylist(), pairs.field("value").to_pylist()
    sent = zip(names, values, strict=True)
    sizes = compute.list_value_length(column).fill_null(0).to_pylist()
    return [list(islice(sent, size)) if size else () for size in sizes]
