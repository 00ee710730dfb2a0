"""Row changes of Debezium in Avro: the envelope as the structs that are also read from JSON, and
the images as canonical text, by code that `ingest.wire.avro.codegen` writes.

Connect's schema of a column decides how it is read, as in JSON, but numbers and bytes come as such:
a decimal is not packed into base64 first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ingest.codes import Code as Warned
from ingest.events import Row
from ingest.formats.debezium import values as encoded
from ingest.formats.debezium.columns import Columns
from ingest.formats.debezium.envelope import Inner, Source, Transaction
from ingest.formats.debezium.types import PLAIN
from ingest.values import canonical
from ingest.wire.avro import reader
from ingest.wire.avro.codegen import WHOLE, Code, null_branch
from ingest.wire.avro.connect import DECIMAL, Field
from ingest.wire.avro.schema import Type
from ingest.wire.declared import Convert

ReadRow = Callable[[bytes, int, list[str]], tuple[Row, int]]
"""Data, start, warnings -> the row image and where it ends."""

_WORDS = ("false", "true")


class _Column:
    """How one column's values become text."""

    def __init__(self, name: str, field: Field, columns: Columns) -> None:
        self.convert: Convert | None = columns.converts.get(name)
        self._name = name
        self._columns = columns
        self._field = field

    def of_bytes(self, data: bytes, warnings: list[str]) -> str | None:
        """The text of bytes for which no other method is better."""
        packed = canonical.base64_of(data)
        return packed if self.convert is None else self.convert(packed, warnings)

    def reads_bytes(self) -> Callable[[bytes, list[str]], str | None]:
        """The quickest way from bytes to text."""
        convert, field = self.convert, self._field
        if convert is None or convert is PLAIN["bytes"].convert:
            return lambda data, warnings: canonical.base64_of(data)
        length = (field.parameters or {}).get("length")
        if length is not None and str(length).isdigit():
            known = int(length)
            if convert is encoded.bits(known):
                return lambda data, warnings: canonical.bits_in(data, known, "little")
        scale = (field.parameters or {}).get("scale")
        if field.name == DECIMAL and scale is not None and str(scale).lstrip("-").isdigit():
            if convert is encoded.decimal(int(scale)):
                return _decimal(int(scale))
        return self.of_bytes

    def of_nested(self, value: Any, warnings: list[str]) -> str | None:
        """The text of an array, a map, a record, or a union of several types."""
        if value is None or value.__class__ is str:
            return value if value is None else str(value)
        text = self._columns.text_of(self._name, value, warnings)
        return msgspec.json.encode(value).decode() if text is None else text


def _decimal(scale: int) -> Callable[[bytes, list[str]], str]:
    def text(data: bytes, warnings: list[str]) -> str:
        if not data:
            warnings.append(Warned.VALUE_NOT_OF_TYPE.value)
            return ""
        return canonical.unscaled_text(int.from_bytes(data, "big", signed=True), scale)

    return text


def row_reader(record: Type, fields: Sequence[Field], columns: Columns) -> ReadRow:
    """The reader of a record's row images.

    `fields` is what Connect says of the columns, in the record's order; `columns` says how they are
    read, by the source's YAML as well.
    """
    code = Code()
    names = [field.field or "" for field in fields]
    for index, field in enumerate(record.fields):
        variable = f"v{index}"
        column = _Column(names[index], fields[index], columns)

        def write(type_: Type, depth: int, v: str = variable, *, column: _Column = column) -> None:
            _cell(code, type_, v, depth=depth, column=column)

        code.optional(variable, field.type, write)
    row = ", ".join(f"{name!r}: v{index}" for index, name in enumerate(names))
    code.add(f"return {{{row}}}, at", 1)
    read: ReadRow = code.compiled("data, at, warnings")
    return read


