"""The jars of the local platform: named and hashed in a lock, fetched once, kept in a cache.

A lock is a text file with one jar a line, `group:artifact:version sha256`, `#` for comments. It
lists only what Spark does not bring itself. Ivy, which ships with pyspark, does the fetching, so
that nothing but Python and Java is needed; later sessions start from the files, without Ivy.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from ingest.errors import PlatformError
from pipelines.platform.java import find_java


class Jar(NamedTuple):
    """One line of a lock. `sha256` is empty only while a lock is being written."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def cache() -> Path:
    """The folder that keeps fetched jars, one for all projects of the user."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "delta-cdc-ingest" / "jars"


def read_lock(lock: Traversable) -> list[Jar]:
    """Reads a lock file, in its order."""
    jars = []
    for line in lock.read_text(encoding="utf-8").splitlines():
        words = line.partition("#")[0].split()
        if words:
            group, artifact, version = words[0].split(":")
            jars.append(Jar(group, artifact, version, words[1] if len(words) > 1 else ""))
    return jars


def fetch(lock: Traversable) -> list[Path]:
    """Gives the files of a lock, after fetching those that the cache lacks.

    Raises:
        PlatformError: a jar cannot be had, or is not the one that the lock names.
    """
    folder = cache()
    jars = read_lock(lock)
    missing = [jar for jar in jars if not (folder / jar.file).exists()]
    if missing:
        _download(missing, folder)
    return [folder / jar.file for jar in jars]


def sha256(file: Path) -> str:
    """The digest of a file, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def retrieve(jars: list[Jar], folder: Path) -> None:
    """Lets Ivy place exactly these jars, without what they depend on, in `folder`.

    Raises:
        PlatformError: Ivy could not find or load one of them.
    """
    with tempfile.TemporaryDirectory(prefix="ingest-ivy-") as scratch:
        wanted = Path(scratch) / "ivy.xml"
        wanted.write_text(_ivy_file(jars), encoding="utf-8")
        java = str(find_java() / "bin" / "java")
        # All of Ivy's own files go to the scratch folder: the user's stay untouched.
        command = [java, f"-Divy.default.ivy.user.dir={scratch}", "-jar", str(_ivy())]
        command += ["-cache", f"{scratch}/cache", "-ivy", str(wanted), "-confs", "default"]
        command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]", "-warn"]
        answer = subprocess.run(command, capture_output=True, text=True)
    absent = [jar.coordinates for jar in jars if not (folder / jar.file).exists()]
    if absent:
        said = [line.strip() for line in (answer.stdout + answer.stderr).splitlines()]
        reason = next((line for line in said if "xception" in line or "not found" in line), "")
        raise PlatformError(
            f"could not fetch {', '.join(absent)} from Maven{': ' if reason else ''}{reason};"
            f" check the network, or place the jars in {cache()}."
        )


def _download(jars: list[Jar], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Beside the cache, so that a move into it is one atomic step whoever else fetches.
        staging = tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder)
    except OSError as error:
        raise PlatformError(f"cannot keep jars in {folder}: {error.strerror}.") from error
    with staging as scratch:
        retrieve(jars, Path(scratch))
        for jar in jars:
            file = Path(scratch) / jar.file
            if (found := sha256(file)) != jar.sha256:
                raise PlatformError(
                    f"{jar.coordinates} has SHA-256 {found}, but the lock names {jar.sha256};"
                    " the repository that served it is not to be trusted."
                )
            file.replace(folder / jar.file)


def _ivy_file(jars: list[Jar]) -> str:
    lines = "\n".join(
        f'    <dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}"'
        ' conf="default->master" transitive="false"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0">\n  <info organisation="local" module="jars"/>\n'
        f"  <dependencies>\n{lines}\n  </dependencies>\n</ivy-module>\n"
    )


def _ivy() -> Path:
    from pyspark.find_spark_home import _find_spark_home

    return next(Path(_find_spark_home()).glob("jars/ivy-*.jar"))
