"""Headers of RabbitMQ's messages, laid out here by AMQP's own page: whatever a sender puts there,
the message arrives, and so do its neighbours."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pika.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika.exceptions import InvalidFrameError

from pipelines.bronze.amqp.messages import Headers, delivery
from pipelines.bronze.amqp.tables import DEPTH, REST, decode_frame
from pipelines.bronze.by_offset.columns import record_batch

SENT = SimpleNamespace(delivery_tag=1, redelivered=False, exchange="", routing_key="q")
OWN = (("rabbitmq.content_type", b"a/b"), ("rabbitmq.message_id", b"7"))
ROUTED = ("rabbitmq.routing_key", b"q")


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def entry(name: bytes, kind: bytes, value: bytes) -> bytes:
    return short(name) + kind + value


def frame(entries: bytes) -> bytes:
    """A header frame with the flags of a content type, headers and a message id."""
    payload = struct.pack(">HHQH", 60, 0, 2, 1 << 15 | 1 << 13 | 1 << 7)
    payload += short(b"a/b") + sized(entries) + short(b"7")
    return struct.pack(">BHL", 2, 1, len(payload)) + payload + b"\xce"


def headers_of(entries: bytes) -> Headers:
    """As bronze has them, which has to take them."""
    data = frame(entries)
    read, found = decode_frame(data + b"next", pika.frame.decode_frame)
    assert (read, found.channel_number, found.body_size) == (len(data), 1, 2)
    record = delivery(SENT, found.properties, b"{}").record
    batch = record_batch(
        values=[record.value],
        keys=[None],
        headers=[record.headers],
        topics=["q"],
        partitions=[0],
        offsets=[0],
        times=[record.timestamp],
    )
    kept = tuple((one["key"], one["value"]) for one in batch.to_pylist()[0]["headers"])
    assert kept[-3:] == (*OWN, ROUTED)
    return kept[:-3]


def deep(levels: int) -> bytes:
    data = b""
    for _ in range(levels):
        data = b"A" + sized(data)
    return data[1:]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (b"t", b"\x01", b"true"),
        (b"b", b"\xff", b"-1"),
        (b"B", b"\xff", b"255"),
        (b"s", b"\xff\xfe", b"-2"),
        (b"u", b"\xff\xff", b"65535"),
        (b"I", struct.pack(">i", -7), b"-7"),
        (b"i", struct.pack(">I", 1 << 31), b"2147483648"),
        (b"l", struct.pack(">q", -1 << 63), b"-9223372036854775808"),
        (b"f", struct.pack(">f", 0.5), b"0.5"),
        (b"d", struct.pack(">d", 1.5), b"1.5"),
        (b"d", struct.pack(">d", 0.1 + 0.2), b"0.30000000000000004"),
        (b"d", struct.pack(">d", float("nan")), b"nan"),
        (b"d", struct.pack(">d", float("-inf")), b"-inf"),
        (b"D", b"\x02" + struct.pack(">i", -150), b"-1.50"),
        (b"S", sized("名".encode()), "名".encode()),
        (b"S", sized(b"\xe4"), b"\xe4"),
        (b"x", sized(b"\x00\xff"), b"\x00\xff"),
        (b"T", struct.pack(">Q", 1_700_000_000), b"2023-11-14T22:13:20+00:00"),
        (b"T", struct.pack(">Q", 1_700_000_000_000), b"1700000000000"),
        (b"T", struct.pack(">Q", (1 << 64) - 1), b"18446744073709551615"),
        (b"V", b"", None),
        (
            b"A",
            sized(b"S" + sized(b"\xe4") + b"d" + struct.pack(">d", float("inf"))),
            b'["\xef\xbf\xbd","inf"]',
        ),
        (b"F", sized(entry(b"\xe4", b"t", b"\x01")), '{"\N{REPLACEMENT CHARACTER}":true}'.encode()),
        (b"F", sized(entry(b"a", b"t", b"\x01") + entry(b"a", b"t", b"\x00")), None),
        (b"F", sized(entry(b"a", b"Z", b"")), None),
        (b"A", sized(b"S" + struct.pack(">I", 99)), None),
        (b"A", deep(DEPTH), b"[" * DEPTH + b"]" * DEPTH),
        (b"A", deep(20_000), None),
    ],
)
def test_a_header_of_any_type(kind: bytes, value: bytes, text: bytes | None) -> None:
    """And what stands beside it is there. What JSON cannot hold stays bytes."""
    around = entry(b"before", b"S", sized(b"x")), entry(b"after", b"S", sized(b"y"))
    if text is None and kind != b"V":
        text = value[4:]
    found = headers_of(around[0] + entry(b"it", kind, value) + around[1])
    assert found == (("before", b"x"), ("it", text), ("after", b"y"))


def test_names() -> None:
    """One that is no UTF-8, and one that comes twice."""
    found = headers_of(entry(b"\xe4", b"t", b"\x01") + entry(b"a", b"V", b"") * 2)
    assert found == (("\N{REPLACEMENT CHARACTER}", b"true"), ("a", None), ("a", None))


def test_an_entry_of_no_known_type_is_kept_with_what_follows() -> None:
    rest = entry(b"b", b"Z", b"...")
    assert headers_of(entry(b"a", b"t", b"\x01") + rest) == (("a", b"true"), (REST, rest))


@pytest.mark.parametrize("name", ["x-stream-offset", "timestamp_in_ms"])
@pytest.mark.parametrize("value", [b"t\x01", b"S" + sized(b"abc"), b"d" + struct.pack(">d", 1e300)])
def test_a_senders_own_header_with_a_name_of_the_servers(name: str, value: bytes) -> None:
    found = decode_frame(frame(short(name.encode()) + value), pika.frame.decode_frame)[1]
    record = delivery(SENT, found.properties, b"{}").record
    assert (record.offset, record.timestamp) == (None, None)


@given(st.binary(max_size=60))
def test_whatever_the_bytes_of_a_table_are(entries: bytes) -> None:
    headers_of(entries)


@given(st.integers(0, 60))
def test_a_frame_that_has_not_come_whole_is_waited_for(size: int) -> None:
    data = frame(entry(b"a", b"t", b"\x01"))
    wanted = (0, None) if size < len(data) else len(data)
    found = decode_frame(data[:size], pika.frame.decode_frame)
    assert (found if size < len(data) else found[0]) == wanted


def test_other_frames_are_the_drivers() -> None:
    body = struct.pack(">BHL", 3, 1, 2) + b"{}\xce"
    read, found = decode_frame(body, pika.frame.decode_frame)
    assert (read, found.fragment) == (len(body), b"{}")
    broken: Any = frame(b"")[:-1] + b"\x00"
    with pytest.raises(InvalidFrameError):
        decode_frame(broken, pika.frame.decode_frame)
