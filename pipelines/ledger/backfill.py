"""How a column that a schema change adds gets the values of rows from before the change (51).

- From history, where `backfill_needed`: the target's rows are folded again from all of silver. It
  is needed where events above the change were applied already, to a table that lacked the column or
  its DEFAULT; where a column begins anew under a name that the table had; and where names are taken
  over. A DEFAULT of a column that is masked comes from there too (`masked_default`).
- By its DEFAULT, else, where it has a literal one: `fill_defaults`, an UPDATE of the rows from
  before the change.
- Not at all, else: the source's rows have no value either, and the rows of now hold NULL.

Nothing is folded here: `pipelines/ledger/alter.py` asks, an entry that needs it stays `approved`,
and `pipelines/gold/approvals.py` has `backfill` of `pipelines/gold/refold.py` fold the rows. There
the same DEFAULT is read from the other side: `ingest/sql/lineage.py` puts it into the images of
events from before the change, `ingest/sql/projection.py` into keys. What one of the three gives,
the others have to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from ingest.ddl.changes import (
    AddColumn,
    AlterColumnType,
    ChangeKey,
    DropColumn,
    FreezeTable,
    LineageEntry,
    RecreateTable,
    RenameColumn,
    RenameTable,
    SchemaChange,
    brings,
    name_today,
    only,
    takes_over,
)
from ingest.names import lowered
from ingest.position import Pos, pos_literal
from ingest.sql.casts import typed
from ingest.sql.quoting import sql_text
from ingest.sql.tables.rows import fill
from pipelines.ledger.entries import Entry
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.table import columns_of


def backfill_needed(entry: Entry, applied: Pos | None) -> bool:
    """Whether the target has to be folded again after its columns are changed.

    It has where a column begins anew from all of history, where names are taken over, or where
    events above the change were applied (the highest is at `applied`) while the column was not
    there or had no default. Rows of a snapshot that was read above it stand below: that they are
    there shows in what waits for it.
    """
    if takes_over(entry.effects):
        return True
    if only(DropColumn, entry.proposed) and any(map(_keeps_values, entry.effects)):
        return True
    if applied is None:
        return False
    if entry.pos is not None and applied < entry.pos and not entry.waiting_rows:
        return False
    if entry.recreates:
        # What came since waits for it.
        return False
    if any(added.default is not None for added in only(AddColumn, entry.effects)):
        return True
    return bool(entry.proposed) and any(brings(e) is not None for e in entry.effects)


def _keeps_values(effect: SchemaChange) -> bool:
    """Whether a column's values are to go on, as another type or under another name."""
    match effect:
        case AlterColumnType(in_place=in_place):
            return not in_place
        case RenameColumn():
            return True
        case (
            AddColumn()
            | DropColumn()
            | ChangeKey()
            | RenameTable()
            | FreezeTable()
            | RecreateTable()
        ):
            return False
        case _:
            assert_never(effect)


def masked_default(entry: Entry, masks: Iterable[str], later: Sequence[LineageEntry] = ()) -> bool:
    """Whether a DEFAULT is one of the columns in `masks`, be it by the name that `later` changes
    gave it: rows have it masked as their values are."""
    masked = lowered(masks)
    names = [a.name for a in only(AddColumn, entry.effects) if a.default is not None]
    today = (name_today(name, later) or name for name in names)
    return any(name.lower() in masked for name in (*names, *today))


def fill_defaults(
    warehouse: Warehouse,
    entry: Entry,
    later: Sequence[LineageEntry],
    *,
    label: str,
    zone: str | None,
) -> None:
    """Rows from before an ADD COLUMN hold its literal default at the source (51), under the name
    that `later` changes gave the column.

    Holds where no event above the change was applied yet.
    """
    assert entry.target is not None
    now = columns_of(warehouse, entry.target) or {}
    spelling = {name.lower(): name for name in now}
    for added in only(AddColumn, entry.effects):
        name = spelling.get((name_today(added.name, later) or "").lower())
        if name is None or added.default is None:
            continue
        value = typed(sql_text(added.default), now[name], zone)
        where = f"_source_table = {sql_text(label)}"
        if entry.pos is not None:
            where += f" AND _pos < {pos_literal(entry.pos)}"
        target = warehouse.name("gold", entry.target)
        warehouse.execute(fill(target, name, value, where=where))
