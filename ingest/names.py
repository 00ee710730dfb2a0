"""Names of source tables: patterns that match them, and the target names they become.

A pattern has one to three parts divided by dots: `table`, `db.table` (any schema) or
`db.schema.table`. `*` stands for any run of characters and `?` for one, each inside one name; `*`
alone is everything. Case counts, since two source tables may differ in nothing else. A part in
backticks is literal, so a name that itself holds a dot, a comma, `*` or `?` is written
db.`odd.name`, and a backtick inside is doubled. A name the source lacks (MySQL has no schema) is
matched as empty.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

FIELDS = ("db", "schema", "table")
DEFAULT_TARGET = "{db}_{table}"
RESERVED = {"", "_progress", "_ddl", "_rejects", "_runs", "_leases", "_erasures"}
"""What no source table may become: an empty name, or one of gold's own tables."""
LONGEST_TARGET = 255
"""Characters of a target's name: what Unity Catalog takes, and file systems for a folder."""
ROW_IDS = ("#alibaba_rds_row_id#", "__#alibaba_rds_row_id#__")
"""Columns in which Alibaba's RDS hides the row id of a table without a key."""
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_SEPARATORS = "_-. "
_WILDCARDS = {"*": ".*", "?": "."}


def lowered(names: Iterable[str]) -> set[str]:
    """Names in lower case, as columns and targets are matched (semantics.md, 25)."""
    return {name.lower() for name in names}


def lacking(names: Iterable[str], row: Iterable[str]) -> list[str]:
    """Those of `names` that no column of a row has, in whatever case (semantics.md, 25)."""
    held = lowered(row)
    return [name for name in names if name.lower() not in held]


class SourceTable(NamedTuple):
    """A table of a source by the source's own names, case kept; None for a level that the source
    does not have.

    `table` is None for what names no table, which stays in silver only.
    """

    source: str
    db: str | None
    schema: str | None
    table: str | None

    def __str__(self) -> str:
        return f"{self.source}:{'.'.join(quoted(name) for name in self.path if name)}"

    @property
    def path(self) -> tuple[str | None, str | None, str | None]:
        """Database, schema and table: what the source itself calls it."""
        return self.db, self.schema, self.table


def label_of(table: SourceTable) -> str:
    """`db.table` or `db.schema.table`, as `_source_table` has it."""
    return ".".join(part for part in (table.db, table.schema, table.table) if part)


def declared_for(
    declared: Mapping[str, Any], names: tuple[str | None, str | None, str | None]
) -> Any:
    """What the YAML declares, by source table, for the one with these names (db, schema, name):
    under `db.schema.table`, else `db.table`, `schema.table` or `table`."""
    if not declared:
        return {}
    db, schema, table = names
    for parts in ((db, schema, table), (db, table), (schema, table), (table,)):
        found = declared.get(".".join(part for part in parts if part))
        if found is not None:
            return found
    return {}


def quoted(name: str) -> str:
    """`name` as a pattern that matches just it."""
    return "`" + name.replace("`", "``") + "`" if re.search(r"[.*?`,]", name) else name


@lru_cache(maxsize=4096)
def parse_pattern(text: str) -> tuple[re.Pattern[str], ...]:
    """One compiled pattern per part; raises ValueError where `text` is no pattern."""
    parts: list[re.Pattern[str]] = []
    at = 0
    while True:
        found = _PART.match(text, at)
        if found is None:
            break
        literal, pattern = found.groups()
        written = (
            re.escape(literal.replace("``", "`"))
            if literal is not None
            else "".join(_WILDCARDS.get(letter, re.escape(letter)) for letter in pattern)
        )
        parts.append(re.compile(written, re.DOTALL))
        at = found.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    if at != len(text) or text.endswith(".") or not 1 <= len(parts) <= 3:
        raise ValueError(
            f"expected table, db.table or db.schema.table (a name with a dot in backticks), "
            f"got `{text}`"
        )
    return tuple(parts)


def matches(pattern: str, *, db: str | None, schema: str | None, table: str) -> bool:
    """Whether the source table is one that `pattern` means.

    If a table has no database, the first of two parts is its schema.
    """
    parts = parse_pattern(pattern)
    outer = schema if db is None else db
    names = {1: (table,), 2: (outer, table), 3: (db, schema, table)}[len(parts)]
    return all(part.fullmatch(name or "") for part, name in zip(parts, names, strict=True))


def covers(general: str, special: str) -> bool:
    """Whether `general` means every source table that `special` means; False if the patterns alone
    do not tell that."""
    wide, narrow = _letters(general), _letters(special)
    if len(wide) == 1:
        pairs = [(wide[0], narrow[-1])]
    elif len(narrow) == 1:
        pairs = [*((part, _ANY) for part in wide[:-1]), (wide[-1], narrow[0])]
    elif len(wide) == 2:
        pairs = [(wide[0], narrow[0]), (wide[1], narrow[-1])]
    elif len(narrow) == 3:
        pairs = list(zip(wide, narrow, strict=True))
    else:
        return False
    return all(_covers(*pair) for pair in pairs)


def literal(pattern: str) -> tuple[str, ...] | None:
    """The names of a pattern that means just them; None if it has wildcards."""
    parts = _letters(pattern)
    return None if any(_ANY in part or _ONE in part for part in parts) else tuple(parts)


