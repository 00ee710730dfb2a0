"""`gold._runs`: one row for each run: who ran it and where, how long each stage took, and the
result.

A run that brought nothing and ended like the one before it writes no row, and neither does one that
only found another at work. So the table grows with what comes and what changes, not with how often
somebody runs the command. A continuous run writes a row at most every CADENCE seconds, for what
came since the last one. The note `runs.json` beside the checkpoints says when each command ran
last, one line for each.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ingest.sql.quoting import sql_text, typed_columns
from pipelines.platform.checkpoints import read_note, write_whole
from pipelines.platform.warehouse import Warehouse
from pipelines.telemetry.users import user

CADENCE = 60.0
"""The seconds between two rows of a continuous run."""
ERRORS_MOST, ERROR_LONGEST = 100, 2_000
"""How many sentences a row holds, and how many characters each."""
_COMMANDS_MOST = 64

RUNS = (
    ("run", "string", "id of the run; the rows of one continuous run share it"),
    ("part", "int", "which row of its run, from 1; more than one of a continuous run only"),
    ("verb", "string", "run, bronze, silver or gold"),
    ("sources", "array<string>", "the sources it was for"),
    ("tables", "array<string>", "the targets it was for; null: all"),
    ("who", "string", "the user of the operating system, or of the platform"),
    ("version", "string", "of this product"),
    ("host", "string", "the machine of the driver"),
    ("started", "timestamp", "when what this row counts began"),
    ("ended", "timestamp", "when it ended"),
    ("passes", "bigint", "how often sources were asked for news"),
    ("seconds", "map<string,double>", "by stage: bronze, silver, gold, upkeep"),
    ("messages", "bigint", "messages appended to bronze"),
    ("rows", "bigint", "rows appended to silver"),
    ("events", "bigint", "changes that gold applied or set aside, once a target"),
    ("rejects", "bigint", "messages and changes set aside"),
    ("merged", "bigint", "targets that were brought forward"),
    ("parked", "bigint", "targets that stood parked at the end"),
    ("latency_p50", "double", "seconds from the source to gold for half of the changes, ±10 %"),
    ("latency_p95", "double", "for 95 of 100"),
    ("latency_p99", "double", "for 99 of 100"),
    (
        "arrival_latency_p50",
        "double",
        "seconds from the message's timestamp in its topic or queue to gold, the same way",
    ),
    ("arrival_latency_p95", "double", "for 95 of 100"),
    ("arrival_latency_p99", "double", "for 99 of 100"),
    ("outcome", "string", "done, incomplete (exit code 1 or 75), failed (2) or running"),
    ("exit_code", "int", "null while a continuous run goes on"),
    ("errors", "array<string>", "what standard error named, without secrets"),
)
"""Column, type, meaning."""
_OUTCOMES = {None: "running", 0: "done", 1: "incomplete", 2: "failed"}


@dataclass(frozen=True, kw_only=True)
class RunRow:
    """One row; the columns of RUNS, except who and where."""

    run: str
    part: int
    verb: str
    sources: Sequence[str]
    tables: Sequence[str] | None
    started: datetime
    ended: datetime
    passes: int
    seconds: dict[str, float]
    messages: int
    rows: int
    events: int
    rejects: int
    merged: int
    parked: int
    latency_p50: float | None
    latency_p95: float | None
    latency_p99: float | None
    arrival_latency_p50: float | None
    arrival_latency_p95: float | None
    arrival_latency_p99: float | None
    exit_code: int | None
    errors: Sequence[str]

    @property
    def command(self) -> str:
        """The command in words, so that rows of equal commands can be compared."""
        words = [self.verb, *(f"--source {name}" for name in self.sources)]
        return " ".join([*words, *(f"--table {name}" for name in self.tables or ())])

    @property
    def brought(self) -> bool:
        """Whether anything came."""
        return bool(self.messages or self.rows or self.events or self.rejects or self.merged)

    @property
    def state(self) -> str:
        """How it ended, as a text that is the same if nothing has changed."""
        digest = hashlib.sha256("\n".join(sorted(self.errors)).encode()).hexdigest()[:16]
        return digest if self.errors else str(self.exit_code or 0)


def record_run(warehouse: Warehouse, row: RunRow) -> bool:
    """Append the row if it says something new, and note when the command ran; returns whether it
    was appended."""
    noted = read_note(_file(warehouse))
    before = noted.pop(row.command, None)
    state = before.get("state") if isinstance(before, dict) else None
    ends = row.exit_code is not None and row.part > 1
    news = row.brought or ends or row.state != (state or "0")
    if news:
        create_runs(warehouse)
        schema = typed_columns((name, type_) for name, type_, _ in RUNS)
        frame = warehouse.session.createDataFrame([_values(warehouse, row)], schema)
        warehouse.append(frame.coalesce(1), "gold", "_runs")
    # The command that ran last stands last, and the first ones are forgotten.
    noted[row.command] = {"ended": row.ended.isoformat(), "state": row.state}
    kept = dict(list(noted.items())[-_COMMANDS_MOST:])
    write_whole(_file(warehouse), json.dumps(kept).encode())
    return news


def create_runs(warehouse: Warehouse) -> None:
    """`gold._runs`."""
    columns = [(name, f"{type_} COMMENT {sql_text(text)}") for name, type_, text in RUNS]
    warehouse.create("gold", "_runs", columns)


def last_run(warehouse: Warehouse) -> datetime | None:
    """When a run last ended, or a continuous run last wrote that it is at work; None if there was
    none."""
    times = []
    for noted in read_note(_file(warehouse)).values():
        with suppress(TypeError, KeyError, ValueError):
            times.append(datetime.fromisoformat(noted["ended"]))
    return max(times, default=None)


def now() -> datetime:
    """The time, with its zone."""
    return datetime.now(UTC)


def _values(warehouse: Warehouse, row: RunRow) -> tuple[Any, ...]:
    given = {field.name: getattr(row, field.name) for field in fields(row)}
    errors = [text[:ERROR_LONGEST] for text in row.errors]
    more = len(errors) - ERRORS_MOST
    if more > 0:
        errors[ERRORS_MOST - 1 :] = [f"and {more + 1} more"]
    values = {
        **given,
        "sources": list(row.sources),
        "tables": None if row.tables is None else list(row.tables),
        "who": user(warehouse),
        "version": version("delta-cdc-ingest"),
        "host": socket.gethostname(),
        "outcome": _OUTCOMES.get(row.exit_code, "incomplete"),
        "errors": errors,
    }
    return tuple(values[name] for name, _, _ in RUNS)


def _file(warehouse: Warehouse) -> Path:
    return Path(warehouse.checkpoint("runs.json"))
