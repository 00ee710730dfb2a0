"""The layout of OceanBase's AvroRecord, and whether a writer's schema has it.

Source: OceanBase Cloud, "Message formats" of data subscription, schema `AvroRecord`.

Names of types do not count, since the vendor prints a made-up namespace. Data of a writer whose
schema has another layout, for example an earlier version's, are read by that schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.formats.oceanbase.record import MARKS, OPERATIONS, SOURCES
from ingest.formats.oceanbase.values import TYPES
from ingest.wire.avro.reader import UNREADABLE, native_reader
from ingest.wire.avro.schema import parse_schema

Shape = Any
"""A type without its name: a primitive's word, or a tuple of what it is and what it holds."""


def _maybe(shape: Shape) -> Shape:
    return ("union", "null", shape)


def _record(*fields: tuple[str, Shape]) -> Shape:
    return ("record", *fields)


def _ints(*names: str) -> Shape:
    return _record(*((name, "int") for name in names))


_VALUE = (
    "union",
    "null",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    "string",
    _record(("charsetName", "string"), ("value", "string")),
    _record(("precision", "int"), ("scale", "int"), ("value", "string")),
    _ints("year", "month", "day"),
    _record(
        ("negative", "boolean"),
        *((name, "int") for name in ("hours", "minutes", "seconds", "nanos")),
    ),
    _ints("year", "month", "day", "hours", "minutes", "seconds", "nanos"),
    _record(("seconds", "long"), ("nanos", "int"), ("timezone", _maybe("string"))),
    _record(("bit_length", "int"), ("value", "string")),
    _record(("value", "string"), ("defines", _maybe(("array", "string")))),
    _record(("srid", "int"), ("wkb", "bytes")),
)
_IMAGE = _maybe(("array", _record(("type_info", ("enum", *TYPES)), ("value", _VALUE))))
LAYOUT = _record(
    ("id", "long"),
    ("version", ("union", "int")),
    ("operation", _maybe(("enum", *OPERATIONS))),
    ("xid", _maybe("string")),
    ("txind", _maybe(("enum", *MARKS))),
    ("position", _maybe("string")),
    ("timestamp", _maybe("long")),
    ("source", _maybe(_record(("sourceType", ("enum", *SOURCES)), ("version", "string")))),
    ("schemaName", _maybe("string")),
    ("tableName", _maybe("string")),
    ("fields", _maybe(("array", _record(("name", "string"), ("dataTypeNumber", "int"))))),
    ("pkIndexes", _maybe(("array", "int"))),
    ("ukIndexes", _maybe(("array", ("array", "int")))),
    ("beforeImages", _IMAGE),
    ("afterImages", _IMAGE),
    ("sql", _maybe("string")),
    ("tags", _maybe(("map", "string"))),
    ("total", "int"),
    ("index", "int"),
    ("beforeImageBytes", "bytes"),
    ("afterImageBytes", "bytes"),
)


@lru_cache(maxsize=256)
def reader_of(schema: bytes) -> Callable[[bytes], dict[str, Any]] | None:
    """How data of a writer's schema are read; None if it has the layout known here.

    Raises bad_avro for a schema that is none of an AvroRecord.
    """
    type_ = parse_schema([schema])
    try:
        shape = _shape(json.loads(schema), {}, "")
        names = {name for name, _ in shape[1:]} if shape[0] == "record" else set()
        if not names >= {"id", "operation", "beforeImages", "afterImages"}:
            raise ValueError("a record without id, operation and images")
        if shape == LAYOUT:
            return None
        read_whole = native_reader(type_)
    except Exception as error:
        # What is a schema to one reader of JSON may be none to another, in many ways.
        raise DecodeError(
            Code.BAD_AVRO,
            f"expected the schema of an AvroRecord, got {type(error).__name__}: {error}",
        ) from None

    def read(data: bytes) -> dict[str, Any]:
        try:
            found, end = read_whole(data, 0)
        except UNREADABLE as error:
            text = f"expected a datum of the writer's schema, got {type(error).__name__}: {error}"
            raise DecodeError(Code.BAD_AVRO, text) from None
        if end != len(data) or not isinstance(found, dict):
            raise DecodeError(
                Code.BAD_AVRO,
                f"expected one datum of the writer's schema, got one of {end} bytes in {len(data)}",
            )
        return found

    return read


def _shape(schema: Any, named: dict[str, Shape], space: str) -> Shape:
    if isinstance(schema, str):
        return named.get(schema, named.get(f"{space}.{schema}", schema))
    if isinstance(schema, list):
        return ("union", *(_shape(branch, named, space) for branch in schema))
    kind = schema["type"]
    if not isinstance(kind, str):
        return _shape(kind, named, space)
    if kind in ("array", "map"):
        item = _shape(schema["items" if kind == "array" else "values"], named, space)
        if item == "null" or (item[0] == "record" and len(item) == 1):
            raise ValueError(f"an {kind} of items without a size")
        return (kind, item)
    if kind not in ("record", "enum", "fixed"):
        return kind
    space = schema.get("namespace", space)
    if kind == "record":
        fields = ((f["name"], _shape(f["type"], named, space)) for f in schema["fields"])
        shape: Shape = ("record", *fields)
    else:
        shape = (kind, *schema.get("symbols", (schema.get("size"),)))
    named[schema["name"]] = named[f"{space}.{schema['name']}"] = shape
    return shape
