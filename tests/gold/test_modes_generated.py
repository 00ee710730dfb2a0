"""Random databases, delivered at random, kept in every mode: each holds what the database held.

Versions, marks and appended rows are compared with what `tests.support.databases` noted while it
changed its rows; then gold's progress is lost, and applying everything once more changes nothing.
"""

from __future__ import annotations

import random
import shutil
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest.config.load import load
from pipelines.apply import bounds
from pipelines.gold.known_targets import known_targets
from pipelines.operations.rebuild import rebuild
from pipelines.operations.reconcile import reconcile
from pipelines.platform.warehouse import Warehouse
from tests.gold.test_gold_generated import SOURCE, run_once, write_batches
from tests.support.databases import Database
from tests.support.debezium_log import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")

TABLES = """
source: lab
defaults: {keys: [id], columns: {id: int, a: string, b: string, c: string}}
tables:
  - from: 'lab.versions*'
    stored_as_scd_type: 2
  - from: 'lab.ended*'
    stored_as_scd_type: 2
    deletes: soft
  - from: 'lab.marked*'
    deletes: soft
  - from: 'lab.appended*'
    stored_as_scd_type: append
"""
CHANGES = 60
START = 1_700_000_000_000
Rows = list[tuple[Any, ...]]


def number(time: datetime | None) -> int | None:
    """Which change a time is of."""
    return None if time is None else round(time.timestamp() * 1000) - START


def held(spark: SparkSession, root: Path, table: str) -> Rows:
    """A target's rows, with the numbers of the changes that began, ended or marked them."""
    rows = []
    for row in spark.table(f"delta.`{root / 'warehouse' / 'gold' / f'lab_{table}'}`").collect():
        values = tuple(row[name] for name in COLUMNS)
        times: tuple[datetime | None, ...]
        if "_valid_from" in row:
            assert row["_current"] == (row["_valid_to"] is None)
            times = (row["_valid_from"], row["_valid_to"])
        elif "_deleted_at" in row:
            times = ()
        else:
            times = (row["_event_time"],)
        if "_deleted_at" in row:
            times = (*times, row["_deleted_at"])
        rows.append((*values, *map(number, times)))
    return sorted(rows, key=str)


def expected(database: Database, mode: str) -> Rows:
    """What must be held in `mode`, the start of the table's name."""
    rows: Rows = []
    if mode == "appended":
        for logged in database.changes:
            if logged.after is not None:
                rows.append((*(logged.after.get(name) for name in COLUMNS), logged.number))
    versions = sorted(database.versions, key=lambda version: version.begin)
    if mode == "marked":
        versions = list({version.row["id"]: version for version in versions}.values())
    for version in versions:
        values = tuple(version.row[name] for name in COLUMNS)
        if mode == "versions":
            rows.append((*values, version.begin, version.end))
        elif mode == "ended":
            after = {next_.row["id"] for next_ in versions if next_.begin == version.end}
            marked = None if version.row["id"] in after else version.end
            rows.append((*values, version.begin, version.end, marked))
        elif mode == "marked":
            rows.append((*values, version.end))
    return sorted(rows, key=str)


@pytest.mark.slow
def test_every_mode_is_what_the_databases_went_through(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing is folded in the driver, and changes of the key are looked for link by link.
    monkeypatch.setattr(bounds, "BYTES", 0)
    monkeypatch.setattr(bounds, "KEY_CHANGES", 12)
    chance = random.Random(20260202)
    databases = {}
    for name, partials, truncates in (
        ("versions00", True, True),
        ("versions01", False, False),
        ("ended00", True, False),
        ("marked00", False, False),
        ("appended00", True, True),
    ):
        database = databases[name] = Database(chance, partials=partials, truncates=truncates)
        database.live(CHANGES)
    for name, text in (("sources/lab.yml", SOURCE), ("tables/lab.yml", TABLES)):
        (tmp_path / "conf" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "conf" / name).write_text(text)
    (tmp_path / "landing").mkdir()
    for name in write_batches(tmp_path, databases, chance):
        (tmp_path / "waiting" / name).rename(tmp_path / "landing" / name)
        done = run_once(spark, tmp_path)
        assert [merged.error for merged in done if merged.error] == []
    wanted = {name: expected(database, name[:-2]) for name, database in databases.items()}
    assert {name: held(spark, tmp_path, name) for name in databases} == wanted
    shutil.rmtree(tmp_path / "warehouse" / "gold" / "_progress")
    assert [merged.error for merged in run_once(spark, tmp_path) if merged.error] == []
    assert {name: held(spark, tmp_path, name) for name in databases} == wanted
    config = load(tmp_path / "conf", environ={})
    warehouse = Warehouse(config, spark)
    fed = known_targets(warehouse).fed
    for target in fed.values():
        assert reconcile(warehouse, target).differences == []
        rebuild(warehouse, target)
        assert reconcile(warehouse, target).equal
    assert {name: held(spark, tmp_path, name) for name in databases} == wanted
