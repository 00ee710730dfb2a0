"""Types that a tables file declares otherwise than when a target was last brought forward.

Such a change enters the ledger at the next run, whether or not there is something new for the
target: what is declared never goes without effect or word.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.names import SourceTable
from pipelines.gold.backlog import stand_at
from pipelines.ledger.decisions import Ledger
from pipelines.targets.progress import Progress, record


def enter_redeclared(ledger: Ledger, swept: Progress) -> None:
    """Enter the types that targets of the ledger's source are to have since their last run."""
    noted: dict[str, Progress] = {}
    for names in swept.tables:
        table = SourceTable(swept.source, *names)
        first = ledger.moves.get(table, table)
        route = ledger.route(first)
        if route is None:
            continue
        stand = stand_at(ledger.stands, route)
        if stand.made is None or stand.declared in (None, dict(route.columns)):
            continue
        ledger.enter(ledger.drift.declared(first, route), route)
        noted[route.target] = replace(stand.noting({}), declared=dict(route.columns))
    if noted:
        ledger.save()
        record(ledger.warehouse, list(noted.values()), ledger.stands)
