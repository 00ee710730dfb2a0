"""A run killed in the middle of each stage and started again ends in the same tables.

One project is killed at every point in turn, each run being the recovery from the kill before; then
a plain run ends the work. Another project does the same work without a kill.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest.config.load import load
from ingest.errors import TableError
from pipelines.operations import reset
from pipelines.platform.rows import records
from pipelines.platform.warehouse import Warehouse
from tests.support.kafka_broker import _free_ports
from tests.support.killing import DECISIONS, POINTS, REPAIRS
from tests.support.merge_scenarios import plain
from tests.support.project import Project, canal, canal_ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
SOURCE = "name: shop\nfiles: {path: 'landing/*.jsonl', framing: kcat}\norder: source\n"
MORE = {"id": "int", "name": "varchar(20)", "price": "decimal(12,2)", "stock": "int"}


def _row(id_: int, name: str, price: str = "1.50", **more: str) -> dict[str, str | None]:
    return {"id": str(id_), "name": name, "price": price, **more}


BEFORE = [
    *(canal("item", "INSERT", _row(id_, f"first {id_}"), es=1000 + id_, id_=1) for id_ in range(9)),
    canal("customer", "INSERT", _row(1, "Ada"), es=1100, id_=1),
]
AFTER = [
    canal("item", "UPDATE", _row(1, "second"), es=2001, id_=2, old={"name": "first 1"}),
    canal("item", "DELETE", _row(2, "first 2"), es=2002, id_=2),
    canal("item", "UPDATE", _row(30, "first 3"), es=2003, id_=2, old={"id": "3"}),
    canal("item", "UPDATE", _row(4, "late"), es=900, id_=1, old={"name": "earlier"}),
    canal("item", "UPDATE", _row(5, "odd", "much"), es=2004, id_=2, old={"name": "first 5"}),
    canal_ddl("item", "ALTER TABLE item ADD COLUMN stock int DEFAULT 7", es=2005, id_=2),
    canal("item", "INSERT", _row(40, "new", stock="3"), es=2006, id_=2, types=MORE),
    canal("customer", "UPDATE", _row(1, "Eve"), es=2100, id_=2, old={"name": "Ada"}),
    "no message of any format",
]
RETYPED = [canal_ddl("item", "ALTER TABLE item MODIFY price varchar(9)", es=2007, id_=3)]


def _land(project: Project, name: str, messages: list[Any], first: int) -> None:
    """As captured, so that coordinates do not depend on the folder."""
    project.land(
        name,
        [
            {
                **{"topic": "shop", "partition": 0, "offset": offset, "ts": 1_700_000_000_000},
                "key": None,
                "payload": text if isinstance(text, str) else json.dumps(text),
            }
            for offset, text in enumerate(messages, first)
        ],
    )


def _project(folder: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    """With the first messages in all tables, the second waiting."""
    project = Project(folder, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    _land(project, "1.jsonl", BEFORE, 0)
    assert project.ingest("run").code == 0
    _land(project, "2.jsonl", AFTER, len(BEFORE))
    return project


def _started(project: Project, *words: str) -> subprocess.Popen[str]:
    """Python in a process group of its own, with a mark that its JVM has, too."""
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "INGEST_TEST_OF": str(project.folder)},
    )


def _killed(project: Project, point: str, *words: str) -> None:
    """Run, or what `words` say, until the end at `point`; returns when the JVM is gone, too."""
    conf = ["--conf", str(project.folder / "conf")]
    process = _started(project, "-m", "tests.support.killing", point, *conf, *(words or ["run"]))
    try:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, said
        _gone(project, point)
    finally:
        for left in _of(project):
            os.kill(left, signal.SIGKILL)


def _gone(project: Project, when: str) -> None:
    """Wait until no process of the project's is left."""
    deadline = time.monotonic() + 60
    while _of(project):
        assert time.monotonic() < deadline, f"{when}: the JVM outlived its process by a minute"
        time.sleep(0.1)


def _of(project: Project) -> list[int]:
    """The processes that were started for the project and live."""
    mark = f"INGEST_TEST_OF={project.folder}".encode()
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in file.read_bytes().split(b"\0"):
                found.append(int(file.parent.name))
    return found


