"""Some rows of a target folded again from all of silver: those of events that fit at last.

The fold reads every event through the lineage (`ingest.sql.lineage`). One MERGE changes what
differs and nothing else; done twice it changes nothing.

A target's rows folded anew from all of silver and put in its place by one commit.

The table itself stays: its properties, column mapping, clustering, types and comments. Readers see
the rows of before or those of after.

A target by another key: its rows folded anew from all of silver, swapped in by one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from ingest.config.load import Config
from ingest.config.routes import Route
from ingest.ddl.changes import Lineage
from ingest.fold.arrow import Run, fold_history, origin_of
from ingest.fold.fold import Key, Origin
from ingest.names import SourceTable
from ingest.position import Pos
from ingest.sql.casts import sql_text
from ingest.sql.merge import Merge
from ingest.sql.merge import sql as merge_sql
from ingest.sql.projection import column
from pipelines.apply.batch import TableBatch
from pipelines.apply.exact import Refolded, folded
from pipelines.apply.late_keys import these_keys
from pipelines.apply.set_aside import ORIGIN
from pipelines.gold.accounting import set_aside, settle
from pipelines.gold.known import known
from pipelines.gold.plan import key_of, shape_of
from pipelines.gold.reconstruction import Reconstruction, as_applied
from pipelines.ledger.decisions import Ledger
from pipelines.platform.leases import check
from pipelines.platform.warehouse import Warehouse
from pipelines.silver.pending import survey, with_moves
from pipelines.targets.progress import Progress, Watermarks, record
from pipelines.targets.table import columns_of


def all_of(
    warehouse: Warehouse,
    config: Config,
    route: Route,
    *,
    table: SourceTable,
    lineage: Lineage,
    stand: Progress | None = None,
    also: tuple[SourceTable, ...] = (),
) -> TableBatch | None:
    """All of a source table that its target has applied, as work; None where there is no change, no
    target or no key. `also`: names that the table has had since."""
    columns = columns_of(warehouse, route.target)
    last, only = stand.applied if stand is not None else (None, "true")
    marks = stand.marks if stand is not None else {}
    found = survey(warehouse, table.source, 0, tables=[table, *also], until=last)
    slices = [slice_._replace(table=table) for slice_ in found.slices if slice_.changes]
    if columns is None or not slices:
        return None
    keys = key_of(warehouse, config, route, slices=slices, lineage=lineage)
    if not keys or not {key.lower() for key in keys} <= {name.lower() for name in columns}:
        return None
    types = [listed for listings in found.types.values() for listed in listings]
    shape = shape_of(
        config, route, keys, columns=columns, slices=slices, lineage=lineage, types=types
    )
    if not shape.native:
        slices = with_moves(warehouse, slices, also, moved=shape.moved)
    return TableBatch(
        warehouse=warehouse,
        marks=Watermarks(horizons=marks.get(shape.label, Watermarks()).horizons),
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


def refold(work: TableBatch, keys: Collection[Key]) -> dict[Origin, Pos]:
    """Bring the rows of `keys` (and of what key changes link to them) to what history says; gives
    the partial images among them that found no base, and where they stand."""
    with work:
        found = folded(work, these_keys(work, keys), _run(work))
        rows = work.typed_states(found.of_kind("state"), exact=True)
        statement = merge_sql(
            Merge(
                target=work.target_name,
                rows=f"({_own(work, rows) if work.shared else rows})",
                keys=work.shape.keys,
                columns=work.shape.columns,
                sets=tuple(work.shape.columns),
                source=work.shape.source,
                soft=work.soft,
                mixed=True,
            )
        )
        work.warehouse.execute(statement)
        return _places(work, found)


def baseless(work: TableBatch, keys: Collection[Key]) -> dict[Origin, Pos]:
    """The partial images of `keys` and their kin that have no base in history."""
    if not keys:
        return {}
    with work:
        return _places(work, folded(work, these_keys(work, keys), _run(work)))


def _run(work: TableBatch) -> Run:
    return fold_history(soft=work.soft, by_arrival=work.shape.by_arrival, truncates=work.truncates)


def _places(work: TableBatch, found: Refolded) -> dict[Origin, Pos]:
    if found.orphan is None:
        return {}
    listed = f"SELECT {ORIGIN}, pos FROM {found.of_kind('baseless')}"
    return {
        origin_of(row.asDict()): tuple(row["pos"])
        for row in work.warehouse.session.sql(listed).collect()
    }


def _own(work: TableBatch, rows: str) -> str:
    """The rows whose key no other source table's row has (27)."""
    on = " AND ".join(f"t.{column(k)} = s._k{i}" for i, k in enumerate(work.shape.keys))
    return (
        f"SELECT s.* FROM ({rows}) s LEFT ANTI JOIN {work.target_name} t "
        f"ON {on} AND t._source_table <> {sql_text(work.shape.label)}"
    )


class Filled(NamedTuple):
    """What a target was filled with: its rows, and how many changes are set aside instead."""

    rows: int
    rejected: int


def overwrite(standing: Reconstruction, *, accounted: bool = True) -> Filled:
    """Replace the target's rows by what history makes them, and account for what it leaves out,
    unless the caller does."""
    name = standing.warehouse.name("gold", standing.target)
    listed = ", ".join(map(column, standing.names))
    warehouse = standing.warehouse

    def replace(made: str) -> None:
        warehouse.execute(f"INSERT OVERWRITE {name} ({listed}) {made}")

    return fill(standing, replace, accounted=accounted)


def fill(
    standing: Reconstruction, replace: Callable[[str], None], *, accounted: bool = True
) -> Filled:
    """What `replace` leads to, which writes the rows of a relation to the table in one commit.

    What the fold leaves out is entered before and resolved after: a process that is killed in
    between leaves no change that neither the rows nor the rejects have.
    """
    began = datetime.now(UTC)
    aside: list[int] = []

    def checked(made: str) -> None:
        check(standing.warehouse)
        replace(made)

    def before() -> None:
        if accounted:
            aside.append(set_aside(standing, began))

    standing.tried(checked, before=before)
    lost = settle(standing, began) if accounted else 0
    metrics = standing.warehouse.last_commit("gold", standing.target).metrics
    return Filled(int(metrics.get("numOutputRows") or 0), sum(aside) + lost)


def refolded(ledger: Ledger, route: Route) -> Reconstruction | None:
    """What history makes of all that the target has applied; None where it has applied nothing."""
    stand = ledger.stands.get((ledger.source, route.target))
    ways = known(ledger.warehouse, ledger.config).ways.get(route.target)
    if stand is None or not stand.applied[0] or not ways:
        return None
    return as_applied(ledger.warehouse, ledger.config, route.target, tables=ways, stand=stand)


def refill(ledger: Ledger, route: Route) -> None:
    """Fold the target's rows again, whichever way it keeps them."""
    history = refolded(ledger, route)
    if history is not None:
        with history as standing:
            overwrite(standing)


def rekey(ledger: Ledger, route: Route) -> None:
    """Fold the target's rows again by the key that it has now, which is not silver's."""
    history = refolded(ledger, route)
    if history is None:
        return
    with history as standing:
        overwrite(standing)
    _mark(ledger, route)


def _mark(ledger: Ledger, route: Route) -> None:
    """Note that the keys and hashes which silver has of earlier changes are not the target's."""
    stand = ledger.stands[ledger.source, route.target]
    marks = {label: replace(marks, foreign=True) for label, marks in stand.marks.items()}
    record(ledger.warehouse, [stand.noting(marks)], ledger.stands)
