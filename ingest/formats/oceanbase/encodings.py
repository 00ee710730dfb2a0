"""The encodings in which an AvroRecord comes, recognised by the first bytes of a message.

A record begins with its id, zigzag, whose first byte is even for every id from 0. `{` (JSON), `O`
(an object container), 0xC3 (a single object) and the mark of a bundle of shards are odd, so they
cannot begin a bare datum; 0 (Confluent's framing) can only begin the one with id 0.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.files.avro_container import data
from ingest.files.compression import LARGEST, Chunks
from ingest.files.record import SCHEMA_HEADER, framing_error
from ingest.formats.oceanbase.chunks import BUNDLE, joined, runs, unbundled
from ingest.formats.oceanbase.objects import record_of
from ingest.formats.oceanbase.record import Record, read
from ingest.formats.oceanbase.schema import reader_of
from ingest.values.jsontext import begins_object, parse
from ingest.values.jsontext import decoder as json_decoder
from ingest.wire.avro.framing import confluent, single_object
from ingest.wire.contract import Message, TopLevel

_CONTAINER = b"Obj\x01"
_JSON = json_decoder(dict[str, Any])


def records(message: Message, ids: frozenset[str]) -> Iterator[Record]:
    """The records of a message; shards of one record are put together if all are in it.

    `ids` are the schema ids that Confluent's framing may name; if it is empty, any.
    """
    value = message.value or b""
    if isinstance(message.read, list) and not ids:
        yield from message.read
    elif value.startswith(BUNDLE):
        parts = [found for part in unbundled(value) for found in _of(message, part, ids)]
        yield joined(parts)
    elif value.startswith(_CONTAINER):
        found = list(_of(message, value, ids))
        # A shard that comes alone waits for the others, as in any other encoding.
        yield from found if len(found) == 1 else runs(found)
    else:
        yield from _of(message, value, ids)


def _of(message: Message, value: bytes, ids: frozenset[str]) -> Iterator[Record]:
    for name, schema in message.headers or ():
        if name == SCHEMA_HEADER and schema:
            yield _written(schema, value)
            return
    if begins_object(value):
        warnings: list[str] = []
        yield record_of(parse(value, _JSON.decode, warnings), warnings)
    elif value.startswith(_CONTAINER):
        yield from _contained(value)
    elif (start := single_object(value)) is not None:
        yield read(value, start)
    elif (frame := confluent(value)) is not None and len(value) > frame[1]:
        yield _framed(value, *frame, ids=ids)
    else:
        yield read(value)


def _framed(value: bytes, schema_id: int, start: int, *, ids: frozenset[str]) -> Record:
    """The record in Confluent's framing, or a bare one with id 0, which begins in the same way."""
    try:
        found = read(value, start)
    except DecodeError as error:
        try:
            return read(value)
        except DecodeError:
            raise error from None
    if ids and str(schema_id) not in ids:
        raise DecodeError(
            Code.UNKNOWN_SCHEMA_ID,
            f"expected a schema id of {', '.join(sorted(ids))}, got {schema_id}; add it to the "
            f"source's option schema_ids",
        )
    return found


def _written(schema: bytes, value: bytes) -> Record:
    """A datum read by its writer's schema."""
    other = reader_of(schema)
    if other is None:
        return read(value)
    found = record_of(other(value), [])
    if found.shards > 1:
        # Silver keeps a shard's bytes until the others come, but not the schema beside them.
        raise DecodeError(
            Code.UNSUPPORTED, "expected shards by the vendor's schema, got one by another layout"
        )
    return found


def _contained(value: bytes) -> Iterator[Record]:
    found = False
    for datum in data(Chunks(io.BytesIO(value), most=LARGEST)):
        broken = framing_error(datum.headers)
        if broken is not None:
            raise DecodeError(Code.BAD_AVRO, broken.text)
        found = True
        yield _written(dict(datum.headers or ())[SCHEMA_HEADER] or b"", datum.value or b"")
    if not found:
        raise DecodeError(Code.BAD_AVRO, "expected a record in the container, got none")


def recognise(top: TopLevel) -> bool:
    """Whether a JSON message is an AvroRecord in Avro's JSON encoding."""
    return "operation" in top and "afterImages" in top


def recognise_bytes(message: Message) -> list[Record] | bool:
    """The AvroRecords that all of the bytes make; else whether they are any at all."""
    value = message.value or b""
    odd = value[:2] == _CONTAINER[:2] or single_object(value) is not None
    if not (message.headers or odd or value[:1] == BUNDLE[:1]):
        if not value or value[0] & 1:
            return False
    try:
        return list(records(message, frozenset()))
    except DecodeError as error:
        # A value that contradicts its type can only stand in a record of this format.
        return error.code not in (Code.BAD_AVRO, Code.BAD_SHAPE, Code.BAD_JSON)
    except msgspec.MsgspecError:
        return False
