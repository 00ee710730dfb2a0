"""How a column that a schema change adds gets its values in rows from before the change (51).

- From history, if `backfill_needed`: the target's rows are folded again from all of silver. This is
  needed if events above the change were applied already, to a table that lacked the column or its
  DEFAULT; if a column begins anew under a name that the table had; and if names are taken over. A
  DEFAULT of a masked column comes from there too (`masked_default`).
- Else by its literal DEFAULT, if it has one: `fill_defaults`, an UPDATE of the rows from before the
  change. If the column was there already, since this was begun before, rows of a snapshot may stand
  below the change that have come with NULL since: then from history, too.
- Else not at all: the source's rows have no value either, and the present rows hold NULL.

Nothing is folded here: `pipelines/ledger/alter.py` asks, an entry that needs it stays `approved`,
and `pipelines/gold/approvals.py` has `backfill` of `pipelines/gold/refold.py` fold the rows. The
fold meets the same DEFAULT from the other side: `ingest/sql/lineage.py` puts it into the images of
events from before the change, `ingest/sql/projection.py` into keys. All three must give the same
value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
from ingest.sql.tables.rows import fill, lacking
from pipelines.ledger.entries import Entry
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.table import columns_of


def backfill_needed(entry: Entry, applied: Pos | None) -> bool:
    """Whether the target has to be folded again after its columns are changed.

    It has if a column begins anew from all of history, if names are taken over, or if events above
    the change were applied (the highest is at `applied`) while the column was not there or had no
    default. Rows of a snapshot that was read above the change stand below it; that there are such
    rows shows in what waits for the change.
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
        # Changes that have come since wait for it.
        return False
    if any(added.default is not None for added in only(AddColumn, entry.effects)):
        return True
    return bool(entry.proposed) and any(brings(e) is not None for e in entry.effects)


def _keeps_values(effect: SchemaChange) -> bool:
    """Whether the values of a column are kept, as another type or under another name."""
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
    """Whether one of the columns in `masks` has a DEFAULT, under any name that `later` changes gave
    it: rows then have it masked, like their other values."""
    masked = lowered(masks)
    names = [a.name for a in only(AddColumn, entry.effects) if a.default is not None]
    today = (name_today(name, later) or name for name in names)
    return any(name.lower() in masked for name in (*names, *today))


def fill_defaults(
    warehouse: Warehouse,
    entry: Entry,
    later: Sequence[LineageEntry],
    *,
    new: Collection[str],
    label: str,
    zone: str | None,
) -> bool:
    """Put the literal DEFAULT of an ADD COLUMN into rows from before it, as the source's rows have
    it (51), under the name that `later` changes gave the column.

    `new`: the columns, in lower case, that the target got just now. Of another one only history
    tells which NULLs were sent; gives whether there are any, so that rows have to be folded again.
    Right only if no event above the change was applied yet.
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
        if name.lower() in new:
            warehouse.execute(fill(target, name, value, where=where))
        elif not warehouse.session.sql(lacking(target, name, where=where)).isEmpty():
            return True
    return False
