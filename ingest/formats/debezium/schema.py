"""Connect's schema block: the types of columns, how values are read, and which are made up.

The block is two thirds of a message and the same for thousands of messages, so it is taken as raw
bytes, and its content is remembered by them.

PostgreSQL sends of a row before only what REPLICA IDENTITY says, by default the key. Debezium makes
up the rest: null, the column's default or, if the column is required, the zero of its type.

`types.py` says what each type is and how it is read.

Sources: Kafka Connect JsonConverter (schemas.enable=true) and Debezium's `name` and `parameters`;
https://debezium.io/documentation/reference/3.6/connectors/postgresql.html (replica identity).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import ColumnType
from ingest.formats.debezium.columns import Columns
from ingest.formats.debezium.declared import (
    Handling,
    declared_array,
    declared_converter,
    declared_type,
    is_decimal,
)
from ingest.formats.debezium.envelope import Source
from ingest.formats.debezium.types import (
    PLAIN,
    Reading,
    number_of,
    read,
    read_of_flink,
    zeros,
)
from ingest.formats.debezium.unavailable import SET, VALUE, large_values
from ingest.formats.debezium.values import (
    Nested,
    ReadArray,
    array_reader,
    binary_in_text,
    variable_scale,
)
from ingest.memo import Memo
from ingest.names import declared_for
from ingest.values import jsontext
from ingest.values.source_types import types_of
from ingest.wire.avro.connect import DECIMAL, Field
from ingest.wire.contract import FormatOptions, TableName
from ingest.wire.declared import Convert, in_any_case, in_sent_names, plain

_SOURCE_TYPE = "__debezium.source.column."
_SIZED = {
    "decimal",
    "numeric",
    "number",
    "dec",
    "fixed",
    "bit",
    "char",
    "varchar",
    "binary",
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
    """One schema block: its fields, and the columns built from them, by table and family.

    `row`: the fields of an envelope's images. `images_alone`: the schema has nothing else, as Flink
    CDC writes it.
    """

    def __init__(self, schema: Field | None) -> None:
        self.fields = _without_cells(schema.fields or ()) if schema is not None else ()
        self.row = _without_cells(_row_fields(self.fields))
        self.images_alone = [field.field for field in self.fields] == ["before", "after"]
        self.memo: Memo[tuple[int, str, TableName | None, bool], Columns] = Memo(most=10_000)
        self._columns: tuple[Field, ...] | None = None

    def columns_of_row(self, word: Callable[[str], str | None]) -> tuple[Field, ...]:
        """The fields of a flattened row that are columns: those for which `word` finds no field of
        the envelope. `word` must be the same for all rows of the block."""
        if self._columns is None:
            columns = (field for field in self.fields if word(field.field or "") is None)
            self._columns = tuple(columns)
        return self._columns


OPENING = b'{"schema":'
"""How a message begins whose schema block stands before its payload."""


class Opening(NamedTuple):
    """How messages of a topic begin: `{"schema":…` up to the payload, and what that schema says."""

    text: bytes
    block: Block


class Schemas:
    """Remembers schema blocks by their bytes, together with what the YAML adds to them."""

    def __init__(self, options: FormatOptions, handling: Handling) -> None:
        self._options = options
        self.named = bool(options.columns or options.keys)
        self._handling = handling
        self._blocks: Memo[bytes, Block] = Memo(most=1_000)
        self._none = Block(None)

    def block(self, raw: bytes) -> Block:
        """The block of these bytes; `null` and no bytes at all are a block without fields."""
        if not raw or raw == b"null":
            return self._none
        found = self._blocks.get(raw)
        if found is None:
            found = self._blocks[raw] = Block(_schema(raw))
        return found

    def columns(
        self,
        block: Block,
        fields: tuple[Field, ...],
        names: TableName,
        *,
        family: str,
        of_flink: bool = False,
    ) -> Columns:
        """The columns of table `names` whose rows have `fields`; `block` keeps them as long as it
        lives."""
        key = (id(fields), family, names if self.named else None, of_flink)
        found = block.memo.get(key)
        if found is None:
            reads = read_of_flink if of_flink else read
            found = block.memo[key] = self._build(fields, names, family, reads=reads)
        return found

    def _build(
        self,
        fields: tuple[Field, ...],
        names: TableName,
        family: str,
        *,
        reads: Callable[[Field], Reading],
    ) -> Columns:
        sent = (field.field for field in fields if field.field is not None)
        table = self._options.completed(names)
        declared = in_sent_names(declared_for(self._options.columns, table), sent)
        keys = declared_for(self._options.keys, table)
        columns: list[ColumnType] = []
        converts: dict[str, Convert | None] = {}
        nested: dict[str, Nested] = {}
        made_up: dict[str, frozenset[str]] = {}
        arrays: dict[str, ReadArray] = {}
        for field in fields:
            name = field.field
            if name is None:
                continue
            reading = reads(_of_small_numbers(field) if family in _SMALL_NUMBERS else field)
            type_, convert = self._column(
                name, field, reading, declared=declared.pop(name, None), family=family
            )
            columns.append(type_)
            converts[name] = convert
            if reading.nested is not None:
                nested[name] = reading.nested
            if (elements := _elements(field, reads)) is not None:
                arrays[name] = elements
            if family == "postgres":
                number = is_decimal(type_.source_type)
                made_up[name] = invented(field, convert, nested.get(name), number=number)
        for name, text in declared.items():
            columns.append(ColumnType(name, text, declared_type(text, family)))
            converts[name] = declared_converter(text, family, self._handling)
            if (array := declared_array(text, family, self._handling)) is not None:
                arrays[name] = array
            if not fields:
                nested[name] = variable_scale
        types = types_of(tuple(columns)) if columns else None
        sources = {column.name: column.source_type for column in columns}
        large = large_values(sources) if family == "sqlserver" else {}
        if declared:
            converts, nested = in_any_case(converts), in_any_case(nested)
            arrays, large = in_any_case(arrays), in_any_case(large)
        return Columns(
            types,
            converts,
            nested,
            frozenset(converts),
            len(fields),
            tuple(keys) or None,
            Memo(most=1_000),
            family,
            invented=made_up,
            arrays=arrays,
            large=large,
        )

    def _column(
        self, name: str, field: Field, reading: Reading, *, declared: str | None, family: str
    ) -> tuple[ColumnType, Convert | None]:
        native = _native(field.parameters) or field.tidb_type
        source_type = declared or native
        semantic, spark, convert = reading.name, reading.spark, reading.convert
        if semantic is None and source_type is not None:
            wanted = declared_type(source_type, family)
            by_type = field.type in ("int64", "string", "double", "float", "float64")
            by_type = by_type and wanted.startswith(("decimal", "binary"))
            by_type = by_type or (field.type == "string" and is_decimal(source_type))
            if declared is not None or by_type:
                handling = self._handling
                if field.type == "string":
                    # Connect packs into bytes alone: digits in a string are the number itself
                    handling = handling._replace(decimals="string", unsigned="long")
                spark, convert = wanted, declared_converter(source_type, family, handling)
                sure = declared is not None or field.tidb_type is not None
                if wanted == "binary" and not sure and handling.binary == "bytes":
                    convert = binary_in_text
                if field.type == "boolean" and declared is None:
                    spark, convert = PLAIN["boolean"].spark, PLAIN["boolean"].convert
        elif source_type is not None and (declared is not None or spark == "string"):
            # a decimal without its precision, say: the source's own type knows it
            spark = declared_type(source_type, family)
        return ColumnType(name, source_type or semantic or field.type, spark), convert


_SMALL_NUMBERS = {"oracle", "postgres"}
"""Databases whose decimals may have a scale above their precision: NUMBER(3,5) is below 0.01."""


def _of_small_numbers(field: Field) -> Field:
    """A decimal with a scale above its precision as one of that many digits, which holds it."""
    sizes = field.parameters or {}
    scale, precision = number_of(sizes, "scale"), number_of(sizes, _PRECISION)
    if field.name != DECIMAL or not scale or precision is None or not 0 < precision < scale:
        return field
    return msgspec.structs.replace(field, parameters={**sizes, _PRECISION: str(scale)})


_PRECISION = "connect.decimal.precision"


def of_flink(block: Block, source: Source) -> bool:
    """Whether Flink CDC made a schema: it has the images alone, and no connector is named."""
    return block.images_alone and source.connector is None


def _elements(field: Field, reads: Callable[[Field], Reading]) -> ReadArray | None:
    """What reads the elements of an array that are encoded; None if they are not."""
    if field.items is None or field.items.name is None:
        return None
    element = reads(field.items)
    if element.convert is None and element.nested is None:
        return None
    return array_reader(element.convert, element.nested)


def _native(parameters: Mapping[str, Any] | None) -> str | None:
    """The source's own type, where `column.propagate.source.type` sends it along."""
    if not parameters:
        return None
    text = parameters.get(_SOURCE_TYPE + "type")
    if not isinstance(text, str):
        return None
    return sized(
        text,
        number_of(parameters, _SOURCE_TYPE + "length"),
        number_of(parameters, _SOURCE_TYPE + "scale"),
    )


