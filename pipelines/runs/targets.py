"""The stage that goes target by target: what silver has brought, applied to gold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ingest.errors import TableError
from pipelines.gold import cadence, settled
from pipelines.gold.backlog import unmatched
from pipelines.gold.column_warnings import misspelt, untyped
from pipelines.gold.known_targets import known_targets, no_target, unknown_targets
from pipelines.gold.run import Merged, merge_tables
from pipelines.operations.compaction import Table
from pipelines.operations.views import publish
from pipelines.platform.failures import check_spark, described
from pipelines.platform.signals import Stop
from pipelines.platform.warehouse import Warehouse
from pipelines.runs.backoff import Backoffs
from pipelines.runs.journal import Journal, Result
from pipelines.silver.transactions import waiting
from pipelines.targets.progress import load_progress
from pipelines.telemetry.activity import Activity
from pipelines.terminal.console import Advance, Console, counted


class GoldStage:
    """The last stage: what silver has brought, applied to the targets. Nothing is looked at if
    nothing changed. In a run that goes on (`continuous`) a parked target is left alone for a
    while."""

    def __init__(
        self,
        warehouse: Warehouse,
        journal: Journal,
        *,
        console: Console,
        activity: Activity,
        targets: Sequence[str] | None,
        alone: bool,
        stop: Stop,
    ) -> None:
        """`targets`: those that are asked for; None: all. `alone`: this is the only stage."""
        self._warehouse = warehouse
        self._journal = journal
        self._console = console
        self._activity = activity
        self._targets = targets
        self._alone = alone
        self._stop = stop
        self.continuous = False
        self.looked_through = False
        """Whether what gold says of its targets can be read."""
        self.parked = Backoffs[tuple[str, str]]()
        """Parked targets, by source and target."""
        self._left: str | None = None
        """The state after the last pass, if nothing but parked targets is left to be tried."""
        self._due: int | None = None
        """When the next target's turn comes."""

    def merge(self, sources: Sequence[str], advance: Advance) -> set[Table]:
        """Bring what silver has of the sources to its targets; gives the tables that were
        written."""
        if self._targets is not None:
            return self._merged(sources, advance)[0]
        silver = self._looked_at(lambda: settled.silver_commit(self._warehouse))
        if silver is not None and self._looked_at(
            lambda: settled.unchanged(self._warehouse, sources)
        ):
            self._journal.outcome.done += self._alone
            advance("gold: 0 tables with changes", False)
            return set()
        state = self._looked_at(lambda: settled.state(self._warehouse)) if self.parked else None
        if state is not None and state == self._left and not self._any_due():
            advance("gold: 0 tables with changes", False)
            return set()
        told = self._journal.told
        written, whole = self._merged(sources, advance)
        if self._journal.told == told and silver is not None and not self._stop():
            self._looked_at(lambda: settled.remember(self._warehouse, sources, silver=silver))
        # Only parked targets, which are tried again later, may be left to do.
        self._left = None
        again = self._looked_at(lambda: settled.silver_commit(self._warehouse))
        if whole and self.parked and silver == again:
            self._left = self._looked_at(lambda: settled.state(self._warehouse))
            self._due = self._looked_at(lambda: cadence.next_due(self._warehouse, sources))
        return written

    def _any_due(self) -> bool:
        """Whether a parked target is to be tried again, or the turn of another target has come."""
        if self._due is not None and cadence.now() >= self._due:
            return True
        return any(self.parked.of(target) is None for target in self.parked)

    def _left_alone(self) -> set[tuple[str, str]]:
        """The parked targets that are not tried now."""
        if not self.parked:
            return set()
        tables, progress = self._journal.outcome.tables, load_progress(self._warehouse)
        for of in self.parked:
            if of not in progress or progress[of].status != "parked":
                # Somebody rebuilt or reset it.
                self.parked.ended(of)
                tables[of] = tables[of]._replace(error=None)
        return {of for of in self.parked if self.parked.of(of) is not None}

    def _back_off(self, merged: Sequence[Merged]) -> None:
        """Leave the targets alone for a while that were tried in vain; those that went on are like
        any other again."""
        for row in merged:
            of = (row.source, row.target)
            if row.error is None or not self.continuous:
                self.parked.ended(of)
            elif self.parked.of(of) is None:
                # One that still has a backoff is named in every pass: its table is gone, or it
                # collides with another.
                self.parked.failed(of, TableError(row.error))

    def _looked_at(self, work: Callable[[], Result]) -> Result | None:
        """What `work` gives, whose only use is to save work; None if it failed, which is said."""
        try:
            return work()
        except Exception as error:
            check_spark(error)
            self._journal.say(f"gold is looked through whatever has changed: {described(error)}")
            return None

    def _merged(self, sources: Sequence[str], advance: Advance) -> tuple[set[Table], bool]:
        """Bring targets forward; gives the tables that were written, and whether no source
        failed."""
        journal, failing = self._journal, list[str]()

        def failed(name: str, error: Exception) -> None:
            failing.append(name)
            journal.failed(name, error, "gold: ")

        merged = journal.attempt(
            None,
            lambda: merge_tables(
                self._warehouse,
                sources=sources,
                targets=self._targets,
                resting=self._left_alone(),
                by_turn=self._targets is None,
                stop=self._stop,
                failed=failed,
                at_work=lambda target: advance.at(f"gold {target}"),
            ),
        )
        if merged is None:
            return set(), False
        self.looked_through = self._warehouse.exists("gold", "_progress")
        self._back_off(merged)
        self._activity.merged([(row.source, row.target) for row in merged if row.error is None])
        journal.outcome.done += bool(merged) or self._alone
        self._tell(sources, merged)
        journal.outcome.add(merged)
        if merged:
            journal.attempt(None, lambda: publish(self._warehouse))
        self._log_merged(merged)
        advance(f"gold: {counted(len(merged), 'tables')} with changes", bool(merged))
        own = ("_progress", "_ddl", "_rejects") if merged else ()
        written = {("gold", name) for name in (*(row.target for row in merged), *own)}
        return written, not failing

    def _tell(self, sources: Sequence[str], merged: Sequence[Merged]) -> None:
        """Say which changes of the sources stay in silver and why, which columns of the targets
        have no type, and which targets are parked."""
        journal, targets = self._journal, {row.target for row in merged}
        for name in sources:
            for text in journal.attempt(name, partial(self._stays, name, targets)) or ():
                journal.say(text, source=name)
        for row in merged:
            if row.error is not None:
                text = f"table {row.target} is parked: {row.error}"
                journal.say(text, level="error", source=row.source, target=row.target)

    def _stays(self, source: str, targets: set[str]) -> list[str]:
        about = (self._warehouse, [source])
        of_targets = (*untyped(*about, targets=targets), *misspelt(*about, targets=targets))
        return [*waiting(*about), *unmatched(*about), *of_targets]

    def _log_merged(self, merged: Sequence[Merged]) -> None:
        """A line for each target that was brought forward, where a log is asked for."""
        if self._console.log is None or not merged:
            return
        progress = load_progress(self._warehouse)
        for row in merged:
            if row.error is None:
                text = f"gold {row.target}: {counted(row.events, 'changes')}"
                about = {"source": row.source, "target": row.target}
                batch = progress[row.source, row.target].batch
                self._console.log.line("info", text, **about, batch=batch)

    def name_unknown_targets(self) -> None:
        """Name the targets that were asked for and do not exist: when the run began, nothing was
        known of the tables of their source."""
        if self._targets is None:
            return
        names = known_targets(self._warehouse).names
        for target in unknown_targets(self._targets, names):
            self._journal.say(no_target(target, names))
            self._journal.outcome.unknown.append(target)
