"""What Debezium sends for values that have no number or date: infinities and NaN.

PostgreSQL's `infinity` comes as an extreme of the driver's or of Java's, and in which unit depends
on `time.precision.mode`. None of these stands for a value that PostgreSQL can hold, except where a
count of the same digits in another unit could; so days are kept apart from times.
Source: PGStatement.DATE_POSITIVE_INFINITY and its negative (pgjdbc), in milliseconds, microseconds
and, cut off, nanoseconds; messages of Debezium 3.6 for PostgreSQL 16.
"""

from __future__ import annotations

_UP, _DOWN = "infinity", "-infinity"

NANOS: dict[int, str] = {2**63 - 1: _UP, -(2**63): _DOWN}
TIMES: dict[int, str] = {
    **NANOS,
    9223372036825200: _UP,
    -9223372036832400: _DOWN,
    9223372036825200000: _UP,
    -9223372036832400000: _DOWN,
}
"""Counts of any unit, for counts whose own reading is out of the calendar or not known."""
DAYS: dict[int, str] = {
    2**31 - 1: _UP,
    -(2**31): _DOWN,
    # the same extremes, cut to 32 bits: both negative, one day apart
    -2147472692: _UP,
    -2147472691: _DOWN,
}
ISO_DATES: dict[str, str] = {"-5877611-06-21": _UP, "-5877611-06-22": _DOWN}
"""The dates of DAYS, as `isostring` writes them."""
ISO_TIMESTAMPS: dict[str, str] = {
    "+294247-01-10T04:00:25.2": _UP,
    "-290308-12-21T19:59:27.6": _DOWN,
}
DECIMALS: dict[str, str] = {
    **dict.fromkeys(("NaN", "NAN"), "NaN"),
    **dict.fromkeys(("Infinity", "POSITIVE_INFINITY"), "Infinity"),
    **dict.fromkeys(("-Infinity", "NEGATIVE_INFINITY"), "-Infinity"),
}
"""The words of `decimal.handling.mode` string and double."""
