"""`gold._ddl`: every schema change once, reviewed by policy before it touches gold.

A log: the newest version of an id holds. Broadcast copies and replays of one statement have one id
(`ingest.ddl.identity`). Additive and widening changes are applied where the policy says so; the
rest waits as `pending`. Columns and types that turn up in data before any DDL announced them are
entered as drift, under the same policy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import PySparkException

from ingest import ddl
from ingest.casts import sql_text, typed
from ingest.config import Config
from ingest.ddl_delta import Review, review
from ingest.ddl_record import Column, TableName
from ingest.ddl_widening import spelt, widens
from ingest.names import SourceTable
from ingest.readings import scheme
from ingest.routes import Route
from ingest.shape import column
from pipelines.ddl_entries import DDL, Entry, create_ddl
from pipelines.progress import moment
from pipelines.survey import Survey
from pipelines.tables import Warehouse


class Ledger:
    """The schema changes of one source in one run."""

    def __init__(self, warehouse: Warehouse, config: Config, source: str) -> None:
        self._warehouse = warehouse
        self._config = config
        self._source = source
        self._waiting: dict[SourceTable, list[Entry]] = {}
        self._done: list[Entry] = []
        self._known: set[str] | None = None

    def log(self, found: Survey) -> None:
        """Take up the DDL and truncates that the survey saw and the ledger has not."""
        batches = [s.batch for s in found.slices if s.ddl or s.truncates]
        if not batches:
            return
        rows = self._warehouse.session.sql(
            f"""SELECT db, schema, `table`, ddl, op, format, min(pos) AS pos,
  unix_micros(min(event_time)) AS micros
FROM {self._warehouse.name("silver", "cdc")}
WHERE source = {sql_text(self._source)} AND batch BETWEEN {min(batches)} AND {max(batches)}
  AND (kind = 'ddl' OR (kind = 'change' AND op = 'truncate'))
