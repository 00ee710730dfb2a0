"""The stages that go source by source: messages into bronze, and those into silver."""

from __future__ import annotations

from ingest.errors import LeaseHeld
from pipelines.bronze.source import ingest_source
from pipelines.bronze.transport import Bronze
from pipelines.platform.signals import Stop
from pipelines.platform.warehouse import Warehouse
from pipelines.runs.backoff import Backoffs
from pipelines.runs.journal import Journal
from pipelines.silver import projects
from pipelines.silver.declarations import check_arrival
from pipelines.silver.stream import decode_source
from pipelines.telemetry.activity import Activity
from pipelines.terminal.console import Advance, counted

_BEGUN_ANEW = (
    "it was not decoded for longer than bronze's commits are kept, so all of its messages in bronze"
    " were looked through, and those decoded that silver did not have"
)


class Owned:
    """The sources that a run is asked for and that belong to this project. A source is left out if
    another project feeds it on this warehouse, if it could not be noted whose it is, or if its
    messages would be placed otherwise than those before; it is tried again, at growing
    intervals."""

    def __init__(self, warehouse: Warehouse, journal: Journal) -> None:
        self._warehouse = warehouse
        self._journal = journal
        self._taken: set[str] = set()
        self._untaken = Backoffs[str]()

    def now(self) -> list[str]:
        """Those that belong to this project in the pass that begins."""
        asked = self._journal.outcome.sources
        return [name for name in asked if name in self._taken or self._take(name)]

    def _take(self, name: str) -> bool:
        """Note a source as this project's; gives whether it is."""
        if (backoff := self._untaken.of(name)) is not None:
            self._journal.failed(name, backoff.error)
            return False
        try:
            projects.take(self._warehouse, name)
            check_arrival(self._warehouse, self._warehouse.config.sources[name])
        except Exception as error:
            self._journal.failed(name, error)
            self._untaken.failed(name, error)
            return False
        self._untaken.ended(name)
        self._taken.add(name)
        return True


class BronzeStage:
    """The first stage: new messages of one source after the other. A source that could not be read
    is left alone for a while."""

    def __init__(self, warehouse: Warehouse, journal: Journal, *, stop: Stop) -> None:
        self._warehouse = warehouse
        self._journal = journal
        self._stop = stop
        self._unreached = Backoffs[str]()

    def ingest(self, name: str, advance: Advance) -> int:
        """Take in the new messages of one source; gives how many."""
        journal, brought = self._journal, 0
        ingested = self._ingested(name)
        if ingested is not None:
            journal.outcome.done += 1
            brought = ingested.messages
            journal.outcome.sources[name].messages += brought
            for path in ingested.files_changed:
                text = f"source {name}: {path} changed after it was read; it stays as read"
                journal.warn(text, source=name)
            for unreadable in ingested.files_unreadable:
                journal.warn(f"source {name}: {unreadable}", source=name)
            for text in ingested.failed:
                journal.warn(f"source {name}: {text}", source=name)
            for text in (*ingested.lost, *ingested.notes):
                journal.say(f"source {name}: {text}", source=name)
        advance(f"bronze {name}: {counted(brought, 'messages')}", brought > 0, source=name)
        return brought

    def _ingested(self, name: str) -> Bronze | None:
        """What bronze got from a source; None if that failed, or if the source is left alone for
        now."""
        if (backoff := self._unreached.of(name)) is not None:
            self._journal.failed(name, backoff.error)
            return None
        declared = self._warehouse.config.sources[name]
        try:
            ingested = ingest_source(self._warehouse, declared, stop=self._stop)
        except Exception as error:
            self._journal.failed(name, error)
            if isinstance(error, LeaseHeld):
                self._unreached.ended(name)
            else:
                self._unreached.failed(name, error)
            return None
        self._unreached.ended(name)
        return ingested


class SilverStage:
    """The second stage: what bronze has of one source after the other, decoded."""

    def __init__(
        self,
        warehouse: Warehouse,
        journal: Journal,
        *,
        activity: Activity,
        first: bool,
        stop: Stop,
    ) -> None:
        """`first`: no stage comes before this one, so a source counts as done even if it had
        nothing new."""
        self._warehouse = warehouse
        self._journal = journal
        self._activity = activity
        self._first = first
        self._stop = stop

    def decode(self, name: str, advance: Advance) -> int:
        """Decode what bronze has of one source; gives how many rows were written."""
        journal = self._journal
        declared = self._warehouse.config.sources[name]
        done = journal.outcome.sources[name]
        decoded = journal.attempt(
            name, lambda: decode_source(self._warehouse, declared, stop=self._stop)
        )
        rows, rejects = (decoded.rows, decoded.rejects) if decoded is not None else (0, 0)
        done.rows += rows
        done.rejects += rejects
        if decoded is not None:
            done.decoded += decoded.messages
            done.changes += decoded.changes
            self._activity.decoded(decoded.times)
            journal.outcome.done += rows > 0 or self._first
            if decoded.begun_anew:
                journal.say(f"source {name}: {_BEGUN_ANEW}", source=name)
        counts = f"{counted(rows, 'rows')}, {counted(rejects, 'rejects')}"
        advance(f"silver {name}: {counts}", rows > 0, source=name)
        return rows
