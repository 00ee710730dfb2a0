"""The demo of `conf/`, played once in a copy, and the command in its folder."""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import io
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

COLUMNS = "100"
"""How wide the screens in README and docs are."""
ROOT = Path(__file__).resolve().parents[2]


class Demo(NamedTuple):
    """The folder that holds the copy of conf and the warehouse, and what each step printed."""

    folder: Path
    printed: Mapping[str, str]


def play(folder: Path) -> Demo:
    """Copy conf to `folder` and play every step of `make demo` there."""
    leave = shutil.ignore_patterns("bundle", "__pycache__")
    shutil.copytree(ROOT / "conf", folder / "conf", ignore=leave)
    script = _script(folder / "conf" / "demo" / "play.py")
    printed = {}
    with _inside(folder):
        for step in script.STEPS:
            printed[step] = _printed(partial(script.play, step))
    return Demo(folder, printed)


def ingest(demo: Demo, words: str) -> str:
    """What `ingest` prints for these words of a shell, run in the demo's folder.

    `ID` stands for the first id that `list` of the same verb shows. Raises AssertionError where the
    command ends with another exit code than 0.
    """
    from pipelines.cli.app import main

    arguments = [
        name
        for word in shlex.split(words, comments=True)
        for name in (sorted(glob.glob(word, root_dir=demo.folder)) or [word])
    ]
    if "ID" in arguments:
        first = re.search(r'"id":"(\w+)"', ingest(demo, f"{arguments[0]} list --json"))
        assert first is not None, f"`ingest {words}`: there is none to show"
        arguments[arguments.index("ID")] = first[1]
    with _inside(demo.folder):
        return _printed(lambda: main(arguments))


def _script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("play", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """In `folder`, without what the environment may say of settings or of the demo."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if _ours(name)}
    asked = "COLUMNS" in os.environ
    os.environ.setdefault("COLUMNS", COLUMNS)
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ.update(kept)
        if not asked:
            del os.environ["COLUMNS"]


def _ours(name: str) -> bool:
    return name == "DEMO_FILES" or (name.startswith("INGEST_") and name != "INGEST_SHARED")


def _printed(work: Callable[[], object]) -> str:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            work()
        except SystemExit as end:
            raise AssertionError(f"exit code {end.code}: {err.getvalue()}") from end
    return out.getvalue()
