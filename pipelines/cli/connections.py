"""`ingest validate --connect`: whether what each source names is there, found out without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ingest.config.sources import Files, Source
from ingest.errors import IngestError
from pipelines.bronze.kafka import knock
from pipelines.bronze.listing import is_uri, list_local
from pipelines.platform.console import counted

CONNECTION = ("kind", "source", "reachable", "told")


class Connection(NamedTuple):
    """What became of trying one source."""

    source: str
    reachable: bool
    told: str


def tried(source: Source, root: Path) -> Connection:
    """Reach for the source's brokers or files; `root` is the project's folder."""
    try:
        if source.files is not None:
            return _files(source.name, source.files, root)
        assert source.kafka is not None
        knock(source.name, source.kafka.bootstrap_servers)
    except IngestError as error:
        text = str(error).removeprefix(f"source {source.name}").removeprefix(":").strip()
        return Connection(source.name, False, text)
    text = f"a broker of {source.kafka.bootstrap_servers} is reachable; topics and login not tried"
    return Connection(source.name, True, text)


def _files(name: str, files: Files, root: Path) -> Connection:
    if is_uri(files.path):
        return Connection(name, True, f"{files.path} is read by Spark alone, not tried")
    listed, unreadable = list_local(name, files.path, root=str(root))
    text = f"{counted(len(listed), 'files')} of {files.path}"
    wrong = "".join(f"; {found}" for found in unreadable)
    return Connection(name, not unreadable, text + wrong)
