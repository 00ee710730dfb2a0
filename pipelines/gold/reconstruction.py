"""A target as silver's history makes it: what `as-of`, `rebuild` and `reconcile` stand on.

Each source table's history is folded apart (`pipelines.gold.reconstruction`), as gold folds it.
Nothing here depends on what gold holds but the columns it has, and which of two source tables owns
a key that both bring (semantics.md, 27): changes that are set aside for that do not count, and of
rows the one counts that it is held from.

All history of one source table, folded: quickly where one query of SQL is the fold.

The result has the target's keys as `_k0`…, its columns by their slots and what gold adds, whichever
way it keeps them: rows as they are, versions, or every image. Rows as they are come from SQL alone
for keys that have whole images only, with all the columns there are, and never changed; where few
others are, those alone go event by event through `ingest.fold.fold` in Spark's workers, else all
do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from ingest.config.load import Config
from ingest.config.modes import ADDED, TargetContract, mode_of
from ingest.config.routes import Route
from ingest.ddl.changes import Lineage
from ingest.errors import TableError
from ingest.fold.arrow import OUTPUT, Run, fold_history
from ingest.fold.fold import Key
from ingest.names import SourceTable
from ingest.sql import append
from ingest.sql.asof import Moment
from ingest.sql.casts import sql_text
from ingest.sql.latest import latest
from ingest.sql.projection import column, events, slots
from pipelines.apply import bounds
from pipelines.apply.batch import TableBatch
from pipelines.apply.bounds import few_keys
from pipelines.apply.linked_keys import linked_keys
from pipelines.apply.surprise import Surprise, surprises
from pipelines.apply.versions import history_run, of_changes, of_history
from pipelines.gold.plan import declared_keys, key_of, shape_of, shard_of
from pipelines.gold.todays_columns import todays_columns
from pipelines.ledger.entries import Entry, lineage_of, load
from pipelines.ledger.generations import anew
from pipelines.ledger.renames import (
    Moves,
    later_names,
    renames,
    taken_again,
    under_first_names,
)
from pipelines.platform.rows import array_of
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import PendingChanges, survey, with_moves
from pipelines.targets.progress import Progress, Watermarks, stand_of
from pipelines.targets.progress import moment as moment_of
from pipelines.targets.rejects import unclaimed
from pipelines.targets.table import METADATA, columns_of, made_for, wanted_columns

Result = TypeVar("Result")
Surveyed = tuple[SourceTable, Route, PendingChanges]
"""A source table, its way to the target, and what silver has of it."""


class Reconstruction:
    """The rows of one target, folded from all of silver up to batch `last`.

    `marks` are what gold remembers of the source tables: here, where their history was trimmed.
    `only` is SQL that narrows the events to a past moment. `today`: under the columns and the key
    that it would have if it were made today; so it is, too, where the table is gone, which was made
    for `before`. As a context it takes back, at its end, the names it gave to what it works with.
    `keys` and `columns` (name -> Spark type, without what gold adds) are the target's, `names` all
    columns of `rows`, `told` the columns that messages give a type, `entries` the ledger's of the
    target's source tables.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        config: Config,
        target: str,
        *,
        tables: Sequence[tuple[SourceTable, Route]],
        marks: Mapping[str, Watermarks],
        last: int | None = None,
        only: str = "true",
        today: bool = False,
        before: TargetContract | None = None,
    ) -> None:
        self.warehouse = warehouse
        self.target = target
        self.route = route = tables[0][1]
        self.source = route.source
        self._views: list[str] = []
        self.soft = route.deletes == "soft"
        entries = load(warehouse, self.source).values()
        moved = renames(entries)
        own = {moved.get(table, table): way for table, way in sorted(tables, key=str)}
        _check_unmixed(target, own, entries)
        surveyed = [
            (table, way, _survey(warehouse, table, moved, last=last)) for table, way in own.items()
        ]
        read = {
            table: lineage_of(e for e in entries if moved.get(e.table, e.table) == table)
            for table in own
        }
        self.entries = [entry for entry in entries if moved.get(entry.table, entry.table) in own]
        self.told = {
            column.name
            for table, _, found in surveyed
            for columns_ in found.types.get(table, [])
            for column in columns_
        }
        self.keys = self._key(config, surveyed, read, today=today, before=before)
        mode = mode_of(route, self.keys)
        if mode is None:
            raise TableError(f"{target} has no rows: its messages name no key; set keys for it")
        self.made = TargetContract.by(route, mode, self.keys)
        self.soft = self.soft and mode != "append"
        columns = columns_of(warehouse, target)
        if columns is None or today:
            columns = self._todays_columns(columns or {}, surveyed, read.values())
        self.columns = columns
        if mode != "append" and len(surveyed) > 1 and not route.shard_column:
            only = f"({only}) AND {unclaimed(warehouse, self.source, target)}"
        self.works = self._works(
            config, surveyed, columns, marks=marks, only=only, moved=moved, read=read
        )
        by_lower = {name.lower(): name for name in columns}
        self.keys = tuple(by_lower[key.lower()] for key in self.keys)
        self.added = {**METADATA, **ADDED[mode]}
        if self.soft:
            self.added["_deleted_at"] = "timestamp"
        self.names = [*columns, *self.added]

    def _works(
        self,
        config: Config,
        surveyed: Sequence[Surveyed],
        columns: dict[str, str],
        *,
        marks: Mapping[str, Watermarks],
        only: str,
        moved: Moves,
        read: Mapping[SourceTable, Lineage],
    ) -> list[TableBatch]:
        """All that silver has of each source table, as one batch from the beginning."""
        return [
            _work(
                *(self.warehouse, config, table),
                way=way,
                found=found,
                columns=columns,
                made=self.made,
                target=self.target,
                marks=marks,
                only=only,
                also=later_names(table, moved),
                lineage=read[table],
            )
            for table, way, found in surveyed
            if found.slices
        ]

    def _key(
        self,
        config: Config,
        surveyed: Sequence[Surveyed],
        read: Mapping[SourceTable, Lineage],
        *,
        today: bool,
        before: TargetContract | None,
    ) -> tuple[str, ...]:
        """The key columns: those that the target has or, where it is gone, had, unless those of
        today are asked for and the YAML names some."""
        first, _, found = surveyed[0]
        slices = [slice_ for _, _, found in surveyed for slice_ in found.slices]
        named = (
            declared_keys(config, self.route, first, lineage=read[first])
            if today and slices
            else ()
        )
        gone = not self.warehouse.exists("gold", self.target)
        made = before if gone else made_for(self.warehouse, self.target)
        if named and made is not None and _folded(named) == _folded(made.keys):
            return made.keys
        if named:
            return named
        if made is not None and (gone or made.mode == "append" or not slices):
            return made.keys
        said = found.keys.get(first, ())
        return key_of(
            self.warehouse, config, self.route, slices=slices, lineage=read[first], told=said
        )

    def _todays_columns(
        self,
        held: Mapping[str, str],
        surveyed: Sequence[Surveyed],
        lineages: Iterable[Lineage],
    ) -> dict[str, str]:
        types = [types for table, _, found in surveyed for types in found.types.get(table, [])]
        images = {
            image for _, _, found in surveyed for slice_ in found.slices for image in slice_.images
        }
        keys = self.keys or shard_of(self.route)
        wanted = wanted_columns(self.route, keys, types, images=sorted(images))
        return todays_columns(
            self.route, wanted, self.entries, held=held, lineages=lineages, keys=keys
        )

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

    def __enter__(self) -> Reconstruction:
        for work in self.works:
            work.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for work in self.works:
            work.__exit__(kind, error, trace)
        for view in self._views:
            self.warehouse.session.catalog.dropTempView(view)

    def view(self, frame: DataFrame) -> str:
        """A name under which SQL finds `frame`, until the end."""
        name = f"_{self.target}_{id(self)}_{len(self._views)}"
        frame.createOrReplaceTempView(f"`{name}`")
        self._views.append(name)
        return f"`{name}`"

    def tried(
        self, act: Callable[[str], Result], *, before: Callable[[], None] = lambda: None
    ) -> Result:
        """What `act` gives, which runs SQL on a relation: the rows, folded the quick way if it may
        be and Spark meets nothing odd, else the sure way.

        `before` is called once, before `act` sees a fold that may leave some change out.
        """
        with self.warehouse.shuffling(sum(work.total("changes") for work in self.works)):
            quick = [quick_fold(work) for work in self.works]
            whole = all(work.whole and not work.shape.sequence for work in self.works)
            plain = whole and all(quick)
            if not plain:
                before()
            if any(quick):
                pairs = zip(quick, self.works, strict=True)
                rows = self._owned([part or sure_fold(work) for part, work in pairs])
                with suppress(Surprise), surprises():
                    # The quick way tells what is odd in `_pos`, which `act` need not look at.
                    return act(f"SELECT * FROM ({rows}) WHERE _pos IS NOT NULL")
                if plain:
                    before()
            return act(self.sure())

    def typed(self, rows: str) -> DataFrame:
        """Rows of the fold, each column of the target's type."""
        types = {**self.columns, **self.added}
        listed = ", ".join(
            f"CAST({column(name)} AS {types[name]}) AS {column(name)}" for name in self.names
        )
        return self.warehouse.session.sql(f"SELECT {listed} FROM ({rows})")

    @property
    def shared(self) -> bool:
        """Whether rows of several source tables may claim one key."""
        keyed = self.made.mode == "scd1" and self.route.shard_column is None
        return keyed and len(self.works) > 1

    def sure(self) -> str:
        """SQL of the rows, folded event by event."""
        return self._owned([sure_fold(work) for work in self.works])

    def _owned(self, parts: Sequence[str]) -> str:
        """Rows of the fold as rows of the target, each key once."""
        if not parts:
            types = {**self.columns, **self.added}
            nulls = [f"CAST(NULL AS {types[name]}) AS {column(name)}" for name in self.names]
            return f"SELECT {', '.join(nulls)} WHERE false"
        places = slots(self.columns)
        values = [
            f"_k{self.keys.index(name)} AS {slot}" if name in self.keys else slot
            for name, slot in places.items()
        ]
        source = sql_text(self.source)
        added = [f"{source} AS _source" if name == "_source" else name for name in self.added]
        live = " UNION ALL ".join(
            f"SELECT {', '.join([*values, *added])} FROM ({part})" for part in parts
        )
        if len(parts) > 1 and self.made.mode == "scd1":
            live = self._one_owner(live)
        named = [f"{slot} AS {column(name)}" for name, slot in places.items()]
        return f"SELECT {', '.join([*named, *self.added])} FROM ({live})"

    def _one_owner(self, live: str) -> str:
        """Of a key that several source tables have, the rows of the one that gold has it from."""
        places = slots(self.columns)
        keys = ", ".join(f"s.{places[key]}" for key in self.keys)
        first, stored = "s._pos", ""
        if self.warehouse.exists("gold", self.target):
            names = ", ".join(map(column, self.keys))
            on = " AND ".join(f"t.{places[key]} = s.{places[key]}" for key in self.keys)
            own = ", ".join(f"{column(key)} AS {places[key]}" for key in self.keys)
            stored = (
                f"LEFT JOIN (SELECT {own}, min(_source_table) AS _owner "
                f"FROM {self.warehouse.name('gold', self.target)} GROUP BY {names}) t ON {on}"
            )
            first = f"coalesce(t._owner <> s._source_table, false), {first}"
        listed = ", ".join([*places.values(), *self.added])
        return (
            f"SELECT {listed} FROM (SELECT s.*, first_value(s._source_table) OVER ("
            f"PARTITION BY {keys} ORDER BY {first}) AS _claim FROM ({live}) s {stored}) "
            f"WHERE _claim = _source_table"
        )