def _cell(code: Code, type_: Type, v: str, *, depth: int, column: _Column) -> None:
    """The lines that leave the text of one value in variable `v`."""
    kind, convert = type_.kind, column.convert

    def converted(value: str) -> str:
        return value if convert is None else f"{code.name(convert)}({value}, warnings)"

    if kind in WHOLE:
        digits = convert is None or convert is encoded.integer
        code.number(v, kind, depth, digits=digits)
        if not digits:
            code.add(f"{v} = {converted(v)}", depth)
    elif kind == "string":
        code.span(v, converted("data[at:end].decode()"), depth)
    elif kind == "bytes":
        code.span(v, f"{code.name(column.reads_bytes())}(data[at:end], warnings)", depth)
    elif kind == "fixed":
        read = code.name(column.reads_bytes())
        code.add(f"end = at + {type_.size}\n{v} = {read}(data[at:end], warnings)", depth)
        code.add("at = end", depth)
    elif kind == "boolean":
        plain = convert is None or convert is encoded.boolean
        given = f"{code.name(_WORDS if plain else (False, True))}[data[at]]"
        code.add(f"{v} = {given if plain else converted(given)}\nat += 1", depth)
    elif kind in ("float", "double", "enum"):
        reads = {"float": reader.single, "double": reader.double}
        code.call(v, reads.get(kind) or reader.reader(type_), depth)
        if convert is not None:
            code.add(f"{v} = {converted(v)}", depth)
    elif kind == "null":
        code.add(f"{v} = None", depth)
    else:
        code.call(v, reader.reader(type_), depth)
        code.add(f"{v} = {code.name(column.of_nested)}({v}, warnings)", depth)


ReadEnvelope = Callable[[bytes, int, list[str]], tuple[Inner, Row | None, Row | None, int]]
"""Data, start, warnings -> the envelope without its images, before, after, where it ends."""

_TEXTS = frozenset(("string", "enum"))
_SOURCE: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(Source.__struct_fields__, WHOLE | _TEXTS),
    **dict.fromkeys(("connector", "db", "schema", "table", "collection", "sequence"), _TEXTS),
    **dict.fromkeys(("gtid", "file", "rs_id", "lcr_position"), _TEXTS),
    **dict.fromkeys(("change_lsn", "commit_lsn"), _TEXTS),
    "snapshot": _TEXTS | {"boolean"},
}
"""The fields of `source` that events are made of, and the types they may have."""
_IMAGES = ("before", "after")


def is_envelope(record: Type) -> bool:
    """Whether a schema is of row changes with images of columns."""
    op = record.field("op")
    images = [record.field(name) for name in _IMAGES]
    if op is None:
        # Materialize's
        known = {"transaction", *_IMAGES}.issuperset(field.name for field in record.fields)
        return known and all(image is not None and image.kind == "record" for image in images)
    if op.kind not in _TEXTS:
        return False
    return any(images) and all(image is None or image.kind == "record" for image in images)


def envelope_reader(record: Type, read_row: Mapping[int, ReadRow]) -> ReadEnvelope:
    """The reader of an envelope. `read_row`: by the id of an image's type."""
    code = Code()
    code.add("before = after = op = ts_ms = ts_us = transaction = source = None", 1)
    for field in record.fields:
        name = field.name

        def write(type_: Type, depth: int, name: str = name) -> None:
            if name in _IMAGES:
                read = code.name(read_row[id(type_)])
                code.add(f"{name}, at = {read}(data, at, warnings)", depth)
            elif name == "source" and type_.kind == "record":
                code.call("source", _source_reader(type_), depth)
            elif name == "op" or (name in ("ts_ms", "ts_us") and type_.kind in WHOLE):
                code.scalar(name, type_, depth)
            elif name == "transaction" and type_.kind == "record":
                code.call("transaction", reader.reader(type_), depth)
                code.add(f"transaction = {code.name(_transaction)}(transaction)", depth)
            else:
                code.skip(type_, depth)

        kept = (*_IMAGES, "op", "ts_ms", "ts_us", "transaction", "source")
        code.optional(name if name in kept else "_", field.type, write)
    made = f"{code.name(Inner)}(op=op, source=source, ts_ms=ts_ms, ts_us=ts_us, "
    code.add(f"return {made}transaction=transaction), before, after, at", 1)
    read: ReadEnvelope = code.compiled("data, at, warnings")
    return read


def _transaction(fields: Mapping[str, object]) -> Transaction:
    found = fields.get("id")
    return Transaction(found if isinstance(found, str | int) else None)


def _source_reader(record: Type) -> Callable[[bytes, int], tuple[Source, int]]:
    code = Code()
    kept = []
    for field in record.fields:
        name = field.name
        null = null_branch(field.type)
        inner = field.type if null is None else field.type.parts[1 - null]
        reads = inner.kind in _SOURCE.get(name, ())
        if reads:
            kept.append(name)

        def write(type_: Type, depth: int, name: str = name, *, reads: bool = reads) -> None:
            if reads:
                code.scalar(f"s_{name}", type_, depth)
            else:
                code.skip(type_, depth)

        code.optional(f"s_{name}" if reads else "_", field.type, write)
    given = ", ".join(f"{name}=s_{name}" for name in kept)
    code.add(f"return {code.name(Source)}({given}), at", 1)
    read: Callable[[bytes, int], tuple[Source, int]] = code.compiled("data, at")
    return read
