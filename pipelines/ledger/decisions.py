"""`gold._ddl`: every schema change once, reviewed by policy before it touches gold.

Broadcast copies and replays of one statement have one id (`ingest.ddl.parse.identity`). A change
that the policy lets in is entered as `approved` before anything is done, and as `applied` when
everything is; the next run first finishes what a crash left in between
(`pipelines.gold.approvals`). The other changes wait as `pending`, and so do their columns: the data
for them keeps collecting in silver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, assert_never

from pyspark.errors import PySparkException

from ingest.codes import Code
from ingest.config.routes import Route
from ingest.config.settings import DdlPolicy
from ingest.ddl.changes import (
    AlterColumnType,
    ChangeKey,
    DropColumn,
    RenameColumn,
    RenameTable,
    brings,
    brought,
    column_of,
    ended,
    frees,
    name_after,
    names_through,
    only,
    schema_changes,
)
from ingest.ddl.model import Statement
from ingest.ddl.risks import MILD
from ingest.ddl.widening import canonical_type, widens
from ingest.errors import TableError
from ingest.names import SourceTable, lowered
from ingest.position import Pos
from pipelines.ledger import generations
from pipelines.ledger.alter import add_columns, carry_out, deferred
from pipelines.ledger.backfill import backfill_needed
from pipelines.ledger.coming_statements import ComingStatements
from pipelines.ledger.drift import announced
from pipelines.ledger.entries import (
    IN_FORCE,
    POLICY,
    WAITING,
    Entry,
    Overtaken,
    Status,
    added_again,
    is_unsent,
    names_reused,
    readded,
    renames_another,
)
from pipelines.ledger.renames import is_rename
from pipelines.ledger.review import proposed_now, reviewed
from pipelines.ledger.statements import (
    gold_types_before,
    unreviewed,
)
from pipelines.ledger.store import Ledger
from pipelines.platform.failures import described
from pipelines.targets.rejects import have_misfits, have_rejects


def _first_retyping(entries: Iterable[Entry], column: str) -> Entry | None:
    """The first change that is not in force and gives a column (in lower case) another type."""
    for entry in entries:
        retyped = (change.name.lower() for change in only(AlterColumnType, entry.effects))
        if entry.status not in IN_FORCE and column in retyped:
            return entry
    return None


def _holds(type_: str, before: str) -> bool:
    """Whether `type_` has room for every value of the type `before`; text has room for all."""
    return type_ == "string" or widens(canonical_type(before), canonical_type(type_))


class Verdict(NamedTuple):
    """What becomes of an entry, and why, if there is more to say than the entry does."""

    status: Status
    why: str | None = None


def decide(entry: Entry, policy: DdlPolicy, others: Iterable[Entry]) -> Verdict:
    """What the policy says about a reviewed entry; `others`: the entries of its table."""
    others = list(others)
    waits = readded(entry, others)
    if waits:
        names = ", ".join(map(name_after, waits))
        return Verdict("pending", f"{names} is taken away by a change that waits itself")
    if entry.risk == "none":
        # The new name of an excluded column is a fact, whatever anybody decides.
        named = any(isinstance(effect, DropColumn | RenameColumn) for effect in entry.effects)
        return Verdict("applied" if named else "ignored", entry.why or "nothing to change in gold")
    if renames_another(entry, others):
        return Verdict("pending", "what it renames is brought by a change that waits itself")
    mild = entry.risk in MILD
    if mild and not entry.proposed and not entry.effects:
        return Verdict("applied")
    choice = policy.choice(entry.risk)
    if is_unsent(entry) and choice == "apply":
        # The source did not say that the column is gone; it only no longer came.
        choice = "review"
    match choice:
        case "apply":
            return Verdict("approved")
        case "ignore":
            return Verdict("ignored")
        case "review":
            return Verdict("approved" if mild and not entry.proposed else "pending")
        case _:
            assert_never(choice)


def retypes(entry: Entry) -> bool:
    """Whether the entry waits only for other types of columns, and not for another key."""
    waits = entry.status in WAITING and bool(only(AlterColumnType, entry.effects))
    return waits and not only(ChangeKey, entry.effects)


def overtaken(entry: Entry, others: Iterable[Entry]) -> list[Entry]:
    """Those `others` of the entry's table that wait, come from before it, and are about columns
    that it ends."""
    if entry.pos is None:
        return []
    others = list(others)
    waiting = [
        other
        for other in others
        if other.status in WAITING and other.id != entry.id and other.effects
        if other.pos is not None and other.pos < entry.pos
    ]
    if not waiting:
        # The usual case, asked first: hundreds of columns may be added one after the other.
        return []
    ends = {column_of(change) for change in only(DropColumn, entry.effects)}
    ends |= {column_of(change) for change in added_again(entry, others)}
    return [
        other
        for other in waiting
        # A column that was renamed and then dropped is still there under its old name; the decision
        # on the rename says whether it goes.
        if not only(RenameColumn, other.effects)
        if all((brings(effect) or column_of(effect)) in ends for effect in other.effects)
    ]


def superseded_by(entry: Entry, others: Iterable[Entry]) -> list[Entry]:
    """The entries that this one overtakes, as they are once it is let in."""
    why = Overtaken(entry.id)
    return [other.with_status("superseded", why=why) for other in overtaken(entry, others)]


def waiting_again(entry: Entry, others: Iterable[Entry]) -> list[Entry]:
    """The entries that this one overtook, as they are once it has failed."""
    overtaken_by = Overtaken(entry.id)
    return [
        replace(other, status="pending", reason=None, why=None, decided_by=None, decided_at=None)
        for other in others
        if other.status == "superseded" and other.reason == overtaken_by
    ]


def recreate_missing(ledger: Ledger, coming: ComingStatements) -> bool:
    """Carry out the new generations of tables that have no target; there is nothing to review.
    Gives whether silver got truncates by it, which earlier counts lack."""
    fresh = [
        entry
        for entry in coming
        if entry.recreates
        and ledger.route(entry.table) is not None
        and not ledger.target_exists(entry.table)
    ]
    appended = generations.empty(ledger.warehouse, fresh)
    if fresh:
        ledger.save_staged()
    for entry in fresh:
        coming.take_one(entry)
        entry = replace(entry, risk="destructive", kind="create_table")
        route = ledger.route(entry.table)
        assert route is not None
        why = "the target does not exist yet"
        ledger.save_entry(replace(entry, target=route.target).with_status("applied", why=why))
    return appended


def begin_columns(
    ledger: Ledger,
    table: SourceTable,
    wanted: Mapping[str, str],
    *,
    keys: Iterable[str],
    lowest: Pos | None,
    coming: ComingStatements,
) -> dict[str, str]:
    """The columns that a new target begins with: those of its rows before the first schema change.

    `wanted`: as the messages and the configuration have them. A column keeps its own earlier type
    if another column has taken its name since, or if today's type would not hold its values.
    Changes from before the first row are settled here, since there was nothing to review.
    """
    for entry in coming.take(table):
        if entry.pos is None or lowest is None or entry.pos < lowest:
            ledger.stage_entry(unreviewed(entry, ledger.statement(entry), ledger.route(table)))
        else:
            coming.add(entry)
    stated = map(ledger.stated, coming.of(table))
    met = sorted([*stated, *ledger.of(table)], key=lambda entry: entry.place)
    undecided = [entry for entry in met if entry.status not in ("applied", "superseded")]
    barred = brought(effect for entry in undecided for effect in entry.effects)
    lineage = ledger.lineage(table)
    always = lowered(keys)
    own = _own_types(ledger, table, met, wanted=wanted)
    return {
        name: own.get(name.lower(), type_)
        for name, type_ in wanted.items()
        if name.lower() in always
        or (name.lower() not in barred and ended(lineage, name.lower()) is None)
    }


def _own_types(
    ledger: Ledger, table: SourceTable, met: Sequence[Entry], *, wanted: Mapping[str, str]
) -> dict[str, str]:
    """The types, by lower-case name, that columns had before the first change which gave their name
    to another column, or gave them a type that does not hold their values."""
    route = ledger.route(table)
    declared = lowered(route.columns) if route is not None else set()
    reused = names_reused(met)
    changed = {}
    for name in (name for name in wanted if name.lower() not in declared):
        entry = reused.get(name.lower()) or _first_retyping(met, name.lower())
        if entry is not None and entry.pos is not None:
            changed[name] = entry
    entries = {entry.id: entry for entry in changed.values()}
    names = ledger.names(table)
    types = {id_: gold_types_before(ledger.warehouse, e, names) for id_, e in entries.items()}
    found = {}
    for name, entry in changed.items():
        before = types[entry.id].get(name.lower())
        if before is not None and (name.lower() in reused or not _holds(wanted[name], before)):
            found[name.lower()] = before
    return found


def foreseen(ledger: Ledger, coming: ComingStatements) -> list[Entry]:
    """The statements as the policy will decide them; nothing is done."""
    found = []
    waiting = ledger.held_tables(map(ledger.stated, coming))
    for entry in coming:
        route = ledger.route(entry.table)
        if route is None or not ledger.target_exists(entry.table):
            found.append(_unreviewed(ledger, entry, waiting))
        elif entry.kind == "truncate":
            found.append(_decided(ledger, replace(entry, target=route.target), route))
        else:
            found.append(_decided(ledger, reviewed(ledger, entry, route), route))
    return found


def settle_rest(ledger: Ledger, coming: ComingStatements) -> None:
    """Settle the statements on tables without rows in this run, and write the entries."""
    waiting = ledger.held_tables()
    for table in coming.tables:
        first = ledger.first_name(table)
        route = ledger.route(first)
        entries = coming.take(table)
        if route is not None and ledger.target_exists(first):
            # A rename that was let in just now may have changed which table this is.
            for entry in entries:
                coming.add(replace(entry, table=first))
            apply_statements(ledger, first, route, coming=coming)
            if any(map(is_rename, ledger.of(first))):
                waiting = ledger.held_tables()
            continue
        for entry in entries:
            ledger.stage_entry(_unreviewed(ledger, entry, waiting))
    ledger.save_staged()


def _unreviewed(ledger: Ledger, entry: Entry, waiting: Collection[SourceTable]) -> Entry:
    """An entry of a table without a target. If the table is `waiting` for its rename, as its
    changes do, the entry is taken up once the rename is decided."""
    route = ledger.route(entry.table) if entry.table not in waiting else None
    why = "the table waits for its rename" if entry.table in waiting else None
    read = ledger.statement(entry)
    found = unreviewed(entry, read, route, why=why)
    taken = _name_taken_by(ledger, read) if route is not None else None
    if taken is None:
        return found
    found = replace(found, kind="rename_table", effects=(*found.effects, taken))
    why = "the new name is that of a table with a target, whose rows its own would come among"
    return replace(found, status="pending", decided_by=None, decided_at=None, why=why)


def _name_taken_by(ledger: Ledger, read: Statement) -> RenameTable | None:
    """The rename in a statement that gives its table a name which a table with a target has."""
    for change in only(RenameTable, schema_changes(read.clauses, {})):
        table = SourceTable(ledger.source, change.db, change.schema, change.name)
        if ledger.target_exists(table):
            return change
    return None


def apply_statements(
    ledger: Ledger, table: SourceTable, route: Route, *, coming: ComingStatements
) -> bool:
    """Take up the DDL of a source table, and carry out what the policy lets in; gives whether there
    was any."""
    waiting = coming.take(table)
    for entry in waiting:
        if entry.kind == "truncate":
            ledger.stage_entry(_decided(ledger, replace(entry, target=route.target), route))
            continue
        read = ledger.statement(entry)
        entry, superseded = announced(reviewed(ledger, entry, route), ledger.of(table))
        ledger.keep_statement(entry.id, read)
        for drift in superseded:
            ledger.stage_entry(drift)
        if entry.version and entry.status in ("rejected", "ignored"):
            ledger.stage_entry(entry)
        else:
            enter(ledger, [entry], route)
    return bool(waiting)


def begin_again(ledger: Ledger, table: SourceTable, route: Route) -> bool:
    """Carry out, before the rows, what was left by a run that was killed while it made the target
    (see `unfinished`); gives whether there was any."""
    left = [entry for entry in ledger.of(table) if entry.status == "approved"]
    for entry in left:
        _begin(ledger, entry, route)
    return bool(left)


def enter(ledger: Ledger, entries: Iterable[Entry], route: Route) -> None:
    """Take up reviewed entries, one by one: decide each by the policy, and begin what that lets
    in."""
    for entry in entries:
        taken = _taken_up(ledger, entry, route)
        if taken is not None and taken.status == "approved":
            _begin(ledger, taken, route)


def review_again(ledger: Ledger, entries: Iterable[Entry], route: Route) -> None:
    """Review the waiting entries of a target whose columns were made anew, and decide those for
    which the result differs: what had to be replaced while the column was string may be a widening
    now. What the policy lets in becomes `approved`, for the next run of gold to see through."""
    for entry in entries:
        again = reviewed(ledger, entry, route)
        if (again.risk, again.proposed) != (entry.risk, entry.proposed):
            ledger.stage_entry(_decided(ledger, again, route))
    ledger.save_staged()


def review_retyped(ledger: Ledger) -> None:
    """Review again what waits for another type of a column that has another type by now: a rebuild
    was killed before it did that. A failed entry is left alone, since it may be half done; whoever
    approves it again sees it through."""
    waiting = [e for e in ledger.entries.values() if e.status == "pending" and retypes(e)]
    for entry in waiting:
        route = ledger.route(entry.table)
        if route is None or not ledger.warehouse.exists("gold", route.target):
            continue
        if proposed_now(ledger, entry, route) != entry.proposed:
            review_again(ledger, [entry], route)


def enter_columns(ledger: Ledger, entries: Sequence[Entry], route: Route) -> None:
    """Take up reviewed entries that add a column each. What the policy lets in is carried out by
    one change of the target and written by one change of the ledger."""
    taken = [taken for entry in entries if (taken := _taken_up(ledger, entry, route)) is not None]
    begun = ledger.save_entries([entry for entry in taken if entry.status == "approved"])
    try:
        add_columns(ledger, begun, route)
    except PySparkException:
        # Adding them one by one shows which of them it is.
        for entry in begun:
            _begin(ledger, entry, route)
        return
    for entry in begun:
        if not backfill_needed(entry, ledger.applied(entry)):
            _stage_applied(ledger, entry)


def _taken_up(ledger: Ledger, entry: Entry, route: Route) -> Entry | None:
    """The entry, decided; None if it is known and undecided, or has no part in the target."""
    known = ledger.entries.get(entry.id)
    if known is not None and not entry.version:
        if known.status not in ("applied", "superseded"):
            return None
        entry = replace(entry, version=known.version, refold=known.refold)
    entry = _decided(ledger, entry, route)
    ledger.stage_entry(entry)
    if entry.status in (*WAITING, "ignored") and ledger.reads_otherwise(entry):
        # The next run must know it, too: where this one is killed, it does not meet the statement.
        entry = replace(entry, refold=True)
        ledger.stage_entry(entry)
    return entry


def _decided(ledger: Ledger, entry: Entry, route: Route) -> Entry:
    """The entry as the policy decides it."""
    status, why = decide(entry, route.ddl, ledger.of(entry.table))
    if status == "pending":
        return replace(entry, status=status, why=why or entry.why)
    return entry.with_status(status, by=entry.decided_by or POLICY, why=why)


def _begin(ledger: Ledger, entry: Entry, route: Route) -> None:
    """Carry out an approved entry as far as that can be done before the rows of the batch. If rows
    have to be folded again, it stays `approved`, and `pipelines.gold.approvals` finishes it; only
    there are keys changed. An entry that is too early stays approved as well."""
    if ledger.too_early(entry):
        ledger.stage_entry(entry)
        return
    later = any(map(deferred, entry.effects)) or _frees_rejects(ledger, entry, route)
    if entry.proposed or later:
        entry = ledger.save_entry(entry)
    if only(ChangeKey, entry.effects):
        return
    try:
        backfill = carry_out(ledger, entry, route)
    except (PySparkException, TableError) as error:
        ledger.stage_entry(entry.with_status("failed", why=described(error)[:2000]))
        return
    if not backfill and not later:
        _stage_applied(ledger, entry)


def _frees_rejects(ledger: Ledger, entry: Entry, route: Route) -> bool:
    """Whether events were set aside for a value of a column that the entry removes, or for want of
    a column whose name it tells: these events are tried again once it is carried out."""
    of_target = ledger.warehouse, ledger.source, route.target
    gone = [change.name for change in only(DropColumn, entry.effects)]
    if gone and have_misfits(*of_target, columns=gone):
        return True
    lineage = ledger.lineage(entry.table) if route.sequence_by else ()
    ordering = {
        name.lower()
        for declared in route.sequence_by or ()
        for _, name in names_through(declared, lineage)
    }
    named = ({frees(change), brings(change)} for change in only(RenameColumn, entry.effects))
    if not any(ordering & names for names in named):
        return False
    return have_rejects(*of_target, code=Code.ORDER_KEY_MISSING.value)


def _stage_applied(ledger: Ledger, entry: Entry) -> None:
    """Stage the entry as applied, and as superseded the entries that waited for columns which it
    ends."""
    ledger.stage_entry(replace(entry, status="applied"))
    for other in superseded_by(entry, ledger.of(entry.table)):
        ledger.stage_entry(other)
