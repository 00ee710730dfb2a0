"""Random databases, delivered at random over partitions and batches: gold is what they hold.

Every database is one table of one source, so that one run of Spark merges them all, batch by batch.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest.config.load import load
from pipelines.apply import bounds
from pipelines.bronze import source as bronze
from pipelines.gold import run as gold
from pipelines.gold.known_targets import known_targets
from pipelines.operations.rebuild import rebuild
from pipelines.operations.reconcile import reconcile
from pipelines.platform.warehouse import Warehouse
from pipelines.silver import stream
from tests.support.databases import Database, delivered
from tests.support.debezium_log import captured, message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark", "short_spans")

SOURCE = """
name: lab
format: debezium
files: {path: 'landing/*.jsonl', framing: kcat, order: path}
# Of these silver has keys and hashes itself.
keys: {lab.hard00: [id], lab.hard01: [id], lab.soft04: [id], lab.hard07: [id]}
"""
TABLES = """
source: lab
tables:
  - from: 'lab.*'
    keys: [id]
    columns: {id: int, a: string, b: string, c: string}
  - from: 'lab.soft*'
    keys: [id]
    columns: {id: int, a: string, b: string, c: string}
    deletes: soft
"""
TABLES_MADE, CHANGES, BATCHES, PARTITIONS = 4, 60, 3, 3


def write_batches(root: Path, databases: dict[str, Database], chance: random.Random) -> list[str]:
    """Lay down one file a batch under `root/waiting`; gives their names in order."""
    waiting = root / "waiting"
    waiting.mkdir(parents=True)
    lines: list[list[str]] = [[] for _ in range(BATCHES)]
    for table, database in databases.items():
        offsets = [0] * PARTITIONS
        arriving = delivered(database.changes, chance, partitions=PARTITIONS, batches=BATCHES)
        for number, batch in enumerate(arriving):
            for partition, lane in enumerate(batch):
                for logged in lane:
                    text = message(logged, table)
                    offset = offsets[partition]
                    offsets[partition] += 1
                    lines[number].append(
                        captured(text, topic=table, partition=partition, offset=offset)
                    )
    names = []
    for number, batch_lines in enumerate(lines):
        name = f"{number:03d}.jsonl"
        (waiting / name).write_text("\n".join(batch_lines) + "\n")
        names.append(name)
    return names


def configure(root: Path) -> None:
    """A conf folder for the generated source."""
    for name, text in (("sources/lab.yml", SOURCE), ("tables/lab.yml", TABLES)):
        file = root / "conf" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def run_once(spark: SparkSession, root: Path) -> list[gold.Merged]:
    """Bronze, silver, gold, as `ingest run` does them."""
    config = load(root / "conf", environ={})
    warehouse = Warehouse(config, spark)
    for source in config.sources.values():
        bronze.ingest_source(warehouse, source)
        stream.decode_source(warehouse, source)
    return gold.merge_tables(warehouse, sources=list(config.sources))


def rows_of(spark: SparkSession, root: Path, table: str) -> dict[int, dict[str, Any]]:
    """What gold holds, by key; soft-deleted rows left out."""
    frame = spark.table(f"delta.`{root / 'warehouse' / 'gold' / f'lab_{table}'}`")
    rows = [row.asDict() for row in frame.collect()]
    kept = [row for row in rows if row.get("_deleted_at") is None]
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: {name: row[name] for name in ("id", "a", "b", "c")} for row in kept}


@pytest.mark.slow
def test_gold_is_what_the_databases_hold(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Some of it is folded in the driver, some by the workers.
    monkeypatch.setattr(bounds, "BYTES", 20_000)
    seed = 20260101
    chance = random.Random(seed)
    databases = {}
    for number in range(TABLES_MADE):
        name = f"{'soft' if number % 5 == 4 else 'hard'}{number:02d}"
        plain = number % 2 == 0
        database = databases[name] = Database(
            chance, partials=not plain, truncates=number % 3 == 0, moves=number % 3 != 1
        )
        database.live(CHANGES)
    configure(tmp_path)
    landing = tmp_path / "landing"
    landing.mkdir()
    for name in write_batches(tmp_path, databases, chance):
        (tmp_path / "waiting" / name).rename(landing / name)
        done = run_once(spark, tmp_path)
        assert [merged.error for merged in done if merged.error] == []
    held = {name: database.rows for name, database in databases.items()}
    assert {name: rows_of(spark, tmp_path, name) for name in databases} == held
    config = load(tmp_path / "conf", environ={})
    warehouse = Warehouse(config, spark)
    fed = known_targets(warehouse).fed
    assert len(fed) == len(databases)
    for target in fed.values():
        assert reconcile(warehouse, target).differences == []
        rebuild(warehouse, target)
        assert reconcile(warehouse, target).equal
    assert {name: rows_of(spark, tmp_path, name) for name in databases} == held
