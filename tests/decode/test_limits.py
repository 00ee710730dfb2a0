"""Limits of a source: what is above one is `too_large`, with its bytes, and harms no neighbour."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import zstandard

from ingest.decode.source import SilverRow, SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.files import avro_container, compression
from ingest.files.framing import records
from ingest.files.record import Record, framing_error
from ingest.formats import FORMATS
from ingest.formats.oceanbase import encodings
from ingest.limits import Limits
from ingest.wire.contract import Message
from tests.support.changes import Change
from tests.support.encoders import WIRES
from tests.support.messages import golden, reader_of
from tests.support.silver_promises import NAMES, broken
from tests.support.wires import message_of
from tests.support.wires import reader_of as reader_of_wire

AT = {name: index for index, name in enumerate(NAMES)}


def said(rows: list[SilverRow]) -> list[tuple[Any, ...]]:
    """Kind, code and warnings of the events among the rows."""
    marks = ("kind", "error_code", "warnings")
    return [tuple(row[AT[m]] for m in marks) for row in rows if row[AT["kind"]] != "schema"]


def test_the_defaults_hold_where_nothing_is_given() -> None:
    source, _ = golden("canal")[0]
    assert decode_spec(source).limits == Limits()
    assert Limits().message_bytes > 100_000_000


@pytest.mark.parametrize("name", FORMATS)
def test_a_message_of_too_many_bytes(name: str) -> None:
    for source, message in golden(name)[:40]:
        size = len(message.value or b"")
        if size < 2:
            continue
        limits = Limits(message_bytes=size - 1)
        reader = SourceDecoder(decode_spec(source)._replace(limits=limits))
        rows = reader.rows(message, source.epoch)
        assert said(rows) == [("reject", "too_large", None)]
        assert rows[0][AT["value"]] == message.value
        assert f"at most a message of {size - 1} bytes, got {size}" in rows[0][AT["error"]]
        assert broken(message, rows) == []
        wide = SourceDecoder(decode_spec(source)._replace(limits=Limits(message_bytes=size)))
        plain = SourceDecoder(decode_spec(source))
        assert wide.rows(message, source.epoch, 0) == plain.rows(message, source.epoch, 0)


def test_a_message_of_too_many_bytes_is_not_looked_into_to_find_its_format() -> None:
    reader = reader_of("auto", limits={"message_bytes": 10})
    message = Message(b'{"type":"INSERT","data":[{"id":"1"}]}')
    assert reader.recognised(message) is None
    assert said(reader.rows(message)) == [("reject", "too_large", None)]


@pytest.mark.parametrize("wire", WIRES)
def test_a_row_of_too_many_columns(wire: str) -> None:
    columns = {"id": "int", **{f"c{n}": "varchar(200)" for n in range(40)}}
    row = {name: 1 if name == "id" else "rye" for name in columns}
    message = message_of(wire, Change("insert", columns, None, row, number=1))
    for most, wanted in ((41, ("change", None)), (40, ("reject", "too_large"))):
        reader = reader_of_wire(wire, columns, limits={"columns": most})
        [(*found, _)] = said(reader.rows(message))
        assert tuple(found) == wanted


@pytest.mark.parametrize("deep", ["[" * 60 + "]" * 60, '{"a":' * 60 + "1" + "}" * 60])
def test_objects_too_deep_in_each_other(deep: str) -> None:
    text = '{"type":"INSERT","database":"farm","table":"crop","es":1,"id":1,"data":[{"id":"[[{{"'
    value = f'{text},"doc":{deep}}}]}}'.encode()
    for most, code in ((63, None), (62, "too_large"), (None, None)):
        limits = {} if most is None else {"nesting": most}
        [(_, found, _)] = said(reader_of("canal", limits=limits).rows(Message(value)))
        assert found == code


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("dts", "ticdc_open")])
def test_deeper_than_the_parser_reads(name: str) -> None:
    value = b'{"type":"INSERT","data":[{"id":' + b"[" * 5_000 + b"]" * 5_000 + b"}]}"
    [(kind, code, _)] = said(reader_of(name).rows(Message(value)))
    assert kind == "reject"
    assert code == "too_large" or name in ("ob_avro", "debezium_avro")


def test_a_statement_of_too_many_bytes() -> None:
    reader = reader_of("canal", limits={"ddl_bytes": 100})
    sent: dict[str, Any] = {"database": "farm", "table": "crop", "isDdl": True, "data": None}
    sent |= {"es": 1700000000000, "id": 1}
    for word, sql in (
        ("ALTER", f"ALTER TABLE crop ADD {'c' * 80} int, DROP truncate"),
        ("TRUNCATE", "TRUNCATE TABLE crop" + " " * 100),
        ("QUERY", "INSERT INTO crop VALUES (" + "1," * 50 + "1)"),
    ):
        value = json.dumps({**sent, "type": word, "sql": sql}).encode()
        [row] = reader.rows(Message(value))
        assert said([row]) == [("reject", "too_large", None)]
        assert row[AT["value"]] == value
        wanted = f"expected at most a statement of 100 bytes, got {len(sql)}"
        assert row[AT["error"]] == f"{wanted}; set limits.ddl_bytes of the source"


def test_the_text_that_a_row_changed_by_is_no_statement_of_a_table() -> None:
    """A QUERY beside its rows says by which SQL they were changed; nothing reads it."""
    reader = reader_of("canal", limits={"ddl_bytes": 10})
    query = {"database": "farm", "type": "QUERY", "isDdl": False, "es": 1, "id": 1, "data": None}
    value = json.dumps({**query, "sql": "/* a long remark */ select 1"}).encode()
    assert said(reader.rows(Message(value))) == [("control", None, ["ts_unit_inferred"])]


PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
}


@pytest.mark.parametrize("suffix", PACKED)
def test_an_archive_that_unpacks_to_too_much(suffix: str) -> None:
    packed = PACKED[suffix](b'{"a":1}\n' * 400_000)
    found = list(records(io.BytesIO(packed), "lines", name=f"a{suffix}", most=1_000_000))
    *sound, last = found
    assert {record.value for record in sound} == {b'{"a":1}'}
    assert 100_000 < len(sound) < 300_000
    damage = framing_error(last.headers)
    assert damage is not None and damage.code == "too_large"
    assert "unpacks to at most 1000000 bytes" in damage.text
    [(kind, code, _)] = said(
        reader_of("canal").rows(Message(last.value, headers=last.headers or ()))
    )
    assert (kind, code) == ("reject", "too_large")
    whole = list(records(io.BytesIO(packed), "lines", name=f"a{suffix}", most=3_200_000))
    assert len(whole) == 400_000


def test_what_no_honest_archive_holds_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_GIGABYTE", 1_000_000)
    bomb = zstandard.compress(b"0" * 30_000_000)
    [*_, last] = records(io.BytesIO(bomb), "lines", name="a.zst")
    damage = framing_error(last.headers)
    assert damage is not None and damage.code == "too_large"
    honest = gzip.compress(b"".join(b'{"a":%d}\n' % n for n in range(300_000)))
    assert sum(1 for _ in records(io.BytesIO(honest), "lines", name="a.gz")) == 300_000


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_a_block_of_a_container_that_unpacks_to_too_much(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack: Callable[[bytes], bytes] = {
        "null": bytes,
        "deflate": lambda plain: zlib.compress(plain, wbits=-15),
        "bzip2": bz2.compress,
        "xz": lzma.compress,
        "snappy": lambda plain: (
            pa.compress(plain, codec="snappy", asbytes=True) + zlib.crc32(plain).to_bytes(4, "big")
        ),
        "zstandard": zstandard.compress,
    }[codec]
    block = pack(_string(b"x" * 100_000))
    content = _container(codec, [block])

    def found() -> list[Record]:
        return list(records(io.BytesIO(content), "avro_container"))

    assert [framing_error(record.headers) for record in found()] == [None]
    monkeypatch.setattr(avro_container, "BLOCK_LARGEST", 50_000)
    [record] = found()
    damage = framing_error(record.headers)
    assert damage is not None and damage.code == "too_large"
    assert record.value == block


def _container(codec: str, blocks: list[bytes]) -> bytes:
    """One of strings, one in each block."""
    head = b"".join(_string(text) for text in (b"avro.codec", codec.encode()))
    head += b"".join(_string(text) for text in (b"avro.schema", b'"string"'))
    marker = b"m" * 16
    packed = b"".join(b"\x02" + _string(block) + marker for block in blocks)
    return b"Obj\x01\x04" + head + b"\x00" + marker + packed


@pytest.mark.parametrize("most", [None, 2_500_000])
def test_many_blocks_of_a_container_that_unpack_to_too_much(
    most: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte in each fifty bytes, time after time; what is no bomb is read all the same."""
    monkeypatch.setattr(compression, "_GIGABYTE", 2_500_000)
    bomb, honest = bz2.compress(_string(bytes(1_000_000))), bz2.compress(_string(b"rye"))
    content = _container("bzip2", [honest, *[bomb] * 50, honest])
    found = list(records(io.BytesIO(content), "avro_container", most=most))
    damages = [framing_error(record.headers) for record in found]
    assert [damage and damage.code for damage in damages] == [
        *[None] * 3,
        *["too_large"] * 48,
        None,
    ]
    assert [record.value for record in found[3:-1]] == [bomb] * 48
    assert found[0].value == found[-1].value == _string(b"rye")
    assert damages[3] and "limits.unpacked_bytes" in damages[3].text


