"""What every transport has: the verbs by which its messages come to bronze."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ingest.config.sources import Source
from ingest.wire.contract import Message
from pipelines.bronze.records import Unreadable
from pipelines.platform.warehouse import Warehouse

Stop = Callable[[], bool]
"""Asked between micro-batches, and while one is at work: whether to end."""


class Bronze(NamedTuple):
    """What one run read of a source.

    `files_changed` are files that are no longer what was read, `files_unreadable` those that could
    not be read now, `failed` sentences on what else did not come about; the rest went on, and the
    run is to be reported as incomplete where there are any. `lost` are sentences on messages that
    were gone before they were read, where the source is to go on after them; `notes` sentences on
    what may be meant otherwise.
    """

    source: str
    messages: int
    files_changed: tuple[str, ...] = ()
    files_unreadable: tuple[Unreadable, ...] = ()
    failed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Reached(NamedTuple):
    """What trying a source found: whether all of it is there, and the sentence that says so."""

    whole: bool
    text: str


class Waiting(NamedTuple):
    """What a partition holds beyond what bronze has read: `start` is the offset that the next run
    begins with, `end` the one that its next message will have."""

    topic: str
    partition: int
    start: int
    end: int


class Sampling(NamedTuple):
    """How many messages to look at, and which: the newest, or the oldest that are there."""

    limit: int
    newest: bool


class Transport(NamedTuple):
    """One way in which messages come, a module of this package.

    `append` brings what is new to `bronze.messages`, each message once, whatever is killed on the
    way, and gives what it read. It raises PlatformError where nobody answers and SourceError where
    the source cannot be read from where it stands.

    `reach` tries whether the source is there, without Spark but for files that only Spark can list;
    relative files start at the folder that is its second argument. It raises IngestError with the
    sentence where it is not.

    `sample` gives a few messages of what is there now, in order, without Spark; none is taken as
    read, and bronze is not asked. It raises as `reach` does.

    `unread` counts what the transport holds and bronze has not: files, or messages of queues and
    topics. None: it cannot be told, or not now. It raises SourceError where a run could not go on
    from where the source stands, though something answers.

    `waiting`, where the transport has one, says by partition which messages there are beyond those
    that bronze has read. It raises IngestError where that cannot be told.
    """

    append: Callable[[Warehouse, Source, Stop], Bronze]
    reach: Callable[[Source, str], Reached]
    sample: Callable[[Source, str, Sampling], list[Message]]
    unread: Callable[[Warehouse, Source], int | None]
    waiting: Callable[[Warehouse, Source], list[Waiting]] | None = None
