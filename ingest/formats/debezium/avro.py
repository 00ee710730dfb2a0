"""Debezium's change events as Avro: the messages of `debezium` in another encoding.

A message is a zero byte, four bytes of its schema's id, and one datum of that schema; the message
key likewise, with an id of its own. Schemas come from a registry, from files, or stand in the
container that the messages came in. Row changes are read straight to canonical text; everything
rarer (schema changes, transactions, heartbeats, flattened rows, MongoDB's documents) becomes the
JSON that Debezium would have sent and is read as such.
Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/
(wire format); https://debezium.io/documentation/reference/3.6/configuration/avro.html
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.files.record import SCHEMA_HEADER
from ingest.formats.debezium import json as debezium
from ingest.formats.debezium.avro_writers import AvroKeys, Writer, Writers
from ingest.formats.debezium.envelope import (
    LOSSES,
    Inner,
    Source,
    refuse_structs,
    with_collection,
)
from ingest.formats.debezium.events import (
    heading_of,
    op_of_images,
    operation_of,
    plain_event,
)
from ingest.formats.debezium.flattened import OPERATION, Flattened
from ingest.formats.debezium.mongodb import document_event
from ingest.formats.debezium.rows import NO_IMAGE, Image, Rows
from ingest.formats.debezium.topics import (
    control_event,
    is_control,
    is_schema_change,
    schema_change_event,
)
from ingest.formats.dts import avro as dts
from ingest.formats.oceanbase import avro as ob_avro
from ingest.values import jsontext
from ingest.wire.avro.connect import ADJUSTMENTS
from ingest.wire.avro.framing import id_in_header, looks_confluent
from ingest.wire.contract import Decoder, Format, FormatOptions, Loss, Message, Option
from ingest.wire.contradictions import refuse_rows
from ingest.wire.unrecognised import advice_on_row

_INNER = msgspec.json.Decoder(Inner)
_GOLDENGATES = "GoldenGate's: let its handler write JSON (format: ogg), its Avro is not decoded"
_CONFLUENTS = (
    "those of Confluent's Oracle CDC connector, which are not decoded: send the changes with "
    "Debezium's Oracle connector, or with GoldenGate as JSON"
)


class _DebeziumAvro:
    """The decoder of one source."""

    def __init__(self, options: FormatOptions) -> None:
        self._writers = Writers(options)
        self._rows = Rows(options, partial(AvroKeys, self._writers))
        self._keys = AvroKeys(self._writers, self._rows.schemas, self._rows.texts)
        self._flattened = Flattened(options, self._rows)

    def decode(self, message: Message) -> Iterator[Event]:
        """The event of one message. Raises DecodeError for bytes that are no message of
        Debezium."""
        value = message.value
        warnings: list[str] = []
        schemas = self._rows.schemas
        if not value:
            return iter((self._flattened.tombstone(message, warnings),))
        writer, start = None, 0
        if message.headers:
            for name, text in message.headers:
                if (elsewhere := id_in_header(name)) is not None:
                    raise DecodeError(
                        Code.UNSUPPORTED,
                        f"expected the schema's id before the datum, got it in {elsewhere}",
                    )
                if name == SCHEMA_HEADER and text:
                    writer = self._writers.of_schema(text, schemas)
        if writer is None:
            if value == b"null":
                return iter((self._flattened.tombstone(message, warnings),))
            writer, start = self._writers.of(value, schemas)
        if writer.envelope:
            return iter((self._change(writer, start, message, warnings=warnings),))
        found = writer.value(value, start)
        if not isinstance(found, dict):
            raise DecodeError(
                Code.BAD_SHAPE, f"expected a record, got {jsontext.excerpt(str(found).encode())}"
            )
        raw = msgspec.json.encode(found)
        event = jsontext.parse(
            raw,
            lambda v: self._unlike(found, v, writer, message=message, warnings=warnings),
            warnings,
        )
        return iter((event,))

    def _change(
        self, writer: Writer, start: int, message: Message, *, warnings: list[str]
    ) -> Event:
        value = message.value or b""
        inner, before, after, names, columns = writer.change(value, start, warnings)
        if writer.unnamed:
            inner.op = op_of_images(before=before is not None, after=after is not None)
        heading = heading_of(inner, message.topic, names=names, warnings=warnings)
        if writer.unnamed:
            heading = heading._replace(op_raw=None)
        if heading.op in ("truncate", "other"):
            refuse_rows(inner.op or "", before, after)
            return plain_event(heading)
        if writer.structs:
            refuse_structs(heading.source, writer.structs, columns=writer.width)
        return self._rows.change(
            heading,
            before=Image(before, value) if before else NO_IMAGE,
            after=Image(after, value) if after else NO_IMAGE,
            columns=columns,
            message=message,
        )

    def _unlike(
        self,
        top: dict[str, Any],
        raw: bytes,
        writer: Writer,
        *,
        message: Message,
        warnings: list[str],
    ) -> Event:
        """The event of a message that is no row change with images of columns."""
        if self._flattened.says(top):
            return self._flattened.event(raw, writer.block, message, warnings=warnings)
        if "op_type" in top and (
            not top.keys().isdisjoint({"op_ts", "current_ts"}) or top.keys() >= {"table", "pos"}
        ):
            raise DecodeError(
                Code.UNSUPPORTED,
                "expected Debezium's records, got "
                f"{_CONFLUENTS if top.keys() >= {'scn', 'row_id', 'username'} else _GOLDENGATES}",
            )
        sent = jsontext.members(raw)
        among_rows = self._flattened.admits(message)
        if is_schema_change(sent, among_rows=among_rows):
            return schema_change_event(raw, warnings)
        if is_control(sent, topic=message.topic, among_rows=among_rows):
            return control_event(sent, raw, warnings)
        if "op" in top and "source" in top:
            inner = _INNER.decode(raw)
            source = with_collection(inner.source or Source())
            if source.collection is not None:
                return self._document(inner, source, message, warnings=warnings)
        if self._flattened.admits(message):
            return self._flattened.event(raw, writer.block, message, warnings=warnings)
        needed = "rows without an envelope need flattened: true"
        if "_tidb_op" in top:
            needed = (
                "rows without an envelope need options: {flattened: true, prefix: _tidb_, "
                "tombstone: delete}, as TiCDC's are"
            )
        raise DecodeError(
            Code.UNKNOWN_OP,
            "expected an envelope, or a record Debezium is known to send, "
            f"got {jsontext.excerpt(raw)}; {advice_on_row(sent, message.headers) or needed}",
        )

    def _document(
        self, inner: Inner, source: Source, message: Message, *, warnings: list[str]
    ) -> Event:
        """The event of a MongoDB envelope, whose images are texts of JSON."""
        op = operation_of(inner)
        if op in ("truncate", "other"):
            refuse_rows(inner.op or "", inner.before, inner.after)
            return plain_event(heading_of(inner, message.topic, warnings=warnings))
        message = message._replace(key=self._keys.as_json(message.key))
        schemas = self._rows.schemas
        return document_event(
            inner, op, source, message=message, schemas=schemas, warnings=warnings
        )


def decoder(options: FormatOptions) -> Decoder:
    """The decoder of one source's messages."""
    return _DebeziumAvro(options).decode


