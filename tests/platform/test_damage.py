"""A damaged or lost checkpoint and a full disk: one sentence, and the way out that it names."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest.config.sources import Source
from ingest.errors import PlatformError, SourceError
from pipelines.bronze import rocketmq
from pipelines.bronze.draining import Landing
from pipelines.bronze.lost_offsets import SourceOffsets
from pipelines.bronze.trimmed import trimmed
from pipelines.platform.checkpoints import write_whole
from pipelines.platform.table_layout import check_layout
from pipelines.platform.warehouse import Warehouse
from pipelines.silver import projects
from pipelines.silver.arrivals import _carried
from pipelines.silver.chunks import chunks_wait
from pipelines.silver.stream import _decoded_up_to, _writer
from tests.support.project import Project, canal
from tests.support.tables import tables_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
SOURCE = "name: shop\nfiles: {path: 'landing/*.jsonl'}\norder: source\n"
ROWS = "SELECT id, name FROM gold.shop_item ORDER BY id"


def _sent(op: str, id_: int, name: str, *, es: int) -> dict[str, Any]:
    row = {"id": str(id_), "name": name}
    types = {"id": "int", "name": "varchar(600)"}
    old = {"name": "earlier"} if op == "UPDATE" else None
    return canal("item", op, row, es=es, id_=1, types=types, old=old)


def _begin(folder: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    """A project with one file read and a second waiting."""
    project = Project(folder, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.land("1.jsonl", [_sent("INSERT", 1, "one", es=1000)])
    assert project.ingest("run").code == 0
    changes = [
        _sent("UPDATE", 1, "two", es=2000),
        _sent("INSERT", 2, "new", es=2001),
    ]
    project.land("2.jsonl", changes)
    return project


@pytest.mark.slow
def test_a_damaged_checkpoint_is_named_with_the_way_out(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = _begin(tmp_path, capsys)
    place = tmp_path / "warehouse" / "_checkpoints"
    (registry,) = place.glob("bronze/shop/files/*.json")
    (offsets,) = place.glob("silver/shop/stream/offsets/0")
    for file, folder in ((registry, registry.parent), (offsets, place / "silver" / "shop")):
        file.write_text("")
        answer = project.ingest("run")
        assert answer.code == 1
        assert f"{file.parent if file is registry else file} cannot be read" in answer.err
        assert f"Remove the folder {folder} and run again" in answer.err
        assert "Traceback" not in answer.err
        shutil.rmtree(folder)
    assert project.ingest("run").code == 0
    rows = [{"id": 1, "name": "two"}, {"id": 2, "name": "new"}]
    answer = project.ingest("sql", ROWS, "--json")
    assert answer.records == rows, answer
    # Lost without a word, all of them.
    shutil.rmtree(place)
    assert project.ingest("run").code == 0
    assert project.ingest("sql", ROWS, "--json").records == rows


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[[0]]", b"nan"])
@pytest.mark.parametrize("name", ["arrivals.json", "shards", "writer"])
def test_a_damaged_note_of_silver_is_named_with_the_way_out(
    tmp_path: Path, name: str, content: bytes
) -> None:
    checkpoint = tmp_path / "silver" / "shop"
    note = checkpoint / name
    write_whole(note, content)
    source = Source.model_validate({"name": "shop", "files": {"path": "*"}})
    said = rf"^source shop: .* {re.escape(str(note))} cannot be read \(.*\)\. Remove the file and "
    with pytest.raises(SourceError, match=said):
        if name == "shards":
            chunks_wait(str(checkpoint))
        elif name == "writer":
            _writer(str(checkpoint), "shop")
        else:
            _carried(tables_in(tmp_path), source, str(checkpoint))


NOTES: dict[str, Callable[[Warehouse, Source], object]] = {
    "kept/shop/trimmed.json": lambda tables, source: trimmed(tables, source.name),
    "kept/shop/brokers.json": lambda tables, source: rocketmq._numbered(tables, source, ["a"]),
    "bronze/shop/topics.json": lambda tables, source: SourceOffsets(
        tables, source, tables.checkpoint("bronze", "shop")
    ),
    "bronze/shop/drained/q.json": lambda tables, source: Landing(tables, source, "q"),
    "projects/shop.json": lambda tables, source: projects.take(
        Warehouse(replace(tables.config, sources={"shop": source}), tables.session), "shop"
    ),
}
"""What goes on from a note of bronze, or on whose a source is."""


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[[0]]", b"nan", b'{"next":[],"ids":0}'])
@pytest.mark.parametrize("name", list(NOTES))
def test_a_damaged_note_of_bronze_is_not_taken_for_none(
    tmp_path: Path, name: str, content: bytes
) -> None:
    """Without what retention took, old files would be read again as the newest; without what is
    lost, gaps would not be told; without whose a source is, another project would write to its
    tables."""
    tables = tables_in(tmp_path)
    note = Path(tables.checkpoint(name))
    write_whole(note, content)
    source = Source.model_validate({"name": "shop", "files": {"path": "*"}})
    said = rf"^source shop: .* {re.escape(str(note))} cannot be read \(.*\)\. Remove the file and "
    with pytest.raises(SourceError, match=said):
        NOTES[name](tables, source)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"{}", b'{"layout": "1"}'])
def test_a_damaged_note_of_the_layout_is_not_taken_for_none(tmp_path: Path, content: bytes) -> None:
    """Without it, who opened the tables before an upgrade would go on to write to them."""
    tables = tables_in(tmp_path)
    note = Path(tables.checkpoint("layout.json"))
    write_whole(note, content)
    said = rf"^a note beside .* {re.escape(str(note))} cannot be read \(.*\)\. Remove the file and "
    for look in (tables.check_not_upgraded, lambda: check_layout(tables)):
        with pytest.raises(PlatformError, match=said):
            look()


def test_what_only_spares_work_may_be_damaged(tmp_path: Path) -> None:
    write_whole(tmp_path / "decoded", b"\xff")
    assert _decoded_up_to(str(tmp_path)) == "\ufffd"


def test_a_table_whose_drop_is_cut_short_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log without its first commit was a table that no command could read, reset or make."""
    tables = tables_in(tmp_path)
    log = tables.folder("gold", "shop_item") / "_delta_log"
    for version in range(2):
        write_whole(log / f"{version:020}.json", b"{}")

    def cut(folder: Path, **_: Any) -> None:
        next(folder.rglob(f"{0:020}.json")).unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", cut)
    with pytest.raises(KeyboardInterrupt):
        tables.drop("gold", "shop_item")
    assert (tables.exists("gold", "shop_item"), tables.tables("gold")) == (False, [])
    monkeypatch.undo()
    # Nothing is left for the table that the next run makes, nor where no run comes.
    for take in (tables.drop, tables.prepare):
        write_whole(log.parent / "_dropped_1" / "0.json", b"{}")
        take("gold", "shop_item")
        assert not log.parent.exists()


