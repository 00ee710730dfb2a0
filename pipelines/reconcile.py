"""Gold against the fold of silver, or against a snapshot of the source: what differs, row by row.

Counts and hashes are compared first; rows are joined only where those differ. What is compared are
the values of the rows, and for the fold also where they come from: a row's position may be below
that of the fold, since a change that changes nothing is not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ingest.compare import DIFFERENT, EXTRA, MISSING, differences, summary
from ingest.config import Config
from ingest.errors import TableError
from ingest.shape import column
from pipelines.known_targets import Ways
from pipelines.leases import lease
from pipelines.progress import stand_of
from pipelines.results import rows
from pipelines.snapshots import snapshot_rows
from pipelines.standing import Standing, as_applied
from pipelines.tables import Warehouse

Difference = tuple[Any, ...]
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
    differences: list[Difference]
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

    Raises TableError where there is no such table.
    """
    with lease(warehouse.checkpoint(), "gold"):
        stand = stand_of(warehouse, ways[target][0][0].source, target)
        gold = _pinned(warehouse, target)
    with as_applied(warehouse, config, target, ways[target], stand) as standing:
        compared = standing.compared
        mine = _side(warehouse, summary(gold, compared))
        other = standing.tried(
            lambda made: _side(warehouse, summary(f"({made})", compared, seen="_pos"))
        )
        found: list[Difference] = []
        if mine != other:
            found = _listed(warehouse, standing, gold, f"({standing.sure()})", compared, "_pos")
    return Reconciled(mine, other, found)


def reconcile_snapshot(
    warehouse: Warehouse,
    config: Config,
    target: str,
    ways: Ways,
    path: str,
    format_: str | None,
) -> Reconciled:
    """Compare a target's present rows with a snapshot of the source, on the columns of both.

    Raises ConfigError where the snapshot cannot be read or lacks a key column, TableError where
    there is no such table.
    """
    stand = stand_of(warehouse, ways[target][0][0].source, target)
    gold = _pinned(warehouse, target)
    with Standing(warehouse, config, target, ways[target], marks=stand.marks) as standing:
        if standing.made.mode == "append":
            raise TableError(f"{target} keeps every change; a snapshot has rows as they are")
        snapshot, columns = snapshot_rows(warehouse, config, standing, path, format_)
        present = " AND ".join(standing.present) or "true"
        listed = ", ".join(map(column, columns))
        gold = f"(SELECT {listed} FROM {gold} WHERE {present})"
        mine = _side(warehouse, summary(gold, columns))
        other = _side(warehouse, summary(snapshot, columns))
        found: list[Difference] = []
        if mine != other:
            found = _listed(warehouse, standing, gold, snapshot, columns, "1")
    return Reconciled(mine, other, found, "the snapshot")


def _pinned(warehouse: Warehouse, target: str) -> str:
    """SQL of the table as it is now, whatever is written to it later."""
    if not warehouse.exists("gold", target):
        raise TableError(f"there is no gold table {target} yet: `ingest gold` makes it")
    name = warehouse.name("gold", target)
    last = warehouse.session.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()
    assert last is not None
    return f"{name} VERSION AS OF {last['version']}"


def _side(warehouse: Warehouse, query: str) -> Side:
    [(count, total, *_)] = rows(warehouse.session.sql(query))
    return Side(int(count), int(total))


def _listed(
    warehouse: Warehouse,
    standing: Standing,
    found: str,
    expected: str,
    compared: Sequence[str],
    order: str,
) -> list[Difference]:
    keys = standing.row_keys
    by = ", ".join(map(column, keys))
    numbered = (
        f"(SELECT *, row_number() OVER (PARTITION BY {by} ORDER BY {order}) AS _nth FROM {{}})"
    )
    values = [name for name in compared if name not in keys]
    query = differences(numbered.format(found), numbered.format(expected), keys, values)
    listed: list[Difference] = []
    for kind, columns, mine, other in rows(warehouse.session.sql(query)):
        kept = columns if columns is not None else values
        listed.append(
            (
                kind,
                {name: (mine or other)[name] for name in keys},
                columns,
                mine and {name: mine[name] for name in kept},
                other and {name: other[name] for name in kept},
            )
        )
    return listed
