"""However many batches come, a run reads few files: those of new batches, and of all that is kept
of many runs the few that compaction leaves."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from ingest.sql.silver import among
from pipelines.operations import compaction
from pipelines.platform import commit_log
from pipelines.platform.warehouse import Warehouse
from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("as_shipped")

SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl', order: path}\n"


def _files(spark: SparkSession, folder: Path) -> int:
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{folder}`").first()
    assert detail is not None
    return int(detail["numFiles"])


def _batch(project: Project, number: int) -> None:
    rows = [{"id": str(key), "name": "pen", "price": f"{number}.10"} for key in (number, 1_000)]
    changes = [
        canal("item", "INSERT", row, es=1_700_000_000_000 + number, id_=2 * number + place)
        for place, row in enumerate(rows)
    ]
    project.land(f"{number:03}.jsonl", changes)
    answer = project.ingest("run")
    assert answer.code == 0, answer.err


def _dictionaries(folder: Path) -> dict[str, set[str]]:
    """By operation, the columns that have dictionaries in files that it wrote."""
    found: dict[str, set[str]] = defaultdict(set)
    for commit in (folder / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        [operation] = [a["commitInfo"]["operation"] for a in actions if "commitInfo" in a]
        for path in (a["add"]["path"] for a in actions if "add" in a):
            group = pq.ParquetFile(folder / path).metadata.row_group(0)
            columns = map(group.column, range(group.num_columns))
            found[operation] |= {c.path_in_schema for c in columns if c.has_dictionary_page}
    return found


def _generated(frame: DataFrame) -> list[str]:
    """What Spark generates for a frame."""
    jvm = frame.sparkSession.sparkContext._jvm
    assert jvm is not None
    debug = getattr(getattr(jvm.org.apache.spark.sql.execution.debug, "package$"), "MODULE$")
    found = debug.codegenStringSeq(frame._jdf.queryExecution().executedPlan())
    return [found.apply(number)._2() for number in range(found.size())]


@pytest.fixture
def code(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """By table the code of each append."""
    found: dict[str, list[list[str]]] = defaultdict(list)
    append = Warehouse.append

    def appending(self: Warehouse, frame: DataFrame, layer: str, table: str, **more: Any) -> None:
        found[f"{layer}/{table}"].append(_generated(frame))
        append(self, frame, layer, table, **more)

    monkeypatch.setattr(Warehouse, "append", appending)
    return found


@pytest.mark.slow
def test_a_long_life_in_few_files(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    code: dict[str, list[list[str]]],
) -> None:
    monkeypatch.setattr(compaction, "WRITES", 3)
    monkeypatch.setattr(commit_log, "CHECKED", 1)
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    for number in range(5):
        _batch(project, number)
    warehouse = tmp_path / "warehouse"
    tables = ("bronze/messages", "silver/cdc", "gold/_progress", "gold/shop_item")
    files = {table: _files(spark, warehouse / table) for table in tables}
    # One file of the first three batches, and those of two.
    assert files["bronze/messages"] == files["silver/cdc"] == files["gold/_progress"] == 3, files
    assert files["gold/shop_item"] <= 3, files
    # No batch has code of its own that would have to be compiled and kept.
    for table in tables[:2]:
        first, *others = code[table]
        assert first and all(other == first for other in others) and len(others) == 4
    # Of commits before the third batch the logs have no more than is needed to read them as then.
    for table in tables:
        log = warehouse / table / "_delta_log"
        assert sorted(file.name for file in log.glob(f"*{1:020}*")) == [f"{1:020}.json"]
        then = spark.read.format("delta").option("versionAsOf", 1).load(str(warehouse / table))
        assert then.count() > 0
    # What is read of the newest batch is its file; of one before it, at most the next one's too.
    silver = f"delta.`{warehouse / 'silver/cdc'}`"
    for batches, opened in (([5], 1), ([4], 2), ([4, 5], 2)):
        read = spark.sql(f"SELECT id FROM {silver} WHERE {among(batches)}")
        assert len(read.inputFiles()) == opened
        assert read.count() >= 2 * len(batches)
        kept = spark.sql(f"SELECT DISTINCT batch FROM ({silver}) WHERE {among(batches)}")
        assert sorted(row[0] for row in kept.collect()) == batches
    # What batches write has no dictionaries, what is put together of it has.
    gold, changes = (_dictionaries(warehouse / table) for table in ("gold/shop_item", "silver/cdc"))
    # The first rows of a table meet none: they are inserted.
    assert gold.pop("WRITE") == gold.pop("MERGE") == set()
    together = changes.pop("OPTIMIZE")
    assert {"source", "db", "table"} <= together
    assert set().union(*changes.values()) == set()
    found = project.ingest("sql", "SELECT id, price FROM gold.shop_item ORDER BY id", "--json")
    assert found.records == [
        *({"id": number, "price": f"{number}.10"} for number in range(5)),
        {"id": 1_000, "price": "4.10"},
    ]
    assert project.ingest("reconcile", "shop_item").code == 0
