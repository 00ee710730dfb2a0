"""What tests share: one Spark session, one Kafka broker, a warehouse each, the samples."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.support.browser import chromium

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.demo import Demo
    from tests.support.kafka_broker import Broker

ROOT = Path(__file__).parent.parent
# Code that is generated for a handful of rows costs more than it saves.
BRIEF = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
FRUGAL = {**BRIEF, "spark.sql.shuffle.partitions": "1"}
# These take minutes each: first, so that the workers end together.
LONGEST = (
    *("test_merge", "test_ddl_review", "test_killed", "test_hostile_logs", "test_maintain"),
    *("test_modes_generated", "test_connect", "test_demo", "test_pages", "test_gold_generated"),
    *("test_equivalence_gold", "test_damage"),
)
# A busy machine is no failure.
settings.register_profile("timeless", deadline=None)
settings.load_profile("timeless")


@pytest.fixture(scope="session", autouse=True)
def brief() -> Iterator[None]:
    """Commands that tests run in processes of their own live for seconds: without the second
    compiler of the JVM and without generated code they take less than half the CPU."""
    with pytest.MonkeyPatch.context() as patch:
        settings = " ".join(f"-D{name}={value}" for name, value in BRIEF.items())
        patch.setenv("SPARK_SUBMIT_OPTS", f"-XX:TieredStopAtLevel=1 {settings}")
        # pytest-xdist says how wide its own lines are; how wide ours are is for the tests to say.
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, brief: None) -> Iterator[SparkSession]:
    """The one session of the test run, as the product starts it, but for settings under which
    thousands of queries over a handful of rows take less time."""
    from pipelines.platform import session

    with pytest.MonkeyPatch.context() as patch:
        # A heap that has its size from the start is not collected whole each time it grows.
        patch.setenv("SPARK_SUBMIT_OPTS", "-XX:InitialRAMPercentage=20")
        started = session.spark(warehouse=tmp_path_factory.mktemp("spark"))
    for name, value in FRUGAL.items():
        started.conf.set(name, value)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def as_shipped(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with all settings as the product has them."""
    from pipelines.platform.session import SETTINGS

    for name in FRUGAL:
        if name in SETTINGS:
            spark.conf.set(name, SETTINGS[name])
        else:
            spark.conf.unset(name)
    yield spark
    for name, value in FRUGAL.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="module")
def short_spans() -> Iterator[None]:
    """However few batches there are, silver is looked through for late keys in several spans, and
    for truncates."""
    from pipelines.apply import prior_images
    from pipelines.targets import progress

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prior_images, "FIRST_SPAN", 1)
        patch.setattr(progress, "TRUNCATES_MOST", 1)
        yield


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """An empty folder for the tables of one test."""
    folder = tmp_path / "warehouse"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker, with all its listeners; give each test topics of its own."""
    from tests.support.kafka_broker import broker

    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="session")
def kafka(kafka_broker: Broker) -> str:
    """The servers of its listener that lets everybody in."""
    return kafka_broker.bootstrap


@pytest.fixture(scope="session")
def demo(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo of conf/, played once for all who look at it."""
    from tests.support.demo import play

    return play(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of sample messages that stands beside the repository, or `INGEST_SHARED`."""
    folder = Path(os.environ.get("INGEST_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"no samples at {folder}; set INGEST_SHARED")
    return folder


@pytest.fixture(scope="session")
def a_browser() -> None:
    """Skips what needs a browser where there is none."""
    if chromium() is None:
        pytest.skip("no Chromium is installed")


NEEDS = {"spark": "spark", "kafka_broker": "kafka", "a_browser": "browser"}
"""Markers of tests, by the fixtures that they have."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs Spark, Kafka or a browser by its fixtures, and puts the files that take
    longest first.

    `-m 'not spark'` is the fast run.
    """
    slow: set[Path] = set()
    for item in items:
        for fixture, marker in NEEDS.items():
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
                slow.update([item.path] if marker != "browser" else [])

    def turn(item: pytest.Item) -> int:
        name = item.path.stem
        return LONGEST.index(name) if name in LONGEST else len(LONGEST) + (item.path not in slow)

    items.sort(key=turn)


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay to the end: the collector need not look through them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker takes a file, or both that look at the demo."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file.replace("test_pages", "test_demo")

    return ByFile(config, log)
