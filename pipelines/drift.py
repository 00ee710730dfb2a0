"""Schema changes that no DDL announced: columns, types and keys that turn up in data.

They enter the ledger under the same policy as DDL. A column that a decision keeps out of gold, or
that a rename or drop ended for the events it comes with, is no drift. A DDL that arrives after its
data joins the entry that its data made (rulings.md, 54).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ingest.casts import sql_text
from ingest.ddl_delta import add_column, drop_column, quoted
from ingest.ddl_widening import NUMBER, outgrown, spelt, widens
from ingest.lineage import Effect, ended, retyped
from ingest.names import SourceTable
from ingest.order import Pos, pos_literal
from ingest.routes import Route
from pipelines.alterations import as_stored
from pipelines.ddl_entries import IN_FORCE, POLICY, WAITING, Entry
from pipelines.survey import named
from pipelines.targets import columns_of, keys_of

if TYPE_CHECKING:
    from pipelines.ledger import Ledger


# What `pipelines.rejects` says of a value that does not fit.
_MISFIT = re.compile(r"column (.+?): expected \S+, got (\S+?)(?:;|\Z)")


class Drift:
    """What the data of one source showed beside its DDL."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def grown(
        self,
        table: SourceTable,
        route: Route,
        columns: dict[str, str],
        wanted: Mapping[str, str],
        typed_names: set[str],
    ) -> dict[str, str]:
        """The target's columns, with those that data brings and the policy lets in."""
        by_lower = {name.lower(): name for name in columns}
        declared = _folded(route.columns)
        for name, type_ in wanted.items():
            held = by_lower.get(name.lower())
            if held is None:
                effect = Effect("add", (name, type_, None))
                if not self._kept_out(table, effect) and not self._over(table, effect):
                    columns = self._entered(table, route, columns, effect, None)
            elif name.lower() in declared or name in typed_names:
                effect = Effect("retype", (held, type_))
                fits = _holds(route, name, columns[held], type_)
                if not fits and not self._kept_out(table, effect) and not self._over(table, effect):
                    columns = self._entered(table, route, columns, effect, columns[held])
        return columns

    def declared(self, table: SourceTable, route: Route) -> None:
        """Enter declared types that are wider than, or other than, those of the target."""
        columns = columns_of(self._ledger.warehouse, route.target)
        if columns is not None:
            held = {name.lower() for name in columns}
            own = {name: type_ for name, type_ in route.columns.items() if name.lower() in held}
            self.grown(table, route, columns, own, set())

    def key(
        self, table: SourceTable, route: Route, held: Sequence[str], named_: Sequence[str]
    ) -> None:
        """Enter a key that differs from the one the target was made with (21)."""
        shard = (route.shard_column or "").lower()
        effect = Effect("key", tuple(name for name in named_ if name.lower() != shard))
        known = (e for entry in self._ledger.of(table) for e in entry.effects if e.op == "key")
        if any(_folded(e.args) - {shard} == _folded(effect.args) for e in known):
            return
        came, has = ", ".join(named_), ", ".join(held)
        entry = self._entry(table, route, effect, f"({has})")
        entry = replace(
            entry,
            risk="destructive",
            kind="change_key",
            why=f"messages name the key ({came}), gold has ({has}); no DDL announced it",
        )
        self._ledger.enter(entry, route)

    def outgrown(self, table: SourceTable, route: Route, rejected: Iterable[str]) -> None:
        """Enter the wider types that numbers among the errors of rejected events need (23)."""
        columns = columns_of(self._ledger.warehouse, route.target) or {}
        declared = _folded(route.columns)
        found: dict[str, list[str]] = {}
        for error in rejected:
            for name, text in _MISFIT.findall(error):
                found.setdefault(name, []).append(text)
        for name, texts in found.items():
            type_ = columns.get(name, "string")
            wider = outgrown(type_, [text for text in texts if NUMBER.fullmatch(text)])
            effect = Effect("retype", (name, wider))
            if wider is None or name.lower() in declared or self._kept_out(table, effect):
                continue
            entry = self.look(self._entry(table, route, effect, type_), route, columns)
            why = f"values of {name} outgrew {type_}; no DDL announced it"
            self._ledger.enter(replace(entry, why=why), route)

    def look(self, entry: Entry, route: Route, columns: Mapping[str, str]) -> Entry:
        """A drift entry as it concerns the target's columns as they are."""
        effect, *more = entry.effects
        if effect.op == "key":
            return replace(entry, target=route.target, risk="destructive", kind="change_key")
        effect = as_stored(effect, columns) or effect
        name, type_ = effect.args[0] or "", effect.args[1] or "string"
        held = {known.lower(): known for known in columns}.get(effect.column)
        target = self._ledger.warehouse.name("gold", route.target)
        add = add_column(target, name, type_)
        proposed: tuple[str, ...]
        if held is None:
            risk, proposed = "additive", (add,)
        elif _holds(route, name, columns[held], type_):
            risk, proposed = "additive" if effect.op == "add" else "widening", ()
        elif widens(spelt(columns[held]), spelt(type_)):
            risk = "widening"
            proposed = (f"ALTER TABLE {target} ALTER COLUMN {quoted(held)} TYPE {type_}",)
        else:
            risk, proposed = "destructive", (drop_column(target, held), add)
            keys = keys_of(self._ledger.warehouse, route.target)
            if not more and effect.column in _folded(keys):
                # Rows are told apart anew: the same key, read as another type.
                more = [Effect("key", keys)]
        kind = "add_column" if effect.op == "add" else "modify_column"
        return replace(
            entry,
            target=route.target,
            risk=risk,
            kind=kind,
            proposed=proposed,
            effects=(effect, *more),
        )

    def joined(self, entry: Entry) -> Entry:
        """The entry of the drift that this DDL announces late, with the DDL in it; else itself."""
        ours = {(effect.op == "add", effect.column) for effect in entry.effects}
        drifts = [
            other
            for other in self._ledger.of(entry.table)
            if other.statement is None
            and other.kind in ("add_column", "modify_column")
            and {(effect.op == "add", effect.column) for effect in other.effects} <= ours
        ]
        if len(entry.effects) == 1 and drifts and not entry.version:
            drift = drifts[-1]
            return replace(
                drift,
                target=entry.target,
                risk=entry.risk,
                kind=entry.kind,
                statement=entry.statement,
                proposed=entry.proposed,
                pos=entry.pos,
                event_time=entry.event_time,
                effects=entry.effects,
                why=entry.why if drift.decided_by in (None, POLICY) else drift.why,
                joined=(*drift.joined, entry.id),
            )
        for drift in drifts:
            if drift.status in WAITING:
                self._ledger.note(drift.settled("superseded", why=f"announced by {entry.id}"))
        return entry

    def _entered(
        self,
        table: SourceTable,
        route: Route,
        columns: dict[str, str],
        effect: Effect,
        was: str | None,
    ) -> dict[str, str]:
        entry = self.look(self._entry(table, route, effect, was), route, columns)
        came = f"column {effect.args[0]} came as {effect.args[1]}"
        has = f", gold has {was}" if was else ""
        entry = replace(entry, why=f"{came}{has}; no DDL announced it")
        self._ledger.enter(entry, route)
        return columns_of(self._ledger.warehouse, route.target) or columns

    def _entry(self, table: SourceTable, route: Route, effect: Effect, was: str | None) -> Entry:
        parts = ("drift", str(table), *(arg or "" for arg in effect.args), was or "")
        id_ = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=6).hexdigest()
        return Entry(
            id=id_,
            table=table,
            target=route.target,
            effects=(effect,),
            pos=self._first(table, effect),
        )

    def _kept_out(self, table: SourceTable, effect: Effect) -> bool:
        """Whether the ledger has a decision on this, or waits for one."""
        for entry in self._ledger.of(table):
            if entry.status in IN_FORCE:
                continue
            for known in entry.effects:
                if known.brings == effect.column:
                    return True
                same_kind = {known.op, effect.op} <= {"retype", "widen"}
                same_type = spelt(known.args[-1] or "") == spelt(effect.args[1] or "")
                if same_kind and known.column == effect.column and same_type:
                    return True
        return False

    def _over(self, table: SourceTable, effect: Effect) -> bool:
        """Whether the column, or type, is of before a change that ended it."""
        edits = self._ledger.lineage(table)
        end = ended if effect.op == "add" else retyped
        since = end(edits, effect.column)
        if since is None:
            return False
        first = self._first(table, effect, above=since)
        return first is None

    def _first(self, table: SourceTable, effect: Effect, above: Pos | None = None) -> Pos | None:
        """The lowest position of a change that shows the effect; None where there is none."""
        warehouse = self._ledger.warehouse
        silver = warehouse.name("silver", "cdc")
        own = f"source = {sql_text(table.source)} AND {named(table)}"
        name = sql_text(effect.column)
        where = f"{own} AND kind = 'change'"
        if above is not None:
            where += f" AND pos > {pos_literal(above)}"
        if effect.op == "add":
            where += f" AND exists(map_keys(after), k -> lower(k) = {name})"
        elif effect.op == "retype":
            type_ = sql_text(effect.args[1] or "")
            where += (
                f" AND schema_id IN (SELECT schema_id FROM {silver} WHERE {own} "
                f"AND kind = 'schema' AND exists(columns, c -> lower(c.name) = {name} "
                f"AND c.type = {type_}))"
            )
        row = warehouse.session.sql(f"SELECT min(pos) FROM {silver} WHERE {where}").first()
        return tuple(row[0]) if row is not None and row[0] is not None else None


def _folded(names: Iterable[str | None]) -> set[str]:
    return {(name or "").lower() for name in names}


def _holds(route: Route, name: str, stored: str, coming: str) -> bool:
    """Whether every value of type `coming` fits the column `name` of type `stored`, as it should.

    A string holds them all, but is not what was asked for where the configuration declares a type.
    """
    if stored == coming:
        return True
    if stored == "string":
        return name.lower() not in _folded(route.columns)
    return widens(spelt(coming), spelt(stored))
