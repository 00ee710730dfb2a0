"""OceanBase's AvroRecord, read from the bytes of one datum.

Source: OceanBase Cloud, "Message formats" of data subscription, schema `AvroRecord`. The schema as
printed there is no valid Avro (an int whose default is null); data of its layout are read here.
"""

from __future__ import annotations

from typing import NamedTuple

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.formats.oceanbase.types import WORDS
from ingest.formats.oceanbase.values import READERS, Words
from ingest.wire.avro.bytes import (
    count,
    malformed,
    maybe_number,
    maybe_text,
    number,
    numbers,
    octets,
    text,
    there,
    whole,
)
from ingest.wire.avro.fields import Fields, KnownFields

OPERATIONS = ("INSERT", "UPDATE", "DELETE", "DDL", "BEGIN", "COMMIT", "HEARTBEAT")
MARKS = ("B", "M", "E", "W")
SOURCES = ("OB_MYSQL", "OB_ORACLE")


class Image(NamedTuple):
    """A row by position: canonical texts, None for NULL; `words`: what each value showed of its
    type."""

    values: list[str | None]
    words: Words


class Record(NamedTuple):
    """One record, from any encoding. A shard has its part of the images in `before_bytes` and
    `after_bytes`; `shards` is their number, -1 to 1 if there are none."""

    id: int
    version: int
    operation: str | None
    transaction: str | None
    position: str | None
    timestamp: int | None
    source: str | None
    schema: str | None
    table: str | None
    fields: Fields | None
    primary: list[int] | None
    unique: list[list[int]] | None
    before: Image | None
    after: Image | None
    sql: str | None
    shards: int
    shard: int
    before_bytes: bytes
    after_bytes: bytes
    warnings: list[str]


_known = KnownFields()


def read(data: bytes, at: int = 0) -> Record:
    """The record of exactly the bytes from `at`. Raises bad_avro, and bad_value for values."""
    return whole(data, at, _record)


def images(data: bytes, warnings: list[str]) -> Image | None:
    """The image in the joined bytes of shards, as an array or as its union with null."""
    if not data:
        return None
    try:
        return whole(data, 0, lambda data, at: _values(data, at, warnings))
    except DecodeError as error:
        try:
            return whole(data, 0, lambda data, at: _image(data, at, warnings))
        except DecodeError:
            raise error from None


def _record(data: bytes, at: int) -> tuple[Record, int]:
    id_, at = number(data, at)
    if data[at]:
        raise malformed("branch 0 of the version's union", at)
    version, at = number(data, at + 1)
    operation, at = _maybe_symbol(OPERATIONS, data, at)
    transaction, at = maybe_text(data, at)
    _, at = _maybe_symbol(MARKS, data, at)
    position, at = maybe_text(data, at)
    timestamp, at = maybe_number(data, at)
    source = None
    if there(data, at):
        source, at = _symbol(SOURCES, data, at + 1)
        _, at = text(data, at)
    else:
        at += 1
    schema, at = maybe_text(data, at)
    table, at = maybe_text(data, at)
    fields, at = _fields(data, at, (schema, table))
    primary, at = numbers(data, at + 1) if there(data, at) else (None, at + 1)
    unique, at = _lists(data, at + 1) if there(data, at) else (None, at + 1)
    warnings: list[str] = []
    before, at = _image(data, at, warnings)
    after, at = _image(data, at, warnings)
    sql, at = maybe_text(data, at)
    at = _past_tags(data, at + 1) if there(data, at) else at + 1
    shards, at = number(data, at)
    shard, at = number(data, at)
    before_bytes, at = octets(data, at)
    after_bytes, at = octets(data, at)
    return (
        Record(
            id_,
            version,
            operation,
            transaction,
            position,
            timestamp,
            source,
            schema,
            table,
            fields,
            primary,
            unique,
            before,
            after,
            sql,
            shards,
            shard,
            before_bytes,
            after_bytes,
            warnings,
        ),
        at,
    )


def _symbol(symbols: tuple[str, ...], data: bytes, at: int) -> tuple[str, int]:
    byte = data[at]
    if byte & 1 or byte >= 2 * len(symbols):
        raise malformed(f"a symbol of {', '.join(symbols)}", at)
    return symbols[byte >> 1], at + 1


def _maybe_symbol(symbols: tuple[str, ...], data: bytes, at: int) -> tuple[str | None, int]:
    return _symbol(symbols, data, at + 1) if there(data, at) else (None, at + 1)


def _fields(
    data: bytes, at: int, place: tuple[str | None, str | None]
) -> tuple[Fields | None, int]:
    if not there(data, at):
        return None, at + 1
    return _known.read(data, at, place)


def _lists(data: bytes, at: int) -> tuple[list[list[int]], int]:
    found: list[list[int]] = []
    left, at = count(data, at)
    while left:
        for _ in range(left):
            item, at = numbers(data, at)
            found.append(item)
        left, at = count(data, at)
    return found, at


def _past_tags(data: bytes, at: int) -> int:
    left, at = count(data, at)
    while left:
        for _ in range(2 * left):
            _, at = text(data, at)
        left, at = count(data, at)
    return at


def _image(data: bytes, at: int, warnings: list[str]) -> tuple[Image | None, int]:
    return _values(data, at + 1, warnings) if there(data, at) else (None, at + 1)


def _values(data: bytes, at: int, warnings: list[str]) -> tuple[Image, int]:
    values: list[str | None] = []
    words: Words = []
    readers, shown = READERS, WORDS
    left, at = count(data, at)
    while left:
        for _ in range(left):
            kind = data[at : at + 2]
            if kind not in shown:
                raise malformed("a type_info and a branch of the value's union", at)
            words.append(shown[kind])
            at += 2
            if kind[1]:
                value, at = readers[kind[1]](data, at, words, warnings)
                values.append(value)
            else:
                values.append(None)
        left, at = count(data, at)
    return Image(values, words), at


def image_of(image: Image | None, fields: Fields | None, side: str) -> Image | None:
    """The image as that of a row, None if it has no values; raises image_count if it does not fit
    the fields."""
    if image is None or not image.values:
        return None
    wanted = len(fields.names) if fields is not None else 0
    if len(image.values) != wanted:
        raise DecodeError(
            Code.IMAGE_COUNT,
            f"expected {wanted} values in the image {side}, got {len(image.values)}",
        )
    return image
