"""Clauses that change a column that is there: MODIFY, CHANGE, ALTER COLUMN."""

from __future__ import annotations

import re

from ingest.ddl_columns import (
    FAMILIES,
    Element,
    read_column,
    read_default,
    read_elements,
    read_key,
    read_type,
)
from ingest.ddl_record import Clause, Column, TableName
from ingest.ddl_tokens import Reader, Unread
from ingest.types import spark_type


def read_modify(reader: Reader, table: TableName) -> list[Clause]:
    """MySQL and Oracle; without a type only nullability, default or comment change."""
    if reader.accept("PRIMARY", "KEY"):  # OceanBase
        return [Clause(kind="change_key", table=table, keys=read_key(reader))]
    if reader.at_any(
        {"PARTITION", "SUBPARTITION", "CONSTRAINT", "DEFAULT", "NESTED", "LOB", "UNIQUE"}
    ):
        return passed_over(reader, table)
    reader.accept("COLUMN")
    reader.accept("IF", "EXISTS")
    elements = read_elements(reader) if reader.at("(") else [read_column(reader)]
    return [clause for element in elements for clause in _modified(element, table)]


def _modified(element: Element, table: TableName) -> list[Clause]:
    column = element.column
    if column is None:
        return [Clause(kind=element.kind, table=table, keys=element.keys)]
    if column.source_type is not None:
        kind = "modify_column"
    elif column.nullable is not None:
        kind = "nullability"
    else:
        kind = "default" if column.default or column.expression else "other"
    modified = [Clause(kind=kind, table=table, column=column)]
    if element.keys:
        modified.append(Clause(kind="change_key", table=table, keys=element.keys))
    return modified


def read_change(reader: Reader, table: TableName) -> list[Clause]:
    """MySQL: `CHANGE old new INT`; a rename only where the names differ."""
    reader.accept("COLUMN")
    reader.accept("IF", "EXISTS")
    old = reader.name()
    changed = _modified(read_column(reader), table)
    new = changed[0].column
    if new is None or new.name.casefold() == old.casefold():
        return changed
    renamed = Clause(kind="rename_column", table=table, column=Column(name=old), new_name=new.name)
    return [renamed, *changed]


def read_alter(reader: Reader, table: TableName) -> list[Clause]:
    """`ALTER [COLUMN] c TYPE t | SET DEFAULT x | DROP NOT NULL | t NOT NULL …`."""
    if not reader.accept("COLUMN") and reader.at_any({"INDEX", "CHECK", "CONSTRAINT"}):
        return passed_over(reader, table)
    reader.accept("IF", "EXISTS")
    name = reader.name()
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
    if reader.at_any({"SET", "DROP", "ADD", "RESTART", "RESET"}):
        reader.take()
        return passed_over(reader, table, Column(name=name))
    raise Unread(f"expected a change of column {name}, got {reader.peek().text!r}")


def _bare_type(reader: Reader) -> bool:
    """SQL Server: the type follows the name at once."""
    return reader.dialect == "tsql" and not reader.at_any({"ADD", "DROP", "SET"})


def _retyped(reader: Reader, table: TableName, name: str) -> Clause:
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
            using = _conversion(reader.written(first), name)
        elif reader.at_any({"ADD", "ALTER", "DROP", "MODIFY"}):  # DB2 puts no commas
            break
        else:
            reader.take()
    column = Column(
        name=name,
        source_type=source_type,
        type=spark_type(source_type, FAMILIES[reader.dialect]),
        nullable=nullable,
    )
    return Clause(kind="modify_column", table=table, column=column, using=using)


def _conversion(expression: str, name: str) -> str | None:
    """None where the conversion is a plain cast of the column itself."""
    own = re.escape(name)
    plain = rf'\(?"?{own}"?\)?\s*(::[\w\s(),."\[\]]+)?|cast\s*\(\s*"?{own}"?\s+as\s[\w\s(),.]+\)'
    return None if re.fullmatch(plain, expression.strip(), re.IGNORECASE) else expression


def passed_over(reader: Reader, table: TableName, column: Column | None = None) -> list[Clause]:
    reader.skip()
    return [Clause(kind="other", table=table, column=column)]
