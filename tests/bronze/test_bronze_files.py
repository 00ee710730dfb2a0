"""Files to bronze on real Spark and Delta: every message as received, once, whatever happens."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zstandard
from pyspark.sql import SparkSession

from ingest.config.sources import Source
from ingest.errors import PlatformError
from ingest.files.record import ERROR_HEADER, FILE_HEADER
from pipelines.bronze import file_log
from pipelines.bronze import files as bronze_files
from pipelines.bronze.file_log import Listed
from pipelines.bronze.files import _Reader
from pipelines.bronze.listing import list_local, list_uri
from pipelines.bronze.records import Unreadable
from pipelines.bronze.source import ingest_source
from pipelines.bronze.transport import Bronze
from pipelines.bronze.trimmed import trimmed
from pipelines.operations.reset import reset_source
from pipelines.operations.retention import trim_bronze
from pipelines.platform.session import having
from pipelines.platform.warehouse import Warehouse
from tests.support.tables import tables_in, tables_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tables(spark: SparkSession, warehouse: Path) -> Warehouse:
    return tables_in(warehouse, spark)


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


def files(path: Path | str, *, name: str = "shop", epoch: int = 0, **options: str) -> Source:
    return Source.model_validate(
        {"name": name, "epoch": epoch, "files": {"path": str(path), **options}}
    )


def put(path: Path, content: bytes, *, modified: int) -> str:
    """Writes a file with a time of modification in seconds; gives its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (modified, modified))
    return str(path)


def rows(tables: Warehouse, *columns: str) -> list[tuple[Any, ...]]:
    """Bronze in the order of its identity; binary as bytes."""

    def plain(value: Any) -> Any:
        if isinstance(value, bytearray):
            return bytes(value)
        if isinstance(value, list):
            return [tuple(plain(item) for item in pair) for pair in value]
        return value

    frame = tables.read("bronze", "messages").orderBy("source", "topic", "partition", "offset")
    return [tuple(map(plain, row)) for row in frame.select(*columns or ["*"]).collect()]


def version(tables: Warehouse) -> int:
    """The number of the last commit to bronze."""
    log = tables.folder("bronze", "messages") / "_delta_log"
    return max(int(file.stem) for file in log.glob("*.json"))


def test_every_message_is_there_as_received(tables: Warehouse, landing: Path) -> None:
    c = put(landing / "c.jsonl", b'{"n": 1.10}\r\n\n\xff\x00\n', modified=3)
    a = put(landing / "deep/er/a.jsonl.gz", gzip.compress(b"a0\na1"), modified=2)
    b = put(landing / "b.jsonl.zst", zstandard.ZstdCompressor().compress(b"b0\n"), modified=1)
    d = put(landing / "x/d.jsonl.bz2", bz2.compress(b"d0"), modified=3)
    put(landing / "other.txt", b"not asked for\n", modified=1)
    source = files(landing / "**/*.jsonl*", epoch=2)
    assert ingest_source(tables, source) == Bronze("shop", 6)
    found = rows(tables)
    times = {row[-1] for row in found}
    assert len(times) == 1
    assert [row[:-1] for row in found] == [
        ("shop", b, 0, 0, None, None, b"b0", None, 2),
        ("shop", c, 2, 0, None, None, b'{"n": 1.10}', None, 2),
        ("shop", c, 2, 1, None, None, b"\xff\x00", None, 2),
        ("shop", a, 1, 0, None, None, b"a0", None, 2),
        ("shop", a, 1, 1, None, None, b"a1", None, 2),
        ("shop", d, 3, 0, None, None, b"d0", None, 2),
    ]


def test_a_pattern_that_never_matched_is_said(tables: Warehouse, landing: Path) -> None:
    source = files(landing / "*.json")
    said = f"no file matches {landing}/*.json so far"
    assert ingest_source(tables, source) == Bronze("shop", 0, notes=(said,))
    only = put(landing / "a.json", b"a0\n", modified=1)
    assert ingest_source(tables, source) == Bronze("shop", 1)
    # What was read may be taken away.
    Path(only).unlink()
    assert ingest_source(tables, source) == Bronze("shop", 0)


