"""Debezium's change events as JSON, with or without Connect's schema; CloudCanal's envelope too.

A message is one row change (`op`, `before`, `after`, `source`), or a schema change, transaction
boundary, heartbeat, notice or tombstone; a flattened row has the columns on top. The schema block,
where there is one, says how values are encoded; without it the source's `columns:` do. The id of a
JSON Schema may stand before it all (Confluent's JsonSchemaConverter); that schema is not asked.
Source: https://debezium.io/documentation/reference/3.6/ (3.6.3.Final; schemas of 3.7 accepted);
https://www.cloudcanalx.com/us/cc-doc/reference/kafka_msg_format_type (Debezium Envelope).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import UNSET

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats.debezium.declared import TIME_PRECISIONS
from ingest.formats.debezium.envelope import (
    LOSSES,
    Inner,
    Outer,
    of_cloud_event,
    refuse_chunked,
    refuse_named_types,
    wraps_payload,
)
from ingest.formats.debezium.events import heading_of, op_of_images, plain_event
from ingest.formats.debezium.flattened import OPERATION, TOPIC_NAMES, Flattened
from ingest.formats.debezium.keys import is_wrapped
from ingest.formats.debezium.mongodb import document_event
from ingest.formats.debezium.rows import NEW_KEY, NO_IMAGE, OLD_KEY, Rows
from ingest.formats.debezium.schema import OPENING, Block, Opening
from ingest.formats.debezium.tables import Tables
from ingest.formats.debezium.topics import (
    alters,
    control_event,
    is_control,
    is_schema_change,
    recognise,
    schema_change_event,
)
from ingest.formats.debezium.unavailable import DEFAULT, placeholder_bytes
from ingest.memo import Memo
from ingest.values import jsontext
from ingest.wire.avro.framing import framed_json
from ingest.wire.contract import (
    Decoder,
    Format,
    FormatOptions,
    Message,
    Option,
    TableDecoder,
)
from ingest.wire.contradictions import refuse_rows
from ingest.wire.doubled_names import check_names
from ingest.wire.unrecognised import advice_on_row

_OUTER, _INNER = msgspec.json.Decoder(Outer), msgspec.json.Decoder(Inner)
_IMAGES = {"before", "after"}
_OF_MATERIALIZE = _IMAGES | {"transaction"}
_ALTERS = "a"
"""CloudCanal's op of a schema change."""


