"""OceanBase Cloud data subscription, Avro: records named AvroRecord, in every encoding of Avro.

Vendor: OceanBase Cloud, "Message formats" of data subscription
(https://en.oceanbase.com/docs/oceanbase-cloud), "Avro JSON message format".

The vendor does not say how the records are framed: bare data, object containers, Confluent's
framing, Avro's single-object and JSON encodings are all read.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingest.codes import Code
from ingest.ddl.dialect import dialect_of_database
from ingest.ddl.parse import is_truncate
from ingest.errors import DecodeError
from ingest.events import KIND_OF, Event, Row
from ingest.formats.oceanbase.chunks import BUNDLE
from ingest.formats.oceanbase.encodings import recognise, recognise_bytes, records
from ingest.formats.oceanbase.record import Image, Record, image_of
from ingest.formats.oceanbase.types import large, source_types
from ingest.memo import Memo
from ingest.values.source_types import family_of
from ingest.wire.avro.fields import Fields
from ingest.wire.clock import ZONES_OF_INSTANTS, epoch_micros
from ingest.wire.contract import (
    Decoder,
    Format,
    FormatOptions,
    Loss,
    Message,
    Option,
    TableName,
)
from ingest.wire.contradictions import refuse_rows
from ingest.wire.event_types import paired
from ingest.wire.shown_types import ShownTypes

_OPS = {
    **{"INSERT": "insert", "UPDATE": "update", "DELETE": "delete", "DDL": "ddl"},
    **{"BEGIN": "begin", "COMMIT": "commit", "HEARTBEAT": "heartbeat"},
}
_ROWS = frozenset(("insert", "update", "delete"))


class _Table:
    """What is known of one table: the types that its rows show, and its large objects."""

    def __init__(self, names: TableName, fields: Fields, family: str, *, options: FormatOptions):
        self.columns = fields.names
        self.repeated = len(set(self.columns)) < len(self.columns)
        self.types = ShownTypes(
            names,
            self.columns,
            options,
            family=family,
            source_type=source_types(family, fields.numbers),
        )
        sure, perhaps = large(fields.numbers)
        self._sure = frozenset(self.columns[index] for index in sure)
        self._perhaps = frozenset(self.columns[index] for index in perhaps)

    def row(self, image: Image | None, warnings: list[str]) -> Row | None:
        """The image by column name."""
        if image is None:
            return None
        row = dict(zip(self.columns, image.values, strict=True))
        if self.repeated:
            warnings.append(Code.DUP_KEY.value)
        self.types.as_declared(row, warnings)
        return row or None

    def withhold(self, before: Row | None, after: Row | None) -> list[str]:
        """Removes the large objects whose NULL says nothing from the images; returns their names.

        OceanBase's log leaves out, as NULL on both sides, every large object that an update does
        not change, and in a delete no NULL of a large object can be trusted (OMS, limits of
        synchronisation). If an update has no row before, nothing tells the two apart.
        """
        sent = after if before is None else before
        if sent is None or None not in sent.values():
            return []
        lobs = self._sure if after is None else self._perhaps
        lost = [
            name
            for name, value in sent.items()
            if value is None and name in lobs and (after is None or after.get(name, "") is None)
        ]
        for image in (before, after):
            if image is not None:
                for name in lost:
                    del image[name]
        return lost


def decoder(options: FormatOptions) -> Decoder:
    """Decodes the records of a message: one, or all of a container."""
    return _Decoding(options).events


class _Decoding:
    """Decodes under one source's options; remembers how the columns of each table are read."""

    def __init__(self, options: FormatOptions) -> None:
        self._options = options
        self._tenant = options.options.get("tenant") or None
        self._ids = frozenset(options.options.get("schema_ids") or ())
        self._tables: Memo[tuple[TableName, str, Fields], _Table] = Memo(most=10_000)

    def events(self, message: Message) -> Iterator[Event]:
        """The events of a message's records: one, or all of a container."""
        try:
            yield from [self._event(record) for record in records(message, self._ids)]
        except DecodeError as error:
            bundle = (message.value or b"").startswith(BUNDLE)
            if not bundle or error.code is Code.FRAGMENT_INCOMPLETE:
                raise
            # Whatever is wrong with it, the record does not belong to the last shard's message.
            raise DecodeError(
                Code.FRAGMENT_INCOMPLETE, f"{error.text} (of shards put together)"
            ) from None

    def _event(self, record: Record) -> Event:
        warnings = record.warnings
        op = _OPS.get(record.operation or "")
        if op is None:
            raise DecodeError(
                Code.UNKNOWN_OP, f"expected operation {', '.join(_OPS)}, got {record.operation!r}"
            )
        family = family_of(record.source)
        names = _names(record, family, self._tenant)
        if record.version != 1:
            warnings.append(Code.UNKNOWN_VERSION.value)
        if op == "ddl":
            if not record.sql:
                warnings.append(Code.DDL_TEXT_MISSING.value)
            elif is_truncate(record.sql):
                op = "truncate"
        stated = op in ("ddl", "truncate")
        event = Event(
            op=op,
            kind=KIND_OF[op],
            op_raw=record.operation,
            db=names[0],
            schema=names[1],
            table=names[2],
            id=str(record.id),
            scn=record.position,
            order=(record.id,),
            number=0,
            event_time=None
            if record.timestamp is None
            else epoch_micros(record.timestamp, warnings, 1),
            tx_id=record.transaction,
            ddl=record.sql if stated else None,
            dialect=dialect_of_database(record.source) if stated else None,
            warnings=warnings,
        )
        if op in _ROWS:
            if record.shards > 1:
                event.kind = "fragment"
                warnings.append(Code.SHARD.value)
                event.key_columns = _columns(record.primary, record.fields, warnings)
            else:
                fields = record.fields or Fields((), ())
                _images(event, record, self._table(names, family, fields))
        else:
            refuse_rows(record.operation, *(i.values for i in (record.before, record.after) if i))
        return event

    def _table(self, names: TableName, family: str, fields: Fields) -> _Table:
        place = names, family, fields
        found = self._tables.get(place)
        if found is None:
            found = self._tables[place] = _Table(names, fields, family, options=self._options)
        return found


