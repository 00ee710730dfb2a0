"""Column definitions of a DDL statement: name, type as written, default, nullability.

A literal after DEFAULT becomes the canonical text that a row of the column would carry.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Sequence
from datetime import datetime
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from ipaddress import ip_address
from typing import NamedTuple

from ingest.ddl.model import Column
from ingest.ddl.risks import Kind
from ingest.ddl.tokens import Token, TokenReader, Unread
from ingest.errors import DecodeError
from ingest.values.canonical import base64_of, civil_text, decimal_text, time_text
from ingest.values.source_types import DECIMALS, bits_type, parse_type, spark_type

FAMILIES = {
    "mysql": "mysql",
    "oracle": "oracle",
    "postgres": "postgres",
    "tsql": "sqlserver",
    "db2": "db2",
}
"""The dialect -> the type family of `ingest.values.source_types`."""

_VERBS = {"ADD", "ALTER", "MODIFY", "DROP", "RENAME"}
# What may stand where a type could: the column has none, or keeps the one it has.
_NO_TYPE = set(
    """
    NOT NULL DEFAULT CONSTRAINT CHECK PRIMARY UNIQUE REFERENCES VISIBLE INVISIBLE GENERATED AS
    ENCRYPT DECRYPT ANNOTATIONS RESERVABLE COMMENT COLLATE ENABLE DISABLE DROP , ) ;
    """.split()
)
# Words of other clauses, which no type is called: what stands before them is no column's name.
_NEVER_TYPES = set(
    """
    INDEX KEY PARTITION SUBPARTITION TABLE COLUMN FOREIGN QUERY LOG ON BY FOR USING WITH TO VALUES
    """.split()
)
# Words that end a default's expression.
_AFTER_DEFAULT = {"NOT", "NULL", "COMMENT", "PRIMARY", "UNIQUE", "KEY", "AUTO_INCREMENT", "ON"} | {
    "COLLATE",
    "CHECK",
    "REFERENCES",
    "CONSTRAINT",
    "AFTER",
    "FIRST",
    "BEFORE",
    "GENERATED",
    "VISIBLE",
    "INVISIBLE",
    "ENABLE",
    "DISABLE",
    "COLUMN_FORMAT",
    "STORAGE",
    "ENCRYPT",
    "FOR",
    "WITH",
    "IDENTITY",
    "SPARSE",
    "ROWGUIDCOL",
    "MASKED",
    "FILESTREAM",
    "HIDDEN",
    "IMPLICITLY",
    "COMPRESSED",
    "WITHOUT",
    "SRID",
    "ENGINE_ATTRIBUTE",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "ANNOTATIONS",
    "RESERVABLE",
    "INLINE",
    *_VERBS,
}
_AFTER_COMPUTED = _AFTER_DEFAULT | {"STORED", "VIRTUAL", "PERSISTED", "PERSISTENT"}
_TYPE_TAIL = {"PRECISION", "VARYING", "UNSIGNED", "SIGNED", "ZEROFILL", "LARGE", "OBJECT", "ARRAY"}
_TYPE_AFTER = {
    "LONG": {"RAW", "VARCHAR", "VARBINARY"},
    "NATIONAL": {"CHAR", "CHARACTER", "VARCHAR", "TEXT"},
    "INTERVAL": {"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "TO"},
}
# Words that columns may have besides those that are read.
_ATTRIBUTES = set(
    """
    UNIQUE KEY NOT NULL ON UPDATE CURRENT_TIMESTAMP NOW LOCALTIME LOCALTIMESTAMP SIGNED UNSIGNED
    ZEROFILL BINARY ASCII UNICODE BYTE CHARACTER SET VISIBLE INVISIBLE VIRTUAL STORED PERSISTENT
    GENERATED ALWAYS BY COLUMN_FORMAT FIXED DYNAMIC DEFAULT STORAGE DISK MEMORY ENGINE_ATTRIBUTE
    SECONDARY_ENGINE_ATTRIBUTE REFERENCES MATCH FULL PARTIAL SIMPLE DELETE CASCADE RESTRICT NO
    ACTION CHECK ENFORCED SRID AUTO_RANDOM AUTO_ID_CACHE CLUSTERED NONCLUSTERED SERIAL VALUE
    COMPRESSED COMPRESSION PLAIN EXTERNAL EXTENDED MAIN STORAGE_TYPE PERIOD ENABLE DISABLE VALIDATE
    NOVALIDATE RELY NORELY DEFERRABLE INITIALLY DEFERRED IMMEDIATE USING INDEX TABLESPACE ENCRYPT
    DECRYPT SALT IDENTIFIED MAC SORT SPARSE ROWGUIDCOL PERSISTED FILESTREAM MASKED WITH HIDDEN ROW
    START END TRANSACTION_ID ENCRYPTED FOR REPLICATION WHEN OFF SECURITY LABEL SYSTEM VERSIONING
    WITHOUT ANNOTATIONS DOMAIN SCOPE IS OPTIONS LOB COLUMN CLUSTERING SKIP_INDEX MIN_MAX SUM TO
    AUTOINCREMENT KEY_BLOCK_SIZE UTF8 UTF8MB4 LATIN1 GBK UCS2 UTF16 UTF32 BY_DEFAULT INCREMENT
    MINVALUE MAXVALUE CYCLE CACHE NOCYCLE NOCACHE ORDER NOORDER INLINE LENGTH LOGGED COMPACT
    KEEP NOKEEP SCALE NOSCALE EXTEND NOEXTEND NULLS DISTINCT REF_SYSTEM_ID
    BFILE STORE SECUREFILE BASICFILE AS COMMENT AND OR IN BETWEEN LIKE TRUE FALSE GLOBAL LOCAL
    IMPLICITLY RESERVABLE COLUMN_SET ALL_SPARSE_COLUMNS
    """.split()
)
# What a database takes a name for, where other databases mean another type by it.
# Sources: https://dev.mysql.com/doc/refman/8.4/en/other-vendor-data-types.html;
# https://learn.microsoft.com/en-us/sql/t-sql/data-types/decimal-and-numeric-transact-sql;
# https://www.ibm.com/docs/en/db2/11.5?topic=statements-create-table;
# https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/Data-Types.html (ANSI types).
SYNONYMS = {
    ("mysql", "bool"): "tinyint(1)",
    ("mysql", "boolean"): "tinyint(1)",
    ("mysql", "long"): "mediumtext",
    ("mysql", "decimal"): "decimal(10,0)",
    ("mysql", "numeric"): "decimal(10,0)",
    ("mysql", "dec"): "decimal(10,0)",
    ("mysql", "fixed"): "decimal(10,0)",
    **{("tsql", name): "decimal(18,0)" for name in ("decimal", "numeric", "dec")},
    **{("db2", name): "decimal(5,0)" for name in ("decimal", "numeric", "dec", "num")},
    **{("oracle", name): "number(38,0)" for name in ("decimal", "numeric", "dec")},
    ("oracle", "long"): "clob",
    ("oracle", "int"): "number(38,0)",
    ("oracle", "integer"): "number(38,0)",
    ("oracle", "smallint"): "number(38,0)",
}
# Words that a name follows.
_NAMED = {"CONSTRAINT", "COLLATE", "CHARSET", "COMPRESSION", "COMPRESSION_DICTIONARY", "TABLESPACE"}
_ORACLE_NUMBERS = {"float": 126, "real": 63, "double precision": 126}
"""Oracle's other names of numbers, which are decimals there and come as text, with their bits.

