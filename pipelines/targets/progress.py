"""`gold._progress`: how far each target is, and the record of every run.

The present state of a target is its newest row. `batch` is the last silver batch that was applied;
`state` has for each source table the positions by which late events are recognised (semantics.md,
"Late events").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any, Literal, NamedTuple, Self

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F

from ingest.config.modes import TargetContract
from ingest.names import SourceTable, lowered
from ingest.position import Pos, highest, pos_literal
from ingest.sql.quoting import typed_columns
from pipelines.platform.warehouse import Warehouse

_HIGH_POSITIONS_MOST = 32
TRUNCATES_MOST = 64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SOURCE_CURSOR = "*"
"""The target name of the row that says how far the silver of a source was looked through."""

PROGRESS = (
    ("target", "string"),
    ("source", "string"),
    ("batch", "bigint"),
    ("at", "timestamp"),
    ("events", "bigint"),
    ("inserted", "bigint"),
    ("updated", "bigint"),
    ("deleted", "bigint"),
    ("late", "bigint"),
    ("keys_refolded", "bigint"),
    ("files_read", "bigint"),
    ("stale", "bigint"),
    ("rejected", "bigint"),
    ("zero_dates", "bigint"),
    ("seconds", "double"),
    ("status", "string"),
    ("error", "string"),
    ("last_pos", "array<bigint>"),
    ("freshness", "timestamp"),
    ("state", "string"),
    ("version", "bigint"),
)


Outdated = Literal["decoding", "decoded", "unconfirmed", "rebuilding"]
"""Silver is being decoded again, or was, and the rebuild has to be confirmed; or the target is
being made one of another kind."""
ParkedFor = Literal["masks", "refold"]
"""Rows are masked otherwise than the configuration has it, or could not be folded again."""
Names = tuple[str | None, str | None, str | None]
"""Database, schema and table; no table for changes that name none."""


class Horizon(NamedTuple):
    """Where history was trimmed: what lies below `pos` is complete only in batches up to `batch`,
    and only as far as it matters for what is above. `time` (µs): the newest event time below."""

    pos: Pos
    batch: int
    time: int | None


@dataclass(frozen=True, kw_only=True)
class Watermarks:
    """What gold remembers of one source table, to recognise late events.

    Positions: `applied` is the highest applied one, `last_removal` the highest of an applied
    delete, key change or truncate, `last_noop` the highest of a change that may have been skipped
    because it changed nothing, `last_baseless` the highest of a partial image without base,
    `last_narrow` the highest applied one when a further column of the target first came: rows up to
    there may be from images without it. `batch_high_positions`: for some of silver's batches, in
    order, the highest position of the changes up to there.

    `truncates`: the newest truncates, and `truncate_times` when they happened (µs), if rows that
    they leave behind show that. `more_truncates`: silver has others.

    `partials`: partial images have come. `key_overridden`: changes have come that name no key, or
    another one than the target's. `unhashed`: changes have come for which silver has no hash of the
    key. `domain`: the domain of its positions (`ingest.decode.spec.domain`). `tenant`: the
    OceanBase tenant that its changes name. `spellings`: for those of the target's columns that
    messages spell otherwise than gold, or in several ways, every spelling that came.

    `horizons`: where its history was trimmed. `version`: the target's Delta version, if by it a
    later run can tell what a killed run left. `changes`: how many were applied, and `widest`: the
    bytes of the values of the largest one; by these the size of a history is bounded beforehand.
    """

    applied: Pos | None = None
    last_removal: Pos | None = None
    last_noop: Pos | None = None
    truncates: tuple[Pos, ...] = ()
    truncate_times: tuple[int | None, ...] = ()
    more_truncates: bool = False
    partials: bool = False
    last_baseless: Pos | None = None
    last_narrow: Pos | None = None
    key_overridden: bool = False
    unhashed: bool = False
    domain: str | None = None
    tenant: str | None = None
    spellings: tuple[str, ...] = ()
    horizons: tuple[Horizon, ...] = ()
    version: int | None = None
    batch_high_positions: tuple[tuple[int, Pos], ...] = ()
    changes: int = 0
    widest: int = 0

    def names_before(self, columns: Iterable[str], sent: Iterable[str]) -> set[str]:
        """The names that earlier images may have for the target's `columns`, if a batch's images
        have the names `sent`: the remembered names and, for a column that had no other name until
        now, the target's own name, which did not have to be remembered."""
        if self.applied is None:
            return {*self.spellings}
        own = {name.lower(): name for name in columns}
        seen = lowered(self.spellings)
        others = {name.lower() for name in sent if own.get(name.lower(), name) != name}
        return {*self.spellings, *(own[name] for name in others - seen)}

    def high_positions_after(
        self, above: int, last: int, high: Pos | None
    ) -> tuple[tuple[int, Pos], ...]:
        """`batch_high_positions` after the batches above `above`, up to `last`, are applied; `high`
        is then the highest position. Older entries are thinned out."""
        if high is None:
            return self.batch_high_positions
        kept = [
            (batch, pos)
            for batch, pos in self.batch_high_positions
            if batch <= above and pos < high
        ]
        if len(kept) >= _HIGH_POSITIONS_MOST:
            half = _HIGH_POSITIONS_MOST // 2
            kept = [*kept[:half:2], *kept[half:]]
        return (*kept, (last, high))

    @property
    def all_truncates(self) -> dict[Pos, int | None] | None:
        """All truncates there have been, with their times; None if silver has to be asked."""
        known = not self.more_truncates and len(self.truncate_times) == len(self.truncates)
        return dict(zip(self.truncates, self.truncate_times, strict=True)) if known else None

    def with_truncates(self, truncates: Mapping[Pos, int | None]) -> Watermarks:
        """The watermarks of a table with these truncates. At most TRUNCATES_MOST of them are kept,
        since watermarks are written with every batch."""
        listed = sorted(truncates)[-TRUNCATES_MOST:]
        times = tuple(truncates[pos] for pos in listed)
        more = self.more_truncates or len(truncates) > TRUNCATES_MOST
        return replace(self, truncates=tuple(listed), truncate_times=times, more_truncates=more)

    def with_baseless(self, pos: Pos | None) -> Watermarks:
        """The watermarks after a partial image at a position, if there is one, turned out to have
        no base."""
        return replace(self, last_baseless=highest([self.last_baseless, pos]))


