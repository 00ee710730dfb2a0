"""Canal JSON: what other projects' samples must give, and what no golden folder can show."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import DecodeError
from ingest.events import Event, Row
from ingest.wire.contract import Message
from tests.support.decoding import code_of, decoder, events, events_of
from tests.support.messages import reader_of
from tests.support.silver_promises import NAMES

MESSAGE: dict[str, Any] = {
    "data": [{"id": "1", "name": "pen", "price": "1.50", "seen": "2024-01-01 00:00:00"}],
    "database": "shop",
    "es": 1735689600000,
    "id": 41,
    "isDdl": False,
    "mysqlType": {"id": "int", "name": "enum('a','b')", "price": "decimal", "seen": "timestamp"},
    "old": [{"price": None}],
    "pkNames": ["id"],
    "sql": "",
    "sqlType": {"id": 4, "name": 12, "price": 3, "seen": 93},
    "table": "items",
    "ts": 1735689600412,
    "type": "UPDATE",
}


@pytest.fixture(scope="module")
def peers(shared: Path) -> Path:
    return shared / "samples" / "peers"


def expected(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{name}.expected.json").read_text())
    return found


def text_of(values: list[Any]) -> list[str | None]:
    """Numbers of an expected.json as the digits that the message sends for them."""
    return [None if value is None else str(value) for value in values]


def images(event: Event, columns: list[str]) -> list[list[str | None]]:
    """The rows of a changelog: op and values, before first."""
    words = {"insert": "+I", "update": "+U", "delete": "-D"}
    found: list[list[str | None]] = []
    if event.before is not None:
        word = "-U" if event.op == "update" else "-D"
        found.append([word, *(event.before[column] for column in columns)])
    if event.after is not None:
        found.append([words[event.op], *(event.after[column] for column in columns)])
    return found


def applied(changes: list[Event], key: str) -> dict[str | None, Row]:
    """The table after the changes, applied in order."""
    table: dict[str | None, Row] = {}
    for event in changes:
        if event.before is not None:
            table.pop(event.before[key], None)
        if event.after is not None:
            table[event.after[key]] = event.after
    return table


def test_flink_changelog(peers: Path) -> None:
    folder = peers / "canal-json"
    want = expected(folder, "flink-canal-data")
    changes = events_of(decoder("canal"), folder / "flink-canal-data.jsonl")
    got = [row for event in changes for row in images(event, want["columns"])]
    assert got == [text_of(row) for row in want["rows"]]


def test_seatunnel_final_table(peers: Path) -> None:
    folder = peers / "canal-json"
    want = expected(folder, "seatunnel-canal-e2e")
    found = events_of(decoder("canal"), folder / "seatunnel-canal-e2e.jsonl")
    assert [(event.kind, event.table, event.op_raw) for event in found[:3]] == [
        ("ddl", None, "QUERY"),
        ("ddl", "products", "CREATE"),
        ("ddl", "products", "ALTER"),
    ]
    rows = applied([event for event in found if event.kind == "change"], "id").values()
    got = sorted([row[column] for column in want["columns"]] for row in rows)
    assert got == [text_of(row) for row in want["rows"]]


@pytest.mark.parametrize("name", ["event-insert", "incomplete-1"])
def test_paimon_rows(peers: Path, name: str) -> None:
    folder = peers / "canal-json"
    want = expected(folder, f"paimon-canal-{name}")
    found = events_of(decoder("canal"), folder / f"paimon-canal-{name}.jsonl")
    assert [list((event.after or {}).values()) for event in found] == [
        text_of(row) for row in want["rows"]
    ]
    assert [list(event.after or {}) for event in found] == [want["columns"]] * len(found)


def test_paimon_to_string(peers: Path) -> None:
    folder = peers / "canal-json"
    want = expected(folder, "paimon-canal-tostring")
    found = events_of(decoder("canal"), folder / "paimon-canal-tostring.jsonl")
    assert [list((event.after or {}).values()) for event in found] == want["rows"]


def test_paimon_schema_evolution(peers: Path) -> None:
    """Types are learned from mysqlType, with and without the ALTERs between."""
    folder = peers / "canal-json"
    want = expected(folder, "paimon-canal-schemaevolution-all")
    columns = ["pt", "_id", "v1", "v2", "v3", "v4", "v5"]
    seen: list[Event] = []
    for step in range(1, 6):
        decode = decoder("canal")
        seen += events_of(decode, folder / f"paimon-canal-missingddl-{step}.jsonl")
        rows = applied(seen, "_id")
        wanted = {str(row[1]): row + [None] * (7 - len(row)) for row in want[f"after_{step}"]}
        assert {key: _evolved(row, columns) for key, row in rows.items()} == {
            key: _wanted(row) for key, row in wanted.items()
        }
    with_ddl = [
        event
        for step in (1, 2)
        for event in events_of(
            decoder("canal"), folder / f"paimon-canal-schemaevolution-{step}.jsonl"
        )
    ]
    assert [event.kind for event in with_ddl].count("ddl") == 2
    rows = applied([event for event in with_ddl if event.kind == "change"], "_id")
    assert {key: _evolved(row, columns) for key, row in rows.items()} == {
        str(row[1]): _wanted(row + [None] * (7 - len(row))) for row in want["after_2"]
    }


def _evolved(row: Row, columns: list[str]) -> list[Any]:
    values: list[Any] = [row.get(column) for column in columns]
    values[5] = base64.b64decode(values[5]).decode() if values[5] is not None else None
    values[6] = struct.pack("f", float(values[6])) if values[6] is not None else None
    return values


def _wanted(row: list[Any]) -> list[Any]:
    values: list[Any] = text_of(row)
    values[6] = struct.pack("f", row[6]) if row[6] is not None else None
    return values


def test_paimon_all_types(peers: Path) -> None:
    folder = peers / "canal-json"
    want = expected(folder, "paimon-canal-alltype")
    found = events_of(decoder("canal", time_zone="UTC"), folder / "paimon-canal-alltype.jsonl")
    assert len(found) == len(want["rows"])
    for event, row in zip(found, want["rows"], strict=True):
        assert event.after is not None
        got = {name: event.after[name] for name in want["columns"]}
        assert got == {
            name: _canonical(name, value, got[name])
            for name, value in zip(want["columns"], row, strict=True)
        }
        assert event.warnings == []


def _canonical(name: str, value: Any, got: str | None) -> str | None:
    """What Paimon's test asserts of a column, as this product writes it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(int(value)) if name == "_tinyint1" else str(value).lower()
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, dict):
        return base64.b64encode(value["bytes"].encode("latin-1")).decode()
    if isinstance(value, str) and value.startswith("{") and name != "_json":
        assert got is not None
        assert geo_json(base64.b64decode(got)) == json.loads(value)
        return got
    if name.startswith("_datetime"):
        whole, _, digits = value.replace("T", " ").partition(".")
        return f"{whole}.{digits.rstrip('0')}" if digits else whole
    return f"{value}Z" if name.startswith("_timestamp") else str(value)


