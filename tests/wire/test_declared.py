"""Values by the types that are declared of them: one text, whatever database they are of."""

from __future__ import annotations

import pytest

from ingest.wire.declared import ValueEncoding, sql_converter


@pytest.mark.parametrize(
    ("family", "type_", "sent", "text"),
    [
        ("sqlserver", "time(7)", "10:00:00.1230000", "10:00:00.123"),
        ("sqlserver", "time", "10:00:00.0000000", "10:00:00"),
        ("sqlserver", "decimal", "1E+3", "1000"),
        ("postgres", "time(6) without time zone", "10:00:00.500000", "10:00:00.5"),
        ("postgres", "time", "24:00:00", "24:00:00"),
        ("postgres", "numeric", "1.0E-7", "0.00000010"),
        ("postgres", "numeric", "NaN", "NaN"),
        ("postgres", "numeric(50,2)", "+1.50", "1.50"),
        ("mysql", "time(6)", "-838:59:59.000000", "-838:59:59"),
        ("oracle", "number", ".5", "0.5"),
        ("oracle", "float", "-.5", "-0.5"),
        ("oracle", "FLOAT(63)", "1E-7", "0.0000001"),
        ("oracle", "double precision", "1E+2", "100"),
        ("db2", "decfloat(34)", "1E+2", "100"),
    ],
)
def test_56_times_and_decimals_have_one_text(family: str, type_: str, sent: str, text: str) -> None:
    convert = sql_converter(ValueEncoding(family=family))(type_)
    assert convert is not None
    assert convert(sent, []) == text


@pytest.mark.parametrize("type_", ["point", "geometry", "enum", "set", "json"])
def test_what_has_a_text_of_its_own_elsewhere_stays_as_sent(type_: str) -> None:
    assert sql_converter(ValueEncoding(family="postgres", blob="hex", ordinals=True))(type_) is None
