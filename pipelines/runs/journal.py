"""What happens in a run, told to the user and noted in its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ingest.errors import LeaseHeld, PlatformError
from pipelines.platform.failures import check_spark, described
from pipelines.platform.secrets import without_any
from pipelines.platform.warehouse import Warehouse
from pipelines.runs.outcome import Outcome
from pipelines.telemetry import otel
from pipelines.telemetry.activity import Activity
from pipelines.terminal.console import Console
from pipelines.terminal.log import Level

Result = TypeVar("Result")
_SAID_MOST = 10_000
"""How many sentences a run remembers to have said."""


class Journal:
    """Tells the user what happens in a run, each sentence once, and notes it in the outcome."""

    def __init__(
        self, warehouse: Warehouse, console: Console, outcome: Outcome, *, activity: Activity
    ) -> None:
        self.outcome = outcome
        self._config = warehouse.config
        self._console = console
        self._telemetry = activity.telemetry
        self._said: set[str] = set()
        self.told = 0
        """How often there was something to tell."""

    def say(
        self,
        text: str,
        *,
        level: Level = "warning",
        source: str | None = None,
        target: str | None = None,
    ) -> None:
        """Tell the user, once in a run."""
        self.told += 1
        if text not in self._said:
            if len(self._said) >= _SAID_MOST:
                self._said.clear()
            self._said.add(text)
            self._console.say(text, level=level, source=source, target=target)

    def warn(self, text: str, *, level: Level = "warning", source: str | None = None) -> None:
        """Tell the user something that makes the run end with an exit code other than 0."""
        self.say(text, level=level, source=source)
        _note(self.outcome.warned, text)

    def failed(self, source: str | None, error: Exception, stage: str = "") -> None:
        """Tell and note what failed; `source` None: gold. Raises SparkEnded if Spark is gone."""
        check_spark(error)
        text = without_any(described(error), self._config)
        otel.failed(self._telemetry, text)
        if source is not None:
            # Errors name their source for callers who run a single stage.
            named = f"source {source}"
            text = stage + text.removeprefix(f"{named}: ").removeprefix(f"{named} ")
            done = self.outcome.sources[source]
            done.error, done.held = text, isinstance(error, LeaseHeld)
        if isinstance(error, LeaseHeld):
            self.say(text)
            self.outcome.gold_held |= source is None
            return
        if isinstance(error, PlatformError):
            _note(self.outcome.platform, text)
        if source is None:
            self.warn(f"gold failed: {text}", level="error")
        else:
            self.say(f"source {source} failed: {text}", level="error", source=source)

    def attempt(self, source: str | None, work: Callable[[], Result]) -> Result | None:
        """What `work` gives; None if it failed; `source` None: gold. Raises SparkEnded if Spark is
        gone."""
        try:
            return work()
        except Exception as error:
            self.failed(source, error)
            return None


def _note(texts: list[str], text: str) -> None:
    """Add a text, unless an earlier pass has added it."""
    if text not in texts:
        texts.append(text)
