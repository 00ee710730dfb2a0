"""Bronze to silver: every new message decoded once, one append a micro-batch, exactly once.

A stream per source over `bronze.messages`; its checkpoint is the source's progress, so sources do
not touch each other's. Each micro-batch is decoded by one `mapInArrow` and appended with the next
number in `batch`. A batch that a crash left between its append and the stream's note of it is
offered again: where the table's log has that append, it is skipped.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, is_remote
from pyspark.sql import functions as F

from ingest.decode import decode
from ingest.events import SILVER
from ingest.readings import reading
from ingest.sources import Source
from pipelines.checkpoints import damaged
from pipelines.halves import join_halves
from pipelines.leases import lease
from pipelines.shards import expect_shards, join_shards
from pipelines.silver_counts import Counts, count, observed, seen
from pipelines.tables import Warehouse, create_bronze, create_silver

DECODED = ", ".join(f"`{column.name}` {column.type}" for column in SILVER if column.name != "batch")
INPUT = ("source", "topic", "partition", "offset", "timestamp", "key", "value", "headers", "epoch")
_BYTES_A_BATCH = "1g"
_FEW_TABLES = 4
_MOST_FILES = 32
_SAMPLE = 2_000


class Silver(NamedTuple):
    """What one run over one source wrote: rows of all kinds, rejects among them."""

    source: str
    rows: int
    rejects: int


class Stopped(Exception):
    """Ends a stream between two micro-batches."""


def _never() -> bool:
    return False


def decode_source(
    warehouse: Warehouse, source: Source, *, stop: Callable[[], bool] = _never
) -> Silver:
    """Decode what bronze holds of `source` and silver does not; returns when nothing is left.

    `stop` is asked before each micro-batch. Raises PlatformError where tables cannot be written.
    """
    create_bronze(warehouse)
    create_silver(warehouse)
    checkpoint = warehouse.checkpoint("silver", source.name)
    with lease(warehouse.checkpoint(), "silver"):
        before = last_batch(warehouse)
        sharded = source.format in ("auto", "ob_avro")
        if sharded:
            expect_shards(checkpoint, before)
        written = _stream(warehouse, source, checkpoint, before, stop)
        if is_remote():
            rows = warehouse.read("silver", "cdc").where(F.col("batch") > before)
            written = [count(rows.where(F.col("source") == source.name))]
        if sharded and not stop():
            came = any(counts.shards for counts in written)
            span = (before, last_batch(warehouse))
            written += [Counts(rows=join_shards(warehouse, source, checkpoint, span, came=came))]
    tables = max((counts.tables for counts in written), default=0)
    if tables:
        (Path(checkpoint) / "tables").write_text(str(tables))
    return Silver(
        source.name,
        sum(counts.rows for counts in written),
        sum(counts.rejects for counts in written),
    )


def _stream(
    warehouse: Warehouse, source: Source, checkpoint: str, last: int, stop: Callable[[], bool]
) -> list[Counts]:
    """Run the stream to its end; what was appended, unless Spark Connect ran it elsewhere."""
    session = warehouse.session
    writer = _writer(checkpoint)
    run = decode({source.name: reading(source)})
    settings = warehouse.settings
    halves = source.format in ("auto", "dataworks")
    tables = _tables(warehouse, source, checkpoint)
    local = warehouse.local
    # Spark Connect runs `append` in another process, where nobody would hear a request to stop.
    stopped = stop if local and not is_remote() else _never
    unfinished = _unfinished(checkpoint)
    numbers = [last]
    written: list[Counts] = []

    def append(batch: DataFrame, number: int) -> None:
        if stopped():
            raise Stopped
        place = Warehouse(settings, batch.sparkSession)
        numbers[0] += 1
        rows = batch.select(*INPUT).mapInArrow(run, DECODED)
        rows = rows.withColumn("batch", F.lit(numbers[0]).cast("bigint"))
        if tables > _FEW_TABLES:
            rows = _clustered(rows, tables)
        if number == unfinished and place.appended("silver", "cdc", (writer, number)):
            numbers[0] -= 1
            counts = _counts(place, numbers[0])
        elif is_remote():
            place.append(rows, "silver", "cdc", once=(writer, number), note=numbers[0])
            counts = _counts(place, numbers[0])
        else:
            rows, observation = observed(rows)
            place.append(rows, "silver", "cdc", once=(writer, number), note=numbers[0])
            counts = seen(observation)
        written.append(counts)
        if halves:
            once = (f"{writer}/pairs", number)
            pairs = join_halves(place, source.name, numbers[0], counts, once=once)
            numbers[0] += bool(pairs)
            written.append(Counts(rows=pairs))

    bronze = (
        session.readStream.format("delta")
        .option("maxBytesPerTrigger", _BYTES_A_BATCH)
        # Retention deletes rows of bronze that were decoded long ago; they are not to come again.
        .option("skipChangeCommits", "true")
    )
    frame = (
        bronze.load(str(warehouse.folder("bronze", "messages")))
        if local
        else bronze.table(warehouse.name("bronze", "messages"))
    )
    stream = (
        frame.where(F.col("source") == source.name)
        .writeStream.foreachBatch(append)
        .option("checkpointLocation", f"{checkpoint}/stream")
        .trigger(availableNow=True)
    )
    try:
        stream.start().awaitTermination()
    except Exception as error:
        damage = damaged(source.name, f"{checkpoint}/stream", remove=checkpoint)
        if damage is not None:
            raise damage from error
        if not stopped():
            raise
    return written


def _counts(warehouse: Warehouse, batch: int) -> Counts:
    return count(warehouse.read("silver", "cdc").where(F.col("batch") == batch))


def _clustered(rows: DataFrame, tables: int) -> DataFrame:
    """Rows of one table side by side, so that gold's read of one table skips the others' files."""
    files = min(max(2, tables // 8), _MOST_FILES)
    return rows.repartition(files, "db", "schema", "table").sortWithinPartitions(
        "db", "schema", "table"
    )


def _tables(warehouse: Warehouse, source: Source, checkpoint: str) -> int:
    """About how many tables the source has: those of the last run, at first those of a sample."""
    noted = Path(checkpoint) / "tables"
    if noted.exists():
        return int(noted.read_text())
    bronze = warehouse.read("bronze", "messages").where(F.col("source") == source.name)
    sample = bronze.select(*INPUT).limit(_SAMPLE)
    run = decode({source.name: reading(source)})
    return sample.mapInArrow(run, DECODED).select("db", "schema", "table").distinct().count()


def _unfinished(checkpoint: str) -> int | None:
    """The micro-batch that the stream began and did not note as done, if there is one."""

    def newest(log: str) -> int:
        folder = Path(checkpoint) / "stream" / log
        numbers = [int(file.name) for file in folder.glob("*") if file.name.isdigit()]
        return max(numbers, default=-1)

    return newest("offsets") if newest("offsets") > newest("commits") else None


def _writer(checkpoint: str) -> str:
    """The name under which this checkpoint's appends stand in the table's log."""
    file = Path(checkpoint) / "writer"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".draft")
        draft.write_text(str(uuid.uuid4()))
        draft.rename(file)
    return f"silver/{file.read_text()}"


def last_batch(warehouse: Warehouse) -> int:
    """The number of the newest append, as its own mark has it, or the highest there is."""
    noted = warehouse.last_note("silver", "cdc")
    if noted is not None:
        return noted
    found = warehouse.read("silver", "cdc").agg(F.max("batch")).first()
    return int(found[0]) if found is not None and found[0] is not None else 0
