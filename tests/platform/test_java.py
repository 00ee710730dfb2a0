"""Which Java is taken, and what is said where none fits."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ingest.errors import PlatformError
from pipelines.platform import java

ROOT = Path(__file__).parents[2]


def make_java(home: Path, *, version: str, modules: str = "jdk.incubator.vector") -> Path:
    """A program that answers as `java --add-modules M -version` does."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\ncase "$2" in {modules}) echo \'openjdk version "{version}"\' >&2;;\n'
        '*) echo "java.lang.module.FindException: Module $2 not found" >&2; exit 1;; esac\n'
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java; its PATH is the folder `path`, its Javas are in `jvm`."""
    (tmp_path / "path").mkdir()
    (tmp_path / "jvm").mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    # The stand-ins are shell scripts.
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}")
    monkeypatch.setattr(java, "INSTALLED", tmp_path / "jvm")
    return tmp_path


def test_java_home_is_taken(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = make_java(bare / "chosen", version="21.0.4")
    make_java(bare / "jvm" / "a17", version="17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    assert java.find_java() == chosen


def test_wrong_java_home_is_refused_with_the_way_out(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitting = make_java(bare / "jvm" / "a17", version="17.0.1")
    for version, number in (("1.8.0_402", 8), ("25", 25)):
        chosen = make_java(bare / f"java{number}", version=version)
        monkeypatch.setenv("JAVA_HOME", str(chosen))
        with pytest.raises(PlatformError) as caught:
            java.find_java()
        assert str(caught.value) == (
            f"Spark needs Java 17 or 21, but JAVA_HOME={chosen} is Java {number};"
            f" set JAVA_HOME={fitting}."
        )


def test_path_comes_before_what_is_installed(bare: Path) -> None:
    on_path = make_java(bare / "one", version="17.0.9")
    make_java(bare / "jvm" / "a21", version="21")
    (bare / "path" / "java").symlink_to(on_path / "bin" / "java")
    assert java.find_java() == on_path


def test_an_unfit_java_on_the_path_is_passed_over(bare: Path) -> None:
    newer = make_java(bare / "one", version="25")
    (bare / "path" / "java").symlink_to(newer / "bin" / "java")
    make_java(bare / "jvm" / "a11", version="11.0.2")
    fitting = make_java(bare / "jvm" / "b21", version="21")
    assert java.find_java() == fitting


def test_none_that_fits(bare: Path) -> None:
    make_java(bare / "jvm" / "lean", version="17", modules="nothing")
    with pytest.raises(PlatformError) as caught:
        java.find_java()
    assert str(caught.value) == (
        f"Spark needs Java 17 or 21, found: {bare}/jvm/lean is a Java without the module"
        " jdk.incubator.vector. Install openjdk-17-jre-headless (or another such Java and set"
        " JAVA_HOME)."
    )


def install(folder: Path, *, python: str) -> tuple[int, str, str]:
    """Runs `.ci/java` where apt-get and sudo only note that they were called."""
    folder.mkdir()
    calls = folder / "calls"
    calls.touch()
    for name in ("apt-get", "sudo"):
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{calls}\nexit 1\n')
        (folder / name).chmod(0o755)
    answer = subprocess.run(
        [ROOT / ".ci" / "java"],
        env={"PATH": f"{folder}:{os.environ['PATH']}", "PYTHON": python},
        capture_output=True,
        text=True,
    )
    return answer.returncode, answer.stderr, calls.read_text()


def test_setup_installs_only_where_java_is_missing(tmp_path: Path) -> None:
    without = tmp_path / "without_java"
    without.write_text("#!/bin/sh\necho 'Spark needs Java 17 or 21, found: none.' >&2\nexit 2\n")
    without.chmod(0o755)
    code, said, calls = install(tmp_path / "missing", python=str(without))
    assert (code, said.splitlines()[-1]) == (2, "Spark needs Java 17 or 21, found: none.")
    # As root it tries apt-get; else it asks sudo, which refuses here.
    assert "openjdk-17-jre-headless" in calls or calls.startswith("sudo -n true")
    code, said, calls = install(tmp_path / "broken", python="/nonexistent/python")
    assert (code, calls) == (1, "")
    assert "run make setup first" in said
