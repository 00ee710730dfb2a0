"""OMS DataWorks JSON, version 2.0.

Vendor: OceanBase Migration Service, "Data formats" (Chinese edition, document 415643), section
"Dataworks JSON". The event types are Canal's, as in the StreamX format, whose members have other
names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.ddl.dialect import dialect_of_database
from ingest.errors import DecodeError
from ingest.events import KIND_OF, ColumnType, Event
from ingest.formats.oms.types import OmsTypes
from ingest.memo import Memo
from ingest.values.jsontext import decoder as json_decoder
from ingest.values.jsontext import members, parse
from ingest.values.source_types import family_of
from ingest.wire.clock import ZONES_OF_INSTANTS
from ingest.wire.contract import (
    EQUAL_ROWS_OF_A_SNAPSHOT,
    SPACES_OF_JSON,
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    TopLevel,
    repeats_without_key,
)
from ingest.wire.contradictions import refuse_sides
from ingest.wire.event_types import CONTROLS, ROWS, STATEMENTS, paired, statement_op
from ingest.wire.scalars import Scalar, micros_of, number_of, of_protocol, sent_micros_of, text_of
from ingest.wire.typed_rows import TypedRows

_OPS = {**ROWS, "ROW": "snapshot", **CONTROLS}
_NOTHING = msgspec.Raw(b"")
_NUMBER = re.compile(r"-?[0-9]+")
_NULL = msgspec.Raw(b"null")
_EMPTY = (b"null", b"{}", b"[]")


class _Source(msgspec.Struct, gc=False):
    dbType: str | None = None
    dbName: str | None = None
    schema: str | None = None
    table: str | None = None


class _Column(msgspec.Struct, gc=False):
    name: str
    type: str | None = None


class _Schema(msgspec.Struct, gc=False):
    source: _Source | None = None
    column: list[_Column] | None = None
    pk: list[str] | None = None


class _Side(msgspec.Struct, gc=False):
    data: msgspec.Raw = _NOTHING


class _Times(msgspec.Struct, gc=False):
    eventTime: Scalar = None
    systemTime: Any = None


class _Ddl(msgspec.Struct, gc=False):
    text: str | None = None


class _Payload(msgspec.Struct, gc=False):
    op: str | None = None
    before: _Side | None = None
    after: _Side | None = None
    timestamp: _Times | None = None
    ddl: _Ddl | None = None
    scn: Scalar = None


class _Record(msgspec.Struct, gc=False):
    payload: _Payload
    schema: msgspec.Raw = _NOTHING
    version: msgspec.Raw = _NOTHING
    extend: msgspec.Raw = _NOTHING


_RECORD = json_decoder(_Record)
_SCHEMA = json_decoder(_Schema | None)


class _Table(NamedTuple):
    """What the `schema` block says, which is the same for every row of a table."""

    db: str | None
    schema: str | None
    table: str | None
    keys: tuple[str, ...] | None
    rows: TypedRows
    sent: tuple[ColumnType, ...] | None
    dialect: str | None


class _Tables:
    """Remembers the tables by the bytes of the `schema` block."""

    def __init__(self, options: FormatOptions) -> None:
        self._types = OmsTypes(options)
        self._memo: Memo[bytes, _Table] = Memo(most=10_000)

    def of(self, raw: msgspec.Raw, warnings: list[str]) -> _Table:
        block = bytes(raw)
        found = self._memo.get(block)
        if found is None:
            schema = parse(block or b"null", _SCHEMA.decode, warnings) or _Schema()
            found = self._memo[block] = self._build(block, schema)
        return found

    def _build(self, block: bytes, schema: _Schema) -> _Table:
        source = schema.source or _Source()
        names = (source.dbName or None, source.schema or None, source.table or None)
        keys = tuple(schema.pk) if schema.pk else None
        rows = self._types.of(
            names,
            family=family_of(source.dbType),
            key=block,
            sent=lambda: {
                column.name: column.type for column in schema.column or () if column.type
            },
            keys=keys,
        )
        known = rows.types.columns if rows.types is not None else None
        return _Table(*names, keys, rows, known, dialect_of_database(source.dbType))


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one record a message."""
    tables = _Tables(options)

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        record = parse(message.value or b"", _RECORD.decode, warnings)
        payload = record.payload
        word = (payload.op or "").upper()
        times = payload.timestamp or _Times()
        sql = payload.ddl.text if payload.ddl is not None else None
        op = _OPS.get(word) or (statement_op(word, sql, warnings) if word in STATEMENTS else None)
        if op is None:
            raise DecodeError(
                Code.UNKNOWN_OP,
                f"expected op {', '.join((*_OPS, *sorted(STATEMENTS)))}, got {payload.op!r}",
            )
        if bytes(record.version).strip(b'"') != b"2.0":
            warnings.append(Code.UNKNOWN_VERSION.value)
        event_time = micros_of(times.eventTime, warnings, 1000)
        snapshot = op == "snapshot" or (op == "insert" and times.eventTime in (-1, "-1"))
        scn = text_of(payload.scn)
        counted = scn is not None and _NUMBER.fullmatch(scn) is not None
        number = number_of(scn) if counted else 0
        table = tables.of(record.schema, warnings)
        event = Event(
            op="snapshot" if snapshot else op,
            kind=KIND_OF[op],
            op_raw=payload.op,
            db=table.db,
            schema=table.schema,
            table=table.table,
            key_columns=table.keys,
            scn=scn,
            order=None if event_time is None or number is None else (event_time // 1000, number),
            snapshot=snapshot,
            crowded=not counted and not snapshot,
            event_time=event_time,
            sent_time=sent_micros_of(times.systemTime, warnings),
            extra=_extra(extend) if (extend := bytes(record.extend)) else None,
            ddl=sql or None,
            dialect=table.dialect,
            warnings=warnings,
        )
        if event.kind == "ddl":
            event.columns = table.sent
        if event.kind == "change" and event.op != "truncate":
            _images(event, payload, table.rows, warnings=warnings)
        else:
            refuse_sides(payload.op, message.value or b"")
        yield event

    return decode


@lru_cache(maxsize=1_000)
def _extra(extend: bytes) -> dict[str, str] | None:
    """What `extend` says, whose members OMS leaves open: texts as they are, all else as its JSON.
    No change is refused because of it."""
    if extend in _EMPTY:
        return None
    given = members(extend) if extend.startswith(b"{") else {"extend": extend}
    texts = {name: _text_of(bytes(value)) for name, value in given.items() if value != _NULL}
    return texts or None


def _text_of(value: bytes) -> str:
    return str(msgspec.json.decode(value)) if value.startswith(b'"') else value.decode()


def _images(event: Event, payload: _Payload, rows: TypedRows, *, warnings: list[str]) -> None:
    sides = payload.before, payload.after
    sent, before_image = rows.read(sides[0].data, warnings) if sides[0] else (None, None)
    row, after_image = rows.read(sides[1].data, warnings) if sides[1] else (None, None)
    before, after = paired(event.op, sent, row, warnings=warnings)
    event.unavailable = rows.withhold(event.op, before, after)
    if event.unavailable:
        warnings.append(Code.PARTIAL_IMAGE.value)
        before_image, after_image = "partial", "partial"
    event.before, event.before_image = before, before_image if before is not None else None
    event.after, event.after_image = after, after_image if after is not None else None
    event.types = rows.types


def _recognise(top: TopLevel) -> bool:
    return of_protocol(top, versions=(b'"2.0"',), member="column")


FORMAT = Format(
    decoder=decoder,
    order="source",
    summary="OceanBase Migration Service, DataWorks JSON 2.0",
    source="OceanBase OMS, Data formats, https://help.aliyun.com/document_detail/415643.html",
    recognised='payload.op with schema.column; a control event without it by version "2.0"',
    ordered="by payload.timestamp.eventTime in milliseconds, then scn where it is a number; op ROW "
    "and an INSERT with eventTime -1 are snapshot rows",
    recognise=_recognise,
    envelope=(
        "schema",
        "schema.source",
        "schema.column",
        "payload",
        "payload.timestamp",
        "payload.ddl",
        "payload.before",
        "payload.after",
        "extend",
    ),
    impossible={
        "id": "the record has no number of its own",
        "sequenceId": "a field of DataWorks StreamX 0.0.1 and 1.0.0",
        "storeDataSequence": "a field of OMS Default; here it is scn",
        "tx_id": "TRANSACTION_BEGIN and TRANSACTION_END carry no transaction id",
    },
    losses=(
        repeats_without_key("the rows of one millisecond have one place where scn is no number"),
        EQUAL_ROWS_OF_A_SNAPSHOT,
        Loss(
            "a change that is made again within a millisecond",
            "where scn is no number its place is the same, and it counts as a delivery that is "
            "repeated; with order: arrival it does not",
        ),
        Loss(
            "nulls of large objects",
            "an update leaves out, as null on both sides, what did not change; so such a null "
            "is unavailable, not NULL",
        ),
        Loss(
            "checkpointTime, the database's version",
            "they say nothing of the change: bronze alone has them",
        ),
        ZONES_OF_INSTANTS,
        SPACES_OF_JSON,
    ),
)
