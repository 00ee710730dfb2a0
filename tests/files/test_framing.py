"""Files cut into records: every framing and packing, what is broken, bounded memory."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingest.config.transports import Files
from ingest.files import avro_container, compression
from ingest.files.compression import Damage
from ingest.files.framing import FRAMINGS, records
from ingest.files.record import ERROR_HEADER, SCHEMA_HEADER, Record, broken, framing_error

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
LONG_SUFFIXES = {".gzip": ".gz", ".bzip2": ".bz2", ".zstd": ".zst"}
ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "map", "values": "bytes"}},
        {"name": "check", "type": {"type": "fixed", "name": "Check", "size": 4}},
    ],
}
ORDERS = [
    {"id": n, "note": None if n % 3 else "n" * n, "tags": {"t": b"\x00" * n}, "check": b"abcd"}
    for n in range(300)
]


def read(content: bytes, framing: str, name: str = "") -> list[Record]:
    return list(records(io.BytesIO(content), framing, name=name))


def values(content: bytes, framing: str, name: str = "") -> list[bytes | None]:
    found = read(content, framing, name)
    assert [framing_error(record.headers) for record in found] == [None] * len(found)
    return [record.value for record in found]


def errors(found: list[Record]) -> list[tuple[bytes | None, str]]:
    """Value and reason of the broken records."""
    return [
        (record.value, damage.text)
        for record in found
        if (damage := framing_error(record.headers)) is not None
    ]


def text_of(record: Record) -> str:
    """Why a record is broken."""
    damage = framing_error(record.headers)
    return damage.text if damage is not None else ""


def datum(order: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(ORDER), order)
    return stream.getvalue()


def container(codec: str = "null", interval: int = 2000) -> bytes:
    stream = io.BytesIO()
    schema = fastavro.parse_schema(ORDER)
    fastavro.writer(stream, schema, ORDERS, codec=codec, sync_interval=interval)
    return stream.getvalue()


def test_the_framings_are_those_of_the_yaml() -> None:
    assert tuple(FRAMINGS) == Files.model_fields["framing"].annotation.__args__  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n\r\n\n", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r", [b"a", b"b"]),
        (b"a\r\r\nb\rc\n", [b"a\r", b"b\rc"]),
        (b"\n\na\n\n\nb\n\n", [b"a", b"b"]),
        (b" \n\t\n", [b" ", b"\t"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [b"a", b"\xef\xbb\xbfb"]),
        (b"\xef\xbb\xbf", []),
        ("é\u2028x\x85y\n".encode(), ["é\u2028x\x85y".encode()]),
        (b"\xff\xfe\x00\n\x00", [b"\xff\xfe\x00", b"\x00"]),
    ],
)
def test_lines(content: bytes, expected: list[bytes]) -> None:
    assert values(content, "lines") == expected


@pytest.mark.parametrize("around", [-2, -1, 0, 1, 2])
def test_lines_across_chunks(around: int) -> None:
    first = b"x" * (compression.CHUNK + around)
    assert values(first + b"\r\n\r\ny\n", "lines") == [first, b"y"]


@pytest.mark.parametrize("suffix", PACKED)
@given(lines=st.lists(st.binary(min_size=1).filter(lambda b: b.strip(b"\r\n"))))
def test_lines_come_back_whatever_the_packing(suffix: str, lines: list[bytes]) -> None:
    lines = [line.replace(b"\n", b" ").rstrip(b"\r") for line in lines]
    packed = PACKED[suffix](b"\n".join(lines))
    expected = [line for line in lines if line]
    expected[:1] = [line.removeprefix(b"\xef\xbb\xbf") for line in expected[:1]]
    assert values(packed, "lines", f"a.jsonl{suffix}") == [line for line in expected if line]


@pytest.mark.parametrize("suffix", LONG_SUFFIXES)
def test_archives_by_the_names_of_their_tools(suffix: str) -> None:
    packed = PACKED[LONG_SUFFIXES[suffix]](b"a\nb\n")
    assert values(packed, "lines", f"a.jsonl{suffix}") == [b"a", b"b"]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_several_members_and_padding(suffix: str) -> None:
    pack = PACKED[suffix]
    content = pack(b"a\nb") + pack(b"") + pack(b"c\n" * 70_000) + b"\0" * 5000
    assert values(content, "lines", f"X.JSONL{suffix.upper()}") == [b"a", b"bc", *[b"c"] * 69_999]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("cut", [1, 5, 100])
def test_a_truncated_archive_gives_what_is_before_the_cut(suffix: str, cut: int) -> None:
    # Text that hardly packs, so that several blocks are complete before the cut.
    noise = [zlib.crc32(b"%d" % n).to_bytes(4, "big").hex().encode() * 2 for n in range(300_000)]
    whole = PACKED[suffix](b"\n".join(noise))
    *good, last = read(whole[:-cut], "lines", f"a{suffix}")
    assert len(good) > 100_000
    assert [record.value for record in good] == noise[: len(good)]
    (error,) = errors([last])
    assert error[1] == f"the archive ends in the middle, at byte {len(whole) - cut}"
    assert noise[len(good)].startswith(error[0] or b"")


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_what_is_no_archive_is_one_broken_record(suffix: str, framing: str) -> None:
    found = read(b"not packed at all", framing, f"a{suffix}")
    ((value, text),) = errors(found)
    assert (len(found), value) == (1, b"")
    assert text.startswith("damaged archive near byte 17: ")


def test_an_archive_damaged_in_the_middle() -> None:
    packed = gzip.compress(b"a\nb\n") + b"\x1f\x8bgarbage"
    found = read(packed, "lines", "a.gz")
    assert [record.value for record in found] == [b"a", b"b", b""]
    assert "damaged archive" in errors(found)[0][1]


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("zeros", [4096, 300_000])
def test_an_archive_of_zeros_is_no_padding(suffix: str, zeros: int) -> None:
    # What a crash leaves of a file whose size was written and whose bytes were not.
    [(value, text)] = errors(read(bytes(zeros), "lines", f"a{suffix}"))
    assert value == b""
    assert text.startswith("damaged archive near byte ")


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("lines", [3, 3_000, 300_000])
def test_what_stands_before_a_damage_comes(suffix: str, lines: int) -> None:
    noise = [zlib.crc32(b"%d" % n).to_bytes(4, "big").hex().encode() for n in range(lines)]
    packed = PACKED[suffix](b"".join(line + b"\n" for line in noise)) + b"no member"
    *good, last = read(packed, "lines", f"a{suffix}")
    assert [record.value for record in good] == noise
    assert text_of(last).startswith("damaged archive near byte ")
    assert "; what follows is not read: " in text_of(last)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_wrong_checksum_takes_no_line_away(suffix: str) -> None:
    # Nothing tells which line is damaged, and those of a long file have been given already.
    if suffix == ".gz":
        whole = bytearray(gzip.compress(b"a\nb\n"))
        whole[-8] ^= 1
    else:
        whole = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(b"a\nb\n"))
        whole[-1] ^= 1
    *good, last = read(bytes(whole), "lines", f"a{suffix}")
    assert [record.value for record in good] == [b"a", b"b"]
    assert "damaged archive" in text_of(last)


class Cut(io.BytesIO):
    """Gives fewer bytes than it is asked for, as a pipe and a mounted store do."""

    def __init__(self, content: bytes, most: int) -> None:
        super().__init__(content)
        self._most = most

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size, self._most) if size and size > 0 else self._most)


@pytest.mark.parametrize("suffix", PACKED)
@given(
    most=st.integers(1, 30),
    framing=st.sampled_from(tuple(FRAMINGS)),
    content=st.binary(max_size=60),
    damaged=st.integers(0, 80),
)
def test_records_do_not_depend_on_how_the_bytes_come(
    suffix: str, most: int, framing: str, content: bytes, damaged: int
) -> None:
    packed = bytearray(PACKED[suffix](b"\xef\xbb\xbf" + content))
    if damaged < len(packed):
        packed[damaged] ^= 4
    cut = records(Cut(bytes(packed), most), framing, name=f"a{suffix}")
    assert list(cut) == read(bytes(packed), framing, f"a{suffix}")


@pytest.mark.parametrize("suffix", PACKED)
def test_whole(suffix: str) -> None:
    content = b"{\n}\r\n\n" * 100_000
    assert values(PACKED[suffix](content), "whole", f"a.json{suffix}") == [content]
    assert values(PACKED[suffix](b""), "whole", f"a.json{suffix}") == []


def test_length_prefixed() -> None:
    messages = [b"", b"a", b"\n\r", b"b" * 1_000_000, b"\x00" * 4]
    content = b"".join(struct.pack(">I", len(message)) + message for message in messages)
    assert values(content, "length_prefixed") == messages
    assert values(b"", "length_prefixed") == []


@pytest.mark.parametrize(
    ("tail", "text"),
    [
        (b"\x00\x00", "expected 4 bytes of length before the end"),
        (b"\x00\x00\x00\x05abc", "expected 5 bytes, got 3 before the end"),
        (b"\x00\x00\x00\x05", "expected 5 bytes, got 0 before the end"),
    ],
)
def test_a_truncated_length_prefix(tail: bytes, text: str) -> None:
    found = read(b"\x00\x00\x00\x01a" + tail, "length_prefixed")
    assert found == [Record(b"a"), broken(tail, text)]


def test_a_length_beyond_all_bounds_costs_no_memory() -> None:
    found = read(b"\xff\xff\xff\xff" + b"x" * 10, "length_prefixed")
    ((value, text),) = errors(found)
    assert (len(found), value) == (1, b"\xff\xff\xff\xff" + b"x" * 10)
    assert "(its length says 4294967295)" in text


@pytest.mark.parametrize("framing", ["hex_lines", "base64_lines"])
def test_encoded_lines(framing: str) -> None:
    messages = [b"\x00\x01\xff", b"text\nwith a break", b"z" * 500]
    encode = {"hex_lines": bytes.hex, "base64_lines": lambda b: base64.b64encode(b).decode()}
    lines = "\r\n\r\n".join(encode[framing](message) for message in messages)
    assert values(lines.encode(), framing) == messages
    assert values(b"\xef\xbb\xbf" + lines.encode(), framing) == messages


@pytest.mark.parametrize(
    "line", [b"0", b"zz", b"0x00", b"00ff0", "\uff10\uff10".encode(), b"\xff\xff"]
)
def test_bad_hex_harms_no_neighbour(line: bytes) -> None:
    first, second, third = read(b"00\n" + line + b"\nFF aa\n", "hex_lines")
    assert (first, third) == (Record(b"\x00"), Record(b"\xff\xaa"))
    assert second.value == line
    assert text_of(second).startswith("expected a line of hexadecimal digits")


@pytest.mark.parametrize("line", [b"AAA", b"A===", b"AA=A", b"A-_A", b"AAAA=", b"\xff\xff\xff\xff"])
def test_bad_base64_harms_no_neighbour(line: bytes) -> None:
    first, second, third = read(b"AAAA\n" + line + b"\n AA== \n", "base64_lines")
    assert (first, third) == (Record(b"\x00\x00\x00"), Record(b"\x00"))
    assert second.value == line
    assert text_of(second).startswith("expected a line of base64")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            '{"topic":"shop.orders","partition":3,"offset":41,"tstype":"create",'
            '"ts":1700000000123,"broker":1,"headers":["a","1","b",null,"a","2"],'
            '"key":"k\\u00e9","payload":"{\\"id\\": 1}"}',
            Record(
                b'{"id": 1}',
                "ké".encode(),
                (("a", b"1"), ("b", None), ("a", b"2")),
                "shop.orders",
                3,
                41,
                1700000000123,
            ),
        ),
        (
            '{"topic":"t","partition":0,"offset":9007199254740993,"ts":-1,"key":null,'
            '"payload":null}',
            Record(None, None, None, "t", 0, 9007199254740993, -1),
        ),
        (
            '{"topic":"t","partition":0,"offset":0,"key_hex":"00ff","payload_hex":"0001",'
            '"key":null,"payload":null,"headers":[]}',
            Record(b"\x00\x01", b"\x00\xff", None, "t", 0, 0, None),
        ),
        ('{"payload":""}', Record(b"")),
        ('{"payload_hex":""}', Record(b"")),
        # Headers as an object, as other tools than kcat write them.
        (
            '{"payload":"x","headers":{"a":"1","b":null}}',
            Record(b"x", None, (("a", b"1"), ("b", None))),
        ),
        ('{"payload":"x","headers":{}}', Record(b"x")),
        # Coordinates that are not whole are none: two files' lines would be at one place.
        ('{"topic":"t","partition":0,"ts":5,"payload":"x"}', Record(b"x", timestamp=5)),
        ('{"topic":"t","payload":"x"}', Record(b"x")),
        ('{"partition":0,"offset":7,"payload":"x"}', Record(b"x")),
        ('{"topic":"t","offset":7,"payload":"x"}', Record(b"x")),
        ('{"topic":"","partition":0,"offset":0,"payload":"x"}', Record(b"x", None, None, "", 0, 0)),
    ],
)
def test_kcat(line: str, expected: Record) -> None:
    assert read(line.encode() + b"\n", "kcat") == [expected]


def kcat_string(data: bytes) -> bytes:
    """As yajl, which kcat prints with, escapes bytes."""
    short = {8: b"\\b", 9: b"\\t", 10: b"\\n", 12: b"\\f", 13: b"\\r", 34: b'\\"', 92: b"\\\\"}
    escaped = (short.get(b, b"\\u%04X" % b if b < 32 else bytes([b])) for b in data)
    return b'"' + b"".join(escaped) + b'"'


@given(st.binary(), st.binary(), st.binary())
def test_kcat_of_any_bytes(key: bytes, payload: bytes, header: bytes) -> None:
    """kcat prints what is no UTF-8 as it is: Avro, TiCDC's lengths, binary headers."""
    line = b'{"topic":"t","partition":0,"offset":1,"headers":["h",%b],"key":%b,"payload":%b}' % (
        *(kcat_string(header), kcat_string(key), kcat_string(payload)),
    )
    expected = Record(payload, key, (("h", header),), "t", 0, 1, None)
    assert read(line + b"\n", "kcat") == [expected]


