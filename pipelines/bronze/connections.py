"""`ingest validate --connect`: whether what each source names is there.

It needs no Spark, except for files that only Spark can list.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from ingest.config.sources import Source
from ingest.errors import IngestError
from pipelines.bronze.transports import transport_of

_SECONDS = 5
CONNECTION = ("kind", "source", "reachable", "told")


class Connection(NamedTuple):
    """The result of trying one source."""

    source: str
    reachable: bool
    told: str


def tried(source: Source, root: Path) -> Connection:
    """Try to reach what the source names, schemas included; `root` is the project's folder."""
    try:
        reached = transport_of(source).reach(source, str(root))
    except IngestError as error:
        text = str(error).removeprefix(f"source {source.name}").removeprefix(":").strip()
        return Connection(source.name, False, text)
    lacking = _lacking_schemas(source)
    if lacking is not None:
        return Connection(source.name, False, f"{reached.text}; {lacking}")
    return Connection(source.name, reached.whole, reached.text)


def _lacking_schemas(source: Source) -> str | None:
    """Why the schemas that messages refer to cannot be found, if the source says where they are."""
    folder, registry = (source.options.get(name) for name in ("schema_folder", "schema_registry"))
    if folder and not Path(folder).is_dir():
        return f"there is no folder {folder}: create it or correct options.schema_folder"
    if not registry:
        return None
    url = urlsplit(registry)
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        socket.create_connection((url.hostname or "", port), timeout=_SECONDS).close()
    except OSError as error:
        why = error.strerror or error
        return (
            f"no registry answers at {url.hostname}:{port} ({why}): start it or correct "
            "options.schema_registry"
        )
    return None
