"""Some rows of a target folded again from all of silver: those of events that fit at last.

The fold reads every event through the lineage (`ingest.lineage`). One MERGE changes what differs
and nothing else; done twice it changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from ingest.casts import sql_text
from ingest.config import Config
from ingest.fold import Key
from ingest.kin import linked
from ingest.lineage import Lineage
from ingest.merge import Merge
from ingest.merge import sql as merge_sql
from ingest.names import SourceTable
from ingest.order import Pos
from ingest.refold import fold_batches
from ingest.routes import Route
from ingest.shape import column, events
from pipelines.careful import run_here
from pipelines.key_history import array_of
from pipelines.progress import Marks, Progress
from pipelines.survey import survey, with_moves
from pipelines.tables import Warehouse
from pipelines.target_shape import key_of, shape_of
from pipelines.targets import columns_of
from pipelines.work import Work

Origin = tuple[str, int, int, int]
"""Topic, partition, offset and row of an event."""


def all_of(
    warehouse: Warehouse,
    config: Config,
    route: Route,
    table: SourceTable,
    *,
    lineage: Lineage,
    stand: Progress | None = None,
    also: tuple[SourceTable, ...] = (),
) -> Work | None:
    """All of a source table that its target has applied, as work; None where there is no change, no
    target or no key. `also`: names that the table has had since."""
    columns = columns_of(warehouse, route.target)
    last, only = stand.applied if stand is not None else (None, "true")
    marks = stand.marks if stand is not None else {}
    found = survey(warehouse, table.source, 0, [table, *also])
    slices = [
        slice_._replace(table=table)
        for slice_ in found.slices
        if slice_.changes and (last is None or slice_.batch <= last)
    ]
    if columns is None or not slices:
        return None
    keys = key_of(warehouse, config, route, slices, lineage)
    if not keys or not {key.lower() for key in keys} <= {name.lower() for name in columns}:
        return None
    types = [listed for listings in found.types.values() for listed in listings]
    shape = shape_of(config, route, keys, columns, slices, lineage, types)
    if not shape.native:
        slices = [with_moves(warehouse, slice_, also, shape.moved) for slice_ in slices]
    return Work(
        warehouse=warehouse,
        marks=Marks(horizons=marks.get(shape.label, Marks()).horizons),
        table=table,
        also=also,
        shape=shape,
        slices=slices,
        target=route.target,
        above=0,
        last=max(slice_.batch for slice_ in slices),
        soft=route.deletes == "soft",
        fresh=False,
        shared=len({*marks, shape.label}) > 1,
        only=only,
    )


def refold(work: Work, keys: Collection[Key]) -> dict[Origin, Pos]:
    """Bring the rows of `keys` (and of what key changes link to them) to what history says; gives
    the partial images among them that found no base, and where they stand."""
    baseless: dict[Origin, Pos] = {}
    try:
        rows = f"({_states(work, keys, baseless)})"
        statement = merge_sql(
            Merge(
                target=work.target_name,
                rows=rows,
                keys=work.shape.keys,
                columns=work.shape.columns,
                sets=tuple(work.shape.columns),
                source=work.shape.source,
                soft=work.soft,
                mixed=True,
            )
        )
        work.warehouse.session.sql(statement)
    finally:
        work.forget()
    return baseless


def _states(work: Work, keys: Collection[Key], baseless: dict[Origin, Pos]) -> str:
    """SQL of the states of `keys` and their kin as rows for a MERGE; their partial images without
    base are put into `baseless`."""
    listed = events(work.shape, work.history("op <> 'truncate'"))
    groups = _groups(work, keys)
    kin = work.view(
        pa.table(
            {
                "key": array_of(groups),
                "component": pa.array([str(n) for n in groups.values()], pa.string()),
            }
        )
    )
    chosen = (
        f"SELECT /*+ BROADCAST(l) */ h.*, l.component FROM ({listed}) h JOIN {kin} l "
        "ON l.key = h.key WHERE h.key IS NOT NULL AND size(h.misfits) = 0"
    )
    run = fold_batches(soft=work.soft, by_arrival=work.shape.by_arrival, truncates=work.truncates())
    found = run_here(run, work.warehouse.session.sql(chosen).toArrow())
    for row in found.filter(pc.equal(found["kind"], "baseless")).to_pylist():
        origin = row["topic"], row["partition"], row["offset"], row["place"]
        baseless[origin] = tuple(row["pos"])
    rows = work.typed_states(f"{work.view(found)} WHERE kind = 'state'", exact=True)
    return _own(work, rows) if work.shared else rows


def _own(work: Work, rows: str) -> str:
    """The rows whose key no other source table's row has (27)."""
    on = " AND ".join(f"t.{column(k)} = s._k{i}" for i, k in enumerate(work.shape.keys))
    return (
        f"SELECT s.* FROM ({rows}) s LEFT ANTI JOIN {work.target_name} t "
        f"ON {on} AND t._source_table <> {sql_text(work.shape.label)}"
    )


def _groups(work: Work, keys: Collection[Key]) -> dict[Key, int]:
    """The keys and those that key changes link to them, each with its group's number."""
    edges: list[tuple[Key, Key]] = []
    if work.total("moves"):
        moved = events(work.shape, work.history(work.shape.moved))
        found = work.warehouse.session.sql(
            f"SELECT DISTINCT key_before, key FROM ({moved}) "
            "WHERE key IS NOT NULL AND key_before IS NOT NULL"
        ).toArrow()
        pairs = zip(*(column.to_pylist() for column in found.columns), strict=True)
        edges = [(tuple(before), tuple(after)) for before, after in pairs]
    return linked(set(keys), edges)
