"""Two relations compared by a count and a hash."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest.sql.history.compare import as_target, summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A = "(SELECT 1 AS id, 'Lagos' AS was, CAST(NULL AS string) AS `is it`)"


@pytest.mark.parametrize("session", ["UTC", "America/New_York"])
@pytest.mark.parametrize(
    ("value", "from_", "to", "expected"),
    [
        ("DATE'2024-03-04'", "date", "timestamp", 1_709_481_600_000_000),
        ("TIMESTAMP_NTZ'2024-03-04 00:00:00'", "timestamp_ntz", "timestamp", 1_709_481_600_000_000),
        ("TIMESTAMP'2024-03-03T16:00:00Z'", "timestamp", "date", "2024-03-04"),
        ("TIMESTAMP'2024-03-03T16:00:00Z'", "timestamp", "string", "2024-03-03 16:00:00"),
    ],
)
def test_times_of_a_snapshot_are_in_the_source_zone(
    spark: SparkSession, session: str, value: str, from_: str, to: str, expected: object
) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", session)
    try:
        found = as_target("v", from_, to, zone="Asia/Shanghai")
        shown = f"unix_micros({found})" if to == "timestamp" else f"CAST({found} AS string)"
        row = spark.sql(f"SELECT {shown} AS got FROM (SELECT {value} AS v)").first()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert row is not None and row.got == expected


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
