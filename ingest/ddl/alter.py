"""The clauses of ALTER TABLE, in the words of every dialect.

The first word of a clause picks its reader from `_READERS`; words of table options and of physical
layout are passed over as `other`. A clause that cannot be read is `unparsed` and ends at its comma,
so that its neighbours still count. Grammars: MySQL 8.4 (ALTER TABLE), OceanBase 4.3, Oracle 19c,
PostgreSQL 17, SQL Server 2022.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from ingest.ddl.columns import (
    Element,
    pass_attribute,
    read_column,
    read_default,
    read_element,
    read_elements,
    read_key,
    read_type,
    type_in,
)
from ingest.ddl.model import Clause, Column, TableName
from ingest.ddl.risks import Kind
from ingest.ddl.tokens import TokenReader, Unread
from ingest.ddl.widening import risk_within
from ingest.values.canonical import base64_of, time_text
from ingest.values.source_types import DECIMALS, parse_type


def read_modify(reader: TokenReader, table: TableName) -> list[Clause]:
    """MySQL and Oracle; without a type only nullability, default or comment change."""
    if reader.at("PRIMARY", "KEY", "("):  # OceanBase
        reader.index += 2
        return [Clause(kind="change_key", table=table, keys=read_key(reader))]
    stored = reader.at("PRIMARY", "KEY") or reader.at("LOB", "(") or reader.at("NESTED", "TABLE")
    if stored or reader.at_any({"PARTITION", "SUBPARTITION", "CONSTRAINT", "DEFAULT", "UNIQUE"}):
        return passed_over(reader, table)
    reader.accept("COLUMN")
    if_exists = reader.accept("IF", "EXISTS")
    if reader.at("("):
        elements = read_elements(reader, strict=True)
    else:
        elements = [read_column(reader, strict=True)]
    clauses = [clause for element in elements for clause in _modified(element, table)]
    return _guarded(clauses) if if_exists else clauses


def _guarded(clauses: list[Clause], name: str | None = None) -> list[Clause]:
    """The clauses where IF EXISTS stood before the column, or before `name`."""
    return [
        replace(each, if_exists=name or each.column.name) if each.column is not None else each
        for each in clauses
    ]


def _modified(element: Element, table: TableName) -> list[Clause]:
    column = element.column
    if column is None:
        return [Clause(kind=element.kind, table=table, keys=element.keys)]
    kind: Kind
    # Oracle computes a column by another expression without saying its type.
    if column.source_type is not None or element.computed is not None:
        kind = "modify_column"
    elif column.nullable is not None:
        kind = "nullability"
    else:
        kind = "default" if column.default or column.expression else "other"
    using = element.computed if kind == "modify_column" else None
    modified = [Clause(kind=kind, table=table, column=column, using=using)]
    if element.keys:
        modified.append(Clause(kind="change_key", table=table, keys=element.keys))
    return modified


def read_change(reader: TokenReader, table: TableName) -> list[Clause]:
    """MySQL: `CHANGE old new INT`; a rename only where the names differ."""
    reader.accept("COLUMN")
    if_exists = reader.accept("IF", "EXISTS")
    old = reader.column()
    changed = _modified(read_column(reader, strict=True), table)
    new = changed[0].column
    if new is not None and new.name.lower() != old.lower():
        column = Column(name=old)
        renamed = Clause(kind="rename_column", table=table, column=column, new_name=new.name)
        changed = [renamed, *changed]
    return _guarded(changed, old) if if_exists else changed


def read_alter(reader: TokenReader, table: TableName) -> list[Clause]:
    """`ALTER [COLUMN] c TYPE t | SET DEFAULT x | DROP NOT NULL | t NOT NULL …`."""
    indexes = {"INDEX"} if reader.dialect != "postgres" else set[str]()
    if not reader.accept("COLUMN") and reader.at_any({"CHECK", "CONSTRAINT", *indexes}):
        return passed_over(reader, table)
    reader.accept("IF", "EXISTS")
    name = reader.column()
    if reader.accept("SET", "DATA", "TYPE") or reader.accept("TYPE") or _bare_type(reader):
        return [_retyped(reader, table, name)]
    if reader.accept("SET", "DEFAULT"):
        default, expression = read_default(reader, None, None)
        column = Column(name=name, default=default, expression=expression)
        return [Clause(kind="default", table=table, column=column)]
    if reader.accept("DROP", "DEFAULT"):
        return [Clause(kind="default", table=table, column=Column(name=name))]
    if reader.accept("SET", "NOT", "NULL") or reader.accept("DROP", "NOT", "NULL"):
        nullable = reader.tokens[reader.index - 3].text.upper() == "DROP"
        column = Column(name=name, nullable=nullable)
        return [Clause(kind="nullability", table=table, column=column)]
    # PostgreSQL, and Db2
    anew = reader.accept("SET", "EXPRESSION", "AS") or (
        reader.at("(", ahead=4) and reader.accept("SET", "GENERATED", "ALWAYS", "AS")
    )
    if anew:
        first = reader.index
        reader.skip()
        using = reader.written(first)
        return [Clause(kind="modify_column", table=table, column=Column(name=name), using=using)]
    if reader.accept("RESTART") or reader.accept("RESET") or _at_property(reader):
        return passed_over(reader, table, Column(name=name))
    raise Unread(f"expected a change of column {name}, got {reader.peek().text!r}")


def _at_property(reader: TokenReader) -> bool:
    """Takes SET, DROP or ADD before what is of a column's storage, sequence or visibility; of other
    words nothing is known."""
    if not reader.at_any({"SET", "DROP", "ADD"}):
        return False
    hidden = reader.at("NOT", ahead=1) and reader.at_any({"HIDDEN", "VISIBLE", "FOR"}, ahead=2)
    if not (hidden or reader.at_any(_PROPERTIES, ahead=1)):
        return False
    reader.take()
    return True


def _bare_type(reader: TokenReader) -> bool:
    """SQL Server: the type follows the name at once."""
    return reader.dialect == "tsql" and not reader.at_any({"ADD", "DROP", "SET"})


def _retyped(reader: TokenReader, table: TableName, name: str) -> Clause:
    source_type = read_type(reader)
    if source_type is None:
        raise Unread(f"expected a type for column {name}, got {reader.peek().text!r}")
    nullable: bool | None = None
    using: str | None = None
    while not (reader.at_end() or reader.at(",")):
        if reader.accept("NOT", "NULL"):
            nullable = False
        elif reader.accept("NULL"):
            nullable = True
        elif reader.accept("USING"):
            first = reader.index
            reader.skip()
            using = _conversion(reader, first, name, source_type=source_type)
        elif reader.at_any({"ADD", "ALTER", "DROP", "MODIFY", "RENAME"}):  # DB2 puts no commas
            break
        else:
            pass_attribute(reader, strict=True)
    column = Column(
        name=name,
        source_type=source_type,
        type=type_in(source_type, reader.dialect),
        nullable=nullable,
    )
    return Clause(kind="modify_column", table=table, column=column, using=using)


def _conversion(reader: TokenReader, first: int, name: str, *, source_type: str) -> str | None:
    """The conversion that stands from token `first` on; None if it is the column itself, or that
    cast to its new type. What is cast to another one first may lose something there."""
    expression = reader.written(first)
    own, type_ = rf'\(?"?{re.escape(name)}"?\)?', r"[\w\s(),.\"\[\]]+"
    plain = re.fullmatch(
        rf"\(\s*{own}\s*::(?P<within>{type_})\)|{own}\s*(?:::(?P<cast>{type_}))?"
        rf"|cast\s*\(\s*{own}\s+as\s(?P<named>{type_})\)",
        expression.strip(),
        re.IGNORECASE,
    )
    if plain is None:
        return expression
    cast = plain["within"] or plain["cast"] or plain["named"]
    dialect = reader.dialect
    if cast is None:
        return None
    kept = risk_within(cast, source_type, type_in(source_type, dialect), dialect=dialect)
    return None if kept == "none" else expression


def passed_over(
    reader: TokenReader, table: TableName, column: Column | None = None
) -> list[Clause]:
    reader.skip()
    return [Clause(kind="other", table=table, column=column)]


# MySQL's types whose implicit default is empty; base64 of no bytes is empty too.
_EMPTY = {
    "char",
    "varchar",
    "nchar",
    "nvarchar",
    "set",
    "tinytext",
    "text",
    "mediumtext",
    "character",
    "char varying",
    "character varying",
    "national char",
    "national character",
    "national varchar",
    "national char varying",
    "national character varying",
    "nchar varchar",
    "long",
    "long varchar",
    "longtext",
    "tinyblob",
    "blob",
    "mediumblob",
    "longblob",
    "varbinary",
}
# What no bytes, or bytes of zero, are as text.
_ZEROS = {
    "json": "null",
    "inet4": "0.0.0.0",
    "inet6": "::",
    "uuid": "00000000-0000-0000-0000-000000000000",
}
# What ALTER COLUMN sets, drops or adds that changes no value.
_PROPERTIES = set(
    """
    STATISTICS STORAGE COMPRESSION GENERATED INCREMENT START MINVALUE MAXVALUE RESTART CACHE NO
    CYCLE ORDER SEQUENCE VISIBLE INVISIBLE HIDDEN IMPLICITLY INLINE ROWGUIDCOL PERSISTED SPARSE
    MASKED EXPRESSION IDENTITY SECURED ENCODING SCOPE COLUMN (
    """.split()
)
# What SET says of how a table is stored.
_SETTINGS = set(
    """
    TABLESPACE WITH WITHOUT ACCESS INTERVAL PARTITIONING SUBPARTITION STORE
    TABLEGROUP TIFLASH HYPO DISTRIBUTED OPTIONS COMMENT TABLE_MODE LOCALITY PRIMARY_ZONE REPLICA_NUM
    BLOCK_SIZE COMPRESSION USE_BLOOM_FILTER PROGRESSIVE_MERGE_NUM TABLET_SIZE PCTFREE TTL CACHED
    UNCACHED (
    """.split()
)
# What Oracle writes behind the columns that are added, of how they are stored.
_STORED = {"LOB", "XMLTYPE", "VARRAY", "NESTED"}
# What databases write behind the columns that are dropped.
_AFTER_DROPPED = {"CASCADE", "CONSTRAINTS", "RESTRICT", "INVALIDATE", "CHECKPOINT", "ONLINE"}
# Character sets that hold what others do: MySQL says of the others that converting to them may lose
# characters, and `binary` makes bytes of all texts. Sources: MySQL 8.4, ALTER TABLE (Changing the
# Character Set) and Column Character Set Conversion.
_ALL_CHARACTERS = {"utf8mb4", "utf8mb3", "utf8", "utf16", "utf16le", "utf32", "gb18030"}
_PARTITIONS = {"PARTITION", "PARTITIONS", "SUBPARTITION", "SUBPARTITIONS"}
# How Greenplum and GaussDB say which rows a partition holds.
_RANGES = {"START", "END", "EVERY", "VALUES"}
# Rows go or come without a row event.
_MOVES_ROWS = {"TRUNCATE", "EXCHANGE", "DISCARD", "IMPORT", "SWITCH", "DETACH", "ATTACH"}
# Clauses about names, storage, statistics and rights: no column and no row changes.
_PHYSICAL = set(
    """
    ENGINE AUTO_INCREMENT AUTOEXTEND_SIZE AVG_ROW_LENGTH CHECKSUM ALGORITHM LOCK FORCE ORDER
    ENABLE DISABLE VALIDATE WITH WITHOUT PARTITION REMOVE ANALYZE CHECK OPTIMIZE REBUILD
    REPAIR REORGANIZE COALESCE UPGRADE CONVERT DEFAULT CHARSET CHARACTER COLLATE ROW_FORMAT
    KEY_BLOCK_SIZE MAX_ROWS MIN_ROWS PACK_KEYS STATS_AUTO_RECALC STATS_PERSISTENT
    STATS_SAMPLE_PAGES COMPRESSION CONNECTION ENCRYPTION INSERT_METHOD TABLESPACE UNION
    DELAY_KEY_WRITE SECONDARY_ENGINE OWNER REPLICA CLUSTER INHERIT NO OF NOT LOGGING NOLOGGING
    CACHE NOCACHE PARALLEL NOPARALLEL COMPRESS NOCOMPRESS MOVE SHRINK READ INITRANS PCTFREE
    PCTUSED STORAGE MONITORING SPLIT MERGE ALLOCATE DEALLOCATE FLASHBACK RESULT_CACHE ROW
    INMEMORY TABLEGROUP BLOCK_SIZE REPLICA_NUM PROGRESSIVE_MERGE_NUM PROGRESSIVE_MERGE_ROUND
    LOCALITY PRIMARY_ZONE DUPLICATE_SCOPE TTL USE_BLOOM_FILTER TABLET_SIZE PCTVERSION ENCRYPT
    DATA INDEX_ORGANIZATION EXPIRE INTERVAL RESET EXPAND REFRESH INDEXING ILM UPDATE DEFERRED
    MAPPING RECORDS_PER_BLOCK MINIMIZE NOMINIMIZE ADD_FILE DBPARTITION TBPARTITION BROADCAST
    SINGLE CLUSTERING SHARD_ROW_ID_BITS PLACEMENT SHARED NOMONITORING ATTRIBUTES NOCHECK
    SECONDARY_LOAD SECONDARY_UNLOAD ANNOTATIONS LAST AUTO_ID_CACHE AUTO_RANDOM_BASE
    PRE_SPLIT_REGIONS TTL_ENABLE TTL_JOB_INTERVAL STATS_BUCKETS STATS_TOPN STATS_COL_CHOICE
    STATS_COL_LIST COMPACT AFFINITY MEMOPTIMIZE DYNAMIC_PARTITION_POLICY AUTO_INCREMENT_MODE
    """.split()
)


def read_clauses(reader: TokenReader, table: TableName) -> list[Clause]:
    """Everything after `ALTER TABLE t`, to the end of the statement; at least one clause."""
    clauses: list[Clause] = []
    verb = ""
    if reader.dialect == "tsql" and reader.accept("WITH"):  # CHECK or NOCHECK before ADD
        reader.take()
    while not reader.at_end():
        first = reader.index
        try:
            if reader.dialect == "tsql" and verb in ("ADD", "DROP") and not _at_verb(reader):
                found = _continued(reader, table, verb, last=clauses[-1])
            else:
                verb = reader.verb()
                read = _READERS.get(verb)
                found = _physical(reader, table, verb) if read is None else read(reader, table)
            ends = reader.at_end() or reader.at(",") or _at_verb(reader)
            if not (ends or reader.at_partitioning()):
                raise Unread(f"expected the end of the clause, got {reader.peek().text!r}")
            clauses += found
        except Unread:
            clauses.append(Clause(kind="unparsed", table=table))
            _leave(reader, first)
        reader.accept(",")
    return clauses or [Clause(kind="unparsed", table=table)]


def _at_verb(reader: TokenReader, *, ahead: int = 0) -> bool:
    verbs = {"ADD", "ALTER", "DROP", "SET"} if reader.dialect == "tsql" else set(_READERS)
    return reader.at_any(verbs, ahead=ahead)


def _continued(reader: TokenReader, table: TableName, verb: str, *, last: Clause) -> list[Clause]:
    """SQL Server lets `ADD a INT, b INT` and `DROP COLUMN a, b` go on without the verb, and what
    stands behind one `COLUMN IF EXISTS` has the condition in common."""
    if verb == "ADD":
        return _add(reader, table)
    if last.kind == "drop_column" and not reader.at("CONSTRAINT"):
        in_common = not reader.accept("COLUMN") and last.if_exists is not None
        if_exists = reader.accept("IF", "EXISTS") or in_common
        dropped = [Clause(kind=last.kind, table=table, column=Column(name=reader.name()))]
        return _guarded(dropped) if if_exists else dropped
    return _drop(reader, table)


def _leave(reader: TokenReader, first: int) -> None:
    """From an unread clause's first token to the comma that ends it."""
    reader.index = first + 1
    try:
        reader.skip()
        while reader.accept(")"):
            reader.skip()
    except Unread:
        reader.index = len(reader.tokens)


def _add(reader: TokenReader, table: TableName) -> list[Clause]:
    if_not_exists = False
    if _at_column_group(reader):
        return passed_over(reader, table)
    if reader.accept("COLUMN") or (reader.at("COLUMNS", "(") and reader.accept("COLUMNS")):
        if_not_exists = reader.accept("IF", "NOT", "EXISTS")
        single = not reader.at("(")
        if single:
            elements = [read_column(reader, strict=True)]
        else:
            elements = read_elements(reader, strict=True)
    elif reader.at("("):
        elements = read_elements(reader, strict=True)
    elif _at_partition(reader) or reader.at("SUPPLEMENTAL", "LOG") or _at_versions(reader):
        return passed_over(reader, table)
    elif _at_tablegroup(reader) or (
        reader.dialect == "db2" and _pass_db2_option(reader, added=True)
    ):
        return passed_over(reader, table)
    elif reader.dialect == "oracle" and reader.at("CLUSTERING", "BY"):
        return passed_over(reader, table)
    elif reader.at("CONSTRAINT") and reader.at("DEFAULT", ahead=2):
        reader.index += 2
        return _default_for(reader, table)
    elif reader.at("DEFAULT") and reader.dialect == "tsql":
        return _default_for(reader, table)
    else:
        if_not_exists = reader.accept("IF", "NOT", "EXISTS")
        elements = [read_element(reader, strict=True)]
    if reader.dialect == "oracle" and reader.at_any(_STORED):
        reader.skip()
    implicit = reader.dialect == "mysql"
    added = [clause for element in elements for clause in _added(element, table, implicit=implicit)]
    return [
        replace(clause, if_not_exists=if_not_exists and clause.kind == "add_column")
        for clause in added
    ]


def _at_partition(reader: TokenReader) -> bool:
    """Whether a partition is added, and no column of that name, which PostgreSQL and SQL Server may
    have: Greenplum's `PARTITION p START (1)`, GaussDB's `PARTITION p VALUES LESS THAN (1)`."""
    if reader.at("DEFAULT", "PARTITION") and reader.dialect == "postgres":
        return True
    if not reader.at_any({"PARTITION", "SUBPARTITION"}):
        return False
    if reader.dialect != "postgres":
        return reader.dialect != "tsql"
    return reader.at_any(_RANGES, ahead=1) or reader.at_any(_RANGES, ahead=2)


def _at_tablegroup(reader: TokenReader) -> bool:
    return reader.dialect in ("mysql", "oracle") and reader.at("TABLEGROUP")


def _pass_db2_option(reader: TokenReader, *, added: bool = False) -> bool:
    """Whether it is none of a column or constraint what Db2 adds to a table or drops.

    Raises Unread where the table is to hold the rows of a query.
    Source: https://www.ibm.com/docs/en/db2/11.5?topic=statements-alter-table.
    """
    if reader.at("MATERIALIZED", "QUERY") or reader.at("QUERY", "("):
        if added:
            raise Unread("expected a column, got a query")
        return True
    if reader.accept("RESTRICT", "ON", "DROP"):
        return True
    for words in (("PERIOD", "SYSTEM_TIME"), ("PERIOD", "BUSINESS_TIME"), ("SECURITY", "POLICY")):
        if reader.at(*words):
            return True
    if added:
        return reader.at("VERSIONING", "USE") or reader.at("DISTRIBUTE", "BY")
    last = not reader.at_name(1) or reader.at_any({"ADD", "ALTER", "DROP", "RENAME"}, ahead=1)
    return last and reader.at_any({"VERSIONING", "DISTRIBUTION"})


def _at_column_group(reader: TokenReader) -> bool:
    """Whether it is of how OceanBase stores columns: `COLUMN GROUP (each column)`."""
    return reader.dialect == "mysql" and reader.at("COLUMN", "GROUP", "(")


def _at_versions(reader: TokenReader) -> bool:
    """Whether rows' validity is meant, which changes no column: `PERIOD FOR`, MariaDB's `SYSTEM
    VERSIONING`."""
    return reader.at("PERIOD", "FOR") or (
        reader.dialect == "mysql" and reader.at("SYSTEM", "VERSIONING")
    )


def _added(element: Element, table: TableName, *, implicit: bool) -> list[Clause]:
    column = element.column
    if column is None:
        return [Clause(kind=element.kind, table=table, keys=element.keys)]
    if implicit and column.nullable is False and column.default is column.expression is None:
        column = replace(column, default=_implicit(column.type, column.source_type or ""))
    added = [Clause(kind="add_column", table=table, column=column)]
    if element.keys:
        added.append(Clause(kind="change_key", table=table, keys=element.keys))
    return added


def _implicit(type_: str | None, source_type: str) -> str | None:
    """What MySQL gives existing rows for a NOT NULL column without default, where that is plain.

    Source: https://dev.mysql.com/doc/refman/8.4/en/data-type-defaults.html (Implicit Default
    Handling). A zero date is NULL in gold all the same.
    """
    if type_ in ("int", "bigint", "double"):
        return "0"
    if type_ is not None and type_.startswith("decimal("):
        scale = int(type_[:-1].partition(",")[2])
        return f"0.{'0' * scale}" if scale else "0"
    if type_ == "boolean":
        return "false"
    read = parse_type(source_type)
    if read.name in DECIMALS and read.numbers:
        return f"0.{'0' * read.numbers[1]}" if read.numbers[1:] > (0,) else "0"
    if read.name == "enum":
        return read.members[0] if read.members else None
    if read.name == "time":
        return time_text("00:00:00")
    if read.name == "binary":
        return base64_of(bytes(_binary_size(source_type)))
    return "" if read.name in _EMPTY else _ZEROS.get(read.name)


def _binary_size(source_type: str) -> int:
    """The bytes of a BINARY, which zeros fill; MySQL has 255 at most."""
    size = re.search(r"\((\d{1,3})\)", source_type)
    return min(int(size[1]), 255) if size else 1


def _default_for(reader: TokenReader, table: TableName) -> list[Clause]:
    """SQL Server: `ADD CONSTRAINT d DEFAULT 0 FOR c`."""
    reader.expect("DEFAULT")
    default, expression = read_default(reader, None, None)
    reader.expect("FOR")
    column = Column(name=reader.name(), default=default, expression=expression)
    return [Clause(kind="default", table=table, column=column)]


def _drop(reader: TokenReader, table: TableName) -> list[Clause]:
    if reader.accept("PRIMARY", "KEY"):
        reader.skip()
        return [Clause(kind="change_key", table=table)]
    default = reader.dialect == "postgres" and reader.at("DEFAULT", "PARTITION")
    if default or (reader.at_any(_PARTITIONS) and (reader.at_name(1) or reader.at("(", ahead=1))):
        return _moved(reader, table)
    unused = reader.at("UNUSED") and reader.at_any({"COLUMN", "COLUMNS"}, ahead=1)
    if unused or reader.at("SUPPLEMENTAL", "LOG") or reader.at("COLUMNS", "CONTINUE"):
        return passed_over(reader, table)
    if reader.dialect == "oracle" and reader.at("CLUSTERING"):
        return passed_over(reader, table)
    if _at_versions(reader) or _at_column_group(reader) or reader.at("(", "PERIOD", "FOR"):
        return passed_over(reader, table)
    if reader.dialect == "db2" and _pass_db2_option(reader):
        return passed_over(reader, table)
    if reader.at_any({"INDEX", "KEY"}) and reader.at_name(1) and not reader.at("CASCADE", ahead=1):
        kind: Kind = "change_key" if at_primary(reader, ahead=1) else "drop_index"
        reader.skip()
        return [Clause(kind=kind, table=table)]
    if reader.at("FOREIGN", "KEY") or (
        reader.at_any({"CONSTRAINT", "CHECK"}) and reader.at_name(1)
    ):
        return [_unconstrained(reader, table)]
    if reader.at("UNIQUE") or _at_tablegroup(reader):
        return passed_over(reader, table)
    named = reader.accept("COLUMN")
    if reader.dialect == "tsql" and not named:
        return [_unconstrained(reader, table)]
    if_exists = reader.accept("IF", "EXISTS")
    dropped = _dropped(reader, table)
    return _guarded(dropped) if if_exists else dropped


def _dropped(reader: TokenReader, table: TableName) -> list[Clause]:
    """The columns of a DROP or SET UNUSED, and how they go."""
    names = read_key(reader) if reader.at("(") else (reader.column(),)
    while reader.at_any(_AFTER_DROPPED) or reader.peek().kind == "number":
        reader.take()
    return [Clause(kind="drop_column", table=table, column=Column(name=name)) for name in names]


def _unconstrained(reader: TokenReader, table: TableName) -> Clause:
    """A dropped constraint; PostgreSQL's default name tells the primary key, MySQL's any."""
    reader.accept("CONSTRAINT")
    reader.accept("IF", "EXISTS")
    name, key = reader.peek().text.lower(), at_primary(reader)
    if reader.dialect == "tsql" and reader.at_any({"COLUMN", "CONSTRAINT"}, ahead=1):
        raise Unread(f"expected the end of a clause, got {reader.peek(1).text!r}")
    reader.skip()
    key |= reader.dialect == "postgres" and name == f"{(table.name or '').lower()}_pkey"
    return Clause(kind="change_key" if key else "constraint", table=table)


def at_primary(reader: TokenReader, *, ahead: int = 0) -> bool:
    """Whether an index is named that MySQL calls so: the primary key."""
    return reader.dialect == "mysql" and reader.peek(ahead).text.upper() == "PRIMARY"


def _rename(reader: TokenReader, table: TableName) -> list[Clause]:
    of_part = reader.at_any({"INDEX", "KEY", "CONSTRAINT", *_PARTITIONS})
    if of_part and (reader.at("TO", ahead=2) or reader.at("IF", "EXISTS", ahead=1)):
        return passed_over(reader, table)
    column = reader.accept("COLUMN")
    if not column and (reader.accept("TO") or reader.accept("AS") or reader.accept("=")):
        return [Clause(kind="rename_table", table=table, new_table=_beside(reader, table))]
    if column or reader.at("TO", ahead=1):
        if_exists = reader.accept("IF", "EXISTS")
        old = Column(name=reader.name())
        reader.expect("TO")
        new = reader.name()
        renamed = [Clause(kind="rename_column", table=table, column=old, new_name=new)]
        return _guarded(renamed) if if_exists else renamed
    return [Clause(kind="rename_table", table=table, new_table=_beside(reader, table))]


def _beside(reader: TokenReader, table: TableName) -> TableName:
    """A new table name; unqualified it stays where the table was."""
    path = reader.path()
    return reader.locate(path) if len(path) > 1 else table._replace(name=path[0])


def _set(reader: TokenReader, table: TableName) -> list[Clause]:
    if reader.accept("UNUSED"):  # Oracle: a drop that is cleaned up later
        reader.accept("COLUMN")
        return _dropped(reader, table)
    if reader.accept("SCHEMA"):
        moved = table._replace(schema=reader.name())
        return [Clause(kind="rename_table", table=table, new_table=moved)]
    if reader.accept("LOGGED") or reader.accept("UNLOGGED"):
        return _moved(reader, table)
    if not (reader.at_any(_SETTINGS) or reader.at("=", ahead=1)):
        raise Unread(f"expected what is set of the table, got {reader.peek().text!r}")
    return passed_over(reader, table)


def _comment(reader: TokenReader, table: TableName) -> list[Clause]:
    reader.skip()
    return [Clause(kind="comment", table=table)]


def _moved(reader: TokenReader, table: TableName, verb: str = "") -> list[Clause]:
    whole = verb == "TRUNCATE" and reader.at("PARTITION", "ALL")
    _pass_names(reader)
    return [Clause(kind="truncate" if whole else "change_partition", table=table)]


def _physical(reader: TokenReader, table: TableName, verb: str) -> list[Clause]:
    if verb in ("EXCHANGE", "SWITCH"):
        return _exchanged(reader, table)
    if verb == "ENGINE" and (reader.at("=", "BLACKHOLE") or reader.at("BLACKHOLE")):
        return _moved(reader, table)
    if verb == "CONVERT" and reader.accept("TO"):
        if not (reader.accept("CHARACTER", "SET") or reader.accept("CHARSET")):
            raise Unread(f"expected a character set, got {reader.peek().text!r}")
        if reader.peek().text.lower() not in _ALL_CHARACTERS:
            raise Unread(f"expected a set of all characters, got {reader.peek().text!r}")
    if verb in _MOVES_ROWS or (verb == "CONVERT" and reader.at_any({"PARTITION", "TABLE"})):
        return _moved(reader, table, verb)
    if verb == "FIRST" and reader.at("PARTITION"):  # TiDB: those below a value are dropped
        return _moved(reader, table, verb)
    if verb not in _PHYSICAL and not reader.at("="):
        raise Unread(f"expected a clause of ALTER TABLE, got {verb!r}")
    first = reader.index
    if verb in ("ORDER", "PARTITION"):  # lists with commas of their own
        while not reader.at_end():
            reader.take()
    _pass_names(reader)
    if reader.dialect == "oracle" and _filtered(reader, first):
        return [Clause(kind="change_partition", table=table)]
    return passed_over(reader, table)


def _filtered(reader: TokenReader, first: int) -> bool:
    """Whether what was passed over since token `first` keeps some rows: `INCLUDING ROWS WHERE`."""
    passed = range(first - reader.index, 0)
    return any(reader.at("INCLUDING", "ROWS", ahead=ahead) for ahead in passed)


def _exchanged(reader: TokenReader, table: TableName) -> list[Clause]:
    """`EXCHANGE PARTITION p WITH TABLE t`, SQL Server's `SWITCH TO t`: the rows of both tables are
    others then."""
    while not (reader.at_end() or reader.at(",") or reader.at("WITH", "TABLE") or reader.at("TO")):
        if reader.at("("):
            reader.group()
        else:
            reader.take()
    changed = [table]
    if reader.accept("WITH", "TABLE") or reader.accept("TO"):
        changed.append(_beside(reader, table))
    reader.skip()
    return [Clause(kind="change_partition", table=each) for each in changed]


def _pass_names(reader: TokenReader) -> None:
    """Past `PARTITION p0, p1 …`: names go on after a comma, other clauses begin with their word."""
    listed = reader.at_any(_PARTITIONS)
    reader.skip()
    while listed and reader.at(",") and reader.at_name(1) and not _at_verb(reader, ahead=1):
        reader.take()
        reader.skip()


_READERS: dict[str, Callable[[TokenReader, TableName], list[Clause]]] = {
    "ADD": _add,
    "ALTER": read_alter,
    "CHANGE": read_change,
    "COMMENT": _comment,
    "DROP": _drop,
    "MODIFY": read_modify,
    "RENAME": _rename,
    "SET": _set,
}