def sized(text: str, length: int | None, scale: int | None) -> str:
    """A type with length and scale where they belong to it: DECIMAL, 14, 4 → `DECIMAL(14,4)`."""
    # SQL Server names `numeric() identity`, Db2 `CHAR () FOR BIT DATA`.
    text = text.replace(" ()", "").replace("()", "")
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


def _without_cells(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """The fields of a row's values if all of them are cells of YugabyteDB, each beside whether it
    is set; else the fields as they are."""
    found: list[Field] = []
    for field in fields:
        inside = {inner.field: inner for inner in field.fields or ()}
        if inside.keys() != {VALUE, SET} or inside[SET].type != "boolean":
            return fields
        found.append(msgspec.structs.replace(inside[VALUE], field=field.field, optional=True))
    return tuple(found)


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


def invented(
    field: Field, convert: Convert | None, nested: Nested | None, *, number: bool
) -> frozenset[str]:
    """The canonical texts, besides null, with which a column may come that was not sent.

    `number`: the column holds decimals.
    """
    default = bytes(field.default)
    samples: tuple[bytes, ...] = (default,) if default else ()
    if field.optional is False:
        samples += zeros(field, number=number)
    found = set()
    for sample in samples:
        image = jsontext.image(b'{"":' + sample + b"}", [], marked=True) or {}
        value = image.get("")
        kind = value.__class__
        if value is None:
            continue
        if kind is dict or kind is list:
            text = nested(value) if nested is not None and kind is dict else None
            found.add(sample.decode() if text is None else text)
            continue
        try:
            read = convert(value, []) if convert is not None else plain(value)
        except DecodeError:
            continue
        if read is not None:
            found.add(read)
    return frozenset(found)
