"""OMS SharePlex JSON.

Vendor: OceanBase Migration Service, "Data formats" (Chinese edition, document 415643), section
"SharePlex JSON". An update sends the whole row before it in `key` and what it changed in `data`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event, Row
from ingest.formats.oms.keys import JOINER
from ingest.formats.oms.types import OmsTypes
from ingest.names import declared_for, lowered
from ingest.values.jsontext import decoder as json_decoder
from ingest.values.jsontext import members, parse
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
)
from ingest.wire.event_types import paired
from ingest.wire.scalars import Scalar, split_sequence, text_of
from ingest.wire.typed_rows import TypedRows

_OPS = {"ins": "insert", "upd": "update", "del": "delete"}
_NO_IMAGE = msgspec.Raw(b"")


class _Meta(msgspec.Struct, gc=False):
    op: str | None = None
    table: str | None = None
    time: str | None = None
    posttime: Any = None
    rowid: str | None = None
    trans: Scalar = None
    seq: Scalar = None
    scn: Scalar = None
    userid: Any = None


class _Record(msgspec.Struct, gc=False):
    meta: _Meta
    data: msgspec.Raw = _NO_IMAGE
    key: msgspec.Raw = _NO_IMAGE


_RECORD = json_decoder(_Record)
_MARKS = frozenset(("rowid", "scn", "posttime"))
"""Names in `meta` that appear in no other format's messages."""


def decoder(options: FormatOptions) -> Decoder:
    """Decodes one record a message."""
    unit = options.options.get("sequence_unit", "auto")
    family = options.options.get("dialect", "mysql")
    clock = Clock(options.time_zone)
    types = OmsTypes(options)

    def decode(message: Message) -> Iterator[Event]:
        warnings: list[str] = []
        record = parse(message.value or b"", _RECORD.decode, warnings)
        meta = record.meta
        if meta.userid is not None:
            raise DecodeError(
                Code.UNSUPPORTED,
                "expected a record of OMS, which imitates SharePlex, got one of SharePlex's own "
                "(meta.userid), as Aliyun DTS writes it too: its scn is Oracle's and orders "
                "otherwise; of DTS, choose DTS Avro or Canal Json",
            )
        op = _OPS.get((meta.op or "").lower())
        if op is None:
            raise DecodeError(
                Code.UNKNOWN_OP, f"expected meta.op {', '.join(_OPS)}, got {meta.op!r}"
            )
        db, table = _names(meta.table)
        columns = types.of((db, None, table), family=family, key=None, sent=dict)
        event = Event(
            op=op,
            op_raw=meta.op,
            db=db,
            table=table,
            key=_row_id(meta, warnings),
            scn=text_of(meta.scn),
            order=split_sequence(meta.scn, unit, warnings),
            event_time=clock.micros(meta.time, warnings),
            sent_time=clock.sent_micros(meta.posttime, warnings),
            tx_id=text_of(meta.trans),
            extra=None if meta.seq is None else {"seq": str(meta.seq)},
            types=columns.types,
            warnings=warnings,
        )
        _images(event, record, columns, warnings=warnings)
        names = declared_for(options.keys, options.completed((db, None, table)))
        row = event.after if event.after is not None else event.before or {}
        has = lowered(row) >= lowered(names)
        if event.key and len(names) == len(event.key) and not has:
            # Columns that the update did not change are not in its row.
            event.key_columns = tuple(names)
            event.key = dict(zip(names, event.key.values(), strict=True))
        yield event

    return decode


def _names(text: str | None) -> tuple[str | None, str | None]:
    """Database and table of `{database}.{table}`; OMS allows no dot in either."""
    if text is None or "." not in text:
        return None, text or None
    db, _, table = text.partition(".")
    return db or None, table or None