Source: https://docs.oracle.com/en/database/oracle/oracle-database/19/sqlrf/Data-Types.html (FLOAT).
"""
_DIGITS_OF_BIT = 0.30103
_EXACT = DECIMALS | _ORACLE_NUMBERS.keys()
_SERIALS = {"serial", "bigserial", "smallserial", "serial2", "serial4", "serial8"}
_BEHIND_TYPE = (
    ("WITH", "TIME", "ZONE"),
    ("WITH", "LOCAL", "TIME", "ZONE"),
    ("WITHOUT", "TIME", "ZONE"),
    *(("FOR", kind, "DATA") for kind in ("BIT", "SBCS", "MIXED")),  # Db2
)
# What has a column's words in it, and speaks of an index, of other rows or of storage.
_NOT_OF_COLUMN = (
    ("UNIQUE", "KEY"),
    ("FOREIGN", "KEY"),
    ("SET", "NULL"),
    ("SET", "DEFAULT"),
    ("STORE", "AS"),
    ("BY", "USER", "FOR", "STATISTICS"),
)
_NO_COLUMN = (
    ("LIKE",),
    ("PERIOD", "FOR"),
    ("PERIOD", "SYSTEM_TIME"),  # Db2
    ("PERIOD", "BUSINESS_TIME"),
    ("SUPPLEMENTAL", "LOG"),
)
# Elements of a column list that define no column; INDEX and KEY are names outside MySQL.
_CONSTRAINTS = {"CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "EXCLUDE"}
_OTHER_CONSTRAINTS = {"FOREIGN", "CHECK", "EXCLUDE", "NOT", "CONNECTION", "REFERENCES"}
_MYSQL_INDEXES = {"INDEX", "KEY", "FULLTEXT", "SPATIAL"}
_INDEX_KINDS = {"CLUSTERING", "VECTOR", "COLUMNAR", "LOCAL", "GLOBAL", "CLUSTERED"}
"""What stands before INDEX or KEY in databases that speak as MySQL does, and names columns too."""
_OF_ORACLE_COLUMN = (("ADD", "DOMAIN"), ("DROP", "DOMAIN"), ("DROP", "IDENTITY"))


class Element(NamedTuple):
    """One element of a column list: a column, or a constraint; `keys` = the primary key.

    `computed` is the expression that a generated column's values follow.
    """

    column: Column | None = None
    keys: tuple[str, ...] = ()
    kind: Kind = "add_column"
    computed: str | None = None


def read_elements(reader: TokenReader, *, strict: bool = False) -> list[Element]:
    """`( a INT, b CHAR(3) DEFAULT 'x', PRIMARY KEY (a) )`, in order."""
    reader.expect("(")
    elements = [read_element(reader, strict=strict)]
    while reader.accept(","):
        elements.append(read_element(reader, strict=strict))
    reader.expect(")")
    return elements


def read_element(reader: TokenReader, *, strict: bool = False) -> Element:
    """One column definition or table constraint, up to its comma."""
    if at_constraint(reader):
        return read_constraint(reader, strict=strict)
    # PostgreSQL, SQL Server, Oracle
    if any(reader.accept(*words) for words in _NO_COLUMN):
        reader.skip()
        return Element(kind="other")
    return read_column(reader, strict=strict)


def at_constraint(reader: TokenReader) -> bool:
    if reader.at("EXCLUDE"):  # PostgreSQL; elsewhere, and there too, it may be a column's name
        return reader.at_any({"USING", "("}, ahead=1)
    if reader.dialect == "tsql" and reader.at("INDEX"):  # no name there, unless in brackets
        return True
    if reader.at_any(_CONSTRAINTS) or reader.at("NOT", "NULL"):
        return True
    return reader.dialect == "mysql" and (reader.at_any(_MYSQL_INDEXES) or _at_index_kind(reader))


def _at_index_kind(reader: TokenReader) -> bool:
    kinds = 0
    while reader.at_any(_INDEX_KINDS, ahead=kinds):
        kinds += 1
    return kinds > 0 and reader.at_any({"INDEX", "KEY"}, ahead=kinds)


def read_constraint(reader: TokenReader, *, strict: bool = False) -> Element:
    """`[CONSTRAINT c] PRIMARY KEY (a, b(10) DESC)` and the others, whose columns do not matter.

    `strict`: one that no database has is Unread.
    """
    if reader.accept("CONSTRAINT"):
        reader.accept("IF", "NOT", "EXISTS")
        if not reader.at_any(_CONSTRAINTS):
            reader.name()
    kind: Kind = "constraint"
    keys: tuple[str, ...] = ()
    if reader.accept("PRIMARY", "KEY"):
        kind = "change_key"
        while not (reader.at("(") or reader.at_end() or reader.at(",")):
            reader.take()  # an index name, USING BTREE, CLUSTERED
        keys = read_key(reader) if reader.at("(") else ()
    elif reader.at_any(_MYSQL_INDEXES | _INDEX_KINDS | {"UNIQUE"}):
        kind = "create_index"
    elif strict and not reader.at_any(_OTHER_CONSTRAINTS):
        raise Unread(f"expected a constraint, got {reader.peek().text!r}")
    reader.skip()
    return Element(keys=keys, kind=kind)


def read_key(reader: TokenReader) -> tuple[str, ...]:
    """`(a, b(10), c DESC)`: the names alone."""
    reader.expect("(")
    names = [reader.column()]
    reader.skip()
    while reader.accept(","):
        names.append(reader.column())
        reader.skip()
    reader.expect(")")
    return tuple(names)


def read_column(reader: TokenReader, *, strict: bool = False) -> Element:
    """A column definition.

    Unknown attributes are passed over; `strict`: a word that no database has there is Unread.
    """
    own = reader.column()
    if reader.dialect == "oracle" and any(reader.accept(*words) for words in _OF_ORACLE_COLUMN):
        reader.skip()
        return Element(column=Column(name=own))
    source_type = read_type(reader)
    type_ = None if source_type is None else type_in(source_type, reader.dialect)
    found: dict[str, str | bool | None] = {}
    if source_type is not None and source_type.lower() in _SERIALS:
        found["expression"] = source_type.upper()
    keys: tuple[str, ...] = ()
    with_values = False
    first = reader.index
    while not (_behind_column(reader) or reader.at_any(_VERBS)):
        if reader.accept("NOT", "NULL"):
            found["nullable"] = False
        elif reader.accept("NULL"):
            found["nullable"] = True
        elif reader.accept("DEFAULT"):
            found["default"], found["expression"] = read_default(reader, source_type, type_)
        elif reader.accept("COMMENT"):
            reader.take()
        elif source_type is not None and _of_bytes(reader):
            source_type = _BYTES.sub(_as_bytes, source_type)
            text, type_ = _text(found.get("default")), type_in(source_type, reader.dialect)
            if text is not None and type_ == "binary":
                found["default"] = _padded(_base64(text), source_type, reader.dialect)
        elif _own_key(reader):
            keys = (own,)
        elif reader.accept("WITH", "VALUES"):
            with_values = True
        elif _placed(reader):
            continue
        elif reader.at_any({"AUTO_INCREMENT", "IDENTITY"}):
            found["expression"] = found["computed"] = reader.take().text.upper()
        elif reader.accept("AS"):
            text = reader.written(_pass_expression(reader, _AFTER_COMPUTED))
            found["expression"] = found["computed"] = text
        else:
            pass_attribute(reader, strict=strict)
    if source_type is None and reader.index == first:
        raise Unread(f"expected a type for column {own}, got {reader.peek().text!r}")
    nullable, computed = found.get("nullable"), _text(found.get("computed"))
    if reader.dialect == "tsql" and nullable is not False and not with_values:
        found |= {"default": None, "expression": computed}  # rows that exist keep NULL
    column = Column(
        name=own,
        source_type=source_type,
        type=type_,
        nullable=None if nullable is None else bool(nullable),
        default=_text(found.get("default")),
        expression=_text(found.get("expression")),
    )
    generated = computed if computed is not None and computed.startswith("(") else None
    return Element(column=column, keys=keys, computed=generated)


def _placed(reader: TokenReader) -> bool:
    """Where the column is to stand among the others, passed over: gold's order is its own."""
    if reader.at_any({"AFTER", "BEFORE"}) and reader.at_name(1):
        reader.take()
        reader.name()
        return True
    return reader.accept("FIRST")


