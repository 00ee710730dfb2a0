"""Statements that change how values are written, where messages do not say how they are.

Debezium without schemas writes a DECIMAL as the bytes of a whole number, a DATE as days and a
DATETIME as milliseconds or microseconds: which it is, and where the point stands, only the source's
`columns:` says. Once a statement changes that, values from before it and from after it cannot be
read by one declaration, and read by the wrong one they are other numbers and times. So such a
target is parked before one of them comes in. Decimals under `decimal_handling: auto` may be text,
which any declaration reads rightly, and which shows as many digits behind the point as the
statement says: there only what has just as many as the declaration parks, as bytes always have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ingest.config.sources import Source
from ingest.ddl.model import Statement
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.names import SourceTable, declared_for, label_of
from ingest.position import Pos, highest
from ingest.values.source_types import DECIMALS, parse_type
from pipelines.ledger.statements import given_types, types_after
from pipelines.silver.pending import BatchStats, ColumnValues

_FORMAT = "debezium"
_ADAPTIVE = ("adaptive", "adaptive_time_microseconds")


def check_encodings(
    source: Source,
    table: SourceTable,
    statements: Iterable[tuple[Pos, Statement]],
    *,
    types: Sequence[Sequence[ColumnType]],
    stats: Sequence[BatchStats],
    met: Callable[[ColumnValues], bool],
) -> None:
    """Check that `columns:` reads the changes as the statements before them require.

    `types`: the lists of column types that the changes came with, or that were declared for them.
    `met`: whether the changes have such values. A statement is parsed only if a declared column
    depends on it, and the changes are looked at only if the statement leaves the question open. If
    a decimal point was moved and moved back, the values in between are in doubt and later ones are
    not.

    Raises:
        TableError: a statement changed how a declared column is written, and values from after it
            came.
    """
    declared = declared_for(source.columns, table.path)
    own = [each for each in stats if _FORMAT in each.formats]
    top = highest(each.highest for each in own)
    if not declared or not types or top is None:
        return
    lowest = min((each.lowest for each in own if each.lowest), default=None)
    stated = _stated_types((pos, statement) for pos, statement in statements if pos < top)
    for name, type_ in declared.items():
        made = stated.get(name.lower(), [])
        if not made or not _by_declaration(name, type_, types):
            continue
        for doubt, new in _doubts(name, type_, made, options=source.options):
            if doubt.below is not None and lowest is not None and doubt.below <= lowest:
                continue
            if (doubt.below is None and doubt.digits is None) or met(doubt):
                raise TableError(_sentence(source, f"{label_of(table)}.{name}", type_, new=new))


def _stated_types(
    statements: Iterable[tuple[Pos, Statement]],
) -> dict[str, list[tuple[Pos, str]]]:
    """The types that statements give each column, in lower case, in order of position."""
    stated: dict[str, list[tuple[Pos, str]]] = {}
    types: dict[str, str] = {}
    for pos, statement in sorted(statements, key=lambda found: found[0]):
        for name, type_ in given_types(statement, types):
            stated.setdefault(name.lower(), []).append((pos, type_))
        types = types_after(statement, types)
    return stated


def _doubts(
    name: str, type_: str, made: Sequence[tuple[Pos, str]], *, options: Mapping[str, Any]
) -> Iterable[tuple[ColumnValues, str]]:
    """The values of a column declared as `type_` that may be read wrongly because statements gave
    the column other types, each with the type that it had by then."""
    read = _encoding(type_, options)
    until: list[Pos | None] = [*(pos for pos, _ in made[1:]), None]
    for (pos, new), below in zip(made, until, strict=True):
        written = _encoding(new, options)
        if read is not None and written is not None and read != written:
            bytes_or_text = read.kind == written.kind == "unscaled" and _may_be_text(options)
            yield ColumnValues(name, pos, below, read.digits if bytes_or_text else None), new


def _by_declaration(name: str, type_: str, types: Sequence[Sequence[ColumnType]]) -> bool:
    """Whether every list of types has the column as it is declared: none came with messages."""
    came = [
        {column.source_type.lower() for column in listed if column.name.lower() == name.lower()}
        for listed in types
    ]
    return all(found <= {type_.lower()} for found in came) and any(came)


class _Encoding(NamedTuple):
    """How values of a type are written: which kind of number, and the digits behind its point."""

    kind: str
    digits: int


def _may_be_text(options: Mapping[str, Any]) -> bool:
    return bool(options.get("decimal_handling", "auto") == "auto")


def _encoding(text: str, options: Mapping[str, Any]) -> _Encoding | None:
    """How values of a type are written; None if their texts tell."""
    type_ = parse_type(text)
    if type_.name in DECIMALS and options.get("decimal_handling", "auto") in ("auto", "precise"):
        return _Encoding("unscaled", type_.numbers[1] if len(type_.numbers) > 1 else 0)
    if options.get("time_precision", "adaptive") not in _ADAPTIVE:
        return None
    if type_.name == "date":
        return _Encoding("days", 0)
    if type_.name == "datetime":
        return _Encoding("seconds", 6 if any(digits > 3 for digits in type_.numbers) else 3)
    return None


def _sentence(source: Source, column: str, type_: str, *, new: str) -> str:
    text = ""
    if parse_type(new).name in DECIMALS and _may_be_text(source.options):
        text = "Where decimals are text, set `options: {decimal_handling: string}`. "
    return (
        f"expected {column} to stay {type_}, as `columns:` of source {source.name} has it, got a "
        f"statement that makes it {new}: messages without schemas do not say which of both a value "
        f"is. {text}Let the connector send schemas, declare {new}, and after `ingest reset "
        f"--source {source.name} --bronze` read a new snapshot from new topics or files"
    )