def unconfirmed(source: str, target: str) -> str:
    """The sentence on a target that is not made anew until someone confirms it."""
    return (
        f"silver of {source} was decoded again, by which its key or mode changes; confirm with "
        f"`ingest rebuild {target} --yes`"
    )


_COUNTS = tuple(
    """
    events inserted updated deleted late keys_refolded files_read stale rejected zero_dates
    """.split()
)
_NOTHING_DONE: Mapping[str, Any] = {**dict.fromkeys(_COUNTS, 0), "seconds": 0.0}


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One row of `gold._progress`: how far a target is after a run, and what the run did. The row
    of a source is a SourceCursor, that of a source table that feeds no target a ParkedTable.

    If whole transactions are published, what lies below `below` in the batches up to
    `partly_applied` was applied too. `contract`: what the target was created for; None = not
    created yet. `tables`: for each name of a source table the batch up to which it is applied.
    `untyped`: columns that nobody gives a type. `declared`: the types that the target's entry
    declared for its columns when they were last looked at. `unsent`: by label of a source table the
    target's columns, in lower case, that it never sent. `misspelt`: columns that are hidden by the
    tables file and that no message has, each with the column it may mean. `columns`: the target's
    columns, in lower case, when changes were last applied to it; None: not known. `outdated`: the
    rows are from silver as it was before it was decoded again, or nobody knows of which kind they
    are, so nothing is applied until they are rebuilt. `parked_for`: why it is parked, if that may
    end without new changes. `version`: one higher with each row of the target, whatever the clocks
    of the drivers that wrote them. `merged_at`: when changes were last applied, in microseconds
    since 1970 UTC by the clock of the driver that did it; None: never, or longer ago than rows of
    runs are kept.
    """

    target: str
    source: str
    batch: int = 0
    events: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    late: int = 0
    keys_refolded: int = 0
    files_read: int = 0
    stale: int = 0
    rejected: int = 0
    zero_dates: int = 0
    seconds: float = 0.0
    status: str = "ok"
    error: str | None = None
    last_pos: Pos | None = None
    freshness: int | None = None
    watermarks: dict[str, Watermarks] = field(default_factory=dict)
    tables: dict[Names, int] = field(default_factory=dict)
    below: Pos | None = None
    partly_applied: int | None = None
    contract: TargetContract | None = None
    untyped: tuple[str, ...] = ()
    declared: dict[str, str] | None = None
    unsent: dict[str, tuple[str, ...]] = field(default_factory=dict)
    misspelt: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    outdated: Outdated | None = None
    parked_for: ParkedFor | None = None
    version: int = field(default=0, compare=False)
    merged_at: int | None = field(default=None, compare=False)

    def uncounted(self) -> Self:
        """The same state, parked or not, with all counts at zero."""
        return replace(self, **_NOTHING_DONE)

    def counting(self, counts: Mapping[str, int]) -> Self:
        """The same, with more counted, by the columns of PROGRESS."""
        more = {name: getattr(self, name) + number for name, number in counts.items()}
        return replace(self, **more)

    def parked(self, error: str, *, why: ParkedFor | None = None) -> Self:
        """The target as it was, parked for this reason."""
        return replace(self.uncounted(), status="parked", error=error, parked_for=why)

    def unparked(self) -> Self:
        """The same, no longer parked."""
        return replace(self.uncounted(), status="ok", error=None, parked_for=None)

    @property
    def why_outdated(self) -> str | None:
        """The sentence on `outdated`, with what to do."""
        if self.outdated == "decoding":
            again = f"`ingest redecode --source {self.source}`"
            return (
                f"silver of {self.source} was not decoded again to the end; run {again} once more"
            )
        if self.outdated == "decoded":
            return f"silver of {self.source} was decoded again; run `ingest rebuild {self.target}`"
        if self.outdated == "unconfirmed":
            return unconfirmed(self.source, self.target)
        if self.outdated == "rebuilding":
            return (
                f"`ingest rebuild {self.target}` was cut short, which makes it a table of another "
                "kind; run it again"
            )
        return None

    def with_columns(self, columns: Iterable[str]) -> Self:
        """The same, for a target that has these columns now. If one of them is new, rows applied so
        far may come from images that lacked it."""
        names = tuple(sorted(name.lower() for name in columns))
        if set(names) <= set(self.columns or ()):
            return replace(self, columns=names)
        narrow = {
            label: replace(known, last_narrow=known.applied)
            for label, known in self.watermarks.items()
        }
        return replace(self, columns=names, watermarks=narrow)

    def with_watermarks(self, watermarks: Mapping[str, Watermarks]) -> Self:
        """The same state, with other watermarks for these source tables."""
        merged = {**self.watermarks, **watermarks}
        return replace(self.uncounted(), watermarks=merged)

    @property
    def last_batch(self) -> int:
        """The last batch of which anything was applied."""
        if self.below is None or self.partly_applied is None:
            return self.batch
        return self.partly_applied

    @property
    def applied_rows(self) -> str:
        """SQL that is true for the applied rows in silver's batches up to `last_batch`."""
        if self.below is None or self.partly_applied is None:
            return "true"
        return f"(batch <= {self.batch} OR pos < {pos_literal(self.below)})"

    def row(self, at: datetime) -> tuple[Any, ...]:
        """As a row of PROGRESS."""
        state = _State(
            **{name: value for name, value in vars(self).items() if name in _KEPT},
            tables=[(*names, batch) for names, batch in self.tables.items()],
        )
        values = {
            **{name: getattr(self, name, None) for name, _ in PROGRESS},
            "at": at,
            "last_pos": list(self.last_pos) if self.last_pos else None,
            "freshness": moment(self.freshness),
            "state": msgspec.json.encode(state).decode(),
        }
        return tuple(values[name] for name, _ in PROGRESS)


