"""Connect's schema block: which column has which type, and how its values are read.

The block is two thirds of a message and the same for thousands of them, so it is taken as raw bytes
and what it says is remembered by them.
Source: Kafka Connect JsonConverter (schemas.enable=true) and Debezium's `name` and `parameters`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import ColumnType
from ingest.formats import debezium_values as encoded
from ingest.formats.columns import Convert, declared_for, in_any_case, respelt
from ingest.formats.connect_schema import Field
from ingest.formats.debezium_arrays import ReadArray, array_reader
from ingest.formats.debezium_columns import Columns
from ingest.formats.debezium_declared import Handling, declared_converter, declared_type, is_decimal
from ingest.formats.debezium_invented import invented
from ingest.formats.format import FormatOptions, TableName
from ingest.types import decimal_type, types_of

_MOST_BLOCKS = 1_000
_MOST_TABLES = 10_000
_SOURCE_TYPE = "__debezium.source.column."
_SIZED = {"decimal", "numeric", "number", "dec", "fixed", "bit", "char", "varchar", "binary"} | {
    "varbinary",
    "nchar",
    "nvarchar",
    "varchar2",
    "nvarchar2",
    "raw",
    "datetime",
    "timestamp",
    "time",
    "bpchar",
    "bit varying",
    "varbit",
}


class Block:
    """One schema block: its fields, and the columns built from them, per table and family.

    `row`: the fields of an envelope's images; `flat`: those of a flattened row, once known.
    """

    def __init__(self, schema: Field | None) -> None:
        self.fields = schema.fields or () if schema is not None else ()
        self.row = _row_fields(self.fields)
        self.flat: tuple[Field, ...] | None = None
        self.memo: dict[tuple[str, TableName | None], Columns] = {}


class Schemas:
    """Remembers schema blocks by their bytes, and what the YAML adds to them."""

    def __init__(self, options: FormatOptions, handling: Handling) -> None:
        self._options = options
        self.named = bool(options.columns or options.keys)
        self._handling = handling
        self._blocks: dict[bytes, Block] = {}
        self._none = Block(None)

    def block(self, raw: bytes) -> Block:
        """The block of these bytes; `null` and no bytes at all are a block without fields."""
        if not raw or raw == b"null":
            return self._none
        found = self._blocks.get(raw)
        if found is None:
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks.clear()
            found = self._blocks[raw] = Block(_schema(raw))
        return found

    def columns(
        self, block: Block, fields: tuple[Field, ...], names: TableName, family: str
    ) -> Columns:
        """The columns of table `names` whose rows have `fields` (of `block`)."""
        key = (family, names if self.named else None)
        found = block.memo.get(key)
        if found is None:
            if len(block.memo) >= _MOST_TABLES:
                block.memo.clear()
            found = block.memo[key] = self._build(fields, names, family)
        return found

    def _build(self, fields: tuple[Field, ...], names: TableName, family: str) -> Columns:
        sent = (field.field for field in fields if field.field is not None)
        table = self._options.completed(names)
        declared = respelt(declared_for(self._options.columns, table), sent)
        keys = declared_for(self._options.keys, table)
        columns: list[ColumnType] = []
        converts: dict[str, Convert | None] = {}
        nested: dict[str, encoded.Nested] = {}
        made_up: dict[str, frozenset[str]] = {}
        arrays: dict[str, ReadArray] = {}
        for field in fields:
            name = field.field
            if name is None:
                continue
            type_, convert = self._column(name, field, declared.pop(name, None), family)
            columns.append(type_)
            converts[name] = convert
            if field.name in encoded.NESTED:
                nested[name] = encoded.NESTED[field.name][1]
            if field.items is not None and field.items.name is not None:
                _, _, element = _read(field.items)
                inner = encoded.NESTED.get(field.items.name, ("", None))[1]
                if element is not None or inner is not None:
                    arrays[name] = array_reader(element, inner)
            if family == "postgres":
                number = is_decimal(type_.source_type)
                made_up[name] = invented(field, convert, nested.get(name), number=number)
        for name, text in declared.items():
            columns.append(ColumnType(name, text, declared_type(text, family)))
            converts[name] = declared_converter(text, family, self._handling)
            if not fields:
                nested[name] = encoded.variable_scale
        types = types_of(tuple(columns)) if columns else None
        if declared:
            converts, nested = in_any_case(converts), in_any_case(nested)
        return Columns(
            types,
            converts,
            nested,
            frozenset(converts),
            len(fields),
            tuple(keys) or None,
            {},
            invented=made_up,
            arrays=arrays,
        )

    def _column(
        self, name: str, field: Field, declared: str | None, family: str
    ) -> tuple[ColumnType, Convert | None]:
        native = _native(field.parameters)
        said = declared or native
        semantic, spark, convert = _read(field)
        if semantic is None and said is not None:
            wanted = declared_type(said, family)
            by_type = field.type in ("int64", "string", "double", "float", "float64")
            by_type = by_type and wanted.startswith(("decimal", "binary"))
            by_type = by_type or (field.type == "string" and is_decimal(said))
            if declared is not None or by_type:
                handling = self._handling
                if field.type == "string":
                    # Connect packs into bytes alone: digits in a string are the number itself
                    handling = handling._replace(decimals="string", unsigned="long")
                spark, convert = wanted, declared_converter(said, family, handling)
                if field.type == "boolean" and declared is None:
                    spark, convert = encoded.PLAIN["boolean"]
        elif said is not None and (declared is not None or spark == "string"):
            # a decimal without its precision, say: the source's own type knows it
            spark = declared_type(said, family)
        return ColumnType(name, said or semantic or field.type, spark), convert


def _read(field: Field) -> tuple[str | None, str, Convert | None]:
    """The semantic type as text (None where Connect's own type is all), Spark type, converter."""
    name, sizes = field.name, field.parameters or {}
    if name is None:
        return (None, *encoded.PLAIN.get(field.type, ("string", None)))
    if name in encoded.SEMANTIC:
        return (name, *encoded.SEMANTIC[name])
    if name == "org.apache.kafka.connect.data.Decimal":
        scale, precision = _number(sizes, "scale"), _number(sizes, "connect.decimal.precision")
        if scale is None or (precision is not None and scale > precision > 0):
            return f"{name}({precision},{scale})", "string", encoded.scale_doubted
        if not precision:
            return f"{name}(,{scale})", "string", encoded.decimal(scale)
        return (
            f"{name}({precision},{scale})",
            decimal_type((precision, scale)),
            encoded.decimal(scale),
        )
    if name == "io.debezium.data.Bits":
        length = _number(sizes, "length")
        fits = length is not None and length <= 64
        return f"{name}({length})", "decimal(20,0)" if fits else "string", encoded.bits
    if name in encoded.NESTED:
        return name, encoded.NESTED[name][0], None
    if "allowed" in sizes:
        return f"{name}({sizes['allowed']})", "string", None
    # other names (Json, Uuid, geometry, …) say nothing about how a value is written
    return (name, *encoded.PLAIN.get(field.type, ("string", None)))


def _number(parameters: Mapping[str, Any], name: str) -> int | None:
    try:
        return int(parameters[name])
    except (KeyError, TypeError, ValueError):
        return None


def _native(parameters: Mapping[str, Any] | None) -> str | None:
    """The source's own type, where `column.propagate.source.type` sends it along."""
    if not parameters:
        return None
    text = parameters.get(_SOURCE_TYPE + "type")
    if not isinstance(text, str):
        return None
    return sized(
        text,
        _number(parameters, _SOURCE_TYPE + "length"),
        _number(parameters, _SOURCE_TYPE + "scale"),
    )


def sized(text: str, length: int | None, scale: int | None) -> str:
    """A type with length and scale where they belong to it: DECIMAL, 14, 4 → `DECIMAL(14,4)`."""
    if "(" in text or length is None:
        return text
    base, _, rest = text.partition(" ")
    if base.lower() not in _SIZED:
        return text
    if base.lower() == "number" and scale is None:
        # Oracle's NUMBER without a scale may hold any fraction
        return text
    size = f"{length},{scale}" if scale is not None else str(length)
    return f"{base}({size}) {rest}".rstrip()


def _row_fields(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """The columns of the row images: those of `after`, else of `before`."""
    found: dict[str | None, tuple[Field, ...]] = {
        field.field: field.fields for field in fields if field.fields
    }
    return found.get("after") or found.get("before") or ()


_SCHEMA = msgspec.json.Decoder(Field)


def _schema(raw: bytes) -> Field | None:
    if raw[:1] != b"{":
        return None
    try:
        return _SCHEMA.decode(raw)
    except msgspec.ValidationError as error:
        raise DecodeError(
            Code.BAD_SHAPE, f"expected Connect's schema of the message, {error}"
        ) from None
