"""The careful way: what a batch leads to when some of its events may be late.

Every key is judged (`ingest.fold.lateness`). Keys that are on time are folded from the batch alone,
late ones from silver's history (`pipelines.apply.prior_images`), together with the keys that key
changes link them to. A small batch (`TableBatch.small`) is judged and folded here, in the driver; a
larger one in Spark's workers, by the same functions: of that only keys and positions come here,
never images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from ingest.codes import Code
from ingest.errors import TableError
from ingest.fold import lateness
from ingest.fold.arrow import ORIGIN, OUTPUT, SCHEMA, Run, fold_batches, sort_out
from ingest.fold.fold import Key
from ingest.fold.key_groups import key_groups
from ingest.position import TOP, Pos, pos_literal
from ingest.sql.delivery import listed
from ingest.sql.latest import latest
from ingest.sql.projection import events
from pipelines.apply.batch import TableBatch
from pipelines.apply.prior_images import (
    Traces,
    based,
    changes_of,
    hashes,
    key_changes,
    named_above,
    places,
    trace,
)
from pipelines.apply.set_aside import (
    baseless_rejects,
    conflict_rejects,
    horizon_rejects,
    misfit_rejects,
    settle,
)
from pipelines.platform.rows import array_of

_NAMED_MOST = 5


class Refolded(NamedTuple):
    """What late keys come to. `states`: a relation of results of kind `state`, None where there is
    none. `keys`: those of which there was something. `rows`: how many states leave a row.
    `baseless`: the partial images without base, by their coordinates."""

    states: str | None
    keys: set[Key]
    rows: int
    baseless: pa.Table


class Careful:
    """Judges and folds one batch. After `rows`: what to count, and what the MERGE should change.

    `counts`: those of `gold._progress`, and `unfit` where some value did not fit. `expected`: how
    many rows it should write, were there no change that changes nothing. `orphans`: positions of
    partial images without base.
    """

    def __init__(self, work: TableBatch) -> None:
        self._work = work
        self._small = work.small
        self.counts: Counter[str] = Counter()
        self.expected = 0
        self.orphans: list[Pos] = []
        self._bounds: dict[Key, Pos] = {}
        self._traces: Traces | None = None
        self._brought: Collection[Key] = ()
        self._given: Collection[Key] = ()

    def rows(self) -> str | None:
        """SQL of the rows for the MERGE; None where nothing is to be merged."""
        work = self._work
        self.counts["rejected"] += horizon_rejects(work)
        all_events = events(work.shape, work.changes())
        judged = self._judged(all_events)
        self._bounds = _bounds(judged)
        self._brought = self._bounds.keys()
        if pc.any(pc.equal(judged["kind"], "unfit")).as_py():
            self.counts["unfit"] = 1
            self.counts["rejected"] += misfit_rejects(work, all_events)
        late_keys = _keys(judged, "late")
        doubtful = judged.filter(pc.equal(judged["kind"], "doubtful")).select(["key", "pos"])
        if doubtful.num_rows or (late_keys and based(work)):
            self._traces = self._traced(doubtful)
        if doubtful.num_rows:
            late_keys |= named_above(
                work, doubtful, self._overtaking(doubtful), traces=self._traces
            )
        late_keys |= self._put_back() | self._marked_anew()
        stale = judged.filter(pc.is_in(judged["kind"], pa.array(["stale", "passed"])))
        self.counts["stale"] += pc.sum(stale["stale"]).as_py() or 0
        linked_keys = self._components(late_keys) if late_keys else {}
        relations = []
        on_time = self._on_time(judged, linked_keys)
        if on_time is not None:
            relations.append(on_time)
        if late_keys:
            self.counts["late"] += len(late_keys)
            relations.extend(self._refolded(linked_keys))
        return f"({' UNION ALL '.join(relations)})" if relations else None

    def anew(self, keys: Collection[Key]) -> str:
        """SQL of the rows for a MERGE that folds some keys again, which no other source table's row
        holds any more, and of which there are changes."""
        self._brought = self._given = {*keys}
        return f"({' UNION ALL '.join(self._refolded(self._components(keys)))})"

    def nothing(self) -> str:
        """SQL of no rows at all, for a MERGE that only truncates."""
        nobody = self._work.view(_gone([("",) * len(self._work.shape.keys)], self._work))
        return f"({self._work.typed_states(nobody, exact=True)} WHERE false)"

    def _judged(self, all_events: str) -> pa.Table:
        """The verdicts on all keys; with their states where the batch is small."""
        work, marks = self._work, self._work.marks
        stored = lateness.stored_rows(work.target_name, work.shape, soft=work.soft)
        if work.cuts:
            stored = f"SELECT * FROM ({stored}) WHERE NOT ({work.below_cuts('_pos')})"
        fits = "e.key IS NOT NULL AND size(e.misfits) = 0"
        joined = ""
        if work.shared:
            others = work.held_by_others
            self.counts["rejected"] += conflict_rejects(work, all_events, others)
            joined = f"LEFT JOIN ({others}) o ON o.key = e.key"
            fits += " AND o.key IS NULL"
        judged = work.warehouse.session.sql(
            f"SELECT e.*, to_json(e.key) AS component, t._pos AS stored, t.marked, {fits} AS fits "
            f"FROM ({all_events}) e LEFT JOIN ({stored}) t ON t.key = e.key {joined}"
        )
        run = sort_out(
            soft=work.soft,
            by_arrival=work.shape.by_arrival,
            fresh=work.fresh,
            truncates=work.truncates() if work.soft else (),
            floors=lateness.Floors(
                skipped=marks.skipped,
                removed=marks.removed,
                partials=marks.partials or work.partial,
                orphans=marks.orphans,
            ),
        )
        if self._small:
            return run_here(run, judged.toArrow())
        self._large = work.view(by_component(judged).mapInArrow(run, OUTPUT))
        return verdicts_of(work, self._large)

    def _traced(self, doubtful: pa.Table) -> Traces | None:
        """What silver has of the late and doubtful keys; None where it is not read by hash."""
        doubts = places(doubtful)
        bounds = self._bounds if based(self._work) else None
        known = hashes(self._work, doubts if bounds is None else bounds)
        if known is None:
            return None
        what = self._overtaking(doubtful) if doubts else "false"
        found = trace(self._work, known, bounds, doubts=doubts, what=what)
        if not self._work.total("unhashed"):
            # The batch itself brings every one of them by its hash.
            seen = {key for key, hash_ in known.items() if hash_ in found.batches}
            check_found(self._work.target, known, seen)
        return found

    def _overtaking(self, doubtful: pa.Table) -> str:
        """SQL that is true for the earlier changes, besides those that move a key, that may make
        a doubtful key a late one."""
        orphans = self._work.marks.orphans is not None
        return "op = 'delete'" + (" OR after_image = 'partial'" if orphans else "")

    def _put_back(self) -> set[Key]:
        """The rows below a truncate that comes late, and had changes above it.

        Such a change may have been skipped because it changed nothing (38): after the truncate it
        brings the row back.
        """
        work, skipped = self._work, self._work.marks.skipped
        if not work.new_cuts or skipped is None or work.new_cuts[0] > skipped:
            return set()
        above = f"op <> 'truncate' AND pos > {pos_literal(work.new_cuts[0])}"
        rows = work.warehouse.session.sql(
            f"SELECT DISTINCT t.key FROM ({events(work.shape, work.earlier(above))}) e "
            f"JOIN ({lateness.stored_rows(work.target_name, work.shape, soft=work.soft)}) t "
            f"ON t.key = e.key WHERE {work.below_cuts('t._pos')}"
        ).collect()
        return {tuple(row[0]) for row in rows}

    def _marked_anew(self) -> set[Key]:
        """The rows that a truncate marked as deleted, and one that comes late ended before."""
        work, unseen = self._work, self._work.marks.unseen(self._work.new_cuts)
        above = [cut for cut in work.marks.cuts if unseen and cut > unseen[0]]
        if not work.soft or not above:
            return set()
        stored = lateness.stored_rows(work.target_name, work.shape, soft=True)
        marks = ", ".join(map(pos_literal, above))
        rows = work.warehouse.session.sql(f"SELECT key FROM ({stored}) WHERE _pos IN ({marks})")
        return {tuple(key) for (key,) in rows.collect()}

    def _on_time(self, judged: pa.Table, late_keys: Collection[Key]) -> str | None:
        """SQL of the states of the keys that are not folded from history."""
        work = self._work
        if self._small:
            states = judged.filter(pc.equal(judged["kind"], "state"))
            if late_keys:
                states = states.filter(
                    pa.array(
                        [tuple(key) not in late_keys for key in states["key"].to_pylist()],
                        pa.bool_(),
                    )
                )
            self.expected = _rows_left(states)
            return work.typed_states(work.view(states), exact=False) if states.num_rows else None
        self.expected = work.total("changes")
        unless = work.view(pa.table({"key": array_of(late_keys)}))
        if work.whole:
            return work.listed(latest(work.shape, work.changes(), sets=work.sets, unless=unless))
        states = f"(SELECT * FROM {self._large} WHERE kind = 'state')"
        kept = f"(SELECT s.* FROM {states} s LEFT ANTI JOIN {unless} l ON l.key = s.key)"
        return work.typed_states(kept, exact=False)

    def _refolded(self, components: Mapping[Key, int]) -> list[str]:
        """SQL of the states of the late keys and their kin, folded from history."""
        work = self._work
        run = fold_batches(
            soft=work.soft, by_arrival=work.shape.by_arrival, truncates=work.truncates()
        )
        folded = self._folded(components, run)
        self.expected += folded.rows
        return [] if folded.states is None else [work.typed_states(folded.states, exact=True)]

    def _folded(self, components: Mapping[Key, int], run: Run) -> Refolded:
        """What `run` gives of the history of the late keys and their kin."""
        found = changes_of(
            self._work, components, self._bounds, traces=self._traces, given=self._given
        )
        self.counts["keys_refolded"] += len(components)
        self.counts["files_read"] += found.files
        folded = folded_by(self._work, run, found.changes)
        brought = [key for key in self._brought if key in components]
        check_found(self._work.target, brought, folded.keys)
        self._note_baseless(folded.baseless, components)
        return folded

    def _components(self, late_keys: Collection[Key]) -> dict[Key, int]:
        """Late keys and all that key changes link to them, each with its group's number."""
        work = self._work
        moved = work.marks.removed is not None or work.total("moves")
        edges = key_changes(work, self._traces, of=late_keys) if moved else []
        return key_groups(late_keys, edges)

    def _note_baseless(self, baseless: pa.Table, components: Collection[Key]) -> None:
        work = self._work
        self.orphans = [tuple(pos) for pos in baseless["pos"].to_pylist()]
        self.counts["rejected"] += baseless_rejects(work, baseless)
        if work.marks.orphans is not None:
            settle(
                work,
                sorted(components),
                code=Code.NO_BASE_IMAGE,
                where="after_image = 'partial'",
                still=baseless,
            )


