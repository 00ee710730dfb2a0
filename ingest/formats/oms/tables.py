"""OMS Default read by column: the regular row changes of a batch, table by table.

A record is regular if its envelope is like the others of its topic and its images have the same
columns with scalar values, none of which is a large object that may have been left out. It is read
by the functions that read a single record: `op_of`, `record_event` and those that it calls,
`split_images`, `sent_key`, `TypedRows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats.oms.extended_types import LightTypes
from ingest.formats.oms.keys import key_columns, key_names, sent_key
from ingest.formats.oms.records import (
    Images,
    Meta,
    Record,
    extra_of,
    op_of,
    record_event,
    split_images,
    tenant_and_database,
)
from ingest.values import jsontext
from ingest.wire.contract import Changes, FormatOptions, Message, TableName
from ingest.wire.forms import Forms, Part
from ingest.wire.scalars import micros_of, split_sequence, text_of
from ingest.wire.text_columns import SentImages, TextRows, columns_of, read_tables, text_rows
from ingest.wire.typed_rows import TypedRows
from ingest.wire.varying import Varying, varying, varying_of_each

_ROWS = ("insert", "update", "delete", "snapshot")
_NO_IMAGE = (b"", b"null")
_FORM = Part(Record, {"allMetaData": Part(Meta)})


class _Sent(msgspec.Struct, gc=False):
    """One change as it was sent; `before` and `after` are places in the list of all images."""

    at: int
    op: str
    record: Record
    meta: Meta
    tenant: str | None
    db: str | None
    table: TypedRows
    before: int | None
    after: int | None


class _Table(NamedTuple):
    """What changes have in common that are read together; `keys`: their columns as sent."""

    names: TableName
    rows: TypedRows
    keys: str | None
    columns: tuple[str, ...]


class Tables:
    """Reads the regular changes of one source."""

    def __init__(self, options: FormatOptions) -> None:
        self._options = options
        self._light_types = LightTypes(options)
        self._forms: Forms[Record] = Forms(_FORM)

    def read(self, messages: Sequence[tuple[int, Message]]) -> list[Changes]:
        """The regular changes among messages, table by table."""
        texts: list[bytes] = []
        found: list[_Sent] = []
        for at, message in messages:
            value = message.value or b""
            record = self._forms.read(value, message.topic)
            sent = self._sent(at, record, texts) if record is not None else None
            if sent is not None:
                found.append(sent)
        images = SentImages(texts, jsontext.plain_images(texts, marked=False))
        return read_tables(
            _tables(found, images.read),
            lambda table, group: _changes(table, group, images, options=self._options),
        )

    def _sent(self, at: int, record: Record, texts: list[bytes]) -> _Sent | None:
        """A change with its images, which join `texts`; None if the message is not regular."""
        meta = record.allMetaData
        if meta is None:
            return None
        try:
            op = op_of(record)
            if op not in _ROWS:
                return None
            tenant, db = tenant_and_database(meta, self._options)
            names = (db, None, meta.table_name or None)
            images = split_images(record, names, meta, light_types=self._light_types)
        except DecodeError:
            return None
        has_after = images.after not in _NO_IMAGE
        if not _fits(op, images, has_after):
            return None
        before = after = None
        if images.before is not None:
            before = len(texts)
            texts.append(images.before)
        if has_after:
            after = len(texts)
            texts.append(images.after)
        return _Sent(at, op, record, meta, tenant, db, images.table, before, after)


def _tables(
    found: list[_Sent], images: Sequence[dict[str, Any] | None]
) -> dict[_Table, list[_Sent]]:
    """The changes by their table, without those with an image that is not regular."""
    tables: dict[_Table, list[_Sent]] = {}
    last: _Table | None = None
    group: list[_Sent] = []
    for sent in found:
        columns = columns_of(images, sent.before, sent.after)
        if columns is not None:
            names = (sent.db, None, sent.meta.table_name or None)
            table = _Table(names, sent.table, sent.meta.record_primary_key, columns)
            # A change mostly has the table of the one before.
            if table != last:
                last, group = table, tables.setdefault(table, [])
            group.append(sent)
    return tables


def _fits(op: str, images: Images, has_after: bool) -> bool:
    """Whether a change has the images of its op, and one set of types for both."""
    if images.before is not None and images.before_table is not images.table:
        return False
    if op == "delete":
        return images.before is not None and not has_after
    return has_after and (op == "update" or images.before is None)


def _changes(
    table: _Table, group: list[_Sent], images: SentImages, *, options: FormatOptions
) -> list[Changes]:
    """The changes of a table; those in which the same columns are unavailable come together."""
    keys = key_names(table.keys)
    if not keys.issubset(table.columns):
        return []
    places = [at for one in group for at in (one.before, one.after) if at is not None]
    rows = text_rows(images, places, table.rows.readings(table.columns))
    differing = _varying_of(group, options)
    losses = _losses(table, group, rows, keys=keys)
    groups: dict[tuple[int, ...], list[int]] = {}
    for at, (sent, warnings, lost) in enumerate(
        zip(group, differing.warnings, losses, strict=True)
    ):
        if warnings is None or sent.before in rows.odd or sent.after in rows.odd:
            continue
        if len(lost) < len(table.columns):
            groups.setdefault(lost, []).append(at)
    return [
        _with_losses(table, [group[at] for at in kept], rows, fields=differing.of(kept), lost=lost)
        for lost, kept in groups.items()
    ]


def _losses(
    table: _Table, group: list[_Sent], rows: TextRows, *, keys: frozenset[str]
) -> list[tuple[int, ...]]:
    """For each change, the places of the columns whose NULL says nothing."""
    withheld: dict[tuple[str, bool], list[int]] = {}
    for op in _ROWS:
        for paired in (True, False):
            names = set(table.rows.withheld(op, table.columns, keys=keys, paired=paired))
            places = [at for at, name in enumerate(table.columns) if name in names]
            withheld[op, paired] = places
    if not any(withheld.values()):
        return [()] * len(group)
    befores = rows.of([sent.before for sent in group])
    afters = rows.of([sent.after for sent in group])
    return [
        tuple(
            [
                at
                for at in withheld[sent.op, before is not None]
                if (before is None or before[at] is None) and (after is None or after[at] is None)
            ]
        )
        for sent, before, after in zip(group, befores, afters, strict=True)
    ]


def _warn(
    table: _Table,
    group: list[_Sent],
    listed: Sequence[list[str]],
    *,
    rows: TextRows,
    lost: tuple[int, ...],
) -> None:
    """Adds to the warnings of the changes: those of their images and keys, and what is missing."""
    of_columns = table.rows.shape(table.columns).warnings
    keys = key_columns(table.keys)
    columns: dict[str, str | None] = dict.fromkeys(table.columns)
    for sent, warnings in zip(group, listed, strict=True):
        for place in (sent.before, sent.after) if of_columns or rows.doubts else ():
            if place is not None:
                warnings += of_columns
                warnings += rows.doubts.get(place, ())
        if sent.op == "update" and sent.before is None:
            warnings.append(Code.OLD_MISSING.value)
        if lost:
            warnings.append(Code.PARTIAL_IMAGE.value)
        if keys is not None and len(keys) > 1:
            values = sent.meta.record_primary_value
            sent_key(table.keys, values, row=columns, before=None, warnings=warnings)


def _with_losses(
    table: _Table,
    group: list[_Sent],
    rows: TextRows,
    *,
    fields: dict[str, Sequence[Any]],
    lost: tuple[int, ...],
) -> Changes:
    """The changes in which the same columns are unavailable."""
    _warn(table, group, fields["warnings"], rows=rows, lost=lost)
    word = "partial" if lost else table.rows.shape(table.columns).word
    db, schema, name = table.names
    event = Event(
        op="update",
        db=db,
        schema=schema,
        table=name,
        key_columns=key_columns(table.keys),
        unavailable=[table.columns[at] for at in lost] or None,
        types=table.rows.types,
    )
    images = {
        "before_image": [None if sent.before is None else word for sent in group],
        "after_image": [None if sent.after is None else word for sent in group],
    }
    return Changes(
        [sent.at for sent in group],
        event,
        {**fields, **images},
        table.columns,
        rows.of([sent.before for sent in group]),
        rows.of([sent.after for sent in group]),
    ).without(lost)


_FIELDS = (
    "op",
    "op_raw",
    "storeDataSequence",
    "order",
    "snapshot",
    "event_time",
    "tx_id",
    "extra",
)


def _varying_of(group: list[_Sent], options: FormatOptions) -> Varying:
    """What `record_event` says of each change."""
    return _plain_varying(group, options) or varying_of_each(
        group, lambda sent: record_event(sent.record, sent.meta, options, warnings=[]), _FIELDS
    )


def _plain_varying(group: list[_Sent], options: FormatOptions) -> Varying | None:
    """The same by column; None if a time or number of one is in doubt."""
    metas = [sent.meta for sent in group]
    unit = options.options.get("sequence_unit", "auto")
    doubts: list[str] = []
    try:
        # Records of one second have one time.
        times = {time: micros_of(time, doubts, 1) for time in {meta.timestamp for meta in metas}}
    except DecodeError:
        return None
    orders = [split_sequence(m.storeDataSequence, unit, doubts, time=m.timestamp) for m in metas]
    if doubts:
        return None
    fields: dict[str, Sequence[Any]] = {
        "op": [sent.op for sent in group],
        "op_raw": [sent.record.recordType for sent in group],
        "storeDataSequence": [text_of(meta.storeDataSequence) for meta in metas],
        "order": orders,
        "snapshot": [sent.op == "snapshot" for sent in group],
        "event_time": [times[meta.timestamp] for meta in metas],
        "tx_id": [text_of(meta.uniqueId) or text_of(meta.transId) for meta in metas],
        "extra": [extra_of(sent.tenant, sent.meta) for sent in group],
    }
    return varying(fields, len(group))
