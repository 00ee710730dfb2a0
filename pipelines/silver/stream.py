"""Bronze to silver: every new message is decoded once, in one append for each micro-batch, exactly
once.

Each source has a stream over `bronze.messages`, whose checkpoint is the progress of that source
alone. One `mapInArrow` decodes a micro-batch, which is appended with the next number in `batch`. If
a crash comes between an append and the stream's own note of it, the batch is offered again, and
skipped because the table's log has its append.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, is_remote
from pyspark.sql import functions as F

from ingest.config.load import Config
from ingest.config.sources import Source
from ingest.decode.batches import decode
from ingest.decode.constant_column import with_constant
from ingest.decode.silver_rows import SILVER_COLUMNS
from ingest.decode.spec import decode_spec
from ingest.sql.delivery import MESSAGE
from pipelines.platform.checkpoints import (
    TableCheckpoint,
    check_same_moment,
    damaged,
    damaged_note,
    note_moment,
    remove,
    stream_given,
    unfinished_batch,
    write_whole,
)
from pipelines.platform.leases import lease
from pipelines.platform.session import NO_DICTIONARIES, called_back, having, ordered_by
from pipelines.platform.warehouse import Warehouse, create_bronze, create_silver
from pipelines.silver import declarations
from pipelines.silver.arrivals import placed
from pipelines.silver.chunks import chunks_wait, expect_chunks, join_chunks
from pipelines.silver.counts import Counts, count, counts_in, observed
from pipelines.silver.split_updates import join_left_apart, join_split_updates
from pipelines.targets.progress import load_progress, source_cursors
from pipelines.telemetry.activity import ChangeTimes

INPUT = ("source", "topic", "partition", "offset", "timestamp", "key", "value", "headers", "epoch")
_BYTES_A_BATCH = "1g"
_FEW_TABLES = 4
_TABLES_A_FILE = 32
_MOST_FILES = 32
_NAMES = "db", "schema", "table"
"""The columns by which gold finds its rows in silver's files."""
_CLUSTERED = NO_DICTIONARIES | ordered_by(*_NAMES)
_SAMPLE = 2_000
_UP_TO = "decoded"
_TABLES = "tables"
_WRITER = "writer"
_BEGUN_ANEW = "begun_anew"
_LOG_IS_SHORTER = (
    "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
    "DELTA_MISSING_FILES_UNEXPECTED_VERSION",
)
"""What Delta says if a stream should go on from a commit that its table's log no longer has."""


class Silver(NamedTuple):
    """What one run over one source wrote: rows of all kinds, the rejects among them, how many
    messages they are from, the changes among them, and when these happened and arrived.
    `begun_anew`: everything that bronze has of the source was searched for what silver lacks."""

    source: str
    rows: int
    rejects: int
    messages: int = 0
    changes: int = 0
    times: tuple[ChangeTimes, ...] = ()
    begun_anew: bool = False


class Stopped(Exception):
    """Ends a stream between two micro-batches."""


def _never() -> bool:
    return False


