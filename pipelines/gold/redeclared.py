"""Types that a tables file declares otherwise than when a target was last brought forward.

Such a change enters the ledger at the next run, whether or not there is something new for the
target: what is declared never goes without effect or word.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.names import SourceTable
from pipelines.gold.backlog import progress_of_route
from pipelines.ledger.decisions import Ledger
from pipelines.targets.progress import Progress, record_progress


def enter_redeclared(ledger: Ledger, cursor: Progress) -> None:
    """Enter the types that targets of the ledger's source are to have since their last run."""
    noted: dict[str, Progress] = {}
    for names in cursor.tables:
        table = SourceTable(cursor.source, *names)
        first = ledger.first_names.get(table, table)
        route = ledger.route(first)
        if route is None:
            continue
        progress = progress_of_route(ledger.progress_by_target, route)
        if progress.contract is None or progress.declared in (None, dict(route.columns)):
            continue
        ledger.enter(ledger.drift.declared(first, route), route)
        noted[route.target] = replace(progress.with_watermarks({}), declared=dict(route.columns))
    if noted:
        ledger.save()
        record_progress(ledger.warehouse, list(noted.values()), ledger.progress_by_target)