def _behind_column(reader: TokenReader) -> bool:
    ended = reader.at_end() or reader.at(",") or reader.at(")")
    return ended or reader.at_partitioning() or reader.at_unused()


def _of_bytes(reader: TokenReader) -> bool:
    """MySQL's character set that makes bytes of characters; its words are passed over.

    Source: https://dev.mysql.com/doc/refman/8.4/en/charset-binary-set.html.
    """
    words = ("CHARACTER", "SET", "BINARY"), ("CHARSET", "BINARY"), ("COLLATE", "BINARY"), ("BYTE",)
    return reader.dialect == "mysql" and any(reader.accept(*each) for each in words)


def _as_bytes(name: re.Match[str]) -> str:
    word = name[0].upper()
    return word.replace("TEXT", "BLOB").replace("VARCHAR", "VARBINARY").replace("CHAR", "BINARY")


_CATALOGUES = {
    "postgres": re.compile(r'^"?pg_catalog"?\.', re.IGNORECASE),
    "tsql": re.compile(r"^sys\.", re.IGNORECASE),
}
_BYTES = re.compile(r"^(?:VAR)?CHAR\b|^(?:TINY|MEDIUM|LONG)?TEXT\b", re.IGNORECASE)


def pass_attribute(reader: TokenReader, *, strict: bool) -> None:
    """Past one word of a column's definition, and the name that belongs to it.

    `strict`: a word that no database has there is Unread.
    """
    if reader.accept("REFERENCES"):
        reader.path()
    elif any(reader.accept(*words) for words in _NOT_OF_COLUMN):
        pass
    elif reader.accept("CHARACTER", "SET") or reader.accept("IDENTIFIED", "BY"):
        reader.take()
    elif reader.at_any(_NAMED) or reader.at("COMPRESSED", "="):
        reader.take()
        reader.accept("=")
        reader.take()
    elif reader.at("("):
        reader.group()
    elif not strict or reader.at_any(_ATTRIBUTES) or reader.peek().kind != "word":
        reader.take()
    else:
        raise Unread(f"expected an attribute of a column, got {reader.peek().text!r}")


