"""Row images of Debezium in Avro, read as canonical text; see `avro_code`.

What Connect's schema says of a column decides as it does in JSON, but numbers and bytes come as
themselves: a decimal is not packed into base64 to be unpacked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ingest import values
from ingest.codes import Code as Warned
from ingest.events import Row
from ingest.formats import avro_reader
from ingest.formats import debezium_values as encoded
from ingest.formats.avro_code import WHOLE, Code
from ingest.formats.avro_connect import DECIMAL
from ingest.formats.avro_schema import Type
from ingest.formats.columns import Convert
from ingest.formats.connect_schema import Field
from ingest.formats.debezium_columns import Columns

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
        """The text of bytes whose reading no other method knows better."""
        packed = values.base64_of(data)
        return packed if self.convert is None else self.convert(packed, warnings)

    def reads_bytes(self) -> Callable[[bytes, list[str]], str | None]:
        """The quickest way from bytes to text."""
        convert, field = self.convert, self._field
        if convert is None or convert is encoded.PLAIN["bytes"][1]:
            return lambda data, warnings: values.base64_of(data)
        if convert is encoded.bits:
            return lambda data, warnings: values.digits_of(int.from_bytes(data, "little"))
        scale = (field.parameters or {}).get("scale")
        if field.name == DECIMAL and scale is not None and str(scale).lstrip("-").isdigit():
            if convert is encoded.decimal(int(scale)):
                return _decimal(int(scale))
        return self.of_bytes

    def of_nested(self, value: Any, warnings: list[str]) -> str | None:
        """The text of an array, a map, a record of its own, or of a union of several types."""
        if value is None or value.__class__ is str:
            return value if value is None else str(value)
        text = self._columns.text_of(self._name, value, warnings)
        return msgspec.json.encode(value).decode() if text is None else text


def _decimal(scale: int) -> Callable[[bytes, list[str]], str]:
    def text(data: bytes, warnings: list[str]) -> str:
        if not data:
            warnings.append(Warned.VALUE_NOT_OF_TYPE.value)
            return ""
        return values.unscaled_text(int.from_bytes(data, "big", signed=True), scale)

    return text


def row_reader(
    record: Type, names: Sequence[str], fields: Sequence[Field], columns: Columns
) -> ReadRow:
    """The reader of a record's row images.

    `names` are the columns' own and `fields` what Connect says of them, in the record's order;
    `columns` says how they are read, the source's YAML included.
    """
    code = Code()
    for index, field in enumerate(record.fields):
        variable = f"v{index}"
        column = _Column(names[index], fields[index], columns)

        def write(type_: Type, depth: int, v: str = variable, column: _Column = column) -> None:
            _cell(code, type_, v, depth, column)

        code.optional(variable, field.type, write)
    row = ", ".join(f"{name!r}: v{index}" for index, name in enumerate(names))
    code.add(f"return {{{row}}}, at", 1)
    read: ReadRow = code.compiled("data, at, warnings")
    return read


def _cell(code: Code, type_: Type, v: str, depth: int, column: _Column) -> None:
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
        reads = {"float": avro_reader.single, "double": avro_reader.double}
        code.call(v, reads.get(kind) or avro_reader.reader(type_), depth)
        if convert is not None:
            code.add(f"{v} = {converted(v)}", depth)
    elif kind == "null":
        code.add(f"{v} = None", depth)
    else:
        code.call(v, avro_reader.reader(type_), depth)
        code.add(f"{v} = {code.name(column.of_nested)}({v}, warnings)", depth)
