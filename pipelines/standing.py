"""A target as silver's history makes it: what `as-of`, `rebuild` and `reconcile` stand on.

Each source table's history is folded apart (`pipelines.whole_fold`), as gold folds it. Nothing here
depends on what gold holds but the columns it has, and which of two source tables owns a key that
both bring (rulings.md, 27): of rows the one it is held from, of versions all but those whose
changes are set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TypeVar

from pyspark.sql import DataFrame

from ingest.asof import Moment
from ingest.casts import sql_text
from ingest.config import Config
from ingest.errors import TableError
from ingest.lineage import Lineage
from ingest.modes import ADDED, Made, mode_of
from ingest.names import SourceTable
from ingest.routes import Route
from ingest.shape import column
from pipelines.ddl_entries import lineage_of, load
from pipelines.gold_table import surprised
from pipelines.moves import Moves, also, moves, under_first_names
from pipelines.progress import Marks, Progress, stand_of
from pipelines.progress import moment as moment_of
from pipelines.rejects import unclaimed
from pipelines.survey import Survey, survey, with_moves
from pipelines.tables import Warehouse
from pipelines.target_shape import key_of, shape_of
from pipelines.targets import METADATA, columns_of, made_for, wanted_columns
from pipelines.whole_fold import quick_fold, sure_fold
from pipelines.work import Work

Result = TypeVar("Result")


class Standing:
    """The rows of one target, folded from all of silver up to batch `last`.

    `marks` are what gold remembers of the source tables: here, where their history was trimmed.
    `only` is SQL that narrows the events to a past moment. As a context it takes back, at its end,
    the names it gave to what it works with. `keys` and `columns` (name -> Spark type, without what
    gold adds) are the target's, `names` all columns of `rows`.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        config: Config,
        target: str,
        tables: Sequence[tuple[SourceTable, Route]],
        *,
        marks: Mapping[str, Marks],
        last: int | None = None,
        only: str = "true",
    ) -> None:
        self.warehouse = warehouse
        self.target = target
        route = tables[0][1]
        self.source = route.source
        self._views: list[str] = []
        self.soft = route.deletes == "soft"
        entries = load(warehouse, self.source).values()
        moved = moves(entries)
        own = {moved.get(table, table): way for table, way in sorted(tables, key=str)}
        surveyed = [
            (table, way, _survey(warehouse, table, moved, last)) for table, way in own.items()
        ]
        slices = [slice_ for _, _, found in surveyed for slice_ in found.slices]
        read = {
            table: lineage_of(e for e in entries if moved.get(e.table, e.table) == table)
            for table in own
        }
        made = made_for(warehouse, target)
        if made is not None and (made.mode == "append" or not slices):
            self.keys = made.keys
        else:
            first, _, found = surveyed[0]
            said = found.keys.get(first, ())
            self.keys = key_of(warehouse, config, route, slices, read[first], said)
        mode = mode_of(route, self.keys)
        if mode is None:
            raise TableError(f"{target} has no rows: its messages name no key; set keys for it")
        self.made = Made.by(route, mode, self.keys)
        self.soft = self.soft and mode != "append"
        columns = columns_of(warehouse, target)
        if columns is None:
            types = [types for table, _, found in surveyed for types in found.types.get(table, [])]
            images = sorted({image for slice_ in slices for image in slice_.images})
            columns = wanted_columns(route, self.keys, types, images)
        self.columns = columns
        if mode == "scd2" and len(surveyed) > 1 and not route.shard_column:
            only = f"({only}) AND {unclaimed(warehouse, self.source, target)}"
        self.works = [
            _work(
                *(warehouse, config, table, way, found, columns, self.made, target, marks, only),
                also=also(table, moved),
                lineage=read[table],
            )
            for table, way, found in surveyed
            if found.slices
        ]
        by_lower = {name.lower(): name for name in columns}
        self.keys = tuple(by_lower[key.lower()] for key in self.keys)
        self.added = {**METADATA, **ADDED[mode]}
        if self.soft:
            self.added["_deleted_at"] = "timestamp"
        self.names = [*columns, *self.added]

    @property
    def row_keys(self) -> tuple[str, ...]:
        """The columns that tell rows apart: of versions the keys alone, of images their place."""
        return self.keys if self.made.mode != "append" else ("_source_table", "_pos")

    @property
    def compared(self) -> list[str]:
        """The columns whose values history determines."""
        ours = ("_pos", "_event_time", "_source")
        added = [name for name in self.added if name not in ours or name in self.row_keys]
        return [*self.columns, *added]

    @property
    def present(self) -> list[str]:
        """SQL, all of it true for the gold rows that the source has now."""
        soft = ["_deleted_at IS NULL"] if self.soft else []
        return [*soft, "_current"] if self.made.mode == "scd2" else soft

    def __enter__(self) -> Standing:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for work in self.works:
            work.forget()
        for view in self._views:
            self.warehouse.session.catalog.dropTempView(view)

    def view(self, frame: DataFrame) -> str:
        """A name under which SQL finds `frame`, until the end."""
        name = f"_{self.target}_{id(self)}_{len(self._views)}"
        frame.createOrReplaceTempView(f"`{name}`")
        self._views.append(name)
        return f"`{name}`"

    def tried(self, act: Callable[[str], Result]) -> Result:
        """What `act` gives, which runs SQL on a relation: the rows, folded the quick way if it may
        be and Spark meets nothing odd, else the sure way.

        `act` must look at `_pos` of every row: that is where the quick way tells what is odd.
        """
        with self.warehouse.shuffling(sum(work.total("changes") for work in self.works)):
            quick = [quick_fold(work) for work in self.works]
            if any(quick):
                pairs = zip(quick, self.works, strict=True)
                try:
                    return act(self._owned([part or sure_fold(work) for part, work in pairs]))
                except Exception as error:
                    if not surprised(error):
                        raise
            return act(self.sure())

    def sure(self) -> str:
        """SQL of the rows, folded event by event."""
        return self._owned([sure_fold(work) for work in self.works])

    def _owned(self, parts: Sequence[str]) -> str:
        """Rows of the fold as rows of the target, each key once."""
        if not parts:
            types = {**self.columns, **self.added}
            nulls = [f"CAST(NULL AS {types[name]}) AS {column(name)}" for name in self.names]
            return f"SELECT {', '.join(nulls)} WHERE false"
        values = [
            f"_k{self.keys.index(name)} AS {column(name)}" if name in self.keys else column(name)
            for name in self.columns
        ]
        source = sql_text(self.source)
        added = [f"{source} AS _source" if name == "_source" else name for name in self.added]
        live = " UNION ALL ".join(
            f"SELECT {', '.join([*values, *added])} FROM ({part})" for part in parts
        )
        if len(parts) > 1 and self.made.mode == "scd1":
            live = self._one_owner(live)
        return live

    def _one_owner(self, live: str) -> str:
        """Of a key that several source tables have, the rows of the one that gold has it from."""
        keys = ", ".join(f"s.{column(key)}" for key in self.keys)
        first, stored = "s._pos", ""
        if self.warehouse.exists("gold", self.target):
            names = ", ".join(map(column, self.keys))
            on = " AND ".join(f"t.{column(key)} = s.{column(key)}" for key in self.keys)
            stored = (
                f"LEFT JOIN (SELECT {names}, min(_source_table) AS _owner "
                f"FROM {self.warehouse.name('gold', self.target)} GROUP BY {names}) t ON {on}"
            )
            first = f"coalesce(t._owner <> s._source_table, false), {first}"
        listed = ", ".join(map(column, self.names))
        return (
            f"SELECT {listed} FROM (SELECT s.*, first_value(s._source_table) OVER ("
            f"PARTITION BY {keys} ORDER BY {first}) AS _claim FROM ({live}) s {stored}) "
            f"WHERE _claim = _source_table"
        )


