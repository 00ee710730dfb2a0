"""What every transport has: the verbs by which its messages come to bronze."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ingest.config.sources import Source
from ingest.wire.contract import Message
from pipelines.bronze.records import Unreadable
from pipelines.platform.warehouse import Warehouse

Stop = Callable[[], bool]
"""Asked between micro-batches, and during one: whether to end."""


class Bronze(NamedTuple):
    """What one run read of a source.

    `files_changed` are files that are no longer what was read; `files_unreadable` those that could
    not be read now; `failed` are sentences on what else failed. If there are any of these, the rest
    went on, and the run is reported as incomplete. `lost` are sentences on messages that were gone
    before they were read, from a source that is to go on after that; `notes` are sentences on what
    may be a mistake.
    """

    source: str
    messages: int
    files_changed: tuple[str, ...] = ()
    files_unreadable: tuple[Unreadable, ...] = ()
    failed: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Reached(NamedTuple):
    """The result of trying a source: whether everything is there, and the sentence that says so."""

    whole: bool
    text: str


class Waiting(NamedTuple):
    """What a partition has beyond what bronze has read: `start` is the offset with which the next
    run begins, `end` the one that its next message will have."""

    topic: str
    partition: int
    start: int
    end: int


class Sampling(NamedTuple):
    """How many messages to look at, and which: the newest ones, or the oldest that are there."""

    limit: int
    newest: bool


class Transport(NamedTuple):
    """One way in which messages come in; a module of this package.

    `append` brings what is new to `bronze.messages`, each message once, whatever is killed on the
    way, and gives what it read. It raises PlatformError if nobody answers, and SourceError if the
    source cannot be read from the place that it has reached.

    `reach` tries whether the source is there, without Spark except for files that only Spark can
    list; relative paths begin in the folder that is its second argument. It raises IngestError with
    the sentence if the source is not there.

    `sample` gives a few messages of what is there now, in order, without Spark. They do not count
    as read, and bronze is not asked. It raises as `reach` does.

    `unread` counts what the transport has and bronze does not: files, or messages of queues and
    topics. None: that is not known, or not now. It raises SourceError if a run could not go on from
    the place that the source has reached, although something answers.

    `waiting`, if the transport has it, says by partition which messages there are beyond those that
    bronze has read. It raises IngestError if that is not known.
    """

    append: Callable[[Warehouse, Source, Stop], Bronze]
    reach: Callable[[Source, str], Reached]
    sample: Callable[[Source, str, Sampling], list[Message]]
    unread: Callable[[Warehouse, Source], int | None]
    waiting: Callable[[Warehouse, Source], list[Waiting]] | None = None
