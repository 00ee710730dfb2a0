"""What a target's own log says of writes that gold did not record: those of a killed run."""

from __future__ import annotations

from typing import NamedTuple

from pipelines.apply.batch import TableBatch
from pipelines.platform.rows import rows

_HARMLESS = {
    *("ADD COLUMNS", "CHANGE COLUMN", "CHANGE COLUMNS", "RENAME COLUMN", "DROP COLUMNS"),
    *("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "CLUSTER BY", "OPTIMIZE"),
    *("VACUUM START", "VACUUM END"),
}
"""Operations that change no row."""
_READ = 10


class Commit(NamedTuple):
    """One commit; `rows`: how many it wrote."""

    version: int
    operation: str
    rows: int


def commits(work: TableBatch, most: int) -> list[Commit]:
    """The target's newest commits, the last one first."""
    history = work.warehouse.session.sql(f"DESCRIBE HISTORY {work.target_name} LIMIT {most}")
    found = [
        Commit(version, operation, int((metrics or {}).get("numOutputRows") or 0))
        for version, operation, metrics in rows(
            history.select("version", "operation", "operationMetrics")
        )
    ]
    return sorted(found, reverse=True)


def certain(work: TableBatch) -> int | None:
    """The target's version, where no change of the batch can have been applied before.

    None where one may have been: it lies not above all that was applied, or the log shows a write
    that gold did not record.
    """
    return None if work.overlaps else recorded(work)


def recorded(work: TableBatch) -> int | None:
    """The target's version, where gold recorded all that was written; else None."""
    if work.version is None and not work.fresh:
        return None
    newest = commits(work, _READ)
    if work.fresh or work.version is None:
        return newest[0].version
    newer = [commit for commit in newest if commit.version > work.version]
    known = len(newer) < _READ and all(commit.operation in _HARMLESS for commit in newer)
    return newest[0].version if known else None
