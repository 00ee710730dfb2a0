"""A name that stands twice in an envelope, with two values, is a contradiction in all formats."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.config.sources import Source
from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.errors import DecodeError
from ingest.formats import FORMATS
from ingest.values.jsontext import members
from ingest.wire.contract import Message
from ingest.wire.doubled_names import check_names
from tests.support.messages import golden, is_json, reader_of
from tests.support.silver_promises import NAMES, broken

AT = {name: index for index, name in enumerate(NAMES)}
JSON = [name for name, format_ in FORMATS.items() if format_.recognise is not None]
INSIDE = ("source", "payload", "payload.source")
"""The envelope in the tests of texts alone."""
MARKS = {"payload", "before", "after", "source", "op", "ddl", "data"}


def doubled(value: bytes, envelope: tuple[str, ...]) -> Iterator[tuple[bytes, bytes]]:
    """The message with each name of its envelope twice: with another value first, and the same."""
    if value.startswith(b"["):
        first, *rest = msgspec.json.decode(value, type=list[msgspec.Raw])
        for pair in doubled(bytes(first), envelope):
            wrong, same = (msgspec.json.encode([msgspec.Raw(inner), *rest]) for inner in pair)
            yield wrong, same
        return
    top = members(value)
    for name, raw in top.items():
        other = b'"twice"' if bytes(raw) != b'"twice"' else b"0"
        written = msgspec.json.encode(name) + b":"
        whole = msgspec.json.encode(top)[1:]
        yield b"{" + written + other + b"," + whole, b"{" + written + bytes(raw) + b"," + whole
        if name in envelope and bytes(raw)[:1] in b"{[" and bytes(raw) not in (b"", b"[]"):
            inside = tuple(p.removeprefix(f"{name}.") for p in envelope if p.startswith(f"{name}."))
            for pair in doubled(bytes(raw), inside):
                wrong, same = (
                    msgspec.json.encode({**top, name: msgspec.Raw(inner)}) for inner in pair
                )
                yield wrong, same


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
        for wrong, same in doubled(message.value or b"", FORMATS[name].envelope):
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
        check_names(value, flat=False, envelope=INSIDE)
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
    check_names(value, flat=False, envelope=INSIDE)


def test_a_row_on_the_top_level_has_columns() -> None:
    check_names(b'{"id":1,"id":2}', flat=True, envelope=())
    with pytest.raises(DecodeError):
        check_names(b'{"op":"c","id":1,"id":2}', flat=True, envelope=())


def test_the_values_are_shown_as_json() -> None:
    value = b'{"type":"INSERT","type":[{"id":1.50,"x":null}]}'
    with pytest.raises(DecodeError) as caught:
        check_names(value, flat=False, envelope=())
    assert caught.value.text == (
        'expected one value for \'type\', got "INSERT" and [{"id":1.50,"x":null}]; nothing of '
        "the message is applied"
    )


def test_half_a_character_is_shown() -> None:
    with pytest.raises(DecodeError) as caught:
        check_names(b'{"type":"\\ud800","type":1}', flat=False, envelope=())
    assert '"\\ud800"' in caught.value.text


def _batch(key: bytes, value: bytes) -> Message:
    """One event of TiCDC's Open protocol."""
    sizes = (len(text).to_bytes(8, "big") for text in (key, value))
    parts = [size + text for size, text in zip(sizes, (key, value), strict=True)]
    return Message(parts[1], key=(1).to_bytes(8, "big") + parts[0])


OPEN_KEY = b'{"ts":415508856908021766,"scm":"d","tbl":"t","t":1}'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (OPEN_KEY.replace(b'"t":1', b'"t":1,"t":2'), b'{"u":{"id":{"t":3,"f":11,"v":1}}}'),
        (OPEN_KEY, b'{"u":{"id":{"t":3,"f":11,"v":1}},"u":{"id":{"t":3,"f":11,"v":2}}}'),
        (
            OPEN_KEY.replace(b'"t":1', b'"t":2'),
            b'{"q":"DROP TABLE t","q":"TRUNCATE TABLE t","t":4}',
        ),
    ],
)
def test_batches_of_ticdc_open(key: bytes, value: bytes) -> None:
    for message in (_batch(key, value), Message(value, key=key)):
        [row] = reader_of("ticdc_open").rows(message)
        assert row[AT["error_code"]] == "contradiction"


@pytest.mark.parametrize(
    "columns",
    [
        b'{"id":{"t":3,"f":11,"v":1},"id":{"t":3,"f":11,"v":2}}',
        b'{"id":{"t":3,"f":11,"v":1,"v":2}}',
    ],
)
def test_columns_of_ticdc_open(columns: bytes) -> None:
    *_, row = reader_of("ticdc_open").rows(_batch(OPEN_KEY, b'{"u":' + columns + b"}"))
    assert dict(row[AT["after"]]) == {"id": "2"} and "dup_key" in row[AT["warnings"]]


def test_escapes_in_names_of_ticdc_open() -> None:
    """Go's JSON writes `&`, `<` and `>` as escapes, which are longer than what they mean."""
    columns = b'{"a\\u0026b":{"t":3,"v":1},"na\\u00efve":{"t":3,"v":2}}'
    *_, row = reader_of("ticdc_open").rows(_batch(OPEN_KEY, b'{"u":' + columns + b"}"))
    assert dict(row[AT["after"]]) == {"a&b": "1", "naïve": "2"}
    assert "dup_key" not in row[AT["warnings"]]


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
            check_names(value, flat=False, envelope=INSIDE)
    else:
        check_names(value, flat=False, envelope=INSIDE)
