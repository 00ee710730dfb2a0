"""Maxwell's JSON: rows, bootstraps and DDL of MySQL.

A row's values are native JSON; an update has in `old` what it changed. `ts` is in seconds for rows
and in milliseconds for DDL, which brings the table's definition: its columns and key.

Vendor: https://maxwells-daemon.io/dataformat (zendesk/maxwell 024c371).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.ddl.parse import is_truncate
from ingest.errors import DecodeError
from ingest.events import COMMITS, KIND_OF, ColumnType, Event, Row
from ingest.formats.ticdc.tso import micros_of_tso
from ingest.values.jsontext import UNREADABLE, nested, one_after_the_other, parse, parse_part
from ingest.values.jsontext import decoder as json_decoder
from ingest.values.source_types import with_labels
from ingest.wire.contract import (
    SPACES_OF_JSON,
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    Option,
    TopLevel,
    equal_changes_of_a_row,
    repeats_without_key,
)
from ingest.wire.contradictions import has_columns, refuse_after, refuse_rows
from ingest.wire.declared import ValueEncoding, sql_spark_type
from ingest.wire.scalars import Scalar, micros_of, number_of, text_of
from ingest.wire.typed_rows import TableRows, TypedRows

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
_MARKS = frozenset(
    """
    xid xoffset commit position gtid server_id thread_id schema_id primary_key primary_key_columns
    primaryKeyColumns
    """.split()
)
"""Names that appear in no other format's rows; without one of them nothing is deleted."""
_CONTENT = frozenset(("data", "def", "sql", "encrypted"))
_LAST_ROW = 2**62
"""Stands for the xoffset of a transaction's last row, which has `commit` instead of one."""
_LAST_MILLISECOND = 253_402_300_799_999
"""The last one of the year 9999: a larger `ts` of a statement is a timestamp of TiDB, as TiCDC
sends it."""
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
    camel_key_columns: tuple[str, ...] | None = msgspec.field(
        default=None, name="primaryKeyColumns"
    )
    data: msgspec.Raw = _NONE
    old: msgspec.Raw = _NONE
    sql: str | None = None
    definition: msgspec.Raw = msgspec.field(default=_NONE, name="def")
    encrypted: msgspec.Raw = _NONE


