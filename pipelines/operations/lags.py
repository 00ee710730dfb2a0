"""Since when the oldest messages wait to be decoded, and the oldest changes for their target.

What is looked at lies beyond the cursors, or is of targets that lag: little, where nothing does.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from ingest.names import SourceTable
from ingest.sql.counts import waiting
from pipelines.gold.backlog import backlog_of
from pipelines.gold.known_targets import fed_targets
from pipelines.ledger.entries import load_entries
from pipelines.ledger.renames import renames
from pipelines.ledger.store import Ledger
from pipelines.platform.rows import records
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import load_progress, source_cursors


def undecoded_since(warehouse: Warehouse, sources: Collection[str]) -> dict[str, datetime]:
    """By source, of those given, when the oldest message came that silver has nothing of."""
    if not sources or not warehouse.exists("bronze", "messages"):
        return {}
    silver = warehouse.name("silver", "cdc") if warehouse.exists("silver", "cdc") else None
    asked = waiting.undecoded(warehouse.name("bronze", "messages"), silver, sources=sources)
    found = records(warehouse.session.sql(asked))
    return {row["source"]: row["since"] for row in found if row["since"] is not None}


def unapplied_since(warehouse: Warehouse) -> dict[str, datetime]:
    """By target, when the oldest change was decoded that waits for it."""
    if not warehouse.exists("silver", "cdc"):
        return {}
    asked = waiting.unapplied(warehouse.name("silver", "cdc"), _waiting(warehouse))
    found = records(warehouse.session.sql(asked))
    if not found:
        return {}
    since = {SourceTable(*list(row.values())[:4]): row["since"] for row in found}
    first_names = renames(load_entries(warehouse).values())
    waiting_for = fed_targets(warehouse.config, since, first_names)
    return {
        name: min(since[table] for table, _ in target.tables)
        for name, target in waiting_for.items()
    }


def _waiting(warehouse: Warehouse) -> list[str]:
    """SQL true for changes that gold has not looked at; and for those of source tables that their
    target has not applied, where there are any."""
    progress = load_progress(warehouse)
    cursors = source_cursors(progress)
    declared = warehouse.config.sources
    beyond = waiting.beyond(
        {name: cursors[name].batch if name in cursors else None for name in declared}
    )
    lags: dict[tuple[str | None, ...], int] = {}
    for source, cursor in cursors.items():
        if source in declared:
            ledger = Ledger(warehouse, source, progress_by_target=progress)
            for first, above in backlog_of(ledger, cursor).items():
                for table in ledger.names(first):
                    lags[tuple(table)] = above
    return [beyond, waiting.above(lags)] if lags else [beyond]
