"""What is left to do of a schema change whose columns take each other's names.

Whether a column was added or renamed shows in the table: it is there. Where `a` becomes `b` and `b`
becomes `a` the names are the same before and after, and doing it twice undoes it. There the target
itself holds the entry's id from before the first statement on (a property, and so a commit), and
the commits behind it tell how many statements were carried out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ingest.casts import sql_text
from ingest.ddl_delta import quoted
from ingest.lineage import Effect
from pipelines.ddl_entries import Entry
from pipelines.results import rows
from pipelines.tables import Warehouse

MARK = "ingest.ddl"
_OPERATIONS = {
    "ADD COLUMNS": " ADD COLUMNS ",
    "CHANGE COLUMN": " ALTER COLUMN ",
    "DROP COLUMNS": " DROP COLUMN ",
    "RENAME COLUMN": " RENAME COLUMN ",
}
"""Delta's operations -> the words of the statements that make them."""


class Alteration(NamedTuple):
    """A commit that changed the target's columns or properties."""

    operation: str
    parameters: Mapping[str, str]


def left(warehouse: Warehouse, entry: Entry, proposed: Sequence[str]) -> Sequence[str]:
    """The statements to carry out: `proposed`, which were reviewed against the columns as they are,
    unless names are taken over; then those of the entry that were not carried out before."""
    if not takes_over(entry.effects):
        return proposed
    assert entry.target is not None
    target = warehouse.name("gold", entry.target)
    history = warehouse.session.sql(f"DESCRIBE HISTORY {target}")
    found = rows(
        history.where(history.operation.isin("SET TBLPROPERTIES", *_OPERATIONS))
        .orderBy("version")
        .select("operation", "operationParameters")
    )
    done = carried_out(entry, [Alteration(*row) for row in found])
    if done is None:
        mark = f"{sql_text(MARK)} = {sql_text(entry.id)}"
        warehouse.session.sql(f"ALTER TABLE {target} SET TBLPROPERTIES ({mark})")
        done = 0
    return entry.proposed[done:]


def takes_over(effects: Iterable[Effect]) -> bool:
    """Whether a column takes the name of one that goes, or goes by another, in the same change."""
    named = list(effects)
    gone = {effect.column for effect in named if effect.op in ("rename", "drop")}
    return any(effect.op in ("rename", "add") and effect.brings in gone for effect in named)


def carried_out(entry: Entry, alterations: Sequence[Alteration]) -> int | None:
    """How many of the entry's statements are among these commits, in the order of the log; None
    where they were not begun."""
    begun = [
        place
        for place, (operation, parameters) in enumerate(alterations)
        if operation == "SET TBLPROPERTIES"
        and json.loads(parameters.get("properties") or "{}").get(MARK) == entry.id
    ]
    if not begun:
        return None
    done = 0
    for alteration in alterations[begun[-1] + 1 :]:
        if done < len(entry.proposed) and _made_by(entry.proposed[done], alteration):
            done += 1
    return done


def _made_by(statement: str, alteration: Alteration) -> bool:
    operation, parameters = alteration
    if operation == "RENAME COLUMN":
        old, new = (parameters.get(f"{which}ColumnPath", "") for which in ("old", "new"))
        return statement.endswith(f" RENAME COLUMN {_bare(old)} TO {_bare(new)}")
    return _OPERATIONS.get(operation, "?") in statement


def _bare(path: str) -> str:
    """A column as a statement has it, however the log quotes it."""
    return quoted(path[1:-1].replace("``", "`") if path.startswith("`") else path)
