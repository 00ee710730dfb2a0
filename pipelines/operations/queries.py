"""Which statements `ingest sql` runs without `--write`: those that read and do nothing else."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from ingest.errors import ConfigError, Mistake

if TYPE_CHECKING:
    from sqlglot import Token

_READING = {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC"}
_WRITING = {"INSERT", "MERGE", "UPDATE", "DELETE"}
"""What may follow a WITH or a FROM."""
_RUNNING = {"REFLECT", "TRY_REFLECT", "JAVA_METHOD"}
"""Functions of Spark that call any Java method. `IDENTIFIER('…')` can spell their names."""
_EXPLAINED = re.compile(r"\s*EXPLAIN\b\s*(?:(?:EXTENDED|CODEGEN|COST|FORMATTED)\b)?", re.IGNORECASE)


def check_reading(query: str) -> None:
    """Raise ConfigError unless the statement only reads.

    What only Spark, and not sqlglot, can parse is judged by its words.
    """
    from sqlglot import exp, parse, tokenize
    from sqlglot.errors import SqlglotError, TokenError

    explained = _EXPLAINED.match(query)
    query = query[explained.end() :] if explained else query
    try:
        tokens = tokenize(query, read="databricks")
    except TokenError:
        # Spark will say what is wrong with it.
        return
    while tokens and tokens[-1].text == ";":
        tokens.pop()
    if any(_is(token, ";") for token in tokens):
        raise _refused("several statements")
    first = next((token.text.upper() for token in tokens if token.text != "("), "nothing")
    if first not in _READING:
        raise _refused(first)
    said = {token.text.upper() for token in tokens if not _quoted(token)}
    if _has_program(tokens):
        raise _refused("a call of a program")
    if first in ("WITH", "FROM") and said & _WRITING:
        try:
            (read,) = parse(query, read="databricks")
        except (SqlglotError, ValueError):
            read = None
        if not isinstance(read, exp.Query) or read.find(exp.DML) is not None:
            raise _refused(sorted(said & _WRITING)[0])


def _is(token: Token, text: str) -> bool:
    return token.text == text and not _quoted(token)


def _quoted(token: Token) -> bool:
    from sqlglot import TokenType

    return token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)


def _has_program(tokens: list[Token]) -> bool:
    """Whether the statement calls Java, by `reflect(…)` however its name is written, or sends rows
    through a program: `SELECT TRANSFORM (…) USING '…'`. The USING of a join has columns behind it,
    or nothing."""
    from sqlglot import TokenType

    for word, after in pairwise(tokens):
        name = word.text.upper()
        if after.text == "(" and (name in _RUNNING or (name == "IDENTIFIER" and not _quoted(word))):
            return True
        if word.token_type == TokenType.USING and after.text != "(":
            return True
    return False


def _refused(got: str) -> ConfigError:
    text = f"expected one statement that only reads, got {got}; --write lets it change tables"
    return ConfigError([Mistake("query", None, text)])
