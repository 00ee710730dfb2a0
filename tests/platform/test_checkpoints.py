"""A checkpoint and a table of two moments are told apart by the table's log, without Spark."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import SourceError, TableError
from pipelines.platform import checkpoints
from pipelines.platform.checkpoints import (
    TableCheckpoint,
    check_same_moment,
    note_moment,
    stream_given,
    write_whole,
)
from pipelines.platform.warehouse import Warehouse, create_bronze
from tests.support.tables import tables_in

STREAM = {"queryId": "q", "epochId": "4"}


def commit(folder: Path, version: int, **info: Any) -> None:
    """A commit of bronze's log."""
    file = folder / "bronze" / "messages" / "_delta_log" / f"{version:020}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    told = {"timestamp": 1000 + version, "operation": "WRITE", **info}
    file.write_text(json.dumps({"commitInfo": told}) + "\n")


def of(folder: Path, **given: int) -> TableCheckpoint:
    return TableCheckpoint(str(folder / "c"), "shop", "bronze", "messages", lambda: given)


def noted(folder: Path) -> Warehouse:
    """Bronze with the commits 0 to 3, of which a checkpoint knows."""
    for version in range(4):
        commit(folder, version)
    note_moment(tables_in(folder), of(folder), news=True)
    return tables_in(folder)


def test_a_folder_goes_by_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = tables_in(tmp_path)
    folder = Path(warehouse.checkpoint("bronze", "shop"))
    for name in ("files/000000.json", "files/000001.json", "of_bronze.json"):
        write_whole(folder / name, b"{}")

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "unlink", killed)
        checkpoints.remove(warehouse, str(folder))
    assert not folder.exists()
    # What was left goes with the next, be there one or not.
    checkpoints.remove(warehouse, str(folder))
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_where_no_folder_can_be_renamed_its_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise OSError("not supported")

    warehouse = tables_in(tmp_path)
    folder = Path(warehouse.checkpoint("bronze", "shop"))
    write_whole(folder / "files/000000.json", b"{}")
    monkeypatch.setattr(Path, "rename", refused)
    checkpoints.remove(warehouse, str(folder))
    assert not folder.exists()


def test_what_was_never_noted_is_of_any_moment(tmp_path: Path) -> None:
    commit(tmp_path, 0)
    check_same_moment(tables_in(tmp_path), of(tmp_path))


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"note": "another writer"},
        {"userMetadata": "q/4 7"},
        {"operationParameters": STREAM},
        {"userMetadata": "other/99 7"},
        {"operation": "OPTIMIZE"},
    ],
)
def test_what_came_since_is_no_other_moment(tmp_path: Path, more: dict[str, Any]) -> None:
    """A batch that was begun and appended by a run that was killed then is none, either."""
    warehouse = noted(tmp_path)
    commit(tmp_path, 4, **more)
    check_same_moment(warehouse, of(tmp_path, q=4))
    # Nor is the log looked through once more.
    commit(tmp_path, 5, operation="RESTORE")
    check_same_moment(warehouse, of(tmp_path, q=4))


@pytest.mark.parametrize(
    ("commits", "why"),
    [
        ({3: None}, "it has seen the table's version 3, and the newest is 2"),
        ({3: {"timestamp": 9}}, "the table's version 3 is another one than it has seen"),
        ({4: {"operation": "RESTORE"}}, "version 4 of the table put an older state in place"),
        ({4: {"operation": "CLONE"}, 5: {}}, "version 4 of the table put an older state in place"),
        ({4: {"operationParameters": STREAM}}, "the table has append 4, and it has given 3"),
        ({4: {"userMetadata": "q/4 None"}, 5: {}}, "the table has append 4, and it has given 3"),
    ],
)
def test_two_moments_are_named_with_the_folder_to_remove(
    tmp_path: Path, commits: dict[int, dict[str, Any] | None], why: str
) -> None:
    warehouse = noted(tmp_path)
    for version, info in commits.items():
        if info is None:
            (tmp_path / f"bronze/messages/_delta_log/{version:020}.json").unlink()
        else:
            commit(tmp_path, version, **info)
    named = re.escape(f"{why}. Remove the folder {tmp_path / 'c'} and run again: ")
    for _ in range(2):
        with pytest.raises(SourceError, match=f"^source shop: its checkpoint .*{named}"):
            check_same_moment(warehouse, of(tmp_path, q=3))


def test_only_so_many_commits_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "LOOKED_AT", 2)
    warehouse = noted(tmp_path)
    commit(tmp_path, 4, operation="RESTORE")
    for version in (5, 6, 7):
        commit(tmp_path, version)
    check_same_moment(warehouse, of(tmp_path))


@pytest.mark.parametrize("read", ["files/000000.json", "commits/0", "drained/orders.json"])
def test_bronze_that_is_gone_is_not_made_anew(tmp_path: Path, read: str) -> None:
    """Whatever tells that messages of a source were read into it."""
    warehouse = tables_in(tmp_path)
    write_whole(Path(warehouse.checkpoint("bronze", "shop"), read), b"{}")
    with pytest.raises(TableError, match=r"bronze\.messages is gone, which held messages of shop;"):
        create_bronze(warehouse)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b"{}", b'{"version": "3"}'])
def test_a_damaged_note_is_not_taken_for_none(tmp_path: Path, content: bytes) -> None:
    """Without it a table that was restored alone would pass for the one that was read."""
    warehouse = noted(tmp_path)
    of(tmp_path).file.write_bytes(content)
    commit(tmp_path, 4, operation="RESTORE")
    named = re.escape(str(of(tmp_path).file))
    with pytest.raises(
        SourceError, match=rf"^source shop: .* {named} cannot be read .* Remove the"
    ):
        check_same_moment(warehouse, of(tmp_path))
    of(tmp_path).file.unlink()
    check_same_moment(warehouse, of(tmp_path))


def test_a_quiet_source_does_not_look_at_the_same_commits_again(tmp_path: Path) -> None:
    noted(tmp_path)
    for version in range(4, 60):
        commit(tmp_path, version)
    check_same_moment(tables_in(tmp_path), of(tmp_path))
    assert json.loads(of(tmp_path).file.read_bytes())["version"] == 59


def test_a_stream_says_what_it_has_begun(tmp_path: Path) -> None:
    assert stream_given(str(tmp_path)) == {}
    (tmp_path / "metadata").write_text('{"id":"q"}')
    (tmp_path / "offsets").mkdir()
    assert stream_given(str(tmp_path)) == {"q": -1}
    for number in (0, 9, 10):
        (tmp_path / "offsets" / str(number)).touch()
    (tmp_path / "offsets" / ".11.crc").touch()
    assert stream_given(str(tmp_path)) == {"q": 10}
