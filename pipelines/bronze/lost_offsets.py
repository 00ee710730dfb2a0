"""Messages that Kafka no longer has although they were not read: found, noted, and gone on after.

Before a stream begins, what the topics hold is compared with the place that the stream has reached:

1. If a partition begins above that place, it has lost the messages in between (retention removed
   them). Missing offsets further up are no loss: compaction and transactions leave such holes. A
   partition that was added to a topic, and a topic that appeared later and matches the same
   pattern, were to be read from their first offset; any other topic is read from where it begins.
2. If a topic has another id than before, or ends below the place, it was deleted and made anew. Its
   offsets begin again, so its messages could be taken for copies of others. Only a raised `epoch`
   tells them apart, and until then the source stops.
3. If a topic that a pattern found is no longer there, everything unread in it is lost. Its id is
   kept: a topic of its name that appears later was made anew. A topic that is no longer declared is
   not missed.
4. With `lost: go_on` each loss becomes a row of bronze without a value, with the header GAP_HEADER,
   at the first missing offset; and the stream's checkpoint is replaced by places to begin at. What
   is to be done is noted first, so that a run which is killed half way is completed.

Spark itself is told to fail if anything is gone that it was to read. So what is lost while this
comparison runs, or while a batch is read, comes back here and is compared once more. Spark also
fails for topics that are no longer declared, and for new ones whose first messages are gone. These
are no losses, and the checkpoint is replaced as after one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

import orjson
import pyarrow as pa
from pyspark.sql import functions as F

from ingest.config.sources import Source
from ingest.config.transports import Kafka
from ingest.errors import SourceError
from ingest.files.record import GAP_HEADER
from pipelines.bronze.by_offset.columns import record_batch
from pipelines.bronze.by_offset.source import Partition
from pipelines.bronze.kafka_topics import Held, declares
from pipelines.bronze.transport import Waiting
from pipelines.platform.checkpoints import read_whole, write_whole
from pipelines.platform.rows import rows
from pipelines.platform.warehouse import BRONZE, Warehouse

_NOTE = "topics.json"
_OF_THE_STREAM = ("offsets", "commits", "sources", "metadata", "state")
_EARLIEST = -2


class Loss(NamedTuple):
    """Messages of a partition that are gone: from `first` to `last`; `last` is None if the topic
    was deleted, since nobody knows what it held. `epoch` is the one in which they were sent;
    `recreated` says that there is another topic of that name now."""

    partition: Partition
    first: int
    last: int | None
    epoch: int
    recreated: bool = False

    @property
    def span(self) -> str:
        """As GAP_HEADER has it."""
        return f"{self.first}-{'' if self.last is None else self.last}"

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.partition.topic} was deleted{' and made anew' if self.recreated else ''}"
        return f"{self.partition} lacks {self.span}"


class _Note(TypedDict, total=False):
    """See SourceOffsets; a loss is stored like Loss, with the topic and number of its partition."""

    ids: dict[str, str]
    pattern: str | None
    unread: list[str]
    epoch: int
    begin: dict[str, dict[str, int]]
    losses: list[tuple[str, int, int, int | None, int, bool]]


class SourceOffsets:
    """How far the stream of a source has come in its topics.

    Its note has the `ids` of the topics that were found, the `pattern` by which they were found,
    those that appeared since and are `unread`, and the `epoch`. `begin`: where a stream begins that
    has no checkpoint of its own. `losses` is there, even if empty, as long as the stream is to
    begin anew and has not done so: they must be in bronze by then.
    """

    def __init__(self, warehouse: Warehouse, source: Source, checkpoint: str) -> None:
        self._warehouse = warehouse
        self._source = source
        self._checkpoint = Path(checkpoint)
        self._file = self._checkpoint / _NOTE
        then = "the stream goes on; one that has no files of its own reads what Kafka has again"
        noted = read_whole(self._file, _Note, source=source.name, then=then)
        self._note = noted if noted is not None else _Note()

    def finish(self) -> None:
        """Does what a killed run has noted and not done."""
        if "losses" in self._note:
            self._set_down()

    def read(self) -> dict[Partition, int] | None:
        """The offset that is read next, by partition; None if nothing was read yet."""
        found = offsets_read(str(self._checkpoint))
        begin = self._note.get("begin")
        if found is None and begin is not None:
            found = {
                Partition(topic, int(number)): offset
                for topic, offsets in begin.items()
                for number, offset in offsets.items()
            }
        return found

    def last_batch(self) -> float | None:
        """When the last batch ended, in seconds since 1970; None if there was none."""
        commits = self._checkpoint.glob("commits/[0-9]*")
        return max((file.stat().st_mtime for file in commits), default=None)

    def starting(self, held: Held | None) -> str:
        """Where a stream without a checkpoint of its own begins, as Spark's option has it."""
        noted: dict[str, dict[str, int]] | None = self._note.get("begin")
        if noted is None:
            return self._kafka.starting_offsets
        begin = {topic: dict(offsets) for topic, offsets in noted.items()}
        # Spark wants an offset for each partition; new ones are read completely.
        for topic, number in held.spans if held is not None else ():
            begin.setdefault(topic, {}).setdefault(str(number), _EARLIEST)
        if held is not None:
            begin = {name: offsets for name, offsets in begin.items() if name in held.topics}
        return json.dumps(begin)

    def losses(self, held: Held, read: Mapping[Partition, int] | None) -> list[Loss]:
        """What is gone of the messages that were to be read next. `read` was looked up before the
        topics were asked what they hold."""
        followed, ends = self._followed(held, read), None
        ids, epoch = self._note.get("ids", {}), self._note.get("epoch", self._source.epoch)
        found = []
        for partition, offset in followed.items():
            known = held.ids.get(partition.topic)
            other = partition.topic in ids and known is not None and ids[partition.topic] != known
            span = held.spans.get(partition)
            if partition.topic not in held.topics:
                found.append(Loss(partition, max(offset, 0), None, epoch))
            elif other or (span is not None and offset >= 0 and span.following < offset):
                found.append(Loss(partition, max(offset, 0), None, epoch, recreated=True))
            elif span is not None and 0 <= offset < span.lowest:
                ends = self._ends() if ends is None else ends
                first = max(offset, ends.get(partition, 0))
                if first < span.lowest:
                    found.append(Loss(partition, first, span.lowest - 1, self._source.epoch))
        # A topic that came back after being gone for a while is not read yet.
        there = {partition.topic for partition in followed}
        back = [name for name in held.ids if name not in there and name in ids]
        found += (
            Loss(Partition(name, 0), 0, None, epoch, recreated=True)
            for name in back
            if ids[name] != held.ids[name]
        )
        return found

    def check(self, losses: Sequence[Loss]) -> None:
        """Raises SourceError if the source cannot go on after these losses."""
        epoch = self._source.epoch
        raised = self._note.get("epoch", epoch) < epoch
        recreated = [loss for loss in losses if loss.recreated]
        if not losses or (self._kafka.lost == "go_on" and (raised or not recreated)):
            return
        stood: dict[str, dict[str, int]] = {}
        for loss in losses:
            topic, number = loss.partition
            stood.setdefault(topic, {})[str(number)] = loss.first
        what = ", ".join(dict.fromkeys(map(str, losses)))
        text = (
            f"source {self._source.name}: Kafka no longer holds the messages that follow those read"
            f" last (read up to {json.dumps(stood, separators=(',', ':'))}): {what}. "
        )
        if recreated:
            text += (
                "Its numbering starts again, and its messages would be taken for copies of others:"
                " raise the source's epoch; then set kafka.lost: go_on, or remove the folder"
                f" {self._checkpoint}, and run again."
            )
        else:
            text += (
                "To go on with what is there, set kafka.lost: go_on; a row of silver then says"
                f" which are missing. Or remove the folder {self._checkpoint}: what Kafka still has"
                " is read again, as copies that count once, and nothing says which are missing."
            )
        raise SourceError(text)

    def go_on(self, losses: Sequence[Loss], held: Held, *, anew: bool = False) -> None:
        """Notes the losses in bronze, and begins the stream anew behind them if Spark's own
        checkpoint will not do, or is to be given up (`anew`) because of what bronze has. What was
        lost in a topic that was away was noted when it went."""
        read = self.read()
        made_anew = {loss.partition.topic for loss in losses if loss.recreated}
        losses = [loss for loss in losses if not loss.recreated or loss.partition in (read or {})]
        followed = self._followed(held, read)
        if not losses and not anew and not self._stops_spark(held):
            self._remember(held, read)
            return
        begin: dict[str, dict[str, int]] = {}
        lost = {loss.partition: loss for loss in losses}
        ends = self._ends()
        for partition, span in held.spans.items():
            # A partition that was not followed is read from where it begins now; if it begins later
            # by then, that is a loss.
            at = followed.get(partition, span.lowest)
            if at >= 0 and partition in followed and partition.topic not in made_anew:
                at = min(max(at, ends.get(partition, 0)), span.following)
            if partition in lost:
                at = _EARLIEST if lost[partition].last is None else span.lowest
            begin.setdefault(partition.topic, {})[str(partition.number)] = at
        self._note["begin"] = begin
        self._note["losses"] = [(*loss.partition, *loss[1:]) for loss in losses]
        self._note.update(self._about(held, read))
        self._write()
        self._set_down()

    def _followed(self, held: Held, read: Mapping[Partition, int] | None) -> dict[Partition, int]:
        """The offsets that are to be read next, by partition, of the topics that are declared.
        Added partitions, and topics that appeared and match the same pattern, are to be read from
        0. `read`: None if the stream has not begun."""
        if read is None:
            return {}
        followed = {at: offset for at, offset in read.items() if declares(self._kafka, at.topic)}
        topics = {at.topic for at in followed}.union(self._turned_up(held, read))
        for at in held.spans:
            if at.topic in topics:
                followed.setdefault(at, 0)
        return followed

    def _turned_up(self, held: Held, read: Mapping[Partition, int] | None) -> list[str]:
        """The topics that the earlier pattern has found since, and that are not read yet."""
        pattern = self._kafka.topics_pattern
        if read is None or pattern is None or self._note.get("pattern") != pattern:
            return []
        known = self._note.get("ids", {}).keys() - set(self._note.get("unread", ()))
        known |= {partition.topic for partition in read}
        return sorted(held.topics.keys() - known)

    def _stops_spark(self, held: Held) -> bool:
        """Whether Spark would take for a loss what is declared by now."""
        read = offsets_read(str(self._checkpoint))
        if read is None:
            return False
        gone = any(not declares(self._kafka, partition.topic) for partition in read)
        return gone or any(
            partition not in read and span.lowest > 0 for partition, span in held.spans.items()
        )

    def _remember(self, held: Held, read: Mapping[Partition, int] | None) -> None:
        """Notes which topics are read now."""
        about = self._about(held, read)
        if any(self._note.get(name) != value for name, value in about.items()):
            self._note.update(about)
            self._write()

    def _about(self, held: Held, read: Mapping[Partition, int] | None) -> _Note:
        return _Note(
            ids={**self._note.get("ids", {}), **held.ids},
            epoch=self._source.epoch,
            pattern=self._kafka.topics_pattern,
            unread=self._turned_up(held, read),
        )

    @property
    def _kafka(self) -> Kafka:
        assert self._source.kafka is not None
        return self._source.kafka

    def _set_down(self) -> None:
        """Does what is noted; each step can be repeated."""
        losses = [
            Loss(Partition(topic, number), first, last, epoch, recreated)
            for topic, number, first, last, epoch, recreated in self._note["losses"]
        ]
        new = [loss for loss in losses if not self._in_bronze(loss)]
        if new:
            self._append(new)
        for name in _OF_THE_STREAM:
            shutil.rmtree(self._checkpoint / name, ignore_errors=True)
            (self._checkpoint / name).unlink(missing_ok=True)
            (self._checkpoint / f".{name}.crc").unlink(missing_ok=True)
        del self._note["losses"]
        self._write()

    def _append(self, losses: Sequence[Loss]) -> None:
        count = len(losses)
        batch = record_batch(
            values=[None] * count,
            keys=[None] * count,
            headers=[((GAP_HEADER, loss.span.encode()),) for loss in losses],
            topics=[loss.partition.topic for loss in losses],
            partitions=[loss.partition.number for loss in losses],
            offsets=[loss.first for loss in losses],
            times=[None] * count,
        )
        epochs = pa.array([loss.epoch for loss in losses], pa.int64())
        table = pa.Table.from_batches([batch]).append_column("epoch", epochs)
        found = self._warehouse.session.createDataFrame(table).withColumns(
            {"source": F.lit(self._source.name), "ingested_at": F.current_timestamp()}
        )
        self._warehouse.append(found.select([name for name, _ in BRONZE]), "bronze", "messages")

    def _in_bronze(self, loss: Loss) -> bool:
        """Whether a killed run has noted the loss already."""
        topic, number = loss.partition
        here = (F.col("topic") == topic) & (F.col("partition") == number)
        here &= (F.col("epoch") == loss.epoch) & (F.col("offset") == loss.first)
        gap = F.exists("headers", lambda header: header["key"] == GAP_HEADER)
        own = F.col("source") == self._source.name
        found = self._warehouse.read("bronze", "messages").where(own & here & gap)
        return found.first() is not None

    def unread(self, waits: Sequence[Waiting]) -> list[Waiting]:
        """What waits, without what bronze has already."""
        ends = self._ends()
        begun = (
            wait._replace(start=max(wait.start, ends.get(Partition(wait.topic, wait.partition), 0)))
            for wait in waits
        )
        return [wait for wait in begun if wait.start < wait.end]

    def _ends(self) -> dict[Partition, int]:
        """The offset after the highest one that bronze has, by partition: bronze may have a batch
        whose end a killed run did not note, also of the epoch before one that was just raised."""
        since = min(self._note.get("epoch", self._source.epoch), self._source.epoch)
        own = (F.col("source") == self._source.name) & (F.col("epoch") >= since)
        found = self._warehouse.read("bronze", "messages").where(own)
        ends = found.groupBy("topic", "partition").agg(F.max("offset"))
        return {Partition(topic, number): last + 1 for topic, number, last in rows(ends)}

    def _write(self) -> None:
        write_whole(self._file, orjson.dumps(self._note))


def offsets_read(checkpoint: str) -> dict[Partition, int] | None:
    """Where the last committed batch of a stream ended, or where the stream began; None if it did
    not."""
    done = [int(name.name) for name in Path(checkpoint, "commits").glob("[0-9]*")]
    noted = Path("offsets", str(max(done))) if done else Path("sources", "0", "0")
    try:
        text = (Path(checkpoint) / noted).read_text(encoding="utf-8")
        offsets: Mapping[str, Mapping[str, int]] = json.loads(text.splitlines()[-1])
    except (OSError, ValueError, LookupError):
        # It is not there yet, or damaged, which the query will say.
        return None
    return {
        Partition(topic, int(number)): offset
        for topic, by_number in offsets.items()
        for number, offset in by_number.items()
    }
