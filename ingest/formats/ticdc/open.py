"""TiCDC Open protocol: events in pairs of a message's key and value.

Vendor: https://docs.pingcap.com/tidb/stable/ticdc-open-protocol (pingcap/docs 05b064e) and
pingcap/tiflow, `pkg/sink/codec/open`. The key says what an event is (time, table, kind), the value
holds its row. Key and value are batches: 8 bytes of version in the key, then in both the length and
the JSON of each event. Bare JSON, as the vendor's pages print it, is one event.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ingest.codes import Code
from ingest.ddl.parse import is_truncate
from ingest.errors import DecodeError
from ingest.events import KIND_OF, Event
from ingest.formats.ticdc.columns import Column, OpenRows
from ingest.formats.ticdc.tso import (
    VIRTUAL_COLUMNS,
    handle_key_only,
    micros_of_tso,
    place_of,
    refuse_compressed,
)
from ingest.values.jsontext import UNREADABLE, excerpt, parse
from ingest.values.jsontext import decoder as json_decoder
from ingest.wire.contract import (
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    Option,
    repeats_without_key,
)
from ingest.wire.contradictions import refuse_after
from ingest.wire.doubled_names import check_names, columns_twice
from ingest.wire.scalars import Scalar, number_of, text_of

_VERSION = (1).to_bytes(8, "big")
_ROW, _STATEMENT, _RESOLVED = 1, 2, 3
_TRUNCATE_TABLE = "11"
_LENGTH = 8
_TWICE = (b'"ohk":true,"ohk":false', b'"ohk":true')
"""As TiCDC's new architecture writes the key of a row that it stored elsewhere (`codec.go`)."""


class _Key(msgspec.Struct, gc=False):
    """`ohk`: the value holds the handle key alone; `ccl`: where the whole row was stored."""

    ts: Scalar = None
    scm: str | None = None
    tbl: str | None = None
    t: int | None = None
    ohk: bool = False
    ccl: str | None = None


class _Row(msgspec.Struct, gc=False):
    """The row after (`u`), the row before an update (`p`), the deleted row (`d`)."""

    u: dict[str, Column] | None = None
    p: dict[str, Column] | None = None
    d: dict[str, Column] | None = None


class _Statement(msgspec.Struct, gc=False):
    q: str | None = None
    t: Scalar = None


_KEY = json_decoder(_Key)
_VALUE = json_decoder(_Row)
_DDL = json_decoder(_Statement)
_IMAGES = json_decoder(dict[str, msgspec.Raw])


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one message, a batch of events."""
    rows = OpenRows(options)
    keep_keys = options.options["handle_key_only"] == "keep"

    def decode(message: Message) -> Iterator[Event]:
        if not message.key and not message.value:
            yield Event(kind="control", op="other", op_raw="tombstone")
            return
        for key_text, value in _pairs(message):
            warnings: list[str] = []
            # Batches: every JSON message in them is checked like one that came alone.
            for text in (key_text.replace(*_TWICE), value):
                check_names(text, flat=False, envelope=())
            key = parse(key_text, _KEY.decode, warnings)
            event = _event(key, options, warnings)
            if key.t == _ROW:
                row = parse(value, _VALUE.decode, warnings)
                if row == _Row():
                    # A row that a transaction inserts and deletes (pingcap/tiflow, issue 2612).
                    event.op, event.kind, event.op_raw = "other", "control", "empty"
                else:
                    _doubt(value, warnings)
                    _fill(event, key, row, rows=rows, keep_keys=keep_keys)
            elif key.t == _STATEMENT:
                _state(event, parse(value, _DDL.decode, warnings))
            yield event

    return decode


def _pairs(message: Message) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each event. Raises bad_shape."""
    key, value = message.key or b"", message.value or b""
    if key.startswith(b"{"):
        return iter([(key, value)])
    if not key.startswith(_VERSION):
        raise DecodeError(
            Code.BAD_SHAPE,
            f"expected a message key of version 1 of the protocol, got {excerpt(key)}; files keep "
            f"keys with framing kcat",
        )
    keys = _parts(key, len(_VERSION), "key")
    values = _parts(value, 0, "value") if value else [b""] * len(keys)
    if values:
        refuse_compressed(values[0])
    if len(keys) != len(values):
        raise DecodeError(
            Code.BAD_SHAPE,
            f"expected a value for each key of the batch, got {len(keys)} and {len(values)}",
        )
    return zip(keys, values, strict=True)


def _parts(data: bytes, at: int, what: str) -> list[bytes]:
    """The parts of a batch, each behind its length as a signed big-endian number."""
    parts = []
    end = len(data)
    while at < end:
        start = at + _LENGTH
        size = int.from_bytes(data[at:start], "big", signed=True)
        at = start + size
        if start > end or size < 0 or at > end:
            raise DecodeError(
                Code.BAD_SHAPE,
                f"expected a length and as many bytes at byte {start - _LENGTH} of the {what}, got "
                f"{size} of {max(end - start, 0)}",
            )
        parts.append(data[start:at])
    return parts


