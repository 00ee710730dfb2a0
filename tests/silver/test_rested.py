"""A source that was not decoded for longer than bronze's log goes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipelines.silver import stream
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
