"""Statements that change how values are written, where messages do not say how they are.

Debezium without schemas writes a DECIMAL as the bytes of a whole number, a DATE as days and a
DATETIME as milliseconds or microseconds: which it is, and where the point stands, only the source's
`columns:` says. Once a statement changes that, values from before it and from after it cannot be
read by one declaration, and read by the wrong one they are other numbers and times. So such a
target is parked before one of them comes in. Decimals under `decimal_handling: auto` may be text,
which any declaration reads rightly: there nothing is parked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ingest.config.sources import Source
from ingest.ddl.model import Statement
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.names import SourceTable, label_of
from ingest.position import Pos
from ingest.values.source_types import DECIMALS, parse_type
from ingest.wire.declared import declared_for
from pipelines.ledger.statements import typed_columns
from pipelines.silver.pending import BatchStats
from pipelines.targets.progress import highest

_FORMAT = "debezium"
_ADAPTIVE = ("adaptive", "adaptive_time_microseconds")


def check_encodings(
    source: Source,
    table: SourceTable,
    statements: Iterable[tuple[Pos, Statement]],
    *,
    types: Sequence[Sequence[ColumnType]],
    stats: Iterable[BatchStats],
) -> None:
    """See that `columns:` reads the newest changes as the statements before them say.

    `types`: the lists of column types that the changes came with, or that were declared for them.
    The statements are read only where something depends on them.

    Raises:
        TableError: a statement made a column that is read by its declaration one that is read in
            another way.
    """
    declared = declared_for(source.columns, table[1:])
    top = highest(each.highest for each in stats if _FORMAT in each.formats)
    if not declared or not types or top is None:
        return
    stated = {
        name.lower(): type_
        for pos, statement in sorted(statements, key=lambda found: found[0])
        if pos < top
        for name, type_ in typed_columns(statement)
    }
    for name, type_ in declared.items():
        new = stated.get(name.lower())
        if new is None or not _by_declaration(name, type_, types):
            continue
        encodings = [_encoding(text, source.options) for text in (type_, new)]
        if None not in encodings and encodings[0] != encodings[1]:
            raise TableError(_sentence(source.name, f"{label_of(table)}.{name}", type_, new=new))


def _by_declaration(name: str, type_: str, types: Sequence[Sequence[ColumnType]]) -> bool:
    """Whether every list of types has the column as it is declared: none came with messages."""
    came = [
        {column.source_type.lower() for column in listed if column.name.lower() == name.lower()}
        for listed in types
    ]
    return all(found <= {type_.lower()} for found in came) and any(came)


def _encoding(text: str, options: Mapping[str, Any]) -> tuple[str, int] | None:
    """How values of a type are written: which kind of number, and the digits behind its point; None
    where their texts tell."""
    type_ = parse_type(text)
    if type_.name in DECIMALS and options.get("decimal_handling") == "precise":
        return "unscaled", type_.numbers[1] if len(type_.numbers) > 1 else 0
    if options.get("time_precision", "adaptive") not in _ADAPTIVE:
        return None
    if type_.name == "date":
        return "days", 0
    if type_.name == "datetime":
        return "seconds", 6 if any(digits > 3 for digits in type_.numbers) else 3
    return None


def _sentence(source: str, column: str, type_: str, *, new: str) -> str:
    return (
        f"expected {column} to stay {type_}, as `columns:` of source {source} has it, got a "
        f"statement that makes it {new}: messages without schemas do not say which of both a value "
        f"is. Let the connector send schemas, declare {new}, and after `ingest reset --source "
        f"{source} --bronze` read a new snapshot from new topics or files"
    )