def test_a_run_without_anything_new_starts_no_job(
    tables: Warehouse, landing: Path, spark: SparkSession
) -> None:
    put(landing / "a.jsonl", b"a0\n", modified=1)
    source = files(landing / "*.jsonl")
    assert ingest_source(tables, source).messages == 1
    jobs = spark._jsc.sc().dagScheduler().numTotalJobs()
    commit = version(tables)
    assert ingest_source(tables, source) == Bronze("shop", 0)
    assert spark._jsc.sc().dagScheduler().numTotalJobs() == jobs
    assert version(tables) == commit


@pytest.mark.parametrize(("order", "ordinals"), [("modified", [1, 0, 2]), ("path", [0, 1, 2])])
def test_new_files_are_numbered_in_order_and_go_on(
    tables: Warehouse, landing: Path, order: str, ordinals: list[int]
) -> None:
    source = files(landing / "*.jsonl", order=order)
    put(landing / "a.jsonl", b"a\n", modified=9)
    put(landing / "b.jsonl", b"b\n", modified=5)
    assert ingest_source(tables, source).messages == 2
    # Older than all that was read, and first by name: it is new, so its number is the next.
    put(landing / "0.jsonl", b"0\n", modified=1)
    assert ingest_source(tables, source).messages == 1
    expected = sorted(zip([b"a", b"b", b"0"], ordinals, strict=True))
    assert sorted(rows(tables, "value", "partition")) == expected


def test_sources_stand_side_by_side(tables: Warehouse, landing: Path) -> None:
    """Each framing is a source of its own; one that is added later touches no other's progress."""
    contents = {
        "lines": b"\x01\n",
        "whole": b"\x01\n\n",
        "length_prefixed": struct.pack(">I", 2) + b"\x01\n" + b"\x00\x00\x00\x09cut",
        "hex_lines": b"zz\n01\n",
        "base64_lines": b"AQ==\n?\n",
        "avro_container": b"Obj\x01none",
    }
    expected = {
        "lines": [b"\x01"],
        "whole": [b"\x01\n\n"],
        "length_prefixed": [b"\x01\n", b"\x00\x00\x00\x09cut"],
        "hex_lines": [b"zz", b"\x01"],
        "base64_lines": [b"\x01", b"?"],
        "avro_container": [b"Obj\x01none"],
    }
    broken = {("length_prefixed", 1), ("hex_lines", 0), ("base64_lines", 1), ("avro_container", 0)}
    for framing, content in contents.items():
        put(landing / framing / "f", content, modified=1)
        source = files(landing / framing / "*", name=framing, framing=framing)
        assert ingest_source(tables, source).messages == len(expected[framing])
    found = rows(tables, "source", "partition", "offset", "value", "headers")
    assert [row[:4] for row in found] == [
        (framing, 0, offset, value)
        for framing in sorted(expected)
        for offset, value in enumerate(expected[framing])
    ]
    for framing, _, offset, _, headers in found:
        if (framing, offset) in broken:
            ((name, reason),) = headers
            assert name == ERROR_HEADER
            assert reason.startswith(b"bad_framing: expected ")
        else:
            assert headers is None