def _tables(project: Project, spark: SparkSession) -> dict[str, list[str]]:
    """What all tables hold, without times of processing and numbers of appends."""
    warehouse = Warehouse(load(project.folder / "conf", environ={}), spark)

    def held(layer: str, table: str, *without: str) -> list[str]:
        rows = records(warehouse.read(layer, table).drop(*without))
        return sorted(json.dumps(plain(row), sort_keys=True, default=repr) for row in rows)

    return {
        "bronze": held("bronze", "messages", "headers", "ingested_at"),
        "silver": held("silver", "cdc", "decoded_at", "batch"),
        "item": held("gold", "shop_item"),
        "customer": held("gold", "shop_customer"),
        "rejects": held("gold", "_rejects", "at"),
        "ddl": held("gold", "_ddl", "at", "decided_at", "proposed", "version"),
    }


@pytest.mark.slow
def test_killed_at_every_point(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unharmed = _project(tmp_path / "unharmed", capsys)
    assert unharmed.ingest("run").code == 0
    expected = _tables(unharmed, spark)
    assert [len(expected[name]) for name in ("bronze", "item", "rejects", "ddl")] == [19, 9, 1, 1]
    harmed = _project(tmp_path / "harmed", capsys)
    for point in POINTS:
        _killed(harmed, point)
    answer = harmed.ingest("run")
    assert answer.code == 0, answer.err
    assert _tables(harmed, spark) == expected
    for project in (unharmed, harmed):
        _land(project, "3.jsonl", RETYPED, len(BEFORE) + len(AFTER))
        assert project.ingest("run").code == 0
    (entry,) = [
        e["id"] for e in harmed.ingest("ddl", "list", "--json").records if e["status"] == "pending"
    ]
    assert unharmed.ingest("ddl", "approve", entry).code == 0
    expected = _tables(unharmed, spark)
    for point in DECISIONS:
        _killed(harmed, point, "ddl", "approve", entry)
    assert harmed.ingest("run").code == 0
    assert _tables(harmed, spark) == expected
    for point in REPAIRS:
        _killed(harmed, point, "rebuild", "shop_item")
        assert _tables(harmed, spark) == expected
        assert harmed.ingest("run").code == 0
    assert _tables(harmed, spark) == expected
    assert harmed.ingest("reconcile", "shop_item").code == 0


@pytest.mark.slow
def test_rows_above_a_drop_that_came_late_are_folded_again_after_a_kill(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The DROP waits, so the target keeps the column; a row from after it has no DEFAULT of it any
    more. The next run, which meets the statement no more, left the DEFAULT in the row."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    with_stock = canal("item", "INSERT", _row(2, "pen", stock="8"), es=3000, id_=1, types=MORE)
    first = [
        canal("item", "INSERT", _row(1, "ink"), es=1000, id_=1),
        canal_ddl("item", "ALTER TABLE item ADD COLUMN stock int DEFAULT 5", es=2000, id_=1),
        with_stock,
    ]
    _land(project, "1.jsonl", first, 0)
    assert project.ingest("run").code == 0
    _land(project, "2.jsonl", [canal("item", "INSERT", _row(3, "cap"), es=5000, id_=1)], 3)
    assert project.ingest("run").code == 0
    query = "SELECT id, stock FROM gold.shop_item ORDER BY id"
    before = project.ingest("sql", query, "--json").records
    assert [row["stock"] for row in before] == [5, 8, 5]
    late = [
        canal_ddl("item", "ALTER TABLE item DROP COLUMN stock", es=4000, id_=1),
        canal("item", "INSERT", _row(4, "nib"), es=6000, id_=1),
    ]
    _land(project, "3.jsonl", late, 4)
    _killed(project, "merged")
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    after = project.ingest("sql", query, "--json").records
    assert [row["stock"] for row in after] == [5, 8, None, None]
    assert project.ingest("reconcile", "shop_item").code == 0


@pytest.mark.slow
def test_a_signal_to_the_group_ends_a_run_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """systemd, `timeout` and terminals signal the whole group; the JVM is needed until the end.
    Until then it answers whoever asks how it does."""
    project = _project(tmp_path, capsys)
    conf = ["--conf", str(project.folder / "conf")]
    command = "import sys; from pipelines.cli.app import main; main(sys.argv[1:])"
    [port] = _free_ports(1)
    listen = ["--listen", f"127.0.0.1:{port}"]
    process = _started(project, "-c", command, *conf, "run", "--continuous", *listen)
    try:
        deadline = time.monotonic() + 300
        gold = project.folder / "warehouse/gold/shop_item/_delta_log"
        before = len(list(gold.glob("*.json")))
        while len(list(gold.glob("*.json"))) == before:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        while _answer(port, "ready") is None:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.1)
        assert _answer(port, "health") is not None
        assert 'ingest_source_messages_total{source="shop"} ' in (_answer(port, "metrics") or "")
        os.killpg(process.pid, signal.SIGTERM)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert "SIGTERM: ends after the batch" in said
        assert "failed" not in said, said
        _gone(project, "SIGTERM")
    finally:
        for left in _of(project):
            os.kill(left, signal.SIGKILL)


def _answer(port: int, name: str) -> str | None:
    """What the run says of itself there; None where it does not, or says that it is not well."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=10) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


@pytest.mark.slow
def test_a_reset_takes_what_a_killed_run_has_not_recorded(
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.write("conf/tables/shop.yml", "source: shop\ntables: [{from: 'shop.*'}]\n")
    _land(project, "1.jsonl", BEFORE, 0)
    with monkeypatch.context() as patch, pytest.raises(_Killed):
        patch.setattr("pipelines.gold.run.record_progress", _end)
        project.ingest("run")
    warehouse = Warehouse(load(project.folder / "conf", environ={}), spark)
    assert warehouse.exists("gold", "shop_item")
    assert project.ingest("reset", "--source", "shop", "--yes").code == 0
    warehouse = Warehouse(load(project.folder / "conf", environ={}), spark)
    assert not warehouse.exists("gold", "shop_item")


@pytest.mark.slow
def test_a_reset_killed_amid_a_checkpoint_leaves_no_part_of_it(
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run that came before the reset was called again met a record of files that was missing, and
    failed its source."""
    project = Project(tmp_path, capsys.readouterr)
    project.write(
        "conf/sources/shop.yml",
        "name: shop\nformat: canal\norder: arrival\n"
        "files: {path: 'landing/*.jsonl', order: path}\n",
    )
    inserts = [canal("item", "INSERT", _row(id_, "old"), es=id_, id_=id_) for id_ in (1, 2)]
    project.land("1.jsonl", inserts)
    assert project.ingest("run").code == 0
    update = canal("item", "UPDATE", _row(1, "new"), es=3, id_=3, old={"name": "old"})
    delete = canal("item", "DELETE", _row(2, "old"), es=4, id_=4)
    project.land("2.jsonl", [update, delete])
    assert project.ingest("run").code == 0
    unlink = os.unlink

    def unlinking(file: str, *, dir_fd: int | None = None) -> None:
        # In whatever order the file system has them: the record of the first file goes first.
        name = Path(file).name
        if name != "000001.json":
            unlink(file, dir_fd=dir_fd)
        if name == "000000.json":
            raise _Killed

    with monkeypatch.context() as patch, pytest.raises(_Killed):
        patch.setattr(os, "unlink", unlinking)
        project.ingest("reset", "--source", "shop", "--bronze", "--yes")
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    rows = project.ingest("sql", "SELECT id, name FROM gold.shop_item", "--json").records
    assert rows == [{"id": 1, "name": "new"}]


@pytest.mark.slow
def test_a_reset_killed_before_its_last_step_forgets_no_schema_change(
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With its schema changes gone and its progress there, the parked target's sentence led to a
    rebuild in which a renamed column was two."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/ingest.yml", "ddl: {destructive: apply}\n")
    project.write("conf/sources/shop.yml", "name: shop\nfiles: {path: 'landing/*.jsonl'}\n")
    renamed = {"id": "2", "title": "later", "price": "2.50"}
    types = {"id": "int", "title": "varchar(20)", "price": "decimal(12,2)"}
    project.land(
        "1.jsonl",
        [
            canal("item", "INSERT", _row(1, "first"), es=1, id_=1),
            canal_ddl("item", "ALTER TABLE item RENAME COLUMN name TO title", es=2, id_=2),
            canal("item", "INSERT", renamed, es=3, id_=3, types=types),
        ],
    )
    assert project.ingest("run").code == 0
    query = "SELECT * EXCEPT (_pos) FROM gold.shop_item ORDER BY id"
    before = project.ingest("sql", query, "--json").records
    assert [row["title"] for row in before] == ["first", "later"]
    delete, calls = reset._delete, []

    def killed(*given: Any, **named: Any) -> None:
        calls.append(given)
        if len(calls) == 3:
            raise _Killed
        delete(*given, **named)

    with monkeypatch.context() as patch, pytest.raises(_Killed):
        patch.setattr(reset, "_delete", killed)
        project.ingest("reset", "shop_item", "--yes")
    # Called again, it takes the rest; a run makes the table anew all the same.
    left = project.ingest("reset", "shop_item", "--json").records
    assert [row["what"] for row in left] == ["schema changes, with their decisions of shop_item"]
    for words in (("run",), ("rebuild", "shop_item")):
        answer = project.ingest(*words)
        assert answer.code == 0, answer.err
        assert project.ingest("sql", query, "--json").records == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["columns: {name: {mask: hash}}", "deletes: soft", "stored_as_scd_type: append"]
)
def test_a_rebuild_killed_behind_its_commit_is_not_gone_on_from_by_the_tables_file_of_before(
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """Progress said what the table had been: clear names came beside masked ones, and rows that
    were deleted stayed."""
    monkeypatch.setenv("MASK_PEPPER", "a pepper that nobody guesses")
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/ingest.yml", "mask_secret: env:MASK_PEPPER\n")
    project.write("conf/sources/shop.yml", "name: shop\nfiles: {path: 'landing/*.jsonl'}\n")
    tables = "source: shop\ntables: [{from: shop.item%s}]\n"
    project.write("conf/tables/shop.yml", tables % "")
    project.land(
        "1.jsonl",
        [
            canal("item", "INSERT", _row(1, "first"), es=1, id_=1),
            canal("item", "INSERT", _row(2, "gone"), es=2, id_=2),
            canal("item", "DELETE", _row(2, "gone"), es=3, id_=3),
        ],
    )
    assert project.ingest("run").code == 0
    project.write("conf/tables/shop.yml", tables % f", {kind}")
    with monkeypatch.context() as patch, pytest.raises(_Killed):
        patch.setattr("pipelines.operations.rebuild._noted", _end)
        project.ingest("rebuild", "shop_item", "--yes")
    answer = project.ingest("run")
    assert (answer.code, "`ingest rebuild shop_item` was cut short" in answer.err) == (1, True)
    project.write("conf/tables/shop.yml", tables % "")
    project.land("2.jsonl", [canal("item", "INSERT", _row(3, "third"), es=4, id_=4)])
    answer = project.ingest("run")
    assert (answer.code, "`ingest rebuild shop_item` was cut short" in answer.err) == (1, True)
    answer = project.ingest("rebuild", "shop_item", "--yes")
    assert answer.code == 0, answer.err
    assert project.ingest("run").code == 0
    rows = project.ingest("sql", "SELECT id, name FROM gold.shop_item ORDER BY id", "--json")
    assert rows.records == [{"id": 1, "name": "first"}, {"id": 3, "name": "third"}]


@pytest.mark.slow
def test_a_rebuild_that_fails_behind_its_commit_leaves_its_target_in_doubt(
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a killed one does, to a run as to an erasure; who fails before has changed nothing."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", "name: shop\nfiles: {path: 'landing/*.jsonl'}\n")
    tables = "source: shop\ntables: [{from: shop.item%s}]\n"
    project.write("conf/tables/shop.yml", tables % "")
    project.land("1.jsonl", [canal("item", "INSERT", _row(1, "first"), es=1, id_=1)])
    assert project.ingest("run").code == 0
    erase = ("erase", "shop_item", "--key", "id=1")
    for step, run, erased in (("enter_left_out", 0, 2), ("resolve_rejects", 1, 1)):
        project.write("conf/tables/shop.yml", tables % ", stored_as_scd_type: append")
        with monkeypatch.context() as patch:
            patch.setattr(f"pipelines.gold.refold.{step}", _full)
            failed = project.ingest("rebuild", "shop_item", "--yes")
        assert "no space is left" in failed.err
        project.write("conf/tables/shop.yml", tables % "")
        answer = project.ingest("run")
        said = "`ingest rebuild shop_item` was cut short" in answer.err
        assert (answer.code, said) == (run, bool(run)), answer.err
        answer = project.ingest(*erase)
        assert (answer.code, "was cut short" in answer.err) == (erased, bool(run)), answer.err


class _Killed(BaseException):
    """Ends the command as a kill would: nobody handles it."""


def _end(*_: object, **__: object) -> None:
    raise _Killed


def _full(*_: object, **__: object) -> None:
    raise TableError("no space is left")
