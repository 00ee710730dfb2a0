"""Classes of Spark that one JVM leaves ready for the next: half of what a short command costs.

A JVM that starts Spark finds, reads and checks some 12,000 classes. With class data sharing
(https://openjdk.org/jeps/350, JEP 350, in every Java from 13 on) it writes what it has loaded to an
archive as it ends, and the next one maps that into its memory.

The first JVM of an installation writes a draft of its own, and its process, when it ends as it
should, says so: one that was killed at once knew few classes. Whoever starts next takes such a
draft for the archive, if it is whole. An archive is named by all that it was made of, so that
another Java, jar or environment has another one; the JVM looks as well, and goes on without an
archive that does not fit. An archive takes some 140 MB; MOST of them are kept.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pipelines.platform.jars import cache

MOST = 3
"""How many archives are kept: those that were used last, none of which makes room on its day."""
_DAY = 24 * 3600
_MAGIC = (0xF00BABA8).to_bytes(4, sys.byteorder)
"""How an archive begins (OpenJDK's `cds.h`); the JVM writes its beginning last."""
_ABANDONED = 3600
"""Seconds after which nobody finishes a draft any more."""
_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""What puts folders on the class path, of which no JVM makes an archive."""


def java_options(java: Path, spark: Path, jars: Iterable[Path]) -> list[str]:
    """The options with which Spark's JVM uses the archive of its classes, or leaves one behind.

    Args:
        java: the home of the Java that starts.
        spark: the home of Spark, whose jars and settings its launcher puts on the class path.
        jars: what else stands there.

    Nothing here stops a JVM from starting: without a place for archives there are no options.
    """
    if any(os.environ.get(name) for name in _FOLDERS) or (spark / "conf").is_dir():
        return []
    folder = cache().parent / "classes"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        name = _name([java / "lib" / "modules", *sorted((spark / "jars").glob("*.jar")), *jars])
        archive = folder / f"{name}.jsa"
        _adopt(folder, archive)
        if archive.exists():
            os.utime(archive)
            return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"]
        if not _room(folder):
            return []
    except OSError:
        return []
    draft = folder / f"{name}.{os.getpid()}.draft"
    atexit.register(_say_ended, draft)
    return [f"-XX:ArchiveClassesAtExit={draft}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def _name(files: Iterable[Path]) -> str:
    """A name for the archive of what these files hold, as they are now."""
    digest = hashlib.sha256()
    for file in files:
        found = file.stat()
        digest.update(f"{file} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _say_ended(draft: Path) -> None:
    with suppress(OSError):
        _ended(draft).touch()


def _ended(draft: Path) -> Path:
    """What is there when the process of a draft's JVM ended as it should."""
    return draft.with_suffix(".ended")


def _adopt(folder: Path, archive: Path) -> None:
    """Make a whole draft the archive, if there is one."""
    for ended in sorted(folder.glob(f"{archive.stem}.*.ended")):
        draft = ended.with_suffix(".draft")
        with suppress(FileNotFoundError):  # another process was faster
            if not _whole(draft):
                continue
            ended.unlink()
            if archive.exists():
                draft.unlink()
            else:
                draft.replace(archive)


def _whole(draft: Path) -> bool:
    with draft.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def _room(folder: Path) -> bool:
    """Whether there is room for one more archive, once what nobody uses any more is removed: where
    many environments took turns, each would leave one at every start."""
    now = time.time()
    for file in [*folder.glob("*.draft"), *folder.glob("*.ended")]:
        with suppress(FileNotFoundError):
            if now - file.stat().st_mtime > _ABANDONED:
                file.unlink()
    kept = sorted((file.stat().st_mtime, file) for file in folder.glob("*.jsa"))
    for used, file in kept[: len(kept) - MOST + 1]:
        if now - used < _DAY:
            return False
        file.unlink(missing_ok=True)
    return True
