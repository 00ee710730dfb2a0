"""A source table's part in one batch of a target, as a value, and the SQL that reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from ingest import position
from ingest.config.modes import KEEPING, Keeping, Mode
from ingest.ddl.changes import reaches, retypings
from ingest.fold.fold import Change
from ingest.names import SourceTable, lowered
from ingest.position import EPOCH, S1, SOURCE_PART, Pos, outermost, reached
from ingest.sql.fold.late_keys import held_by_others
from ingest.sql.fold.states import as_states, typed_states
from ingest.sql.projection import Projection
from ingest.sql.sequence import ordered
from ingest.sql.silver import ROW_CHANGES, past_horizon, silver_changes, tied_to
from pipelines.apply import bounds
from pipelines.silver.pending import BatchStats, images_of, names_read, spanned
from pipelines.targets.progress import Watermarks

TruncateTimes = Mapping[Pos, int | None]
"""Where truncates stand -> when they happened (µs)."""


Count = Literal[
    "changes",
    "deletes",
    "image_bytes",
    "key_changes",
    "no_ops",
    "partials",
    "truncates",
    "unhashed",
    "zero_dates",
]
"""The figures of `pipelines.silver.pending.BatchStats` that can be summed."""


class Applied(NamedTuple):
    """What applying a batch gave: what gold remembers of the source table from now on, the counts,
    by columns of `gold._progress`, and whether some value did not fit its column."""

    watermarks: Watermarks
    counts: Counter[str]
    unfit: bool = False


@dataclass(frozen=True, kw_only=True)
class TableBatch:
    """What silver's batches above `above`, up to `last`, hold of `table` for a target; a history is
    a batch that begins at 0. `pipelines.gold.plan` builds it.

    `names`: all names that the source table has had. `silver`, `target_table`: the SQL names of
    silver's table and the target's. `staged`: the name of a relation that holds the changes of this
    batch, if they were read beforehand. `watermarks`: what gold remembers of the source table.
    `new_truncates`: the truncates that the batch brings, `earlier_truncates` those before it; each
    with its time (µs) if rows that it leaves behind show the time (soft deletes, versions).
    `fresh`: it is the first batch of a target that was made in this run. `shared`: other source
    tables feed the target too. `only`: SQL that narrows every reading of silver.
    `missing_order_keys`: how many changes have no value of `sequence_by`. `newest`: the latest
    event time (µs) that was applied to the target before it. `applied_before`: SQL that is true for
    those of its changes, as `events`, that an earlier run applied because they lay below an open
    transaction. `version`: the target's version when the batch's turn comes, None if its log has
    commits that gold did not record; it is looked up only for targets that keep more than the
    latest rows.
    """

    table: SourceTable
    names: tuple[SourceTable, ...]
    projection: Projection
    stats: Sequence[BatchStats]
    silver: str
    staged: str | None = None
    target: str
    target_table: str
    mode: Mode
    soft: bool
    above: int
    last: int
    only: str = "true"
    watermarks: Watermarks
    new_truncates: TruncateTimes = field(default_factory=dict)
    earlier_truncates: TruncateTimes = field(default_factory=dict)
    fresh: bool = False
    shared: bool = False
    missing_order_keys: int = 0
    version: int | None = None
    newest: int | None = None
    applied_before: str = "false"

    def total(self, name: Count) -> int:
        """The sum of a count over the statistics."""
        return sum(getattr(stats, name) for stats in self.stats)

    @cached_property
    def lowest(self) -> Pos | None:
        """The lowest position of its changes, where one has any."""
        return position.lowest(stats.lowest for stats in self.stats)

    @cached_property
    def highest(self) -> Pos | None:
        """The highest position of its changes, where one has any."""
        return position.highest(stats.highest for stats in self.stats)

    @property
    def last_removal(self) -> Pos | None:
        """The highest position of its deletes, key changes and truncates, where there is one."""
        return position.highest(stats.last_removal for stats in self.stats)

    @property
    def small(self) -> bool:
        """Whether the batch is judged and folded in the driver."""
        changes = self.total("changes")
        size = self.total("image_bytes") + changes * (self._names_bytes + bounds.OF_A_ROW)
        return changes <= bounds.CHANGES and size <= bounds.BYTES

    @property
    def history_changes(self) -> int:
        """An upper bound on the number of changes in the history."""
        return self.watermarks.changes + self.total("changes")

    @property
    def widest(self) -> int:
        """The bytes of the values of the widest change so far."""
        return max([self.watermarks.widest, *(stats.widest for stats in self.stats)])

    def fits_here(self, changes: int) -> bool:
        """Whether this many changes of history fit into the driver, whichever changes they are."""
        return changes * (self.widest + self._names_bytes + bounds.OF_A_ROW) <= bounds.BYTES

    @cached_property
    def _names_bytes(self) -> int:
        """An upper bound on the bytes of the column names in a change's images."""
        named = [*self.images, tuple(self.projection.columns)]
        return 3 * max(sum(len(name.encode()) + 16 for name in names) for names in named)

    @property
    def overlaps(self) -> bool:
        """Whether some change may lie at or below what was applied, or be a copy of it."""
        applied, lowest = self.watermarks.applied, self.lowest
        if applied is None or lowest is None:
            return False
        if self.projection.by_arrival:
            return lowest <= applied
        # At one place of the source's log the transport does not say which came first.
        return lowest[:SOURCE_PART] <= applied[:SOURCE_PART]

    @property
    def around(self) -> str:
        """SQL that is true where earlier copies of its changes can be: copies have one place in the
        source's log."""
        ends = [pos for s in self.stats for pos in (s.lowest, s.highest) if pos is not None]
        if self.projection.sequence or len({pos[:S1] for pos in ends}) != 1:
            return "true"
        places = [pos[S1] for pos in ends]
        return f"epoch = {ends[0][EPOCH]} AND s1 BETWEEN {min(places)} AND {max(places)}"

    @property
    def folds_in_sql(self) -> bool:
        """Whether the batch can be folded in SQL, each change being newer than what was applied."""
        return (
            self.whole
            and not self.overlaps
            and not self.watermarks.last_baseless
            and not self.shared
        )

    @property
    def maybe_written(self) -> bool:
        """Whether a killed run may have written some of the batch without recording it."""
        return self.version is None

    @property
    def timely(self) -> bool:
        """Whether no change of the batch is older, by its event time, than the newest one that was
        applied."""
        if self.newest is None:
            return not self.watermarks.applied
        return all(s.oldest is not None and s.oldest >= self.newest for s in self.stats)

    @property
    def newest_after(self) -> int | None:
        """The latest event time (µs) applied to the target, once the batch is."""
        times = (self.newest, *(stats.newest for stats in self.stats))
        return max((time for time in times if time is not None), default=None)

    @cached_property
    def images(self) -> set[tuple[str, ...]]:
        """The sets of column names that the batch's images have."""
        return images_of(self.stats)

    @property
    def spellings(self) -> tuple[str, ...]:
        """What gold is to remember of the names that changes had for the target's columns; see
        `Watermarks.spellings`."""
        columns = {name.lower(): name for name in self.projection.columns}
        sent = {name for names in names_read(self.stats) for name in names}
        met = self.watermarks.names_before(columns.values(), sent) | sent
        others = {name for name in met if columns.get(name.lower(), name) != name}
        own = {columns[name.lower()] for name in others}
        return tuple(sorted(others | (own & met)))

    @property
    def image(self) -> tuple[str, ...] | None:
        """The one list of column names that all of the batch's images have, in their order."""
        return next(iter(self.images)) if len(self.images) == 1 else None

    @cached_property
    def sets(self) -> tuple[str, ...]:
        """The target columns that the batch's images have."""
        names = {name.lower() for image in self.images for name in image}
        return tuple(name for name in self.projection.columns if name.lower() in names)

    @cached_property
    def partial(self) -> bool:
        """Whether an image of the batch leaves a column of the target as it is."""
        lower_names = (lowered(image) for image in self.images)
        every = lowered(self.projection.columns)
        narrow = any(not every <= names for names in lower_names)
        # A column that waits for its approval is not read, although images have it; a value from
        # before its column got another type is read only if it fits that type.
        waiting = any(entry.hidden for entry in self.projection.lineage)
        retyped = max(retypings(self.projection.lineage).values(), default=())
        below = self.lowest is not None and self.lowest < retyped
        older = self.keeps.latest and (below or bool(retyped and self.projection.sequence))
        return bool(self.total("partials")) or narrow or waiting or older

    @property
    def keeps(self) -> Keeping:
        """What the rows of the target are."""
        return KEEPING[self.mode]

    @cached_property
    def whole(self) -> bool:
        """Whether SQL alone can fold the batch to one row a key: all images are whole and have the
        same columns, and no value of an earlier row has to be kept."""
        return (
            len({frozenset(image) for image in self.images}) <= 1
            and not self.total("partials")
            and not self.total("key_changes")
            and not self.total("truncates")
            # If a row ends in the middle of the batch, the columns that later images lack become
            # NULL, instead of staying as they were.
            and not (self.keeps.latest and self.total("deletes") and (self.soft or self.partial))
            and not self.reread
        )

    @cached_property
    def reread(self) -> bool:
        """Whether some event of the batch reads otherwise because of a schema change."""
        # With `sequence_by` the statistics do not tell positions in the log, which is where schema
        # changes have theirs.
        sequenced = bool(self.projection.sequence and self.projection.lineage)
        return sequenced or reaches(
            self.projection.lineage, self.lowest, self.highest, images=self.images
        )

    @property
    def held_by_others(self) -> str:
        """SQL of the keys whose rows another source table holds: (key, _source_table, _pos)."""
        return held_by_others(
            self.target_table, self.projection, soft=self.soft, versions=self.keeps.versions
        )

    def history(self, where: str) -> str:
        """SQL of all changes up to this batch."""
        return self._read(f"batch <= {self.last} AND {where}")

    def earlier(self, where: str) -> str:
        """SQL of the changes before this batch."""
        return self._read(f"batch <= {self.above} AND {where}")

    def beyond(self) -> str | None:
        """SQL of the changes of this batch that come too late, since their history was trimmed."""
        if (trimmed := self._trimmed) is None:
            return None
        where = f"{self.span} AND ({trimmed})"
        return silver_changes(self.silver, self.names, where)

    @property
    def span(self) -> str:
        """SQL that is true for silver's rows of this batch, those included that are set aside."""
        return f"batch > {self.above} AND batch <= {self.last} AND {self.only}"

    @property
    def _trimmed(self) -> str | None:
        terms = (past_horizon(each.pos, each.batch) for each in self.watermarks.horizons)
        return " OR ".join(terms) or None

    def _read(self, where: str, silver: str | None = None) -> str:
        narrowed = f"({where}) AND {self.only}"
        if (trimmed := self._trimmed) is not None:
            narrowed += f" AND NOT ({trimmed})"
        changes = silver_changes(
            silver or self.silver, self.names, narrowed, renamed=self.projection.renamed
        )
        return ordered(self.projection, changes)

    @cached_property
    def these(self) -> str:
        """SQL that is true for silver's rows of this batch."""
        return spanned(self.stats)

    def brought(self, where: str) -> str:
        """SQL of this batch's changes, narrowed."""
        return self._read(f"{self.these} AND {where}", self.staged)

    def changes(self) -> str:
        """SQL of the row changes of this batch, without those that a truncate voids.

        A truncate voids nothing in a target whose deletes are soft or that keeps versions: what
        rows held before it still counts. Nor does it void a change at its own place in the source's
        log, since a copy of that change may lie above it.
        """
        where = ROW_CHANGES
        if self.all_truncates and not self.soft and self.keeps.latest:
            tied = self.beside_truncates("pos")
            where += f" AND (NOT ({self.below_truncates('pos')}) OR {tied})"
        return self.brought(where)

    @property
    def first_truncates(self) -> list[Pos]:
        """The truncates of this batch that no earlier one brought, in order."""
        return sorted({*self.new_truncates} - {*self.earlier_truncates})

    @property
    def all_truncates(self) -> TruncateTimes:
        """All truncates there were."""
        return {**self.earlier_truncates, **self.new_truncates} if self.projection.truncates else {}

    def below_truncates(self, pos: str) -> str:
        """SQL that is true where `pos` lies below a truncate that reaches it."""
        by_arrival = self.projection.by_arrival
        return " OR ".join(
            f"({reached(truncate, pos, by_arrival=by_arrival)})"
            for truncate in outermost(self.all_truncates, by_arrival=by_arrival)
        )

    @property
    def voided(self) -> str:
        """SQL that is true for a change if a truncate has taken what it brought."""
        return f"coalesce({self.below_truncates('pos')}, false)" if self.all_truncates else "false"

    def beside_truncates(self, pos: str) -> str:
        """SQL that is true where `pos` is the place of a truncate in the source's log."""
        return tied_to(() if self.projection.by_arrival else self.all_truncates, pos)

    @cached_property
    def truncates(self) -> list[Change]:
        """All truncates, as the fold takes them."""
        return [
            Change(
                op="truncate",
                pos=pos,
                table=self.projection.label,
                key=None,
                # The mark of a deleted row needs some time.
                event_time=time or 0 if self.soft and not self.keeps.versions else time,
                by_arrival=self.projection.by_arrival,
                digest=number,
            )
            for number, (pos, time) in enumerate(sorted(self.all_truncates.items()))
        ]

    def typed_states(self, relation: str, *, exact: bool) -> str:
        """SQL of fold results (kind `state`) as rows for the MERGE."""
        return typed_states(self.projection, relation, exact=exact)

    def as_states(self, rows: str) -> str:
        """Rows of `ingest.sql.fold.latest` with the columns of `typed_states`, absent ones NULL."""
        return as_states(self.projection, rows, sets=self.sets)
