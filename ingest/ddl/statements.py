"""Whole statements: ALTER, CREATE, DROP, RENAME, TRUNCATE, COMMENT, sp_rename and all others."""

from __future__ import annotations

import re
from collections.abc import Callable

from ingest.ddl.alter import at_primary, read_clauses
from ingest.ddl.columns import Element, read_elements
from ingest.ddl.model import Clause, Column, TableName
from ingest.ddl.risks import Kind
from ingest.ddl.tokens import TokenReader, Unread

# Statements that change no table's columns, and rows by row events only.
_OTHER = set(
    """GRANT REVOKE SET FLUSH ANALYZE OPTIMIZE CHECK REPAIR CHECKSUM CALL DO BEGIN START COMMIT
    ROLLBACK SAVEPOINT RELEASE XA LOCK UNLOCK INSERT UPDATE DELETE REPLACE MERGE SELECT WITH VALUES
    DECLARE PREPARE DEALLOCATE EXPLAIN DESCRIBE DESC SHOW KILL PURGE AUDIT NOAUDIT VACUUM REINDEX
    CLUSTER REFRESH REASSIGN SECURITY INSTALL UNINSTALL CHANGE RESET STOP SHUTDOWN HANDLER DENY
    ENABLE DISABLE PRINT BACKUP CHECKPOINT DISCARD LISTEN NOTIFY ASSOCIATE END GO""".split()
)
# Objects whose text holds a body with semicolons of its own.
_BODIES = {"PROCEDURE", "PROC", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"}
_ALTERED_BODIES = {"mysql": {"EVENT"}, "tsql": _BODIES}
# What may stand between CREATE or ALTER and such an object.
_BEFORE_BODY = {"OR", "REPLACE", "ALTER", "AGGREGATE", "EDITIONABLE", "NONEDITIONABLE"}
_DEFINED = _BODIES | {"VIEW"}
# What clauses of ALTER TABLE begin with, and what such a clause may drop.
_CLAUSES = {"ADD", "ALTER", "CHANGE", "DROP", "MODIFY", "RENAME"}
_PARTS = {"COLUMN", "PRIMARY", "KEY", "CONSTRAINT", "CHECK", "PARTITION", "SUBPARTITION"}
_UNIQUE = {"UNIQUE", "PRIMARY"}
_BEFORE_TABLE = set(
    """ONLINE OFFLINE IGNORE FOREIGN EXTERNAL UNLOGGED OR REPLACE IMMUTABLE BLOCKCHAIN SHARDED
    DUPLICATED""".split()
)
_BEFORE_INDEX = set(
    """
    UNIQUE FULLTEXT SPATIAL BITMAP CLUSTERED NONCLUSTERED COLUMNSTORE MULTIVALUE PRIMARY XML VECTOR
    COLUMNAR GLOBAL LOCAL
    """.split()
)
# What databases write behind the tables that are emptied.
_AFTER_TRUNCATED = set(
    """CASCADE CONSTRAINTS RESTRICT RESTART CONTINUE IDENTITY DROP REUSE ALL STORAGE PURGE PRESERVE
    MATERIALIZED VIEW SNAPSHOT LOG IGNORE WHEN DELETE TRIGGERS IMMEDIATE WAIT NOWAIT
    """.split()
)
_SCHEMA_CHANGE = re.compile(
    r"\b(?:ALTER|CREATE|DROP|TRUNCATE|RENAME)\s+TABLE\b|\bsp_rename\b", re.IGNORECASE
)
# Objects that go with the columns that are of them, and what goes with the tables in it.
_TYPES = {"TYPE", "DOMAIN", "EXTENSION"}
_RENAME_ARGUMENTS = ("objname", "newname", "objtype")
# The schema of names that say none: PostgreSQL, Oracle, Db2.
_SCHEMA_SETTINGS = ("SEARCH_PATH", "CURRENT_SCHEMA", "SCHEMA")
# What is never closed goes on to the end of the text.
_PART = re.compile(r'\[((?:[^\]]|\]\])*+)(?:\]|\Z)|"((?:[^"]|"")*+)(?:"|\Z)|([^.\[\]"]+)')


def read_statement(reader: TokenReader) -> list[Clause]:
    """One statement, to its semicolon; or clauses alone, of the table that its message names."""
    if reader.place.name and _at_clause(reader):
        return read_clauses(reader, reader.place)
    _pass_settings(reader)
    first = reader.index
    verb = reader.verb()
    if verb in ("EXEC", "EXECUTE") or verb == "SP_RENAME":
        clauses = _sp_rename(reader, verb)
    elif verb == "USE":
        clauses = _used(reader)
    elif verb == "SET":
        clauses = _set(reader)
    elif verb == "DO" and reader.dialect == "postgres":
        clauses = _run(reader)
    elif verb in _OTHER:
        clauses = _rest(reader)
    else:
        clauses = _STATEMENTS[verb](reader) if verb in _STATEMENTS else []
    if not clauses:
        raise Unread(f"expected a DDL statement, got {verb!r}")
    if _has_body(reader, verb, first + 1):
        reader.index = len(reader.tokens)
    while not reader.at_end():
        reader.take()
    return clauses


def _pass_settings(reader: TokenReader) -> None:
    """Past MariaDB's `SET STATEMENT max_statement_time=60 FOR`, which is logged with its DDL."""
    first = reader.index
    if not reader.accept("SET", "STATEMENT"):
        return
    while not (reader.at_end() or reader.at("FOR")):
        reader.take()
    if not reader.accept("FOR"):
        reader.index = first


def _pass_wait(reader: TokenReader) -> None:
    """Past how long MariaDB waits for a table's lock: `WAIT 10`, `NOWAIT`."""
    if reader.at("WAIT") and reader.peek(1).kind == "number":
        reader.index += 2
    else:
        reader.accept("NOWAIT")


def _at_clause(reader: TokenReader) -> bool:
    """Whether what follows is a clause of ALTER TABLE without these words.

    DataWorks' pages print such texts: `ADD COLUMN c INT`.
    """
    if reader.at_any({"ADD", "MODIFY"}):
        return True
    if reader.at("CHANGE"):
        return not reader.at_any({"MASTER", "REPLICATION"}, ahead=1)
    if reader.at("DROP"):
        return _at_dropped_part(reader)
    return reader.at_any({"ALTER", "RENAME"}) and (
        reader.at("COLUMN", ahead=1) or reader.at("RENAME", "TO")
    )


def _at_dropped_part(reader: TokenReader) -> bool:
    """Whether a DROP names a part of a table: `DROP PRIMARY KEY`, `DROP c`, not `DROP TABLE t`."""
    if reader.at("INDEX", ahead=1):
        return reader.at(",", ahead=3) and reader.at_any(_CLAUSES, ahead=4)
    if reader.at_any(_PARTS, ahead=1) or reader.at_any({"IF", "("}, ahead=1):
        return True
    if reader.at("FOREIGN", "KEY", ahead=1):
        return True
    after = reader.peek(2)
    return reader.at_name(1) and (after.kind == "end" or after.text in (",", ";"))


def _rest(reader: TokenReader) -> list[Clause]:
    """No concern of any table."""
    return [Clause(kind="other", table=reader.place)]


def _unknown(reader: TokenReader) -> list[Clause]:
    """What it does to which tables does not stand in the text."""
    return [Clause(kind="unparsed", table=reader.place)]


def _passed(reader: TokenReader, *phrases: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Which of these words come in what is left of the statement, which is passed over."""
    found: set[tuple[str, ...]] = set()
    while not reader.at_end():
        found |= {phrase for phrase in phrases if reader.at(*phrase)}
        reader.take()
    return found


def _run(reader: TokenReader) -> list[Clause]:
    """A text that is run as statements, SQL Server's EXEC('…'), PostgreSQL's DO $$…$$: no concern
    of any table unless it speaks of tables."""
    known = True
    while not reader.at_end():
        token = reader.take()
        known &= token.kind != "string" or _SCHEMA_CHANGE.search(token.text) is None
    return _rest(reader) if known else _unknown(reader)


def _used(reader: TokenReader) -> list[Clause]:
    """`USE db`: what follows is of that database, and not of the message's table."""
    other = Clause(kind="other", table=reader.place)
    name = reader.name()
    if name.lower() != (reader.place.db or "").lower():
        reader.place = TableName(name, reader.place.schema, None)
    return [other]


def _set(reader: TokenReader) -> list[Clause]:
    """What a session sets; where that is the one schema of names without any, what follows is of
    that."""
    other = Clause(kind="other", table=reader.place)
    for word in ("LOCAL", "SESSION", "CURRENT"):
        reader.accept(word)
    if reader.dialect == "mysql" or not any(map(reader.accept, _SCHEMA_SETTINGS)):
        return [other]
    for word in ("TO", "="):
        reader.accept(word)
    string, after = reader.peek().kind == "string", reader.peek(1)
    if after.kind == "end" or after.text == ";":
        name = reader.take().text if string else ""
        if reader.at_name() and not reader.at("DEFAULT"):
            name = reader.name()
        if name:
            reader.place = TableName(reader.place.db, name, None)
    return [other]


def _has_body(reader: TokenReader, verb: str, first: int) -> bool:
    """Whether the statement holds statements, so that its semicolons do not end it.

    `first`: the token after its verb. Only the statement's own words are asked.
    """
    if reader.dialect == "postgres":  # writes a body as one string
        return False
    ahead = first - reader.index
    if verb in ("BEGIN", "DECLARE"):
        if verb == "DECLARE" and reader.dialect == "tsql":
            return False
        ends = reader.peek(ahead).kind == "end" or reader.at(";", ahead=ahead)
        return not (ends or reader.at_any({"TRANSACTION", "TRAN", "WORK"}, ahead=ahead))
    if verb not in ("CREATE", "ALTER"):
        return False
    bodies = _BODIES if verb == "CREATE" else _ALTERED_BODIES.get(reader.dialect, set())
    while reader.at_any(_BEFORE_BODY, ahead=ahead):
        ahead += 1
    if reader.at("DEFINER", ahead=ahead):
        while not (reader.peek(ahead).kind == "end" or reader.at(";", ahead=ahead)):
            if reader.at_any(_DEFINED, ahead=ahead):
                break
            ahead += 1
    return reader.at_any(bodies, ahead=ahead) or reader.at("TYPE", "BODY", ahead=ahead)


def _alter(reader: TokenReader) -> list[Clause]:
    if reader.accept("SESSION", "SET"):  # Oracle
        return _set(reader)
    ignores = False
    while reader.at_any(_BEFORE_TABLE):
        ignores |= reader.at("IGNORE")
        reader.take()
    if reader.dialect == "tsql" and reader.accept("SCHEMA"):
        return _transferred(reader)
    if not reader.accept("TABLE"):
        return _unknown(reader) if _alters_unnamed(reader) else _rest(reader)
    if reader.accept("ALL", "IN"):
        return _rest(reader)
    reader.accept("IF", "EXISTS")
    reader.accept("ONLY")
    table = reader.table()
    reader.accept("*")
    if reader.dialect == "mysql":
        _pass_wait(reader)
    first = reader.index
    clauses = read_clauses(reader, table)
    # MariaDB, and MySQL before 5.7: rows that are not unique then go without events.
    told_apart = (token.text.upper() in _UNIQUE for token in reader.tokens[first : reader.index])
    gone = [Clause(kind="change_partition", table=table)] if ignores and any(told_apart) else []
    return [*gone, *clauses]


def _alters_unnamed(reader: TokenReader) -> bool:
    """Whether it changes tables that it does not name: an enum's label in every row, the name of
    all that is in a schema or database."""
    if reader.dialect == "mysql":
        return False
    if reader.at_any({"SCHEMA", "DATABASE"}):
        return bool(_passed(reader, ("RENAME", "TO"), ("MODIFY", "NAME")))
    if not reader.at("TYPE") or reader.dialect not in ("postgres", "oracle"):
        return False
    found = _passed(reader, ("RENAME", "VALUE"), ("ATTRIBUTE",), ("CASCADE",))
    return ("RENAME", "VALUE") in found or len(found) == 2


def _transferred(reader: TokenReader) -> list[Clause]:
    """SQL Server: `ALTER SCHEMA x TRANSFER dbo.t` takes a table into another schema."""
    schema = reader.name()
    if not reader.accept("TRANSFER"):
        return _rest(reader)
    if reader.at("::", ahead=1) and not reader.accept("OBJECT", "::"):
        return _rest(reader)
    if not reader.at_name() or reader.at("XML", "SCHEMA"):
        return _rest(reader)
    table = reader.table()
    moved = table._replace(schema=schema)
    return [Clause(kind="rename_table", table=table, new_table=moved)]


def _create(reader: TokenReader) -> list[Clause]:
    replaces = False
    while reader.at_any(_BEFORE_TABLE):
        replaces |= reader.at("REPLACE")
        reader.take()
    if reader.accept("TABLE"):
        created = _created(reader)
        # MariaDB: the rows of the table that is replaced go without events.
        gone = [Clause(kind="change_partition", table=created.table)] if replaces else []
        return [*gone, created]
    while reader.at_any(_BEFORE_INDEX):
        reader.take()
    if reader.accept("INDEX"):
        return [_indexed(reader, "create_index")]
    return _rest(reader)


def _created(reader: TokenReader) -> Clause:
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    table = reader.table()
    elements: list[Element] = []
    first = reader.index
    if reader.at("(") and not reader.at_any({"SELECT", "WITH"}, ahead=1):
        try:
            elements = read_elements(reader)
        except Unread:
            reader.index = first  # a table whose columns are not known
    columns = tuple(element.column for element in elements if element.column is not None)
    keys = next((element.keys for element in elements if element.keys), ())
    return Clause(
        kind="create_table", table=table, columns=columns, keys=keys, if_not_exists=if_not_exists
    )


def _indexed(reader: TokenReader, kind: Kind) -> Clause:
    """The table of an index stands after ON; SQL Server may drop `t.i`."""
    while not (reader.at_end() or reader.at("ON")):
        reader.take()
    if not reader.accept("ON"):
        return Clause(kind=kind, table=reader.place)
    reader.accept("ONLY")
    return Clause(kind=kind, table=reader.table())


def _drop(reader: TokenReader) -> list[Clause]:
    reader.accept("FOREIGN")
    if reader.accept("INDEX"):
        return [_indexed(reader, "change_key" if at_primary(reader) else "drop_index")]
    if reader.at_any({"DATABASE", "SCHEMA"}):
        return _drop_databases(reader)
    if reader.dialect == "oracle" and reader.accept("USER"):
        return _drop_user(reader)
    if not (reader.accept("TABLE") or reader.accept("TABLES")):
        return _unknown(reader) if _drops_unnamed(reader) else _rest(reader)
    reader.accept("IF", "EXISTS")
    tables = [reader.table()]
    while reader.accept(","):
        tables.append(reader.table())
    return [Clause(kind="drop_table", table=table) for table in tables]


def _drops_unnamed(reader: TokenReader) -> bool:
    """Whether tables or columns go that it does not name."""
    if reader.dialect == "postgres":
        types = reader.at_any(_TYPES) and bool(_passed(reader, ("CASCADE",)))
        return types or reader.at("OWNED", "BY")
    if reader.dialect == "oracle" and reader.at_any({"CLUSTER", "TYPE"}):
        return bool(_passed(reader, ("INCLUDING", "TABLES"), ("FORCE",)))
    if reader.at("TABLESPACE"):
        return reader.dialect == "db2" or bool(_passed(reader, ("INCLUDING", "CONTENTS")))
    return False


def _drop_user(reader: TokenReader) -> list[Clause]:
    """Oracle: a user is a schema, whose tables go with it where it says CASCADE."""
    reader.accept("IF", "EXISTS")
    owned = reader.locate([reader.name(), ""])._replace(name=None)
    if not reader.at("CASCADE"):
        return _rest(reader)
    return [Clause(kind="drop_database", table=owned)]


def _drop_databases(reader: TokenReader) -> list[Clause]:
    """A database, or one or several schemas: MySQL's SCHEMA is a database."""
    schema = reader.take().text.upper() == "SCHEMA" and reader.dialect != "mysql"
    reader.accept("IF", "EXISTS")
    db, found = reader.place.db, list[Clause]()
    while not found or reader.accept(","):
        name = reader.name()
        gone = TableName(db, name, None) if schema else TableName(name, None, None)
        found.append(Clause(kind="drop_database", table=gone))
    return found


def _rename(reader: TokenReader) -> list[Clause]:
    """`RENAME TABLE a TO b, c TO d`; Oracle's `RENAME a TO b`, and Db2's `RENAME s.a TO b`."""
    named = reader.accept("TABLE") or reader.accept("TABLES") or reader.at("TO", ahead=1)
    if not (named or (reader.at(".", ahead=1) and reader.at("TO", ahead=3))):
        return _rest(reader)
    reader.accept("IF", "EXISTS")
    renamed: list[Clause] = []
    while True:
        table = reader.table()
        _pass_wait(reader)
        reader.expect("TO")
        stays = reader.dialect == "db2" and not reader.at(".", ahead=1)  # in its schema
        new = reader.new_table()
        if stays:
            new = table._replace(name=new.name)
        renamed.append(Clause(kind="rename_table", table=table, new_table=new))
        if not reader.accept(","):
            return renamed


def _truncate(reader: TokenReader) -> list[Clause]:
    if reader.at("CLUSTER") and reader.at_name(1):
        return _unknown(reader)
    reader.accept("TABLE")
    reader.accept("IF", "EXISTS")
    tables: list[TableName] = []
    more: list[Clause] = []
    while not tables or reader.accept(","):
        reader.accept("ONLY")
        tables.append(reader.table())
        reader.accept("*")
    # SQL Server: `WITH (PARTITIONS (2 TO 4))`.
    parts = reader.at_any({"WITH", "PARTITION", "PARTITIONS"})
    while not (parts or reader.at_end()):
        if reader.peek().kind != "number" and not reader.at_any(_AFTER_TRUNCATED):
            raise Unread(f"expected the end of a TRUNCATE, got {reader.peek().text!r}")
        if reader.at("CASCADE"):  # the tables that refer to these, too
            more = _unknown(reader)
        reader.take()
    kind: Kind = "change_partition" if parts else "truncate"
    return [*(Clause(kind=kind, table=table) for table in tables), *more]


def _comment(reader: TokenReader) -> list[Clause]:
    reader.expect("ON")
    if reader.accept("TABLE"):
        return [Clause(kind="comment", table=reader.table())]
    if not reader.accept("COLUMN"):
        return _rest(reader)
    *path, name = reader.path()
    table = reader.locate(path) if path else reader.place
    return [Clause(kind="comment", table=table, column=Column(name=name))]


def _sp_rename(reader: TokenReader, verb: str) -> list[Clause]:
    """SQL Server: `EXEC sp_rename 'dbo.t.old', 'new', 'COLUMN'`; another procedure is
    `other`."""
    if reader.at("@") and reader.at("=", ahead=2):  # what it gives back
        reader.index += 3
    name = verb.lower()
    if name != "sp_rename":
        name = reader.path()[-1].lower() if reader.at_name() else ""
    if name != "sp_rename":
        return _unknown(reader) if name == "sp_renamedb" else _run(reader)
    words = _arguments(reader)
    if len(words) < 2:
        raise Unread("expected sp_rename with an old and a new name")
    path = [
        a.replace("]]", "]") or b.replace('""', '"') or c for a, b, c in _PART.findall(words[0])
    ]
    what = words[2].upper() if len(words) > 2 else "OBJECT"
    if what == "COLUMN" and len(path) > 1:
        table = reader.locate(path[:-1])
        old = Column(name=path[-1])
        return [Clause(kind="rename_column", table=table, column=old, new_name=words[1])]
    if what == "OBJECT" and path:
        table = reader.locate(path)
        renamed = table._replace(name=words[1])
        return [Clause(kind="rename_table", table=table, new_table=renamed)]
    return _unknown(reader) if what == "DATABASE" else _rest(reader)


def _arguments(reader: TokenReader) -> list[str]:
    """The texts given to sp_rename, in the order in which it takes them, be they named or not."""
    words: list[str] = []
    named: dict[str, str] = {}
    name = ""
    while not reader.at_end():
        token = reader.take()
        if token.kind == "string":
            if name in _RENAME_ARGUMENTS:
                named[name] = token.text
            else:
                words.append(token.text)
            name = ""
        elif token.text.lower().lstrip("@") in _RENAME_ARGUMENTS:
            name = token.text.lower().lstrip("@")
        elif token.text == ",":
            name = ""
    given = [*words, *(named[each] for each in _RENAME_ARGUMENTS[len(words) :] if each in named)]
    return given if len(given) == len(words) + len(named) else []


_STATEMENTS: dict[str, Callable[[TokenReader], list[Clause]]] = {
    "ALTER": _alter,
    "COMMENT": _comment,
    "CREATE": _create,
    "DROP": _drop,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
}
