"""Spark generates code for a batch once, and not for each batch anew: it would keep all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.platform.session import having
from tests.support.project import Project, canal

GENERATED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl'}\n"


@pytest.mark.slow
def test_a_batch_like_the_one_before_generates_no_code(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    jvm: Any = spark._jvm
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.write("conf/tables/shop.yml", "source: shop\ntables: [{from: '*'}]\n")
    counts = []
    for number in range(5):
        row = {"id": "1", "v": str(number)}
        op = "UPDATE" if number else "INSERT"
        message = canal("items", op, row, es=number, id_=number, types={"id": "int", "v": "int"})
        project.land(f"{number}.jsonl", [message])
        before = compiled.getCount()
        with having(spark, GENERATED):
            assert project.ingest("run").code == 0
        counts.append(compiled.getCount() - before)
    assert counts[-2:] == [0, 0], counts
