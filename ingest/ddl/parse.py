"""A DDL statement read: what it does, to which table, how risky that is; and what tells it apart.

`parse` cuts the text with sqlglot's tokenizer and reads the clauses itself, since sqlglot's parser
keeps most vendor ALTER syntax as opaque text; whatever cannot be read is `unparsed`, never an
error. `ingest.ddl.review.review` then compares the clauses with a gold table and proposes Delta
statements. sqlglot is imported by the first `parse` only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

from ingest.ddl.model import Clause, Column, Statement, TableName
from ingest.ddl.statements import read_statement
from ingest.ddl.steps import in_steps
from ingest.ddl.tokens import TokenReader, Unread
from ingest.values.source_types import family_of

__all__ = [
    "Clause",
    "Column",
    "Statement",
    "TableName",
    "changes_rows",
    "changes_schema",
    "dialect_of",
    "empties",
    "ghost",
    "identity",
    "is_truncate",
    "parse",
]

_DIALECTS = {"mysql": "mysql", "oracle": "oracle", "postgres": "postgres", "sqlserver": "tsql"}
# What databases call themselves that their family's name does not tell.
_DIALECT_NAMES = {
    "tsql": "tsql",
    "sql server": "tsql",
    "db2": "db2",
    "greenplum": "postgres",
    "hologres": "postgres",
    "opengauss": "postgres",
    "gaussdb": "postgres",
    "kingbase": "postgres",
    "dameng": "oracle",
    "yashandb": "oracle",
}
# gh-ost: _t_gho, _t_ghc, _t_ghk, _t_del, with the time in its name under --timestamp-old-table;
# pt-online-schema-change: _t_new, _t_old.
_OLD = re.compile(r"_+(.+?)_old", re.IGNORECASE | re.DOTALL)
_CHANGES_ROWS = re.compile(
    r"(?>\s|/\*.*?\*/|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$))*+"
    r"(?:with\b.*?\b)?(?:insert|update(?!\s++statistics\b)|delete|replace|merge"
    r"|load(?!\s++index\b))\b",
    re.IGNORECASE | re.DOTALL,
)
_GHOST = re.compile(r"_(.+?)(?:_\d{14})?_(gho|ghc|ghk|del|new|old)", re.IGNORECASE | re.DOTALL)
_TIME = re.compile(r"_\d{14}\Z")
_NAME_MOST = 64
"""Characters of a MySQL name."""
_BIN = re.compile(r"BIN\$.{20,24}\$\d+", re.DOTALL)
"""What Oracle calls a dropped table in its recycle bin."""
_BEFORE = (
    r"(?>\s|;|/\*(?!M?!(?!99999)).*?\*/|--[^\n]*(?:\n|\Z)|\#[^\n]*(?:\n|\Z))*+"
    r"(?:/\*M?!\d*\s*)?"
    # MariaDB's settings of one statement.
    r"(?>SET\s+STATEMENT\s(?:'(?:[^'\\]|''|\\.)*+'|\"(?:[^\"\\]|\"\"|\\.)*+\"|[^'\";])*?\sFOR\s+)?"
)
# Of partitions alone: SQL Server's `WITH (PARTITIONS (1))`, Hive's `PARTITION (d = 1)`.
_OF_PARTITIONS = r"(?>/\*.*?\*/|--[^\n]*|\"[^\"]*\"|`[^`]*`|[^;/]|/(?!\*))*?\bPARTITIONS?\s*\("
_TRUNCATE = re.compile(
    _BEFORE
    + rf"(?:TRUNCATE(?![\w$])(?!{_OF_PARTITIONS})(?>\s|/\*.*?\*/)*+(?!CLUSTER\s+[\w\"])[\w`\"\[$]"
    # MySQL: all partitions are the table.
    r"|ALTER\s+TABLE\s+(?>`[^`]*+`|[^\s`;])++\s+TRUNCATE\s+PARTITION\s+ALL\s*+;?\s*+\Z)",
    re.IGNORECASE | re.DOTALL,
)
_CHANGES_SCHEMA = re.compile(
    _BEFORE + r"(?:ALTER|CREATE|DROP|RENAME|TRUNCATE)(?![\w$])", re.IGNORECASE | re.DOTALL
)


def dialect_of(db_type: str | None) -> str:
    """The sqlglot dialect of what a message calls its database; `mysql` where it says nothing."""
    name = (db_type or "").lower()
    named = next((dialect for word, dialect in _DIALECT_NAMES.items() if word in name), None)
    return named or _DIALECTS[family_of(db_type)]


def parse(
    statement: str,
    *,
    dialect: str = "mysql",
    db: str | None = None,
    schema: str | None = None,
    table: str | None = None,
) -> Statement:
    """Read a DDL text of any dialect; `db`, `schema`, `table` fill in what it leaves unsaid.

    `dialect` is one of `dialect_of`, or a database type. Never raises: what cannot be read is a
    clause `unparsed`. Steps of an online schema change are `ghost`, but an ALTER of its shadow
    table counts as one of the table it stands for (semantics.md, 53).
    """
    place = TableName(db, schema, table)
    clauses: list[Clause] = []
    try:
        reader = TokenReader(statement, dialect=dialect_of(dialect), place=place)
        while reader.peek().kind != "end":
            if reader.accept(";"):
                continue
            reader.begun = reader.index
            clauses += in_steps(read_statement(reader))
    except Unread:
        clauses.append(Clause(kind="unparsed", table=place))
    clauses = clauses or [Clause(kind="unparsed", table=place)]
    settled = [_settled(clause) for clause in clauses]
    changed = (now.kind != "other" for now in settled)
    own = {was.table for was, really in zip(clauses, changed, strict=True) if really}
    ghosts: dict[TableName, str] = {}
    for number, was in enumerate(clauses):
        base = settled[number].table
        if base == was.table or was.new_table is not None:
            continue
        if base in own:  # it takes part itself
            settled[number] = replace(was, kind="ghost", columns=(), keys=())
        else:
            ghosts.setdefault(base, was.table.name or "")
    first = next((clause.table for clause in settled if clause.table.name), settled[0].table)
    return Statement(
        text=statement, table=first, clauses=tuple(settled), ghosts=tuple(ghosts.items())
    )


def ghost(table: str | None) -> str | None:
    """The table for which a shadow table of gh-ost or pt-osc stands: `_t_gho` → `t`; else None."""
    match = _GHOST.fullmatch(table or "")
    return match[1] if match else None


def is_truncate(sql: str | None) -> bool:
    """Does the statement truncate a table? One regular expression; needs no sqlglot."""
    return sql is not None and _TRUNCATE.match(sql) is not None


def changes_rows(sql: str) -> bool:
    """Does the statement change rows, and no schema? One regular expression, as `is_truncate`."""
    return _CHANGES_ROWS.match(sql) is not None


def changes_schema(sql: str | None) -> bool:
    """Does the statement change a schema, by its first word? One regular expression."""
    return sql is not None and _CHANGES_SCHEMA.match(sql) is not None


def empties(word: str | None, sql: str | None) -> bool:
    """Does a message of type `word` with this statement truncate its table? The statement says;
    the word does where there is none. A truncated partition is not the table."""
    return is_truncate(sql) if sql else word == "TRUNCATE"


def identity(
    statement: str,
    *,
    source: str,
    table: TableName,
    order: Sequence[int | None] | None = None,
    event_time: int | None = None,
    epoch: int = 0,
) -> str:
    """The ledger id: equal for broadcast copies and replays of one DDL, 12 hexadecimal digits.

    `table` is the message's own; `order` is epoch and s1…s5 where the source has an order, else
    None and the `event_time` in microseconds stands in, with the `epoch` (semantics.md, 16, 17 and
    76). White space and a closing semicolon do not count.
    """
    when = [event_time, *([epoch] if epoch else [])] if order is None else list(order)
    text = " ".join(statement.split()).rstrip("; ")
    parts = [source, *table.folded(), *("" if part is None else str(part) for part in when), text]
    data = "\x1f".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=6).hexdigest()


def _settled(clause: Clause) -> Clause:
    """The clause as it concerns real tables: housekeeping of ghosts counts for nothing."""
    base, role = ghost(clause.table.name), (clause.table.name or "")[-4:].lower()
    if clause.kind == "rename_table":
        new = clause.new_table
        target = (new.name if new else None) or ""
        if _BIN.fullmatch(target):
            return replace(clause, kind="drop_table", new_table=None)
        if new is not None and base and role in ("_del", "_old") and ghost(target) is None:
            # The table is again what it was before a change: how it differs is not said.
            return replace(clause, kind="unparsed", table=new, new_table=None)
        away = _sets_aside(clause.table.name or "", target)
        return replace(clause, kind="ghost") if base is not None or away else clause
    if base is None:
        return clause
    if role in ("_gho", "_new") and clause.kind not in ("create_table", "drop_table", "truncate"):
        return replace(clause, table=clause.table._replace(name=base))
    return replace(clause, kind="ghost", columns=(), keys=())


def _sets_aside(table: str, name: str) -> bool:
    """Whether an online schema change calls the table so that it replaces.

    gh-ost cuts what is too long, and calls a table `_t_rev_del` whose change it takes back;
    pt-online-schema-change adds underscores until the name is free.
    """
    shadow, old = _GHOST.fullmatch(name), _OLD.fullmatch(name)
    if shadow is None or not table:
        return False
    core = name[1:-4]
    bases = {core, core.removesuffix("_rev")}
    bases |= {shadow[1], old[1] if old else core, *(_TIME.sub("", base) for base in bases)}
    cut = len(name) == _NAME_MOST
    return any(table == base or (cut and table.startswith(base)) for base in bases)
