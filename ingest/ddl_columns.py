"""Column definitions of a DDL statement: name, type as written, default, nullability, position."""

from __future__ import annotations

from typing import NamedTuple

from ingest.ddl_defaults import literal_default
from ingest.ddl_record import Column
from ingest.ddl_tokens import Reader, Unread
from ingest.types import spark_type

FAMILIES = {"mysql": "mysql", "oracle": "oracle", "postgres": "postgres", "tsql": "sqlserver"}
"""sqlglot's dialect -> the type family of `ingest.types`."""

_VERBS = {"ADD", "MODIFY", "DROP", "RENAME"}
# What may stand where a type could: the column has none, or keeps the one it has.
_NO_TYPE = {"NOT", "NULL", "DEFAULT", "CONSTRAINT", "CHECK", "PRIMARY", "UNIQUE", "REFERENCES"} | {
    "VISIBLE",
    "INVISIBLE",
    "GENERATED",
    "AS",
    "ENCRYPT",
    "DECRYPT",
    "COMMENT",
    "COLLATE",
    "ENABLE",
    "DISABLE",
    "DROP",
    ",",
    ")",
    ";",
}
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
    *_VERBS,
}
_AFTER_COMPUTED = _AFTER_DEFAULT | {"STORED", "VIRTUAL", "PERSISTED"}
_TYPE_TAIL = {"PRECISION", "VARYING", "UNSIGNED", "SIGNED", "ZEROFILL", "LARGE", "OBJECT", "ARRAY"}
_TYPE_AFTER = {
    "LONG": {"RAW", "VARCHAR", "VARBINARY"},
    "NATIONAL": {"CHAR", "CHARACTER", "VARCHAR", "TEXT"},
    "INTERVAL": {"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "TO"},
}
_SERIALS = {"serial", "bigserial", "smallserial", "serial2", "serial4", "serial8"}
_ZONES = (
    ("WITH", "TIME", "ZONE"),
    ("WITH", "LOCAL", "TIME", "ZONE"),
    ("WITHOUT", "TIME", "ZONE"),
)
# Elements of a column list that define no column; INDEX and KEY are names outside MySQL.
_CONSTRAINTS = {"CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "EXCLUDE"}
_MYSQL_INDEXES = {"INDEX", "KEY", "FULLTEXT", "SPATIAL"}


class Element(NamedTuple):
    """One element of a column list: a column, or a constraint; `keys` = the primary key."""

    column: Column | None = None
    keys: tuple[str, ...] = ()
    kind: str = "add_column"


def read_elements(reader: Reader) -> list[Element]:
    """`( a INT, b CHAR(3) DEFAULT 'x', PRIMARY KEY (a) )`, in order."""
    reader.expect("(")
    elements = [read_element(reader)]
    while reader.accept(","):
        elements.append(read_element(reader))
    reader.expect(")")
    return elements


def read_element(reader: Reader) -> Element:
    """One column definition or table constraint, up to its comma."""
    if at_constraint(reader):
        return read_constraint(reader)
    if reader.accept("LIKE") or reader.accept("PERIOD"):  # PostgreSQL, SQL Server
        reader.skip()
        return Element(kind="other")
    return read_column(reader)


def at_constraint(reader: Reader) -> bool:
    return reader.at_any(_CONSTRAINTS) or (
        reader.dialect == "mysql" and reader.at_any(_MYSQL_INDEXES)
    )


def read_constraint(reader: Reader) -> Element:
    """`[CONSTRAINT c] PRIMARY KEY (a, b(10) DESC)` and the others, whose columns do not matter."""
    if reader.accept("CONSTRAINT") and not reader.at_any(_CONSTRAINTS):
        reader.name()
    kind = "constraint"
    keys: tuple[str, ...] = ()
    if reader.accept("PRIMARY", "KEY"):
        kind = "change_key"
        while not (reader.at("(") or reader.at_end() or reader.at(",")):
            reader.take()  # an index name, USING BTREE, CLUSTERED
        keys = read_key(reader) if reader.at("(") else ()
    elif reader.at_any(_MYSQL_INDEXES | {"UNIQUE"}):
        kind = "create_index"
    reader.skip()
    return Element(keys=keys, kind=kind)


def read_key(reader: Reader) -> tuple[str, ...]:
    """`(a, b(10), c DESC)`: the names alone."""
    reader.expect("(")
    names = [reader.name()]
    reader.skip()
    while reader.accept(","):
        names.append(reader.name())
        reader.skip()
    reader.expect(")")
    return tuple(names)


def read_column(reader: Reader, *, name: str | None = None) -> Element:
    """A column definition; `name` where it was read already. Unknown attributes are passed over."""
    own = reader.name() if name is None else name
    source_type = read_type(reader)
    type_ = None if source_type is None else spark_type(source_type, FAMILIES[reader.dialect])
    found: dict[str, str | bool | None] = {}
    if source_type is not None and source_type.lower() in _SERIALS:
        found["expression"] = source_type.upper()
    keys: tuple[str, ...] = ()
    with_values = False
    first = reader.index
    while not (reader.at_end() or reader.at(",") or reader.at(")") or reader.at_any(_VERBS)):
        if reader.accept("NOT", "NULL"):
            found["nullable"] = False
        elif reader.accept("NULL"):
            found["nullable"] = True
        elif reader.accept("DEFAULT"):
            found["default"], found["expression"] = read_default(reader, source_type, type_)
        elif reader.accept("COMMENT"):
            found["comment"] = reader.take().text
        elif reader.accept("PRIMARY", "KEY") or (reader.dialect == "mysql" and _bare_key(reader)):
            keys = (own,)
        elif reader.accept("WITH", "VALUES"):
            with_values = True
        elif reader.accept("FIRST"):
            found["position"] = "first"
        elif reader.at_any({"AFTER", "BEFORE"}) and reader.at_name(1):
            found["position"] = f"{reader.take().text.lower()} {reader.name()}"
        elif reader.at_any({"AUTO_INCREMENT", "IDENTITY"}):
            found["expression"] = reader.take().text.upper()
        elif reader.accept("AS"):
            found["expression"] = reader.written(_pass_expression(reader, _AFTER_COMPUTED))
        elif reader.at_any({"CONSTRAINT", "COLLATE", "CHARSET"}):
            reader.take()
            reader.accept("=")
            reader.take()
        elif reader.at("("):
            reader.group()
        else:
            reader.take()
    if source_type is None and reader.index == first:
        raise Unread(f"expected a type for column {own}, got {reader.peek().text!r}")
    nullable = found.get("nullable")
    if reader.dialect == "tsql" and nullable is not False and not with_values:
        found["default"] = None  # rows that exist keep NULL
    column = Column(
        name=own,
        source_type=source_type,
        type=type_,
        nullable=None if nullable is None else bool(nullable),
        default=_text(found.get("default")),
        expression=_text(found.get("expression")),
        comment=_text(found.get("comment")),
        position=_text(found.get("position")),
    )
    return Element(column=column, keys=keys)


def read_type(reader: Reader) -> str | None:
    """A type as written, `TIMESTAMP(6) WITH TIME ZONE`, `decimal(10, 2)`; None where none is."""
    if not reader.at_name() or reader.at_any(_NO_TYPE):
        return None
    first = reader.index
    head = reader.path()[-1].upper()
    while True:
        if reader.at("("):
            reader.group()
        elif reader.accept("[", "]") or reader.at_any(_TYPE_TAIL | _TYPE_AFTER.get(head, set())):
            reader.index += not reader.tokens[reader.index - 1].text == "]"
        elif reader.at("[") and reader.at("]", ahead=2):
            reader.index += 3
        elif not any(reader.accept(*zone) for zone in _ZONES):
            return reader.written(first)


def read_default(
    reader: Reader, source_type: str | None, type_: str | None
) -> tuple[str | None, str | None]:
    """(literal as canonical text, None) or (None, text of the expression), after `DEFAULT`."""
    if reader.accept("ON", "NULL"):  # Oracle
        if reader.accept("FOR"):
            while reader.at_any({"INSERT", "AND", "UPDATE", "ONLY"}):
                reader.take()
    first = _pass_expression(reader, _AFTER_DEFAULT)
    tokens = reader.tokens[first : reader.index]
    return literal_default(tokens, source_type, type_) or (None, reader.written(first))


def _pass_expression(reader: Reader, ends: set[str]) -> int:
    """Moves past an expression, up to one of the words that may follow it; its first index."""
    first = reader.index
    while not (reader.at_end() or reader.at(",") or reader.at(")")):
        if reader.index > first and reader.at_any(ends):
            break
        if reader.at("("):
            reader.group()
        else:
            reader.take()
    if reader.index == first:
        raise Unread(f"expected an expression, got {reader.peek().text!r}")
    return first


def _bare_key(reader: Reader) -> bool:
    """MySQL's `id INT KEY`; `UNIQUE KEY` is another thing."""
    return reader.accept("KEY") and reader.tokens[reader.index - 2].text.upper() != "UNIQUE"


def _text(value: str | bool | None) -> str | None:
    return value if isinstance(value, str) else None