def type_in(source_type: str, dialect: str) -> str:
    """The Spark type of a type in a statement of `dialect`, which has names of its own for some."""
    if dialect in _CATALOGUES:
        source_type = _CATALOGUES[dialect].sub("", source_type)
    read = parse_type(source_type)
    own = None if read.args else SYNONYMS.get((dialect, read.name))
    return spark_type(own or source_type, FAMILIES[dialect])


def read_type(reader: TokenReader) -> str | None:
    """A type as written, `TIMESTAMP(6) WITH TIME ZONE`, `decimal(10, 2)`; None if none is."""
    if not reader.at_name() or reader.at_any(_NO_TYPE):
        return None
    if reader.at_any(_NEVER_TYPES):
        raise Unread(f"expected a type, got {reader.peek().text!r}")
    first = reader.index
    tail = _TYPE_TAIL | _TYPE_AFTER.get(reader.path()[-1].upper(), set())
    while True:
        if reader.at("("):
            reader.group()
        elif reader.at_any(tail):
            reader.take()
        elif reader.at("[") and reader.at("]", ahead=2):
            reader.index += 3
        elif not (reader.accept("[", "]") or any(reader.accept(*words) for words in _BEHIND_TYPE)):
            return reader.written(first)


def read_default(
    reader: TokenReader, source_type: str | None, type_: str | None
) -> tuple[str | None, str | None]:
    """(literal as canonical text, None) or (None, text of the expression), after `DEFAULT`."""
    if reader.accept("ON", "NULL"):  # Oracle
        if reader.accept("FOR"):
            while reader.at_any({"INSERT", "AND", "UPDATE", "ONLY"}):
                reader.take()
    if reader.dialect == "db2" and _at_no_value(reader):
        return _own_default(source_type, type_)
    first = _pass_expression(reader, _AFTER_DEFAULT)
    tokens = reader.tokens[first : reader.index]
    dialect = reader.dialect
    literal = literal_default(tokens, source_type, type_, dialect=dialect)
    return literal or (None, reader.written(first))


def _at_no_value(reader: TokenReader) -> bool:
    ended = reader.at_end() or reader.at(",") or reader.at(")")
    return ended or (not reader.at("NULL") and reader.at_any(_AFTER_DEFAULT))


def _own_default(source_type: str | None, type_: str | None) -> tuple[str | None, str | None]:
    """What Db2 takes where `DEFAULT` names no value; rows that exist get other dates than new ones.

    Source: https://www.ibm.com/docs/en/db2/11.5?topic=statements-alter-table.
    """
    name = parse_type(source_type or "").name
    if type_ in ("int", "bigint", "double"):
        return "0", None
    if type_ is not None and type_.startswith("decimal("):
        return _decimal("0", int(type_[:-1].partition(",")[2])), None
    return ("", None) if name == "varchar" else (None, "DEFAULT")


def _pass_expression(reader: TokenReader, ends: set[str]) -> int:
    """Moves past an expression, up to one of the words that may follow it; its first index."""
    first = reader.index
    while not _behind_column(reader):
        if reader.index > first and any(reader.accept(*words) for words in _BEHIND_TYPE):
            continue  # of a type that it is cast to
        if reader.index > first and reader.at_any(ends):
            break
        if reader.at_any({"(", "["}):
            reader.group()
        else:
            reader.take()
    if reader.index == first:
        raise Unread(f"expected an expression, got {reader.peek().text!r}")
    return first


def _own_key(reader: TokenReader) -> bool:
    """MySQL's `id INT KEY` is the primary key, too."""
    return reader.accept("PRIMARY", "KEY") or (reader.dialect == "mysql" and reader.accept("KEY"))


def _text(value: str | bool | None) -> str | None:
    return value if isinstance(value, str) else None


