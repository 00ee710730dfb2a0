"""Types of Connect's schema: for each, its Spark type, how a value is read, and its zero.

A semantic type is the `name` of a field; it says how the value of a Connect type must be read. Its
row in SEMANTIC also has the zero that Debezium makes up if PostgreSQL did not send a required
column; `schema.py` says where that matters. A new type needs a row here, the function in
`values.py` that reads it, and its made-up value in `tests/formats/test_debezium_types.py`.

Sources: https://debezium.io/documentation/reference/3.6/connectors/ (data type mappings); the
fallback values of JdbcValueConverters and PostgresValueConverter;
https://github.com/cockroachdb/cockroach (kcjsonschema, of envelope=enriched);
https://github.com/apache/flink-cdc (e9d201b, DebeziumJsonSerializationSchema).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ingest.formats.debezium import values as encoded
from ingest.formats.debezium.values import CIVIL, TIME, Nested, integer
from ingest.values.source_types import decimal_type
from ingest.wire.avro.connect import CONNECT_DATA, DEBEZIUM_TIME, DECIMAL, Field
from ingest.wire.declared import Convert

Zeros = tuple[bytes, ...]
"""A zero as JSON, in each form in which it may come; empty if none is known."""


class Reading(NamedTuple):
    """How values of a field are read.

    `name`: the type as text, None if only Connect's own type is known. `convert` is None if a value
    stays as it is; `nested` reads values that are JSON objects.
    """

    name: str | None
    spark: str
    convert: Convert | None = None
    nested: Nested | None = None


class Plain(NamedTuple):
    """A type of Connect's own."""

    spark: str
    convert: Convert | None
    zeros: Zeros


class Semantic(NamedTuple):
    """A semantic type; `zeros` is None if its zero is that of its Connect type."""

    reading: Callable[[Field], Reading]
    zeros: Zeros | None


def _as(spark: str, convert: Convert | None) -> Callable[[Field], Reading]:
    """The reading of types whose parameters say nothing."""
    return lambda field: Reading(field.name, spark, convert)


def _struct(spark: str, nested: Nested) -> Callable[[Field], Reading]:
    """The reading of types whose values are JSON objects with one plain text."""
    return lambda field: Reading(field.name, spark, nested=nested)


def _plain(field: Field) -> Reading:
    """The reading of types that do not say how a value is written: Json, Uuid, geometry."""
    sizes = field.parameters or {}
    if "allowed" in sizes:
        return Reading(f"{field.name}({sizes['allowed']})", "string")
    plain = PLAIN.get(field.type, _UNKNOWN)
    return Reading(field.name, plain.spark, plain.convert)


def _decimal(field: Field) -> Reading:
    name, sizes = field.name, field.parameters or {}
    scale, precision = number_of(sizes, "scale"), number_of(sizes, "connect.decimal.precision")
    if precision is None:
        # TiCDC's name for it.
        precision = number_of(sizes, "precision")
    if scale is None or (precision is not None and scale > precision > 0):
        return Reading(f"{name}({precision},{scale})", "string", encoded.scale_doubted)
    convert = encoded.decimal(scale)
    if not precision:
        return Reading(f"{name}(,{scale})", "string", convert)
    return Reading(f"{name}({precision},{scale})", decimal_type((precision, scale)), convert)


def _bits(field: Field) -> Reading:
    length = number_of(field.parameters or {}, "length")
    fits = length is not None and length <= 64
    spark = "decimal(20,0)" if fits else "string"
    return Reading(f"{field.name}({length})", spark, encoded.bits(length))


def _duration(field: Field) -> Reading:
    convert = encoded.duration if PLAIN.get(field.type) is PLAIN["double"] else integer
    return Reading(field.name, "string", convert)


def _cockroachdb_decimal(field: Field) -> Reading:
    sizes = field.parameters or {}
    numbers = number_of(sizes, "precision") or 0, number_of(sizes, "scale") or 0
    size = "({},{})".format(*numbers) if numbers[0] else ""
    return Reading(f"decimal{size}", decimal_type(numbers), encoded.decimal_text)


