"""`ingest run` and its stages: bronze and silver by source, then gold, until nothing is left.

A source or table that fails is named and the others go on. A pass that brought no message is the
last one, unless the run is to continue until it is told to stop.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from ingest.config.sources import Source
from ingest.errors import TRY_AGAIN, LeaseHeld, PlatformError, TableError
from ingest.sql.counts.status import decoded_changes
from pipelines.bronze.source import ingest_source
from pipelines.bronze.transport import Bronze
from pipelines.gold import cadence, settled
from pipelines.gold.backlog import unmatched
from pipelines.gold.known_targets import known_targets, no_target, unknown_targets
from pipelines.gold.run import Merged, merge_tables
from pipelines.gold.untyped import untyped
from pipelines.ledger.entries import load_entries
from pipelines.operations.compaction import Table, compact_written
from pipelines.operations.views import publish
from pipelines.platform.failures import described
from pipelines.platform.secrets import without_any
from pipelines.platform.signals import Stop
from pipelines.platform.warehouse import Warehouse
from pipelines.silver import projects
from pipelines.silver.stream import decode_source
from pipelines.silver.transactions import waiting
from pipelines.targets.progress import SOURCE_CURSOR, load_progress
from pipelines.telemetry import otel
from pipelines.telemetry.activity import Activity, Totals
from pipelines.telemetry.reading import Reading
from pipelines.telemetry.runs import now, record_run
from pipelines.terminal.console import Advance, Console, counted
from pipelines.terminal.log import Level

Result = TypeVar("Result")
Name = TypeVar("Name")
Watch = Callable[[Reading, bool], None]
PAUSE = 1.0
"""Seconds that a continuous run waits after a pass that brought nothing."""
FIRST_REST, LONGEST_REST = 1.0, 300.0
"""Seconds until a source that failed is tried again; they double each time it fails once more."""
_SAID_MOST = 10_000
"""Sentences that a run remembers to have said."""


@dataclass
class SourceOutcome:
    """What a run did with one source; `decoded` counts the messages that its rows are of, `changes`
    the changes among its rows. `held`: another run is at work on it, so that nothing failed."""

    messages: int = 0
    rows: int = 0
    rejects: int = 0
    error: str | None = None
    held: bool = False
    decoded: int = 0
    changes: int = 0

    @property
    def failed(self) -> bool:
        """Whether something could not be done that is left to nobody else."""
        return self.error is not None and not self.held


class Rest(NamedTuple):
    """Until when something is left alone that failed, by the monotonic clock."""

    error: Exception
    until: float
    seconds: float


class Rests(Generic[Name]):
    """How long sources whose messages could not be had, or targets that are parked, are left alone:
    a server that does not answer holds up the sources after it, and an attempt in vain costs as
    much as any other. At most one of each source or target."""

    def __init__(self) -> None:
        self._rests: dict[Name, Rest] = {}

    def __iter__(self) -> Iterator[Name]:
        return iter(list(self._rests))

    def __bool__(self) -> bool:
        return bool(self._rests)

    def of(self, name: Name) -> Rest | None:
        """The rest of one that is still to be left alone."""
        rest = self._rests.get(name)
        return rest if rest is not None and time.monotonic() < rest.until else None

    def failed(self, name: Name, error: Exception) -> None:
        """Let one rest that failed, twice as long as the last time if it did so before."""
        before = self._rests.get(name)
        seconds = FIRST_REST if before is None else min(before.seconds * 2, LONGEST_REST)
        self._rests[name] = Rest(error, time.monotonic() + seconds, seconds)

    def ended(self, name: Name) -> None:
        """It has not failed any more."""
        self._rests.pop(name, None)


@dataclass
class Outcome:
    """What a run did.

    `platform` says what of the surroundings failed, `gold_held` whether another run is at work on
    gold, `unknown` which targets do not exist, `spoilt` of which sources too much was set aside;
    `done` counts what could be done.
    """

    sources: dict[str, SourceOutcome] = field(default_factory=dict)
    tables: dict[tuple[str, str], Merged] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)
    platform: list[str] = field(default_factory=list)
    gold_held: bool = False
    unknown: list[str] = field(default_factory=list)
    spoilt: list[str] = field(default_factory=list)
    done: int = 0

    def add(self, merged: Iterable[Merged]) -> None:
        """Count what one more pass did to targets; the error of each is the last one's."""
        for row in merged:
            of = (row.source, row.target)
            self.tables[of] = _added(self.tables.get(of), row)

    @property
    def code(self) -> int:
        """The exit code."""
        if self.platform and not self.done:
            return 2
        parked = any(merged.error is not None for merged in self.tables.values())
        failed = any(source.failed for source in self.sources.values())
        if failed or parked or self.warned or self.unknown or self.spoilt:
            return 1
        held = self.gold_held or any(source.held for source in self.sources.values())
        return TRY_AGAIN if held else 0

    @property
    def totals(self) -> Totals:
        """What was done with all sources and tables."""
        return Totals(
            sum(done.messages for done in self.sources.values()),
            sum(done.rows for done in self.sources.values()),
            sum(merged.events for merged in self.tables.values()),
            self.rejects,
        )

    @property
    def rejects(self) -> int:
        """How many messages and changes were set aside."""
        rejects = sum(done.rejects for done in self.sources.values())
        return rejects + sum(merged.rejected for merged in self.tables.values())

    @property
    def errors(self) -> list[str]:
        """A sentence on each thing that makes `code` another than 0."""
        failed = [
            f"source {name} failed: {done.error}"
            for name, done in self.sources.items()
            if done.failed
        ]
        parked = [
            f"table {merged.target} is parked: {merged.error}"
            for _, merged in sorted(self.tables.items())
            if merged.error is not None
        ]
        unknown = [f"there is no target {target}" for target in self.unknown]
        return [*failed, *parked, *self.warned, *unknown, *self.spoilt]