def test_captured_records_keep_their_coordinates(tables: Warehouse, landing: Path) -> None:
    path = put(
        landing / "a.jsonl",
        b'{"topic":"t","partition":4,"offset":7,"ts":1700000000123,"key":"k",'
        b'"headers":["h","1","n",null],"payload":"v"}\n'
        b"{\n"
        b'{"topic":"t","partition":4,"offset":8,"ts":1700000000124,"payload":null}\n',
        modified=1,
    )
    source = files(landing / "*.jsonl", framing="kcat")
    assert ingest_source(tables, source).messages == 3
    file = (FILE_HEADER, f"0 {path}".encode())
    columns = ["topic", "partition", "offset", "key", "value"]
    broken, first, last = rows(tables, *columns, "timestamp", "headers")
    assert broken[:5] == (path, 0, 1, None, b"{")
    assert [name for name, _ in broken[6]] == [ERROR_HEADER, FILE_HEADER]
    assert first[:5] == ("t", 4, 7, b"k", b"v")
    assert first[6] == [("h", b"1"), ("n", None), file]
    assert last[:5] == ("t", 4, 8, None, None)
    assert last[6] == [file]
    assert (last[5] - first[5]).microseconds == 1000


@pytest.mark.parametrize("framing", ["lines", "kcat", "hex_lines"])
def test_a_lost_checkpoint_doubles_nothing(tables: Warehouse, landing: Path, framing: str) -> None:
    kcat = b'{"topic":"t","partition":1,"offset":5,"payload":"v"}\n'
    # A line that cannot be read has headers too: the reason alone.
    line = {"lines": b"v\n", "kcat": kcat, "hex_lines": b"v\n"}
    put(landing / "a b.jsonl", line[framing], modified=1)
    put(landing / "b.jsonl", line[framing], modified=2)
    source = files(landing / "*.jsonl", framing=framing)
    assert ingest_source(tables, source).messages == 2
    shutil.rmtree(tables.checkpoint("bronze"))
    assert ingest_source(tables, source) == Bronze("shop", 0)
    put(landing / "0.jsonl", b"x\n", modified=3)
    assert ingest_source(tables, source).messages == 1
    assert len(rows(tables)) == 3
    assert rows(tables, "partition", "value")[0] == (2, b"x")
    put(landing / "b.jsonl", b"longer than before\n", modified=9)
    assert ingest_source(tables, source).files_changed == (str(landing / "b.jsonl"),)


@pytest.mark.parametrize("framing", ["lines", "kcat"])
def test_a_lost_log_behind_retention_reads_nothing_again(
    tables: Warehouse, landing: Path, framing: str
) -> None:
    """What retention took out of bronze is not there to tell which files were read."""
    line = {"lines": b"%d\n", "kcat": b'{"topic":"t","partition":0,"offset":%d,"payload":"v"}\n'}
    put(landing / "a.jsonl", line[framing] % 0, modified=1)
    put(landing / "b.jsonl", line[framing] % 1 + line[framing] % 2, modified=2)
    source = files(landing / "*.jsonl", framing=framing)
    assert ingest_source(tables, source).messages == 3
    tables.config = replace(tables.config, sources={"shop": source})
    assert trim_bronze(tables, "shop", 0, now=time.time()) == 3
    assert trimmed(tables, "shop").numbers == {"": 1}
    late = {"lines": b"late\n", "kcat": b'{"payload":"late"}\n'}
    put(landing / "late.jsonl", late[framing], modified=int(time.time()) + 60)
    # The whole folder, as the sentence on a checkpoint of another moment has it.
    shutil.rmtree(tables.checkpoint("bronze", "shop"))
    [note] = ingest_source(tables, source).notes
    assert note.startswith("2 files from before 2") and str(landing / "a.jsonl") in note
    assert ingest_source(tables, source) == Bronze("shop", 0)
    [(ordinal, value)] = rows(tables, "partition", "value")
    assert ordinal > 1 and value == b"late"
    # A reset is to read all that there is.
    reset_source(tables, "shop", bronze=True)
    assert ingest_source(tables, source) == Bronze("shop", 4)


