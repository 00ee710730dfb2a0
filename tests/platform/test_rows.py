"""The rows of a DataFrame as plain values: `pipelines.platform.rows`."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from pipelines.platform.rows import values

LATE, EARLY = 253402300800000000, -63518256000000000 + 1
INSTANT = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("sent", "type_", "expected"),
    [
        (
            [LATE, EARLY, None, 0],
            INSTANT,
            [
                *("+10000-01-01T00:00:00Z", "-0043-03-10T00:00:00.000001Z", None),
                datetime(1970, 1, 1, tzinfo=UTC),
            ],
        ),
        ([LATE], pa.timestamp("us"), ["+10000-01-01T00:00:00"]),
        ([2932897, -735178], pa.date32(), ["+10000-01-01", "-0043-02-25"]),
        ([[LATE]], pa.list_(INSTANT), [["+10000-01-01T00:00:00Z"]]),
        (
            [{"a": LATE, "b": "2024-01-01 00:00:00"}],
            pa.struct([("a", INSTANT), ("b", pa.string())]),
            [{"a": "+10000-01-01T00:00:00Z", "b": "2024-01-01 00:00:00"}],
        ),
        ([LATE], pa.timestamp("us", "Asia/Shanghai"), ["+10000-01-01T00:00:00Z"]),
        ([[("k", LATE)]], pa.map_(pa.string(), INSTANT), [[("k", "+10000-01-01T00:00:00Z")]]),
    ],
)
def test_times_beyond_the_calendar(
    sent: list[object], type_: pa.DataType, expected: object
) -> None:
    assert values(pa.array(sent, type_)) == expected