_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_AS_WRITTEN = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?")
"""Numbers that are the same text in a column of characters."""
_CAST = re.compile(r"[\w\s.]+(?:\(\s*\d+\s*(?:,\s*\d+\s*)?\)[\w\s]*)?(?:\[\s*\d*\s*\]\s*)*")
_FRACTION = re.compile(r":\d\d\.(\d*[1-9])")
_SECONDS = re.compile(r":\d\d:(?!00(?:\.0*)?(?!\.|\d))")
_SECOND_DIGITS = {"mysql": 0, "oracle": 6, "postgres": 6, "tsql": 7, "db2": 6}
"""Digits of a second that a time has where its type does not say."""
_WRITTEN_ANEW = set(
    """
    money hstore tsvector tsquery macaddr macaddr8 cidr box circle line lseg path point polygon
    geometry geography int4range int8range numrange tsrange tstzrange daterange int4multirange
    int8multirange nummultirange tsmultirange tstzmultirange datemultirange timetz pg_lsn vector
    halfvec sparsevec
    """.split()
) | {"time with time zone"}
_WRITTEN_ANEW_BY_TSQL = {"xml", "hierarchyid", "geography", "geometry", "vector", "sql_variant"}
_SAME_ANEW = {"jsonb": {"{}", "[]", '""', "null", "true", "false"}}
"""Values that databases write as they were given, where they write most anew."""
_BYTEA = re.compile(r"\\x(?:[0-9a-fA-F]{2})*")
_BYTEA_ESCAPE = re.compile(r"\\(\\|[0-3][0-7]{2})")
_BYTEA_ESCAPED = re.compile(r"(?:[^\\]|\\\\|\\[0-3][0-7]{2})*", re.DOTALL)
"""Source: https://www.postgresql.org/docs/17/datatype-binary.html (bytea escape format)."""
_BITS_MOST = 64
"""Digits of a bit or hexadecimal literal that may be a number: no column holds a larger one."""
FIXED_LENGTH = {
    "mysql": {"binary"},
    "oracle": {"char", "nchar", "character"},
    "postgres": {"char", "character", "bpchar"},
    "tsql": {"char", "nchar", "character", "binary"},
    "db2": {"char", "character", "graphic", "binary"},
}
"""Types whose values databases fill up to their length: bytes with zeros, texts with spaces."""
STRIPPED = {"char", "character", "nchar", "national char", "national character"}
"""Types of MySQL that lose the spaces at their end. Source:
https://dev.mysql.com/doc/refman/8.4/en/char.html."""
_LONGEST = 8_000
"""Bytes of a BINARY; of MySQL's 255."""
_COMPACT = re.compile(r"(\d{8})(\d{6})?")
_COMPACT_TIME = re.compile(r"(-?)(\d{1,7})")
_TIME_OF_DAY = re.compile(r"-?\d{2,3}:[0-5]\d:[0-5]\d(?:\.\d+)?")
_SHORT = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)")
_DATED = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T]\d\d:\d\d:\d\d(?:[.]\d+)?\S*)?")
_CLOCK_BEHIND = re.compile(r"(?:[T ]\d\d:\d\d(?::\d\d(?:\.0*)?)?)?")
"""What may stand behind the day of a date, and says nothing of it."""
_ZERO_PART = re.compile(r"\d{4}-(?:00-\d\d|\d\d-00)")
_SINGLE, _SINGLE_BITS = struct.Struct("<f"), 24
_SINGLES = {
    "mysql": {"float"},
    "oracle": {"binary_float"},
    "postgres": {"real", "float4", "float"},
    "tsql": {"real", "float"},
    "db2": {"real", "float"},
}
"""Types of single precision; FLOAT with up to 24 bits, and MySQL's without a number."""
_SHORT_YEAR = re.compile(r"\d\d?")
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TRUTHS = {
    "t": True,
    "true": True,
    "y": True,
    "yes": True,
    "on": True,
    "1": True,
    "f": False,
    "false": False,
    "n": False,
    "no": False,
    "off": False,
    "0": False,
}


def literal_default(
    tokens: Sequence[Token], source_type: str | None, type_: str | None, *, dialect: str
) -> tuple[str | None, None] | None:
    """(canonical text, None), where NULL is None; None if the tokens are no plain literal."""
    rest, casts = _bare(tokens)
    if len(rest) == 1 and rest[0].kind == "word":
        word = rest[0].text.upper()
        if word == "NULL":
            return None, None
        if word not in ("TRUE", "FALSE"):
            return None
        if type_ == "boolean":
            return word.lower(), None
        if dialect != "mysql":
            return None
        number = str(int(word == "TRUE"))
        decimal = parse_type(source_type or "").name in DECIMALS
        if decimal:
            return _exact(number, source_type or "", type_ or "string", dialect=dialect), None
        return number, None
    # DATE '2024-01-01', TIMESTAMP '…', and MySQL's character sets _utf8mb4'…'
    if len(rest) == 2 and rest[0].kind == "word" and rest[1].kind == "string":
        typed = rest[0].text.upper() in ("DATE", "TIME", "TIMESTAMP", "N")
        rest = rest[1:] if typed or rest[0].text.startswith("_") else rest
    if len(rest) != 1:
        return None
    literal: Token | None = rest[0]
    for cast in casts:
        literal = literal and _cast(literal, cast, type_ or "string", dialect=dialect)
    if literal is None or _only_source_reads(literal, source_type or "", dialect):
        return None
    name = parse_type(source_type or "").name
    if dialect == "tsql" and name in _WRITTEN_ANEW_BY_TSQL and literal.text:
        return None
    if type_ == "string" and name == "json":
        # MySQL takes it in parentheses alone; where there are none, MariaDB keeps the text.
        anew = dialect in ("oracle", "tsql") or (dialect == "mysql" and tokens[0].text == "(")
        if anew and literal.kind == "string" and literal.text not in _SAME_ANEW["jsonb"]:
            return None
    if dialect == "oracle" and literal.kind == "string" and not literal.text:
        return None, None  # Oracle has no empty text: it is NULL
    if dialect == "oracle" and type_ == "binary":
        return _of_raw(literal)
    text = _canonical(literal, source_type or "", type_ or "string", dialect=dialect)
    if type_ == "timestamp_ntz" and text is not None and text.endswith("Z"):
        text = _without_zone(literal.text) if _passes_zone_over(tokens, dialect) else None
    if dialect == "tsql" and type_ == "timestamp" and text is not None:
        # An instant without an offset is of UTC.
        text = text if text.endswith("Z") else civil_text(f"{text}Z", [])
    return None if text is None else (_padded(text, source_type or "", dialect), None)


