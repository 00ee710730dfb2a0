"""Archives of classes: one JVM leaves one, the next uses it, and none stops a JVM from starting."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pipelines.platform import class_archive
from pipelines.platform.class_archive import java_options
from pipelines.platform.java import find_java

DRAFT, ARCHIVE = "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "core.jar").write_bytes(b"core")
    return home


def options(spark_home: Path) -> list[str]:
    return java_options(find_java(), spark_home, [])


def folder() -> Path:
    return Path(os.environ["XDG_CACHE_HOME"]) / "delta-cdc-ingest" / "classes"


def draft_of(spark_home: Path) -> Path:
    first = options(spark_home)[0]
    assert first.startswith(DRAFT)
    return Path(first.removeprefix(DRAFT))


def test_one_jvm_leaves_its_classes_to_the_next(spark_home: Path) -> None:
    java = str(find_java() / "bin" / "java")
    draft = options(spark_home)
    made = subprocess.run([java, *draft, "-version"], capture_output=True, text=True)
    assert (made.returncode, made.stdout) == (0, "")
    # Its process may have been killed at once.
    assert options(spark_home) == draft
    class_archive._say_ended(Path(draft[0].removeprefix(DRAFT)))
    [used, *quiet] = options(spark_home)
    assert used.startswith(ARCHIVE)
    assert [str(file) for file in folder().iterdir()] == [used.removeprefix(ARCHIVE)]
    # `-Xshare:on` ends a JVM that cannot use its archive.
    command = [java, used, *quiet, "-Xshare:on", "-version"]
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_a_draft_counts_once_it_is_whole(spark_home: Path) -> None:
    draft = draft_of(spark_home)
    draft.write_bytes(bytes(16) + b"regions")
    class_archive._say_ended(draft)
    assert draft_of(spark_home) == draft
    draft.write_bytes(class_archive._MAGIC + b"header, regions")
    second = draft.with_name(draft.name.replace(str(os.getpid()), "1"))
    second.write_bytes(class_archive._MAGIC + b"of a JVM beside it")
    class_archive._say_ended(second)
    archive = folder() / f"{draft.name.partition('.')[0]}.jsa"
    assert options(spark_home)[0] == f"{ARCHIVE}{archive}"
    assert list(folder().iterdir()) == [archive]


def test_another_jar_has_another_archive(spark_home: Path) -> None:
    first = draft_of(spark_home)
    (spark_home / "jars" / "core.jar").write_bytes(b"core, mended")
    assert draft_of(spark_home) != first


def test_few_archives_are_kept_and_no_old_drafts(spark_home: Path) -> None:
    folder().mkdir(parents=True)
    names = ["a.jsa", "b.jsa", "c.jsa", "d.jsa", "a.1.draft", "a.1.ended", "b.2.draft"]
    for age, name in enumerate(names):
        (folder() / name).write_bytes(b"")
        os.utime(folder() / name, (10**9 - age, 10**9 - age))
    os.utime(folder() / "b.2.draft")
    assert options(spark_home)
    assert sorted(file.name for file in folder().iterdir()) == ["a.jsa", "b.2.draft", "b.jsa"]


def test_archives_in_use_make_no_room(spark_home: Path) -> None:
    folder().mkdir(parents=True)
    for name in ("a.jsa", "b.jsa", "c.jsa"):
        (folder() / name).write_bytes(b"")
    assert options(spark_home) == []
    assert len(list(folder().iterdir())) == 3


def test_folders_on_the_class_path_have_no_archive(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert options(spark_home) == []
    monkeypatch.delenv("HADOOP_CONF_DIR")
    (spark_home / "conf").mkdir()
    assert options(spark_home) == []


def test_without_a_place_for_it_a_jvm_starts_without(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = spark_home / "file"
    taken.write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(taken))
    assert options(spark_home) == []
