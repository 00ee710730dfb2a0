"""Folders of a file system that only Spark's JVM knows (`s3a://`, `abfss://`, `gs://`), listed.

Spark's own source of files asks an object store about each file once more, only to read its size:
100,000 requests instead of 100, since one request brings the names, sizes and times of a thousand
files. So Hadoop's file system is asked folder by folder, a few folders at a time, and only folders
in which the pattern can match. Its answers come to Python as JSON, some thousand files at a time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from urllib.parse import unquote

from pyspark.sql import SparkSession

_A_TIME = 5_000
_NO_AUTHORITY = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):///")
_FOLDERS = 8


class Entry(NamedTuple):
    """A file or folder; `modified` in ms since 1970. `path` is a URI with its characters as they
    are."""

    path: str
    folder: bool
    size: int
    modified: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def hidden(self) -> bool:
        """Whether Spark ignores such a file."""
        name = self.name
        return name.startswith(".") or (name.startswith("_") and "=" not in name)


class HadoopFiles:
    """The file system of `uri`, as the session is configured for it."""

    def __init__(self, session: SparkSession, uri: str) -> None:
        # Only a session with a JVM of its own has this; there is no other way to Hadoop's file
        # systems.
        jvm: Any = session._jvm
        configuration = session._jsparkSession.sessionState().newHadoopConf()
        self._path = jvm.org.apache.hadoop.fs.Path
        self._system = self._path(uri).getFileSystem(configuration)
        self._json = _writer(jvm)

    def file(self, uri: str) -> Entry:
        """What there is under this very name; raises the JVM's FileNotFoundException."""
        status = self._system.getFileStatus(self._path(uri))
        return _entry(json.loads(self._json.writeValueAsString(status)))

    def files(self, folder: str, enter: Callable[[str], bool]) -> Iterator[Entry]:
        """The files in a folder and in those folders below it for which `enter` is true; hidden
        ones are left out. Raises the JVM's FileNotFoundException if there is no folder."""
        below = [folder]
        with ThreadPoolExecutor(_FOLDERS) as pool:
            while below:
                found = [entry for entries in pool.map(self._entries, below) for entry in entries]
                below = [entry.path for entry in found if entry.folder and enter(entry.path)]
                yield from (entry for entry in found if not entry.folder)

    def _entries(self, folder: str) -> list[Entry]:
        statuses = self._system.listStatus(self._path(folder))
        found: list[Entry] = []
        for first in range(0, len(statuses), _A_TIME):
            part = statuses[first : first + _A_TIME]
            found += map(_entry, json.loads(self._json.writeValueAsString(part)))
        return [entry for entry in found if not entry.hidden]


def _entry(status: dict[str, Any]) -> Entry:
    # Hadoop keeps a path as a URI, in which blanks and the like are quoted; where it has no
    # authority, Hadoop itself writes file:/x.
    return Entry(
        _NO_AUTHORITY.sub(r"\1:/", unquote(status["path"]["uri"]), count=1),
        status["isdir"],
        status["length"],
        status["modification_time"],
    )


def _writer(jvm: Any) -> Any:
    """A writer of JSON that reads the fields of objects: calling their methods from here would cost
    four round trips for each file."""
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    accessor = jvm.com.fasterxml.jackson.annotation.PropertyAccessor
    visibility = jvm.com.fasterxml.jackson.annotation.JsonAutoDetect.Visibility
    mapper.setVisibility(accessor.ALL, visibility.NONE)
    mapper.setVisibility(accessor.FIELD, visibility.ANY)
    return mapper


def entering(tests: Sequence[Callable[[str], object] | None]) -> Callable[[str], bool]:
    """A function that says whether matching files can lie in a folder, given by its path below the
    folder in which the pattern begins. `tests` are those of the parts of the pattern behind that,
    the file's own included; None is `**`, any depth."""

    def enter(below: str) -> bool:
        parts = below.split("/")
        for part, test in zip(parts, tests, strict=False):
            if test is None:
                return True
            if not test(part):
                return False
        return len(parts) < len(tests)

    return enter
