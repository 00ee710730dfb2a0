"""How long what waits has waited: messages for silver, changes for their target.

What is looked at lies beyond the cursors, or is of targets that lag: little, where nothing does.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from ingest.config.load import Config
from ingest.names import SourceTable
from ingest.sql.casts import sql_text
from ingest.sql.delivery import listed
from pipelines.gold.backlog import backlog_of
from pipelines.gold.known_targets import routes
from pipelines.ledger.decisions import Ledger
from pipelines.ledger.entries import load_entries
from pipelines.ledger.renames import later_names, renames
from pipelines.platform.rows import records
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import SOURCE_CURSOR, load_progress

_PLACE = ("source", "epoch", "topic", "partition")


def undecoded_since(warehouse: Warehouse, sources: Collection[str]) -> dict[str, datetime]:
    """By source, of those given, when the oldest message came that silver has nothing of."""
    if not sources or not warehouse.exists("bronze", "messages"):
        return {}
    among = f"source IN ({', '.join(map(sql_text, sorted(sources)))})"
    bronze, silver = warehouse.name("bronze", "messages"), warehouse.name("silver", "cdc")
    query = f"SELECT source, min(ingested_at) AS since FROM {bronze} b WHERE {among}"
    if warehouse.exists("silver", "cdc"):
        place = listed(names=_PLACE)
        reached = f"SELECT {place}, max(offset) AS reached FROM {silver} WHERE {among} GROUP BY ALL"
        same = " AND ".join(f"b.`{name}` <=> k.`{name}`" for name in _PLACE)
        query = (
            f"SELECT b.source, min(b.ingested_at) AS since FROM {bronze} b "
            f"LEFT JOIN ({reached}) k ON {same} "
            f"WHERE b.{among} AND (k.reached IS NULL OR b.offset > k.reached)"
        )
    found = records(warehouse.session.sql(f"{query} GROUP BY 1"))
    return {row["source"]: row["since"] for row in found if row["since"] is not None}


def unapplied_since(warehouse: Warehouse, config: Config) -> dict[str, datetime]:
    """By target, when the oldest change was decoded that waits for it."""
    if not warehouse.exists("silver", "cdc"):
        return {}
    silver = warehouse.name("silver", "cdc")
    selects = " UNION ALL ".join(
        f"SELECT source, db, schema, `table`, decoded_at FROM {silver} c "
        f"WHERE kind = 'change' AND {condition}"
        for condition in _waiting(warehouse, config)
    )
    found = records(
        warehouse.session.sql(
            "SELECT source, db, schema, `table`, min(decoded_at) AS since "
            f"FROM ({selects}) WHERE `table` IS NOT NULL GROUP BY 1, 2, 3, 4"
        )
    )
    if not found:
        return {}
    since = {SourceTable(*list(row.values())[:4]): row["since"] for row in found}
    first_names = renames(load_entries(warehouse).values())
    oldest: dict[str, datetime] = {}
    for target, tables in routes(config, since, first_names).items():
        oldest[target] = min(since[table] for table, _ in tables)
    return oldest


def _waiting(warehouse: Warehouse, config: Config) -> list[str]:
    """SQL true for changes that gold has not looked at; and for those of source tables that their
    target has not applied, where there are any."""
    there = warehouse.exists("gold", "_progress")
    progress = load_progress(warehouse) if there else {}
    cursors = {source: p for (source, target), p in progress.items() if target == SOURCE_CURSOR}
    beyond = " OR ".join(
        f"source = {sql_text(source)}"
        + (f" AND batch > {cursors[source].batch}" if source in cursors else "")
        for source in config.sources
    )
    lags: dict[tuple[str | None, ...], int] = {}
    for source, cursor in cursors.items() if progress else ():
        if source in config.sources:
            ledger = Ledger(warehouse, config, source, progress_by_target=progress)
            for first, above in backlog_of(config, cursor, progress, ledger=ledger).items():
                for table in (first, *later_names(first, ledger.first_names)):
                    lags[tuple(table)] = above
    if not lags:
        return [f"({beyond})"]
    values = ", ".join(
        f"({', '.join('NULL' if name is None else sql_text(name) for name in names)}, {above})"
        for names, above in lags.items()
    )
    return [
        f"({beyond})",
        f"batch > {min(lags.values())} AND EXISTS (SELECT 1 FROM VALUES {values} AS l"
        "(of, d, s, t, above) WHERE l.of = c.source AND l.d <=> c.db AND l.s <=> c.schema "
        "AND l.t <=> c.`table` AND c.batch > l.above)",
    ]
