"""What comes to the driver stays small however many batches silver has.

A stream of small batches makes ten thousand of them a day: what gold, `rebuild` and `reconcile`
bring to the driver is a row a source table, not a row a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("spark")
FEW, MANY = 20, 3_000
SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl'}\n"
TABLES = """source: shop
tables:
  - from: '*'
  - {from: shop.kept, stored_as_scd_type: 2}
  - {from: shop.told, sequence_by: [v]}
  - {from: shop.keyed, keys: [v]}
"""
NAMES = ("plain", "kept", "told", "keyed")


@contextmanager
def counted(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The number of rows that each query brings to the driver."""
    found: list[int] = []
    kind = type(spark.range(1))

    def counting(name: str) -> Any:
        once = getattr(kind, name)

        def counts(self: DataFrame, *rest: Any, **more: Any) -> Any:
            brought = once(self, *rest, **more)
            found.append(brought.num_rows if isinstance(brought, pa.Table) else len(brought))
            return brought

        return counts

    with monkeypatch.context() as patch:
        for name in ("collect", "toArrow"):
            patch.setattr(kind, name, counting(name))
        yield found


def _repeated(spark: SparkSession, folder: Path, first: int, last: int) -> None:
    """Silver's first batch once more as each of the batches from `first` to `last`."""
    path = str(folder / "warehouse/silver/cdc")
    rows = spark.read.format("delta").load(path).where("batch = 1").drop("batch")
    numbers = spark.range(first, last + 1).withColumnRenamed("id", "batch")
    later = rows.crossJoin(numbers).withColumns(
        {
            "offset": F.expr("offset + batch * 100"),
            "pos": F.expr("concat(slice(pos, 1, 2), array(pos[2] + batch), slice(pos, 4, 8))"),
            "s1": F.expr("s1 + batch"),
            "after": F.expr(
                "IF(after IS NULL, NULL, map_concat(map('id', after['id']), "
                "map('v', CAST(batch AS string))))"
            ),
        }
    )
    columns = spark.read.format("delta").load(path).columns
    later.select(columns).coalesce(1).write.format("delta").mode("append").save(path)


@pytest.mark.slow
def test_what_comes_to_the_driver(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.write("conf/tables/shop.yml", TABLES)
    types = {"id": "int", "v": "int"}
    rows = [
        canal(name, "INSERT", {"id": str(id_), "v": "1"}, es=1_000, id_=1, types=types)
        for name in NAMES
        for id_ in (1, 2)
    ]
    project.land("1.jsonl", rows)
    assert project.ingest("bronze").code == 0
    assert project.ingest("silver").code == 0
    brought = {}
    for last, first in ((FEW, 2), (MANY, FEW + 1)):
        _repeated(spark, tmp_path, first, last)
        with counted(spark, monkeypatch) as found:
            assert project.ingest("gold").code == 0
            for name in NAMES:
                answer = project.ingest("reconcile", f"shop_{name}")
                assert answer.code == 0, answer.err
            assert project.ingest("rebuild", "shop_plain").code == 0
        brought[last] = max(found), sum(found)
        stand = project.ingest("status", "--json").records
        assert not [row for row in stand if row.get("parked")]
    (most, every), (most_of_few, every_of_few) = brought[MANY], brought[FEW]
    # The second time round the targets are there, which is a handful of questions more.
    assert most == most_of_few < 20
    assert every < every_of_few + 20
