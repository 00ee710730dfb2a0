"""One target brought forward by what its source tables have new, in the way it keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ingest.codes import Code
from ingest.config import Config
from ingest.errors import TableError
from ingest.events import ColumnType
from ingest.modes import Made, Mode, mode_of
from ingest.names import SourceTable, label_of
from ingest.routes import Route
from ingest.shape import Shape
from pipelines import append_table, gold_table, versions_table
from pipelines.commits import recorded
from pipelines.conflicts import try_again
from pipelines.lagging import unkeyed
from pipelines.ledger import Ledger
from pipelines.moves import also, under_first_names
from pipelines.progress import Marks, Names, Progress, highest
from pipelines.rejects import placeless_rejects
from pipelines.retyping import errors, opened, typed_at_last
from pipelines.survey import Slice, Survey, told, with_moves, with_places
from pipelines.tables import Warehouse
from pipelines.target_shape import (
    grown_columns,
    key_of,
    named_keys,
    set_aside,
    shape_of,
    shard_of,
    target_columns,
)
from pipelines.targets import made_for
from pipelines.work import Work

APPLY: dict[Mode, Callable[[Work], tuple[Marks, Counter[str]]]] = {
    "scd1": gold_table.apply,
    "scd2": versions_table.apply,
    "append": append_table.apply,
}
"""What brings one batch of one source table into a target, by the target's mode."""


class Task(NamedTuple):
    """A target with changes: its route and the source tables that feed it.

    `above`: the batch up to which each source table is applied. `reaching`: how far it then is.
    """

    route: Route
    slices: dict[SourceTable, list[Slice]]
    error: str | None
    above: dict[SourceTable, int]
    reaching: dict[Names, int | None]

    @property
    def rows(self) -> int:
        """How many changes there are."""
        return sum(slice_.changes for of_table in self.slices.values() for slice_ in of_table)


def advance(
    warehouse: Warehouse,
    config: Config,
    task: Task,
    progress: Progress,
    found: Survey,
    ledger: Ledger,
) -> Progress:
    """Apply the task's changes; raises TableError where the target cannot take them."""
    route = task.route
    was_unkeyed = unkeyed(progress)
    row = progress = _known(warehouse, route, progress.fresh())
    feeding = _new(task)
    if not feeding:
        return replace(row, batch=found.last, below=found.cut.below, seen=found.cut.newest)
    slices = [slice_ for of_table in feeding.values() for slice_ in of_table]
    if progress.made is None:
        found = _with_told(warehouse, feeding, found)
    if progress.made is not None and progress.made.mode == "append":
        keys = progress.made.keys
    else:
        first = next(iter(feeding))
        said = found.keys.get(first, ())
        keys = key_of(warehouse, config, route, slices, ledger.lineage(first), said)
    mode = mode_of(route, keys)
    if mode is None:
        return _all_aside(warehouse, route, feeding, row, found)
    made = Made.by(route, mode, keys)
    if progress.made is not None and progress.made.differs(made):
        rows_alone = progress.made[:1] + progress.made[2:3] == made[:1] + made[2:3]
        way = f"`ingest rebuild {route.target}`" if rows_alone else "choose another target"
        raise TableError(
            f"expected {progress.made}, with which {route.target} was made, got {made}; {way}, or "
            f"what it was made with"
        )
    keyed = opened(warehouse, route.source, route.target) if was_unkeyed else []
    fresh = target_columns(warehouse, route, feeding, found, ledger, made=made)
    # What lies below an open transaction is applied again, which no log shows.
    again = any(slice_.batch <= (progress.seen or 0) for slice_ in slices)
    labels = {*row.marks, *map(label_of, task.slices)}
    for table, of_table in feeding.items():
        columns = grown_columns(warehouse, route, keys, table, found, of_table, ledger)
        if keys:
            _check_key(config, route, table, of_table, keys, ledger, found.keys.get(table, ()))
        lineage = ledger.lineage(table)
        types = _ordering_types(warehouse, route, table, columns, found, ledger)
        shape = shape_of(config, route, keys, columns, of_table, lineage, types)
        marks = row.marks.get(shape.label, Marks())
        if marks.foreign:
            # Silver's own keys and hashes then are not the target's.
            shape = replace(shape, native=False)
        names = also(table, ledger.moves)
        counted, missing = _counted(warehouse, of_table, names, shape)
        work = Work(
            warehouse=warehouse,
            marks=marks,
            table=table,
            also=names,
            shape=shape,
            slices=counted,
            target=route.target,
            above=task.above[table],
            last=max(slice_.batch for slice_ in of_table),
            soft=route.deletes == "soft",
            fresh=fresh,
            shared=len(labels) > 1 and route.shard_column is None,
            only=found.cut.only,
            mode=mode,
            newest=row.freshness,
            version=None if again else _version(row),
        )
        if table == next(iter(feeding)) and len(feeding) > 1 and mode != "scd1":
            # What a killed run left of the others no longer shows once the first is recorded.
            again = again or recorded(work) is None
        marks, counts = APPLY[mode](work)
        # Not only what is new among the rejects: a run that was killed may have recorded them.
        if counts.pop("unfit", 0) or counts["rejected"]:
            ledger.drift.outgrown(table, route, errors(warehouse, table.source, route.target))
        row = _added(row, work, marks, counts)
        typed_at_last(work, [reject for reject in keyed if reject["code"] == Code.NO_KEY.value])
        if missing:
            row = replace(row, rejected=row.rejected + placeless_rejects(work))
        fresh = False
    if len(labels) > 1 and mode != "append" and not route.shard_column and _freed(row):
        row = try_again(ledger, route, made, row, found.last)
    row = replace(row, below=found.cut.below, seen=found.cut.newest)
    return replace(row, batch=found.last, made=made)


