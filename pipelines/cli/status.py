"""`ingest status`: once, or drawn again at an interval."""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines.cli import screens
from pipelines.reporting.states import WELL, all_rejected, table_state
from pipelines.terminal.console import counted

if TYPE_CHECKING:
    from pipelines.cli.context import Invocation

_BESIDE = 10
"""Lines of a drawing that are neither sources nor tables."""
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


class Status(NamedTuple):
    """Where everything stands: the columns SOURCE and TABLE, and sentences beside them; `failed`
    where something could not be looked up."""

    sources: list[dict[str, Any]]
    tables: list[dict[str, Any]]
    notes: list[str]
    failed: bool


def show_status(call: Invocation) -> None:
    """Print where everything stands; raises SystemExit with 1 where that is not all known."""
    status = _look(call)
    _show(call, status)
    if status.failed:
        raise SystemExit(1)


def watch(call: Invocation, seconds: float) -> None:
    """Print it again and again, in place on a terminal, until SIGINT or SIGTERM."""
    from pipelines.platform.signals import Stop, heeding_signals

    stop = Stop()
    with heeding_signals(stop, lambda _: None) as take:
        _ = call.warehouse
        take()
        while not stop():
            status = _look(call)
            if stop():
                return
            if sys.stdout.isatty() and not call.json:
                sys.stdout.write(_CLEAR)
                status = _fitted(status, shutil.get_terminal_size().lines)
            call.console.text(f"{_now():%H:%M:%S} UTC, every {seconds:g} s; Ctrl+C ends")
            call.console.text("")
            _show(call, status)
            sys.stdout.flush()
            stop.wait(seconds)


def _look(call: Invocation) -> Status:
    from pipelines.gold.backlog import unmatched
    from pipelines.gold.column_warnings import misspelt, untyped
    from pipelines.gold.known_targets import gold_tables
    from pipelines.operations.status import frozen_notes, gap_notes, source_rows, table_rows
    from pipelines.platform.failures import described_of
    from pipelines.runs.outcome import what_may_be_wrong
    from pipelines.silver.transactions import waiting

    warehouse = call.warehouse
    said: list[str] = []

    def failed(what: str, error: Exception) -> None:
        said.append(described_of(what, error))

    sources = source_rows(warehouse, failed=failed)
    with call.console.progress("tables", len(gold_tables(warehouse))) as advance:
        tables = table_rows(warehouse, advance=advance, failed=failed)
    names = [*warehouse.config.sources]
    rejected = [
        f"source {row['source']}: {what_may_be_wrong(warehouse.config.sources[row['source']])}"
        for row in sources
        if row["error"] is None and all_rejected(row)
    ]
    return Status(
        sources,
        tables,
        [
            *said,
            *rejected,
            *gap_notes(warehouse),
            *frozen_notes(warehouse),
            *waiting(warehouse, names),
            *unmatched(warehouse, names),
            *untyped(warehouse, names),
            *misspelt(warehouse, names),
        ],
        bool(said),
    )


def _show(call: Invocation, status: Status) -> None:
    console = call.console
    if call.json:
        for row in (*status.sources, *status.tables):
            console.record(row)
    else:
        screens.show(console, screens.sources(status.sources), nothing="no sources")
        tables = screens.tables(status.tables, now=_now(), verbose=call.verbose)
        screens.show(console, tables, nothing="no tables yet: `ingest run` makes them")
    for text in status.notes:
        console.say(text)


def _fitted(status: Status, lines: int) -> Status:
    """What a terminal has room for: of its tables first those that need someone."""
    room = max(1, lines - _BESIDE - len(status.sources) - len(status.notes))
    if len(status.tables) <= room:
        return status
    urgent = sorted(status.tables, key=lambda row: table_state(row) == WELL)
    left = urgent[room:]
    fine = sum(table_state(row) == WELL for row in left)
    more = (
        f"and {counted(len(left), 'more tables')}, {fine} of them ok; a higher terminal shows them"
    )
    return status._replace(tables=urgent[:room], notes=[*status.notes, more])


def _now() -> datetime:
    return datetime.now(UTC)
