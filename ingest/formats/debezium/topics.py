"""What Debezium sends besides row changes: schema changes, transactions, heartbeats, notices.

A schema change comes with its statement and with the table as it is afterwards: in an array, in one
object (CloudCanal), or inside a JSON string (`historyRecord`, Flink CDC).

Source: https://debezium.io/documentation/reference/3.6/connectors/mysql.html (schema change topic,
transaction metadata), …/configuration/signalling.html, …/configuration/notification.html.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.ddl.dialect import declared_dialect, dialect_of_database
from ingest.ddl.parse import is_truncate
from ingest.errors import DecodeError
from ingest.events import ColumnType, Event, Row
from ingest.formats.debezium.envelope import (
    Source,
    family_of_connector,
    is_snapshot,
    micros,
    sent_micros,
    wraps_payload,
)
from ingest.formats.debezium.events import joined_id
from ingest.formats.debezium.order import order_of
from ingest.formats.debezium.schema import sized
from ingest.values.jsontext import UNREADABLE, decoder, members
from ingest.values.source_types import quoted_label, spark_type
from ingest.wire.contract import TableName, TopLevel
from ingest.wire.contradictions import refuse_rows
from ingest.wire.scalars import PAYLOADS, Scalar


class _Column(msgspec.Struct, gc=False):
    name: str
    typeName: str | None = None
    typeExpression: str | None = None
    length: int | None = None
    scale: int | None = None
    enumValues: list[str] | None = None


class _Table(msgspec.Struct, gc=False):
    columns: list[_Column] | None = None
    primaryKeyColumnNames: list[str] | None = None


class _Change(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None
    table: _Table | None = None


class _SchemaChange(msgspec.Struct, gc=False):
    source: Source | None = None
    position: Source | None = None
    databaseName: str | None = None
    schemaName: str | None = None
    ddl: str | None = None
    ts_ms: Any = None
    ts_us: Any = None
    tableChanges: list[_Change] | _Change | None = None
    historyRecord: str | None = None
    op: str | None = None
    before: msgspec.Raw = msgspec.Raw()
    after: msgspec.Raw = msgspec.Raw()


class _Boundary(msgspec.Struct, gc=False):
    status: str
    id: str | int
    ts_ms: Scalar = None
    ts_us: Scalar = None
    event_count: int | None = None


_SCHEMA_CHANGE: msgspec.json.Decoder[_SchemaChange] = decoder(_SchemaChange)
_BOUNDARY = decoder(_Boundary)
_SOURCE: msgspec.json.Decoder[Source] = decoder(Source)
_ANY = decoder(Any)
_TEXT = msgspec.json.Decoder(str)
_TIME = msgspec.json.Decoder(int)
_CLOCK = re.compile(rb'"(\d{1,30}\.\d{10})"')
_STATUS = {"BEGIN": "begin", "END": "commit"}
_BOUNDARY_NAMES = frozenset(_Boundary.__struct_fields__) | {"data_collections"}
_CHECKPOINT_NAMES = frozenset(("source", "ts_ms", "ts_us", "ts_ns", "transaction"))
_NOTICE_NAMES = frozenset(("id", "aggregate_type", "type", "additional_data", "timestamp"))
_WHOLE = (_BOUNDARY_NAMES - {"ts_us"}, _NOTICE_NAMES, frozenset(("source", "ts_ms")))
"""The members that every boundary, every notification and every checkpoint has."""
_DESTRUCTIVE = b"dta"
_ENVELOPE_NAMES = frozenset(("before", "after", "op", "transaction", "schema")) | {
    "ts_ms",
    "ts_us",
    "ts_ns",
}
_SOURCE_NAMES = frozenset(Source.__struct_fields__) - {"schema", "table", "row"}
_SOURCE_NAMES -= {"connector", "name", "origin", "sec", "cluster"}
"""Names in `source`; the ones left out are many a message's."""
_SIGNALS = frozenset(("log", "stop-snapshot", "pause-snapshot", "resume-snapshot")) | {
    "execute-snapshot",
    "ad-hoc-snapshot",
    "set-offsets",
    "schema-changes",
}