@dataclass(frozen=True, kw_only=True)
class SourceCursor(Progress):
    """The row of a source: how far its silver was looked through for all its targets.

    `tables`: for each name of a source table the last batch that has changes of it. `redecoded`:
    the batches with which its rows in silver begin after a redecode, as last planned; `reached`:
    the last batch that was applied before that, by its new number.
    """

    target: str = SOURCE_CURSOR
    redecoded: tuple[int, ...] = ()
    reached: int = 0

    @property
    def whole(self) -> int:
        """The last batch of which everything was applied or set aside."""
        return max(self.batch, self.reached)


@dataclass(frozen=True, kw_only=True)
class ParkedTable(Progress):
    """The row of a source table that is parked by itself (semantics.md, 70), under its own name:
    `target` is `source:db.table`. Nothing of it is applied; once it may go on, its status is
    `ok`."""

    @classmethod
    def of(cls, table: SourceTable, error: str) -> Self:
        """A table that is parked, with the reason."""
        return cls(target=str(table), source=table.source).parked(error)


def create_progress(warehouse: Warehouse) -> None:
    """`gold._progress`."""
    warehouse.create("gold", "_progress", PROGRESS)


class _State(msgspec.Struct, kw_only=True):
    """The column `state` of Progress and SourceCursor, as JSON. `tables`: names, and the batch of
    each; for changes that name no table the last of the three names is null."""

    watermarks: dict[str, Watermarks] = {}
    tables: list[tuple[str | None, str | None, str | None, int]] = []
    below: Pos | None = None
    partly_applied: int | None = None
    contract: TargetContract | None = None
    untyped: tuple[str, ...] = ()
    declared: dict[str, str] | None = None
    unsent: dict[str, tuple[str, ...]] = {}
    misspelt: dict[str, str] = {}
    columns: tuple[str, ...] | None = None
    outdated: Outdated | None = None
    parked_for: ParkedFor | None = None
    redecoded: tuple[int, ...] = ()
    reached: int = 0


