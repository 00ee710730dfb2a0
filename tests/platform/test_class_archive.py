"""Archives of classes: made once, used by every JVM of the same installation, missed by none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ingest.errors import PlatformError
from pipelines.platform import class_archive
from pipelines.platform.class_archive import java_options, make
from pipelines.platform.java import find_java

# A JVM that loads next to nothing stands in for Spark's.
LOADING = """
import os, shlex, subprocess
options = shlex.split(os.environ["SPARK_SUBMIT_OPTS"])
command = [os.environ["INGEST_TEST_JAVA"], *options, "-version"]
subprocess.run(command, check=True)
"""


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("INGEST_TEST_JAVA", str(find_java() / "bin" / "java"))
    monkeypatch.setattr(class_archive, "_LOADING", LOADING)
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "core.jar").write_bytes(b"core")
    return home


def options(spark_home: Path) -> list[str]:
    return java_options(find_java(), spark_home, [])


def test_an_archive_is_used_where_it_was_made(spark_home: Path) -> None:
    assert options(spark_home) == []
    archive = make(find_java(), spark_home, [])
    used = options(spark_home)
    assert used == [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"]
    assert list(archive.parent.iterdir()) == [archive]
    made = archive.stat().st_ino
    assert make(find_java(), spark_home, []).stat().st_ino == made
    # `-Xshare:on` ends a JVM that cannot use its archive.
    java = str(find_java() / "bin" / "java")
    command = [java, *used, "-Xshare:on", "-version"]
    assert subprocess.run(command, capture_output=True).returncode == 0


def test_another_jar_has_another_archive(spark_home: Path) -> None:
    make(find_java(), spark_home, [])
    (spark_home / "jars" / "core.jar").write_bytes(b"core, mended")
    assert options(spark_home) == []


def test_a_copy_of_the_installation_has_the_same_archive(spark_home: Path) -> None:
    """Layers of a container's image keep times of files to the second, and so does the JVM."""
    jar = spark_home / "jars" / "core.jar"
    os.utime(jar, ns=(10**18 + 123_456_789, 10**18 + 123_456_789))
    make(find_java(), spark_home, [])
    os.utime(jar, ns=(10**18, 10**18))
    assert options(spark_home)


def test_the_command_leaves_all_jars_there(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of Kafka, too: an image may start where nothing can be fetched."""
    fetched = []
    monkeypatch.setattr("pipelines.platform.jars.fetch", lambda lock: fetched.append(lock.name))
    monkeypatch.setattr(class_archive, "make", lambda java, spark, jars: "archive")
    class_archive.main()
    assert fetched == ["delta.jars", "kafka.jars"]
    assert capsys.readouterr().out == "archive\n"


def test_a_spark_that_does_not_start_is_said(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "_LOADING", "raise SystemExit('no room on this disk')")
    with pytest.raises(PlatformError, match="write a table, got: no room on this disk"):
        make(find_java(), spark_home, [])


def test_few_archives_are_kept(spark_home: Path) -> None:
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "delta-cdc-ingest" / "classes"
    folder.mkdir(parents=True)
    for age, name in enumerate(["a.jsa", "b.jsa", "c.jsa"]):
        (folder / name).write_bytes(b"")
        os.utime(folder / name, (10**9 - age, 10**9 - age))
    made = make(find_java(), spark_home, [])
    assert {file.name for file in folder.iterdir()} == {"a.jsa", "b.jsa", made.name}


def test_folders_on_the_class_path_are_named(
    spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    with pytest.raises(PlatformError, match="got the folders of HADOOP_CONF_DIR"):
        make(find_java(), spark_home, [])
    monkeypatch.delenv("HADOOP_CONF_DIR")
    (spark_home / "conf").mkdir()
    with pytest.raises(PlatformError, match=r"got the folders of \S+/conf"):
        make(find_java(), spark_home, [])
