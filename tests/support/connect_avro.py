"""Debezium in Avro, written as Connect's Avro converter writes it: from Connect's own JSON.

What is `{"schema": …, "payload": …}` with the JSON converter becomes an Avro schema, registered
under an id, and one framed datum of it. Written from the converter's documentation, by fastavro; it
shares nothing with the product's reader.
Source: https://github.com/confluentinc/schema-registry, AvroData (7.8).
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro

_TYPES = {"int8": "int", "int16": "int", "int32": "int", "int64": "long", "float": "float"}
_TYPES |= {"float32": "float", "float64": "double", "double": "double", "boolean": "boolean"}
_TYPES |= {"string": "string", "bytes": "bytes"}
_LOGICAL = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"


class SchemaFiles:
    """A folder of `ID.avsc`, each schema under the next id when it is first written with."""

    def __init__(
        self, folder: Path, *, first: int = 1, rename: Callable[[str], str] | None = None
    ) -> None:
        self.folder = folder
        self._rename = rename or adjusted
        self._ids: dict[str, int] = {}
        self._first = first

    def framed(self, message: dict[str, Any]) -> bytes | None:
        """A message or key with Connect's schema as its Avro converter frames it."""
        if message["schema"] is None:
            return None
        schema = avro_schema(message["schema"], self._rename)
        text = json.dumps(schema)
        id_ = self._ids.get(text)
        if id_ is None:
            id_ = self._ids[text] = self._first + len(self._ids)
            (self.folder / f"{id_}.avsc").write_text(text)
        value = _value(message["schema"], message["payload"], self._rename)
        return b"\0" + id_.to_bytes(4, "big") + datum(text, value)


def avro_schema(connect: dict[str, Any], rename: Callable[[str], str]) -> Any:
    """The Avro schema of a Connect schema; `rename` makes field names that Avro allows."""
    return _avro(connect, set(), rename)


def datum(schema: str, value: Any) -> bytes:
    """One Avro datum."""
    # fastavro would want dates and decimals as such, where Connect hands over what they are made of
    plain = fastavro.parse_schema(json.loads(schema.replace('"logicalType"', '"was"')))
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, plain, value, strict=True)
    return stream.getvalue()


def adjusted(name: str) -> str:
    """A name as `schema.name.adjustment.mode: avro` makes it."""
    return re.sub(r"^(?=\d)|[^A-Za-z0-9_]", "_", name)


def escaped(name: str) -> str:
    """A name as `field.name.adjustment.mode: avro_unicode` makes it, if Avro does not allow it."""
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        return name
    units = name.encode("utf-16-be")
    codes = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
    return "".join(chr(c) if chr(c).isascii() and chr(c).isalpha() else f"_u{c:04x}" for c in codes)


def _avro(connect: dict[str, Any], written: set[str], rename: Callable[[str], str]) -> Any:
    made = _type(connect, written, rename)
    return ["null", made] if connect.get("optional") else made


def _type(connect: dict[str, Any], written: set[str], rename: Callable[[str], str]) -> Any:
    kind, name = connect["type"], connect.get("name")
    props: dict[str, Any] = {}
    if name:
        props = {"connect.version": connect.get("version", 1), "connect.name": name}
    if connect.get("parameters"):
        props["connect.parameters"] = connect["parameters"]
    if connect.get("default") is not None:
        default = connect["default"]
        if kind == "bytes":
            default = base64.b64decode(default).decode("latin-1")
        props["connect.default"] = default
    if kind == "struct":
        full = [adjusted(part) for part in (name or "ConnectDefault").split(".")]
        if ".".join(full) in written:
            return ".".join(full)
        written.add(".".join(full))
        fields = []
        for field in connect["fields"]:
            type_ = _avro(field, written, rename)
            nulls = {"default": None} if field.get("optional") else {}
            fields.append({"name": rename(field["field"]), "type": type_, **nulls})
        record = {"type": "record", "name": full[-1], "fields": fields}
        return {**record, "namespace": ".".join(full[:-1]), **props}
    if kind == "array":
        return {"type": "array", "items": _avro(connect["items"], written, rename), **props}
    if kind == "map":
        return {"type": "map", "values": _avro(connect["values"], written, rename), **props}
    if name == _DECIMAL:
        parameters = connect.get("parameters") or {}
        precision = int(parameters.get("connect.decimal.precision", 64))
        props |= {"scale": int(parameters.get("scale", 0)), "precision": precision}
        props["logicalType"] = "decimal"
    elif name in _LOGICAL:
        props["logicalType"] = _LOGICAL[name]
    if kind in ("int8", "int16"):
        props["connect.type"] = kind
    return {"type": _TYPES[kind], **props} if props else _TYPES[kind]


def _value(connect: dict[str, Any], value: Any, rename: Callable[[str], str]) -> Any:
    kind = connect["type"]
    if value is None:
        return None
    if kind == "struct":
        return {
            rename(field["field"]): _value(field, value.get(field["field"]), rename)
            for field in connect["fields"]
        }
    if kind == "array":
        return [_value(connect["items"], item, rename) for item in value]
    if kind == "map":
        return {name: _value(connect["values"], item, rename) for name, item in value.items()}
    if kind == "bytes":
        return base64.b64decode(value, validate=True)
    return float(value) if kind in ("float", "double") else value


def completed(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose schema describes all of its `source`; abridged ones leave fields out."""
    schema, payload = message["schema"], message["payload"]
    fields = [
        {**field, "fields": _described(field, payload.get("source") or {})}
        if field["field"] == "source"
        else field
        for field in schema["fields"]
    ]
    described = {field["field"] for field in fields}
    for name in ("source", "transaction"):
        if isinstance(payload.get(name), dict) and name not in described:
            inner = _described({"fields": []}, payload[name])
            fields.append({"type": "struct", "name": name, "fields": inner, "field": name})
    for name in ("ts_ms", "ts_us"):
        if payload.get(name) is not None and name not in described:
            fields.append({"type": "int64", "optional": True, "field": name})
    return {"schema": {**schema, "fields": fields}, "payload": payload}


def _described(struct: dict[str, Any], value: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = {bool: "boolean", int: "int64", str: "string"}
    known = {field["field"] for field in struct["fields"]}
    added = (
        {"type": kinds.get(type(item), "string"), "optional": True, "field": name}
        for name, item in value.items()
        if name not in known
    )
    return [*struct["fields"], *added]
