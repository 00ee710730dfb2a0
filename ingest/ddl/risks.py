"""How risky a schema change is for a gold table: the classes, and that of every kind of clause.

To add a class:

1. Its word in `PolicyRisk` at its place from mild to bad, and in `MILD` if it loses nothing.
2. A field of that name in `DdlPolicy` and a case in its `choice` (`ingest/config/settings.py`), and
   the sentence on it in `pipelines/documentation/keys.py`.
3. The kinds of `KINDS` that are of it, and what the review against gold makes of it (`review.py`,
   `widening.py`; `pipelines/ledger/review.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol, TypeVar, get_args

PolicyRisk = Literal["additive", "widening", "destructive", "unparsed"]
"""The classes of which a policy says what happens: `ddl:` in the configuration."""
Risk = Literal["none", PolicyRisk]
"""Risk classes, mildest first: the worst clause classes its statement. What could not be read is
the worst, since nothing is known of it."""
MILD: tuple[Risk, ...] = ("additive", "widening")
"""Classes that lose nothing: where gold need not change for one, nobody is asked."""
RISKS: tuple[Risk, ...] = get_args(Risk)

Kind = Literal[
    "create_table",
    "create_index",
    "drop_index",
    "constraint",
    "default",
    "nullability",
    "comment",
    "truncate",
    "ghost",
    "other",
    "add_column",
    "modify_column",
    "drop_column",
    "rename_column",
    "change_key",
    "change_partition",
    "rename_table",
    "drop_table",
    "drop_database",
    "unparsed",
]
"""The kinds of statements and clauses; see KINDS."""

KINDS: dict[Kind, Risk] = {
    "create_table": "none",
    "create_index": "none",
    "drop_index": "none",
    "constraint": "none",  # foreign keys, checks and unique constraints
    "default": "none",
    "nullability": "none",
    "comment": "none",
    "truncate": "none",  # a change of its own (op truncate); the ledger only logs it
    "ghost": "none",  # a step of gh-ost or pt-osc on its own tables
    "other": "none",  # no effect on the columns or rows of a table: views, users, table options
    "add_column": "additive",
    "modify_column": "destructive",  # until reviewed against gold, which knows the present type
    "drop_column": "destructive",
    "rename_column": "destructive",
    "change_key": "destructive",
    "change_partition": "destructive",  # DROP, TRUNCATE, EXCHANGE: rows go or come without events
    "rename_table": "destructive",
    "drop_table": "destructive",
    "drop_database": "destructive",
    "unparsed": "unparsed",
}
"""Every kind of statement or clause, and its risk class before review (semantics.md, 50)."""


class _Classed(Protocol):
    """A clause, or what came of it."""

    @property
    def risk(self) -> Risk: ...


_C = TypeVar("_C", bound=_Classed)


def worst(clauses: Iterable[_C]) -> _C:
    """The one of the highest risk class, the first of equals; there is always one."""
    return max(clauses, key=lambda clause: RISKS.index(clause.risk))