def _passes_zone_over(tokens: Sequence[Token], dialect: str) -> bool:
    """Whether a column without a zone takes the clock as it is written beside one: PostgreSQL's
    from a literal, Oracle's from a TIMESTAMP '…'. MySQL's takes that of the session.

    Sources: https://www.postgresql.org/docs/17/datatype-datetime.html (Time Stamps);
    https://dev.mysql.com/doc/refman/8.4/en/date-and-time-literals.html.
    """
    if dialect == "postgres":
        return all(token.text != "::" for token in tokens)
    return dialect == "oracle" and len(_unwrapped(tokens)) == 2


def _without_zone(text: str) -> str | None:
    clock = _CLOCK.match(text)
    return None if clock is None else _dated(civil_text(clock[0], []))


def _cast(literal: Token, cast: str, type_: str, *, dialect: str) -> Token | None:
    """A literal as a cast makes it, in a column of Spark type `type_`: `1.7::int` is 2; None where
    only the source can tell."""
    to, read = type_in(cast, dialect), parse_type(cast)
    if to == "binary" or read.name.endswith("]"):
        return literal if to == type_ else None
    if to in ("double", "timestamp"):
        return literal if type_ != "string" and (to == "double" or to == type_) else None
    if to != "string" or read.name in DECIMALS:
        text = _canonical(literal, cast, to, dialect=dialect)
        return None if text is None else literal._replace(text=text, kind="string")
    length = read.numbers[0] if read.args and read.numbers else None
    if read.name in ("char", "character") and length is None:
        length = 1
    texts = read.name.endswith(("char", "varying")) or read.name == "character"
    return None if length is not None and (not texts or len(literal.text) > length) else literal


def _only_source_reads(literal: Token, source_type: str, dialect: str) -> bool:
    """Whether the source may keep another text than that of the literal: PostgreSQL's types that
    write their values anew, bits that MySQL reads from characters, more digits of a second than
    the column has."""
    read, text = parse_type(source_type), literal.text
    if dialect == "postgres" and (read.name.startswith("interval") or read.name in _WRITTEN_ANEW):
        return True
    if dialect == "postgres" and (read.name.endswith("]") or read.name == "jsonb"):
        return text not in _SAME_ANEW.get(read.name, {"{}"})
    if dialect == "mysql" and read.name == "bit" and literal.kind == "string":
        return bits_type(read) != "boolean"
    if read.name == "smalldatetime":
        return _SECONDS.search(text) is not None
    fraction = _FRACTION.search(text)
    if fraction is None or not read.name.startswith(("time", "datetime")):
        return fraction is not None and read.name == "date" and dialect == "oracle"
    if dialect == "tsql" and read.name == "datetime":  # it counts in steps of 1/300 s
        return len(fraction[1]) > 3 or (len(fraction[1]) == 3 and fraction[1][-1] not in "037")
    return len(fraction[1]) > (*read.numbers, _SECOND_DIGITS[dialect])[0]


def _of_raw(token: Token) -> tuple[str, None] | None:
    """Oracle takes text for a RAW or a BLOB as hexadecimal digits."""
    digits = token.text if len(token.text) % 2 == 0 else f"0{token.text}"
    plain = token.kind == "string" and re.fullmatch(r"[0-9a-fA-F]*", digits)
    return (base64_of(bytes.fromhex(digits)), None) if plain else None


def _padded(text: str, source_type: str, dialect: str) -> str:
    """A default as the source's rows have it in a column of fixed length."""
    read = parse_type(source_type)
    if dialect == "mysql" and read.name in STRIPPED:
        return text.rstrip(" ")
    if read.name not in FIXED_LENGTH.get(dialect, ()):
        return text
    if read.name == "bpchar" and not read.args:
        return text
    found = re.match(r"\s*(\d{1,5})", read.args)
    length = int(found[1]) if found else 1
    if read.name == "binary":
        return base64_of(base64.b64decode(text).ljust(min(length, _LONGEST), b"\0"))
    # A length in bytes and one in characters are the same where all are ASCII.
    return text.ljust(length) if text.isascii() else text


def _bare(tokens: Sequence[Token]) -> tuple[list[Token], list[str]]:
    """Without enclosing parentheses and with a sign joined on; the types that PostgreSQL casts it
    to, in order."""
    rest = _unwrapped(tokens)
    casts: list[str] = []
    at = next((at for at, token in enumerate(rest) if token.text == "::"), len(rest))
    if 0 < at < len(rest):
        words = (
            re.sub(r"\W", "_", token.text) if token.kind == "quoted" else token.text
            for token in rest[at + 1 :]
        )
        casts = " ".join(words).replace(" . ", ".").split(" :: ")
        if not all(_CAST.fullmatch(cast) for cast in casts):
            return rest, []
        rest = _unwrapped(rest[:at])
    marks = "".join(token.text for token in rest[:-1])
    number = rest[-1:]
    if number and number[0].kind == "number" and marks in ("-", "+", ".", "-.", "+."):
        return [number[0]._replace(text=marks.replace("+", "") + number[0].text)], casts
    return rest, casts


