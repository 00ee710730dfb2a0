"""`ingest reset`: what the product made of a target or a source, taken away, so that the next run
makes it anew.

A target: its gold table, its progress, what gold set aside of it and the ledger's entries of its
source tables, decisions included. History stays in silver, from which the next run makes the target
as if it were new, and so does where it was trimmed.

A source: that of all its targets, its rows in silver and silver's progress. Bronze stays, from
which the next run decodes everything again; unless that goes too, with how far its files or topics
were read: then the next run reads what the transport still has. Messages that silver has rows of
and bronze no longer holds are counted beside: no run makes these rows again.

What tells how far messages were read goes before the messages: a process that is killed leaves some
to be read twice rather than never, and a second call takes the rest. Each checkpoint goes by one
step.
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
    """What a reset of the target takes away."""
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
    """Take it away; gives what went."""
    with lease(warehouse, "gold"):
        found = of_target(warehouse, source, target)
        _take_away(warehouse, source, target)
    return found


def _take_away(warehouse: Warehouse, source: str, target: str) -> None:
    _keep_horizons(warehouse, source, target)
    # The table first: while there is progress without it, the target is parked. The ledger last:
    # with progress beyond them, nobody looks for its statements again.
    warehouse.drop("gold", target)
    for table, stage in (("_rejects", "gold"), ("_progress", None), ("_ddl", None)):
        where = equal(source=source, target=target, stage=stage)
        _delete(warehouse, "gold", table, where=where)


def _keep_horizons(warehouse: Warehouse, source: str, target: str) -> None:
    """Note in the source's own record where the history of the target's source tables was trimmed:
    it is as it was when the target is made anew (`pipelines.gold.advance`)."""
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
    """What a reset of the source takes away."""
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
    """Take it away; gives what went. No run comes in between: it would make targets anew of what is
    about to go."""
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
            # Batches are numbered on from the last one, be its rows there or not.
            none = warehouse.read("silver", "cdc").where("false")
            warehouse.replace(none, "silver", "cdc", where=own, note=last_batch(warehouse))
        forget(warehouse, source)
        if bronze:
            # What was kept first: with it and no checkpoint, files would be taken as read.
            for folder in (kept(warehouse, source), warehouse.checkpoint("bronze", source)):
                remove(warehouse, folder)
            _delete(warehouse, "bronze", "messages", where=own)
            projects.forget(warehouse, source)
    return found


def _targets(warehouse: Warehouse, source: str) -> list[str]:
    """The source's targets: those with progress, and those of which a run that was killed left the
    table and no record."""
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
    """How many messages silver alone has rows of: retention, or an erasure of others in them, took
    them out of bronze."""
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