@pytest.mark.parametrize(
    "line",
    [
        b'{"topic":"\xff","payload":"a"}',
        b'{"headers":["\xff","a"],"payload":"a"}',
        b'{"payload":' + b"[" * 100_000 + b"\xff",
    ],
)
def test_kcat_of_bytes_that_are_no_text(line: bytes) -> None:
    (record,) = read(line + b"\n", "kcat")
    assert framing_error(record.headers) is not None


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{", "Input data was truncated"),
        ("[]", "Expected `object`, got `array`"),
        ('{"topic":"t"}', "missing required field `payload`"),
        ('{"payload":{"id":1}}', "`$.payload`"),
        ('{"payload":"","partition":2147483648}', "`$.partition`"),
        ('{"payload":"","offset":-1}', "`$.offset`"),
        ('{"payload":"","offset":1.5}', "`$.offset`"),
        ('{"payload":"","ts":99999999999999999}', "`$.ts`"),
        ('{"payload":"","headers":["a"]}', "names and values by turns"),
        ('{"payload":"","headers":[null,"a"]}', "names and values by turns"),
        ('{"payload_hex":"0"}', "fromhex"),
        ('{"payload":"\\ud800"}', ""),
    ],
)
def test_bad_kcat_harms_no_neighbour(line: str, text: str) -> None:
    first, second, third = read(f'{{"payload":"a"}}\n{line}\n{{"payload":"b"}}'.encode(), "kcat")
    assert (first, third) == (Record(b"a"), Record(b"b"))
    assert second.value == line.encode()
    reason = text_of(second)
    assert reason.startswith("expected a line of kcat -J: ")
    assert text in reason


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_the_data_of_a_container_keep_their_bytes(codec: str) -> None:
    found = read(container(codec), "avro_container")
    assert [record.value for record in found] == [datum(order) for order in ORDERS]
    ((name, schema),) = {record.headers for record in found if record.headers}.pop()
    assert name == SCHEMA_HEADER
    writer = fastavro.parse_schema(json.loads(schema or b""))
    last = fastavro.schemaless_reader(io.BytesIO(found[-1].value or b""), writer, None)
    assert last == ORDERS[-1]


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_the_codecs_that_fastavro_does_not_write_here(codec: str) -> None:
    import pyarrow as pa

    plain = b"".join(map(datum, ORDERS))
    blocks: dict[str, Callable[[], bytes]] = {
        "snappy": lambda: (
            pa.compress(plain, codec="snappy", asbytes=True) + zlib.crc32(plain).to_bytes(4, "big")
        ),
        "zstandard": lambda: zstandard.ZstdCompressor().compress(plain),
    }
    block = blocks[codec]()
    found = read(assembled(codec, [(len(ORDERS), block)]), "avro_container")
    assert [record.value for record in found] == [datum(order) for order in ORDERS]
    if codec == "snappy":
        spoilt = block[:-1] + bytes([block[-1] ^ 1])
        ((value, text),) = errors(read(assembled(codec, [(300, spoilt)]), "avro_container"))
        assert (value, text) == (spoilt, "block of codec snappy: ValueError: the checksum differs")


