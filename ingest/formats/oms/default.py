"""OMS Default JSON, and DefaultExtendColumnType, its variant with column types in the images.

Vendor: OceanBase Migration Service, "Data formats" (Chinese edition, document 415643), sections
"Default JSON" and "DefaultExtendColumnType JSON".
"""

from __future__ import annotations

from collections.abc import Iterator

from ingest.codes import Code
from ingest.ddl.dialect import dialect_of_database
from ingest.ddl.parse import is_truncate
from ingest.events import Event, Row
from ingest.formats.oms.extended_types import LightTypes
from ingest.formats.oms.keys import key_names, sent_key
from ingest.formats.oms.records import RECORD, Meta, Record, record_event, split_images
from ingest.formats.oms.tables import Tables
from ingest.values.jsontext import image, parse
from ingest.wire.clock import ZONES_OF_INSTANTS
from ingest.wire.contract import (
    EQUAL_ROWS_OF_A_SNAPSHOT,
    SPACES_OF_JSON,
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    Option,
    TableDecoder,
    TopLevel,
)
from ingest.wire.contradictions import refuse_rows
from ingest.wire.event_types import paired


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one record a message."""
    light_types = LightTypes(options)

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        record = parse(message.value or b"", RECORD.decode, warnings)
        meta = record.allMetaData or Meta()
        event = record_event(record, meta, options, warnings=warnings)
        op, word = event.op, event.op_raw
        if op == "ddl":
            event.dialect = dialect_of_database(meta.dbType)
            _state(event, record, warnings)
        elif op == "heartbeat":
            refuse_rows(word, record.prevStruct, record.postStruct)
        else:
            _change(event, record, meta, light_types=light_types)
        yield event

    return decode


def _state(event: Event, record: Record, warnings: list[str]) -> None:
    """A DDL record: one of its images is `{"ddl": "<statement>"}` and nothing else.

    `postStruct` is the documented one. Raises contradiction if there are columns beside it.
    """
    after, before = (image(raw, warnings) or {} for raw in (record.postStruct, record.prevStruct))
    statement = after.pop("ddl", None) or before.pop("ddl", None)
    before.pop("ddl", None)
    for found in (after, before):
        found.pop("__light_type", None)
        refuse_rows(event.op_raw, found)
    if statement.__class__ is str and statement:
        event.ddl = statement
        if is_truncate(statement):
            event.op, event.kind = "truncate", "change"
    else:
        warnings.append(Code.DDL_TEXT_MISSING.value)


def _change(event: Event, record: Record, meta: Meta, *, light_types: LightTypes) -> None:
    warnings = event.warnings
    assert warnings is not None
    names = (event.db, None, event.table)
    sent: Row | None = None
    before_image: str | None = None
    images = split_images(record, names, meta, light_types=light_types)
    if images.before is not None:
        sent, before_image = images.before_table.read(images.before, warnings)
    raw, table = images.after, images.table
    row, after_image = table.read(raw, warnings)
    before, after = paired(event.op, sent, row, warnings=warnings)
    keys = key_names(meta.record_primary_key)
    event.unavailable = table.withhold(event.op, before, after, keys=keys)
    if event.unavailable:
        warnings.append(Code.PARTIAL_IMAGE.value)
        before_image, after_image = "partial", "partial"
    event.before, event.before_image = before, before_image if before is not None else None
    event.after, event.after_image = after, after_image if after is not None else None
    event.types = table.types
    found = sent_key(
        meta.record_primary_key,
        meta.record_primary_value,
        row=after if after is not None else before or {},
        before=before if after is not None else None,
        warnings=warnings,
    )
    event.key_columns, event.key, event.key_before = found


def _recognise(top: TopLevel) -> bool:
    return "recordType" in top and "allMetaData" in top


def tables(options: FormatOptions) -> TableDecoder:
    """The decoder of one source's regular messages, by column."""
    return Tables(options).read


FORMAT = Format(
    decoder=decoder,
    tables=tables,
    order="source",
    summary="OceanBase Migration Service, Default JSON and DefaultExtendColumnType",
    source="OceanBase OMS, Data formats, https://help.aliyun.com/document_detail/415643.html",
    recognised="an object with recordType and allMetaData; __light_type in an image types it",
    ordered="by storeDataSequence, its time and its counter compared one by one; without it "
    "(sequenceEnabled=false) set order: arrival; ROW is a snapshot row",
    recognise=_recognise,
    tenants=True,
    envelope=("allMetaData",),
    options={
        "sequence_unit": Option(
            "choice",
            "auto",
            "unit of the time in front of storeDataSequence; auto: milliseconds from 16 digits on, "
            "and with 14 or 15 where allMetaData.timestamp is in milliseconds, else seconds",
            ("auto", "seconds", "milliseconds"),
        ),
        "tenant": Option(
            "text",
            "",
            "the one OceanBase tenant of the source: another's messages are set aside. The tenant "
            "and the dot before db are taken off either way, and kept in extra; where several "
            "tenants have a table of one name and none is given, its target is parked",
        ),
    },
    impossible={
        "schema": "allMetaData names db and table_name only",
        "id": "allMetaData has no number of the message",
        "sequenceId": "a field of DataWorks alone; here it is storeDataSequence",
        "scn": "storeDataSequence is the only position sent",
        "sent_time": "allMetaData.timestamp is the change's time, no other is sent",
        "key image": "prevStruct and postStruct hold rows, record_primary_value the key",
    },
    losses=(
        EQUAL_ROWS_OF_A_SNAPSHOT,
        Loss(
            "nulls of large objects",
            "an update leaves out, as null on both sides, what did not change; so such a null "
            "is unavailable, not NULL",
        ),
        Loss("checkpoint", "allMetaData.checkpoint is OMS's own position: bronze alone has it"),
        ZONES_OF_INSTANTS,
        SPACES_OF_JSON,
    ),
)
