"""`.ci/browser` installs Chromium where there is none and it may, and is never a failure."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.demo import ROOT


def called(folder: Path, *, there: str | None = None, root: bool = True) -> list[str]:
    """What `.ci/browser` asks of apt-get and sudo, which refuse whatever they are asked."""
    calls = folder / "calls"
    calls.touch()
    for name in ("apt-get", "sudo"):
        program(folder / name, f'echo "{name} $*" >>{calls}\nexit 1')
    program(folder / "id", f"echo {0 if root else 1000}")
    found = shutil.which("env")
    assert found is not None
    (folder / "env").symlink_to(found)
    if there is not None:
        program(folder / there, "exit 0")
    command = [str(ROOT / ".ci" / "browser")]
    done = subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return calls.read_text().splitlines()


def program(file: Path, text: str) -> None:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def test_it_is_installed_where_it_is_missing(tmp_path: Path) -> None:
    update, install = called(tmp_path)
    assert update.startswith("apt-get update")
    assert install.startswith("apt-get install") and install.endswith(" chromium")


@pytest.mark.parametrize("there", ["chromium", "google-chrome"])
def test_what_is_there_will_do(tmp_path: Path, there: str) -> None:
    assert called(tmp_path, there=there) == []


def test_who_may_not_install_asks_once(tmp_path: Path) -> None:
    assert called(tmp_path, root=False) == ["sudo -n true"]
