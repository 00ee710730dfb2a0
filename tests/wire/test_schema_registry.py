"""Schemas from a registry over HTTP: found once, and refused at once while it does not answer."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.wire.avro import registry as schema_registry
from ingest.wire.avro.registry import Access, Registry, SchemaFolder
from tests.support.registry_server import Asked, RegistryServer, registry_server

POINT = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}
TEXT = json.dumps(POINT)


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as running:
        yield running


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the registry takes for now; it does not sleep, it moves this on."""
    now = [1000.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    told = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(schema_registry, "time", told)
    return now


def refusal(registry: Any, id_: int) -> str:
    with pytest.raises(DecodeError) as raised:
        registry.schema(id_)
    assert raised.value.code is Code.UNKNOWN_SCHEMA_ID
    return raised.value.text


def test_a_schema_is_asked_for_once_a_process(server: RegistryServer) -> None:
    server.has(7, POINT)
    assert [Registry(Access(server.url)).schema(7) for _ in range(3)] == [(TEXT,)] * 3
    assert server.asked == [Asked("/schemas/ids/7", None)]


def test_a_registry_below_a_path(server: RegistryServer) -> None:
    server.answers["/apis/ccompat/v7/schemas/ids/7"] = (200, json.dumps({"schema": TEXT}).encode())
    assert Registry(Access(server.url + "/apis/ccompat/v7/")).schema(7) == (TEXT,)


@pytest.mark.parametrize(
    ("access", "sent"),
    [
        (Access("", user="reader", password="p:ß"), "Basic cmVhZGVyOnA6w58="),
        (Access("", token="t.o.k"), "Bearer t.o.k"),
        (Access("", user="reader", password="x", token="t.o.k"), "Bearer t.o.k"),
        (Access(""), None),
    ],
)
def test_who_asks(server: RegistryServer, access: Access, sent: str | None) -> None:
    server.has(7, POINT)
    Registry(access._replace(url=server.url)).schema(7)
    assert server.asked == [Asked("/schemas/ids/7", sent)]


def test_a_user_in_the_url(server: RegistryServer) -> None:
    server.has(7, POINT)
    access = Access(server.url.replace("//", "//reader:s%2Fecret@"))
    Registry(access).schema(7)
    assert server.asked == [Asked("/schemas/ids/7", "Basic cmVhZGVyOnMvZWNyZXQ=")]
    assert "ecret" not in repr(access)
    assert "ecret" not in refusal(Registry(access), 8)


def test_secrets_do_not_follow_a_redirect(server: RegistryServer) -> None:
    def elsewhere(asked: Asked, handler: Any) -> None:
        handler.send_response(302)
        handler.send_header("Location", f"{server.url}/elsewhere")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.answers["/schemas/ids/7"] = elsewhere
    server.answers["/elsewhere"] = (200, json.dumps({"schema": TEXT}).encode())
    assert Registry(Access(server.url, token="t")).schema(7) == (TEXT,)
    assert server.asked[1] == Asked("/elsewhere", None)


def test_references_come_before_what_refers_to_them(server: RegistryServer) -> None:
    inner = {"type": "enum", "name": "a.E", "symbols": ["X"]}
    middle = {"type": "record", "name": "a.M", "fields": [{"name": "e", "type": "a.E"}]}
    outer = {"type": "record", "name": "O", "fields": [{"name": "m", "type": "a.M"}]}

    def to(*subjects: str) -> list[dict[str, Any]]:
        return [{"name": "n", "subject": subject, "version": 3} for subject in subjects]

    server.has(7, outer, references=to("m/1", "e"))
    server.has_subject("m%2F1/versions/3", middle, references=to("e"))
    server.has_subject("e/versions/3", inner)
    found = Registry(Access(server.url)).schema(7)
    assert found == tuple(map(json.dumps, (inner, middle, outer)))


def test_references_that_never_end(server: RegistryServer) -> None:
    loop = [{"name": "n", "subject": "s", "version": 1}]
    server.has(7, POINT, references=loop)
    server.has_subject("s/versions/1", POINT, references=loop)
    assert "more references than can be followed" in refusal(Registry(Access(server.url)), 7)
    assert len(server.asked) < 30


def test_references_that_multiply_are_asked_for_once_each(server: RegistryServer) -> None:
    def to(depth: int) -> list[dict[str, Any]]:
        return [{"name": f"n{i}", "subject": f"s{depth}", "version": 1} for i in range(9)]

    server.has(7, POINT, references=to(1))
    for depth in range(1, 19):
        schema = {"type": "enum", "name": f"E{depth}", "symbols": ["X"]}
        server.has_subject(f"s{depth}/versions/1", schema, references=to(depth + 1))
    server.has_subject("s19/versions/1", POINT)
    assert len(Registry(Access(server.url)).schema(7)) == 19
    assert len(server.asked) == 20


def test_references_to_ever_new_schemas_end(server: RegistryServer) -> None:
    wide = [{"name": "n", "subject": f"s{number}", "version": 1} for number in range(500)]
    server.has(7, POINT, references=wide)
    for number in range(500):
        server.has_subject(f"s{number}/versions/1", POINT)
    assert "more references than can be followed" in refusal(Registry(Access(server.url)), 7)
    assert len(server.asked) <= 101


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("/schemas/ids/7", "which answers 302"),
        ("file:///etc/passwd", "which answers 302"),
        ("ftp://127.0.0.1:1/x", "which cannot be reached"),
    ],
)
def test_a_redirect_that_leads_nowhere_good(
    server: RegistryServer, clock: list[float], to: str, said: str
) -> None:
    def elsewhere(asked: Asked, handler: Any) -> None:
        handler.send_response(302)
        handler.send_header("Location", to)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.answers["/schemas/ids/7"] = elsewhere
    assert said in refusal(Registry(Access(server.url, token="t")), 7)
    assert len(server.asked) <= 12


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (404, b'{"error_code":40403,"message":"Schema not found"}', "got none (404)"),
        (401, b"", "answers 401; check its user and password or token"),
        (403, b"", "answers 403; check its user and password or token"),
        (200, b"<html>", "answers otherwise than a registry does"),
        (200, b'{"schema":7}', "answers otherwise than a registry does"),
        (200, b'{"schema":"s","schemaType":"PROTOBUF"}', "got a schema of type PROTOBUF"),
    ],
)
def test_answers_that_are_final(
    server: RegistryServer, clock: list[float], status: int, body: bytes, reason: str
) -> None:
    server.answers["/schemas/ids/7"] = (status, body)
    registry = Registry(Access(server.url))
    assert reason in refusal(registry, 7)
    for _ in range(100):
        refusal(registry, 7)
    assert len(server.asked) == 1
    # later it may be there
    clock[0] += 31
    server.has(7, POINT)
    assert registry.schema(7) == (TEXT,)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 429])