HOLDS = """
import sys, time
from pathlib import Path
from pipelines.platform.leases import FolderLog, Patience, held

with held(FolderLog(Path(sys.argv[1])), "gold", Patience()):
    print("holds", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_who_is_not_to_wait_for_another_run_ends_with_75(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = _begin(tmp_path, capsys)
    lease = tmp_path / "warehouse" / "_leases" / "gold"
    command = [sys.executable, "-c", HOLDS, str(lease)]
    other = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "holds\n"
        named = f"gold is held by process {other.pid} on "
        for verb in (["run"], ["maintain"], ["rebuild", "shop_item"]):
            answer = project.ingest(*verb, "--no-wait")
            assert (answer.code, named in answer.err) == (75, True), answer
        answer = project.ingest("gold", "--max-wait", "0.5")
        assert answer.code == 75
        held = f"held by process {other.pid}"
        assert [line[:12] for line in answer.err.splitlines() if held in line] == [
            "waiting for ",
            "gold is held",
        ]
        assert "failed" not in answer.err
    finally:
        other.kill()
        other.communicate()
    assert project.ingest("run", "--no-wait").code == 0
    rows = [{"id": 1, "name": "two"}, {"id": 2, "name": "new"}]
    assert project.ingest("sql", ROWS, "--json").records == rows


FULL = """
import subprocess, sys
from pipelines.cli.app import main

folder, size = sys.argv[1], sys.argv[2]


def ingest(*words):
    try:
        main(["--conf", f"{folder}/conf", *words])
    except SystemExit as end:
        print("code", end.code, file=sys.stderr)


def mount(*options):
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "none", f"{folder}/warehouse"]
    subprocess.run(command, check=True)


mount(f"size={size}")
ingest("run")
mount("remount", "size=400m")
ingest("run")
ingest("sql", sys.argv[3], "--json")
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_full_disk_is_one_sentence_and_the_next_run_goes_on(tmp_path: Path) -> None:
    alone = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a small disk")
    (tmp_path / "warehouse").mkdir()
    project = Project(tmp_path, lambda: ("", ""))
    project.write("conf/sources/shop.yml", SOURCE)
    messages = [_sent("INSERT", id_, "x" * 500, es=1000 + id_) for id_ in range(50)]
    project.land("1.jsonl", messages)
    count = "SELECT count(*) AS n FROM gold.shop_item"
    done = subprocess.run(
        [*alone, sys.executable, "-c", FULL, str(tmp_path), "160k", count],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "no space is left on a disk" in done.stderr
    failures = [line for line in done.stderr.splitlines() if line.startswith("code")]
    assert failures == ["code 1"], done.stderr
    assert done.stdout.splitlines()[-1] == '{"n":50}'
