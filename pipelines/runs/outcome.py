"""What a run did, by source and target, and for which of them too much was set aside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ingest.config.sources import Source
from ingest.errors import TRY_AGAIN
from pipelines.gold.run import Merged
from pipelines.telemetry.activity import Totals
from pipelines.terminal.console import counted


@dataclass
class SourceOutcome:
    """What a run did with one source. `decoded` counts the messages that its rows came from,
    `changes` the changes among its rows. `held`: another run is at work on it, which is no
    failure."""

    messages: int = 0
    rows: int = 0
    rejects: int = 0
    error: str | None = None
    held: bool = False
    decoded: int = 0
    changes: int = 0

    @property
    def failed(self) -> bool:
        """Whether something could not be done that nobody else will do."""
        return self.error is not None and not self.held


@dataclass
class Outcome:
    """What a run did.

    `platform` says what failed in the surroundings, `gold_held` whether another run is at work on
    gold, `unknown` which targets do not exist, and `too_many_rejects` has a sentence for each
    source of which too much was set aside; `done` counts what succeeded.
    """

    sources: dict[str, SourceOutcome] = field(default_factory=dict)
    tables: dict[tuple[str, str], Merged] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)
    platform: list[str] = field(default_factory=list)
    gold_held: bool = False
    unknown: list[str] = field(default_factory=list)
    too_many_rejects: list[str] = field(default_factory=list)
    done: int = 0

    def add(self, merged: Iterable[Merged]) -> None:
        """Count what one more pass did to targets; the error of each is that of its last pass."""
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
        if failed or parked or self.warned or self.unknown or self.too_many_rejects:
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
        """A sentence for each reason why `code` is not 0."""
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
        return [*failed, *parked, *self.warned, *unknown, *self.too_many_rejects]


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


def too_many_rejects(
    declared: Source,
    done: SourceOutcome,
    tables: Sequence[Merged],
    *,
    decoded_before: bool = False,
) -> str | None:
    """The sentence on a source for which too much was set aside: more than it allows, or everything
    that might have been a change, if none was decoded before (semantics.md, 60)."""
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
    """What may be declared wrongly if nothing can be decoded, and what to do once it is right."""
    way = f"is its format right? With another, run `ingest redecode --source {declared.name}`"
    if declared.files is None:
        return f"{way}."
    again = f"`ingest reset --source {declared.name} --bronze --yes`"
    return f"{way}; with another framing {again}, and the next run reads its files again."


def _aside(some: int, of: int, things: str) -> str:
    """`1 of 10 messages was set aside`."""
    return f"{some:,} of {counted(of, things)} {'was' if some == 1 else 'were'} set aside"


def all_rejected(merged: Merged) -> str | None:
    """The sentence on a target none of whose changes gold has taken."""
    if not merged.events or merged.rejected < merged.events:
        return None
    if merged.inserted or merged.updated or merged.deleted:
        return None
    changes = f"all {merged.events:,} changes were" if merged.events > 1 else "its one change was"
    see = f"`ingest rejects list --source {merged.source}` shows why"
    return f"table {merged.target}: {changes} set aside: {see}"