def test_what_may_pass_is_tried_again(
    server: RegistryServer, clock: list[float], status: int
) -> None:
    def at_last(asked: Asked, handler: Any) -> None:
        handler.send_response(status if len(server.asked) < 3 else 200)
        body = json.dumps({"schema": TEXT}).encode()
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    server.answers["/schemas/ids/7"] = at_last
    assert Registry(Access(server.url)).schema(7) == (TEXT,)
    assert len(server.asked) == 3
    assert clock[0] == pytest.approx(1000.3)


def test_a_registry_in_trouble_is_asked_less_and_less(
    server: RegistryServer, clock: list[float]
) -> None:
    server.answers["/schemas/ids/7"] = (503, b"")
    registry = Registry(Access(server.url))
    asked = []
    began = clock[0]
    while clock[0] - began < 600:
        before = len(server.asked)
        assert "answers 503; replay when the registry answers" in refusal(registry, 7)
        if len(server.asked) > before:
            asked.append(round(clock[0] - began))
        # a thousand messages a second
        clock[0] += 0.25
    assert len(asked) < 18
    assert len(server.asked) == len(asked) + 2
    server.has(7, POINT)
    clock[0] += 61
    assert registry.schema(7) == (TEXT,)


def test_a_registry_that_is_not_there(clock: list[float]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    registry = Registry(Access(url))
    began = time.perf_counter()
    for id_ in range(1000):
        assert "which cannot be reached (ConnectionRefusedError)" in refusal(registry, id_)
    assert time.perf_counter() - began < 2
    # another task asks anew: a replay does not wait for the pause of the one before
    with registry_server() as server:
        server.has(1, POINT)
        assert Registry(Access(server.url)).schema(1) == (TEXT,)


def test_ids_that_nobody_knows_are_not_asked_for_without_end(
    server: RegistryServer, clock: list[float]
) -> None:
    registry = Registry(Access(server.url))
    texts = [refusal(registry, id_) for id_ in range(1, 2001)]
    assert len(server.asked) < 110
    assert "it did not know 100 ids within 30 seconds" in texts[-1]
    server.has(7, POINT)
    clock[0] += 31
    assert registry.schema(7) == (TEXT,)


def test_ids_that_nobody_knew_long_ago_silence_nothing(
    server: RegistryServer, clock: list[float]
) -> None:
    registry = Registry(Access(server.url))
    server.has(7, POINT)
    for id_ in range(1_000, 1_100):
        refusal(registry, id_)
        clock[0] += 3_600
    refusal(registry, 2_000)
    assert registry.schema(7) == (TEXT,)


def test_an_answer_that_does_not_end(server: RegistryServer) -> None:
    def drip(asked: Asked, handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            for _ in range(1000):
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(0.02)
        except OSError:
            pass

    server.answers["/schemas/ids/7"] = drip
    began = time.perf_counter()
    text = refusal(Registry(Access(server.url, timeout=0.2)), 7)
    assert "cannot be reached (TimeoutError)" in text
    assert time.perf_counter() - began < 5


def test_an_answer_beyond_measure(server: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "_LARGEST", 1000)
    server.answers["/schemas/ids/7"] = (200, b" " * 2000)
    assert "longer than 1000 bytes" in refusal(Registry(Access(server.url)), 7)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "registry:8081", "ftp://h/x", "http://"])
def test_addresses_that_are_none(url: str) -> None:
    assert "expected the registry as http:// or https://" in refusal(Registry(Access(url)), 7)


def test_a_folder_of_schema_files(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(TEXT)
    folder = SchemaFolder(str(tmp_path))
    assert folder.schema(7) == (TEXT,)
    expected, do = (
        f"expected the schema of id 8 in {tmp_path}/8.avsc, got ",
        (": put the schema there, or correct options.schema_folder"),
    )
    assert refusal(folder, 8) == f"{expected}no such file{do}"
    (tmp_path / "8.avsc").write_bytes(b"\xff")
    assert refusal(folder, 8) == f"{expected}bytes that are not UTF-8{do}"
    nowhere = SchemaFolder(str(tmp_path / "gone"))
    assert "gone/8.avsc, got no such folder: put" in refusal(nowhere, 8)
    (tmp_path / "8.avsc").write_text(TEXT)
    assert folder.schema(8) == (TEXT,)
