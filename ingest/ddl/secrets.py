"""Passwords in statements, about users, roles and logins above all: silver has them masked.

Sources: MySQL 8.4 (CREATE USER, SET PASSWORD, CHANGE REPLICATION SOURCE), Oracle 19c (CREATE USER),
PostgreSQL 17 (CREATE ROLE), SQL Server 2022 (CREATE LOGIN, CREATE CREDENTIAL).
"""

from __future__ import annotations

import re
from functools import lru_cache

MASK = "***"
# A text that nothing closes goes on to the end: its statement was cut off, and so is a password.
_QUOTED = (
    r"""N?(?:'(?:[^'\\]|\\.|'')*+(?:'|\\?\Z)|"(?:[^"\\]|\\.|"")*+(?:"|\\?\Z)|0x[0-9a-fA-F]++)"""
)
# White space and comments; one that nothing closes goes on to the end.
_GAP = r"(?>\s|/\*(?!M?!).*?(?:\*/|\Z)|--[^\n]*(?:\n|\Z)|\#[^\n]*(?:\n|\Z))*+"
_OF_TABLES = re.compile(
    rf"({_GAP}(?:/\*M?!\d*+\s*+)?)(?:CREATE|ALTER|DROP|RENAME|TRUNCATE)\b"
    rf"(?:{_GAP}(?!USER\b|ROLE\b|LOGIN\b)[\w,.]++){{0,4}}?{_GAP}\b(?:TABLE|INDEX|VIEW)\b",
    re.IGNORECASE | re.DOTALL,
)
_PASSWORD = re.compile(
    rf"""
    (\bIDENTIFIED\s+(?:WITH\s+\S+\s+)?(?:BY|AS|USING)\s+(?:RANDOM\s+)?(?:PASSWORD\s+)?(?:VALUES\s+)?)
      (?:{_QUOTED}|[^\s;,]++)
    | (\b(?:(?:MASTER|SOURCE)_)?PASSWORD\s*+(?:FOR\s+[^=;]{{1,200}})?=?\s*+\(?\s*+){_QUOTED}
    | (\bREPLACE\s+|\bOLD_PASSWORD\s*=\s*|\bSECRET\s*=\s*|\bFOR\s+\S+\s*=\s*){_QUOTED}
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


# Of a federated table (MySQL) or a subscription (PostgreSQL). Other quoted texts are passed over,
# so that none is looked into.
_CONNECTION = re.compile(
    rf"(\bCONNECTION\s*+=\s*+){_QUOTED}|(\bSUBSCRIPTION\s++\S++\s++CONNECTION\s++){_QUOTED}"
    rf"|{_QUOTED}",
    re.IGNORECASE | re.DOTALL,
)
_LOGIN = re.compile(r"(?<=://)[^\s/@':]*+:[^\s/@']++(?=@)")


# One statement, however long, may be that of thousands of events: of each table that it empties.
@lru_cache(maxsize=1)
def masked(statement: str) -> str:
    """The statement without the passwords in it; of one about a table, whose texts may be data,
    without that of its connection alone, and those in the comments before it."""
    statement = _CONNECTION.sub(_hidden, statement)
    of_table = _OF_TABLES.match(statement)
    end = of_table.end(1) if of_table is not None else len(statement)
    return _LOGIN.sub(MASK, _PASSWORD.sub(_hidden, statement[:end])) + statement[end:]


def _hidden(found: re.Match[str]) -> str:
    before = next(filter(None, found.groups()), None)
    return found[0] if before is None else f"{before}'{MASK}'"