def decode_source(
    warehouse: Warehouse, source: Source, *, stop: Callable[[], bool] = _never
) -> Silver:
    """Decode what bronze has of `source` and silver does not; returns when nothing is left.

    `stop` is asked before each micro-batch. Raises PlatformError if tables cannot be written, and
    SourceError if silver was decoded by other declarations than today's.
    """
    create_bronze(warehouse)
    checkpoint = warehouse.checkpoint("silver", source.name)
    with lease(warehouse, "silver"):
        create_silver(warehouse)
        declarations.check(warehouse, source)
        checkpoints = _checkpoints(checkpoint, source.name)
        for each in checkpoints:
            check_same_moment(warehouse, each)
        sharded = source.shards
        bronze = warehouse.stamp("bronze", "messages")
        if _decoded_up_to(checkpoint) == bronze and not (sharded and chunks_wait(checkpoint)):
            return Silver(source.name, 0, 0)
        before = last_batch(warehouse)
        if sharded:
            expect_chunks(checkpoint, before)
        written = _stream(warehouse, source, checkpoint, last=before, stop=stop)
        if is_remote():
            rows = warehouse.read("silver", "cdc").where(F.col("batch") > before)
            written = [count(rows.where(F.col("source") == source.name))]
        begun_anew = (Path(checkpoint) / _BEGUN_ANEW).exists()
        if begun_anew and source.splits_updates and not stop():
            # The batch that a killed run had not joined is offered no more.
            pairs = join_left_apart(warehouse, source, to=last_batch(warehouse) + 1)
            written.append(Counts(rows=pairs))
        if sharded and not stop():
            came = any(counts.shards for counts in written)
            span = (before, last_batch(warehouse))
            written += [
                Counts(rows=join_chunks(warehouse, source, checkpoint, span=span, came=came))
            ]
        if not stop():
            write_whole(Path(checkpoint) / _UP_TO, bronze.encode())
            (Path(checkpoint) / _BEGUN_ANEW).unlink(missing_ok=True)
        for each in checkpoints:
            note_moment(warehouse, each, news=True)
    tables = max((counts.tables for counts in written), default=0)
    if tables:
        write_whole(Path(checkpoint) / _TABLES, str(tables).encode())
    return Silver(
        source.name,
        sum(counts.rows for counts in written),
        sum(counts.rejects for counts in written),
        sum(counts.messages for counts in written),
        sum(counts.changes for counts in written),
        tuple(
            ChangeTimes(c.changes, c.event_times or (), c.arrivals or ())
            for c in written
            if c.changes
        ),
        begun_anew,
    )


def _stream(
    warehouse: Warehouse, source: Source, checkpoint: str, *, last: int, stop: Callable[[], bool]
) -> list[Counts]:
    """Run the stream to its end, see `_followed`. It begins anew if bronze's log has lost the
    commit from which it would go on, because the source was not decoded for longer than Delta keeps
    commits."""
    try:
        return _followed(warehouse, source, checkpoint, last=last, stop=stop)
    except Exception as error:
        if not any(name in str(error) for name in _LOG_IS_SHORTER):
            raise
    _begin_anew(warehouse, checkpoint)
    return _followed(warehouse, source, checkpoint, last=last, stop=stop)


def _begin_anew(warehouse: Warehouse, checkpoint: str) -> None:
    """Let the stream begin with everything that bronze has, leaving out what silver has, until it
    reaches the end. A new stream numbers its appends from 0, so it gets a new name first: under the
    old name these numbers are taken."""
    write_whole(Path(checkpoint) / _BEGUN_ANEW, b"")
    write_whole(Path(checkpoint) / _WRITER, str(uuid.uuid4()).encode())
    remove(warehouse, f"{checkpoint}/stream")


def _followed(
    warehouse: Warehouse, source: Source, checkpoint: str, *, last: int, stop: Callable[[], bool]
) -> list[Counts]:
    """Follow bronze to its end; gives what was appended, unless Spark Connect ran it elsewhere."""
    batches = _Batches(
        config=replace(warehouse.config, sources={}, tables={}, mask_secret=None),
        source=source,
        checkpoint=checkpoint,
        writer=_writer(checkpoint, source.name),
        tables=_tables(warehouse, source, checkpoint),
        unfinished=unfinished_batch(Path(checkpoint, "stream")),
        begun_anew=(Path(checkpoint) / _BEGUN_ANEW).exists(),
        last=last,
        # Spark Connect appends in another process, which does not hear a request to stop.
        stopped=stop if warehouse.local and not is_remote() else _never,
    )
    stream = (
        _bronze(warehouse)
        .where(F.col("source") == source.name)
        .writeStream.option("checkpointLocation", f"{checkpoint}/stream")
        .trigger(availableNow=True)
    )
    try:
        with called_back(batches.append) as append:
            stream.foreachBatch(append).start().awaitTermination()
    except Exception as error:
        damage = damaged(source.name, f"{checkpoint}/stream", remove=checkpoint)
        if damage is not None:
            raise damage from error
        if not batches.stopped():
            raise
    return batches.written