GROUP BY db, schema, `table`, ddl, op, format, slice(pos, 1, 7), IF(pos IS NULL, event_time, NULL)
ORDER BY pos"""
        ).collect()
        for row in rows:
            entry = self._entry(row.asDict())
            if entry.id not in self._ids():
                self._ids().add(entry.id)
                self._waiting.setdefault(entry.table, []).append(entry)

    def created(self, table: SourceTable, route: Route, columns: Mapping[str, str]) -> None:
        """Settle what came before or with the table's first rows: they brought the columns."""
        self._settle(table, route, dict(columns))

    def grow(
        self,
        table: SourceTable,
        route: Route,
        stored: Mapping[str, str],
        wanted: Mapping[str, str],
        typed_names: set[str],
    ) -> dict[str, str]:
        """The target's columns after the changes that the policy lets in, which are made here."""
        columns = self._settle(table, route, dict(stored))
        by_lower = {name.lower(): name for name in columns}
        declared = {name.lower() for name in route.columns}
        for name, type_ in wanted.items():
            held = by_lower.get(name.lower())
            if held is None:
                if self._drifted(table, route, columns, name, None, type_):
                    columns[name] = type_
            elif name.lower() not in declared and name in typed_names:
                was = columns[held]
                if _holds(was, type_):
                    continue
                if self._drifted(table, route, columns, held, was, type_):
                    columns[held] = type_
        return columns

    def save(self) -> None:
        """Settle what concerns tables without rows in this run, and write the entries."""
        for table in list(self._waiting):
            route = self._route(table)
            stored = self._stored(route)
            if route is not None and stored is not None:
                self._settle(table, route, stored)
            else:
                self._done.extend(self._untargeted(entry, route) for entry in self._waiting[table])
        if not self._done:
            return
        create_ddl(self._warehouse)
        at = datetime.now(UTC)
        schema = ", ".join(f"`{name}` {type_}" for name, type_ in DDL)
        frame = self._warehouse.session.createDataFrame([e.row(at) for e in self._done], schema)
        self._warehouse.append(frame.coalesce(1), "gold", "_ddl")

    def _ids(self) -> set[str]:
        if self._known is None:
            self._known = set()
            if self._warehouse.exists("gold", "_ddl"):
                rows = self._warehouse.read("gold", "_ddl").select("id").distinct().collect()
                self._known = {row[0] for row in rows}
        return self._known

    def _entry(self, row: dict[str, Any]) -> Entry:
        source = self._config.sources[self._source]
        pos = tuple(row["pos"]) if row["pos"] else None
        by_source = pos is not None and scheme(source, row["format"]) == "source"
        own = TableName(row["db"], row["schema"], row["table"])
        text = row["ddl"] or ""
        micros = row["micros"]
        order = (pos[0], *pos[2:7]) if by_source and pos is not None else None
        id_ = ddl.identity(text, source=self._source, table=own, order=order, event_time=micros)
        named = self._statement(text, own).table
        if not named.name or named.name.lower() == (row["table"] or "").lower():
            named = own
        table = SourceTable(self._source, named.db, named.schema, named.name or "")
        return Entry(
            id=id_,
            table=table,
            risk="none" if row["op"] == "truncate" else "unparsed",
            kind=row["op"] if row["op"] == "truncate" else "unparsed",
            statement=row["ddl"],
            pos=pos,
            event_time=moment(micros),
        )

    def _statement(self, text: str, own: TableName) -> ddl.Statement:
        dialect = "mysql" if own.schema is None else "oracle"
        return ddl.parse(text, dialect=dialect, db=own.db, schema=own.schema, table=own.name)

    def _reviewed(self, entry: Entry, route: Route, columns: Mapping[str, str]) -> Review:
        table = entry.table
        own = TableName(table.db, table.schema, table.table)
        return review(
            self._statement(entry.statement or "", own),
            target=self._warehouse.name("gold", route.target),
            columns=columns,
            declared=route.columns,
            exclude=route.exclude,
            keys=route.keys or (),
        )

    def _settle(self, table: SourceTable, route: Route, columns: dict[str, str]) -> dict[str, str]:
        for entry in self._waiting.pop(table, []):
            if entry.kind == "truncate":
                self._done.append(self._judged(replace(entry, target=route.target), route))
                continue
            found = self._reviewed(entry, route, columns)
            entry = replace(
                entry,
                target=route.target,
                risk=found.risk,
                kind=found.kind,
                proposed=found.proposed,
                why="; ".join(o.note for o in found.clauses if o.note) or None,
            )
            entry = self._judged(entry, route)
            if entry.status == "applied" and entry.proposed:
                entry = self._run(entry)
            if entry.status == "applied":
                added = [o.clause.column for o in found.clauses if o.clause.kind == "add_column"]
                self._fill(route, columns, [c for c in added if c is not None])
                columns = self._stored(route) or columns
            self._done.append(entry)
        return columns

    def _judged(self, entry: Entry, route: Route) -> Entry:
        if entry.risk == "none":
            return replace(entry, status="ignored", why=entry.why or "nothing to change in gold")
        if entry.risk in ("additive", "widening") and not entry.proposed:
            return replace(entry, status="applied")
        policy: str = getattr(route.ddl, entry.risk)
        if policy == "apply" and entry.risk in ("additive", "widening"):
            return replace(entry, status="applied")
        return replace(entry, status="ignored" if policy == "ignore" else "pending")

    def _run(self, entry: Entry) -> Entry:
        try:
            for statement in entry.proposed:
                self._warehouse.session.sql(statement)
        except PySparkException as error:
            return replace(entry, status="failed", why=str(error)[:2000])
        return entry

    def _fill(self, route: Route, before: Mapping[str, str], added: list[Column]) -> None:
        """Rows from before an ADD COLUMN hold its literal default at the source (51)."""
        known = {name.lower() for name in before}
        target = self._warehouse.name("gold", route.target)
        now = self._stored(route) or {}
        for new in added:
            if new.default is None or new.name.lower() in known or new.name not in now:
                continue
            value = typed(sql_text(new.default), now[new.name], None)
            self._warehouse.session.sql(f"UPDATE {target} SET {column(new.name)} = {value}")

    def _drifted(
        self,
        table: SourceTable,
        route: Route,
        columns: Mapping[str, str],
        name: str,
        was: str | None,
        type_: str,
    ) -> bool:
        """Enter a column or type that no DDL announced; whether it was let in."""
        text = "\x1f".join(("drift", str(table), name, was or "", type_))
        id_ = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        if id_ in self._ids():
            return False
        self._ids().add(id_)
        target = self._warehouse.name("gold", route.target)
        if was is None:
            risk, kind = "additive", "add_column"
            proposed: tuple[str, ...] = (
                f"ALTER TABLE {target} ADD COLUMNS ({column(name)} {type_})",
            )
        else:
            kind = "modify_column"
            fits = widens(spelt(was), spelt(type_))
            risk = "widening" if fits else "destructive"
            change = f"ALTER TABLE {target} ALTER COLUMN {column(name)} TYPE {type_}"
            proposed = (change,) if fits else ()
        entry = self._judged(
            Entry(
                id=id_,
                table=table,
                target=route.target,
                risk=risk,
                kind=kind,
                proposed=proposed,
                event_time=None,
                why=f"column {name} came as {type_}"
                + (f", gold has {was}" if was else "")
                + "; no DDL announced it",
            ),
            route,
        )
        if entry.status == "applied":
            entry = self._run(entry)
        self._done.append(entry)
        return bool(entry.status == "applied")

    def _untargeted(self, entry: Entry, route: Route | None) -> Entry:
        table = entry.table
        own = TableName(table.db, table.schema, table.table)
        read = self._statement(entry.statement or "", own)
        why = "the table lives in silver only" if route is None else "the target does not exist yet"
        return replace(
            entry,
            target=route.target if route else None,
            status="ignored",
            risk=entry.risk if entry.kind == "truncate" else read.risk,
            kind=entry.kind if entry.kind == "truncate" else read.kind,
            why=why,
        )

    def _route(self, table: SourceTable) -> Route | None:
        if not table.table:
            return None
        return self._config.route(table.source, db=table.db, schema=table.schema, table=table.table)

    def _stored(self, route: Route | None) -> dict[str, str] | None:
        from pipelines.targets import columns_of

        return columns_of(self._warehouse, route.target) if route is not None else None


def _holds(stored: str, coming: str) -> bool:
    """Whether every value of type `coming` fits a column of type `stored`."""
    if stored == coming or stored == "string":
        return True
    return widens(spelt(coming), spelt(stored))
