"""What a submitted session is given and asked for, by sessions that only remember."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from ingest.config.settings import Settings
from ingest.errors import PlatformError
from pipelines.platform.object_stores import check_log_store
from pipelines.platform.spark_submit import ANYWHERE, BY_CORES, adapted

ROOT = Path(__file__).parents[2]
DELTA = {
    "spark.sql.extensions": "a.B,io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
HIVE = {"spark.sql.catalogImplementation": "hive"}
SINGLE = {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore"}


class Conf(dict[str, str]):
    """Settings of which the static ones cannot be set."""

    def isModifiable(self, name: str) -> bool:
        return name != "spark.sql.codegen.cache.maxEntries"

    def set(self, name: str, value: str) -> None:
        assert self.isModifiable(name)
        self[name] = value


def submitted(given: Mapping[str, str], *, cores: int = 2, places: Mapping[str, str] = {}) -> Any:
    """A session started with these settings, whose schemas lie in these places."""

    def sql(query: str) -> Any:
        words = query.replace("`", "").split()
        if words[:3] == ["SHOW", "SCHEMAS", "IN"]:
            if words[3] != "spark_catalog":
                raise AnalysisException("no such catalog", errorClass="CATALOG_NOT_FOUND")
            return None
        schema = words[-1].rpartition(".")[2]
        if schema not in places:
            raise AnalysisException("no such schema", errorClass="SCHEMA_NOT_FOUND")
        return SimpleNamespace(collect=lambda: [("Location", places[schema])])

    context = SimpleNamespace(
        defaultParallelism=cores,
        getConf=lambda: SimpleNamespace(getAll=lambda: list(given.items())),
    )
    return SimpleNamespace(conf=Conf(given), sparkContext=context, sql=sql)


@pytest.fixture(autouse=True)
def under_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)


def test_what_can_be_set_is_and_the_rest_is_named() -> None:
    session = submitted({**DELTA, **HIVE}, cores=24)
    (said,) = adapted(session, "spark_catalog")
    assert said == (
        "spark.sql.codegen.cache.maxEntries is 100, so that each MERGE compiles its code anew; "
        "give spark-submit --conf spark.sql.codegen.cache.maxEntries=5000"
    )
    assert session.conf == {**DELTA, **HIVE, **ANYWHERE, **dict.fromkeys(BY_CORES, "48")}


def test_what_was_given_stands() -> None:
    given = {
        **DELTA,
        "spark.sql.shuffle.partitions": "7",
        "spark.sql.session.timeZone": "Asia/Shanghai",
        "spark.sql.codegen.cache.maxEntries": "2000",
        "spark.executor.instances": "5",
        "spark.executor.cores": "2",
    }
    session = submitted(given)
    assert adapted(session, None) == []
    tasks = dict.fromkeys(BY_CORES, "20")
    assert session.conf == {**DELTA, **ANYWHERE, **tasks, **given}


@pytest.mark.parametrize(
    ("given", "tasks"),
    [
        ({"maxExecutors": "8", "initialExecutors": "1"}, "64"),
        # So many might come that most tasks would be empty.
        ({"maxExecutors": "500"}, "200"),
        # Without a bound, by what it begins with.
        ({"initialExecutors": "3"}, "24"),
        ({"minExecutors": "2"}, "16"),
        ({}, "4"),
    ],
)
def test_executors_that_come_as_they_are_needed(given: Mapping[str, str], tasks: str) -> None:
    allocation = {f"spark.dynamicAllocation.{name}": text for name, text in given.items()}
    session = submitted(
        {**DELTA, "spark.executor.cores": "4", "spark.dynamicAllocation.enabled": "true"}
        | allocation
    )
    adapted(session, None)
    assert {session.conf[name] for name in BY_CORES} == {tasks}
    fixed = submitted({**DELTA, "spark.executor.cores": "4"} | allocation)
    adapted(fixed, None)
    assert {fixed.conf[name] for name in BY_CORES} == {"4"}


@pytest.mark.parametrize("lacking", DELTA)
def test_without_delta_nothing_begins(lacking: str) -> None:
    given = {name: text for name, text in DELTA.items() if name != lacking}
    with pytest.raises(PlatformError, match=f"without; give spark-submit --conf {lacking}="):
        adapted(submitted(given), None)


def test_a_catalog_that_is_not_there() -> None:
    with pytest.raises(PlatformError, match=r"expected `catalog: lake` to be a catalog .* got CAT"):
        adapted(submitted(DELTA), "lake")


@pytest.mark.parametrize("given", [{}, {"spark.sql.catalogImplementation": "in-memory"}])
def test_a_catalog_that_forgets_its_tables(given: Mapping[str, str]) -> None:
    """The next driver would find the checkpoints, and none of the tables."""
    with pytest.raises(PlatformError, match=r"got one in memory.*catalogImplementation=hive"):
        adapted(submitted({**DELTA, **given}), "spark_catalog")


def test_databricks_has_settings_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    session = submitted({})
    assert adapted(session, "main") == []
    assert session.conf == {}


@pytest.mark.parametrize(
    ("places", "given", "refused"),
    [
        ({"gold": "s3a://lake/gold"}, {}, "tables of gold lie in s3a://lake/gold"),
        ({"gold": "s3a://lake/gold"}, SINGLE, None),
        ({"silver": "s3://lake/s"}, SINGLE, "spark.delta.logStore.s3.impl="),
        ({"gold": "abfss://c@lake/gold", "bronze": "gs://lake/b"}, {}, None),
        ({}, {"spark.sql.warehouse.dir": "s3a://lake"}, "tables of bronze lie in s3a://lake"),
        ({}, {"spark.sql.warehouse.dir": "file:/tables"}, None),
    ],
)
def test_tables_on_s3_need_a_log_store_that_is_named(
    tmp_path: Path, places: Mapping[str, str], given: Mapping[str, str], refused: str | None
) -> None:
    settings = Settings(catalog="spark_catalog", checkpoints=str(tmp_path))
    session = submitted({**DELTA, **given}, places=places)
    if refused is None:
        check_log_store(session, settings)
    else:
        with pytest.raises(PlatformError, match=refused):
            check_log_store(session, settings)


def test_the_command_runs_as_a_script() -> None:
    """As spark-submit runs it: the folder of the script comes first on the path."""
    script = ROOT / "pipelines" / "cli" / "app.py"
    done = subprocess.run(
        [sys.executable, str(script), "--version"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ingest ")
