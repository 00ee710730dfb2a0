"""A local table's log as it lies there: what it says, and how often it is listed for that."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from pipelines.platform import commit_log
from pipelines.platform.commit_log import CHECKED
from pipelines.platform.warehouse import Warehouse
from tests.support.tables import tables_in


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return tables_in(tmp_path)


def commit(warehouse: Warehouse, version: int) -> Path:
    file = warehouse.folder("gold", "t") / "_delta_log" / f"{version:020}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    state = file.with_suffix(".crc")
    for name in (state, *(each.with_name(f".{each.name}.crc") for each in (file, state))):
        name.touch()
    info = {"timestamp": version, "operation": "WRITE", "userMetadata": f"m {version}"}
    file.write_text(json.dumps({"commitInfo": info}) + "\n")
    return file


def test_the_log_is_listed_once_and_then_followed(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Path] = []
    glob = Path.glob

    def counted(folder: Path, pattern: str) -> Iterator[Path]:
        listed.append(folder)
        return cast(Iterator[Path], glob(folder, pattern))

    monkeypatch.setattr(Path, "glob", counted)
    for version in range(12):
        commit(warehouse, version)
    assert warehouse.last_note("gold", "t") == 11
    for version in range(12, 15):
        commit(warehouse, version)
        assert warehouse.stamp("gold", "t") == f"{version} of {version}"
    assert [found.version for found in warehouse.commits("gold", "t", 4)] == [14, 13, 12, 11]
    assert len(listed) == 1


def test_a_log_that_was_cleaned_or_begun_anew(warehouse: Warehouse) -> None:
    files = [commit(warehouse, version) for version in range(6)]
    assert warehouse.last_commit("gold", "t").version == 5
    for file in files[:4]:
        file.unlink()
    assert [found.version for found in warehouse.commits("gold", "t", 9)] == [5, 4]
    for file in files[4:]:
        file.unlink()
    commit(warehouse, 0)
    assert [found.version for found in warehouse.commits("gold", "t", 9)] == [0]


def test_a_long_log_is_its_commits_and_little_else(warehouse: Warehouse) -> None:
    warehouse.clear_checksums("gold", "t")
    files = [commit(warehouse, version) for version in range(300)]
    log = files[0].parent
    others = [
        *(log / f"{50:020}.checkpoint.parquet", log / f".{50:020}.checkpoint.parquet.crc"),
        *(log / "_last_checkpoint", log / "._last_checkpoint.crc"),
    ]
    for other in others:
        other.touch()
    warehouse.clear_checksums("gold", "t")
    # Delta lists them all, some ten times a run.
    assert len(list(log.iterdir())) == 300 + 3 * CHECKED + len(others)
    assert all(file.exists() for file in (*files, *others))
    # What came last is as it was.
    assert len([file for file in log.iterdir() if f"{300 - CHECKED:020}" in file.name]) == 4


def test_whether_there_is_a_table_is_told_by_the_first_commit_met(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not warehouse.exists("gold", "t")
    log = warehouse.folder("gold", "t") / "_delta_log"
    log.mkdir(parents=True)
    (log / f".{0:020}.json.draft.tmp").touch()
    assert not warehouse.exists("gold", "t")
    for version in range(200):
        commit(warehouse, version)
    met: list[str] = []
    scandir = os.scandir

    class Counted:
        def __init__(self, folder: Any) -> None:
            self._entries = scandir(folder)

        def __enter__(self) -> Iterator[Any]:
            return (met.append(entry.name) or entry for entry in self._entries)  # type: ignore[func-returns-value]

        def __exit__(self, *_: object) -> None:
            self._entries.close()

    monkeypatch.setattr(os, "scandir", Counted)
    assert warehouse.exists("gold", "t")
    assert len(met) < 200


def test_columns_are_asked_for_again_where_a_commit_defines_the_table_anew(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = itertools.count(1)

    def read(_: Warehouse, layer: str, table: str) -> Any:
        fields = [StructField(f"v{next(asked)}", StringType())]
        return SimpleNamespace(schema=StructType(fields))

    def columns() -> list[str]:
        return [field.name for field in warehouse.fields("gold", "t")]

    def add(version: int, action: str) -> Path:
        file = commit(warehouse, version)
        file.write_text(f"{file.read_text()}{action}\n")
        return file

    monkeypatch.setattr(Warehouse, "read", read)
    commit(warehouse, 0)
    assert columns() == columns() == ["v1"]
    stats = json.dumps({"add": {"path": "a", "stats": '{"metaData":1}'}})
    for version in (1, 2):
        add(version, stats)
        assert columns() == ["v1"]
    file = add(3, '{"metaData":{"id":"x"}}')
    commit(warehouse, 4)
    assert columns() == columns() == ["v2"]
    # What the log no longer has, and what has the place of another table's, may be anything.
    add(5, stats).unlink()
    for version in (5, 6):
        commit(warehouse, version)
    assert columns() == ["v2"]
    file.with_name(f"{6:020}.json").unlink()
    assert columns() == ["v3"]
    commit(warehouse, 5).write_text("another")
    assert columns() == ["v4"]
    for version in range(6, 100):
        commit(warehouse, version)
    assert columns() == ["v5"]


def test_a_failed_creation_is_cleared_whatever_time_its_draft_has(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_log, "_DRAFT", 0.2)
    log = warehouse.folder("gold", "t") / "_delta_log"
    log.mkdir(parents=True)
    # The clock of a file server is ahead, or this machine's was set back since.
    for later in (-3_600, 3_600):
        draft = log / ".00000000000000000000.json.tmp"
        draft.touch()
        os.utime(draft, (time.time() + later,) * 2)
        cleared = threading.Thread(
            target=commit_log.clear_failed_creation, args=(log,), daemon=True
        )
        cleared.start()
        cleared.join(10)
        assert not cleared.is_alive()
        assert not log.exists()
        log.mkdir()
