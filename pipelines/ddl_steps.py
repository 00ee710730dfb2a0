"""What is left to do of a schema change whose columns take each other's names.

Whether a column was added or renamed shows in the table: it is there. Where `a` becomes `b` and `b`
becomes `a` the names are the same before and after, and doing it twice undoes it. There the target
itself holds the entry's id from before the first statement on (a property, and so a commit), and
the commits behind it tell how many statements were carried out. Whether a target that began with
such a change in its first rows has the columns from before it or from after it cannot be told at
all: they get the types that they have behind it, and their values from history.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ingest.casts import sql_text
from ingest.ddl_delta import add_column, drop_column, quoted
from ingest.ddl_widening import spelt
from ingest.lineage import takes_over
from ingest.order import pos_literal
from pipelines.ddl_entries import Entry
from pipelines.results import rows
from pipelines.survey import named
from pipelines.tables import Warehouse
from pipelines.targets import columns_of, keys_of

MARK = "ingest.ddl"
_OPERATIONS = {
    "ADD COLUMNS": " ADD COLUMNS ",
    "CHANGE COLUMN": " ALTER COLUMN ",
    "DROP COLUMNS": " DROP COLUMN ",
    "RENAME COLUMN": " RENAME COLUMN ",
}
"""Delta's operations -> the words of the statements that make them."""


def types_behind(warehouse: Warehouse, entry: Entry, declared: Mapping[str, str]) -> list[str]:
    """The statements that give the columns whose names are taken over the types that the source's
    first row behind the change has, or the `declared` ones; they are empty then."""
    if entry.target is None or entry.pos is None or not takes_over(entry.effects):
        return []
    silver = warehouse.name("silver", "cdc")
    its = f"source = {sql_text(entry.table.source)} AND {named(entry.table)}"
    found = warehouse.session.sql(
        f"SELECT columns FROM {silver} WHERE {its} AND kind = 'schema' AND schema_id = ("
        f"SELECT min_by(schema_id, pos) FROM {silver} WHERE {its} AND kind = 'change' "
        f"AND schema_id IS NOT NULL AND pos > {pos_literal(entry.pos)}) LIMIT 1"
    )
    types = {c["name"].lower(): c["type"] for (listed,) in rows(found) for c in listed}
    types |= {name.lower(): type_ for name, type_ in declared.items()}
    columns = columns_of(warehouse, entry.target) or {}
    keys = {name.lower() for name in keys_of(warehouse, entry.target)}
    held = {name.lower(): (name, type_) for name, type_ in columns.items()}
    target = warehouse.name("gold", entry.target)
    statements = []
    for effect in entry.effects:
        name = effect.brings
        if name is None or name not in types or name in keys:
            continue
        if name in held and spelt(held[name][1]) == spelt(types[name]):
            continue
        if name in held:
            statements.append(drop_column(target, held[name][0]))
        given = effect.args[effect.op == "rename"] or ""
        statements.append(add_column(target, given, types[name]))
    return statements


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
