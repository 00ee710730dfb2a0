"""Jars come once, and only as the lock names them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ingest.errors import PlatformError
from pipelines.platform import jars

ROOT = Path(__file__).parents[2]
LOCKS = [*sorted(ROOT.glob("pipelines/platform/*.jars")), *ROOT.glob("tests/*.jars")]


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Stands in for Ivy: every jar holds its own coordinates. Gives the calls made."""
    calls: list[list[str]] = []

    def retrieve(wanted: list[jars.Jar], folder: Path) -> None:
        calls.append([jar.coordinates for jar in wanted])
        for jar in wanted:
            (folder / jar.file).write_text(jar.coordinates)

    monkeypatch.setattr(jars, "retrieve", retrieve)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return calls


def write_lock(file: Path, *coordinates: str, sha256: str | None = None) -> Path:
    lines = [f"{one} {sha256 or hashlib.sha256(one.encode()).hexdigest()}" for one in coordinates]
    file.write_text("\n".join(["# a comment", "", *lines]) + "\n")
    return file


def test_only_what_is_missing_is_fetched(tmp_path: Path, maven: list[list[str]]) -> None:
    one = write_lock(tmp_path / "one", "g:a:1")
    two = write_lock(tmp_path / "two", "g:b:2", "g:a:1")
    assert [file.read_text() for file in jars.fetch(one)] == ["g:a:1"]
    assert [file.read_text() for file in jars.fetch(two)] == ["g:b:2", "g:a:1"]
    assert [file.name for file in jars.fetch(two)] == ["b-2.jar", "a-1.jar"]
    assert maven == [["g:a:1"], ["g:b:2"]]


def test_another_jar_than_the_locked_one_is_refused(tmp_path: Path, maven: list[list[str]]) -> None:
    lock = write_lock(tmp_path / "lock", "g:a:1", sha256="0" * 64)
    with pytest.raises(
        PlatformError, match=r"g:a:1 has SHA-256 [0-9a-f]{64}, but the lock names 0"
    ):
        jars.fetch(lock)
    assert list(jars.cache().glob("*.jar")) == []


def test_cache_that_cannot_be_written(
    tmp_path: Path, maven: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(PlatformError, match=r"cannot keep jars in .*: Not a directory\."):
        jars.fetch(write_lock(tmp_path / "lock", "g:a:1"))
    assert maven == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_locked_jar_has_its_hash(lock: Path) -> None:
    read = jars.read_lock(lock)
    assert read
    assert [jar.coordinates for jar in read if len(jar.sha256) != 64] == []
    assert len({jar.file for jar in read}) == len(read)


def test_locks_name_versions_that_fit_each_other() -> None:
    named = {jar.artifact: jar.version for lock in LOCKS[:2] for jar in jars.read_lock(lock)}
    extra = (ROOT / "pyproject.toml").read_text()
    assert f'"delta-spark=={named["delta-spark_4.2_2.13"]}"' in extra
    assert f'"pyspark[connect]=={named["spark-sql-kafka-0-10_2.13"]}"' in extra
