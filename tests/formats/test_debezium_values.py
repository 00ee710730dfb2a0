"""Values and rows of Debezium that no golden folder shows in so few words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ingest.codes import Code
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.wire.contract import Message
from tests.support.decoding import decoder

PG = {"connector": "postgresql", "db": "depot", "schema": "wms", "table": "crates", "lsn": 9}
MYSQL = {"connector": "mysql", "db": "depot", "table": "crates", "file": "b.1", "pos": 4}


def connect(type_: str, name: str | None = None, **more: Any) -> dict[str, Any]:
    """A column of Connect's schema without its field name."""
    return {"type": type_, "optional": True, **({"name": name} if name else {}), **more}


def propagated(type_: str, *sizes: int) -> dict[str, str]:
    named = zip(("length", "scale"), map(str, sizes), strict=False)
    source = {"type": type_, **dict(named)}
    return {f"__debezium.source.column.{name}": text for name, text in source.items()}


def fields(columns: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**said, "field": name} for name, said in columns.items()]


def message(
    columns: Mapping[str, Mapping[str, Any]], source: Mapping[str, Any] = PG, **images: Any
) -> bytes:
    """A row change with Connect's schema of its images, without blanks as Connect writes it."""
    given = {"before": None, "after": None, **images}
    of_image = {"type": "struct", "optional": True, "fields": fields(columns)}
    schema = {"type": "struct", "fields": [{**of_image, "field": name} for name in given]}
    payload = {"op": "c", "source": source, **given}
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def decoded(value: bytes | Mapping[str, Any], key: bytes | None = None, **given: Any) -> Event:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    (event,) = decoder("debezium", **given)(Message(data, key, topic="x.wms.crates"))
    return event


def one(said: Mapping[str, Any], value: Any, **given: Any) -> tuple[str | None, str, list[str]]:
    """The text and Spark type of one value by its schema, and what is warned of."""
    event = decoded(message({"a": said}, after={"a": value}), **given)
    assert event.after is not None and event.types is not None
    return event.after["a"], event.types.columns[0].type, event.warnings or []


def declared(type_: str, value: Any, source: Mapping[str, Any] = PG, **given: Any) -> Any:
    """The same of a message without schema, by the YAML."""
    sent = {"op": "c", "source": source, "after": {"a": value}}
    event = decoded(sent, columns={"depot.crates": {"a": type_}}, **given)
    assert event.after is not None and event.types is not None
    return event.after["a"], event.types.columns[0].type, event.warnings or []


TEXTS = ["1234", "12345678", "7", "-1234", "0.50", "1000000000000000"]


@pytest.mark.parametrize("text", TEXTS)
def test_digits_in_a_string_are_no_base64(text: str) -> None:
    said = connect("string", parameters=propagated("DECIMAL", 18, 2))
    assert one(said, text) == (text, "decimal(18,2)", [])
    declared_so = {"columns": {"depot.crates": {"a": "numeric(18,2)"}}}
    assert one(connect("string"), text, **declared_so) == (text, "decimal(18,2)", [])


def test_digits_in_the_string_of_a_key_are_no_base64() -> None:
    column = connect("string", parameters=propagated("NUMERIC", 4, 0))
    schema = {"type": "struct", "fields": fields({"a": column})}
    key = json.dumps({"schema": schema, "payload": {"a": "1234"}}).encode()
    value = message({"a": column}, op="d")
    assert decoded(value, key).key == {"a": "1234"}


@pytest.mark.parametrize(
    ("type_", "sent", "text"),
    [
        ("numeric(18,2)", "1234", "1234"),
        ("numeric(18,2)", "1E+3", "1000"),
    ],
)
def test_digits_that_are_base64_too_are_not_guessed(type_: str, sent: str, text: str) -> None:
    """Of one column `100` would be a hundred and `1000` another number."""
    with pytest.raises(DecodeError, match="digits or in base64") as refused:
        declared(type_, sent, MYSQL)
    assert refused.value.code is Code.BAD_VALUE
    told = {"decimal_handling": "string"}
    assert declared(type_, sent, MYSQL, options=told)[::2] == (text, [])
    assert declared(type_, "123", MYSQL)[::2] == ("123", [])