def _with_told(
    warehouse: Warehouse, feeding: dict[SourceTable, list[Slice]], found: Survey
) -> Survey:
    """The survey with what earlier messages told of a new target's tables, where those of now say
    no key or no types: a format may tell a table's schema once, before its rows."""
    lacking = [
        table
        for table, slices in feeding.items()
        if table not in found.types
        or (table not in found.keys and any(slice_.keyless for slice_ in slices))
    ]
    if not lacking:
        return found
    before = told(warehouse, lacking, found.last)
    # Types of before count as they were last: a column that is gone since does not come again.
    last = {table: types[-1:] for table, types in before.types.items()}
    return found._replace(types={**last, **found.types}, keys={**before.keys, **found.keys})


def _ordering_types(
    warehouse: Warehouse,
    route: Route,
    table: SourceTable,
    columns: Mapping[str, str],
    found: Survey,
    ledger: Ledger,
) -> list[tuple[ColumnType, ...]]:
    """The types that came with columns of `sequence_by` which the target has not; one batch may
    have come without them."""
    known = {name.lower() for name in (*columns, *route.columns)}
    if {name.lower() for name in route.sequence_by or ()} <= known:
        return []
    if table not in found.types:
        names = [table, *also(table, ledger.moves)]
        found = under_first_names(told(warehouse, names, found.last), ledger.moves)
    return found.types.get(table, [])[-1:]


def _check_key(
    config: Config,
    route: Route,
    table: SourceTable,
    slices: list[Slice],
    keys: tuple[str, ...],
    ledger: Ledger,
    said: tuple[str, ...],
) -> None:
    """Enter another key that the YAML or the messages name now; the target's own stays."""
    own = named_keys(config, route, slices, ledger.lineage(table)) or said
    named = (*own, *shard_of(route))
    if own and {name.lower() for name in named} != {key.lower() for key in keys}:
        ledger.drift.key(table, route, keys, named)


def _version(row: Progress) -> int | None:
    """The target's version when it was last recorded."""
    return max((marks.version for marks in row.marks.values() if marks.version), default=None)


def _freed(row: Progress) -> bool:
    """Whether some row may have gone."""
    return bool(row.deleted or row.updated)


def _known(warehouse: Warehouse, route: Route, progress: Progress) -> Progress:
    """The progress with what the target was created for, told by itself where need be."""
    if progress.made is not None:
        return progress
    return replace(progress, made=made_for(warehouse, route.target))


def _new(task: Task) -> dict[SourceTable, list[Slice]]:
    """The source tables with slices not applied, in the order of their first change."""
    new = {
        table: [slice_ for slice_ in slices if slice_.batch > task.above[table]]
        for table, slices in task.slices.items()
    }
    first = {
        table: min((s.lowest for s in slices if s.lowest is not None), default=())
        for table, slices in new.items()
    }
    return {
        table: new[table] for table in sorted(new, key=lambda t: (first[t], str(t))) if new[table]
    }


def _counted(
    warehouse: Warehouse, slices: list[Slice], names: Iterable[SourceTable], shape: Shape
) -> tuple[list[Slice], int]:
    """The slices as the target's own key and order have them, where those are not silver's.

    Gives also how many changes have no place in that order.
    """
    if shape.keys and not shape.native:
        slices = [with_moves(warehouse, slice_, names, shape.moved) for slice_ in slices]
    if not shape.sequence:
        return slices, 0
    placed = [with_places(warehouse, slice_, names, shape) for slice_ in slices]
    return [slice_ for slice_, _ in placed], sum(missing for _, missing in placed)


def _added(row: Progress, work: Work, marks: Marks, counts: Counter[str]) -> Progress:
    """The target's progress with what one source table brought."""
    times = (row.freshness, *(slice_.newest for slice_ in work.slices))
    return replace(
        row,
        marks={**row.marks, work.shape.label: marks},
        last_pos=highest([row.last_pos, marks.applied]),
        freshness=max((time for time in times if time is not None), default=None),
        **{name: getattr(row, name) + number for name, number in counts.items()},
    )


def _all_aside(
    warehouse: Warehouse,
    route: Route,
    feeding: dict[SourceTable, list[Slice]],
    row: Progress,
    found: Survey,
) -> Progress:
    """Set aside every change of tables whose rows nothing tells apart."""
    for table, slices in feeding.items():
        row = replace(
            row,
            rejected=row.rejected + set_aside(warehouse, table, route, slices),
            events=row.events + sum(slice_.changes for slice_ in slices),
        )
    return replace(row, batch=found.last, below=found.cut.below, seen=found.cut.newest)
