"""What makes two deliveries one change: its place, and what happened (semantics.md, 16 and 76)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ingest.events import Event
from ingest.fold.fold import Change, distinct, identity
from ingest.identity import change_hash, identity_sql
from ingest.identity import identity as identity_of
from ingest.position import position
from ingest.wire.contract import Message
from tests.support.messages import reader_of
from tests.support.ticdc import batch
from tests.support.wires import as_dicts

ROW = {"id": "7", "name": "ink", "note": None}


def _event(**other: Any) -> Event:
    given: dict[str, Any] = {"op": "update", "key": {"id": "7"}, "before": ROW, "after": ROW}
    return Event(**given | other)


def test_76_the_hash_is_of_what_happened() -> None:
    same = (
        _event(),
        _event(before=dict(reversed(ROW.items()))),
        _event(sent_time=5, event_time=6, id="9", tx_id="t", scn="1", op_raw="u"),
    )
    assert len({change_hash(event, Message(b""), by_arrival=False) for event in same}) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"op": "insert"},
        {"key": {"id": "8"}},
        {"before": None},
        {"before": {}},
        {"after": {**ROW, "note": ""}},
        {"after": {"id": "7", "name": "ink"}},
        {"after": {"id": "7", "name": "ink\x1fnote", "note": None}},
        {"unavailable": ["note"]},
    ],
)
def test_76_whatever_differs_in_it_is_another_change(other: dict[str, Any]) -> None:
    hashes = {
        change_hash(event, Message(b""), by_arrival=False) for event in (_event(**other), _event())
    }
    assert len(hashes) == 2


def _debezium(sent: int, name: str = "ink") -> bytes:
    source = {"connector": "mysql", "db": "shop", "table": "pens", "file": "bin.3", "pos": 8}
    return json.dumps(
        {
            "op": "c",
            "before": None,
            "after": {"id": 7, "name": name},
            "source": {**source, "row": 0, "ts_ms": 1_700_000_000_000},
            "ts_ms": sent,
        }
    ).encode()


def test_76_a_change_that_is_sent_again_is_a_copy() -> None:
    reader = reader_of("debezium")
    sent = [Message(_debezium(1)), Message(_debezium(60_001)), Message(_debezium(1, "nib"))]
    rows = [row for message in sent for row in as_dicts(reader.rows(message))]
    hashes = [row["value_hash"] for row in rows if row["kind"] == "change"]
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize(("keys", "hashes"), [({}, 2), ({"zoo.zoo.cages": ["id"]}, 1)])
def test_66_without_a_key_each_delivery_of_a_crowded_place_is_a_change(
    keys: dict[str, list[str]], hashes: int
) -> None:
    column = {"name": "id", "type": "integer", "value": 7}
    row = {"action": "I", "lsn": "0/16", "schema": "zoo", "table": "cages", "columns": [column]}
    value = json.dumps(row).encode()
    reader = reader_of("wal2json", default_database="zoo", keys=keys)
    rows = [
        row
        for offset in (3, 4)
        for row in as_dicts(reader.rows(Message(value, topic="t", offset=offset)))
        if row["kind"] == "change"
    ]
    assert len({row["value_hash"] for row in rows}) == hashes


_OF_SNAPSHOTS: dict[str, dict[str, Any]] = {
    "debezium": {
        "op": "r",
        "before": None,
        "after": {"name": "ink"},
        "source": {
            "connector": "mysql",
            "db": "shop",
            "table": "pens",
            "snapshot": "true",
            "file": "bin.3",
            "pos": 157,
            "row": 0,
        },
    },
    "dataworks": {
        "schema": {
            "dataColumn": [{"name": "name", "type": "STRING"}],
            "source": {"dbType": "MySQL", "dbName": "shop", "tableName": "pens"},
        },
        "payload": {
            "op": "INSERT",
            "after": {"dataColumn": {"name": "ink"}},
            "sequenceId": "-1",
            "timestamp": {"eventTime": -1},
        },
        "version": "0.0.1",
    },
    "oms_default": {
        "recordType": "ROW",
        "allMetaData": {"dbType": "OB_MYSQL", "db": "shop", "table_name": "pens"},
        "postStruct": {"name": "ink"},
    },
    "oms_dataworks": {
        "schema": {
            "source": {"dbType": "OB_MYSQL", "dbName": "shop", "table": "pens"},
            "column": [{"name": "name", "type": "VARCHAR"}],
        },
        "payload": {
            "op": "ROW",
            "after": {"data": {"name": "ink"}},
            "timestamp": {"eventTime": -1},
        },
        "version": "2.0",
    },
}


@pytest.mark.parametrize("name", _OF_SNAPSHOTS)
def test_a_row_of_a_snapshot_that_is_delivered_again_is_a_copy(name: str) -> None:
    """Without a key, too. So are equal rows (EQUAL_ROWS_OF_A_SNAPSHOT)."""
    value = json.dumps(_OF_SNAPSHOTS[name]).encode()
    reader = reader_of(name, order="source")
    rows = [
        row
        for offset in (3, 4)
        for row in as_dicts(reader.rows(Message(value, topic="t", offset=offset)))
        if row["kind"] == "change"
    ]
    assert [row["op"] for row in rows] == ["snapshot"] * 2
    assert len({row["value_hash"] for row in rows}) == 1


def _of_ticdc(*ids: int, **given: Any) -> list[Any]:
    """The identities of the rows of a batch, all of one transaction."""
    key = {"ts": 449_598_867_783_680_001, "scm": "shop", "tbl": "pens", "t": 1}
    rows = [{"u": {"id": {"t": 3, "h": True, "f": 11, "v": number}}} for number in ids]
    if "keyless" in given:
        rows = [{"u": {"id": {"t": 3, "v": number}}} for number in ids]
    pairs = [(json.dumps(key).encode(), json.dumps(row).encode()) for row in rows]
    return _identities("ticdc_open", batch(*pairs))


def _of_ogg(*ids: int) -> list[Any]:
    """Those of operations that one message holds (mode=tx)."""
    head: dict[str, Any] = {"table": "SHOP.PENS", "op_type": "I", "primary_keys": ["ID"]}
    head["op_ts"] = "2024-03-04 10:05:00.000000"
    operations = [head | {"pos": f"{number:020d}", "after": {"ID": number}} for number in ids]
    return _identities("ogg", Message("".join(map(json.dumps, operations)).encode()))


def _of_debezium(*ids: int) -> list[Any]:
    """Those of envelopes that a producer has joined."""
    place = {"connector": "mysql", "db": "shop", "table": "pens", "file": "bin.3", "row": 0}
    envelopes = [
        {"op": "c", "after": {"id": number}, "source": {**place, "pos": number}} for number in ids
    ]
    return _identities("debezium", Message("".join(map(json.dumps, envelopes)).encode()))


def _of_wal2json(*ids: int) -> list[Any]:
    """Those of a transaction's rows, which have one position."""
    change = {"kind": "insert", "schema": "public", "table": "pens", "columnnames": ["id"]}
    changes = [{**change, "columntypes": ["integer"], "columnvalues": [number]} for number in ids]
    value = json.dumps({"xid": 7, "nextlsn": "0/16", "change": changes}).encode()
    return _identities("wal2json", Message(value))


