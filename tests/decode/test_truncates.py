"""Which rows a truncate reaches by arrival (semantics.md, 17, 64 and 65), and what a source's
order asks of its messages (75)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.config.sources import Source
from ingest.decode.source import SourceDecoder
from ingest.decode.spec import decode_spec
from ingest.position import Pos, outermost, reaches
from ingest.wire.contract import Message
from tests.support.wires import as_dicts

KAFKA = {"kafka": {"bootstrap_servers": "broker:9092", "topics": ["t"]}}
FILES = {"files": {"path": "in/*.jsonl"}}


def _reader(**given: Any) -> SourceDecoder:
    transport = FILES if "files" in given else KAFKA
    return SourceDecoder(
        decode_spec(Source.model_validate({"name": "s", "format": "canal", **transport, **given}))
    )


def _message(type_: str, *, tidb: int | None = None) -> dict[str, Any]:
    rows = None if type_ == "TRUNCATE" else [{"id": "1"}]
    extension = {} if tidb is None else {"_tidb": {"commitTs": tidb}}
    return {
        **{"id": 0, "database": "zoo", "table": "cages", "pkNames": ["id"], "type": type_},
        **{"es": 1, "ts": 1, "isDdl": rows is None, "mysqlType": {"id": "int"}, "data": rows},
        **{"sql": "TRUNCATE TABLE cages" if rows is None else "", "old": None, **extension},
    }


def _pos(
    reader: SourceDecoder, message: dict[str, Any], partition: int, offset: int, ts: int
) -> Pos:
    value = json.dumps(message).encode()
    sent = Message(value, topic="t", partition=partition, offset=offset, timestamp=ts)
    [row] = [row for row in as_dicts(reader.rows(sent)) if row["kind"] == "change"]
    return tuple(row["pos"])


@pytest.mark.parametrize(
    ("given", "tidb", "others"),
    [
        ({}, None, True),
        ({}, 5, False),
        ({"statements": "one_partition"}, 5, True),
        ({"statements": "every_partition"}, None, False),
        # Files have one order.
        ({**FILES, "statements": "every_partition"}, None, True),
        (FILES, 5, True),
    ],
)
def test_65_a_truncate_reaches_other_partitions_unless_each_gets_a_copy(
    given: dict[str, Any], tidb: int | None, others: bool
) -> None:
    reader = _reader(**given)
    own = _pos(reader, _message("INSERT", tidb=tidb), 1, 0, 10)
    earlier = _pos(reader, _message("INSERT", tidb=tidb), 0, 7, 20)
    cut = _pos(reader, _message("TRUNCATE", tidb=tidb), 1, 1, 30)
    after = _pos(reader, _message("INSERT", tidb=tidb), 2, 0, 40)
    assert reaches(cut, own, by_arrival=True)
    assert reaches(cut, earlier, by_arrival=True) is others
    assert not reaches(cut, after, by_arrival=True)
    second = _pos(reader, _message("TRUNCATE", tidb=tidb), 0, 8, 50)
    last = [max(cut, second)] if others else [cut, second]
    assert outermost([second, cut], by_arrival=True) == last


@pytest.mark.parametrize(("order", "s1", "told"), [("arrival", 9, True), ("source", 1000, False)])
def test_74_a_clock_that_stepped_back_is_told_where_it_would_have_ordered(
    order: str, s1: int, told: bool
) -> None:
    value = json.dumps(_message("INSERT")).encode()
    sent = Message(value, topic="t", partition=0, offset=2, timestamp=5, place=9)
    [row] = [r for r in as_dicts(_reader(order=order).rows(sent)) if r["kind"] == "change"]
    assert (row["pos"][2], "clock_stepped_back" in row["warnings"]) == (s1, told)


@pytest.mark.parametrize(
    ("order_key", "message", "advice"),
    [
        ("id", _message("INSERT"), None),
        ("id", _message("INSERT", tidb=5), "{order_key: commit_ts} is for TiCDC"),
        ("commit_ts", _message("INSERT", tidb=5), None),
        ("commit_ts", _message("INSERT"), "set order: arrival"),
    ],
)
def test_75_positions_of_two_kinds_never_meet(
    order_key: str, message: dict[str, Any], advice: str | None
) -> None:
    reader = _reader(order="source", options={"order_key": order_key})
    row = as_dicts(reader.rows(Message(json.dumps(message).encode())))[-1]
    assert row["error_code"] == (None if advice is None else "order_key_missing")
    assert advice is None or advice in row["error"]


@pytest.mark.parametrize("position", [None, "bin.000007:5"])
def test_75_maxwell_is_ordered_by_arrival_with_and_without_positions(position: str | None) -> None:
    row = {"database": "zoo", "table": "cages", "type": "insert", "ts": 1, "xid": 2, "commit": True}
    message = {**row, "data": {"id": 1}} | ({"position": position} if position else {})
    assert _pos(_reader(format="maxwell"), message, 0, 3, 77)[2:7] == (77, 0, 0, 0, 0)
    by_source = as_dicts(
        _reader(format="maxwell", order="source").rows(Message(json.dumps(message).encode()))
    )[-1]
    if position is None:
        assert by_source["error_code"] == "order_key_missing"
        assert "output_binlog_position=true" in by_source["error"]
    else:
        assert by_source["pos"][2:4] == (7, 5)