PLAIN: dict[str, Plain] = {
    **dict.fromkeys(("int8", "int16", "int32"), Plain("int", integer, (b"0",))),
    "int64": Plain("bigint", integer, (b"0",)),
    **dict.fromkeys(
        ("float", "double", "float32", "float64"), Plain("double", None, (b"0.0", b"0"))
    ),
    "boolean": Plain("boolean", encoded.boolean, (b"false",)),
    "string": Plain("string", None, (b'""',)),
    "bytes": Plain("binary", encoded.binary("bytes"), (b'""',)),
    "array": Plain("string", None, (b"[]",)),
    "map": Plain("string", None, (b"{}",)),
    "struct": Plain("string", None, ()),
}
"""Connect's own types, used if no semantic type says more."""
_UNKNOWN = Plain("string", None, ())
_UNKNOWN_ZERO: Zeros = ()
_EMPTY_GEOMETRY: Zeros = (b'{"wkb":"AQcAAAAAAAAA","srid":null}',)
"""GEOMETRYCOLLECTION EMPTY, as WKB."""

SEMANTIC: dict[str, Semantic] = {
    DEBEZIUM_TIME + "Date": Semantic(_as("date", encoded.days), None),
    CONNECT_DATA + "Date": Semantic(_as("date", encoded.days), None),
    DEBEZIUM_TIME + "Time": Semantic(_as("string", TIME[10**3]), None),
    CONNECT_DATA + "Time": Semantic(_as("string", TIME[10**3]), None),
    DEBEZIUM_TIME + "MicroTime": Semantic(_as("string", TIME[10**6]), None),
    DEBEZIUM_TIME + "NanoTime": Semantic(_as("string", TIME[10**9]), None),
    DEBEZIUM_TIME + "Timestamp": Semantic(_as("timestamp_ntz", CIVIL[10**3]), None),
    CONNECT_DATA + "Timestamp": Semantic(_as("timestamp_ntz", CIVIL[10**3]), None),
    DEBEZIUM_TIME + "MicroTimestamp": Semantic(_as("timestamp_ntz", CIVIL[10**6]), None),
    DEBEZIUM_TIME + "NanoTimestamp": Semantic(_as("timestamp_ntz", CIVIL[10**9]), None),
    DEBEZIUM_TIME + "ZonedTimestamp": Semantic(
        _as("timestamp", encoded.zoned), (b'"1970-01-01T00:00:00Z"',)
    ),
    DEBEZIUM_TIME + "ZonedTime": Semantic(_as("string", None), (b'"00:00:00Z"',)),
    DEBEZIUM_TIME + "IsoDate": Semantic(_as("date", encoded.iso_date), (b'"1970-01-01Z"',)),
    DEBEZIUM_TIME + "IsoTime": Semantic(_as("string", encoded.iso_time), (b'"00:00:00Z"',)),
    DEBEZIUM_TIME + "IsoTimestamp": Semantic(
        _as("timestamp_ntz", encoded.iso_timestamp), (b'"1970-01-01T00:00:00Z"',)
    ),
    DEBEZIUM_TIME + "Year": Semantic(_as("int", integer), None),
    DEBEZIUM_TIME + "MicroDuration": Semantic(_duration, None),
    DEBEZIUM_TIME + "NanoDuration": Semantic(_duration, None),
    DEBEZIUM_TIME + "Interval": Semantic(_as("string", None), (b'"P0Y0M0DT0H0M0S"',)),
    DEBEZIUM_TIME + "StructuredDate": Semantic(_struct("date", encoded.structured), _UNKNOWN_ZERO),
    DEBEZIUM_TIME + "StructuredTime": Semantic(
        _struct("string", encoded.structured), _UNKNOWN_ZERO
    ),
    DEBEZIUM_TIME + "StructuredTimestamp": Semantic(
        _struct("timestamp_ntz", encoded.structured), _UNKNOWN_ZERO
    ),
    DEBEZIUM_TIME + "StructuredZonedTime": Semantic(
        _struct("string", encoded.structured), _UNKNOWN_ZERO
    ),
    DEBEZIUM_TIME + "StructuredZonedTimestamp": Semantic(
        _struct("timestamp", encoded.structured), _UNKNOWN_ZERO
    ),
    DECIMAL: Semantic(_decimal, (b'"AA=="', b"0")),
    "io.debezium.data.VariableScaleDecimal": Semantic(
        _struct("string", encoded.variable_scale), (b'{"scale":0,"value":"AA=="}',)
    ),
    "io.debezium.data.Bits": Semantic(_bits, None),
    "io.debezium.data.geometry.Geometry": Semantic(_plain, _EMPTY_GEOMETRY),
    "io.debezium.data.geometry.Geography": Semantic(_plain, _EMPTY_GEOMETRY),
    "io.debezium.data.geometry.Point": Semantic(
        _plain, (b'{"x":0.0,"y":0.0,"wkb":"AQEAAAAAAAAAAAAAAAAAAAAAAAAA","srid":null}',)
    ),
    "io.debezium.data.Json": Semantic(_plain, (b'"{}"', b'""')),
}
"""Semantic types that say how a value is read, or that have a zero of their own."""
_COCKROACHDB: dict[tuple[str, str], Callable[[Field], Reading]] = {
    ("decimal", "float64"): _cockroachdb_decimal,
    ("date", "string"): _as("date", encoded.iso_date),
    # of TIMESTAMP and TIMESTAMPTZ alike
    ("timestamp", "string"): lambda field: Reading(None, "string"),
}
"""The types for which the schema of CockroachDB's changefeeds has names of its own, with the
Connect type."""
_ZERO_IN_TEXT: Zeros = (b'"0"',)


