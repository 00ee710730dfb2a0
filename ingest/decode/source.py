"""From one message to its silver rows: at least one, and no message stops a stream.

What is done around a format's decoder: add what the transport knows and what is declared, fill in
keys, give every event its pos, turn what the decoder raises into a reject row with the raw bytes,
and write one schema row for each set of column types that comes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import astuple

from ingest import position as order
from ingest.codes import Code
from ingest.ddl.secrets import masked
from ingest.decode.declarations import Declarations
from ingest.decode.joined import joined
from ingest.decode.keys import key_hash, keyed
from ingest.decode.places import Places
from ingest.decode.truncates import truncates_by_table
from ingest.errors import DecodeError
from ingest.events import DECODED, Event, without_empty
from ingest.files.record import ERROR_HEADER, framing_error, gap
from ingest.formats import FORMATS
from ingest.formats.detect import (
    Recognised,
    advice_on_refused,
    recognised,
    recognised_if_any,
)
from ingest.identity import bytes_hash, change_hash
from ingest.limits import Limits, check_columns, check_message
from ingest.values.jsontext import compacted
from ingest.wire.contract import (
    Changes,
    Decoder,
    FormatOptions,
    Message,
    TableDecoder,
)
from ingest.wire.doubled_names import check_names

SilverRow = tuple[Any, ...]
"""One row in the order of `ingest.events.DECODED`; times in microseconds."""

_COLUMNS = tuple(column.name for column in DECODED)
_FIELDS = Event.__struct_fields__
# The runs of fields that a row takes from its event as they are.
_OP_TO_SCN = slice(_FIELDS.index("op"), _FIELDS.index("scn") + 1)
_TIMES_TO_EXTRA = slice(_FIELDS.index("event_time"), _FIELDS.index("extra") + 1)
_LIFTED = (
    *("kind", "source", "topic", "partition", "offset", "row", "format"),
    *_FIELDS[_OP_TO_SCN],
    *("pos", "epoch", "s1"),
    *_FIELDS[_TIMES_TO_EXTRA],
    *("schema_id", "columns", "ddl"),
    "dialect",
    *("warnings", "error_code", "error"),
    "value",
    *("value_hash", "key_hash", "arrived", "decoded_at"),
)
"""The columns of the rows that `_lift` makes, line by line as it makes them."""
assert _LIFTED == _COLUMNS, "a row has another order than SILVER"
_SCHEMAS_MOST = 100_000


class DecodeSpec(NamedTuple):
    """How the messages of one source are read: what its YAML says, ready to be sent to workers.

    `files`: the transport is files, so `partition` is the file's ordinal; for `captured` records in
    files it may be that of the topic instead. `options` holds the options of each format that the
    source may use: one if it is pinned, all of them for `auto`. `statements`: whether a statement
    is sent to one partition, or a copy of it to every one; for `auto` the message tells.
    `null_is_empty`: a message `null` says nothing, like one without a value. Canal's producer for
    RocketMQ sends it to the queues that have no part of a batch.
    """

    source: str
    format: str
    order: str
    files: bool
    captured: bool
    options: Mapping[str, FormatOptions]
    limits: Limits = Limits()
    statements: str = "auto"
    null_is_empty: bool = False


class SourceDecoder:
    """Decodes the messages of one source; remembers which column types it has written."""

    def __init__(self, spec: DecodeSpec) -> None:
        self.source = spec.source
        self._pinned = spec.format if spec.format != "auto" else None
        self._known = Recognised(self._pinned) if self._pinned is not None else None
        self.places = Places(
            order=spec.order,
            files=spec.files,
            captured=spec.captured,
            statements=spec.statements,
        )
        self.declared = Declarations(spec.options)
        self._null_is_empty = spec.null_is_empty
        self._options = spec.options
        self._limits = spec.limits
        self._decoders: dict[str, Decoder] = {}
        self._tables: dict[str, TableDecoder] = {}
        self._schemas: set[tuple[Any, ...]] = set()
        self._nested = spec.limits.nesting is not None
        # A column takes at least a byte, so a smaller message cannot exceed either limit.
        self._checked_above = min(spec.limits.message_bytes, spec.limits.columns)
        pinned = spec.options.get(spec.format) or next(iter(spec.options.values()))
        self._tombstones = pinned.options.get("tombstone") == "delete" or (
            self._pinned is not None and FORMATS[self._pinned].empty
        )
        about = FORMATS.values() if self._pinned is None else [FORMATS[self._pinned]]
        self._empty_headers = {format_.empty_header for format_ in about}

    def recognised(self, message: Message) -> Recognised | None:
        """The format that reads a message; None if there is none, and then `rows` says why."""
        if self._pinned is not None:
            return self._known
        if not message.value or len(message.value) > self._limits.message_bytes:
            return None
        return recognised_if_any(message)

    def rows(
        self,
        message: Message,
        epoch: int = 0,
        now: int | None = None,
        *,
        known: Recognised | None = None,
    ) -> list[SilverRow]:
        """The silver rows of one message, at least one; never raises for what the bytes hold.

        `now`: the time of decoding in microseconds, this moment's if not given. `known`: what
        `recognised` gave, if it was asked already.
        """
        if now is None:
            now = time.time_ns() // 1000
        known = known or self._known
        name = known.name if known is not None else None
        try:
            value = message.value
            if message.headers and (broken := framing_error(message.headers)) is not None:
                raise DecodeError(broken.code, broken.text)
            if value and (self._nested or len(value) > self._checked_above):
                check_message(value, self._limits)
            if not value and (lost := gap(message.headers)) is not None:
                unread = Event(kind="control", op="other", op_raw="gap", extra={"offsets": lost})
                return self._lift(message, epoch, now, name=name, events=[unread])
            empty = not value or (self._null_is_empty and value == b"null")
            if empty and not self._tombstones and not self._tells_of_empty(message):
                tombstone = Event(kind="control", op="other", op_raw="tombstone")
                return self._lift(message, epoch, now, name=name, events=[tombstone])
            try:
                if known is None:
                    known = recognised(message)
                    name = known.name
                events = self._events(message, known)
            except DecodeError as error:
                several = joined(message, error, name=name, read=self._events)
                name, events = several.name, several.events
                message = several.message
            return self._lift(message, epoch, now, name=name, events=events)
        except DecodeError as error:
            code, text = error.code, error.text
            if name and FORMATS[name].recognise is not None:
                advice = advice_on_refused(message, code, name)
                text = f"{text}; {advice}" if advice else text
        except Exception as error:
            code, text = Code.DECODER_FAILED, f"{type(error).__name__}: {error}"
        return [self.reject(message, epoch, now, name=name, code=code, text=text)]

    def _events(self, message: Message, known: Recognised) -> list[Event]:
        """The events of a message of a known format. Raises DecodeError."""
        about = FORMATS[known.name]
        if message.value and about.recognise is not None:
            check_names(message.value, flat=about.flat, envelope=about.envelope, top=known.top)
        if known.read is not None:
            message = message._replace(read=known.read)
        decode = self._decoders.get(known.name) or self._decoder(known.name)
        return list(decode(message))

    def changes(self, name: str, messages: Sequence[tuple[int, Message]]) -> list[Changes]:
        """Those changes among messages of a format, each with its index, that can be read by
        column; the other messages are for `rows`."""
        make = FORMATS[name].tables
        if make is None or self._nested:
            return []
        tables = self._tables.get(name)
        if tables is None:
            tables = self._tables[name] = make(self._options[name])
        largest = self._checked_above
        meaningful = FORMATS[name].headers | {ERROR_HEADER}
        return tables(
            [
                (at, _compacted(message))
                for at, message in messages
                if message.value
                and len(message.value) <= largest
                and (not message.headers or meaningful.isdisjoint([n for n, _ in message.headers]))
            ]
        )

    def _tells_of_empty(self, message: Message) -> bool:
        """Whether a header says what a message without a value is about."""
        return any(name in self._empty_headers for name, _ in message.headers or ())

    def knows(self, event: Event) -> bool:
        """Whether the event's column types were written already, or it has none."""
        types = event.types
        return types is None or (event.db, event.schema, event.table, types.id) in self._schemas

    def _decoder(self, name: str) -> Decoder:
        made = self._decoders[name] = FORMATS[name].decoder(self._options[name])
        return made

    def _lift(
        self, message: Message, epoch: int, now: int, *, name: str | None, events: list[Event]
    ) -> list[SilverRow]:
        """The rows of a message's events, each schema row before the event that brought it."""
        rows: list[SilverRow] = []
        met: list[tuple[Any, ...]] = []
        source, topic = self.source, message.topic
        value, partition, offset = message.value, message.partition, message.offset
        arrived = micros_of_record(message)
        place = self.places.of(name, message)
        ops = [event.op for event in events]
        if "truncate" in ops or "ddl" in ops:
            events = truncates_by_table(events, name, self.declared, limits=self._limits)
        wide = value is not None and len(value) > self._checked_above
        row = 0
        # Each event goes once its row is made: a message of many rows is not held twice.
        events.reverse()
        while events:
            event = events.pop()
            kind, types = event.kind, event.types
            if wide:
                check_columns(event, self._limits)
            hashed = self._filled_in(event, message, name)
            digest = (
                change_hash(event, message, by_arrival=place.by_arrival, row=row)
                if kind == "change"
                else bytes_hash(value)
            )
            pos = self.places.position(event, message, epoch, row=row, name=name, place=place)
            if types is not None:
                known = event.db, event.schema, event.table, types.id
                if known not in self._schemas and known not in met:
                    met.append(known)
                    rows.append(self._schema_row(message, epoch, now, name=name, event=event))
            warnings = event.warnings
            if message.place is not None and place.by_arrival:
                warnings = [*(warnings or ()), Code.CLOCK_STEPPED_BACK.value]
            if warnings and len(warnings) > 1:
                warnings = list(dict.fromkeys(warnings))
            fields = astuple(event)
            rows.append(
                (
                    *(kind, source, topic, partition, offset, row, event.format or name),
                    *fields[_OP_TO_SCN],
                    *(pos, epoch, pos[order.S1] if pos is not None else None),
                    *fields[_TIMES_TO_EXTRA],
                    *(types.id if types is not None else None, event.columns, event.ddl),
                    event.dialect if event.ddl is not None else None,
                    *(warnings or None, None, None),
                    value if kind == "fragment" else None,
                    *(digest, hashed, arrived, now),
                )
            )
            row += 1
        if met:
            # Only now: if an event had failed, these schema rows would have been lost with it.
            if len(self._schemas) >= _SCHEMAS_MOST:
                self._schemas.clear()
            self._schemas.update(met)
        return rows

    def _filled_in(self, event: Event, message: Message, name: str | None) -> int | None:
        """Give the event what its message leaves out and the source declares: the names of its
        table, its dialect, its key. Gives the hash of the key; None for an event that changes no
        row."""
        self.declared.complete(event)
        if event.unavailable:
            without_empty(event)
        else:
            event.unavailable = None
        if event.ddl is not None:
            event.ddl = masked(event.ddl)
            if event.dialect is None:
                event.dialect = self.declared.dialect(event, event.format or name)
        if event.kind != "change" and event.kind != "fragment":
            return None
        columns = event.key_columns
        if self.declared.has_keys or (not columns and message.key is not None):
            columns = self.declared.key_columns(event, message)
        keyed(event, columns)
        return key_hash(event)

    def _schema_row(
        self, message: Message, epoch: int, now: int, *, name: str | None, event: Event
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
        self, message: Message, epoch: int, now: int, *, name: str | None, code: Code, text: str
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
            value_hash=bytes_hash(value),
        )

    def _row(self, message: Message, epoch: int, now: int, **given: Any) -> SilverRow:
        """A row that is no event: the coordinates of its message and what is `given`; all else is
        null."""
        given.update(
            source=self.source,
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            epoch=epoch,
            arrived=micros_of_record(message),
            decoded_at=now,
        )
        return tuple(map(given.get, _COLUMNS))


def _compacted(message: Message) -> Message:
    """The message without white space between its tokens: only compact messages are read by
    column."""
    value = message.value or b""
    compact = compacted(value)
    return message if compact is value else message._replace(value=compact)


def micros_of_record(message: Message) -> int | None:
    """When a message arrived, in microseconds."""
    milliseconds = message.timestamp if message.place is None else message.place
    return None if milliseconds is None or milliseconds < 0 else milliseconds * 1000
