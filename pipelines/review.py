"""The decision on a schema change, and seeing an approved one through.

An approval is written first, then carried out, then written as `applied`. Every step looks at the
table as it is, so that a crash anywhere leaves an entry `approved`, which the next run of gold or
the next decision finishes. All of it happens under gold's lease: who comes second finds the entry
decided.

1. The Delta statements that are due on the target as it is now, or were left undone (`ddl_steps`).
   A column that a later change added again, and that this one takes away, begins anew.
2. Rows: the literal DEFAULT, or the fold of history where events above the change were applied
   before (`pipelines.alterations.refill_needed`); by another key or type of it, the whole table.
3. Events that did not fit are tried again; waiting changes that this one overtook are superseded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingest.config import Config
from ingest.ddl_delta import add_column
from ingest.errors import ConfigError, IngestError, Mistake, TableError
from ingest.lineage import Effect
from ingest.mistakes import nearest
from ingest.names import label_of
from ingest.routes import Route
from pipelines.alterations import check_values, due, fill_defaults, refill_needed
from pipelines.ddl_entries import IN_FORCE, WAITING, Entry, load, readded
from pipelines.ddl_steps import left, types_behind
from pipelines.leases import lease
from pipelines.ledger import Ledger
from pipelines.moves import moves
from pipelines.progress import load as load_progress
from pipelines.refilling import refill
from pipelines.rekeying import rekey
from pipelines.retyping import replay_misfits
from pipelines.tables import Warehouse
from pipelines.targets import columns_of, keys_of

DECIDABLE = {"approve": (*WAITING, "approved", "rejected", "ignored"), "reject": WAITING}
_OVERTAKEN = "overtaken by {}"
SETTLED = {"approve": ("applied", "superseded"), "reject": ("rejected",)}


def find(warehouse: Warehouse, ids: Sequence[str], verb: str) -> list[Entry]:
    """The entries with these ids, which may be shortened as long as they are one's alone.

    Raises ConfigError for an id that is none's or several's, or whose entry is past this decision.
    """
    entries = load(warehouse)
    found: list[Entry] = []
    mistakes: list[Mistake] = []
    for id_ in dict.fromkeys(ids):
        fits = [entries[id_]] if id_ in entries else []
        fits = fits or [entry for known, entry in entries.items() if known.startswith(id_)]
        if len(fits) != 1:
            got = f"that of {len(fits)}" if fits else f"none's{nearest(id_, list(entries))}"
            text = f"expected the id of one schema change, `{id_}` is {got}; `ddl list` shows them"
            mistakes.append(Mistake("command line", None, text))
        elif fits[0].status not in (*DECIDABLE[verb], *SETTLED[verb]):
            text = f"expected a schema change to {verb}, got {fits[0].id}, which is"
            mistakes.append(Mistake("command line", None, f"{text} {fits[0].status}"))
        else:
            found.append(fits[0])
    if mistakes:
        raise ConfigError(mistakes)
    return sorted(found, key=lambda entry: (entry.pos or (), entry.id))


def decide(
    warehouse: Warehouse, config: Config, verb: str, ids: Sequence[str], *, by: str, why: str | None
) -> list[Entry]:
    """Approve or reject entries, now; gives them as they then are, `failed` ones included.

    Waits for a run of gold to end. Raises ConfigError before anything is touched.
    """
    find(warehouse, ids, verb)
    with lease(warehouse.checkpoint(), "gold"):
        stands = load_progress(warehouse)
        ledgers: dict[str, Ledger] = {}
        done = []
        try:
            for asked in find(warehouse, ids, verb):
                source = asked.table.source
                ledger = ledgers.setdefault(source, Ledger(warehouse, config, source, stands))
                entry = ledger.entries[asked.id]
                if entry.status not in SETTLED[verb]:
                    if verb == "reject":
                        entry = counted(ledger, entry).settled("rejected", by=by, why=why)
                    else:
                        entry = _approved(ledger, entry, by=by, why=why)
                    ledger.note(entry)
                done.append(entry)
        finally:
            for ledger in ledgers.values():
                ledger.save()
        return done


def counted(ledger: Ledger, entry: Entry) -> Entry:
    """The entry with the number of rows that waited for it."""
    from pipelines.waiting import waiting_rows

    return replace(entry, waiting_rows=waiting_rows(ledger.warehouse, [entry])[entry.id])


def _approved(ledger: Ledger, entry: Entry, *, by: str, why: str | None) -> Entry:
    """The entry, approved and carried out; what comes of that is for the caller to write."""
    if entry.risk == "none":
        return entry
    if entry.status == "approved":
        return seen_through(ledger, entry)
    first = _blocking(ledger, entry)
    if first is not None:
        text = f"{entry.id} takes a column's name that {first.id} frees: approve that one first"
        raise ConfigError([Mistake("command line", None, text)])
    route = ledger.route(entry.table)
    columns = columns_of(ledger.warehouse, route.target) if route is not None else None
    if route is not None and columns is not None:
        keys = keys_of(ledger.warehouse, route.target) or route.keys or ()
        seen = ledger.look(counted(ledger, entry), route, columns, keys)
        if entry.status == "failed" and entry.proposed:
            # It may have been half done: what it began with says what is left to do.
            seen = replace(seen, proposed=entry.proposed, effects=entry.effects)
        entry = seen
    # What came of the one before is written by the same commit.
    ledger.note(entry.settled("approved", by=by, why=why))
    ledger.save()
    return seen_through(ledger, ledger.entries[entry.id])


def _blocking(ledger: Ledger, entry: Entry) -> Entry | None:
    """The waiting change without which this one cannot be: a rename of what it adds anew, or what
    takes away or renames a column whose name it gives to another."""
    taken = {effect.brings for effect in entry.effects if effect.op == "rename"}
    for other in ledger.of(entry.table):
        if other.status not in WAITING or other.id == entry.id:
            continue
        renames = any(effect.op == "rename" for effect in other.effects)
        frees = {e.column for e in other.effects if e.op in ("drop", "rename")}
        earlier = (other.pos or ()) < (entry.pos or ())
        if (renames and readded(entry, [other])) or (earlier and frees & taken):
            return other
    return None


def finish(ledger: Ledger, entry: Entry) -> Entry:
    """See an approved entry through, and write what came of it; gives it as it then is."""
    return ledger.put(seen_through(ledger, entry))


def seen_through(ledger: Ledger, entry: Entry) -> Entry:
    """Carry an approved entry out; gives it as `applied`, or as `failed` with the reason."""
    route = ledger.route(entry.table)
    exists = route is not None and ledger.warehouse.exists("gold", route.target)
    for other in _overtaken(ledger, entry):
        ledger.put(other.settled("superseded", why=_OVERTAKEN.format(entry.id)))
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
    check_values(warehouse, route, entry, zone)
    _check_names(ledger, entry, route)
    seen = ledger.look(entry, route, columns, keys)
    again = _again(ledger, entry)
    for text in due(warehouse, entry, left(warehouse, entry, seen.proposed), again=again):
        warehouse.session.sql(text)
    for text in types_behind(warehouse, entry, route.columns):
        warehouse.session.sql(text)
    restored = _restore(ledger, entry, route)
    keyed = [effect for effect in entry.effects if effect.op == "key"]
    renamed = any(effect.op == "move" for effect in entry.effects)
    if keyed:
        rekey(ledger, route, keyed[-1])
    elif again or restored or renamed or refill_needed(entry, ledger.applied(entry)):
        refill(ledger, route)
    else:
        fill_defaults(warehouse, entry, label_of(entry.table), zone)
    replay_misfits(ledger, route)


def _check_names(ledger: Ledger, entry: Entry, route: Route) -> None:
    """Raise TableError where a table's new name has a target of its own."""
    for table, first in moves([entry]).items():
        way = ledger.route(table)
        if way is not None and way.target != route.target:
            if ledger.warehouse.exists("gold", way.target):
                raise TableError(
                    f"expected no target for {table} before {first} took that name, got "
                    f"{way.target}; reject this change, or take {way.target} away first"
                )


