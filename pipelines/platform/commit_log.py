"""The log of a table in a folder, read directly: a query of it costs a quarter of a CPU second."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DRAFT = 5.0
"""Seconds after which the draft of a first commit is abandoned."""
_LOOKED_AT = 64
"""How many commits are read to find whether one of them defines the table anew."""

CHECKED = 100
"""How many of the newest commits keep their checksums: at least those since the last checkpoint."""
_RETENTION = "delta.logRetentionDuration"
"""The property of a table that says how long Delta keeps its commits, 30 days without it."""
_LATER = 60_000
"""Milliseconds by which Delta may look at its clock later than this was worked out."""
_CHECKSUM = re.compile(r"(?:(\d{20})|\.(\d{20})\.(?:json|crc))\.crc")


class Commit(NamedTuple):
    """One commit of a table's log: `at` is when it was made, as the log has it, `note` its user
    metadata, `metrics` Delta's own counts, `parameters` those of the operation."""

    version: int
    at: str
    operation: str | None
    note: str | None
    metrics: Mapping[str, str]
    parameters: Mapping[str, str] = {}

    @property
    def mark(self) -> tuple[str, int]:
        """Who appended, a stream or `Warehouse.append`, and the number of the append; ('', -1)
        where that is not told."""
        if "queryId" in self.parameters:
            return self.parameters["queryId"], int(self.parameters["epochId"])
        writer, _, number = (self.note or "").partition(" ")[0].rpartition("/")
        return (writer, int(number)) if number.isdecimal() else ("", -1)


class CommitFile(NamedTuple):
    """A commit's file, as that of a table made again in its place is not: `made` in ns."""

    version: int
    made: int
    number: int


def clear_failed_creation(log: Path) -> None:
    """Remove what a failed creation left, say for want of space: Delta takes a log for that of a
    table even if it only holds the draft of a commit. A young draft may belong to another process
    that is just creating the table, and is waited for; not longer than that, since the clock that
    gave it its time may be ahead of this machine's."""
    began = time.monotonic()
    while drafts := [file for file in log.glob(".*") if not any(log.glob("*.json"))]:
        with suppress(FileNotFoundError):
            age = time.time() - max(file.stat().st_mtime for file in drafts)
            if max(age, time.monotonic() - began) > _DRAFT:
                for file in drafts:
                    file.unlink()
                break
        time.sleep(_DRAFT / 10)
    for empty in (log / "_staged_commits", log):
        with suppress(OSError):
            empty.rmdir()


def clear_checksums(log: Path, end: CommitFile) -> None:
    """Remove the checksums of all but the newest commits: those of Delta, of the table's state,
    which only the end of the log needs, and those of Hadoop, of both files, which are read
    unchecked without them. They are three of the four files of a commit, and Delta lists the whole
    folder whenever it looks for new commits."""
    with os.scandir(log) as files:
        names = [file.name for file in files if file.name.endswith(".crc")]
    for name in names:
        found = _CHECKSUM.fullmatch(name)
        if found is not None and int(found[1] or found[2]) <= end.version - CHECKED:
            (log / name).unlink(missing_ok=True)


def clear_commits(session: SparkSession, table: Path, *, below: int, older: int) -> None:
    """Remove commits below a version that are older than so many seconds. Delta does that with
    those of 30 days ago: as far as the table's state is written completely at a later one. A table
    whose properties say what is kept of its log is left to Delta."""
    first = _commit_file(table / "_delta_log", below)
    jvm = session.sparkContext._jvm
    if first is None or jvm is None:
        return
    delta = jvm.org.apache.spark.sql.delta
    log = delta.DeltaLog.forTable(session._jsparkSession, str(table))
    snapshot = log.unsafeVolatileSnapshot()
    metadata = snapshot.metadata()
    if metadata.configuration().contains(_RETENTION) or not log.enableExpiredLogCleanup(metadata):
        return
    age = max((time.time_ns() - first.made) // 1_000_000, older * 1_000) + _LATER
    kept = jvm.scala.jdk.javaapi.OptionConverters.toScala(jvm.java.util.OptionalLong.of(age))
    catalogued = getattr(log, "cleanUpExpiredLogs$default$2")()
    log.cleanUpExpiredLogs(snapshot, catalogued, kept, delta.TruncationGranularity.MINUTE())


def any_commit(log: Path) -> bool:
    """Whether there is a commit: the first few files of a log tell."""
    try:
        with os.scandir(log) as files:
            return any(file.name.endswith(".json") for file in files)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False


def end_of(log: Path, known: CommitFile | None) -> CommitFile | None:
    """Where the log ends; None if there is no commit. `known`: where it ended when last asked, from
    where it is followed."""
    end = known if known is not None and _commit_file(log, known.version) == known else None
    if end is None:
        versions = (int(file.stem) for file in log.glob("*.json") if file.stem.isdigit())
        end = _commit_file(log, max(versions, default=-1))
    while end is not None and (beyond := _commit_file(log, end.version + 1)) is not None:
        end = beyond
    return end


def commits(log: Path, end: CommitFile | None, most: int) -> list[Commit]:
    """The newest commits up to `end`, the last one first."""
    newest = end.version if end is not None else -1
    found = (_file(log, version) for version in range(newest, max(-1, newest - most), -1))
    return [_commit(file) for file in found if file.exists()]


def defined_since(log: Path, before: CommitFile, now: CommitFile) -> bool:
    """Whether some commit after `before`, up to `now`, may have changed the table's columns or
    properties."""
    if _commit_file(log, before.version) != before or now.version - before.version > _LOOKED_AT:
        return True
    try:
        return any(
            line.startswith(b'{"metaData"')
            for version in range(before.version + 1, now.version + 1)
            for line in _file(log, version).read_bytes().splitlines()
        )
    except FileNotFoundError:
        return True


def _commit_file(log: Path, version: int) -> CommitFile | None:
    try:
        found = _file(log, version).stat()
    except FileNotFoundError:
        return None
    return CommitFile(version, found.st_mtime_ns, found.st_ino)


def _commit(file: Path) -> Commit:
    lines = file.read_bytes().splitlines()
    infos = [orjson.loads(line)["commitInfo"] for line in lines if b'"commitInfo"' in line]
    info = infos[0] if infos else {}
    return Commit(
        int(file.stem),
        str(info.get("timestamp")),
        info.get("operation"),
        info.get("userMetadata"),
        info.get("operationMetrics") or {},
        info.get("operationParameters") or {},
    )


def _file(log: Path, version: int) -> Path:
    return log / f"{version:020}.json"
