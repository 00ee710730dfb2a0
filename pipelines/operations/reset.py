"""`ingest reset`: what the product made of a target or a source is removed, so that the next run
makes it anew.

Of a target: its gold table, its progress, what gold set aside of it, and the ledger's entries of
its source tables, decisions included. History stays in silver, from which the next run makes the
target as if it were new. Where history was trimmed is remembered too.

Of a source: the same for all its targets, its rows in silver, and silver's progress. Bronze stays,
and the next run decodes everything from it again. With `--bronze` it goes too, together with how
far its files or topics were read; then the next run reads what the transport still has. Messages of
which silver has rows and which bronze no longer holds are counted as well: no run makes these rows
again.

What tells how far messages were read is removed before the messages, so a killed process leaves
some to be read twice rather than never; a second call removes the rest. Each checkpoint is removed
in one step.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import NamedTuple

from ingest.sql.delivery import MESSAGE
from ingest.sql.quoting import equal
from ingest.sql.tables.rows import delete
from pipelines.gold.known_targets import known_targets
from pipelines.platform.checkpoints import kept, remove
from pipelines.platform.leases import lease
from pipelines.platform.warehouse import Warehouse
from pipelines.silver import projects
from pipelines.silver.declarations import forget
from pipelines.silver.stream import last_batch
from pipelines.targets.progress import (
    Watermarks,
    load_progress,
    record_progress,
    source_cursor,
    targets_of,
)
from pipelines.targets.table import contract_of

RESET = ("kind", "what", "rows")


class Gone(NamedTuple):
    """One thing that goes, or went, and how many rows it had."""

    what: str
    rows: int

    def row(self) -> tuple[str | int, ...]:
        """As a row of RESET."""
        return ("reset", *self)


def of_target(warehouse: Warehouse, source: str, target: str) -> list[Gone]:
    """What a reset of the target removes."""
    gone = []
    if warehouse.exists("gold", target):
        gone.append(Gone(f"gold.{target}", warehouse.read("gold", target).count()))
    for table, what in (
        ("_rejects", "rejects of gold"),
        ("_ddl", "schema changes, with their decisions"),
        ("_progress", "records of progress"),
    ):
        stage = "gold" if table == "_rejects" else None
        where = equal(source=source, target=target, stage=stage)
        if count := _count(warehouse, "gold", table, where=where):
            gone.append(Gone(f"{what} of {target}", count))
    return gone


def reset_target(warehouse: Warehouse, source: str, target: str) -> list[Gone]:
    """Reset the target; gives what was removed."""
    with lease(warehouse, "gold"):
        found = of_target(warehouse, source, target)
        _take_away(warehouse, source, target)
    return found


def _take_away(warehouse: Warehouse, source: str, target: str) -> None:
    _keep_horizons(warehouse, source, target)
    # The table goes first: while there is progress without a table, the target is parked. The
    # ledger goes last: as long as there is progress beyond its statements, nobody looks for them
    # again.
    warehouse.drop("gold", target)
    for table, stage in (("_rejects", "gold"), ("_progress", None), ("_ddl", None)):
        where = equal(source=source, target=target, stage=stage)
        _delete(warehouse, "gold", table, where=where)


def _keep_horizons(warehouse: Warehouse, source: str, target: str) -> None:
    """Note in the source's own record where the history of the target's source tables was trimmed;
    that is still so when the target is made anew (`pipelines.gold.advance`)."""
    progress = load_progress(warehouse)
    known = progress.get((source, target))
    trimmed = {
        label: Watermarks(horizons=each.horizons)
        for label, each in (known.watermarks if known is not None else {}).items()
        if each.horizons
    }
    if trimmed:
        noted = source_cursor(progress, source).with_watermarks(trimmed)
        record_progress(warehouse, [noted], progress)


def of_source(warehouse: Warehouse, source: str, *, bronze: bool) -> list[Gone]:
    """What a reset of the source removes."""
    found = [
        gone
        for target in _targets(warehouse, source)
        for gone in of_target(warehouse, source, target)
    ]
    own = equal(source=source)
    if rows := _count(warehouse, "silver", "cdc", where=own):
        found.append(Gone(f"silver.cdc of {source}", rows))
    if not bronze and (lost := _not_in_bronze(warehouse, source)):
        what = f"messages of {source} that bronze no longer has, whose rows no run makes again"
        found.append(Gone(what, lost))
    if bronze and (rows := _count(warehouse, "bronze", "messages", where=own)):
        found.append(Gone(f"bronze.messages of {source}", rows))
    return found


def reset_source(warehouse: Warehouse, source: str, *, bronze: bool) -> list[Gone]:
    """Reset the source; gives what was removed. No run may come in between, since it would make
    targets anew from what is about to go."""
    own = equal(source=source)
    with ExitStack() as held:
        for name in ("gold", "silver", *([f"bronze/{source}"] if bronze else [])):
            held.enter_context(lease(warehouse, name))
        found = of_source(warehouse, source, bronze=bronze)
        for target in _targets(warehouse, source):
            _take_away(warehouse, source, target)
        for table in ("_rejects", "_progress", "_ddl"):
            _delete(warehouse, "gold", table, where=own)
        remove(warehouse, warehouse.checkpoint("silver", source))
        if _count(warehouse, "silver", "cdc", where=own):
            # Batches are numbered on from the last one, whether or not its rows are there.
            none = warehouse.read("silver", "cdc").where("false")
            warehouse.replace(none, "silver", "cdc", where=own, note=last_batch(warehouse))
        forget(warehouse, source)
        if bronze:
            # Kept notes go first: with them and without a checkpoint, files would be taken as read.
            for folder in (kept(warehouse, source), warehouse.checkpoint("bronze", source)):
                remove(warehouse, folder)
            _delete(warehouse, "bronze", "messages", where=own)
            projects.forget(warehouse, source)
    return found


def _targets(warehouse: Warehouse, source: str) -> list[str]:
    """The source's targets: those with progress, and those of which a killed run left the table
    without a record."""
    progress = load_progress(warehouse)
    recorded = {target for _, target in progress}
    made = {
        name
        for name, target in known_targets(warehouse).fed.items()
        if target.source == source and name not in recorded
        if contract_of(warehouse, name) is not None
    }
    return sorted({*targets_of(progress, source), *made})


def _not_in_bronze(warehouse: Warehouse, source: str) -> int:
    """How many messages only silver has rows of, because retention, or an erasure of other rows in
    them, removed them from bronze."""
    if not (warehouse.exists("silver", "cdc") and warehouse.exists("bronze", "messages")):
        return 0
    names, own = list(MESSAGE), equal(source=source)
    sent = warehouse.read("silver", "cdc").where(own).where("kind IN ('change', 'ddl', 'fragment')")
    bronze = warehouse.read("bronze", "messages").where(own).select(*names)
    return sent.select(*names).distinct().join(bronze, names, "left_anti").count()


def _count(warehouse: Warehouse, layer: str, table: str, *, where: str) -> int:
    if not warehouse.exists(layer, table):
        return 0
    return warehouse.read(layer, table).where(where).count()


def _delete(warehouse: Warehouse, layer: str, table: str, *, where: str) -> None:
    if warehouse.exists(layer, table):
        warehouse.execute(delete(warehouse.name(layer, table), where))