def is_schema_change(top: Mapping[str, Any], *, among_rows: bool = False) -> bool:
    """Whether the payload tells of a schema change (its `ddl` is no boolean, as CloudCanal's own
    is).

    `among_rows`: rows without an envelope may come here too, and their columns may have any names.
    """
    if among_rows and not (_has_source(top) or "tableChanges" in top):
        return False
    if "historyRecord" in top:
        return True
    if "databaseName" in top and ("ddl" in top or "tableChanges" in top):
        return True
    return "ddl" in top and "source" in top and bytes(top["ddl"])[:1] in (b'"', b"n")


def alters(top: Mapping[str, Any], *, among_rows: bool) -> bool:
    """Whether the payload has CloudCanal's op of a schema change, which may come without `ddl`."""
    return bytes(top.get("op", b"")) == b'"a"' and (_has_source(top) or not among_rows)


def _has_source(top: Mapping[str, Any]) -> bool:
    return bytes(top.get("source", b""))[:1] == b"{"


def is_key_of_schema_change(top: Mapping[str, Any]) -> bool:
    """Whether it is a message key of the schema change topic, sent or captured as a value."""
    return "databaseName" in top and len(top) == 1


def is_control(top: Mapping[str, Any], *, topic: str = "", among_rows: bool = False) -> bool:
    """Whether the payload is a heartbeat, checkpoint, boundary, notification or signal.

    `among_rows`: see `is_schema_change`; such a payload is then recognised by all its members, and
    a heartbeat by its topic.
    """
    if len(top) == 1 and "ts_ms" in top:
        return not among_rows or "heartbeat" in topic
    if "heartbeat" in topic and "ts_ms" in top and not (among_rows or "source" in top):
        # with what a transformation of Connect's put in every message (InsertField)
        return True
    if among_rows and not any(top.keys() >= shape for shape in _WHOLE):
        return False
    if _is_checkpoint(top):
        return True
    if is_key_of_schema_change(top) or _resolved(top) is not None:
        return True
    if top.keys() >= {"status", "id"} and (
        _BOUNDARY_NAMES >= top.keys() or top.keys() >= {"event_count", "data_collections"}
    ):
        return bytes(top["status"]) in (b'"BEGIN"', b'"END"')
    if "aggregate_type" in top and "type" in top and "id" in top:
        return _NOTICE_NAMES >= top.keys()
    return "type" in top and "data" in top and len(top) <= 3 and _signal(top) is not None


def _is_checkpoint(top: Mapping[str, Any]) -> bool:
    """Whether it is TiCDC's checkpoint, which says only how far the source has come."""
    if "source" not in top or not top.keys() <= _CHECKPOINT_NAMES:
        return False
    try:
        return _SOURCE.decode(bytes(top["source"])).connector == "TiCDC"
    except UNREADABLE:
        return False


def _resolved(top: Mapping[str, Any]) -> str | None:
    """How far a changefeed of CockroachDB has come, which it tells beside its changes (`resolved`),
    as a hybrid logical clock."""
    if len(top) != 1:
        return None
    raw = bytes(top.get("resolved", b""))
    if "__crdb__" in top:
        meta = members(bytes(top["__crdb__"]))
        raw = bytes(meta.get("resolved", b"")) if len(meta) == 1 else b""
    clock = _CLOCK.fullmatch(raw)
    return clock[1].decode() if clock is not None else None


def _signal(top: Mapping[str, Any]) -> str | None:
    word = bytes(top["type"]).strip(b'"').decode(errors="replace")
    return word if word in _SIGNALS and bytes(top["data"])[:1] in (b"{", b'"', b"n") else None


