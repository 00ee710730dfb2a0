"""Values are unified: the same row has the same text over every wire, digit for digit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.formats import FORMATS
from tests.support.canonical import ABSENT, KNOWN, OF_VALUES, lost_by, text_of
from tests.support.changes import Change
from tests.support.encoders import WIRES
from tests.support.wires import read

LEAP = datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)
VALUES: dict[str, tuple[str, Any, str | None]] = {
    "id": ("int", -7, "-7"),
    "most": ("bigint", 2**63 - 1, "9223372036854775807"),
    "unsigned": ("bigint unsigned", 2**64 - 1, "18446744073709551615"),
    "wide": ("decimal(65,30)", Decimal("-" + "1234567" * 5 + "." + "890" * 10), None),
    "price": ("decimal(10,2)", Decimal("1.10"), "1.10"),
    "tiny": ("decimal(20,10)", Decimal("1.000E-7"), "0.0000001000"),
    "zero": ("decimal(20,10)", Decimal("0E-10"), "0.0000000000"),
    "yes": ("boolean", True, "true"),
    "no": ("boolean", False, "false"),
    "day": ("date", date(1969, 2, 28), "1969-02-28"),
    "made": ("datetime", datetime(2024, 2, 29, 23, 59, 59), "2024-02-29 23:59:59"),
    "millis": ("datetime(3)", datetime(2024, 2, 29, 0, 0, 0, 120_000), "2024-02-29 00:00:00.12"),
    "micros": ("datetime(6)", datetime(1001, 1, 2, 3, 4, 5, 6), "1001-01-02 03:04:05.000006"),
    "seen": ("timestamp", LEAP, "2024-02-29T23:59:59Z"),
    "exact": ("timestamp(6)", LEAP.replace(microsecond=120_340), "2024-02-29T23:59:59.12034Z"),
    "back": ("time(6)", -timedelta(hours=101, seconds=3, microseconds=400), "-101:00:03.0004"),
    "short": ("time(6)", timedelta(hours=1, minutes=2, seconds=3), "01:02:03"),
    "photo": ("blob", b"\x00\xff\x80a", "AP+AYQ=="),
    "hollow": ("blob", b"", ""),
    "label": ("varchar(200)", 'rye "no. 1" \\ 小麦 \n\x01 // ,]', None),
    "empty": ("varchar(200)", "", None),
    "digits": ("varchar(200)", "007.10", None),
    "note": ("text", "long " * 20, None),
    "doc": ("json", '{"a": 1.10, "b": [18446744073709551616, null]}', None),
    "gone": ("varchar(200)", None, None),
}
"""Column -> MySQL type, value, canonical text where it is not the value's own."""
COLUMNS = {name: type_ for name, (type_, _, _) in VALUES.items()}
ROW = {name: value for name, (_, value, _) in VALUES.items()}
TEXTS = {
    name: text if text is not None or value is None else str(value)
    for name, (_, value, text) in VALUES.items()
}
TYPES_WITH_VALUES = {"ob_avro", "ticdc_open", "wal2json"}
"""Formats whose messages type the columns that they send, and no others."""


def texts_of(wire: str) -> dict[str, str | None]:
    lost = lost_by(wire)
    return {n: text if text_of(v) == text_of(v, lost) else text_of(v, lost) for n, v, text in SENT}


SENT = [(name, ROW[name], TEXTS[name]) for name in COLUMNS]


def test_texts_are_told_from_values() -> None:
    assert {name: text_of(value) for name, value in ROW.items()} == TEXTS


@pytest.mark.parametrize("name", FORMATS)
def test_a_loss_is_one_and_known(name: str) -> None:
    """Every loss that a format tells of is one that tests look at, and changes a text."""
    losses = FORMATS[name].losses
    assert {loss.what for loss in losses} <= set(KNOWN)
    assert len({loss.what for loss in losses}) == len(losses)
    for loss in losses:
        assert len(loss.why) > 20
        if loss.what in OF_VALUES:
            assert any(text_of(value) != text_of(value, (loss.what,)) for value in ROW.values())
            assert any(w.format == name and (w.typed or not loss.mended) for w in WIRES.values())