def read(field: Field) -> Reading:
    """How the values of a field are read: by its name, else by Connect's own type."""
    if field.name is None:
        plain = PLAIN.get(field.type, _UNKNOWN)
        return Reading(None, plain.spark, plain.convert)
    semantic = SEMANTIC.get(field.name)
    if semantic is not None:
        return semantic.reading(field)
    return _COCKROACHDB.get((field.name, field.type), _plain)(field)


_TEXTS_OF_FLINK: dict[str, Convert] = {
    DEBEZIUM_TIME + "Date": encoded.iso_date,
    DEBEZIUM_TIME + "MicroTime": encoded.iso_time,
    **dict.fromkeys(
        (DEBEZIUM_TIME + "Timestamp", DEBEZIUM_TIME + "MicroTimestamp"), encoded.iso_timestamp
    ),
}
"""How texts of Flink CDC are read that stand under the name of a count."""


def read_of_flink(field: Field) -> Reading:
    """`read` for Flink CDC, which writes dates and times as text, and calls all bytes Bits."""
    if field.name == "io.debezium.data.Bits":
        bytes_ = PLAIN["bytes"]
        return Reading(None, bytes_.spark, bytes_.convert)
    reading = read(field)
    as_text, count = _TEXTS_OF_FLINK.get(field.name or ""), reading.convert
    if as_text is None or count is None:
        return reading

    def convert(value: Any, warnings: list[str]) -> str | None:
        return (as_text if value.__class__ is str else count)(value, warnings)

    return reading._replace(convert=convert)


def zeros(field: Field, *, number: bool) -> Zeros:
    """What Debezium makes up for a required field. `number`: the column holds decimals."""
    semantic = SEMANTIC.get(field.name or "")
    found = semantic.zeros if semantic is not None else None
    if not found:
        found = PLAIN.get(field.type, _UNKNOWN).zeros
    return found + _ZERO_IN_TEXT if number and field.type == "string" else found


def number_of(parameters: Mapping[str, Any], name: str) -> int | None:
    """The number in a parameter of a field; None if it is none."""
    try:
        return int(parameters[name])
    except (KeyError, TypeError, ValueError):
        return None
