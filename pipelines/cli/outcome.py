"""What a run did, as people and programs see it."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.cli import screens
from pipelines.runs.outcome import Outcome
from pipelines.terminal.console import Console

SOURCE = ("kind", "source", "messages", "rows", "rejects", "error")
TABLE = tuple(
    """
    kind table source events inserted updated deleted late stale rejected seconds error
    """.split()
)


def show_outcome(console: Console, outcome: Outcome, stages: Sequence[str] = ()) -> None:
    """Print what the `stages` did with each source, what was done with each table, and where to
    look for rejects."""
    of_sources = {"bronze", "silver"} & set(stages)
    sources = [
        {"kind": "source", "source": name, **{count: getattr(done, count) for count in SOURCE[2:]}}
        for name, done in outcome.sources.items()
    ]
    tables = [
        {"kind": "table", "table": row.target, **row._asdict(), "seconds": round(row.seconds, 3)}
        for _, row in sorted(outcome.tables.items())
    ]
    if console.json:
        for row in sources if of_sources else ():
            console.record(row)
        for row in tables:
            console.record({name: row[name] for name in TABLE})
    else:
        if of_sources:
            screens.show(console, screens.ran_sources(sources, stages), nothing="no sources")
        if tables:
            screens.show(console, screens.ran_tables(tables), nothing="")
        elif tuple(stages) == ("gold",):
            console.text("nothing new")
    if outcome.rejects:
        console.say(f"{outcome.rejects:,} set aside; `ingest rejects list` shows them")