def by_component(events: DataFrame) -> DataFrame:
    """The events spread over Spark's workers, those that fold together side by side."""
    return events.repartition("component").sortWithinPartitions("component")


def verdicts_of(work: TableBatch, judged: str) -> pa.Table:
    """What a relation of results says of keys, images apart: the late and doubtful ones one by one,
    the others in one row a kind."""
    named = "kind IN ('late', 'doubtful')"
    told = ", ".join(f"IF({named}, {name}, NULL) AS {name}" for name in ("key", "pos", "whole"))
    found = work.warehouse.session.sql(
        f"SELECT kind, key, pos, whole, sum(stale) AS stale FROM (SELECT kind, {told}, stale "
        f"FROM {judged} WHERE kind NOT IN ('state', 'baseless')) GROUP BY kind, key, pos, whole"
    ).toArrow()
    columns = pa.schema([SCHEMA.field(name) for name in ("kind", "key", "pos", "whole", "stale")])
    return found.cast(columns) if found.num_rows else columns.empty_table()


def folded_by(work: TableBatch, run: Run, changes: DataFrame | pa.Table) -> Refolded:
    """What `run`, a fold of history, makes of these changes, where they are."""
    if isinstance(changes, pa.Table):
        folded = run_here(run, changes)
        states = folded.filter(pc.equal(folded["kind"], "state"))
        view = work.view(states) if states.num_rows else None
        rows = _rows_left(states)
    else:
        everything = work.view(by_component(changes).mapInArrow(run, OUTPUT))
        place = listed(names=ORIGIN)
        folded = work.warehouse.session.sql(
            f"SELECT kind, key, pos, {place}, count_if(NOT gone) AS rows FROM (SELECT kind, key, "
            f"IF(kind = 'baseless', pos, NULL) AS pos, {place}, gone FROM {everything}) "
            f"GROUP BY kind, key, pos, {place}"
        ).toArrow()
        view = f"(SELECT * FROM {everything} WHERE kind = 'state')"
        view = view if pc.any(pc.equal(folded["kind"], "state")).as_py() else None
        rows = pc.sum(folded["rows"]).as_py() or 0
    keys = {tuple(key) for key in folded["key"].to_pylist()}
    return Refolded(view, keys, rows, folded.filter(pc.equal(folded["kind"], "baseless")))