def control_event(top: Mapping[str, Any], raw: bytes, warnings: list[str]) -> Event:
    """The control event of a payload for which `is_control` is true."""
    if "status" in top:
        boundary = _BOUNDARY.decode(raw)
        counted = boundary.event_count is not None
        count: Row = {"event_count": str(boundary.event_count)}
        return Event(
            kind="control",
            op=_STATUS[boundary.status],
            op_raw=boundary.status,
            tx_id=joined_id(str(boundary.id)),
            after=count if counted else None,
            after_image="partial" if counted else None,
            event_time=micros(Source(ts_ms=boundary.ts_ms, ts_us=boundary.ts_us), warnings),
            warnings=warnings,
        )
    if "source" in top:
        source = _SOURCE.decode(bytes(top["source"]))
        return Event(
            kind="control",
            op="checkpoint",
            scn=str(source.commit_ts) if source.commit_ts is not None else None,
            sent_time=sent_micros(
                Source(ts_ms=_ANY.decode(bytes(top.get("ts_ms", b"null")))), warnings
            ),
            warnings=warnings,
        )
    resolved = _resolved(top)
    if resolved is not None:
        return Event(kind="control", op="checkpoint", scn=resolved, warnings=warnings)
    if is_key_of_schema_change(top):
        named = "schema change key"
        return Event(kind="control", op="other", op_raw=named, warnings=warnings)
    if "ts_ms" in top and "type" not in top:
        sent = sent_micros(Source(ts_ms=_TIME.decode(bytes(top["ts_ms"]))), warnings)
        return Event(kind="control", op="heartbeat", sent_time=sent, warnings=warnings)
    word = _TEXT.decode(bytes(top["type"]))
    return Event(kind="control", op="other", op_raw=word, warnings=warnings)


def schema_change_event(raw: bytes, warnings: list[str]) -> Event:
    """The DDL event (or truncate) of a payload for which `is_schema_change` is true."""
    change = _SCHEMA_CHANGE.decode(raw)
    refuse_rows(change.op or "a schema change", change.before, change.after)
    outer = change.source or Source()
    if change.historyRecord is not None:
        record = _history(change.historyRecord)
        sent = change if change.ts_ms is not None else record
        change = record
    else:
        sent = change
    source = outer
    if source.file is None and source.lsn is None and source.scn is None:
        # the schema history's own records keep the position in a block of its own
        source = _merged(outer, change.position or change.source)
    listed = change.tableChanges
    tables = listed if isinstance(listed, list) else [listed] if listed is not None else []
    table_change = _of_table(tables, source.table)
    db, schema, table = _names(source, change, table_change)
    word = change.op or (table_change.type if table_change is not None else None)
    family = family_of_connector(source)
    columns: tuple[ColumnType, ...] | None = None
    keys: tuple[str, ...] | None = None
    if table_change is not None and table_change.table is not None:
        columns = tuple(_column(c, family) for c in table_change.table.columns or ()) or None
        keys = tuple(table_change.table.primaryKeyColumnNames or ()) or None
    truncates = is_truncate(change.ddl)
    if not change.ddl:
        warnings.append(Code.DDL_TEXT_MISSING.value)
    return Event(
        kind="change" if truncates else "ddl",
        op="truncate" if truncates else "ddl",
        op_raw=word,
        db=db,
        schema=schema,
        table=table,
        key_columns=keys,
        ddl=change.ddl or None,
        dialect=_dialect(source.connector, db=db, schema=schema),
        columns=None if truncates else columns,
        order=order_of(source),
        snapshot=is_snapshot(source),
        event_time=micros(source, warnings),
        sent_time=sent_micros(Source(ts_ms=sent.ts_ms, ts_us=sent.ts_us), warnings),
        tx_id=source.gtid or None,
        scn=str(source.scn) if source.scn is not None else None,
        warnings=warnings,
    )


def _dialect(connector: str | None, *, db: str | None, schema: str | None) -> str | None:
    """The dialect of a connector's statements. One that is not known is taken for MySQL's only
    where it names no schema, or `wms.crates` would be a table of another database."""
    found = dialect_of_database(connector)
    return found and declared_dialect(found, db=db, schema=schema)


