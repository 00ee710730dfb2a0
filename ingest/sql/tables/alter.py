"""ALTER TABLE of a Delta table, for changes of its columns.

The statements need a table with column mapping by name, `delta.enableTypeWidening`, and
`delta.feature.timestampNtz`: Delta does not enable the last by itself in ALTER TABLE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import assert_never

from ingest.ddl.changes import AddColumn, AlterColumnType, ColumnChange, DropColumn, RenameColumn
from ingest.sql.quoting import quoted


def commits(changes: Iterable[ColumnChange]) -> list[Sequence[ColumnChange]]:
    """The changes as they are carried out, each list in one commit of the table: columns that are
    added one after the other share one."""
    found: list[Sequence[ColumnChange]] = []
    for adds, several in groupby(changes, lambda change: isinstance(change, AddColumn)):
        run = list(several)
        found += [run] if adds else [[change] for change in run]
    return found


def statements(target: str, changes: Iterable[ColumnChange]) -> list[str]:
    """The statement of each commit; `target` is the table's name, quoted."""
    return [
        f"ALTER TABLE {target} ADD COLUMNS ({', '.join(map(_clause, commit))})"
        if isinstance(commit[0], AddColumn)
        else f"ALTER TABLE {target} {_clause(commit[0])}"
        for commit in commits(changes)
    ]


def script(target: str, changes: Iterable[ColumnChange]) -> str:
    """The statements as one text."""
    return ";\n".join(statements(target, changes))


def _clause(change: ColumnChange) -> str:
    match change:
        case AddColumn(name, type_):
            return f"{quoted(name)} {type_ or 'string'}"
        case DropColumn(name):
            return f"DROP COLUMN {quoted(name)}"
        case RenameColumn(old, new):
            return f"RENAME COLUMN {quoted(old)} TO {quoted(new)}"
        case AlterColumnType(name, type_):
            return f"ALTER COLUMN {quoted(name)} TYPE {type_}"
        case _:
            assert_never(change)
