"""A target that is parked is tried at growing intervals by a run that goes on, and said once."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.gold import run as gold
from pipelines.gold.advance import advance
from pipelines.runs import backoff, run
from tests.support.project import Project, canal

SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl', order: path}\n"
TABLES = "source: shop\ntables: [{from: '*'}, {from: shop.item, stored_as_scd_type: append}]\n"
PASSES, SECONDS = 8, 10.0


@pytest.mark.slow
def test_it_is_tried_again_at_growing_intervals(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)

    def land(number: int) -> None:
        row = {"id": str(number), "name": "pen", "price": "1.10"}
        messages = [
            canal(table, "INSERT", row, es=number, id_=number) for table in ("item", "other")
        ]
        project.land(f"{number:02}.jsonl", messages)

    def counted(query: str) -> int:
        [row] = project.ingest("sql", "--json", f"SELECT count(*) AS n FROM {query}").records
        return int(row["n"])

    land(0)
    assert project.ingest("run").code == 0
    # Another mode than the table has parks it.
    project.write("conf/tables/shop.yml", TABLES)
    clock, tried, looked = [0.0], [], []
    merge_source, one_pass = gold._merge_source, run.Run._pass

    def advanced(ledger: Any, batch: Any, *about: Any, **more: Any) -> Any:
        if batch.route.target == "shop_item":
            tried.append(clock[0])
        return advance(ledger, batch, *about, **more)

    def merged(*about: Any, **more: Any) -> Any:
        looked.append(clock[0])
        return merge_source(*about, **more)

    def passed(self: run.Run, **more: Any) -> bool:
        # For 80 seconds something comes with each pass; then nothing.
        number = round(clock[0] / SECONDS) + 1
        if number <= PASSES:
            land(number)
        brought = one_pass(self, **more)
        clock[0] += SECONDS
        if number == PASSES + 4:
            self._stop.ask()
        return brought

    monkeypatch.setattr(gold, "advance", advanced)
    monkeypatch.setattr(gold, "_merge_source", merged)
    monkeypatch.setattr(run.Run, "_pass", passed)
    monkeypatch.setattr(backoff, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(run, "PAUSE", 0.0)
    shown = ("--metrics", str(tmp_path / "ingest.prom"), "--log-format", "json")
    answer = project.ingest("run", "--continuous", *shown)
    log = [json.loads(line) for line in answer.err.splitlines()]
    assert answer.code == 1 and len({line["run"] for line in log if "run" in line}) == 1
    [parked] = [line for line in log if "shop_item is parked" in line["message"]]
    assert (parked["level"], parked["source"], parked["target"]) == ("error", "shop", "shop_item")
    # Each target that was brought forward is a line, with the batch of silver that it has now.
    lines = [line for line in log if line["message"] == "gold shop_other: 1 change"]
    batches = [line["batch"] for line in lines]
    assert batches == sorted(set(batches)) and len(batches) == PASSES
    metrics = (tmp_path / "ingest.prom").read_text()
    for line in (
        'ingest_table_parked{source="shop",table="shop_item"} 1.0',
        'ingest_table_parked{source="shop",table="shop_other"} 0.0',
        f'ingest_table_events_total{{source="shop",table="shop_other"}} {PASSES:.1f}',
        f'ingest_source_messages_total{{source="shop"}} {2 * PASSES:.1f}',
        f"ingest_latency_seconds_count {2 * PASSES:.1f}",
    ):
        assert line in metrics, line
    # It rests 1, 2, 4 … seconds, and is tried in the first pass after that.
    assert tried == [0.0, 10.0, 20.0, 30.0, 40.0, 60.0, 100.0]
    # While it rests and nothing else comes, gold is not even looked through.
    assert looked == [number * SECONDS for number in (*range(PASSES), 10)]
    # One row said that it is parked; the other target went on.
    monkeypatch.undo()
    runs = "SELECT run, parked, outcome FROM gold._runs ORDER BY ended DESC LIMIT 1"
    [row] = project.ingest("sql", "--json", runs).records
    assert row == {"run": log[-1]["run"], "parked": 1, "outcome": "incomplete"}
    assert counted("gold._progress WHERE target = 'shop_item'") == 2
    assert counted("gold.shop_other") == PASSES + 1
    [status] = [
        row for row in project.ingest("status", "--json").records if row.get("table") == "shop_item"
    ]
    assert status["parked"] and status["lag_seconds"] >= 0
    # As it was, it takes up all that waited.
    project.write("conf/tables/shop.yml", "source: shop\ntables: [{from: '*'}]\n")
    assert project.ingest("run").code == 0
    assert counted("gold.shop_item") == PASSES + 1
