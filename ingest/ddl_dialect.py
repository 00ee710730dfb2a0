"""Which dialect a DDL text is written in, where its message does not say."""

from __future__ import annotations

import re

_BY_FORMAT = {"wal2json": "postgres", "ogg": "oracle", "maxwell": "mysql"} | dict.fromkeys(
    ("ticdc_open", "ticdc_simple"), "mysql"
)
_QUOTED = re.compile(r'\b(?:TABLE|INDEX|COLUMN|ON|EXISTS)\s+"', re.IGNORECASE)
_BACKTICK = re.compile(r"`")
_SPOKEN = (
    (
        "oracle",
        re.compile(
            r"\b(?:N?VARCHAR2|NUMBER|N?CLOB|BINARY_(?:FLOAT|DOUBLE)|LONG\s+RAW|SYSDATE"
            r"|MODIFY\s*\(|ADD\s*\()",
            re.IGNORECASE,
        ),
    ),
    (
        "postgres",
        re.compile(
            r"::|\b(?:CHARACTER\s+VARYING|INT[248]|FLOAT[48]|JSONB|BYTEA|TIMESTAMPTZ|UUID"
            r"|(?:BIG|SMALL)?SERIAL|ALTER\s+COLUMN\s+\S+\s+(?:SET\s+DATA\s+)?TYPE)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "tsql",
        re.compile(
            r"\[\w+\]|\b(?:NVARCHAR|DATETIME2|DATETIMEOFFSET|UNIQUEIDENTIFIER|SMALLDATETIME"
            r"|sp_rename)\b",
            re.IGNORECASE,
        ),
    ),
)


def spoken(text: str, *, format_: str | None, schema: str | None) -> str:
    """The dialect of a DDL text (`ingest.ddl.dialect_of`), by its format, its words and quotes.

    A table without a schema is MySQL's unless the text says otherwise; one with a schema and no
    telling word is Oracle's where the schema is in capitals, as unquoted names are there, else
    PostgreSQL's.
    """
    known = _BY_FORMAT.get(format_ or "")
    if known is not None:
        return known
    if _BACKTICK.search(text):
        return "mysql"
    for dialect, words in _SPOKEN:
        if words.search(text) and (schema is not None or dialect == "oracle"):
            return dialect
    if schema is None:
        return "oracle" if _QUOTED.search(text) else "mysql"
    return "oracle" if schema.isupper() else "postgres"