class _Journal:
    """What a run meets: told to the user, each sentence once, and noted in its outcome."""

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
        """Tell the user what makes the run end with another code than 0."""
        self.say(text, level=level, source=source)
        _note(self.outcome.warned, text)

    def failed(self, source: str | None, error: Exception, stage: str = "") -> None:
        """Tell and note what failed; `source` None: gold."""
        text = without_any(described(error), self._config)
        otel.failed(self._telemetry, text)
        if source is not None:
            # What fails names its source for those who call it by itself.
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
        """What `work` gives; None where it failed; `source` None: gold."""
        try:
            return work()
        except Exception as error:
            self.failed(source, error)
            return None


class _Owned:
    """Which of the sources that a run is asked for are this project's: none that another project
    feeds on this warehouse, and none of which it could not be noted whose it is. Both are asked
    again, at growing intervals."""

    def __init__(self, warehouse: Warehouse, journal: _Journal) -> None:
        self._warehouse = warehouse
        self._journal = journal
        self._taken: set[str] = set()
        self._untaken = Rests[str]()

    def now(self) -> list[str]:
        """Those of the pass that begins."""
        asked = self._journal.outcome.sources
        return [name for name in asked if name in self._taken or self._take(name)]

    def _take(self, name: str) -> bool:
        """Whether a source is this project's, which is noted."""
        if (rest := self._untaken.of(name)) is not None:
            self._journal.failed(name, rest.error)
            return False
        try:
            projects.take(self._warehouse, name)
        except Exception as error:
            self._journal.failed(name, error)
            self._untaken.failed(name, error)
            return False
        self._untaken.ended(name)
        self._taken.add(name)
        return True


class _BronzeStage:
    """The first stage: new messages of one source after the other. One whose messages could not be
    had rests."""

    def __init__(self, warehouse: Warehouse, journal: _Journal, *, stop: Stop) -> None:
        self._warehouse = warehouse
        self._journal = journal
        self._stop = stop
        self._unreached = Rests[str]()

    def ingest(self, name: str, advance: Advance) -> int:
        """New messages of one source; how many."""
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
        """What bronze got from a source; None where that failed, or rests."""
        if (rest := self._unreached.of(name)) is not None:
            self._journal.failed(name, rest.error)
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


