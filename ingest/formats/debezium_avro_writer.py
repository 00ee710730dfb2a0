"""What one writer's Avro schema says of the messages written with it, worked out once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Row
from ingest.formats.avro_connect import connect_field
from ingest.formats.avro_reader import UNREADABLE, Read, reader
from ingest.formats.avro_schema import Field as AvroField
from ingest.formats.avro_schema import Type
from ingest.formats.connect_schema import Field
from ingest.formats.debezium_avro_envelope import ReadEnvelope, envelope_reader, is_envelope
from ingest.formats.debezium_avro_rows import ReadRow, row_reader
from ingest.formats.debezium_columns import Columns
from ingest.formats.debezium_envelope import Inner, family_of_connector, names_of
from ingest.formats.debezium_schema import Block, Schemas
from ingest.formats.format import TableName

Namer = Callable[[AvroField], str]
_MOST_TABLES = 1_000


class Change(NamedTuple):
    """A row change as an envelope told it; `columns` are those of its images."""

    inner: Inner
    before: Row | None
    after: Row | None
    names: TableName
    family: str
    columns: Columns


class _Reading(NamedTuple):
    key: tuple[str, TableName | None]
    columns: Columns
    envelope: ReadEnvelope


class Writer:
    """One schema: `envelope` tells whether it is of row changes with images of columns.

    Which text a value becomes depends on the connector and on what the YAML declares for the
    table; both stand in the message, behind its images. So a message is read as the one before it,
    and again where that turns out wrong, which in one topic it hardly ever does.
    """

    def __init__(self, type_: Type, schemas: Schemas, name_of: Namer) -> None:
        self._type = type_
        self._schemas = schemas
        self._name_of = name_of
        self._any: Read | None = None
        self._readings: dict[tuple[str, TableName | None], _Reading] = {}
        self._rows: dict[tuple[str, TableName | None], ReadRow] = {}
        self._last: _Reading | None = None
        self.record = type_.kind == "record"
        self.envelope = self.record and is_envelope(type_)
        self.block = Block(Field(type="struct", fields=tuple(map(self._field, type_.fields))))
        self.names = tuple(map(name_of, type_.fields)) or None

    def change(self, data: bytes, start: int, warnings: list[str]) -> Change:
        """The row change of an envelope. Raises bad_avro."""
        reading = self._last or self._reading(("mysql", None))
        while True:
            try:
                inner, before, after, end = reading.envelope(data, start, warnings)
            except UNREADABLE as error:
                raise _malformed(error) from None
            _whole(data, end)
            source = inner.source
            if source is None:
                names: TableName = (None, None, None)
                family = "mysql"
            else:
                names = names_of(source)
                family = family_of_connector(source)
            key = (family, names if self._schemas.named else None)
            if key == reading.key:
                self._last = reading
                return Change(inner, before, after, names, family, reading.columns)
            warnings.clear()
            reading = self._readings.get(key) or self._reading(key)

    def value(self, data: bytes, start: int) -> object:
        """Any message as JSON would have it. Raises bad_avro."""
        if self._any is None:
            self._any = reader(self._type, self._name_of)
        try:
            value, end = self._any(data, start)
        except UNREADABLE as error:
            raise _malformed(error) from None
        _whole(data, end)
        return value

    def row(self, data: bytes, start: int, names: TableName, family: str) -> Row:
        """A record as one row, a message key say. Raises bad_avro."""
        key = (family, names if self._schemas.named else None)
        read = self._rows.get(key)
        if read is None:
            fields = self.block.fields
            columns = self._schemas.columns(self.block, fields, names, family)
            _make_room(self._rows)
            read = self._rows[key] = row_reader(self._type, *_of(fields), columns)
        try:
            row, end = read(data, start, [])
        except UNREADABLE as error:
            raise _malformed(error) from None
        _whole(data, end)
        return row

    def _reading(self, key: tuple[str, TableName | None]) -> _Reading:
        family, names = key
        columns = self._schemas.columns(
            self.block, self.block.row, names or (None, None, None), family
        )
        images = [self._type.field(name) for name in ("before", "after")]
        rows = {
            id(image): row_reader(image, *_of(tuple(map(self._column, image.fields))), columns)
            for image in images
            if image is not None
        }
        envelope = envelope_reader(self._type, rows)
        canonical = columns._replace(canonical=True)
        _make_room(self._readings)
        made = self._readings[key] = _Reading(key, canonical, envelope)
        return made

    def _field(self, field: AvroField) -> Field:
        """A field at the top: an image has its columns as fields, any other is a column."""
        made = self._column(field)
        image = self._type.field(field.name)
        if self.envelope and image is not None and field.name in ("before", "after"):
            made = Field(type="struct", field=field.name, fields=self._columns(image))
        return made

    def _columns(self, record: Type) -> tuple[Field, ...]:
        return tuple(map(self._column, record.fields))

    def _column(self, field: AvroField) -> Field:
        return connect_field(field, self._name_of(field))


def _of(fields: tuple[Field, ...]) -> tuple[list[str], tuple[Field, ...]]:
    return [field.field or "" for field in fields], fields


def _make_room(memo: dict[Any, Any]) -> None:
    if len(memo) >= _MOST_TABLES:
        memo.clear()


def _whole(data: bytes, end: int) -> None:
    if end != len(data):
        found = f"{len(data) - end} bytes more" if end < len(data) else "too few bytes"
        raise DecodeError(Code.BAD_AVRO, f"expected one datum of the schema, got {found}")


def _malformed(error: Exception) -> DecodeError:
    text = str(error)
    if isinstance(error, RecursionError):
        text = "got one nested too deeply"
    elif not isinstance(error, ValueError):
        text = "got bytes that end in the middle of it, or a number out of its range"
    return DecodeError(Code.BAD_AVRO, f"expected a datum of the schema: {text[:200]}")
