"""The log of files: what it keeps over runs, over kills at any moment, and over its own growth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.bronze import file_log
from pipelines.bronze.file_log import FileBatch, FileLog, Listed, Numbered, known_by, located

A, B, C, D = (Listed(f"/in/{name}.jsonl", size, size * 10) for size, name in enumerate("abcd", 1))


def numbered(file: Listed, ordinal: int) -> Numbered:
    return Numbered(file.path, ordinal, file.size, file.modified)


def test_ordinals_go_on_over_batches_and_runs(tmp_path: Path) -> None:
    log = FileLog(str(tmp_path / "files"))
    assert (log.new, log.pending, log.files) == (True, None, {})
    first = log.register([B, A])
    assert first == FileBatch(0, (numbered(B, 0), numbered(A, 1)))
    log.done(first)
    log = FileLog(str(tmp_path / "files"))
    assert (log.new, log.pending) == (False, None)
    assert log.files == {B.path: numbered(B, 0), A.path: numbered(A, 1)}
    assert log.register([C]) == FileBatch(1, (numbered(C, 2),))


def test_a_batch_without_its_end_is_pending(tmp_path: Path) -> None:
    log = FileLog(str(tmp_path))
    batch = log.register([A, B])
    again = FileLog(str(tmp_path))
    assert (again.pending, again.writer) == (batch, log.writer)
    again.done(batch)
    assert (again.pending, FileLog(str(tmp_path)).pending) == (None, None)


def test_a_draft_that_was_not_finished_is_nothing(tmp_path: Path) -> None:
    log = FileLog(str(tmp_path))
    log.done(log.register([A]))
    (tmp_path / "000001.tmp").write_text('{"writer": ')
    log = FileLog(str(tmp_path))
    assert (log.pending, set(log.files)) == (None, {A.path})
    assert log.register([B]).number == 1


def test_the_ordinal_of_a_dropped_file_is_not_given_again(tmp_path: Path) -> None:
    log = FileLog(str(tmp_path))
    kept = log.drop(log.register([A, B]), {B.path})
    assert kept == FileBatch(0, (numbered(A, 0),))
    log = FileLog(str(tmp_path))
    assert (log.pending, set(log.files)) == (kept, {A.path})
    assert log.register([B]).files == (numbered(B, 2),)


def test_the_ordinals_of_adopted_files_go_on(tmp_path: Path) -> None:
    log = FileLog(str(tmp_path))
    log.adopt([numbered(A, 7), numbered(B, 3)])
    log = FileLog(str(tmp_path))
    assert (log.new, log.pending) == (False, None)
    assert log.register([C]).files == (numbered(C, 8),)


def test_adopted_files_are_never_pending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill before their end was noted would offer them again, and they would be the newest."""
    with monkeypatch.context() as killed:
        killed.setattr(FileLog, "done", lambda *_: None)
        FileLog(str(tmp_path)).adopt([numbered(A, 7)], following=9)
    log = FileLog(str(tmp_path))
    assert (log.pending, log.files) == (None, {A.path: numbered(A, 7)})
    batch = log.register([B])
    assert (batch.number, batch.files) == (1, (numbered(B, 9),))
    assert FileLog(str(tmp_path)).pending == batch


@pytest.mark.parametrize("killed", ["", "registered", "whole"])
def test_the_log_does_not_grow_without_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    monkeypatch.setattr(file_log, "GATHERED", 4)
    for number in range(90):
        log = FileLog(str(tmp_path))
        assert log.pending is None
        assert len(log.files) == number
        batch = log.register([Listed(f"/in/{number}", number, number)])
        if killed and number % 3 == 0:
            # A kill between the append and its note, or before the old files were removed.
            log = FileLog(str(tmp_path))
            assert log.pending == batch
        if killed == "whole":
            (tmp_path / f"{number:06}.done").touch()
        else:
            log.done(batch)
    assert FileLog(str(tmp_path)).files == {
        f"/in/{number}": Numbered(f"/in/{number}", number, number, number) for number in range(90)
    }
    if killed != "whole":
        kept = {int(file.stem) for file in tmp_path.glob("*.json")}
        assert kept == {64, 80, 84, 88, 89}


