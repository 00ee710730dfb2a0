"""The job bronze: every message of a source, exactly as received, appended to `bronze.messages`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ingest.config.sources import Source
from pipelines.bronze.files import ingest_files
from pipelines.bronze.kafka import ingest_kafka
from pipelines.bronze.records import Unreadable
from pipelines.platform.leases import lease
from pipelines.platform.warehouse import Warehouse, create_bronze


class Bronze(NamedTuple):
    """What one run read of a source.

    `files_changed` are files that are no longer what was read, `files_unreadable` those that could
    not be read now; the rest went on, and the run is to be reported as incomplete where there are
    any.
    """

    source: str
    messages: int
    files_changed: tuple[str, ...] = ()
    files_unreadable: tuple[Unreadable, ...] = ()


def never() -> bool:
    """Goes on until nothing new is left."""
    return False


def ingest_source(
    warehouse: Warehouse, source: Source, *, stop: Callable[[], bool] = never
) -> Bronze:
    """Appends what is new in a source; `stop` is asked between micro-batches.

    Raises:
        PlatformError: the folder or the broker is not there.
        SourceError: the source cannot be read now.
    """
    create_bronze(warehouse)
    with lease(warehouse, f"bronze/{source.name}"):
        if source.files is not None:
            read = ingest_files(warehouse, source, source.files, stop=stop)
            return Bronze(source.name, read.messages, read.changed, read.unreadable)
        assert source.kafka is not None
        messages = ingest_kafka(warehouse, source, source.kafka, stop=stop)
        return Bronze(source.name, messages)
