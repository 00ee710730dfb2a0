"""By arrival a partition's order is its offsets, whatever its records' timestamps say (74)."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("spark")

T0 = 1_700_000_000_000
SOURCE = (
    "name: shop\nformat: canal\nepoch: {epoch}\ntime_zone: UTC\n"
    "files: {{path: 'landing/*.jsonl', framing: kcat, order: path}}\n"
)
PLACES = (
    "SELECT DISTINCT epoch, `partition`, offset, unix_millis(arrived) AS place "
    "FROM silver.cdc WHERE kind <> 'schema' ORDER BY 1, 2, 3"
)


def _line(place: tuple[int, int], ts: int, message: dict[str, Any] | str) -> dict[str, Any]:
    payload = message if isinstance(message, str) else json.dumps(message)
    partition, offset = place
    at = {"topic": "shop", "partition": partition, "offset": offset, "ts": T0 + ts, "key": None}
    return {**at, "payload": payload}


def _rose(table: str, type_: str, x: int, *, es: int, key: int = 1, **more: Any) -> dict[str, Any]:
    types = {"id": "int", "x": "int"}
    row = {"id": str(key), "x": str(x)}
    return canal(table, type_, row, es=T0 + es, id_=1, types=types, **more)


@pytest.mark.slow
def test_any_log_keeps_the_order_of_its_offsets(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clocks that step back, files out of order, messages that come again, one that cannot be read;
    and the same places where all is decoded anew."""
    chance = random.Random(74)
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE.format(epoch=0))
    project.write(
        "conf/tables/shop.yml", "source: shop\ntables: [{from: '*', target: '{table}'}]\n"
    )
    log: list[dict[str, Any]] = []
    for partition in range(2):
        for offset in range(24):
            row = _rose("roses", "UPDATE", offset, es=offset, key=partition)
            message = "{broken" if offset == 9 else row
            log.append(_line((partition, offset), chance.randrange(5_000), message))
    order = [*log, *chance.sample(log, 12)]
    order.sort(key=lambda line: line["offset"] // 8 + chance.random() * 2)
    for number in range(3):
        project.land(f"{number}.jsonl", order[number * 20 : number * 20 + 20])
        assert project.ingest("run").code == 0
    places = project.ingest("sql", PLACES, "--json").records
    assert [(row["partition"], row["offset"]) for row in places] == [
        (line["partition"], line["offset"]) for line in log
    ]
    for partition in range(2):
        own = [row["place"] for row in places if row["partition"] == partition]
        assert own == sorted(own)
    [status] = [r for r in project.ingest("status", "--json").records if r["kind"] == "source"]
    sent = {(line["partition"], line["offset"]): line["ts"] for line in log}
    moved = sum(
        sent[row["partition"], row["offset"]] != row["place"] and row["offset"] != 9
        for row in places
    )
    assert status["stepped_back"] == moved > 0
    rows = project.ingest("sql", "SELECT id, x FROM gold.roses ORDER BY id", "--json").records
    assert rows == [{"id": 0, "x": 23}, {"id": 1, "x": 23}]
    assert project.ingest("reconcile", "roses").code == 0
    # A replay puts nothing elsewhere, and what is decoded anew comes to the places it had.
    assert project.ingest("rejects", "replay").code == 0
    shutil.rmtree(tmp_path / "warehouse/_checkpoints/silver")
    assert project.ingest("run").code == 0
    assert project.ingest("sql", PLACES, "--json").records == places


@pytest.mark.slow
def test_a_new_epoch_repeats_offsets(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """A topic that is made anew: its messages are no copies of those that had their offsets."""
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE.format(epoch=0))
    tables = "source: shop\ntables:\n- {from: '*', target: '{table}'}\n"
    tables += "- {from: '*.versions', target: '{table}', stored_as_scd_type: 2}\n"
    tables += "- {from: '*.images', target: '{table}', stored_as_scd_type: append}\n"
    project.write("conf/tables/shop.yml", tables)

    def land(epoch: int, *changes: dict[str, Any]) -> None:
        lines = [_line((0, n), 100 * epoch + n, change) for n, change in enumerate(changes)]
        project.land(f"{epoch}.jsonl", lines)
        project.write("conf/sources/shop.yml", SOURCE.format(epoch=epoch))
        answer = project.ingest("run")
        assert answer.code == 0, answer.err

    sent: list[list[tuple[str, int, dict[str, str | None] | None]]] = [
        [("INSERT", 1, None), ("UPDATE", 2, {"x": "1"})],
        [("UPDATE", 3, {"x": "2"}), ("UPDATE", 4, {"x": "3"})],
    ]
    for epoch, told in enumerate(sent):
        changes = [
            _rose(table, op, x, es=10 * epoch + n, old=old)
            for table in ("rows", "versions", "images")
            for n, (op, x, old) in enumerate(told)
        ]
        moved = {"id": "9", "x": "4"}
        types = {"id": "int", "x": "int"}
        changes += [
            canal(t, "UPDATE", moved, es=T0 + 15, id_=1, old={"id": "1"}, types=types)
            for t in ("rows", "versions")
            if epoch
        ]
        land(epoch, *changes)

    def held(query: str) -> list[list[Any]]:
        return [list(row.values()) for row in project.ingest("sql", query, "--json").records]

    for again in (False, True):
        assert held("SELECT id, x FROM gold.rows") == [[9, 4]]
        versions = "SELECT id, x FROM gold.versions ORDER BY _pos"
        assert held(versions) == [[1, 1], [1, 2], [1, 3], [1, 4], [9, 4]]
        assert held("SELECT x FROM gold.images ORDER BY x") == [[1], [2], [3], [4]]
        assert held("SELECT count(*) FROM history.rows") == [[5]]
        for target in ("rows", "versions", "images"):
            assert project.ingest("reconcile", target).code == 0
            assert again or project.ingest("rebuild", target).code == 0
