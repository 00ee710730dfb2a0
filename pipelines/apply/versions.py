"""One batch of an SCD 2 target: versions ended and begun by one MERGE (`ingest.sql.versions`).

The fast plan takes the batch's own changes as steps, in SQL; it holds while every change is newer
than what was applied and every image is whole. Whatever the statistics rule out, or Spark meets on
the way, goes the careful way: late keys get their versions anew from all of silver, the others
their next ones from the batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from ingest.fold import steps as trail
from ingest.fold.arrow import OUTPUT, SCHEMA
from ingest.fold.fold import Change, Key
from ingest.fold.lateness import Floors
from ingest.position import PHASE, STREAMED, Pos, pos_literal
from ingest.sql import versions
from ingest.sql.casts import sql_text
from ingest.sql.merge import Truncate
from ingest.sql.projection import as_text, column, events
from pipelines.apply.batch import TableBatch
from pipelines.apply.commits import commits, recorded
from pipelines.apply.exact import Careful, by_component, run_here, verdicts_of
from pipelines.apply.rows import carry_out, marked, surprised
from pipelines.apply.set_aside import conflict_rejects
from pipelines.platform.rows import array_of
from pipelines.platform.rows import rows as rows_of
from pipelines.targets.progress import Watermarks


def apply(work: TableBatch) -> tuple[Watermarks, Counter[str]]:
    """Bring the target forward; gives the new marks of the source table and what to count."""
    counts: Counter[str] = Counter()
    careful = None
    try:
        before = recorded(work)
        if not (work.simple and before is not None and _merge_timely(work, counts)):
            careful = Versions(work, again=before is None)
            rows = careful.rows()
            counts.update(careful.counts)
            if rows is not None or work.new_cuts:
                merge(work, rows or careful.nothing(), counts, careful=careful)
    finally:
        work.forget()
    counts["events"] = work.total("changes")
    counts["zero_dates"] = work.total("zero_dates")
    marks = _new_marks(work, counts, careful)
    if before is None or counts["keys_refolded"]:
        # Versions that are put as they were are copied, which no count shows.
        return replace(marks, version=commits(work, 1)[0].version), counts
    # A commit that is not foreseen here makes the next batch careful, and nothing worse.
    wrote = bool(counts["inserted"] or counts["updated"] or counts["deleted"])
    return replace(marks, version=before + wrote), counts


def _merge_timely(work: TableBatch, counts: Counter[str]) -> bool:
    steps = versions.changes_as_steps(work.shape, work.changes(), sets=work.sets)
    stored = versions.stored_versions(
        work.shape, work.target_name, timely=work.timely, keys=f"SELECT * FROM ({steps})"
    )
    relation = versions.beside(work.shape, steps, stored)
    try:
        merge(work, versions.rows(work.shape, relation, sets=work.sets), counts, careful=None)
    except Exception as error:
        if surprised(error):
            return False
        raise
    return True


def merge(work: TableBatch, rows: str, counts: Counter[str], *, careful: Versions | None) -> None:
    cuts = careful.truncates if careful is not None else []
    statement = versions.merge_sql(
        versions.Merge(
            target=work.target_name,
            rows=rows,
            shape=work.shape,
            soft=work.soft,
            timely=careful is None,
            cuts=tuple(
                Truncate(
                    label=work.shape.label,
                    pos=cut.pos,
                    by_arrival=cut.by_arrival,
                    time=cut.event_time,
                )
                for cut in cuts
                if cut.pos in work.new_cuts
            ),
        )
    )
    carry_out(work, statement, counts)


def _new_marks(work: TableBatch, counts: Counter[str], careful: Versions | None) -> Watermarks:
    upserts = work.total("changes") - work.total("deletes") - work.total("truncates")
    skipped = counts["inserted"] < upserts
    marks = marked(work, careful, skipped=skipped, partial=bool(work.total("partials")))
    if not counts["keys_refolded"]:
        return marks
    # A late change may be what one above it, which began a version, now repeats.
    return replace(marks, skipped=marks.applied)


class Versions(Careful):
    """Judges one batch, and gives the rows for the MERGE of versions.

    `again`: the batch may have been applied before, without a record of it.
    """

    def __init__(self, work: TableBatch, *, again: bool = False) -> None:
        super().__init__(work)
        self._again = again

    @cached_property
    def truncates(self) -> list[Change]:
        """All truncates there were, with their times."""
        work = self._work
        if not work.cuts:
            return []
        rows = work.warehouse.session.sql(
            f"SELECT pos, min(unix_micros(event_time)) FROM ({work.history(_TRUNCATE)}) "
            f"GROUP BY pos"
        ).collect()
        return [
            Change(
                op="truncate",
                pos=tuple(pos),
                table=work.shape.label,
                key=None,
                event_time=micros,
                by_arrival=work.shape.by_arrival,
                digest=number,
            )
            for number, (pos, micros) in enumerate(sorted(map(tuple, rows)))
        ]

    def nothing(self) -> str:
        """SQL of no rows at all, for a MERGE that only truncates."""
        nobody = self._work.view(SCHEMA.empty_table())
        return self._rows_of(nobody, exact=True)

    def of_history(self, relation: str) -> str:
        """SQL of the versions that all history leads to; `relation` has the steps of each key."""
        return self._rows_of(relation, exact=True)

    def of_batches(self) -> str:
        """SQL of the versions that the changes lead to, where they are simple; see
        `versions.changes_as_steps`."""
        work = self._work
        steps = versions.changes_as_steps(work.shape, work.changes(), sets=work.sets)
        return versions.rows(
            work.shape, f"SELECT *, {self._nothing_open()} FROM ({steps})", sets=work.sets
        )

    def _nothing_open(self) -> str:
        shape = self._work.shape
        fields = ", ".join(f"{slot}: {shape.columns[name]}" for name, slot in shape.slots.items())
        return (
            f"CAST(NULL AS struct<_pos: array<bigint>, {fields}>) AS _open, "
            "CAST(NULL AS timestamp) AS _clock"
        )

    def _judged(self, all_events: str) -> pa.Table:
        work, marks = self._work, self._work.marks
        shape = work.shape
        parts = ", ".join(as_text(column(key), shape.columns[key]) for key in shape.keys)
        kept = "_pos, _current, _source_table"
        named = f"SELECT array({parts}) AS key, {kept} FROM {work.target_name}"
        fits = "e.key IS NOT NULL AND size(e.misfits) = 0"
        label = f"_source_table = {sql_text(shape.label)}"
        joined = ""
        if work.shared:
            others = work.held_by_others
            self.counts["rejected"] += conflict_rejects(work, all_events, others)
            joined = f"LEFT JOIN ({others}) o ON o.key = e.key"
            fits += " AND o.key IS NULL"
        stored = (
            f"SELECT key, max(_pos) AS newest, max(_pos) FILTER (WHERE _current) AS opened "
            f"FROM ({named}) t LEFT SEMI JOIN (SELECT key AS k FROM ({all_events})) ON k = key "
            f"WHERE {label} GROUP BY key"
        )
        judged = work.warehouse.session.sql(
            f"SELECT e.*, to_json(e.key) AS component, t.newest AS stored, t.opened, "
            f"{fits} AS fits FROM ({all_events}) e LEFT JOIN ({stored}) t ON t.key = e.key {joined}"
        )
        truncates = self.truncates
        run = trail.sort_out(
            by_arrival=shape.by_arrival,
            floors=Floors(skipped=marks.skipped, removed=marks.removed, orphans=marks.orphans),
            cuts=truncates,
            new_cuts=[cut for cut in truncates if cut.pos in work.new_cuts],
            again=self._again,
        )
        if self._small:
            return run_here(run, judged.toArrow())
        self._large = work.view(by_component(judged).mapInArrow(run, OUTPUT))
        return verdicts_of(work, self._large)

    def _overtaking(self, doubtful: pa.Table) -> str:
        """Any earlier change may have been one that changed nothing, or removed the row."""
        lowest: Pos = min(tuple(pos) for pos in doubtful["pos"].to_pylist())
        if lowest[PHASE] != STREAMED or self._work.shape.sequence:
            return "op <> 'truncate'"
        return f"op <> 'truncate' AND epoch >= {lowest[0]} AND pos > {pos_literal(lowest)}"

    def _put_back(self) -> set[Key]:
        """The keys with versions below a truncate that comes late, and changes above it.

        Where that change is a truncate itself, it concerns them all.
        """
        work, shape, applied = self._work, self._work.shape, self._work.marks.applied
        parts = ", ".join(as_text(column(key), shape.columns[key]) for key in shape.keys)
        label = f"_source_table = {sql_text(shape.label)}"
        keys: set[Key] = set()
        for cut in work.marks.unseen(work.new_cuts):
            if applied is not None and cut > applied:
                break
            at = pos_literal(cut)
            found = (
                f"SELECT DISTINCT array({parts}) AS key FROM {work.target_name} "
                f"WHERE _pos < {at} AND {label}"
            )
            if all(earlier < cut for earlier in work.marks.cuts):
                above = events(shape, work.earlier(f"op <> 'truncate' AND pos > {at}"))
                found = f"SELECT t.key FROM ({found}) t LEFT SEMI JOIN ({above}) e ON e.key = t.key"
            keys |= {tuple(key) for (key,) in rows_of(work.warehouse.session.sql(found))}
        return keys

    def _on_time(self, judged: pa.Table, late_keys: Collection[Key]) -> str | None:
        work = self._work
        if self._small:
            states = judged.filter(pc.equal(judged["kind"], "state"))
            kept = [tuple(key) not in late_keys for key in states["key"].to_pylist()]
            states = states.filter(pa.array(kept, pa.bool_()))
            return self._rows_of(work.view(states), exact=False) if states.num_rows else None
        unless = work.view(pa.table({"key": array_of(late_keys)}))
        states_view = f"(SELECT * FROM {self._large} WHERE kind = 'state')"
        kept_rows = f"(SELECT s.* FROM {states_view} s LEFT ANTI JOIN {unless} l ON l.key = s.key)"
        return self._rows_of(kept_rows, exact=False)

    def _refolded(self, components: Mapping[Key, int]) -> list[str]:
        work = self._work
        run = trail.retrace(by_arrival=work.shape.by_arrival, truncates=self.truncates)
        folded = self._folded(components, run)
        rows = self._rows_of(folded.states or work.view(SCHEMA.empty_table()), exact=True)
        known = [key for key in components if key in folded.keys]
        keys = self._typed_keys(work.view(pa.table({"key": array_of(known)})))
        gone = versions.unknown(work.shape, work.target_name, keys=keys, known=rows)
        return [rows, gone]

    def _rows_of(self, relation: str, *, exact: bool) -> str:
        """SQL of the rows that steps lead to; `exact`: nothing stored is their base."""
        work, shape = self._work, self._work.shape
        typed = work.typed_states(relation, exact=exact)
        if exact:
            beside = f"SELECT *, {self._nothing_open()} FROM ({typed})"
        else:
            stored = versions.stored_versions(
                shape, work.target_name, timely=False, keys=self._typed_keys(relation)
            )
            beside = versions.beside(shape, typed, stored)
        filled = "".join(
            f", IF(_sets IS NULL OR array_contains(_sets, {sql_text(name)}), {slot}, "
            f"_open.{slot}) AS {slot}"
            for name, slot in shape.slots.items()
            if name not in shape.keys
        )
        keys = ", ".join(f"_k{i}" for i in range(len(shape.keys)))
        steps = (
            f"SELECT {keys}, _gone, _pos, _event_time, _source_table, _open, _clock{filled} "
            f"FROM ({beside})"
        )
        return versions.rows(shape, steps)

    def _typed_keys(self, relation: str) -> str:
        return f"SELECT DISTINCT {self._work.typed_key} FROM {relation}"


_TRUNCATE = "op = 'truncate'"
