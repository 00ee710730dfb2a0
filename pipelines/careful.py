"""The careful way: what a batch leads to when some of its events may be late.

Every key is judged (`ingest.late`). Keys that are on time are folded from the batch alone, late
ones from silver's history (`pipelines.late_keys`), together with the keys that key changes link
them to. A batch of up to SMALL changes is judged and folded here, in the driver; a larger one in
Spark's workers, by the same functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ingest import late
from ingest.codes import Code
from ingest.fold import Key
from ingest.kin import linked
from ingest.latest import latest
from ingest.order import TOP, Pos, pos_literal
from ingest.refold import OUTPUT, SCHEMA, Run, fold_batches, sort_out
from ingest.shape import events
from pipelines.key_history import array_of, moves, named_above
from pipelines.late_keys import based, changes_of
from pipelines.rejects import (
    baseless_rejects,
    conflict_rejects,
    horizon_rejects,
    misfit_rejects,
    settle,
)
from pipelines.traces import Traces, hashes, places, trace
from pipelines.work import Work

SMALL = 50_000


class Careful:
    """Judges and folds one batch. After `rows`: what to count, and what the MERGE should change.

    `counts`: those of `gold._progress`, and `unfit` where some value did not fit. `expected`: how
    many rows it should write, were there no change that changes nothing. `orphans`: positions of
    partial images without base.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._small = work.total("changes") <= SMALL
        self.counts: Counter[str] = Counter()
        self.expected = 0
        self.orphans: list[Pos] = []
        self._bounds: dict[Key, Pos] = {}
        self._traces: Traces | None = None

    def rows(self) -> str | None:
        """SQL of the rows for the MERGE; None where nothing is to be merged."""
        work = self._work
        self.counts["rejected"] += horizon_rejects(work)
        all_events = events(work.shape, work.changes())
        judged = self._judged(all_events)
        self._bounds = _bounds(judged)
        if pc.any(pc.equal(judged["kind"], "unfit")).as_py():
            self.counts["unfit"] = 1
            self.counts["rejected"] += misfit_rejects(work, all_events)
        late_keys = _keys(judged, "late")
        doubtful = judged.filter(pc.equal(judged["kind"], "doubtful")).select(["key", "pos"])
        if doubtful.num_rows or (late_keys and based(work)):
            self._traces = self._traced(doubtful)
        if doubtful.num_rows:
            late_keys |= named_above(work, doubtful, self._overtaking(doubtful), self._traces)
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
        """SQL of the rows for a MERGE that folds some keys again."""
        return f"({' UNION ALL '.join(self._refolded(self._components(keys)))})"

    def nothing(self) -> str:
        """SQL of no rows at all, for a MERGE that only truncates."""
        nobody = self._work.view(_gone([("",) * len(self._work.shape.keys)], self._work))
        return f"({self._work.typed_states(nobody, exact=True)} WHERE false)"

    def _judged(self, all_events: str) -> pa.Table:
        """The verdicts on all keys; with their states where the batch is small."""
        work, marks = self._work, self._work.marks
        stored = late.stored_rows(work.target_name, work.shape, soft=work.soft)
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
            floors=late.Floors(
                skipped=marks.skipped,
                removed=marks.removed,
                partials=marks.partials or work.partial,
                orphans=marks.orphans,
            ),
        )
        if self._small:
            return run_here(run, judged.toArrow())
        spread = judged.repartition(2, "component").sortWithinPartitions("component")
        self._large = spread.mapInArrow(run, OUTPUT)
        verdicts = self._large.where("kind NOT IN ('state', 'baseless')").toArrow()
        return verdicts.cast(SCHEMA) if verdicts.num_rows else SCHEMA.empty_table()

    def _traced(self, doubtful: pa.Table) -> Traces | None:
        """What silver has of the late and doubtful keys; None where it is not read by hash."""
        doubts = places(doubtful)
        bounds = self._bounds if based(self._work) else None
        known = hashes(self._work, doubts if bounds is None else bounds)
        if known is None:
            return None
        what = self._overtaking(doubtful) if doubts else "false"
        return trace(self._work, known, bounds, doubts=doubts, what=what)

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
            f"JOIN ({late.stored_rows(work.target_name, work.shape, soft=work.soft)}) t "
            f"ON t.key = e.key WHERE {work.below_cuts('t._pos')}"
        ).collect()
        return {tuple(row[0]) for row in rows}

    def _marked_anew(self) -> set[Key]:
        """The rows that a truncate marked as deleted, and one that comes late ended before."""
        work, unseen = self._work, self._work.marks.unseen(self._work.new_cuts)
        above = [cut for cut in work.marks.cuts if unseen and cut > unseen[0]]
        if not work.soft or not above:
            return set()
        stored = late.stored_rows(work.target_name, work.shape, soft=True)
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
        states_view = work.view(self._large.where("kind = 'state'"))
        kept = f"(SELECT s.* FROM {states_view} s LEFT ANTI JOIN {unless} l ON l.key = s.key)"
        return work.typed_states(kept, exact=False)

    def _refolded(self, components: Mapping[Key, int]) -> list[str]:
        """SQL of the states of the late keys and their kin, folded from history."""
        work = self._work
        run = fold_batches(
            soft=work.soft, by_arrival=work.shape.by_arrival, truncates=work.truncates()
        )
        folded = self._folded(components, run)
        states = folded.filter(pc.equal(folded["kind"], "state"))
        self.expected += _rows_left(states)
        found = {tuple(key) for key in states["key"].to_pylist()}
        empty = [key for key in components if key not in found]
        states = pa.concat_tables([states, _gone(empty, work)])
        return [work.typed_states(work.view(states), exact=True)] if states.num_rows else []

    def _folded(self, components: Mapping[Key, int], run: Run) -> pa.Table:
        """What `run` gives of the history of the late keys and their kin."""
        found = changes_of(self._work, components, self._bounds, self._traces)
        self.counts["keys_refolded"] += len(components)
        self.counts["files_read"] += found.files
        if isinstance(found.changes, pa.Table):
            folded = run_here(run, found.changes)
        elif self._small:
            folded = run_here(run, found.changes.toArrow())
        else:
            spread = found.changes.repartition(2, "component").sortWithinPartitions("component")
            folded = spread.mapInArrow(run, OUTPUT).toArrow()
        self._note_baseless(folded, components)
        return folded

    def _components(self, late_keys: Collection[Key]) -> dict[Key, int]:
        """Late keys and all that key changes link to them, each with its group's number."""
        work = self._work
        moved = work.marks.removed is not None or work.total("moves")
        return linked(late_keys, moves(work, self._traces) if moved else [])

    def _note_baseless(self, folded: pa.Table, components: Collection[Key]) -> None:
        work = self._work
        baseless = folded.filter(pc.equal(folded["kind"], "baseless"))
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


def run_here(run: Run, table: pa.Table) -> pa.Table:
    """`run` over all rows at once, here."""
    if not table.num_rows:
        return SCHEMA.empty_table()
    batches = table.sort_by("component").to_batches()
    return pa.Table.from_batches(run(iter(batches)), SCHEMA)


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


def _gone(keys: Sequence[Key], work: Work) -> pa.Table:
    """Keys that history leaves nothing of: whatever row there is has no ground."""
    rows = [
        {"kind": "state", "key": list(key), "gone": True, "whole": False, "label": work.shape.label}
        for key in keys
    ]
    return pa.Table.from_pylist(rows, SCHEMA)
