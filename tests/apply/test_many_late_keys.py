"""More late keys than the driver takes: Spark's workers make of them what the driver makes of few.

Random databases are delivered at random, then everything once more as new messages, as when a topic
is sent again: once all of it is judged and folded in the driver, once nothing of it.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ingest.config.load import load
from ingest.sql.fold.key_changes import contracted
from pipelines.apply import bounds
from pipelines.platform.rows import array_of, rows
from pipelines.platform.warehouse import Warehouse
from tests.gold.test_gold_generated import SOURCE, run_once, write_batches
from tests.support.databases import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")
TABLES = """
source: lab
defaults: {keys: [id], columns: {id: int, a: string, b: string, c: string}}
tables:
  - from: 'lab.hard*'
  - {from: 'lab.soft*', deletes: soft}
  - {from: 'lab.versions*', stored_as_scd_type: 2}
"""
NAMES = ("hard00", "soft00", "versions00")
TOLD = ("target", "code", "topic", "`partition`", "offset", "status")


def play(spark: SparkSession, root: Path) -> tuple[dict[str, list[Any]], list[int]]:
    """Everything that stands after all batches, and how many keys the last one folded again."""
    (root / "landing").mkdir()
    for file in sorted((root / "waiting").iterdir()):
        file.rename(root / "landing" / file.name)
        done = run_once(spark, root)
        assert [merged.error for merged in done if merged.error] == []
    gold = root / "warehouse" / "gold"
    held = {
        name: sorted(map(str, rows(spark.table(f"delta.`{gold / f'lab_{name}'}`"))))
        for name in NAMES
    }
    aside = spark.table(f"delta.`{gold / '_rejects'}`").selectExpr(*TOLD)
    held["rejects"] = sorted(map(str, rows(aside)))
    found = spark.sql(
        f"SELECT target, max_by(keys_refolded, version) FROM delta.`{gold / '_progress'}` "
        f"WHERE target <> '*' GROUP BY target ORDER BY target"
    )
    return held, [number for _, number in rows(found)]


def sent_again(waiting: Path) -> None:
    """One more batch: all messages of the others, as new ones."""
    lines = [line for file in sorted(waiting.iterdir()) for line in file.read_text().splitlines()]
    again = []
    for line in lines:
        message = json.loads(line)
        message["offset"] += 10_000
        again.append(json.dumps(message))
    (waiting / "900.jsonl").write_text("\n".join(again) + "\n")


@pytest.mark.slow
def test_workers_do_what_the_driver_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(20260303)
    databases = {}
    for name in NAMES:
        database = databases[name] = Database(chance, truncates=name != "soft00")
        database.live(60)
    for name, text in (("sources/lab.yml", SOURCE), ("tables/lab.yml", TABLES)):
        file = tmp_path / "few" / "conf" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    write_batches(tmp_path / "few", databases, chance)
    sent_again(tmp_path / "few" / "waiting")
    shutil.copytree(tmp_path / "few", tmp_path / "many")
    few, refolded_few = play(spark, tmp_path / "few")
    for name in ("CHANGES", "BYTES", "KEYS", "KEY_CHANGES"):
        monkeypatch.setattr(bounds, name, 0)
    many, refolded_many = play(spark, tmp_path / "many")
    for name, held in few.items():
        assert many[name] == held, name
    # Nothing of what came again was new.
    assert refolded_few[0] > 0
    assert refolded_many == [0] * len(NAMES)
    config = load(tmp_path / "many" / "conf", environ={})
    left = Warehouse(config, spark).tables("silver")
    assert left == ["cdc"]


@pytest.mark.parametrize("pairs", [[(n + 1, n) for n in range(40)], [(n, 0) for n in range(1, 9)]])
def test_groups_that_workers_link(spark: SparkSession, pairs: list[tuple[int, int]]) -> None:
    """Long chains and wide stars alike."""
    edges = {(f"{u:02}", f"{v:02}") for u, v in [*pairs, (91, 90)]}
    for _ in range(10):
        table = pa.table(
            {"key": array_of((u,) for u, _ in edges), "tied_to": array_of((v,) for _, v in edges)}
        )
        spark.createDataFrame(table).createOrReplaceTempView("linked")
        found = spark.sql(contracted("linked"))
        after = {(u[0], v[0]) for u, v in rows(found)}
        if after == edges:
            break
        edges = after
    assert edges == {(f"{u:02}", "00") for u, _ in pairs} | {("91", "90")}
