"""AWS Database Migration Service, JSON of its Kafka and Kinesis targets.

A record has the row in `data` and its description in `metadata`. The row before an update is there
only if a before image was asked for, beside `data` or inside it under prefixed names. Column types
come in `control` records, with IncludeTableAlterOperations and IncludeControlDetails.

Vendor: https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.Kafka.html (2024), and there
CHAP_Reference.DataTypes.html for the types, CHAP_Source.PostgreSQL.html, CHAP_Source.MySQL.html and
CHAP_Source.SQLServer.html for what is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import KIND_OF, ColumnType, Event, Row
from ingest.names import lacking
from ingest.values import canonical, jsontext
from ingest.values.jsontext import members, parse_part
from ingest.values.source_types import decimal_type, parse_type, spark_type
from ingest.wire.clock import ZONES_OF_INSTANTS, Clock
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
from ingest.wire.contradictions import refuse_rows
from ingest.wire.declared import Convert, ValueEncoding, plain, sql_converter
from ingest.wire.scalars import Scalar, number_of, text_of
from ingest.wire.typed_rows import TableRows, TypedRows

_ROWS = {"load": "snapshot", "insert": "insert", "update": "update", "delete": "delete"}
_BINLOG = re.compile(r"[^:]*\.(\d{1,18}):(\d{1,18})(?::|$)", re.ASCII)
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})\.(\d{1,18})\.", re.ASCII)
_NONE = msgspec.Raw(b"")


class _Metadata(msgspec.Struct, gc=False, rename="kebab"):
    timestamp: Any = None
    record_type: str | None = None
    operation: str | None = None
    schema_name: str | None = None
    table_name: str | None = None
    transaction_id: Scalar = None
    transaction_record_id: Scalar = None
    commit_timestamp: str | None = None
    stream_position: str | None = None


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one record a message."""
    own = options.options
    envelope_of = _envelope_decoder(own["before_image"])
    rows_of = _Rows(options)
    clock = Clock("UTC")

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        envelope = jsontext.parse(message.value or b"", envelope_of, warnings)
        metadata: _Metadata = envelope.metadata
        sent = clock.sent_micros(metadata.timestamp, warnings)
        happened = clock.micros(metadata.commit_timestamp, warnings)
        event = Event(
            op=_op(metadata),
            op_raw=metadata.operation,
            db=metadata.schema_name or options.default_database,
            schema=options.default_schema,
            table=metadata.table_name or options.default_table,
            scn=metadata.stream_position or None,
            order=_order(metadata, happened),
            event_time=sent if happened is None else happened,
            sent_time=sent,
            tx_id=text_of(metadata.transaction_id),
            crowded=number_of(metadata.transaction_record_id) is None,
            warnings=warnings,
        )
        event.kind = KIND_OF[event.op]
        event.snapshot = event.op == "snapshot"
        if metadata.record_type == "control":
            refuse_rows(metadata.operation, envelope.data, envelope.before)
            event.columns, event.key_columns = table_columns(envelope.control)
            warnings.append(Code.DDL_TEXT_MISSING.value)
        else:
            rows_of.fill(event, envelope)
        yield event

    return decode


def _envelope_decoder(before_image: str) -> Any:
    """Reads a record whose before image stands under the name that the task gives it."""
    fields: list[Any] = [
        ("metadata", _Metadata),
        ("data", msgspec.Raw, _NONE),
        ("control", msgspec.Raw, _NONE),
        ("before", msgspec.Raw, msgspec.field(default=_NONE, name=before_image)),
    ]
    return jsontext.decoder(msgspec.defstruct("Record", fields, gc=False)).decode


def _op(metadata: _Metadata) -> str:
    """The op of a record. Raises unknown_op."""
    given = metadata.operation or ""
    if metadata.record_type == "control":
        if given:
            return "truncate" if given == "truncate-table" else "ddl"
    elif metadata.record_type == "data" and given in _ROWS:
        return _ROWS[given]
    raise DecodeError(
        Code.UNKNOWN_OP,
        f"expected record-type data with operation {', '.join(_ROWS)}, or control with one; got "
        f"{metadata.record_type!r}, {metadata.operation!r}",
    )