@dataclass(kw_only=True)
class _Batches:
    """Appends the micro-batches of one stream. If Spark runs it elsewhere, this object goes there
    as a whole, so it holds no session, and no passwords of other sources.

    `writer`: the name of this checkpoint's appends. `tables`: about how many tables the source has.
    `unfinished`: the micro-batch that a killed run began. `begun_anew`: the stream reads messages
    again that silver has. `last`: the number of the last append.
    """

    config: Config
    source: Source
    checkpoint: str
    writer: str
    tables: int
    unfinished: int | None
    begun_anew: bool
    last: int
    stopped: Callable[[], bool]
    written: list[Counts] = field(default_factory=list)

    @property
    def clusters(self) -> bool:
        """Whether the source has so many tables that the rows of each are put side by side."""
        return self.tables > _FEW_TABLES

    def append(self, batch: DataFrame, number: int) -> None:
        """Decode a micro-batch and append it, unless a killed run did so; then join split
        updates."""
        if self.stopped():
            raise Stopped
        warehouse = Warehouse(self.config, batch.sparkSession)
        once = (self.writer, number)
        appended = (
            warehouse.append_note("silver", "cdc", once) if number == self.unfinished else None
        )
        if appended is not None:
            # A killed run got that far; other sources may have appended since.
            counts = _counts(warehouse, appended)
        else:
            appended = self.last = self.last + 1
            rows = self._decoded(warehouse, batch, appended)
            settings = _CLUSTERED if self.clusters else NO_DICTIONARIES
            with having(warehouse.session, settings):
                counts = _append(warehouse, rows, once=once, number=appended)
        self.written.append(counts)
        if self.source.splits_updates:
            self._join_pairs(warehouse, appended, counts, once=(f"{self.writer}/pairs", number))

    def _join_pairs(
        self, warehouse: Warehouse, appended: int, counts: Counts, *, once: tuple[str, int]
    ) -> None:
        """Join the messages of split updates, unless a killed run did so."""
        if once[1] == self.unfinished and warehouse.append_note("silver", "cdc", once) is not None:
            return
        pairs = join_split_updates(
            warehouse, self.source, appended, counts=counts, once=once, to=self.last + 1
        )
        self.last += bool(pairs)
        self.written.append(Counts(rows=pairs))

    def _decoded(self, warehouse: Warehouse, batch: DataFrame, number: int) -> DataFrame:
        """The rows of a micro-batch, ready for the append with this number."""
        if self.begun_anew:
            silver = warehouse.read("silver", "cdc").where(F.col("source") == self.source.name)
            batch = batch.join(silver.select(*MESSAGE), list(MESSAGE), "left_anti")
        messages = placed(warehouse, self.source, batch.select(*INPUT), checkpoint=self.checkpoint)
        numbered = with_constant(_decode(self.source), "batch", pa.scalar(number, pa.int64()))
        rows = messages.mapInArrow(numbered, f"{SILVER_COLUMNS}, batch bigint")
        return _clustered(rows, self.tables) if self.clusters else rows


def _decode(source: Source) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that makes rows of the source's messages."""
    return decode({source.name: decode_spec(source)})


def _bronze(warehouse: Warehouse) -> DataFrame:
    """What is appended to bronze, as a stream."""
    bronze = (
        warehouse.session.readStream.format("delta")
        .option("maxBytesPerTrigger", _BYTES_A_BATCH)
        # Retention deletes rows of bronze that were decoded long ago; the stream must not take that
        # for news.
        .option("skipChangeCommits", "true")
    )
    if warehouse.local:
        return bronze.load(str(warehouse.folder("bronze", "messages")))
    return bronze.table(warehouse.name("bronze", "messages"))