_ENVELOPE = json_decoder(_Envelope)


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one message, which is one row, one statement or one end of a bootstrap."""
    encoding = ValueEncoding(zone=options.time_zone, fill_binary=True)
    spark = sql_spark_type(encoding)
    tables = TableRows(options, encoding)
    whole = options.options["output_nulls"]

    def decode(message: Message) -> Iterator[Event]:
        # TiCDC writes several messages one after the other.
        for value in one_after_the_other(message.value or b""):
            yield from _decoded(message._replace(value=value))

    def _decoded(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        envelope = parse(message.value or b"", _ENVELOPE.decode, warnings)
        if bytes(envelope.encrypted) not in _EMPTY:
            raise DecodeError(
                Code.UNSUPPORTED, "expected a row, got an encrypted one; set Maxwell's encrypt=none"
            )
        op = _op(envelope)
        event = _event(envelope, op, options, warnings=warnings)
        if op == "truncate" or event.kind != "change":
            # The `old` of a table-alter is the table before it.
            refuse_rows(envelope.type, envelope.data)
        if op == "truncate" or event.kind == "ddl":
            _state(event, envelope, spark, warnings=warnings)
        elif event.kind == "change":
            event.key_columns = (
                envelope.primary_key_columns
                or envelope.camel_key_columns
                or key_of_message(message.key)
            )
            rows = tables.of((event.db, event.schema, event.table), keys=event.key_columns)
            event.types = rows.types
            old = _images(event, envelope, rows, warnings=warnings)
            # The row has all columns of `old`; a column that it lacks was left out because it is
            # NULL.
            if event.op == "update" and not (whole and old.keys() <= (event.after or {}).keys()):
                _without_nulls(event, old, warnings)
            _name_keys(event)
        yield event

    return decode


def _op(envelope: _Envelope) -> str:
    """The op of a message. Raises unknown_op."""
    # SeaTunnel writes capitals.
    given = (envelope.type or "").lower()
    op = _ROWS.get(given)
    if op is not None:
        return op
    if given in _CONTROLS:
        return "other"
    if given in _STATEMENTS:
        return "truncate" if is_truncate(envelope.sql) else "ddl"
    expected = ", ".join((*_ROWS, *_CONTROLS, *_STATEMENTS))
    raise DecodeError(Code.UNKNOWN_OP, f"expected type {expected}; got {envelope.type!r}")


def _event(envelope: _Envelope, op: str, options: FormatOptions, *, warnings: list[str]) -> Event:
    kind = KIND_OF[op]
    unit = 1000 if kind == "ddl" or op == "truncate" else 1
    of_tidb = unit == 1000 and (number_of(envelope.ts) or 0) > _LAST_MILLISECOND
    happened = micros_of_tso(envelope.ts) if of_tidb else micros_of(envelope.ts, warnings, unit)
    order = _order(envelope, happened, options.options["order_key"])
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
        extra=COMMITS if envelope.commit and envelope.xid is not None else None,
        order=order,
        snapshot=op == "snapshot",
        # Without a number in its transaction nothing tells a row from another of it; the last has
        # none, since it commits.
        crowded=number_of(envelope.xoffset) is None and not envelope.commit,
        warnings=warnings,
    )


def _order(envelope: _Envelope, happened: int | None, order_key: str) -> tuple[int, ...] | None:
    """The position in the binlog: file, position, xoffset; or in the transaction: its time, its
    number, xoffset. None if the message lacks what the source is ordered by (semantics.md, 75)."""
    last = _LAST_ROW if envelope.commit else 0
    offset = number_of(envelope.xoffset)
    row = last if offset is None else offset
    if order_key == "position":
        if not envelope.position:
            return None
        file, _, at = envelope.position.rpartition(":")
        numbers = number_of(file.rpartition(".")[2]), number_of(at)
        if numbers[0] is None or numbers[1] is None:
            return None
        return numbers[0], numbers[1], row
    number = number_of(envelope.xid)
    if happened is None or number is None:
        return None
    return happened, number, row


def _state(
    event: Event, envelope: _Envelope, spark: Callable[[str], str], *, warnings: list[str]
) -> None:
    event.ddl = envelope.sql or None
    if event.ddl is None:
        warnings.append(Code.DDL_TEXT_MISSING.value)
    event.columns, event.key_columns = table_columns(envelope.definition, spark)


def _images(event: Event, envelope: _Envelope, rows: TypedRows, *, warnings: list[str]) -> Row:
    """Gives a change its images: before = data overlaid with old, by presence of the name. Returns
    the columns of an update's `old`, which may be none."""
    raw = envelope.data
    if event.op == "delete" and not has_columns(raw):
        raw = envelope.old  # TiCDC's
    elif event.op == "delete":
        refuse_after(event.op, envelope.old)
    data, word = rows.read(raw, warnings)
    if data is None:
        wanted = f"expected columns in data, since type is {event.op}"
        raise DecodeError(Code.NO_IMAGE, f"{wanted}; got none")
    canonicalize_row(data, raw, rows)
    if event.op == "delete":
        event.before, event.before_image = data, word
        return {}
    event.after, event.after_image = data, word
    if event.op != "update":
        if has_columns(envelope.old):
            warnings.append(Code.BEFORE_ON_INSERT.value)
        return {}
    old, _ = rows.read(envelope.old, warnings)
    if old is None:
        warnings.append(Code.OLD_MISSING.value)
        return {}
    canonicalize_row(old, envelope.old, rows)
    before: Row = {**data, **old}
    if len(before) > len(data):
        warnings.append(Code.OLD_COLUMN_NOT_IN_DATA.value)
        warnings.append(Code.PARTIAL_IMAGE.value)
        event.after_image = word = "partial"
    event.before, event.before_image = before, word
    return old


def _name_keys(event: Event) -> None:
    """`output_naming_strategy: underscore_to_camelcase` renames columns, but not those of keys."""
    row = event.before if event.after is None else event.after
    if event.key_columns is None or row is None or all(name in row for name in event.key_columns):
        return
    camels = {name.lower(): name for name in row if "_" not in name}
    event.key_columns = tuple(
        name if name in row else camels.get(name.replace("_", "").lower(), name)
        for name in event.key_columns
    )


def _without_nulls(event: Event, old: Row, warnings: list[str]) -> None:
    """Columns that are NULL were not sent. A column that `old` has and the row has not became NULL.
    For other missing columns it is not known which are NULL, so both images are partial."""
    if Code.PARTIAL_IMAGE.value not in warnings:
        warnings.append(Code.PARTIAL_IMAGE.value)
    event.after_image = "partial"
    event.before_image = "partial" if event.before is not None else None
    after = event.after or {}
    # Columns keep the order in which they were sent.
    event.after = {**after, **dict.fromkeys(name for name in old if name not in after)}


def _recognise(top: TopLevel) -> bool:
    if "type" not in top:
        return len(top) == 1 and "encrypted" in top and bytes(top["encrypted"]).startswith(b"{")
    if "database" not in top or "ts" not in top or _CONTENT.isdisjoint(top):
        return False
    word = bytes(top["type"])
    if not _NOT_OURS.isdisjoint(top) or word not in _TYPES:
        return False
    return word != b'"delete"' or not _MARKS.isdisjoint(top)


