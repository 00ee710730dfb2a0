"""Small files are put together as they accumulate, so that a table stays quick to read after years
of runs.

Every run leaves a file or two in each table that it writes, and every reader of the table opens
them all; in the table's log it leaves four, and everyone who looks for new commits lists them all.
So a run counts what it has written, and after every WRITES writes of a table it compacts the table
and removes from its log what can be spared. Files of LARGE bytes stay as they are, so each byte is
written only a few times, however long the history. Compaction changes no rows: streams over a table
read nothing again, and readers are not disturbed.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from ingest.errors import LeaseHeld
from ingest.sql.tables.upkeep import optimize
from pipelines.platform.checkpoints import read_note, write_whole
from pipelines.platform.leases import Patience, lease
from pipelines.platform.session import having
from pipelines.platform.warehouse import Warehouse

WRITES = 50
"""After how many writes by runs a table is compacted."""
LARGE = 16 * 2**20
"""Bytes of a file that no run compacts; `ingest maintain` makes larger ones."""
_LEAST = "spark.databricks.delta.optimize.minFileSize"

Table = tuple[str, str]
"""Layer and name."""


def compact_written(warehouse: Warehouse, written: Collection[Table]) -> list[Table]:
    """Count one more write of each of these tables, and compact those that have had enough writes;
    gives these. A table that another run is at work on is left for the next time."""
    # A count that is lost or unreadable begins anew.
    noted = read_note(_file(warehouse)).items()
    counts = {name: count for name, count in noted if isinstance(count, int)}
    for layer, table in written:
        name = f"{layer}.{table}"
        counts[name] = counts.get(name, 0) + 1
    due = [(layer, table) for layer, table in written if counts[f"{layer}.{table}"] >= WRITES]
    done = []
    # A platform that does not let it be set uses a size of its own.
    with having(warehouse.session, {_LEAST: str(LARGE)}):
        for layer, table in sorted(due):
            if _compact(warehouse, layer, table):
                done.append((layer, table))
                counts[f"{layer}.{table}"] = 0
    write_whole(_file(warehouse), json.dumps(counts).encode())
    return done


def _compact(warehouse: Warehouse, layer: str, table: str) -> bool:
    patience = warehouse.patience
    warehouse.patience = Patience(most=0)
    try:
        with lease(warehouse, "gold" if layer == "gold" else "silver"):
            if warehouse.exists(layer, table):
                warehouse.execute(optimize(warehouse.name(layer, table)))
                warehouse.clear_checksums(layer, table)
    except LeaseHeld:
        return False
    finally:
        warehouse.patience = patience
    return True


def _file(warehouse: Warehouse) -> Path:
    return Path(warehouse.checkpoint("compaction.json"))