MARKER = bytes(range(16))


def number(value: int) -> bytes:
    """A zigzag varint."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def assembled(
    codec: str, blocks: list[tuple[int, bytes]], schema: bytes = json.dumps(ORDER).encode()
) -> bytes:
    """A container by hand, its metadata with the size of their block, as some writers do."""
    fields = b"".join(
        number(len(part)) + part for part in (b"avro.schema", schema, b"avro.codec", codec.encode())
    )
    head = b"Obj\x01" + number(-2) + number(len(fields)) + fields + number(0) + MARKER
    return head + b"".join(
        number(count) + number(len(block)) + block + MARKER for count, block in blocks
    )


def test_a_damaged_block_harms_no_neighbour() -> None:
    good, worse, last = datum(ORDERS[1]), datum(ORDERS[9]), datum(ORDERS[2])
    blocks = [(1, good), (2, worse), (1, worse + b"zz"), (1, last)]
    found = read(assembled("null", blocks), "avro_container")
    assert [record.value for record in found] == [good, worse, b"", worse, b"zz", last]
    assert [text.partition(":")[0] for _, text in errors(found)] == [
        "datum 1 of a block of 2",
        "2 bytes after the last datum of a block",
    ]


def test_a_deep_datum_harms_no_neighbour() -> None:
    """Whatever its depth it is cut as it is, and its decoder refuses it."""
    fields = [{"name": "next", "type": ["null", "N"]}]
    schema = json.dumps({"type": "record", "name": "N", "fields": fields}).encode()
    deep, flat = b"\x02" * 200_000 + b"\x00", b"\x02\x00"
    blocks = [(3, flat + deep + flat), (1, flat)]
    found = values(assembled("null", blocks, schema=schema), "avro_container")
    assert found == [flat, deep, flat, flat]


def test_a_datum_of_countless_nulls_harms_no_neighbour() -> None:
    array = {"type": "array", "items": "null"}
    fields = [{"name": "a", "type": array}, {"name": "b", "type": "string"}]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields}).encode()
    few, many = b"\x02\x00\x02x", number(2**62) + b"\x00\x02x"
    found = values(assembled("null", [(3, few + many + few)], schema=schema), "avro_container")
    assert found == [few, many, few]


@pytest.mark.parametrize(
    "schema", [b'"null"', b'{"type": "record", "name": "R", "fields": []}', b'"nothing"', b"{"]
)
def test_a_container_without_data_that_can_be_cut_is_one_record(schema: bytes) -> None:
    """A block of 19 bytes may say that it holds millions of data that take none."""
    content = assembled("null", [(10**6, b"")] * 3, schema=schema)
    ((value, text),) = errors(read(content, "avro_container"))
    assert value == content
    assert text.startswith("expected ")


@pytest.mark.parametrize("size", [-5, 3, 100, 10**6, 2**40])
def test_a_wrong_block_size_costs_that_block_alone(size: int) -> None:
    good, lost, last = datum(ORDERS[1]), datum(ORDERS[9]), datum(ORDERS[2])
    content = assembled("null", [(1, good)]) + number(1) + number(size) + lost + MARKER
    content += number(1) + number(len(last)) + last + MARKER
    found = read(content, "avro_container")
    assert [record.value for record in found] == [
        good,
        number(1) + number(size) + lost + MARKER,
        last,
    ]
    assert len(errors(found)) == 1


@pytest.mark.parametrize("claimed", [10_000, 180_000, 10**9])
@pytest.mark.parametrize("damaged", [1, 2, 10**9], ids=["every", "every other", "the first"])
def test_the_bytes_that_a_damaged_block_claims_are_not_copied_for_each_block(
    damaged: int, claimed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is cut is linear in the file, by the bytes that move."""
    moved = 0

    class Counted(compression.Cursor):
        held = b""

        @property
        def _buffer(self) -> bytes:
            return self.held

        @_buffer.setter
        def _buffer(self, held: bytes) -> None:
            nonlocal moved
            moved += len(held)
            self.held = held

        def take(self, size: int) -> bytes:
            nonlocal moved
            taken = super().take(size)
            moved += len(taken)
            return taken

    for module in (compression, avro_container):
        monkeypatch.setattr(module, "LARGEST", 200_000)
    monkeypatch.setattr(compression, "CHUNK", 2_000)
    monkeypatch.setattr(avro_container, "Cursor", Counted)
    good = number(1) + number(61) + number(60) + b"x" * 60 + MARKER
    bad = number(1) + number(claimed) + number(60) + b"x" * 60 + MARKER
    blocks = [bad if n % damaged == 0 else good for n in range(8_000)]
    content = assembled("null", [], schema=b'"string"') + b"".join(blocks)
    found = read(content, "avro_container")
    assert [value for value, _ in errors(found)] == [block for block in blocks if block is bad]
    assert len(found) == len(blocks)
    assert moved < 20 * len(content)


