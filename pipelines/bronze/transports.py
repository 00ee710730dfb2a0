"""The transports, by the keys of a source's YAML that name them."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.config.sources import Source
from pipelines.bronze.files import FILES
from pipelines.bronze.kafka import KAFKA
from pipelines.bronze.listing import is_uri
from pipelines.bronze.rabbitmq import RABBITMQ
from pipelines.bronze.rocketmq import ROCKETMQ
from pipelines.bronze.transport import Transport
from pipelines.platform.warehouse import Warehouse

TRANSPORTS: Mapping[str, Transport] = {
    "kafka": KAFKA,
    "rabbitmq": RABBITMQ,
    "rocketmq": ROCKETMQ,
    "files": FILES,
}


def transport_of(source: Source) -> Transport:
    """The transport that the source names."""
    return TRANSPORTS[source.transport]


def unread_of(transport: Transport, warehouse: Warehouse, source: Source) -> int | None:
    """How many files or messages the source's transport holds that bronze has not; None for files
    of a URI, which only a run lists.

    Raises IngestError with the reason where the transport cannot be asked now.
    """
    count = transport.unread(warehouse, source)
    if count is None and not (source.files is not None and is_uri(source.files.path)):
        transport.reach(source, warehouse.root)
    return count