@pytest.mark.parametrize("type_", ["bigint unsigned", "decimal(10,2) unsigned"])
def test_digits_of_an_unsigned_number_are_no_base64(type_: str) -> None:
    """Base64 of a number that is not negative begins with a letter."""
    assert declared(type_, "12345678", MYSQL)[::2] == ("12345678", [])


def test_a_key_that_cannot_be_read_is_no_change_without_a_key() -> None:
    deleted = {"op": "d", "source": MYSQL, "before": None, "after": None}
    with pytest.raises(DecodeError, match="digits or in base64"):
        decoded(deleted, b'{"id":"1234"}', columns={"depot.crates": {"id": "numeric(18,0)"}})


SQLSERVER = {"connector": "sqlserver", "db": "depot", "schema": "dbo", "table": "crates"}


@pytest.mark.parametrize(
    ("source", "type_", "sent", "expected"),
    [
        (SQLSERVER, "money", "AeJA", ("12.3456", "decimal(19,4)", [])),
        (SQLSERVER, "smallmoney", "JxA=", ("1.0000", "decimal(10,4)", [])),
        (PG, "money", "AeJA", ("AeJA", "string", ["decimal_scale"])),
        (PG, "money", "12.30", ("12.30", "string", [])),
        (PG, "numeric(10,2)[]", ["AQ==", None, "AeJA"], ('["0.01",null,"1234.56"]', "string", [])),
        (PG, "date[]", [19675], ('["2023-11-14"]', "string", [])),
        (PG, "timestamp[]", [1700000000123456], ('["2023-11-14 22:13:20.123456"]', "string", [])),
        (PG, "numeric[]", [{"scale": 2, "value": "AQ=="}], ('["0.01"]', "string", [])),
        (PG, "integer[]", [1, 2], ("[1, 2]", "string", [])),
    ],
)
def test_declared_values_are_read_as_with_a_schema(
    source: Mapping[str, Any], type_: str, sent: Any, expected: Any
) -> None:
    assert declared(type_, sent, source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (PG, ("0.00123", "decimal(5,5)", [])),
        ({**PG, "connector": "oracle"}, ("0.00123", "decimal(5,5)", [])),
        (MYSQL, ("ew==", "string", ["decimal_scale"])),
    ],
)
def test_a_scale_above_the_precision(source: Mapping[str, Any], expected: Any) -> None:
    """NUMBER(3,5) of Oracle and numeric(3,5) of PostgreSQL hold small numbers; MySQL has none
    such, so there the two were mixed up."""
    sizes = {"scale": "5", "connect.decimal.precision": "3"}
    said = connect("bytes", "org.apache.kafka.connect.data.Decimal", parameters=sizes)
    event = decoded(message({"a": said}, source, after={"a": "ew=="}))
    assert event.after is not None and event.types is not None
    found = event.after["a"], event.types.columns[0].type, event.warnings or []
    assert found == expected


@pytest.mark.parametrize(
    ("name", "parts", "text"),
    [
        ("StructuredDate", {"year": -44, "month": 3, "day": 15}, "-0044-03-15"),
        ("StructuredDate", {"year": 0, "month": 0, "day": 0}, "0000-00-00"),
        ("StructuredTime", {"hour": 24, "minute": 0, "second": 0, "nanos": 0}, "24:00:00"),
        (
            "StructuredTime",
            {"hour": 0, "minute": -2, "second": -3, "nanos": -5000},
            "-00:02:03.000005",
        ),
        ("StructuredTime", {"hour": -838, "minute": -59, "second": -59, "nanos": 0}, "-838:59:59"),
    ],
)
def test_times_in_parts(name: str, parts: Mapping[str, int], text: str) -> None:
    said = connect("struct", f"io.debezium.time.{name}")
    assert one(said, parts)[0] == text