class _GoldStage:
    """The last stage: what silver has brought to the targets; nothing is looked at where nothing
    changed. A parked target rests where the run goes on (`continuous`)."""

    def __init__(
        self,
        warehouse: Warehouse,
        journal: _Journal,
        *,
        console: Console,
        activity: Activity,
        targets: Sequence[str] | None,
        alone: bool,
        stop: Stop,
    ) -> None:
        """`targets`: those that are asked for; None: all. `alone`: it is the only stage."""
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
        self.parked = Rests[tuple[str, str]]()
        """Parked targets, by source and target."""
        self._left: str | None = None
        """What the last pass left, where only parked targets are left to be tried again."""
        self._due: int | None = None
        """When the next target's turn comes."""

    def merge(self, sources: Sequence[str], advance: Advance) -> set[Table]:
        """Bring what silver has of the sources to its targets; the tables that were written."""
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
        # What only waits for parked targets to be tried again.
        self._left = None
        again = self._looked_at(lambda: settled.silver_commit(self._warehouse))
        if whole and self.parked and silver == again:
            self._left = self._looked_at(lambda: settled.state(self._warehouse))
            self._due = self._looked_at(lambda: cadence.next_due(self._warehouse, sources))
        return written

    def _any_due(self) -> bool:
        """Whether a parked target has rested enough, or the turn of another has come."""
        if self._due is not None and cadence.now() >= self._due:
            return True
        return any(self.parked.of(target) is None for target in self.parked)

    def _resting(self) -> set[tuple[str, str]]:
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

    def _rest(self, merged: Sequence[Merged]) -> None:
        """Let the targets rest that were tried in vain; those that went on are as any other."""
        for row in merged:
            of = (row.source, row.target)
            if row.error is None or not self.continuous:
                self.parked.ended(of)
            elif self.parked.of(of) is None:
                # Else it is named in every pass: its table is gone, or it collides with another.
                self.parked.failed(of, TableError(row.error))

    def _looked_at(self, work: Callable[[], Result]) -> Result | None:
        """What `work` gives, which only saves work; None where it failed, which is said."""
        try:
            return work()
        except Exception as error:
            self._journal.say(f"gold is looked through whatever has changed: {described(error)}")
            return None

    def _merged(self, sources: Sequence[str], advance: Advance) -> tuple[set[Table], bool]:
        """Bring targets forward; the tables that were written, and whether no source failed."""
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
                resting=self._resting(),
                by_turn=self._targets is None,
                stop=self._stop,
                failed=failed,
                at_work=lambda target: advance.at(f"gold {target}"),
            ),
        )
        if merged is None:
            return set(), False
        self.looked_through = self._warehouse.exists("gold", "_progress")
        self._rest(merged)
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
        """Say what of the sources stays in silver, and why, what of the targets has no types, and
        which of them are parked."""
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
        return [*waiting(*about), *unmatched(*about), *untyped(*about, targets=targets)]

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
        """Those that were asked for before anything was known of the source's tables."""
        if self._targets is None:
            return
        names = known_targets(self._warehouse).names
        for target in unknown_targets(self._targets, names):
            self._journal.say(no_target(target, names))
            self._journal.outcome.unknown.append(target)


