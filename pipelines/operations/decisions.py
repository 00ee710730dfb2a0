"""`ingest ddl approve` and `ingest ddl reject`: the decision on schema changes, under gold's
lease."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ingest.config.mistakes import nearest
from ingest.ddl.changes import RenameColumn, freed, only
from ingest.errors import ConfigError, Mistake
from ingest.names import label_of
from pipelines.gold.approvals import complete
from pipelines.gold.run import merge_tables
from pipelines.ledger.decisions import decide as policy_of
from pipelines.ledger.entries import WAITING, Entry, load_entries, readded, renames_another
from pipelines.ledger.impact import impact
from pipelines.ledger.review import reviewed
from pipelines.ledger.store import Ledger
from pipelines.platform.leases import lease
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import load_progress

DECIDABLE = {"approve": (*WAITING, "approved", "rejected", "ignored"), "reject": WAITING}


class Decided(NamedTuple):
    """The entries after a decision, `failed` ones included, and for each entry that was left as it
    is, because another has to be decided on first, the sentence that says so."""

    entries: list[Entry]
    refused: list[str]


SETTLED = {"approve": ("applied", "superseded"), "reject": ("rejected",)}


def find(warehouse: Warehouse, ids: Sequence[str], verb: str) -> list[Entry]:
    """The entries with these ids. An id may be shortened as long as only one entry's begins so.

    Raises ConfigError for an id that none or several have, and for an entry that can no longer be
    decided on so.
    """
    entries = load_entries(warehouse)
    chosen: list[Entry] = []
    mistakes: list[Mistake] = []
    for id_ in dict.fromkeys(ids):
        fits = [entries[id_]] if id_ in entries else []
        fits = fits or [entry for known, entry in entries.items() if known.startswith(id_)]
        if len(fits) != 1:
            got = f"with which {len(fits)} ids begin" if fits else "with which no id begins"
            text = (
                f"expected the id of a schema change, got `{id_}`, {got}"
                f"{'' if fits else nearest(id_, list(entries))}; `ingest ddl list` shows them"
            )
            mistakes.append(Mistake("command line", None, text))
        elif fits[0].status not in (*DECIDABLE[verb], *SETTLED[verb]):
            text = f"expected a schema change to {verb}, got {fits[0].id}, which is"
            mistakes.append(Mistake("command line", None, f"{text} {fits[0].status}"))
        else:
            chosen.append(fits[0])
    if mistakes:
        raise ConfigError(mistakes)
    return sorted(chosen, key=lambda entry: (entry.place, entry.id))


def decide(
    warehouse: Warehouse, verb: str, *, ids: Sequence[str], by: str, why: str | None
) -> Decided:
    """Approve or reject entries now. An entry that cannot be decided on yet does not keep the
    others from being decided.

    Waits for a run of gold to end. Raises ConfigError if nothing was decided.
    """
    find(warehouse, ids, verb)
    with lease(warehouse, "gold"):
        progress_by_target = load_progress(warehouse)
        ledgers: dict[str, Ledger] = {}
        done: list[Entry] = []
        refused: list[Mistake] = []
        try:
            for asked in find(warehouse, ids, verb):
                source = asked.table.source
                ledger = ledgers.setdefault(
                    source, Ledger(warehouse, source, progress_by_target=progress_by_target)
                )
                try:
                    done.append(_decide_one(ledger, asked.id, verb, by=by, why=why))
                except ConfigError as error:
                    refused += error.mistakes
        finally:
            for ledger in ledgers.values():
                ledger.save_staged()
    if refused and not done:
        raise ConfigError(refused)
    for source in ledgers:
        _bring_on(warehouse, source, decided=done)
    return Decided(done, [mistake.text for mistake in refused])


def _decide_one(ledger: Ledger, id_: str, verb: str, *, by: str, why: str | None) -> Entry:
    """Take a decision on an entry, unless that was done already, and stage what came of it; gives
    the entry as it then is. Raises ConfigError if another entry has to be decided on first."""
    entry = ledger.entries[id_]
    if entry.status in SETTLED[verb]:
        return entry
    if verb == "reject":
        entry = with_waiting_rows(ledger, entry).with_status("rejected", by=by, why=why)
    else:
        entry = _approved(ledger, entry, by=by, why=why)
    ledger.stage_entry(entry)
    return entry


def _bring_on(warehouse: Warehouse, source: str, *, decided: Sequence[Entry]) -> None:
    """Apply what waited for the new generations of tables that were just approved."""
    targets = {
        entry.target
        for entry in decided
        if entry.recreates and entry.table.source == source and entry.status == "applied"
        if entry.target is not None
    }
    if targets:
        merge_tables(warehouse, sources=[source], targets=sorted(targets))


def with_waiting_rows(ledger: Ledger, entry: Entry) -> Entry:
    """The entry with the number of rows that waited for it."""
    return replace(entry, waiting_rows=impact(ledger.warehouse, [entry])[entry.id])


def _approved(ledger: Ledger, entry: Entry, *, by: str, why: str | None) -> Entry:
    """The entry, approved and, unless it is too early for that, carried out. The caller writes what
    came of it."""
    if entry.risk == "none" and entry.status not in WAITING:
        return entry
    if entry.table in ledger.held_tables():
        named = label_of(entry.table)
        text = f"{entry.id} is of {named}, which waits for its rename: decide on that one first"
        raise ConfigError([Mistake("command line", None, text)])
    if ledger.without_route(entry):
        named = label_of(entry.table)
        text = (
            f"{entry.id} changes {entry.target}, which {named} does not feed any more: declare its "
            "source and an entry for it again, or reject the change"
        )
        raise ConfigError([Mistake("command line", None, text)])
    if entry.status == "approved":
        return entry if ledger.too_early(entry) else complete(ledger, entry)
    blocked = _blocked(ledger, entry)
    if blocked is not None:
        raise ConfigError([Mistake("command line", None, blocked)])
    route = ledger.route(entry.table)
    if route is not None and ledger.warehouse.exists("gold", route.target):
        again = reviewed(ledger, with_waiting_rows(ledger, entry), route)
        if entry.status == "failed" and entry.proposed:
            # It may have been half done; what it proposed at first says what is left to do.
            again = replace(again, proposed=entry.proposed, effects=entry.effects)
        entry = again
        if entry.risk == "none":
            settled = policy_of(entry, route.ddl, ledger.of(entry.table))
            return entry.with_status(settled.status, by=by, why=why or settled.why)
    # The same commit writes what came of the entry before this one.
    ledger.stage_entry(entry.with_status("approved", by=by, why=why))
    ledger.save_staged()
    approved = ledger.entries[entry.id]
    return approved if ledger.too_early(approved) else complete(ledger, approved)


def _blocked(ledger: Ledger, entry: Entry) -> str | None:
    """The sentence on a waiting change that has to be decided on before this one; None if there is
    none. Such a change adds the column that this one renames, renames a column of which this one
    adds a new one, or drops or renames a column whose name this one takes."""
    taken = {rename.new.lower() for rename in only(RenameColumn, entry.effects)}
    others = ledger.of(entry.table)
    if (first := renames_another(entry, others)) is not None:
        return f"{entry.id} renames a column that {first.id} brings: decide on that one first"
    for other in others:
        if other.status not in WAITING or other.id == entry.id:
            continue
        renames = only(RenameColumn, other.effects)
        earlier = other.place < entry.place
        if (renames and readded(entry, [other])) or (earlier and freed(other.effects) & taken):
            return f"{entry.id} takes a column's name that {other.id} frees: approve that one first"
    return None
