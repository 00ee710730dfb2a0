"""What a run has done so far, for whoever watches it and for OpenTelemetry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from pipelines.ledger.entries import load_entries
from pipelines.platform.warehouse import Warehouse
from pipelines.runs.outcome import Outcome
from pipelines.targets.progress import SOURCE_CURSOR, load_progress
from pipelines.telemetry import otel
from pipelines.telemetry.activity import Activity
from pipelines.telemetry.reading import Reading
from pipelines.telemetry.runs import now

Watch = Callable[[Reading, bool], None]


class Metrics:
    """Readings of what was done so far."""

    def __init__(
        self, warehouse: Warehouse, activity: Activity, outcome: Outcome, *, watch: Watch | None
    ) -> None:
        self._warehouse = warehouse
        self._activity = activity
        self._outcome = outcome
        self._watch = watch
        telemetry = activity.telemetry
        self._instruments = otel.Instruments(telemetry.meter) if telemetry is not None else None

    def show(self, *, stopping: bool, looked_through: bool, last: bool) -> None:
        """Give a reading to everyone who watches."""
        if self._watch is not None or self._instruments is not None:
            reading = self._reading(stopping=stopping, looked_through=looked_through)
            if self._instruments is not None:
                self._instruments.show(reading)
            if self._watch is not None:
                self._watch(reading, last)

    def _reading(self, *, stopping: bool, looked_through: bool) -> Reading:
        done, activity = self._outcome, self._activity
        reading = Reading(
            run=activity.run,
            at=now(),
            began=activity.began,
            passes=activity.passes,
            ready=activity.passes > 0 and not done.platform and not stopping,
            seconds=dict(activity.seconds),
            sources={
                name: {"messages": s.messages, "rows": s.rows, "rejects": s.rejects}
                for name, s in done.sources.items()
            },
            failing={name: source.failed for name, source in done.sources.items()},
            tables={of: merged._asdict() for of, merged in done.tables.items()},
            latency=activity.latency.copy(),
            arrival_latency=activity.arrival_latency.copy(),
        )
        if not looked_through:
            return reading
        progress = {
            of: known
            for of, known in load_progress(self._warehouse).items()
            if of[1] != SOURCE_CURSOR
        }
        waiting = Counter(
            (entry.table.source, entry.target)
            for entry in load_entries(self._warehouse).values()
            if entry.status == "pending" and entry.target is not None
        )
        return replace(
            reading,
            looked_through=True,
            parked={of: known.status == "parked" for of, known in progress.items()},
            freshness={of: known.freshness for of, known in progress.items()},
            pending={of: waiting[of] for of in progress},
        )