def geo_json(data: bytes) -> dict[str, Any]:
    """MySQL's internal geometry, four bytes of SRID and then WKB, as GeoJSON."""
    shape, rest = _shape(data[4:])
    assert rest == b""
    return {**shape, "srid": struct.unpack("<I", data[:4])[0]}


def _shape(data: bytes) -> tuple[dict[str, Any], bytes]:
    names = ["Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon"]
    kind = struct.unpack("<I", data[1:5])[0]
    rest = data[5:]
    if kind == 1:
        point, rest = _points(rest, 1)
        return {"type": "Point", "coordinates": point[0]}, rest
    count, rest = struct.unpack("<I", rest[:4])[0], rest[4:]
    if kind == 2:
        points, rest = _points(rest, count)
        return {"type": "LineString", "coordinates": points}, rest
    parts: list[Any] = []
    for _ in range(count):
        if kind == 3:
            points, rest = _points(rest[4:], struct.unpack("<I", rest[:4])[0])
            parts.append(points)
        else:
            part, rest = _shape(rest)
            parts.append(part if kind == 7 else part["coordinates"])
    if kind == 7:
        return {"type": "GeometryCollection", "geometries": parts}, rest
    return {"type": names[kind - 1], "coordinates": parts}, rest


def _points(data: bytes, count: int) -> tuple[list[list[float]], bytes]:
    numbers = struct.unpack(f"<{2 * count}d", data[: 16 * count])
    return [list(numbers[at : at + 2]) for at in range(0, 2 * count, 2)], data[16 * count :]


