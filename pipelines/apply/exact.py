"""A batch applied exactly, when some of its events may be late: the steps that modes share.

1. `judge`: what cannot be placed or does not fit is set aside, every key judged
   (`ingest.fold.lateness`).
2. `late_keys`: which keys have to be folded again, with those that key changes link to them.
3. The mode takes the states of the keys on time from the batch (`on_time`), those of the late ones
   from silver's history (`fold_again`, `pipelines.apply.prior_images`), and merges both.

A small batch (`TableBatch.small`) is judged and folded here, in the driver; a larger one in Spark's
workers, by the same functions: of that only keys and positions come here, never images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from ingest.codes import Code
from ingest.errors import TableError
from ingest.fold import lateness
from ingest.fold.arrow import ORIGIN, OUTPUT, SCHEMA, Run
from ingest.fold.fold import Key
from ingest.fold.key_groups import key_groups
from ingest.position import TOP, Pos, pos_literal
from ingest.sql.delivery import listed
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


class Judged(NamedTuple):
    """A batch whose keys are judged.

    `verdicts`: results of `ingest.fold.arrow`, with the states of keys on time where the batch is
    small; else these are in the relation `large`. `bounds`: where the fold of a late or doubtful
    key has to start below. `counts`: what was set aside, and what is stale.
    """

    verdicts: pa.Table
    large: str | None
    bounds: Mapping[Key, Pos]
    counts: Counter[str]


class Late(NamedTuple):
    """The keys that are folded again. `groups`: each with the number of the group that key changes
    link it into; `found`: those of them that are late themselves, `brought`: that the batch brings.
    `bounds`, `traces`: where the fold of each has to start below, and where silver has them, as far
    as that is known. `given`: those whose changes another source table's row no longer sets
    aside."""

    groups: Mapping[Key, int]
    found: Collection[Key]
    brought: Collection[Key]
    bounds: Mapping[Key, Pos] = {}
    traces: Traces | None = None
    given: Collection[Key] = ()


class Refolded(NamedTuple):
    """What late keys come to. `states`: a relation of results of kind `state`, None where there is
    none. `keys`: those of which there was something. `rows`: how many states leave a row.
    `baseless`: the partial images without base, by their coordinates. `files`: how many files of
    silver their images were read from."""

    states: str | None
    keys: set[Key]
    rows: int
    baseless: pa.Table
    files: int = 0


def judge(batch: TableBatch, stored: Callable[[str], str], *, told: str, run: Run) -> Judged:
    """Judge every key of the batch by `run`.

    `stored` gives, for SQL of the batch's events, SQL of what is stored of their keys, and `told`
    the columns of that which `run` is to see.
    """
    counts = Counter(rejected=horizon_rejects(batch))
    all_events = events(batch.shape, batch.changes())
    fits = "e.key IS NOT NULL AND size(e.misfits) = 0"
    joined = ""
    if batch.shared:
        others = batch.held_by_others
        counts["rejected"] += conflict_rejects(batch, all_events, others)
        joined = f"LEFT JOIN ({others}) o ON o.key = e.key"
        fits += " AND o.key IS NULL"
    beside = batch.warehouse.session.sql(
        f"SELECT e.*, to_json(e.key) AS component, {told}, {fits} AS fits "
        f"FROM ({all_events}) e LEFT JOIN ({stored(all_events)}) t ON t.key = e.key {joined}"
    )
    large = None
    if batch.small:
        verdicts = run_here(run, beside.toArrow())
    else:
        large = batch.view(by_component(beside).mapInArrow(run, OUTPUT))
        verdicts = verdicts_of(batch, large)
    if pc.any(pc.equal(verdicts["kind"], "unfit")).as_py():
        counts["unfit"] = 1
        counts["rejected"] += misfit_rejects(batch, all_events)
    stale = verdicts.filter(pc.is_in(verdicts["kind"], pa.array(["stale", "passed"])))
    counts["stale"] += pc.sum(stale["stale"]).as_py() or 0
    return Judged(verdicts, large, _bounds(verdicts), counts)


def late_keys(
    batch: TableBatch,
    judged: Judged,
    *,
    overtaking: Callable[[pa.Table], str],
    also: Collection[Key],
) -> Late:
    """The keys to fold again: those that are late, the doubtful ones that an earlier change makes
    late, and `also`; with all that key changes link to them.

    `overtaking` gives, for the doubtful keys, SQL that is true for the earlier changes that may
    make one late, besides those that move a key.
    """
    found = _keys(judged.verdicts, "late")
    doubtful = judged.verdicts.filter(pc.equal(judged.verdicts["kind"], "doubtful"))
    doubtful = doubtful.select(["key", "pos"])
    what = overtaking(doubtful) if doubtful.num_rows else "false"
    traces = None
    if doubtful.num_rows or (found and based(batch)):
        traces = _traced(batch, judged.bounds, doubts=places(doubtful), what=what)
    if doubtful.num_rows:
        found |= named_above(batch, doubtful, what, traces=traces)
    found |= {*also}
    groups = _linked(batch, found, traces) if found else {}
    return Late(groups, found, judged.bounds.keys(), judged.bounds, traces)


def freed_keys(batch: TableBatch, keys: Collection[Key]) -> Late:
    """As `late_keys`, of keys that no other source table's row holds any more, and of which there
    are changes."""
    return Late(_linked(batch, keys, None), (), keys, given=keys)


def marked_by_truncates(batch: TableBatch) -> set[Key]:
    """The rows that a truncate marked as deleted, and one that comes late ended before."""
    unseen = batch.unseen_cuts
    above = [cut for cut in batch.earlier_cuts if unseen and cut > unseen[0]]
    if not batch.soft or not above:
        return set()
    stored = lateness.stored_rows(batch.target_name, batch.shape, soft=True)
    marks = ", ".join(map(pos_literal, above))
    rows = batch.warehouse.session.sql(f"SELECT key FROM ({stored}) WHERE _pos IN ({marks})")
    return {tuple(key) for (key,) in rows.collect()}


def on_time(batch: TableBatch, judged: Judged, late: Late) -> tuple[str | None, int]:
    """A relation of the states of the keys that are not folded again, None where there is none; and
    how many rows they leave, or more."""
    if judged.large is None:
        states = judged.verdicts.filter(pc.equal(judged.verdicts["kind"], "state"))
        if late.groups:
            kept = [tuple(key) not in late.groups for key in states["key"].to_pylist()]
            states = states.filter(pa.array(kept, pa.bool_()))
        return (batch.view(states) if states.num_rows else None), _rows_left(states)
    states = f"(SELECT * FROM {judged.large} WHERE kind = 'state')"
    again = late_relation(batch, late)
    others = f"(SELECT s.* FROM {states} s LEFT ANTI JOIN {again} l ON l.key = s.key)"
    return others, batch.total("changes")


def late_relation(batch: TableBatch, late: Late) -> str:
    """A relation of the late keys."""
    return batch.view(pa.table({"key": array_of(late.groups)}))


def fold_again(batch: TableBatch, late: Late, run: Run) -> Refolded:
    """What `run` makes of the history of the late keys; partial images that have no base there are
    set aside."""
    found = changes_of(batch, late.groups, late.bounds, traces=late.traces, given=late.given)
    folded = folded_by(batch, run, found.changes)
    check_found(batch.target, [k for k in late.brought if k in late.groups], folded.keys)
    return folded._replace(files=found.files)


def note_baseless(batch: TableBatch, late: Late, baseless: pa.Table) -> tuple[list[Pos], int]:
    """Set aside the partial images without base, and take back those that have one now; where the
    former stand, and how many are new."""
    rejected = baseless_rejects(batch, baseless)
    if batch.marks.orphans is not None:
        settle(
            batch,
            sorted(late.groups),
            code=Code.NO_BASE_IMAGE,
            where="after_image = 'partial'",
            still=baseless,
        )
    return [tuple(pos) for pos in baseless["pos"].to_pylist()], rejected


def by_component(events: DataFrame) -> DataFrame:
    """The events spread over Spark's workers, those that fold together side by side."""
    return events.repartition("component").sortWithinPartitions("component")


