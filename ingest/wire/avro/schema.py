"""An Avro schema as a tree of types with names resolved: a reader is compiled from it.

A schema registry may store parts of a schema separately; those come first, and are referred to by
their names.

Source: https://avro.apache.org/docs/1.12.0/specification/#schema-declaration
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ingest.codes import Code
from ingest.errors import DecodeError

PRIMITIVES = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
)
_JSON = msgspec.json.Decoder(Any)
_LONGEST = 16 * 2**20
_LEAST = {"null": 0, "float": 4, "double": 8}
FREE = 1_000
"""How many values without a byte (nulls, and records of them) a datum may have, since its size does
not limit those."""
_ENDLESS = 2**62
"""More bytes than any datum has: the least size of a record that holds itself in a field without a
union."""


class Type(msgspec.Struct, eq=False):
    """One type. `kind`: the type's word in the specification, `union` for a union.

    `parts`: the branches of a union, or the one type of an array's items or a map's values.
    `props`: all attributes of the schema, `connect.name` and `logicalType` among them. `least`: the
    fewest bytes that a datum has. `free`: how many values it has beyond those bytes, nulls and
    records.
    """

    kind: str
    name: str = ""
    parts: tuple[Type, ...] = ()
    fields: tuple[Field, ...] = ()
    symbols: tuple[str, ...] = ()
    size: int = 0
    props: Mapping[str, Any] = {}
    least: int = 1
    free: int = 0

    def field(self, name: str) -> Type | None:
        """The type of one field of a record without its null branch; None if there is no such
        field."""
        return next((present(f.type) for f in self.fields if f.name == name), None)


class Field(msgspec.Struct, eq=False):
    """One field of a record. `props`: all that the schema says of it."""

    name: str
    type: Type
    props: Mapping[str, Any] = {}


def present(type_: Type) -> Type:
    """The type of a value that is not null: in a union of null and one other type, the other."""
    if type_.kind == "union" and len(type_.parts) == 2:
        for one, other in (type_.parts, type_.parts[::-1]):
            if one.kind == "null":
                return other
    return type_


def parse_schema(texts: Iterable[str | bytes]) -> Type:
    """The type of the last of `texts`; the others hold types that it refers to.

    Raises bad_avro for text that is no Avro schema, and for a schema by which a few bytes may mean
    many values.
    """
    named: dict[str, Type] = {}
    found = None
    for text in texts:
        if len(text) > _LONGEST:
            raise _refusal(f"a schema of at most {_LONGEST} characters, got {len(text)}")
        try:
            found = _type(_JSON.decode(text), "", named)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _refusal(f"an Avro schema as JSON, {error}") from None
    if found is None:
        raise _refusal("an Avro schema, got nothing")
    return found


def _refusal(text: str) -> DecodeError:
    return DecodeError(Code.BAD_AVRO, f"expected {text}")


def _type(schema: Any, space: str, named: dict[str, Type]) -> Type:
    if isinstance(schema, str):
        return _primitive(schema, {}) if schema in PRIMITIVES else _named(schema, space, named)
    if isinstance(schema, list):
        return Type("union", parts=tuple(_type(part, space, named) for part in schema))
    word = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(word, dict | list):
        return _type(word, space, named)
    if word in PRIMITIVES:
        return _primitive(word, schema)
    if word == "array" or word == "map":
        inner = schema.get("items" if word == "array" else "values")
        return Type(word, parts=(_type(inner, space, named),), props=schema)
    if word in ("record", "error", "enum", "fixed"):
        return _declared(word, schema, space, named=named)
    if isinstance(word, str):
        return _named(word, space, named)
    raise _refusal(f"a type of Avro's, got {str(schema)[:80]}")


def _primitive(word: str, props: Mapping[str, Any]) -> Type:
    return Type(word, props=props, least=_LEAST.get(word, 1), free=word == "null")


def _declared(word: str, schema: dict[str, Any], space: str, *, named: dict[str, Type]) -> Type:
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise _refusal(f"a name of the {word}, got {str(name)[:80]}")
    if "." not in name:
        own = schema.get("namespace", space)
        name = f"{own}.{name}" if own else name
    space = name.rpartition(".")[0]
    made = Type("record" if word == "error" else word, name=name, props=schema)
    # entered before its fields, which may be of this very type
    named[name] = made
    if word == "enum":
        made.symbols = tuple(str(symbol) for symbol in _list(schema, "symbols"))
    elif word == "fixed":
        size = schema.get("size")
        if size.__class__ is not int or not 0 <= size < 2**31:
            raise _refusal(f"a size of the fixed type {name}, got {str(size)[:80]}")
        made.size = made.least = size
        made.free = not size
    else:
        made.least = _ENDLESS
        made.fields = tuple(_field(field, space, named) for field in _list(schema, "fields"))
        _measure(made)
    return made


def _measure(record: Type) -> None:
    """Sums up a record's fields, and refuses a schema in which few records make many values by
    naming each other twice."""
    types = [field.type for field in record.fields]
    record.least = min(sum(type_.least for type_ in types), _ENDLESS)
    record.free = min(sum(type_.free for type_ in types) + 1, _ENDLESS)
    if record.least == _ENDLESS:
        raise _refusal(f"a record that ends, got {record.name}, which is a part of its own fields")
    # One record for each field that takes a byte, and one for each two of those, make an honest
    # tree.
    if record.free > 2 * record.least + FREE:
        raise _refusal(
            f"at most {FREE} values without a byte in a record, got {record.free} in {record.name}"
        )


def _list(schema: dict[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    if not isinstance(found, list):
        raise _refusal(f"a list of {key}, got {str(found)[:80]}")
    return found


def _field(field: Any, space: str, named: dict[str, Type]) -> Field:
    name = field.get("name") if isinstance(field, dict) else None
    if not isinstance(name, str):
        raise _refusal(f"a field with its name, got {str(field)[:80]}")
    return Field(name, _type(field.get("type"), space, named), field)


def _named(name: str, space: str, named: dict[str, Type]) -> Type:
    found = named.get(f"{space}.{name}") if space and "." not in name else None
    found = found or named.get(name)
    if found is None:
        raise _refusal(f"a type declared before its use, got {name[:80]}")
    return found