def _history(text: str) -> _SchemaChange:
    try:
        return _SCHEMA_CHANGE.decode(text)
    except UNREADABLE as error:
        raise DecodeError(
            Code.BAD_SHAPE, f"expected a schema change in historyRecord, {error}"
        ) from None


def _merged(source: Source, position: Source | None) -> Source:
    if position is None:
        return source
    source.file, source.pos, source.row = position.file, position.pos, position.row
    return source


def _of_table(changes: list[_Change], table: str | None) -> _Change | None:
    """The change of the table that the message names, else the first."""
    for change in changes:
        if table and change.id is not None and _parts(change.id)[-1:] == [table]:
            return change
    return changes[0] if changes else None


def _names(source: Source, change: _SchemaChange, table_change: _Change | None) -> TableName:
    table = source.table or None
    if table_change is not None and table_change.id:
        name = _parts(table_change.id)[-1]
        # If a statement is on several tables, each message names them all.
        if table is None or (name != table and name in table.split(",")):
            table = name
    db = source.db or change.databaseName or None
    return db, source.schema or change.schemaName or None, table


def _parts(identifier: str) -> list[str]:
    """The names in `"db"."schema"."table"`."""
    return [part.strip('"') for part in identifier.split('"."')]


def _column(column: _Column, family: str) -> ColumnType:
    text = column.typeExpression or column.typeName or ""
    if column.enumValues and "(" not in text:
        # Debezium's own parser leaves the quotes on.
        quoted = (v if v[:1] == "'" else quoted_label(v) for v in column.enumValues)
        text = f"{text}({','.join(quoted)})"
    text = sized(text, column.length, column.scale)
    return ColumnType(column.name, text, spark_type(text, family))


def recognise(top: TopLevel) -> bool:
    """Whether a JSON object is a Debezium message, by names and words that only Debezium uses."""
    payload = top.get("payload")
    if "__op" in top or "__deleted" in top:
        return True
    if payload is None or "op" in top:
        return _recognised(top)
    if bytes(payload) == b"null":
        return len(top) == 2 and ("schema" in top or wraps_payload(top))
    try:
        inside = PAYLOADS.of(payload)
        if is_key_of_schema_change(inside):
            return b"io.debezium." in bytes(top.get("schema", b""))
        return bool(inside) and _recognised(inside)
    except UNREADABLE:
        # a part that was cut out unread may fail, for example because it is not UTF-8
        return False


def _recognised(top: Mapping[str, Any]) -> bool:
    if "__op" in top or "__deleted" in top:
        return True
    op = top.get("op")
    if op is not None:
        word = bytes(op)
        if len(word) != 3 or word[1:2] not in b"ciurdtma":
            # Of its own source it is Debezium's all the same, for the decoder to refuse.
            return word.startswith(b'"') and _is_source(top) and ("after" in top or "before" in top)
        if word[1:2] in _DESTRUCTIVE:
            return _is_source(top)
        if "source" in top:
            return bytes(top["source"]).startswith(b"{")
        return ("after" in top or "before" in top) and _ENVELOPE_NAMES >= top.keys()
    if "specversion" in top:
        return any(name.startswith("iodebezium") for name in top)
    if is_schema_change(top):
        return "historyRecord" in top or "tableChanges" in top or _is_source(top)
    if is_key_of_schema_change(top):
        return False
    if "status" in top and not ("event_count" in top or "data_collections" in top):
        return False
    return is_control(top)


def _is_source(top: Mapping[str, Any]) -> bool:
    """Whether `source` says where in a log the change stood, which only Debezium's does."""
    if "source" not in top:
        return False
    source = bytes(top["source"])
    if not source.startswith(b"{"):
        return False
    names = members(source).keys()
    if "connector" in names or ("db" in names and "table" in names):
        return True
    return len(_SOURCE_NAMES & names) > 1
