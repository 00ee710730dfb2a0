"""Files beside the streams, written whole or not at all; and what to say of a damaged one.

A checkpoint and its table must be from the same moment, and a backup may bring back only one of
them. A checkpoint that is ahead of its table leaves out what the table lost. One that is behind
numbers its appends like others before them, and Spark's sink, or Delta in a catalog, takes these
for done. So a checkpoint notes the newest commit of its table that it knows. Before work goes on
from it, that commit has to be there, no later one may have put an older state of the table in
place, and no append by this checkpoint may have a number that it has not given. A process checks
that only once.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar

from ingest.errors import PlatformError, SourceError
from pipelines.platform.commit_log import Commit

if TYPE_CHECKING:
    from pipelines.platform.warehouse import Warehouse

T = TypeVar("T")
LOOKED_AT = 1_000
"""How many commits after the noted one are looked at."""
_FEW = 50
"""After this many commits the newest one is noted, so that a quiet source does not look at the
commits of others again and again."""
GONE = "gone"
"""The folder of checkpoints that are being removed."""
_RESTORES = ("RESTORE", "CLONE")
COPIES = "what it has is taken up once more, and copies count once: no gold table changes"


def write_whole(file: Path, content: bytes) -> None:
    """Write a file so that a reader finds the old one or the new one, whoever else writes it and
    whenever the process or the power ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    # Under a name of its own, since another driver may write the file at the same moment.
    draft = file.with_name(f"{file.name}.{uuid.uuid4().hex}.draft")
    try:
        with draft.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


def remove(warehouse: Warehouse, folder: str) -> None:
    """Remove a folder of the checkpoints in one step, if it is there. From a part of it the next
    run would learn that some files were read and others were not."""
    gone = Path(warehouse.checkpoint(GONE))
    gone.mkdir(parents=True, exist_ok=True)
    # If a platform cannot rename folders, its files are removed one by one.
    with suppress(OSError):
        Path(folder).rename(gone / uuid.uuid4().hex)
    for left in (folder, gone):
        shutil.rmtree(left, ignore_errors=True)


