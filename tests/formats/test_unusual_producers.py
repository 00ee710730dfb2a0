"""Messages of Maxwell, GoldenGate, TiCDC, wal2json and kcat as their code writes them in settings
that few choose, each with what is right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.codes import Code
from ingest.events import DECODED
from ingest.wire.contract import Message
from tests.support.messages import reader_of

NAMES = tuple(column.name for column in DECODED)


def rows(name: str, value: bytes, key: bytes | None = None, **given: Any) -> list[dict[str, Any]]:
    """The silver rows of one message, schema rows aside."""
    found = reader_of(name, **given).rows(Message(value, key, topic="t"))
    named = [dict(zip(NAMES, row, strict=True)) for row in found]
    return [row for row in named if row["kind"] != "schema"]


def test_a_binary_key_of_maxwell_has_its_zeros() -> None:
    """The binlog leaves them out (zendesk/maxwell, issue 2219)."""
    columns = {"shop.t": {"id": "binary(4)", "v": "varbinary(4)", "n": "int"}}
    message = {"database": "shop", "table": "t", "type": "insert", "ts": 1709540000, "xid": 1}
    for sent in ("EjRW", "EjRWAA=="):
        value = {**message, "commit": True, "data": {"id": sent, "v": "EjRW", "n": 1}}
        (row,) = rows("maxwell", json.dumps(value).encode(), columns=columns)
        assert row["after"] == {"id": "EjRWAA==", "v": "EjRW", "n": "1"}


def test_a_json_text_of_maxwell_is_any_text() -> None:
    value = b'{"database":"d","table":"t","type":"insert","ts":1,"xid":1,"data":{"j":"@1"}}'
    (row,) = rows("maxwell", value, columns={"d.t": {"j": "json"}})
    assert row["after"] == {"j": '"@1"'}


def test_ticdc_as_maxwell() -> None:
    """`pkg/sink/codec/maxwell`: rows of a batch with nothing between, deletes in old, TSOs."""
    insert = b'{"database":"d","table":"t","type":"insert","ts":1585040500,"data":{"id":%d}}'
    delete = b'{"database":"d","table":"t","type":"delete","ts":1585040500,"old":{"id":1,"n":"x"}}'
    found = rows("maxwell", insert % 1 + insert % 2 + b" \n" + delete)
    assert [(row["op"], row["after"], row["before"]) for row in found] == [
        ("insert", {"id": "1"}, None),
        ("insert", {"id": "2"}, None),
        ("delete", None, {"id": "1", "n": "x"}),
    ]
    assert [row["row"] for row in found] == [0, 1, 2]
    statement = b'{"type":"table-alter","database":"d","table":"t","ts":415508856908021766,'
    (row,) = rows("maxwell", statement + b'"sql":"ALTER TABLE t ADD COLUMN n int"}')
    assert (row["event_time"], row["warnings"]) == (1585040500290000, None)


@pytest.mark.parametrize("mark", ['"gtid":"3E11:1-5"', '"server_id":7', '"primary_key":[1]'])
def test_a_delete_of_maxwell_is_recognised_by_any_mark_of_its_own(mark: str) -> None:
    text = '{"database":"d","table":"t","type":"delete","ts":1709540000,%s,"data":{"id":1}}'
    (row,) = rows("auto", (text % mark).encode())
    assert (row["format"], row["op"]) == ("maxwell", "delete")


OGG = '{"table":"GG.T","op_type":"%s","op_ts":"2013-06-02 22:14:36.000000","pos":"%020d",%s}'


@pytest.mark.parametrize("between", ["", "\n"])
def test_a_transaction_of_goldengate_in_one_message(between: str) -> None:
    """Mode tx of the Kafka handler puts the operations one behind the other."""
    operations = [
        OGG % ("I", 1444, '"primary_keys":["ID"],"after":{"ID":1,"A":"}{"}'),
        OGG % ("I", 1600, '"primary_keys":["ID"],"after":{"ID":2}'),
    ]
    found = rows("ogg", between.join(operations).encode())
    assert [(row["row"], row["scn"][-4:], row["after"]) for row in found] == [
        (0, "1444", {"ID": "1", "A": "}{"}),
        (1, "1600", {"ID": "2"}),
    ]


def test_one_operation_with_braces_in_a_text_is_one() -> None:
    value = OGG % ("I", 1, '"after":{"ID":1,"A":"} {","B":{"x":{}}}')
    (row,) = rows("ogg", value.encode())
    assert row["kind"] == "change"


def test_flattened_images_of_goldengate_beside_other_metadata() -> None:
    more = (
        '"primary_keys":["ID"],"scn":"1","before.ID":1,"before.A":"x","after.ID":1,"after.A":null'
    )
    (row,) = rows("ogg", (OGG % ("U", 2, more)).encode())
    assert (row["before"], row["after"]) == ({"ID": "1", "A": "x"}, {"ID": "1", "A": None})


def test_images_of_goldengate_under_other_names_are_no_columns() -> None:
    more = '"primary_keys":["ID"],"old":{"ID":1},"new":{"ID":1,"A":2}'
    (row,) = rows("ogg", (OGG % ("U", 2, more)).encode())
    assert (row["error_code"], "beforeImageName" in row["error"]) == (Code.NO_IMAGE.value, True)


def part(text: bytes) -> bytes:
    return len(text).to_bytes(8, "big") + text


VERSION = (1).to_bytes(8, "big")


def test_a_row_of_ticdc_that_came_and_went_takes_no_neighbour_with_it() -> None:
    """pingcap/tiflow, issue 2612."""
    key = b'{"ts":%d,"scm":"test","tbl":"t","t":1}'
    keys = part(key % 427235938124431361) + part(key % 427235938124431362)
    values = part(b'{"u":{"id":{"t":3,"h":true,"f":11,"v":7}}}') + part(b"{}")
    found = rows("ticdc_open", values, VERSION + keys)
    assert [(row["kind"], row["op_raw"], row["after"]) for row in found] == [
        ("change", "u", {"id": "7"}),
        ("control", "empty", None),
    ]


def test_a_claim_check_of_new_ticdc() -> None:
    """`pkg/sink/codec/open/codec.go` writes ohk twice where it stores a row elsewhere."""
    key = b'{"ts":415508856908021766,"scm":"s","tbl":"t","t":1,"ohk":true,"ohk":false,"ccl":"/c/1"}'
    value = b'{"%b":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
    (row,) = rows("ticdc_open", part(value % b"d"), VERSION + part(key))
    assert (row["op"], row["before"], row["before_image"]) == ("delete", {"id": "1"}, "key")
    (row,) = rows("ticdc_open", part(value % b"u"), VERSION + part(key))
    assert row["error_code"] == Code.UNSUPPORTED.value and "/c/1" in row["error"]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_a_flattened_row_says_in_any_unit_when_it_was_sent(unit: str) -> None:
    time = 1_700_000_000_123 * {"ms": 1, "us": 1_000, "ns": 1_000_000}[unit]
    row = {"id": 1, "__op": "c", "__table": "t", "__db": "d", f"__ts_{unit}": time}
    [told] = rows("debezium", json.dumps(row).encode(), order="arrival")
    assert told["sent_time"] == 1_700_000_000_123_000
