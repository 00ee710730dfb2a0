"""Gold compared with the fold of silver, or with a snapshot of the source: what differs, row by
row.

Counts and hashes are compared first; rows are joined only if those differ. The values of the rows
are compared and, for the fold, also where the rows come from. A row's position may be below that of
the fold, since a change that changes nothing is not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ingest.errors import TableError
from ingest.sql.history.compare import (
    DIFFERENT,
    EXTRA,
    MISSING,
    at_version,
    by_kind,
    differences,
    narrowed,
    numbered,
    summary,
)
from ingest.sql.query import at_most
from ingest.sql.tables.upkeep import history
from pipelines.gold.accounting import LeftOut, left_out
from pipelines.gold.known_targets import KnownTarget
from pipelines.gold.plan import Extent
from pipelines.gold.reconstruction import Reconstruction, as_applied, reconstruct
from pipelines.operations.snapshots import snapshot_rows
from pipelines.platform.leases import lease
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.contract import OtherMasks, other_masks
from pipelines.targets.progress import progress_of
from pipelines.terminal.console import counted

Difference = tuple[Any, ...]
Differences = tuple[list[Difference], Mapping[str, int]]
DIFFERENCE = ("kind", "key", "columns", "found", "expected")
MOST = 10_000
"""How many of the rows that differ are listed; all of them are counted."""


class Side(NamedTuple):
    """One of the two tables that are compared: how many rows it has, and the hash of all of
    them."""

    rows: int
    hash: int

    def __str__(self) -> str:
        return f"{counted(self.rows, 'rows')}, hash {self.hash % 2**64:016x}"


class Reconciled(NamedTuple):
    """The result of a comparison: `differences` are rows of DIFFERENCE, at most MOST of them;
    `counts` says how many there are of each kind."""

    gold: Side
    other: Side
    differences: list[Difference]
    counts: Mapping[str, int] = {}
    against: str = "history"
    left_out: LeftOut = LeftOut()

    @property
    def equal(self) -> bool:
        return self.gold == self.other

    @property
    def right(self) -> bool:
        """Whether the rows are those of history, and every change that is in no row is a reject."""
        return self.equal and not self.left_out.unrecorded

    @property
    def summary(self) -> str:
        """One sentence: what was counted, what differs, and what history has besides its rows."""
        sides = f"gold has {self.gold}, {self.against} {self.other}"
        summary = f"{sides}; no difference"
        if not self.equal:
            kinds = (MISSING, EXTRA, DIFFERENT)
            summary = (
                f"{sides}; {', '.join(f'{self.counts.get(kind, 0):,} {kind}' for kind in kinds)}"
            )
            if len(self.differences) < sum(self.counts.values()):
                summary += f", of which {len(self.differences):,} are listed"
        if self.left_out.changes:
            have = "has" if self.left_out.changes == 1 else "have"
            changes = f"{counted(self.left_out.changes, 'changes')} of history"
            summary += f"; {changes} {have} no place in gold"
            summary += ", which the rejects list" if not self.left_out.unrecorded else ""
        if self.left_out.unrecorded:
            summary += (
                f", {self.left_out.unrecorded:,} of them in no reject: `ingest rebuild` enters them"
            )
        return summary


def reconcile(warehouse: Warehouse, target: KnownTarget) -> Reconciled:
    """Compare a target with the fold of the history that was applied to it.

    Raises TableError if there is no such table, or if its rows are masked otherwise than those of
    history would be.
    """
    with lease(warehouse, "gold"):
        progress = progress_of(warehouse, target.source, target.name)
        gold = _pinned(warehouse, target.name)
    if (masks := other_masks(target.route, progress.contract)) is not None:
        raise OtherMasks(masks)
    with as_applied(warehouse, target, progress) as reconstruction:
        compared = reconstruction.compared
        mine = _side(warehouse, summary(gold, compared))
        out: list[LeftOut] = []
        other = reconstruction.tried(
            lambda expected: _side(warehouse, summary(f"({expected})", compared)),
            before=lambda: out.append(left_out(reconstruction)),
        )
        found: Differences = ([], {})
        if mine != other:
            found = _differences(
                warehouse,
                reconstruction,
                gold,
                expected=f"({reconstruction.exact()})",
                compared=compared,
                order="_pos",
            )
    return Reconciled(mine, other, *found, left_out=next(iter(out), LeftOut()))


def reconcile_snapshot(
    warehouse: Warehouse,
    target: KnownTarget,
    *,
    path: str,
    format_: str | None,
) -> Reconciled:
    """Compare a target's present rows with a snapshot of the source, on the columns that both have.

    Raises ConfigError if the snapshot cannot be read or lacks a key column, and TableError if there
    is no such table.
    """
    progress = progress_of(warehouse, target.source, target.name)
    gold = _pinned(warehouse, target.name)
    extent = Extent(progress.watermarks)
    with reconstruct(warehouse, target, extent=extent) as reconstruction:
        if not reconstruction.contract.keeps.keyed:
            raise TableError(f"{target.name} keeps every change; a snapshot has rows as they are")
        snapshot, columns = snapshot_rows(warehouse, reconstruction, path=path, format_=format_)
        present = " AND ".join(reconstruction.present) or "true"
        gold = narrowed(gold, columns, present)
        mine = _side(warehouse, summary(gold, columns))
        other = _side(warehouse, summary(snapshot, columns))
        found: Differences = ([], {})
        if mine != other:
            found = _differences(
                warehouse, reconstruction, gold, expected=snapshot, compared=columns, order="1"
            )
    return Reconciled(mine, other, *found, against="the snapshot")


def _pinned(warehouse: Warehouse, target: str) -> str:
    """SQL of the table as it is now, whatever is written to it later."""
    if not warehouse.exists("gold", target):
        raise TableError(
            f"there is no gold table {target}: `ingest run` makes it or, where it was dropped, "
            f"`ingest rebuild {target}`"
        )
    name = warehouse.name("gold", target)
    last = warehouse.session.sql(history(name, most=1)).first()
    assert last is not None
    return at_version(name, last["version"])


def _side(warehouse: Warehouse, query: str) -> Side:
    [(count, total)] = rows(warehouse.session.sql(query))
    return Side(int(count), int(total))


def _differences(
    warehouse: Warehouse,
    reconstruction: Reconstruction,
    gold: str,
    *,
    expected: str,
    compared: Sequence[str],
    order: str,
) -> Differences:
    """The rows that differ, at most MOST of them, and how many there are of each kind."""
    keys = reconstruction.row_keys
    values = [name for name in compared if name not in keys]
    mine, other = (numbered(side, keys, columns=values, order=order) for side in (gold, expected))
    query = differences(mine, other, keys, columns=values)
    counted = warehouse.session.sql(by_kind(query))
    listed: list[Difference] = []
    for kind, columns, mine, other in rows(warehouse.session.sql(at_most(query, MOST))):
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
    return listed, dict(rows(counted))