class _Debezium:
    """The decoder of one source."""

    def __init__(self, options: FormatOptions) -> None:
        self._rows = Rows(options)
        self._flattened = Flattened(options, self._rows)
        self._openings: Memo[str, Opening] = Memo(most=1_000)

    def decode(self, message: Message) -> Iterator[Event]:
        """The event of one message. Raises DecodeError for a message that is none of Debezium's."""
        warnings: list[str] = []
        message = _unframed(message)
        value = message.value
        if not value or value == b"null":
            # this text is what Connect's JsonConverter writes for a tombstone, without schemas
            return iter((self._flattened.tombstone(message, warnings),))
        if not value.isascii():
            jsontext.check_utf8(value)
        try:
            return iter((self._event(value, message, warnings),))
        except jsontext.UNREADABLE:
            # read from its beginning, so that the error names the right place
            event = jsontext.parse(
                value, lambda v: self._event(v, message, warnings, whole=True), warnings
            )
            return iter((event,))

    def _event(
        self, value: bytes, message: Message, warnings: list[str], *, whole: bool = False
    ) -> Event:
        warnings.clear()
        opening = None if whole else self._openings.get(message.topic)
        block = None
        sent = value
        if opening is not None and value.startswith(opening.text):
            # two thirds of the message are the schema block that came before: read only the rest
            size = len(opening.text)
            if value[size : size + 1] == b",":
                block, value = opening.block, b"{" + value[size + 1 :]
        try:
            outer = _OUTER.decode(value)
        except msgspec.ValidationError as error:
            return self._unlike(
                jsontext.members(sent), sent, message, warnings=warnings, unfit=str(error)
            )
        if block is None or outer.schema:
            block = self._block(outer, sent, message)
        inner = outer.payload
        if inner is UNSET:
            inner = outer
        elif inner is None:
            top = jsontext.members(sent)
            if top.keys() <= {"schema", "payload"} or self._wraps(top, message):
                return self._flattened.tombstone(message, warnings)
            return self._unlike(top, sent, message, warnings=warnings, unfit=None)
        word = inner.op
        row = inner.source or inner.after or inner.before
        unlike = word is None or word == _ALTERS or inner.ddl is not None or not row
        if unlike or self._flattened.may_say(value):
            top = jsontext.members(sent)
            if unlike or self._says(top):
                return self._unlike(top, sent, message, warnings=warnings, unfit=None)
        return self._row(inner, block, message=message, warnings=warnings)

    def _wraps(self, top: Mapping[str, msgspec.Raw], message: Message) -> bool:
        """Whether a message is a payload with the number of its schema. If any object may be a row,
        it must have such a key, since a row may have these columns."""
        if not wraps_payload(top):
            return False
        return not self._flattened.admits(message) or is_wrapped(message.key)

    def _says(self, top: Mapping[str, msgspec.Raw]) -> bool:
        inside = jsontext.members(top["payload"]) if "payload" in top else top
        return self._flattened.says(top) or self._flattened.says(inside)

    def _block(self, outer: Outer, value: bytes, message: Message) -> Block:
        raw = bytes(outer.schema)
        block = self._rows.schemas.block(raw)
        if block.fields and value.startswith(OPENING) and value.startswith(raw, len(OPENING)):
            self._openings[message.topic] = Opening(OPENING + raw, block)
        return block

    def _row(self, inner: Inner, block: Block, *, message: Message, warnings: list[str]) -> Event:
        refuse_chunked(inner)
        heading = heading_of(inner, message.topic, warnings=warnings)
        op, source = heading.op, heading.source
        if op == "truncate" or op == "other":
            refuse_rows(inner.op or "", inner.before, inner.after)
            return plain_event(heading)
        if source.collection is not None:
            return document_event(
                inner, op, source, message=message, schemas=self._rows.schemas, warnings=warnings
            )
        rows = self._rows
        return rows.change(
            heading,
            before=rows.image(inner.before, warnings) if inner.before else NO_IMAGE,
            after=rows.image(inner.after, warnings) if inner.after else NO_IMAGE,
            columns=rows.columns(heading, block, block.row),
            message=message,
        )

    def _unlike(
        self,
        top: Mapping[str, msgspec.Raw],
        value: bytes,
        message: Message,
        *,
        warnings: list[str],
        unfit: str | None,
    ) -> Event:
        """The event of a payload that is no row change in an envelope. `unfit`: why it is none."""
        block = self._rows.schemas.block(b"")
        if self._flattened.says(top):
            return self._flattened.event(value, block, message, warnings=warnings)
        if "specversion" in top:
            return self._cloud_event(top, message, warnings)
        if "payload" in top and (len(top) == 1 or "schema" in top or self._wraps(top, message)):
            block = self._rows.schemas.block(bytes(top.get("schema", b"")))
            value = bytes(top["payload"])
            if value[:1] != b"{":
                raise DecodeError(
                    Code.BAD_SHAPE, f"expected an object as payload, got {jsontext.excerpt(value)}"
                )
            top = jsontext.members(value)
            if self._flattened.says(top):
                return self._flattened.event(value, block, message, warnings=warnings)
            if "specversion" in top:
                return self._cloud_event(top, message, warnings)
        among_rows = self._flattened.admits(message)
        if is_schema_change(top, among_rows=among_rows) or alters(top, among_rows=among_rows):
            return schema_change_event(value, warnings)
        if is_control(top, topic=message.topic, among_rows=among_rows):
            return control_event(top, value, warnings)
        if self._flattened.admits(message):
            return self._flattened.event(value, block, message, warnings=warnings)
        if _IMAGES <= top.keys() <= _OF_MATERIALIZE:
            inner = _INNER.decode(value)
            there = [bytes(image) != b"null" for image in (inner.before, inner.after)]
            inner.op = op_of_images(before=there[0], after=there[1])
            event = self._row(inner, block, message=message, warnings=warnings)
            event.op_raw = None
            return event
        advice = advice_on_row(top, message.headers)
        if unfit is not None:
            refuse_named_types(value)
            text = f"{unfit}; got {jsontext.excerpt(value)}"
            raise DecodeError(Code.BAD_SHAPE, text if advice is None else f"{text}; {advice}")
        raise DecodeError(
            Code.UNKNOWN_OP,
            "expected op with before, after or source, or a message Debezium is known to send, "
            f"got {jsontext.excerpt(value)}; "
            f"{advice or 'rows without an envelope need flattened: true'}",
        )

    def _cloud_event(
        self, top: Mapping[str, msgspec.Raw], message: Message, warnings: list[str]
    ) -> Event:
        """The event of a CloudEvent. Raises unsupported if it has no images in JSON."""
        envelope = of_cloud_event(top)
        if envelope is None:
            raise DecodeError(
                Code.UNSUPPORTED,
                "expected a CloudEvent with iodebeziumop and an object as data, got another; set "
                "the converter's data.serializer.type to json, or value.converter to JsonConverter",
            )
        return self._event(envelope, message, warnings, whole=True)


