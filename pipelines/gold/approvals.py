"""An approved schema change seen through: first its target's table, then its rows.

An approval is written first, then carried out, then written as `applied`. Every step looks at the
table as it is, so a crash anywhere leaves an entry `approved`, which the next run of gold or the
next decision finishes. All of it happens under gold's lease: whoever comes second finds the entry
decided.

1. Waiting changes that this one overtakes are superseded; if it fails, they wait again.
2. The table is changed (`pipelines.ledger.alter.carry_out`), unless a new key does not tell the
   earlier rows apart. The next run that applies changes to it notices the new columns
   (`Progress.columns`).
3. The rows are folded again if `carry_out` says so; the whole table, if its key or a type is
   another one.
4. Events that did not fit are tried again.

A DROP TABLE waits, approved, for the changes from before it: its target may rest or be parked, or a
run may bring others forward, and nothing comes to a target once it is frozen.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.config.routes import Route
from ingest.ddl.changes import ChangeKey, FreezeTable, only
from ingest.errors import TableError
from ingest.sql.silver import first_unapplied
from pipelines.gold.refold import backfill, check_new_key, rekey
from pipelines.gold.retyping import replay_misfits
from pipelines.gold.shared_keys import hand_over
from pipelines.ledger import generations
from pipelines.ledger.alter import carry_out
from pipelines.ledger.decisions import superseded_by, waiting_again
from pipelines.ledger.entries import Entry
from pipelines.ledger.renames import renames
from pipelines.ledger.store import Ledger
from pipelines.platform.failures import described


def finish(ledger: Ledger, entry: Entry) -> Entry:
    """See an approved entry through, and write what came of it; gives the entry as it then is."""
    completed = complete(ledger, entry)
    return completed if completed is entry else ledger.save_entry(completed)


def complete(ledger: Ledger, entry: Entry) -> Entry:
    """Carry an approved entry out; gives it as `applied`, or as `failed` with the reason. One that
    is to wait stays as it is."""
    route = ledger.route(entry.table)
    exists = route is not None and ledger.warehouse.exists("gold", route.target)
    if route is not None and exists and _freezes_early(ledger, entry, route):
        return entry
    superseded = superseded_by(entry, ledger.of(entry.table))
    waiting = {other.id: ledger.entries[other.id] for other in superseded}
    for other in superseded:
        ledger.save_entry(other)
    try:
        if route is not None and exists:
            _check_names(ledger, entry, route)
            check_new_key(ledger, entry, route)
            needed = carry_out(ledger, entry, route)
            _backfill(ledger, entry, route, needed=needed)
        elif entry.recreates:
            # Whoever makes the target later must not find the rows of the earlier table.
            generations.empty(ledger.warehouse, [entry])
    except Exception as error:
        # Those count too that a killed process had superseded.
        for other in waiting_again(entry, ledger.of(entry.table)):
            ledger.save_entry(waiting.get(other.id, other))
        return replace(entry, status="failed", why=described(error)[:2000])
    return replace(entry, status="applied")


def _freezes_early(ledger: Ledger, entry: Entry, route: Route) -> bool:
    """Whether the entry's table is dropped and its target has not applied all changes from before
    that. Those of a table that is parked by itself never come."""
    if entry.pos is None or not only(FreezeTable, entry.effects):
        return False
    apart = ledger.progress_by_target.get((ledger.source, str(ledger.first_name(entry.table))))
    if apart is not None and apart.status == "parked":
        return False
    tables = ledger.progress_of(route).tables
    applied = {name: tables.get(name.path, 0) for name in ledger.names(entry.table)}
    silver = ledger.warehouse.name("silver", "cdc")
    found = ledger.warehouse.session.sql(first_unapplied(silver, applied, below=entry.pos))
    return not found.isEmpty()


def _backfill(ledger: Ledger, entry: Entry, route: Route, *, needed: bool) -> None:
    """Make the target's rows what its table asks for."""
    if not entry.recreates and only(ChangeKey, entry.effects):
        rekey(ledger, route)
    elif needed:
        backfill(ledger, route)
    if entry.recreates:
        generations.empty(ledger.warehouse, [entry])
    else:
        replay_misfits(ledger, route)
        hand_over(ledger, route)


def _check_names(ledger: Ledger, entry: Entry, route: Route) -> None:
    """Raise TableError if the new name of a table has a target of its own."""
    for table, first in renames([entry]).items():
        new_route = ledger.route(table)
        if new_route is not None and new_route.target != route.target:
            if ledger.warehouse.exists("gold", new_route.target):
                raise TableError(
                    f"expected no target for {table} before {first} took that name, got "
                    f"{new_route.target}: `ingest reset {new_route.target} --yes` takes it away, "
                    "and this change can be approved again; or reject it"
                )
