"""Every sample is recognised by exactly one format, and what no format knows is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.formats import FORMATS
from ingest.formats.detect import Detection, recognised
from ingest.values.jsontext import members
from ingest.wire.contract import Format, Message, TopLevel
from tests.support.messages import OF_FOLDER, OF_SEED, PUBLIC_CANAL, is_bare_row, lines_of

OF_NO_FORMAT_YET = ("aws-dms-json", "maxwell", "ogg-json", "ticdc-simple", "wal2json-v2")


def answer(value: bytes) -> str:
    try:
        return recognised(Message(value)).name
    except DecodeError as error:
        return error.code.value


@pytest.mark.parametrize("folder", OF_FOLDER)
def test_peers(shared: Path, folder: str) -> None:
    files = [
        file
        for file in sorted((shared / "samples" / "peers" / folder).glob("*.json*"))
        if ".expected." not in file.name
    ]
    assert files
    for file in files:
        for line in lines_of(file):
            bare = folder == "debezium-json" and is_bare_row(line)
            wanted = "unknown_format" if bare else OF_FOLDER[folder]
            assert answer(line) == wanted, (file.name, line[:200])


@pytest.mark.parametrize("name", PUBLIC_CANAL)
def test_public_canal(shared: Path, name: str) -> None:
    lines = list(lines_of(shared / "samples" / "peers" / f"{name}.jsonl"))
    assert [answer(line) for line in lines] == ["canal"] * len(lines)


@pytest.mark.parametrize("name", OF_SEED)
def test_seeds(shared: Path, name: str) -> None:
    lines = list(lines_of(shared / "samples" / "seeds" / f"{name}.jsonl"))
    assert lines
    assert [answer(line) for line in lines] == [OF_SEED[name]] * len(lines)


def test_captured_debezium(shared: Path) -> None:
    text = (shared / "samples" / "debezium-3.6.3" / "messages.jsonl").read_text()
    values = [json.loads(line)["value"] for line in text.splitlines()]
    sent = [value for value in values if value is not None]
    assert sent
    for value in sent:
        line = value if isinstance(value, str) else json.dumps(value)
        assert answer(line.encode()) == "debezium", line[:200]


@pytest.mark.parametrize("folder", OF_NO_FORMAT_YET)
def test_unknown_formats_are_refused(shared: Path, folder: str) -> None:
    """Refused, or recognised by a format of their own name: never taken for another."""
    files = sorted((shared / "samples" / "peers" / folder).glob("*.jsonl"))
    assert files
    own = {"aws-dms-json": "dms", "ogg-json": "ogg", "wal2json-v2": "wal2json"}.get(folder)
    own = own or folder.replace("-", "_")
    wanted = own if own in FORMATS else "unknown_format"
    for file in files:
        for line in file.read_bytes().splitlines():
            assert answer(line) == wanted, (file.name, line[:200])


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (b"{}", "unknown_format"),
        (b"[]", "unknown_format"),
        (b'"INSERT"', "unknown_format"),
        (b"\x00\x00\x00\x00\x00abc", "unknown_format"),
        (b"hello", "unknown_format"),
        (b'{"type":"INSERT"', "bad_json"),
        (b'{"type":"note","data":[{"id":1}]}', "unknown_format"),
        (b'{"type":"INSERT","data":{"id":1}}', "unknown_format"),
        (b'{"id":1,"name":"pen"}', "unknown_format"),
        (b'{"action":"I","dbValType":null,"table":"t","columns":[]}', "ambiguous_format"),
        (b'{"type":"INSERT","isDdl":false,"data":[{"id":1}],"__op":"c"}', "ambiguous_format"),
    ],
)
def test_refusals(value: bytes, code: str) -> None:
    assert answer(value) == code


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b'{"data":[{"id":1}],"type":"INSERT"}', "canal"),
        (b'{"data":[{"id":1}],"type":"DELETE","pkNames":["id"]}', "canal"),
        (b'\xef\xbb\xbf {"data":null,"isDdl":true,"type":"ALTER",}', "canal"),
        (b'{"type":"INIT_DDL","data":null,"es":0,"sqlType":null}', "canal"),
        (b'{"action":"DELETE","before":[],"data":[],"execTs":0}', "cloudcanal"),
        (b'{"action":"","entryType":"HEARTBEAT"}', "cloudcanal"),
    ],
)
def test_sparse_messages(value: bytes, name: str) -> None:
    assert answer(value) == name


def format_of(recognise: Any = None, recognise_bytes: Any = None) -> Format:
    return Format(
        decoder=lambda options: lambda message: iter(()),
        order="arrival",
        summary="",
        source="",
        recognised="",
        ordered="",
        recognise=recognise,
        recognise_bytes=recognise_bytes,
    )


def test_two_formats_are_named_not_chosen_from() -> None:
    detection = Detection({"a": format_of(lambda top: "x" in top), "b": format_of(bool)})
    with pytest.raises(DecodeError) as refused:
        detection.of(Message(b'{"x":1}'))
    assert refused.value.code is Code.AMBIGUOUS_FORMAT
    assert "fit a, b" in refused.value.text
    assert detection.of(Message(b'{"y":1}')).name == "b"


def test_values_are_asked_each_time_names_once() -> None:
    asked: list[str] = []

    def by_name(top: TopLevel) -> bool:
        asked.append("name")
        return "x" in top and top.get("absent") is None

    def by_value(top: TopLevel) -> bool:
        asked.append("value")
        return bytes(top["x"]) == b"2"

    detection = Detection({"name": format_of(by_name), "value": format_of(by_value)})
    assert detection.of(Message(b'{"x":1}')).name == "name"
    assert detection.of(Message(b'{"x":1}')).name == "name"
    with pytest.raises(DecodeError):
        detection.of(Message(b'{"x":2}'))
    assert asked == ["name", "value", "value", "value", "value"]


def test_bytes_are_told_by_their_own_recognisers() -> None:
    detection = Detection(
        {
            "zero": format_of(None, lambda message: message.value[:1] == b"\0"),
            "one": format_of(None, lambda message: message.value[:1] in b"\0\1"),
        }
    )
    assert detection.of(Message(b"\1x")).name == "one"
    for value, code in ((b"\0", "ambiguous_format"), (b"\2", "unknown_format")):
        with pytest.raises(DecodeError) as refused:
            detection.of(Message(value))
        assert refused.value.code.value == code


NAMES = sorted(
    {"type", "data", "old", "es", "isDdl", "mysqlType", "action", "entryType", "dbValType"}
    | {"execTs", "payload", "schema", "version", "op", "source", "before", "after", "ddl", "__op"}
    | {"recordType", "allMetaData", "meta", "key", "ts_ms", "tableChanges", "status", "id"}
)
TEXTS = st.sampled_from(
    ["null", "1", "[]", "{}", '"INSERT"', '"c"', '"2.0"', '"1.0.0"', '{"op":"c"}', '{"\xff":1}']
)


@settings(max_examples=500, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), TEXTS, max_size=8))
def test_memory_changes_no_answer(top: dict[str, str]) -> None:
    """The remembered answer is what every recogniser, asked anew, would say."""
    body = ",".join(f'"{name}":{text}' for name, text in top.items())
    value = f"{{{body}}}".encode("latin-1")
    fresh = Detection(FORMATS)
    answers = []
    for of in (fresh.of, recognised, recognised):
        try:
            answers.append(of(Message(value)).name)
        except DecodeError as error:
            answers.append(error.code.value)
    assert len(set(answers)) == 1
    if answers[0] in FORMATS:
        assert fresh.detect(members(value), Message(value)) == answers[0]
