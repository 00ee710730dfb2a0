"""The facts of the report, read from the tables alone: counts, times and examples, each bounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ingest.config.load import Config
from ingest.sql.counts import report as texts
from ingest.sql.tables import upkeep
from pipelines.gold.known_targets import gold_tables
from pipelines.operations.compaction import LARGE, WRITES
from pipelines.operations.listings import Wanted, ddl, relation
from pipelines.operations.status import source_rows, table_rows
from pipelines.platform.failures import described_of
from pipelines.platform.rows import Record, records
from pipelines.platform.warehouse import Warehouse
from pipelines.targets.progress import SOURCE_CURSOR
from pipelines.telemetry.activity import STAGES
from pipelines.telemetry.runs import last_run, now
from pipelines.terminal.console import Advance

MOST = 50
"""The most rows of a list, which are those that matter most; sources and targets are all listed."""
RUNS_MOST = 120
"""How many of the newest runs the plots show."""
EXAMPLE = 400
"""How many bytes of a message an example shows."""
_NOT_SHOWN = "not shown, since columns of its source are masked: see `ingest rejects show ID`"
STEPS = 10
"""How often `advance` is called."""
_OWN = ("_progress", "_ddl", "_rejects", "_runs")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Everything that the report says.

    - `layers`: rows of bronze, silver and gold's targets.
    - `kinds`: rows of silver by kind.
    - `sources`, `tables`: as in `ingest status`.
    - `runs`: the newest rows of `gold._runs`, the last one last.
    - `applied`: what gold did, by hour.
    - `slowest`: targets by the seconds that they took.
    - `late`: targets by how much came late.
    - `rejects`: the open ones, by code, with an example.
    - `ddl`: schema changes that wait.
    - `storage`: files and bytes by table.
    - `failed`: what could not be looked up.
    """

    at: datetime
    last_run: datetime | None
    layers: dict[str, int]
    kinds: list[Record]
    sources: list[Record]
    tables: list[Record]
    runs: list[Record]
    applied: list[Record]
    slowest: list[Record]
    late: list[Record]
    rejects: list[Record]
    ddl: list[Record]
    storage: list[Record]
    failed: list[str]


def facts(warehouse: Warehouse, *, advance: Advance) -> Facts:
    """All facts as they are now; `advance` is told each step."""
    failed: list[str] = []

    def missed(what: str, error: Exception) -> None:
        failed.append(described_of(what, error))

    def look(what: str, work: Callable[[], list[Record]]) -> list[Record]:
        try:
            return work()
        except Exception as error:
            missed(what, error)
            return []
        finally:
            advance(what, False)

    sources = look("sources", lambda: _sources(warehouse, missed))
    tables = look("tables", lambda: _tables(warehouse, missed))
    kinds = look("silver", lambda: _kinds(warehouse))
    return Facts(
        at=now(),
        last_run=last_run(warehouse),
        layers={
            "bronze": sum(source["messages"] for source in sources),
            "silver": sum(kind["rows"] for kind in kinds),
            "gold": sum(table["rows"] or 0 for table in tables),
        },
        kinds=kinds,
        sources=sources,
        tables=tables,
        runs=look("runs", lambda: _runs(warehouse)),
        applied=look("batches", lambda: _applied(warehouse)),
        slowest=look("slowest tables", lambda: _by_target(warehouse, texts.slowest)),
        late=look("late changes", lambda: _by_target(warehouse, texts.late)),
        rejects=look("rejects", lambda: _rejects(warehouse)),
        ddl=look("schema changes", lambda: _pending(warehouse)),
        storage=look("storage", lambda: _storage(warehouse)),
        failed=failed,
    )


def _sources(warehouse: Warehouse, missed: Callable[..., None]) -> list[Record]:
    sources = source_rows(warehouse, failed=missed)
    newest: dict[str, datetime] = {}
    if warehouse.exists("bronze", "messages"):
        name = warehouse.name("bronze", "messages")
        newest = {
            row["source"]: row["newest"]
            for row in records(warehouse.session.sql(texts.newest(name)))
        }
    return [{**row, "newest": newest.get(row["source"])} for row in sources]


def _tables(warehouse: Warehouse, missed: Callable[..., None]) -> list[Record]:
    quiet = Advance(lambda _, __: None)
    return table_rows(warehouse, advance=quiet, failed=missed)


def _kinds(warehouse: Warehouse) -> list[Record]:
    if not warehouse.exists("silver", "cdc"):
        return []
    name = warehouse.name("silver", "cdc")
    return records(warehouse.session.sql(texts.kinds(name)))


def _runs(warehouse: Warehouse) -> list[Record]:
    if not warehouse.exists("gold", "_runs"):
        return []
    name = warehouse.name("gold", "_runs")
    found = records(warehouse.session.sql(texts.runs(name, most=RUNS_MOST)))[::-1]
    for row in found:
        row["seconds"] = {stage: (row["seconds"] or {}).get(stage, 0.0) for stage in STAGES}
    return found


def _progress(warehouse: Warehouse) -> str | None:
    """The table of what gold did; None if it has not done anything yet."""
    return warehouse.name("gold", "_progress") if warehouse.exists("gold", "_progress") else None


def _applied(warehouse: Warehouse) -> list[Record]:
    done = _progress(warehouse)
    if done is None:
        return []
    asked = texts.by_hour(done, but=SOURCE_CURSOR, most=MOST)
    return records(warehouse.session.sql(asked))[::-1]


def _by_target(warehouse: Warehouse, asked: Callable[..., str]) -> list[Record]:
    """The targets that a query on what gold did lists first."""
    done = _progress(warehouse)
    if done is None:
        return []
    return records(warehouse.session.sql(asked(done, but=SOURCE_CURSOR, most=MOST)))


def _rejects(warehouse: Warehouse) -> list[Record]:
    found = relation(warehouse, Wanted(status="open"))
    if found is None:
        return []
    asked = texts.rejects(found, most=MOST, example=EXAMPLE)
    found_rows = records(warehouse.session.sql(asked))
    for row in found_rows:
        if row["stage"] == "decode" and _masks_columns(warehouse.config, row["source"]):
            # A message that could not be read cannot be masked either.
            row["example"] = {**row["example"], "error": _NOT_SHOWN, "value": None}
    return found_rows


def _masks_columns(config: Config, source: str) -> bool:
    """Whether columns of a source are masked in some target."""
    tables = config.tables.get(source)
    if tables is None:
        return False
    entries = (tables.defaults, *tables.tables)
    return any(said.mask is not None for entry in entries for said in entry.columns.values())


def _pending(warehouse: Warehouse) -> list[Record]:
    pending = ddl(warehouse, status="pending")
    return sorted(pending, key=lambda entry: -(entry["waiting_rows"] or 0))


def _storage(warehouse: Warehouse) -> list[Record]:
    """A row for each table, the largest first. `small`: it has so many files, which on average have
    so few bytes, that reading it costs more than necessary."""
    names = [("bronze", "messages"), ("silver", "cdc")]
    names += [("gold", name) for name in (*gold_tables(warehouse), *_OWN)]
    found = []
    for layer, table in names:
        if not warehouse.exists(layer, table):
            continue
        detail = warehouse.session.sql(upkeep.detail(warehouse.name(layer, table))).first()
        if detail is not None:
            files, size = int(detail["numFiles"]), int(detail["sizeInBytes"])
            small = files > WRITES and size < files * LARGE
            row = {"table": f"{layer}.{table}", "files": files, "bytes": size, "small": small}
            found.append(row)
    return sorted(found, key=lambda row: (-row["bytes"], row["table"]))
