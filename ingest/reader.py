"""From one message to its silver rows: at least one, and no message stops a stream.

The lift around a format's decoder. It adds what the transport knows, fills keys, gives every event
its pos, turns what a decoder raises into a reject row with the raw bytes, and writes one schema row
for each set of column types it meets.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import xxhash
from msgspec.structs import astuple

from ingest import order
from ingest.codes import Code
from ingest.ddl_dialect import declared
from ingest.emptied import emptied
from ingest.errors import DecodeError
from ingest.events import DECODED, Event, complete, without_empty
from ingest.formats import FORMATS
from ingest.formats.columns import declared_for
from ingest.formats.detect import recognised
from ingest.formats.format import Decoder, FormatOptions, Message
from ingest.framing import framing_error
from ingest.keys import key_hash, keyed, message_key_columns

SilverRow = tuple[Any, ...]
"""One row in the order of `ingest.events.DECODED`; times in microseconds."""

_COLUMNS = tuple(column.name for column in DECODED)
_FIELDS = Event.__struct_fields__
# The runs of fields that a row takes from its event as they are.
_OP_TO_SCN = slice(_FIELDS.index("op"), _FIELDS.index("scn") + 1)
_TIMES_AND_TX = slice(_FIELDS.index("event_time"), _FIELDS.index("tx_id") + 1)
_SCHEMAS_MOST = 100_000
_PLACES_MOST = 10_000


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
        self._source = reading.source
        self._pinned = reading.format if reading.format != "auto" else None
        self._order = reading.order
        self._files = reading.files
        self._options = reading.options
        self._decoders: dict[str, Decoder] = {}
        self._schemas: set[tuple[Any, ...]] = set()
        general = next(iter(reading.options.values()))
        self._keys = general.keys
        defaults = (general.default_database, general.default_schema, general.default_table)
        self._defaults = defaults if any(defaults) else None
        self._places: dict[tuple[str | None, str, int], tuple[int, bool]] = {}
        pinned = reading.options.get(reading.format, general)
        self._tombstones = pinned.options.get("tombstone") == "delete" or (
            self._pinned is not None and FORMATS[self._pinned].empty
        )

    def format_of(self, message: Message) -> str | None:
        """The format that reads a message; None where it is for `rows` to say why there is none."""
        if self._pinned is not None or not message.value:
            return self._pinned
        try:
            return recognised(message)
        except Exception:
            return None

    def rows(
        self, message: Message, epoch: int = 0, now: int | None = None, name: str | None = None
    ) -> list[SilverRow]:
        """The silver rows of one message, at least one; never raises for what the bytes hold.

        `now`: the time of decoding in microseconds, this moment's if not given. `name`: the
        message's format, if it was looked for already.
        """
        if now is None:
            now = time.time_ns() // 1000
        name = name or self._pinned
        try:
            if message.headers and (broken := framing_error(message.headers)) is not None:
                raise DecodeError(Code.BAD_FRAMING, broken)
            if not message.value and not self._tombstones:
                tombstone = Event(kind="control", op="other", op_raw="tombstone")
                return self._lift(message, epoch, now, name, [tombstone])
            if name is None:
                name = recognised(message)
            decode = self._decoders.get(name) or self._decoder(name)
            return self._lift(message, epoch, now, name, list(decode(message)))
        except DecodeError as error:
            code, text = error.code, error.text
        except Exception as error:
            code, text = Code.DECODER_FAILED, f"{type(error).__name__}: {error}"
        return [self.reject(message, epoch, now, name, code, text)]

    def _decoder(self, name: str) -> Decoder:
        made = self._decoders[name] = FORMATS[name].decoder(self._options[name])
        return made

    def _lift(
        self, message: Message, epoch: int, now: int, name: str | None, events: list[Event]
    ) -> list[SilverRow]:
        rows: list[SilverRow] = []
        met: list[tuple[Any, ...]] = []
        source = self._source
        value, _, _, topic, partition, offset, _ = message
        digest = _signed(xxhash.xxh64_intdigest(value or b""))
        place = self._places.get((name, topic, partition))
        stream, by_arrival = place if place is not None else self._place(name, topic, partition)
        row = 0
        defaults = self._defaults
        if "truncate" in [event.op for event in events]:
            table = defaults[2] if defaults is not None else None
            events = [each for event in events for each in emptied(event, default=table)]
        for event in events:
            kind, types = event.kind, event.types
            if defaults is not None:
                complete(event, *defaults)
            if event.unavailable:
                without_empty(event)
            else:
                event.unavailable = None
            if event.ddl is not None and event.dialect is None:
                event.dialect = self._dialect(event, event.format or name)
            changes = kind == "change" or kind == "fragment"
            hashed = None
            if changes:
                columns = event.key_columns
                if self._keys or (not columns and message.key is not None):
                    columns = self._key_columns(event, message)
                keyed(event, columns)
                hashed = key_hash(event)
            order_key = event.order
            if by_arrival and not (event.positioned and self._order == "auto"):
                order_key = self._arrival(message)
            if order_key is None and event.snapshot:
                order_key = ()
            if order_key is None:
                if changes:
                    raise DecodeError(
                        Code.ORDER_KEY_MISSING,
                        f"expected the order key of format {event.format or name}, got none in row "
                        f"{row}; set order: arrival for this source if it never sends one",
                    )
                pos = None
            else:
                pos = order.position(
                    epoch=epoch,
                    snapshot=event.snapshot,
                    order=order_key,
                    stream=stream,
                    offset=offset,
                    row=row,
                    half=event.half,
                )
            if types is not None:
                known = event.db, event.schema, event.table, types.id
                if known not in self._schemas and known not in met:
                    met.append(known)
                    rows.append(self._schema_row(message, epoch, now, name, event))
            warnings = event.warnings
            if warnings and len(warnings) > 1:
                warnings = list(dict.fromkeys(warnings))
            fields = astuple(event)
            rows.append(
                (
                    kind,
                    source,
                    topic,
                    partition,
                    offset,
                    row,
                    event.format or name,
                    *fields[_OP_TO_SCN],
                    pos,
                    epoch,
                    pos[order.S1] if pos is not None else None,
                    *fields[_TIMES_AND_TX],
                    types.id if types is not None else None,
                    event.columns,
                    event.ddl,
                    event.dialect if event.ddl is not None else None,
                    warnings or None,
                    None,
                    None,
                    value if kind == "fragment" else None,
                    digest,
                    hashed,
                    now,
                )
            )
            row += 1
        if met:
            # Only now: had a later event failed, the schema rows would be gone with the others.
            if len(self._schemas) >= _SCHEMAS_MOST:
                self._schemas.clear()
            self._schemas.update(met)
        return rows

    def _place(self, name: str | None, topic: str, partition: int) -> tuple[int, bool]:
        """The stream's number, and whether it is ordered by arrival; remembered."""
        scheme = self._order
        if scheme == "auto":
            scheme = FORMATS[name].order if name is not None else "arrival"
        stream = partition if self._files else order.stream_number(topic, partition)
        if len(self._places) >= _PLACES_MOST:
            self._places.clear()
        place = self._places[name, topic, partition] = stream, scheme == "arrival"
        return place

    def _dialect(self, event: Event, name: str | None) -> str | None:
        options = self._options.get(name or "")
        said = options.options.get("dialect") if options is not None else None
        return declared(name, said, db=event.db, schema=event.schema)

    def _arrival(self, message: Message) -> tuple[int, ...]:
        ordinal = message.partition if self._files else None
        return order.arrival(timestamp=message.timestamp, ordinal=ordinal)

    def _key_columns(self, event: Event, message: Message) -> tuple[str, ...] | None:
        """The YAML's keys for the table, else the message's, else those of the Kafka key."""
        if self._keys:
            keys = declared_for(self._keys, (event.db, event.schema, event.table))
            if keys:
                return tuple(keys)
        if event.key_columns or message.key is None or event.op == "truncate":
            return event.key_columns
        return message_key_columns(message.key, event)

    def _schema_row(
        self, message: Message, epoch: int, now: int, name: str | None, event: Event
    ) -> SilverRow:
        types = event.types
        assert types is not None
        return self._row(
            message,
            epoch,
            now,
            kind="schema",
            row=-1,
            format=event.format or name,
            db=event.db,
            schema=event.schema,
            table=event.table,
            key_columns=event.key_columns,
            event_time=event.event_time,
            schema_id=types.id,
            columns=types.columns,
        )

    def reject(
        self, message: Message, epoch: int, now: int, name: str | None, code: Code, text: str
    ) -> SilverRow:
        """The row of a message that is set aside whole, with its bytes."""
        value = message.value or b""
        return self._row(
            message,
            epoch,
            now,
            kind="reject",
            row=0,
            format=name,
            error_code=code.value,
            error=text,
            value=value,
            value_hash=_signed(xxhash.xxh64_intdigest(value)),
        )

    def _row(self, message: Message, epoch: int, now: int, **given: Any) -> SilverRow:
        """A row that is no event: the message's coordinates, what is `given`, else null."""
        given.update(
            source=self._source,
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            epoch=epoch,
            decoded_at=now,
        )
        return tuple(map(given.get, _COLUMNS))


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