def test_no_ordinal_of_bronze_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its two a path has that was read twice."""

    class Found(list[dict[str, Any]]):
        def distinct(self) -> Found:
            return self

        def collect(self) -> Found:
            return self

    for place, ordinals in enumerate([(3, 1, 0), (0, 1, 3)]):
        found = Found({"ordinal": n, "path": "b" if n == 1 else "a"} for n in ordinals)
        monkeypatch.setattr(bronze_files, "files_in_bronze", lambda *_, found=found: found)
        log = file_log.FileLog(str(tmp_path / str(place)))
        source = files("*")
        assert source.files is not None
        reader = bronze_files._Reader(tables_in(tmp_path), source, source.files, log=log, bad=[])
        assert reader.adopt([Listed("a", 1, 1), Listed("b", 1, 1)]) == []
        assert {file.path: file.ordinal for file in log.files.values()} == {"a": 3, "b": 1}
        assert log.register([Listed("c", 1, 1)]).files[0].ordinal == 4


def test_a_batch_without_a_record_is_appended_once(tables: Warehouse, landing: Path) -> None:
    """Where no row tells that bronze has it, the table's log does."""
    put(landing / "blank.jsonl", b"\n\n", modified=1)
    source = files(landing / "*.jsonl")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(file_log.FileLog, "done", killed)
        with pytest.raises(KeyboardInterrupt):
            ingest_source(tables, source)
    before = version(tables)
    assert ingest_source(tables, source) == Bronze("shop", 0)
    assert version(tables) == before
    log = file_log.FileLog(tables.checkpoint("bronze", "shop", "files"))
    assert (log.pending, len(log.files)) == (None, 1)


def test_a_changed_file_is_named_and_the_rest_goes_on(tables: Warehouse, landing: Path) -> None:
    changed = put(landing / "a.jsonl", b"a0\n", modified=1)
    vanished = put(landing / "b.jsonl", b"b0\n", modified=1)
    source = files(landing / "*.jsonl")
    assert ingest_source(tables, source).messages == 2
    put(landing / "a.jsonl", b"a0\na1\n", modified=1)
    Path(vanished).unlink()
    put(landing / "c.jsonl", b"c0\n", modified=1)
    assert ingest_source(tables, source) == Bronze("shop", 1, files_changed=(changed,))
    assert ingest_source(tables, source) == Bronze("shop", 0, files_changed=(changed,))
    assert rows(tables, "value") == [(b"a0",), (b"b0",), (b"c0",)]


def test_a_project_may_be_moved_and_copied(tables: Warehouse, tmp_path: Path) -> None:
    """A file is known by its place in the project, and by its content where its time is another."""
    first, second, outside = (tmp_path / name for name in ("first", "second", "outside"))
    put(first / "landing/a.jsonl", b"a0\n", modified=1)
    put(first / "landing/b.jsonl", b"b0\n", modified=2)
    shared = put(outside / "c.jsonl", b"c0\n", modified=3)

    def ingest(project: Path) -> list[Bronze]:
        there = tables_of(tables.settings, tables.session, root=project)
        sources = (
            files(project / "landing/*.jsonl"),
            files(outside / "*.jsonl", name="other"),
        )
        return [ingest_source(there, source) for source in sources]

    assert ingest(first) == [Bronze("shop", 2), Bronze("other", 1)]
    shutil.copytree(first, second, copy_function=shutil.copyfile)
    assert ingest(second) == [Bronze("shop", 0), Bronze("other", 0)]
    assert rows(tables, "source", "topic", "value") == [
        ("other", shared, b"c0"),
        ("shop", "landing/a.jsonl", b"a0"),
        ("shop", "landing/b.jsonl", b"b0"),
    ]
    # Of the same size, but another file.
    put(second / "landing/b.jsonl", b"b1\n", modified=9)
    put(second / "landing/d.jsonl", b"d0\n", modified=9)
    changed = ("landing/b.jsonl",)
    assert ingest(second)[0] == Bronze("shop", 1, files_changed=changed)
    assert ingest(first)[0].messages == 0
    # Without a log, bronze tells them by the same names.
    shutil.rmtree(tables.checkpoint("bronze"))
    assert ingest(second)[0] == Bronze("shop", 0)


