"""A StreamX record: its envelope as structs, the table that its schema block describes, and what it
says besides its images."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.ddl.dialect import dialect_of_database
from ingest.errors import DecodeError
from ingest.events import KIND_OF, Event
from ingest.formats.dataworks.types import columns_of
from ingest.memo import Memo
from ingest.names import ROW_IDS, declared_for
from ingest.values.jsontext import decoder as json_decoder
from ingest.values.jsontext import parse
from ingest.values.source_types import family_of
from ingest.wire.contract import FormatOptions
from ingest.wire.event_types import CONTROLS, ROWS, STATEMENTS, statement_op
from ingest.wire.scalars import Scalar, micros_of, number_of, sent_micros_of, text_of
from ingest.wire.typed_rows import TypedRows

BEFORE = frozenset(("UPDATE_BEFOR", "UPDATE_BEFORE"))
"""StreamX writes it without its last letter."""
_OPS = {**ROWS, **dict.fromkeys((*sorted(BEFORE), "UPDATE_AFTER"), "update"), **CONTROLS}
VERSIONS = frozenset(("0.0.1", "1.0.0"))
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


class Side(msgspec.Struct, gc=False):
    dataColumn: msgspec.Raw = _NOTHING


class Times(msgspec.Struct, gc=False):
    eventTime: Scalar = None
    systemTime: Any = None


class Ddl(msgspec.Struct, gc=False):
    # `ddlMeta` beside it is a serialised Java object, which must not be opened.
    text: str | None = None


class Payload(msgspec.Struct, gc=False):
    op: str | None = None
    before: Side | None = None
    after: Side | None = None
    sequenceId: Scalar = None
    scn: Scalar = None
    timestamp: Times | None = None
    ddl: Ddl | None = None


class Record(msgspec.Struct, gc=False):
    payload: Payload
    schema: msgspec.Raw = _NOTHING
    version: str | None = None


RECORD = json_decoder(Record)
_NO_TIMES = Times()
_SCHEMA = json_decoder(_Schema | None)


class Table(NamedTuple):
    """What the `schema` block says, which is the same for every row of a table."""

    db: str | None
    schema: str | None
    table: str | None
    keys: tuple[str, ...] | None
    rows: TypedRows
    dialect: str | None


class TablesOfSchemas:
    """Remembers the tables by the bytes of the `schema` block."""

    def __init__(self, options: FormatOptions) -> None:
        self._options = options
        self._memo: Memo[bytes, Table] = Memo(most=10_000)
        self._last: tuple[bytes, Table] | None = None

    def of(self, raw: msgspec.Raw) -> Table:
        block = bytes(raw)
        # Comparing with the last block is cheaper than hashing one.
        last = self._last
        if last is not None and last[0] == block:
            return last[1]
        found = self._memo.get(block)
        if found is None:
            schema = parse(block or b"null", _SCHEMA.decode, []) or _Schema()
            found = self._memo[block] = self._build(schema)
        self._last = block, found
        return found

    def _build(self, schema: _Schema) -> Table:
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
        return Table(*names, keys, rows, dialect_of_database(source.dbType))


def _hidden(schema: _Schema, source: _Source) -> frozenset[str]:
    """The row ids that stand among the columns although the table has a key of its own."""
    names = (column.name for column in schema.dataColumn or ()) if schema.primaryKey else ()
    oracle = (source.dbType or "").lower() == "oracle"
    found = (name for name in names if name in ROW_IDS or (oracle and name.lower() == "rowid"))
    return frozenset(found).difference(schema.primaryKey or ())


def _keys(schema: _Schema, source: _Source) -> tuple[str, ...] | None:
    """The primary key; else the row id that RDS hides in a table without one; else Oracle's
    rowid."""
    if schema.primaryKey:
        return tuple(schema.primaryKey)
    names = [column.name for column in schema.dataColumn or ()]
    for name in ROW_IDS:
        if name in names:
            return (name,)
    if (source.dbType or "").lower() == "oracle":
        return next(((name,) for name in names if name.lower() == "rowid"), None)
    return None


def op_of(record: Record, warnings: list[str]) -> str:
    """The operation, in the product's words. Raises unknown_op."""
    payload = record.payload
    word = (payload.op or "").upper()
    op = _OPS.get(word)
    if op is None and word in STATEMENTS:
        op = statement_op(word, payload.ddl.text if payload.ddl is not None else None, warnings)
    if op is None:
        raise DecodeError(
            Code.UNKNOWN_OP,
            f"expected op {', '.join((*_OPS, *sorted(STATEMENTS)))}, got {payload.op!r}",
        )
    return op


def record_event(record: Record, op: str, table: Table, *, warnings: list[str]) -> Event:
    """What a record of `table` says besides its images. Raises bad_value."""
    if record.version not in VERSIONS:
        warnings.append(Code.UNKNOWN_VERSION.value)
    payload = record.payload
    times = payload.timestamp or _NO_TIMES
    sequence = text_of(payload.sequenceId)
    number = number_of(sequence)
    snapshot = op == "insert" and (sequence == "-1" or times.eventTime in (-1, "-1"))
    return Event(
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
        ddl=(payload.ddl.text or None) if payload.ddl is not None else None,
        dialect=table.dialect,
        warnings=warnings,
    )
