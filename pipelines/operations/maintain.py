"""`ingest maintain`: retention where the configuration asks for it, compaction, and removal of old
files.

What has not been applied stays: bronze of a source that silver lags behind, and changes that gold
has not merged. Compaction changes no rows, so streams over a table read nothing again. Files that
no version needs are removed after Delta's own retention, a week unless the table says otherwise, so
that readers can finish; also where a full disk leaves no room to compact. No file of bronze is
removed while silver lags behind any source in it, even that of another project, since silver reads
what was appended from the files of that time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ingest.sql.tables import upkeep
from pipelines.gold.known_targets import gold_tables, known_targets
from pipelines.operations.retention import trim_bronze, trim_progress, trim_runs, trim_target
from pipelines.operations.status import undecoded
from pipelines.platform.failures import described
from pipelines.platform.leases import lease
from pipelines.platform.warehouse import Warehouse
from pipelines.terminal.console import counted

MAINTAINED = ("kind", "table", "rows_trimmed", "files_before", "files_after", "note")
_SMALL = 32 * 2**20
_MANY = 8
_OWN = ("_progress", "_ddl", "_rejects", "_runs", "_erasures")
_TRIMMED: Mapping[str, Callable[[Warehouse, int], int]] = {
    "_runs": trim_runs,
    "_progress": trim_progress,
}
"""The tables of gold's own from which old rows are removed, each with what removes them."""


@dataclass
class Maintained:
    """What was done to one table: how many rows retention removed, how many files there were before
    and after. `failed` says what could not be done."""

    table: str
    trimmed: int = 0
    before: int = 0
    after: int = 0
    notes: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def row(self) -> tuple[str | int | None, ...]:
        """As a row of MAINTAINED."""
        note = "; ".join([*self.notes, *self.failed]) or None
        return ("maintained", self.table, self.trimmed, self.before, self.after, note)

    @contextmanager
    def part(self, what: str = "") -> Iterator[None]:
        """One part of the work; if it fails, that is noted and the other parts go on."""
        try:
            yield
        except Exception as error:
            self.failed.append(f"{what}{': ' if what else ''}{described(error)}")


def maintain(warehouse: Warehouse, *, advance: Callable[[str, bool], None]) -> list[Maintained]:
    """Retention, compaction and removal of old files, one row for each table.

    `advance` is told of each table that is done.
    """
    done: list[Maintained] = []
    with lease(warehouse, "gold"), lease(warehouse, "silver"):
        behind = undecoded(warehouse)
        # Sources of another project may share the tables and have a retention of their own. They
        # are left as they are; and while silver lags behind them, so are the files that it has to
        # read.
        lag = {**{source: 0 for source in warehouse.config.sources}, **behind}
        for result in _each(warehouse, lag):
            done.append(result)
            advance(result.table, True)
    return done


def steps(warehouse: Warehouse) -> int:
    """How many tables there are to look after."""
    return 2 + len(gold_tables(warehouse)) + len(_OWN)


def _each(warehouse: Warehouse, lag: dict[str, int]) -> Iterator[Maintained]:
    now = time.time()
    if warehouse.exists("bronze", "messages"):
        yield _bronze(warehouse, lag, now=now)
    if warehouse.exists("silver", "cdc"):
        yield _silver(warehouse, lag, now=now)
    for name in [*gold_tables(warehouse), *_OWN]:
        if warehouse.exists("gold", name):
            yield _compacted(warehouse, "gold", name, days=warehouse.settings.retention.runs)


def _bronze(warehouse: Warehouse, lag: dict[str, int], *, now: float) -> Maintained:
    """Trim bronze. A source whose messages could not be trimmed counts as one with waiting
    messages."""
    done = Maintained("bronze.messages")
    with done.part():
        done.before = done.after = _files(warehouse, "bronze", "messages")
    days = warehouse.settings.retention.bronze
    for source, behind in list(lag.items()):
        if behind:
            waiting = counted(behind, "messages", "wait")
            done.notes.append(f"{source}: {waiting} for silver, left as it is")
        if behind or source not in warehouse.config.sources:
            continue
        failed = len(done.failed)
        with done.part(source):
            if days is not None:
                done.trimmed += trim_bronze(warehouse, source, days, now=now)
        lag[source] += len(done.failed) > failed
        with done.part(source):
            _compact(warehouse, "bronze", "messages", source=source)
    with done.part():
        if not any(lag.values()):
            _clean(warehouse, "bronze", "messages")
        done.after = _files(warehouse, "bronze", "messages")
    return done


def _silver(warehouse: Warehouse, lag: dict[str, int], *, now: float) -> Maintained:
    done = Maintained("silver.cdc")
    with done.part():
        done.before = done.after = _files(warehouse, "silver", "cdc")
    days = warehouse.settings.retention.silver
    if days is not None:
        for target in known_targets(warehouse).fed.values():
            if lag.get(target.source):
                # Since bronze keeps its messages, silver keeps what they became.
                continue
            with done.part(target.name):
                done.trimmed += trim_target(warehouse, target, days, now=now)
    for source in warehouse.config.sources:
        with done.part(source):
            _compact(warehouse, "silver", "cdc", source=source, cluster=("table", "batch"))
    with done.part():
        _clean(warehouse, "silver", "cdc")
        done.after = _files(warehouse, "silver", "cdc")
    return done


def _compacted(
    warehouse: Warehouse, layer: str, table: str, *, days: int | None = None
) -> Maintained:
    """Compact a table. `days`: for how long notes of runs are kept in the tables of `_TRIMMED`."""
    done = Maintained(f"{layer}.{table}")
    with done.part():
        done.before = done.after = _files(warehouse, layer, table)
        if days is not None and table in _TRIMMED:
            done.trimmed = _TRIMMED[table](warehouse, days)
        _compact(warehouse, layer, table)
    with done.part():
        _clean(warehouse, layer, table)
        done.after = _files(warehouse, layer, table)
    return done


def _compact(
    warehouse: Warehouse,
    layer: str,
    table: str,
    *,
    source: str | None = None,
    cluster: Sequence[str] = (),
) -> None:
    """Put small files together; with `source`, only those of one source.

    `cluster` are the columns whose near values shall lie together, so that a reader of some values
    skips the files of others. That rewrites everything, so it waits until a quarter of the files
    are small.
    """
    name = warehouse.name(layer, table)
    sizes = warehouse.session.sql(upkeep.file_sizes(name, source)).collect()
    small = [row["size"] for row in sizes if row["size"] < _SMALL]
    if len(small) < _MANY or (cluster and 4 * sum(small) < sum(row["size"] for row in sizes)):
        return
    warehouse.execute(upkeep.optimize(name, source=source, cluster=cluster))


def _clean(warehouse: Warehouse, layer: str, table: str) -> None:
    warehouse.execute(upkeep.vacuum(warehouse.name(layer, table)))


def _files(warehouse: Warehouse, layer: str, table: str) -> int:
    detail = warehouse.session.sql(upkeep.detail(warehouse.name(layer, table))).first()
    return int(detail["numFiles"]) if detail is not None else 0
