"""DataWorks (StreamX) JSON, versions 0.0.1 and 1.0.0, which differ in nothing but their number.

Vendor: Alibaba Cloud DataWorks, "Appendix: Message format" (real-time synchronisation of a full
database to Kafka). Event types are Canal's, an update being either one message or two halves.

The six types of StreamX, and how the values of a table's columns become text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.ddl.dialect import dialect_of_database
from ingest.errors import DecodeError
from ingest.events import KIND_OF, ColumnType, Event
from ingest.formats.oms.values import base64_text, oms_converter, truth
from ingest.values import canonical
from ingest.values.jsontext import decoder as json_decoder
from ingest.values.jsontext import parse
from ingest.values.source_types import family_of, parse_type, spark_type, types_of
from ingest.wire.contract import (
    SPACES_OF_JSON,
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    TopLevel,
)
from ingest.wire.contradictions import refuse_sides
from ingest.wire.declared import Columns, Convert, declared_for, in_any_case, in_sent_names, plain
from ingest.wire.event_types import CONTROLS, ROWS, STATEMENTS, paired, statement_op
from ingest.wire.scalars import Scalar, micros_of, number_of, of_protocol, sent_micros_of, text_of
from ingest.wire.typed_rows import TypedRows

_BEFORE = frozenset(("UPDATE_BEFOR", "UPDATE_BEFORE"))
"""StreamX spells it without its last letter."""
_OPS = {**ROWS, **dict.fromkeys((*sorted(_BEFORE), "UPDATE_AFTER"), "update"), **CONTROLS}
_VERSIONS = frozenset(("0.0.1", "1.0.0"))
_ROW_IDS = ("#alibaba_rds_row_id#", "__#alibaba_rds_row_id#__")
_MEMO_MOST = 10_000
_NOTHING = msgspec.Raw(b"")


class _Source(msgspec.Struct, gc=False):
    dbType: str | None = None
    dbName: str | None = None
    schemaName: str | None = None
    tableName: str | None = None


class _Column(msgspec.Struct, gc=False):
    name: str
    type: str | None = None


class _Schema(msgspec.Struct, gc=False):
    dataColumn: list[_Column] | None = None
    primaryKey: list[str] | None = None
    source: _Source | None = None


class _Side(msgspec.Struct, gc=False):
    dataColumn: msgspec.Raw = _NOTHING


class _Times(msgspec.Struct, gc=False):
    eventTime: Scalar = None
    systemTime: Any = None


class _Ddl(msgspec.Struct, gc=False):
    # `ddlMeta` beside it is a serialised Java object, which nobody should open.
    text: str | None = None


class _Payload(msgspec.Struct, gc=False):
    op: str | None = None
    before: _Side | None = None
    after: _Side | None = None
    sequenceId: Scalar = None
    scn: Scalar = None
    timestamp: _Times | None = None
    ddl: _Ddl | None = None


class _Record(msgspec.Struct, gc=False):
    payload: _Payload
    schema: msgspec.Raw = _NOTHING
    version: str | None = None


_RECORD = json_decoder(_Record)
_SCHEMA = json_decoder(_Schema | None)


class _Table(NamedTuple):
    """What the `schema` block says; it is the same for every row of a table."""

    db: str | None
    schema: str | None
    table: str | None
    keys: tuple[str, ...] | None
    rows: TypedRows
    dialect: str | None


class _Tables:
    """Remembers the tables by the bytes of the `schema` block."""

    def __init__(self, options: FormatOptions) -> None:
        self._options = options
        self._memo: dict[bytes, _Table] = {}
        self._last: tuple[bytes, _Table] | None = None

    def of(self, raw: msgspec.Raw) -> _Table:
        block = bytes(raw)
        # To compare with the last is cheaper than to hash a block.
        last = self._last
        if last is not None and last[0] == block:
            return last[1]
        found = self._memo.get(block)
        if found is None:
            if len(self._memo) >= _MEMO_MOST:
                self._memo.clear()
            schema = parse(block or b"null", _SCHEMA.decode, []) or _Schema()
            found = self._memo[block] = self._build(schema)
        self._last = block, found
        return found

    def _build(self, schema: _Schema) -> _Table:
        source = schema.source or _Source()
        names = (source.dbName or None, source.schemaName or None, source.tableName or None)
        hidden = _hidden(schema, source)
        sent = {
            column.name: column.type
            for column in schema.dataColumn or ()
            if column.type and column.name not in hidden
        }
        columns = columns_of(
            sent,
            declared_for(self._options.columns, self._options.completed(names)),
            family=family_of(source.dbType),
            zone=self._options.time_zone,
        )
        keys = _keys(schema, source)
        rows = TypedRows(columns, sent=frozenset(sent), keys=keys, hidden=hidden)
        return _Table(*names, keys, rows, dialect_of_database(source.dbType))


def _hidden(schema: _Schema, source: _Source) -> frozenset[str]:
    """The row ids that stand among the columns of a table that has a key of its own."""
    names = (column.name for column in schema.dataColumn or ()) if schema.primaryKey else ()
    oracle = (source.dbType or "").lower() == "oracle"
    found = (name for name in names if name in _ROW_IDS or (oracle and name.lower() == "rowid"))
    return frozenset(found).difference(schema.primaryKey or ())


def _keys(schema: _Schema, source: _Source) -> tuple[str, ...] | None:
    """The primary key, else the row id that RDS hides in a table without, else Oracle's rowid."""
    if schema.primaryKey:
        return tuple(schema.primaryKey)
    names = [column.name for column in schema.dataColumn or ()]
    for name in _ROW_IDS:
        if name in names:
            return (name,)
    if (source.dbType or "").lower() == "oracle":
        return next(((name,) for name in names if name.lower() == "rowid"), None)
    return None


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one record a message."""
    tables = _Tables(options)

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        record = parse(message.value or b"", _RECORD.decode, warnings)
        payload = record.payload
        word = (payload.op or "").upper()
        sql = payload.ddl.text if payload.ddl is not None else None
        op = _OPS.get(word) or (statement_op(word, sql, warnings) if word in STATEMENTS else None)
        if op is None:
            raise DecodeError(
                Code.UNKNOWN_OP,
                f"expected op {', '.join((*_OPS, *sorted(STATEMENTS)))}, got {payload.op!r}",
            )
        if record.version not in _VERSIONS:
            warnings.append(Code.UNKNOWN_VERSION.value)
        times = payload.timestamp or _Times()
        sequence = text_of(payload.sequenceId)
        number = number_of(sequence)
        snapshot = op == "insert" and (sequence == "-1" or times.eventTime in (-1, "-1"))
        table = tables.of(record.schema)
        event = Event(
            op="snapshot" if snapshot else op,
            kind=KIND_OF[op],
            op_raw=payload.op,
            db=table.db,
            schema=table.schema,
            table=table.table,
            key_columns=table.keys,
            sequenceId=sequence,
            scn=text_of(payload.scn),
            order=None if number is None else (number,),
            snapshot=snapshot,
            event_time=None if snapshot else micros_of(times.eventTime, warnings, 1000),
            sent_time=sent_micros_of(times.systemTime, warnings),
            ddl=sql or None,
            dialect=table.dialect,
            warnings=warnings,
        )
        if event.kind == "ddl":
            types = table.rows.types
            event.columns = types.columns if types is not None else None
        if event.kind == "change" and event.op != "truncate":
            _images(event, word, payload, rows=table.rows, warnings=warnings)
        else:
            refuse_sides(payload.op, message.value or b"")
        yield event

    return decode


def _images(
    event: Event, word: str, payload: _Payload, *, rows: TypedRows, warnings: list[str]
) -> None:
    sides = payload.before, payload.after
    before, before_image = rows.read(sides[0].dataColumn, warnings) if sides[0] else (None, None)
    after, after_image = rows.read(sides[1].dataColumn, warnings) if sides[1] else (None, None)
    event.types = rows.types
    if word in _BEFORE:
        _halve(event, before is not None and after is None)
        event.before, event.before_image = before, before_image
        return
    if word == "UPDATE_AFTER" and before is None and after is not None:
        warnings.append(Code.SPLIT_UPDATE.value)
    else:
        before, after = paired(event.op, before, after, warnings=warnings)
    event.before, event.before_image = before, before_image if before is not None else None
    event.after, event.after_image = after, after_image if after is not None else None


def _halve(event: Event, lone: bool) -> None:
    """Marks the before-half of an update, which waits for the after-half of its sequenceId."""
    if not lone:
        raise DecodeError(
            Code.IMAGE_COUNT,
            f"expected the row before, and none after, in a message of op {event.op_raw}",
        )
    if event.order is None:
        raise DecodeError(
            Code.ORDER_KEY_MISSING,
            f"expected the sequenceId that joins the halves of an update, got {event.sequenceId!r}",
        )
    event.kind, event.half = "fragment", 0
    event.warnings = [*(event.warnings or ()), Code.SPLIT_UPDATE.value]


def _recognise(top: TopLevel) -> bool:
    return of_protocol(top, versions=(b'"0.0.1"', b'"1.0.0"'), member="dataColumn")


FORMAT = Format(
    decoder=decoder,
    order="source",
    summary="Alibaba Cloud DataWorks (StreamX) JSON 0.0.1 and 1.0.0",
    source="Alibaba Cloud DataWorks, Appendix: Message format, version 0.0.1 and 1.0.0, "
    "https://www.alibabacloud.com/help/en/dataworks/user-guide/appendix-message-formats",
    recognised="payload.op with schema.dataColumn; a control event by version 0.0.1 or 1.0.0",
    ordered="by payload.sequenceId; an INSERT whose sequenceId or eventTime is -1 is a snapshot "
    "row; the halves UPDATE_BEFOR and UPDATE_AFTER are joined by it",
    recognise=_recognise,
    envelope=(
        "schema",
        "schema.source",
        "schema.dataColumn",
        "payload",
        "payload.timestamp",
        "payload.ddl",
        "payload.before",
        "payload.after",
    ),
    impossible={
        "id": "the record has no number but sequenceId",
        "storeDataSequence": "a field of OMS alone; here it is sequenceId",
        "tx_id": "TRANSACTION_BEGIN and TRANSACTION_END carry no transaction id",
        "unavailable": "no placeholder for a value that was not supplied is documented",
    },
    losses=(
        Loss(
            "checkpointTime, ddlMeta, the database's version",
            "the first is the producer's own position, the second a serialised Java object: bronze "
            "alone has them",
        ),
        Loss(
            "fractions below a millisecond",
            "StreamX has six types; a DATE is a number of milliseconds",
        ),
        Loss(
            "dates and times without zone",
            "they come as instants, read in the producer's zone",
            mended=True,
        ),
        Loss(
            "scale of decimals",
            "a DOUBLE has no scale: the number stays as sent",
            mended=True,
        ),
        Loss(
            "times of day",
            "StreamX has none: the text stays as sent",
            mended=True,
        ),
        Loss(
            "zero dates",
            "there is no such instant",
        ),
        SPACES_OF_JSON,
    ),
)


_PARTS = {"date": slice(0, 10), "time": slice(11, None), "timestamp_ntz": slice(None)}
"""What a declared type keeps of a zone-less `yyyy-MM-dd HH:mm:ss[.f]`."""


def columns_of(
    sent: Mapping[str, str], declared: Mapping[str, str], *, family: str, zone: str | None
) -> Columns:
    """The columns of a table: the message's own types `sent`, overruled by the YAML's `declared`.

    `family` is the type family of the source's database, whose types the YAML names. A DATE is an
    instant; declared as a zone-less type it is what clocks in `zone` showed.
    """
    declared = in_sent_names(declared, sent)
    convert = oms_converter(family, zone)
    types: dict[str, str] = {}
    converts: dict[str, Convert | None] = {}
    for name, text in sent.items():
        known = _SIX.get(text.upper())
        types[name], converts[name] = known or (spark_type(text, family), convert(text))
    for name, text in declared.items():
        types[name] = spark_type(text, family)
        if sent.get(name, "").upper() == "DATE":
            converts[name] = _of_date(
                "time" if parse_type(text).name == "time" else types[name], zone
            )
        else:
            converts[name] = convert(text)
    texts = {**sent, **declared}
    columns = tuple(ColumnType(name, texts[name], type_) for name, type_ in types.items())
    return Columns(
        types_of(columns) if columns else None,
        in_any_case({name: found for name, found in converts.items() if found is not None}),
        frozenset(in_any_case(types)),
    )


def _of_date(kept: str, zone: str | None) -> Convert | None:
    """Converter of a DATE for a column declared as `kept`; other types keep the number."""
    if kept == "timestamp":
        return _instant
    part = _PARTS.get(kept)
    if part is None:
        return None

    def convert(value: Any, warnings: list[str]) -> str:
        millis = _millis(value)
        if millis is None:
            return plain(value)
        if zone is None:
            warnings.append(Code.TZ_ASSUMED.value)
        return canonical.civil_in(millis, 1000, zone or "UTC")[part]

    return convert


def _instant(value: Any, warnings: list[str]) -> str:
    if value.__class__ is int:
        return canonical.instant_of(value, 1000)
    millis = _millis(value)
    return plain(value) if millis is None else canonical.instant_of(millis, 1000)


def _millis(value: Any) -> int | None:
    """Milliseconds since the epoch, whatever their size; None for a value of another kind."""
    text = plain(value)
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 20 else None


_SIX: dict[str, tuple[str, Convert | None]] = {
    "BOOLEAN": ("boolean", truth),
    "LONG": ("bigint", None),
    "DOUBLE": ("double", None),
    "DATE": ("timestamp", _instant),
    "BYTES": ("binary", base64_text),
    "STRING": ("string", None),
}
