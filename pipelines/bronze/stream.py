"""Messages as rows of bronze, and a stream of them: one query of Structured Streaming, and its
checkpoint."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.config.sources import Source
from ingest.errors import SourceError
from pipelines.bronze.transport import Stop
from pipelines.platform.warehouse import BRONZE, Warehouse

POLL_SECONDS = 1


def bronze_rows(messages: DataFrame, source: Source) -> DataFrame:
    """Messages, by bronze's columns from `topic` to `headers`, as rows of bronze."""
    rows = messages.withColumns(
        {
            "source": F.lit(source.name),
            "epoch": F.lit(source.epoch).cast("bigint"),
            "ingested_at": F.current_timestamp(),
        }
    )
    return rows.select([name for name, _ in BRONZE])


def begun(checkpoint: str) -> bool:
    """Whether a query has planned a batch, even if its note of that is damaged."""
    return any(Path(checkpoint, "offsets").glob("[0-9]*"))


def check_begins(warehouse: Warehouse, source: Source, topics: Collection[str]) -> None:
    """Raises SourceError if a stream that is to begin at the end of `topics` (none: of any) is not
    the first one over them: what came since the earlier one would be skipped."""
    found = warehouse.read("bronze", "messages").where(F.col("source") == source.name)
    if topics:
        found = found.where(F.col("topic").isin(*topics))
    known = found.select("topic").first()
    if known is not None:
        offsets = "" if source.transport == "rocketmq" else " or to offsets"
        raise SourceError(
            f"source {source.name}: expected the checkpoint of what bronze has of {known[0]}, got"
            f" none, and `{source.transport}.starting_offsets: latest` would pass over what came"
            f" since; set it to earliest{offsets} and run again: what bronze has comes once more,"
            " as copies that count once, and by earliest what was passed over before"
        )


def append_stream(
    warehouse: Warehouse, source: Source, messages: DataFrame, *, checkpoint: str, stop: Stop
) -> int:
    """Appends what the stream `messages` has now, in its micro-batches; gives how many messages.

    `messages` is a streaming DataFrame with bronze's columns from `topic` to `headers`. On `stop`
    the present batch is given up: the next run does it again, and nothing is doubled. Raises what
    Spark raises if the query fails.
    """
    writer = (
        bronze_rows(messages, source)
        .writeStream.format("delta")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
    )
    if warehouse.local:
        query = writer.start(str(warehouse.folder("bronze", "messages")))
    else:
        query = writer.toTable(warehouse.name("bronze", "messages"))
    counts: dict[int, int] = {}
    try:
        while not query.awaitTermination(POLL_SECONDS):
            _count(query, counts)
            if stop():
                break
    finally:
        # A query would go on when nobody waits for it any more; an interrupted batch is repeated.
        query.stop()
    _count(query, counts)
    return sum(counts.values())


def _count(query: Any, counts: dict[int, int]) -> None:
    """Notes the messages of each batch; Spark remembers the last hundred batches."""
    for progress in query.recentProgress:
        # With Spark Connect the sum over the sources is None.
        counts[progress["batchId"]] = sum(part["numInputRows"] for part in progress["sources"])
