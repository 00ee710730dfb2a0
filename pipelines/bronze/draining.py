"""Queues that forget what is acknowledged: their messages are written to bronze first.

A batch is kept in a file, noted, appended by one commit, and acknowledged. If a killed run, a
server or a network interrupts this between the last two steps, the messages are delivered again,
marked as redelivered (a message without the mark was never delivered before). Such a message is
recognised by its bytes, headers and properties among those that the note has of the batch, each
once; it is acknowledged and not appended again. The note also numbers the messages, so a queue has
offsets in bronze, whatever the server forgets.

A queue may have a delivery limit, which a reader cannot ask for: a message that was delivered more
often and came back without an acknowledgement is thrown away. So a batch that could not be appended
is appended from its file before anything else is asked of the queue, and nothing is delivered as
long as bronze cannot be written, or as long as there is no room to keep it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
import urllib.parse
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import orjson
import pyarrow as pa
from pyspark.sql import functions as F

from ingest.config.sources import Source
from ingest.files.record import Record
from pipelines.bronze.amqp.connection import Server, connect
from pipelines.bronze.amqp.messages import Delivery
from pipelines.bronze.amqp.queues import Drain, check_type, counted
from pipelines.bronze.by_offset.columns import record_batch
from pipelines.bronze.stream import bronze_rows
from pipelines.bronze.transport import Stop
from pipelines.bronze.trimmed import trimmed
from pipelines.platform.checkpoints import damaged_note, read_whole, write_whole
from pipelines.platform.warehouse import Warehouse

MOST_MESSAGES = 20_000
MOST_BYTES = 32 << 20
_ROOM = 2 * MOST_BYTES
"""How much must be free before a queue delivers anything: room for a batch, here and in bronze."""
_NAME_LENGTH = 211
"""The most letters of a file's name: 255 without an ending and the ending of a draft."""
REMEMBERED = 600.0
"""Seconds after which a server has noticed that a connection is gone (two heartbeats) and offers
again what was delivered over it. What has not come again by the end of the queue then never
will."""


def drain(warehouse: Warehouse, source: Source, server: Server, *, stop: Stop) -> int:
    """Appends what waits in the queues now; gives how many messages that was.

    Raises `amqp.connection.Refused` or `Unreachable` for failures of the server, and any other
    OSError for failures on this side.
    """
    assert source.rabbitmq is not None
    count = 0
    for queue in source.rabbitmq.queues or ():
        if stop():
            break
        count += _finished(warehouse, source, queue)
        with connect(server) as connection:
            check_type(connection, queue, source.rabbitmq.queue_type)
            waiting = counted(connection, queue)
            if waiting == 0:
                continue
            landing = Landing(warehouse, source, queue)
            landing.prepare()
            drained = Drain(connection, queue, most=min(MOST_MESSAGES, waiting))
            while waiting > 0 and not stop():
                taken = drained.take(MOST_BYTES)
                if not taken:
                    break
                count += landing.append(taken)
                waiting -= len(taken)
                drained.acknowledge(taken[-1], ends=waiting <= 0)
                landing.acknowledged(taken)
            if waiting <= 0:
                landing.drained()
    return count


def _finished(warehouse: Warehouse, source: Source, queue: str) -> int:
    """Appends what was delivered to an earlier run that could not append it; gives how many
    messages."""
    if not _file(warehouse, source, queue, ending="rows").exists():
        return 0
    return Landing(warehouse, source, queue).finish()


def folder(warehouse: Warehouse, source: Source) -> Path:
    """Where the notes of a source's queues are kept."""
    return Path(warehouse.checkpoint("bronze", source.name, "drained"))


def _file(warehouse: Warehouse, source: Source, queue: str, *, ending: str) -> Path:
    return folder(warehouse, source) / f"{_file_name(queue)}.{ending}"


def _file_name(queue: str) -> str:
    """The name of a file for a queue. A queue's name may be longer than a file's may be: then it is
    the beginning of the name, and what tells it from others."""
    name = urllib.parse.quote(queue, safe="")
    if len(name) <= _NAME_LENGTH:
        return name
    digest = hashlib.blake2b(queue.encode(), digest_size=16).hexdigest()
    return f"{name[: _NAME_LENGTH - len(digest) - 1]}-{digest}"


class _Note(TypedDict):
    """See Landing."""

    next: int
    held: list[str]
    adding: list[str]
    at: float
    writer: str


