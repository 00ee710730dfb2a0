"""A key is its typed value: how texts of one value come to one hash, and one text in SQL."""

from __future__ import annotations

import time
from decimal import Decimal, InvalidOperation

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.decode.keys import hash_values, key_hash, keyed, one_spelling
from ingest.errors import TableError
from ingest.events import Event
from ingest.sql.casts import as_text, from_text
from pipelines.apply.late_keys import check_found
from tests.support.databases import spellings

NUMBERS = st.text("0012.+-eE ", max_size=9)


@pytest.mark.parametrize(
    ("texts", "one"),
    [
        (["7", "007", "+7", " 7", "7 ", "7.0", "7e0", "0.7E1", "70e-1", "\u0667"], "7"),
        (["0", "-0", "000", "+0.00", "0e5", ".0"], "0"),
        (["-12", "-0012", "-12.", "-1.2e1"], "-12"),
        (["1.5", "01.50", "15e-1", "+1.5"], "1.5"),
        (["100", "1e2", "1E+2", "100.00"], "100"),
    ],
)
def test_texts_of_one_number_have_one_hash(texts: list[str], one: str) -> None:
    assert {one_spelling(text) for text in texts} == {one}
    assert len({hash_values(["a", text, None]) for text in texts}) == 1


@pytest.mark.parametrize(
    "text",
    ["", "-", ".", "e1", "7a", "0x7", "2024-01-01", "1,5", "a 7", "1e1e1", "7\x1f8"],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert one_spelling(text) == text


@given(NUMBERS)
def test_one_spelling_is_that_of_the_value(text: str) -> None:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        assert one_spelling(text) == text
        return
    plain = format(value.normalize() if value else Decimal(0), "f")
    assert one_spelling(text) == (plain if abs(value.adjusted()) < 50 or not value else text)


@given(st.integers(), st.randoms(use_true_random=False))
def test_what_generated_logs_draw_is_one_number(number: int, chance: object) -> None:
    assert {one_spelling(text) for text in spellings(number)} == {str(number)}


@pytest.mark.parametrize("made", ["0" * 1_000_000, "1e" + "0" * 1_000_000, "1." + "0" * 1_000_000])
@pytest.mark.parametrize("end", ["", "x", " "])
def test_long_texts_take_time_by_their_length(made: str, end: str) -> None:
    began = time.process_time()
    one_spelling(made + end)
    assert time.process_time() - began < 5


def test_key_texts_do_not_depend_on_the_session() -> None:
    """A zone that has an hour twice shows two instants as one text."""
    assert as_text("k", "timestamp") == "CAST(unix_micros(k) AS string)"
    assert from_text("k", "timestamp") == "timestamp_micros(CAST(k AS bigint))"


def test_78_a_key_that_is_not_found_parks_its_table() -> None:
    check_found("orders", [])
    with pytest.raises(TableError) as raised:
        check_found("orders", [("7", "a")], more=3)
    assert "of key (7, a) and 3 more, which this batch brings, got nothing" in str(raised.value)
    assert "nothing of orders was changed" in str(raised.value)


@pytest.mark.parametrize(
    ("names", "row", "expected"),
    [
        (("id", "ID"), {"id": "1"}, {"id": "1"}),
        (("ID", "id"), {"id": "1"}, {"id": "1"}),
        (("id", "id"), {"id": "1"}, {"id": "1"}),
        (("id", "ID"), {"id": "1", "ID": "2"}, {"id": "1", "ID": "2"}),
        (("ID", "line"), {"id": "1", "line": "2"}, {"ID": "1", "line": "2"}),
    ],
)
def test_a_column_named_twice_is_one_of_the_key(
    names: tuple[str, ...], row: dict[str, str | None], expected: dict[str, str]
) -> None:
    event = Event(op="insert", after=row)
    keyed(event, names)
    assert event.key_columns == tuple(expected) and event.key == expected
    assert key_hash(event) is not None
