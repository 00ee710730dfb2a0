"""A target's rows folded again from all of silver: when a schema change came after its data.

The fold reads every event through the lineage (`ingest.lineage`), so a column that was added,
renamed or retyped later is filled with what history has of it, and events that did not fit then and
do now come in. One MERGE changes what differs and nothing else; done twice it changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from ingest.casts import sql_text
from ingest.config import Config
from ingest.kin import linked
from ingest.lineage import Lineage
from ingest.merge import Merge
from ingest.merge import sql as merge_sql
from ingest.names import SourceTable
from ingest.refold import OUTPUT, fold_batches
from ingest.routes import Route
from ingest.shape import column, events
from pipelines.careful import Key, run_here
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
    shape = shape_of(config, route, keys, columns, slices, lineage)
    if not shape.native:
        slices = [with_moves(warehouse, slice_, shape.moved) for slice_ in slices]
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


def refold(work: Work, keys: Collection[Key] | None = None) -> set[Origin]:
    """Bring the rows of `keys` (and of what key changes link to them), or all, to what history
    says; gives the partial images among them that found no base."""
    baseless: set[Origin] = set()
    try:
        rows = f"({states(work, keys, baseless)})"
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


def states(work: Work, keys: Collection[Key] | None, baseless: set[Origin]) -> str:
    """SQL of the states of `keys` and their kin, or of all keys, as rows for a MERGE.

    Chosen keys are folded here, and their partial images without base put into `baseless`; all keys
    in Spark's workers.
    """
    session = work.warehouse.session
    listed = events(work.shape, work.history("op <> 'truncate'"))
    chosen = f"SELECT h.* FROM ({listed}) h WHERE h.key IS NOT NULL AND size(h.misfits) = 0"
    groups = _groups(work, keys)
    component = "to_json(h.key)"
    if groups or keys is not None:
        kin = work.view(
            pa.table(
                {
                    "key": pa.array([list(key) for key in groups], pa.list_(pa.string())),
                    "component": pa.array([str(n) for n in groups.values()], pa.string()),
                }
            )
        )
        how = "LEFT JOIN" if keys is None else "JOIN"
        chosen = (
            f"SELECT /*+ BROADCAST(l) */ h.*, coalesce(l.component, {component}) AS component "
            f"FROM ({chosen}) h {how} {kin} l ON l.key = h.key"
        )
    else:
        chosen = f"SELECT h.*, {component} AS component FROM ({chosen}) h"
    run = fold_batches(soft=work.soft, by_arrival=work.shape.by_arrival, truncates=work.truncates())
    if keys is None:
        spread = session.sql(chosen).repartition("component").sortWithinPartitions("component")
        folded = work.view(spread.mapInArrow(run, OUTPUT))
    else:
        found = run_here(run, session.sql(chosen).toArrow())
        for row in found.filter(pc.equal(found["kind"], "baseless")).to_pylist():
            baseless.add((row["topic"], row["partition"], row["offset"], row["place"]))
        folded = work.view(found)
    rows = work.typed_states(f"{folded} WHERE kind = 'state'", exact=True)
    return _own(work, rows) if work.shared else rows


def _own(work: Work, rows: str) -> str:
    """The rows whose key no other source table's row has (27)."""
    on = " AND ".join(f"t.{column(k)} = s._k{i}" for i, k in enumerate(work.shape.keys))
    return (
        f"SELECT s.* FROM ({rows}) s LEFT ANTI JOIN {work.target_name} t "
        f"ON {on} AND t._source_table <> {sql_text(work.shape.label)}"
    )


def _groups(work: Work, keys: Collection[Key] | None) -> dict[Key, int]:
    """The keys that key changes link, each with its group's number; `keys` among them always."""
    edges: list[tuple[Key, Key]] = []
    if work.total("moves"):
        moved = events(work.shape, work.history(work.shape.moved))
        found = work.warehouse.session.sql(
            f"SELECT DISTINCT key_before, key FROM ({moved}) "
            "WHERE key IS NOT NULL AND key_before IS NOT NULL"
        ).toArrow()
        pairs = zip(*(column.to_pylist() for column in found.columns), strict=True)
        edges = [(tuple(before), tuple(after)) for before, after in pairs]
    wanted = {key for edge in edges for key in edge} if keys is None else set(keys)
    return linked(wanted, edges) if wanted else {}