@pytest.mark.parametrize("wire", WIRES)
def test_the_same_row_has_the_same_text(wire: str) -> None:
    before = {**ROW, "price": Decimal("2.00"), "label": "old", "gone": "was"}
    texts = texts_of(wire)
    old = {**texts, "price": "2.00", "label": "old", "gone": "was"}
    rows = read(
        wire,
        Change("insert", COLUMNS, None, before, number=1),
        Change("update", COLUMNS, before, ROW, number=2),
        Change("delete", COLUMNS, ROW, None, number=3),
    )
    assert [(row["op"], row["before"], row["after"]) for row in rows] == [
        ("insert", None, old),
        ("update", old, texts),
        ("delete", texts, None),
    ]
    assert [list(row["after"] or row["before"]) for row in rows] == [list(COLUMNS)] * 3
    assert [row["warnings"] for row in rows] == [None] * 3
    assert [row["key"] for row in rows] == [{"id": "-7"}] * 3


@pytest.mark.parametrize("wire", WIRES)
def test_null_is_null(wire: str) -> None:
    row: dict[str, Any] = {name: None for name in COLUMNS} | {"id": 1}
    [found] = read(wire, Change("insert", COLUMNS, None, row))
    assert found["after"] == {name: None for name in COLUMNS} | {"id": "1"}


@pytest.mark.parametrize("wire", [wire for wire in WIRES if ABSENT not in lost_by(wire)])
def test_absent_is_not_null(wire: str) -> None:
    """A column that was not sent is not in the image, one that was NULL is."""
    columns = {"id": "int", "sent": "varchar(200)", "absent": "varchar(200)", "qty": "int"}
    row = {"id": 1, "sent": None, "qty": 3}
    inserted, updated, deleted = read(
        wire,
        Change("insert", columns, None, row, number=1),
        Change("update", columns, {**row, "qty": 2}, row, number=2),
        Change("delete", columns, row, None, number=3),
    )
    after = {"id": "1", "sent": None, "qty": "3"}
    assert inserted["after"] == updated["after"] == deleted["before"] == after
    assert updated["before"] == {**after, "qty": "2"}
    typed = WIRES[wire].typed or wire in ("dataworks_declared", "dts_declared")
    typed = typed and WIRES[wire].format not in TYPES_WITH_VALUES
    # Who knows the table's columns knows that one is missing.
    assert {inserted["after_image"], updated["after_image"]} == {"partial" if typed else "full"}


@pytest.mark.parametrize("wire", WIRES)
def test_a_value_that_was_null_before_is_null_before(wire: str) -> None:
    columns = {"id": "int", "label": "varchar(200)"}
    [found] = read(
        wire, Change("update", columns, {"id": 1, "label": None}, {"id": 1, "label": "rye"})
    )
    assert (found["before"], found["after"]) == (
        {"id": "1", "label": None},
        {"id": "1", "label": "rye"},
    )


@pytest.mark.parametrize("wire", WIRES)
def test_a_changed_key_is_known_on_both_sides(wire: str) -> None:
    columns = {"id": "bigint unsigned", "label": "varchar(200)"}
    before, after = ({"id": 2**64 - number, "label": "rye"} for number in (2, 1))
    [found] = read(wire, Change("update", columns, before, after))
    assert (found["key_before"], found["key"]) == (
        {"id": "18446744073709551614"},
        {"id": "18446744073709551615"},
    )


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    """Decimals of exactly `scale` digits behind the point, at most `digits` in all."""
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda unscaled: _scaled(unscaled, scale))


def _scaled(unscaled: int, scale: int) -> Decimal:
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale))


EXACT: Mapping[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "bigint unsigned": st.integers(0, 2**64 - 1),
    "decimal(65,0)": decimals(65, 0),
    "decimal(65,30)": decimals(65, 30),
    "decimal(10,2)": decimals(10, 2),
}


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=100, deadline=None)
@given(row=st.fixed_dictionaries(dict(EXACT)))
def test_numbers_are_exact(wire: str, row: dict[str, Any]) -> None:
    columns = {name: name for name in EXACT}
    [found] = read(
        wire,
        Change("update", columns, {**dict.fromkeys(columns), "bigint": 0}, row, keys=("bigint",)),
        keys={"farm.crop": ["bigint"]},
    )
    wanted = {name: format(Decimal(value), "f") for name, value in row.items()}
    if wire == "dataworks":
        # Undeclared, a number is a DOUBLE as sent: all digits, in the producer's notation.
        found["after"] = {n: format(Decimal(text), "f") for n, text in found["after"].items()}
    assert found["after"] == wanted
    assert found["key"] == {"bigint": wanted["bigint"]}
