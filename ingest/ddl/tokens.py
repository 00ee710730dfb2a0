"""The words of a DDL statement, cut by sqlglot's tokenizer, and a reader that walks them.

sqlglot's parser gives no tree for most vendor ALTER syntax (it falls back to one opaque command),
but its tokenizers know every dialect's quoting, strings and comments. So they cut the words, and
`ingest.ddl.alter` and `ingest.ddl.columns` read them. sqlglot takes half a second to import: only
when the first statement is read.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from ingest.ddl.model import TableName

if TYPE_CHECKING:
    from sqlglot.tokens import Tokenizer

TokenKind = Literal["word", "quoted", "string", "bits", "hex", "number", "mark", "end"]
_KINDS: dict[str, TokenKind] = {
    "IDENTIFIER": "quoted",
    "NUMBER": "number",
    "BIT_STRING": "bits",
    "HEX_STRING": "hex",
    **dict.fromkeys(
        (
            "STRING",
            "BYTE_STRING",  # how sqlglot calls PostgreSQL's E'…'
            "RAW_STRING",
            "HEREDOC_STRING",
            "NATIONAL_STRING",
            "UNICODE_STRING",
        ),
        "string",
    ),
}
_WORD = re.compile(r"[^\W\d][\w$#@]*|\d+[^\W\d][\w$#]*|@+\w+")
_RAISING = ("oracle", "db2")
_NEAREST = {"db2": "postgres"}
"""Dialect -> that of sqlglot's whose words are cut as its own are, where sqlglot has none."""
_VERBS = {
    "oracle": {"ADD", "MODIFY", "DROP", "RENAME"},
    "db2": {"ADD", "ALTER", "DROP", "RENAME"},
}
"""What clauses begin with where no commas stand between them."""
_NONE = frozenset[str]()
_NOUNS = {"STORAGE", "ALL", "INDEX", "VALUES", "SUBPARTITION", "OVERFLOW", "IDENTITY"}
_BY_NUMBER = re.compile(r"\\(?:\\|([0-9a-fA-F]{4})|\+([0-9a-fA-F]{6}))")
# What is never closed goes on to the end of the text. No server is of version 99999 or above.
_EXECUTABLE = re.compile(
    r"(?P<quote>'(?:[^'\\]|''|\\.)*+(?:'|\Z)|\"(?:[^\"\\]|\"\"|\\.)*+(?:\"|\Z)|`[^`]*+(?:`|\Z))"
    r"|(?P<open>/\*M?!(?!99999)\d*|/\*T!(?:\[[\w,]*\])?)|(?P<hint>/\*\+)"
    r"|(?P<comment>/\*.*?(?:\*/|\Z))|(?P<close>\*/)",
    re.DOTALL,
)


_BEGINNINGS = {"ALTER", "CREATE", "DROP", "TRUNCATE", "EXEC", "EXECUTE"}


class Unread(Exception):
    """The text leaves the grammar here; its statement or clause is `unparsed`."""


class Token(NamedTuple):
    """One word. `text` has quotes undone; `start` and `end` cut it from the statement."""

    text: str
    kind: TokenKind
    start: int
    end: int