def test_a_container_of_bombs_is_not_unpacked_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[int] = []

    def unpack(block: bytes, most: int) -> bytes:
        unpacked.append(most)
        return bytes(most + 1)

    monkeypatch.setitem(avro_container._CODECS, "bzip2", unpack)
    content = _container("bzip2", [b"x"] * 1000)
    found = list(records(io.BytesIO(content), "avro_container", most=5_000))
    damages = [framing_error(record.headers) for record in found]
    assert [damage and damage.code for damage in damages] == ["too_large"] * 1000
    assert unpacked == [5_000, *[1_000] * 99]


def test_a_container_that_is_one_message_may_unpack_to_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encodings, "LARGEST", 500_000)
    content = _container("bzip2", [bz2.compress(_string(bytes(1_000_000)))])
    [row] = reader_of("ob_avro").rows(Message(content))
    assert (row[AT["kind"]], row[AT["error_code"]]) == ("reject", "bad_avro")
    assert "expected a block that unpacks to at most 500000 bytes" in str(row[AT["error"]])


def _string(text: bytes) -> bytes:
    """Avro's string or bytes: the length as a zigzag varint, then the bytes."""
    number = 2 * len(text)
    head = bytearray()
    while number > 127:
        head.append(number & 127 | 128)
        number >>= 7
    return bytes([*head, number]) + text


def test_a_statement_is_measured_in_bytes() -> None:
    sql = "ALTER TABLE t ADD a int COMMENT '\u5c0f\u9ea6'"
    message = {"type": "ALTER", "database": "d", "table": "t", "es": 1, "isDdl": True, "sql": sql}
    value = Message(json.dumps(message).encode())
    for most, code in ((len(sql), "too_large"), (len(sql.encode()), None)):
        rows = reader_of("canal", limits={"ddl_bytes": most}).rows(value)
        assert rows[-1][AT["error_code"]] == code
