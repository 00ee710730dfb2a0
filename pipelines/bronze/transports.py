"""The transports, by the keys of a source's YAML that name them."""

from __future__ import annotations

from collections.abc import Mapping

from ingest.config.sources import Source
from pipelines.bronze.files import FILES
from pipelines.bronze.kafka import KAFKA
from pipelines.bronze.rabbitmq import RABBITMQ
from pipelines.bronze.rocketmq import ROCKETMQ
from pipelines.bronze.transport import Transport

TRANSPORTS: Mapping[str, Transport] = {
    "kafka": KAFKA,
    "rabbitmq": RABBITMQ,
    "rocketmq": ROCKETMQ,
    "files": FILES,
}


def transport_of(source: Source) -> Transport:
    """The transport that the source names."""
    return TRANSPORTS[source.transport]
