"""The files that match a source's path now: by the operating system, or by Spark for a URI."""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from io import FileIO

from pyspark.sql import SparkSession, is_remote
from pyspark.sql import functions as F

from ingest.errors import PlatformError
from pipelines.bronze.file_log import Listed, known_by, located
from pipelines.bronze.hadoop_files import Entry, HadoopFiles, entering
from pipelines.bronze.records import Unreadable
from pipelines.platform.failures import mentions
from pipelines.platform.object_stores import refusal

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")
_WILD = re.compile(r"[*?[]")
_TOKEN = re.compile(
    r"(?P<folders>(?<![^/])\*\*/)|(?P<all>(?<![^/])\*\*\Z)|(?P<some>\*+)|(?P<one>\?)"
    r"|(?P<set>\[!?\]?[^]/]*\])|.",
    re.DOTALL,
)
"""The parts of a pattern, as Python's glob reads them on a disk."""
_END = re.compile(r"\\[Zz]\Z")
"""What fnmatch puts at the end of an expression, depending on Python's version."""
_MOST_READ = 1 << 20
_NO_FILE = "it is a pipe, a socket or a device, and no file"
_PARTS = {"folders": "(?:.*/)?", "all": ".*", "some": "[^/]*", "one": "[^/]"}


def is_uri(path: str) -> bool:
    """Whether only Spark can open the path."""
    return _SCHEME.match(path) is not None


