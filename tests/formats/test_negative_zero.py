"""A negative zero keeps its sign: the digits of a number arrive as they were sent."""

from __future__ import annotations

import pytest

from ingest.wire.contract import Message
from tests.support.messages import reader_of
from tests.support.wires import as_dicts

ROW = '{"id":1,"a":-0,"b": -0,"c":0,"d":-0.0,"e":{"x":-0},"f":"x:-0"}'
TEXTS = {"id": "1", "a": "-0", "b": "-0", "c": "0", "d": "-0.0", "e": '{"x":-0}', "f": "x:-0"}
MESSAGES = {
    "canal": '{"type":"INSERT","database":"d","table":"t","es":1700000000000,"id":1,'
    '"isDdl":false,"data":[@]}',
    "debezium": '{"op":"c","source":{"connector":"mysql","db":"d","table":"t","file":"b.1",'
    '"pos":4},"after":@}',
    "maxwell": '{"database":"d","table":"t","type":"insert","ts":1700000000,"data":@}',
    "ogg": '{"table":"s.t","op_type":"I","op_ts":"2024-01-01 00:00:00","pos":"1","after":@}',
    "dms": '{"data":@,"metadata":{"timestamp":"2024-01-01T00:00:00Z","record-type":"data",'
    '"operation":"insert","schema-name":"s","table-name":"t"}}',
    "oms_default": '{"recordType":"INSERT","postStruct":@,"allMetaData":{"db":"d",'
    '"storeDataSequence":170413440000001,"table_name":"t","dbType":"MYSQL"}}',
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_negative_zero_keeps_its_sign(name: str) -> None:
    message = Message(MESSAGES[name].replace("@", ROW).encode())
    *_, row = as_dicts(reader_of(name).rows(message))
    assert row["after"] == TEXTS
