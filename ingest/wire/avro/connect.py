"""Connect's schema of a field, as a JSON message holds it or as an Avro schema was made from it.

So a column has one type and one reading, whether Debezium sent it as JSON or as Avro.
Source: https://github.com/confluentinc/schema-registry, AvroData (7.8): `connect.name`,
`connect.parameters`, `connect.type`, logical types; https://github.com/pingcap/ticdc,
pkg/sink/codec/debezium/avro.go (08d24db): `connect.field` and `tidb_type` of a field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ingest.values.canonical import base64_of
from ingest.wire.avro.schema import Field as AvroField
from ingest.wire.avro.schema import Type, present

ADJUSTMENTS = ("none", "avro", "avro_unicode")
"""`field.name.adjustment.mode`: what a connector did to names that Avro does not allow."""

CONNECT_DATA, DEBEZIUM_TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
"""How the names of semantic types begin: Connect's own, and Debezium's of time."""
DECIMAL = CONNECT_DATA + "Decimal"
_LOGICAL = {
    "date": CONNECT_DATA + "Date",
    "time-millis": CONNECT_DATA + "Time",
    "time-micros": DEBEZIUM_TIME + "MicroTime",
    "timestamp-millis": CONNECT_DATA + "Timestamp",
    "timestamp-micros": DEBEZIUM_TIME + "MicroTimestamp",
    "timestamp-nanos": DEBEZIUM_TIME + "NanoTimestamp",
    "local-timestamp-millis": CONNECT_DATA + "Timestamp",
    "local-timestamp-micros": DEBEZIUM_TIME + "MicroTimestamp",
    "local-timestamp-nanos": DEBEZIUM_TIME + "NanoTimestamp",
    "decimal": DECIMAL,
}
_KINDS = {
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "bytes": "bytes",
    "fixed": "bytes",
    "array": "array",
    "map": "map",
    "record": "struct",
}
_SMALL_INTEGERS = ("int8", "int16")
_UNKNOWN_PRECISION = 64
"""AvroData's precision of a decimal that has none."""
_SOURCE_NAME = "__debezium.source.column.name"
_ESCAPE = re.compile(r"_u([0-9a-fA-F]{4})")


def connect_field(field: AvroField, name: str) -> Field:
    """One column, under its own `name`."""
    made = _connect(field.type, name)
    own = field.props.get("tidb_type")
    return msgspec.structs.replace(made, tidb_type=own) if isinstance(own, str) else made


def _connect(given_type: Type, name: str | None) -> Field:
    type_ = present(given_type)
    props = type_.props
    connect = _KINDS.get(type_.kind, "string")
    if props.get("connect.type") in _SMALL_INTEGERS:
        connect = props["connect.type"]
    given = props.get("connect.name")
    semantic = given if isinstance(given, str) and type_.kind != "record" else None
    parameters = _parameters(props)
    if semantic is None and type_.kind != "record":
        semantic = _LOGICAL.get(str(props.get("logicalType")))
        if semantic == DECIMAL:
            parameters = {"scale": props.get("scale", 0), **parameters}
            precision = props.get("precision")
            if precision != _UNKNOWN_PRECISION:
                parameters.setdefault("connect.decimal.precision", precision)
    elif isinstance(given, str):
        semantic = given
    return Field(
        type=connect,
        field=name,
        name=semantic,
        parameters=parameters or None,
        optional=type_ is not given_type,
        default=_default(props.get("connect.default"), type_.kind),
        items=_connect(type_.parts[0], None) if type_.kind == "array" else None,
    )


def _default(value: Any, kind: str) -> msgspec.Raw:
    """A column's default as JSON has it; Avro writes bytes as text of code points."""
    if value is None:
        return msgspec.Raw()
    if kind in ("bytes", "fixed") and isinstance(value, str):
        value = base64_of(value.encode("latin-1", "replace"))
    return msgspec.Raw(msgspec.json.encode(value))


def _parameters(props: Mapping[str, Any]) -> dict[str, Any]:
    found = props.get("connect.parameters")
    return dict(found) if isinstance(found, dict) else {}


def column_namer(mode: str) -> Callable[[AvroField], str]:
    """Gives a column's own name, as far as `mode` lets it be known.

    `avro` replaced characters by underscores: only a propagated source name tells what they were.
    So did TiCDC, whose fields say it themselves.
    """
    if mode == "avro_unicode":
        return lambda field: unescaped(field.name)
    if mode == "avro":
        return lambda field: str(
            _parameters(present(field.type).props).get(_SOURCE_NAME, _sent_name(field))
        )
    return _sent_name


def _sent_name(field: AvroField) -> str:
    return str(field.props.get("connect.field", field.name))


def unescaped(name: str) -> str:
    """A name whose characters were written `_uXXXX`, the underscore among them."""
    if "_u" not in name:
        return name
    found = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)
    # what lies beyond U+FFFF came as two halves
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Field(msgspec.Struct, gc=False, frozen=True):
    """One field of a Connect schema: a column, or a struct of columns.

    `default` is JSON; `items` says what the elements of an array are; `tidb_type` is the source's
    own type, where TiCDC sends it.
    """

    type: str = ""
    field: str | None = None
    name: str | None = None
    parameters: dict[str, Any] | None = None
    fields: tuple[Field, ...] | None = None
    items: Field | None = None
    tidb_type: str | None = None
    optional: Any = True
    default: msgspec.Raw = msgspec.Raw()
