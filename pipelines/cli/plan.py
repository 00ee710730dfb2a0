"""`ingest plan`: what the next run would do, as people and programs see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.cli import screens
from pipelines.operations.plan import DDL, PARTITION, SOURCE, TABLE, plan
from pipelines.platform.failures import described_of

if TYPE_CHECKING:
    from pipelines.cli.context import Invocation

_Rows = Sequence[Mapping[str, Any]]


def show_plan(call: Invocation, sources: Sequence[str]) -> None:
    """Print the plan; raises SystemExit with 1 where something could not be looked up."""
    said: list[str] = []

    def failed(what: str, error: Exception) -> None:
        said.append(described_of(what, error))

    with call.console.waiting("looking at what waits"):
        made = plan(call.warehouse, sources, failed=failed)
    parts: list[tuple[_Rows, Callable[[_Rows], list[screens.Shown]], str]] = [
        (_dicts(SOURCE, made.sources), screens.planned_sources, "no sources"),
        (_dicts(PARTITION, made.partitions), screens.planned_partitions, ""),
        (_dicts(TABLE, made.tables), screens.planned_tables, "no table has changes that wait"),
        (_dicts(DDL, made.ddl), screens.planned_changes, ""),
    ]
    for rows, screen, nothing in parts:
        if call.json:
            for row in rows:
                call.console.record(row)
        elif rows or nothing:
            screens.show(call.console, screen(rows), nothing=nothing)
    for text in said:
        call.console.say(text)
    if said:
        raise SystemExit(1)


def _dicts(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> _Rows:
    return [dict(zip(columns, row, strict=True)) for row in rows]
