"""Canal JSON (FlatMessage), every public flavour, by one decoder without a dialect switch.

Vendor: alibaba/canal e20e442, `FlatMessage` and `MQMessageUtils.messageConverter`; read with it
are TiCDC's `_tidb` extension (docs.pingcap.com/tidb/stable/ticdc-canal-json), OceanBase Cloud and
OMS, CloudCanal, Huawei DRS (INIT, a delete's row in `old`, the `schema` of sources that have one),
Tencent CKafka (times in seconds), InLong and the Flink, Flink CDC, Paimon and SeaTunnel sinks
(native numbers, few fields).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats.canal.envelope import ENVELOPE, Envelope, TiDB, op_of, recognise
from ingest.formats.canal.events import add_statement, event_of
from ingest.formats.canal.rows import FlavourReaders, RowReaders
from ingest.formats.canal.tables import NO_CODES, Tables
from ingest.formats.canal.types import NamedTypes
from ingest.formats.oms.values import oms_converter, oms_spark_type
from ingest.formats.ticdc.tso import VIRTUAL_COLUMNS, handle_key_only
from ingest.values.jsontext import images, parse
from ingest.wire.clock import ZONES_OF_INSTANTS
from ingest.wire.contract import (
    SPACES_OF_JSON,
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    Option,
    TableDecoder,
    equal_changes_of_a_row,
    repeats_without_key,
)
from ingest.wire.contradictions import refuse_after, refuse_rows
from ingest.wire.declared import ValueEncoding, sql_converter, sql_spark_type


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one message, of any number of rows."""
    own = options.options
    flavours = _readers(options)
    keep_keys = own["handle_key_only"] == "keep"
    spark = sql_spark_type(ValueEncoding(family=own["dialect"]))

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        envelope = parse(message.value or b"", ENVELOPE.decode, warnings)
        op = op_of(envelope)
        event = event_of(envelope, op, options, warnings=warnings)
        kind = event.kind
        if op == "truncate" or kind != "change":
            refuse_rows(envelope.type, envelope.data, envelope.old)
        if op == "truncate" or kind == "ddl":
            add_statement(
                event,
                envelope.sql,
                table_changes=envelope.tableChanges,
                spark=spark,
                warnings=warnings,
            )
            yield event
        elif kind == "control":
            event.ddl = envelope.sql or None
            yield event
        else:
            yield from _changes(event, envelope, flavours.of(envelope.id), keep_keys=keep_keys)

    return decode


def tables(options: FormatOptions) -> TableDecoder:
    """The decoder of one source's regular messages, by column."""
    return Tables(options, _readers(options)).read


def _readers(options: FormatOptions) -> FlavourReaders:
    """The readers of one source's rows."""
    # Only OceanBase Cloud sends an id and bytes in base64.
    cloud = options.options["blob_encoding"] == "base64"
    return FlavourReaders(
        with_id=RowReaders(_types(options, with_id=True), unlogged=cloud),
        without_id=RowReaders(_types(options, with_id=False)),
    )


def _types(options: FormatOptions, *, with_id: bool) -> NamedTypes:
    """How values are read. OMS, which sends no `id`, writes base64 and labels."""
    own, zone = options.options, options.time_zone
    blob, labels, family = own["blob_encoding"], own["enum_encoding"], own["dialect"]
    if not with_id and blob in ("auto", "base64") and labels != "ordinal":
        return NamedTypes(
            options,
            convert=oms_converter(family, zone),
            spark=oms_spark_type(family),
            dialect=family,
        )
    if blob == "auto":
        blob = "latin1" if with_id else "base64"
    encoding = ValueEncoding(
        family=family,
        zone=zone,
        blob=blob,
        bits="integer" if with_id and blob != "base64" else "base64",
        ordinals=with_id if labels == "auto" else labels == "ordinal",
        fill_binary=own["binary_zeros"] == "filled",
        json_parts=with_id,
    )
    return NamedTypes(
        options,
        convert=sql_converter(encoding),
        spark=sql_spark_type(encoding),
        dialect=family,
        latin1=encoding.blob == "latin1",
    )


