"""What one run has done so far, in numbers that grow only with the count of its sources and
targets."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pipelines.telemetry.latency import Latency
from pipelines.telemetry.otel import Attributes, connected, span
from pipelines.telemetry.runs import CADENCE, RunRow, now

_BATCHES_MOST = 1_000
"""How many micro-batches that wait for gold are remembered; while gold fails, the newest ones."""
STAGES = ("bronze", "silver", "gold", "upkeep")


class Totals(NamedTuple):
    """What a run has done since it began."""

    messages: int = 0
    rows: int = 0
    events: int = 0
    rejects: int = 0


class ChangeTimes(NamedTuple):
    """When the changes of a micro-batch happened and arrived: how many there are, and the quantiles
    (`latency.QUANTILES`, µs since 1970 UTC) of their event times and of their messages' timestamps;
    no quantiles if no change has a time."""

    changes: int
    happened: Sequence[int]
    arrived: Sequence[int]


class Activity:
    """A run at work: its id, how long its stages took, how long changes took to gold."""

    def __init__(
        self, verb: str, *, sources: Sequence[str], targets: Sequence[str] | None = None
    ) -> None:
        self.run = str(uuid.uuid4())
        self.began = now()
        self.passes = 0
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.latency, self.arrival_latency = Latency(), Latency()
        self._verb, self._sources, self._targets = verb, sources, targets
        self.telemetry = connected()
        self._decoded: deque[ChangeTimes] = deque(maxlen=_BATCHES_MOST)
        self._merged: set[tuple[str, str]] = set()
        self.written = 0
        self._start()

    def _start(self) -> None:
        """Begin the counts of the next row."""
        self._since = now()
        self._clock = time.monotonic()
        self._before = (self.passes, dict(self.seconds))
        self._measured = (self.latency.copy(), self.arrival_latency.copy())

    @contextmanager
    def timed(self, stage: str, *, source: str | None = None) -> Iterator[None]:
        """Time the work of one of STAGES, for a source if it concerns one."""
        began = time.monotonic()
        about = {} if source is None else {"ingest.source": source}
        try:
            with span(self.telemetry, f"ingest {stage}", about):
                yield
        finally:
            self.seconds[stage] += time.monotonic() - began

    @contextmanager
    def passing(self) -> Iterator[None]:
        """One pass over the sources, which is a trace of its own."""
        self.passes += 1
        about: Attributes = {"ingest.run": self.run, "ingest.pass": self.passes}
        with span(self.telemetry, f"ingest {self._verb}", about):
            yield

    def decoded(self, batches: Sequence[ChangeTimes]) -> None:
        """Silver has these changes, and gold does not have them yet."""
        self._decoded.extend(batches)

    def merged(self, targets: Sequence[tuple[str, str]]) -> None:
        """Gold has everything that was decoded; these targets (source, target) were brought
        forward."""
        at = int(now().timestamp() * 1e6)
        for batch in self._decoded:
            self.latency.add(at, batch.changes, batch.happened)
            self.arrival_latency.add(at, batch.changes, batch.arrived)
        self._decoded.clear()
        self._merged |= set(targets)

    @property
    def due(self) -> bool:
        """Whether it is time for a continuous run to write its next row."""
        return time.monotonic() - self._clock >= CADENCE

    def row(
        self,
        done: Totals,
        *,
        before: Totals,
        parked: int,
        exit_code: int | None,
        errors: Sequence[str],
    ) -> RunRow:
        """What was done since this was last asked, when the run had done `before`; `written` says
        how many of these became rows."""
        passes, seconds = self._before
        latency = self.latency.since(self._measured[0])
        arrival = self.arrival_latency.since(self._measured[1])
        row = RunRow(
            run=self.run,
            part=self.written + 1,
            verb=self._verb,
            sources=self._sources,
            tables=self._targets,
            started=self._since,
            ended=now(),
            passes=self.passes - passes,
            seconds={name: round(self.seconds[name] - seconds[name], 3) for name in STAGES},
            messages=done.messages - before.messages,
            rows=done.rows - before.rows,
            events=done.events - before.events,
            rejects=done.rejects - before.rejects,
            merged=len(self._merged),
            parked=parked,
            latency_p50=latency.percentile(0.50),
            latency_p95=latency.percentile(0.95),
            latency_p99=latency.percentile(0.99),
            arrival_latency_p50=arrival.percentile(0.50),
            arrival_latency_p95=arrival.percentile(0.95),
            arrival_latency_p99=arrival.percentile(0.99),
            exit_code=exit_code,
            errors=errors,
        )
        self._merged.clear()
        self._start()
        return row
