"""Maxwell's JSON: rows, bootstraps and DDL of MySQL.

Vendor: https://maxwells-daemon.io/dataformat (zendesk/maxwell 024c371). A row's values are native
JSON; an update has in `old` what it changed. `ts` is in seconds for rows, in milliseconds for DDL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from ingest.codes import Code
from ingest.ddl import is_truncate
from ingest.errors import DecodeError
from ingest.events import KIND_OF, Event, Row
from ingest.formats.columns import Texts, sql_spark_type
from ingest.formats.envelope import Scalar, micros_of, number_of, text_of
from ingest.formats.format import Decoder, Format, FormatOptions, Loss, Message, Option, TopLevel
from ingest.formats.maxwell_columns import key_of_message, settle, table_columns
from ingest.formats.table_rows import TableRows
from ingest.formats.typed_rows import TypedRows
from ingest.jsontext import decoder as json_decoder
from ingest.jsontext import parse

_ROWS = {
    "insert": "insert",
    "update": "update",
    "delete": "delete",
    "bootstrap-insert": "snapshot",
}
_CONTROLS = ("bootstrap-start", "bootstrap-complete")
_STATEMENTS = tuple(
    f"{what}-{verb}" for what in ("database", "table") for verb in ("create", "alter", "drop")
)
_TYPES = frozenset(f'"{word}"'.encode() for word in (*_ROWS, *_CONTROLS, *_STATEMENTS))
_NOT_OURS = frozenset(("isDdl", "mysqlType", "sqlType", "version", "commitTs", "action", "payload"))
_CONTENT = frozenset(("data", "def", "sql", "encrypted"))
_LAST_ROW = 2**62
"""Stands for the xoffset of a transaction's last row, which has `commit` in its place."""
_NONE = msgspec.Raw(b"")
_EMPTY = (b"", b"null")


class _Envelope(msgspec.Struct, gc=False):
    type: str | None = None
    database: str | None = None
    table: str | None = None
    ts: Scalar = None
    xid: Scalar = None
    xoffset: Scalar = None
    commit: bool | None = None
    position: str | None = None
    primary_key_columns: tuple[str, ...] | None = None
    data: msgspec.Raw = _NONE
    old: msgspec.Raw = _NONE
    sql: str | None = None
    definition: msgspec.Raw = msgspec.field(default=_NONE, name="def")
    encrypted: msgspec.Raw = _NONE


