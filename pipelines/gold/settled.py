"""Skips gold if nothing has changed since a pass that finished everything.

Looking through silver, the ledger and the targets costs as much as starting Spark, and most runs of
a quiet source bring nothing. So after a pass that left every target in order, waiting for nothing
but its time (`merge_every`), the commits of silver and of gold's own tables are noted, and the
configuration. As long as they are the same, there is nothing to do until the first of those times.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path

from ingest.config.declaration import Declaration
from pipelines.gold import cadence
from pipelines.gold.known_targets import gold_tables
from pipelines.ledger.entries import load_entries
from pipelines.platform.checkpoints import read_note, write_whole
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import load_progress

_OWN = ("_progress", "_ddl", "_rejects")


def silver_commit(warehouse: Warehouse) -> str:
    """The newest commit of silver."""
    return warehouse.stamp("silver", "cdc")


def unchanged(warehouse: Warehouse, sources: Collection[str]) -> bool:
    """Whether a pass over these sources would find everything as the last one left it."""
    remembered = read_note(_file(warehouse))
    if any(source not in remembered for source in sources):
        return False
    now = state(warehouse)
    return all(_still(remembered[source], now) for source in sources)


def _still(noted: object, now: str) -> bool:
    """Whether what was noted for a source still holds."""
    if not isinstance(noted, dict) or noted.get("state") != now:
        return False
    at, until = noted.get("at"), noted.get("until")
    if not (isinstance(at, int) and isinstance(until, int)):
        return until is None
    # If the clock was set back, nothing waits for it.
    return at <= cadence.now() < until


def remember(warehouse: Warehouse, sources: Collection[str], *, silver: str) -> None:
    """Note the state after a pass over these sources that had nothing to say. `silver`: silver's
    commit before the pass."""
    parked = any(
        progress.status != "ok"
        for (of, _), progress in load_progress(warehouse).items()
        if of in sources
    )
    entries = [load_entries(warehouse, source).values() for source in sources]
    begun = any(entry.status == "approved" for found in entries for entry in found)
    if parked or begun or silver_commit(warehouse) != silver:
        return
    until = cadence.next_due(warehouse, sources)
    noted = {"state": state(warehouse), "at": cadence.now(), "until": until}
    remembered = {**read_note(_file(warehouse)), **dict.fromkeys(sources, noted)}
    there = warehouse.config.sources
    kept = {source: state for source, state in remembered.items() if source in there}
    write_whole(_file(warehouse), json.dumps(kept).encode())


def state(warehouse: Warehouse) -> str:
    """Everything that a pass depends on, as one text. It holds no secret, only the names of
    secrets."""
    config = warehouse.config
    digest = hashlib.sha256(repr((config.settings, config.sources, config.tables)).encode())
    for source in config.sources.values():
        # What a source's `repr` leaves out, since a secret may be among them.
        digest.update(Declaration.of(source).to_json())
    return json.dumps(
        [
            version("delta-cdc-ingest"),
            digest.hexdigest(),
            config.mask_secret.name if config.mask_secret is not None else None,
            [silver_commit(warehouse), *(warehouse.stamp("gold", name) for name in _OWN)],
            gold_tables(warehouse),
        ]
    )


def _file(warehouse: Warehouse) -> Path:
    return Path(warehouse.checkpoint("settled.json"))
