"""Two relations compared by a count and a hash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest.sql.history.compare import summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A = "(SELECT 1 AS id, 'Lagos' AS was, CAST(NULL AS string) AS `is it`)"


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        ("(SELECT 1 AS id, 'Lagos' AS was, CAST(NULL AS string) AS `is it`)", True),
        ("(SELECT 1 AS id, CAST(NULL AS string) AS was, 'Lagos' AS `is it`)", False),
        ("(SELECT 1 AS id, 'Lagos' AS was, '' AS `is it`)", False),
    ],
)
def test_a_value_counts_where_it_stands(spark: SparkSession, other: str, equal: bool) -> None:
    columns = ["id", "was", "is it"]
    first, second = (spark.sql(summary(rows, columns)).collect() for rows in (A, other))
    assert (first == second) is equal
