"""What is peculiar to StreamX, the vendor's own examples and a real message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import ColumnType, Event
from ingest.formats import FORMATS
from ingest.formats.detect import recognised
from ingest.values.source_types import types_of
from ingest.wire.contract import FormatOptions, Message

OPS = {"c": "insert", "u": "update", "d": "delete", "heartbeat": "heartbeat"}


def decoded(value: bytes, **options: Any) -> Event:
    """The one event of a message."""
    [event] = FORMATS["dataworks"].decoder(FormatOptions(**options))(Message(value=value))
    return event


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def test_the_vendors_examples_have_the_structure_the_specification_gives(shared: Path) -> None:
    folder = shared / "samples/seeds"
    messages = lines(folder / "seed002_streamx.jsonl")
    rows = [json.loads(line) for line in lines(folder / "golden_seed_examples.jsonl")]
    expected = [row for row in rows if row["file"] == "seed002_streamx.jsonl"]
    assert len(messages) == len(expected) == 6
    for row, value in zip(expected, messages, strict=True):
        event = decoded(value)
        phase = row.get("op_phase")
        order = (row["order"] or {}).get("raw")
        sent = row.get("ts_process_ms")
        images = [row.get("before_image"), row.get("after_image")]
        image = event.after or event.before
        assert {
            "op": event.op,
            "kind": event.kind,
            "half": event.half,
            "before": event.before and list(event.before),
            "after": event.after and list(event.after),
            "images": [event.before_image, event.after_image],
            "key": image and {name: image[name] for name in event.key_columns or ()},
            "db": event.db,
            "table": event.table,
            "sequenceId": event.sequenceId,
            "order": event.order,
            "times": (event.event_time, event.sent_time),
            "warnings": event.warnings,
        } == {
            "op": OPS[row["op"]],
            "kind": {"before": "fragment"}.get(phase, "change" if image else "control"),
            "half": 0 if phase == "before" else 1,
            "before": row["before_cols"],
            "after": row["after_cols"],
            "images": [None if word in (None, "none") else word for word in images],
            "key": row["key"],
            "db": row.get("db"),
            "table": row.get("table"),
            "sequenceId": order,
            "order": None if order is None else (int(order),),
            "times": (row["ts_event_ms"] * 1000, None if sent is None else sent * 1000),
            "warnings": [Code.SPLIT_UPDATE.value] if phase else [],
        }


def test_the_examples_as_printed_are_those_repaired(shared: Path) -> None:
    folder = shared / "samples/seeds"
    template, *printed = sorted((folder / "as-printed").glob("seed002_*"))
    repaired = lines(folder / "seed002_streamx.jsonl")
    assert [decoded(path.read_bytes()) for path in printed] == [decoded(v) for v in repaired]
    # The template lists every op in one.
    with pytest.raises(DecodeError) as refused:
        decoded(template.read_bytes())
    assert refused.value.code is Code.UNKNOWN_OP


def test_a_real_snapshot_row(shared: Path) -> None:
    [value] = lines(shared / "samples/peers/dataworks-json/paimon-aliyun-event-insert.jsonl")
    types = (
        ColumnType("id", "LONG", "bigint"),
        ColumnType("val", "DOUBLE", "double"),
        ColumnType("name", "STRING", "string"),
        ColumnType("create_time", "DATE", "timestamp"),
    )
    assert decoded(value) == Event(
        op="snapshot",
        op_raw="INSERT",
        dialect="mysql",
        db="bigdata_test",
        table="sync_test_table",
        key_columns=("id",),
        after={
            "create_time": "2024-11-15T08:58:34Z",
            "id": "2",
            "name": "a",
            "val": "1.100000",
        },
        after_image="full",
        sequenceId="-1",
        snapshot=True,
        sent_time=1731661820_245000,
        types=types_of(types),
        warnings=[],
    )


def test_only_its_own_format_recognises_a_message(shared: Path) -> None:
    folder = shared / "samples/seeds"
    files = {
        "seed001_oms_default.jsonl": "oms_default",
        "seed001_oms_default_extend.jsonl": "oms_default",
        "seed001_oms_dataworks2.jsonl": "oms_dataworks",
        "seed001_oms_shareplex.jsonl": "oms_shareplex",
        "seed002_streamx.jsonl": "dataworks",
    }
    found = {
        file: {recognised(Message(value=value)).name for value in lines(folder / file)}
        for file in files
    }
    assert found == {file: {format_} for file, format_ in files.items()}
    ours = {name: FORMATS[name].recognise for name in files.values()}
    checked = 0
    for path in sorted((shared / "samples/peers").rglob("*.jsonl")):
        if path.parent.name == "dataworks-json":
            continue
        for value in lines(path):
            if value.startswith(b"{"):
                top = {name: _raw(text) for name, text in json.loads(value).items()}
                for recognise in ours.values():
                    assert recognise is not None and not recognise(top), path
                checked += 1
    assert checked > 100


def _raw(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


MESSAGE = (
    b'{"schema":{"dataColumn":[{"name":"id","type":"LONG"},{"name":"at","type":"DATE"}],'
    b'"primaryKey":["id"],"source":{"dbType":"MySQL","dbName":"d","tableName":"t"}},"payload":'
    b'{"before":{"dataColumn":{"id":1,"at":1704134400000}},"after":null,"sequenceId":"1704134400",'
    b'"timestamp":{"eventTime":1704134400000},"op":"UPDATE_BEFOR","ddl":null},"version":"0.0.1"}'
)


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9), st.binary(max_size=9))))
def test_no_bytes_raise_anything_but_a_decode_error(cuts: list[tuple[int, int, bytes]]) -> None:
    value = MESSAGE
    for start, length, text in cuts:
        value = value[:start] + text + value[start + length :]
    try:
        event = decoded(value)
    except DecodeError:
        return
    assert event.kind in ("change", "fragment", "ddl", "control")
