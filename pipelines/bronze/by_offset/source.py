"""One streaming data source of Spark for everything that is read by offset.

What is particular to a broker is a `Client`: which partitions there are, what each holds, and the
messages between two offsets. Everything else is here: where to begin, how much a micro-batch takes,
partitions that appear later, messages that are gone before they were read, and that a repeated
batch has the same messages.

The offset of a stream says for each partition where reading it began and how far it went. The
former makes a batch repeatable: if a batch met a partition for the first time and is repeated after
a crash, the partition begins where it began then.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from ingest.files.record import GAP_HEADER, Record
from pipelines.bronze.by_offset.columns import COLUMNS, record_batch
from pipelines.platform.checkpoints import write_whole

try:
    from pyspark.sql.streaming.datasource import (
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ModuleNotFoundError:
    # Spark 4.0 and 4.1 have no limits. They decide themselves where a query ends that takes what is
    # there now.
    class ReadLimit: ...  # type: ignore[no-redef]

    class ReadMaxRows(ReadLimit): ...  # type: ignore[no-redef]

    class SupportsTriggerAvailableNow: ...  # type: ignore[no-redef]


MOST_MESSAGES = 500_000
"""The most messages of one micro-batch."""
TASK_MESSAGES = 50_000
"""How many messages one task reads, of any number of partitions: a task costs as much as reading
some thousand."""
_BATCH_MESSAGES, _BATCH_BYTES = 2000, 8 << 20
_ASKED_AGAIN, _PAUSE = 5, 2.0
"""How often, and with how many seconds in between, a partition that ends below the place already
reached is asked again before it is taken to be made anew."""
_MARK = "queue stopped"

Offsets = dict[str, list[int]]
"""For each partition, `topic/number`, where reading began and where it goes on."""
Starting = Literal["earliest", "latest"] | Mapping[str, int]
"""Where a stream without a checkpoint begins: by name of a partition; partitions that are not named
begin at the earliest."""


class Partition(NamedTuple):
    """A partition as bronze knows it: a queue, or one of a topic's queues."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"

    @classmethod
    def named(cls, text: str) -> Partition:
        """The partition of a name in Offsets."""
        topic, _, number = text.rpartition("/")
        return cls(topic, int(number))


class Span(NamedTuple):
    """What a partition holds: its lowest offset, and the one that its next message will have.
    `replica`: it is read from a copy, which may lack the newest messages for a while."""

    lowest: int
    following: int
    replica: bool = False


class Gone(Exception):
    """A partition no longer holds messages that were to be read; it begins with `lowest` now."""

    def __init__(self, lowest: int) -> None:
        super().__init__(lowest)
        self.lowest = lowest


class Client(Protocol):
    """A way to a broker. It is pickled and sent to where Spark reads, so it holds no connection. It
    may hold a password, so it is no option of the data source, since Spark shows options.

    Both methods raise OSError, or an error of their own, whose text is shown to the user.
    """

    def spans(self) -> Mapping[Partition, Span]:
        """Every partition there is now, and what it holds."""

    def read(self, partition: Partition, *, start: int, end: int) -> Iterator[Record]:
        """The messages of a partition from `start` up to, but not including, `end`, in order. An
        offset that the broker skips has no message. Raises Gone if the first of them are no longer
        there."""


def stream(
    session: SparkSession,
    client: Client,
    *,
    checkpoint: str,
    starting: Starting = "earliest",
    lost: Literal["fail", "go_on"] = "fail",
) -> DataFrame:
    """A streaming DataFrame of the messages, with bronze's columns from `topic` to `headers`.

    `checkpoint` is the folder of the query that will read it. `starting` is where one without a
    checkpoint begins; partitions that turn up later are read whole. Messages that are gone before
    they were read end the query, or with `lost: go_on` leave a row without value, with the header
    GAP_HEADER, at the offset of the first of them.
    """
    reached = noted(Path(checkpoint), "offsets")
    if starting == "latest" and not reached and _was_empty(client, Path(checkpoint)):
        # Nothing was there that could be skipped, so everything that comes is later.
        starting = "earliest"
    # A subclass carries what it needs in itself instead of in options, since batches are planned in
    # another process.
    about = {
        "client": client,
        "starting": starting,
        "lost": lost,
        "reached": reached,
        "most": MOST_MESSAGES,
    }
    session.dataSource.register(type("Queues", (Queues,), about))
    return session.readStream.format(Queues.name()).load()


