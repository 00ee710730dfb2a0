"""Where the datum of a framed message begins, and which framings are refused."""

from __future__ import annotations

import pytest

from ingest.codes import Code
from ingest.wire.avro.framing import (
    confluent,
    looks_confluent,
    not_confluent,
    other_language,
    refused,
    single_object,
)


@pytest.mark.parametrize(
    ("data", "frame", "likely"),
    [
        (b"\0\0\0\0\x07\x02", (7, 5), True),
        (b"\0\xff\xff\xff\xff\x02", (2**32 - 1, 5), False),
        (b"\0\0\xff\xff\xff\x02", (2**24 - 1, 5), True),
        (b"\0\x01\0\0\0\x02", (2**24, 5), False),
        (b"\0\0\0\0\0\x02", (0, 5), False),
        (b"\0\0\0\0\x07", (7, 5), False),
        (b"\0\0\0\0", None, False),
        (b"\x01\0\0\0\x07\x02", None, False),
        (b"", None, False),
    ],
)
def test_a_frame_of_confluent_tells_the_id_and_where_the_datum_begins(
    data: bytes, frame: tuple[int, int] | None, likely: bool
) -> None:
    assert confluent(data) == frame
    assert looks_confluent(data) is likely


def test_a_single_object_begins_behind_its_fingerprint() -> None:
    assert single_object(b"\xc3\x01" + bytes(8) + b"\x02") == 10
    assert single_object(b"\xc3\x02" + bytes(8) + b"\x02") is None


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (bytes(8) + b"\x05\x02", "apicurio.registry.as-confluent"),
        (b"\x03\0" + bytes(16) + b"\x02", "AWS Glue"),
        (b"\x03\x05" + bytes(16) + b"\x02", "AWS Glue"),
        (b"AAAAAAUABnNrdQ==", "base64_lines"),
        (b"00000000050006736b75", "hex_lines"),
        (bytes(8) + b"\x05", None),
        (b"\x03\0" + bytes(16), None),
        (b"\x03\x01" + bytes(16) + b"\x02", None),
        (b"\0\0\0\0\x05\x02\x02\x02\x02\x02", None),
    ],
)
def test_other_framings_are_known(data: bytes, what: str | None) -> None:
    found = refused(data)
    assert found is None if what is None else what in (found or "")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b'\0\0\0\0\x07{"id":1}', "JSON Schema"),
        (b"\0\0\0\0\x07{\x02}", None),
        (bytes(8) + b"\x07\x02", "eight bytes"),
        (b"\0\0\0\0\x07\x02", None),
    ],
)
def test_what_begins_as_confluents_may_be_no_avro(data: bytes, what: str | None) -> None:
    found = other_language(data)
    assert found is None if what is None else what in (found or "")


def test_what_is_not_framed_is_told_what_it_is() -> None:
    error = not_confluent(b"\x03\0" + bytes(16) + b"\x02")
    assert error.code is Code.BAD_AVRO
    assert "expected a zero byte and four bytes of the schema's id" in error.text
    assert error.text.endswith("Debezium's JsonConverter")