def test_an_unreadable_file_is_named_and_the_rest_goes_on(
    tables: Warehouse, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(landing / "a.jsonl", b"a0\n", modified=1)
    loop = landing / "loop.jsonl"
    loop.symlink_to(loop)
    memory = landing / "memory.jsonl"
    memory.symlink_to("/proc/self/mem")
    source = files(landing / "*.jsonl")
    unreadable = (
        Unreadable(str(loop), "Too many levels of symbolic links"),
        Unreadable(str(memory), "Input/output error"),
    )
    assert ingest_source(tables, source) == Bronze("shop", 1, files_unreadable=unreadable)
    # The same where it shows only in the task: it is dropped from the batch, and new next time.
    monkeypatch.setattr(bronze_files, "openable", lambda new, root: (list(new), []))
    put(landing / "b.jsonl", b"b0\n", modified=1)
    assert ingest_source(tables, source) == Bronze("shop", 1, files_unreadable=unreadable)
    memory.unlink()
    put(memory, b"m0\n", modified=1)
    assert ingest_source(tables, source) == Bronze("shop", 1, files_unreadable=unreadable[:1])
    assert sorted(rows(tables, "partition", "value")) == [(0, b"a0"), (1, b"b0"), (3, b"m0")]


def test_a_name_that_is_no_text_is_named_and_the_rest_goes_on(landing: Path) -> None:
    (landing / "a.jsonl").touch()
    odd = os.fsdecode(os.fsencode(landing) + b"/caf\xe9.jsonl")
    Path(odd).touch()
    listed, bad = list_local("shop", f"{landing}/*.jsonl")
    assert [file.path for file in listed] == [f"{landing}/a.jsonl"]
    assert bad == [Unreadable(odd, "its name is not UTF-8; rename it")]


def test_a_file_that_a_pattern_reaches_by_several_ways_is_listed_once(landing: Path) -> None:
    put(landing / "part/day/part/a.jsonl", b"a0\n", modified=1)
    put(landing / "part/b.jsonl", b"b0\n", modified=2)
    both = [f"{landing}/part/{name}" for name in ("b.jsonl", "day/part/a.jsonl")]
    for pattern in ("**/**/*.jsonl", "**/part/**/*.jsonl"):
        listed, bad = list_local("shop", f"{landing}/{pattern}")
        assert (sorted(file.path for file in listed), bad) == (both, [])


def test_what_is_no_file_is_named_and_never_waited_for(landing: Path) -> None:
    (landing / "a.jsonl").touch()
    os.mkfifo(landing / "pipe.jsonl")
    (landing / "zeros.jsonl").symlink_to("/dev/zero")
    listed, bad = list_local("shop", f"{landing}/*.jsonl")
    assert [file.path for file in listed] == [f"{landing}/a.jsonl"]
    assert sorted(bad) == [
        Unreadable(f"{landing}/{name}.jsonl", "it is a pipe, a socket or a device, and no file")
        for name in ("pipe", "zeros")
    ]


def test_a_file_without_a_byte_is_not_read_yet(tmp_path: Path, landing: Path) -> None:
    put(landing / "a.jsonl", b"", modified=1)
    put(landing / "b.jsonl", b"b0\n", modified=1)
    assert bronze_files.unread(tables_in(tmp_path), files(landing / "*.jsonl")) == 1


@pytest.mark.slow
def test_a_file_that_is_made_before_it_is_written_is_read(tables: Warehouse, landing: Path) -> None:
    """Read while it was empty, it counted as changed from then on, and was never read."""
    put(landing / "a.jsonl", b"", modified=1)
    source = files(landing / "*.jsonl")
    assert ingest_source(tables, source) == Bronze("shop", 0)
    put(landing / "a.jsonl", b"a0\n", modified=2)
    assert ingest_source(tables, source) == Bronze("shop", 1)
    assert rows(tables, "value") == [(b"a0",)]
    # What was read and is empty by now has changed.
    put(landing / "a.jsonl", b"", modified=3)
    assert ingest_source(tables, source).files_changed == (f"{landing}/a.jsonl",)


def test_a_missing_folder_is_one_clear_sentence(tables: Warehouse, landing: Path) -> None:
    with pytest.raises(PlatformError) as error:
        ingest_source(tables, files(landing / "none/**/*.jsonl"))
    assert str(error.value) == (
        f"source shop reads {landing}/none/**/*.jsonl, but there is no {landing}/none/:"
        " create it or correct files.path."
    )
    with pytest.raises(PlatformError, match="which is a folder: name its files"):
        ingest_source(tables, files(landing))
    assert ingest_source(tables, files(landing / "*/none-yet.jsonl")).messages == 0
    put(landing / "none/empty.jsonl", b"", modified=1)
    assert ingest_source(tables, files(landing / "none/**/*.jsonl")) == Bronze("shop", 0)
    assert rows(tables) == []


def test_batches_are_bounded_and_stop_is_heeded(
    tables: Warehouse, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bronze_files, "MOST_FILES", 2)
    monkeypatch.setattr(bronze_files, "MOST_BYTES", 10)
    for number, size in enumerate([1, 1, 1, 8, 3, 20]):
        put(landing / f"{number}.jsonl", b"x" * size, modified=number)
    source = files(landing / "*.jsonl")
    asked = iter([False, False, True])
    assert ingest_source(tables, source, stop=lambda: next(asked)).messages == 4
    log = file_log.FileLog(tables.checkpoint("bronze", "shop", "files"))
    assert sorted(Path(path).stem for path in log.files) == ["0", "1", "2", "3"]
    assert ingest_source(tables, source).messages == 2
    assert version(tables) == 4


def test_a_uri_is_read_through_spark(tables: Warehouse, landing: Path) -> None:
    put(landing / "deep/a [1]{x}.jsonl.gz", gzip.compress(b"a0\na1\n"), modified=2)
    put(landing / "b.jsonl", b"b0\n", modified=1)
    put(landing / "b.txt", b"not asked for\n", modified=1)
    source = files(f"file://{landing}/**/*.jsonl*")
    assert ingest_source(tables, source) == Bronze("shop", 3)
    assert ingest_source(tables, source) == Bronze("shop", 0)
    put(landing / "b.jsonl", b"b0\nb1\n", modified=1)
    put(landing / "c.jsonl", b"c0\n", modified=3)
    changed = (f"file:{landing}/b.jsonl",)
    assert ingest_source(tables, source) == Bronze("shop", 1, files_changed=changed)
    assert rows(tables, "topic", "partition", "offset", "value") == [
        (f"file:{landing}/b.jsonl", 0, 0, b"b0"),
        (f"file:{landing}/c.jsonl", 2, 0, b"c0"),
        (f"file:{landing}/deep/a [1]{{x}}.jsonl.gz", 1, 0, b"a0"),
        (f"file:{landing}/deep/a [1]{{x}}.jsonl.gz", 1, 1, b"a1"),
    ]
    # What is gone or cannot be read takes no other with it, nor does it stop the source.
    put(landing / "d [1].jsonl", b"d0\n", modified=4)
    put(landing / "e.jsonl", b"e0\n", modified=5)

    def listed_before(*about: Any) -> list[Listed]:
        found = list_uri(*about)
        (landing / "d [1].jsonl").unlink(missing_ok=True)
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bronze_files, "list_uri", listed_before)
        gone = (Unreadable(f"file:{landing}/d [1].jsonl", "it is gone"),)
        assert ingest_source(tables, source).files_unreadable == gone
    assert rows(tables, "value").count((b"e0",)) == 1
    put(landing / "d [1].jsonl", b"d0\n", modified=4)
    assert ingest_source(tables, source).messages == 1
    # Nor does what is too large; also where it was small when it was listed.
    large = put(landing / "f.jsonl", b"f0\n" * 50, modified=6)
    put(landing / "g.jsonl", b"g0\n", modified=7)
    reason = (
        "expected at most 100 bytes, since a file of a URI is held in memory as a whole, got 150; "
        "write smaller files, or mount the store and name a path"
    )
    set_aside = (Unreadable(f"file:{large}", reason),)
    with having(tables.session, {"spark.sql.sources.binaryFile.maxLength": "100"}):
        assert ingest_source(tables, source) == Bronze("shop", 1, changed, set_aside)
        put(landing / "h.jsonl", b"h0\n", modified=8)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                _Reader, "append_new", lambda self, files: self._append(self._log.register(files))
            )
            assert ingest_source(tables, source) == Bronze("shop", 1, changed, set_aside)
        assert ingest_source(tables, source) == Bronze("shop", 0, changed, set_aside)
    assert ingest_source(tables, source) == Bronze("shop", 50, changed)
    with pytest.raises(PlatformError, match=r"but there is no file:///nowhere/"):
        ingest_source(tables, files("file:///nowhere/*.jsonl"))


