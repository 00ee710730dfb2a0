"""Canal's FlatMessage: its fields, its event types, and how it is told from other JSON."""

from __future__ import annotations

import msgspec

from ingest.codes import Code
from ingest.ddl import empties
from ingest.errors import DecodeError
from ingest.formats.envelope import Scalar
from ingest.formats.event_types import CONTROLS, STATEMENTS
from ingest.formats.format import TopLevel
from ingest.jsontext import decoder as json_decoder

_ROWS = {
    "INSERT": "insert",
    "UPDATE": "update",
    "DELETE": "delete",
    "INIT": "snapshot",
    "ROW": "snapshot",
}
_CONTROLS = {**CONTROLS, "TIDB_WATERMARK": "checkpoint", "QUERY": "query"}
_STATEMENTS = (STATEMENTS - {"QUERY"}) | {"INIT_DDL"}
_MARKS = frozenset(("isDdl", "mysqlType", "sqlType", "pkNames", "es", "old"))
_TYPES = frozenset(b'"%b"' % word.encode() for word in {*_ROWS, *_CONTROLS, *_STATEMENTS})
_NONE = msgspec.Raw(b"")


class TiDB(msgspec.Struct, gc=False):
    """TiCDC's extension; the numbers are TiDB timestamps (TSO)."""

    commitTs: Scalar = None
    watermarkTs: Scalar = None
    onlyHandleKey: bool = False
    claimCheckLocation: str | None = None


class Envelope(msgspec.Struct, gc=False):
    """One FlatMessage; what a flavour leaves out is None or empty."""

    type: str | None = None
    isDdl: bool | None = None
    id: Scalar = None
    database: str | None = None
    table: str | None = None
    pkNames: tuple[str, ...] | None = None
    es: Scalar = None
    ts: Scalar = None
    sql: str | None = None
    gtid: str | None = None
    mysqlType: msgspec.Raw = _NONE
    sqlType: msgspec.Raw = _NONE
    data: msgspec.Raw = _NONE
    old: msgspec.Raw = _NONE
    tableChanges: msgspec.Raw = _NONE
    batchId: Scalar = None
    tidb: TiDB | None = msgspec.field(default=None, name="_tidb")

    @property
    def unlogged(self) -> bool:
        """Whether NULL stands for large objects that were not logged: OMS does so, which sends no
        `id`; InLong sends none either, but a `batchId`."""
        return self.id is None and self.batchId is None


ENVELOPE = json_decoder(Envelope)


def recognise(top: TopLevel) -> bool:
    """`type` with Canal's type maps or flag; else with an array of rows, or null and a mark."""
    if "type" not in top or "action" in top:
        return False
    if "isDdl" in top or "mysqlType" in top or "sqlType" in top:
        return True
    if "data" not in top or "payload" in top or "version" in top:
        return False
    data = bytes(top["data"])
    if not data.startswith(b"["):
        return data == b"null" and not _MARKS.isdisjoint(top)
    return bytes(top["type"]).upper() in _TYPES


def op_of(envelope: Envelope) -> str:
    """The op of a message. Raises unknown_op, bad_shape."""
    given = envelope.type
    if given is None:
        raise DecodeError(Code.UNKNOWN_OP, "expected a type, got none")
    word = given if given in _ROWS else given.strip().upper()
    if word == "TIDB_WATERMARK":
        return "checkpoint"
    row_op = _ROWS.get(word)
    if envelope.isDdl and (row_op is not None or not word):
        raise DecodeError(
            Code.BAD_SHAPE, f"expected a type of schema change beside isDdl, got {given!r}"
        )
    if row_op is not None:
        return row_op
    if envelope.isDdl or word in _STATEMENTS:
        return "truncate" if empties(word, envelope.sql) else "ddl"
    op = _CONTROLS.get(word)
    if op is None:
        expected = ", ".join((*_ROWS, *sorted(_STATEMENTS), *_CONTROLS))
        raise DecodeError(Code.UNKNOWN_OP, f"expected type {expected}; got {given!r}")
    return op