def _names(record: Record, family: str, tenant: str | None) -> TableName:
    """Database (MySQL mode) or schema (Oracle mode), without the name of the configured tenant."""
    name = record.schema
    if name and tenant and name.startswith(f"{tenant}."):
        name = name[len(tenant) + 1 :]
    if family == "oracle":
        return None, name or None, record.table or None
    return name or None, None, record.table or None


def _images(event: Event, record: Record, table: _Table) -> None:
    warnings = record.warnings
    images = (
        image_of(record.before, record.fields, "before"),
        image_of(record.after, record.fields, "after"),
    )
    rows = [table.row(image, warnings) for image in images]
    before, after = paired(event.op, rows[0], rows[1], warnings=warnings)
    for image, row in zip(images, (before, after), strict=True):
        if image is not None and row is not None:
            event.types = table.types.of(image.words)
    keys = _columns(record.primary, record.fields, warnings)
    event.key_columns = keys or _unique(record, before, after, warnings=warnings)
    lost = table.withhold(before, after) if event.op in ("update", "delete") else []
    word = "full"
    if lost:
        event.unavailable = lost
        warnings.append(Code.PARTIAL_IMAGE.value)
        word = "partial"
    event.before, event.before_image = before, word if before is not None else None
    event.after, event.after_image = after, word if after is not None else None


def _columns(
    indexes: list[int] | None, fields: Fields | None, warnings: list[str]
) -> tuple[str, ...] | None:
    """The columns at `indexes`, counted from 0, or from 1 if they cannot be counted from 0."""
    if not indexes or fields is None:
        return None
    size = len(fields.names)
    if min(indexes) > 0 and max(indexes) == size:
        warnings.append(Code.KEY_SPLIT.value)
        indexes = [index - 1 for index in indexes]
    if min(indexes) < 0 or max(indexes) >= size:
        raise DecodeError(
            Code.BAD_VALUE, f"expected key positions among {size} fields, got {indexes[:20]}"
        )
    return tuple(fields.names[index] for index in indexes)


def _unique(
    record: Record, before: Row | None, after: Row | None, *, warnings: list[str]
) -> tuple[str, ...] | None:
    """The first unique key without a NULL in the row."""
    for indexes in record.unique or ():
        names = _columns(indexes, record.fields, warnings)
        if names and all(
            row.get(name) is not None
            for row in (before, after)
            if row is not None
            for name in names
        ):
            return names
    return None


FORMAT = Format(
    decoder=decoder,
    order="source",
    summary="OceanBase Cloud data subscription, Avro records AvroRecord, split ones put together",
    source="OceanBase Cloud, Message formats, https://en.oceanbase.com/docs/oceanbase-cloud",
    recognised="the bytes are one AvroRecord to the last (bare, behind Confluent's five bytes or "
    "a single-object header), a container of them, or JSON with operation and afterImages",
    ordered="by id; a record split into shards stands at its last shard's",
    recognise=recognise,
    recognise_bytes=recognise_bytes,
    shards=True,
    ends="the record COMMIT",
    options={
        "tenant": Option(
            "text",
            "",
            "the tenant whose name and a dot stand before schemaName: they are taken off; those of "
            "another stay a part of the name, so that the tables of two tenants are two",
        ),
        "schema_ids": Option(
            "list",
            (),
            "the Confluent schema ids of AvroRecord; another id is set aside as unknown_schema_id; "
            "none given: any id",
        ),
        "shard_seconds": Option(
            "number",
            600,
            "how many seconds, of the source's clock or of the wall's, a record split into shards "
            "waits for the rest of them before it is set aside as fragment_incomplete",
            least=0,
        ),
    },
    impossible={
        "sequenceId": "a field of DataWorks StreamX",
        "storeDataSequence": "a field of OMS Default; here it is id",
        "sent_time": "the record has one time, when the log record was written",
        "snapshot": "a subscription sends the log alone; there is no operation of a full phase",
        "key image": "a delete has the whole row before, without untrusted large objects",
    },
    losses=(
        Loss(
            "txind, tags, the database's version",
            "the place in the transaction and the version say nothing of the change, tags are "
            "empty today: bronze alone has them",
        ),
        Loss(
            "nulls of large objects",
            "an update leaves out, as null on both sides, what did not change; so such a null "
            "is unavailable, not NULL",
        ),
        Loss(
            "booleans",
            "MySQL's BOOLEAN is a TINYINT and comes as one, 0 or 1",
            mended=True,
        ),
        Loss(
            "digits of Oracle's FLOAT",
            "a decimal of up to 126 binary digits comes as Avro's FLOAT, of some seven decimal "
            "ones: NUMBER comes with all of its own",
        ),
        ZONES_OF_INSTANTS,
    ),
)