def read_note(file: Path) -> dict[str, Any]:
    """The JSON object in a file that only saves work and may be lost; empty if there is none. Notes
    from which work goes on are read by `read_whole`."""
    try:
        found = json.loads(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_whole(file: Path, of: type[T], *, source: str | None, then: str) -> T | None:
    """The JSON in a note from which a source goes on (None: all sources do); None if there is none.

    Raises SourceError, or PlatformError, if it is damaged: going on without it would be guessing.
    """
    # Streams start processes that import this module and read no note.
    import msgspec

    try:
        return msgspec.json.decode(file.read_bytes(), type=of)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise damaged_note(source, file, error, then=then) from error


def damaged(source: str, stream: str, *, remove: str) -> SourceError | None:
    """The sentence on a damaged checkpoint and what to do about it; None if its files are whole.

    `stream` is Structured Streaming's folder. It holds `metadata` (JSON) and, a file for each
    batch, `offsets` and `commits`: a line with a version, then lines of JSON or `-`. `remove` is
    the folder that has to be removed.
    """
    folder = Path(stream)
    for file in [
        folder / "metadata",
        *folder.glob("offsets/[0-9]*"),
        *folder.glob("commits/[0-9]*"),
    ]:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
            if file.name != "metadata" and (not lines or not lines.pop(0).startswith("v")):
                raise ValueError("it does not begin with a version")
            if not lines:
                raise ValueError("it ends too early")
            for line in lines:
                if line != "-":
                    json.loads(line)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            return damaged_file(source, file, error, remove=remove, then=COPIES)
    return None


def damaged_file(
    source: str, file: str | Path, error: Exception, *, remove: str, then: str
) -> SourceError:
    """The sentence on a file of a checkpoint that cannot be read: which, why, and what to do."""
    return SourceError(
        f"source {source}: a checkpoint is damaged, {file} cannot be read ({error}). Remove the"
        f" folder {remove} and run again: {then}."
    )


def damaged_note(
    source: str | None, file: Path, error: Exception, *, then: str
) -> SourceError | PlatformError:
    """The sentence on a note beside a checkpoint, or beside all of them, that cannot be read:
    which, why, and what to do."""
    way = f"{file} cannot be read ({error}). Remove the file and run again: {then}."
    if source is None:
        return PlatformError(f"a note beside the checkpoints is damaged, {way}")
    return SourceError(f"source {source}: a note beside its checkpoint is damaged, {way}")


def kept(warehouse: Warehouse, source: str) -> str:
    """The folder of what has to stay when a source's checkpoint in bronze is removed: the numbers
    that were given."""
    return warehouse.checkpoint("kept", source)


class _Moment(TypedDict):
    """The newest commit of a table that a checkpoint knows, and when it was made."""

    version: int
    at: str


class TableCheckpoint(NamedTuple):
    """A checkpoint in `folder`, of a source and `layer`.`table`. `given` looks up the last number
    that it has given under each name under which it appends."""

    folder: str
    source: str
    layer: str
    table: str
    given: Callable[[], Mapping[str, int]] = dict

    @property
    def file(self) -> Path:
        """The note on the table."""
        return Path(self.folder, f"of_{self.layer}.json")


def check_same_moment(warehouse: Warehouse, checkpoint: TableCheckpoint) -> None:
    """Raises SourceError if checkpoint and table are not from the same moment, or nobody can
    tell."""
    if str(checkpoint.file) in warehouse.same_moment:
        return
    then = f"the checkpoint and {checkpoint.layer}.{checkpoint.table} count as of one moment"
    noted = read_whole(checkpoint.file, _Moment, source=checkpoint.source, then=then)
    if noted is None:
        return
    version = noted["version"]
    commits = _since(warehouse, checkpoint, version)
    dated = noted["at"] if warehouse.local else None
    why = next(_differences(commits, version, checkpoint.given(), at=dated), None)
    if why is not None:
        raise SourceError(
            f"source {checkpoint.source}: its checkpoint and {checkpoint.layer}.{checkpoint.table} "
            f"are not of one moment, as when one of them was restored without the other: {why}. "
            f"Remove the folder {checkpoint.folder} and run again: {COPIES}."
        )
    note_moment(warehouse, checkpoint, news=len(commits) > _FEW)


def note_moment(warehouse: Warehouse, checkpoint: TableCheckpoint, *, news: bool) -> None:
    """Notes the newest commit of the table, if there is `news` of it or nothing is noted."""
    if news or not checkpoint.file.exists():
        newest = warehouse.last_commit(checkpoint.layer, checkpoint.table)
        known = _Moment(version=newest.version, at=newest.at)
        write_whole(checkpoint.file, json.dumps(known).encode())
    warehouse.same_moment.add(str(checkpoint.file))


def stream_given(checkpoint: str) -> dict[str, int]:
    """The name under which a query of Structured Streaming appends, and the last batch that it has
    begun; nothing if there is no query."""
    batches = _numbers(Path(checkpoint, "offsets"))
    query = read_note(Path(checkpoint, "metadata")).get("id")
    return {query: max(batches, default=-1)} if isinstance(query, str) else {}


def unfinished_batch(stream: Path) -> int | None:
    """The micro-batch that a stream began and did not note as done, if there is one."""
    begun = max(_numbers(stream / "offsets"), default=-1)
    return begun if begun > max(_numbers(stream / "commits"), default=-1) else None


def _numbers(log: Path) -> list[int]:
    """The batches of which a log of Structured Streaming has a file."""
    return [int(file.name) for file in log.glob("*") if file.name.isdigit()]


class StreamNeeds(NamedTuple):
    """`version`: the first of its Delta table that a stream may still read. `unfinished`: whether
    it has begun a batch and not ended it. `since`: when (s since 1970) it last began one."""

    version: int
    unfinished: bool
    since: float


def stream_needs(stream: Path) -> StreamNeeds | None:
    """What a stream needs to go on; None if it has not begun. A damaged checkpoint may need
    anything."""
    begun, ended = _numbers(stream / "offsets"), _numbers(stream / "commits")
    if not begun:
        return None
    # A batch that was begun and not ended is read again, and before a new one the last that ended
    # is looked up once more: from where the one before it ended. The first of all is the table as
    # it was one version before its end.
    first = max(min(begun), max(ended, default=0) - 1)
    try:
        offset = (stream / "offsets" / str(first)).read_bytes()
        reached = json.loads(offset.splitlines()[-1])["reservoirVersion"]
        since = (stream / "offsets" / str(max(begun))).stat().st_mtime
        return StreamNeeds(int(reached) - 1, unfinished_batch(stream) is not None, since)
    except (OSError, ValueError, LookupError, TypeError):
        return StreamNeeds(0, True, time.time())


def _since(warehouse: Warehouse, checkpoint: TableCheckpoint, version: int) -> Sequence[Commit]:
    """The commits from this version on, the last one first."""
    where = (checkpoint.layer, checkpoint.table)
    beyond = warehouse.last_commit(*where).version - version
    return warehouse.commits(*where, most=min(max(beyond, 0), LOOKED_AT) + 1)


def _differences(
    commits: Sequence[Commit], version: int, given: Mapping[str, int], *, at: str | None
) -> Iterator[str]:
    """What speaks against one moment. `version`: the newest noted commit; `at`: when it was made,
    None if that tells nothing: a catalog goes by the file, whose time changes when it is copied."""
    if commits[0].version < version:
        yield f"it has seen the table's version {version}, and the newest is {commits[0].version}"
    for commit in commits:
        if commit.version == version and at not in (None, commit.at):
            yield f"the table's version {version} is another one than it has seen"
        if commit.version > version and commit.operation in _RESTORES:
            yield f"version {commit.version} of the table put an older state in place"
        writer, number = commit.mark
        if number > given.get(writer, number):
            yield f"the table has append {number}, and it has given {given[writer]}"