def _folded(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def as_applied(
    warehouse: Warehouse,
    config: Config,
    target: str,
    *,
    tables: Sequence[tuple[SourceTable, Route]],
    stand: Progress,
    today: bool = False,
) -> Reconstruction:
    """The target as all that it has applied makes it, under the columns, key and mode that it has
    or, `today`, would have if it were made today."""
    last, only = stand.applied
    return Reconstruction(
        *(warehouse, config, target),
        tables=tables,
        marks=stand.marks,
        last=last,
        only=only,
        today=today,
        before=stand.made,
    )


def as_of(
    warehouse: Warehouse,
    config: Config,
    target: str,
    *,
    tables: Sequence[tuple[SourceTable, Route]],
    moment: Moment,
) -> Reconstruction:
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
    return Reconstruction(warehouse, config, target, tables=tables, marks=marks, only=moment.until)


def _check_unmixed(
    target: str, tables: Collection[SourceTable], entries: Collection[Entry]
) -> None:
    """Raise TableError where rows of a table that was renamed would meet those of another one that
    has its name since."""
    again = taken_again(entries, lambda e: e.kind == "create_table" and not anew(e))
    for table in tables:
        if table in again:
            raise TableError(again[table].why(target))


def _survey(
    warehouse: Warehouse, table: SourceTable, moved: Moves, *, last: int | None
) -> PendingChanges:
    """Of a table under all its names: the slices with changes, up to batch `last`."""
    named = survey(
        warehouse, table.source, 0, tables=[table, *later_names(table, moved)], until=last
    )
    found = under_first_names(named, moved)
    return found._replace(slices=[slice_ for slice_ in found.slices if slice_.changes])


def _work(
    warehouse: Warehouse,
    config: Config,
    table: SourceTable,
    *,
    way: Route,
    found: PendingChanges,
    columns: dict[str, str],
    made: TargetContract,
    target: str,
    marks: Mapping[str, Watermarks],
    only: str,
    also: tuple[SourceTable, ...],
    lineage: Lineage,
) -> TableBatch:
    slices, types = found.slices, found.types.get(table, [])
    shape = shape_of(
        config, way, made.keys, columns=columns, slices=slices, lineage=lineage, types=types
    )
    if not shape.native and shape.keys:
        slices = with_moves(warehouse, slices, also, moved=shape.moved)
    return TableBatch(
        warehouse=warehouse,
        marks=Watermarks(horizons=marks.get(shape.label, Watermarks()).horizons),
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


def quick_fold(work: TableBatch) -> str | None:
    """SQL of all rows, most of them folded in SQL; None where too few could be.

    It raises SURPRISE where the newest change of a key was delivered more than once.
    """
    if work.mode == "append":
        return None
    if work.mode == "scd2":
        return of_changes(work) if work.whole else None
    folded = _quick_states(work)
    return None if folded is None else f"SELECT * FROM ({folded}) WHERE NOT _gone"


def sure_fold(work: TableBatch) -> str:
    """SQL of all rows, folded event by event where that matters."""
    if work.mode == "append":
        rows = append.rows(work.shape, work.history(append.IMAGES), checked=False)
        slots = work.shape.slots
        keys = "".join(f"{slots[key]} AS _k{i}, " for i, key in enumerate(work.shape.keys))
        return f"SELECT {keys}* FROM ({rows})"
    if work.mode == "scd2":
        states = f"(SELECT * FROM {_folded_history(work, _run(work))} WHERE kind = 'state')"
        return of_history(work, states)
    return f"SELECT * FROM ({_sure_states(work)}) WHERE NOT _gone"


def baseless(work: TableBatch) -> str:
    """SQL of the partial images that the fold of rows or versions finds no base for."""
    return f"SELECT * FROM {_folded_history(work, _run(work))} WHERE kind = 'baseless'"


def _run(work: TableBatch) -> Run:
    """What folds the target's history event by event."""
    if work.mode == "scd2":
        return history_run(work)
    by_arrival = work.shape.by_arrival
    return fold_history(soft=work.soft, by_arrival=by_arrival, truncates=work.truncates)


def _quick_states(work: TableBatch) -> str | None:
    if work.whole:
        return work.listed(latest(work.shape, work.changes(), sets=work.sets))
    odd = _odd_keys(work) if not work.reread else None
    if odd is None:
        return None
    keys = work.view(pa.table({"key": array_of(odd)}))
    text = work.shape.key_text()
    plain = (
        f"SELECT c.* EXCEPT (_key) FROM (SELECT *, {text} AS _key FROM ({work.changes()})) c "
        f"LEFT ANTI JOIN {keys} o ON o.key = c._key WHERE c._key IS NOT NULL"
    )
    folded = work.listed(latest(work.shape, plain, sets=work.sets))
    if not odd:
        return folded
    return f"SELECT * FROM ({folded}) UNION ALL SELECT * FROM ({_sure_states(work, keys)})"


def _sure_states(work: TableBatch, among: str | None = None) -> str:
    """The states of all keys, or those of the relation `among`."""
    folded = _folded_history(work, _run(work), among)
    return work.typed_states(f"{folded} WHERE kind = 'state' AND NOT gone", exact=True)


def _folded_history(work: TableBatch, run: Run, among: str | None = None) -> str:
    """A relation of what `run` gives of the history of all keys, or those of `among`."""
    session = work.warehouse.session
    listed = events(work.shape, work.history("op <> 'truncate'"))
    chosen = f"SELECT h.* FROM ({listed}) h WHERE h.key IS NOT NULL AND size(h.misfits) = 0"
    if among is not None:
        chosen = f"SELECT h.* FROM ({chosen}) h LEFT SEMI JOIN {among} o ON o.key = h.key"
    linked = linked_keys(work)
    if linked is not None:
        chosen = (
            f"SELECT h.*, coalesce(l.component, to_json(h.key)) AS component "
            f"FROM ({chosen}) h LEFT JOIN {linked} l ON l.key = h.key"
        )
    else:
        chosen = f"SELECT *, to_json(key) AS component FROM ({chosen})"
    spread = session.sql(chosen).repartition("component").sortWithinPartitions("component")
    return work.view(spread.mapInArrow(run, OUTPUT))


def _odd_keys(work: TableBatch) -> set[Key] | None:
    """The keys that SQL alone cannot fold; None where there are too many to name."""
    few = work.total("partials") + work.total("moves")
    few += work.total("deletes") if work.soft else 0
    if few > bounds.KEYS:
        return None
    lacking = len(work.shape.columns) - len(work.sets)
    odd = (
        "partial OR key_before IS NOT NULL OR size(misfits) > 0 "
        f"OR (op <> 'delete' AND lacks > {lacking}) OR (op = 'delete' AND {str(work.soft).lower()})"
    )
    # Truncates mark the rows that were there where deletes are soft: which ones, the fold knows.
    if work.soft and work.cuts:
        return None
    changed = events(work.shape, work.changes())
    named = (
        "SELECT explode(IF(key_before IS NULL, array(key), array(key, key_before))) AS key "
        f"FROM ({changed}) WHERE key IS NOT NULL AND ({odd})"
    )
    return few_keys(work.warehouse, named)
