"""A writer's Avro schema: what it says of messages and message keys, worked out once for each
id."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Row
from ingest.formats.debezium.avro_rows import (
    ReadEnvelope,
    ReadRow,
    envelope_reader,
    is_envelope,
    row_reader,
)
from ingest.formats.debezium.columns import Columns
from ingest.formats.debezium.envelope import Inner, family_of_connector, names_of
from ingest.formats.debezium.keys import JsonKeys, WriteTexts
from ingest.formats.debezium.schema import Block, Schemas
from ingest.memo import Memo
from ingest.wire.avro.connect import Field, column_namer, connect_field
from ingest.wire.avro.framing import OTHER_LANGUAGES, confluent, not_confluent, other_language
from ingest.wire.avro.reader import UNREADABLE, Read, reader
from ingest.wire.avro.registry import Access, Registry, SchemaFolder, SchemaSource
from ingest.wire.avro.schema import Field as AvroField
from ingest.wire.avro.schema import Type, parse_schema, present
from ingest.wire.contract import FormatOptions, TableName


class Writers:
    """The writers of one source's messages, by schema id or schema text."""

    def __init__(self, options: FormatOptions) -> None:
        given = options.options
        self._sources: list[SchemaSource] = []
        if given.get("schema_folder"):
            self._sources.append(SchemaFolder(given["schema_folder"]))
        if given.get("schema_registry"):
            access = Access(
                given["schema_registry"],
                user=given.get("registry_user") or "",
                password=given.get("registry_password") or "",
                token=given.get("registry_token") or "",
                timeout=float(given.get("registry_timeout") or 5),
            )
            self._sources.append(Registry(access))
        self._name_of = column_namer(given.get("field_name_adjustment", "none"))
        self._known: Memo[int | bytes, Writer] = Memo(most=1_000)

    def of(self, data: bytes, schemas: Schemas) -> tuple[Writer, int]:
        """The writer of framed bytes, and where the datum begins. Raises bad_avro,
        unknown_schema_id."""
        frame = confluent(data)
        if frame is None:
            raise not_confluent(data)
        id_, start = frame
        known = self._known.get(id_)
        if known is not None:
            return known, start
        other = other_language(data)
        if other is not None:
            raise DecodeError(Code.UNSUPPORTED, other)
        return self._made(id_, self._schema(id_), schemas), start

    def of_schema(self, text: bytes, schemas: Schemas) -> Writer:
        """The writer of a schema that came with the message. Raises bad_avro."""
        return self._known.get(text) or self._made(text, (text,), schemas)

    def _made(
        self, key: int | bytes, texts: tuple[str, ...] | tuple[bytes], schemas: Schemas
    ) -> Writer:
        try:
            type_ = parse_schema(texts)
        except DecodeError:
            # Only now: a column of an Avro schema may be called `properties`, too.
            other = _of_another_language(texts[-1])
            if other is None:
                raise
            raise DecodeError(Code.UNSUPPORTED, other) from None
        made = self._known[key] = Writer(type_, schemas, self._name_of)
        return made

    def _schema(self, id_: int) -> tuple[str, ...]:
        reasons: list[str] = []
        for source in self._sources:
            try:
                return source.schema(id_)
            except DecodeError as error:
                reasons.append(error.text)
        if not reasons:
            reasons = [
                f"expected a place to find the schema of id {id_}, got none",
                "set options.schema_registry or options.schema_folder of the source",
                OTHER_LANGUAGES,
            ]
        raise DecodeError(Code.UNKNOWN_SCHEMA_ID, "; ".join(reasons))


def _of_another_language(text: str | bytes) -> str | None:
    """What the text of a schema is, where it is none of Avro's."""
    plain = text if isinstance(text, str) else text.decode("utf-8", "replace")
    if plain.lstrip().startswith("syntax") or "\nmessage " in plain:
        name = "Protobuf"
    elif '"$schema"' in plain or '"properties"' in plain:
        name = "JSON Schema"
    else:
        return None
    return (
        f"expected a schema of Avro, got one of {name}: set the connector's converters to "
        "AvroConverter, or to JsonConverter with format: debezium"
    )


