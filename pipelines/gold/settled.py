"""Whether gold has anything to do: not where nothing has changed since a pass that left nothing.

Looking through silver, the ledger and the targets costs as much as starting Spark, and most runs of
a quiet source bring nothing. So a pass after which every target stands well, with nothing to wait
for, notes the commits that it saw and the configuration; while they are the same, so is the answer.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path

from ingest.config.load import Config
from pipelines.gold.known import gold_tables
from pipelines.ledger.entries import load as load_entries
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import load as load_progress

_OWN = ("_progress", "_ddl", "_rejects")


def silver_commit(warehouse: Warehouse) -> str:
    """The newest commit of silver."""
    return _commit(warehouse, "silver", "cdc")


def unchanged(warehouse: Warehouse, config: Config, sources: Collection[str]) -> bool:
    """Whether a pass over these sources would find what the last one left."""
    noted = _noted(warehouse)
    if any(source not in noted for source in sources):
        return False
    now = _state(warehouse, config)
    return all(noted[source] == now for source in sources)


def note(warehouse: Warehouse, config: Config, sources: Collection[str], *, silver: str) -> None:
    """After a pass over these sources with nothing to say. `silver`: its commit before the pass."""
    parked = any(
        stand.status != "ok" for (of, _), stand in load_progress(warehouse).items() if of in sources
    )
    entries = [load_entries(warehouse, source).values() for source in sources]
    begun = any(entry.status == "approved" for found in entries for entry in found)
    if parked or begun or silver_commit(warehouse) != silver:
        return
    now = _state(warehouse, config)
    _write(warehouse, {**_noted(warehouse), **dict.fromkeys(sources, now)}, config)


def _state(warehouse: Warehouse, config: Config) -> str:
    """What a pass depends on, as one text."""
    commits = [silver_commit(warehouse), *(_commit(warehouse, "gold", name) for name in _OWN)]
    told = repr((config.settings, config.sources, config.tables)).encode()
    return json.dumps(
        [
            version("delta-cdc-ingest"),
            hashlib.sha256(told).hexdigest(),
            commits,
            gold_tables(warehouse),
        ]
    )


def _commit(warehouse: Warehouse, layer: str, table: str) -> str:
    if not warehouse.exists(layer, table):
        return ""
    commit = warehouse.last_commit(layer, table)
    return f"{commit.version} of {commit.at}"


def _file(warehouse: Warehouse) -> Path:
    return Path(warehouse.checkpoint("settled.json"))


def _noted(warehouse: Warehouse) -> dict[str, str]:
    try:
        found = json.loads(_file(warehouse).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return {str(source): str(state) for source, state in found.items()}


def _write(warehouse: Warehouse, noted: dict[str, str], config: Config) -> None:
    kept = {source: state for source, state in noted.items() if source in config.sources}
    file = _file(warehouse)
    file.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: runs of other sources may end at the same moment.
    draft = file.with_suffix(f".{uuid.uuid4().hex}.draft")
    draft.write_text(json.dumps(kept))
    draft.replace(file)
