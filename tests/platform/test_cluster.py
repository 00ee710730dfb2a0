"""On a cluster of two workers all is as on one machine, whatever happens to its executors."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ingest.errors import TRY_AGAIN
from pipelines.platform.rows import records
from tests.support.project import Project, canal, canal_ddl
from tests.support.spark_cluster import Cluster, Driver, cluster, yarn

SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl', order: path}\n"
LAYERS = ("bronze", "silver", "gold", "history")
TABLES = ("item", "orders")
START = 1_700_000_000_000
# Many a task is started a second time.
RESTLESS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "200ms",
}
# Executors end once they have had nothing to do, and others come for what is next.
AS_NEEDED = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "4s",
    "spark.dynamicAllocation.executorIdleTimeout": "4s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "4s",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
}


def messages(count: int, *, seed: int) -> list[dict[str, Any]]:
    """Changes of some tables, a tenth of them late, and a column that turns up."""
    drawn = random.Random(seed)
    sent = []
    for number in range(count):
        table, id_ = drawn.choice(TABLES), drawn.randrange(100)
        row: dict[str, str | None] = {
            **{"id": str(id_), "name": f"n{number}"},
            "price": None if drawn.random() < 0.1 else f"{number}.25",
        }
        types = {"id": "int", "name": "varchar(20)", "price": "decimal(12,2)"}
        kind = drawn.choice(("INSERT", "UPDATE", "UPDATE", "DELETE"))
        late = drawn.choice((0,) * 9 + (500_000,))
        at = START + seed * 1_000_000 + number * 1000 - late
        old = {"name": "before"} if kind == "UPDATE" else None
        sent.append(canal(table, kind, row, es=at, id_=number, old=old, types=types))
    at = START + seed * 1_000_000 + count * 1000
    statement = f"ALTER TABLE item ADD COLUMN c{seed} int"
    sent.append(canal_ddl("item", statement, es=at, id_=count))
    return sent


def rows(spark: SparkSession, folder: Path, table: str) -> list[str]:
    """Every row of a table, whole."""
    place = str(folder / table).replace("`", "``")
    return sorted(json.dumps(row, default=str) for row in records(spark.table(f"delta.`{place}`")))


def changes(spark: SparkSession, folder: Path) -> list[str]:
    """Every row of silver, but when it was made and in which batch."""
    frame = spark.table(f"delta.`{folder / 'cdc'}`").drop("batch", "decoded_at")
    return sorted(json.dumps(row, default=str) for row in records(frame))


def executors(cluster: Cluster) -> list[int]:
    """The processes of the cluster's executors."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes()
            inside = os.readlink(place / "cwd").startswith(f"{cluster.folder}/worker")
        except OSError:
            continue
        if inside and b"CoarseGrainedExecutorBackend" in words:
            found.append(int(place.name))
    return found


def kill_one(cluster: Cluster, driver: Driver, *, once: Path) -> bool:
    """End an executor as soon as `once` is there; False where the driver ended first."""
    while driver.process.poll() is None:
        running = executors(cluster)
        if once.exists() and running:
            os.kill(running[0], signal.SIGKILL)
            return True
        time.sleep(0.05)
    return False


def projects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, count: int, checkpoints: str
) -> tuple[Project, Project]:
    """One of this machine, which has run once, and one of a catalog, which has not: so many
    messages wait in both. `checkpoints`: the catalog's, with `{}` for the folder of its project."""
    here = Project(tmp_path / "here", capsys.readouterr)
    there = Project(tmp_path / "there", capsys.readouterr)
    schemas = {layer: f"cdc_{layer}" for layer in LAYERS}
    place = checkpoints.format(there.folder)
    there.write(
        "conf/ingest.yml",
        f"catalog: spark_catalog\ncheckpoints: {place}\nschemas: {json.dumps(schemas)}\n",
    )
    for project in (here, there):
        project.write("conf/sources/shop.yml", SOURCE)
        project.land("1.jsonl", messages(count, seed=1))
    assert here.ingest("run").code == 0
    return here, there


def check_rows(spark: SparkSession, here: Project, there: Project) -> None:
    """Both have the same rows in every target, and some in each."""
    for target in (f"shop_{table}" for table in TABLES):
        theirs = rows(spark, there.folder / "tables" / "cdc_gold.db", target)
        assert theirs == rows(spark, here.folder / "warehouse" / "gold", target) and theirs


@pytest.mark.long
def test_a_cluster_has_the_tables_of_one_machine(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = projects(tmp_path, capsys, count=400, checkpoints="checkpoints")
    conf = ("--conf", str(there.folder / "conf"))
    with cluster(there.folder) as running:
        tables = there.folder / "tables"
        driver = running.submit(*conf, "run", settings=RESTLESS)
        assert kill_one(running, driver, once=tables / "cdc_silver.db" / "cdc")
        assert kill_one(running, driver, once=tables / "cdc_gold.db" / "shop_item")
        code, printed = driver.wait()
        assert code == 0, printed[-4000:]
        assert "codegen.cache.maxEntries is 100" in printed
        for project in (here, there):
            project.land("2.jsonl", messages(100, seed=2))
        pair = [running.submit(*conf, "run", "--no-wait", settings=RESTLESS) for _ in range(2)]
        ended = [one.wait() for one in pair]
        codes = [code for code, _ in ended]
        assert 0 in codes and set(codes) <= {0, TRY_AGAIN}, [text[-4000:] for _, text in ended]
        for code, printed in ended:
            held = re.search(r"is held by process \d+ on \S+ since ", printed)
            assert (held is not None) == (code == TRY_AGAIN), printed[-4000:]
    assert here.ingest("run").code == 0
    check_rows(spark, here, there)
    mine = here.folder / "warehouse"
    assert changes(spark, tables / "cdc_silver.db") == changes(spark, mine / "silver")


@pytest.mark.long
def test_executors_come_and_go_as_they_are_needed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = projects(tmp_path, capsys, count=100, checkpoints="checkpoints")
    with cluster(there.folder) as running:
        conf = ("--conf", str(there.folder / "conf"))
        code, printed = running.submit(*conf, "run", settings=AS_NEEDED).wait()
        assert code == 0, printed[-4000:]
        # Each has a folder; two at most were there at once.
        begun = list(there.folder.glob("worker*/app-*/*"))
        assert len(begun) > 2, begun
    check_rows(spark, here, there)
    silvers = (there.folder / "tables" / "cdc_silver.db", here.folder / "warehouse" / "silver")
    assert changes(spark, silvers[0]) == changes(spark, silvers[1])


@pytest.mark.long
def test_yarn_runs_the_driver_too(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = projects(tmp_path, capsys, count=200, checkpoints="{}/checkpoints")
    conf = ("--conf", str(there.folder / "conf"))
    with yarn(there.folder) as running:
        for words in (("run",), ("reconcile", "shop_item")):
            code, printed = running.submit(*conf, *words).wait()
            assert code == 0, printed[-4000:] + _of_containers(there.folder)
        assert "no difference" in _of_containers(there.folder)
        code, _ = running.submit(*conf, "reconcile", "unknown").wait()
        assert code != 0
    check_rows(spark, here, there)


def _of_containers(folder: Path) -> str:
    """What drivers and executors printed on their node."""
    files = sorted((folder / "containers").glob("**/std*"))
    return "".join(f"{file.name}: {file.read_text()[-3000:]}" for file in files)
