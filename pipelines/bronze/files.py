"""Files to bronze: list, number, register, append, in micro-batches, exactly once.

A batch is registered before it is appended. One that a killed run left behind is appended unless
bronze has it already; the mark in the table's log tells that, or the ordinals of its files, since
an append is one commit. The lease on the source keeps a second run away. If tables are in a
catalog, a killed run may still be at work in a cluster that outlives it. So there each append
carries the log's writer and the batch's number, and the table takes each number once. (Locally that
would double the cost of a small append, because Delta Lake computes the state of the whole table to
look a writer up.)

If the checkpoint is lost, bronze itself tells which files it has.
"""

from __future__ import annotations

import re
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from ingest.config.sources import Source
from ingest.config.transports import Files
from ingest.decode.constant_column import Read, with_constant
from ingest.errors import IngestError, PlatformError, SourceError
from ingest.files.framing import records
from ingest.files.record import in_file
from ingest.wire.contract import Message
from pipelines.bronze.by_offset.columns import COLUMNS
from pipelines.bronze.file_log import (
    FileBatch,
    FileLog,
    Listed,
    Numbered,
    files_in_bronze,
    known_by,
    located,
)
from pipelines.bronze.listing import (
    escaped,
    held_whole,
    is_uri,
    list_local,
    list_uri,
    most_held,
    openable,
)
from pipelines.bronze.records import Unreadable, by_content, by_path, unreadable
from pipelines.bronze.transport import Bronze, Reached, Sampling, Stop, Transport
from pipelines.bronze.trimmed import trimmed
from pipelines.platform.checkpoints import damaged_file
from pipelines.platform.failures import gist, log_hint
from pipelines.platform.session import spark
from pipelines.platform.warehouse import BRONZE, Warehouse
from pipelines.terminal.console import counted

MOST_FILES = 1000
MOST_BYTES = 1 << 30
# A task that gets the contents of files from Spark holds several at once.
MOST_CONTENT = 128 << 20
# Fewer tasks than files, since starting a task costs as much as reading some hundred kilobytes.
TASK_BYTES = 32 << 20
_TELL_OF_THE_NEXT = 20
"""From how many of the last files the number of messages in the next ones is estimated."""
_OF_A_FILE = re.compile(r"\[(PATH_NOT_FOUND|FAILED_READ_FILE)")
"""Matches what Spark says about a file that it cannot read."""
_STAMPED = f"{COLUMNS}, ingested_at timestamp"


def append(warehouse: Warehouse, source: Source, stop: Stop) -> Bronze:
    """Appends the records of all files not read before; heeds `stop` between micro-batches.

    Raises:
        PlatformError: the folder does not exist.
        SourceError: Spark could not read or append, or the log of the files is damaged.
    """
    files = _declared(source)
    log, root = file_log(warehouse, source.name), warehouse.root
    bad: list[Unreadable] = []
    if is_uri(files.path):
        listed = list_uri(warehouse.session, source.name, files.path)
    else:
        listed, bad = list_local(source.name, files.path, root=root)
    reader = _Reader(warehouse, source, files, log=log, bad=bad)
    notes = reader.adopt(listed) if log.new else []
    messages = reader.offer_again()
    changed = reader.changed(listed)
    new = _ordered([file for file in listed if file.path not in log.files], files)
    for part in _parts(new, MOST_CONTENT if is_uri(files.path) else MOST_BYTES):
        if stop():
            break
        messages += reader.append_new(part)
    # A pattern with a slip in it matches nothing for good, and fails nowhere.
    nothing = not listed and not bad and not log.files
    notes += [f"no file matches {files.path} so far"] if nothing else []
    told = tuple(notes)
    return Bronze(source.name, messages, tuple(sorted(changed)), tuple(sorted(bad)), notes=told)


def reach(source: Source, root: str) -> Reached:
    """Counts the files that match now, those of a URI by Spark; raises PlatformError if their
    folder does not exist or the store does not answer."""
    path = _declared(source).path
    if is_uri(path):
        listed = list_uri(_any_session(), source.name, path)
        return Reached(True, f"{counted(len(listed), 'files')} of {path}")
    listed, unreadable = list_local(source.name, path, root=root)
    wrong = "".join(f"; {found}" for found in unreadable)
    return Reached(not unreadable, f"{counted(len(listed), 'files')} of {path}{wrong}")


