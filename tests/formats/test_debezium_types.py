"""What Debezium makes up for a required column that PostgreSQL did not send, type by type.

Source: the fallback values of JdbcValueConverters and PostgresValueConverter.
"""

from __future__ import annotations

import msgspec
import pytest

from ingest.formats.debezium.schema import invented
from ingest.formats.debezium.types import PLAIN, SEMANTIC, read
from ingest.wire.avro.connect import CONNECT_DATA, DEBEZIUM_TIME, Field

EPOCH = "1970-01-01 00:00:00"
# GEOMETRYCOLLECTION EMPTY, as WKB.
EMPTY = '{"wkb":"AQcAAAAAAAAA","srid":null}'
# POINT(0 0), as WKB.
ORIGIN = '{"x":0.0,"y":0.0,"wkb":"AQEAAAAAAAAAAAAAAAAAAAAAAAAA","srid":null}'
MADE_UP: dict[str, tuple[str, set[str]]] = {
    CONNECT_DATA + "Date": ("int32", {"1970-01-01"}),
    CONNECT_DATA + "Time": ("int32", {"00:00:00"}),
    CONNECT_DATA + "Timestamp": ("int64", {EPOCH}),
    CONNECT_DATA + "Decimal": ("bytes", {"0.00", "0"}),
    DEBEZIUM_TIME + "Date": ("int32", {"1970-01-01"}),
    DEBEZIUM_TIME + "Time": ("int32", {"00:00:00"}),
    DEBEZIUM_TIME + "MicroTime": ("int64", {"00:00:00"}),
    DEBEZIUM_TIME + "NanoTime": ("int64", {"00:00:00"}),
    DEBEZIUM_TIME + "Timestamp": ("int64", {EPOCH}),
    DEBEZIUM_TIME + "MicroTimestamp": ("int64", {EPOCH}),
    DEBEZIUM_TIME + "NanoTimestamp": ("int64", {EPOCH}),
    DEBEZIUM_TIME + "ZonedTimestamp": ("string", {"1970-01-01T00:00:00Z"}),
    DEBEZIUM_TIME + "ZonedTime": ("string", {"00:00:00Z"}),
    DEBEZIUM_TIME + "IsoDate": ("string", {"1970-01-01"}),
    DEBEZIUM_TIME + "IsoTime": ("string", {"00:00:00"}),
    DEBEZIUM_TIME + "IsoTimestamp": ("string", {EPOCH}),
    DEBEZIUM_TIME + "Year": ("int32", {"0"}),
    DEBEZIUM_TIME + "MicroDuration": ("int64", {"0"}),
    DEBEZIUM_TIME + "NanoDuration": ("int64", {"0"}),
    DEBEZIUM_TIME + "Interval": ("string", {"P0Y0M0DT0H0M0S"}),
    # Of Debezium 3.7, which is not out yet: what it makes up is not known.
    DEBEZIUM_TIME + "StructuredDate": ("struct", set()),
    DEBEZIUM_TIME + "StructuredTime": ("struct", set()),
    DEBEZIUM_TIME + "StructuredTimestamp": ("struct", set()),
    DEBEZIUM_TIME + "StructuredZonedTime": ("struct", set()),
    DEBEZIUM_TIME + "StructuredZonedTimestamp": ("struct", set()),
    "io.debezium.data.geometry.Geometry": ("struct", {EMPTY}),
    "io.debezium.data.geometry.Geography": ("struct", {EMPTY}),
    "io.debezium.data.geometry.Point": ("struct", {ORIGIN}),
    "io.debezium.data.VariableScaleDecimal": ("struct", {"0"}),
    "io.debezium.data.Bits": ("bytes", {"0"}),
    "io.debezium.data.Json": ("string", {"{}", ""}),
}
PARAMETERS = {CONNECT_DATA + "Decimal": {"scale": "2"}, "io.debezium.data.Bits": {"length": "4"}}


def required(name: str | None, type_: str, **given: object) -> Field:
    return msgspec.structs.replace(
        Field(type=type_, name=name, optional=False, parameters=PARAMETERS.get(name or "")), **given
    )


def made_up(field: Field, *, number: bool = False) -> set[str]:
    reading = read(field)
    return set(invented(field, reading.convert, reading.nested, number=number))


def test_every_semantic_type_has_a_zero_here() -> None:
    assert SEMANTIC.keys() == MADE_UP.keys()


@pytest.mark.parametrize("name", MADE_UP)
def test_what_is_made_up_is_known_by_its_text(name: str) -> None:
    type_, expected = MADE_UP[name]
    assert made_up(required(name, type_)) == expected
    assert made_up(required(name, type_, optional=True)) == set()


@pytest.mark.parametrize("name", [name for name in SEMANTIC if SEMANTIC[name].zeros is None])
def test_a_type_without_a_zero_of_its_own_reads_that_of_its_connect_type(name: str) -> None:
    convert = read(required(name, MADE_UP[name][0])).convert
    assert convert is not None
    for zero in PLAIN[MADE_UP[name][0]].zeros:
        warnings: list[str] = []
        convert(msgspec.json.decode(zero), warnings)
        assert warnings == []


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        *((type_, {"0"}) for type_ in ("int8", "int16", "int32", "int64")),
        *((type_, {"0.0", "0"}) for type_ in ("float", "double", "float32", "float64")),
        ("boolean", {"false"}),
        ("string", {""}),
        ("bytes", {""}),
        ("array", {"[]"}),
        ("map", {"{}"}),
        ("struct", set()),
    ],
)
def test_connects_own_types_have_theirs(type_: str, expected: set[str]) -> None:
    assert made_up(required(None, type_)) == expected
    # A name that says nothing of how a value is written: an enum, a UUID.
    assert made_up(required("io.debezium.data.Uuid", type_)) == expected


def test_decimals_written_as_text_have_a_zero_of_theirs() -> None:
    assert made_up(required(None, "string"), number=True) == {"", "0"}
    assert made_up(required(None, "int32"), number=True) == {"0"}
