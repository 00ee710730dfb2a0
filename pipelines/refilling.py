"""A target's rows folded anew from all of silver and put in its place by one commit.

The table itself stays: its properties, column mapping, clustering, types and comments. Readers see
the rows of before or those of after.
"""

from __future__ import annotations

from ingest.routes import Route
from ingest.shape import column
from pipelines.known_targets import known
from pipelines.ledger import Ledger
from pipelines.standing import Standing, as_applied


def overwrite(standing: Standing) -> int:
    """Replace the target's rows by what history makes them; how many there are then."""
    name = standing.warehouse.name("gold", standing.target)
    listed = ", ".join(map(column, standing.names))
    session = standing.warehouse.session
    standing.tried(lambda made: session.sql(f"INSERT OVERWRITE {name} ({listed}) {made}"))
    last = session.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()
    return int(((last and last["operationMetrics"]) or {}).get("numOutputRows") or 0)


def refolded(ledger: Ledger, route: Route) -> Standing | None:
    """What history makes of all that the target has applied; None where it has applied nothing."""
    stand = ledger.stands.get((ledger.source, route.target))
    ways = known(ledger.warehouse, ledger.config).ways.get(route.target)
    if stand is None or not stand.applied[0] or not ways:
        return None
    return as_applied(ledger.warehouse, ledger.config, route.target, ways, stand)


def refill(ledger: Ledger, route: Route) -> None:
    """Fold the target's rows again, whichever way it keeps them."""
    history = refolded(ledger, route)
    if history is not None:
        with history as standing:
            overwrite(standing)