FORMAT = Format(
    decoder=decoder,
    order="arrival",
    positions=True,
    summary="Maxwell's JSON of MySQL's binlog",
    source="https://maxwells-daemon.io/dataformat (zendesk/maxwell, 024c371)",
    recognised="database, ts and a type of Maxwell's, in lower case, with data, def, sql or "
    "encrypted; a delete with xid, commit, position or primary_key_columns, too",
    ordered="auto is arrival, since positions may be switched on and off; source is file, position "
    "(output_binlog_position=true) and xoffset, or by option ts, xid, xoffset",
    orderless="set output_binlog_position=true in Maxwell; or, for this source, options: "
    "{order_key: transaction} or order: arrival",
    recognise=_recognise,
    untyped=True,
    ends="the row with commit: true, which Maxwell sends with output_commit_info=true, its default",
    dialect="mysql",
    options={
        "order_key": Option(
            "choice",
            "position",
            "what order: source goes by: position, which Maxwell sends with "
            "output_binlog_position=true, or transaction (ts, xid, xoffset); a message without it "
            "is set aside",
            ("position", "transaction"),
        ),
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
        repeats_without_key("without xoffset the rows of one transaction have one place"),
        equal_changes_of_a_row("and no xoffset the rows of one transaction have one place"),
        Loss(
            "truncates",
            "Maxwell leaves TRUNCATE TABLE out: the rows that it took stay; DELETE tells of each",
        ),
        Loss(
            "updates that change nothing",
            "their old is empty, as where previous values were not sent",
        ),
        Loss(
            "zero bytes at the end of a BINARY(n)",
            "the binlog leaves them out (zendesk/maxwell, issue 2219), so a key of that type is "
            "another than the source's; columns: {c: binary(n)} puts them back",
            mended=True,
        ),
        Loss(
            "nulls of the row before",
            "with output_nulls=false a column that was NULL shows what the update made of it",
        ),
        Loss(
            "columns that a minimal binlog row image leaves out",
            "nothing names them: such an update looks whole; set binlog_row_image to FULL",
        ),
        Loss(
            "JSON null",
            "a JSON column's null and SQL's NULL are one token",
        ),
        SPACES_OF_JSON,
    ),
)


_TIMES = ("time", "datetime", "timestamp")


class _Column(msgspec.Struct, gc=False, rename="kebab"):
    """One column of `def`; only integers have `signed`."""

    name: str
    type: str
    signed: bool = True
    column_length: int | None = None
    enum_values: list[str] | None = None


class _Definition(msgspec.Struct, gc=False, rename="kebab"):
    columns: list[_Column] = []
    primary_key: tuple[str, ...] | None = None


_DEFINITION = msgspec.json.Decoder(_Definition | None)
_KEY = msgspec.json.Decoder(dict[str, Any] | list[Any], float_hook=str)


def canonicalize_row(row: Row, raw: msgspec.Raw, rows: TypedRows) -> None:
    """Makes declared JSON and SET columns canonical, in place.

    The value of a JSON column stands in the message as JSON itself, a SET as an array of its
    labels.
    """
    for name in rows.of_type("json"):
        if row.get(name) is not None:
            row[name] = nested(raw, name)
    for name in rows.of_type("set"):
        text = row.get(name)
        if text is not None and text.startswith("["):
            try:
                row[name] = ",".join(json.loads(text))
            except TypeError:
                raise DecodeError(
                    Code.BAD_VALUE, f"expected labels of the SET {name}, got {text[:80]!r}"
                ) from None


def key_of_message(key: bytes | None) -> tuple[str, ...] | None:
    """The key columns that Maxwell's Kafka key names, in either of its two forms.

    `{"database": …, "table": …, "pk.id": 1}` or `["db", "table", [{"id": 1}]]`; None for any other
    key, including that of a table without a key.
    """
    if not key:
        return None
    try:
        found = _KEY.decode(key)
    except UNREADABLE:
        return None
    if isinstance(found, dict):
        return tuple(name[3:] for name in found if name.startswith("pk.") and name[3:]) or None
    if len(found) != 3 or not isinstance(found[2], list):
        return None
    return tuple(name for part in found[2] if isinstance(part, dict) for name in part) or None


def table_columns(
    raw: msgspec.Raw, spark: Callable[[str], str]
) -> tuple[tuple[ColumnType, ...] | None, tuple[str, ...] | None]:
    """Columns and key of `def`, the table after a DDL; None if it says nothing.

    Raises bad_shape.
    """
    text = bytes(raw)
    if not text:
        return None, None
    table = parse_part(text, _DEFINITION.decode, expected="def with columns")
    if table is None:
        return None, None
    typed = ((column.name, _type(column)) for column in table.columns)
    columns = tuple(ColumnType(name, type_, spark(type_)) for name, type_ in typed)
    return columns or None, table.primary_key or None


def _type(column: _Column) -> str:
    """The column's type as MySQL writes it; `def` has no precision of a DECIMAL."""
    if column.enum_values is not None:
        return with_labels(column.type, column.enum_values)
    if column.column_length is not None and column.type in _TIMES:
        return f"{column.type}({column.column_length})"
    if column.type == "bit":
        # The length is not given, so it may be any.
        return "bit(64)"
    return column.type if column.signed else f"{column.type} unsigned"
