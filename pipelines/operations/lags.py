"""Since when messages wait to be decoded, and which changes wait for their target.

Only what lies beyond the cursors, or belongs to targets that lag, is looked at; usually that is
little.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ingest.names import SourceTable
from ingest.sql.counts import waiting
from pipelines.gold.backlog import applied_beyond, backlog_of
from pipelines.gold.known_targets import fed_targets
from pipelines.ledger.entries import WAITING, load_entries
from pipelines.ledger.renames import renames, waiting_names
from pipelines.ledger.store import Ledger
from pipelines.platform.rows import Record, records
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import load_progress, source_cursor


def undecoded_since(warehouse: Warehouse, sources: Collection[str]) -> dict[str, datetime]:
    """By source, of those given: when the oldest message came of which silver has nothing."""
    if not sources or not warehouse.exists("bronze", "messages"):
        return {}
    silver = warehouse.name("silver", "cdc") if warehouse.exists("silver", "cdc") else None
    asked = waiting.undecoded(warehouse.name("bronze", "messages"), silver, sources=sources)
    found = records(warehouse.session.sql(asked))
    return {row["source"]: row["since"] for row in found if row["since"] is not None}


class Unapplied(NamedTuple):
    """The changes that wait for a target: how many, and when the oldest of those that wait for no
    decision was decoded."""

    changes: int = 0
    since: datetime | None = None


def unapplied(warehouse: Warehouse, schema_changes: Iterable[Record]) -> dict[str, Unapplied]:
    """What waits, by target. `schema_changes`: the ledger's entries with the changes that wait for
    each, as `ingest ddl list` has them."""
    if not warehouse.exists("silver", "cdc"):
        return {}
    entries = load_entries(warehouse)
    progress = load_progress(warehouse)
    ledgers = {
        name: Ledger(warehouse, name, progress_by_target=progress)
        for name in warehouse.config.sources
    }
    asked = waiting.unapplied(warehouse.name("silver", "cdc"), _for_a_run(ledgers))
    closed = {table for ledger in ledgers.values() for table in ledger.closed_names()}
    by_table = {
        table: Unapplied(row["changes"], row["since"])
        for row in records(warehouse.session.sql(asked))
        if (table := SourceTable(*(row[name] for name in SourceTable._fields))) not in closed
    }
    first_names = renames(entries.values())
    found = {
        name: _together([by_table[table] for table, _ in target.tables])
        for name, target in fed_targets(warehouse.config, by_table, first_names).items()
    }
    apart = {table for ledger in ledgers.values() for table in ledger.held_tables()}
    for change in schema_changes:
        entry = entries[change["id"]]
        if entry.status in WAITING and (entry.recreates or waiting_names([entry]) & apart):
            part = Unapplied(change["waiting_rows"] or 0)
            found[change["target"]] = _together([found.get(change["target"], Unapplied()), part])
    return found


def _together(parts: Sequence[Unapplied]) -> Unapplied:
    since = [part.since for part in parts if part.since is not None]
    return Unapplied(sum(part.changes for part in parts), min(since, default=None))


def _for_a_run(ledgers: Mapping[str, Ledger]) -> list[str]:
    """SQL that is true for changes that gold has not looked at, except those that their target
    alone has applied (`--table`); and, if there are any, for changes of source tables that the
    target has not applied."""
    cursors = {
        name: source_cursor(ledger.progress_by_target, name) for name, ledger in ledgers.items()
    }
    beyond = waiting.beyond({name: cursor.batch for name, cursor in cursors.items()})
    lags: dict[tuple[str | None, ...], int] = {}
    ahead: dict[tuple[str | None, ...], int] = {}
    for name, ledger in ledgers.items():
        ahead |= {tuple(table): to for table, to in applied_beyond(ledger, cursors[name]).items()}
        for first, above in backlog_of(ledger, cursors[name]).items():
            for table in ledger.names(first):
                lags[tuple(table)] = above
    unseen = f"{beyond} AND NOT {waiting.up_to(ahead)}" if ahead else beyond
    return [unseen, f"{waiting.above(lags)} AND NOT {beyond}"] if lags else [unseen]