def _changes(
    event: Event, envelope: Envelope, readers: RowReaders, *, keep_keys: bool
) -> Iterator[Event]:
    """One event a row. Raises statement_dml, no_image, image_count, unsupported."""
    op, shared = event.op, event.warnings
    assert shared is not None
    # A message without an id is OMS's, which writes numbers as JSON numbers.
    textual, unlogged = envelope.id is not None, readers.unlogged or envelope.unlogged
    data = images(_listed(envelope), shared, textual=textual)
    old = images(envelope.old, shared, textual=textual)
    if not data.rows:
        if op != "delete" or not old.rows:
            raise _without_rows(envelope, len(old.rows))
        data = old  # Huawei DRS
    elif op == "delete" and old.rows != data.rows:  # TiCDC before 5.4 sends the row in both
        refuse_after(op, old.rows)
    count = len(data.rows)
    if op == "update" and len(old.rows) > count:
        raise DecodeError(
            Code.IMAGE_COUNT, f"expected an old row for each row, got {len(old.rows)} for {count}"
        )
    keys_only = envelope.tidb is not None and _handle_key_only(envelope.tidb, op, keep_keys)
    # With delete-only-output-handle-key-columns nothing else in TiCDC's message says so; its id is
    # always 0.
    keys_only |= op == "delete" and envelope.id == 0 and _of_key(data.rows, envelope.pkNames)
    table = (event.db, event.schema, event.table)
    reader = readers.of(table, envelope.mysqlType, event.key_columns)
    if bytes(envelope.sqlType) not in NO_CODES and (reader.coded or not reader.typed(data)):
        reader = readers.coded(table, envelope.mysqlType, envelope.sqlType, keys=event.key_columns)
    event.types = reader.types
    original = copy(event) if count > 1 else event
    for index in range(count):
        if index:
            event = copy(original)
        warnings = shared.copy() if count > 1 else shared
        event.warnings = warnings
        if op == "update":
            reader.update(event, data, old, index=index, unlogged=unlogged)
        elif op == "delete":
            reader.delete(event, data, index, unlogged=unlogged)
        else:
            reader.insert(event, data, index)
            if index < len(old.rows) and old.rows[index]:
                warnings.append(Code.BEFORE_ON_INSERT.value)
        if keys_only:
            warnings.append(Code.PARTIAL_IMAGE.value)
            event.before_image = "key" if event.before is not None else None
            event.after_image = "key" if event.after is not None else None
        yield event


def _listed(envelope: Envelope) -> bytes:
    """The rows as an array: SeaTunnel up to 2.3.5 sends a single row as an object, and no other
    member than its type.

    Source: https://github.com/apache/seatunnel/issues/6955.
    """
    data = bytes(envelope.data)
    alone = data.startswith(b"{") and envelope.ts is envelope.es is envelope.id is None
    return b"[%b]" % data if alone else data


def _without_rows(envelope: Envelope, olds: int) -> DecodeError:
    if envelope.sql:
        return DecodeError(
            Code.STATEMENT_DML,
            f"expected rows in data, got the statement {envelope.sql[:80]!r}; set the source's "
            f"binlog_format to ROW",
        )
    if olds:
        return DecodeError(Code.IMAGE_COUNT, f"expected rows in data, got {olds} in old only")
    return DecodeError(Code.NO_IMAGE, "expected rows in data, got none, and no statement")


def _of_key(rows: Sequence[Mapping[str, Any] | None], keys: tuple[str, ...] | None) -> bool:
    """Whether rows have no columns except those of their key."""
    return bool(keys) and all(row is not None and row.keys() == set(keys or ()) for row in rows)


def _handle_key_only(tidb: TiDB, op: str, keep: bool) -> bool:
    """Whether TiCDC sent only the handle key because the row was too large; a delete does not need
    more."""
    if not (tidb.onlyHandleKey or tidb.claimCheckLocation):
        return False
    handle_key_only(op, tidb.claimCheckLocation, keep)
    return True


