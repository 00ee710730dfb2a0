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
    rest = [clause for clause in clauses if clause.kind not in ("drop_column", "rename_column")]
    return [*drops, *_untangled(renames), *rest]


def _untangled(renames: list[Clause]) -> list[Clause]:
    """Each rename when its new name is free; of a circle one column stands aside first.

    The renames by the old name that they give up: each one is followed to the one that holds its
    new name, until one is free, and then they are carried out backwards.
    """
    steps: list[Clause] = []
    last: list[Clause] = []
    waiting = {_old(clause): clause for clause in renames}
    again = [clause for clause in renames if waiting[_old(clause)] is not clause]
    for clause in renames:
        chain: list[Clause] = []
        following: Clause | None = clause
        while following is not None and waiting.get(_old(following)) is following:
            chain.append(waiting.pop(_old(following)))
            following = None if _stays(chain[-1]) else waiting.get(_new(chain[-1]))
        if len(chain) > 1 and _new(chain[-1]) == _old(clause):
            temporary = _temporary_name(clause)
            steps.append(replace(clause, new_name=temporary))
            last.append(replace(clause, column=Column(name=temporary)))
            del chain[0]
        steps += reversed(chain)
    return [*steps, *last, *again]


def _temporary_name(clause: Clause) -> str:
    """The name of a column that waits for its new one."""
    assert clause.column is not None
    return _ASIDE + clause.column.name


def _stays(clause: Clause) -> bool:
    return clause.new_name is not None and _old(clause) == _new(clause)


def _old(clause: Clause) -> str:
    return clause.column.name.lower() if clause.column is not None else ""


def _new(clause: Clause) -> str:
    return clause.new_name.lower() if clause.new_name is not None else _old(clause)
