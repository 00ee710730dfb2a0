"""What converters are known to give back as it is, they do give back so, and say nothing of it."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.formats.debezium import values as encoded
from ingest.formats.debezium.declared import Handling, declared_converter
from ingest.formats.debezium.types import PLAIN, SEMANTIC, read
from ingest.wire.avro.connect import Field
from ingest.wire.declared import Convert, ValueEncoding, sql_converter
from ingest.wire.kept_values import (
    CIVIL_TEXT,
    DATE_TEXT,
    DECIMAL_TEXT,
    INSTANT_TEXT,
    TextPattern,
    kept_by,
)
from ingest.wire.text_columns import SentImages, readings_of, text_rows

KEPT = {
    CIVIL_TEXT: [
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        "2024-02-30 25:61:61.000000001",
    ],
    DATE_TEXT: ["0001-01-01", "9999-99-99", "2024-02-29"],
    DECIMAL_TEXT: ["0.0", "-0.00", "123456789012345678901234567890.1", "007.50", "-1.5"],
    INSTANT_TEXT: ["2024-01-02T03:04:05.6Z", "0000-00-00T00:00:00.000001Z"],
}
OTHERS = {
    CIVIL_TEXT: [
        "2024-01-02 03:04:05.10",
        "2024-01-02",
        "0000-01-01 00:00:00",
        "2024-00-01 00:00:00",
    ],
    DATE_TEXT: ["0000-01-01", "2024-00-01", "2024-01-00", "2024-01-01Z", "\uff12024-01-01"],
    DECIMAL_TEXT: ["1", "1.", ".5", "+1.5", "1.5E3", "NaN", "1.5 ", "AQ=="],
    INSTANT_TEXT: [
        "2024-01-02T03:04:05Z",
        "2024-01-02T03:04:05.10Z",
        "2024-01-02T03:04:05.1+01:00",
    ],
}
DECLARED = ("bigint", "decimal(18,4)", "date", "datetime(6)", "timestamp", "timestamp_ntz", "time")


def converters() -> dict[str, Convert]:
    """All converters of values that a source declares, by family and type, and Debezium's own."""
    found: dict[str, Convert | None] = {}
    for family in ("mysql", "postgres", "oracle", "sqlserver"):
        for type_ in DECLARED:
            found[f"{family} {type_}"] = declared_converter(type_, family, Handling())
            found[f"sql {family} {type_}"] = sql_converter(ValueEncoding(family=family))(type_)
    found |= {name: read(Field(name=name)).convert for name in SEMANTIC}
    found |= {name: plain.convert for name, plain in PLAIN.items()}
    found["decimal"] = encoded.decimal(4)
    return {name: convert for name, convert in found.items() if convert is not None}


CONVERTERS = converters()


@pytest.mark.parametrize("name", CONVERTERS)
def test_a_value_that_is_kept_is_what_its_converter_gives(name: str) -> None:
    convert = CONVERTERS[name]
    kept = kept_by(convert)
    values: list[Any] = list(KEPT[kept.texts]) if kept.texts is not None else []
    values += [0, 7, -7, 2**70] if kept.integers else []
    warnings: list[str] = []
    assert [convert(value, warnings) for value in values] == list(map(str, values))
    assert warnings == []


@pytest.mark.parametrize("pattern", KEPT)
def test_texts_fit_a_pattern_together_where_each_fits_it(pattern: TextPattern) -> None:
    kept, others = KEPT[pattern], OTHERS[pattern]
    assert pattern.fits(kept)
    assert all(map(pattern.one, kept))
    for other in others:
        assert not pattern.one(other)
        assert not pattern.fits([*kept, other])
        assert not pattern.fits([other, *kept])
    assert not pattern.fits(["\n".join(kept)])


@pytest.mark.parametrize("name", CONVERTERS)
def test_a_column_has_the_texts_of_its_values(name: str) -> None:
    convert = CONVERTERS[name]
    texts = [text for pattern in KEPT for text in (*KEPT[pattern], *OTHERS[pattern])]
    columns: list[list[Any]] = [*KEPT.values(), texts, [None, *texts], [1, 2, 3], [None, 5]]
    columns += [[None, *kept, *kept] for kept in KEPT.values()]
    for column in columns:
        images = SentImages([b"{}"] * len(column), [{"c": value} for value in column])
        rows = text_rows(images, range(len(column)), readings_of({"c": convert}, ["c"]))
        for at, value in enumerate(column):
            warnings: list[str] = []
            text = None if value is None else convert(value, warnings)
            assert (rows.rows[at], rows.doubts.get(at, [])) == ((text,), warnings)
