"""From the canonical text of a value to its Spark type, in SQL: exact, or a misfit, never a silent
NULL.

`typed` gives NULL if the text does not fit without loss; `misfit` tells such a NULL from a real
one. Zero dates are the one declared exception: they become NULL, and `zero_date` counts them
(semantics.md, 10). Nothing here depends on the session's time zone.
"""

from __future__ import annotations

import re

from ingest.sql.quoting import sql_text

_FLOAT_TYPES = {"float", "double"}
INTEGERS = {"tinyint", "smallint", "int", "bigint"}
_DATES = {"date", "timestamp", "timestamp_ntz"}


def typed(value: str, type_: str, zone: str | None) -> str:
    """The SQL of `value` (SQL of canonical text) as `type_`; `zone` is the zone of times that name
    none."""
    if type_ == "string":
        return value
    if type_ in INTEGERS or type_ == "boolean":
        return f"try_cast({value} AS {type_})"
    if type_ in _FLOAT_TYPES:
        return _float(value, type_)
    if type_ == "binary":
        return f"try_to_binary({value}, 'base64')"
    decimal = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", type_)
    if decimal:
        point = f"instr({value}, '.')"
        digits = f"rtrim('0', substring({value}, {point} + 1))"
        # Most texts have no more digits than the type, and only the others need the closer look.
        longer = f"{point} > 0 AND length({value}) - {point} > {decimal[2]}"
        lossy = f"{longer} AND length({digits}) > {decimal[2]}"
        power = f"instr(lower({value}), 'e') > 0"
        return (
            f"CASE WHEN {power} AND ({_too_small(value, decimal[2])}) THEN NULL "
            f"WHEN {lossy} AND NOT {power} THEN NULL ELSE try_cast({value} AS {type_}) END"
        )
    return _TIMES[type_](value, zone or "UTC")


def _float(value: str, type_: str) -> str:
    """Spark would take a number that is too large for infinity, and Java's `1d`, `1f` and `0x1p3`
    for numbers."""
    found = f"try_cast({value} AS {type_})"
    beyond = f"abs({found}) = double('Infinity') AND instr(lower({value}), 'inf') = 0"
    java = f"lower(right({value}, 1)) IN ('d', 'f') OR instr(lower({value}), 'x') > 0"
    return f"IF({java} OR ({beyond}), NULL, {found})"


def _too_small(value: str, scale: str) -> str:
    """SQL that is true where a number with a power of ten has digits below `scale`."""
    number = f"substring_index(lower({value}), 'e', 1)"
    power = f"try_cast(substring_index(lower({value}), 'e', -1) AS int)"
    digits = f"replace({number}, '.')"
    zeros = f"length({digits}) - length(rtrim('0', {digits}))"
    part = f"IF(instr({number}, '.') > 0, length({number}) - instr({number}, '.'), 0)"
    below = f"coalesce({part} - ({zeros}) - {power} > {scale}, true)"
    return f"rtrim('0', {digits}) NOT IN ('', '-', '+') AND {below}"


def _date(value: str, zone: str) -> str:
    local = f"try_cast({_ntz(value, zone)} AS date)"
    return (
        f"CASE WHEN length({value}) <= 10 THEN "
        f"IF({value} RLIKE '^[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}$', "
        f"try_cast({value} AS date), NULL) "
        f"WHEN endswith({value}, 'Z') THEN {local} "
        f"WHEN {value} RLIKE '^[0-9]{{4}}-[0-9-]+[ T]00:00:00([.]0+)?$' "
        f"THEN try_cast(left({value}, 10) AS date) END"
    )


def _ntz(value: str, zone: str) -> str:
    wall = f"try_cast(rtrim('Z', {value}) AS timestamp_ntz)"
    shifted = f"convert_timezone('UTC', {sql_text(zone)}, {wall})"
    away = f"regexp_extract({value}, '{_OFFSET}', 1)"
    there = f"try_cast(regexp_replace({value}, ' *{_OFFSET}', '') AS timestamp_ntz)"
    return (
        f"CASE WHEN {_too_fine(value)} THEN NULL "
        f"WHEN endswith({value}, 'Z') THEN {shifted} "
        f"WHEN {_has_offset(value)} "
        f"THEN convert_timezone({away}, {sql_text(zone)}, {there}) "
        f"WHEN {value} RLIKE '{_CIVIL}' THEN try_cast({value} AS timestamp_ntz) END"
    )


