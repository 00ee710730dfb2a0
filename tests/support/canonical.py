"""The text that silver holds for a value, told from the value: what every format is held against.

It shares nothing with the product but the names of what a format loses (`FORMAT.losses`).
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from ingest.formats import FORMATS
from tests.support.encoded_cells import ZONE, streamx_cell
from tests.support.encoders import WIRES

FRACTIONS = "fractions below a millisecond"
ZONELESS = "dates and times without zone"
SCALES = "scale of decimals"
TIMES = "times of day"
BOOLEANS = "booleans"
ZERO_DATES = "zero dates"
ABSENT = "absent columns"
JSON_NULL = "JSON null"
LARGE_NULLS = "nulls of large objects"
NO_OPS = "updates that change nothing"
OF_VALUES = (FRACTIONS, ZONELESS, SCALES, TIMES, BOOLEANS)
"""Losses that change a text; the others change whether there is one."""
OF_PRODUCERS = (
    *("NaN and infinite decimals", "NaN and infinite numbers", "trailing zeros of decimals"),
    *("NULL beside a default", "unchanged TOAST values", "truncates", "large unsigned integers"),
    *("nulls of the row before", "equal rows of one COPY"),
    "columns that a minimal binlog row image leaves out",
    "labels of ENUM and SET",
    "columns set to NULL",
    "the text null",
    "changes of a primary key",
    "types of MongoDB's values",
    "fields that MongoDB's replacement of a document dropped",
    "columns that Spanner's updates leave",
    "keys of REPLICA IDENTITY USING INDEX",
    "PostgreSQL's timetz, hstore and money",
    "PostgreSQL's intervals",
    "PostgreSQL's schema changes",
    "leading zeros of PostgreSQL's bits",
    "arrays of several dimensions",
    "one text of arrays",
    "year zero",
    "days that the Gregorian calendar left out",
    "one text of geometries",
    "white space of nested JSON",
    "deletes before a snapshot that is taken again",
    "digits of MySQL's FLOAT",
    "zero bytes at the end of a BINARY(n)",
    "characters of another set than UTF-8",
    "columns of json_row with names of metadata",
    "which row a changed key was of",
    "CockroachDB's timestamps",
    "equal changes of a row",
    "the order of an initial load",
    "the order of transactions of one moment",
    "the order of compressed transactions",
    "types of Huawei DRS",
    "generated columns",
    "virtual generated columns",
    "columns that Oracle does not log",
    "Oracle's CLOB, NCLOB and BLOB",
    "SQL Server's large values before a change",
    "SQL Server's computed columns",
    "large objects",
    "digits of PostgreSQL's NUMERIC",
    "infinite timestamps",
    "MySQL's ENUM and SET",
    "tables without a primary key",
    "zones of instants",
    "digits of Oracle's FLOAT",
)
"""Losses before there is a message: no wire here has such values or changes."""
OF_ENVELOPES = (
    "checkpoint",
    "idx and size",
    "checkpointTime, the database's version",
    "checkpointTime, ddlMeta, the database's version",
    "txind, tags, the database's version",
    "other tags, safeSourcePosition, the database's version, processTimestamps",
)
"""What a message says besides its change, which only bronze keeps."""
KNOWN = (
    *(*OF_VALUES, ZERO_DATES, ABSENT, JSON_NULL, LARGE_NULLS, NO_OPS, *OF_PRODUCERS),
    *(*OF_ENVELOPES, "repeats of a table without a key", "equal rows of a snapshot"),
    "a change that is made again within a millisecond",
)
LARGE = ("text", "blob", "json")
"""Types of large objects."""


def lost_by(wire: str) -> frozenset[str]:
    """What a wire loses: what its format does, less what declared columns bring back."""
    sent = WIRES[wire]
    return frozenset(
        loss.what for loss in FORMATS[sent.format].losses if sent.typed or not loss.mended
    )


def text_of(value: Any, lost: Collection[str] = ()) -> str | None:
    """The canonical text of a value that came with some losses."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(int(value)) if BOOLEANS in lost else str(value).lower()
    if isinstance(value, Decimal):
        return str(value) if SCALES in lost else format(value, "f")
    if isinstance(value, timedelta):
        return streamx_cell("time(6)", value).strip('"') if TIMES in lost else _span(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date):
        return _moment(value, lost)
    return str(value)


def _span(value: timedelta) -> str:
    micros = abs(value) // timedelta(microseconds=1)
    hours, rest = divmod(micros, 3_600_000_000)
    clock = f"{rest // 60_000_000:02d}:{rest // 1_000_000 % 60:02d}"
    fraction = f".{rest % 1_000_000:06d}".rstrip("0").rstrip(".")
    return f"{'-' if value < timedelta() else ''}{hours:02d}:{clock}{fraction}"


def _moment(value: date, lost: Collection[str]) -> str:
    if not isinstance(value, datetime):
        if ZONELESS not in lost:
            return value.isoformat()
        value = datetime.combine(value, time())
    if FRACTIONS in lost:
        value = value.replace(microsecond=value.microsecond // 1000 * 1000)
    if value.tzinfo is None and ZONELESS in lost:
        value = value.replace(tzinfo=ZoneInfo(ZONE))
    moment = value.astimezone(UTC) if value.tzinfo is not None else value
    clock = moment.replace(tzinfo=None, microsecond=0).isoformat(sep=" ")
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    text = f"{clock}{fraction}"
    return text.replace(" ", "T") + "Z" if value.tzinfo is not None else text


def image_of(
    row: Mapping[str, Any] | None, columns: Mapping[str, str], lost: Collection[str] = ()
) -> dict[str, str | None] | None:
    """The texts of a row image; None where there is none."""
    if row is None:
        return None
    texts = {name: text_of(value, lost) for name, value in row.items()}
    if JSON_NULL in lost:
        nulls = [name for name, text in texts.items() if text == "null"]
        texts |= {name: None for name in nulls if columns[name] == "json"}
    return texts
