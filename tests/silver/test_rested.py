"""A source that was not decoded for longer than bronze's log goes back."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ingest.config.load import load
from ingest.config.sources import Source
from pipelines.bronze.source import ingest_source
from pipelines.operations import compaction
from pipelines.platform.warehouse import Warehouse, create_silver
from pipelines.silver import stream
from pipelines.silver.stream import decode_source
from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("spark")

SOURCE = "name: {name}\nformat: canal\nfiles: {{path: 'landing/{name}-*.jsonl'}}\n"
CHANGES = (
    "SELECT topic, offset, count(*) AS n FROM silver.cdc "
    "WHERE source = 'idle' AND kind = 'change' GROUP BY ALL"
)


def _put(table: str, key: int, x: int) -> dict[str, Any]:
    types = {"id": "int", "x": "int"}
    row = {"id": str(key), "x": str(x)}
    return canal(table, "INSERT", row, es=1_700_000_000_000 + x, id_=x, types=types)


def test_it_goes_on_where_it_was_and_repeats_nothing(
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    for name in ("busy", "idle"):
        project.write(f"conf/sources/{name}.yml", SOURCE.format(name=name))
        project.land(f"{name}-1.jsonl", [_put(name, 1, 1), _put(name, 2, 2)])
    assert project.ingest("run").code == 0
    log = tmp_path / "warehouse/bronze/messages/_delta_log"
    bronze = f"delta.`{tmp_path}/warehouse/bronze/messages`"
    spark.sql(f"ALTER TABLE {bronze} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    project.land("busy-2.jsonl", [_put("busy", 3, 3)])
    project.land("idle-2.jsonl", [_put("idle", 1, 4), _put("idle", 3, 5)])
    assert project.ingest("bronze").code == 0
    assert project.ingest("run", "--source", "busy").code == 0
    # As Delta does with commits that are older than `delta.logRetentionDuration`.
    for file in sorted(log.glob("*.json"))[:-1]:
        for each in (file, *log.glob(f"*{file.stem}*.crc")):
            each.unlink(missing_ok=True)

    append = stream._Batches.append

    def killed(self: Any, batch: Any, number: int) -> None:
        append(self, batch, number)
        raise KeyError("the power fails")

    with monkeypatch.context() as patch:
        patch.setattr(stream._Batches, "append", killed)
        assert project.ingest("run", "--source", "idle").code == 1
    project.land("idle-3.jsonl", [_put("idle", 4, 6)])
    again = project.ingest("run")
    assert again.code == 0 and "longer than bronze's commits are kept" in again.err
    rows = project.ingest("sql", "--json", CHANGES).records
    assert [row["n"] for row in rows] == [1] * 5
    gold = project.ingest("sql", "--json", "SELECT id, x FROM gold.shop_idle ORDER BY id").records
    assert gold == [{"id": 1, "x": 4}, {"id": 2, "x": 2}, {"id": 3, "x": 5}, {"id": 4, "x": 6}]
    begun = tmp_path / "warehouse/_checkpoints/silver/idle/begun_anew"
    assert not begun.exists()


def _age(log: Path) -> None:
    """As if an hour lay between one commit of a table and the next, the newest of them new."""
    numbered = [(int(file.name.lstrip(".")[:20]), file) for file in log.glob("*[0-9]*")]
    newest = max(number for number, _ in numbered)
    for number, file in numbered:
        made = time.time() - (newest - number) * 3_600
        os.utime(file, (made, made))


def _kept(log: Path) -> list[int]:
    return sorted(int(file.stem) for file in log.glob("*.json"))


def test_old_commits_of_bronze_go_when_no_stream_needs_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "WRITES", 1)
    monkeypatch.setattr(compaction, "COMMITS", 2)
    project = Project(tmp_path, lambda: ("", ""))
    names = ("busy", "idle")
    for name in names:
        project.write(f"conf/sources/{name}.yml", SOURCE.format(name=name))
    config = load(tmp_path / "conf", environ={})
    warehouse = Warehouse(config, spark)
    busy, idle = (config.sources[name] for name in names)
    log = tmp_path / "warehouse/bronze/messages/_delta_log"
    numbers = itertools.count()

    def bring(*sources: Source) -> None:
        for source in sources:
            number = next(numbers)
            project.land(f"{source.name}-{number:02}.jsonl", [_put(source.name, number, 1)])
            ingest_source(warehouse, source)

    def properties(text: str) -> None:
        spark.sql(f"ALTER TABLE delta.`{log.parent}` SET TBLPROPERTIES ({text})")

    def compact() -> None:
        _age(log)
        done = compaction.compact_written(warehouse, [("bronze", "messages")])
        assert done == [("bronze", "messages")]

    bring(busy, idle)
    properties("'delta.checkpointInterval' = '1'")
    for _ in range(2):
        bring(busy, busy)
        for source in (busy, idle):
            assert not decode_source(warehouse, source).begun_anew
    reached = _kept(log)[-1]
    compact()
    assert reached - 3 <= _kept(log)[0] <= reached - 2
    # A source that is left out goes on where it was, however many commits of others came.
    bring(busy, busy, busy, busy)
    decode_source(warehouse, busy)
    compact()
    assert _kept(log)[0] <= reached
    bring(busy, idle)
    left_out = decode_source(warehouse, idle)
    assert left_out.changes == 1 and not left_out.begun_anew
    # Nobody waits for it longer than a week; then it looks through bronze.
    bring(busy, busy, busy, busy, idle)
    decode_source(warehouse, busy)
    monkeypatch.setattr(compaction, "RESTS", 0.0)
    compact()
    assert _kept(log)[0] > reached
    left_out = decode_source(warehouse, idle)
    assert left_out.changes == 1 and left_out.begun_anew
    changes = warehouse.read("silver", "cdc").where("kind = 'change'")
    counted = changes.groupBy("source").count().collect()
    assert sorted(map(tuple, counted)) == [("busy", 14), ("idle", 3)]


def test_the_configuration_says_how_long_commits_stay(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "WRITES", 1)
    monkeypatch.setattr(compaction, "COMMITS", 2)
    project = Project(tmp_path, lambda: ("", ""))
    project.write("conf/sources/shop.yml", SOURCE.format(name="shop"))
    log = tmp_path / "warehouse/silver/cdc/_delta_log"

    def kept_after_one_more(settings: str, *properties: str) -> int:
        """How many hours old the oldest commit is then."""
        project.write("conf/ingest.yml", settings)
        warehouse = Warehouse(load(tmp_path / "conf", environ={}), spark)
        create_silver(warehouse)
        for text in ("'delta.checkpointInterval' = '1'", *properties, "'n' = '1'", "'n' = '2'"):
            spark.sql(f"ALTER TABLE delta.`{log.parent}` SET TBLPROPERTIES ({text})")
        _age(log)
        assert compaction.compact_written(warehouse, [("silver", "cdc")])
        return _kept(log)[-1] - _kept(log)[0]

    for _ in range(3):
        assert kept_after_one_more("") == _kept(log)[-1]
    assert kept_after_one_more("retention: {commits: 9 hours}") in (9, 10)
    # By its commits a stream finds what a killed run of it appended.
    stream = tmp_path / "warehouse/_checkpoints/silver/shop/stream"
    for name, text in (
        ("offsets/0", '{"reservoirVersion": 1}'),
        ("commits/0", ""),
        ("offsets/1", ""),
    ):
        (stream / name).parent.mkdir(parents=True, exist_ok=True)
        (stream / name).write_text(f"v1\n{text}\n")
    before = _kept(log)[0]
    kept_after_one_more("retention: {commits: 2 hours}")
    assert _kept(log)[0] == before
    (stream / "commits/1").write_text("")
    assert kept_after_one_more("retention: {commits: 2 hours}") in (2, 3)
    # The newest always stay, and so do those of a table whose properties say so.
    assert kept_after_one_more("retention: {commits: 1 second}") in (2, 3)
    before = _kept(log)[0]
    keeps = "'delta.logRetentionDuration' = 'interval 90 days'"
    kept_after_one_more("retention: {commits: 2 hours}", keeps)
    assert _kept(log)[0] == before