@pytest.mark.parametrize("cut", [1, 16, 17, 60])
def test_a_truncated_container(cut: int) -> None:
    blocks = [(1, datum(ORDERS[1])), (1, datum(ORDERS[99]))]
    content = assembled("null", blocks)[:-cut]
    first, last = read(content, "avro_container")
    assert first.value == datum(ORDERS[1])
    ((value, text),) = errors([last])
    assert content.endswith(value or b"-")
    assert text == "expected the sync marker after the block, got the end of the file"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"Obj", "expected an Avro container"),
        (b'{"id": 1}\n', "expected an Avro container"),
        (b"Obj\x01\x00" + MARKER, "expected avro.schema in the header"),
        (b"Obj\x01\x02\x16avro.sch", "the file ends in its header"),
        (assembled("null", [], schema=b"no json"), "expected a schema in the header"),
        (assembled("null", [], schema=b'"nothing"'), "expected a schema in the header"),
    ],
)
def test_what_is_no_container_is_broken(content: bytes, text: str) -> None:
    ((_, found),) = errors(read(content, "avro_container"))
    assert found.startswith(text)


def test_an_unknown_codec_keeps_each_block() -> None:
    found = read(assembled("lzo", [(1, b"abc"), (1, b"def")]), "avro_container")
    assert [value for value, _ in errors(found)] == [b"abc", b"def"]
    assert "expected a codec of null, deflate" in errors(found)[0][1]


