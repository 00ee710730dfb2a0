"""Peculiarities of OceanBase's AvroRecord: its encodings and its shards."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from ingest.errors import DecodeError
from ingest.files.framing import records
from ingest.formats.oceanbase.chunks import bundled, unbundled
from ingest.formats.oceanbase.schema import LAYOUT, reader_of
from ingest.wire.contract import Message
from tests.support.avro_encoders import in_json, ob_change, ob_shards, written
from tests.support.avro_schemas import OB, OB_SCHEMA, array, record
from tests.support.changes import Change
from tests.support.decoding import code_of, decoder, events
from tests.support.messages import reader_of as silver_reader
from tests.support.wires import as_dicts

COLUMNS = {"id": "int", "label": "varchar(200)", "photo": "blob"}
ROW = {"id": 1, "label": "rye", "photo": b"\x00\xff"}
CHANGE = ob_change(Change("update", COLUMNS, {**ROW, "label": "oats"}, ROW, number=7))


def container(*given: Any, schema: Any = OB, codec: str = "null") -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, schema, given, codec=codec)
    return stream.getvalue()


ENCODINGS = {
    "bare": written(OB, CHANGE),
    "confluent": b"\0\0\0\1\2" + written(OB, CHANGE),
    "single object": b"\xc3\x01" + bytes(8) + written(OB, CHANGE),
    "json": in_json(CHANGE),
    **{
        f"container, {codec}": container(CHANGE, codec=codec)
        for codec in ("null", "deflate", "bzip2", "xz")
    },
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", ["ob_avro", "auto"])
def test_every_encoding_says_the_same(name: str, encoding: str) -> None:
    wanted, found = (
        as_dicts(silver_reader(name).rows(Message(ENCODINGS[which]), now=0))
        for which in ("bare", encoding)
    )
    for row in (*wanted, *found):
        row.pop("value_hash")
    assert [row["kind"] for row in found] == ["schema", "change"]
    assert found == wanted


def test_no_values_are_no_image() -> None:
    insert = {**CHANGE, "operation": "INSERT", "beforeImages": []}
    [_, row] = as_dicts(silver_reader("ob_avro").rows(Message(written(OB, insert))))
    assert (row["kind"], row["before"], row["after"]["label"]) == ("change", None, "rye")


def test_a_large_object_s_null_says_nothing_without_the_row_before() -> None:
    change = ob_change(Change("update", COLUMNS, ROW, {**ROW, "photo": None}, number=7))
    update = {**change, "beforeImages": []}
    [_, row] = as_dicts(silver_reader("ob_avro").rows(Message(written(OB, update))))
    assert (row["after"], row["after_image"]) == ({"id": "1", "label": "rye"}, "partial")
    assert row["unavailable"] == ["photo"]


def test_shards_in_containers_of_their_own_are_put_together() -> None:
    boxed = [
        container(fastavro.schemaless_reader(io.BytesIO(part), OB)) for part in ob_shards("rye", 2)
    ]
    for part in boxed:
        [row] = as_dicts(silver_reader("ob_avro").rows(Message(part)))
        assert row["kind"] == "fragment"
    [_, row] = as_dicts(silver_reader("ob_avro").rows(Message(bundled(boxed))))
    assert (row["kind"], row["after"]) == ("change", {"id": "7", "label": "rye"})


def test_encodings_of_the_samples_agree(shared: Path) -> None:
    folder = shared / "samples" / "seeds"
    lines = (folder / "synthetic_ob_avro.raw_datum_b64.jsonl").read_text().splitlines()
    bare = [base64.b64decode(json.loads(line)["datum_b64"]) for line in lines]
    in_text = (folder / "synthetic_ob_avro.avro_json.jsonl").read_bytes().splitlines()
    with (folder / "synthetic_ob_avro.avro").open("rb") as file:
        contained = list(records(file, "avro_container"))
    assert len(bare) == len(in_text) == len(contained) == 12
    decode = decoder("ob_avro")
    for one, two, three in zip(bare, in_text, contained, strict=True):
        [wanted] = events(decode, one)
        assert events(decode, two) == [wanted]
        assert list(decode(Message(three.value, headers=three.headers or ()))) == [wanted]


def test_the_layout_is_the_schema_without_its_names() -> None:
    for namespace in (None, "com.oceanbase.oms"):
        named = {**OB_SCHEMA, **({"namespace": namespace} if namespace else {})}
        assert reader_of(json.dumps(named).encode()) is None
    assert LAYOUT[0] == "record"


@pytest.mark.parametrize(
    "schema",
    [
        b"",
        b"{",
        b'"string"',
        b'{"type": "record", "name": "R", "fields": []}',
        json.dumps({**OB_SCHEMA, "fields": OB_SCHEMA["fields"][:3]}).encode(),
        # No data bound how many items without a size an array has.
        json.dumps(
            {**OB_SCHEMA, "fields": [*OB_SCHEMA["fields"], {"name": "x", "type": array("null")}]}
        ).encode(),
        json.dumps(
            {
                **OB_SCHEMA,
                "fields": [*OB_SCHEMA["fields"], {"name": "x", "type": array(record("Empty"))}],
            }
        ).encode(),
    ],
)
def test_other_schemas_are_refused(schema: bytes) -> None:
    with pytest.raises(DecodeError) as refused:
        reader_of(schema)
    assert refused.value.code.value == "bad_avro"


def test_a_datum_of_another_schema_is_read_to_the_last_byte() -> None:
    schema = {**OB_SCHEMA, "fields": [*OB_SCHEMA["fields"], {"name": "more", "type": "string"}]}
    text = json.dumps(schema).encode()
    datum = written(fastavro.parse_schema(schema), {**CHANGE, "more": "x"})
    decode = decoder("ob_avro")

    def sent(value: bytes) -> Message:
        return Message(value, headers=(("avro.schema", text),))

    assert list(decode(sent(datum))) == events(decode, written(OB, CHANGE))
    for wrong in (datum + b"\0", datum[:-1], datum[:40]):
        with pytest.raises(DecodeError) as refused:
            list(decode(sent(wrong)))
        assert refused.value.code.value == "bad_avro"


@pytest.mark.parametrize(("name", "code"), [("ob_avro", "bad_avro"), ("auto", "unknown_format")])
def test_a_datum_nested_without_measure_is_refused(name: str, code: str) -> None:
    """Read with recursion in C, it ended the process."""
    node = record("Node", next=["null", "Node"])
    fields = [*OB_SCHEMA["fields"], {"name": "more", "type": node}]
    schema = {**json.loads(json.dumps(OB_SCHEMA)), "fields": fields}
    text = json.dumps(schema).encode()
    whole = container({**CHANGE, "more": {"next": None}}, schema=schema)
    datum = written(fastavro.parse_schema(schema), {**CHANGE, "more": {"next": None}})
    deep = datum[:-1] + b"\x02" * 100_000 + b"\x00"
    deep_whole = whole.replace(
        written("long", len(datum)) + datum, written("long", len(deep)) + deep
    )
    headers = (("avro.schema", text),)
    for value in (Message(datum, headers=headers), Message(whole)):
        assert list(decoder("ob_avro")(value)) == events(decoder("ob_avro"), ENCODINGS["bare"])
    for value in (Message(deep, headers=headers), Message(deep_whole)):
        [row] = as_dicts(silver_reader(name).rows(value))
        assert (row["kind"], row["error_code"]) == ("reject", code)
        assert name == "auto" or "RecursionError" in row["error"]


@pytest.mark.parametrize(
    ("symbol", "value", "text", "type_"),
    [
        ("INTERVAL", "INTERVAL '3' DAY", "INTERVAL '3' DAY", "varchar"),
        ("SPARSEVECTOR", "{1:0.5}", "{1:0.5}", "sparsevector"),
        ("UUID", b"\x01\x02", "AQI=", "varbinary"),
    ],
)
def test_a_type_that_a_later_schema_adds_is_read_by_its_branch(
    symbol: str, value: Any, text: str, type_: str
) -> None:
    schema = json.loads(json.dumps(OB_SCHEMA))
    (images,) = (field for field in schema["fields"] if field["name"] == "beforeImages")
    images["type"][1]["items"]["fields"][0]["type"]["symbols"].append(symbol)
    record = {
        **{"id": 7, "version": 1, "operation": "INSERT", "schemaName": "d", "tableName": "t"},
        **{"fields": [{"name": "a", "dataTypeNumber": 0}], "total": -1, "index": -1},
        **{"afterImages": [{"type_info": symbol, "value": value}]},
        **{"beforeImageBytes": b"", "afterImageBytes": b""},
    }
    datum = written(fastavro.parse_schema(json.loads(json.dumps(schema))), record)
    headers = (("avro.schema", json.dumps(schema).encode()),)
    (event,) = decoder("ob_avro")(Message(datum, headers=headers))
    assert event.after == {"a": text}
    assert event.types is not None
    assert [column.source_type for column in event.types.columns] == [type_]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_shards_together_are_the_record(count: int, first: int) -> None:
    parts = ob_shards("w" * 100, count, first=first)
    decode = decoder("ob_avro")
    alone = [event for part in parts for event in events(decode, part)]
    assert {event.kind for event in alone} == {"fragment"}
    [whole] = events(decode, bundled(parts))
    assert (whole.kind, whole.op, whole.id) == ("change", "insert", str(49 + count))
    assert whole.after == {"id": "7", "label": "w" * 100}
    assert whole.order == alone[-1].order
    assert unbundled(bundled(parts)) == parts
    for wrong in (parts[1:], parts[:-1], parts[::-1], [*parts, parts[-1]]):
        assert code_of(decode, bundled(wrong)) == "fragment_incomplete"