def _was_empty(client: Client, checkpoint: Path) -> bool:
    """Whether nothing was there when the query was first begun that has no checkpoint; no offset of
    its own tells that."""
    note = checkpoint / "began_empty"
    try:
        if not note.exists() and not client.spans():
            write_whole(note, b"")
    except OSError as error:
        raise Stopped(str(error)) from None
    return note.exists()


def noted(checkpoint: Path, kind: Literal["offsets", "commits"]) -> Offsets:
    """The offset of the newest batch that is planned, or done; empty if there is none.

    A file in `offsets` has a version, a line about the batch, and a line for each source.
    """
    batches = [int(file.name) for file in checkpoint.glob(f"{kind}/[0-9]*")]
    if not batches:
        return {}
    lines = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()
    try:
        found: Offsets = json.loads(lines[2])
    except (ValueError, LookupError):
        # It is damaged, which the query will say.
        return {}
    return found


class Stopped(Exception):
    """Reading cannot go on. Spark hands an exception over as text, in which `stopped` finds it."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())
        super().__init__(f"{_MARK} {type(self).__name__}: {self.text}")


class Lost(Stopped):
    """Messages are gone that were not read yet."""


class Recreated(Stopped):
    """A partition was deleted and made anew, so its offsets begin again."""


def stopped(error: Exception) -> Stopped | None:
    """What ended reading, found in the text that Spark hands over; None if something else
    failed."""
    found = re.search(rf"{_MARK} (\w+): ([^\n]*)", str(error))
    if found is None:
        return None
    kinds = {kind.__name__: kind for kind in (Stopped, Lost, Recreated)}
    return kinds[found[1]](found[2])


def lost_before(partition: Partition, start: int, upto: int) -> Lost:
    """The error that a partition begins with `upto`, and messages from `start` on that were to be
    read are gone."""
    return Lost(
        f"{partition} no longer holds its messages {start}-{upto - 1}, which were not read yet"
    )


def check_following(partition: Partition, span: Span, reached: int) -> None:
    """Raise Recreated if a partition ends below the place that was reached in it; with a replica
    that means nothing."""
    if span.following < reached and not span.replica:
        raise Recreated(
            f"{partition} was read up to {reached} and ends at {span.following} now:"
            " it was deleted and made anew"
        )


class Slice(NamedTuple):
    """Messages of one partition, from `start` up to, not including, `end`."""

    partition: Partition
    start: int
    end: int


class _Task(InputPartition):
    """What one task reads."""

    def __init__(self, slices: Sequence[Slice]) -> None:
        super().__init__(tuple(slices))


class Queues(DataSource):
    """The data source; a subclass says what of."""

    client: ClassVar[Client]
    starting: ClassVar[Starting]
    lost: ClassVar[str]
    reached: ClassVar[Offsets]
    most: ClassVar[int]

    @classmethod
    def name(cls) -> str:
        return "ingest_queues"

    def schema(self) -> str:
        return COLUMNS

    def streamReader(self, schema: Any) -> _Reader:
        return _Reader(
            self.client, self.starting, lost=self.lost, reached=self.reached, most=self.most
        )


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in one process, and reads their slices in the tasks'."""

    def __init__(
        self,
        client: Client,
        starting: Starting,
        *,
        lost: str,
        reached: Offsets | None = None,
        most: int = MOST_MESSAGES,
    ) -> None:
        self._client = client
        self._starting = starting
        self._lost = lost
        self._reached = reached or {}
        self._most = most
        self._held: Mapping[Partition, Span] | None = None

    def initialOffset(self) -> Offsets:
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        self._held = self._spans()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._most)

    def latestOffset(self, start: Offsets | None = None, limit: ReadLimit | None = None) -> Offsets:
        """How far a micro-batch goes that begins at `start`. Spark 4.0 and 4.1 give neither
        argument: there a batch begins where the checkpoint ended and takes everything."""
        held = self._spans() if self._held is None else self._held
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        begin = self._reached if start is None else start
        for _ in range(_ASKED_AGAIN):
            try:
                return planned(held, begin, most=most, starting=self._starting)
            except Recreated:
                # Or a node answered that lacks the newest messages for a moment.
                time.sleep(_PAUSE)
                held = self._spans()
                if self._held is not None:
                    self._held = held
        return planned(held, begin, most=most, starting=self._starting)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        slices = (
            Slice(Partition.named(name), first, min(first + TASK_MESSAGES, upto))
            for name, (began, upto) in end.items()
            for first in range(start[name][1] if name in start else began, upto, TASK_MESSAGES)
        )
        return [_Task(shared) for shared in _shared_out(slices)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for queue, start, end in partition.value:
            try:
                read = self._records(queue, start, end)
                for records in portions(read, most=_BATCH_MESSAGES, bytes_most=_BATCH_BYTES):
                    yield partition_batch(queue, records)
            except (OSError, ValueError) as error:
                raise Stopped(f"{queue}: {error}") from None

    def commit(self, end: Offsets) -> None:
        """Nothing is told to the broker: progress lives in the checkpoint."""

    def stop(self) -> None:
        """Nothing is open between two calls."""

    def _spans(self) -> Mapping[Partition, Span]:
        try:
            return self._client.spans()
        except OSError as error:
            raise Stopped(str(error)) from None

    def _records(self, partition: Partition, start: int, end: int) -> Iterator[Record]:
        """The messages of a slice and, if some are gone, a record that says so."""
        while start < end:
            try:
                for record in self._client.read(partition, start=start, end=end):
                    assert record.offset is not None
                    start = record.offset + 1
                    yield record
                return
            except Gone as error:
                # Nothing that is still there is skipped.
                upto = min(max(error.lowest, start + 1), end)
                if self._lost == "fail":
                    raise lost_before(partition, start, upto) from None
                lost = f"{start}-{upto - 1}"
                yield Record(None, headers=((GAP_HEADER, lost.encode()),), offset=start)
                start = upto


def planned(
    held: Mapping[Partition, Span], start: Offsets, *, most: int | None, starting: Starting
) -> Offsets:
    """How far a batch goes that begins at `start` and takes `most` messages, or all if that is
    None. It takes from each partition a share by what waits there, and at least one message.

    Raises Recreated, or Stopped at the beginning of a stream, if a partition ends below the place
    from which it is to be read. A replica that ends there has nothing new yet.
    """
    offsets = {name: list(pair) for name, pair in start.items()}
    waiting: dict[str, int] = {}
    for partition, span in held.items():
        name = str(partition)
        # What is there when a stream begins may be skipped; what comes later is read completely.
        first = span.lowest if start else _first(name, span, starting)
        _, reached = offsets.setdefault(name, [first, first])
        if name in start:
            check_following(partition, span, reached)
        elif span.following < reached:
            raise Stopped(
                f"{partition} ends at {span.following}, below the offset {reached} to begin at"
            )
        waiting[name] = max(0, span.following - reached)
    total = sum(waiting.values())
    for name, count in waiting.items():
        if most is not None and total > most:
            count = min(count, max(1, count * most // total))
        offsets[name][1] += count
    return offsets


def _first(name: str, span: Span, starting: Starting) -> int:
    """Where a stream begins to read a partition."""
    if isinstance(starting, Mapping):
        return starting.get(name, span.lowest)
    return span.following if starting == "latest" else span.lowest


def _shared_out(slices: Iterable[Slice]) -> Iterator[list[Slice]]:
    """The slices of each task."""
    shared: list[Slice] = []
    size = 0
    for one in slices:
        count = one.end - one.start
        if size + count > TASK_MESSAGES and shared:
            yield shared
            shared, size = [], 0
        shared.append(one)
        size += count
    if shared:
        yield shared


def portions(records: Iterable[Record], *, most: int, bytes_most: int) -> Iterator[list[Record]]:
    """The records in lists that are limited in number and bytes."""
    portion: list[Record] = []
    size = 0
    for record in records:
        portion.append(record)
        size += len(record.value or b"")
        if len(portion) == most or size >= bytes_most:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def partition_batch(partition: Partition, records: Sequence[Record]) -> pa.RecordBatch:
    """Messages of one partition as bronze's columns."""
    return record_batch(
        values=[record.value for record in records],
        keys=[record.key for record in records],
        headers=[record.headers for record in records],
        topics=[partition.topic] * len(records),
        partitions=[partition.number] * len(records),
        offsets=[record.offset or 0 for record in records],
        times=[record.timestamp for record in records],
    )