def _unwrapped(tokens: Sequence[Token]) -> list[Token]:
    """Without the parentheses around it, however many."""
    first, last = 0, len(tokens) - 1
    while last - first > 1 and tokens[first].kind == "mark":
        if (tokens[first].text, tokens[last].text) != ("(", ")"):
            break
        first, last = first + 1, last - 1
    return list(tokens[first : last + 1])


def _canonical(token: Token, source_type: str, type_: str, *, dialect: str) -> str | None:
    """Canonical text of one literal in a column of Spark type `type_`; None if it has none."""
    text, name = token.text, parse_type(source_type).name
    if token.kind in ("bits", "hex"):
        return _of_digits(token, source_type, type_, dialect=dialect)
    if token.kind not in ("string", "number"):
        return None
    if type_ == "binary":
        return _bytes(token, name, dialect)
    if type_ == "boolean":
        truth = _TRUTHS.get(text.strip().lower())
        return None if truth is None else str(truth).lower()
    if type_.startswith("decimal(") or (type_ == "string" and name in _EXACT):
        return _exact(text, source_type, type_, dialect=dialect)
    if type_ == "date":
        day, behind = _dashed(text)[:10], _dashed(text)[10:]
        return _dated(day) if _CLOCK_BEHIND.fullmatch(behind) else None
    if type_ in ("timestamp", "timestamp_ntz"):
        return _dated(civil_text(_dashed(text), []))
    if type_ in ("int", "bigint") and not text.lstrip("+-").isdigit():
        return _cut(text) if dialect == "tsql" else _decimal(text, 0)
    if type_ == "int" and name == "year" and _SHORT_YEAR.fullmatch(text):
        return _year(int(text), text=token.kind == "string")
    if type_ == "string" and name == "time":
        return _time(text)
    if name in ("enum", "set"):
        return _labels(text, source_type)
    if type_ == "double":
        return _floating(text, source_type, dialect)
    if type_ in ("int", "bigint"):
        return _plain_number(text)
    if token.kind == "number":
        plain = _AS_WRITTEN.fullmatch(text)
        return text if plain and not (plain[1] and dialect == "oracle") else None
    if name in ("uuid", "uniqueidentifier"):
        own = text.lower() if name == "uuid" else text.upper()
        return own if _UUID.fullmatch(text) else None
    if name in ("inet", "inet4", "inet6"):
        return _address(text)
    return text


def _of_digits(token: Token, source_type: str, type_: str, *, dialect: str) -> str | None:
    """`b'101'` and `0x4F`, by the column's type; None where a text's bytes are of its own character
    set."""
    base = 2 if token.kind == "bits" else 16
    if type_ == "string" and dialect == "postgres":
        return _binary_digits(token.text, base)
    if type_ == "string" and parse_type(source_type).name in DECIMALS:
        number = _of_bits(token.text, base, "bigint")
        return None if number is None else _exact(number, source_type, type_, dialect=dialect)
    if type_ == "string" and dialect == "tsql":
        return None
    return _of_bits(token.text, base, type_)


def _bytes(token: Token, name: str, dialect: str) -> str | None:
    """Bytes from a literal of a text; of a number only MySQL makes its digits."""
    if token.kind == "number" and dialect != "mysql":
        return None
    if name != "bytea" or "\\" not in token.text:
        return _base64(token.text)
    if _BYTEA.fullmatch(token.text):
        return base64_of(bytes.fromhex(token.text[2:]))
    if not _BYTEA_ESCAPED.fullmatch(token.text):
        return None
    parts = _BYTEA_ESCAPE.split(token.text)
    data = [part.encode("utf-8", "surrogatepass") for part in parts]
    data[1::2] = [b"\\" if octal == "\\" else bytes((int(octal, 8),)) for octal in parts[1::2]]
    return base64_of(b"".join(data))


def _cut(text: str) -> str | None:
    """A whole number as SQL Server makes it: what stands behind the point is cut off.

    Source: https://learn.microsoft.com/en-us/sql/t-sql/functions/cast-and-convert-transact-sql.
    """
    number = _plain_number(text)
    try:
        return None if number is None else decimal_text(number).partition(".")[0]
    except DecodeError:
        return None


def _floating(text: str, source_type: str, dialect: str) -> str | None:
    """A number as a column of floating point has it: MySQL's FLOAT(7,4) rounds it, and of single
    precision its rows show the fewest digits that mean the same."""
    read, number = parse_type(source_type), _plain_number(text)
    if number is not None and len(read.numbers) == 2:
        number = _decimal(number, read.numbers[1])
    names = _SINGLES[dialect]
    few = (*read.numbers, 0)[0] <= _SINGLE_BITS or len(read.numbers) == 2
    if number is None or read.name not in names or (read.name == "float" and not few):
        return number
    if read.name == "float" and dialect != "mysql" and not read.numbers:
        return number
    try:
        packed = _SINGLE.pack(float(number))
    except OverflowError:
        return None
    [kept] = _SINGLE.unpack(packed)
    shown = (f"{kept:.{digits}g}" for digits in range(1, 10))
    short = next(text for text in shown if _SINGLE.unpack(_SINGLE.pack(float(text)))[0] == kept)
    return number if float(short) == float(number) else short


def _address(text: str) -> str | None:
    """An address of a network; None where the source writes it otherwise."""
    try:
        return text if str(ip_address(text)) == text else None
    except ValueError:
        return None


