"""What a column of `sequence_by` is compared by: numbers, whatever the session is set to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest.sql.quoting import sql_text
from ingest.sql.sequence import numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANSI = "spark.sql.ansi.enabled"
ASCENDING = {
    "decimal(38,18)": ["-1.5", "-0.000000000000000001", "0", "5", "5.0000001", "5.1", "1e18"],
    "decimal(38,30)": ["-0.1", "0", "5.9", "5.999999999999999999", "6"],
    "string": ["-2", "7", "10", "10.5", "10.50001", "a", "b"],
}


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("type_", ASCENDING)
def test_what_is_more_comes_later(spark: SparkSession, type_: str, ansi: str) -> None:
    before = spark.conf.get(ANSI)
    assert before is not None
    spark.conf.set(ANSI, ansi)
    try:
        texts = ", ".join(map(sql_text, ASCENDING[type_]))
        spark.sql(f"SELECT explode(array({texts})) AS text, uuid() AS no").createOrReplaceTempView(
            "texts"
        )
        found = spark.sql(
            f"SELECT text, array({', '.join(numbers('text', type_, 'UTC'))}) AS place FROM texts"
        ).collect()
    finally:
        spark.conf.set(ANSI, before)
    places = {row.text: row.place for row in found}
    assert all(number is not None for place in places.values() for number in place)
    assert sorted(places, key=places.__getitem__) == ASCENDING[type_]


def test_what_is_null_has_no_place(spark: SparkSession) -> None:
    for type_ in ASCENDING:
        first, *_ = numbers("CAST(NULL AS string)", type_, "UTC")
        assert spark.sql(f"SELECT {first} AS place").collect() == [(None,)], type_
