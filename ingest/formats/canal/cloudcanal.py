"""CloudCanal JSON, the default message format of CloudCanal's Kafka, RocketMQ and RabbitMQ targets.

Vendor: https://www.cloudcanalx.com/us/cc-doc/reference/kafka_msg_format_type, "CloudCanal Json".
Its one example serves INSERT, UPDATE and DELETE alike. Where it leaves a choice, both forms are
read: a deleted row in `data` or in `before`, `isDdl` or the older `ddl`, `tableChanges` as object
or array.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.ddl.parse import empties
from ingest.errors import DecodeError
from ingest.events import KIND_OF, Event
from ingest.formats.canal.events import add_statement
from ingest.formats.canal.rows import RowReader, RowReaders
from ingest.formats.canal.types import NamedTypes
from ingest.values.jsontext import Images, images, parse
from ingest.values.jsontext import decoder as json_decoder
from ingest.wire.clock import ZONES_OF_INSTANTS
from ingest.wire.contract import (
    SPACES_OF_JSON,
    Decoder,
    Format,
    FormatOptions,
    Message,
    Option,
    TopLevel,
    equal_changes_of_a_row,
    repeats_without_key,
)
from ingest.wire.contradictions import refuse_rows
from ingest.wire.declared import ValueEncoding, sql_converter, sql_spark_type
from ingest.wire.scalars import Scalar, micros_of, sent_micros_of, text_of

_ROWS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
_ENTRIES = {
    "TRANSACTIONBEGIN": "begin",
    "TRANSACTIONEND": "commit",
    "HEARTBEAT": "heartbeat",
    "GTIDLOG": "other",
}
_NONE = msgspec.Raw(b"")
_NO_CODES = (b"", b"null")


class _Envelope(msgspec.Struct, gc=False):
    action: str | None = None
    entryType: str | None = None
    isDdl: bool | None = None
    ddl: bool | None = None
    bid: Scalar = None
    db: str | None = None
    schema: str | None = None
    table: str | None = None
    pks: tuple[str, ...] | None = None
    execTs: Scalar = None
    sendTs: Any = None
    sql: str | None = None
    dbValType: msgspec.Raw = _NONE
    jdbcType: msgspec.Raw = _NONE
    data: msgspec.Raw = _NONE
    before: msgspec.Raw = _NONE
    tableChanges: msgspec.Raw = _NONE


_ENVELOPE = json_decoder(_Envelope)


_MARKS = frozenset(("dbValType", "execTs", "sendTs", "isDdl"))
"""Names that appear in no other format's messages with an action."""
_WORDS = frozenset(f'"{word}"'.encode() for word in _ENTRIES)


