"""Which dialect a DDL text is written in: as its message or source says, else as its words do."""

from __future__ import annotations

import re
from functools import lru_cache

from ingest.ddl.parse import dialect_of

_SAID_ELSEWHERE = re.compile(r"'(?:[^'\\]|\\.|'')*+(?:'|\Z)|/\*.*?(?:\*/|\Z)|--[^\n]*", re.DOTALL)
"""Strings and comments, which go on to the end where nothing closes them: their words say nothing
of the dialect."""
_NAME = re.compile(r'"[^"]*+"')
_QUOTED = re.compile(r'\b(?:TABLE|INDEX|COLUMN|ON|EXISTS)\s+"', re.IGNORECASE)
_ORACLE = re.compile(
    r"\b(?:N?VARCHAR2|NUMBER|N?CLOB|BINARY_(?:FLOAT|DOUBLE)|LONG\s+RAW|SYSDATE|MODIFY\s*\()",
    re.IGNORECASE,
)
_COLUMN_CALLED = re.compile(
    r"(?:\b(?:ADD|COLUMN|DROP|MODIFY|CHANGE|TO)\s+|[,(]\s*)(?:NUMBER|N?CLOB|SYSDATE)\b",
    re.IGNORECASE,
)
"""A column of a name that is a type's elsewhere: it says nothing of the dialect."""
_DIALECT_SYNTAX = (
    ("oracle", re.compile(r"\bADD\s*\(", re.IGNORECASE)),
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
            r"\[[^\W\d][^\]\[]*+\]|\b(?:NVARCHAR|DATETIME2|DATETIMEOFFSET|UNIQUEIDENTIFIER|SMALLDATETIME"
            r"|sp_rename)\b",
            re.IGNORECASE,
        ),
    ),
)


@lru_cache(maxsize=256)
def dialect_of_database(db_type: str | None) -> str | None:
    """The dialect of what a message calls its database; None if it says nothing."""
    return dialect_of(db_type) if db_type else None


def declared_dialect(option: str, *, db: str | None, schema: str | None) -> str | None:
    """The dialect of a statement by the option `dialect` of its source; None: it tells nothing.

    An option left at MySQL holds where the message names its table as MySQL does: without a schema,
    or with the database once more as one.
    """
    if option == "mysql" and schema is not None and schema != db:
        return None
    return dialect_of(option)


def guess_dialect(text: str, *, db: str | None = None, schema: str | None = None) -> str:
    """The dialect of a DDL text (`ingest.ddl.parse.dialect_of`) by its words and quotes.

    A table without a schema, or with its database as one, is MySQL's unless the text says
    otherwise; one with a schema and no telling word is Oracle's where the schema is in capitals, as
    unquoted names are there, SQL Server's where it is its first schema, else PostgreSQL's.
    """
    if schema == db:
        schema = None
    plain = _SAID_ELSEWHERE.sub(" ", text)
    if "`" in _NAME.sub(" ", plain):
        return "mysql"
    if _ORACLE.search(_COLUMN_CALLED.sub(" ", plain)):
        return "oracle"
    if schema is None:
        return "oracle" if _QUOTED.search(plain) else "mysql"
    for dialect, words in _DIALECT_SYNTAX:
        if words.search(plain):
            return dialect
    if schema.lower() == "dbo":
        return "tsql"
    return "oracle" if schema.isupper() else "postgres"