def _event(key: _Key, options: FormatOptions, warnings: list[str]) -> Event:
    """What an event's key says. Raises unknown_op."""
    op = {_ROW: "insert", _STATEMENT: "ddl", _RESOLVED: "checkpoint"}.get(key.t or 0)
    if op is None:
        raise DecodeError(
            Code.UNKNOWN_OP, f"expected t of 1 (row), 2 (DDL), 3 (resolved) in the key; got {key.t}"
        )
    number = number_of(key.ts)
    return Event(
        op=op,
        kind=KIND_OF[op],
        op_raw=str(key.t),
        db=key.scm or options.default_database,
        table=key.tbl or None,
        scn=text_of(key.ts),
        order=place_of(number, op) if number else None,
        event_time=micros_of_tso(key.ts),
        broadcast=True,
        # The rows of one transaction have one position; each is of another key.
        crowded=True,
        number=0,
        warnings=warnings,
    )


def _state(event: Event, statement: _Statement) -> None:
    event.ddl = statement.q or None
    if event.ddl is None and event.warnings is not None:
        event.warnings.append(Code.DDL_TEXT_MISSING.value)
    event.op_raw = text_of(statement.t)
    if text_of(statement.t) == _TRUNCATE_TABLE or is_truncate(event.ddl):
        event.op, event.kind = "truncate", "change"


def _fill(event: Event, key: _Key, row: _Row, *, rows: OpenRows, keep_keys: bool) -> None:
    """Gives a change its op and images. Raises no_image, unsupported, bad_shape, bad_value.

    An update sends in `p` the row before, or only the columns of it that changed, which may be
    none; TiCDC without old values sends an update as `u` alone, like an insert.
    """
    warnings = event.warnings
    assert warnings is not None
    if bool(row.u) == bool(row.d):
        raise DecodeError(Code.NO_IMAGE, "expected columns in u or in d, got both or none")
    if row.d:
        refuse_after("delete", row.p)
    event.op = "delete" if row.d else "insert" if row.p is None else "update"
    event.op_raw = "d" if row.d else "u"
    if event.order is not None:
        event.order = place_of(event.order[0], event.op)
    part = bool(key.ohk or key.ccl)
    if part:
        handle_key_only(event.op, key.ccl, keep_keys)
        warnings.append(Code.PARTIAL_IMAGE.value)
    columns = row.d or row.u
    assert columns is not None
    table = (event.db, event.schema, event.table)
    found, read = rows.read(table, columns, warnings)
    event.key_columns, event.types = read.keys, read.types
    word = "key" if part or (row.d and read.keys and set(read.keys) == found.keys()) else "full"
    if word == "key":
        # The types of a key are not those of a row.
        event.types = None
    if row.d:
        event.before, event.before_image = found, word
        return
    event.after, event.after_image = found, word
    if row.p is not None:
        before = rows.read(table, row.p, warnings)[0] if row.p else {}
        event.before, event.before_image = {**found, **before}, word


def _doubt(value: bytes, warnings: list[str]) -> None:
    """Warns if a column stands twice in an image, or a name twice in a column."""
    try:
        twice = any(columns_twice(raw) for raw in _IMAGES.decode(value).values())
    except UNREADABLE:
        return  # a text that only a lenient reading takes
    if twice:
        warnings.append(Code.DUP_KEY.value)


def _recognise(message: Message) -> bool:
    key = message.key or b""
    return key.startswith(_VERSION) and key[16:17] == b"{"


FORMAT = Format(
    decoder=decoder,
    order="source",
    log="ticdc",
    summary="TiCDC Open protocol of TiDB, JSON in pairs of key and value",
    source="https://docs.pingcap.com/tidb/stable/ticdc-open-protocol (pingcap/docs, 05b064e)",
    recognised="a message key of 8 bytes of version 1, a length and JSON",
    ordered="by ts, the transaction's commit timestamp, and within it deletes first",
    recognise_bytes=_recognise,
    empty=True,
    dialect="mysql",
    options={
        "handle_key_only": Option(
            "choice",
            "reject",
            "an insert or update of which TiCDC sent the handle key alone (ohk, ccl): set aside, "
            "or kept as an image of its key",
            ("reject", "keep"),
        ),
    },
    impossible={
        "schema": "TiDB has no schemas; scm is shown as db",
        "id": "an event has no number of its own; ts is shown as scn",
        "sequenceId": "the event has no such field",
        "storeDataSequence": "the event has no such field",
        "sent_time": "the event has the time of its commit only",
        "tx_id": "an event names no transaction but by its ts",
        "columns": "a DDL event is its statement; types come with each row",
        "unavailable": "the format has no word for a value that could not be supplied",
        "partial image": "an event has all columns, or the handle key alone",
        "snapshot": "TiCDC sends no initial rows",
    },
    losses=(
        repeats_without_key("the rows of one transaction have one commit timestamp"),
        VIRTUAL_COLUMNS,
        Loss(
            "labels of ENUM and SET",
            "a column comes as its number and without its members: enum_number",
            mended=True,
        ),
        Loss(
            "booleans",
            "MySQL's BOOLEAN is a TINYINT and comes as one, 0 or 1",
            mended=True,
        ),
    ),
)
