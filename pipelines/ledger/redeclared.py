"""Types and masks that a tables file declares otherwise than when a target last came forward.

Another type enters the ledger at the next run, even if nothing is new for the target. Another mask,
or another secret, parks the target until it is made anew (`pipelines.targets.contract`). So no
declaration stays without an effect or a word, and no column is masked in some rows and clear in
others.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.names import SourceTable
from pipelines.ledger import decisions
from pipelines.ledger.drift import Drift
from pipelines.ledger.store import Ledger
from pipelines.targets.contract import made_otherwise
from pipelines.targets.progress import Progress, SourceCursor, record_progress


def enter_redeclared(ledger: Ledger, cursor: SourceCursor) -> None:
    """Enter the types that the targets of the ledger's source are to have, if they changed since
    their last run."""
    noted: dict[str, Progress] = {}
    for names in cursor.tables:
        table = SourceTable(cursor.source, *names)
        first = ledger.first_name(table)
        route = ledger.route(first)
        if route is None:
            continue
        progress = ledger.progress_of(route)
        if progress.contract is None or progress.declared in (None, dict(route.columns)):
            continue
        if made_otherwise(route, progress.contract):
            # Its rows would be made anew for what it was not made for.
            continue
        types = {name: t for name, t in route.columns.items() if name not in route.masks}
        drift = Drift(ledger, first, replace(route, columns=types))
        decisions.enter(ledger, drift.declared(), route)
        noted[route.target] = replace(progress.with_watermarks({}), declared=dict(route.columns))
    if noted:
        ledger.save_staged()
        record_progress(ledger.warehouse, list(noted.values()), ledger.progress_by_target)
