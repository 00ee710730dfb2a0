"""A target's rows folded anew from all of silver and put in its place by one commit.

The table itself stays: its properties, column mapping, clustering, types and comments. Readers see
the rows of before or those of after.
"""

from __future__ import annotations

from ingest.routes import Route
from ingest.shape import column
from pipelines.known_targets import known
from pipelines.ledger import Ledger
from pipelines.progress import Progress
from pipelines.standing import Standing


def overwrite(standing: Standing) -> int:
    """Replace the target's rows by what history makes them; how many there are then."""
    name = standing.warehouse.name("gold", standing.target)
    listed = ", ".join(map(column, standing.names))
    session = standing.warehouse.session
    standing.tried(lambda made: session.sql(f"INSERT OVERWRITE {name} ({listed}) {made}"))
    last = session.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()
    return int(((last and last["operationMetrics"]) or {}).get("numOutputRows") or 0)


def applied(ledger: Ledger, route: Route) -> Standing | None:
    """What history makes of all that the target has applied; None where it has applied nothing."""
    stand = ledger.stands.get((ledger.source, route.target)) or Progress(
        target=route.target, source=ledger.source
    )
    last, only = stand.applied
    ways = known(ledger.warehouse, ledger.config).ways.get(route.target)
    if not last or not ways:
        return None
    return Standing(
        *(ledger.warehouse, ledger.config, route.target, ways),
        marks=stand.marks,
        last=last,
        only=only,
    )


def refill(ledger: Ledger, route: Route) -> None:
    """Fold the target's rows again, whichever way it keeps them."""
    history = applied(ledger, route)
    if history is not None:
        with history as standing:
            overwrite(standing)
