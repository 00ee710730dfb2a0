"""Which files of a source were read, as what number: the progress of files as a transport.

One JSON file for each micro-batch, `000000.json` and so on, in a folder of the checkpoint. It is
written before the append of the batch, whole or not at all; `000000.done` beside it says that the
append was made. So after a kill at any moment the batch without `.done` is offered once more, under
the same writer and number, and the table itself knows whether it has it. Ordinals go on over
batches and are never given twice.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

# Every so many batches the log is written whole, and what came before it is removed.
WHOLE_EVERY = 100


class Listed(NamedTuple):
    """A file as it is now: its size in bytes, its time of modification in ns since 1970."""

    path: str
    size: int
    modified: int


class Numbered(NamedTuple):
    """A file as it was when it was read, and its ordinal in the source."""

    path: str
    ordinal: int
    size: int
    modified: int

    def changed(self, now: Listed) -> bool:
        """Whether the file is another one by now."""
        return (self.size, self.modified) != (now.size, now.modified)


class FileBatch(NamedTuple):
    """One micro-batch; `number` counts from 0."""

    number: int
    files: tuple[Numbered, ...]


class FileLog:
    """The log in `folder`. `writer` is made with it and stays the same as long as it exists.

    `files` holds every file by path. `pending` is the batch that may or may not have been appended.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self.writer = f"bronze-{uuid.uuid4()}"
        self.files: dict[str, Numbered] = {}
        self.pending: FileBatch | None = None
        self._next_number = 0
        self._next_ordinal = 0
        numbers = sorted((int(file.stem) for file in self._folder.glob("*.json")), reverse=True)
        for number in numbers:
            batch = json.loads(self._path(number).read_text(encoding="utf-8"))
            found = [Numbered(*file) for file in batch["files"]]
            if number == numbers[0]:
                self.writer = batch["writer"]
                self._next_number = number + 1
                self._next_ordinal = batch["next_ordinal"]
                if not self._path(number, "done").exists():
                    self.pending = FileBatch(number, tuple(found))
            self.files.update((file.path, file) for file in found)
            if batch["before"] is not None:
                earlier = [Numbered(*file) for file in batch["before"]]
                self.files.update((file.path, file) for file in earlier)
                break

    @property
    def new(self) -> bool:
        """Whether nothing was ever registered here."""
        return self._next_number == 0

    def register(self, files: Iterable[Listed]) -> FileBatch:
        """Gives new files their ordinals, in this order, and keeps them as the next batch."""
        numbered = [
            Numbered(file.path, self._next_ordinal + index, file.size, file.modified)
            for index, file in enumerate(files)
        ]
        return self._add(numbered)

    def adopt(self, files: Sequence[Numbered]) -> None:
        """Keeps files that the table holds already, from a checkpoint that was lost."""
        self.done(self._add(files))

    def drop(self, batch: FileBatch, path: str) -> FileBatch:
        """The batch without a file that turned out unreadable; its ordinal is not given again."""
        kept = FileBatch(batch.number, tuple(file for file in batch.files if file.path != path))
        del self.files[path]
        self._write(kept)
        return kept

    def done(self, batch: FileBatch) -> None:
        """The batch is in the table."""
        self._path(batch.number, "done").touch()
        self.pending = None
        if self._whole(batch.number):
            for old in self._folder.iterdir():
                if old.suffix in (".json", ".done") and int(old.stem) < batch.number:
                    old.unlink()

    def _add(self, files: Sequence[Numbered]) -> FileBatch:
        batch = FileBatch(self._next_number, tuple(files))
        self._next_number += 1
        self._next_ordinal = max([self._next_ordinal, *(file.ordinal + 1 for file in batch.files)])
        self.files.update((file.path, file) for file in batch.files)
        self._write(batch)
        return batch

    def _write(self, batch: FileBatch) -> None:
        own = {file.path for file in batch.files}
        before = [file for path, file in self.files.items() if path not in own]
        content = {
            "writer": self.writer,
            "next_ordinal": self._next_ordinal,
            "files": batch.files,
            "before": before if self._whole(batch.number) else None,
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

    def _whole(self, number: int) -> bool:
        return number % WHOLE_EVERY == 0


def _settle(folder: Path) -> None:
    """Makes a rename last through a power cut, where the file system lets a folder be synced."""
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
