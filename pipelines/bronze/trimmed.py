"""What retention has taken out of bronze of a source whose progress bronze itself tells, should the
checkpoint be lost: files, and queues that forget what is acknowledged.

It stands beside the logs of what was read, which may go without it. Without it old files would be
read once more, and be the newest that came; and numbers of messages would be given twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import functions as F

from ingest.config.sources import Source
from pipelines.platform.checkpoints import read_note, write_whole
from pipelines.platform.warehouse import Warehouse


class Trimmed(NamedTuple):
    """All that came before `until` (s since 1970) may be gone. `numbers`: the highest that was
    given, of partitions under no name, of offsets by queue."""

    until: float = 0.0
    numbers: Mapping[str, int] = {}

    def following(self, queue: str = "") -> int:
        """The first number that was never given, as far as this tells."""
        return self.numbers.get(queue, -1) + 1


def trimmed(warehouse: Warehouse, source: str) -> Trimmed:
    """What was noted last; nothing was taken out where there is no note."""
    note = read_note(_file(warehouse, source))
    return Trimmed(note.get("until", 0.0), note.get("numbers", {}))


def note_trimmed(warehouse: Warehouse, source: Source, *, until: float) -> None:
    """Notes what retention is about to take out of bronze."""
    if not (source.files or (source.rabbitmq and source.rabbitmq.queue_type != "stream")):
        # Brokers number what they hold, and tell where it begins.
        return
    own = warehouse.read("bronze", "messages").where(F.col("source") == source.name)
    queue, number = (F.lit(""), "partition") if source.files else (F.col("topic"), "offset")
    highest = own.groupBy(queue.alias("queue")).agg(F.max(number).alias("number")).collect()
    before = trimmed(warehouse, source.name)
    numbers = dict(before.numbers)
    for row in highest:
        numbers[row["queue"]] = max(row["number"], numbers.get(row["queue"], -1))
    note = {"until": max(until, before.until), "numbers": numbers}
    write_whole(_file(warehouse, source.name), json.dumps(note).encode())


def _file(warehouse: Warehouse, source: str) -> Path:
    return Path(warehouse.checkpoint("bronze", source, "trimmed.json"))
