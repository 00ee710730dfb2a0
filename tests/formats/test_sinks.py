"""Messages that stream processors write under another producer's format: Flink CDC, SeaTunnel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ingest.events import DECODED
from ingest.wire.contract import Message
from tests.support.messages import reader_of

PLACE = {"db": "depot", "table": "crates"}


def rows(
    name: str, value: Mapping[str, Any], key: Mapping[str, Any] | None = None, **given: Any
) -> list[dict[str, Any]]:
    """The silver rows of one message by arrival, schema rows aside."""
    sent = Message(
        json.dumps(value).encode(), key=None if key is None else json.dumps(key).encode(), topic="t"
    )
    found = reader_of(name, order="arrival", **given).rows(sent)
    named = [dict(zip((c.name for c in DECODED), row, strict=True)) for row in found]
    return [row for row in named if row["kind"] != "schema"]


def changed(op: str, row: dict[str, Any]) -> dict[str, Any]:
    """Flink CDC's Debezium JSON of an insert or a delete."""
    before, after = (row, None) if op == "d" else (None, row)
    return {"before": before, "after": after, "op": op, "source": PLACE}


@pytest.mark.parametrize("op", ["c", "d"])
@pytest.mark.parametrize(
    ("key", "columns"),
    [({"TableId": "depot.crates", "id": 7}, ("id",)), ({"TableId": "depot.crates"}, None)],
)
def test_the_table_in_flink_cdc_s_message_key_is_no_column(
    op: str, key: dict[str, Any], columns: tuple[str, ...] | None
) -> None:
    (row,) = rows("debezium", changed(op, {"id": 7, "v": "a"}), key)
    assert (row["key_columns"], row["key"]) == (columns, {"id": "7"} if columns else None)
    assert row["warnings"] == ["untyped"]


def test_a_column_called_as_flink_cdc_calls_the_table_is_of_the_key() -> None:
    (row,) = rows("debezium", changed("c", {"TableId": "x", "id": 7}), {"TableId": "x", "id": 7})
    assert row["key"] == {"TableId": "x", "id": "7"}


def test_a_key_column_of_debezium_that_the_row_lacks_is_none_of_flink_cdc_s() -> None:
    value = changed("d", {"id": 7})
    value["source"] = {**PLACE, "connector": "sqlserver"}
    (row,) = rows("debezium", value, {"TableId": "x", "id": 7})
    assert row["key"] == {"TableId": "x", "id": "7"}


def test_a_key_column_stays_one_where_no_row_tells_otherwise() -> None:
    value = {**changed("d", {}), "before": None}
    (row,) = rows("debezium", value, {"TableId": "x", "id": 7})
    assert row["key"] == {"TableId": "x", "id": "7"}


FLINK_TYPES = [
    ("bytes", "io.debezium.data.Bits", {"length": "100"}, "cGFsbGV0IHNldmVu", "binary", None),
    ("bytes", "io.debezium.data.Bits", {"length": "2147483647"}, "AQI=", "binary", None),
    ("int32", "io.debezium.time.Date", None, "2024-05-06", "date", None),
    ("int64", "io.debezium.time.MicroTime", None, "07:08:09", "string", None),
    ("int64", "io.debezium.time.Timestamp", None, "2024-05-06 07:08:09.12", "timestamp_ntz", None),
    (
        *("int64", "io.debezium.time.MicroTimestamp", None, "2024-05-06T07:08:09.000123"),
        *("timestamp_ntz", "2024-05-06 07:08:09.000123"),
    ),
]


@pytest.mark.parametrize(("kind", "name", "sizes", "sent", "type_", "text"), FLINK_TYPES)
def test_flink_cdc_writes_text_and_bytes_whatever_its_schema_calls_them(
    kind: str, name: str, sizes: dict[str, str] | None, sent: str, type_: str, text: str | None
) -> None:
    column = {"type": kind, "optional": True, "name": name, "version": 1, "field": "c"}
    if sizes:
        column["parameters"] = sizes
    image = {"type": "struct", "fields": [column], "optional": True}
    fields = [{**image, "field": side} for side in ("before", "after")]
    schema = {"type": "struct", "fields": fields, "optional": False}
    found = reader_of("debezium", order="arrival").rows(
        Message(json.dumps({"schema": schema, "payload": changed("c", {"c": sent})}).encode())
    )
    named = [dict(zip((c.name for c in DECODED), row, strict=True)) for row in found]
    types = {c[0]: c[2] for row in named if row["kind"] == "schema" for c in row["columns"]}
    assert types == {"c": type_}
    assert (named[-1]["after"], named[-1]["warnings"]) == ({"c": text or sent}, None)


def test_the_database_in_seatunnel_s_debezium_json() -> None:
    source = {"schema": "wms", "database": "depot", "table": "crates"}
    value = {"before": None, "after": {"id": 7}, "op": "c", "source": source, "ts_ms": None}
    (row,) = rows("auto", value)
    assert (row["db"], row["schema"], row["table"]) == ("depot", "wms", "crates")


@pytest.mark.parametrize("before", [None, {}])
def test_a_row_deleted_stands_after_in_seatunnel_s_goldengate_json(before: Any) -> None:
    value = {"before": before, "after": {"id": 7}, "op_type": "D", "table": "depot.crates"}
    (row,) = rows("ogg", {**value, "op_ts": 1717200000000})
    assert (row["op"], row["before"], row["after"]) == ("delete", {"id": "7"}, None)


def test_seatunnel_s_maxwell_json_has_its_types_in_capitals() -> None:
    for word, image in (("INSERT", "after"), ("DELETE", "before")):
        (row,) = rows("maxwell", {"data": {"id": 7}, "type": word}, default_table="crates")
        assert (row["op"], row["op_raw"], row[image]) == (word.lower(), word, {"id": "7"})


@pytest.mark.parametrize(
    ("names", "columns"), [(["id"], ("id",)), ([], None), (None, None), ("id", None)]
)
def test_inlong_names_the_key_in_the_source_block(
    names: Any, columns: tuple[str, ...] | None
) -> None:
    value = {**changed("c", {"id": "7", "v": "a"}), "tsMs": 1717200000000, "incremental": True}
    value["source"] = {**PLACE, "name": "n", "pkNames": names, "mysqlType": {"id": "int"}}
    (row,) = rows("auto", value)
    assert (row["key_columns"], row["key"]) == (columns, {"id": "7"} if columns else None)