def _exact(text: str, source_type: str, type_: str, *, dialect: str) -> str | None:
    """A number as a column of decimals has it: with its scale, which may lie before the point, and
    without one in its own digits, of which Oracle keeps no zero at the end."""
    read = parse_type(source_type)
    numbers = read.numbers
    if read.name in _ORACLE_NUMBERS:
        numbers = ()
    if len(numbers) > 1 or (numbers and type_ == "string"):
        return _decimal(text, (*numbers, 0)[1])
    if type_ != "string":
        return _decimal(text, int(type_[:-1].partition(",")[2]))
    number = _plain_number(text)
    try:
        plain = decimal_text(number) if number is not None else None
    except DecodeError:
        return None
    if plain is None or dialect != "oracle":
        return plain
    if "." in plain:
        plain = plain.rstrip("0").removesuffix(".")
    bits = (*read.numbers, _ORACLE_NUMBERS.get(read.name, 126))[0]
    digits = len(plain.replace(".", "").strip("-0"))
    # More digits than the bits are sure to hold are rounded, as only the source can.
    return plain if digits <= bits * _DIGITS_OF_BIT or read.name not in _ORACLE_NUMBERS else None


def _time(text: str) -> str | None:
    """A time of day, which MySQL takes as a number too (10203 is 01:02:03); None for other texts,
    which only the source can read."""
    digits = _COMPACT_TIME.fullmatch(text)
    if digits is not None:
        text = f"{digits[1]}{digits[2].zfill(6)[:-4]}:{text[-4:-2].zfill(2)}:{text[-2:].zfill(2)}"
    found = time_text(text)
    return found if _TIME_OF_DAY.fullmatch(found) else None


def _labels(text: str, source_type: str) -> str | None:
    """The labels of a MySQL ENUM or SET as the column has them: those of a SET in its order.

    Source: https://dev.mysql.com/doc/refman/8.4/en/set.html.
    """
    read = parse_type(source_type)
    labels = [label.rstrip(" ") for label in read.members]
    if not labels or (read.name == "set" and not text):
        return text
    own = {label.lower(): label for label in reversed(labels)} | {label: label for label in labels}
    named = text.split(",") if read.name == "set" else [text]
    found = {own.get(name, own.get(name.lower())) for name in (n.rstrip(" ") for n in named)}
    return None if None in found else ",".join(label for label in labels if label in found)


def _base64(text: str) -> str:
    return base64_of(text.encode("utf-8", "surrogatepass"))


def _year(number: int, *, text: bool) -> str:
    """MySQL's year of one or two digits; the number 0 is the year 0000, the text is 2000.

    Source: https://dev.mysql.com/doc/refman/8.4/en/year.html.
    """
    if number == 0 and not text:
        return "0"
    return str(number + (2000 if number < 70 else 1900))


def _dashed(text: str) -> str:
    """A date or date-time as MySQL takes it too: `2020-1-1`, `2020/01/01`, `20200101`,
    `20200101123000`."""
    compact = _COMPACT.fullmatch(text)
    if compact is not None:
        day, clock = compact.groups()
        date = f"{day[:4]}-{day[4:6]}-{day[6:]}"
        return date if clock is None else f"{date} {clock[:2]}:{clock[2:4]}:{clock[4:]}"
    short = _SHORT.match(text)
    if short is None:
        return text
    return f"{short[1]}-{short[3].zfill(2)}-{short[4].zfill(2)}{text[short.end() :]}"


def _dated(text: str) -> str | None:
    """A date or date-time, zero dates among them; None for words and spellings that only the source
    can read (`now`, `01-JAN-20`): whatever they come to there, rows hold no such text."""
    found = _DATED.fullmatch(text)
    if found is None:
        return None
    if _ZERO_PART.fullmatch(found[1]):
        return text
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return None
    return text


def _binary_digits(digits: str, base: int) -> str | None:
    """What PostgreSQL's bit(n) holds: `B'101'` and `X'1F'` are the text of their binary digits."""
    if base == 2:
        return digits
    try:
        return "".join(f"{int(digit, 16):04b}" for digit in digits)
    except ValueError:
        return None


def _of_bits(digits: str, base: int, type_: str) -> str | None:
    """`b'101'`, `x'4F'`, `0x4F` by the column's type: a number, a truth, bytes, characters."""
    try:
        number = int(digits, base)
    except ValueError:
        return None
    if type_ == "boolean":
        return str(number != 0).lower()
    if type_ in ("int", "bigint", "double") or type_.startswith("decimal("):
        return str(number) if len(digits) <= _BITS_MOST else None
    size = (len(digits) + 7) // 8 if base == 2 else (len(digits) + 1) // 2
    data = number.to_bytes(size, "big")
    if type_ == "binary":
        return base64_of(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _plain_number(text: str) -> str | None:
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    plain = re.sub(r"^(-?)0*(?=\d)", r"\g<1>", text.removeprefix("+")).removesuffix(".")
    return re.sub(r"^(-?)\.", r"\g<1>0.", plain)


def _decimal(text: str, scale: int) -> str | None:
    """With the column's scale, as its rows come: 0 of decimal(10,2) is 0.00."""
    number = _plain_number(text)
    if number is None:
        return None
    try:
        plain = decimal_text(number)
    except DecodeError:
        return None
    whole, _, digits = plain.partition(".")
    if len(digits) <= scale:
        return f"{whole}.{digits.ljust(scale, '0')}" if scale else whole
    # The source rounds half away from zero when it stores the default.
    exact = Context(prec=len(plain) + abs(scale) + 1, Emax=MAX_EMAX, Emin=MIN_EMIN)
    unit = Decimal(1).scaleb(-scale)
    return format(Decimal(plain).quantize(unit, "ROUND_HALF_UP", exact), "f")