def recognise(top: TopLevel) -> bool:
    """Whether two of three are there: an `action`, a name that only CloudCanal has, its word for no
    row."""
    if "type" in top or not ("action" in top or "entryType" in top):
        return False
    marked = not _MARKS.isdisjoint(top)
    if "action" in top and marked:
        return True
    if "entryType" not in top or bytes(top["entryType"]) not in _WORDS:
        return False
    return marked or "action" in top


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one message, of any number of rows."""
    own = options.options
    encoding = ValueEncoding(
        family=own["dialect"],
        zone=options.time_zone,
        blob=own["blob_encoding"],
        ordinals=own["enum_encoding"] == "ordinal",
    )
    spark = sql_spark_type(encoding)
    types = NamedTypes(
        options, convert=sql_converter(encoding), spark=spark, dialect=encoding.family
    )
    readers = RowReaders(types)

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        envelope = parse(message.value or b"", _ENVELOPE.decode, warnings)
        op = _op(envelope, warnings)
        event = _event(envelope, op, options, warnings=warnings)
        if op == "truncate" or event.kind != "change":
            refuse_rows(event.op_raw, envelope.data, envelope.before)
        if op == "truncate" or event.kind == "ddl":
            add_statement(
                event,
                envelope.sql,
                table_changes=envelope.tableChanges,
                spark=spark,
                warnings=warnings,
            )
            yield event
        elif event.kind == "control":
            yield event
        else:
            yield from _changes(event, envelope, readers)

    return decode


def _op(envelope: _Envelope, warnings: list[str]) -> str:
    """The op of a message: its entry type first, then the DDL flag. Raises unknown_op."""
    entry = (envelope.entryType or "ROWDATA").strip().upper()
    op = _ENTRIES.get(entry)
    if op is not None:
        return op
    if entry != "ROWDATA":
        raise DecodeError(
            Code.UNKNOWN_OP,
            f"expected entryType ROWDATA, {', '.join(_ENTRIES)}; got {envelope.entryType!r}",
        )
    action = (envelope.action or "").strip().upper()
    if envelope.isDdl or envelope.ddl:
        if False in (envelope.isDdl, envelope.ddl):
            warnings.append(Code.DDL_FLAG.value)
        return "truncate" if empties(action, envelope.sql) else "ddl"
    op = _ROWS.get(action)
    if op is None:
        raise DecodeError(
            Code.UNKNOWN_OP,
            f"expected action {', '.join(_ROWS)}, or isDdl: true; got {envelope.action!r}",
        )
    return op


def _event(envelope: _Envelope, op: str, options: FormatOptions, *, warnings: list[str]) -> Event:
    """What all rows of the message share; s1 is `execTs` in milliseconds.

    `pks` is empty in the vendor's examples of a table that has a key, so an empty one means
    unknown.
    """
    happened = micros_of(envelope.execTs, warnings, 1000)
    control = KIND_OF[op] == "control"
    return Event(
        op=op,
        kind=KIND_OF[op],
        op_raw=envelope.entryType if control else envelope.action,
        db=envelope.db or options.default_database,
        schema=envelope.schema or options.default_schema,
        table=envelope.table or (None if control else options.default_table),
        key_columns=None if control else envelope.pks or None,
        id=text_of(envelope.bid),
        order=None if happened is None else (happened // 1000,),
        crowded=True,
        event_time=happened,
        sent_time=sent_micros_of(envelope.sendTs, warnings),
        warnings=warnings,
    )


def _changes(event: Event, envelope: _Envelope, readers: RowReaders) -> Iterator[Event]:
    """One event a row. Raises statement_dml, no_image, image_count."""
    op, shared = event.op, event.warnings
    assert shared is not None
    data = images(envelope.data, shared)
    before = images(envelope.before, shared)
    _check_counts(op, data, before, envelope=envelope)
    table = (event.db, event.schema, event.table)
    reader = readers.of(table, envelope.dbValType, event.key_columns)
    if bytes(envelope.jdbcType) not in _NO_CODES and not (
        reader.typed(data) and reader.typed(before)
    ):
        reader = readers.coded(table, envelope.dbValType, envelope.jdbcType, keys=event.key_columns)
    event.types = reader.types
    count = len(data.rows) or len(before.rows)
    original = copy(event) if count > 1 else event
    for index in range(count):
        if index:
            event = copy(original)
        if count > 1:
            event.warnings = shared.copy()
        _fill(event, reader, data, before=before, index=index)
        yield event


def _check_counts(op: str, data: Images, before: Images, *, envelope: _Envelope) -> None:
    rows, olds = len(data.rows), len(before.rows)
    if not rows and (op != "delete" or not olds):
        if envelope.sql:
            raise DecodeError(
                Code.STATEMENT_DML,
                f"expected rows in data, got the statement {envelope.sql[:80]!r}; set the "
                f"source's binlog_format to ROW",
            )
        raise DecodeError(Code.NO_IMAGE, f"expected rows in data, got {rows} and {olds} in before")
    paired = rows == olds or (op == "delete" and not (rows and olds)) or op == "insert"
    if not paired:
        raise DecodeError(
            Code.IMAGE_COUNT, f"expected a row in before for each row of data, got {olds}, {rows}"
        )


def _fill(event: Event, reader: RowReader, data: Images, *, before: Images, index: int) -> None:
    if event.op == "update":
        reader.update(event, data, before, index=index, unlogged=False)
    elif event.op == "delete":
        old = before.rows[index] if before.rows else None
        new = data.rows[index] if data.rows else None
        whole = old and (not new or old.keys() >= new.keys())
        sent = before if whole or not data.rows else data
        reader.delete(event, sent, index, unlogged=False)
    else:
        reader.insert(event, data, index)
        if index < len(before.rows) and before.rows[index] and event.warnings is not None:
            event.warnings.append(Code.BEFORE_ON_INSERT.value)


FORMAT = Format(
    decoder=decoder,
    order="arrival",
    summary="CloudCanal JSON, CloudCanal's default message format",
    source="https://www.cloudcanalx.com/us/cc-doc/reference/kafka_msg_format_type",
    recognised="action with dbValType, execTs, sendTs or isDdl; or an entryType that is no row",
    ordered="auto is arrival: CloudCanal sends no log position; source is execTs, in milliseconds",
    recognise=recognise,
    envelope=("tableChanges", "tableChanges.table"),
    options={
        "blob_encoding": Option(
            "choice",
            "latin1",
            "how BLOB and BINARY are written: latin1 has one character a byte",
            ("latin1", "base64"),
        ),
        "enum_encoding": Option(
            "choice",
            "ordinal",
            "what a number in an ENUM or SET column is: an ordinal or bitmask to be looked up in "
            "the type, or the label itself",
            ("ordinal", "label"),
        ),
        "dialect": Option(
            "choice",
            "mysql",
            "whose type names dbValType holds: a TIMESTAMP of Oracle has no zone, its DATE a time",
            ("mysql", "oracle", "postgres", "sqlserver"),
        ),
    },
    impossible={
        "sequenceId": "the message has no such field",
        "storeDataSequence": "the message has no such field",
        "scn": "the message has no log position; bid is 0 in every example",
        "tx_id": "the message names no transaction, only its end (entryType TRANSACTIONEND)",
        "unavailable": "the message has no word for a value that could not be supplied",
        "snapshot": "the page names no action for rows of the full load: they come as INSERT",
    },
    losses=(
        repeats_without_key("with order: source the rows of one millisecond have one place"),
        equal_changes_of_a_row("the changes of one millisecond have one place"),
        ZONES_OF_INSTANTS,
        SPACES_OF_JSON,
    ),
)