def test_ticdc_documentation(peers: Path) -> None:
    folder = peers / "canal-json"
    decode = decoder("canal", options={"order_key": "commit_ts"})
    found = events_of(decode, folder / "ticdc-canal-docs.jsonl")
    assert [(event.op, event.db, event.table, event.scn) for event in found] == [
        ("ddl", "test", None, "429918007904436226"),
        ("insert", "test", "tp_int", "429918007904436226"),
        ("checkpoint", None, None, "429918007904436226"),
    ]
    assert found[1].order == (1639633141221, 429918007904436226, 1)


def test_flink_cdc_sink(peers: Path) -> None:
    """Native numbers, no times, a full old."""
    found = events_of(decoder("canal"), peers / "canal-json" / "flinkcdc-canal-sink.jsonl")
    update = next(event for event in found if event.op == "update")
    assert (update.before or {})["weight"] == "5.3"
    assert (update.after or {})["weight"] == "5.1"
    assert (update.after or {})["id"] == "107"
    assert [event.op for event in found].count("insert") == 15
    assert {event.order for event in found} == {None}


def test_public_samples(peers: Path) -> None:
    flink = events_of(decoder("canal"), peers / "public_canal_flink.jsonl")
    created = [event for event in flink if event.kind == "ddl"]
    assert [(event.db, event.table) for event in created] == [("inventory", "user02")]
    issues = events_of(decoder("canal"), peers / "public_canal_issues.jsonl")
    assert [event.key_columns for event in issues] == [
        ("ID",),
        None,
        ("__#alibaba_rds_row_id#__",),
    ]
    creator = (issues[1].after or {})["creator"]
    assert creator is not None
    assert base64.b64decode(creator).decode() == "测试"
    cut = (peers / "public_canal_1785_statement_fragment.txt").read_bytes()
    assert code_of(decoder("canal"), cut) == "bad_json"


def test_all_samples_decode(peers: Path) -> None:
    for file in sorted((peers / "canal-json").glob("*.jsonl")):
        assert events_of(decoder("canal"), file), file.name


def test_seeds(shared: Path) -> None:
    folder = shared / "samples" / "seeds"
    golden = (folder / "golden_seed_examples.jsonl").read_text().splitlines()
    wanted = [line for line in map(json.loads, golden) if line["format"] == "canal"]
    assert len(wanted) == 4
    ops = {"c": "insert", "u": "update", "d": "delete"}
    codes = {"pk_not_in_image": None}
    for want in wanted:
        line = (folder / want["file"]).read_bytes().splitlines()[want["line"] - 1]
        (event,) = events(decoder("canal"), line)
        assert event.op == ops[want["op"]]
        assert _columns(event.before) == want["before_cols"]
        assert _columns(event.after) == want["after_cols"]
        assert (event.before_image or "none") == want["before_image"]
        assert (event.after_image or "none") == want["after_image"]
        assert event.key_columns == tuple(want["key"])
        assert (event.db, event.table) == (want["db"], want["table"])
        assert event.event_time == want["ts_event_ms"] * 1000
        assert event.sent_time == want["ts_process_ms"] * 1000
        assert event.id == (want["order"]["raw"] if want["order"] else None)
        found = set(event.warnings or ()) - {"untyped"}
        assert found == {codes.get(code, code) for code in want["warnings"]} - {None}


def _columns(row: Row | None) -> list[str] | None:
    return None if row is None else list(row)


def test_long_digits_survive(shared: Path) -> None:
    """A DECIMAL of 765 digits with an exponent is written plainly, all of them."""
    line = (shared / "samples" / "seeds" / "seed001_canal.jsonl").read_bytes().splitlines()[0]
    (event,) = events(decoder("canal"), line)
    assert event.after is not None
    sent = event.after["col4"]
    plain = event.after["col12"]
    assert sent is not None and plain is not None
    digits = sent.removesuffix("E-308").replace(".", "")
    assert plain == "0." + "0" * 307 + digits
    assert event.after["col13"] == "10223372036854775806"


def test_rows_of_one_message_share_nothing() -> None:
    rows = [{**MESSAGE["data"][0], "id": str(index)} for index in range(3)]
    found = events(decoder("canal"), {**MESSAGE, "data": rows, "old": [{"price": "1"}, None, {}]})
    assert [event.warnings for event in found] == [
        ["tz_assumed"],
        ["tz_assumed", "old_missing"],
        ["tz_assumed", "old_missing"],
    ]
    assert [(event.after or {})["id"] for event in found] == ["0", "1", "2"]


