"""`ingest validate --connect`: whether what each source names is there.

Without Spark, but for files that only Spark can list.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ingest.config.sources import Source
from ingest.errors import IngestError
from pipelines.bronze.transports import transport_of

CONNECTION = ("kind", "source", "reachable", "told")


class Connection(NamedTuple):
    """What became of trying one source."""

    source: str
    reachable: bool
    told: str


def tried(source: Source, root: Path) -> Connection:
    """Reach for what the source names; `root` is the project's folder."""
    try:
        reached = transport_of(source).reach(source, str(root))
    except IngestError as error:
        text = str(error).removeprefix(f"source {source.name}").removeprefix(":").strip()
        return Connection(source.name, False, text)
    return Connection(source.name, reached.whole, reached.text)
