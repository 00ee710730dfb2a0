"""A batch applied exactly, because some of its events may be late: the steps that the modes share.

1. `verdicts.judge`: set aside what cannot be placed or does not fit, and judge every key.
2. `late_keys.late_keys`: find the keys that have to be folded again, with those that key changes
   link to them.
3. The mode takes the states of the keys on time from the batch (`on_time`), and those of the late
   ones from silver's history (`fold_late`), and merges both.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ingest.codes import Code
from ingest.fold.arrow import OUTPUT, Run
from ingest.position import Pos
from ingest.sql.fold.late_keys import counts_of_refolded, of_kinds, without_keys
from ingest.sql.fold.reconstruction import events_that_fit
from ingest.sql.projection import events
from ingest.sql.silver import ROW_CHANGES
from pipelines.apply.batch import TableBatch
from pipelines.apply.frames import Frames
from pipelines.apply.late_history import changes_of
from pipelines.apply.late_keys import LateKeys, check_found
from pipelines.apply.linked_keys import linked_keys
from pipelines.apply.rejects import baseless_rejects, resolve_rejects
from pipelines.apply.verdicts import Judged, by_component, run_here
from pipelines.platform.rows import rows
from pipelines.targets.rejects import have_rejects


class Refolded(NamedTuple):
    """What folding late keys again gave: a relation of `results` of `ingest.fold.arrow`. `states`:
    how many are of kind `state`; `rows`: how many of these leave a row. `last_baseless`: the
    position of the highest partial image without a base, None if each has one. `counts`: the counts
    by columns of `gold._progress`."""

    results: str
    states: int
    rows: int
    last_baseless: Pos | None
    counts: Counter[str]

    @property
    def baseless(self) -> str | None:
        """A relation of the partial images without a base; None if each has one."""
        return self.of_kind("baseless") if self.last_baseless is not None else None

    def of_kind(self, kind: str) -> str:
        """A relation of the results of one kind."""
        return f"({of_kinds(self.results, [kind])})"


def on_time(
    frames: Frames, batch: TableBatch, *, judged: Judged, late: LateKeys
) -> tuple[str | None, int]:
    """A relation of the states of the keys that are not folded again, None if there are none; and
    an upper bound on the number of rows that they leave."""
    if judged.large is None:
        states = judged.verdicts.filter(pc.equal(judged.verdicts["kind"], "state"))
        if late.groups:
            kept = [tuple(key) not in late.groups for key in states["key"].to_pylist()]
            states = states.filter(pa.array(kept, pa.bool_()))
        view = frames.view(states) if states.num_rows else None
        if view is not None and late.groups is None:
            view = _unless(view, late)
        return view, _rows_left(states)
    states = f"({of_kinds(judged.large, ['state'])})"
    return _unless(states, late), batch.total("changes")


def _unless(states: str, late: LateKeys) -> str:
    """A relation of the states without those of the late keys."""
    if not late.keys:
        return states
    return f"({without_keys(states, late.relation)})"


def fold_late(frames: Frames, batch: TableBatch, late: LateKeys, *, run: Run) -> Refolded:
    """Fold the late keys from history; without a late key there is nothing to do. Rejects that are
    settled by it are resolved."""
    if late.keys:
        refolded = fold_again(frames, batch, late, run=run)
    else:
        refolded = Refolded("", states=0, rows=0, last_baseless=None, counts=Counter())
    _resolve_based(frames, batch, refolded)
    return refolded


def fold_again(frames: Frames, batch: TableBatch, late: LateKeys, *, run: Run) -> Refolded:
    """Apply `run`, a fold of history, to the history of the late keys. Partial images that have no
    base there are set aside, and those that have one now are resolved."""
    refolded = folded(frames, batch, late, run=run)
    counts = refolded.counts + Counter(late=late.found, keys_refolded=late.keys)
    baseless = refolded.baseless
    if baseless is not None:
        counts["rejected"] += baseless_rejects(frames, batch, baseless)
    if batch.watermarks.last_baseless is not None:
        partial = "after_image = 'partial'"
        code = Code.NO_BASE_IMAGE
        resolve_rejects(frames, batch, late.relation, code=code, where=partial, still=baseless)
    return refolded._replace(counts=counts)


def _resolve_based(frames: Frames, batch: TableBatch, refolded: Refolded) -> None:
    """Resolve the rejects of those partial images of the batch that have a base: a run that was cut
    off may have set them aside before their base came."""
    if not batch.total("partials"):
        return
    code, source = Code.NO_BASE_IMAGE, batch.projection.source
    if not have_rejects(frames.warehouse, source, batch.target, code=code.value):
        return
    where = f"{batch.these} AND after_image = 'partial'"
    resolve_rejects(frames, batch, None, code=code, where=where, still=refolded.baseless)


def folded(frames: Frames, batch: TableBatch, late: LateKeys, *, run: Run) -> Refolded:
    """Apply `run`, a fold of history, to the history of the keys.

    Raises TableError if there is none of a key that the batch brings.
    """
    changes, files = changes_of(frames, batch, late)
    counts = Counter(files_read=files)
    if not isinstance(changes, pa.Table):
        results = frames.set_down(by_component(changes).mapInArrow(run, OUTPUT))
        return _of_workers(frames, late, results, target=batch.target)._replace(counts=counts)
    found = run_here(run, changes)
    keys = {tuple(key) for key in found["key"].to_pylist()}
    check_found(batch.target, [key for key in late.brought if key not in keys])
    states = found.filter(pc.equal(found["kind"], "state"))
    baseless = found.filter(pc.equal(found["kind"], "baseless"))["pos"].to_pylist()
    last_baseless = tuple(max(baseless)) if baseless else None
    return Refolded(frames.view(found), states.num_rows, _rows_left(states), last_baseless, counts)


def _of_workers(frames: Frames, late: LateKeys, results: str, *, target: str) -> Refolded:
    """Results that stay with Spark's workers, once every key that was asked for is found among
    them."""
    [(states, left, last_baseless, missed, one)] = rows(
        frames.sql(counts_of_refolded(results, late.relation))
    )
    check_found(target, [tuple(one)] if missed else [], more=missed - 1)
    last = tuple(last_baseless) if last_baseless else None
    return Refolded(results, states, left, last, counts=Counter())


def _rows_left(states: pa.Table) -> int:
    """How many of the states leave a row."""
    return int(pc.sum(pc.invert(states["gone"])).as_py() or 0)


def folded_history(frames: Frames, batch: TableBatch, run: Run, *, among: str | None = None) -> str:
    """A relation of what `run` makes of the whole history of the source table, folded event by
    event in Spark's workers; with `among`, of the keys of that relation only."""
    listed = events(batch.projection, batch.history(ROW_CHANGES))
    linked = linked_keys(frames, batch)
    chosen = events_that_fit(listed, among=among, linked=linked)
    return frames.view(by_component(frames.sql(chosen)).mapInArrow(run, OUTPUT))
