"""What is peculiar to the OMS formats, and the vendor's own examples."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.codes import Code
from ingest.decode.keys import keyed
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.formats import FORMATS
from ingest.formats.oms.values import epoch_of
from ingest.wire.contract import FormatOptions, Message
from ingest.wire.scalars import micros_of, number_of, split_sequence

SEEDS = {
    "oms_default": "seed001_oms_default.jsonl",
    "oms_default_ext": "seed001_oms_default_extend.jsonl",
    "oms_dataworks": "seed001_oms_dataworks2.jsonl",
    "oms_shareplex": "seed001_oms_shareplex.jsonl",
}
OPS = {"c": "insert", "u": "update", "d": "delete", "heartbeat": "heartbeat"}
# The specification's names for what our codes say; None: it is no doubt for us.
CODES = {
    "key_columns_not_in_image": Code.KEY_NOT_IN_IMAGE,
    "pk_not_in_image": Code.KEY_NOT_IN_IMAGE,
    "light_type_names_not_in_image": Code.TYPES_NOT_IN_IMAGE,
    "column_names_not_in_image": Code.TYPES_NOT_IN_IMAGE,
    "changed_column_not_in_before_image": Code.OLD_MISSING,
    "scn_literal_null": None,
    "checkpoint_seconds": None,
    "key_names_unknown": None,
    "rowid_separator_missing": None,
}


def decoded(format_: str, value: bytes, **options: Any) -> Event:
    """The one event of a message, its key filled in as the lift does."""
    defaults = {name: option.default for name, option in FORMATS[format_].options.items()}
    decode = FORMATS[format_].decoder(FormatOptions(options=defaults, **options))
    [event] = decode(Message(value=value))
    if event.kind in ("change", "fragment"):
        keyed(event, event.key_columns)
    return event


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


def golden(shared: Path, file: str) -> list[dict[str, Any]]:
    rows = map(json.loads, lines(shared / "samples/seeds/golden_seed_examples.jsonl"))
    return [row for row in rows if row["file"] == file]


def names(image: Mapping[str, Any] | None) -> list[str] | None:
    return None if image is None else list(image)


@pytest.mark.parametrize("format_", SEEDS)
def test_the_vendors_examples_have_the_structure_the_specification_gives(
    format_: str, shared: Path
) -> None:
    file = SEEDS[format_]
    messages = lines(shared / "samples/seeds" / file)
    expected = golden(shared, file)
    assert len(expected) == len(messages) > 0
    for row, value in zip(expected, messages, strict=True):
        event = decoded(format_.removesuffix("_ext"), value, time_zone="Asia/Shanghai")
        change = event.kind == "change"
        images = [row.get("before_image"), row.get("after_image")]
        assert {
            "op": event.op,
            "before": names(event.before),
            "after": names(event.after),
            "images": [event.before_image, event.after_image],
            "db": event.db,
            "schema": event.schema,
            "table": event.table,
            "tx_id": event.tx_id,
        } == {
            "op": OPS[row["op"]],
            "before": row["before_cols"],
            "after": row["after_cols"],
            "images": [None if word in (None, "none") else word for word in images],
            "db": row.get("db"),
            "schema": row.get("schema"),
            "table": row.get("table"),
            "tx_id": row.get("tx_id"),
        }
        known = [CODES[word] for word in row["warnings"]]
        untyped = {Code.UNTYPED.value} if change else set()
        assert set(event.warnings or ()) == {code.value for code in known if code} | untyped
        if format_ == "oms_shareplex":
            assert list((event.key or {}).values()) == row["key_values"]
            assert event.scn == row["order"]["raw"]
            # The zone of the row's own TIMESTAMP 1606233662.
            assert event.event_time == 1606233662 * 10**6
        else:
            assert event.event_time == row["ts_event_ms"] * 1000
            sent = row.get("ts_process_ms")
            assert event.sent_time == (None if sent is None else sent * 1000)
            key = row["key"] if format_.startswith("oms_default") else None
            assert event.key == key


@pytest.mark.parametrize("format_", SEEDS)
def test_no_digit_of_the_vendors_examples_changes(format_: str, shared: Path) -> None:
    for value in lines(shared / "samples/seeds" / SEEDS[format_]):
        event = decoded(format_.removesuffix("_ext"), value)
        texts = {*(event.before or {}).values(), *(event.after or {}).values()}
        tokens = set(re.findall(r'"(?:col\d+|string)":(-?\d[\d.E+-]*)', value.decode()))
        assert tokens <= texts


def test_the_examples_as_printed_are_those_repaired_or_rejects(shared: Path) -> None:
    folder = shared / "samples/seeds"
    printed = sorted((folder / "as-printed").glob("seed001_*"))
    repaired = {
        "oms_default": iter(lines(folder / SEEDS["oms_default"])),
        "oms_default_extend": iter(lines(folder / SEEDS["oms_default_ext"])),
        "oms_dataworks2": iter(lines(folder / SEEDS["oms_dataworks"])),
        "oms_shareplex": iter(lines(folder / SEEDS["oms_shareplex"])),
    }
    seen = 0
    for path in printed:
        found = re.fullmatch(r"seed001_\d+_line\d+_(\w+)_(\w*)", path.stem)
        assert found is not None
        if found[1] == "unparseable":
            for format_ in ("oms_default", "oms_dataworks", "oms_shareplex"):
                with pytest.raises(DecodeError):
                    decoded(format_, path.read_bytes())
        elif found[1] in repaired:
            format_ = {"oms_default_extend": "oms_default", "oms_dataworks2": "oms_dataworks"}.get(
                found[1], found[1]
            )
            event = decoded(format_, path.read_bytes())
            other = decoded(format_, next(repaired[found[1]]))
            event.warnings = [w for w in event.warnings or () if w != Code.LENIENT_JSON.value]
            assert event == other
            seen += 1
    assert seen == 13


@given(
    earlier=st.tuples(st.integers(10**9, 4 * 10**9), st.integers(0, 99_999)),
    later=st.tuples(st.integers(10**9, 4 * 10**9), st.integers(0, 99_999)),
    width=st.integers(1, 5),
)
def test_store_sequences_compare_as_their_time_and_counter_do(
    earlier: tuple[int, int], later: tuple[int, int], width: int
) -> None:
    texts = [f"{time}{counter:0{width}d}" for time, counter in (earlier, later)]
    assert [split_sequence(text, "auto", []) for text in texts] == [earlier, later]


@pytest.mark.parametrize(
    ("given_", "unit", "expected"),
    [
        ("1704134400123000017", "auto", (1704134400, 123 * 10**15 + 17)),
        ("17041344001231", "milliseconds", (1704134400, 123 * 10**15 + 1)),
        ("1704134400123", "seconds", (1704134400, 123)),
        ("123456789", "auto", (123456789, 0)),
        (170413440000012, "auto", (1704134400, 12)),
        ("000170413440000012", "auto", (1704134400, 12)),
        ("0" * 20 + "17041344001231", "milliseconds", (1704134400, 123 * 10**15 + 1)),
        ("9999999999123", "auto", (9999999999123, 0)),
        ("9" * 25, "auto", None),
        ("1704134400" + "9" * 19, "seconds", None),
        ("9" * 31, "auto", None),
        ("-1", "auto", None),
        ("²", "auto", None),
        ("", "auto", None),
        ("000", "auto", None),
        (None, "auto", None),
    ],
)
def test_split_sequence(
    given_: int | str | None, unit: str, expected: tuple[int, int] | None
) -> None:
    assert split_sequence(given_, unit, []) == expected


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("007", 7),
        ("0" * 10 + "1704134400123000001", 1704134400123000001),
        ("0" * 30, 0),
        ("9223372036854775807", 2**63 - 1),
        ("0" + "9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("0" + "9223372036854775808", None),
        ("0" * 30 + "x", None),
        ("0" * 30 + "²", None),
        ("-1", None),
        ("", None),
        (None, None),
    ],
)
def test_numbers_are_compared_as_numbers_however_many_zeros_lead(
    given_: str | None, expected: int | None
) -> None:
    assert number_of(given_) == expected


@pytest.mark.parametrize(
    ("text", "time", "expected", "doubted"),
    [
        ("16093446711235", "1609344671", (1609344671, 1235), True),
        ("16093446711235", None, (1609344671, 1235), True),
        ("160934467112355", 1609344671, (1609344671, 12355), True),
        ("16093446711235", "1609344671123", (1609344671, 123 * 10**15 + 5), False),
        ("160934467100012", "1609344671", (1609344671, 12), False),
        ("1609344671124100", "1609344671", (1609344671, 124 * 10**15 + 100), False),
    ],
)
def test_the_unit_of_a_sequence_of_14_or_15_digits(
    text: str, time: int | str | None, expected: tuple[int, int], doubted: bool
) -> None:
    """Whatever the unit, the second stands first: what is read wrongly is wrong within it alone."""
    warnings: list[str] = []
    assert split_sequence(text, "auto", warnings, time=time) == expected
    assert warnings == (["sequence_unit_assumed"] if doubted else [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1606233662.012345", (1606233662012345, 10**6)),
        ("-1.5", (-15, 10)),
        ("1590315269000", (1590315269000, 1000)),
        ("1590315269000.123456789", (1590315269123456789, 10**9)),
        ("1590315269000.5", (1590315269500000000, 10**9)),
        ("1590315269123.5", (1590315269123, 1000)),
        ("1590315269000.1234567891", None),
        ("159031526900000", None),
        ("2020-11-25 00:01:02", None),
        ("1.5.2", None),
        ("-", None),
        ("", None),
    ],
)
def test_epoch_of(text: str, expected: tuple[int, int] | None) -> None:
    warnings: list[str] = []
    assert epoch_of(text, warnings) == expected
    ambiguous = text == "1590315269123.5"
    assert warnings == ([Code.TIME_AMBIGUOUS.value] if ambiguous else [])


@pytest.mark.parametrize(
    ("given_", "expected", "doubts"),
    [
        ("1704134400", 1704134400_000000, []),
        (1704134400, 1704134400_000000, []),
        ("1704134400123", 1704134400_123000, [Code.TS_UNIT_INFERRED.value]),
        (0, None, []),
        ("-1", None, []),
        ("9" * 21, None, [Code.EVENT_TIME_UNREAD.value]),
        ("²", None, [Code.EVENT_TIME_UNREAD.value]),
        ("soon", None, [Code.EVENT_TIME_UNREAD.value]),
        ("", None, []),
        (None, None, []),
    ],
)
def test_micros_of_seconds(
    given_: int | str | None, expected: int | None, doubts: list[str]
) -> None:
    warnings: list[str] = []
    assert (micros_of(given_, warnings, 1), warnings) == (expected, doubts)


MESSAGES = (
    b'{"prevStruct":{"id":1,"a":null},"postStruct":{"id":1,"a":null,"__light_type":{"id":'
    b'{"schemaType":"INT"}}},"allMetaData":{"record_primary_key":"id","record_primary_value":"1",'
    b'"dbType":"OB_MYSQL","storeDataSequence":170413440000001,"table_name":"t","db":"x.d",'
    b'"timestamp":"1704134400"},"recordType":"UPDATE"}',
    b'{"version":"2.0","schema":{"source":{"dbType":"ob_mysql","dbName":"d","table":"t"},"column":'
    b'[{"name":"id","type":"INT"},{"name":"at","type":"TIMESTAMP"}],"pk":["id"]},"payload":'
    b'{"after":{"data":{"id":1,"at":"1704134400.5"}},"op":"INSERT","timestamp":{"eventTime":'
    b"1704134400000}}}",
    b'{"data":{"id":1},"meta":{"op":"upd","table":"d.t","time":"2024-01-01T00:00:00","rowid":'
    b'"d.t-1","scn":"170413440000001"},"key":{"id":2}}',
)


@given(
    which=st.integers(0, 2),
    cuts=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 9), st.binary(max_size=9))),
)
def test_no_bytes_raise_anything_but_a_decode_error(
    which: int, cuts: list[tuple[int, int, bytes]]
) -> None:
    value = MESSAGES[which]
    for start, length, text in cuts:
        value = value[:start] + text + value[start + length :]
    for format_ in ("oms_default", "oms_dataworks", "oms_shareplex"):
        decode = FORMATS[format_].decoder(FormatOptions())
        try:
            events = list(decode(Message(value=value)))
        except DecodeError:
            continue
        assert [event.kind in ("change", "ddl", "control") for event in events] == [True]