FORMAT = Format(
    decoder=decoder,
    tables=tables,
    order="arrival",
    summary="Canal JSON: Alibaba Canal, TiCDC, OceanBase OMS and Cloud, CloudCanal, DRS and others",
    source="https://github.com/alibaba/canal (FlatMessage, e20e442)",
    recognised="type with isDdl, mysqlType, sqlType, pkNames or _tidb; else type INSERT or "
    "UPDATE with data, an array of rows, and no name that Canal has not",
    ordered="auto is arrival: Canal sends no log position; source is es in milliseconds, then id, "
    "for TiCDC by option commitTs",
    orderless="set order: arrival for this source if it never sends one; options: "
    "{order_key: commit_ts} is for TiCDC with enable-tidb-extension=true, and for it alone",
    recognise=recognise,
    envelope=("_tidb", "tableChanges", "tableChanges.table"),
    options={
        "order_key": Option(
            "choice",
            "id",
            "what order: source goes by after es: id, or commit_ts, which TiCDC sends with "
            "enable-tidb-extension=true; a message that has the other is set aside",
            ("id", "commit_ts"),
        ),
        "blob_encoding": Option(
            "choice",
            "auto",
            "how BLOB and BINARY are written: latin1 has one character a byte; auto is base64 "
            "where the message has no id (OMS), else latin1; pin base64 for OceanBase Cloud, which "
            "also tells that NULLs of large objects are its, hex for Tencent's DTS (unless in its "
            "fully compatible mode), byte_list for Huawei DRS, which writes [1, -128]",
            ("auto", "latin1", "base64", "hex", "byte_list"),
        ),
        "binary_zeros": Option(
            "choice",
            "sent",
            "the zero bytes at the end of a BINARY(n), which the binlog leaves out: as they were "
            "sent, or filled up to n as the source has them; it applies where bytes are latin1",
            ("sent", "filled"),
        ),
        "enum_encoding": Option(
            "choice",
            "auto",
            "what a number in an ENUM or SET column is: an ordinal or bitmask to be looked up in "
            "the type, or the label itself; auto is label where the message has no id (OMS)",
            ("auto", "ordinal", "label"),
        ),
        "dialect": Option(
            "choice",
            "mysql",
            "whose type names mysqlType holds: a TIMESTAMP of Oracle has no zone, its DATE a time",
            ("mysql", "oracle", "postgres", "sqlserver"),
        ),
        "handle_key_only": Option(
            "choice",
            "reject",
            "an insert or update of which TiCDC sent the handle key alone (onlyHandleKey, "
            "claimCheckLocation): set aside, or kept as an image of its key",
            ("reject", "keep"),
        ),
    },
    impossible={
        "sequenceId": "FlatMessage has no such field",
        "storeDataSequence": "FlatMessage has no such field",
    },
    losses=(
        repeats_without_key("with order: source the rows of one batch of Canal have one id"),
        equal_changes_of_a_row(
            "the changes of one batch of Canal within a millisecond have one id"
        ),
        Loss(
            "updates that change nothing",
            "their old is empty, as where previous values were not sent",
        ),
        Loss(
            "labels of ENUM and SET",
            "TiCDC sends their numbers and no members: enum_number; columns: names them",
            mended=True,
        ),
        VIRTUAL_COLUMNS,
        Loss(
            "zero bytes at the end of a BINARY(n)",
            "the binlog leaves them out, so a key of that type is another than the source's; "
            "binary_zeros: filled puts them back",
            mended=True,
        ),
        Loss(
            "characters of another set than UTF-8",
            "Alibaba Canal reads all text as its connectionCharset says: of a latin1 column, what "
            "is no ASCII comes as U+FFFD",
        ),
        Loss(
            "columns that a minimal binlog row image leaves out",
            "mysqlType names the columns that were sent alone: such an update looks whole",
            mended=True,
        ),
        Loss(
            "types of Huawei DRS",
            "of PostgreSQL, Oracle and SQL Server it sends columnType in place of mysqlType, which "
            "is not read: declare columns, and the dialect",
        ),
        Loss(
            "columns set to NULL",
            "a sink of Flink that is told to leave out null fields (ignoreNullFields) does not say "
            "so: an update keeps the value before. Leave the option off",
        ),
        Loss("the text null", "TiCDC 8.5.4 sends it as JSON's null (pingcap/ticdc, issue 3958)"),
        Loss(
            "nulls of large objects",
            "of OMS, and of OceanBase Cloud with blob_encoding: base64: an update leaves out, as "
            "null on both sides, what did not change; so such a null is unavailable, not NULL",
        ),
        ZONES_OF_INSTANTS,
        SPACES_OF_JSON,
    ),
)