class _Metrics:
    """What was done so far, for who watches a run and for OpenTelemetry."""

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
        """Give a reading to whoever watches."""
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
        self._journal = _Journal(warehouse, console, self.outcome, activity=self.activity)
        self._owned = _Owned(warehouse, self._journal)
        self._bronze = _BronzeStage(warehouse, self._journal, stop=stop)
        self._gold = _GoldStage(
            warehouse,
            self._journal,
            console=console,
            activity=self.activity,
            targets=targets,
            alone=len(stages) == 1,
            stop=stop,
        )
        self._metrics = _Metrics(warehouse, self.activity, self.outcome, watch=watch)
        self._written: set[Table] = set()
        self._recorded = self.outcome.totals

    def until_done(self) -> Outcome:
        """Pass after pass until one brings no message, which ends after bronze."""
        more = self._pass()
        while more and not self._stop():
            self._shown()
            more = self._pass(again=True)
        if "gold" in self._stages:
            self._gold.name_unknown_targets()
        self._name_spoilt()
        self._record(self.outcome.code or int(self._stop()))
        self._shown(last=True)
        return self.outcome

    def until_stopped(self) -> Outcome:
        """Pass after pass until `stop`; failures are those of the last pass."""
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
        self._name_spoilt()
        self._record(self.outcome.code)
        self._shown(last=True)
        return self.outcome

    def _shown(self, *, last: bool = False) -> None:
        """Show metrics; what fails there stops no run."""
        try:
            self._metrics.show(
                stopping=self._stop(), looked_through=self._gold.looked_through, last=last
            )
        except Exception as error:
            self._journal.say(f"metrics are as they were: {described(error)}")

    def _record(self, code: int | None) -> None:
        """Write the run's row of what was done since its last, where that is news; `code` None: the
        run goes on. Who only found another at work has none."""
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
            self._journal.say(f"this run has no row in gold._runs: {described(error)}")

    def _pass(self, *, again: bool = False) -> bool:
        """Every stage once; whether there may be more. `again`: only if there are new messages.

        Bronze of every source comes before silver of any: a stream over bronze passes over all
        that was appended, other sources' rows too.
        """
        with self.activity.passing():
            return self._passed(again)

    def _passed(self, again: bool) -> bool:
        brought = 0
        failed = {name: (s.error, s.held) for name, s in self.outcome.sources.items()}
        for source in self.outcome.sources.values():
            source.error, source.held = None, False
        sources = self._owned.now()
        steps = len(sources) * len({"bronze", "silver"} & set(self._stages))
        steps += "gold" in self._stages
        with self._console.progress(self._what, steps) as advance:
            for name in sources if "bronze" in self._stages else ():
                if self._stop():
                    return False
                with self.activity.timed("bronze", source=name):
                    brought += self._bronze.ingest(name, advance)
            self._written |= {("bronze", "messages")} if brought else set()
            if again and not brought:
                # What failed in silver was not tried once more.
                for name, done in self.outcome.sources.items():
                    if done.error is None:
                        done.error, done.held = failed[name]
                return False
            # What another run is at work on is left to it: who went on might stand in its way.
            own = [name for name in sources if not self.outcome.sources[name].held]
            for name in own if "silver" in self._stages else ():
                if self._stop():
                    return False
                with self.activity.timed("silver", source=name):
                    self._silver(name, advance)
            if "gold" in self._stages and own and not self._stop():
                with self.activity.timed("gold"):
                    self._written |= self._gold.merge(sources, advance)
        self._compact()
        return brought > 0

    def _silver(self, name: str, advance: Advance) -> None:
        """What bronze has of one source, decoded."""
        declared = self._warehouse.config.sources[name]
        done = self.outcome.sources[name]
        decoded = self._journal.attempt(
            name, lambda: decode_source(self._warehouse, declared, stop=self._stop)
        )
        rows, rejects = (decoded.rows, decoded.rejects) if decoded is not None else (0, 0)
        done.rows += rows
        done.rejects += rejects
        self._written |= {("silver", "cdc")} if rows else set()
        done.decoded += decoded.messages if decoded is not None else 0
        done.changes += decoded.changes if decoded is not None else 0
        self.activity.decoded(decoded.times if decoded is not None else ())
        self.outcome.done += rows > 0 or (decoded is not None and "bronze" not in self._stages)
        counts = f"{counted(rows, 'rows')}, {counted(rejects, 'rejects')}"
        advance(f"silver {name}: {counts}", rows > 0, source=name)

    def _compact(self) -> None:
        """Keep the tables that this pass has written to few files."""
        if self._written and not self._stop():
            written = sorted(self._written)
            self._written.clear()
            try:
                with self.activity.timed("upkeep"):
                    compact_written(self._warehouse, written)
            except Exception as error:
                # Nothing is missing: the files are as they came.
                self._journal.say(f"small files were left as they are: {described(error)}")

    def _name_spoilt(self) -> None:
        """Sources and targets of which too much was set aside."""
        for name, done in self.outcome.sources.items():
            tables = [row for (of, _), row in self.outcome.tables.items() if of == name]
            before = bool(done.rejects) and not done.changes and self._decoded_before(name)
            declared = self._warehouse.config.sources[name]
            text = spoilt_source(declared, done, tables, decoded_before=before)
            if text is not None:
                self._journal.say(text)
                self.outcome.spoilt.append(text)
            # Said, and no failure: what came for a small table may all wait for a decision
            # (semantics.md, 60).
            for said in filter(None, map(spoilt_target, tables)):
                self._journal.say(said)

    def _decoded_before(self, name: str) -> bool:
        """Whether silver has a change of a source, from whatever run."""
        asked = decoded_changes(self._warehouse.name("silver", "cdc"), name)
        found = self._journal.attempt(
            name, lambda: not self._warehouse.session.sql(asked).isEmpty()
        )
        return bool(found)


