"""Peculiarities of Aliyun DTS, and the samples of those who read it too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ingest.events import Event
from ingest.formats import FORMATS
from ingest.formats.dts.record import read
from ingest.formats.dts.values import _codec
from ingest.formats.oceanbase.values import date as date_of
from ingest.wire.avro.bytes import number
from ingest.wire.contract import Message
from ingest.wire.floats import double_of, single_of
from tests.support.avro_encoders import Value, dts_record, written
from tests.support.avro_schemas import DTS_14, DTS_15
from tests.support.decoding import code_of, decoder, events

SAMPLES = (*("mysql-insert", "mysql-update", "mysql-begin-14", "mysql-commit", "mysql-heartbeat"),)


@pytest.mark.parametrize("name", SAMPLES)
def test_peers(shared: Path, name: str) -> None:
    file = shared / "samples" / "peers" / "dts-avro" / f"{name}.bin"
    wanted = json.loads(file.with_suffix(".expected.json").read_text())["expect"]
    [event] = events(decoder("dts"), file.read_bytes())
    found = {
        "op": event.op,
        "db": event.db,
        "table": event.table,
        "keys": list(event.key_columns or ()),
        "before": event.before,
        "after": event.after,
        "gtid": event.tx_id,
        "event_ts_ms": (event.event_time or 0) // 1000,
        "reader_ts_ms": (event.sent_time or 0) // 1000,
        "ordering": list(event.order or ()),
        "types": {c.name: c.source_type.upper() for c in event.types.columns}
        if event.types is not None
        else None,
    }
    for side in ("before", "after"):
        if wanted.get(side) is not None:
            wanted[side] = {column: str(value) for column, value in wanted[side].items()}
    wanted.pop("server_id", None)
    assert {name: found[name] for name in wanted} == wanted


def test_both_generations_to_the_last_byte() -> None:
    record = dts_record(operation="HEARTBEAT", bornTimestamp=2**40)
    older, newer = written(DTS_14, record), written(DTS_15, record)
    assert newer.startswith(older) and len(newer) > len(older)
    assert read(older) == read(newer)
    decode = decoder("dts")
    for wrong in (older[:-1], newer[:-1], newer + b"\0", older + b"\0\0"):
        assert code_of(decode, wrong) == "bad_avro"


def test_fields_are_compared_with_those_of_the_same_table_alone() -> None:
    """Another table's fields, or the same table's after an ALTER, are read anew."""

    def of(table: str, *names: str) -> bytes:
        return written(
            DTS_15,
            dts_record(
                objectName=f"farm.{table}",
                fields=[{"name": name, "dataTypeNumber": 3} for name in names],
                afterImages=[("Integer", {"precision": 4, "value": "1"})] * len(names),
            ),
        )

    decode = decoder("dts")
    sent = [("a", "id", "x"), ("b", "id"), ("a", "id", "x", "y"), ("a", "id", "x")]
    rows = [events(decode, of(*columns))[0].after for columns in sent]
    assert [list(row or ()) for row in rows] == [list(columns[1:]) for columns in sent]


def test_what_was_recognised_is_decoded_once() -> None:
    """The record that recognising has read is handed over, and never used for other bytes."""
    from ingest.formats.detect import recognised

    value = written(DTS_15, dts_record(operation="HEARTBEAT", id=7))
    other = written(DTS_15, dts_record(operation="COMMIT", id=8))
    assert recognised(Message(value)).name == "dts"
    decode = decoder("dts")
    assert [event.id for event in events(decode, other)] == ["8"]
    assert [event.id for event in events(decode, value)] == ["7"]


@pytest.mark.parametrize("found", [0, -1, 1, 63, -64, 64, 2**31, -(2**63), 2**63 - 1])
def test_numbers(found: int) -> None:
    data = written("long", found)
    assert number(data, 0) == (found, len(data))


def test_a_decimal_column_is_as_wide_as_its_values_have_been() -> None:
    """DTS sends the digits and the scale of each value, not of its column: `348.00` as (5,2),
    `0.00` as (1,2), as Java's BigDecimal counts them."""

    def of(value: Value) -> bytes:
        return written(
            DTS_15,
            dts_record(
                objectName="farm.crop",
                fields=[{"name": "price", "dataTypeNumber": 246}],
                afterImages=[value],
            ),
        )

    def sized(text: str, precision: int, scale: int) -> Value:
        return "Decimal", {"value": text, "precision": precision, "scale": scale}

    decode = decoder("dts")
    sent = [
        (sized("0.00", 1, 2), "decimal(2,2)"),
        (sized("348.00", 5, 2), "decimal(5,2)"),
        (None, "decimal(5,2)"),
        (sized("1E+3", 1, -3), "decimal(6,2)"),
        (sized("0.05", 1, 2), "decimal(6,2)"),
        (sized("0.125", 3, 3), "decimal(7,3)"),
        (sized("NaN", 0, 0), "decimal(7,3)"),
        (None, "decimal(7,3)"),
    ]
    for value, type_ in sent:
        types = events(decode, of(value))[0].types
        assert types is not None and [column.source_type for column in types.columns] == [type_]


