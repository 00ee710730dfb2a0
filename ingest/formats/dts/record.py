"""The record of Aliyun DTS, read from its bytes: Avro without framing, with 14 fields or 15.

Source: Record.avsc of https://github.com/aliyun/aliyun-dts-subscribe-demo (510fea5), 15 fields, and
of https://github.com/aliyun/aliyun-dts-subscribe-sdk-java (bcc5cf5), 14. The later generation adds
a last field: bytes that remain behind the fourteenth field must be exactly this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.formats.dts.values import EMPTY, MICROS, NANOS, Reader, Words
from ingest.wire.avro.bytes import count, malformed, maybe_text, number, numbers, text, whole
from ingest.wire.avro.fields import Fields, KnownFields

SOURCES = tuple(
    """
    MySQL Oracle SQLServer PostgreSQL MongoDB Redis DB2 PPAS DRDS HBASE HDFS FILE OTHER
    """.split()
)
OPERATIONS = tuple(
    """
    INSERT UPDATE DELETE DDL BEGIN COMMIT ROLLBACK ABORT HEARTBEAT CHECKPOINT COMMAND FILL FINISH
    CONTROL RDB NOOP INIT
    """.split()
)
_IN_MICROS = ("MySQL", "PostgreSQL")
_NULL, _TEXT, _LIST = 0, 2, 4
DOCUMENT = Fields(("_value", "_id"), (0, 0))
"""The fields of a MongoDB record, which lists none: the vendor's reader knows them."""
_known = KnownFields()


class Image(NamedTuple):
    """A row by position: canonical texts, None for NULL; `words`: what each value showed of its
    type.

    `missing` are the positions that the producer could not supply.
    """

    values: list[str | None]
    words: Words
    missing: list[int]


class Record(NamedTuple):
    """One record. `fields` and the images are texts if their union holds its string."""

    id: int
    timestamp: int
    position: str
    transaction: str
    source: str
    operation: str
    object: str | None
    tags: dict[str, str]
    fields: Fields | str | None
    before: Image | str | None
    after: Image | str | None
    warnings: list[str]


def read(data: bytes) -> Record:
    """The record of exactly these bytes. Raises bad_avro, and bad_value for values."""
    return whole(data, 0, _record)


def _record(data: bytes, at: int) -> tuple[Record, int]:
    version, at = number(data, at)
    # Servers send the version of a database there; one sends 170844600.
    if version < 0:
        raise malformed("a version of 0 or more", 0)
    id_, at = number(data, at)
    timestamp, at = number(data, at)
    position, at = text(data, at)
    _, at = text(data, at)
    transaction, at = text(data, at)
    source, at = _symbol(SOURCES, data, at)
    _, at = text(data, at)
    operation, at = _symbol(OPERATIONS, data, at)
    object_, at = maybe_text(data, at)
    branch = data[at]
    if branch == _TEXT:
        _, at = numbers(data, at + 1)
    elif branch == _NULL:
        at += 1
    else:
        raise malformed("null or an array", at)
    tags, at = _tags(data, at)
    fields, at = _fields(data, at, object_)
    warnings: list[str] = []
    readers = MICROS if source in _IN_MICROS and "<->" not in position else NANOS
    before, at = _image(data, at, readers, warnings=warnings)
    after, at = _image(data, at, readers, warnings=warnings)
    if source == "MongoDB" and fields is None and Image in (before.__class__, after.__class__):
        fields = DOCUMENT
    if at < len(data):
        _, at = number(data, at)
    return (
        Record(
            id_,
            timestamp,
            position,
            transaction,
            source,
            operation,
            object_,
            tags,
            fields,
            before,
            after,
            warnings,
        ),
        at,
    )


def _symbol(symbols: tuple[str, ...], data: bytes, at: int) -> tuple[str, int]:
    byte = data[at]
    if byte & 1 or byte >= 2 * len(symbols):
        raise malformed(f"a symbol of {', '.join(symbols[:3])}, …", at)
    return symbols[byte >> 1], at + 1


def _tags(data: bytes, at: int) -> tuple[dict[str, str], int]:
    found: dict[str, str] = {}
    left, at = count(data, at)
    while left:
        for _ in range(left):
            name, at = text(data, at)
            found[name], at = text(data, at)
        left, at = count(data, at)
    return found, at


def _fields(data: bytes, at: int, object_: str | None) -> tuple[Fields | str | None, int]:
    branch = data[at]
    if branch == _NULL:
        return None, at + 1
    if branch == _TEXT:
        return text(data, at + 1)
    if branch != _LIST:
        raise malformed("null, text or an array of fields", at)
    return _known.read(data, at, object_)


def _image(
    data: bytes, at: int, readers: Mapping[int, Reader], *, warnings: list[str]
) -> tuple[Image | str | None, int]:
    branch = data[at]
    if branch == _NULL:
        return None, at + 1
    if branch == _TEXT:
        return text(data, at + 1)
    if branch != _LIST:
        raise malformed("null, text or an array of values", at)
    values: list[str | None] = []
    words: Words = []
    missing: list[int] = []
    left, at = count(data, at + 1)
    while left:
        for _ in range(left):
            branch = data[at]
            at += 1
            reader = readers.get(branch)
            if reader is not None:
                value, at = reader(data, at, words, warnings)
                values.append(value)
            elif branch == _NULL:
                values.append(None)
                words.append(None)
            elif branch == EMPTY:
                symbol, at = _symbol(("NULL", "NONE"), data, at)
                if symbol == "NONE":
                    missing.append(len(values))
                values.append(None)
                words.append(None)
            else:
                raise malformed("a branch of the image's union", at - 1)
        left, at = count(data, at)
    return Image(values, words, missing), at


def image_of(image: Image | str | None, fields: Fields | str | None, side: str) -> Image | None:
    """The image as that of a row; raises bad_shape for a text, and image_count for another
    length."""
    if image is None:
        return None
    if isinstance(image, str) or not isinstance(fields, Fields):
        raise DecodeError(
            Code.BAD_SHAPE,
            f"expected the fields and values of a row {side}, got fields "
            f"{_excerpt(fields)} and values {_excerpt(image)}",
        )
    if len(image.values) != len(fields.names):
        raise DecodeError(
            Code.IMAGE_COUNT,
            f"expected {len(fields.names)} values in the image {side}, got {len(image.values)}",
        )
    return image


def _excerpt(found: Image | Fields | str | None) -> str:
    return repr(found[:80]) if isinstance(found, str) else "none" if found is None else "as a list"
