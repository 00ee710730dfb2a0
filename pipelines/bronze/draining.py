"""Queues that forget what is acknowledged: their messages are in bronze before they are.

A batch is noted, appended by one commit, acknowledged. What a killed run, a server or a network
interrupts between the last two is handed out again, marked as handed out before (messages that are
not marked never were): such a message is known by its bytes, headers and properties among those
that the note has of the batch, each once, and is acknowledged and not appended again. The note also
numbers the messages: a queue of bronze has offsets, whatever the server forgets.
"""

from __future__ import annotations

import hashlib
import time
import urllib.parse
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import orjson
import pyarrow as pa
from pyspark.sql import functions as F

from ingest.config.sources import Source
from ingest.files.record import Record
from pipelines.bronze.amqp.connection import Server, connect
from pipelines.bronze.amqp.messages import Delivery
from pipelines.bronze.amqp.queues import Drain, check_type, counted
from pipelines.bronze.by_offset.columns import record_batch
from pipelines.bronze.transport import Stop
from pipelines.bronze.trimmed import trimmed
from pipelines.platform.checkpoints import read_note, write_whole
from pipelines.platform.warehouse import BRONZE, Warehouse

MOST_MESSAGES = 20_000
MOST_BYTES = 32 << 20
_NAME_LENGTH = 210
"""Letters of a file's name: 255 less an ending, less that of a draft."""
REMEMBERED = 600.0
"""Seconds after which a server has seen that a connection is gone (two heartbeats) and offers again
what was handed out over it. What has not come again by the end of the queue then never will."""


def drain(warehouse: Warehouse, source: Source, server: Server, *, stop: Stop) -> int:
    """Appends what waits in the queues now; gives how many messages that were.

    Raises `amqp.connection.Refused` or `Unreachable` for what the server does, and any other
    OSError for what fails on this side.
    """
    assert source.rabbitmq is not None
    count = 0
    for queue in source.rabbitmq.queues or ():
        if stop():
            break
        with connect(server) as connection:
            check_type(connection, queue, source.rabbitmq.queue_type)
            waiting = counted(connection, queue)
            if waiting == 0:
                continue
            landing = Landing(warehouse, source, queue)
            drained = Drain(connection, queue, most=MOST_MESSAGES)
            while waiting > 0 and not stop():
                taken = drained.take(MOST_BYTES)
                if not taken:
                    break
                count += landing.append(taken)
                drained.acknowledge(taken[-1])
                landing.acknowledged(taken)
                waiting -= len(taken)
            if waiting <= 0:
                landing.drained()
    return count


def folder(warehouse: Warehouse, source: Source) -> Path:
    """Where the notes of a source's queues are kept."""
    return Path(warehouse.checkpoint("bronze", source.name, "drained"))


def _file_name(queue: str) -> str:
    """A name of a file for a queue, which may be longer than files may be called: of that one
    its beginning, and what tells it from others."""
    name = urllib.parse.quote(queue, safe="")
    if len(name) <= _NAME_LENGTH:
        return name
    digest = hashlib.blake2b(queue.encode(), digest_size=16).hexdigest()
    return f"{name[: _NAME_LENGTH - len(digest) - 1]}-{digest}"


class Landing:
    """How the messages of one queue come into bronze, with the note on them.

    The note has `next`, the offset of the next message; `held`, digests of messages that are in
    bronze and not known to be acknowledged, and `at`, when the last of them came; `adding`, digests
    of the batch that is being appended from `next` on; `writer`, by which a catalog's table knows
    the appends: where the note was lost and numbers begin anew, they are those of another one.
    """

    def __init__(self, warehouse: Warehouse, source: Source, queue: str) -> None:
        self._warehouse = warehouse
        self._source = source
        self._queue = queue
        self._file = folder(warehouse, source) / f"{_file_name(queue)}.json"
        note = read_note(self._file)
        self._at: float = note.get("at", 0.0)
        self._offered_again = time.time() - self._at >= REMEMBERED
        self._writer: str = note.get("writer") or uuid.uuid4().hex
        self._held = Counter[str](note.get("held", ()))
        self._next: int = note["next"] if "next" in note else self._after_bronze()
        adding: list[str] = note.get("adding", [])
        if adding and self._in_bronze(self._next):
            self._next += len(adding)
            self._held.update(adding)

    def append(self, taken: Sequence[Delivery]) -> int:
        """Appends those of the messages that bronze has not; gives their number."""
        left = self._held.copy()
        new = []
        for delivery in taken:
            if delivery.again and left[delivery.digest] > 0:
                left[delivery.digest] -= 1
            else:
                new.append(delivery)
        if new:
            self._at = time.time()
            self._write(adding=[delivery.digest for delivery in new])
            self._append([delivery.record for delivery in new])
            self._next += len(new)
            self._held.update(delivery.digest for delivery in new)
        return len(new)

    def acknowledged(self, taken: Sequence[Delivery]) -> None:
        """The queue has forgotten these messages."""
        self._held -= Counter(delivery.digest for delivery in taken)
        self._write()

    def drained(self) -> None:
        """The queue was read to its end: what is held and did not come again was acknowledged after
        all, if the server had seen before that the connection was gone."""
        if self._held and self._offered_again:
            self._held.clear()
            self._write()

    def _append(self, records: Sequence[Record]) -> None:
        count = len(records)
        batch = record_batch(
            values=[record.value for record in records],
            keys=[record.key for record in records],
            headers=[record.headers for record in records],
            topics=[self._queue] * count,
            partitions=[0] * count,
            offsets=range(self._next, self._next + count),
            times=[record.timestamp for record in records],
        )
        session = self._warehouse.session
        rows = session.createDataFrame(pa.Table.from_batches([batch])).withColumns(
            {
                "source": F.lit(self._source.name),
                "epoch": F.lit(self._source.epoch).cast("bigint"),
                "ingested_at": F.current_timestamp(),
            }
        )
        writer = f"drained/{self._source.name}/{self._queue}/{self._writer}"
        once = None if self._warehouse.local else (writer, self._next)
        self._warehouse.append(
            rows.select([name for name, _ in BRONZE]), "bronze", "messages", once=once
        )

    def _write(self, adding: Sequence[str] = ()) -> None:
        note = {
            "next": self._next,
            "held": sorted(self._held.elements()),
            "adding": adding,
            "at": self._at,
            "writer": self._writer,
        }
        write_whole(self._file, orjson.dumps(note))

    def _in_bronze(self, offset: int) -> bool:
        table = self._warehouse.read("bronze", "messages")
        own = (F.col("source") == self._source.name) & (F.col("topic") == self._queue)
        return table.where(own & (F.col("offset") == offset)).first() is not None

    def _after_bronze(self) -> int:
        """The offset after the highest that bronze has, or had, of the queue; silver knows it where
        bronze was put back alone."""
        own = (F.col("source") == self._source.name) & (F.col("topic") == self._queue)
        following = trimmed(self._warehouse, self._source.name).following(self._queue)
        for table in (("bronze", "messages"), ("silver", "cdc")):
            if self._warehouse.exists(*table):
                found = self._warehouse.read(*table).where(own).agg(F.max("offset")).first()
                if found is not None and found[0] is not None:
                    following = max(following, int(found[0]) + 1)
        return following
