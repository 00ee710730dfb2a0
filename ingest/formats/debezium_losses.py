"""What Debezium's connectors do not say of a value or a change, in whichever encoding."""

from __future__ import annotations

from ingest.formats.format import Loss

LOSSES = (
    Loss(
        "zero dates",
        "MySQL's 0000-00-00 comes as null, or as 1970-01-01 where a column is NOT NULL",
    ),
    Loss(
        "NaN and infinite decimals",
        "PostgreSQL's numeric NaN and Infinity come as null with decimal.handling.mode=precise",
    ),
    Loss(
        "trailing zeros of decimals",
        "PostgreSQL's numeric without precision comes without the zeros at its end",
    ),
    Loss(
        "NULL beside a default",
        "comes as the column's default; set the converter's replace.null.with.default=false",
    ),
    Loss(
        "unchanged TOAST values",
        "those of numeric, bytea and some arrays come as null, not as the placeholder; REPLICA "
        "IDENTITY FULL sends them",
    ),
    Loss("truncates", "connectors skip them by default; set skipped.operations=none"),
    Loss(
        "large unsigned integers",
        "with bigint.unsigned.handling.mode=long a BIGINT UNSIGNED from 2^63 on comes negative",
        mended=True,
    ),
)
