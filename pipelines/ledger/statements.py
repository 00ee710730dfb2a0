"""The schema changes that silver holds, read: one entry for each table that a statement touches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ingest.config.routes import Route
from ingest.config.sources import Source
from ingest.ddl import parse
from ingest.ddl.changes import (
    AddColumn,
    DropColumn,
    FreezeTable,
    RenameColumn,
    frees,
    schema_changes,
)
from ingest.ddl.dialect import guess_dialect
from ingest.ddl.model import Clause, Statement, TableName
from ingest.ddl.review import changes_nothing
from ingest.ddl.risks import Kind
from ingest.ddl.secrets import masked
from ingest.decode.spec import scheme
from ingest.limits import Limits
from ingest.names import SourceTable
from ingest.position import EPOCH, PHASE, S1, SNAPSHOT, STREAM, Pos
from ingest.sql.ledger import columns_sent, statements
from ingest.sql.metadata import gold_name, statement_in_gold
from ingest.sql.silver import silver_changes
from pipelines.ledger.entries import POLICY, Entry, Status
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import moment

STEP_OF_ANOTHER = "a step of an online schema change"
_MANY = 20
"""A statement of this many tables or more is read only once for all of them."""
_STATEMENTS_MOST = 16
"""How many such statements are remembered; none is longer than `limits.ddl_bytes`."""


def in_silver(
    warehouse: Warehouse, source: Source, first: int, *, last: int
) -> Iterator[tuple[Entry, Statement]]:
    """The DDL and truncates of the batches from `first` to `last`, in order of position.

    Broadcast copies and replays of one statement have one id.
    """
    silver = warehouse.name("silver", "cdc")
    found = statements.in_batches(silver, source=source.name, first=first, last=last)
    rows = warehouse.session.sql(found).collect()
    for row in rows:
        yield from _read(source, row.asDict())


def statement_of(entry: Entry, limits: Limits, names: Iterable[SourceTable]) -> Statement:
    """The entry's statement, read, as it concerns the entry's table; `names`: all names of that
    table."""
    own, *others = (TableName(*table.path) for table in dict.fromkeys((entry.table, *names)))
    text = entry.statement or ""
    nameless = own._replace(name=None)
    read = _of_many(text, entry.dialect, nameless, most=limits.ddl_bytes)
    if read is None:
        read = _parsed(text, own, entry.dialect, limits=limits)
    for name in (own, *others) if len(read.tables) > 1 else ():
        for table in read.called(name.name):
            if _is_own(table, name):
                return read.of(table)
    return read


@lru_cache(maxsize=_STATEMENTS_MOST)
def _of_many(text: str, dialect: str | None, place: TableName, *, most: int) -> Statement | None:
    """A statement of many tables, read once for all of them; None if it has fewer."""
    if text.count(",") < _MANY or len(text.encode()) > most:
        return None
    read = _read_at(text, dialect, place)
    return read if len(read.tables) > _MANY else None


def unreviewed(
    entry: Entry, read: Statement, route: Route | None, *, why: str | None = None
) -> Entry:
    """An entry of a table that has no row in gold yet, so there is nothing to review. `why` it has
    no `route`; None: it stays in silver only."""
    truncate = entry.kind == "truncate"
    entry = replace(
        entry,
        target=route.target if route else None,
        risk=entry.risk if truncate else read.risk,
        kind=entry.kind if truncate else read.kind,
    )
    if entry.kind == "ghost":
        return entry.with_status("ignored", why=STEP_OF_ANOTHER)
    if route is None:
        return entry.with_status("ignored", why=why or "the table lives in silver only")
    if not truncate:
        naming = AddColumn | DropColumn | RenameColumn
        done = schema_changes(read.clauses, {})
        entry = replace(entry, effects=tuple(e for e in done if isinstance(e, naming)))
    status: Status = "ignored" if entry.risk in ("none", "unparsed") else "applied"
    return entry.with_status(status, why="the target does not exist yet")


def taken_up(entries: Iterable[Entry], routed: Callable[[SourceTable], bool]) -> list[Entry]:
    """The entries that were settled because their table had no way into gold, and now has one."""
    return [
        replace(entry, status="pending", decided_by=None, decided_at=None, why=None)
        for entry in entries
        if entry.target is None and entry.status == "ignored" and entry.decided_by == POLICY
        if entry.kind != "ghost" and routed(entry.table)
    ]


def types_after(read: Statement, before: Mapping[str, str]) -> dict[str, str]:
    """The source types that columns, in lower case, have after a statement."""
    types = dict(before)
    done = (c for c in read.clauses if c.if_exists is None or not changes_nothing(c, before))
    read = replace(read, clauses=tuple(replace(clause, if_exists=None) for clause in done))
    for change in schema_changes(read.clauses, {}):
        if isinstance(change, FreezeTable):
            types = {}
        if isinstance(change, RenameColumn) and change.old.lower() in types:
            types[change.new.lower()] = types[change.old.lower()]
        types.pop(frees(change) or "", None)
    return types | {name.lower(): type_ for name, type_ in given_types(read, types)}


def given_types(read: Statement, before: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The columns to which a statement gives a type, each with the type as written. `before`: the
    types that columns, in lower case, had: IF NOT EXISTS leaves what is there, and IF EXISTS does
    nothing without it."""
    for clause in read.clauses:
        created_before = clause.kind == "create_table" and clause.if_not_exists and before
        if created_before or changes_nothing(clause, before):
            continue
        for column in (*clause.columns, *([clause.column] if clause.column is not None else ())):
            if column.source_type is not None:
                yield column.name, column.source_type


