"""What retention has removed from bronze, for sources whose progress bronze itself tells if the
checkpoint is lost: files, and queues that forget what is acknowledged.

Without it old files would be read once more and look like the newest ones, and numbers of messages
would be given twice. It is kept apart from the checkpoint, which may have to be removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict

from pyspark.sql import functions as F

from ingest.config.sources import Source
from pipelines.bronze.file_log import files_in_bronze
from pipelines.platform.checkpoints import kept, read_whole, write_whole
from pipelines.platform.warehouse import Warehouse


class Trimmed(NamedTuple):
    """Everything that came before `until` (s since 1970) may be gone. `numbers`: the highest
    numbers that were given, of partitions under the empty name, of offsets by queue."""

    until: float = 0.0
    numbers: Mapping[str, int] = {}

    def following(self, queue: str = "") -> int:
        """The first number that was never given, as far as is known here."""
        return self.numbers.get(queue, -1) + 1


class _Note(TypedDict):
    until: float
    numbers: dict[str, int]


def trimmed(warehouse: Warehouse, source: str) -> Trimmed:
    """What was noted last; without a note nothing was removed. Raises SourceError if the note is
    damaged."""
    then = "bronze alone says then what was read, and what retention took out of it may come again"
    note = read_whole(_file(warehouse, source), _Note, source=source, then=then)
    return Trimmed(note["until"], note["numbers"]) if note is not None else Trimmed()


def note_trimmed(warehouse: Warehouse, source: Source, *, until: float) -> None:
    """Notes what retention is about to remove from bronze."""
    if not (source.files or (source.rabbitmq and source.rabbitmq.queue_type != "stream")):
        # Brokers number what they hold, and tell where it begins.
        return
    if source.files:
        given = files_in_bronze(warehouse, source.name)
        own = given.select(F.lit("").alias("queue"), F.col("ordinal").alias("number"))
    else:
        given = warehouse.read("bronze", "messages").where(F.col("source") == source.name)
        own = given.select(F.col("topic").alias("queue"), F.col("offset").alias("number"))
    highest = own.groupBy("queue").agg(F.max("number").alias("number")).collect()
    before = trimmed(warehouse, source.name)
    numbers = dict(before.numbers)
    for row in highest:
        numbers[row["queue"]] = max(row["number"], numbers.get(row["queue"], -1))
    note: _Note = {"until": max(until, before.until), "numbers": numbers}
    write_whole(_file(warehouse, source.name), json.dumps(note).encode())


def _file(warehouse: Warehouse, source: str) -> Path:
    return Path(kept(warehouse, source), "trimmed.json")