class AvroKeys:
    """Message keys framed as the messages are; other keys are read as JSON."""

    def __init__(self, writers: Writers, schemas: Schemas, texts: WriteTexts) -> None:
        self._writers = writers
        self._schemas = schemas
        self._json = JsonKeys(schemas, texts)

    def names(self, raw: bytes | None, *, needed: bool) -> tuple[str, ...] | None:
        """The columns of the key. Raises unknown_schema_id if they are needed."""
        if not raw or raw[0]:
            return self._json.names(raw, needed=needed)
        try:
            return self._writers.of(raw, self._schemas)[0].names
        except DecodeError as error:
            if needed and error.code is Code.UNKNOWN_SCHEMA_ID:
                raise
            return None

    def row(self, raw: bytes | None, columns: Columns, names: TableName) -> Row | None:
        """The key's columns and values. Raises bad_avro and bad_value if they cannot be read."""
        if not raw or raw[0]:
            return self._json.row(raw, columns._replace(canonical=False), names)
        try:
            writer, start = self._writers.of(raw, self._schemas)
        except DecodeError:
            return None
        return writer.row(raw, start, names, family=columns.family) if writer.record else None

    def as_json(self, raw: bytes | None) -> bytes | None:
        """The key as Debezium would have sent it in JSON. Raises unknown_schema_id, bad_avro."""
        if not raw or raw[0]:
            return raw
        writer, start = self._writers.of(raw, self._schemas)
        return msgspec.json.encode(writer.value(raw, start))


Namer = Callable[[AvroField], str]


class Change(NamedTuple):
    """A row change as read from an envelope; `columns` are the columns of its images."""

    inner: Inner
    before: Row | None
    after: Row | None
    names: TableName
    columns: Columns


class _Reading(NamedTuple):
    key: tuple[str, TableName | None]
    columns: Columns
    envelope: ReadEnvelope


class Writer:
    """One schema. `envelope`: it is a schema of row changes with images of columns; `unnamed`:
    these do not name their operation.

    The text of a value depends on the connector and on what the YAML declares for the table. Both
    stand in the message behind its images. So a message is read like the one before it, and read
    again if that turns out to be wrong, which hardly ever happens within one topic.
    """

    def __init__(self, type_: Type, schemas: Schemas, name_of: Namer) -> None:
        self._type = type_
        self._schemas = schemas
        self._name_of = name_of
        self._any: Read | None = None
        self._readings: Memo[tuple[str, TableName | None], _Reading] = Memo(most=1_000)
        self._rows: Memo[tuple[str, TableName | None], ReadRow] = Memo(most=1_000)
        self._last: _Reading | None = None
        self.record = type_.kind == "record"
        self.envelope = self.record and is_envelope(type_)
        self.unnamed = self.envelope and type_.field("op") is None
        self.block = Block(Field(type="struct", fields=tuple(map(self._field, type_.fields))))
        self.names = tuple(map(name_of, type_.fields)) or None
        row = next(filter(None, map(type_.field, ("after", "before"))), type_)
        columns = [present(field.type) for field in row.fields]
        self.width = len(columns)
        self.structs = [{f.name for f in c.fields} for c in columns if c.kind == "record"]
        """The names within the columns of a row that are records themselves."""

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
                return Change(inner, before, after, names, reading.columns)
            warnings.clear()
            reading = self._readings.get(key) or self._reading(key)

    def value(self, data: bytes, start: int) -> object:
        """Any message, as JSON would have it. Raises bad_avro."""
        if self._any is None:
            self._any = reader(self._type, self._name_of)
        try:
            value, end = self._any(data, start)
        except UNREADABLE as error:
            raise _malformed(error) from None
        _whole(data, end)
        return value

    def row(self, data: bytes, start: int, names: TableName, *, family: str) -> Row:
        """A record as one row, for example a message key. Raises bad_avro."""
        key = (family, names if self._schemas.named else None)
        read = self._rows.get(key)
        if read is None:
            fields = self.block.fields
            columns = self._schemas.columns(self.block, fields, names, family=family)
            read = self._rows[key] = row_reader(self._type, fields, columns)
        try:
            row, end = read(data, start, [])
        except UNREADABLE as error:
            raise _malformed(error) from None
        _whole(data, end)
        return row

    def _reading(self, key: tuple[str, TableName | None]) -> _Reading:
        family, names = key
        columns = self._schemas.columns(
            self.block, self.block.row, names or (None, None, None), family=family
        )
        images = [self._type.field(name) for name in ("before", "after")]
        rows = {
            id(image): row_reader(image, tuple(map(self._column, image.fields)), columns)
            for image in images
            if image is not None
        }
        envelope = envelope_reader(self._type, rows)
        canonical = columns._replace(canonical=True)
        made = self._readings[key] = _Reading(key, canonical, envelope)
        return made

    def _field(self, field: AvroField) -> Field:
        """A field at the top level: an image has its columns as fields, any other field is a
        column."""
        made = self._column(field)
        image = self._type.field(field.name)
        if self.envelope and image is not None and field.name in ("before", "after"):
            made = Field(type="struct", field=field.name, fields=self._columns(image))
        return made

    def _columns(self, record: Type) -> tuple[Field, ...]:
        return tuple(map(self._column, record.fields))

    def _column(self, field: AvroField) -> Field:
        return connect_field(field, self._name_of(field))


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
