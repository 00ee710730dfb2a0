"""`ingest run` and its stages: bronze and silver by source, then gold, until nothing is left.

A source or table that fails is named and the others go on. A pass that brought no message is the
last one, unless the run is to continue until it is told to stop. A run whose Spark is gone ends
with SparkEnded: whoever started it starts it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingest.errors import TRY_AGAIN
from ingest.sql.counts.status import decoded_changes
from pipelines.operations.compaction import Table, compact_written
from pipelines.platform.failures import check_jvm, check_spark, described
from pipelines.platform.secrets import without_any
from pipelines.platform.signals import Stop
from pipelines.platform.warehouse import Warehouse
from pipelines.runs.journal import Journal
from pipelines.runs.metrics import Metrics, Watch
from pipelines.runs.outcome import Outcome, SourceOutcome, all_rejected, too_many_rejects
from pipelines.runs.sources import BronzeStage, Owned, SilverStage
from pipelines.runs.targets import GoldStage
from pipelines.telemetry.activity import Activity
from pipelines.telemetry.runs import record_run
from pipelines.terminal.console import Advance, Console

PAUSE = 1.0
"""Seconds that a continuous run waits after a pass that brought nothing."""


class Run:
    """One call of `run`, or of one of its stages."""

    def __init__(
        self,
        warehouse: Warehouse,
        console: Console,
        *,
        sources: Sequence[str],
        targets: Sequence[str] | None,
        stages: Sequence[str],
        stop: Stop,
        watch: Watch | None = None,
    ) -> None:
        """`watch` is given a reading after each pass, and whether it is the last one."""
        self._warehouse = warehouse
        warehouse.patience = warehouse.patience._replace(stop=stop)
        self._console = console
        self._stages = stages
        self._stop = stop
        self._what = "run" if len(stages) > 1 else stages[0]
        self.activity = Activity(self._what, sources=sources, targets=targets)
        if console.log is not None:
            console.log.about["run"] = self.activity.run
        self.outcome = Outcome(sources={name: SourceOutcome() for name in sources})
        self._journal = Journal(warehouse, console, self.outcome, activity=self.activity)
        self._owned = Owned(warehouse, self._journal)
        self._bronze = BronzeStage(warehouse, self._journal, stop=stop)
        self._silver = SilverStage(
            warehouse,
            self._journal,
            activity=self.activity,
            first="bronze" not in stages,
            stop=stop,
        )
        self._gold = GoldStage(
            warehouse,
            self._journal,
            console=console,
            activity=self.activity,
            targets=targets,
            alone=len(stages) == 1,
            stop=stop,
        )
        self._metrics = Metrics(warehouse, self.activity, self.outcome, watch=watch)
        self._written: set[Table] = set()
        self._recorded = self.outcome.totals

    def until_done(self) -> Outcome:
        """Pass after pass, until one brings no message; that one ends after bronze."""
        more = self._pass()
        while more and not self._stop():
            self._shown()
            more = self._pass(again=True)
        if "gold" in self._stages:
            self._gold.name_unknown_targets()
        self._name_too_many_rejects()
        self._record(self.outcome.code or int(self._stop()))
        self._shown(last=True)
        return self.outcome

    def until_stopped(self) -> Outcome:
        """Pass after pass until `stop`; the failures are those of the last pass."""
        self._gold.continuous = True
        while not self._stop():
            self.outcome.platform.clear()
            self.outcome.gold_held = False
            self.outcome.warned.clear()
            self.outcome.done = 0
            brought = self._pass()
            if self.activity.due and not self._stop():
                self._record(None)
            self._shown()
            if not brought:
                self._stop.wait(PAUSE)
                check_jvm()
        self._name_too_many_rejects()
        self._record(self.outcome.code)
        self._shown(last=True)
        return self.outcome

    def _shown(self, *, last: bool = False) -> None:
        """Show metrics; a failure there does not stop the run."""
        try:
            self._metrics.show(
                stopping=self._stop(), looked_through=self._gold.looked_through, last=last
            )
        except Exception as error:
            check_spark(error)
            self._journal.say(f"metrics are as they were: {described(error)}")

    def _record(self, code: int | None) -> None:
        """Write a row for what the run did since its last row, if that is news. `code` None: the
        run goes on. A run that only found another one at work writes no row."""
        done, outcome = self.outcome.totals, self.outcome
        if code == TRY_AGAIN and done == self._recorded:
            return
        row = self.activity.row(
            done,
            before=self._recorded,
            parked=sum(merged.error is not None for merged in outcome.tables.values()),
            exit_code=code,
            errors=[without_any(text, self._warehouse.config) for text in outcome.errors],
        )
        self._recorded = done
        try:
            if record_run(self._warehouse, row):
                self.activity.written += 1
                compact_written(self._warehouse, [("gold", "_runs")])
        except Exception as error:
            check_spark(error)
            self._journal.say(f"this run has no row in gold._runs: {described(error)}")

    def _pass(self, *, again: bool = False) -> bool:
        """Go once through every stage; gives whether there may be more to do. `again`: silver and
        gold are passed over if there are no new messages.

        Bronze of every source comes before silver of any, because a stream over bronze has to skip
        everything that was appended, rows of other sources included.
        """
        with self.activity.passing():
            return self._passed(again)

    def _passed(self, again: bool) -> bool:
        failed = {name: (s.error, s.held) for name, s in self.outcome.sources.items()}
        for source in self.outcome.sources.values():
            source.error, source.held = None, False
        sources = self._owned.now()
        steps = len(sources) * len({"bronze", "silver"} & set(self._stages))
        steps += "gold" in self._stages
        with self._console.progress(self._what, steps) as advance:
            brought = self._ingest(sources, advance)
            if brought is None:
                return False
            if again and not brought:
                # Silver was not tried again, so what failed there still counts.
                for name, done in self.outcome.sources.items():
                    if done.error is None:
                        done.error, done.held = failed[name]
                return False
            # A source that another run is at work on is left to that run.
            own = [name for name in sources if not self.outcome.sources[name].held]
            if not self._decode(own, advance):
                return False
            if "gold" in self._stages and own and not self._stop():
                with self.activity.timed("gold"):
                    self._written |= self._gold.merge(sources, advance)
        self._compact()
        return brought > 0

    def _ingest(self, sources: Sequence[str], advance: Advance) -> int | None:
        """Bring new messages of the sources to bronze, if that is one of the stages; gives how
        many. None: the run is to stop."""
        brought = 0
        for name in sources if "bronze" in self._stages else ():
            if self._stop():
                return None
            with self.activity.timed("bronze", source=name):
                brought += self._bronze.ingest(name, advance)
        if brought:
            self._written.add(("bronze", "messages"))
        return brought

    def _decode(self, sources: Sequence[str], advance: Advance) -> bool:
        """Decode what bronze has of the sources, if that is one of the stages. False: the run is to
        stop."""
        for name in sources if "silver" in self._stages else ():
            if self._stop():
                return False
            with self.activity.timed("silver", source=name):
                if self._silver.decode(name, advance):
                    self._written.add(("silver", "cdc"))
        return True

    def _compact(self) -> None:
        """Put the small files of the tables together that were written since the last time."""
        if self._written and not self._stop():
            written = sorted(self._written)
            self._written.clear()
            try:
                with self.activity.timed("upkeep"):
                    compact_written(self._warehouse, written)
            except Exception as error:
                check_spark(error)
                # Nothing is missing: the files are as they came.
                self._journal.say(f"small files were left as they are: {described(error)}")

    def _name_too_many_rejects(self) -> None:
        """Name the sources and targets of which too much was set aside."""
        for name, done in self.outcome.sources.items():
            tables = [row for (of, _), row in self.outcome.tables.items() if of == name]
            before = bool(done.rejects) and not done.changes and self._decoded_before(name)
            declared = self._warehouse.config.sources[name]
            text = too_many_rejects(declared, done, tables, decoded_before=before)
            if text is not None:
                self._journal.say(text)
                self.outcome.too_many_rejects.append(text)
            # This is said but is no failure: all changes of a small table may wait for a decision
            # (semantics.md, 60).
            for said in filter(None, map(all_rejected, tables)):
                self._journal.say(said)

    def _decoded_before(self, name: str) -> bool:
        """Whether silver has a change of a source, from whatever run."""
        asked = decoded_changes(self._warehouse.name("silver", "cdc"), name)
        found = self._journal.attempt(
            name, lambda: not self._warehouse.session.sql(asked).isEmpty()
        )
        return bool(found)