_KEPT = tuple(name for name in _State.__struct_fields__ if name != "tables")
"""The fields that are kept in `state` as they are."""


def _state(text: str | None) -> _State:
    return msgspec.json.decode(text, type=_State) if text else _State()


_LONG = 5_000
"""After how many commits `gold._progress` is asked in two steps; a second query costs a process
that begins more than a second."""
_SPANS = 16
"""How many spans of time are asked for; files of other times are not read."""
ProgressByTarget = dict[tuple[str, str], Progress]
"""(source, target) -> its progress, with counts at zero."""


def load_progress(warehouse: Warehouse) -> ProgressByTarget:
    """The progress of every target, read again only if another process has recorded something;
    empty if nothing was recorded yet."""
    if not warehouse.exists("gold", "_progress"):
        return {}
    return dict(warehouse.cached("gold", "_progress", lambda: _read(warehouse)))


def _read(warehouse: Warehouse) -> ProgressByTarget:
    """The table has all runs of more than a year. Once it is long, which rows are the newest is
    asked of a few narrow columns, and `state`, which is most of a row, only of the times at which
    these were written."""
    rows = warehouse.read("gold", "_progress")
    at = F.unix_micros("at")
    merged = F.max(F.when(_merged_row(), at))
    merged_before: dict[tuple[str, str], int | None] = {}
    if warehouse.last_commit("gold", "_progress").version >= _LONG:
        of_each = rows.groupBy("source", "target")
        known = of_each.agg(F.max_by(at, "version"), merged).collect()
        if not known:
            return {}
        merged_before = {(source, target): merged_at for source, target, _, merged_at in known}
        rows = rows.filter(_written_in(spans([written for _, _, written, _ in known])))
    names = [name for name, _ in PROGRESS if name not in ("at", "freshness")]
    micros = F.unix_micros("freshness").alias("micros")
    last_row = F.max_by(F.struct(*names, micros), "version")
    newest = rows.groupBy("source", "target").agg(last_row, merged)
    by_target = {}
    for source, target, last, merged_at in newest.collect():
        state = _state(last["state"])
        kind = _kind_of(target)
        of_kind = {each.name for each in fields(kind)}
        by_target[source, target] = kind(
            target=target,
            source=source,
            batch=last["batch"],
            status=last["status"],
            error=last["error"],
            last_pos=tuple(last["last_pos"]) if last["last_pos"] else None,
            freshness=last["micros"],
            **{name: getattr(state, name) for name in _KEPT if name in of_kind},
            tables={(db, schema, table): batch for db, schema, table, batch in state.tables},
            version=last["version"],
            merged_at=merged_before.get((source, target), merged_at),
        )
    return by_target


