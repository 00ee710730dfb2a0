"""TiCDC Simple protocol, JSON encoding.

Vendor: https://docs.pingcap.com/tidb/stable/ticdc-simple-protocol and pingcap/tiflow 017624f,
`pkg/sink/codec/simple`. One event a message. Values are text; a TIMESTAMP brings its time zone. Row
messages name neither types nor keys. These come in BOOTSTRAP and DDL messages, which become schema
rows, from which gold takes the keys and types of new tables; row messages are read by the types and
keys of the source's YAML.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.ddl.parse import empties
from ingest.errors import DecodeError
from ingest.events import KIND_OF, Event, Row
from ingest.formats.ticdc.schema import read_schema, sql_types
from ingest.formats.ticdc.tso import (
    VIRTUAL_COLUMNS,
    handle_key_only,
    micros_of_tso,
    place_of,
    refuse_compressed,
)
from ingest.values import canonical, jsontext
from ingest.wire.contract import (
    SPACES_OF_JSON,
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    Option,
    TopLevel,
    repeats_without_key,
)
from ingest.wire.contradictions import refuse_rows
from ingest.wire.declared import ValueEncoding
from ingest.wire.event_types import paired
from ingest.wire.scalars import Scalar, number_of, sent_micros_of, text_of
from ingest.wire.typed_rows import TableRows, TypedRows

_ROWS = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}
_CONTROLS = {"WATERMARK": "checkpoint", "BOOTSTRAP": "other"}
_STATEMENTS = ("CREATE", "RENAME", "CINDEX", "DINDEX", "ERASE", "TRUNCATE", "ALTER", "QUERY")
_NONE = msgspec.Raw(b"")
_MOMENT = {"location", "value"}


class _Checksum(msgspec.Struct, gc=False):
    corrupted: bool | None = None


class _Envelope(msgspec.Struct, gc=False):
    version: int | None = None
    type: str | None = None
    database: str | None = None
    table: str | None = None
    commitTs: Scalar = None
    buildTs: Any = None
    sql: str | None = None
    handleKeyOnly: bool = False
    claimCheckLocation: str | None = None
    checksum: _Checksum | None = None
    data: msgspec.Raw = _NONE
    old: msgspec.Raw = _NONE
    tableSchema: msgspec.Raw = _NONE
    preTableSchema: msgspec.Raw = _NONE


_ENVELOPE = jsontext.decoder(_Envelope)


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one event a message."""
    tables = TableRows(options, ValueEncoding(zone=options.time_zone, ordinals=True))
    keep_keys = options.options["handle_key_only"] == "keep"

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        refuse_compressed(message.value or b"")
        envelope = jsontext.parse(message.value or b"", _ENVELOPE.decode, warnings)
        if envelope.version != 1:
            warnings.append(Code.UNKNOWN_VERSION.value)
        op = _op(envelope)
        if envelope.checksum is not None and envelope.checksum.corrupted:
            raise DecodeError(
                Code.CONTRADICTION,
                "expected a row of which the checksum is right, got one that TiCDC found corrupted "
                "(corruption-handle-level: warn): compare it with the table's",
            )
        kind = KIND_OF[op]
        event = Event(
            op=op,
            kind=kind,
            op_raw=envelope.type,
            db=envelope.database or None,
            table=envelope.table or None,
            scn=text_of(envelope.commitTs),
            order=_order(envelope.commitTs, op),
            event_time=micros_of_tso(envelope.commitTs),
            sent_time=sent_micros_of(envelope.buildTs, warnings),
            broadcast=True,
            # The rows of one transaction have one position.
            crowded=True,
            warnings=warnings,
        )
        if kind == "change" and op != "truncate":
            _images(event, envelope, tables, options=options, keep_keys=keep_keys)
        else:
            refuse_rows(envelope.type, envelope.data, envelope.old)
            _schema(event, envelope, tables)
        if event.db is None:
            event.db = options.default_database
        yield event

    return decode


def _op(envelope: _Envelope) -> str:
    """The op of a message. Raises unknown_op."""
    given = envelope.type or ""
    op = _ROWS.get(given) or _CONTROLS.get(given)
    if op is not None:
        return op
    if given in _STATEMENTS:
        return "truncate" if empties(given, envelope.sql) else "ddl"
    expected = ", ".join((*_ROWS, *_CONTROLS, *_STATEMENTS))
    raise DecodeError(Code.UNKNOWN_OP, f"expected type {expected}; got {envelope.type!r}")


def _order(given: Scalar, op: str) -> tuple[int, ...] | None:
    number = number_of(given)
    return place_of(number, op) if number else None


