"""Canal's FlatMessage: its fields, its event types, and how it is distinguished from other JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from ingest.codes import Code
from ingest.ddl.parse import changes_schema, empties
from ingest.errors import DecodeError
from ingest.values.jsontext import decoder as json_decoder
from ingest.wire.contract import TopLevel
from ingest.wire.event_types import CONTROLS, STATEMENTS
from ingest.wire.scalars import Scalar

_ROWS = {
    "INSERT": "insert",
    "UPDATE": "update",
    "DELETE": "delete",
    "INIT": "snapshot",
    "ROW": "snapshot",
}
_CONTROLS = {**CONTROLS, "TIDB_WATERMARK": "checkpoint", "QUERY": "query"}
_STATEMENTS = (STATEMENTS - {"QUERY"}) | {"INIT_DDL"}
_MARKS = frozenset(("isDdl", "mysqlType", "sqlType", "pkNames", "_tidb"))
"""Names that appear in no other format's messages."""
_SPARSE = frozenset(("database", "table", "data", "old", "type", "es", "ts", "id", "sql", "gtid"))
"""All names that a message of Flink's, Paimon's or SeaTunnel's sink may have."""
_SPARSE_TYPES = frozenset(b'"%b"' % word for word in (b"INSERT", b"UPDATE", b"INIT", b"ROW"))
_NONE = msgspec.Raw(b"")


class TiDB(msgspec.Struct, gc=False):
    """TiCDC's extension; the numbers are TiDB timestamps (TSO)."""

    commitTs: Scalar = None
    watermarkTs: Scalar = None
    onlyHandleKey: bool = False
    claimCheckLocation: str | None = None


class Envelope(msgspec.Struct, gc=False):
    """One FlatMessage; a member that a flavour leaves out is None or empty."""

    type: str | None = None
    isDdl: bool | None = None
    id: Scalar = None
    database: str | None = None
    schema: Any = None
    table: str | None = None
    pkNames: tuple[str, ...] | None = None
    es: Scalar = None
    ts: Any = None
    sql: str | None = None
    gtid: str | None = None
    mysqlType: msgspec.Raw = _NONE
    sqlType: msgspec.Raw = _NONE
    data: msgspec.Raw = _NONE
    old: msgspec.Raw = _NONE
    tableChanges: msgspec.Raw = _NONE
    batchId: Scalar = None
    ddl: Any = None
    oracleType: msgspec.Raw = _NONE
    incremental: Any = None
    dataSourceName: Any = None
    tidb: TiDB | None = msgspec.field(default=None, name="_tidb")

    @property
    def schema_name(self) -> str | None:
        """The schema between database and table, which Huawei DRS names if the source has one;
        MySQL, Canal's own source, has none."""
        return self.schema if self.schema.__class__ is str and self.schema else None

    @property
    def unlogged(self) -> bool:
        """Whether NULL stands for large objects that were not logged. OMS writes them so, and sends
        no `id`; InLong sends none either, but has members of its own."""
        own = (self.batchId, self.ddl, self.incremental, self.dataSourceName)
        return self.id is None and not self.oracleType and all(each is None for each in own)

    @property
    def is_statement(self) -> bool:
        """Whether the message is of a schema change; InLong's `CanalJson` called the flag `ddl`."""
        return self.isDdl is True or self.ddl is True


ENVELOPE = json_decoder(Envelope)


def recognise(top: TopLevel) -> bool:
    """`type` with a name that only Canal has; else rows written, and no name that Canal does not
    have.

    Without such a name nothing is deleted, emptied or reshaped (semantics.md, 69), since the events
    of many applications have a type and data too.
    """
    if "type" not in top or "action" in top:
        return False
    if not _MARKS.isdisjoint(top):
        return True
    if "data" not in top or not _SPARSE >= top.keys():
        return False
    return bytes(top["data"]).startswith(b"[") and bytes(top["type"]) in _SPARSE_TYPES


def _no_rows(envelope: Envelope) -> bool:
    return all(bytes(rows) in (b"", b"null", b"[]") for rows in (envelope.data, envelope.old))


def op_of(envelope: Envelope) -> str:
    """The op of a message. Raises unknown_op, bad_shape."""
    given = envelope.type
    if given is None:
        raise DecodeError(Code.UNKNOWN_OP, "expected a type, got none")
    word = given if given in _ROWS else given.strip().upper()
    if word == "TIDB_WATERMARK":
        return "checkpoint"
    row_op = _ROWS.get(word)
    if envelope.is_statement and (row_op is not None or not word):
        if not (row_op and envelope.sql and _no_rows(envelope)):
            raise DecodeError(
                Code.BAD_SHAPE, f"expected a type of schema change beside isDdl, got {given!r}"
            )
        # InLong's, whose type is that of a row in any case
        return "truncate" if empties(None, envelope.sql) else "ddl"
    if row_op is not None:
        return row_op
    # Canal says QUERY, not DDL, of a statement that its own SQL parser cannot read.
    unread = word == "QUERY" and changes_schema(envelope.sql)
    if unread or envelope.is_statement or word in _STATEMENTS:
        return "truncate" if empties(word, envelope.sql) else "ddl"
    op = _CONTROLS.get(word)
    if op is None:
        expected = ", ".join((*_ROWS, *sorted(_STATEMENTS), *_CONTROLS))
        raise DecodeError(Code.UNKNOWN_OP, f"expected type {expected}; got {given!r}")
    return op