def _append(warehouse: Warehouse, rows: DataFrame, *, once: tuple[str, int], number: int) -> Counts:
    """Append a batch; gives the counts of what it holds."""
    if is_remote():
        warehouse.append(rows, "silver", "cdc", once=once, note=number)
        return _counts(warehouse, number)
    rows, observation = observed(rows)
    warehouse.append(rows, "silver", "cdc", once=once, note=number)
    return counts_in(observation)


def _counts(warehouse: Warehouse, batch: int) -> Counts:
    return count(warehouse.read("silver", "cdc").where(F.col("batch") == batch))


def _clustered(rows: DataFrame, tables: int) -> DataFrame:
    """The rows with those of one table side by side, so that gold skips the files of other
    tables."""
    files = min(max(2, tables // _TABLES_A_FILE), _MOST_FILES)
    return rows.repartition(files, *_NAMES).sortWithinPartitions(*_NAMES)


def _tables(warehouse: Warehouse, source: Source, checkpoint: str) -> int:
    """About how many tables the source has: as many as in the last run, or at first in a sample."""
    with suppress(FileNotFoundError, ValueError):
        return int((Path(checkpoint) / _TABLES).read_text())
    bronze = warehouse.read("bronze", "messages").where(F.col("source") == source.name)
    sample = bronze.select(*INPUT).limit(_SAMPLE)
    return (
        sample.mapInArrow(_decode(source), SILVER_COLUMNS)
        .select("db", "schema", "table")
        .distinct()
        .count()
    )


def _checkpoints(folder: str, source: str) -> list[TableCheckpoint]:
    """The checkpoint, as one of bronze, which it follows, and as one of silver."""

    def given() -> dict[str, int]:
        begun = stream_given(f"{folder}/stream").values()
        return {_writer(folder, source): number for number in begun}

    return [
        TableCheckpoint(folder, source, "bronze", "messages"),
        TableCheckpoint(folder, source, "silver", "cdc", given),
    ]


def _decoded_up_to(checkpoint: str) -> str | None:
    """Bronze's newest commit when the last finished stream began.

    While that is still the newest, there is nothing to decode, and starting a stream costs more
    than a second. None if a stream has begun since and did not finish.
    """
    noted = Path(checkpoint) / _UP_TO
    if unfinished_batch(Path(checkpoint, "stream")) is not None or not noted.exists():
        return None
    # A damaged note is not that of a commit.
    return noted.read_text(errors="replace")


def _writer(checkpoint: str, source: str) -> str:
    """The name under which this checkpoint's appends stand in the table's log."""
    file = Path(checkpoint) / _WRITER
    if not file.exists():
        write_whole(file, str(uuid.uuid4()).encode())
    try:
        return f"silver/{uuid.UUID(file.read_text())}"
    except (OSError, ValueError) as error:
        then = "a batch that was appended and not noted comes once more, and copies count once"
        raise damaged_note(source, file, error, then=then) from error


def last_batch(warehouse: Warehouse) -> int:
    """The number of the newest append, by its own mark, or the highest number there is; but the
    highest that gold has come to where that is more, as after a RESTORE, or where an earlier copy
    of silver was put back: gold would take lower numbers for applied."""
    noted = warehouse.last_note("silver", "cdc")
    if noted is not None:
        return max(noted, _reached_by_gold(warehouse))
    tables = [("silver", "cdc"), ("gold", "_progress")]
    found = [
        warehouse.read(*table).agg(F.max("batch")).first()
        for table in tables
        if warehouse.exists(*table)
    ]
    return max((int(row[0]) for row in found if row is not None and row[0]), default=0)


def _reached_by_gold(warehouse: Warehouse) -> int:
    """The highest batch of which gold has applied anything."""
    progress = load_progress(warehouse)
    reached = [each.last_batch for each in progress.values()]
    reached += [cursor.whole for cursor in source_cursors(progress).values()]
    return max(reached, default=0)