def _order(metadata: _Metadata, happened: int | None) -> tuple[int, ...] | None:
    """The position in MySQL's binlog or PostgreSQL's log; else the commit's time and number."""
    text = metadata.stream_position or ""
    record = number_of(metadata.transaction_record_id) or 0
    found = _LSN.match(text)
    if found is not None:
        return (int(found[1], 16) << 32) + int(found[2], 16), int(found[3]), record
    found = _BINLOG.match(text)
    if found is not None:
        return int(found[1]), int(found[2]), record
    if happened is None:
        return None
    return happened, number_of(metadata.transaction_id) or 0, record


class _Rows:
    """Gives changes their images, by the options of the source."""

    def __init__(self, options: FormatOptions) -> None:
        own = options.options
        self._tables = dms_rows(options, own["dialect"])
        self._prefix = own["before_prefix"]
        self._nulls = own["null_and_empty"]

    def fill(self, event: Event, envelope: Any) -> None:
        """Raises no_image, bad_shape, bad_json, bad_value."""
        warnings = event.warnings
        assert warnings is not None
        rows = self._tables.of((event.db, event.schema, event.table))
        event.types = rows.types
        data, before = self._images(envelope, rows, warnings)
        if event.op == "delete" and before is not None:
            # Both images are the row that was deleted.
            sent = {name: value for name, value in (data or {}).items() if value is not None}
            data = {**(data or {}), **before, **sent}
        if data is None:
            raise DecodeError(Code.NO_IMAGE, f"expected columns in data of {event.op}, got none")
        if event.op == "delete":
            self._delete(event, data, warnings)
            return
        if self._nulls == "null" and rows.types is not None:
            declared = (column.name for column in rows.types.columns)
            data |= dict.fromkeys(lacking(declared, data))
        event.after = data
        whole = event.op != "update" or self._nulls != "omitted"
        event.after_image = "full" if whole else "partial"
        if event.op == "update":
            if before is None:
                warnings.append(Code.OLD_MISSING.value)
            else:
                event.before = before
                event.before_image = "full" if before.keys() >= data.keys() else "partial"
        elif before is not None:
            warnings.append(Code.BEFORE_ON_INSERT.value)
        if "partial" in (event.after_image, event.before_image):
            warnings.append(Code.PARTIAL_IMAGE.value)

    def _images(
        self, envelope: Any, rows: TypedRows, warnings: list[str]
    ) -> tuple[Row | None, Row | None]:
        """The row, and the row before it from a member of its own or from prefixed columns."""
        data = jsontext.image(envelope.data, warnings)
        old: Row | None = None
        prefix = self._prefix
        if data is not None and prefix and prefix.encode() in bytes(envelope.data):
            found = [n for n in data if n.startswith(prefix)]
            # One that has its column beside it tells that the others are such, too: of a column
            # that is NULL now nothing may be sent but what it was.
            if any(name[len(prefix) :] in data for name in found):
                old = {name[len(prefix) :]: data.pop(name) for name in found}
                raw = members(envelope.data)
                rows.texts(
                    old,
                    msgspec.json.encode({name: raw[prefix + name] for name in old}),
                    warnings,
                )
        if data is not None:
            rows.texts(data, envelope.data, warnings)
        before, _ = rows.read(envelope.before, warnings)
        return data, old if before is None else before

    def _delete(self, event: Event, data: Row, warnings: list[str]) -> None:
        """The deleted row; PostgreSQL may have logged only its key, and all else is NULL then."""
        lost: list[str] = []
        if event.scn is not None and _LSN.match(event.scn):
            lost = [name for name, value in data.items() if value is None]
            data = {name: value for name, value in data.items() if value is not None}
        if not data:
            raise DecodeError(Code.NO_IMAGE, "expected a value in the deleted row, got only nulls")
        event.before, event.unavailable = data, lost
        event.before_image = "partial" if lost or self._nulls == "omitted" else "full"
        if event.before_image == "partial":
            warnings.append(Code.PARTIAL_IMAGE.value)