def types_before(
    warehouse: Warehouse, entry: Entry, names: Sequence[SourceTable]
) -> tuple[Pos, dict[str, str]]:
    """The source types of the last change before an entry that came with types, by column in lower
    case, and its position; none and () if there is no such change. `names`: all names that the
    entry's table has had."""
    pos, columns = _columns_before(warehouse, entry, names)
    return pos, {gold_name(c["name"]).lower(): c["source_type"] for c in columns}


def gold_types_before(
    warehouse: Warehouse, entry: Entry, names: Sequence[SourceTable]
) -> dict[str, str]:
    """The same as Spark types, without the columns that had none."""
    _, columns = _columns_before(warehouse, entry, names)
    return {gold_name(c["name"]).lower(): c["type"] for c in columns if c["type"] is not None}


def _columns_before(
    warehouse: Warehouse, entry: Entry, names: Sequence[SourceTable]
) -> tuple[Pos, list[dict[str, Any]]]:
    assert entry.pos is not None
    silver = warehouse.name("silver", "cdc")
    changes = silver_changes(silver, names, "true")
    asked = columns_sent.schema_of_last(changes, below=entry.pos)
    (last,) = warehouse.session.sql(asked).collect()[0]
    if last is None:
        return (), []
    schemas = silver_changes(silver, names, "true", kind="schema")
    found = warehouse.session.sql(columns_sent.columns_of_schema(schemas, last["schema_id"]))
    return tuple(last["pos"]), [column for (listed,) in rows(found) for column in listed]


def _read(source: Source, row: dict[str, Any]) -> list[tuple[Entry, Statement]]:
    pos = tuple(row["pos"]) if row["pos"] else None
    by_source = pos is not None and scheme(source, row["format"]) == "source"
    own = TableName(row["db"], row["schema"], row["table"])
    text, truncate = row["ddl"] or "", row["op"] == "truncate"
    epoch = pos[EPOCH] if pos is not None else 0
    order = (epoch, *pos[S1:STREAM]) if by_source and pos is not None else None
    id_ = parse.identity(
        text, source=source.name, table=own, order=order, event_time=row["micros"], epoch=epoch
    )
    dialect = row["dialect"] or guess_dialect(text, db=own.db, schema=own.schema)
    read = _parsed(text, own, dialect, limits=source.limits.filled())
    # A snapshot says how a table is by its CREATE. The statements that come with it, a DROP before
    # each among them, are for who makes the tables anew: nothing happened at the source (77).
    if pos is not None and pos[PHASE] == SNAPSHOT and not read.creates_table:
        return []
    found = []
    for number, touched in enumerate([own] if truncate else read.tables):
        named = own if _is_own(touched, own) else touched
        kind: Kind = "truncate" if truncate else "unparsed"
        entry = Entry(
            id=id_ if number == 0 else f"{id_}-{number}",
            table=SourceTable(source.name, named.db, named.schema, named.name or ""),
            risk="none" if truncate else "unparsed",
            kind=kind,
            # A schema change without a text counts as a statement that cannot be read.
            statement=None if truncate and row["ddl"] is None else masked(text),
            dialect=dialect,
            pos=pos,
            event_time=moment(row["micros"]),
        )
        found.append((entry, read.of(touched) if len(read.tables) > 1 else read))
    return found


def _is_own(touched: TableName, own: TableName) -> bool:
    """Whether a statement names the table of its message, without regard to case and as far as both
    are explicit.

    What the statement names wins over what its message says (semantics.md, 67).
    """
    *above, name = touched.folded()
    *own_above, own_name = own.folded()
    both = zip(above, own_above, strict=True)
    return name in ("", own_name) and all(said == mine for said, mine in both if said and mine)


def _parsed(text: str, own: TableName, dialect: str | None, *, limits: Limits) -> Statement:
    if len(text.encode()) > limits.ddl_bytes:
        return Statement(text=text, table=own, clauses=(Clause(kind="unparsed", table=own),))
    return _read_at(text, dialect, own)


def _read_at(text: str, dialect: str | None, place: TableName) -> Statement:
    dialect = dialect or guess_dialect(text, db=place.db, schema=place.schema)
    read = parse.parse(text, dialect=dialect, db=place.db, schema=place.schema, table=place.name)
    return statement_in_gold(read)
