"""Small files are put together as they accumulate, so that a table stays quick to read after years
of runs.

Every run leaves a file or two in each table that it writes, and every reader of the table opens
them all; in the table's log it leaves four, and everyone who looks for new commits lists them all.
So a run counts what it has written, and after every WRITES writes of a table it compacts the table
and removes from its log what can be spared. Files of LARGE bytes stay as they are, so each byte is
written only a few times, however long the history. Compaction changes no rows: streams over a table
read nothing again, and readers are not disturbed.

Old commits of bronze, which is listed most often, and of gold's notes are removed as well, and
those of all tables if the configuration says so. Otherwise Delta keeps them for 30 days, since
others may stream from these tables.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from ingest.errors import LeaseHeld
from ingest.sql.tables.upkeep import optimize
from pipelines.platform.checkpoints import read_note, stream_needs, write_whole
from pipelines.platform.leases import Patience, lease
from pipelines.platform.session import having
from pipelines.platform.warehouse import Warehouse

WRITES = 50
"""After how many writes by runs a table is compacted."""
LARGE = 16 * 2**20
"""Bytes of a file that no run compacts; `ingest maintain` makes larger ones."""
COMMITS = 500
"""How many of the newest commits always stay."""
RESTS = 7 * 86_400.0
"""Seconds for which the commits stay that a source needs which is left out of the runs. After that
it looks through all of bronze once."""
_OWN = (("bronze", "messages"), ("gold", "_progress"), ("gold", "_runs"))
"""The tables whose old commits are removed in any case."""
_LEAST = "spark.databricks.delta.optimize.minFileSize"

Table = tuple[str, str]
"""Layer and name."""


def compact_written(warehouse: Warehouse, written: Collection[Table]) -> list[Table]:
    """Count one more write of each of these tables, and compact those that have had enough writes;
    gives these. A table that another run is at work on is left for the next time; one for which
    that fails is tried again after as many writes.

    Raises the first error, once the other tables are compacted and the counts are written.
    """
    # A count that is lost or unreadable begins anew.
    noted = read_note(_file(warehouse)).items()
    counts = {name: count for name, count in noted if isinstance(count, int)}
    for layer, table in written:
        name = f"{layer}.{table}"
        counts[name] = counts.get(name, 0) + 1
    due = [(layer, table) for layer, table in written if counts[f"{layer}.{table}"] >= WRITES]
    done: list[Table] = []
    errors: list[Exception] = []
    # A platform that does not let it be set uses a size of its own.
    with having(warehouse.session, {_LEAST: str(LARGE)}):
        for layer, table in sorted(due):
            try:
                if not _compact(warehouse, layer, table):
                    continue
                done.append((layer, table))
            except Exception as error:
                errors.append(error)
            counts[f"{layer}.{table}"] = 0
    write_whole(_file(warehouse), json.dumps(counts).encode())
    if errors:
        raise errors[0]
    return done


def _compact(warehouse: Warehouse, layer: str, table: str) -> bool:
    patience = warehouse.patience
    warehouse.patience = Patience(most=0)
    try:
        with lease(warehouse, "gold" if layer == "gold" else "silver"):
            if warehouse.exists(layer, table):
                warehouse.execute(optimize(warehouse.name(layer, table)))
                warehouse.clear_checksums(layer, table)
                _clear_commits(warehouse, layer, table)
    except LeaseHeld:
        return False
    finally:
        warehouse.patience = patience
    return True


def _clear_commits(warehouse: Warehouse, layer: str, table: str) -> None:
    older = warehouse.settings.retention.commits
    if older is None and (layer, table) not in _OWN:
        return
    newest = warehouse.last_commit(layer, table).version - COMMITS
    below = min([newest, *_needed(warehouse, layer)])
    warehouse.clear_commits(layer, table, below=below, older=older or 0)


def _needed(warehouse: Warehouse, layer: str) -> Iterator[int]:
    """The first version of bronze that each of silver's streams may still read; or that of silver
    in which a stream looks for what a killed run appended, which may be any."""
    for stream in Path(warehouse.checkpoint("silver")).glob("*/stream"):
        needs = stream_needs(stream)
        if needs is None or time.time() - needs.since > RESTS:
            continue
        if layer == "bronze":
            yield needs.version
        elif layer == "silver" and needs.unfinished:
            yield 0


def _file(warehouse: Warehouse) -> Path:
    return Path(warehouse.checkpoint("compaction.json"))