class TokenReader:
    """Walks the tokens of one text; knows the dialect's names and the table its message named.

    `begun`: where the statement begins that is read.
    """

    def __init__(self, text: str, *, dialect: str, place: TableName) -> None:
        self.dialect = dialect
        self.place = place
        self.text = _plain(text)
        self.tokens = _tokens(self.text, dialect)
        self.index = self.begun = 0

    def peek(self, ahead: int = 0) -> Token:
        index = self.index + ahead
        size = len(self.text)
        return self.tokens[index] if index < len(self.tokens) else Token("", "end", size, size)

    def take(self) -> Token:
        token = self.peek()
        self.index += token.kind != "end"
        return token

    def verb(self) -> str:
        """Takes the word that says what follows, in upper case; '' where it is no plain word."""
        token = self.take()
        return token.text.upper() if token.kind == "word" else ""

    def at(self, *words: str, ahead: int = 0) -> bool:
        """Are the next tokens these unquoted words or marks? Words are given in upper case."""
        for offset, word in enumerate(words, ahead):
            token = self.peek(offset)
            if token.kind not in ("word", "mark") or token.text.upper() != word:
                return False
        return True

    def at_any(self, words: frozenset[str] | set[str], *, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        return token.kind in ("word", "mark") and token.text.upper() in words

    def accept(self, *words: str) -> bool:
        if not self.at(*words):
            return False
        self.index += len(words)
        return True

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            raise Unread(f"expected {' '.join(words)}, got {self.peek().text!r}")

    def at_end(self) -> bool:
        """Is the statement over? SQL Server asks for no semicolon between two."""
        if self.dialect == "tsql" and self.at_any(_BEGINNINGS) and self.index > self.begun:
            return self.at("TABLE", ahead=1) or self.at_any({"EXEC", "EXECUTE"})
        return self.peek().kind == "end" or self.at(";")

    def at_partitioning(self) -> bool:
        """How MySQL's table is partitioned from now on: no comma stands before it."""
        return self.dialect == "mysql" and (
            self.at("PARTITION", "BY") or self.at("REMOVE", "PARTITIONING")
        )

    def at_unused(self) -> bool:
        """Oracle's way to drop columns that are cleaned up later, which no comma comes before."""
        return self.dialect == "oracle" and self.at("SET", "UNUSED")

    def at_name(self, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        # MySQL in ANSI_QUOTES mode logs "x" for a name.
        ansi = token.kind == "string" and self.text[token.start] == '"'
        return token.kind in ("word", "quoted") or ansi

    def name(self) -> str:
        """A name as catalogues hold it: unquoted, Oracle and Db2 raise it, PostgreSQL lowers it."""
        if not self.at_name():
            raise Unread(f"expected a name, got {self.peek().text!r}")
        token = self.take()
        if token.kind == "word" and self.dialect in _RAISING:
            return token.text.upper()
        return (
            token.text.lower()
            if token.kind == "word" and self.dialect == "postgres"
            else token.text
        )

    def column(self) -> str:
        """The name of a column; MySQL before 8 takes `t.c` and `d.t.c` for it, too."""
        if self.dialect == "mysql":
            return self.path()[-1]
        return self.name()

    def path(self) -> list[str]:
        """A dotted name; SQL Server's `db..t` has an empty part, MySQL's `.t` begins with a dot."""
        if self.dialect == "mysql":
            self.accept(".")
        parts = [self.name()]
        while self.accept("."):
            parts.append("" if self.at(".") else self.name())
        return parts

    def table(self) -> TableName:
        return self.locate(self.path())

    def new_table(self) -> TableName:
        """The name that a table gets, as it is written: it may be its own in another case."""
        path = self.path()
        return self.locate(path)._replace(name=path[-1])

    def locate(self, path: list[str]) -> TableName:
        """The table of a dotted name, with what it leaves unsaid taken from its message.

        Raises Unread for more parts than the dialect has: MySQL's schema is its database.
        """
        if len(path) > (2 if self.dialect == "mysql" else 3):
            raise Unread(f"expected the name of a table, got {'.'.join(path)[:80]!r}")
        db, schema, _ = self.place
        name = _known_spelling(path[-1], self.place.name)
        above = path[-2] if len(path) > 1 else ""
        if not above:
            return TableName(path[-3] if len(path) > 2 else db, schema, name)
        if self.dialect == "mysql" or (self.dialect == "oracle" and schema is None and db):
            return TableName(_database(above, db), schema, name)
        top = _known_spelling(path[-3], db) if len(path) > 2 else db
        return TableName(top, _known_spelling(above, schema), name)

    def group(self) -> list[Token]:
        """A balanced `( … )` or `[ … ]`, with its marks."""
        first = self.index
        if not self.accept("["):
            self.expect("(")
        depth = 1
        while depth:
            token = self.take()
            if token.kind == "end":
                raise Unread("a parenthesis is never closed")
            if token.kind == "mark":
                depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        return self.tokens[first : self.index]

    def skip(self) -> None:
        """On to the comma, closing parenthesis or end that ends this clause."""
        while not (self.at_end() or self.at(",") or self.at(")")):
            # No commas stand between clauses; `DROP STORAGE` and its like go on with one.
            verbs = _VERBS.get(self.dialect, _NONE)
            if self.at_unused() or (self.at_any(verbs) and not self.at_any(_NOUNS, ahead=1)):
                return
            if self.at_any({"(", "["}):
                self.group()
            else:
                self.take()

    def written(self, first: int) -> str:
        """The text from token `first` to the last one taken, as written but for quoted names and
        for comments, which are a space."""
        parts: list[str] = []
        end: int | None = None
        for token in self.tokens[first : self.index]:
            if end is not None:
                between = self.text[end : token.start]
                parts.append(" " if between.strip() else between)
            parts.append(
                token.text if token.kind == "quoted" else self.text[token.start : token.end]
            )
            end = token.end
        return "".join(parts)


def _known_spelling(name: str, known: str | None) -> str:
    return known if known is not None and known.lower() == name.lower() else name


def _database(name: str, known: str | None) -> str:
    """The database that a statement names, as messages of its table's database spell it.

    OceanBase's may have their tenant in front (`tenant.db`), which no statement names.
    """
    tenant, dot, own = (known or "").partition(".")
    if not dot or "." in name:
        return _known_spelling(name, known)
    return f"{tenant}.{_known_spelling(name, own)}"


def _plain(text: str) -> str:
    """Open executable comments, MySQL's `/*!50003 … */` and TiDB's `/*T![ttl] … */`, and close
    hints, positions kept."""
    if not any(mark in text for mark in ("/*!", "/*M!", "/*T!", "/*+")):
        return text
    opened = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal opened
        found = match[0]
        if match["open"]:
            opened += 1
        elif match["hint"]:
            return "/* "
        elif match["close"] and opened:
            opened -= 1
        else:
            return found
        return " " * len(found)

    return _EXECUTABLE.sub(replace, text)


def _tokens(text: str, dialect: str) -> list[Token]:
    """Raises Unread if the text cannot be cut (an open quote)."""
    tokens: list[Token] = []
    try:
        found = _tokenizer(dialect).tokenize(text)
    except Exception as error:
        # sqlglot documents TokenError alone, but a text from outside must not stop a stream.
        raise Unread(str(error)) from error
    for token in found:
        start, end = token.start, token.end + 1
        kind = _KINDS.get(token.token_type.name)
        if kind is not None:
            escaped = token.token_type.name == "UNICODE_STRING"
            written = _unescaped(token.text) if escaped else token.text
            tokens.append(Token(written, kind, start, end))
            continue
        # Some keywords are several words in one token (`PRIMARY KEY`).
        for part in re.finditer(r"\S+", text[start:end]):
            word: TokenKind = "word" if _WORD.fullmatch(part[0]) else "mark"
            tokens.append(Token(part[0], word, start + part.start(), start + part.end()))
    return tokens


def _unescaped(text: str) -> str:
    """What U&'d\\0061t' says: characters by their number in four digits, or six behind a plus."""

    def character(match: re.Match[str]) -> str:
        try:
            return chr(int(match[1] or match[2], 16)) if match[1] or match[2] else "\\"
        except ValueError as error:
            raise Unread(f"expected the number of a character, got {match[0]!r}") from error

    plain = _BY_NUMBER.sub(character, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@lru_cache(maxsize=16)
def _tokenizer(dialect: str) -> Tokenizer:
    from sqlglot.dialects.dialect import Dialect

    found = Dialect.get_or_raise(_NEAREST.get(dialect, dialect))
    # Commands (RENAME, EXEC, …) would swallow the rest of the statement as one string.
    plain = type("Plain", (found.tokenizer_class,), {"COMMANDS": set()})
    tokenizer: Tokenizer = plain(dialect=found)
    return tokenizer
