"""`ingest ddl` and `ingest rejects`: what waits for a decision, and what was set aside.

Messages that could not be decoded stand in silver and are listed with those of gold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from ingest.codes import Code
from ingest.config.mistakes import unknown_word
from ingest.ddl.review import MEANINGS
from ingest.errors import ConfigError, Mistake
from ingest.sql.ledger.entries import in_order
from ingest.sql.rejects import listings as texts
from ingest.sql.tables.alter import script
from pipelines.ledger.entries import STATUSES, load_entries
from pipelines.ledger.impact import impact, lost_rows
from pipelines.platform.rows import Record, rows
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.rejects import table_of

DDL = tuple(
    """
    id source db schema table target status class kind statement proposed pos event_time
    waiting_rows decided_by decided_at why
    """.split()
)
REJECTS = tuple(
    """
    id stage source topic partition offset row target code error value status
    """.split()
)
REJECT = (*REJECTS, "attempts", "epoch")
"""For a single reject also how often a replay tried it in vain, and the epoch of its message."""
REJECT_STATUSES = ("open", "resolved", "dismissed")
_PART, _PART_BYTES = 2_000, 32 << 20
"""How many of them, and with how many bytes, come to the driver at a time."""
SUMMARY = ("source", "stage", "target", "code", "status", "count", "example")
_ALIKE = 20_000
"""The most ids with the same beginnings that are looked at."""


def ddl(warehouse: Warehouse, *, status: str | None = None) -> list[Record]:
    """The ledger's entries as they are now, in order of position, by the columns DDL.

    Raises ConfigError for a status that does not exist.
    """
    if status is not None and status not in STATUSES:
        text = unknown_word("--status", status, STATUSES)
        raise ConfigError([Mistake("command line", None, text)])
    if not warehouse.exists("gold", "_ddl"):
        return []
    ledger = warehouse.name("gold", "_ddl")
    found = warehouse.session.sql(in_order(ledger, columns=DDL, status=status))
    changes = [dict(zip(DDL, row, strict=True)) for row in rows(found)]
    entries = load_entries(warehouse)
    waiting = impact(warehouse, [entries[change["id"]] for change in changes])
    gold = warehouse.settings.schemas.gold
    for change in changes:
        change["waiting_rows"] = waiting[change["id"]]
        if proposed := entries[change["id"]].proposed:
            # Stored statements name their table by its path, where the warehouse is a folder.
            change["proposed"] = script(f"{gold}.{change['target']}", proposed)
            if change["why"] is None and change["status"] == "pending":
                change["why"] = MEANINGS.get(change["kind"])
    return changes


def one_ddl(warehouse: Warehouse, id_: str) -> Record:
    """Everything about one schema change: DDL, and how many rows lose a value by it, if any
    would."""
    change = one(ddl(warehouse), id_, what="schema change")
    before, lost = list(DDL).index("waiting_rows") + 1, lost_rows(warehouse, change["id"])
    items = list(change.items())
    return dict([*items[:before], ("lost_rows", lost), *items[before:]])


class Wanted(NamedTuple):
    """Which rejects: of a source, with a code, with a status, whose id begins so; None: any.
    `limit`: at most this many; `values`: with their bytes."""

    source: str | None = None
    code: str | None = None
    status: str | None = None
    id: str | None = None
    limit: int | None = None
    values: bool = True


ALL = Wanted()


def rejects(warehouse: Warehouse, wanted: Wanted = ALL) -> Iterator[list[Any]]:
    """What could not be decoded or typed, in order of place, by the columns REJECT. They come in
    parts, so there may be any number.

    Raises ConfigError for a code or status that does not exist.
    """
    rejected_rows = relation(warehouse, wanted)
    if rejected_rows is None:
        return iter(())
    rejected = texts.in_order(
        rejected_rows, columns=REJECT, limit=wanted.limit, values=wanted.values
    )
    few = wanted.limit is not None and not wanted.values
    return map(
        list, _in_parts(warehouse.session.sql(rejected), texts.ORDER, parts=1 if few else None)
    )


def _in_parts(frame: DataFrame, order: str, *, parts: int | None) -> Iterator[Row]:
    """The rejects of a frame in order, about _PART of them or _PART_BYTES at a time."""
    if parts is None:
        held = frame.selectExpr("count(*)", "coalesce(sum(octet_length(value)), 0)").first()
        number, size = (1, 0) if held is None else held
        parts = max(1, -(-number // _PART), -(-size // _PART_BYTES))
    if parts > 1:
        columns = [F.col(name.strip()) for name in order.split(",")]
        frame = frame.repartitionByRange(parts, *columns).sortWithinPartitions(*columns)
    return frame.toLocalIterator()


def reject(warehouse: Warehouse, id_: str) -> list[Any]:
    """The reject with this id, or whose id begins so, by the columns REJECT.

    Raises ConfigError if there is none, or several.
    """
    found = relation(warehouse, Wanted(id=id_))
    row = None if found is None else warehouse.session.sql(texts.like(found, id_)).first()
    number, exact, first = (0, False, None) if row is None else row
    if number != 1 and not exact:
        raise not_one(number, id_, what="reject")
    return next(rejects(warehouse, Wanted(id=id_ if exact else first, limit=1)))


def ids_like(warehouse: Warehouse, beginnings: Collection[str]) -> list[str]:
    """The ids of rejects that begin in one of these ways, all of one length."""
    rejected = relation(warehouse, ALL) if beginnings else None
    if rejected is None:
        return []
    found = warehouse.session.sql(texts.ids_like(rejected, beginnings, most=_ALIKE))
    return [row[0] for row in rows(found)]


def summary(warehouse: Warehouse, wanted: Wanted = ALL) -> list[list[Any]]:
    """How many there are of each kind: the columns SUMMARY."""
    rejected = relation(warehouse, wanted)
    if rejected is None:
        return []
    found = warehouse.session.sql(texts.summary(rejected, kind=SUMMARY[:-2]))
    return list(rows(found))


def relation(warehouse: Warehouse, wanted: Wanted) -> str | None:
    """SQL of the rejects that are wanted, the columns REJECT; None if nothing was
    ever set aside."""
    for option, value, words in (
        ("--code", wanted.code, [code.value for code in Code]),
        ("--status", wanted.status, REJECT_STATUSES),
    ):
        if value is not None and value not in words:
            raise ConfigError([Mistake("command line", None, unknown_word(option, value, words))])
    parts, logged = [], warehouse.exists("gold", "_rejects")
    log = table_of(warehouse)
    if warehouse.exists("silver", "cdc"):
        parts.append(texts.of_silver(warehouse.name("silver", "cdc"), wanted.source))
    if parts and logged:
        parts = [texts.replayed(parts[0], log, columns=REJECT)]
    if logged:
        parts.append(texts.of_gold(log, wanted.source, columns=REJECT))
    if not parts:
        return None
    return texts.narrowed(
        parts, columns=REJECT, code=wanted.code, status=wanted.status, id_=wanted.id
    )


def one(listed: Iterable[Record], id_: str, *, what: str) -> Record:
    """The row with this id; the id may be shortened as long as only one row's begins so."""
    alike = [row for row in listed if row["id"].startswith(id_)]
    exact = [row for row in alike if row["id"] == id_]
    if len(alike) == 1 or exact:
        return (exact or alike)[0]
    raise not_one(len(alike), id_, what=what)


def not_one(number: int, id_: str, *, what: str) -> ConfigError:
    """The error if not exactly one id begins with what was given."""
    text = f"no {what} has an id that begins with `{id_}`"
    if number:
        text = f"{number} {what}s have an id that begins with `{id_}`; give more of it"
    return ConfigError([Mistake("command line", None, text)])
