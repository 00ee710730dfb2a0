"""Gold against the fold of silver, or against a snapshot of the source: what differs, row by row.

Counts and hashes are compared first; rows are joined only where those differ. What is compared are
the values of the rows, and for the fold also where they come from: a row's position may be below
that of the fold, since a change that changes nothing is not written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ingest.compare import DIFFERENT, EXTRA, MISSING, differences, summary
from ingest.config import Config
from ingest.errors import TableError
from pipelines.known_targets import Ways
from pipelines.leases import lease
from pipelines.progress import stand_of
from pipelines.results import rows
from pipelines.standing import Standing
from pipelines.tables import Warehouse

DIFFERENCE = ("kind", "key", "columns", "found", "expected")


class Side(NamedTuple):
    """One of two tables that are compared: how many rows, and the hash of them all."""

    rows: int
    hash: int

    def __str__(self) -> str:
        return f"{self.rows:,} rows, hash {self.hash % 2**64:016x}"


class Reconciled(NamedTuple):
    """What a comparison found: `differences` are rows of DIFFERENCE."""

    gold: Side
    other: Side
    differences: list[tuple[Any, ...]]
    against: str = "history"

    @property
    def equal(self) -> bool:
        return self.gold == self.other

    @property
    def told(self) -> str:
        """One sentence: what was counted, and what differs."""
        sides = f"gold has {self.gold}, {self.against} {self.other}"
        if self.equal:
            return f"{sides}; no difference"
        kinds = [difference[0] for difference in self.differences]
        counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in (MISSING, EXTRA, DIFFERENT))
        return f"{sides}; {counted}"


def reconcile(warehouse: Warehouse, config: Config, target: str, ways: Ways) -> Reconciled:
    """Compare a target with the fold of the history that was applied to it.

    Raises TableError where there is no such table, or nothing was applied to it.
    """
    with lease(warehouse.checkpoint(), "gold"):
        if not warehouse.exists("gold", target):
            raise TableError(f"there is no gold table {target} yet: `ingest gold` makes it")
        source = ways[target][0][0].source
        stand = stand_of(warehouse, source, target)
        last, only = stand.applied
        gold = _pinned(warehouse, target)
    history = Standing(
        warehouse, config, target, ways[target], marks=stand.marks, last=last, only=only
    )
    with history as standing:
        compared = _compared(standing)
        mine = _side(warehouse, summary(f"({_numbered(gold, standing)})", compared))
        other = standing.tried(
            lambda made: _side(
                warehouse,
                summary(f"({_numbered(f'({made})', standing)})", compared, seen="_pos"),
            )
        )
        found = list(_listed(warehouse, standing, gold, compared)) if mine != other else []
    return Reconciled(mine, other, found)


def _pinned(warehouse: Warehouse, target: str) -> str:
    """SQL of the table as it is now, whatever is written to it later."""
    name = warehouse.name("gold", target)
    last = warehouse.session.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()
    assert last is not None
    return f"{name} VERSION AS OF {last['version']}"


def _compared(standing: Standing) -> list[str]:
    added = ["_source_table", *(["_deleted_at"] if standing.soft else [])]
    return [*standing.columns, *added]


def _numbered(relation: str, standing: Standing) -> str:
    """The rows, each with its number among those of its key."""
    return f"SELECT *, 1 AS _nth FROM {relation}"


def _side(warehouse: Warehouse, query: str) -> Side:
    [(count, total, *_)] = rows(warehouse.session.sql(query))
    return Side(int(count), int(total))


def _listed(
    warehouse: Warehouse, standing: Standing, gold: str, compared: list[str]
) -> Iterator[tuple[Any, ...]]:
    values = [name for name in compared if name not in standing.keys]
    query = differences(
        f"({_numbered(gold, standing)})",
        f"({_numbered(f'({standing.sure()})', standing)})",
        standing.keys,
        values,
    )
    for kind, columns, found, expected in rows(warehouse.session.sql(query)):
        key = {name: (found or expected)[name] for name in standing.keys}
        kept = columns if columns is not None else values
        yield (
            kind,
            key,
            columns,
            found and {name: found[name] for name in kept},
            expected and {name: expected[name] for name in kept},
        )