def test_a_file_is_written_a_few_times_in_the_life_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once more with every so many batches, as a log would that is written whole."""
    monkeypatch.setattr(file_log, "GATHERED", 10)
    log = FileLog(str(tmp_path))
    written = 0
    for number in range(1_001):
        batch = log.register([Listed(f"/in/{number}", number, number)])
        record = json.loads((tmp_path / f"{number:06}.json").read_text())
        written += len(record["files"]) + len(record["before"] or ())
        log.done(batch)
    assert written == 1_001 + 90 * 10 + 9 * 100 + 1_000
    assert len(FileLog(str(tmp_path)).files) == 1_001


def test_a_log_is_read_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`status` reads what a run gathers and removes at that moment."""
    monkeypatch.setattr(file_log, "GATHERED", 3)
    log = FileLog(str(tmp_path))
    for number in range(3):
        log.done(log.register([Listed(f"/in/{number}", number, number)]))
    read = FileLog._record

    def removed_meanwhile(self: FileLog, number: int) -> dict[str, object]:
        if self is not log and number == 2 and len(log.files) == 3:
            log.done(log.register([Listed("/in/3", 3, 3)]))
        return read(self, number)

    monkeypatch.setattr(FileLog, "_record", removed_meanwhile)
    assert len(FileLog(str(tmp_path)).files) == 4


def test_a_record_that_is_missing_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_log, "_PAUSE", 0)
    log = FileLog(str(tmp_path))
    for number in range(3):
        log.done(log.register([Listed(f"/in/{number}", number, number)]))
    (tmp_path / "000001.json").unlink()
    with pytest.raises(ValueError, match=r"000001\.json is missing"):
        FileLog(str(tmp_path))


def test_what_the_log_looks_like(tmp_path: Path) -> None:
    log = FileLog(str(tmp_path))
    log.done(log.register([A]))
    log.register([B])
    assert json.loads((tmp_path / "000001.json").read_text()) == {
        "writer": log.writer,
        "next_ordinal": 2,
        "files": [["/in/b.jsonl", 1, 2, 20, None]],
        "adopted": False,
        "before": None,
    }
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "000000.done",
        "000000.json",
        "000001.json",
    ]


@pytest.mark.parametrize(
    ("now", "changed"),
    [(A, False), (A._replace(size=9), True), (A._replace(modified=9), True)],
)
def test_a_changed_file(now: Listed, changed: bool) -> None:
    assert numbered(A, 0).changed(now) is changed


def test_files_are_known_by_their_place_in_the_project(tmp_path: Path) -> None:
    assert known_by("/p/landing/a", "/p") == "landing/a"
    assert (known_by("/pp/a", "/p"), known_by("/p/a", None)) == ("/pp/a", "/p/a")
    assert (located("landing/a", "/p"), located("/pp/a", "/p")) == ("/p/landing/a", "/pp/a")
    # A log of when they were known by their whole paths goes on.
    log = FileLog(str(tmp_path))
    log.done(log.register([A, Listed("/out/e", 1, 1, "digest")]))
    log = FileLog(str(tmp_path), root="/in")
    assert set(log.files) == {"a.jsonl", "/out/e"}
    assert log.register([Listed("b.jsonl", 1, 1)]).files[0].ordinal == 2


def test_a_copy_has_another_time_and_the_same_content() -> None:
    held = Numbered("a", 0, 2, 10, "digest")
    copy = Listed("a", 2, 11, "digest")
    assert (held.changed(copy), held.copied(copy)) == (True, True)
    assert not held.copied(copy._replace(digest="other"))
    assert not held._replace(digest=None).copied(copy._replace(digest=None))
