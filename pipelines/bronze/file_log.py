"""Which files of a source were read, and as which number: the progress of files as a transport.

There is one JSON file for each micro-batch, `000000.json` and so on, in a folder of the checkpoint.
It is written before the append of the batch, whole or not at all; `000000.done` beside it says that
the append was made. So after a kill at any moment the batch without `.done` is offered once more,
under the same writer and number, and the table itself knows whether it has it. Only a batch of
files that the table was found to hold, `adopted`, was never to be appended. Ordinals go on over
batches and are never given twice.

Every hundredth batch gathers the files of the hundred before it, every ten thousandth those of ten
thousand, and so on; the gathered files are removed. So each file is written only a few times in the
log's life, and a reader opens some hundred files however long the log is. A reader that meets the
removals of another run begins again.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ingest.files.record import FILE_HEADER
from ingest.sql.headers import header_value
from pipelines.platform.warehouse import Warehouse

GATHERED = 100
"""How many batches, and again how many gatherings of one size, one file replaces."""
_ATTEMPTS = 20
_PAUSE = 0.05


class Listed(NamedTuple):
    """A file as it is now: its size in bytes, its time of modification in ns since 1970. `path` is
    the name that it is known by, see `known_by`; `digest` of its content, if that was looked at."""

    path: str
    size: int
    modified: int
    digest: str | None = None


class Numbered(NamedTuple):
    """A file as it was when it was read, and its ordinal in the source."""

    path: str
    ordinal: int
    size: int
    modified: int
    digest: str | None = None

    def changed(self, now: Listed) -> bool:
        """Whether the file may be another one by now; a copy of it has another time, too."""
        return (self.size, self.modified) != (now.size, now.modified)

    def copied(self, now: Listed) -> bool:
        """Whether a file with another time has the same content."""
        return self.digest is not None and self.digest == now.digest


def known_by(path: str, root: str | None) -> str:
    """The name of a file in bronze and in the log: its path relative to the project's folder if it
    lies there, so that a project may be moved or copied; otherwise its path."""
    inside = f"{root}/"
    return path[len(inside) :] if root is not None and path.startswith(inside) else path


def located(name: str, root: str | None) -> str:
    """Where the file is that is known by `name`."""
    return name if root is None else os.path.join(root, name)


class FileBatch(NamedTuple):
    """One micro-batch; `number` counts from 0."""

    number: int
    files: tuple[Numbered, ...]


class FileLog:
    """The log in `folder`. `writer` is made together with it and stays the same as long as it
    exists.

    `files` has every file by the name that it is known by, with `root` as the project's folder.
    `pending` is the batch that may or may not have been appended.
    """

    def __init__(self, folder: str, *, root: str | None = None) -> None:
        self._folder = Path(folder)
        self._root = root
        self.writer = f"bronze-{uuid.uuid4()}"
        self.files: dict[str, Numbered] = {}
        self.pending: FileBatch | None = None
        self._next_number = 0
        self._next_ordinal = 0
        for attempt in range(_ATTEMPTS):
            try:
                self._load()
                break
            except FileNotFoundError as error:
                # Another run is removing files that it has gathered.
                if attempt == _ATTEMPTS - 1:
                    raise ValueError(f"{error.filename} is missing") from error
                time.sleep(_PAUSE)

    def _load(self) -> None:
        self.files.clear()
        numbers = [int(file.stem) for file in self._folder.glob("*.json")]
        if not numbers:
            return
        newest = max(numbers)
        batch = self._record(newest)
        self.writer = batch["writer"]
        self._next_number = newest + 1
        self._next_ordinal = batch["next_ordinal"]
        own = tuple(self._known(file) for file in batch["files"])
        appended = batch["adopted"] or self._path(newest, "done").exists()
        self.pending = None if appended else FileBatch(newest, own)
        for file in self._from(newest, 0):
            # If a file is there twice, its newest record counts.
            self.files.setdefault(file.path, file)

    def _from(self, newest: int, first: int) -> Iterator[Numbered]:
        """The files of the batches from `first` to `newest`, those of the newest batches first."""
        number, known = newest, False
        while number >= first:
            batch = self._record(number)
            if not known:
                yield from (self._known(file) for file in batch["files"])
            known = number > first and batch["before"] is not None
            if known:
                yield from (self._known(file) for file in batch["before"])
            # The first batch of a gathering, whose own files are known by now, is another gathering
            # batch, or the first of all.
            number = _gathered_since(number) if known else number - 1
            if known and number == first:
                return

    def _record(self, number: int) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self._path(number).read_text(encoding="utf-8"))
        return record

    @property
    def new(self) -> bool:
        """Whether nothing was ever registered here."""
        return self._next_number == 0

    def register(self, files: Iterable[Listed]) -> FileBatch:
        """Gives new files their ordinals, in this order, and notes them as the next batch."""
        numbered = [
            Numbered(file.path, self._next_ordinal + index, *file[1:])
            for index, file in enumerate(files)
        ]
        return self._add(numbered)

    def adopt(self, files: Sequence[Numbered], *, following: int = 0) -> None:
        """Notes files that the table has already: those of a lost checkpoint, or, under their
        ordinals, files as they are now. No new file gets an ordinal below `following`."""
        self._next_ordinal = max(self._next_ordinal, following)
        self.done(self._add(files, adopted=True))

    def drop(self, batch: FileBatch, paths: Collection[str]) -> FileBatch:
        """The batch without files that turned out to be unreadable; their ordinals are not given
        again."""
        kept = FileBatch(batch.number, tuple(f for f in batch.files if f.path not in paths))
        for path in paths:
            del self.files[path]
        self._write(kept)
        return kept

    def done(self, batch: FileBatch) -> None:
        """Note that the batch is in the table."""
        self._path(batch.number, "done").touch()
        self.pending = None
        if _gathers(batch.number):
            kept = {batch.number}
            since = batch.number
            while since := _gathered_since(since):
                kept.add(since)
            for old in self._folder.iterdir():
                if old.suffix not in (".json", ".done") or int(old.stem) >= batch.number:
                    continue
                if old.suffix == ".done" or int(old.stem) not in kept:
                    old.unlink(missing_ok=True)

    def _known(self, stored: Sequence[Any]) -> Numbered:
        """A file of the log, which once had the whole paths of all files."""
        path, *rest = stored
        return Numbered(known_by(path, self._root), *rest)

    def _add(self, files: Sequence[Numbered], *, adopted: bool = False) -> FileBatch:
        batch = FileBatch(self._next_number, tuple(files))
        self._next_number += 1
        self._next_ordinal = max([self._next_ordinal, *(file.ordinal + 1 for file in batch.files)])
        self.files.update((file.path, file) for file in batch.files)
        self._write(batch, adopted=adopted)
        return batch

    def _write(self, batch: FileBatch, *, adopted: bool = False) -> None:
        before = None
        if _gathers(batch.number):
            before = list(self._from(batch.number - 1, _gathered_since(batch.number)))
        content = {
            "writer": self.writer,
            "next_ordinal": self._next_ordinal,
            "files": batch.files,
            "adopted": adopted,
            "before": before,
        }
        path = self._path(batch.number)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        with draft.open("w", encoding="utf-8") as stream:
            json.dump(content, stream)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
        _settle(path.parent)

    def _path(self, number: int, suffix: str = "json") -> Path:
        return self._folder / f"{number:06}.{suffix}"


def last_given(folder: str) -> dict[str, int]:
    """The name under which a log's batches are appended, and the last number that it has given;
    nothing if there is no log, or none that can be read."""
    try:
        newest = max(int(file.stem) for file in Path(folder).glob("*.json"))
        record = json.loads(Path(folder, f"{newest:06}.json").read_text(encoding="utf-8"))
        return {record["writer"]: newest}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def _gathers(number: int) -> bool:
    """Whether the record of a batch also holds the files of batches before it."""
    return number > 0 and number % GATHERED == 0


def _gathered_since(number: int) -> int:
    """The first batch whose files the record of a gathering batch holds."""
    span = GATHERED
    while number % (span * GATHERED) == 0:
        span *= GATHERED
    return number - span


def _settle(folder: Path) -> None:
    """Makes a rename survive a power cut, if the file system can sync a folder."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        return
    finally:
        os.close(handle)


def files_in_bronze(warehouse: Warehouse, source: str) -> DataFrame:
    """The `ordinal` and `path` of bronze's files, a row for each message, captured records
    included."""
    captured = F.expr(f"decode({header_value(FILE_HEADER)}, 'UTF-8')")
    file = F.split(captured, " ", 2)
    table = warehouse.read("bronze", "messages")
    return table.where(F.col("source") == source).select(
        F.coalesce(file[0].cast("int"), F.col("partition")).alias("ordinal"),
        F.coalesce(file[1], F.col("topic")).alias("path"),
    )