def as_applied(
    warehouse: Warehouse,
    config: Config,
    target: str,
    tables: Sequence[tuple[SourceTable, Route]],
    stand: Progress,
) -> Standing:
    """The target as all that it has applied makes it."""
    last, only = stand.applied
    return Standing(warehouse, config, target, tables, marks=stand.marks, last=last, only=only)


def as_of(
    warehouse: Warehouse,
    config: Config,
    target: str,
    tables: Sequence[tuple[SourceTable, Route]],
    moment: Moment,
) -> Standing:
    """The target as it stood at a past moment.

    Raises TableError where retention took away what would tell.
    """
    marks = stand_of(warehouse, tables[0][0].source, target).marks
    for label, mark in marks.items():
        for horizon in mark.horizons:
            if moment.before(horizon.pos, horizon.time):
                raise TableError(
                    f"the history of {label} was trimmed up to position {list(horizon.pos)}, "
                    f"event time {moment_of(horizon.time)}; ask for a later moment"
                )
    return Standing(warehouse, config, target, tables, marks=marks, only=moment.until)


def _survey(warehouse: Warehouse, table: SourceTable, moved: Moves, last: int | None) -> Survey:
    """Of a table under all its names: the slices with changes, up to batch `last`."""
    named = survey(warehouse, table.source, 0, [table, *also(table, moved)])
    found = under_first_names(named, moved)
    slices = [
        slice_
        for slice_ in found.slices
        if slice_.changes and (last is None or slice_.batch <= last)
    ]
    return found._replace(slices=slices)


def _work(
    warehouse: Warehouse,
    config: Config,
    table: SourceTable,
    way: Route,
    found: Survey,
    columns: dict[str, str],
    made: Made,
    target: str,
    marks: Mapping[str, Marks],
    only: str,
    *,
    also: tuple[SourceTable, ...],
    lineage: Lineage,
) -> Work:
    slices, types = found.slices, found.types.get(table, [])
    shape = shape_of(config, way, made.keys, columns, slices, lineage, types)
    if not shape.native and shape.keys:
        slices = [with_moves(warehouse, slice_, also, shape.moved) for slice_ in slices]
    return Work(
        warehouse=warehouse,
        marks=Marks(horizons=marks.get(shape.label, Marks()).horizons),
        table=table,
        also=also,
        shape=shape,
        slices=slices,
        target=target,
        above=0,
        last=max(slice_.batch for slice_ in slices),
        soft=way.deletes == "soft",
        fresh=True,
        shared=False,
        only=only,
        mode=made.mode,
    )
