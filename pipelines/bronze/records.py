"""Files as rows of bronze, inside a Spark task: one record after the other, in bounded memory."""

from __future__ import annotations

import gc
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from ingest.files.framing import records
from ingest.files.record import Record, file_header
from pipelines.bronze.by_offset.columns import record_batch
from pipelines.bronze.file_log import Numbered, located

_MOST_ROWS = 2000
_MOST_BYTES = 8 * 1024 * 1024
_MARK = "unreadable file"

Batches = Iterator[pa.RecordBatch]


class Unreadable(NamedTuple):
    """A file that could not be read, and the reason."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def unreadable(error: Exception) -> Unreadable | None:
    """The file that a failed task names, found in the text that Spark hands over; None if it names
    none."""
    found = re.search(rf'{_MARK} ("(?:[^"\\]|\\.)*"): ([^\n]*)', str(error))
    return found and Unreadable(json.loads(found[1]), found[2])


def by_path(
    groups: Sequence[Sequence[Numbered]],
    framing: str,
    *,
    most: int | None = None,
    root: str | None = None,
) -> Callable[[Batches], Batches]:
    """Reads the files of a group by their paths, relative ones from `root`; takes batches of
    numbers of groups.

    `most`: bytes to which one may unpack.
    """

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                files = ((file, None) for file in groups[number])
                yield from _rows(files, framing, most, root=root)

    return run


def by_content(
    files: Sequence[Numbered], framing: str, *, most: int | None = None
) -> Callable[[Batches], Batches]:
    """Reads files from batches of path and content; `most` as in `by_path`."""

    def run(batches: Batches) -> Batches:
        numbered = {file.path: file for file in files}
        for batch in batches:
            paths, contents = batch.column(0), batch.column(1)
            opened = (
                (numbered[paths[row].as_py()], io.BytesIO(contents[row].as_buffer()))
                for row in range(len(batch))
            )
            yield from _rows(opened, framing, most)

    return run


def _rows(
    files: Iterator[tuple[Numbered, BinaryIO | None]],
    framing: str,
    most: int | None,
    *,
    root: str | None = None,
) -> Batches:
    gc.disable()
    try:
        builder = _RecordBatchBuilder(captured=framing == "kcat")
        for file, content in files:
            try:
                stream = content or open(located(file.path, root), "rb", buffering=0)
                with stream:
                    found = records(stream, framing, name=file.path, most=most)
                    yield from builder.fill(file, found)
            except OSError as error:
                reason = error.strerror or str(error)
                raise OSError(f"{_MARK} {json.dumps(file.path)}: {reason}") from None
        if builder.records:
            yield builder.batch()
    finally:
        gc.enable()


class _RecordBatchBuilder:
    """Records that become one Arrow batch, of one file or many."""

    def __init__(self, *, captured: bool) -> None:
        self._captured = captured
        self.records: list[Record] = []
        self._size = 0
        self._spans: list[tuple[Numbered, int, int]] = []

    def fill(self, file: Numbered, found: Iterator[Record]) -> Batches:
        """Adds the records of a file; gives a batch whenever one is full."""
        first = 0
        size = self._size
        records = self.records
        start = len(records)
        for record in found:
            records.append(record)
            size += len(record.value or b"")
            if record.headers:
                size += sum(len(value or b"") for _, value in record.headers)
            if len(records) == _MOST_ROWS or size >= _MOST_BYTES:
                count = len(records) - start
                self._spans.append((file, first, count))
                first += count
                yield self.batch()
                records = self.records
                start = size = 0
        if len(records) > start:
            self._spans.append((file, first, len(records) - start))
        self._size = size

    def batch(self) -> pa.RecordBatch:
        """The records so far, as a batch of bronze's columns; then begins anew."""
        values, keys, headers, topics, partitions, offsets, times = zip(*self.records, strict=True)
        own_topics: list[str] = []
        own_partitions: list[int] = []
        own_offsets: list[int] = []
        for file, first, count in self._spans:
            own_topics += [file.path] * count
            own_partitions += [file.ordinal] * count
            own_offsets += range(first, first + count)
        if self._captured:
            headers = tuple(
                (*(sent or ()), file_header(ordinal, path))
                for sent, ordinal, path in zip(headers, own_partitions, own_topics, strict=True)
            )
        made = record_batch(
            values=values,
            keys=keys,
            headers=headers,
            topics=_else(topics, own_topics),
            partitions=_else(partitions, own_partitions),
            offsets=_else(offsets, own_offsets),
            times=times,
        )
        self.records = []
        self._size = 0
        self._spans = []
        return made


def _else(given: Sequence[Any], own: list[Any]) -> Sequence[Any]:
    if given.count(None) == len(given):
        return own
    return [mine if one is None else one for one, mine in zip(given, own, strict=True)]
