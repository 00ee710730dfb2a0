"""Keys that several source tables claim in one target: tried again when the row that held one goes.

Without `shard_column` a key belongs to the source table whose row holds it; what another has for it
is a reject `shard_key_conflict` (rulings.md, 27). Once no such row is left the key is folded from
the other's history.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ingest.casts import sql_text
from ingest.codes import Code
from ingest.modes import Made
from ingest.names import SourceTable, label_of
from ingest.routes import Route
from ingest.shape import events
from pipelines import gold_table, versions_table
from pipelines.careful import Careful
from pipelines.ledger import Ledger
from pipelines.moves import also, under_first_names
from pipelines.progress import Marks, Progress
from pipelines.rejects import present, settle
from pipelines.results import rows
from pipelines.survey import survey
from pipelines.tables import Warehouse
from pipelines.target_shape import shape_of
from pipelines.targets import columns_of
from pipelines.versions_table import Versions
from pipelines.work import Work

_PLACE = ("source", "topic", "partition", "offset", "row")


def try_again(ledger: Ledger, route: Route, made: Made, row: Progress, last: int) -> Progress:
    """Give the keys that are free now to the source tables whose changes wait for them."""
    warehouse, moved = ledger.warehouse, ledger.moves
    waiting = (moved.get(table, table) for table in _waiting(warehouse, route))
    for table in dict.fromkeys(waiting):
        names = also(table, moved)
        found = under_first_names(survey(warehouse, route.source, 0, [table, *names]), moved)
        slices = [s for s in found.slices if s.changes]
        columns, types = columns_of(warehouse, route.target) or {}, found.types.get(table, [])
        lineage = ledger.lineage(table)
        work = Work(
            warehouse=warehouse,
            marks=row.marks.get(label_of(table), Marks()),
            table=table,
            also=names,
            shape=shape_of(ledger.config, route, made.keys, columns, slices, lineage, types),
            slices=slices,
            target=route.target,
            above=last,
            last=last,
            soft=route.deletes == "soft",
            fresh=False,
            shared=True,
            mode=made.mode,
        )
        counts: Counter[str] = Counter()
        try:
            _give(work, counts)
        finally:
            work.forget()
        row = replace(row, **{name: getattr(row, name) + n for name, n in counts.items()})
    return row


def _give(work: Work, counts: Counter[str]) -> None:
    opened = _opened(work.warehouse, work.target)
    same = " AND ".join(f"e.`{name}` = r.`{name}`" for name in _PLACE if name != "source")
    found = work.warehouse.session.sql(
        f"SELECT DISTINCT e.key FROM ({events(work.shape, work.history('true'))}) e "
        f"JOIN ({opened}) r ON {same} LEFT ANTI JOIN ({work.held_by_others}) o ON o.key = e.key "
        f"WHERE e.key IS NOT NULL AND size(e.misfits) = 0"
    )
    keys = {tuple(key) for (key,) in rows(found)}
    if not keys:
        return
    if work.mode == "scd2":
        versions = Versions(work)
        relation = versions.anew(keys)
        versions_table.merge(work, relation, counts, careful=versions)
    else:
        careful = Careful(work)
        relation = careful.anew(keys)
        gold_table.merge(work, relation, counts, exact=True)
    settle(work, sorted(keys), code=Code.SHARD_KEY_CONFLICT, where="op <> 'truncate'")


def _opened(warehouse: Warehouse, target: str) -> str:
    return (
        f"SELECT * FROM ({present(warehouse)}) WHERE target = {sql_text(target)} "
        f"AND code = '{Code.SHARD_KEY_CONFLICT.value}' AND status = 'open'"
    )


def _waiting(warehouse: Warehouse, route: Route) -> list[SourceTable]:
    """The source tables of which changes wait."""
    same = " AND ".join(f"s.`{name}` = r.`{name}`" for name in _PLACE)
    found = warehouse.session.sql(
        f"SELECT DISTINCT s.source, s.db, s.schema, s.`table` "
        f"FROM {warehouse.name('silver', 'cdc')} s JOIN ({_opened(warehouse, route.target)}) r "
        f"ON {same} WHERE s.kind = 'change' AND s.source = {sql_text(route.source)}"
    )
    return sorted((SourceTable(*row) for row in rows(found)), key=str)
