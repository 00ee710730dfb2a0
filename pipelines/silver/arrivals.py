"""Where arrival puts the messages of a partition (semantics.md, 74).

By arrival the order within a partition is its offsets. The timestamps of records only place
partitions among each other; producers set them, and clocks step back. So they are made monotone
within each partition: the place of a message is the highest timestamp up to it. The place is fixed
when the message is decoded for the first time and stands in silver as `arrived`, where a later
decoding finds it.

From one micro-batch to the next, one row is carried for each partition: its highest offset and the
place of that message. If no timestamp of a batch steps back and no offset comes late, there is
nothing to do, which the coordinates alone show. Otherwise the places of those messages are
computed, from the coordinates alone, and joined to the batch. A message that comes after one with a
higher offset is put between the places of its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from ingest.config.sources import Source
from ingest.decode.spec import placed_by_timestamp
from ingest.sql.quoting import sql_text
from ingest.sql.silver import arrivals, last_arrivals
from pipelines.platform.checkpoints import read_whole, write_whole
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import Warehouse

BROADCAST_ROWS = 1_000_000
"""Up to this many places are sent to every task; if there are more, Spark decides."""
_PARTITION = ("epoch", "topic", "partition")
_NOTE = "arrivals.json"
_KEY = "epoch bigint, topic string, `partition` int"
_COORDINATES = f"{_KEY}, offset bigint, ms bigint"

Partition = tuple[int, str, int]
"""Epoch, topic, partition."""


class Reached(msgspec.Struct, array_like=True, frozen=True):
    """How far a partition was decoded: its highest offset, and the place of that message in ms."""

    offset: int
    place: int


class _Met(NamedTuple):
    """What a batch has of one partition: offsets from `first` to `last`; `start`, the timestamp at
    the first, and `highest`, the highest one; `back`: how many timestamps lie below an earlier one;
    `messages`: how many."""

    epoch: int
    topic: str
    partition: int
    first: int
    last: int
    start: int
    highest: int
    back: int
    messages: int

    @property
    def key(self) -> Partition:
        return self.epoch, self.topic, self.partition

    def in_order(self, reached: Reached | None) -> bool:
        """Whether every timestamp is its message's place."""
        if self.back:
            return False
        return reached is None or (self.first > reached.offset and self.start >= reached.place)

    def late(self, reached: Reached | None) -> bool:
        """Whether an offset comes after a higher one of an earlier batch."""
        return reached is not None and self.first <= reached.offset

    def after(self, reached: Reached | None) -> Reached:
        """How far the partition is decoded with this batch."""
        if reached is None:
            return Reached(self.last, self.highest)
        if self.last <= reached.offset:
            return reached
        return Reached(self.last, max(self.highest, reached.place))


def placed(warehouse: Warehouse, source: Source, batch: DataFrame, *, checkpoint: str) -> DataFrame:
    """A micro-batch with `place` (ms): the position of each message by arrival, NULL if that is its
    timestamp.

    What is carried is noted in `checkpoint` before the batch is appended; if the batch comes again,
    its messages get places between those that they had.
    """
    if not placed_by_timestamp(source):
        return batch
    carried = _carried(warehouse, source, checkpoint)
    narrow = batch.select(*_PARTITION, "offset", _milliseconds().alias("ms"))
    met = _met(narrow)
    odd = [span for span in met if not span.in_order(carried.get(span.key))]
    if odd:
        places = _places(warehouse, source, narrow, odd=odd, carried=carried)
        if sum(span.messages for span in odd) <= BROADCAST_ROWS:
            places = F.broadcast(places)
        batch = batch.join(places, [*_PARTITION, "offset"], "left")
    if met:
        now = {span.key: span.after(carried.get(span.key)) for span in met}
        _note(checkpoint, {**carried, **now})
    return batch


def placed_again(warehouse: Warehouse, source: Source, messages: DataFrame) -> DataFrame:
    """Messages that were decoded before with their `place` as silver has it, and never below that
    of an earlier offset (they may have been taken for messages of another format then)."""
    if not placed_by_timestamp(source):
        return messages
    partitions = messages.select(*_PARTITION).distinct()
    silver = warehouse.read("silver", "cdc").where(F.col("source") == source.name)
    decoded = (
        silver.select(*_PARTITION, "offset", F.unix_millis("arrived").alias("decoded"))
        .join(F.broadcast(partitions), list(_PARTITION), "left_semi")
        .withColumn("place", F.max(F.greatest("decoded", F.lit(0))).over(_by_offset()))
        .select(*_PARTITION, "offset", "place")
        .distinct()
    )
    found = messages.join(decoded, [*_PARTITION, "offset"], "left")
    place = F.when(F.col("place") != _milliseconds(), F.col("place"))
    return found.withColumn("place", place)


