"""Avro's binary encoding against fastavro's, and against bytes that no writer writes."""

from __future__ import annotations

import base64
import io
import json
import math
import struct
import time
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import DecodeError
from ingest.wire.avro import reader
from ingest.wire.avro.schema import parse_schema
from ingest.wire.avro.skipper import skipper

LONG = st.integers(-(2**63), 2**63 - 1)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": LONG,
    "double": st.floats(),
    "float": st.floats(width=32),
    "bytes": st.binary(max_size=300),
    "string": st.text(max_size=300),
}


def typed(depth: int) -> st.SearchStrategy[tuple[Any, Any]]:
    """A schema and a value of it."""
    leaf = st.sampled_from(sorted(LEAVES)).flatmap(lambda k: st.tuples(st.just(k), LEAVES[k]))
    symbols = ["A", "B", "C"]
    enum = st.integers(0, 10**9).map(
        lambda n: {"type": "enum", "name": f"E{n}", "symbols": symbols}
    )
    leaves = leaf | st.tuples(enum, st.sampled_from(symbols))
    if not depth:
        return leaves
    inner = typed(depth - 1)
    full = inner.filter(lambda pair: pair[0] != "null")
    names = st.integers(0, 10**9)
    arrays = full.flatmap(
        lambda pair: st.tuples(
            st.just({"type": "array", "items": pair[0]}), st.just([pair[1]] * 3) | st.just([])
        )
    )
    maps = inner.flatmap(
        lambda pair: st.tuples(
            st.just({"type": "map", "values": pair[0]}),
            st.lists(st.text(max_size=5), unique=True).map(lambda ks: dict.fromkeys(ks, pair[1])),
        )
    )
    records = st.tuples(names, st.lists(inner, min_size=1, max_size=4)).map(_record)
    unions = full.flatmap(
        lambda pair: st.tuples(st.just(["null", pair[0]]), st.just(pair[1]) | st.none())
    ).filter(lambda pair: not isinstance(pair[0][1], list))
    return leaves | arrays | maps | records | unions


def _record(drawn: tuple[int, list[tuple[Any, Any]]]) -> tuple[Any, Any]:
    number, parts = drawn
    fields = [{"name": f"f{n}", "type": schema} for n, (schema, _) in enumerate(parts)]
    value = {f"f{n}": part for n, (_, part) in enumerate(parts)}
    return {"type": "record", "name": f"R{number}_{len(parts)}", "fields": fields}, value