def _schema(event: Event, envelope: _Envelope, tables: TableRows) -> None:
    """Gives a statement, or a bootstrap, the table that it is about. Raises bad_shape."""
    schema = read_schema(envelope.tableSchema)
    before = read_schema(envelope.preTableSchema)
    # A RENAME is a statement about the table with the earlier name.
    named = before if envelope.type == "RENAME" and before is not None else schema or before
    if named is not None:
        event.db, event.table = named.schema or event.db, named.table or event.table
    if event.kind != "control":
        event.ddl = envelope.sql or None
        if event.ddl is None:
            event.warnings = [*(event.warnings or ()), Code.DDL_TEXT_MISSING.value]
    if schema is None:
        return
    event.key_columns = schema.key()
    table = event.db, event.schema, event.table
    key = bytes(envelope.tableSchema)
    types = tables.of(table, key=key, sent=lambda: sql_types(schema)).types
    if event.op == "ddl":
        event.columns = types.columns if types is not None else None
    # The table with the later name is another one.
    if envelope.type != "RENAME":
        event.types = types


def _images(
    event: Event,
    envelope: _Envelope,
    tables: TableRows,
    *,
    options: FormatOptions,
    keep_keys: bool,
) -> None:
    """Gives a change its images. Raises no_image, image_count, unsupported."""
    warnings = event.warnings
    assert warnings is not None
    event.db = event.db or options.default_database
    rows = tables.of((event.db, event.schema, event.table))
    event.types = rows.types
    zone = options.time_zone
    old = _row(envelope.old, rows, zone, warnings=warnings)
    new = _row(envelope.data, rows, zone, warnings=warnings)
    word = "full"
    if envelope.handleKeyOnly or envelope.claimCheckLocation:
        handle_key_only(event.op, envelope.claimCheckLocation, keep_keys)
        warnings.append(Code.PARTIAL_IMAGE.value)
        word = "key"
    event.before, event.after = paired(event.op, old, new, warnings=warnings)
    event.before_image = word if event.before is not None else None
    event.after_image = word if event.after is not None else None


def _row(raw: msgspec.Raw, rows: TypedRows, zone: str | None, *, warnings: list[str]) -> Row | None:
    columns = jsontext.image(raw, warnings)
    if columns is None:
        return None
    if b'"location"' in bytes(raw):
        for name, value in columns.items():
            if value.__class__ is dict and value.keys() == _MOMENT:
                columns[name] = _instant(name, value, zone, warnings=warnings)
    rows.texts(columns, raw, warnings)
    return columns


def _instant(name: str, value: dict[str, Any], zone: str | None, *, warnings: list[str]) -> str:
    """A TIMESTAMP, which is the time on clocks at `location`. Raises bad_value."""
    place, text = value["location"], value["value"]
    local = place in ("", "Local")
    if (
        text.__class__ is not str
        or place.__class__ is not str
        or not (local or canonical.is_zone(place))
    ):
        raise DecodeError(
            Code.BAD_VALUE,
            f"expected the value of {name} and a location with known clocks, got {value!r:.80}",
        )
    return canonical.instant_text(text, zone if local else place, warnings)


_OWN = frozenset(("buildTs", "schemaVersion", "tableSchema", "preTableSchema"))
"""Names that appear in no other format's messages with a commitTs."""


def _recognise(top: TopLevel) -> bool:
    return top.keys() >= {"version", "type", "commitTs"} and not _OWN.isdisjoint(top)


FORMAT = Format(
    decoder=decoder,
    order="source",
    log="ticdc",
    summary="TiCDC Simple protocol of TiDB, in JSON",
    source="https://docs.pingcap.com/tidb/stable/ticdc-simple-protocol (pingcap/tiflow, 017624f)",
    recognised="an object with version, type, commitTs and one of buildTs, schemaVersion, "
    "tableSchema and preTableSchema",
    ordered="by commitTs, the transaction's number, and within it deletes first",
    recognise=_recognise,
    dialect="mysql",
    envelope=(
        "tableSchema",
        "tableSchema.columns",
        "tableSchema.columns.dataType",
        "tableSchema.indexes",
        "preTableSchema",
        "preTableSchema.columns",
        "preTableSchema.columns.dataType",
        "preTableSchema.indexes",
    ),
    options={
        "handle_key_only": Option(
            "choice",
            "reject",
            "an insert or update of which TiCDC sent the handle key alone (handleKeyOnly, "
            "claimCheckLocation): set aside, or kept as an image of its key",
            ("reject", "keep"),
        ),
    },
    impossible={
        "schema": "TiDB has no schemas; a message has database and table",
        "key": "row messages name no key columns: gold takes those that BOOTSTRAP and DDL messages "
        "named, unless keys are set for the table",
        "id": "a message has no number of its own; commitTs is shown as scn",
        "sequenceId": "the message has no such field",
        "storeDataSequence": "the message has no such field",
        "tx_id": "a message names no transaction but by its commitTs",
        "unavailable": "the format has no word for a value that could not be supplied",
        "partial image": "a row message has all columns, or the handle key alone",
        "snapshot": "TiCDC sends no initial rows",
    },
    losses=(
        repeats_without_key("the rows of one transaction have one commit timestamp"),
        VIRTUAL_COLUMNS,
        Loss(
            "labels of ENUM and SET",
            "a row has their number; BOOTSTRAP and DDL messages alone know the members",
            mended=True,
        ),
        SPACES_OF_JSON,
    ),
)