def verdicts_of(batch: TableBatch, judged: str) -> pa.Table:
    """What a relation of results says of keys, images apart: the late and doubtful ones one by one,
    the others in one row a kind."""
    named = "kind IN ('late', 'doubtful')"
    told = ", ".join(f"IF({named}, {name}, NULL) AS {name}" for name in ("key", "pos", "whole"))
    found = batch.warehouse.session.sql(
        f"SELECT kind, key, pos, whole, sum(stale) AS stale FROM (SELECT kind, {told}, stale "
        f"FROM {judged} WHERE kind NOT IN ('state', 'baseless')) GROUP BY kind, key, pos, whole"
    ).toArrow()
    columns = pa.schema([SCHEMA.field(name) for name in ("kind", "key", "pos", "whole", "stale")])
    return found.cast(columns) if found.num_rows else columns.empty_table()


def folded_by(batch: TableBatch, run: Run, changes: DataFrame | pa.Table) -> Refolded:
    """What `run`, a fold of history, makes of these changes, where they are."""
    if isinstance(changes, pa.Table):
        folded = run_here(run, changes)
        states = folded.filter(pc.equal(folded["kind"], "state"))
        view = batch.view(states) if states.num_rows else None
        rows = _rows_left(states)
    else:
        everything = batch.view(by_component(changes).mapInArrow(run, OUTPUT))
        place = listed(names=ORIGIN)
        folded = batch.warehouse.session.sql(
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


def _traced(
    batch: TableBatch, bounds: Mapping[Key, Pos], *, doubts: Mapping[Key, Pos], what: str
) -> Traces | None:
    """What silver has of the late and doubtful keys; None where it is not read by hash."""
    below = bounds if based(batch) else None
    known = hashes(batch, doubts if below is None else below)
    if known is None:
        return None
    found = trace(batch, known, below, doubts=doubts, what=what)
    if not batch.total("unhashed"):
        # The batch itself brings every one of them by its hash.
        seen = {key for key, hash_ in known.items() if hash_ in found.batches}
        check_found(batch.target, known, seen)
    return found


def _linked(batch: TableBatch, late: Collection[Key], traces: Traces | None) -> dict[Key, int]:
    """Late keys and all that key changes link to them, each with its group's number."""
    moved = batch.marks.removed is not None or batch.total("moves")
    edges = key_changes(batch, traces, of=late) if moved else []
    return key_groups(late, edges)


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