def literals_over(pattern: str) -> list[tuple[str, ...]]:
    """The names of the patterns without wildcards that mean all that `pattern` does: of those,
    `covers` is true of no others."""
    parts = _letters(pattern)
    shorter = [(parts[-1],), (parts[0], parts[-1]), tuple(parts)]
    return shorter[: len(parts)]


class PatternIndex:
    """Patterns with wildcards, each with a number, found by how their first and their last part
    begin: thousands of them are not gone through for each table."""

    def __init__(self, patterns: Iterable[tuple[int, str]]) -> None:
        self._found: dict[str, dict[str, list[tuple[int, str]]]] = {}
        for number, pattern in patterns:
            parts = _letters(pattern)
            outer = _beginning(parts[0]) if len(parts) > 1 else ""
            among = self._found.setdefault(outer, {})
            among.setdefault(_beginning(parts[-1]), []).append((number, pattern))

    def over(self, pattern: str) -> Iterator[tuple[int, str]]:
        """Those that may mean all that `pattern` does: of no others `covers` is true."""
        parts = _letters(pattern)
        outer = _beginning(parts[0]) if len(parts) > 1 else ""
        return self._beginning_like({outer}, _beginning(parts[-1]))

    def of(self, db: str | None, schema: str | None, table: str) -> Iterator[tuple[int, str]]:
        """Those that may mean a source table: of no others `matches` is true."""
        return self._beginning_like({db or "", (schema if db is None else db) or ""}, table)

    def _beginning_like(self, outer: set[str], last: str) -> Iterator[tuple[int, str]]:
        ends = range(len(last) + 1)
        for begun in {name[:end] for name in outer for end in range(len(name) + 1)}:
            among = self._found.get(begun)
            if among is not None:
                for end in ends:
                    yield from among.get(last[:end], ())


_ANY, _ONE = "\ue000", "\ue001"
"""Letters that stand for `*` and `?`."""


def _beginning(part: str) -> str:
    """What stands before the first wildcard of a part."""
    return part.partition(_ANY)[0].partition(_ONE)[0]


def _letters(pattern: str) -> list[str]:
    """The parts of a pattern, its wildcards as letters of their own."""
    parse_pattern(pattern)
    return [
        literal.replace("``", "`") if literal else part.replace("*", _ANY).replace("?", _ONE)
        for literal, part in _PART.findall(pattern)
    ]


def _covers(wide: str, narrow: str) -> bool:
    written = re.escape(wide).replace(_ANY, ".*").replace(_ONE, f"[^{_ANY}]")
    return re.fullmatch(written, narrow, re.DOTALL) is not None


def table_name(text: str) -> str:
    """Checks the name of one source table, as `keys:` and `columns:` of a source have it."""
    parts = text.split(".")
    if not all(parts) or len(parts) > len(FIELDS):
        raise ValueError(f"expected db.table or db.schema.table, got `{text}`")
    if re.search(r"[*?`]", text):
        raise ValueError(f"expected the name of one table, without * ? or backticks, got `{text}`")
    return text


def check_target(template: str) -> str:
    """Refuses a target template that is malformed, or names unknown fields or a table of our
    own."""
    try:
        pieces = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"expected a name with {_fields()}, got `{template}`: {error}") from None
    for _, field, spec, conversion in pieces:
        if field is not None and (field not in FIELDS or spec or conversion):
            raise ValueError(f"expected only {_fields()} in braces, got `{{{field}}}`")
    if re.search(r"[/\\]", template):
        raise ValueError(f"expected the name of a table, not a path, got `{template}`")
    whole = all(field is None for _, field, _, _ in pieces)
    if whole and target_name(template, db=None, schema=None, table="").lower() in RESERVED:
        raise ValueError(f"`{template}` cannot be the name of a target; choose another")
    length = sum(len(literal) for literal, _, _, _ in pieces)
    if length > LONGEST_TARGET:
        raise ValueError(f"expected at most {LONGEST_TARGET} characters, got {length}")
    return template


def target_name(template: str, *, db: str | None, schema: str | None, table: str) -> str:
    """The target that `template` gives a source table, `[^A-Za-z0-9_]` turned into `_`.

    A level the source lacks leaves no trace: `{db}_{schema}_{table}` without schema is db_table.
    """
    names = {"db": db, "schema": schema, "table": table}
    written, gap, separator = "", False, 0
    for literal, field, _, _ in string.Formatter().parse(template):
        # Of the separators around a missing level one stays; at either end of the name none.
        if gap and (separator or not written):
            literal = literal.lstrip(_SEPARATORS)
        if literal:
            gap, separator = False, len(literal) - len(literal.rstrip(_SEPARATORS))
        written += literal
        name = names[field] if field else None
        if name:
            written, gap, separator = written + name, False, 0
        elif field:
            gap = True
    if gap:
        written = written[: len(written) - separator]
    return re.sub(r"[^A-Za-z0-9_]", "_", written)


def fields_of(template: str) -> tuple[str, ...]:
    """The fields that `template` names."""
    return tuple(field for _, field, _, _ in string.Formatter().parse(template) if field)


def _fields() -> str:
    return "{db}, {schema} and {table}"