def _any_session() -> SparkSession:
    """A Spark session for callers without tables."""
    with tempfile.TemporaryDirectory(prefix="ingest-", ignore_cleanup_errors=True) as scratch:
        return spark(warehouse=Path(scratch))


def sample(source: Source, root: str, sampling: Sampling) -> list[Message]:
    """A few records of the newest files, or of the oldest; raises PlatformError if their folder
    does not exist or only Spark could list them."""
    declared = _declared(source)
    if is_uri(declared.path):
        raise PlatformError(
            f"source {source.name}: {declared.path} is read by Spark alone; name a copied file"
        )
    listed, _ = list_local(source.name, declared.path, root=root)
    found: deque[Message] = deque()
    ordered = list(enumerate(_ordered(listed, declared)))
    for number, file in reversed(ordered) if sampling.newest else ordered:
        left = sampling.limit - len(found)
        if left <= 0:
            break
        read = _first_or_last(file.path, number, declared, root=root, count=left, sampling=sampling)
        if sampling.newest:
            found.extendleft(reversed(read))
        else:
            found.extend(read)
    return list(found)


def _first_or_last(
    path: str, number: int, declared: Files, *, root: str, count: int, sampling: Sampling
) -> list[Message]:
    """The first records of a file, or its last ones, for which the whole file is read."""
    with open(located(path, root), "rb") as stream:
        messages = (
            Message.of(
                in_file(record, number, path) if declared.framing == "kcat" else record,
                path,
                partition=number,
                offset=at,
            )
            for at, record in enumerate(records(stream, declared.framing, name=path))
        )
        return list(deque(messages, count) if sampling.newest else islice(messages, count))


def _ordered(files: list[Listed], declared: Files) -> list[Listed]:
    """The files in the order in which they are numbered."""
    if declared.order == "path":
        return sorted(files, key=lambda file: file.path)
    return sorted(files, key=lambda file: (file.modified, file.path))


def unread(warehouse: Warehouse, source: Source) -> int | None:
    """How many files bronze has not read; None if only Spark could list them, or if they cannot be
    listed now. Raises SourceError if the log of files is damaged."""
    new = _unread(warehouse, source, file_log(warehouse, source.name))
    return None if new is None else len(new)


def messages_to_read(warehouse: Warehouse, source: Source) -> int | None:
    """About how many messages the files have that bronze has not read, judging by how many the last
    files had for their size. None if that is not known, as with the first files."""
    log = file_log(warehouse, source.name)
    new = _unread(warehouse, source, log)
    if not new:
        return None if new is None else 0
    waits = log.pending.files if log.pending is not None else ()
    read = sorted(set(log.files.values()) - set(waits), key=lambda file: file.ordinal)
    last = read[-_TELL_OF_THE_NEXT:]
    size = sum(file.size for file in last)
    if not size or not warehouse.exists("bronze", "messages"):
        return None
    stored = files_in_bronze(warehouse, source.name)
    messages = stored.where(F.col("ordinal").isin([file.ordinal for file in last])).count()
    return round(sum(file.size for file in new) * messages / size) if messages else None


def _unread(warehouse: Warehouse, source: Source, log: FileLog) -> list[Listed] | None:
    path = _declared(source).path
    if is_uri(path):
        return None
    try:
        listed, _ = list_local(source.name, path, root=warehouse.root)
    except IngestError:
        return None
    return [file for file in listed if file.size and file.path not in log.files]


FILES = Transport(append, reach, sample, unread)


def _declared(source: Source) -> Files:
    assert source.files is not None
    return source.files


def file_log(warehouse: Warehouse, source: str) -> FileLog:
    """Which files bronze has read of a source; raises SourceError if the log is damaged."""
    folder = warehouse.checkpoint("bronze", source, "files")
    try:
        return FileLog(folder, root=warehouse.root)
    except (OSError, ValueError, LookupError, TypeError) as error:
        then = "bronze goes on after the files that it holds"
        raise damaged_file(source, folder, error, remove=folder, then=then) from error


