"""A target that was made for a batch, and that another driver fills meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ingest.sql.fold.merge import into_nothing


def test_an_insert_is_refused_where_another_driver_wrote_meanwhile(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = f"delta.`{tmp_path / 'items'}`"
    begun, written = tmp_path / "begun", tmp_path / "written"

    def standing_still(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """As a driver does whose lease runs out with its statement begun."""
        begun.touch()
        while not written.exists():
            sleep(0.1)
        yield from batches

    spark.sql(f"CREATE TABLE {target} (id BIGINT) USING delta")
    spark.range(2).coalesce(1).mapInArrow(standing_still, "id bigint").createOrReplaceTempView("s0")
    statement = into_nothing(target, {"id": "s.id"}, rows="s0", where="true")
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(spark.sql, statement)
        while not begun.exists():
            assert not late.done()
            sleep(0.1)
        try:
            spark.sql(
                f"MERGE INTO {target} t USING (SELECT id FROM range(2)) s ON t.id = s.id "
                "WHEN NOT MATCHED THEN INSERT *"
            )
        finally:
            written.touch()
        with pytest.raises(Exception, match="DELTA_CONCURRENT_APPEND"):
            late.result()
    spark.catalog.dropTempView("s0")
    assert sorted(row[0] for row in spark.sql(f"SELECT id FROM {target}").collect()) == [0, 1]
