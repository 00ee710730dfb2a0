"""Which tables a statement empties: the statement says so itself, whatever its message is about.

A message names the database of the session, the first of several tables, or none. What its
statement names wins (semantics.md, 67): `TRUNCATE a, b` is a truncate of each, `TRUNCATE other.t`
is none of the message's table, and a text that cannot be read is a truncate of nothing. Nearly
every statement names exactly the table of its message, which is seen without parsing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from ingest.codes import Code
from ingest.ddl.dialect import guess_dialect
from ingest.ddl.model import TableName
from ingest.ddl.parse import changes_rows, dialect_of
from ingest.ddl.statements import read_statement
from ingest.ddl.tokens import TokenReader, Unread
from ingest.decode.declarations import Declarations
from ingest.errors import DecodeError
from ingest.events import Event
from ingest.limits import Limits, statement_too_large

_NAME = r"(?:`[^`]+`|\"[^\"]+\"|[^\W\d][\w$]*+)"
_ONE_TABLE = re.compile(
    rf"\s*+TRUNCATE\s++(?:TABLE\s++)?+(?:({_NAME})\s*+\.\s*+)?({_NAME})\s*+;?+\s*+\Z",
    re.IGNORECASE,
)
_ONE_TABLE_MOST = 1_000
_WORD = re.compile(r"\btruncate\b", re.IGNORECASE)
_DIALECTS = ("mysql", "postgres")
"""The two differ in what a name in double quotes is; together they read the statements of every
database."""


class _Effect(NamedTuple):
    """What a statement does: the tables that it empties, and whether it changes others."""

    tables: tuple[TableName, ...]
    more: bool


def truncates_by_table(
    events: Iterable[Event], name: str | None, declared: Declarations, *, limits: Limits
) -> list[Event]:
    """The events of a message of a format, with one truncate for each table that a statement
    empties.

    Raises statement_dml if a statement changed rows, since no image says which; too_large if a
    statement has too many bytes.
    """
    found: list[Event] = []
    for event in events:
        stated = event.kind == "ddl" or event.op == "truncate"
        if stated and event.ddl is not None and _larger(event.ddl, limits.ddl_bytes):
            raise statement_too_large(event.ddl, limits)
        if event.ddl is not None and changes_rows(event.ddl):
            raise DecodeError(
                Code.STATEMENT_DML,
                f"expected row images, got the statement {event.ddl[:80]!r}; set the source's "
                f"binlog_format to ROW",
            )
        if event.ddl is not None and event.dialect is None:
            event.dialect = declared.dialect(event, event.format or name)
        found += truncated_tables(event, default=declared.table)
    return found


def _larger(text: str, most: int) -> bool:
    """Whether a text has more bytes than `most`."""
    return len(text) > most or (
        not text.isascii() and len(text.encode("utf-8", "surrogatepass")) > most
    )


def truncated_tables(event: Event, *, default: str | None) -> list[Event]:
    """The event as its statement means it: one truncate for each table that it empties.

    A schema change that also empties tables (`ALTER …; TRUNCATE t`, or the other way round) is
    followed by its truncates.
    `default`: the table of messages that name none. Raises bad_shape if the statement of a truncate
    cannot be read, or nobody names the table.
    """
    sql = event.ddl
    if event.op == "truncate":
        if sql is None:
            return [_named(event, default)]
        if _is_of_its_message(sql, event):
            return [event]
        effect = _effect_of(sql, event)
        if effect is None:
            raise DecodeError(
                Code.BAD_SHAPE,
                f"expected a TRUNCATE that says which tables it empties, got {sql[:80]!r}",
            )
        # The change stands first: the ledger knows both by one id, and enters the first.
        rest = [_as_change(event)] if effect.more or not effect.tables else []
        return [*rest, *(_of(event, table) for table in effect.tables)]
    if event.op != "ddl" or sql is None or _WORD.search(sql) is None:
        return [event]
    effect = _effect_of(sql, event)
    return [event, *(_of(event, table) for table in effect.tables)] if effect else [event]


def _named(event: Event, default: str | None) -> Event:
    """A truncate without a statement: of the table that its message names."""
    if event.table is None and default is None:
        raise DecodeError(
            Code.BAD_SHAPE,
            "expected the table that is emptied, got none in the message and no statement; set "
            "default_table for the source",
        )
    return event


def _is_of_its_message(sql: str, event: Event) -> bool:
    """Whether the statement names one table, the message's."""
    if event.table is None or len(sql) > _ONE_TABLE_MOST:
        return False
    found = _ONE_TABLE.match(sql)
    if found is None or not _same(found[2], event.table):
        return False
    return found[1] is None or _same(found[1], event.schema if event.schema else event.db)


def _same(written: str, known: str | None) -> bool:
    quoted = written[0] in '`"'
    if not quoted and written.upper() in ("TABLE", "ONLY"):
        return False
    return known is not None and written.strip('`"').lower() == known.lower()


def _effect_of(sql: str, event: Event) -> _Effect | None:
    """What the text does; None if a statement of it cannot be read."""
    place = TableName(event.db, event.schema, event.table)
    first = event.dialect or guess_dialect(sql, db=event.db, schema=event.schema)
    for dialect in dict.fromkeys((first, *_DIALECTS)):
        clauses = []
        try:
            reader = TokenReader(sql, dialect=dialect_of(dialect), place=place)
            while reader.peek().kind != "end":
                if not reader.accept(";"):
                    clauses += read_statement(reader)
        except Unread:
            continue
        tables = dict.fromkeys(clause.table for clause in clauses if clause.kind == "truncate")
        more = any(clause.kind not in ("truncate", "other") for clause in clauses)
        return _Effect(tuple(tables), more)
    return None


def _of(event: Event, table: TableName) -> Event:
    """The truncate of `table`; what the message says of another table's columns is left out."""
    truncate = replace(event, op="truncate", kind="change", columns=None)
    names = TableName(event.db, event.schema, event.table)
    if table.folded() != names.folded():
        truncate.key_columns = truncate.types = None
    truncate.db, truncate.schema, truncate.table = table
    if names.schema is not None and names.schema == names.db:
        # If a database is its own only schema, that schema cannot be in another database.
        truncate.schema = truncate.db
    return truncate


def _as_change(event: Event) -> Event:
    """The rest of what the text does: a schema change."""
    return replace(event, op="ddl", kind="ddl")
