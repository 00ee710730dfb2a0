"""OceanBase's AvroRecord as objects: in Avro's JSON encoding, or read with another writer's schema.

Source: https://avro.apache.org/docs/1.12.0/specification/#json-encoding

In JSON a union's value is an object of its branch's name, `{"long": 5}`; the name's last part
counts, since the vendor prints a made-up namespace. What is read by a schema has pairs for records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.formats.oceanbase import values as made
from ingest.formats.oceanbase.record import Image, Record
from ingest.formats.oceanbase.types import word_of
from ingest.formats.oceanbase.values import BRANCHES, Words
from ingest.values import canonical
from ingest.wire.avro.fields import Fields
from ingest.wire.floats import double_of, is_single, single_of

_UNFIT = (KeyError, TypeError, ValueError, OverflowError, AttributeError)
_OF_CLASS: dict[type, str] = {
    **{bool: "boolean", int: "long", float: "double", bytes: "bytes", str: "string"},
    **{list: "array", dict: "map"},
}
_MOST = 2**63


def record_of(top: Mapping[str, Any], warnings: list[str]) -> Record:
    """The record of an object. Raises bad_shape, and bad_value for values."""
    try:
        return _record(top, warnings)
    except _UNFIT as error:
        raise DecodeError(
            Code.BAD_SHAPE, f"expected an AvroRecord, got {type(error).__name__}: {error}"
        ) from None


def _record(top: Mapping[str, Any], warnings: list[str]) -> Record:
    source = _maybe(top, "source")
    fields = _maybe(top, "fields")
    return Record(
        _whole(top["id"]),
        _whole(_payload(top.get("version", 1))),
        _text(_maybe(top, "operation")),
        _text(_maybe(top, "xid")),
        _text(_maybe(top, "position")),
        None if (time := _maybe(top, "timestamp")) is None else _whole(time),
        None if source is None else _text(source["sourceType"]),
        _text(_maybe(top, "schemaName")),
        _text(_maybe(top, "tableName")),
        None if fields is None else _fields(fields),
        _indexes(_maybe(top, "pkIndexes")),
        None
        if (unique := _maybe(top, "ukIndexes")) is None
        else [_indexes(item) or [] for item in unique],
        _image(_maybe(top, "beforeImages"), warnings),
        _image(_maybe(top, "afterImages"), warnings),
        _text(_maybe(top, "sql")),
        _whole(top.get("total", -1)),
        _whole(top.get("index", -1)),
        _octets(top.get("beforeImageBytes", b"")),
        _octets(top.get("afterImageBytes", b"")),
        warnings,
    )


def _maybe(top: Mapping[str, Any], name: str) -> Any:
    """A member that is a union with null, without its branch."""
    return _payload(top.get(name))


def _payload(value: Any) -> Any:
    return None if value is None else _branch(value)[1]


def _branch(value: Any) -> tuple[str, Any]:
    """The branch of a union and the value in it."""
    if value.__class__ is tuple:
        name, payload = value
        return str(name).rpartition(".")[2], payload
    if value.__class__ is dict and len(value) == 1:
        ((name, payload),) = value.items()
        return str(name).rpartition(".")[2], payload
    return _OF_CLASS[value.__class__], value


def _whole(value: Any) -> int:
    if value.__class__ is not int or not -_MOST <= value < _MOST:
        raise ValueError(f"expected a whole number of 64 bits, got {str(value)[:40]}")
    return int(value)


def _text(value: Any) -> str | None:
    if value is not None and value.__class__ is not str:
        raise ValueError(f"expected text, got {str(value)[:40]}")
    return value if value is None else str(value)


def _octets(value: Any) -> bytes:
    """Bytes; in JSON one character stands for each."""
    return value if value.__class__ is bytes else str(_text(value)).encode("latin-1")


def _fields(items: Any) -> Fields:
    names = tuple(str(_text(item["name"])) for item in items)
    return Fields(names, tuple(_whole(item["dataTypeNumber"]) for item in items))


def _indexes(items: Any) -> list[int] | None:
    return None if items is None else [_whole(item) for item in items]


def _image(items: Any, warnings: list[str]) -> Image | None:
    if items is None:
        return None
    if items.__class__ is not list:
        raise ValueError("expected an array of values")
    found: list[str | None] = []
    words: Words = []
    for item in items:
        type_ = item["type_info"]
        branch, payload = ("null", None) if item["value"] is None else _branch(item["value"])
        if payload is item["value"]:
            branch = _narrowed(branch, payload, type_)
        # A type that a later schema adds is read by the branch in which its value came.
        if branch not in BRANCHES or type_.__class__ is not str:
            raise ValueError(f"expected a type_info and a branch, got {type_!r} and {branch!r}")
        words.append(word_of(type_, branch))
        found.append(
            None if branch == "null" else _value(branch, payload, words, warnings=warnings)
        )
    return Image(found, words)


def _narrowed(branch: str, payload: Any, type_: str) -> str:
    """The branch, among those of one class, of a value that came without the branch's name."""
    if branch == "double" and type_ == "FLOAT" and is_single(payload):
        return "float"
    if branch == "long" and type_ == "INTEGER" and -(2**31) <= payload < 2**31:
        return "int"
    return branch


def _value(branch: str, payload: Any, words: Words, *, warnings: list[str]) -> str:
    """The canonical text of a value in a branch other than null."""
    if branch in ("int", "long"):
        return str(_whole(payload))
    if branch == "boolean":
        return {True: "true", False: "false"}[payload]
    if branch in ("float", "double"):
        digits = repr(payload) if payload.__class__ is float else str(payload)
        return single_of(digits) if branch == "float" else double_of(digits)
    if branch == "bytes":
        return canonical.base64_of(_octets(payload))
    if branch == "string":
        return str(_text(payload))
    return _object(branch, payload, words, warnings=warnings)


def _object(branch: str, given: Mapping[str, Any], words: Words, *, warnings: list[str]) -> str:
    def parts(*names: str) -> list[int]:
        return [_whole(given[name]) for name in names]

    if branch == "StringObject":
        return made.of_charset(str(given["charsetName"]), str(_text(given["value"])), words)
    if branch == "DecimalObject":
        if words[-1] == "decimal":
            words[-1] = made.decimal_word(*parts("precision", "scale"))
        return made.decimal(str(_text(given["value"])), warnings)
    if branch == "DateObject":
        year, month, day = parts("year", "month", "day")
        return made.date(year, month, day, warnings=warnings)
    if branch == "TimeObject":
        negative = given.get("negative", False) is True
        return made.time(negative, parts("hours", "minutes", "seconds", "nanos"))
    if branch == "DateTimeObject":
        days = parts("year", "month", "day")
        return made.date_time([*days, *parts("hours", "minutes", "seconds", "nanos")], warnings)
    if branch == "TimestampObject":
        seconds, nanos = parts("seconds", "nanos")
        return made.instant(seconds, nanos, warnings)
    if branch == "BitObject":
        (length,) = parts("bit_length")
        words[-1] = f"bit({length})"
        return made.bits(length, str(_text(given["value"])))
    if branch == "EnumSetValue":
        labels = _payload(given.get("defines"))
        shown = None if labels is None else [str(_text(label)) for label in labels]
        words[-1] = made.shown_members(words[-1], shown)
        return str(_text(given["value"]))
    srid = given.get("srid")
    wkb = _octets(given["wkb"])
    return canonical.base64_of(canonical.with_srid(wkb, srid if srid.__class__ is int else 0))
