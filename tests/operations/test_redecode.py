"""A source decoded again, by itself: what the command says of it, and what it does not need."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.project import Project

SOURCE = "name: shop\nformat: debezium\nfiles: {path: 'landing/*.jsonl'}\n"
HEARTBEAT = {"ts_ms": 1_700_000_000_000}


@pytest.mark.slow
def test_it_fails_where_a_run_does(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """A heartbeat is a row and no change; and what a full disk left of a note is no reason."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.land("1.jsonl", [HEARTBEAT, HEARTBEAT])
    (tmp_path / "landing/2.jsonl").write_text("odd\n" * 3)
    said = "source shop: 3 of 5 messages were set aside and no change could be decoded"
    answer = project.ingest("run")
    assert (answer.code, said in answer.err) == (1, True)
    [note] = tmp_path.glob("warehouse/**/silver/shop/tables")
    assert note.read_text() == "1"
    note.write_text("")
    [declared] = tmp_path.glob("warehouse/**/_declarations/shop.json")
    declared.write_text("{")
    answer = project.ingest("run")
    assert (answer.code, "run `ingest redecode --source shop`" in answer.err) == (1, True)
    answer = project.ingest("redecode", "--source", "shop", "--json")
    [told] = [row for row in answer.records if row["kind"] == "redecoded"]
    assert (told["messages"], told["rows"], told["rejects"], told["kept"]) == (5, 5, 3, 0)
    assert (answer.code, said in answer.err) == (1, True)
    source = {"connector": "mysql", "db": "shop", "table": "items", "file": "bin.1", "pos": 4}
    change = {"op": "c", "after": {"id": 1}, "source": source}
    with (tmp_path / "landing/3.jsonl").open("w") as file:
        print(json.dumps(change), file=file)
    answer = project.ingest("run", "--json")
    assert answer.code == 0, answer.err