class Landing:
    """How the messages of one queue come into bronze, with the note about them and the file of the
    batch that is being appended.

    The note has `next`, the offset of the next message; `held`, digests of messages that are in
    bronze and not known to be acknowledged, and `at`, when the last of them came; `adding`, digests
    of the batch that is being appended from `next` on; and `writer`, the name of the appends in a
    catalog's table. If the note was lost and numbers begin anew, they are those of another writer.
    """

    def __init__(self, warehouse: Warehouse, source: Source, queue: str) -> None:
        self._warehouse = warehouse
        self._source = source
        self._queue = queue
        self._file = _file(warehouse, source, queue, ending="json")
        self._fetched = _file(warehouse, source, queue, ending="rows")
        then = "numbers go on behind bronze's, and what the server hands out again comes twice"
        note = read_whole(self._file, _Note, source=source.name, then=then)
        if note is None:
            following, writer = self._after_bronze(), uuid.uuid4().hex
            note = _Note(next=following, held=[], adding=[], at=0.0, writer=writer)
        self._at = note["at"]
        self._offered_again = time.time() - self._at >= REMEMBERED
        self._writer = note["writer"]
        self._held = Counter(note["held"])
        self._next = note["next"]
        self._adding = note["adding"]
        if self._adding and self._in_bronze(self._next):
            self._appended()

    def prepare(self) -> None:
        """Makes sure that what a queue delivers can be kept; raises OSError if it cannot."""
        self._write()
        if self._warehouse.local:
            for place in (self._file.parent, self._warehouse.folder("bronze", "messages").parent):
                if shutil.disk_usage(place).free < _ROOM:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(place))

    def finish(self) -> int:
        """Appends a batch that was delivered and noted and is not in bronze; gives the number of
        its messages."""
        count = len(self._adding)
        if count:
            try:
                batch = pa.ipc.open_file(self._fetched.read_bytes()).get_batch(0)
            except FileNotFoundError:
                # The queue delivers it again.
                self._adding = []
                count = 0
            except (OSError, ValueError) as error:
                then = "the queue hands its messages out again, unless a delivery limit was reached"
                raise damaged_note(self._source.name, self._fetched, error, then=then) from error
            else:
                self._append(batch)
                self._appended()
        self._write()
        self._fetched.unlink(missing_ok=True)
        return count

    def append(self, taken: Sequence[Delivery]) -> int:
        """Appends those of the messages that bronze does not have; gives their number."""
        left = self._held.copy()
        new = []
        for delivery in taken:
            if delivery.again and left[delivery.digest] > 0:
                left[delivery.digest] -= 1
            else:
                new.append(delivery)
        if new:
            batch = self._batch([delivery.record for delivery in new])
            self._at = time.time()
            self._adding = [delivery.digest for delivery in new]
            self._keep(batch)
            self._write()
            self._append(batch)
            self._appended()
        return len(new)

    def acknowledged(self, taken: Sequence[Delivery]) -> None:
        """Note that the queue has forgotten these messages."""
        self._held -= Counter(delivery.digest for delivery in taken)
        self._write()
        self._fetched.unlink(missing_ok=True)

    def drained(self) -> None:
        """Note that the queue was read to its end: messages that are held and did not come again
        were acknowledged after all, if the server had noticed before that the connection was
        gone."""
        if self._held and self._offered_again:
            self._held.clear()
            self._write()

    def _appended(self) -> None:
        """Note that bronze has what was being added."""
        self._next += len(self._adding)
        self._held.update(self._adding)
        self._adding = []

    def _keep(self, batch: pa.RecordBatch) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        write_whole(self._fetched, sink.getvalue())

    def _batch(self, records: Sequence[Record]) -> pa.RecordBatch:
        count = len(records)
        return record_batch(
            values=[record.value for record in records],
            keys=[record.key for record in records],
            headers=[record.headers for record in records],
            topics=[self._queue] * count,
            partitions=[0] * count,
            offsets=range(self._next, self._next + count),
            times=[record.timestamp for record in records],
        )

    def _append(self, batch: pa.RecordBatch) -> None:
        session = self._warehouse.session
        messages = session.createDataFrame(pa.Table.from_batches([batch]))
        writer = f"drained/{self._source.name}/{self._queue}/{self._writer}"
        once = None if self._warehouse.local else (writer, self._next)
        rows = bronze_rows(messages, self._source)
        self._warehouse.append(rows, "bronze", "messages", once=once)

    def _write(self) -> None:
        note = _Note(
            next=self._next,
            held=sorted(self._held.elements()),
            adding=self._adding,
            at=self._at,
            writer=self._writer,
        )
        write_whole(self._file, orjson.dumps(note))

    def _in_bronze(self, offset: int) -> bool:
        table = self._warehouse.read("bronze", "messages")
        own = (F.col("source") == self._source.name) & (F.col("topic") == self._queue)
        return table.where(own & (F.col("offset") == offset)).first() is not None

    def _after_bronze(self) -> int:
        """The offset after the highest one that bronze has, or had, of the queue; silver knows it
        if bronze alone was restored from a backup."""
        own = (F.col("source") == self._source.name) & (F.col("topic") == self._queue)
        following = trimmed(self._warehouse, self._source.name).following(self._queue)
        for table in (("bronze", "messages"), ("silver", "cdc")):
            if self._warehouse.exists(*table):
                found = self._warehouse.read(*table).where(own).agg(F.max("offset")).first()
                if found is not None and found[0] is not None:
                    following = max(following, int(found[0]) + 1)
        return following
