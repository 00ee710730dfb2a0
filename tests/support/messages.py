"""Messages to hold the promises against: golden ones, samples, poison, mutations."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ingest.config.sources import Source
from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.values.jsontext import members
from ingest.wire.contract import Message
from tests.support.silver_rows import messages, source_of
from tests.support.ticdc import batch, events

FORMATS_FOLDER = Path(__file__).parents[1] / "formats"
OF_FOLDER = {
    "aws-dms-json": "dms",
    "canal-json": "canal",
    "cloudcanal-debezium": "debezium",
    "cloudcanal-json": "cloudcanal",
    "dataworks-json": "dataworks",
    "debezium-json": "debezium",
    "maxwell": "maxwell",
    "ogg-json": "ogg",
    "ticdc-simple": "ticdc_simple",
    "wal2json-v2": "wal2json",
}
OF_SEED = {
    "seed000_canal": "canal",
    "seed001_canal": "canal",
    "seed001_oms_dataworks2": "oms_dataworks",
    "seed001_oms_default": "oms_default",
    "seed001_oms_default_extend": "oms_default",
    "seed001_oms_shareplex": "oms_shareplex",
    "seed002_streamx": "dataworks",
    "synthetic_ob_avro.avro_json": "ob_avro",
}
PUBLIC_CANAL = ("public_canal_flink", "public_canal_issues")


def reader_of(name: str, **given: Any) -> SourceDecoder:
    """The reader of a Kafka source pinned to format `name`, or detecting it for `auto`."""
    kafka = {"bootstrap_servers": "broker:9092", "topics": ["t"]}
    return SourceDecoder(
        decode_spec(Source.model_validate({"name": "s", "kafka": kafka, "format": name, **given}))
    )


def folders(name: str) -> list[Path]:
    """The golden folders of a format."""
    return sorted(path.parent for path in (FORMATS_FOLDER / name).glob("*/silver.jsonl"))


@cache
def golden(name: str) -> tuple[tuple[Source, Message], ...]:
    """Every golden message of a format, with the source that its folder declares."""
    return tuple(
        (source, message)
        for folder in folders(name)
        for source in [source_of(folder)]
        for message in messages(folder)
    )


def _deep(token: str, size: int) -> bytes:
    closing = "]" if token == "[" else "}"
    return (token * size + closing * (size if token == "[" else 0)).encode()


POISON: dict[str, bytes] = {
    "nothing": b"",
    "blank": b"   ",
    "array": b"[]",
    "array of objects": b'[{"type":"INSERT","data":[{"id":1}]}]',
    "number": b"17",
    "text": b'"INSERT"',
    "null": b"null",
    "literal": b"true",
    "no JSON": b"INSERT INTO t VALUES (1)",
    "open object": b"{",
    "empty object": b"{}",
    "deep array": _deep("[", 100_000),
    "deep object": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "NUL bytes": b"\x00" * 64,
    "NUL in text": b'{"type":"INSERT\x00","data":[{"id":"\x00"}]}',
    "not UTF-8": b'{"type":"INSERT","data":[{"id":"\xff\xfe\xc3("}]}',
    "UTF-16": '{"type":"INSERT"}'.encode("utf-16"),
    "BOM alone": b"\xef\xbb\xbf",
    "lone surrogate": b'{"type":"INSERT","data":[{"id":"\\ud800"}]}',
    "two values": b"{} {}",
    "NaN": b'{"type":"INSERT","data":[{"id":NaN}]}',
    "endless number": b'{"type":"INSERT","data":[{"id":' + b"9" * 100_000 + b"}]}",
    "long text": b'{"type":"INSERT","data":[{"id":"' + b"x" * 2**20 + b'"}]}',
    "long name": b'{"type":"INSERT","data":[{"' + b"n" * 2**20 + b'":1}]}',
    "many names": json.dumps({f"n{i}": i for i in range(20_000)}).encode(),
    "Avro container": b"Obj\x01\x04\x14avro.codec\x08null\x00" + b"\x00" * 16,
    "Confluent framing": b"\x00\x00\x00\x00\x07abc",
}
"""What no format decodes, by what is wrong with it."""

WRONG = (
    *(b"null", b"true", b"-1", b"0", b"1.5E+400", b'""', b'"x"', b"[]", b"{}", b"[null]", b"[[]]"),
    *(b'{"a":1}', b"9223372036854775808", b'"9223372036854775808"', b"-9223372036854775809"),
    *(b'"' + b"9" * 40 + b'"', b"1" + b"0" * 5_000, b'"' + b"f" * 8_000 + b'"', b"1e99999"),
    *(b'"\\u0000"', b'"\xc3\xa9"', b"253402300800000", b'"0000-00-00"', b'"decimal(99999,3)"'),
)
"""Tokens of every JSON type, and numbers beyond what they are meant to be."""


def with_wrong_members(value: bytes, depth: int = 3) -> Iterator[bytes]:
    """The message with every member of its envelope replaced by each of WRONG, then left out."""
    try:
        top = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    for name, raw in top.items():
        for token in WRONG:
            yield msgspec.json.encode({**top, name: msgspec.Raw(token)})
        yield msgspec.json.encode({other: top[other] for other in top if other != name})
        if depth > 1:
            for inner in with_wrong_members(bytes(raw), depth - 1):
                yield msgspec.json.encode({**top, name: msgspec.Raw(inner)})


WRONG_BYTES = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFF)


def with_wrong_bytes(value: bytes, most: int = 400) -> Iterator[bytes]:
    """The message cut at every place, and with each byte replaced by each of WRONG_BYTES."""
    for at in range(min(len(value), most)):
        yield value[:at]
        for byte in WRONG_BYTES:
            if byte != value[at]:
                yield value[:at] + bytes([byte]) + value[at + 1 :]


def is_json(value: bytes) -> bool:
    """Whether a message is meant to be a JSON object."""
    return value.lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{")


def with_wrong_parts(name: str, message: Message) -> Iterator[Message]:
    """The message of format `name` with wrong members in every part of it."""
    if name != "ticdc_open":
        value = message.value or b""
        for wrong in (with_wrong_members if is_json(value) else with_wrong_bytes)(value):
            yield message._replace(value=wrong)
        return
    for key, value in events(message):
        for wrong in with_wrong_members(value):
            yield batch((key, wrong))
        for wrong in with_wrong_members(key):
            yield batch((wrong, value))


_TOKEN = re.compile(
    rb'(?P<name>"(?:[^"\\]|\\.)*"(?=\s*:))'
    rb'|(?P<value>"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null)',
    re.DOTALL,
)
_TORN = (b",", b":", b"{", b"}", b"[", b"]", b'"', b"\\", b"\x00", b"\xff", b"//", b"\n", b"")


def mutated(values: tuple[bytes, ...], chance: random.Random) -> bytes:
    """A message with up to four values or names put elsewhere, or now and then its bytes torn."""
    value = chance.choice(values)
    if not is_json(value):
        return _mutated_bytes(value, values, chance)
    for _ in range(chance.randint(1, 4)):
        kind = "value" if chance.random() < 0.8 else "name"
        spans = _spans(value, kind)
        if not spans:
            break
        start, end = chance.choice(spans)
        if kind == "value" and chance.random() < 0.5:
            token = chance.choice(WRONG)
        else:
            other = chance.choice(values)
            token = other[slice(*chance.choice(_spans(other, kind) or [(0, 0)]))]
        value = value[:start] + token + value[end:]
    if chance.random() < 0.2:
        at = chance.randint(0, len(value))
        value = value[:at] + chance.choice(_TORN) + value[at + chance.randint(0, 40) :]
    return value


_CHARACTERS = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-.@"
_BOMBS = (b"\xff" * 9 + b"\x01", b"\xfe\xff\xff\xff\x0f", b"\x80" * 12, b"\x7f", b"\x00", b"\x01")


def _mutated_bytes(value: bytes, values: tuple[bytes, ...], chance: random.Random) -> bytes:
    """Up to three characters changed inside texts, or bytes changed, put in, left out anywhere."""
    for _ in range(chance.randint(1, 3)):
        at = chance.randint(0, len(value))
        way = chance.random()
        if way < 0.65:
            characters = [at for at, byte in enumerate(value) if byte in _CHARACTERS] or [0]
            at = chance.choice(characters)
            value = value[:at] + bytes([chance.choice(_CHARACTERS)]) + value[at + 1 :]
        elif way < 0.75:
            value = value[:at] + bytes([chance.randint(0, 255)]) + value[at + 1 :]
        elif way < 0.85:
            value = value[:at] + chance.choice(_BOMBS) + value[at + chance.randint(0, 2) :]
        elif way < 0.9:
            other = chance.choice(values)
            start = chance.randint(0, len(other))
            value = value[:at] + other[start : start + chance.randint(0, 30)] + value[at:]
        else:
            value = value[:at] + value[at + chance.randint(1, 20) :]
    return value


def _spans(value: bytes, kind: str) -> list[tuple[int, int]]:
    return [token.span() for token in _TOKEN.finditer(value) if token.lastgroup == kind]


def lines_of(file: Path) -> Iterator[bytes]:
    """The messages of a sample file; keys that stand beside their messages are none."""
    text = file.read_bytes()
    for line in [text] if file.suffix == ".json" else text.splitlines():
        if line.strip() and set(members(line)) - {"id"}:
            yield line


def is_bare_row(line: bytes) -> bool:
    """Whether a row came flattened without its operation: only the source's YAML can tell."""
    payload = json.loads(line).get("payload")
    fields = {"op", "databaseName", "status", "ts_ms", "__op", "__deleted"}
    return isinstance(payload, dict) and not payload.keys() & fields


