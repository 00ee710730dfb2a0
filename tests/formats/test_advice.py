"""What a message that no decoder reads may be, and the way out, in the text of its reject."""

from __future__ import annotations

import json

import pytest

from ingest.wire.contract import Message
from tests.support.messages import reader_of
from tests.support.wires import as_dicts

KCAT = {"topic": "a", "partition": 0, "offset": 1, "tstype": "create", "ts": 1, "broker": 0}
ROW = json.dumps({"type": "INSERT", "isDdl": False, "data": [{"id": "1"}]})
GLOBAL_ID = [("apicurio.value.globalId", bytes(7) + b"\x05")]


@pytest.mark.parametrize(
    ("message", "code", "advice"),
    [
        (Message(json.dumps({**KCAT, "key": "k", "payload": ROW}).encode()),
         "unknown_format", "`kcat -J`: set framing: kcat"),
        (Message(json.dumps({**KCAT, "key": None, "payload": None}).encode()),
         "unknown_format", "`kcat -J`: set framing: kcat"),
        (Message(b"\0\0\0\0\x05\0\x0a\x03abc\x12\x01x"),
         "unknown_schema_id", "if the messages are Protobuf"),
        (Message(bytes(8) + b"\x05\0\x02\x02\x03abc\x12\x01x"),
         "unknown_format", "apicurio.registry.as-confluent"),
        (Message(b"\0\x02\x02\x03abc\x12\x01x", headers=GLOBAL_ID),
         "unknown_format", "apicurio.registry.headers.enabled to false"),
        (Message(b"\x03\0" + bytes(16) + b"abc"), "unknown_format", "AWS Glue"),
        (Message(f" [{ROW}]".encode()), "unknown_format", "cut arrays into their elements"),
        (Message(json.dumps({"data": {"id": 1}, "beforeData": None, "headers": {}}).encode()),
         "unknown_format", "Qlik Replicate's"),
    ],
    ids=["kcat", "kcat of a tombstone", "protobuf", "apicurio ids", "apicurio headers", "glue",
         "array", "qlik"],
)  # fmt: skip
def test_the_way_out_is_told(message: Message, code: str, advice: str) -> None:
    [row] = as_dicts(reader_of("auto").rows(message))
    assert row["error_code"] == code
    assert advice in row["error"]
