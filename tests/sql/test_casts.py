"""From text to a type in SQL: what is exact, what fits no type, and what a session's zone changes.

Each text is also a key: what types equally is one (semantics.md, 79).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ingest.sql.casts import misfit, typed
from ingest.sql.quoting import sql_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISFIT = "misfit"
ZONE = "Europe/Berlin"
"""Of the source's times without one; its clocks show an hour twice on 27 October 2024."""

CASES = [
    # type, text, what it is as text in UTC
    ("date", "2024-03-01", "2024-03-01"),
    ("date", "2024-3-1", "2024-03-01"),
    ("date", "2024-03-01 00:00:00", "2024-03-01"),
    ("date", "2024-03-01 00:00:00.000", "2024-03-01"),
    ("date", "2024-03-01T00:00:00", "2024-03-01"),
    ("date", "2024-03-01 00:00:00.001", MISFIT),
    ("date", "2024-03-01T23:30:00Z", "2024-03-02"),
    ("date", "2024-03-01 10:00:00", MISFIT),
    ("date", "10000-03-15 00:00:00", MISFIT),
    ("date", "-0044-03-15 00:00:00", MISFIT),
    ("date", "-0044-03-15", MISFIT),
    ("date", "2024-03", MISFIT),
    ("date", "2024", MISFIT),
    ("date", "2024-02-30", MISFIT),
    ("date", "03/01/2024", MISFIT),
    ("date", "+10000-01-01T00:00:00Z", "+10000-01-01"),
    ("date", "0000-00-00", None),
    ("timestamp", "2024-10-27 01:00:00Z", "2024-10-27 01:00:00"),
    ("timestamp", "2024-10-27T01:00:00.000Z", "2024-10-27 01:00:00"),
    ("timestamp", "2024-10-27 03:00:00+02:00", "2024-10-27 01:00:00"),
    ("timestamp", "2024-10-27 03:00:00 +0200", "2024-10-27 01:00:00"),
    ("timestamp", "2024-10-26T20:30:00.5-0430", "2024-10-27 01:00:00.5"),
    ("timestamp", "2024-10-27 03:00:00+02", "2024-10-27 01:00:00"),
    ("timestamp", "2024-03-01 12:00:00", "2024-03-01 11:00:00"),
    ("timestamp", "2024-03-01", "2024-02-29 23:00:00"),
    ("timestamp", "2024-03-01 12:00:00+19:00", MISFIT),
    ("timestamp", "2024-03-01+02:00", MISFIT),
    ("timestamp", "2024-03", MISFIT),
    ("timestamp", "12:00:00+02:00", MISFIT),
    ("timestamp", "12:00:00Z", MISFIT),
    ("timestamp", "T12:00:00Z", MISFIT),
    ("timestamp", "2024-03-01Z", MISFIT),
    ("timestamp", "+10000-01-01T00:00:00Z", "+10000-01-01 00:00:00"),
    ("timestamp", "-0043-03-15T00:00:00Z", "-0043-03-15 00:00:00"),
    ("timestamp", "2024-10-27 03:00:00.1234567+02:00", MISFIT),
    ("timestamp", "2024-10-27 03:00:00.1234560+02:00", "2024-10-27 01:00:00.123456"),
    ("timestamp", "2024-10-27 01:00:00.1234567Z", MISFIT),
    ("timestamp_ntz", "2024-03-01 12:00:00", "2024-03-01 12:00:00"),
    ("timestamp_ntz", "2024-10-27 01:00:00Z", "2024-10-27 02:00:00"),
    ("timestamp_ntz", "2024-10-27 03:30:00+05:30", "2024-10-27 00:00:00"),
    ("timestamp_ntz", "2024-07-01 00:00:00-04", "2024-07-01 06:00:00"),
    ("timestamp_ntz", "2024-07-01 00:00:00.1234567-04", MISFIT),
    ("timestamp_ntz", "2024-07-01 00:00:00 UTC", MISFIT),
    ("timestamp_ntz", "2024-07-01 00:00:00 Europe/Berlin", MISFIT),
    ("timestamp_ntz", "2024-07-01 00:00:00+01:00:00", MISFIT),
    ("timestamp_ntz", "2024-07", MISFIT),
    ("timestamp_ntz", "2024", MISFIT),
    ("timestamp_ntz", "2024-7-1 1:02", "2024-07-01 01:02:00"),
    ("timestamp_ntz", "2024-07-01", "2024-07-01 00:00:00"),
    ("timestamp_ntz", "12:00:00Z", MISFIT),
    ("timestamp_ntz", "2024-07-01 01:02:03. ", "2024-07-01 01:02:03"),
    ("timestamp_ntz", "+10000-01-01T00:00:00Z", "+10000-01-01 01:00:00"),
    ("int", "00007", "7"),
    ("int", "+7", "7"),
    ("int", "2147483648", MISFIT),
    ("int", "1.5", MISFIT),
    ("int", "1e2", MISFIT),
    ("decimal(12,2)", "1.10", "1.10"),
    ("decimal(12,2)", "11e-1", "1.10"),
    ("decimal(12,2)", "1.101", MISFIT),
    ("decimal(12,2)", "1101e-3", MISFIT),
    ("double", "1e3", "1000.0"),
    ("double", "1e400", MISFIT),
    ("double", "-Infinity", "-Infinity"),
    ("double", "1d", MISFIT),
    ("double", "0x1p3", MISFIT),
    ("float", "1e39", MISFIT),
    ("float", "1F", MISFIT),
    ("boolean", "yes", "true"),
    ("binary", "!!", MISFIT),
]


@pytest.fixture(params=["UTC", "America/New_York"])
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """The session's zone, on which nothing depends."""
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", request.param)
    request.addfinalizer(lambda: spark.conf.set("spark.sql.session.timeZone", before))
    return str(request.param)


def test_each_text_is_what_it_says_or_a_misfit(spark: SparkSession, zone: str) -> None:
    found: list[str] = []
    expected: list[tuple[str, str, str | None]] = []
    for type_, text, wanted in CASES:
        value = f"v{len(expected)}"
        cast = typed(value, type_, ZONE)
        if type_ == "timestamp":
            cast = f"convert_timezone('{zone}', 'UTC', CAST({cast} AS timestamp_ntz))"
        unfit = misfit(value, type_, ZONE) or "false"
        found.append(f"IF({unfit}, '{MISFIT}', CAST({cast} AS string)) AS {value}")
        expected.append((type_, text, wanted))
    values = ", ".join(f"{sql_text(t)} AS v{n}" for n, (_, t, _) in enumerate(CASES))
    # From a table, so that nothing is folded when the query is planned.
    spark.sql(f"SELECT {values}, uuid() AS no").createOrReplaceTempView("cases")
    row = spark.sql(f"SELECT {', '.join(found)} FROM cases").first()
    assert row is not None
    told = [(t, text, got) for (t, text, _), got in zip(CASES, row, strict=True)]
    assert told == expected
