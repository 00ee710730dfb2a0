"""The job bronze: every message of a source, exactly as received, appended to `bronze.messages`."""

from __future__ import annotations

from ingest.config.sources import Source
from pipelines.bronze.file_log import last_given
from pipelines.bronze.transport import Bronze, Stop
from pipelines.bronze.transports import transport_of
from pipelines.platform.checkpoints import (
    TableCheckpoint,
    check_same_moment,
    note_moment,
    stream_given,
)
from pipelines.platform.leases import lease_on_part
from pipelines.platform.warehouse import Warehouse, create_bronze


def never() -> bool:
    """Goes on until nothing new is left."""
    return False


def ingest_source(warehouse: Warehouse, source: Source, *, stop: Stop = never) -> Bronze:
    """Appends what is new in a source; `stop` is asked between micro-batches.

    Raises:
        PlatformError: the folder or the broker is not there.
        SourceError: the source cannot be read now, or its checkpoint is not of bronze as it is.
    """
    create_bronze(warehouse)
    with lease_on_part(warehouse, "bronze", source.name):
        folder = warehouse.checkpoint("bronze", source.name)
        checkpoint = TableCheckpoint(
            folder,
            source.name,
            "bronze",
            "messages",
            given=lambda: {**stream_given(folder), **last_given(f"{folder}/files")},
        )
        check_same_moment(warehouse, checkpoint)
        done = transport_of(source).append(warehouse, source, stop)
        note_moment(warehouse, checkpoint, news=done.messages > 0)
        return done