def _timestamp(value: str, zone: str) -> str:
    # A time of day alone would be one of today for Spark.
    instant = f"IF(instr({value}, '-') > 0, try_cast({value} AS timestamp), NULL)"
    return (
        f"CASE WHEN {_too_fine(value)} THEN NULL "
        f"WHEN endswith({value}, 'Z') OR {_has_offset(value)} THEN {instant} "
        f"WHEN length({value}) = 10 THEN "
        f"try_cast(concat({value}, ' 00:00:00 ', {sql_text(zone)}) AS timestamp) "
        f"WHEN {value} RLIKE '^[0-9]{{4}}-' "
        f"THEN try_cast(concat({value}, ' ', {sql_text(zone)}) AS timestamp) END"
    )


_CIVIL = "^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([ T][0-9:.]*)? *$"
"""A day, or a day and a time of it. Spark would take a month for its first day, and pass over a
zone that follows."""
_OFFSET = "([+-](0[0-9]|1[0-7])(:?[0-5][0-9])?)$"
"""An ISO 8601 offset from UTC; no offset in use is beyond these."""


def _has_offset(value: str) -> str:
    """SQL that is true for a time of day that is followed by an offset."""
    # Shorter texts have no time of day, so the length spares them the pattern.
    return f"(length({value}) > 19 AND {value} RLIKE '^[0-9]{{4}}-.*:[0-9.]+ ?{_OFFSET}')"


def _too_fine(value: str) -> str:
    """SQL that is true for a time with more than the six digits of a second that Spark keeps."""
    return (
        f"length({value}) > 26 AND {value} RLIKE '[.][0-9]{{6}}[0-9]*[1-9](Z| ?[+-][0-9:]+)?$' "
        f"AND {value} RLIKE '[.][0-9]{{7}}'"
    )


_TIMES = {"date": _date, "timestamp_ntz": _ntz, "timestamp": _timestamp}


def zero_date(value: str, type_: str) -> str | None:
    """SQL that is true for an impossible date with a zero part; None for types without dates."""
    if type_ not in _DATES:
        return None
    return f"({value} RLIKE '^(0000-|[0-9]{{4}}-00-|[0-9]{{4}}-[0-9]{{2}}-00)')"


def misfit(value: str, type_: str, zone: str | None) -> str | None:
    """SQL that is true where `value` is not null but has no exact `type_`; None if that cannot
    happen."""
    if type_ == "string":
        return None
    return unfit(value, f"({typed(value, type_, zone)})", type_)


def unfit(value: str, cast: str, type_: str) -> str:
    """SQL that is true where `value` is not null but `cast`, which `typed` made of it, is null."""
    zero = zero_date(value, type_)
    unless = f" AND NOT {zero}" if zero else ""
    return f"({value} IS NOT NULL AND {cast} IS NULL{unless})"


def as_text(typed: str, type_: str) -> str:
    """SQL of a typed key value as text: equal values have the same text, and no others do.

    Instants are written as microseconds, since the session's zone may have one hour twice; -0.0 is
    written as 0.0.
    """
    if type_ == "binary":
        return f"base64({typed})"
    if type_ == "timestamp":
        typed = f"unix_micros({typed})"
    elif type_ in ("float", "double"):
        typed = f"({typed} + CAST(0 AS {type_}))"
    return f"CAST({typed} AS string)"


def from_text(text: str, type_: str) -> str:
    """SQL of the typed key value that `as_text` wrote."""
    if type_ == "binary":
        return f"unbase64({text})"
    if type_ == "timestamp":
        return f"timestamp_micros(CAST({text} AS bigint))"
    return text if type_ == "string" else f"CAST({text} AS {type_})"
