"""The decision on a schema change, and seeing an approved one through.

An approval is written first, then carried out, then written as `applied`. Every step looks at the
table as it is, so that a crash anywhere leaves an entry `approved`, which the next run of gold or
the next decision finishes. All of it happens under gold's lease: who comes second finds the entry
decided.

1. The Delta statements that are due on the target as it is now, or were left undone (`ddl_steps`).
   A column that a later change added again, and that this one takes away, begins anew.
2. Rows: the literal DEFAULT, or the fold of history where events above the change were applied
   before (`pipelines.ledger.alter.refill_needed`); by another key or type of it, the whole table.
3. Events that did not fit are tried again; waiting changes that this one overtook are superseded.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.config.routes import Route
from ingest.ddl.changes import (
    AddColumn,
    ChangeKey,
    DropColumn,
    RenameTable,
    brings,
    column_of,
    freed,
)
from ingest.errors import IngestError, TableError
from ingest.names import label_of
from ingest.sql.alter import statements
from pipelines.gold.refold import refill, rekey
from pipelines.gold.retyping import replay_misfits
from pipelines.ledger import generations
from pipelines.ledger.alter import (
    check_values,
    due,
    fill_defaults,
    left,
    refill_needed,
    types_behind,
)
from pipelines.ledger.decisions import Ledger
from pipelines.ledger.entries import IN_FORCE, WAITING, Entry, Overtaken, readded
from pipelines.ledger.renames import renames
from pipelines.targets.table import columns_of, keys_of


def finish(ledger: Ledger, entry: Entry) -> Entry:
    """See an approved entry through, and write what came of it; gives it as it then is."""
    return ledger.put(seen_through(ledger, entry))


def seen_through(ledger: Ledger, entry: Entry) -> Entry:
    """Carry an approved entry out; gives it as `applied`, or as `failed` with the reason."""
    route = ledger.route(entry.table)
    exists = route is not None and ledger.warehouse.exists("gold", route.target)
    for other in _overtaken(ledger, entry):
        ledger.put(other.settled("superseded", why=Overtaken(entry.id)))
    try:
        if route is not None and exists:
            _carry_out(ledger, entry, route)
    except IngestError as error:
        return replace(entry, status="failed", why=str(error))
    except Exception as error:
        text = f"{type(error).__name__}: {str(error)[:2000]}"
        return replace(entry, status="failed", why=text)
    return replace(entry, status="applied")


def _carry_out(ledger: Ledger, entry: Entry, route: Route) -> None:
    warehouse, config = ledger.warehouse, ledger.config
    columns = columns_of(warehouse, route.target) or {}
    keys = keys_of(warehouse, route.target) or route.keys or ()
    zone = config.sources[ledger.source].time_zone
    if not generations.anew(entry):
        # Of a table that was dropped nothing is left to fit.
        check_values(warehouse, route, entry, zone=zone)
    _check_names(ledger, entry, route)
    seen = ledger.look(entry, route, columns, keys=keys)
    again = _again(ledger, entry)
    target = warehouse.name("gold", route.target)
    steps = due(warehouse, entry, left(warehouse, entry, seen.proposed), again=again)
    for text in statements(target, steps):
        warehouse.execute(text)
    for text in statements(target, types_behind(warehouse, entry, route.columns)):
        warehouse.execute(text)
    if generations.anew(entry):
        if any(isinstance(change, DropColumn) for change in entry.proposed):
            refill(ledger, route)
        generations.empty(warehouse, [entry])
        return
    restored = _restore(ledger, entry, route)
    keyed = [effect for effect in entry.effects if isinstance(effect, ChangeKey)]
    renamed = any(isinstance(effect, RenameTable) for effect in entry.effects)
    if keyed:
        rekey(ledger, route, keyed[-1])
    elif again or restored or renamed or refill_needed(entry, ledger.applied(entry)):
        refill(ledger, route)
    else:
        fill_defaults(warehouse, entry, label_of(entry.table), zone=zone)
    replay_misfits(ledger, route)


def _check_names(ledger: Ledger, entry: Entry, route: Route) -> None:
    """Raise TableError where a table's new name has a target of its own."""
    for table, first in renames([entry]).items():
        way = ledger.route(table)
        if way is not None and way.target != route.target:
            if ledger.warehouse.exists("gold", way.target):
                raise TableError(
                    f"expected no target for {table} before {first} took that name, got "
                    f"{way.target}; reject this change, or take {way.target} away first"
                )


def _restore(ledger: Ledger, entry: Entry, route: Route) -> list[AddColumn]:
    """Add again, empty, the columns that the entry took away and a later change had brought."""
    warehouse = ledger.warehouse
    held = {name.lower() for name in columns_of(warehouse, route.target) or {}}
    taken = freed(entry.effects)
    found = [
        effect
        for other in ledger.of(entry.table)
        if other.status in IN_FORCE and other.id != entry.id
        if other.pos is not None and entry.pos is not None and other.pos > entry.pos
        for effect in other.effects
        if isinstance(effect, AddColumn) and effect.name.lower() in taken
    ]
    lacking = {e.name.lower(): e for e in found if e.name.lower() not in held}
    for text in statements(warehouse.name("gold", route.target), lacking.values()):
        warehouse.execute(text)
    return found


def _again(ledger: Ledger, entry: Entry) -> list[AddColumn]:
    """What the entry adds under a name that the target still has from a change before it."""
    others = [
        replace(other, status="pending") if other.reason == Overtaken(entry.id) else other
        for other in ledger.of(entry.table)
    ]
    return readded(replace(entry, status="pending"), others)


def _overtaken(ledger: Ledger, entry: Entry) -> list[Entry]:
    """Waiting changes from before the entry of columns that it ended."""
    if entry.pos is None:
        return []
    ended = {column_of(effect) for effect in entry.effects if isinstance(effect, DropColumn)}
    ended |= {column_of(effect) for effect in _again(ledger, entry)}
    return [
        other
        for other in ledger.of(entry.table)
        if other.status in WAITING and other.id != entry.id and other.effects
        if other.pos is not None and other.pos < entry.pos
        if all((brings(effect) or column_of(effect)) in ended for effect in other.effects)
    ]
