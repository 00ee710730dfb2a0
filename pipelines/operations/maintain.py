"""`ingest maintain`: retention where the configuration asks for it, compaction, clean-up of files.

Whatever has not been applied stays untouched: bronze of a source that silver lags behind, changes
that gold has not merged. Compaction changes no rows, so that streams over a table read nothing
again; files that no version needs go after Delta's own retention, a week unless the table says
otherwise, so that readers may finish. Of bronze none goes while silver lags behind some source that
bronze has, be it another project's: silver reads what was appended from the files of that time.
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
"""Of gold's own tables those of which old rows go, and what deletes them."""


@dataclass
class Maintained:
    """What was done to one table: rows that retention took away, files before and after; `failed`
    says what could not be done."""

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
        """One part of the work, whose failure is noted and stops no other."""
        try:
            yield
        except Exception as error:
            self.failed.append(f"{what}{': ' if what else ''}{described(error)}")


def maintain(warehouse: Warehouse, *, advance: Callable[[str, bool], None]) -> list[Maintained]:
    """Retention, compaction and clean-up of every table there is, one row each.

    `advance` is told each table that is done.
    """
    done: list[Maintained] = []
    with lease(warehouse, "gold"), lease(warehouse, "silver"):
        behind = undecoded(warehouse)
        # Another project's sources may share the tables, and have a retention of their own: they
        # are left as they are, and while they lag, so are the files that silver has to read.
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
    """A source whose messages could not be trimmed counts as one with messages that wait."""
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
            _compact(warehouse, "bronze", "messages", source=source)
        lag[source] += len(done.failed) > failed
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
                # Its bronze keeps the messages: silver keeps what they became.
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
    """`days`: how long what runs have noted of themselves is kept, in the tables of `_TRIMMED`."""
    done = Maintained(f"{layer}.{table}")
    with done.part():
        done.before = done.after = _files(warehouse, layer, table)
        if days is not None and table in _TRIMMED:
            done.trimmed = _TRIMMED[table](warehouse, days)
        _compact(warehouse, layer, table)
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
    """Put small files together, those of one source alone where one is given.

    `cluster` are the columns whose values shall lie together, so that a reader of some skips the
    files of others; it takes rewriting everything, so it waits until small files are a quarter.
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