def _note(texts: list[str], text: str) -> None:
    """Add a text that every pass may bring anew."""
    if text not in texts:
        texts.append(text)


def spoilt_source(
    declared: Source,
    done: SourceOutcome,
    tables: Sequence[Merged],
    *,
    decoded_before: bool = False,
) -> str | None:
    """The sentence on a source of which too much was set aside: by its own setting, or everything
    that might have been a change, where none was decoded before (semantics.md, 60)."""
    name, limit = declared.name, declared.rejects
    see = f"`ingest rejects list --source {name}` shows them"
    rejected, events = (sum(row.rejected for row in tables), sum(row.events for row in tables))
    if done.rejects and not done.changes and not decoded_before:
        share = _aside(done.rejects, done.decoded, "messages")
        if done.rejects < done.rows:
            share += " and no change could be decoded"
        elif done.decoded > 1:
            share = f"all {done.decoded:,} messages were set aside, none could be decoded"
        else:
            share = "its one message was set aside, it could not be decoded"
        return f"source {name}: {share}: {what_may_be_wrong(declared)} {see}"
    if limit.above(done.rejects, done.decoded):
        text = _aside(done.rejects, done.decoded, "messages")
    elif limit.above(rejected, events):
        text = f"gold set aside {rejected:,} of {counted(events, 'changes')}"
    elif isinstance(limit.fail_above, int) and limit.above(done.rejects + rejected, 0):
        text = (
            f"{counted(done.rejects, 'messages')} and {counted(rejected, 'changes')} were set aside"
        )
    else:
        return None
    allowed = f"more than rejects.fail_above allows ({limit.fail_above})"
    return f"source {name}: {text}, {allowed}: {see}"


def what_may_be_wrong(declared: Source) -> str:
    """What may be declared wrongly where nothing can be decoded, and what to do once it is not."""
    way = f"is its format right? With another, run `ingest redecode --source {declared.name}`"
    if declared.files is None:
        return f"{way}."
    again = f"`ingest reset --source {declared.name} --bronze --yes`"
    return f"{way}; with another framing {again}, and the next run reads its files again."


def _aside(some: int, of: int, things: str) -> str:
    """`1 of 10 messages was set aside`."""
    return f"{some:,} of {counted(of, things)} {'was' if some == 1 else 'were'} set aside"


def spoilt_target(merged: Merged) -> str | None:
    """The sentence on a target of whose changes gold took none."""
    if not merged.events or merged.rejected < merged.events:
        return None
    if merged.inserted or merged.updated or merged.deleted:
        return None
    changes = f"all {merged.events:,} changes were" if merged.events > 1 else "its one change was"
    see = f"`ingest rejects list --source {merged.source}` shows why"
    return f"table {merged.target}: {changes} set aside: {see}"


def _added(before: Merged | None, now: Merged) -> Merged:
    """Both passes' counts; the error is the last one's."""
    if before is None:
        return now
    counts = {
        name: getattr(before, name) + getattr(now, name)
        for name in Merged._fields
        if name not in ("target", "source", "error", "contract")
    }
    return now._replace(**counts)