def _recognise(top: TopLevel) -> bool:
    if "metadata" not in top or "payload" in top:
        return False
    metadata = bytes(top["metadata"])
    return metadata.startswith(b"{") and {"record-type", "operation"} <= members(metadata).keys()


FORMAT = Format(
    decoder=decoder,
    order="arrival",
    summary="AWS Database Migration Service, JSON of its Kafka and Kinesis targets",
    source="https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.Kafka.html (2024)",
    recognised="metadata with record-type and operation",
    ordered="auto is arrival; source is stream-position where it is a place in a binlog or a "
    "PostgreSQL log, else commit-timestamp, transaction-id, transaction-record-id",
    recognise=_recognise,
    untyped=True,
    envelope=("metadata", "control", "control.table-def"),
    options={
        "null_and_empty": Option(
            "choice",
            "omitted",
            "columns that are NULL or empty: omitted as IncludeNullAndEmpty=false leaves them out, "
            "images of updates being partial; included; null: every column that the source's YAML "
            "names and a row lacks is NULL",
            ("omitted", "included", "null"),
        ),
        "before_image": Option(
            "text",
            "before-image",
            "the member that holds the row before an update (BeforeImageSettings, FieldName)",
        ),
        "before_prefix": Option(
            "text",
            "BI_",
            "the prefix of columns in data that hold values before an update "
            "(add-before-image-columns); counts where data has one of the columns themselves, too",
        ),
        "dialect": Option(
            "choice",
            "mysql",
            "the database whose types the source's columns name",
            ("mysql", "oracle", "postgres", "sqlserver"),
        ),
    },
    impossible={
        "schema": "metadata has schema-name and table-name, shown as db and table",
        "id": "the record has no number of its own",
        "sequenceId": "the record has no such field",
        "storeDataSequence": "the record has no such field",
        "ddl": "control records name the operation and the columns, not the statement",
        "key image": "a record does not name key columns; the YAML or the Kafka key does",
    },
    losses=(
        repeats_without_key(
            "with order: source and no transaction-record-id the rows of a full load have no "
            "place, and those of a transaction may have one"
        ),
        equal_changes_of_a_row(
            "and no transaction-record-id (IncludeTransactionDetails) the changes of a transaction "
            "may have one place"
        ),
        Loss(
            "the order of transactions of one moment",
            "with order: source, where stream-position is no place in a binlog or a PostgreSQL "
            "log, transactions of one commit-timestamp, which Oracle has by the second, stand in "
            "the order of their numbers, which need not be that of their commits: leave order: "
            "auto",
        ),
        Loss(
            "changes of a primary key",
            "without a before image (EnableBeforeImage) an update names the new key alone: the row "
            "of the old one stays",
        ),
        Loss(
            "large objects",
            "limited LOB mode cuts what is longer than its maximum size (LobMaxSize)",
        ),
        Loss(
            "digits of PostgreSQL's NUMERIC",
            "without a precision it counts as NUMERIC(28,6): further digits are gone",
        ),
        Loss(
            "infinite timestamps",
            "PostgreSQL's infinity comes as 9999-12-31 23:59:59, -infinity as 4713-01-01 00:00:00 "
            "BC",
        ),
        Loss("MySQL's ENUM and SET", "AWS supports them in a full load alone"),
        Loss("SQL Server's computed columns", "their changes are not sent"),
        Loss(
            "truncates",
            "those of PostgreSQL and SQL Server are not sent: the rows stay",
        ),
        Loss(
            "tables without a primary key",
            "PostgreSQL's updates and deletes of them are not sent, nor SQL Server's updates "
            "without MS-CDC",
        ),
        ZONES_OF_INSTANTS,
        SPACES_OF_JSON,
    ),
)