def _unframed(message: Message) -> Message:
    """The message as JSON only, without the id of a JSON Schema that Confluent's
    JsonSchemaConverter writes before value and key. Raises contradiction if a name of the envelope
    stands twice."""
    value, key = message.value, message.key
    if value and value[0] == 0 and (body := framed_json(value)) is not None:
        check_names(body, flat=FORMAT.flat, envelope=FORMAT.envelope)
        message = message._replace(value=body)
    if key and key[0] == 0 and (body := framed_json(key)) is not None:
        message = message._replace(key=body)
    return message


def recognise_framed(message: Message) -> bool:
    """Whether a message is one of Debezium's behind the id of a JSON Schema."""
    body = framed_json(message.value or b"")
    return body is not None and recognise(jsontext.members(body))


def decoder(options: FormatOptions) -> Decoder:
    """The decoder of one source's messages."""
    return _Debezium(options).decode


def tables(options: FormatOptions) -> TableDecoder:
    """The decoder of one source's regular messages, by column."""
    return Tables(options, _ENVELOPE).read


_ENVELOPE = (
    "schema",
    "schema.fields",
    "schema.fields.fields",
    "source",
    "transaction",
    "tableChanges",
    "tableChanges.table",
    "payload",
    "payload.source",
    "payload.transaction",
    "payload.tableChanges",
    "payload.tableChanges.table",
    # Of CloudEvents.
    "data",
    "data.payload",
)

