"""The job one would write by hand for one table of Debezium messages: from_json, dedupe, MERGE."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_ROW = (
    "id:bigint,order_no:string,customer_id:bigint,status:string,amount:decimal(12,2),"
    "quantity:int,city:string,email:string,note:string,created_at:bigint,updated_at:bigint"
)
_MESSAGE = (
    f"before struct<{_ROW}>, after struct<{_ROW}>, op string, "
    "source struct<file:string,pos:bigint,`table`:string>"
)
NAMES = [column.split(":")[0] for column in _ROW.replace("(12,2)", "(12.2)").split(",")]
_TARGET = _ROW.replace(":", " ").replace("_at bigint", "_at timestamp_ntz")


def create(session: SparkSession, target: Path) -> None:
    """The job's table."""
    session.sql(f"CREATE TABLE delta.`{target}` ({_TARGET}) USING DELTA")


def folded(session: SparkSession, file: Path) -> DataFrame:
    """The newest change of each key of a file: its table, key `k`, `gone`, the row."""
    message = F.from_json("value", _MESSAGE)
    events = session.read.text(str(file)).select(message.alias("m")).select("m.*")
    newest = events.groupBy(
        F.col("source.table").alias("name"),
        F.coalesce("after.id", "before.id").alias("k"),
    ).agg(F.max_by(F.struct("op", "after"), F.struct("source.file", "source.pos")).alias("last"))
    columns = [
        F.expr(f"CAST(timestamp_millis(last.after.{name}) AS timestamp_ntz)").alias(name)
        if name.endswith("_at")
        else F.col(f"last.after.{name}")
        for name in NAMES
    ]
    return newest.select("name", "k", F.expr("last.op = 'd'").alias("gone"), *columns)


def merge(rows: DataFrame, target: Path) -> None:
    """One MERGE of folded rows."""
    session = rows.sparkSession
    view = f"rows_{target.name}"
    rows.createOrReplaceTempView(view)
    sets = ", ".join(f"t.{name} = s.{name}" for name in NAMES)
    session.sql(
        f"MERGE INTO delta.`{target}` t USING {view} s ON t.id = s.k "
        "WHEN MATCHED AND s.gone THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND NOT s.gone THEN INSERT ({', '.join(NAMES)}) "
        f"VALUES ({', '.join('s.' + name for name in NAMES)})"
    )
    session.catalog.dropTempView(view)


def merge_all(session: SparkSession, rows: Path, targets: Sequence[Path], *, threads: int) -> None:
    """One MERGE a target, of the folded rows stored for it in the folder `rows`."""

    def run(target: Path) -> None:
        merge(session.read.parquet(str(rows / f"name={target.name}")), target)

    with ThreadPoolExecutor(threads) as pool:
        begun = [pool.submit(inheritable_thread_target(session)(run), each) for each in targets]
        for task in begun:
            task.result()
