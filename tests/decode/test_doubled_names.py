"""A name that stands twice in an envelope, with two values, is a contradiction in all formats."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.config.sources import Source
from ingest.decode.doubled_names import check_names
from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.errors import DecodeError
from ingest.formats import FORMATS
from ingest.values.jsontext import members
from ingest.wire.contract import Message
from tests.support.messages import golden, is_json, reader_of
from tests.support.silver_promises import NAMES, broken

AT = {name: index for index, name in enumerate(NAMES)}
JSON = [name for name, format_ in FORMATS.items() if format_.recognise is not None]
ENVELOPES = {"payload", "source", "metadata", "meta", "_tidb"}
MARKS = {"payload", "before", "after", "source", "op", "ddl", "data"}


def doubled(value: bytes, depth: int = 2) -> Iterator[tuple[bytes, bytes]]:
    """The message with each name of its envelope twice: with another value first, and the same."""
    top = members(value)
    for name, raw in top.items():
        other = b'"twice"' if bytes(raw) != b'"twice"' else b"0"
        written = msgspec.json.encode(name) + b":"
        rest = msgspec.json.encode(top)[1:]
        yield b"{" + written + other + b"," + rest, b"{" + written + bytes(raw) + b"," + rest
        if depth > 1 and name in ENVELOPES and bytes(raw).startswith(b"{"):
            for pair in doubled(bytes(raw), depth - 1):
                first, same = (
                    msgspec.json.encode({**top, name: msgspec.Raw(inner)}) for inner in pair
                )
                yield first, same


def sound(name: str) -> Iterator[tuple[Source, Message]]:
    """Golden messages with an envelope, one of each set of names."""
    seen = set()
    for source, message in golden(name):
        value = message.value or b""
        if not is_json(value):
            continue
        rows = SourceDecoder(decode_spec(source)).rows(message, source.epoch)
        if rows[-1][AT["kind"]] in ("reject", "fragment") or rows[-1][AT["warnings"]]:
            continue
        top = members(value)
        if name in ("debezium", "ogg") and not MARKS & top.keys():
            continue
        if tuple(top) not in seen:
            seen.add(tuple(top))
            yield source, message


@pytest.mark.parametrize("name", [name for name in JSON if name != "ob_avro"])
def test_two_values_contradict_each_other(name: str) -> None:
    count = 0
    for source, message in sound(name):
        reader = SourceDecoder(decode_spec(source))
        plain = reader.rows(message, source.epoch, 0)
        for wrong, same in doubled(message.value or b""):
            found = message._replace(value=wrong)
            rows = reader.rows(found, source.epoch, 0)
            assert [row[AT["error_code"]] for row in rows] == ["contradiction"], wrong
            assert rows[0][AT["value"]] == wrong and broken(found, rows) == []
            again = SourceDecoder(decode_spec(source)).rows(
                message._replace(value=same), source.epoch, 0
            )
            assert [row[AT["op"]] for row in again] == [row[AT["op"]] for row in plain], same
            count += 1
    assert count > 5


def test_columns_that_stand_twice_are_no_contradiction() -> None:
    columns = b'{"id":"1","note":"a","note":"b"}'
    value = b'{"type":"INSERT","database":"d","table":"t","es":1,"id":1,"data":[' + columns + b"]}"
    [row] = reader_of("canal").rows(Message(value))
    assert dict(row[AT["after"]]) == {"id": "1", "note": "b"}
    assert "dup_key" in row[AT["warnings"]]


@pytest.mark.parametrize(
    "value",
    [
        b'{"type":"INSERT" ,"ty\\u0070e":"DELETE"}',
        b'{"type":"INSERT","type"\n:\t"DELETE"}',
        b'{"type":"INSERT", // a comment\n"type":"DELETE",}',
        b'\xef\xbb\xbf {"type":"INSERT","type":"DELETE"}',
        b'{"a{":1,"type":"INSERT","a[":2,"type":null}',
        b'{"es":1,"es":1.0}',
        b'{"data":[],"data":[{"id":1}]}',
        b'{"payload":{"op":"c","op":"d"}}',
        b'{"payload":{"source":{"pos":1,"pos":2}}}',
    ],
)
def test_spellings(value: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        check_names(value, flat=False)
    assert caught.value.code == "contradiction"


@pytest.mark.parametrize(
    "value",
    [
        b'{"type":"INSERT","data":[{"type":1,"type":2}]}',
        b'{"type":"INSERT","type":"INSERT"}',
        b'{"a{":1,"a[":2}',
        b'{"payload":[1,1,1,1]}',
        b'{"type":',
        b"[1]",
        b"\x00\x01",
        b'{"a":' + b"[" * 100_000,
    ],
)
def test_what_contradicts_nothing(value: bytes) -> None:
    check_names(value, flat=False)


def test_a_row_on_the_top_level_has_columns() -> None:
    check_names(b'{"id":1,"id":2}', flat=True)
    with pytest.raises(DecodeError):
        check_names(b'{"op":"c","id":1,"id":2}', flat=True)


NAME = st.sampled_from(["op", "type", "source", "x", "", "a long name", "\u884c", 'a"b', "a\\b"])
VALUE = st.sampled_from(
    ["1", '"1"', '"a,b"', "[]", "{}", '{"op":1}', '{"op":1,"op":2}', '" \\u0041"']
)
SPACE = st.sampled_from(["", "", "", " ", "\n\t"])


@given(st.lists(st.tuples(NAME, VALUE, SPACE), max_size=6))
def test_only_names_with_two_values_contradict(pairs: list[tuple[str, str, str]]) -> None:
    """Whatever white space, escapes and order, and whether its length would tell."""
    written = (f"{msgspec.json.encode(n).decode()}:{s}{v}" for n, v, s in pairs)
    value = ("{" + ",".join(written) + "}").encode()
    values: dict[str, set[str]] = {}
    for name, text, _ in pairs:
        values.setdefault(name, set()).add(repr(json.loads(text, parse_int=repr)))
    doubled_in_source = any(n == "source" and v == '{"op":1,"op":2}' for n, v, _ in pairs)
    expected = doubled_in_source or any(len(found) > 1 for found in values.values())
    if expected:
        with pytest.raises(DecodeError):
            check_names(value, flat=False)
    else:
        check_names(value, flat=False)
