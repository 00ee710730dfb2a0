"""DataWorks (StreamX) JSON, versions 0.0.1 and 1.0.0, which differ in nothing but their number.

Vendor: Alibaba Cloud DataWorks, "Appendix: Message format" (real-time synchronisation of a full
database to Kafka). Event types are Canal's, an update being either one message or two halves.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats.dataworks.record import (
    BEFORE,
    RECORD,
    Payload,
    TablesOfSchemas,
    op_of,
    record_event,
)
from ingest.formats.dataworks.tables import Tables
from ingest.values.jsontext import parse
from ingest.wire.contract import (
    EQUAL_ROWS_OF_A_SNAPSHOT,
    SPACES_OF_JSON,
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    TableDecoder,
    TopLevel,
)
from ingest.wire.contradictions import refuse_sides
from ingest.wire.event_types import paired
from ingest.wire.scalars import of_protocol
from ingest.wire.typed_rows import TypedRows

_ENVELOPE = (
    "schema",
    "schema.source",
    "schema.dataColumn",
    "payload",
    "payload.timestamp",
    "payload.ddl",
    "payload.before",
    "payload.after",
)


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one record a message."""
    schemas = TablesOfSchemas(options)

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        record = parse(message.value or b"", RECORD.decode, warnings)
        op, payload = op_of(record, warnings), record.payload
        table = schemas.of(record.schema)
        event = record_event(record, op, table, warnings=warnings)
        if event.kind == "ddl":
            types = table.rows.types
            event.columns = types.columns if types is not None else None
        if event.kind == "change" and event.op != "truncate":
            _images(event, payload, rows=table.rows, warnings=warnings)
        else:
            refuse_sides(payload.op, message.value or b"")
        yield event

    return decode


def tables(options: FormatOptions) -> TableDecoder:
    """Reads the regular records by column."""
    return Tables(options, _ENVELOPE).read


def _images(event: Event, payload: Payload, *, rows: TypedRows, warnings: list[str]) -> None:
    word, sides = (payload.op or "").upper(), (payload.before, payload.after)
    before, before_image = rows.read(sides[0].dataColumn, warnings) if sides[0] else (None, None)
    after, after_image = rows.read(sides[1].dataColumn, warnings) if sides[1] else (None, None)
    event.types = rows.types
    if word in BEFORE:
        _halve(event, before is not None and after is None)
        event.before, event.before_image = before, before_image
        return
    if word == "UPDATE_AFTER" and before is None and after is not None:
        warnings.append(Code.SPLIT_UPDATE.value)
    else:
        before, after = paired(event.op, before, after, warnings=warnings)
    event.before, event.before_image = before, before_image if before is not None else None
    event.after, event.after_image = after, after_image if after is not None else None


def _halve(event: Event, lone: bool) -> None:
    """Marks the before-half of an update, which waits for the after-half with its sequenceId."""
    if not lone:
        raise DecodeError(
            Code.IMAGE_COUNT,
            f"expected the row before, and none after, in a message of op {event.op_raw}",
        )
    if event.order is None:
        raise DecodeError(
            Code.ORDER_KEY_MISSING,
            f"expected the sequenceId that joins the halves of an update, got {event.sequenceId!r}",
        )
    event.kind, event.half = "fragment", 0
    event.warnings = [*(event.warnings or ()), Code.SPLIT_UPDATE.value]


def _recognise(top: TopLevel) -> bool:
    return of_protocol(top, versions=(b'"0.0.1"', b'"1.0.0"'), member="dataColumn")


FORMAT = Format(
    decoder=decoder,
    order="source",
    summary="Alibaba Cloud DataWorks (StreamX) JSON 0.0.1 and 1.0.0",
    source="Alibaba Cloud DataWorks, Appendix: Message format, version 0.0.1 and 1.0.0, "
    "https://www.alibabacloud.com/help/en/dataworks/user-guide/appendix-message-formats",
    recognised="payload.op with schema.dataColumn; a control event by version 0.0.1 or 1.0.0",
    ordered="by payload.sequenceId; an INSERT whose sequenceId or eventTime is -1 is a snapshot "
    "row; the halves UPDATE_BEFOR and UPDATE_AFTER are joined by it",
    recognise=_recognise,
    splits_updates=True,
    envelope=_ENVELOPE,
    tables=tables,
    impossible={
        "id": "the record has no number but sequenceId",
        "storeDataSequence": "a field of OMS alone; here it is sequenceId",
        "tx_id": "TRANSACTION_BEGIN and TRANSACTION_END carry no transaction id",
        "unavailable": "no placeholder for a value that was not supplied is documented",
    },
    losses=(
        EQUAL_ROWS_OF_A_SNAPSHOT,
        Loss(
            "checkpointTime, ddlMeta, the database's version",
            "the first is the producer's own position, the second a serialised Java object: bronze "
            "alone has them",
        ),
        Loss(
            "fractions below a millisecond",
            "StreamX has six types; a DATE is a number of milliseconds",
        ),
        Loss(
            "dates and times without zone",
            "they come as instants, read in the producer's zone",
            mended=True,
        ),
        Loss(
            "scale of decimals",
            "a DOUBLE has no scale: the number stays as sent",
            mended=True,
        ),
        Loss(
            "times of day",
            "StreamX has none: the text stays as sent",
            mended=True,
        ),
        Loss(
            "zero dates",
            "there is no such instant",
        ),
        SPACES_OF_JSON,
    ),
)