def forget_places(checkpoint: str) -> None:
    """Let the next micro-batch continue from what silver has, which is decoded anew."""
    Path(checkpoint, _NOTE).unlink(missing_ok=True)


def _by_offset() -> WindowSpec:
    return Window.partitionBy(*_PARTITION).orderBy("offset")


def _milliseconds() -> Column:
    return F.greatest(F.coalesce(F.unix_millis("timestamp"), F.lit(0)), F.lit(0))


def _met(narrow: DataFrame) -> list[_Met]:
    """The batch's partitions; as many rows as there are of them."""
    before = F.max("ms").over(_by_offset().rowsBetween(Window.unboundedPreceding, -1))
    frame = (
        narrow.withColumn("before", before)
        .groupBy(*_PARTITION)
        .agg(
            F.min("offset"),
            F.max("offset"),
            F.min_by("ms", "offset"),
            F.max("ms"),
            F.count_if(F.col("ms") < F.col("before")),
            F.count(F.lit(1)),
        )
    )
    return [_Met(*row) for row in rows(frame)]


def _places(
    warehouse: Warehouse,
    source: Source,
    narrow: DataFrame,
    *,
    odd: Iterable[_Met],
    carried: dict[Partition, Reached],
) -> DataFrame:
    """Those messages of these partitions whose place is not their timestamp."""
    session = narrow.sparkSession
    reached = [
        (*span.key, carried[span.key].offset, carried[span.key].place)
        for span in odd
        if span.key in carried
    ]
    known = session.createDataFrame(reached, _COORDINATES)
    late = [span.key for span in odd if span.late(carried.get(span.key))]
    if late:
        known = known.unionByName(_in_silver(warehouse, source, late))
    wanted = session.createDataFrame([span.key for span in odd], _KEY)
    asked = narrow.join(F.broadcast(wanted), list(_PARTITION), "left_semi")
    every = asked.select(*_PARTITION, "offset", "ms", F.lit(False).alias("known")).unionByName(
        known.withColumn("known", F.lit(True))
    )
    from_above = Window.partitionBy(*_PARTITION).orderBy(F.desc("offset"))
    above = F.min(F.when(F.col("known"), F.col("ms"))).over(from_above)
    place = F.max(F.least("ms", "above")).over(_by_offset())
    return (
        every.withColumn("above", above)
        .withColumn("place", place)
        .where("NOT known AND place <> ms")
        .select(*_PARTITION, "offset", "place")
        .distinct()
    )


def _in_silver(warehouse: Warehouse, source: Source, late: Iterable[Partition]) -> DataFrame:
    """The places that silver has of these partitions' messages."""
    where = " OR ".join(
        f"(epoch = {epoch} AND topic = {sql_text(topic)} AND `partition` = {partition})"
        for epoch, topic, partition in late
    )
    silver = warehouse.name("silver", "cdc")
    return warehouse.session.sql(arrivals(silver, source=source.name, where=where))


def _carried(warehouse: Warehouse, source: Source, checkpoint: str) -> dict[Partition, Reached]:
    """How far each partition was decoded; if that note is lost, as silver has it."""
    file, then = Path(checkpoint, _NOTE), "it is made anew from silver"
    noted = read_whole(file, list[tuple[int, str, int, Reached]], source=source.name, then=then)
    if noted is not None:
        return {(epoch, topic, partition): at for epoch, topic, partition, at in noted}
    silver = warehouse.name("silver", "cdc")
    found = warehouse.session.sql(last_arrivals(silver, source=source.name))
    return {
        (epoch, topic, partition): Reached(offset, place)
        for epoch, topic, partition, offset, place in rows(found)
    }


def _note(checkpoint: str, carried: dict[Partition, Reached]) -> None:
    content = msgspec.json.encode([(*key, at) for key, at in carried.items()])
    write_whole(Path(checkpoint, _NOTE), content)
