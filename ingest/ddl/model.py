"""What a DDL statement is once read: a statement of clauses, each with its kind and risk class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from ingest.ddl.risks import KINDS, Kind, Risk, worst


class TableName(NamedTuple):
    """A source table as the statement or its message names it; None = not said."""

    db: str | None
    schema: str | None
    name: str | None

    def folded(self) -> tuple[str, str, str]:
        """For comparison: names without case, what is not said as ''."""
        return (
            (self.db or "").lower(),
            (self.schema or "").lower(),
            (self.name or "").lower(),
        )


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column as a statement defines it.

    `source_type` is the text as written and `type` its Spark type; both None if the statement
    gives no type (computed columns, Oracle's `MODIFY c NOT NULL`). `default` is the literal, as
    canonical text, that rows existing at that moment got: MySQL's implicit default counts, SQL
    Server's default of a nullable column without WITH VALUES does not; zone-less for an instant,
    as the source wrote it. `expression` holds the text instead where it is no literal.
    `nullable` is None where not said.
    """

    name: str
    source_type: str | None = None
    type: str | None = None
    nullable: bool | None = None
    default: str | None = None
    expression: str | None = None


@dataclass(frozen=True, kw_only=True)
class Clause:
    """One thing a statement does to one table.

    `column` is the column concerned, under its old name where it is renamed to `new_name`;
    `new_table` of a renamed table; `columns` and `keys` of a created table; `keys` of a changed
    key. `using` is what the source computed a column's present values by: the conversion that
    PostgreSQL was told to apply, where it is not a plain cast, or a generated column's expression.
    `if_not_exists` of a created table or an added column: if it was there already, nothing
    happened. `if_exists` is the column without which nothing happened: IF EXISTS.
    """

    kind: Kind
    table: TableName
    column: Column | None = None
    new_name: str | None = None
    new_table: TableName | None = None
    columns: tuple[Column, ...] = ()
    keys: tuple[str, ...] = ()
    using: str | None = None
    if_not_exists: bool = False
    if_exists: str | None = None

    @property
    def risk(self) -> Risk:
        return KINDS[self.kind]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A DDL text, read. `kind` and `risk` are those of its worst clause, the first of equals.

    `table` is the first table named, or the message's; `ghosts` names, by the table for which it
    stands, each shadow table that the text altered.
    """

    text: str
    table: TableName
    clauses: tuple[Clause, ...]
    ghosts: tuple[tuple[TableName, str], ...] = ()

    @property
    def ghost(self) -> str | None:
        """The shadow table that the text altered, where `table` is the table it stands for."""
        return dict(self.ghosts).get(self.table)

    @property
    def kind(self) -> Kind:
        return worst(self.clauses).kind

    @property
    def risk(self) -> Risk:
        return worst(self.clauses).risk

    @property
    def creates_table(self) -> bool:
        """Whether one of its clauses makes a table."""
        return any(clause.kind == "create_table" for clause in self.clauses)

    @property
    def tables(self) -> tuple[TableName, ...]:
        """Every table it touches, once each, in order of mention."""
        return tuple(self._by_table)

    def of(self, table: TableName) -> Statement:
        """The statement as it concerns one of its `tables` alone."""
        return replace(self, table=table, clauses=tuple(self._by_table[table]))

    def called(self, name: str | None) -> Sequence[TableName]:
        """Those of its tables that have this name, in whatever case, or none."""
        folded = (name or "").lower()
        return [*self._by_name.get(folded, ()), *(self._by_name.get("", ()) if folded else ())]

    @cached_property
    def _by_table(self) -> dict[TableName, list[Clause]]:
        found: dict[TableName, list[Clause]] = {}
        for clause in self.clauses:
            found.setdefault(clause.table, []).append(clause)
        return found

    @cached_property
    def _by_name(self) -> dict[str, list[TableName]]:
        found: dict[str, list[TableName]] = {}
        for table in self._by_table:
            found.setdefault((table.name or "").lower(), []).append(table)
        return found

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a CREATE TABLE; empty for `LIKE` and `AS SELECT`."""
        return next((clause.columns for clause in self.clauses if clause.columns), ())
