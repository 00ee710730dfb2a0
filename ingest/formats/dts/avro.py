"""Aliyun DTS change tracking, Avro; CloudCanal writes it too.

Vendor: Alibaba Cloud Data Transmission Service, "Use an SDK demo to consume tracked data", and
Record.avsc of https://github.com/aliyun/aliyun-dts-subscribe-demo (510fea5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import msgspec

from ingest.codes import Code
from ingest.ddl.dialect import dialect_of_database
from ingest.ddl.parse import is_truncate
from ingest.errors import DecodeError
from ingest.events import KIND_OF, Event, Row, Types
from ingest.formats.dts.record import DOCUMENT, Image, Record, image_of, read
from ingest.formats.dts.types import Widened, corrections, family_of_source, source_types
from ingest.memo import Memo
from ingest.names import ROW_IDS
from ingest.wire.avro.fields import Fields
from ingest.wire.clock import ZONES_OF_INSTANTS, epoch_micros
from ingest.wire.contract import (
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    Option,
    TableName,
    equal_changes_of_a_row,
    repeats_without_key,
)
from ingest.wire.contradictions import refuse_rows
from ingest.wire.event_types import paired
from ingest.wire.scalars import sent_micros_of
from ingest.wire.shown_types import ShownTypes

_OPS = {
    **{"INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "DDL": "ddl"},
    **{"COMMAND": "ddl", "BEGIN": "begin", "COMMIT": "commit", "ROLLBACK": "rollback"},
    **{"ABORT": "rollback", "HEARTBEAT": "heartbeat", "CHECKPOINT": "checkpoint"},
    **{"INIT": "snapshot", "FILL": "other", "FINISH": "other", "CONTROL": "other"},
    **{"RDB": "other", "NOOP": "other"},
}
_DOT = "\\u002E"


_KEPT = ("l_db_name", "l_tb_name", "server_id", "thread_id")
"""Tags that a change keeps in `extra`: the logical table of a shard of DRDS or PolarDB-X, and who
wrote it."""


class _Table:
    """What is known of one table: the types that its rows show, and the corrections of its
    values."""

    def __init__(self, names: TableName, record: Record, options: FormatOptions) -> None:
        assert isinstance(record.fields, Fields)
        family = family_of_source(record.source)
        numbers = record.fields.numbers
        self.columns = record.fields.names
        self.repeated = len(set(self.columns)) < len(self.columns)
        self.types = ShownTypes(
            names, self.columns, options, family=family, source_type=source_types(family, numbers)
        )
        self._widened = Widened(family, numbers)
        self._corrections = corrections(family, numbers)

    def types_shown(self, image: Image) -> Types | None:
        """The types of the columns, after a row has shown its own."""
        return self.types.of(self._widened.words(image.words))

    def row(self, image: Image | None, warnings: list[str]) -> Row | None:
        """The image by column name; no row if it supplies nothing."""
        if image is None:
            return None
        found = image.values
        for index, correct in self._corrections.items():
            value, word = found[index], image.words[index]
            if value is not None and word is not None:
                found[index] = correct(value, word, warnings)
        row = dict(zip(self.columns, found, strict=True))
        for index in image.missing:
            row.pop(self.columns[index], None)
        if self.repeated:
            warnings.append(Code.DUP_KEY.value)
        self.types.as_declared(row, warnings)
        return row or None


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one record a message."""
    return _Decoding(options).events


class _Decoding:
    """Decodes under one source's options; remembers how the columns of each table are read."""

    def __init__(self, options: FormatOptions) -> None:
        self._options = options
        self._logical = bool(options.options.get("logical_names"))
        self._tables: Memo[tuple[TableName, str, Fields], _Table] = Memo(most=10_000)

    def events(self, message: Message) -> Iterator[Event]:
        """The event of a message's record."""
        value = message.value or b""
        record = message.read if isinstance(message.read, Record) else read(value)
        warnings = record.warnings
        op = _OPS[record.operation]
        if op == "snapshot" and record.after is None:
            op = "other"
        tags = record.tags
        names = _names(record.object)
        if self._logical:
            names = tags.get("l_db_name") or names[0], names[1], tags.get("l_tb_name") or names[2]
        ddl = None
        if op == "ddl":
            ddl = record.after if isinstance(record.after, str) else None
            if not ddl:
                ddl = None
                warnings.append(Code.DDL_TEXT_MISSING.value)
            elif is_truncate(ddl):
                op = "truncate"
        event = Event(
            op=op,
            kind=KIND_OF[op],
            op_raw=record.operation,
            db=names[0],
            schema=names[1],
            table=names[2],
            key_columns=_keys(record, warnings),
            id=str(record.id),
            scn=record.position or None,
            order=_order(record.position),
            snapshot=op == "snapshot",
            event_time=epoch_micros(record.timestamp, warnings, 1),
            sent_time=_milliseconds(tags.get("readerThroughoutTime"), warnings),
            # The rows of one statement have one position.
            crowded=True,
            tx_id=tags.get("GTID") or (record.transaction if record.transaction != "0" else None),
            extra={name: tags[name] for name in _KEPT if name in tags} or None,
            ddl=ddl,
            dialect=dialect_of_database(record.source) if ddl else None,
            warnings=warnings,
        )
        if not event.tx_id:
            event.tx_id = None
        if event.kind == "change" and op != "truncate":
            _images(event, record, names, table_of=self._table)
        else:
            images = (record.before, record.after)
            refuse_rows(record.operation, *(i.values for i in images if isinstance(i, Image)))
        yield event

    def _table(self, names: TableName, record: Record) -> _Table:
        assert isinstance(record.fields, Fields)
        place = names, record.source, record.fields
        found = self._tables.get(place)
        if found is None:
            found = self._tables[place] = _Table(names, record, self._options)
        return found


