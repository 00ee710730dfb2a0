"""An INSERT into a target that another driver writes to meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ingest.sql.fold import append, merge
from ingest.sql.metadata import ROW_METADATA
from ingest.sql.projection import Projection

COLUMNS = {"id": "bigint", **ROW_METADATA}
VALUES = {
    "id": "nullif(id, 12)",
    "_pos": "array(id)",
    "_event_time": "timestamp_micros(id)",
    "_source": "'shop'",
    "_source_table": "'shop.items'",
}
"""SQL of a row of the target with the number `id`."""


def _into_nothing(target: str) -> str:
    return merge.into_nothing(target, VALUES, rows="late", where="true")


def _images(target: str) -> str:
    names = ["c0", *ROW_METADATA]
    rows = ", ".join(f"{sql} AS {name}" for name, sql in zip(names, VALUES.values(), strict=True))
    projection = Projection(keys=(), columns={"id": "bigint"})
    return append.insert_sql(target, projection, f"SELECT {rows} FROM late")


@pytest.mark.parametrize(
    ("statement", "there"),
    [
        pytest.param(_into_nothing, 0, id="a target made for the batch"),
        pytest.param(_images, 0, id="images, the first"),
        pytest.param(_images, 1, id="images beside others"),
        pytest.param(_images, 5, id="images beside one without a value"),
    ],
)
def test_it_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    statement: Callable[[str], str],
    there: int,
) -> None:
    target = f"delta.`{tmp_path / 'items'}`"
    begun, written = tmp_path / "begun", tmp_path / "written"
    named = ", ".join(f"{sql} AS {name}" for name, sql in VALUES.items())

    def standing_still(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """As a driver does whose lease runs out with its statement begun."""
        begun.touch()
        while not written.exists():
            sleep(0.1)
        yield from batches

    columns = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
    spark.sql(f"CREATE TABLE {target} ({columns}) USING delta")
    spark.sql(f"INSERT INTO {target} SELECT {named} FROM range(10, {10 + there})")
    spark.range(2).coalesce(1).mapInArrow(standing_still, "id bigint").createOrReplaceTempView(
        "late"
    )
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(spark.sql, statement(target))
        while not begun.exists():
            assert not late.done()
            sleep(0.1)
        try:
            spark.sql(
                f"MERGE INTO {target} t USING (SELECT {named} FROM range(2)) s ON t.id = s.id "
                "WHEN NOT MATCHED THEN INSERT *"
            )
        finally:
            written.touch()
        with pytest.raises(Exception, match="DELTA_CONCURRENT_APPEND"):
            late.result()
    spark.catalog.dropTempView("late")
    found = spark.sql(f"SELECT id FROM {target}").collect()
    assert len(found) == 2 + there
