"""A target by another key: its rows folded anew from all of silver, swapped in by one commit."""

from __future__ import annotations

from dataclasses import replace

from ingest.ddl_delta import quoted
from ingest.errors import TableError
from ingest.lineage import Effect
from ingest.routes import Route
from ingest.shape import events
from pipelines.ledger import Ledger
from pipelines.progress import record
from pipelines.refilling import overwrite, refolded
from pipelines.rejects import misfit_rejects
from pipelines.target_shape import shard_of
from pipelines.targets import columns_of, keys_of


def rekey(ledger: Ledger, route: Route, effect: Effect) -> None:
    """Make the columns that `effect` names the target's key, beside its shard column.

    Raises TableError where the target lacks one of them.
    """
    warehouse, name = ledger.warehouse, ledger.warehouse.name("gold", route.target)
    held = {known.lower(): known for known in columns_of(warehouse, route.target) or {}}
    wanted = [arg or "" for arg in effect.args]
    wanted += [name for name in shard_of(route) if name.lower() not in map(str.lower, wanted)]
    lacking = [arg for arg in wanted if arg.lower() not in held]
    if lacking:
        raise TableError(
            f"expected the new key's columns in {route.target}, got none called "
            f"{', '.join(lacking)}: approve what adds them first"
        )
    keys = tuple(held[arg.lower()] for arg in wanted)
    for old in set(keys_of(warehouse, route.target)) - set(keys):
        warehouse.session.sql(f"ALTER TABLE {name} ALTER COLUMN {quoted(old)} COMMENT ''")
    for number, key in enumerate(keys, 1):
        warehouse.session.sql(
            f"ALTER TABLE {name} ALTER COLUMN {quoted(key)} COMMENT 'key {number}'"
        )
    history = refolded(ledger, route)
    if history is None:
        return
    with history as standing:
        for work in standing.works:
            misfit_rejects(work, events(work.shape, work.history("op <> 'truncate'")))
        overwrite(standing)
    _mark(ledger, route)


def _mark(ledger: Ledger, route: Route) -> None:
    """Note that the keys and hashes which silver has of earlier changes are not the target's."""
    stand = ledger.stands[ledger.source, route.target]
    marks = {label: replace(marks, foreign=True) for label, marks in stand.marks.items()}
    record(ledger.warehouse, [stand.noting(marks)], ledger.stands)
