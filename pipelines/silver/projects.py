"""Which project a source of the warehouse belongs to.

Everything that comes from a source is stored under its name alone. If two projects on one warehouse
gave one name to different data, they would share its bronze, its progress and its tables. So the
first project is noted, in `<checkpoints>/projects/<source>.json`, and the other is refused. A
project that was moved or copied together with its warehouse, or that reads elsewhere than before,
stays the same project.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from ingest.config.sources import Source
from ingest.config.yaml import read
from ingest.errors import SourceError
from pipelines.platform.checkpoints import read_whole, write_whole
from pipelines.platform.warehouse import Warehouse

_NAMED = 3
"""Topics that a sentence names."""


class Reads(msgspec.Struct):
    """What a source reads: `servers` with its topics or queues, or the folder of its files, as a
    path and, if it lies in the project, relative to that."""

    transport: str
    servers: list[str] = []
    names: list[str] = []
    pattern: str | None = None
    inside: str | None = None

    def shares(self, other: Reads, *, moved: bool = False) -> bool:
        """Whether both may be the same data; `moved`: wherever its folder or server is now."""
        if self.transport != other.transport:
            return False
        if self.inside is not None and moved:
            return self.inside == other.inside
        if self.servers and not moved and not set(self.servers) & set(other.servers):
            return False
        if self.pattern is not None and self.pattern == other.pattern:
            return True
        return bool(
            set(self.names) & set(other.names) or _match(self, other) or _match(other, self)
        )

    def __str__(self) -> str:
        more = ", …" if len(self.names) > _NAMED else ""
        names = self.pattern or ", ".join(self.names[:_NAMED]) + more
        return f"{names} of {', '.join(self.servers)}" if self.servers else names


class _Note(msgspec.Struct):
    """`conf`: the project's folder of YAML. `place`: where the note was written; it is elsewhere
    once the warehouse was moved or copied. `epoch`: that of the source."""

    conf: str
    place: str
    reads: Reads
    epoch: int = 0


def take(warehouse: Warehouse, source: str) -> None:
    """Note that the source is this project's; raises SourceError if it is another's."""
    noted, now = _notes(warehouse, source)
    _check(noted, now, source)
    if noted != now:
        write_whole(Path(now.place), msgspec.json.encode(now))


def check(warehouse: Warehouse, source: str) -> None:
    """Raise SourceError if the source's name belongs to another project, or if its epoch was
    lowered."""
    _check(*_notes(warehouse, source), source)


def check_owner(warehouse: Warehouse, source: str) -> None:
    """Raise SourceError if the source's name belongs to another project."""
    _check_owner(*_notes(warehouse, source), source)


def _check(noted: _Note | None, now: _Note, source: str) -> None:
    if noted is not None and now.epoch < noted.epoch:
        raise SourceError(
            f"source {source}: expected the epoch {noted.epoch} that it has come to, or a higher "
            f"one, got {now.epoch}: what comes would lie below all that came. Put `epoch: "
            f"{noted.epoch}` back, or begin anew by `ingest reset --source {source} --bronze`"
        )
    _check_owner(noted, now, source)


def _check_owner(noted: _Note | None, now: _Note, source: str) -> None:
    if noted is not None and noted.place == now.place and _another(noted, now, source):
        raise SourceError(
            f"source {source}: expected it to be of one project, got two: on this warehouse it is "
            f"that of {noted.conf}, which reads {noted.reads}, and {now.conf} reads {now.reads}. "
            "Give this source another name, or this project a warehouse of its own; if it takes "
            f"the other's place, remove {now.place} and run again"
        )


def forget(warehouse: Warehouse, source: str) -> None:
    """Note that bronze has nothing of the source any more."""
    Path(warehouse.checkpoint("projects", f"{source}.json")).unlink(missing_ok=True)


def reads(source: Source, root: Path) -> Reads:
    """What the source reads; `root` is the project's folder."""
    if source.files is not None:
        before_wildcards = re.match(r"(?:\[[*?[]\]|[^*?[])*", source.files.path)
        assert before_wildcards is not None, "an empty match is one"
        folder = os.path.dirname(re.sub(r"\[([*?[])\]", r"\1", before_wildcards[0]))
        inside = os.path.relpath(folder, root) if Path(folder).is_relative_to(root) else None
        return Reads("files", names=[folder], inside=inside)
    if source.kafka is not None:
        servers = source.kafka.bootstrap_servers.split(",")
        topics, pattern = source.kafka.topics or (), source.kafka.topics_pattern
        return Reads("kafka", [server.strip() for server in servers], [*topics], pattern)
    if source.rocketmq is not None:
        return Reads("rocketmq", [*source.rocketmq.addresses], [*source.rocketmq.topics])
    assert source.rabbitmq is not None, "a source has one of these transports"
    rabbitmq = source.rabbitmq
    names = rabbitmq.queues or (rabbitmq.super_stream or "",)
    servers = [f"{host.strip()} {rabbitmq.virtual_host}" for host in rabbitmq.servers.split(",")]
    return Reads("rabbitmq", servers, [*names])


def _match(one: Reads, other: Reads) -> bool:
    """Whether the pattern of one means a topic of the other."""
    if one.pattern is None:
        return False
    # As in `ingest.config.transports`: Kafka's patterns are Java's.
    pattern = re.compile(re.sub(r"\\[pP]\{\w+\}", r"\\w", one.pattern))
    return any(pattern.fullmatch(name) for name in other.names)


def _another(noted: _Note, now: _Note, source: str) -> bool:
    """Whether the note is of another project, and its source not the same data."""
    if (
        noted.conf == now.conf
        or _same_folder(noted.conf, now.conf)
        or noted.reads.shares(now.reads)
    ):
        return False
    return _declares(noted.conf, source) or not noted.reads.shares(now.reads, moved=True)


def _same_folder(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _declares(conf: str, source: str) -> bool:
    """Whether the YAML in a folder has a source of that name, or cannot be read. False if the
    folder is gone or on another machine."""
    documents = [read(file, environ={})[0] for file in Path(conf).glob("sources/*.yml")]
    return any(
        not document.parsed
        or (isinstance(document.value, dict) and document.value.get("name") == source)
        for document in documents
    )


def _notes(warehouse: Warehouse, source: str) -> tuple[_Note | None, _Note]:
    """The note there is, None if there is none; and the note as it would be now."""
    file = Path(warehouse.checkpoint("projects", f"{source}.json"))
    config = warehouse.config
    declared = config.sources[source]
    now = _Note(
        os.path.abspath(config.conf), str(file), reads(declared, config.root), declared.epoch
    )
    then = "the first project that does so has the source"
    return read_whole(file, _Note, source=source, then=then), now
