"""One batch of one target: plan, fold, one MERGE.

The fast plan folds the batch in SQL and merges it; it holds while every event is newer than what
was applied and every image is whole. Whatever the statistics rule out, or Spark meets on the way
(a misfit, a tie, a null key: SURPRISE), goes the careful way: `classify` finds the late keys, they
are folded again from all of silver, the others from the batch, and one MERGE applies both.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from ingest import late
from ingest.casts import sql_text, typed
from ingest.fold import Change
from ingest.keys import hash_values
from ingest.merge import Cut, Merge, pos_literal
from ingest.merge import sql as merge_sql
from ingest.names import SourceTable
from ingest.order import STREAM, Pos
from ingest.refold import OUTPUT, fold_batches
from ingest.shape import MOVED, SURPRISE, Shape, column, events, from_text, latest
from pipelines.progress import Marks, Progress, highest
from pipelines.rejects import baseless_rejects, misfit_rejects, settle
from pipelines.survey import Slice, named
from pipelines.tables import Warehouse

_CUTS_KEPT = 64


@dataclass(frozen=True, kw_only=True)
class Work:
    """A source table's part in one batch of a target."""

    table: SourceTable
    shape: Shape
    slices: Sequence[Slice]
    target: str
    above: int
    last: int
    soft: bool
    fresh: bool

    @property
    def moves(self) -> int:
        return sum(slice_.moves for slice_ in self.slices)

    @property
    def partials(self) -> int:
        return sum(slice_.partials for slice_ in self.slices)

    @property
    def truncates(self) -> int:
        return sum(slice_.truncates for slice_ in self.slices)

    @property
    def deletes(self) -> int:
        return sum(slice_.deletes for slice_ in self.slices)

    @property
    def images(self) -> set[tuple[str, ...]]:
        return {image for slice_ in self.slices for image in slice_.images}


