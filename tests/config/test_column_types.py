"""The types that `columns:` of a tables file may name."""

from __future__ import annotations

import pytest

from ingest.config.spark_types import spark_column_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((name, name) for name in ("boolean", "tinyint", "smallint", "int", "bigint", "float")),
        *((name, name) for name in ("double", "string", "binary", "date", "timestamp")),
        ("timestamp_ntz", "timestamp_ntz"),
        ("BIGINT", "bigint"),
        ("integer", "int"),
        ("Long", "bigint"),
        ("decimal(38,38)", "decimal(38,38)"),
        ("DECIMAL ( 12 , 2 )", "decimal(12,2)"),
        ("numeric(5)", "decimal(5,0)"),
        ("timestamp_ltz", "timestamp"),
    ],
)
def test_a_spark_type(text: str, expected: str) -> None:
    assert spark_column_type(text) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("decimal", r"decimal\(p,s\), got `decimal`"),
        ("decimal(39,2)", "s <= p <= 38"),
        ("decimal(0)", "s <= p <= 38"),
        ("decimal(5,6)", "s <= p <= 38"),
        ("decimal(5,-1)", "expected a Spark type"),
        ("int(5)", "nearest: int$"),
        ("sting", "nearest: string$"),
        ("datetime", "nearest: timestamp_ntz$"),
        ("varchar(20)", "nearest: string$"),
        ("bigint unsigned", r"nearest: decimal\(20,0\)$"),
        ("array<int>", "expected a Spark type"),
        ("", "got ``$"),
    ],
)
def test_what_is_no_spark_type(text: str, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        spark_column_type(text)