class _Reader:
    """Appends batches of one source; adds to `bad` the files that turn out to be unreadable."""

    def __init__(
        self,
        warehouse: Warehouse,
        source: Source,
        files: Files,
        *,
        log: FileLog,
        bad: list[Unreadable],
    ) -> None:
        self._warehouse = warehouse
        self._source = source
        self._files = files
        self._log = log
        self._bad = bad

    def adopt(self, listed: Sequence[Listed]) -> list[str]:
        """Fills a new log with the files that bronze has, as they are now, and with those that it
        may have had until retention removed their messages; gives the sentences on the latter."""
        now = {file.path: file for file in listed}
        held = {}
        found = files_in_bronze(self._warehouse, self._source.name).distinct()
        stored = sorted((row["ordinal"], row["path"]) for row in found.collect())
        # A path that was read twice has two ordinals; the later one counts.
        for ordinal, name in stored:
            path = known_by(name, self._warehouse.root)
            file = now.get(path, Listed(path, 0, 0))
            held[path] = Numbered(path, ordinal, *file[1:])
        gone = trimmed(self._warehouse, self._source.name)
        following = max(gone.following(), *(ordinal + 1 for ordinal, _ in stored[-1:]), 0)
        old = [f for f in listed if f.path not in held and f.modified < gone.until * 1e9]
        past = [Numbered(f.path, following + place, *f[1:]) for place, f in enumerate(old)]
        if held or gone.until:
            self._log.adopt([*held.values(), *past], following=following)
        if not old:
            return []
        when = datetime.fromtimestamp(gone.until, UTC).isoformat(timespec="seconds")
        return [
            f"{counted(len(old), 'files')} from before {when}, such as {min(old).path}, are taken "
            "as read: the log of what was read is lost, and retention has emptied bronze until "
            "then; give those another name that were not read"
        ]

    def changed(self, listed: Sequence[Listed]) -> list[str]:
        """The files that are no longer what was read. A copy with another time is the same file,
        and the log has it with that time from then on."""
        log = self._log.files
        suspected = {f.path: f for f in listed if f.path in log and log[f.path].changed(f)}
        same_size = [f for f in suspected.values() if f.size == log[f.path].size]
        if not is_uri(self._files.path):
            looked_at, _ = openable(
                (f for f in same_size if log[f.path].digest is not None), root=self._warehouse.root
            )
            copies = [f for f in looked_at if log[f.path].copied(f)]
            if copies:
                self._log.adopt([Numbered(f.path, log[f.path].ordinal, *f[1:]) for f in copies])
            for file in copies:
                del suspected[file.path]
        return list(suspected)

    def offer_again(self) -> int:
        """Appends the batch that a killed run registered, unless bronze has it."""
        batch = self._log.pending
        if batch is None:
            return 0
        # Bronze has no row of files without a record, and Delta takes no append twice.
        if self._warehouse.has_append("bronze", "messages", (self._log.writer, batch.number)):
            self._log.done(batch)
            return 0
        ordinals = F.col("ordinal").isin([file.ordinal for file in batch.files])
        # Bronze from before files were known by their place in the project has their whole paths.
        known = {
            name for f in batch.files for name in (f.path, located(f.path, self._warehouse.root))
        }
        paths = F.col("path").isin(sorted(known))
        stored = files_in_bronze(self._warehouse, self._source.name)
        if stored.where(ordinals & paths).limit(1).count():
            self._log.done(batch)
            return 0
        return self._append(batch)

    def append_new(self, files: Sequence[Listed]) -> int:
        """Registers and appends those of the files that can be read; gives the number of their
        messages. One without a byte is yet to be written: if it was read now, it would stay as read
        for good."""
        if is_uri(self._files.path):
            good, bad = held_whole(files, most=most_held(self._warehouse.session))
        else:
            good, bad = openable(files, root=self._warehouse.root)
        self._bad += bad
        good = [file for file in good if file.size or self._has_bytes(file)]
        return self._append(self._log.register(good)) if good else 0

    def _has_bytes(self, file: Listed) -> bool:
        """Whether a file has some although it is said to have none, as file systems do that make
        its content when it is read."""
        if is_uri(self._files.path):
            return False
        try:
            with open(located(file.path, self._warehouse.root), "rb", buffering=0) as stream:
                return bool(stream.read(1))
        except OSError:
            # Who reads it says what is wrong with it.
            return True

    def _append(self, batch: FileBatch) -> int:
        """Appends a batch without the files that turn out to be unreadable; gives the number of its
        messages."""
        once = (self._log.writer, batch.number)
        messages = 0
        while batch.files:
            observed = Observation()
            try:
                rows = self._rows(batch.files)
                rows = rows.observe(observed, F.count(F.lit(1)).alias("messages"))
                self._warehouse.append(rows, "bronze", "messages", once=once)
            except IngestError:
                raise
            except Exception as error:
                # The failure of a task comes as an error of Spark or, untranslated, of Py4J.
                bad = self._unreadable(batch.files, error)
                if not bad:
                    raise SourceError(
                        f"source {self._source.name}: Spark could not append a batch of"
                        f" {len(batch.files)} files to bronze: {gist(error)}{log_hint()}"
                    ) from error
                self._bad += bad
                batch = self._log.drop(batch, {file.path for file in bad})
            else:
                messages = int(observed.get["messages"])
                break
        self._log.done(batch)
        return messages

    def _unreadable(self, files: Sequence[Numbered], error: Exception) -> list[Unreadable]:
        """The files because of which an append failed; none if it failed for another reason."""
        named = unreadable(error)
        if named is not None:
            return [named]
        if not is_uri(self._files.path) or not _OF_A_FILE.search(str(error)):
            return []
        session = self._warehouse.session
        listed = list_uri(session, self._source.name, self._files.path)
        there = {file.path: file for file in listed}
        gone = [Unreadable(file.path, "it is gone") for file in files if file.path not in there]
        _, large = held_whole(
            [there[f.path] for f in files if f.path in there], most=most_held(session)
        )
        if gone or large:
            return gone + large
        readable = self._contents(files, ignoreCorruptFiles="true", ignoreMissingFiles="true")
        found = readable.select("path", F.length("content")).collect()
        read = {path for path, _ in found}
        return [Unreadable(f.path, gist(error)) for f in files if f.path not in read]

    def _contents(self, files: Sequence[Numbered], **options: str) -> DataFrame:
        """The paths and contents of files of a URI."""
        reader = self._warehouse.session.read.format("binaryFile").options(**options)
        return reader.load([escaped(file.path) for file in files]).select("path", "content")

    def _rows(self, files: Sequence[Numbered]) -> DataFrame:
        session = self._warehouse.session
        framing, most = self._files.framing, self._source.limits.unpacked_bytes
        if is_uri(self._files.path):
            read = self._contents(files).mapInArrow(
                _stamped(by_content(files, framing, most=most)), _STAMPED
            )
        else:
            groups = _groups(files)
            numbers = session.range(0, len(groups), 1, len(groups))
            reads = by_path(groups, framing, most=most, root=self._warehouse.root)
            read = numbers.mapInArrow(_stamped(reads), _STAMPED)
        rows = read.withColumns(
            {
                "source": F.lit(self._source.name),
                "epoch": F.lit(self._source.epoch).cast("bigint"),
            }
        )
        return rows.select([name for name, _ in BRONZE])


def _stamped(read: Read) -> Read:
    """What `read` gives, with the present time as the time of ingestion."""
    now = pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC"))
    return with_constant(read, "ingested_at", now)


def _parts(files: Sequence[Listed], most_bytes: int) -> Iterator[list[Listed]]:
    """The files in micro-batches, in order: not too many and not too large."""
    part: list[Listed] = []
    size = 0
    for file in files:
        if part and (len(part) == MOST_FILES or size + file.size > most_bytes):
            yield part
            part = []
            size = 0
        part.append(file)
        size += file.size
    if part:
        yield part


def _groups(files: Sequence[Numbered]) -> list[list[Numbered]]:
    """The files of each task: the largest files first, each to the task that has the least so
    far."""
    tasks = max(1, min(len(files), sum(file.size for file in files) // TASK_BYTES))
    groups: list[list[Numbered]] = [[] for _ in range(tasks)]
    sizes = [0] * tasks
    for file in sorted(files, key=lambda file: -file.size):
        least = sizes.index(min(sizes))
        groups[least].append(file)
        # An empty file is work too.
        sizes[least] += file.size + 1
    return groups