def _images(
    event: Event,
    record: Record,
    names: TableName,
    *,
    table_of: Callable[[TableName, Record], _Table],
) -> None:
    warnings = record.warnings
    images = (
        image_of(record.before, record.fields, "before"),
        image_of(record.after, record.fields, "after"),
    )
    if images == (None, None):
        paired(event.op, None, None, warnings=warnings)
    table = table_of(names, record)
    rows = [table.row(image, warnings) for image in images]
    event.before, event.after = paired(event.op, rows[0], rows[1], warnings=warnings)
    kept = (event.before, event.after)
    for side, image, row in zip(("before", "after"), images, kept, strict=True):
        if image is not None and row is not None:
            event.types = table.types_shown(image)
            word = "full"
            if image.missing:
                word = "key" if event.key_columns == tuple(row) else "partial"
                warnings.append(Code.PARTIAL_IMAGE.value)
                missing = [table.columns[index] for index in image.missing]
                last = side == "after" or event.op == "delete"
                event.unavailable = missing if last else event.unavailable
            if side == "before":
                event.before_image = word
            else:
                event.after_image = word


@lru_cache(maxsize=10_000)
def _names(object_: str | None) -> TableName:
    """`db`, `db.table` or `db.schema.table`; a dot inside a name is written \\u002E."""
    parts = [part.replace(_DOT, ".") or None for part in (object_ or "").split(".")]
    if len(parts) == 1:
        return parts[0], None, None
    if len(parts) == 2:
        return parts[0], None, parts[1]
    if len(parts) == 3:
        return parts[0], parts[1], parts[2]
    raise DecodeError(
        Code.BAD_SHAPE, f"expected db, db.table or db.schema.table, got {str(object_)[:80]!r}"
    )


def _keys(record: Record, warnings: list[str]) -> tuple[str, ...] | None:
    """The primary key that the tag `pk_uk_info` names, else the row id that RDS hides in a table
    without a key; unknown if the tag is broken."""
    indexes, fields = record.tags.get("pk_uk_info"), record.fields
    found = _primary(indexes) if indexes else ()
    if found is None:
        warnings.append(Code.BAD_MESSAGE_KEY.value)
    if found != ():
        return found
    if fields is DOCUMENT:
        return ("_id",)
    names = fields.names if isinstance(fields, Fields) else ()
    return next(((name,) for name in ROW_IDS if name in names), None)


@lru_cache(maxsize=10_000)
def _primary(indexes: str) -> tuple[str, ...] | None:
    try:
        return tuple(msgspec.json.decode(indexes, type=dict[str, list[str]]).get("PRIMARY", ()))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _order(position: str) -> tuple[int, ...] | None:
    """The log's file and the position in it (`72469@78`), a number, or an LSN (`16/B374D848`)."""
    place, at, file = position.partition("@")
    if len(place) > 18 or len(file) > 18 or not position.isascii():
        return None
    if at:
        return (int(file), int(place)) if place.isdigit() and file.isdigit() else None
    if place.isdigit():
        return (int(place),)
    high, slash, low = place.partition("/")
    if not slash or len(high) > 8 or len(low) > 8:
        return None
    try:
        found = (int(high, 16) << 32) + int(low, 16)
    except ValueError:
        return None
    return (found,) if 0 <= found < 2**63 else None


def _milliseconds(text: str | None, warnings: list[str]) -> int | None:
    if text is None or len(text) > 18 or not (text.isascii() and text.isdigit()):
        return None
    return sent_micros_of(int(text), warnings)


def _recognise(message: Message) -> Record | bool:
    """The record that all of the bytes make; else whether they are a record at all."""
    value = message.value or b""
    if not value or value[0] & 1:
        return False
    try:
        return read(value)
    except DecodeError as error:
        # A value that contradicts its type can only stand in a record of this format.
        return error.code is not Code.BAD_AVRO


FORMAT = Format(
    decoder=decoder,
    order="source",
    ends="the record COMMIT",
    summary="Aliyun DTS change tracking, Avro of 14 or 15 fields, without framing",
    source="Alibaba Cloud DTS, Record.avsc, "
    "https://github.com/aliyun/aliyun-dts-subscribe-demo (510fea5)",
    recognised="the bytes are one record to the last, with its enums and unions in range",
    ordered="by sourcePosition: the log's file and the position in it (72469@78), a number or an "
    "LSN; streams merged from several servers (DMS, DRDS) need order: arrival",
    recognise_bytes=_recognise,
    options={
        "logical_names": Option(
            "bool",
            False,
            "take database and table from the tags l_db_name and l_tb_name, which name the logical "
            "table of a DRDS or PolarDB-X shard",
        )
    },
    impossible={
        "sequenceId": "a field of DataWorks StreamX",
        "storeDataSequence": "a field of OMS Default; here sourcePosition is scn",
    },
    losses=(
        repeats_without_key("the rows of one statement have one sourcePosition"),
        equal_changes_of_a_row(
            "the changes of one statement have one sourcePosition", by_default=True
        ),
        Loss(
            "other tags, safeSourcePosition, the database's version, processTimestamps",
            "they say nothing of the change: bronze alone has them",
        ),
        Loss(
            "booleans",
            "MySQL's BOOLEAN is a TINYINT and comes as one, 0 or 1",
            mended=True,
        ),
        ZONES_OF_INSTANTS,
    ),
)
