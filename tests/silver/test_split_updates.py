"""Updates that come in two messages: joined though a run was killed, and shown once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ingest.config.load import load
from pipelines.bronze import source as bronze
from pipelines.operations.views import silver_view
from pipelines.platform.rows import records
from pipelines.platform.warehouse import Warehouse
from pipelines.silver import stream
from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("spark")

T0 = 1_700_000_000_000


def _half(op: str, number: int, before: Any, after: Any) -> dict[str, Any]:
    source = {"dbType": "MySQL", "dbName": "zoo", "tableName": "cages"}
    columns = [{"name": "id", "type": "LONG"}, {"name": "beast", "type": "STRING"}]
    return {
        "schema": {"dataColumn": columns, "primaryKey": ["id"], "source": source},
        "payload": {
            "op": op,
            "before": before and {"dataColumn": before},
            "after": after and {"dataColumn": after},
            "sequenceId": str(number),
            "timestamp": {"eventTime": T0 + number, "systemTime": T0 + number},
            "ddl": None,
        },
        "version": "1.0.0",
    }


def _cow() -> dict[str, Any]:
    return canal("cows", "INSERT", {"id": "1"}, es=T0, id_=1, types={"id": "int"})


def _zoo_and_farm(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> tuple[Project, Warehouse, Callable[[str], stream.Silver]]:
    """A project of two sources, and what brings one of them to silver."""
    project = Project(tmp_path, capsys.readouterr)
    for name, format_ in (("zoo", "dataworks"), ("farm", "canal")):
        project.write(
            f"conf/sources/{name}.yml",
            f"name: {name}\nformat: {format_}\nfiles: {{path: landing/{name}-*.jsonl}}\n",
        )
    config = load(tmp_path / "conf", environ={})
    warehouse = Warehouse(config, spark)

    def decode(name: str) -> stream.Silver:
        bronze.ingest_source(warehouse, config.sources[name])
        return stream.decode_source(warehouse, config.sources[name])

    return project, warehouse, decode


def _killed(*_: Any, **__: Any) -> int:
    raise RuntimeError("killed")


def test_a_pair_is_joined_by_the_run_after_one_that_was_killed(
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The batch whose pairs were not joined is found by its own mark: another source has appended
    since."""
    project, warehouse, decode = _zoo_and_farm(tmp_path, spark, capsys)
    lion, lynx = ({"id": 1, "beast": beast} for beast in ("lion", "lynx"))
    project.land("zoo-1.jsonl", [_half("UPDATE_BEFOR", 7, lion, None)])
    decode("zoo")
    project.land("zoo-2.jsonl", [_half("UPDATE_AFTER", 7, None, lynx)])
    with monkeypatch.context() as patch, pytest.raises(PySparkException):
        patch.setattr(stream, "join_split_updates", _killed)
        decode("zoo")
    project.land("farm-1.jsonl", [_cow()])
    decode("farm")
    decode("zoo")
    decode("zoo")
    query = silver_view(warehouse, "changes")
    shown = spark.sql(
        "SELECT source, op, before['beast'] AS was, after['beast'] AS is_, batch, warnings "
        f"FROM ({query}) ORDER BY batch"
    )
    found = [{k: v for k, v in row.items() if v is not None} for row in records(shown)]
    assert found == [
        {"source": "farm", "op": "insert", "batch": 3},
        {
            **{"source": "zoo", "op": "update", "was": "lion", "is_": "lynx", "batch": 4},
            "warnings": ["joined_update"],
        },
    ]
    kinds = warehouse.read("silver", "cdc").where("source = 'zoo' AND kind <> 'schema'")
    assert sorted(row["batch"] for row in kinds.select("batch").collect()) == [1, 2, 4]


@pytest.mark.slow
def test_a_pair_that_a_killed_run_left_apart_is_joined_where_the_stream_begins_anew(
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A source that rests after a kill until bronze's log is shorter: its last batch is offered no
    more, and its messages are left out, since silver has them."""
    project, warehouse, decode = _zoo_and_farm(tmp_path, spark, capsys)
    old, new = {"id": 1, "beast": "lion"}, {"id": 2, "beast": "lion"}
    project.land("zoo-1.jsonl", [_half("UPDATE_BEFOR", 7, old, None)])
    decode("zoo")
    table = warehouse.folder("bronze", "messages")
    interval = "SET TBLPROPERTIES ('delta.checkpointInterval' = '1')"
    spark.sql(f"ALTER TABLE delta.`{table}` {interval}")
    project.land("zoo-2.jsonl", [_half("UPDATE_AFTER", 7, None, new)])
    with monkeypatch.context() as patch, pytest.raises(PySparkException):
        patch.setattr(stream, "join_split_updates", _killed)
        decode("zoo")
    project.land("farm-1.jsonl", [_cow()])
    decode("farm")
    # As Delta does with commits that are older than `delta.logRetentionDuration`.
    log = table / "_delta_log"
    for file in sorted(log.glob("*.json"))[:-1]:
        for each in (file, *log.glob(f"*{file.stem}*.crc")):
            each.unlink(missing_ok=True)
    assert decode("zoo").begun_anew
    assert not decode("zoo").begun_anew
    joined = warehouse.read("silver", "cdc").where("array_contains(warnings, 'joined_update')")
    found = [(row["key_before"], row["key"]) for row in joined.collect()]
    assert found == [({"id": "1"}, {"id": "2"})]
