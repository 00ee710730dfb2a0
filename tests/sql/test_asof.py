"""Past moments as users write them."""

from __future__ import annotations

import pytest

from ingest.sql.history.asof import Moment, at_pos, at_time

DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01", 0),
        ("1970-01-02T00:00:00Z", DAY),
        ("1970-01-02 02:00:00.000001+02:00", DAY + 1),
        (" 1969-12-31T23:59:59.5 ", -500_000),
        ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
    ],
)
def test_times(text: str, micros: int) -> None:
    assert at_time(text) == Moment(time=micros)


@pytest.mark.parametrize("text", ["", "soon", "2024-02-30", "12:00", "1700000000000"])
def test_no_times(text: str) -> None:
    with pytest.raises(ValueError, match="expected a date or time like 2024-02-29T12:00:00Z, got"):
        at_time(text)


def test_positions() -> None:
    assert at_pos("[0, 1, 1700000000000]") == Moment(pos=(0, 1, 1_700_000_000_000))
    assert at_pos("[0]").until == "(slice(pos, 1, 1) <= array(0L))"


@pytest.mark.parametrize(
    "text", ["", "[]", "1", "[1.5]", '["1"]', "[null]", "[0,0,0,0,0,0,0,0,0,0,0,0]", f"[{2**63}]"]
)
def test_no_positions(text: str) -> None:
    with pytest.raises(ValueError, match="expected one to 11 integers like"):
        at_pos(text)