class TableMerge:
    """Applies the batches of one source table to its target."""

    def __init__(self, warehouse: Warehouse, work: Work, progress: Progress) -> None:
        self.warehouse = warehouse
        self.work = work
        self.marks = progress.marks.get(work.shape.label, Marks())
        self.counts: dict[str, int] = {}

    def apply(self) -> tuple[Marks, dict[str, int]]:
        """Bring the target forward; gives the new marks and what to count."""
        work = self.work
        if not self._simple() or not self._merge_fast():
            self._merge_carefully()
        self._count("events", sum(slice_.changes for slice_ in work.slices))
        self._count("zero_dates", sum(slice_.zero_dates for slice_ in work.slices))
        return self._new_marks(), self.counts

    def _simple(self) -> bool:
        work, marks = self.work, self.marks
        lowest = min(slice_.lowest for slice_ in work.slices if slice_.lowest is not None)
        overlaps = marks.applied is not None and lowest <= marks.applied
        return not (
            overlaps
            or marks.orphans
            or work.moves
            or work.partials
            or work.truncates
            or len(work.images) > 1
            or (work.soft and work.deletes)
        )

    # The fast plan.

    def _merge_fast(self) -> bool:
        rows = latest(self.work.shape, self._changes(), sets=self._sets())
        try:
            self._merge(f"({rows})", sets=self._sets(), mixed=False)
        except PySparkException as error:
            if SURPRISE in str(error):
                return False
            raise
        return True

    def _sets(self) -> tuple[str, ...]:
        """The target columns that the batch's images have."""
        names = {name.lower() for image in self.work.images for name in image}
        return tuple(name for name in self.work.shape.columns if name.lower() in names)

    # The careful plan.

    def _merge_carefully(self) -> None:
        work, session = self.work, self.warehouse.session
        all_events = events(work.shape, self._changes())
        found = session.sql(self._classification(all_events)).first()
        assert found is not None
        late_keys = {tuple(key) for key in found["late_keys"]}
        if found["bad"]:
            self._count("rejected", misfit_rejects(self.warehouse, work, all_events))
        self._count("stale", found["stale"])
        self._passed = found["passed"]
        relations = []
        if found["on_time"] or not late_keys:
            relations.append(self._on_time(all_events, late_keys))
        if late_keys:
            self._count("late", len(late_keys))
            relations.append(self._refolded(late_keys))
        union = " UNION ALL ".join(relations)
        self._merge(f"({union})", sets=tuple(work.shape.columns), mixed=True)

    def _classification(self, all_events: str) -> str:
        work, marks = self.work, self.marks
        stored = late.stored_rows(self._target(), work.shape.keys, work.shape.columns)
        if self._cuts():
            stored = f"SELECT * FROM ({stored}) WHERE NOT ({self._below_cuts('_pos')})"
        removing = events(work.shape, self._silver(f"batch <= {work.above} AND (op = 'delete' OR {MOVED})"))
        removals = (
            f"SELECT key, max(pos) AS pos FROM (SELECT explode(IF(key_before IS NULL, array(key), "
            f"array(key, key_before))) AS key, pos FROM ({removing})) GROUP BY key"
        )
        return late.classified(
            work.shape,
            all_events,
            stored,
            removals,
            late.Floors(
                skipped=marks.skipped,
                partials=marks.partials,
                removed=marks.removed is not None,
                orphans=marks.orphans is not None,
            ),
        )

    def _on_time(self, all_events: str, late_keys: set[tuple[str, ...]]) -> str:
        """The rest of the batch, folded by itself."""
        work = self.work
        keys = self._relation("late", pa.table({"key": _keys(late_keys)}))
        if len(work.images) <= 1 and not work.partials and not (work.soft and work.deletes):
            sets = self._sets()
            rows = latest(work.shape, self._changes(), sets=sets, unless=keys)
            return f"SELECT {self._listed(sets)} FROM ({rows})"
        kept = self.warehouse.session.sql(
            f"SELECT *, to_json(key) AS component FROM ({all_events}) e WHERE op <> 'truncate' AND "
            f"key IS NOT NULL AND size(misfits) = 0 "
            f"AND NOT EXISTS (SELECT 1 FROM {keys} l WHERE l.key = e.key)"
        )
        states = self._folded(kept, base=not work.fresh, truncates=())
        name = self._view("states", states.where("key IS NOT NULL"))
        return self._typed_states(name, exact=False)

    def _refolded(self, late_keys: set[tuple[str, ...]]) -> str:
        """The late keys, folded from history, with all keys that key changes link them to."""
        work = self.work
        components = self._components(late_keys)
        wanted = pa.table(
            {"key": _keys(components), "component": pa.array(map(str, components.values()))}
        )
        keys = self._relation("linked", wanted)
        hashes = ", ".join(str(number) for number in self._hashes(components))
        among = f"(key_hash IN ({hashes}) OR key_hash IS NULL)" if hashes else "true"
        history = events(work.shape, self._history(f"op <> 'truncate' AND {among}"))
        chosen = self.warehouse.session.sql(
            f"SELECT h.*, l.component FROM ({history}) h JOIN {keys} l ON l.key = h.key "
            f"WHERE size(misfits) = 0"
        )
        folded = self._folded(chosen, base=False, truncates=self._truncates()).toArrow()
        self._count("keys_refolded", len(components))
        self._count("files_read", self._files())
        baseless = folded.filter(pa.compute.is_null(folded["key"]))
        self._orphans = [tuple(pos) for pos in baseless["pos"].to_pylist()]
        self._count("rejected", baseless_rejects(self.warehouse, work, baseless))
        if self.marks.orphans is not None:
            settle(self.warehouse, work, baseless, sorted(components))
        states = folded.filter(pa.compute.is_valid(folded["key"]))
        absent = set(components) - {tuple(key) for key in states["key"].to_pylist()}
        return self._typed_states(self._relation("refolded", states), exact=True) + "".join(
            self._emptied(absent)
        )

    def _emptied(self, absent: set[tuple[str, ...]]) -> list[str]:
        """Keys that history leaves nothing of: whatever row there is has no ground."""
        if not absent:
            return []
        nothing = self._relation("emptied", pa.table({"key": _keys(absent)}))
        keys = self._key_columns("key")
        return [
            f" UNION ALL SELECT {keys}, {self._nulls()} true, NULL, array(), true, false, "
            f"CAST(NULL AS array<string>), {sql_text(self.work.shape.label)}, NULL FROM {nothing}"
        ]

    def _components(self, late_keys: set[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
        """Late keys and all that are linked to them by key changes, each with its group's number."""
        work = self.work
        edges: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
        if self.marks.removed is not None or work.moves:
            moved = events(work.shape, self._history(f"key_hash IS NULL AND {MOVED}"))
            rows = self.warehouse.session.sql(
                f"SELECT DISTINCT key_before, key FROM ({moved}) "
                f"WHERE key IS NOT NULL AND key_before IS NOT NULL"
            ).collect()
            edges = [(tuple(row[0]), tuple(row[1])) for row in rows]
        return linked(late_keys, edges)

    def _folded(
        self, frame: DataFrame, *, base: bool, truncates: Sequence[Change]
    ) -> DataFrame:
        run = fold_batches(
            soft=self.work.soft,
            base=base,
            by_arrival=self.work.shape.by_arrival,
            truncates=truncates,
        )
        return (
            frame.repartition(2, "component")
            .sortWithinPartitions("component")
            .mapInArrow(run, OUTPUT)
        )

    def _truncates(self) -> list[Change]:
        if not self._cuts():
            return []
        shape = self.work.shape
        return [
            Change(
                op="truncate",
                pos=cut,
                table=shape.label,
                key=None,
                by_arrival=shape.by_arrival,
                digest=i,
            )
            for i, cut in enumerate(self._cuts())
        ]

    # SQL pieces.

    def _target(self) -> str:
        return self.warehouse.name("gold", self.work.target)

    def _history(self, where: str) -> str:
        return self._silver(f"batch <= {self.work.last} AND {where}")

    def _changes(self) -> str:
        where = f"batch > {self.work.above} AND batch <= {self.work.last} AND op <> 'truncate'"
        if self._cuts():
            where += f" AND NOT ({self._below_cuts('pos')})"
        return self._silver(where)

    def _silver(self, where: str) -> str:
        return silver_changes(self.warehouse, self.work.table, where)

    def _cuts(self) -> list[Pos]:
        if not self.work.shape.truncates:
            return []
        return [*self.marks.cuts, *self._new_cuts()]

    def _new_cuts(self) -> list[Pos]:
        if not self.work.truncates or not self.work.shape.truncates:
            return []
        if not hasattr(self, "_found_cuts"):
            between = f"batch > {self.work.above} AND batch <= {self.work.last}"
            truncates = self._silver(f"{between} AND op = 'truncate'")
            frame = self.warehouse.session.sql(f"SELECT pos FROM ({truncates})")
            self._found_cuts = sorted({tuple(row[0]) for row in frame.collect()})
        return self._found_cuts

    def _below_cuts(self, pos: str) -> str:
        return " OR ".join(
            f"({pos} < {pos_literal(cut)}"
            + (f" AND {pos}[{STREAM}] = {cut[STREAM]})" if self.work.shape.by_arrival else ")")
            for cut in self._cuts()
        )

    def _typed_states(self, relation: str, *, exact: bool) -> str:
        shape = self.work.shape
        values = "".join(
            f"{typed(f'row[{sql_text(name)}]', type_, shape.zone)} AS {column(name)}, "
            for name, type_ in shape.columns.items()
        )
        stamps = "timestamp_micros(event_time) AS _event_time"
        return (
            f"SELECT {self._key_columns('key')}, {values}gone AS _gone, {stamps}, pos AS _pos, "
            f"{str(exact).lower()} AS _exact, whole AS _whole, sets AS _sets, "
            f"label AS _source_table, timestamp_micros(deleted_at) AS _deleted_at FROM {relation}"
        )

    def _key_columns(self, key: str) -> str:
        shape = self.work.shape
        return ", ".join(
            f"{from_text(f'{key}[{i}]', shape.columns[name])} AS `_k{i}`"
            for i, name in enumerate(shape.keys)
        )

    def _nulls(self) -> str:
        return "".join(
            f"CAST(NULL AS {type_}), " for type_ in self.work.shape.columns.values()
        )

    def _listed(self, sets: tuple[str, ...]) -> str:
        """The columns of `latest` in the order of `_typed_states`, absent ones null."""
        shape = self.work.shape
        keys = ", ".join(f"`_k{i}`" for i in range(len(shape.keys)))
        values = "".join(
            (column(name) if name in sets else f"CAST(NULL AS {type_})") + f" AS {column(name)}, "
            for name, type_ in shape.columns.items()
        )
        listed = f"array({', '.join(map(sql_text, sets))})"
        return (
            f"{keys}, {values}_gone, _event_time, _pos, _exact, _whole, {listed} AS _sets, "
            f"_source_table, _deleted_at"
        )

    # Spark.

    def _merge(self, rows: str, *, sets: tuple[str, ...], mixed: bool) -> None:
        work = self.work
        cuts = tuple(
            Cut(label=work.shape.label, pos=cut, by_arrival=work.shape.by_arrival)
            for cut in self._new_cuts()
        )
        statement = merge_sql(
            Merge(
                target=self._target(),
                rows=rows,
                keys=work.shape.keys,
                columns=work.shape.columns,
                sets=sets,
                source=work.shape.source,
                soft=work.soft,
                mixed=mixed,
                cuts=cuts,
            )
        )
        done = self.warehouse.session.sql(statement).first()
        assert done is not None
        result: dict[str, Any] = done.asDict()
        for name in ("inserted", "updated", "deleted"):
            self._count(name, int(result.get(f"num_{name}_rows") or 0))
        self._affected = int(result.get("num_affected_rows") or 0)

    def _relation(self, name: str, table: pa.Table) -> str:
        return self._view(name, self.warehouse.session.createDataFrame(table))

    def _view(self, name: str, frame: DataFrame) -> str:
        view = f"_{name}_{abs(hash((self.work.target, self.work.shape.label, time.time_ns())))}"
        frame.createOrReplaceTempView(view)
        return view

    def _files(self) -> int:
        files = self._history("true").replace("SELECT *", "SELECT _metadata.file_path", 1)
        found = self.warehouse.session.sql(f"SELECT count(DISTINCT file_path) FROM ({files})").first()
        return int(found[0]) if found is not None else 0

    def _hashes(self, components: dict[tuple[str, ...], int]) -> list[int]:
        """Hashes of the keys as silver has them; none where text and type may be spelt apart."""
        plain = {"string", "int", "bigint"}
        shape = self.work.shape
        if len(components) > 1_000 or any(shape.columns[key] not in plain for key in shape.keys):
            return []
        names = {names for slice_ in self.work.slices for names in slice_.key_columns}
        if names != {shape.keys}:
            return []
        return [hash_values(key) for key in components]

    def _count(self, name: str, number: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + int(number or 0)

    def _new_marks(self) -> Marks:
        work, marks = self.work, self.marks
        top = highest(slice_.highest for slice_ in work.slices)
        return replace(
            marks,
            applied=highest([marks.applied, top]),
            removed=highest([marks.removed, *(slice_.removed for slice_ in work.slices)]),
            skipped=highest([marks.skipped, top]) if self._skipped() else marks.skipped,
            cuts=tuple(sorted({*marks.cuts, *self._new_cuts()})[-_CUTS_KEPT:]),
            partials=marks.partials or bool(work.partials) or len(work.images) > 1,
            orphans=highest([marks.orphans, *getattr(self, "_orphans", ())]),
            format=work.slices[-1].formats[0] if work.slices[-1].formats else marks.format,
        )

    def _skipped(self) -> bool:
        """Whether some row may have been left as it was because nothing in it changed."""
        changes = sum(slice_.changes for slice_ in self.work.slices)
        return self._affected + getattr(self, "_passed", 0) < changes


def silver_changes(warehouse: Warehouse, table: SourceTable, where: str) -> str:
    """SQL of silver's changes of one source table, narrowed by `where`."""
    return (
        f"SELECT * FROM {warehouse.name('silver', 'cdc')} WHERE source = "
        f"{sql_text(table.source)} AND {named(table)} AND kind = 'change' AND {where}"
    )


def linked(
    keys: set[tuple[str, ...]], edges: Sequence[tuple[tuple[str, ...], tuple[str, ...]]]
) -> dict[tuple[str, ...], int]:
    """The keys and every key that a chain of edges connects to one of them -> group number."""
    root: dict[tuple[str, ...], tuple[str, ...]] = {}

    def find(key: tuple[str, ...]) -> tuple[str, ...]:
        while root.setdefault(key, key) != key:
            root[key] = root[root[key]]
            key = root[key]
        return key

    for before, after in edges:
        root[find(before)] = find(after)
    wanted = {find(key) for key in keys}
    numbers = {key: number for number, key in enumerate(sorted(wanted))}
    return {key: numbers[find(key)] for key in list(root) if find(key) in wanted}


def _keys(keys: Any) -> pa.Array:
    return pa.array([list(key) for key in keys], pa.list_(pa.string()))