def test_bytes_in_a_string_whose_mode_is_not_told_are_not_guessed() -> None:
    """`binary.handling.mode` hex writes `deadbeef`, which is base64 of other bytes."""
    said = connect("string", parameters=propagated("BYTEA"))
    with pytest.raises(DecodeError, match="hexadecimal digits"):
        one(said, "deadbeef")
    assert one(said, "3q2+7w==") == ("3q2+7w==", "binary", [])
    assert one(said, "deadbeef", options={"binary_handling": "hex"}) == ("3q2+7w==", "binary", [])


def test_a_wide_unsigned_number_in_a_string() -> None:
    given = {"columns": {"depot.crates": {"a": "bigint unsigned"}}}
    options = {"bigint_unsigned_handling": "precise"}
    assert one(connect("string"), "1234", options=options, **given)[0] == "1234"


WORDS = [
    *[("NAN", "NaN"), ("POSITIVE_INFINITY", "Infinity"), ("NEGATIVE_INFINITY", "-Infinity")],
    *[("NaN", "NaN"), ("Infinity", "Infinity"), ("-Infinity", "-Infinity")],
]


@pytest.mark.parametrize(("word", "text"), WORDS)
@pytest.mark.parametrize("sizes", [(), (10, 2)])
def test_a_decimal_that_is_no_number(word: str, text: str, sizes: tuple[int, ...]) -> None:
    type_ = "decimal(10,2)" if sizes else "string"
    said = connect("string", parameters=propagated("NUMERIC", *sizes))
    assert one(said, word) == (text, type_, [])
    of_yaml = "numeric(10,2)" if sizes else "numeric"
    assert declared(of_yaml, word) == (text, type_, [])
    assert declared(of_yaml, word, options={"decimal_handling": "string"}) == (text, type_, [])


@pytest.mark.parametrize(
    ("name", "sent", "text"),
    [
        ("Date", -2147472692, "infinity"),
        ("Date", -2147472691, "-infinity"),
        ("Timestamp", 9223372036825200, "infinity"),
        ("Timestamp", -9223372036832400, "-infinity"),
        ("MicroTimestamp", 9223372036825200000, "infinity"),
        ("MicroTimestamp", 9223372036825200, "2262-04-11 23:47:16.8252"),
        ("NanoTimestamp", 2**63 - 1, "infinity"),
        ("NanoTimestamp", -(2**63), "-infinity"),
        ("NanoTimestamp", 2**63 - 1001, "2262-04-11 23:47:16.854774807"),
        ("IsoDate", "-5877611-06-21Z", "infinity"),
        ("IsoDate", "-5877611-06-22Z", "-infinity"),
        ("IsoTimestamp", "+294247-01-10T04:00:25.2Z", "infinity"),
        ("IsoTimestamp", "-290308-12-21T19:59:27.6Z", "-infinity"),
    ],
)
def test_an_infinity_is_one_in_every_unit(name: str, sent: Any, text: str) -> None:
    type_ = "string" if isinstance(sent, str) else "int32" if name == "Date" else "int64"
    found, _, warnings = one(connect(type_, f"io.debezium.time.{name}"), sent)
    assert (found, warnings) == (text, [])


@pytest.mark.parametrize("type_", ["timestamp", "timestamp without time zone"])
@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (1717200000120400, "2024-06-01 00:00:00.1204"),
        (86400000000, "1970-01-02 00:00:00"),
        (9223372036825200000, "infinity"),
        (-9223372036832400, "-infinity"),
        (2**63 - 1, "infinity"),
    ],
)
def test_a_declared_timestamp_of_postgresql_is_in_microseconds(
    type_: str, sent: int, text: str
) -> None:
    assert declared(type_, sent) == (text, "timestamp_ntz", [])


def test_a_declared_timestamp_of_oracle_is_in_microseconds() -> None:
    source = {"connector": "oracle", "db": "depot", "schema": "W", "table": "crates", "scn": "9"}
    assert declared("TIMESTAMP", 86400000000, source)[0] == "1970-01-02 00:00:00"