KILLED = """
import os, signal, sys
from pathlib import Path

from ingest.config.sources import Source
from pipelines.bronze import file_log
from pipelines.bronze import files as bronze_files
from pipelines.bronze.source import ingest_source
from pipelines.platform.session import spark
from tests.support.tables import tables_in

place = Path(sys.argv[1])
tables = tables_in(place, spark(warehouse=place, memory="512m"))
source = Source.model_validate({"name": "shop", "files": {"path": sys.argv[2]}})
bronze_files.MOST_FILES = 2


def killing(folder):
    os.kill(os.getpid(), signal.SIGKILL)


file_log._settle = killing
ingest_source(tables, source)
"""


@pytest.mark.slow
def test_a_run_killed_while_it_registers_files_loses_and_doubles_nothing(
    tables: Warehouse, warehouse: Path, landing: Path
) -> None:
    """The other points are `tests.operations.test_killed`'s."""
    for number in range(5):
        put(landing / f"{number}.jsonl", b"%d\n" % number * 1000, modified=number)
    script = [sys.executable, "-c", KILLED, str(warehouse), str(landing / "*.jsonl")]
    killed = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    source = files(landing / "*.jsonl")
    assert ingest_source(tables, source).messages == 5000
    expected = [
        (str(landing / f"{number}.jsonl"), number, offset, b"%d" % number)
        for number in range(5)
        for offset in range(1000)
    ]
    assert rows(tables, "topic", "partition", "offset", "value") == expected
    assert ingest_source(tables, source) == Bronze("shop", 0)


def test_the_bounds_hold_for_what_a_task_reads(landing: Path) -> None:
    """Slices of many small files and of one large file, by rows and by bytes."""
    import pyarrow as pa

    from pipelines.bronze.file_log import Numbered
    from pipelines.bronze.records import by_path

    def sizes(framing: str, contents: list[bytes]) -> list[int]:
        numbered = [
            Numbered(put(landing / f"{n}", content, modified=1), n, len(content), 1)
            for n, content in enumerate(contents)
        ]
        asked = pa.RecordBatch.from_arrays([pa.array([0], pa.int64())], names=["id"])
        read: Callable[[Any], Any] = by_path([numbered], framing)
        return [len(batch) for batch in read(iter([asked]))]

    assert sizes("lines", [b"x\n" * 5001]) == [2000, 2000, 1001]
    assert sizes("lines", [b"x\n" * 1500] * 3) == [2000, 2000, 500]
    assert sizes("whole", [b"x" * 3_000_000] * 7) == [3, 3, 1]
    assert sizes("lines", [b""] * 3) == []