def _identities(name: str, message: Message) -> list[Any]:
    return [
        identity_of(row["pos"], table="pens", digest=row["value_hash"], by_arrival=False)
        for row in as_dicts(reader_of(name, order="source").rows(message))
        if row["kind"] == "change"
    ]


@pytest.mark.parametrize("sent", [_of_ticdc, _of_ogg, _of_debezium])
def test_16_a_change_is_the_same_wherever_in_a_batch_it_stands(sent: Any) -> None:
    """What is sent again is batched anew."""
    first, second = sent(7, 8)
    assert first != second
    assert sent(8) == [second]


def test_16_equal_rows_of_one_message_are_two_where_its_numbers_tell_them_apart() -> None:
    assert len({*_of_wal2json(7, 7)}) == 2
    assert len({*_of_ticdc(7, 7, keyless=True)}) == 2


def _changes(*, by_arrival: bool) -> list[Change]:
    """Places that are and are not those of one change, with what happened there."""
    places = [
        # epoch, s1, stream, offset, row, half, digest
        (0, 5, 1, 10, 0, 1, 77),
        (0, 5, 1, 10, 0, 1, 77),
        (0, 5, 1, 57, 0, 1, 77),
        (0, 5, 2, 10, 0, 1, 77),
        (0, 5, 1, 10, 0, 1, 78),
        (0, 6, 1, 10, 0, 1, 77),
        (0, 5, 1, 10, 1, 1, 77),
        (0, 5, 1, 10, 0, 0, 77),
        (1, 5, 1, 10, 0, 1, 77),
        (1, 5, 1, 57, 0, 1, 77),
    ]
    return [
        Change(
            op="insert",
            pos=position(
                epoch=epoch,
                snapshot=False,
                order=(s1,),
                stream=stream,
                offset=offset,
                row=row,
                half=half,
            ),
            table="shop.pens",
            key=("7",),
            digest=digest,
            by_arrival=by_arrival,
        )
        for epoch, s1, stream, offset, row, half, digest in places
    ]


def test_76_the_epoch_is_part_of_the_identity() -> None:
    by_arrival = distinct(_changes(by_arrival=True))
    coordinates = {(c.pos[0], *c.pos[-4:]) for c in by_arrival}
    assert len(by_arrival) == len(coordinates) == 7
    by_source = distinct(_changes(by_arrival=False))
    assert len(by_source) == 5
    assert sum(change.pos[0] for change in by_source) == 1


@pytest.mark.parametrize("by_arrival", [True, False])
@pytest.mark.parametrize("before", [(), (4, 9)], ids=["by the log", "by columns of the row"])
def test_sql_tells_copies_as_the_fold_does(
    spark: SparkSession, by_arrival: bool, before: tuple[int, ...]
) -> None:
    changes = [
        change._replace(pos=(*before, *change.pos)) for change in _changes(by_arrival=by_arrival)
    ]
    rows = [(number, list(c.pos), c.digest) for number, c in enumerate(changes)]
    frame = spark.createDataFrame(rows, "number int, pos array<bigint>, value_hash bigint")
    told = frame.selectExpr("number", f"{identity_sql(by_arrival)} AS change").collect()
    numbers: dict[Any, set[int]] = {}
    for row in told:
        numbers.setdefault(tuple(row.change), set()).add(row.number)
    groups: dict[Any, set[int]] = {}
    for number, change in enumerate(changes):
        groups.setdefault(identity(change), set()).add(number)
    assert sorted(map(sorted, numbers.values())) == sorted(map(sorted, groups.values()))