def samples(shared: Path) -> Iterator[tuple[str, Message]]:
    """Every message of the seeds and the peers that a format knows, with the format's name."""
    offset = 0
    folder = shared / "samples"
    files = [(folder / "seeds" / f"{stem}.jsonl", name) for stem, name in OF_SEED.items()]
    for peer, name in OF_FOLDER.items():
        files += [(file, name) for file in sorted((folder / "peers" / peer).glob("*.json*"))]
    files += [(folder / "peers" / f"{stem}.jsonl", "canal") for stem in PUBLIC_CANAL]
    for name, value in _binary_samples(folder):
        yield name, Message(value, topic="t", offset=offset, timestamp=1_700_000_000_000)
        offset += 1
    for file, name in files:
        if ".expected." in file.name:
            continue
        for line in lines_of(file):
            if not is_bare_row(line):
                yield name, Message(line, topic="t", offset=offset, timestamp=1_700_000_000_000)
                offset += 1
    # Printed as pairs of key and value.
    for line in lines_of(folder / "peers" / "ticdc-open" / "docs.jsonl"):
        pair = members(line)
        value = bytes(pair["value"])
        event = (bytes(pair["key"]), b"" if value == b"null" else value)
        yield "ticdc_open", batch(event)._replace(topic="t", offset=offset)
        offset += 1


def _binary_samples(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted((folder / "peers" / "dts-avro").glob("*.bin")):
        yield "dts", file.read_bytes()
    bare = folder / "seeds" / "synthetic_ob_avro.raw_datum_b64.jsonl"
    for line in bare.read_text().splitlines():
        yield "ob_avro", base64.b64decode(json.loads(line)["datum_b64"])
    for file in sorted((folder / "peers" / "debezium-avro").glob("*.jsonl")):
        for line in file.read_text().splitlines():
            if value := json.loads(line).get("value_hex"):
                yield "debezium_avro", bytes.fromhex(value)
