"""From messages to silver rows: every message becomes at least one row, and none stops a stream.

The lift around the format's decoder. It adds what the transport knows, fills keys, gives every
event its pos, turns what a decoder raises into a reject row with the raw bytes, and writes one
schema row for each set of column types it meets. `decode` is the same over Arrow batches, one
`mapInArrow` for every format of every source, dispatched per row.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import xxhash

from ingest import order
from ingest.arrow import DECODED, record_batch
from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats import FORMATS
from ingest.formats.columns import declared_for
from ingest.formats.detect import recognised
from ingest.formats.format import Decoder, FormatOptions, Message
from ingest.framing import framing_error
from ingest.keys import key_hash, keyed, message_key_columns

SilverRow = tuple[Any, ...]
"""One row in the order of `ingest.events.SILVER`, without `batch`; times in microseconds."""


class Reading(NamedTuple):
    """How the messages of one source are read: what its YAML says, ready to be sent to workers.

    `files`: the transport is files, so `partition` is the file's ordinal. `options` holds the
    options of each format the source may use: one where it is pinned, all of them for `auto`.
    """

    source: str
    format: str
    order: str
    files: bool
    options: Mapping[str, FormatOptions]


class Reader:
    """Decodes the messages of one source; remembers which column types it has written."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._decoders: dict[str, Decoder] = {}
        self._schemas: set[tuple[Any, ...]] = set()
        self._keys: dict[Any, tuple[str, ...] | None] = {}
        self._general = next(iter(reading.options.values()))
        pinned = reading.options.get(reading.format, self._general)
        self._tombstones = pinned.options.get("tombstone") == "delete"

    def rows(self, message: Message, epoch: int = 0) -> list[SilverRow]:
        """The silver rows of one message, at least one; never raises for what the bytes hold."""
        name: str | None = None
        try:
            broken = framing_error(message.headers)
            if broken is not None:
                raise DecodeError(Code.BAD_FRAMING, broken)
            if not message.value and not self._tombstones:
                name = self._reading.format if self._reading.format != "auto" else None
                events = [Event(kind="control", op="other", op_raw="tombstone", format=name)]
            else:
                name = self._reading.format
                if name == "auto":
                    name = None
                    name = recognised(message)
                events = list(self._decoder(name)(message))
            return self._lift(message, epoch, name, events)
        except DecodeError as error:
            return [self._reject(message, epoch, name, error.code, error.text)]
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            return [self._reject(message, epoch, name, Code.DECODER_FAILED, text)]

    def _decoder(self, name: str) -> Decoder:
        found = self._decoders.get(name)
        if found is None:
            found = FORMATS[name].decoder(self._reading.options[name])
            self._decoders[name] = found
        return found

    def _lift(
        self, message: Message, epoch: int, name: str | None, events: list[Event]
    ) -> list[SilverRow]:
        rows: list[SilverRow] = []
        options = self._general
        now = time.time_ns() // 1000
        digest = _signed(xxhash.xxh64_intdigest(message.value or b""))
        stream, arrival = self._coordinates(message, name)
        for index, event in enumerate(events):
            if event.db is None:
                event.db = options.default_database
            if event.schema is None:
                event.schema = options.default_schema
            if event.table is None and event.kind != "control":
                event.table = options.default_table
            if event.kind == "change" or event.kind == "fragment":
                keyed(event, self._key_columns(event, message))
            order_key = event.order if arrival is None else arrival
            if order_key is None and event.snapshot:
                order_key = ()
            if order_key is None and event.kind in ("change", "fragment"):
                raise DecodeError(
                    Code.ORDER_KEY_MISSING,
                    f"expected the order key of format {event.format or name}, got none in row "
                    f"{index}; set order: arrival for this source if it never sends one",
                )
            pos = None if order_key is None else order.position(
                epoch=epoch,
                snapshot=event.snapshot,
                order=order_key,
                stream=stream,
                offset=message.offset,
                row=index,
                half=event.half,
            )
            if event.types is not None:
                self._note_schema(rows, message, epoch, name, event, now)
            rows.append(self._row(message, epoch, name, event, index, pos, digest, now))
        return rows

    def _coordinates(
        self, message: Message, name: str | None
    ) -> tuple[int, tuple[int, ...] | None]:
        """The stream number, and s1 where the source is ordered by arrival."""
        scheme = self._reading.order
        if scheme == "auto":
            scheme = FORMATS[name].order if name is not None else "arrival"
        if self._reading.files:
            stream = message.partition
            return stream, order.arrival(timestamp=None, ordinal=stream) if (
                scheme == "arrival"
            ) else None
        stream = order.stream_number(message.topic, message.partition)
        if scheme == "arrival":
            return stream, order.arrival(timestamp=message.timestamp, ordinal=None)
        return stream, None

    def _key_columns(self, event: Event, message: Message) -> tuple[str, ...] | None:
        """The YAML's keys for the table, else the message's, else those of the Kafka key."""
        declared = self._general.keys
        if declared:
            keys = declared_for(declared, (event.db, event.schema, event.table))
            if keys:
                return tuple(keys)
        if event.key_columns or message.key is None:
            return event.key_columns
        return message_key_columns(message.key, event)

    def _note_schema(
        self,
        rows: list[SilverRow],
        message: Message,
        epoch: int,
        name: str | None,
        event: Event,
        now: int,
    ) -> None:
        types = event.types
        assert types is not None
        known = (event.db, event.schema, event.table, types.id)
        if known in self._schemas:
            return
        if len(self._schemas) > 100_000:
            self._schemas.clear()
        self._schemas.add(known)
        schema = Event(
            kind="schema",
            op="",
            format=event.format,
            db=event.db,
            schema=event.schema,
            table=event.table,
            key_columns=event.key_columns,
            event_time=event.event_time,
            types=types,
            columns=types.columns,
        )
        rows.append(self._row(message, epoch, name, schema, -1, None, None, now))

    def _row(
        self,
        message: Message,
        epoch: int,
        name: str | None,
        event: Event,
        index: int,
        pos: order.Pos | None,
        digest: int | None,
        now: int,
    ) -> SilverRow:
        warnings = event.warnings
        if warnings and len(warnings) > 1:
            warnings = list(dict.fromkeys(warnings))
        return (
            event.kind,
            self._reading.source,
            message.topic,
            message.partition,
            message.offset,
            index,
            event.format or name,
            event.op or None,
            event.op_raw,
            event.db,
            event.schema,
            event.table,
            event.key_columns,
            event.key,
            event.key_before,
            event.before,
            event.after,
            event.before_image,
            event.after_image,
            event.unavailable or None,
            event.id,
            event.sequenceId,
            event.storeDataSequence,
            event.scn,
            pos,
            epoch,
            pos[order.S1] if pos is not None else None,
            event.event_time,
            event.sent_time,
            event.tx_id,
            event.types.id if event.types is not None else None,
            event.columns,
            event.ddl,
            warnings or None,
            None,
            None,
            message.value if event.kind == "fragment" else None,
            digest,
            key_hash(event),
            now,
        )

    def _reject(
        self, message: Message, epoch: int, name: str | None, code: Code, text: str
    ) -> SilverRow:
        value = message.value or b""
        row: dict[str, Any] = {
            "kind": "reject",
            "source": self._reading.source,
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "row": 0,
            "format": name,
            "epoch": epoch,
            "error_code": code.value,
            "error": text,
            "value": value,
            "value_hash": _signed(xxhash.xxh64_intdigest(value)),
            "decoded_at": time.time_ns() // 1000,
        }
        return tuple(row.get(column.name) for column in DECODED)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def decode(
    readings: Mapping[str, Reading],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `bronze.mapInArrow`: bronze columns in, silver columns without `batch` out.

    Expects the columns source, topic, partition, offset, timestamp, key, value, headers, epoch.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers: dict[str, Reader] = {name: Reader(reading) for name, reading in readings.items()}
        for batch in batches:
            gc.disable()
            try:
                yield record_batch(_batch_rows(batch, readers))
            finally:
                gc.enable()

    return run


def _batch_rows(batch: pa.RecordBatch, readers: Mapping[str, Reader]) -> list[SilverRow]:
    columns = {name: batch.column(name) for name in batch.schema.names}
    times = columns["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    headers = columns["headers"]
    if headers.null_count == len(headers):
        sent: list[Any] = [()] * len(headers)
    else:
        sent = [
            [(header["key"], header["value"]) for header in row] if row else ()
            for row in headers.to_pylist()
        ]
    rows: list[SilverRow] = []
    for source, epoch, *fields in zip(
        columns["source"].to_pylist(),
        columns["epoch"].to_pylist(),
        columns["value"].to_pylist(),
        columns["key"].to_pylist(),
        sent,
        columns["topic"].to_pylist(),
        columns["partition"].to_pylist(),
        columns["offset"].to_pylist(),
        times.to_pylist(),
        strict=True,
    ):
        rows.extend(readers[source].rows(Message(*fields), epoch))
    return rows