def recognise(message: Message) -> bool:
    """Whether bytes are framed as a schema registry frames them, or are an envelope in a container.

    Only the source's options tell which ids are known, so nothing but the frame can be checked.
    """
    for name, text in message.headers or ():
        if name == SCHEMA_HEADER:
            return b".Envelope" in (text or b"")
    # The other Avro formats read the datum to its end, so a message that they recognise is theirs.
    return looks_confluent(message.value or b"") and not any(
        recognises(message) for recognises in _BEFORE
    )


_OTHERS = (dts.FORMAT, ob_avro.FORMAT, debezium.FORMAT)
_BEFORE = tuple(f.recognise_bytes for f in _OTHERS if f.recognise_bytes)


FORMAT = Format(
    decoder=decoder,
    order="source",
    log="debezium",
    whole_rows=True,
    read_positions=True,
    ends="the message END of provide.transaction.metadata=true, whose topic the source reads, too",
    summary="Debezium in Avro with Confluent framing; schemas from a registry or from files",
    source="https://debezium.io/documentation/reference/3.6/configuration/avro.html (3.6.3.Final), "
    "https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/",
    recognised="a zero byte and four bytes of a schema's id below 2**24; in an Avro container, a "
    "schema named Envelope",
    ordered=debezium.FORMAT.ordered,
    recognise_bytes=recognise,
    empty_header=OPERATION,
    options={
        "schema_registry": Option(
            "URL",
            "",
            "address of the schema registry, ${REGISTRY_URL} say: Confluent's protocol over HTTP; "
            "while it cannot be reached, messages are rejects unknown_schema_id, to be replayed",
        ),
        "schema_folder": Option(
            "folder", "", "folder of schema files ID.avsc, looked into before the registry"
        ),
        "registry_user": Option(
            "text", "", "user or API key of the registry, from the environment: ${REGISTRY_USER}"
        ),
        "registry_password": Option(
            "text",
            "",
            "its password or secret, from the environment: ${REGISTRY_PASSWORD}",
            secret=True,
        ),
        "registry_token": Option(
            "text",
            "",
            "bearer token instead of them, from the environment: ${REGISTRY_TOKEN}",
            secret=True,
        ),
        "registry_timeout": Option("number", 5, "seconds to wait for one answer of the registry"),
        "field_name_adjustment": Option(
            "choice",
            "none",
            "field.name.adjustment.mode: with avro_unicode names are read back from _uXXXX, with "
            "avro from the propagated source column, where it was sent",
            ADJUSTMENTS,
        ),
        **debezium.FORMAT.options,
    },
    impossible={
        **debezium.FORMAT.impossible,
    },
    losses=(
        *LOSSES,
        Loss(
            "absent columns",
            "a datum has every column of its schema, as null where it was not sent",
        ),
    ),
)