@pytest.mark.parametrize(
    ("name", "sent", "text"),
    [
        ("IsoDate", "-0043-03-15Z", "-0043-03-15"),
        ("ZonedTimestamp", "-0043-03-15T06:06:32.000000Z", "-0043-03-15T06:06:32Z"),
        ("ZonedTimestamp", "+12023-12-31T18:30:00.100000Z", "+12023-12-31T18:30:00.1Z"),
        ("ZonedTimestamp", "+10000-01-01T00:00:00Z", "+10000-01-01T00:00:00Z"),
    ],
)
def test_years_beyond_four_digits(name: str, sent: str, text: str) -> None:
    assert one(connect("string", f"io.debezium.time.{name}"), sent)[::2] == (text, [])


@pytest.mark.parametrize(
    ("type_", "sent", "text", "kind"),
    [
        ("bit(1)", True, "true", "boolean"),
        ("bit(5)", "Fg==", "22", "decimal(20,0)"),
        ("bit(70)", "qqqqqqqqqqoK", "0" * 2 + "10" * 34, "string"),
        ("bit varying(9)", "AQ==", "1", "decimal(20,0)"),
        ("varbit", "BQ==", "101", "string"),
    ],
)
def test_declared_bits_are_those_of_a_schema(type_: str, sent: Any, text: str, kind: str) -> None:
    assert declared(type_, sent) == (text, kind, [])
    said = connect("bytes", "io.debezium.data.Bits", parameters={"length": "2147483647"})
    if "(" in type_:
        said["parameters"] = {"length": type_.partition("(")[2][:-1]}
    if sent is not True:
        assert one(said, sent) == (text, kind, [])


@pytest.mark.parametrize("prefix", ["__", "meta_"])
@pytest.mark.parametrize(("word", "op"), [("true", "delete"), ("false", "update")])
def test_deleted_has_its_own_prefix(prefix: str, word: str, op: str) -> None:
    event = decoded({"id": 1, "__deleted": word}, options={"prefix": prefix})
    row = event.before if op == "delete" else event.after
    assert (event.op, row) == (op, {"id": "1"})
    event = decoded({"id": 1, f"{prefix}op": op[0], "__deleted": word}, options={"prefix": prefix})
    row = event.before if op == "delete" else event.after
    assert (event.op, row) == (op, {"id": "1"})


@pytest.mark.parametrize("unit", ["Micro", "Nano"])
@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("5400000000.0", "5400000000"),
        ("5.4E9", "5400000000"),
        ("-5.15108E14", "-515108000000000"),
        ("5400000000", "5400000000"),
        ("-0.0", "0"),
        ("2.5E-1", "0.25"),
    ],
)
def test_a_duration_that_comes_as_a_double_has_the_text_of_a_whole_one(
    unit: str, token: str, text: str
) -> None:
    said = connect("double", f"io.debezium.time.{unit}Duration")
    value = message({"a": said}, after={"a": "@"}).replace(b'"@"', token.encode())
    event = decoded(value)
    assert (event.after, event.warnings or []) == ({"a": text}, [])


def test_a_flattened_row_of_nothing_but_marks() -> None:
    for marks in ({"__deleted": "false"}, {"__op": "c"}, {"__op": "u", "__table": "crates"}):
        with pytest.raises(DecodeError, match="expected columns beside __op") as refused:
            decoded(marks, b'{"id":1}')
        assert refused.value.code == Code.NO_IMAGE
    for marks in ({"__deleted": "true"}, {"__op": "d"}):
        event = decoded(marks, b'{"id":1}')
        assert (event.op, event.key, event.before, event.before_image) == (
            *("delete", {"id": "1"}, None, None),
        )


@pytest.mark.parametrize("word", ["yes", "1", 0, "1717199999600000000.0", {}])
def test_deleted_is_true_or_false(word: Any) -> None:
    with pytest.raises(DecodeError, match="expected __deleted to be true or false, got "):
        decoded({"id": 1, "__deleted": word})


