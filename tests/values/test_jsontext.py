"""JSON to the digit: what a parser of numbers, names and texts would lose."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.values import jsontext
from ingest.values.jsontext import Digits

ANY = jsontext.decoder(Any).decode


def parsed(value: bytes) -> tuple[Any, list[str]]:
    warnings: list[str] = []
    return jsontext.parse(value, ANY, warnings), warnings


def test_numbers_keep_their_digits() -> None:
    value = b'{"a":1.10,"b":12345678901234567890123456789,"c":1e400,"d":-0.0,"e":0.1e-9}'
    assert parsed(value) == (
        {
            "a": "1.10",
            "b": 12345678901234567890123456789,
            "c": "1e400",
            "d": "-0.0",
            "e": "0.1e-9",
        },
        [],
    )


def test_an_integer_longer_than_python_reads() -> None:
    digits = "7" * 5_000
    assert parsed(f'{{"a":{digits},"b":"{digits}"}}'.encode()) == ({"a": digits, "b": digits}, [])
    numbers = f'{{"a":-{digits},"b":0.{digits},"c":1e-{digits}}}'.encode()
    assert parsed(numbers) == ({"a": f"-{digits}", "b": f"0.{digits}", "c": f"1e-{digits}"}, [])


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'{"a":[1,2,],}', {"a": [1, 2]}),
        (b'{"a":1 // of "two", }\n}', {"a": 1}),
        (b'{"a":"x // y, ]"}\x20// end', {"a": "x // y, ]"}),
        (b'{"a":"two\nlines\t\x01"}', {"a": "two\nlines\t\x01"}),
        ('{"é":"a\n"}'.encode(), {"é": "a\n"}),
    ],
)
def test_what_is_read_leniently(value: bytes, read: Any) -> None:
    assert parsed(value) == (read, [Code.LENIENT_JSON.value])


@pytest.mark.parametrize(
    ("value", "code", "said"),
    [
        (b'{"a":1', Code.BAD_JSON, "expected one JSON value"),
        (b"", Code.BAD_JSON, "got an empty message"),
        (b'{"a":"\\ud83d\\ude00 \\ud83d"}', Code.BAD_JSON, "\\ud83d is half of a character"),
        (b'{"a":"\\\\ud83d"', Code.BAD_JSON, "truncated"),
        (b'{"a":\xff}', Code.BAD_JSON, "the byte 0xff (byte 5)"),
        (b'{"\xff":1}', Code.BAD_JSON, "expected JSON in UTF-8"),
        # The place is that in the message as it came, not in the mended text.
        (b'\xef\xbb\xbf{"a":"\n\n\n" "b"}', Code.BAD_JSON, "(byte 14)"),
        (b"[" * 5_000, Code.TOO_LARGE, "900 deep"),
        (b"{'a':1}", Code.BAD_JSON, "expected one JSON value"),
    ],
)
def test_what_is_no_json(value: bytes, code: Code, said: str) -> None:
    with pytest.raises(DecodeError) as caught:
        parsed(value)
    assert caught.value.code is code and said in str(caught.value)


def test_rows_of_an_image() -> None:
    warnings: list[str] = []
    row = jsontext.image(b'{"a":1,"b":1.50,"c":null,"d":{"x":[1.0]},"e":-0}', warnings)
    assert row == {"a": 1, "b": "1.50", "c": None, "d": {"x": ["1.0"]}, "e": "-0"}
    assert [jsontext.image(text, warnings) for text in (b"null", b"{}", b"[]", b"")] == [None] * 4
    assert warnings == []
    marked = jsontext.image(b'{"a":1E5,"b":1.5}', warnings, marked=True)
    assert marked == {"a": Digits("1E5"), "b": "1.5"} and str(marked["a"]) == "1E5"
    with pytest.raises(DecodeError, match="expected an object of columns") as caught:
        jsontext.image(b"[1]", warnings)
    assert caught.value.code is Code.BAD_SHAPE


@pytest.mark.parametrize(
    ("text", "twice"),
    [
        (b'{"a":1,"a":2}', True),
        (b'{"a":1,"\\u0061":2}', True),
        (b'{"a":{"b":1},"b":2}', False),
        (b'{"a":"x\\":","b":"\\":\\":"}', False),
        (b'{"a": 1, "b": {"a": 1, "a": 2}}', False),
    ],
)
def test_a_name_that_stands_twice(text: bytes, twice: bool) -> None:
    warnings: list[str] = []
    assert jsontext.image(text, warnings) is not None
    assert warnings == ([Code.DUP_KEY.value] if twice else [])
    listed: list[str] = []
    jsontext.images(b"[" + text + b"]", listed)
    assert listed == warnings
    assert (jsontext.plain_images([text], marked=False) == [None]) is twice


def test_lists_of_rows_are_read_as_each_row_is() -> None:
    draw = random.Random(7)
    values = ("1", "1.50", "-0", '"x"', '"\\":"', "null", "true", "[1, 2.0]", '{"n":1}')
    for _ in range(500):
        rows = [
            "{" + ",".join(f'"c{i}":{draw.choice(values)}' for i in range(draw.randint(1, 4))) + "}"
            for _ in range(draw.randint(1, 4))
        ]
        found = jsontext.images(f"[{','.join(rows)}]".encode(), [])
        assert found.rows == [jsontext.image(row.encode(), []) for row in rows]
        assert [bytes(found.text(i)) for i in range(len(rows))] == [row.encode() for row in rows]


def test_nested_values_keep_their_text() -> None:
    text = b'{"a":{"z":1.0, "y":[ 1 ]},"b":[1.10,2]}'
    assert jsontext.nested(text, "a") == '{"z":1.0, "y":[ 1 ]}'
    assert jsontext.nested(text, "b") == "[1.10,2]"


def test_several_objects_in_one_message() -> None:
    split = jsontext.one_after_the_other
    assert split(b'{"a":1}\n{"b":"} {"}') == [b'{"a":1}', b'{"b":"} {"}']
    for whole in (b'{"a":"} {"}', b'{"a":1} 2', b'{"a":1} {', b'{"a":1}'):
        assert split(whole) == [whole]


def test_white_space_between_tokens_goes_and_nothing_else() -> None:
    sent = b'{"a": 1.10, "b": "x  y", "c": [1, {"d": null}]}'
    assert jsontext.compacted(sent) == b'{"a":1.10,"b":"x  y","c":[1,{"d":null}]}'
    assert jsontext.compacted(b'{"a":1, "b":2}') == b'{"a":1, "b":2}'
    assert jsontext.compacted(b'{"a": 1') == b'{"a": 1'


def test_excerpts_are_readable() -> None:
    assert jsontext.excerpt("größer".encode()) == "b'größer'"
    assert jsontext.excerpt(b"\xff\x00") == r"b'\xff\x00'"
    assert jsontext.excerpt("ä".encode() * 60, 3) == "b'ä'…"