def shown(schema: Any, value: Any) -> Any:
    """A value as Connect's JsonConverter shows it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(schema, list):
        return shown(schema[1], value)
    if isinstance(value, float):
        if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        return _Close(value, single=schema == "float")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [shown(schema["items"], item) for item in value]
    if schema["type"] == "map":
        return {name: shown(schema["values"], item) for name, item in value.items()}
    types = {field["name"]: field["type"] for field in schema["fields"]}
    return {name: shown(types[name], item) for name, item in value.items()}


class _Close:
    """Equal to a number token that means the same float."""

    def __init__(self, value: float, *, single: bool) -> None:
        self.packed = struct.pack("<f" if single else "<d", value)
        self.single = single

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, msgspec.Raw)
        number = float(bytes(other))
        return struct.pack("<f" if self.single else "<d", number) == self.packed

    __hash__ = None  # type: ignore[assignment]


def test_items_without_a_byte_are_few() -> None:
    nothing = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "null"}]}
    read = reader.reader(parse_schema([json.dumps({"type": "array", "items": nothing})]))
    assert read(b"\x06\0", 0) == ([{"x": None}] * 3, 2)
    assert len(read(b"\xe8\x07\0", 0)[0]) == 500
    with pytest.raises(ValueError, match="at most 1000 values of no bytes, got 501 items of 2"):
        read(b"\xea\x07\0", 0)
    with pytest.raises(ValueError, match="at most 1000 values of no bytes, got 501 items of 2"):
        read(b"\xe8\x07\x02\0", 0)


def nested(last: Any, times: int) -> str:
    """A schema of records that hold the one before twice, so that `last` stands 2**times in it."""
    fields: list[Any] = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": last}}]
    for n in range(1, times + 1):
        both = [{"name": name, "type": f"R{n - 1}"} for name in ("a", "b")]
        record = {"type": "record", "name": f"R{n}", "fields": both}
        fields.append({"name": f"f{n}", "type": record})
    return json.dumps({"type": "record", "name": "All", "fields": fields})


def test_values_without_a_byte_are_few() -> None:
    """A schema of 20 kB could make a datum of no bytes be 2**200 values."""
    for last in ([], [{"name": "x", "type": "null"}]):
        with pytest.raises(DecodeError, match="at most 1000 values without a byte in a record"):
            parse_schema([nested(last, 200)])
    found = parse_schema([nested([], 7)])
    assert (found.least, reader.reader(found)(b"", 0)[1]) == (0, 0)
    # Where each takes its byte, the data bound them.
    found = parse_schema([nested([{"name": "x", "type": "int"}], 40)])
    assert found.least == 2**41 - 1
    with pytest.raises(reader.UNREADABLE):
        reader.reader(found)(bytes(1000), 0)


@pytest.mark.parametrize(
    ("of", "ends"), [("R", False), (["null", "R"], True), ({"type": "array", "items": "R"}, True)]
)
def test_a_record_of_itself_has_an_end(of: Any, ends: bool) -> None:
    inner = {"type": "record", "name": "S", "fields": [{"name": "r", "type": of}]}
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "s", "type": inner}]})
    if ends:
        assert reader.reader(parse_schema([schema]))(b"\0", 0)[1] == 1
        return
    with pytest.raises(DecodeError, match="expected a record that ends, got S"):
        parse_schema([schema])


@settings(max_examples=300, deadline=None)
@given(typed(3))
def test_what_fastavro_writes(pair: tuple[Any, Any]) -> None:
    schema, value = pair
    try:
        parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    except fastavro.schema.SchemaParseException:
        return  # the same name drawn twice
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, parsed, value)
    data = stream.getvalue()
    type_ = parse_schema([json.dumps(schema)])
    read, skip = reader.reader(type_), skipper(type_)
    assert read(b"__" + data, 2) == (shown(schema, value), len(data) + 2)
    assert skip(b"__" + data + b"__", 2) == len(data) + 2
    known = fastavro.schemaless_reader(io.BytesIO(data), parsed, None, return_record_name=True)
    assert repr(reader.native_reader(type_)(data, 0)) == repr((known, len(data)))
    for size in range(max(0, len(data) - 20), len(data)):
        with pytest.raises(reader.UNREADABLE):
            skip(data[:size], 0)
        # cut short, it raises, or ends where the data does not
        try:
            _, end = read(data[:size], 0)
        except reader.UNREADABLE:
            continue
        assert end != size or end == len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"\xff" * 10,
        b"\xff" * 9 + b"\x02",  # 65 bits
        b"\x80" * 9 + b"\x80\x00",
    ],
)
def test_numbers_that_are_none(data: bytes) -> None:
    with pytest.raises(reader.UNREADABLE):
        reader.long(data, 0)


def test_numbers_at_their_edges() -> None:
    assert reader.long(b"\xff" * 9 + b"\x01", 0) == (-(2**63), 10)
    assert reader.long(b"\xfe" + b"\xff" * 8 + b"\x01", 0) == (2**63 - 1, 10)
    assert reader.int32(b"\xff\xff\xff\xff\x0f", 0) == (-(2**31), 5)
    with pytest.raises(ValueError, match="expected a number of 32 bits, got 2147483648"):
        reader.int32(b"\x80\x80\x80\x80\x10", 0)


BOMBS = {
    "array of nulls": ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f" * 100_000),
    "blocks of nulls": ({"type": "array", "items": "null"}, b"\xc0\x96\xb1\x02" * 250_000),
    "map without end": ({"type": "map", "values": "null"}, b"\xfe\xff\xff\xff\x0f\x00" * 100_000),
    "long string": ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + b"x" * 10**6),
    "negative length": ("bytes", b"\x01" + b"x" * 10**6),
    "sized block": (
        {"type": "array", "items": "int"},
        b"\x01\xfe\xff\xff\xff\x0f" + b"\x00" * 10**6,
    ),
    "empty records": (
        {"type": "array", "items": {"type": "record", "name": "R", "fields": []}},
        b"\xc0\x96\xb1\x02" + b"\x00" * 10**6,
    ),
    "other branch": (["null", "int"], b"\x04\x00"),
    "branch before the first": (["null", "int"], b"\x01\x00"),
    "other symbol": ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
    "symbol before the first": ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01"),
    "other boolean": ("boolean", b"\x02"),
    "no UTF-8": ("string", b"\x02\xff"),
    "half a fixed": ({"type": "fixed", "name": "F", "size": 2**31 - 1}, b"\x00" * 10**6),
    "half a double": ("double", b"\x00" * 7),
    "half a float": ("float", b"\x00" * 3),
}


@pytest.mark.parametrize("label", BOMBS)
def test_bombs_cost_no_more_than_their_size(label: str) -> None:
    schema, data = BOMBS[label]
    read = reader.reader(parse_schema([json.dumps(schema)]))
    began = time.process_time()
    with pytest.raises(reader.UNREADABLE):
        read(data, 0)
    assert time.process_time() - began < 2


NODE = {
    "type": "record",
    "name": "N",
    "fields": [{"name": "next", "type": ["null", "N"]}, {"name": "n", "type": "int"}],
}


def test_what_is_skipped_may_be_deep_but_not_to_the_end_of_memory() -> None:
    """Its reader says that it is too deep; those behind it are found all the same."""
    type_ = parse_schema([json.dumps(NODE)])
    deep = b"\x02" * 100_000 + b"\x00" + b"\x0e" * 100_001
    assert skipper(type_)(deep + b"\x00\x0e", 0) == len(deep)
    for read in (reader.reader(type_), reader.native_reader(type_)):
        with pytest.raises(RecursionError):
            read(deep, 0)
    with pytest.raises(ValueError, match="expected at most 200000 values behind it, got more"):
        skipper(type_)(b"\x02" * 300_000, 0)


@pytest.mark.parametrize("blocks", [[2**63 - 1], [-(2**63)], [10**9] * 1000])
@pytest.mark.parametrize("items", ["null", {"type": "fixed", "name": "F", "size": 0}, "record"])
def test_items_without_a_byte_are_skipped_as_their_number(blocks: list[int], items: Any) -> None:
    if items == "record":
        items = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "null"}]}
    skip = skipper(parse_schema([json.dumps({"type": "array", "items": items})]))
    data = b"".join(varint(count) + b"\0" * (count < 0) for count in blocks) + b"\0"
    assert skip(data, 0) == len(data)


def varint(number: int) -> bytes:
    number = number << 1 ^ number >> 63
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


@pytest.mark.parametrize("label", BOMBS)
def test_what_is_no_datum_has_no_end_behind_the_data(label: str) -> None:
    schema, data = BOMBS[label]
    try:
        end = skipper(parse_schema([json.dumps(schema)]))(data, 0)
    except reader.UNREADABLE:
        return
    assert end <= len(data)


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x4048F5C3, "3.14"),
        (0x00000001, "1.4013e-45"),
        (0x7F7FFFFF, "3.4028235e+38"),
        (0x80000000, "-0.0"),
        (0x7FC00000, "NaN"),
        (0xFF800000, "-Infinity"),
        (0x4B800001, "16777218.0"),
    ],
)
def test_single_precision_keeps_its_digits(bits: int, text: str) -> None:
    data = bits.to_bytes(4, "little")
    assert reader.single_text(data) == text
    if text != "NaN":
        assert struct.pack("<f", float(text.replace("Infinity", "inf"))) == data


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "an Avro schema as JSON"),
        ("7", "a type of Avro's, got 7"),
        ('{"type":"lists"}', "a type declared before its use, got lists"),
        ('{"type":"record","fields":[]}', "a name of the record, got None"),
        ('{"type":"record","name":"R"}', "a list of fields, got None"),
        ('{"type":"record","name":"R","fields":[{"type":"int"}]}', "a field with its name"),
        ('{"type":"record","name":"R","fields":[7]}', "a field with its name, got 7"),
        ('{"type":"fixed","name":"F","size":-1}', "a size of the fixed type F, got -1"),
        ('{"type":"enum","name":"E","symbols":7}', "a list of symbols, got 7"),
        ('{"type":"array"}', "a type of Avro's, got None"),
        ("[" * 50_000 + "]" * 50_000, "an Avro schema as JSON"),
    ],
)
def test_schemas_that_are_none(schema: str, reason: str) -> None:
    with pytest.raises(DecodeError) as raised:
        parse_schema([schema])
    assert raised.value.code.value == "bad_avro"
    assert reason in raised.value.text


def test_names_are_found_by_their_space_or_in_full() -> None:
    text = json.dumps(
        {
            "type": "record",
            "name": "a.b.R",
            "fields": [
                {"name": "own", "type": {"type": "enum", "name": "E", "symbols": ["X"]}},
                {"name": "near", "type": ["null", "E"]},
                {"name": "full", "type": {"type": "array", "items": "a.b.E"}},
                {"name": "self", "type": ["null", "R"]},
            ],
        }
    )
    found = parse_schema(['{"type":"fixed","name":"F","size":2}', text])
    own, near, full, self = (field.type for field in found.fields)
    assert near.parts[1] is full.parts[0] is own
    assert self.parts[1] is found
    assert parse_schema(['{"type":"fixed","name":"F","size":2}', '"F"']).size == 2


@pytest.mark.parametrize("inner", ['{"type":"int"}', '["null","int"]'])
def test_a_type_within_a_type(inner: str) -> None:
    """Apache Avro's parser takes it, and the type is the inner one."""
    assert parse_schema([f'{{"type":{inner}}}']).kind == parse_schema([inner]).kind
