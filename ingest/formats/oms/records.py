"""The record of OMS Default: its envelope, and what that says of its event besides the rows.

Vendor: OceanBase Migration Service, "Data formats" (Chinese edition, document 415643), section
"Default JSON".
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import KIND_OF, Event
from ingest.formats.oms.extended_types import LightTypes
from ingest.values.jsontext import decoder as json_decoder
from ingest.values.source_types import family_of
from ingest.wire.contract import FormatOptions, TableName
from ingest.wire.scalars import Scalar, micros_of, split_sequence, text_of
from ingest.wire.typed_rows import TypedRows

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
_family = lru_cache(maxsize=256)(family_of)


class Meta(msgspec.Struct, gc=False):
    """`allMetaData`."""

    record_primary_key: str | None = None
    record_primary_value: Scalar = None
    dbType: str | None = None
    storeDataSequence: Scalar = None
    source_identity: Scalar = None
    ddlType: str | None = None
    clusterId: Scalar = None
    table_name: str | None = None
    db: str | None = None
    timestamp: Scalar = None
    uniqueId: Scalar = None
    transId: Scalar = None


class Record(msgspec.Struct, gc=False):
    """One message."""

    recordType: str | None = None
    allMetaData: Meta | None = None
    prevStruct: msgspec.Raw = _NO_IMAGE
    postStruct: msgspec.Raw = _NO_IMAGE


RECORD = json_decoder(Record)


def op_of(record: Record) -> str:
    """The operation, in the product's words. Raises unknown_op."""
    word = record.recordType
    op = _OPS.get(word or "") or _OPS.get((word or "").upper())
    if op is None:
        raise DecodeError(Code.UNKNOWN_OP, f"expected recordType {', '.join(_OPS)}, got {word!r}")
    return op


def tenant_and_database(meta: Meta, options: FormatOptions) -> tuple[str | None, str | None]:
    """The tenant of OceanBase, if there is one, and the database. Raises unsupported."""
    return _names(meta.db, meta.dbType, options.options.get("tenant") or None)


def record_event(
    record: Record, meta: Meta, options: FormatOptions, *, warnings: list[str]
) -> Event:
    """What a record says besides its images. Raises unknown_op, unsupported, bad_value."""
    op = op_of(record)
    unit = options.options.get("sequence_unit", "auto")
    tenant, db = tenant_and_database(meta, options)
    return Event(
        op=op,
        kind=KIND_OF[op],
        op_raw=record.recordType,
        db=db,
        table=meta.table_name or None,
        storeDataSequence=text_of(meta.storeDataSequence),
        order=split_sequence(meta.storeDataSequence, unit, warnings, time=meta.timestamp),
        snapshot=op == "snapshot",
        event_time=micros_of(meta.timestamp, warnings, 1),
        tx_id=text_of(meta.uniqueId) or text_of(meta.transId),
        extra=extra_of(tenant, meta),
        warnings=warnings,
    )


class Images(NamedTuple):
    """The images of a record without their types, each with the columns by which it is read;
    `before` is None if there is none."""

    before: bytes | None
    before_table: TypedRows
    after: bytes
    table: TypedRows


def split_images(
    record: Record, names: TableName, meta: Meta, *, light_types: LightTypes
) -> Images:
    """The images of table `names`; either may name the types for both."""
    family = _family(meta.dbType)
    raw, table = light_types.split(record.postStruct, names, family)
    if bytes(record.prevStruct) in _NULL:
        return Images(None, table, raw, table)
    before, before_table = light_types.split(record.prevStruct, names, family)
    table = table if table.sent else before_table
    return Images(before, before_table if before_table.sent else table, raw, table)


@lru_cache(maxsize=4096)
def _names(db: str | None, kind: str | None, tenant: str | None) -> tuple[str | None, str | None]:
    """Tenant and database; OceanBase sources put their tenant and a dot in front.

    Raises unsupported for a tenant that is not the source's. If the source names none, gold makes
    sure that a table belongs to one tenant.
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


def extra_of(tenant: str | None, meta: Meta) -> dict[str, str] | None:
    """What else is kept of a record: who sent it."""
    found = {}
    if tenant is not None:
        found["tenant"] = tenant
    # Of a full load it is a number that means nothing.
    if (identity := text_of(meta.source_identity)) is not None:
        found["source_identity"] = identity
    if meta.ddlType:
        found["ddlType"] = meta.ddlType
    if meta.clusterId is not None:
        found["clusterId"] = str(meta.clusterId)
    return found or None