def test_a_row_without_old_beside_one_with_a_nested_value() -> None:
    """The nested value has names of its own, so each row is looked through for doubled ones."""
    rows = [{"id": "1", "name": {"a": 1}}, {"id": "2", "name": "pen"}]
    old = [None, {"name": {"a": 1}}]
    first, second = events(decoder("canal"), {**MESSAGE, "data": rows, "old": old})
    assert (first.op, first.before) == ("update", None)
    assert (second.before or {})["name"] == '{"a": 1}'
    with pytest.raises(DecodeError) as refused:
        events(decoder("canal"), {**MESSAGE, "data": [*rows, None], "old": None})
    assert refused.value.code == "no_image"


def test_types_are_told_apart_by_table_and_block() -> None:
    decode = decoder("canal", time_zone="+08:00")
    first = events(decode, MESSAGE)[0]
    again = events(decode, MESSAGE)[0]
    other = events(decode, {**MESSAGE, "mysqlType": {**MESSAGE["mysqlType"], "seen": "datetime"}})
    assert first.types is again.types
    assert (first.after or {})["seen"] == "2023-12-31T16:00:00Z"
    assert (other[0].after or {})["seen"] == "2024-01-01 00:00:00"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["²", "-", "--1", "1e9999999999", "0000-00-00", "9999-99-99 99:99:99", "{}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(MESSAGE)), VALUES)
def test_any_field_decodes_or_is_refused(name: str, value: Any) -> None:
    refused_or_decoded({**MESSAGE, name: value})


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["id", "name", "price", "seen"]), VALUES, st.text(max_size=12))
def test_any_value_decodes_or_is_refused(column: str, value: Any, type_: str) -> None:
    row = {**MESSAGE["data"][0], column: value}
    refused_or_decoded({**MESSAGE, "data": [row]})
    refused_or_decoded({**MESSAGE, "mysqlType": {column: type_}, "old": [row], "id": None})


@settings(max_examples=200, deadline=None)
@given(st.integers(min_value=0, max_value=480), st.binary(min_size=1, max_size=3))
def test_any_bytes_decode_or_are_refused(at: int, bytes_: bytes) -> None:
    sound = json.dumps(MESSAGE).encode()
    refused_or_decoded(sound[:at] + bytes_ + sound[at + len(bytes_) :])


def refused_or_decoded(message: bytes | dict[str, Any]) -> None:
    value = message if isinstance(message, bytes) else json.dumps(message).encode()
    try:
        found = list(decoder("canal")(Message(value)))
    except DecodeError:
        return
    assert found
    for event in found:
        for image in (event.before, event.after):
            assert all(text is None or isinstance(text, str) for text in (image or {}).values())


def test_a_key_column_that_is_named_twice_is_one() -> None:
    sent = {"type": "INSERT", "database": "farm", "table": "crop", "isDdl": False, "es": 1, "id": 1}
    keys = [["id", "id"], ["id"], ["id", "plot", "id"], ["id", "plot"]]
    messages = [{**sent, "pkNames": names, "data": [{"id": "1", "plot": "2"}]} for names in keys]
    rows = [reader_of("canal").rows(Message(json.dumps(m).encode()))[-1] for m in messages]
    found = [tuple(row[NAMES.index(c)] for c in ("key_columns", "key_hash")) for row in rows]
    assert found[0] == found[1] and found[2] == found[3]
    assert found[0][0] == ("id",) and found[0][1] is not None


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("ALTER TABLE d.t ADD COLUMN c INT", ("ddl", "ddl")),
        ("/* by hand */ create table u (id int)", ("ddl", "ddl")),
        ("TRUNCATE t", ("change", "truncate")),
        ("UPDATE t SET a = 1 -- ALTER", ("control", "query")),
        ("GRANT ALTER ON d.* TO u", ("control", "query")),
        ("", ("control", "query")),
    ],
)
def test_a_statement_that_canal_could_not_read(sql: str, said: tuple[str, str]) -> None:
    message = {"type": "QUERY", "isDdl": False, "database": "d", "table": "", "sql": sql, "es": 1}
    (event,) = events(decoder("canal"), message)
    assert (event.kind, event.op, event.ddl) == (*said, sql or None)
