"""A session that spark-submit made: what can be set in it is set, and the rest is checked.

A submitted session lacks the settings with which the embedded one is started (`session.SETTINGS`).
Most of them can be set while the session runs, and are set unless whoever submitted it has said
otherwise. The others can only be given to spark-submit: if Delta Lake is missing, that is an error,
since nothing works without it; what only costs time is named.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.errors import PlatformError
from ingest.sql.tables.definition import schemas
from pipelines.platform.session import NO_CONSTRAINTS

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_KEPT_BY, _FORGETS = "spark.sql.catalogImplementation", "in-memory"
_CACHE = "spark.sql.codegen.cache.maxEntries"
_CLASSES = 1000
"""A MERGE generates some 60 classes; with the default of 100, every second MERGE forgets them
all."""
_FEWEST = 4
_MOST_THAT_COME = 100
"""The most cores of executors that come on demand to count on; the tasks of more would mostly be
empty."""
ANYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.codegen.hugeMethodLimit": "8000",
    "spark.sql.optimizer.inSetConversionThreshold": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    **NO_CONSTRAINTS,
}
"""Set as in the embedded session, for the same reasons."""
BY_CORES = (
    # By default 200: most of a batch's are empty tasks.
    "spark.sql.shuffle.partitions",
    # By default 50: so many tasks for each table whose files are asked for.
    "spark.databricks.delta.snapshotPartitions",
    # By default 10,000: so many tasks for each step of VACUUM, a minute on small tables.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism",
)
"""How many tasks something is done in: two for each core of the executors, at least _FEWEST."""


def adapted(session: SparkSession, catalog: str | None) -> list[str]:
    """Sets what the product works with where spark-submit made the session; gives a sentence on
    each setting that only spark-submit can be given, and that costs time as it is.

    Raises:
        PlatformError: the session has no Delta Lake, or no catalog of this name.
    """
    # Databricks starts its drivers the same way, and has settings of its own.
    if "PYSPARK_GATEWAY_PORT" not in os.environ or "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return []
    _check_delta(session)
    if catalog is not None:
        _check_catalog(session, catalog)
    given = dict(session.sparkContext.getConf().getAll())
    tasks = str(max(_FEWEST, 2 * _cores(session, given)))
    for name, value in {**ANYWHERE, **dict.fromkeys(BY_CORES, tasks)}.items():
        if name not in given and session.conf.isModifiable(name):
            session.conf.set(name, value)
    classes = session.conf.get(_CACHE, "100") or "100"
    if int(classes) >= _CLASSES:
        return []
    return [
        f"{_CACHE} is {classes}, so that each MERGE compiles its code anew; give spark-submit"
        f" --conf {_CACHE}=5000"
    ]


def _check_delta(session: SparkSession) -> None:
    lacking = [
        f"--conf {name}={wanted}"
        for name, wanted in (
            ("spark.sql.extensions", _EXTENSION),
            ("spark.sql.catalog.spark_catalog", _CATALOG),
        )
        if wanted not in (session.conf.get(name, "") or "").replace(" ", "").split(",")
    ]
    if lacking:
        raise PlatformError(
            f"expected a Spark session with Delta Lake, got one without; give spark-submit"
            f" {' and '.join(lacking)}, and the package io.delta:delta-spark of its version."
        )


def _check_catalog(session: SparkSession, catalog: str) -> None:
    """Raise PlatformError unless the session has this catalog and the catalog keeps its tables."""
    try:
        session.sql(schemas(catalog))
    except PySparkException as error:
        raise PlatformError(
            f"expected `catalog: {catalog}` to be a catalog of this Spark session, got"
            f" {error.getCondition() or type(error).__name__}; give spark-submit --conf"
            f" spark.sql.catalog.{catalog}=…, or set `catalog: spark_catalog`, the session's own."
        ) from error
    if catalog == "spark_catalog" and session.conf.get(_KEPT_BY, _FORGETS) == _FORGETS:
        raise PlatformError(
            "expected `catalog: spark_catalog` to keep its tables, got one in memory, which forgets"
            f" them when the driver ends; give spark-submit --conf {_KEPT_BY}=hive and the address"
            " of a metastore, or name another catalog."
        )


def _cores(session: SparkSession, given: Mapping[str, str]) -> int:
    """How many tasks the executors will run at once, as far as is known when the session starts;
    executors may come later."""

    def number(name: str, default: int) -> int:
        text = given.get(name, "")
        return int(text) if text.isdigit() else default

    each = number("spark.executor.cores", 1)
    asked = max(
        number("spark.cores.max", 0),
        number("spark.executor.instances", 0) * each,
    )
    if given.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        names = ("initialExecutors", "minExecutors", "maxExecutors")
        may_come = max(number(f"spark.dynamicAllocation.{name}", 0) for name in names) * each
        asked = max(asked, min(may_come, _MOST_THAT_COME))
    return max(asked, session.sparkContext.defaultParallelism)