_SPARK = {
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), "int"),
    **dict.fromkeys(("int64", "uint32"), "bigint"),
    "uint64": "decimal(20,0)",
    **dict.fromkeys(("real4", "real8", "float", "double"), "double"),
    "boolean": "boolean",
    "date": "date",
    **dict.fromkeys(("bytes", "blob"), "binary"),
}
"""TIMESTAMP and DATETIME stay text, since DMS has one type for times with and without a zone."""


class _Column(msgspec.Struct, gc=False):
    type: str
    precision: int | None = None
    scale: int | None = None
    length: int | None = None


class _Table(msgspec.Struct, gc=False, rename="kebab"):
    columns: dict[str, _Column] | None = None
    primary_key: tuple[str, ...] | None = None


class _Control(msgspec.Struct, gc=False, rename="kebab"):
    table_def: _Table | None = None


_CONTROL = msgspec.json.Decoder(_Control | None)


def table_columns(
    raw: msgspec.Raw,
) -> tuple[tuple[ColumnType, ...] | None, tuple[str, ...] | None]:
    """Columns and key in a `control`, which are the table after a change; None if it says nothing.

    Raises bad_shape.
    """
    text = bytes(raw)
    if not text:
        return None, None
    control = parse_part(text, _CONTROL.decode, expected="control with table-def")
    table = control.table_def if control is not None else None
    if table is None:
        return None, None
    typed = ((name, _type(column), column) for name, column in (table.columns or {}).items())
    columns = tuple(ColumnType(name, type_, _spark(column)) for name, type_, column in typed)
    return columns or None, table.primary_key or None


def _type(column: _Column) -> str:
    if column.precision is not None:
        return f"{column.type}({column.precision},{column.scale or 0})"
    return column.type if column.length is None else f"{column.type}({column.length})"


def _spark(column: _Column) -> str:
    name = column.type.lower()
    if name == "numeric":
        given = () if column.precision is None else (column.precision, column.scale or 0)
        return decimal_type(given)
    return _SPARK.get(name, "string")


def dms_rows(options: FormatOptions, dialect: str) -> TableRows:
    """How the rows of DMS's tables are read, by the types that the YAML names."""
    encoding = ValueEncoding(family=dialect, zone=options.time_zone)
    return TableRows(options, encoding, convert=_converter(encoding))


def _converter(encoding: ValueEncoding) -> Callable[[str], Convert | None]:
    """SQL type -> converter of DMS's values."""
    by_sql_type = sql_converter(encoding)

    def convert(source_type: str) -> Convert | None:
        kind = spark_type(source_type, encoding.family)
        if kind == "binary":
            return _bytes
        if kind == "timestamp_ntz":
            return _civil
        if kind == "date":
            return _date
        found = by_sql_type(source_type)
        if found is None or (encoding.family, parse_type(source_type).name) != ("mysql", "bit"):
            return found
        return _bits(found)

    return convert


_HEXADECIMAL = re.compile(r"(?:0x)?((?:[0-9A-Fa-f]{2}){1,8})", re.ASCII)


def _bits(convert: Convert) -> Convert:
    """Converter of MySQL's BIT(n), which is BYTES in DMS: a text has hexadecimal digits."""

    def of(value: Any, warnings: list[str]) -> str | None:
        found = _HEXADECIMAL.fullmatch(value) if value.__class__ is str else None
        return convert(int(found[1], 16) if found is not None else value, warnings)

    return of


def _bytes(value: Any, warnings: list[str]) -> str:
    """Bytes as hexadecimal digits, with `0x` before them unless NoHexPrefix is set."""
    text = plain(value)
    try:
        return canonical.base64_of(bytes.fromhex(text.removeprefix("0x")))
    except ValueError:
        warnings.append(Code.VALUE_NOT_OF_TYPE.value)
        return text


def _civil(value: Any, warnings: list[str]) -> str:
    """A zone-less date-time: DMS puts a Z behind every one, with or without a zone."""
    return canonical.civil_text(plain(value).removesuffix("Z"), warnings)


def _date(value: Any, warnings: list[str]) -> str:
    text = plain(value)
    return canonical.date_text(text[:10] if text[10:11] == "T" else text, warnings)
