"""The clauses of one ALTER, which all name columns as they were, as steps one after the other.

MySQL and PostgreSQL take every name in an ALTER for one of the table before it: `RENAME COLUMN a TO
b, RENAME COLUMN b TO a` swaps two columns. Whoever carries clauses out one by one needs an order in
which no name is taken twice, and where names go round in a circle one that stands aside meanwhile.
Source: https://dev.mysql.com/doc/refman/8.4/en/alter-table.html (Renaming, Redefining, and
Reordering Columns).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingest.ddl.model import Clause, Column

_ASIDE = "_renaming_"


def in_steps(clauses: Sequence[Clause]) -> list[Clause]:
    """The clauses of one statement in an order to be carried out; as they are, where none takes
    a name that a later one gives up."""
    held: set[str] = set()
    tangled = False
    for clause in reversed(clauses):
        if clause.kind in ("add_column", "rename_column") and not _stays(clause):
            tangled |= _new(clause) in held
        if clause.kind in ("drop_column", "rename_column"):
            held.add(_old(clause))
    if not tangled:
        return list(clauses)
    drops = [clause for clause in clauses if clause.kind == "drop_column"]
    renames = [clause for clause in clauses if clause.kind == "rename_column"]
    rest = [clause for clause in clauses if clause not in drops and clause not in renames]
    return [*drops, *_untangled(renames), *rest]


def _untangled(renames: list[Clause]) -> list[Clause]:
    """Each rename when its new name is free; of a circle one column stands aside first."""
    steps: list[Clause] = []
    last: list[Clause] = []
    while renames:
        held = {_old(clause) for clause in renames}
        free = [clause for clause in renames if _new(clause) not in held or _stays(clause)]
        if free:
            steps += free
            renames = [clause for clause in renames if clause not in free]
            continue
        first, *renames = renames
        assert first.column is not None
        aside = _ASIDE + first.column.name
        steps.append(replace(first, new_name=aside))
        last.append(replace(first, column=Column(name=aside)))
    return [*steps, *last]


def _stays(clause: Clause) -> bool:
    return clause.new_name is not None and _old(clause) == _new(clause)


def _old(clause: Clause) -> str:
    return clause.column.name.casefold() if clause.column is not None else ""


def _new(clause: Clause) -> str:
    return clause.new_name.casefold() if clause.new_name is not None else _old(clause)
