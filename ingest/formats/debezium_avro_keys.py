"""The writers of a source's Avro messages by schema id, and the message keys read by theirs."""

from __future__ import annotations

import msgspec

from ingest import jsontext
from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Row
from ingest.formats.avro_connect import column_namer
from ingest.formats.avro_schema import parse_schema
from ingest.formats.debezium_avro_writer import Writer
from ingest.formats.debezium_columns import Columns
from ingest.formats.debezium_keys import JsonKeys, Texts
from ingest.formats.debezium_schema import Schemas
from ingest.formats.format import FormatOptions, TableName
from ingest.schema_registry import Access, Registry, SchemaFolder, SchemaSource

HEAD = 5
"""Bytes before the datum: a zero, and the schema's id in four."""
_MOST_WRITERS = 1_000


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
        self._known: dict[int | bytes, Writer] = {}

    def of(self, data: bytes, schemas: Schemas) -> Writer:
        """The writer of framed bytes. Raises bad_avro, unknown_schema_id."""
        if data[:1] != b"\0" or len(data) < HEAD:
            raise DecodeError(
                Code.BAD_AVRO,
                "expected a zero byte and four bytes of the schema's id, "
                f"got {jsontext.excerpt(data)}",
            )
        id_ = int.from_bytes(data[1:HEAD], "big")
        return self._known.get(id_) or self._made(id_, self._schema(id_), schemas)

    def of_schema(self, text: bytes, schemas: Schemas) -> Writer:
        """The writer of a schema that came along. Raises bad_avro."""
        return self._known.get(text) or self._made(text, (text,), schemas)

    def _made(
        self, key: int | bytes, texts: tuple[str, ...] | tuple[bytes], schemas: Schemas
    ) -> Writer:
        if len(self._known) >= _MOST_WRITERS:
            self._known.clear()
        made = self._known[key] = Writer(parse_schema(texts), schemas, self._name_of)
        return made

    def _schema(self, id_: int) -> tuple[str, ...]:
        reasons = ["set options.schema_registry or options.schema_folder of the source"]
        for number, source in enumerate(self._sources):
            try:
                return source.schema(id_)
            except DecodeError as error:
                reasons[number:] = [error.text]
        if not self._sources:
            reasons.insert(0, f"expected a place to find the schema of id {id_}, got none")
        raise DecodeError(Code.UNKNOWN_SCHEMA_ID, "; ".join(reasons))


class AvroKeys:
    """Message keys framed as the messages are; any other is read as JSON."""

    def __init__(self, writers: Writers, schemas: Schemas, texts: Texts) -> None:
        self._writers = writers
        self._schemas = schemas
        self._json = JsonKeys(schemas, texts)

    def names(self, raw: bytes | None, *, needed: bool) -> tuple[str, ...] | None:
        """The columns of the key. Raises unknown_schema_id where they are needed."""
        if not raw or raw[0]:
            return self._json.names(raw, needed=needed)
        try:
            return self._writers.of(raw, self._schemas).names
        except DecodeError as error:
            if needed and error.code is Code.UNKNOWN_SCHEMA_ID:
                raise
            return None

    def row(self, raw: bytes | None, columns: Columns, names: TableName, family: str) -> Row | None:
        """The key's columns and values."""
        if not raw or raw[0]:
            return self._json.row(raw, columns._replace(canonical=False), names, family)
        try:
            writer = self._writers.of(raw, self._schemas)
            return writer.row(raw, HEAD, names, family) if writer.record else None
        except DecodeError:
            return None

    def as_json(self, raw: bytes | None) -> bytes | None:
        """The key as Debezium would have sent it in JSON. Raises unknown_schema_id, bad_avro."""
        if not raw or raw[0]:
            return raw
        return msgspec.json.encode(self._writers.of(raw, self._schemas).value(raw, HEAD))