def test_the_text_null_is_no_value() -> None:
    event = decoded(b"null", b'{"id":1}')
    assert (event.kind, event.op_raw) == ("control", "tombstone")
    event = decoded(b"null", b'{"id":1}', options={"tombstone": "delete"})
    assert (event.op, event.table, event.key) == ("delete", "crates", {"id": "1"})


@pytest.mark.parametrize("name", ["main.crates", "main.wms.crates", "wms.crates", "crates"])
def test_columns_and_keys_are_found_under_the_default_database(name: str) -> None:
    given: dict[str, Any] = {"columns": {name: {"day": "date"}}, "keys": {name: ["id"]}}
    options = {"flattened": True, "topic_names": "schema.table"}
    event = decoded({"day": 1}, default_database="main", options=options, **given)
    assert event.after == {"day": "1970-01-02"}


def test_columns_are_found_by_schema_and_table() -> None:
    sent = {"op": "c", "source": PG, "after": {"day": 1}}
    for name in ("depot.wms.crates", "depot.crates", "wms.crates", "crates"):
        event = decoded(sent, columns={"crate": {}, name: {"day": "date"}})
        assert event.after == {"day": "1970-01-02"}


KEYED: dict[str, dict[str, Any]] = {
    "id": {"type": "int32", "optional": False},
    "count": {"type": "int32", "optional": False},
    "memo": {"type": "string", "optional": False},
    "label": {"type": "string", "optional": True, "default": "none"},
    "open": {"type": "boolean", "optional": False},
    "made": {"type": "int64", "optional": False, "name": "io.debezium.time.MicroTimestamp"},
    "seen": {"type": "string", "optional": False, "name": "io.debezium.time.ZonedTimestamp"},
    "price": {
        **{"type": "bytes", "optional": False, "name": "org.apache.kafka.connect.data.Decimal"},
        **{"parameters": {"scale": "2"}, "default": "Au4="},
    },
    "note": {"type": "string", "optional": True},
    "area": {"type": "struct", "optional": False, "name": "io.debezium.data.geometry.Geometry"},
    "spot": {"type": "struct", "optional": False, "name": "io.debezium.data.geometry.Point"},
}
MADE_UP: dict[str, Any] = {
    "id": 7,
    "count": 0,
    "memo": "",
    "label": "none",
    "open": False,
    "made": 0,
}
MADE_UP |= {"seen": "1970-01-01T00:00:00.000000Z", "price": "Au4=", "note": None}
MADE_UP |= {"area": {"wkb": "AQcAAAAAAAAA", "srid": None}}
MADE_UP |= {"spot": {"x": 0.0, "y": 0.0, "wkb": "AQEAAAAAAAAAAAAAAAAAAAAAAAAA", "srid": None}}


def before(
    other: Mapping[str, Any], source: Mapping[str, Any] = PG, *, identity: str = "unknown"
) -> Event:
    value = message(KEYED, source, op="d", before={**MADE_UP, **other})
    return decoded(value, b'{"id":7}', options={"replica_identity": identity})


def test_what_debezium_makes_up_beside_a_key_is_no_row_before() -> None:
    others: list[dict[str, Any]] = [{}, {"label": None}, {"price": "AA=="}]
    for other in others:
        event = before(other)
        assert (event.before, event.before_image) == ({"id": "7"}, "key")


@pytest.mark.parametrize("name", [name for name in KEYED if name != "id"])
def test_one_value_of_its_own_makes_a_row_before(name: str) -> None:
    own = {"count": 1, "memo": "0", "label": "", "open": True, "made": 1, "price": "AQ=="}
    own |= {"area": {**MADE_UP["area"], "srid": 4326}, "spot": {**MADE_UP["spot"], "x": 1.0}}
    event = before({name: own.get(name, "1970-01-01T00:00:01Z")})
    assert event.before_image == "partial"
    assert event.before is not None and event.before.keys() == KEYED.keys()


def test_where_whole_rows_are_sent_a_zero_is_one() -> None:
    for event in (before({}, MYSQL), before({}, identity="full")):
        assert event.before_image == "full"
        assert event.before is not None and event.before["count"] == "0"
