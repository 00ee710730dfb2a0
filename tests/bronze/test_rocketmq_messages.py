"""Entries of RocketMQ's commit log, laid out here by the layout's own page, not by the product."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingest.config.sources import Source
from pipelines.bronze import rocketmq
from pipelines.bronze.by_offset.rocketmq_topics import _record
from pipelines.bronze.remoting.cluster import Cluster, Gone, Queue, Refused, pull
from pipelines.bronze.remoting.connection import Answer
from pipelines.bronze.remoting.messages import Stored, stored
from pipelines.bronze.rocketmq import _Met

V1, V2 = -626843481, -626843477
BATCH = 1 << 6 | 1 << 7


def properties(pairs: Mapping[str, str]) -> bytes:
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs.items()).encode()


def entry(
    body: bytes,
    *,
    topic: str = "shop",
    queue: int = 3,
    offset: int = 40,
    flags: int = 0,
    magic: int = V1,
    pairs: Mapping[str, str] | None = None,
) -> bytes:
    """A message as `MessageExtEncoder` writes it: every field in its place."""
    written = properties(pairs or {})
    name = topic.encode()
    born = b"\x00" * (16 if flags & 1 << 4 else 4) + struct.pack(">i", 5000)
    kept = b"\x00" * (16 if flags & 1 << 5 else 4) + struct.pack(">i", 5001)
    rest = b"".join(
        [
            struct.pack(">iiiiqqiq", magic, 0, queue, 7, offset, 900, flags, 1_700_000_000_000),
            born,
            struct.pack(">q", 1_700_000_000_123),
            kept,
            struct.pack(">iq", 0, 0),
            struct.pack(">i", len(body)) + body,
            struct.pack(">h" if magic == V2 else ">b", len(name)) + name,
            struct.pack(">h", len(written)) + written,
        ]
    )
    return struct.pack(">i", len(rest) + 4) + rest


def inner(body: bytes, pairs: Mapping[str, str]) -> bytes:
    """A message within a batch, as `MessageDecoder.encodeMessage` writes it."""
    written = properties(pairs)
    rest = struct.pack(">iiii", V1, 0, 7, len(body)) + body
    rest += struct.pack(">h", len(written)) + written
    return struct.pack(">i", len(rest) + 4) + rest


def message(body: bytes, **changed: Any) -> Stored:
    whole = Stored("shop", 3, 40, 1_700_000_000_123, body, {})
    return whole._replace(**changed)


def test_messages_one_after_the_other() -> None:
    named = {"KEYS": "k 1", "TAGS": "create", "empty": "", "名": "值"}
    pulled = entry(b'{"id":1}', pairs=named) + entry(b"", offset=41) + entry(b"\x00\xff", offset=42)
    assert list(stored(pulled)) == [
        message(b'{"id":1}', properties=named),
        message(b"", offset=41),
        message(b"\x00\xff", offset=42),
    ]
    assert list(stored(b"")) == []


def test_a_long_topic_and_hosts_of_six() -> None:
    topic = "t" * 200
    pulled = entry(b"a", topic=topic, magic=V2, flags=1 << 4) + entry(b"b", flags=1 << 4 | 1 << 5)
    assert list(stored(pulled)) == [message(b"a", topic=topic), message(b"b")]


@pytest.mark.parametrize(
    ("flags", "packed"),
    [
        (1, zlib.compress),
        (1 | 3 << 8, zlib.compress),
        (1 | 2 << 8, zstandard.compress),
        (1 | 1 << 8, lambda body: pa.Codec("lz4").compress(body, asbytes=True)),
    ],
    ids=["as always", "zlib", "zstd", "lz4"],
)
def test_packed_bodies(flags: int, packed: object) -> None:
    body = b'{"id":1}' * 1000
    assert callable(packed)
    assert list(stored(entry(packed(body), flags=flags))) == [message(body)]


def test_a_body_that_unpacks_without_end_is_kept_as_it_came() -> None:
    bomb = zlib.compress(b"0" * ((1 << 27) + 1))
    assert list(stored(entry(bomb, flags=1))) == [message(bomb)]


@pytest.mark.parametrize("flags", [1, 1 | 1 << 8, 1 | 2 << 8, 1 | 5 << 8])
def test_a_packed_body_that_is_damaged_is_kept_as_it_came(flags: int) -> None:
    assert list(stored(entry(b"junk", flags=flags))) == [message(b"junk")]


def test_a_batch_is_its_messages() -> None:
    batch = inner(b"a", {"KEYS": "k"}) + inner(b"b", {})
    pulled = entry(zlib.compress(batch), flags=BATCH | 1, pairs={"CLUSTER": "c", "KEYS": "none"})
    assert list(stored(pulled)) == [
        message(b"a", properties={"CLUSTER": "c", "KEYS": "k"}),
        message(b"b", offset=41, properties={"CLUSTER": "c", "KEYS": "none"}),
    ]


@given(st.data())
def test_what_is_damaged_is_one_kind_of_error(data: st.DataObject) -> None:
    batch = inner(b"a", {"KEYS": "k"}) + inner(b"b", {})
    whole = entry(b"x" * 20, pairs={"TAGS": "t"}) + entry(batch, flags=BATCH) + entry(b"z", flags=1)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = (
        whole[:at] + data.draw(st.binary(max_size=4)) + whole[at + data.draw(st.integers(0, 9)) :]
    )
    try:
        assert all(isinstance(one, Stored) for one in stored(damaged))
    except ValueError as error:
        assert str(error)


def test_a_producer_names_no_broker() -> None:
    """By its name in bronze a broker is found again, and its number."""
    (message,) = stored(entry(b"{}", pairs={"rocketmq.broker": "forged", "TAGS": "a"}))
    record = _record(message, "b")
    assert record.headers == (
        ("rocketmq.broker", b"forged"),
        ("TAGS", b"a"),
        ("rocketmq.broker", b"b"),
    )


@pytest.mark.parametrize(
    ("in_bronze", "brokers"),
    [
        ([], ["a", "b"]),
        ([_Met(0, "b", 5)], ["b", "a"]),
        ([_Met(1, "b", 5)], [None, "b", "a"]),
        ([_Met(2, "a", 5), _Met(0, "x", 5)], ["x", None, "a", "b"]),
        # A row that stands for lost messages names no broker.
        ([_Met(1, None, 1), _Met(0, "a", 5), _Met(0, None, 9)], ["a", None, "b"]),
        ([_Met(0, "b", 3), _Met(0, "forged", 1)], ["b", "a"]),
    ],
)
def test_brokers_have_the_numbers_that_bronze_has(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    in_bronze: list[_Met],
    brokers: list[str | None],
) -> None:
    """Where the note on them is lost: those that bronze does not name get numbers of their own."""
    monkeypatch.setattr(rocketmq, "_in_bronze", lambda *_: in_bronze)
    warehouse: Any = SimpleNamespace(checkpoint=lambda *parts: str(tmp_path.joinpath(*parts)))
    declared = {"name_servers": "h:1", "topics": ["shop"]}
    source = Source.model_validate({"name": "shop", "rocketmq": declared})
    assert list(rocketmq._numbered(warehouse, source, {"a", "b"})) == brokers
    monkeypatch.setattr(rocketmq, "_in_bronze", lambda *_: [])
    assert list(rocketmq._numbered(warehouse, source, {"c", "a"})) == [*brokers, "c"]


def test_a_replica_is_read_as_one() -> None:
    """Where the master is down. It may lack what its master had."""

    class Told(Cluster):
        def _asked(self, topic: str) -> Answer:
            told = {
                "brokerDatas": [
                    {"brokerName": "a", "brokerAddrs": {"0": "a0:1", "1": "a1:1"}},
                    {"brokerName": "b", "brokerAddrs": {"2": "b2:1", "1": "b1:1"}},
                ],
                "queueDatas": [
                    {"brokerName": name, "perm": 6, "readQueueNums": 1} for name in "ab"
                ],
            }
            return Answer(0, "", {}, orjson.dumps(told))

    assert Told(["ns:1"]).queues("t") == [
        Queue("t", "a", 0, "a0:1", replica=False),
        Queue("t", "b", 0, "b1:1", replica=True),
    ]


@pytest.mark.parametrize(
    ("start", "lowest", "error"),
    [(40, 50, Gone), (98, 10, Refused)],
    ids=["gone", "not there yet"],
)
def test_what_a_broker_says_it_moved(start: int, lowest: int, error: type[Exception]) -> None:
    """It says so of what is gone, and of what lies behind its end: a replica's may be reached."""

    class Broker:
        def ask(self, code: int, **fields: Any) -> Answer:
            return Answer(21, "moved", {"minOffset": str(lowest), "nextBeginOffset": "97"}, b"")

    broker: Any = Broker()
    with pytest.raises(error):
        list(pull(broker, Queue("t", "a", 0, "a:1"), start, end=100, group="g"))