def run_here(run: Run, table: pa.Table) -> pa.Table:
    """`run` over all rows at once, here."""
    if not table.num_rows:
        return SCHEMA.empty_table()
    batches = table.sort_by("component").to_batches()
    return pa.Table.from_batches(run(iter(batches)), SCHEMA)


def check_found(target: str, keys: Iterable[Key], found: Collection[Key]) -> None:
    """Raise TableError unless history has something of each of `keys`, which a batch brings (78).

    Where it has nothing the lookup is wrong: no reason to take the row away.
    """
    lost = sorted(key for key in keys if key not in found)
    if lost:
        named = ", ".join(f"({', '.join(key)})" for key in lost[:_NAMED_MOST])
        more = f" and {len(lost) - _NAMED_MOST} more" if len(lost) > _NAMED_MOST else ""
        raise TableError(
            f"expected to find in silver what it has of key {named}{more}, which this batch "
            f"brings, got nothing: a fault of the lookup, so nothing of {target} was changed; "
            f"please report it"
        )


def _keys(judged: pa.Table, kind: str) -> set[Key]:
    chosen = judged.filter(pc.equal(judged["kind"], kind))
    return {tuple(key) for key in chosen["key"].to_pylist()}


def _bounds(judged: pa.Table) -> dict[Key, Pos]:
    """Where the fold of a late or doubtful key has to start below: what a partial image of the
    batch comes to, and whether it has a base, depends on what was before it."""
    bounds: dict[Key, Pos] = {}
    told = judged.filter(pc.is_in(judged["kind"], pa.array(["late", "doubtful"])))
    columns = (told[name].to_pylist() for name in ("key", "pos", "whole"))
    for name, at, whole in zip(*columns, strict=True):
        key, pos = tuple(name), TOP if whole else tuple(at)
        bounds[key] = min(pos, bounds.get(key, pos))
    return bounds


def _rows_left(states: pa.Table) -> int:
    return int(pc.sum(pc.invert(states["gone"])).as_py() or 0)


def _gone(keys: Sequence[Key], work: TableBatch) -> pa.Table:
    """Keys of which no row is to be left."""
    rows = [
        {"kind": "state", "key": list(key), "gone": True, "whole": False, "label": work.shape.label}
        for key in keys
    ]
    return pa.Table.from_pylist(rows, SCHEMA)