_ENVELOPE = json_decoder(_Envelope)


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one message, which is one row, one statement or one end of a bootstrap."""
    texts = Texts(zone=options.time_zone)
    spark = sql_spark_type(texts)
    tables = TableRows(options, texts)
    whole = options.options["output_nulls"]

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        envelope = parse(message.value or b"", _ENVELOPE.decode, warnings)
        if bytes(envelope.encrypted) not in _EMPTY:
            raise DecodeError(
                Code.UNSUPPORTED, "expected a row, got an encrypted one; set Maxwell's encrypt=none"
            )
        op = _op(envelope)
        event = _event(envelope, op, options, warnings)
        if op == "truncate" or event.kind == "ddl":
            _state(event, envelope, spark, warnings)
        elif event.kind == "change":
            event.key_columns = envelope.primary_key_columns or key_of_message(message.key)
            rows = tables.of((event.db, event.schema, event.table), keys=event.key_columns)
            event.types = rows.types
            _images(event, envelope, rows, warnings)
            if not whole:
                _doubt(event, warnings)
        yield event

    return decode


def _op(envelope: _Envelope) -> str:
    """The op of a message. Raises unknown_op."""
    given = envelope.type or ""
    op = _ROWS.get(given)
    if op is not None:
        return op
    if given in _CONTROLS:
        return "other"
    if given in _STATEMENTS:
        return "truncate" if is_truncate(envelope.sql) else "ddl"
    expected = ", ".join((*_ROWS, *_CONTROLS, *_STATEMENTS))
    raise DecodeError(Code.UNKNOWN_OP, f"expected type {expected}; got {envelope.type!r}")


def _event(envelope: _Envelope, op: str, options: FormatOptions, warnings: list[str]) -> Event:
    kind = KIND_OF[op]
    unit = 1000 if kind == "ddl" or op == "truncate" else 1
    happened = micros_of(envelope.ts, warnings, unit)
    order, positioned = _order(envelope, happened)
    return Event(
        op=op,
        kind=kind,
        op_raw=envelope.type,
        db=envelope.database or options.default_database,
        schema=options.default_schema,
        table=envelope.table or (None if kind == "control" else options.default_table),
        scn=envelope.position or None,
        event_time=happened,
        tx_id=text_of(envelope.xid),
        order=order,
        positioned=positioned,
        snapshot=op == "snapshot",
        warnings=warnings,
    )


def _order(envelope: _Envelope, happened: int | None) -> tuple[tuple[int, ...] | None, bool]:
    """The order key, and whether it is a position in the binlog: file, position, xoffset.

    Without a position: the time, the transaction's number, xoffset.
    """
    last = _LAST_ROW if envelope.commit else 0
    offset = number_of(envelope.xoffset)
    row = last if offset is None else offset
    if envelope.position:
        file, _, at = envelope.position.rpartition(":")
        numbers = number_of(file.rpartition(".")[2]), number_of(at)
        if numbers[0] is not None and numbers[1] is not None:
            return (numbers[0], numbers[1], row), True
    number = number_of(envelope.xid)
    if happened is None or number is None:
        return None, False
    return (happened, number, row), False


def _state(
    event: Event, envelope: _Envelope, spark: Callable[[str], str], warnings: list[str]
) -> None:
    event.ddl = envelope.sql or None
    if event.ddl is None:
        warnings.append(Code.DDL_TEXT_MISSING.value)
    event.columns, event.key_columns = table_columns(envelope.definition, spark)


def _images(event: Event, envelope: _Envelope, rows: TypedRows, warnings: list[str]) -> None:
    """Gives a change its images: before = data overlaid with old, by presence of the name."""
    data, word = rows.read(envelope.data, warnings)
    if data is None:
        raise DecodeError(Code.NO_IMAGE, f"expected columns in data of a {event.op}, got none")
    settle(data, envelope.data, rows)
    if event.op == "delete":
        event.before, event.before_image = data, word
        return
    event.after, event.after_image = data, word
    if event.op != "update":
        return
    old, _ = rows.read(envelope.old, warnings)
    if old is None:
        warnings.append(Code.OLD_MISSING.value)
        return
    settle(old, envelope.old, rows)
    before: Row = {**data, **old}
    if len(before) > len(data):
        warnings.append(Code.OLD_COLUMN_NOT_IN_DATA.value)
        warnings.append(Code.PARTIAL_IMAGE.value)
        event.after_image = word = "partial"
    event.before, event.before_image = before, word


def _doubt(event: Event, warnings: list[str]) -> None:
    """Columns that are NULL were not sent: of a row that may be there already, who knows which."""
    if event.op == "update":
        warnings.append(Code.PARTIAL_IMAGE.value)
        event.after_image = "partial"
        event.before_image = "partial" if event.before is not None else None


def _recognise(top: TopLevel) -> bool:
    if "type" not in top:
        return len(top) == 1 and "encrypted" in top and bytes(top["encrypted"]).startswith(b"{")
    if "database" not in top or "ts" not in top or _CONTENT.isdisjoint(top):
        return False
    return _NOT_OURS.isdisjoint(top) and bytes(top["type"]) in _TYPES


FORMAT = Format(
    decoder=decoder,
    order="arrival",
    summary="Maxwell's JSON of MySQL's binlog",
    source="https://maxwells-daemon.io/dataformat (zendesk/maxwell, 024c371)",
    recognised="database, ts and a type of Maxwell's, in lower case, with data, def, sql or "
    "encrypted",
    ordered="by position (output_binlog_position=true): file, position, xoffset; without it auto "
    "is arrival, and source is ts, xid, xoffset",
    recognise=_recognise,
    options={
        "output_nulls": Option(
            "bool",
            True,
            "Maxwell's setting of that name: with false it leaves out columns that are NULL, and "
            "the images of an update are partial",
        ),
    },
    impossible={
        "schema": "MySQL has no schemas; a message has database and table",
        "id": "a message has no number of its own; position is shown as scn",
        "sequenceId": "the message has no such field",
        "storeDataSequence": "the message has no such field",
        "sent_time": "ts is the time of the change; no field holds the time of sending",
        "unavailable": "the format has no word for a value that could not be supplied",
        "key image": "data holds the row; nothing says that it is a key alone",
    },
    losses=(
        Loss(
            "updates that change nothing",
            "their old is empty, as where previous values were not sent",
        ),
        Loss(
            "JSON null",
            "a JSON column's null and SQL's NULL are one token",
        ),
    ),
)