def spans(moments: Iterable[int]) -> list[tuple[int, int]]:
    """The moments as _SPANS spans, or fewer, first and last included, that leave out as much time
    as they can."""
    ordered = sorted(set(moments))
    gaps = sorted(range(1, len(ordered)), key=lambda i: ordered[i - 1] - ordered[i])
    ends = sorted(gaps[: _SPANS - 1])
    return [
        (ordered[first], ordered[end - 1])
        for first, end in zip([0, *ends], [*ends, len(ordered)], strict=True)
    ]


def _written_in(listed: Iterable[tuple[int, int]]) -> Column:
    """Whether a row of PROGRESS was written in one of these spans (µs)."""
    first, *more = (
        F.col("at").between(F.timestamp_micros(F.lit(begin)), F.timestamp_micros(F.lit(end)))
        for begin, end in listed
    )
    return reduce(Column.__or__, more, first)


def contract_in(state: str | None) -> TargetContract | None:
    """What a target was created for, as the column `state` tells it."""
    return _state(state).contract


def has_rows_applied(state: str | None) -> bool:
    """Whether changes were applied to a target, as the column `state` tells it."""
    return bool(_state(state).watermarks)


def _kind_of(name: str) -> type[Progress]:
    """The class of a row, by what it has as the target's name; no target's name has a colon."""
    if name == SOURCE_CURSOR:
        return SourceCursor
    return ParkedTable if ":" in name else Progress


def is_target(name: str) -> bool:
    """Whether a row is of a target."""
    return _kind_of(name) is Progress


def targets_of(progress_by_target: ProgressByTarget, source: str) -> dict[str, Progress]:
    """The targets that a source has fed, with their progress."""
    return {
        target: progress
        for (of, target), progress in progress_by_target.items()
        if of == source and is_target(target)
    }


def source_cursors(progress_by_target: ProgressByTarget) -> dict[str, SourceCursor]:
    """How far each source's silver was looked through, where it was."""
    rows = progress_by_target.values()
    return {row.source: row for row in rows if isinstance(row, SourceCursor)}


def source_cursor(progress_by_target: ProgressByTarget, source: str) -> SourceCursor:
    """How far the silver of a source was looked through; at the beginning if there is no record."""
    row = progress_by_target.get((source, SOURCE_CURSOR))
    return row if isinstance(row, SourceCursor) else SourceCursor(source=source)


def progress_of(warehouse: Warehouse, source: str, target: str) -> Progress:
    """The progress of one target; at the beginning if there is no record of it."""
    fresh = Progress(target=target, source=source)
    return load_progress(warehouse).get((source, target), fresh)


def record_progress(
    warehouse: Warehouse, rows: Sequence[Progress], progress_by_target: ProgressByTarget
) -> None:
    """Append the rows of one run, and update `progress_by_target` with them."""
    if not rows:
        return
    at = datetime.now(UTC)
    rows = [_next(row, progress_by_target.get((row.source, row.target))) for row in rows]
    schema = typed_columns(PROGRESS)
    frame = warehouse.session.createDataFrame([row.row(at) for row in rows], schema)
    warehouse.append(frame.coalesce(1), "gold", "_progress")
    for row in rows:
        progress = row.uncounted()
        if _merged(row):
            progress = replace(progress, merged_at=micros_of(at))
        progress_by_target[row.source, row.target] = progress
    warehouse.cache("gold", "_progress", dict(progress_by_target))


def _merged(row: Progress) -> bool:
    """Whether a run applied changes to the target."""
    return row.status == "ok" and row.events > 0


def _merged_row() -> Column:
    """The same of a row of PROGRESS."""
    return (F.col("status") == "ok") & (F.col("events") > 0)


def _next(row: Progress, before: Progress | None) -> Progress:
    return replace(row, version=before.version + 1 if before is not None else 1)


def moment(micros: int | None) -> datetime | None:
    """Microseconds since 1970-01-01 UTC as a time that knows its zone."""
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)


def micros_of(time: datetime | None) -> int | None:
    """A time that knows its zone as microseconds since 1970-01-01 UTC."""
    return None if time is None else (time - _EPOCH) // timedelta(microseconds=1)