def test_documents_of_mongodb_come_without_a_list_of_columns() -> None:
    """The vendor's reader names the two values of such a record itself."""

    def document(id_: str, text: str) -> list[Value]:
        named = "Character", {"charset": "utf8", "value": id_.encode()}
        return [("TextObject", {"type": "JSON", "value": text}), named]

    def of(operation: str, **images: Value) -> Event:
        record = dts_record(
            source={"sourceType": "MongoDB", "version": "4.2"},
            operation=operation,
            objectName="farm.crop",
            **images,
        )
        return events(decoder("dts"), written(DTS_15, record))[0]

    rye, oats = document("5f0c", '{"kind": "rye"}'), document("5f0c", '{"kind": "oats"}')
    update = of("UPDATE", beforeImages=rye, afterImages=oats)
    assert update.key_columns == ("_id",)
    assert update.before == {"_value": '{"kind": "rye"}', "_id": "5f0c"}
    assert update.after == {"_value": '{"kind": "oats"}', "_id": "5f0c"}
    assert of("INSERT", afterImages=oats).after == update.after
    assert of("DELETE", beforeImages=rye).before == update.before
    command = of("COMMAND", afterImages='{"drop": "crop"}')
    assert (command.op, command.ddl) == ("ddl", '{"drop": "crop"}')
    assert of("NOOP").op == "other"


@pytest.mark.parametrize("version", [0, 16, 170844600])
def test_a_version_is_whatever_the_server_calls_its_own(version: int) -> None:
    """170844600 came from MySQL 8.0.18; the vendor's reader skips the field."""
    value = written(DTS_15, dts_record(operation="NOOP", version=version))
    assert code_of(decoder("dts"), value) is None
    assert FORMATS["dts"].recognise_bytes(Message(value))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("year", "text"), [(-44, "-0044-03-15"), (10000, "10000-03-15"), (2024, "2024-03-15")]
)
def test_a_date_of_a_far_year_takes_no_neighbour_with_it(year: int, text: str) -> None:
    parts = dict.fromkeys(("hour", "minute", "second", "millis"))
    fields = [{"name": name, "dataTypeNumber": number} for name, number in (("id", 3), ("at", 10))]
    date: Value = ("DateTime", {"year": year, "month": 3, "day": 15, **parts})
    row: list[Value] = [("Integer", {"precision": 4, "value": "1"}), date]
    record = dts_record(objectName="farm.crop", fields=fields, afterImages=row)
    [event] = events(decoder("dts"), written(DTS_15, record))
    assert event.after == {"id": "1", "at": text}
    assert (event.warnings == ["value_not_of_type"]) is (year != 2024)
    assert date_of(year, 3, 15, []) == text


@pytest.mark.parametrize(
    ("source", "number", "parts", "text"),
    [
        ("MySQL", 7, (0, 0), "0000-00-00 00:00:00"),
        ("DRDS", 17, (0, 0), "0000-00-00 00:00:00"),
        ("MySQL", 7, (1, 0), "1970-01-01T00:00:01Z"),
        ("PostgreSQL", 1184, (0, 0), "1970-01-01T00:00:00Z"),
    ],
)
def test_a_timestamp_of_zero_is_mysqls_zero_date(
    source: str, number: int, parts: tuple[int, int], text: str
) -> None:
    """Its TIMESTAMP begins a second later; 0 is how MySQL itself stores `0000-00-00 00:00:00`."""
    seconds, millis = parts
    record = dts_record(
        source={"sourceType": source, "version": "8"},
        objectName="farm.crop",
        fields=[{"name": "at", "dataTypeNumber": number}],
        afterImages=[("Timestamp", {"timestamp": seconds, "millis": millis})],
    )
    [event] = events(decoder("dts"), written(DTS_15, record))
    assert event.after == {"at": text}
    assert ("zero_date" in (event.warnings or ())) is text.startswith("0000")


@pytest.mark.parametrize(
    ("indexes", "key"),
    [
        ("{}", ("__#alibaba_rds_row_id#__",)),
        (None, ("__#alibaba_rds_row_id#__",)),
        ('{"PRIMARY":["id"]}', ("id",)),
    ],
)
def test_a_table_without_a_key_has_the_row_id_that_rds_hides_in_it(
    indexes: str | None, key: tuple[str, ...]
) -> None:
    def row(id_: str) -> list[Value]:
        return [("Integer", {"precision": 4, "value": value}) for value in (id_, "44")]

    record = dts_record(
        operation="UPDATE",
        objectName="farm.crop",
        tags={} if indexes is None else {"pk_uk_info": indexes},
        fields=[
            {"name": "id", "dataTypeNumber": 3},
            {"name": "__#alibaba_rds_row_id#__", "dataTypeNumber": 8},
        ],
        beforeImages=row("1"),
        afterImages=row("2"),
    )
    [event] = events(decoder("dts"), written(DTS_15, record))
    assert event.key_columns == key
    assert event.after == {"id": "2", "__#alibaba_rds_row_id#__": "44"}


def test_utf_16_without_a_mark_is_big_endian() -> None:
    raw = "\u5c0f\u9ea6".encode("utf-16-be")
    for charset in ("UTF-16", "utf16"):
        assert _codec(charset.encode())(raw) == "\u5c0f\u9ea6"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "single", "double"),
    [
        ("1.2222", "1.2222", "1.2222"),
        ("0.1", "0.1", "0.1"),
        ("16777217", "16777216.0", "16777217.0"),
        ("3.4028235e38", "3.4028235e+38", "3.4028235e+38"),
        ("1e-45", "1.4013e-45", "1e-45"),
        ("-0.0", "-0.0", "-0.0"),
        ("NaN", "NaN", "NaN"),
        ("-Infinity", "-Infinity", "-Infinity"),
    ],
)
def test_floats_given_as_text(text: str, single: str, double: str) -> None:
    assert (single_of(text), double_of(text)) == (single, double)