def list_local(
    source: str, pattern: str, *, root: str | None = None
) -> tuple[list[Listed], list[Unreadable]]:
    """The files that match, and those that cannot even be looked at; `root` is the project's
    folder, see `known_by`.

    Raises:
        PlatformError: the folder in which the pattern begins does not exist.
    """
    base = _base(pattern)
    if not os.path.exists(base):
        raise _missing(source, pattern, base)
    if base == _plain(pattern) and os.path.isdir(base):
        raise _folder(source, pattern)
    listed = []
    unreadable = []
    # A pattern with two `**` gives a file once for each way in which it matches.
    for path in dict.fromkeys(glob.iglob(pattern, recursive=True)):
        if not _is_text(path):
            unreadable.append(Unreadable(known_by(path, root), "its name is not UTF-8; rename it"))
            continue
        try:
            found = os.stat(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            unreadable.append(Unreadable(known_by(path, root), error.strerror or str(error)))
            continue
        if stat.S_ISREG(found.st_mode):
            listed.append(Listed(known_by(path, root), found.st_size, found.st_mtime_ns))
        elif not stat.S_ISDIR(found.st_mode):
            # Opening a pipe waits for who writes to it.
            unreadable.append(Unreadable(known_by(path, root), _NO_FILE))
    return listed, unreadable


def _is_text(path: str) -> bool:
    """Whether a path can stand in a table; bytes in it that are not UTF-8 come as half a
    character."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def openable(
    files: Iterable[Listed], *, root: str | None = None
) -> tuple[list[Listed], list[Unreadable]]:
    """The files that can be read, each with the digest of its content, and those that cannot."""
    good = []
    bad = []
    for file in files:
        try:
            with open(located(file.path, root), "rb", buffering=0) as stream:
                stream.read(1)
                stream.seek(0)
                digest = _digest(stream, file.size)
        except OSError as error:
            bad.append(Unreadable(file.path, error.strerror or str(error)))
        else:
            good.append(file._replace(digest=digest))
    return good, bad


def _digest(stream: FileIO, size: int) -> str:
    """The digest of as many bytes as the file was said to have; that takes about a second for a
    gigabyte."""
    digest = hashlib.blake2b(digest_size=16)
    while size > 0 and (read := stream.read(min(size, _MOST_READ))):
        digest.update(read)
        size -= len(read)
    return digest.hexdigest()


def held_whole(files: Iterable[Listed], *, most: int) -> tuple[list[Listed], list[Unreadable]]:
    """The files of a URI that Spark can read, and those that are too large. Spark holds each file
    as a whole, and if it is asked for one that is too large, it fails for the others, too."""
    good = []
    bad = []
    for file in files:
        if file.size <= most:
            good.append(file)
            continue
        reason = (
            f"expected at most {most:,} bytes, since a file of a URI is held in memory as a whole, "
            f"got {file.size:,}; write smaller files, or mount the store and name a path"
        )
        bad.append(Unreadable(file.path, reason))
    return good, bad


def most_held(session: SparkSession) -> int:
    """The most bytes that Spark holds of a file."""
    found = session.conf.get("spark.sql.sources.binaryFile.maxLength", None)
    return int(found) if found is not None else 2**31 - 1


def list_uri(session: SparkSession, source: str, pattern: str) -> list[Listed]:
    """The files of a URI that match: by Hadoop's file system, and where this process has no JVM by
    Spark's source of files.

    Raises:
        PlatformError: the folder in which the pattern begins does not exist, or the store does not
            answer.
    """
    base, _ = _parted(pattern)
    asked = _asked_spark if is_remote() else _asked_hadoop
    matching = _matcher(pattern).fullmatch
    try:
        return [file for file in asked(session, pattern) if matching(_one_slash(file.path))]
    except IsADirectoryError:
        raise _folder(source, pattern) from None
    except Exception as error:
        if mentions(error, "PATH_NOT_FOUND") or mentions(error, "FileNotFoundException"):
            raise _missing(source, pattern, base) from error
        raise PlatformError(f"source {source} reads {pattern}: {refusal(base, error)}") from error


def _asked_hadoop(session: SparkSession, pattern: str) -> Iterator[Listed]:
    base, behind = _parted(pattern)
    store = HadoopFiles(session, base)
    if not behind:
        file = store.file(base)
        if file.folder:
            raise IsADirectoryError(base)
        files: Iterable[Entry] = [file]
    else:
        parts = [None if part == "**" else _matcher(part).fullmatch for part in behind.split("/")]
        enter, begin = entering(parts), len(_one_slash(base))
        files = store.files(base, lambda folder: enter(_one_slash(folder)[begin:]))
    for found in files:
        yield Listed(found.path, found.size, found.modified * 1_000_000)


def _asked_spark(session: SparkSession, pattern: str) -> list[Listed]:
    base = _base(pattern)
    if base == _plain(pattern):
        base = base.rpartition("/")[0] + "/"
    found = (
        session.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .load(escaped(base))
        .select("path", "length", F.unix_micros("modificationTime"))
        .collect()
    )
    return [Listed(path, size, modified * 1000) for path, size, modified in found]


def escaped(path: str) -> str:
    """A path in which Hadoop finds no pattern."""
    return re.sub(r"([\\*?{}\[\]^])", r"\\\1", path)


def _folder(source: str, pattern: str) -> PlatformError:
    return PlatformError(
        f"source {source} reads {pattern}, which is a folder: name its files, like"
        f" {pattern}/*.jsonl, or with ** for any depth."
    )


def _missing(source: str, pattern: str, base: str) -> PlatformError:
    return PlatformError(
        f"source {source} reads {pattern}, but there is no {base}: create it or correct files.path."
    )


def _plain(pattern: str) -> str:
    """The pattern without what glob.escape added to it."""
    return re.sub(r"\[([*?[])\]", r"\1", pattern)


def _base(pattern: str) -> str:
    """The part of a pattern that has no wildcard, up to a whole folder; all of it if it has none.

    What glob.escape wrote (`[*]`) stands for itself.
    """
    return _parted(pattern)[0]


def _parted(pattern: str) -> tuple[str, str]:
    """`_base`, and the pattern behind it."""
    wild = _WILD.search(re.sub(r"\[[*?[]\]", "xxx", pattern))
    if wild is None:
        return _plain(pattern), ""
    end = pattern.rindex("/", 0, wild.start()) + 1
    return _plain(pattern[:end]), pattern[end:]


def _matcher(pattern: str) -> re.Pattern[str]:
    """An expression for what the pattern would match on a disk; a set in it is read as fnmatch
    reads it."""
    parts = []
    for token in _TOKEN.finditer(_one_slash(pattern)):
        if token.lastgroup == "set":
            parts.append("(?!/)" + _END.sub("", fnmatch.translate(token[0])))
        else:
            parts.append(_PARTS.get(token.lastgroup or "") or re.escape(token[0]))
    return re.compile("".join(parts), re.DOTALL)


def _one_slash(uri: str) -> str:
    """`file:///x` and `file:/x` are the same to Hadoop, which prints the second."""
    return _SCHEME.sub(r"\1:/", uri, count=1)