FORMAT = Format(
    decoder=decoder,
    tables=tables,
    order="source",
    log="debezium",
    whole_rows=True,
    read_positions=True,
    ends="the message END of provide.transaction.metadata=true, whose topic the source reads, too",
    summary="Debezium envelope as JSON, with or without schema; CloudCanal's envelope; flattened",
    source="https://debezium.io/documentation/reference/3.6/ (3.6.3.Final), "
    "https://www.cloudcanalx.com/us/cc-doc/reference/kafka_msg_format_type",
    recognised="op of one letter with a source that names its place in a log, on top or under "
    "payload (inserts and updates also without, by after or before); ddl with tableChanges or such "
    "a source, historyRecord; a transaction's status, id and event_count; ts_ms alone; a "
    "changefeed's resolved alone; __op or __deleted; schema and payload both null; CloudEvents "
    "by iodebezium before their attributes. The id of a JSON Schema may stand before them",
    ordered="by the position in source: MySQL and MariaDB file, pos, row; PostgreSQL the last "
    "commit's LSN, then lsn; Oracle the higher of commit_scn and scn, then scn, rs_id, txSeq or "
    "ssn; SQL Server commit_lsn, change_lsn, event_serial_no; Db2 and Informix commit_lsn, "
    "change_lsn; MongoDB the second, ord; TiCDC commit_ts, deletes first; CockroachDB ts_hlc; "
    "Spanner ts_us, sequence, mod_number; Aurora DSQL ts_ns. Flink CDC sends no position (file "
    "empty, pos 0), Vitess none that tells the rows of a transaction apart, and that of other "
    "connectors is not known: order: arrival",
    flat=True,
    recognise=recognise,
    recognise_bytes=recognise_framed,
    envelope=_ENVELOPE,
    headers=frozenset((OLD_KEY, NEW_KEY)),
    empty_header=OPERATION,
    options={
        "tombstone": Option(
            "choice",
            "ignore",
            "what a null value is: ignore (it follows a delete), or delete, where flattened rows "
            "have no other; such a delete has no position, so with order: arrival, unless "
            "add.headers names one. With op among add.headers it is not needed",
            ("ignore", "delete"),
        ),
        "flattened": Option("bool", False, "accept rows without envelope and metadata as upserts"),
        "prefix": Option(
            "text",
            "__",
            "add.fields.prefix of flattened rows; where it is empty, op alone is no column, unless "
            "add_fields names others",
        ),
        "add_fields": Option(
            "list",
            (),
            "add.fields of flattened rows, needed where it gives names of its own or the prefix is "
            "empty: [op:OPERATION, table, source.ts_ms]; what it does not name is a column",
        ),
        "topic_names": Option(
            "choice",
            "db.table",
            "what the last parts of the topic name, for flattened rows that do not say it",
            TOPIC_NAMES,
        ),
        "unavailable_placeholder": Option(
            "text",
            DEFAULT,
            "the connector's unavailable.value.placeholder",
            check=placeholder_bytes,
        ),
        "replica_identity": Option(
            "choice",
            "unknown",
            "full where all PostgreSQL tables have REPLICA IDENTITY FULL: before images are whole",
            ("unknown", "full"),
        ),
        "partial_before": Option(
            "choice",
            "keep",
            "a before image that lacks columns of after: keep as sent, or merge over after",
            ("keep", "merge"),
        ),
        "decimal_handling": Option(
            "choice",
            "auto",
            "decimal.handling.mode where no schema tells; auto: a number, or text with a point or "
            "minus, is text, else base64; digits that may be either, a positive number or a "
            "negative one, are refused",
            ("auto", "precise", "string", "double"),
        ),
        "bigint_unsigned_handling": Option(
            "choice",
            "auto",
            "bigint.unsigned.handling.mode where no schema tells; auto: digits are text",
            ("auto", "long", "precise"),
        ),
        "time_precision": Option(
            "choice",
            "adaptive",
            "time.precision.mode where no schema tells",
            TIME_PRECISIONS,
        ),
        "binary_handling": Option(
            "choice",
            "bytes",
            "binary.handling.mode of columns declared as binary",
            ("bytes", "base64", "base64-url-safe", "hex"),
        ),
    },
    impossible={
        "id": "a Debezium event has no number of its own; its place is in source",
        "sequenceId": "source.sequence is part of the LSN, not a key of its own",
        "storeDataSequence": "a field of OMS alone; the place is in source",
        "scn": "only Oracle's source has scn",
        "key": "without a message key (or keys: in the YAML) the envelope names no key",
        "before": "PostgreSQL's REPLICA IDENTITY DEFAULT and NOTHING send no previous row",
        "schema_id": "with schemas.enable=false the message carries no types: declare columns",
    },
    losses=LOSSES,
)