def _restore(ledger: Ledger, entry: Entry, route: Route) -> list[Effect]:
    """Add again, empty, the columns that the entry took away and a later change had brought."""
    warehouse = ledger.warehouse
    held = {name.lower() for name in columns_of(warehouse, route.target) or {}}
    taken = {e.column for e in entry.effects if e.op in ("drop", "rename")}
    found = [
        effect
        for other in ledger.of(entry.table)
        if other.status in IN_FORCE and other.id != entry.id
        if other.pos is not None and entry.pos is not None and other.pos > entry.pos
        for effect in other.effects
        if effect.op == "add" and effect.column in taken
    ]
    target = warehouse.name("gold", route.target)
    for effect in found:
        if effect.column in held:
            continue
        name, type_ = effect.args[0] or "", effect.args[1] or "string"
        warehouse.session.sql(add_column(target, name, type_))
    return found


def _again(ledger: Ledger, entry: Entry) -> list[Effect]:
    """What the entry adds under a name that the target still has from a change before it."""
    others = [
        replace(other, status="pending") if other.why == _OVERTAKEN.format(entry.id) else other
        for other in ledger.of(entry.table)
    ]
    return readded(replace(entry, status="pending"), others)


def _overtaken(ledger: Ledger, entry: Entry) -> list[Entry]:
    """Waiting changes from before the entry of columns that it ended."""
    if entry.pos is None:
        return []
    ended = {effect.column for effect in entry.effects if effect.op == "drop"}
    ended |= {effect.column for effect in _again(ledger, entry)}
    return [
        other
        for other in ledger.of(entry.table)
        if other.status in WAITING and other.id != entry.id and other.effects
        if other.pos is not None and other.pos < entry.pos
        if all((effect.brings or effect.column) in ended for effect in other.effects)
    ]