def test_a_container_of_no_records() -> None:
    found = read(assembled("null", [(2, b"\x02a\x04bc")], schema=b'"string"'), "avro_container")
    assert [record.value for record in found] == [b"\x02a", b"\x04bc"]


def test_a_container_whose_schema_holds_its_type_in_another() -> None:
    schema = b'{"type": ["null", "string"]}'
    found = read(assembled("null", [(2, b"\x00\x02\x02a")], schema=schema), "avro_container")
    assert [record.value for record in found] == [b"\x00", b"\x02\x02a"]


@pytest.mark.parametrize("framing", FRAMINGS)
@given(content=st.binary(max_size=200))
def test_no_bytes_raise_and_none_are_lost_without_a_word(framing: str, content: bytes) -> None:
    for record in read(content, framing):
        assert record.value is not None or framing == "kcat"
    if framing in ("length_prefixed", "avro_container") and content:
        assert read(content, framing)


@pytest.mark.parametrize("framing", ["lines", "whole", "length_prefixed"])
def test_a_record_longer_than_the_bound_is_cut(
    framing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingest.files import framing as module

    monkeypatch.setattr(module, "LARGEST", 1_000_000)
    body = bytes(range(1, 10)) * 400_000
    head = struct.pack(">I", len(body)) if framing == "length_prefixed" else b""
    tail = b"\nnext" if framing == "lines" else b"\x00\x00\x00\x04next" if head else b""
    found = read(head + body + tail, framing)
    if tail:
        assert found.pop() == Record(b"next")
    pieces = errors(found)
    assert len(pieces) == len(found) > 2
    assert b"".join(value or b"" for value, _ in pieces) == head + body
    assert {len(value or b"") < 1_600_000 for value, _ in pieces} == {True}


def test_a_container_whose_header_is_longer_than_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None of its bytes is lost, and none comes twice."""
    monkeypatch.setattr(avro_container, "LARGEST", 100)
    entries = b"".join(b"\x04k%d" % number + b"\x50" + b"v" * 40 for number in range(6))
    content = b"Obj\x01\x0c" + entries + b"\x00" + bytes(16) + b"tail" * 30
    found = read(content, "avro_container")
    assert b"".join(value or b"" for value, _ in errors(found)) == content
    assert len(errors(found)) == len(found)
    assert max(len(value or b"") for value, _ in errors(found)) <= 102
    assert "expected a header of at most 100 bytes, got more" in errors(found)[0][1]


@pytest.mark.parametrize("suffix", PACKED)
def test_memory_does_not_follow_the_size_of_the_file(suffix: str) -> None:
    line = b"x" * 999 + b"\n"
    packed = PACKED[suffix](line * 60_000)
    tracemalloc.start()
    try:
        count = sum(1 for _ in records(io.BytesIO(packed), "lines", name=f"a{suffix}"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 60_000
    assert peak < 12_000_000


def test_an_unreadable_file_is_no_broken_record() -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        list(records(Failing(), "lines", name="a.gz"))


def test_the_header_of_a_broken_record() -> None:
    assert broken(b"x", "why").headers == ((ERROR_HEADER, b"bad_framing: why"),)
    assert framing_error(None) is None
    assert framing_error([("a", None), (ERROR_HEADER, b"bad_framing: why")]) == Damage("why")
