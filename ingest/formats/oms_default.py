"""OMS Default JSON, and DefaultExtendColumnType, its variant with column types in the images.

Vendor: OceanBase Migration Service, "Data formats" (Chinese edition, document 415643), sections
"Default JSON" and "DefaultExtendColumnType JSON".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from ingest.codes import Code
from ingest.ddl import is_truncate
from ingest.ddl_dialect import told
from ingest.errors import DecodeError
from ingest.events import KIND_OF, Event, Row
from ingest.formats.envelope import Scalar, micros_of, split_sequence, text_of
from ingest.formats.event_types import paired
from ingest.formats.format import Decoder, Format, FormatOptions, Loss, Message, Option, TopLevel
from ingest.formats.light_types import LightTypes
from ingest.formats.oms_keys import key_names, sent_key
from ingest.jsontext import decoder as json_decoder
from ingest.jsontext import image, parse
from ingest.types import family_of

_OPS = {
    "INSERT": "insert",
    "UPDATE": "update",
    "DELETE": "delete",
    "ROW": "snapshot",
    "HEARTBEAT": "heartbeat",
    "DDL": "ddl",
}
_NO_IMAGE = msgspec.Raw(b"")
_NULL = (b"null", b"")


class _Meta(msgspec.Struct, gc=False):
    record_primary_key: str | None = None
    record_primary_value: Scalar = None
    dbType: str | None = None
    storeDataSequence: Scalar = None
    table_name: str | None = None
    db: str | None = None
    timestamp: Scalar = None
    uniqueId: Scalar = None
    transId: Scalar = None


class _Record(msgspec.Struct, gc=False):
    recordType: str | None = None
    allMetaData: _Meta | None = None
    prevStruct: msgspec.Raw = _NO_IMAGE
    postStruct: msgspec.Raw = _NO_IMAGE


_RECORD = json_decoder(_Record)


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one record a message."""
    unit = options.options.get("sequence_unit", "auto")
    light_types = LightTypes(options)

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        record = parse(message.value or b"", _RECORD.decode, warnings)
        word = record.recordType
        op = _OPS.get(word or "") or _OPS.get((word or "").upper())
        if op is None:
            raise DecodeError(
                Code.UNKNOWN_OP, f"expected recordType {', '.join(_OPS)}, got {word!r}"
            )
        meta = record.allMetaData or _Meta()
        event = Event(
            op=op,
            kind=KIND_OF[op],
            op_raw=word,
            db=_database(meta.db, meta.dbType),
            table=meta.table_name or None,
            storeDataSequence=text_of(meta.storeDataSequence),
            order=split_sequence(meta.storeDataSequence, unit),
            snapshot=op == "snapshot",
            event_time=micros_of(meta.timestamp, warnings, 1),
            tx_id=text_of(meta.uniqueId) or text_of(meta.transId),
            warnings=warnings,
        )
        if op == "ddl":
            event.dialect = told(meta.dbType)
            _state(event, record, warnings)
        elif op != "heartbeat":
            _change(event, record, meta, light_types)
        yield event

    return decode


@lru_cache(maxsize=4096)
def _database(db: str | None, kind: str | None) -> str | None:
    """The database; OceanBase sources put their tenant and a dot in front of it."""
    if db is not None and "." in db and (kind or "").upper().startswith(("OB_", "OCEAN")):
        return db.partition(".")[2]
    return db or None


_family = lru_cache(maxsize=256)(family_of)


def _state(event: Event, record: _Record, warnings: list[str]) -> None:
    """A DDL record: `postStruct` is `{"ddl": "<statement>"}` and nothing else."""
    statement = (image(record.postStruct, warnings) or {}).get("ddl")
    if statement.__class__ is str and statement:
        event.ddl = statement
        if is_truncate(statement):
            event.op, event.kind = "truncate", "change"
    else:
        warnings.append(Code.DDL_TEXT_MISSING.value)


def _change(event: Event, record: _Record, meta: _Meta, light_types: LightTypes) -> None:
    warnings = event.warnings
    assert warnings is not None
    names = (event.db, None, event.table)
    family = _family(meta.dbType)
    sent: Row | None = None
    before_image: str | None = None
    raw, table = light_types.split(record.postStruct, names, family)
    if bytes(record.prevStruct) not in _NULL:
        raw_before, before_table = light_types.split(record.prevStruct, names, family)
        # Either image may name the types of both.
        table = table if table.sent else before_table
        before_table = before_table if before_table.sent else table
        sent, before_image = before_table.read(raw_before, warnings)
    row, after_image = table.read(raw, warnings)
    before, after = paired(event.op, sent, row, warnings)
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


FORMAT = Format(
    decoder=decoder,
    order="source",
    summary="OceanBase Migration Service, Default JSON and DefaultExtendColumnType",
    source="OceanBase OMS, Data formats, https://help.aliyun.com/document_detail/415643.html",
    recognised="an object with recordType and allMetaData; __light_type in an image types it",
    ordered="by storeDataSequence, its time and its counter compared one by one; without it "
    "(sequenceEnabled=false) set order: arrival; ROW is a snapshot row",
    recognise=_recognise,
    options={
        "sequence_unit": Option(
            "choice",
            "auto",
            "unit of the time in front of storeDataSequence; auto: milliseconds from 16 digits on",
            ("auto", "seconds", "milliseconds"),
        )
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
        Loss(
            "nulls of large objects",
            "an update leaves out, as null on both sides, what did not change; so such a null "
            "is unavailable, not NULL",
        ),
    ),
)