def _row_id(meta: _Meta, warnings: list[str]) -> Row | None:
    """The key's values by their number, "0" first, since the message does not name the columns.

    `rowid` is the table, a hyphen, and the values joined by U+0001.
    """
    if not meta.rowid:
        return None
    prefix = f"{meta.table}-"
    if not meta.rowid.startswith(prefix):
        warnings.append(Code.KEY_SPLIT.value)
        return None
    parts = meta.rowid[len(prefix) :].split(JOINER)
    return {str(number): part for number, part in enumerate(parts)}


def _images(event: Event, record: _Record, table: TypedRows, *, warnings: list[str]) -> None:
    data, _ = table.read(record.data, warnings)
    if event.op == "insert":
        _, event.after = paired("insert", None, data, warnings=warnings)
    elif event.op == "delete":
        event.before, _ = paired("delete", data, None, warnings=warnings)
        event.unavailable = table.withhold("delete", event.before, None)
    else:
        before, _ = table.read(record.key, warnings)
        changed = data or {}
        if before is None:
            _, event.after = paired("update", None, data, warnings=warnings)
        else:
            if not before.keys() >= changed.keys():
                warnings.append(Code.OLD_MISSING.value)
            event.before, event.after = before, {**before, **changed}
            event.unavailable = _unchanged(before, event.after, changed, table=table)
            # Only unchanged large objects may have stood there.
            event.before = event.before or None
    # Without `key`, an update tells only what changed.
    partial = event.unavailable or (event.op == "update" and event.before is None)
    word = "partial" if partial else "full"
    if partial:
        warnings.append(Code.PARTIAL_IMAGE.value)
    event.before_image = word if event.before is not None else None
    event.after_image = word if event.after is not None else None


def _unchanged(before: Row, after: Row, changed: Row, *, table: TypedRows) -> list[str]:
    """Takes out the NULLs that stand for an unchanged large object; a NULL in `changed` is one."""
    written = {name for name, value in changed.items() if value is None}
    if not written:
        return table.withhold("update", before, after)
    rest = {name: value for name, value in before.items() if name not in written}
    gone = table.withhold("update", rest, after)
    for name in gone:
        del before[name]
    return gone


def _recognise(top: TopLevel) -> bool:
    if "meta" not in top or "data" not in top or not bytes(top["meta"]).startswith(b"{"):
        return False
    meta = members(top["meta"])
    return "op" in meta and "table" in meta and not _MARKS.isdisjoint(meta)


FORMAT = Format(
    decoder=decoder,
    order="source",
    summary="OceanBase Migration Service, SharePlex JSON",
    source="OceanBase OMS, Data formats, https://help.aliyun.com/document_detail/415643.html",
    recognised="an object with data and meta, meta with op, table, and rowid, scn or posttime",
    ordered="by meta.scn, its time and its counter compared one by one; without it "
    "(sequenceEnabled=false) set order: arrival",
    recognise=_recognise,
    envelope=("meta",),
    options={
        "sequence_unit": Option(
            "choice",
            "auto",
            "unit of the time in front of meta.scn; auto: milliseconds from 16 digits on",
            ("auto", "seconds", "milliseconds"),
        ),
        "dialect": Option(
            "choice",
            "mysql",
            "the database whose types the source's columns name",
            ("mysql", "oracle"),
        ),
    },
    impossible={
        "schema": "meta.table is {database}.{table}",
        "id": "the record has no number of its own",
        "sequenceId": "a field of DataWorks alone; here it is meta.scn",
        "storeDataSequence": "the same number is meta.scn",
        "ddl": "the format has no DDL messages",
        "key image": "data and key hold rows, meta.rowid the key beside them",
        "snapshot": "meta.op is ins, upd or del; rows of the full load come as ins",
    },
    losses=(
        Loss("idx and size", "OMS declares them void: bronze alone has them"),
        Loss(
            "nulls of large objects",
            "an update leaves out, as null on both sides, what did not change; so such a null "
            "is unavailable, not NULL",
        ),
        ZONES_OF_INSTANTS,
        SPACES_OF_JSON,
    ),
)
