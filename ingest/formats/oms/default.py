"""OMS Default JSON, and DefaultExtendColumnType, its variant with column types in the images.

Vendor: OceanBase Migration Service, "Data formats" (Chinese edition, document 415643), sections
"Default JSON" and "DefaultExtendColumnType JSON".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from ingest.codes import Code
from ingest.ddl.dialect import dialect_of_database
from ingest.ddl.parse import is_truncate
from ingest.errors import DecodeError
from ingest.events import KIND_OF, Event, Row
from ingest.formats.oms.extended_types import LightTypes
from ingest.formats.oms.keys import key_names, sent_key
from ingest.values.jsontext import decoder as json_decoder
from ingest.values.jsontext import image, parse
from ingest.values.source_types import family_of
from ingest.wire.contract import (
    SPACES_OF_JSON,
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    Option,
    TopLevel,
)
from ingest.wire.contradictions import refuse_rows
from ingest.wire.event_types import paired
from ingest.wire.scalars import Scalar, micros_of, split_sequence, text_of

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
    source_identity: str | None = None
    ddlType: str | None = None
    clusterId: Scalar = None
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
    tenant = options.options.get("tenant") or None
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
        owner, db = _names(meta.db, meta.dbType, tenant)
        event = Event(
            op=op,
            kind=KIND_OF[op],
            op_raw=word,
            db=db,
            table=meta.table_name or None,
            storeDataSequence=text_of(meta.storeDataSequence),
            order=split_sequence(meta.storeDataSequence, unit, warnings, time=meta.timestamp),
            snapshot=op == "snapshot",
            event_time=micros_of(meta.timestamp, warnings, 1),
            tx_id=text_of(meta.uniqueId) or text_of(meta.transId),
            extra=_extra(owner, meta),
            warnings=warnings,
        )
        if op == "ddl":
            event.dialect = dialect_of_database(meta.dbType)
            _state(event, record, warnings)
        elif op == "heartbeat":
            refuse_rows(word, record.prevStruct, record.postStruct)
        else:
            _change(event, record, meta, light_types=light_types)
        yield event

    return decode


@lru_cache(maxsize=4096)
def _names(db: str | None, kind: str | None, tenant: str | None) -> tuple[str | None, str | None]:
    """Tenant and database; OceanBase sources put their tenant and a dot in front.

    Raises unsupported for a tenant that is not the source's one. Where the source names none, gold
    sees to it that a table is one tenant's.
    """
    if db is None or "." not in db or not (kind or "").upper().startswith(("OB_", "OCEAN")):
        return None, db or None
    owner, _, rest = db.partition(".")
    if tenant is not None and owner != tenant:
        raise DecodeError(
            Code.UNSUPPORTED,
            f"expected messages of the OceanBase tenant {tenant!r}, which options.tenant names, "
            f"got one of {owner!r}",
        )
    return owner or None, rest or None


def _extra(tenant: str | None, meta: _Meta) -> dict[str, str] | None:
    found = {}
    if tenant is not None:
        found["tenant"] = tenant
    if meta.source_identity:
        found["source_identity"] = meta.source_identity
    if meta.ddlType:
        found["ddlType"] = meta.ddlType
    if meta.clusterId is not None:
        found["clusterId"] = str(meta.clusterId)
    return found or None


_family = lru_cache(maxsize=256)(family_of)


def _state(event: Event, record: _Record, warnings: list[str]) -> None:
    """A DDL record: one of its images is `{"ddl": "<statement>"}` and nothing else.

    Documented is `postStruct`. Raises contradiction where there are columns beside it.
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


def _change(event: Event, record: _Record, meta: _Meta, *, light_types: LightTypes) -> None:
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


FORMAT = Format(
    decoder=decoder,
    order="source",
    summary="OceanBase Migration Service, Default JSON and DefaultExtendColumnType",
    source="OceanBase OMS, Data formats, https://help.aliyun.com/document_detail/415643.html",
    recognised="an object with recordType and allMetaData; __light_type in an image types it",
    ordered="by storeDataSequence, its time and its counter compared one by one; without it "
    "(sequenceEnabled=false) set order: arrival; ROW is a snapshot row",
    recognise=_recognise,
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
        Loss(
            "nulls of large objects",
            "an update leaves out, as null on both sides, what did not change; so such a null "
            "is unavailable, not NULL",
        ),
        Loss("checkpoint", "allMetaData.checkpoint is OMS's own position: bronze alone has it"),
        SPACES_OF_JSON,
    ),
)
