"""Large messages that came in chunks are put together in silver (semantics.md, 20).

OceanBase calls the chunks shards, and so does everything that people read. A chunk is a `fragment`
row. After the stream, once a run, the chunks that are not part of a record yet are walked
(`ingest.decode.chunks`), and the results are appended: the changes of complete records, and a
reject for each record that cannot be completed. A result stands at the coordinates of its last
chunk, by which the next walk knows it, so a walk that a crash left unnoted gives nothing twice. A
file beside the checkpoint notes the batch below which no chunk waits and, while no run is under
way, whether any waits at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.codes import Code
from ingest.config.sources import Source
from ingest.decode.chunks import COLUMNS, FORMAT, SPAN, outcomes, spans, waiting_from
from ingest.decode.silver_rows import SILVER_COLUMNS
from ingest.decode.spec import decode_spec
from ingest.sql.delivery import MESSAGE
from pipelines.platform.checkpoints import damaged_note, write_whole
from pipelines.platform.warehouse import Warehouse

_PARTITION = ("epoch", "topic", "partition")


def expect_chunks(checkpoint: str, before: int) -> None:
    """Note, before a run's first append, that chunks may come after batch `before`."""
    note = _Note(checkpoint)
    if note.clear:
        note.write(before + 1)


def chunks_wait(checkpoint: str) -> bool:
    """Whether chunks may wait for others of their message, as the last walk left it."""
    return not _Note(checkpoint).clear


def walk_from(checkpoint: str, batch: int, *, anew: bool = False) -> None:
    """Let the next walk begin with `batch` at the latest; `anew`: with exactly that one, which has
    everything."""
    note = _Note(checkpoint)
    note.write(batch if anew or note.clear else min(note.first, batch))


def join_chunks(
    warehouse: Warehouse,
    source: Source,
    checkpoint: str,
    *,
    span: tuple[int, int],
    came: bool,
    numbered: Callable[[DataFrame], DataFrame] | None = None,
) -> int:
    """Append the results of the chunks as the next batch; gives how many rows.

    `span`: the last batch before this run and the last one now; `came`: there are chunks among
    them. `numbered` gives the rows other batches than the next one, none of them above the last
    one.
    """
    note = _Note(checkpoint)
    before, last = span
    first = note.first
    if first > before and not came:
        note.write(last + 1, clear=True)
    if first > last or (first > before and not came):
        return 0
    silver = warehouse.read("silver", "cdc").where(F.col("source") == source.name)
    recent = silver.where((F.col("batch") >= first) & (F.col("batch") <= last))
    chunks = recent.where(
        (F.col("kind") == "fragment") & F.array_contains("warnings", Code.SHARD.value)
    )
    extent = chunks.agg(F.min("s1"), F.max("s1")).first()
    if extent is None or extent[0] is None:
        note.write(last + 1, clear=True)
        return 0
    earlier = silver.where(
        (F.col("batch") < first)
        & F.col("s1").between(extent[0], extent[1])
        & (F.col("kind") == "fragment")
    )
    rows = _walked(recent, chunks, earlier)
    now, read = time.time_ns() // 1000, decode_spec(source)
    ended = rows.mapInArrow(outcomes(read, now=now), SILVER_COLUMNS)
    known = rows.mapInArrow(spans(read, now=now), SPAN).distinct().collect()
    made = ended.count()
    if made:
        if numbered is None:
            top, ended = last + 1, ended.withColumn("batch", F.lit(last + 1).cast("bigint"))
        else:
            top, ended = last, numbered(ended).select(*silver.columns)
        once = ("silver/shards", warehouse.next_version("silver", "cdc"))
        warehouse.append(ended, "silver", "cdc", once=once, note=top)
    waiting = waiting_from([(row[0], row[1], row[2]) for row in known], last + 1)
    note.write(waiting, clear=waiting > last)
    return made


def _walked(recent: DataFrame, chunks: DataFrame, earlier: DataFrame) -> DataFrame:
    """The rows of a walk, in its order: chunks, and the commits of their transactions."""
    settled = recent.where(
        (F.col("format") == FORMAT) & F.col("kind").isin("change", "reject")
    ).select(*MESSAGE, F.lit(True).alias("settled"))
    seen = earlier.select("value_hash", F.lit(True).alias("seen"))
    pieces = (
        chunks.select(*COLUMNS, "value_hash")
        .join(settled.distinct(), [*MESSAGE], "left")
        .join(seen.distinct(), "value_hash", "left")
        .drop("value_hash")
    )
    commits = (
        recent.where((F.col("kind") == "control") & F.col("op").isin("commit", "rollback"))
        .select(*COLUMNS)
        .join(
            chunks.select(*_PARTITION, "tx_id").distinct(),
            [*_PARTITION, "tx_id"],
            "semi",
        )
        .select(*COLUMNS, F.lit(False).alias("settled"), F.lit(False).alias("seen"))
    )
    newest = (
        recent.join(chunks.select(*_PARTITION).distinct(), [*_PARTITION], "semi")
        .groupBy(*_PARTITION)
        .agg(F.max("event_time").alias("newest"))
    )
    return (
        pieces.unionByName(commits)
        .join(newest, [*_PARTITION], "left")
        .withColumns({name: F.coalesce(name, F.lit(False)) for name in ("settled", "seen")})
        .repartition(*_PARTITION)
        .sortWithinPartitions(*MESSAGE)
    )


class _Note:
    """With which batch the next walk begins, and whether it is certain that nothing waits."""

    def __init__(self, checkpoint: str) -> None:
        self._file = Path(checkpoint) / "shards"
        try:
            noted = self._file.read_text() if self._file.exists() else "0"
            number, _, word = noted.partition(" ")
            self.first, self.clear = int(number), word == "clear"
        except (OSError, ValueError) as error:
            source, then = Path(checkpoint).name, "shards that wait are looked for in all of silver"
            raise damaged_note(source, self._file, error, then=then) from error

    def write(self, first: int, *, clear: bool = False) -> None:
        write_whole(self._file, (f"{first} clear" if clear else str(first)).encode())
