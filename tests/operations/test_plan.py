"""`ingest plan`: what the next run would do, told stage by stage, and nothing written for it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from ingest.config.sources import Source
from ingest.errors import PlatformError
from pipelines.bronze.files import FILES
from pipelines.bronze.kafka import waiting
from pipelines.bronze.source import ingest_source
from pipelines.bronze.transport import Reached, Transport, Waiting
from pipelines.operations.plan import beyond
from tests.support.kafka_broker import Record, age_out, create_topic, produce
from tests.support.project import Project, canal, canal_ddl
from tests.support.tables import NOWHERE, tables_in

T0 = 1_700_000_000_000
SHOP = "name: shop\nformat: canal\norder: source\nfiles:\n  path: landing/shop*.jsonl\n"
PEN = {"id": "1", "name": "pen", "price": "1.10"}
QUEUE = {"servers": "mq:5552", "queues": ["q"], "password": "x"}
CUP = {"id": "2", "name": "cup", "price": "4.00"}
DROP = "ALTER TABLE items DROP COLUMN name"
ADD = "ALTER TABLE items ADD COLUMN note varchar(9)"


def files(folder: Path) -> dict[str, bytes]:
    """Every file of the project but Spark's log, with its content."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "_spark.log"
    }


def planned(project: Project) -> dict[str, list[dict[str, Any]]]:
    """What the plan says by kind; that it changes no file is seen each time."""
    before = files(project.folder)
    answer = project.ingest("plan", "--json")
    assert (answer.code, answer.err) == (0, "")
    assert files(project.folder) == before
    found: dict[str, list[dict[str, Any]]] = {}
    for record in answer.records:
        found.setdefault(record.pop("kind"), []).append(record)
    return found


def test_each_stage_is_foreseen(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SHOP)
    project.land("shop1.jsonl", [canal("items", "INSERT", PEN, es=T0, id_=1)])
    (tmp_path / "warehouse").mkdir()
    source = {
        **{"source": "shop", "new_files": 1, "new_messages": None, "to_decode": 0},
        **{"estimated_events": None, "waits": None},
    }
    assert planned(project) == {"source": [source]}
    assert project.ingest("bronze").code == 0
    source |= {"new_files": 0, "to_decode": 1}
    assert planned(project) == {"source": [source]}
    assert project.ingest("silver").code == 0
    source |= {"to_decode": 0, "estimated_events": 1}
    table = {
        **{"table": "shop_items", "source": "shop", "source_tables": ["shop.items"]},
        **{"events": 1, "action": "create", "why": None},
    }
    assert planned(project) == {"source": [source], "table": [table]}
    assert project.ingest("gold").code == 0
    source |= {"estimated_events": 0}
    assert planned(project) == {"source": [source]}

    project.land(
        "shop2.jsonl",
        [
            canal("items", "INSERT", CUP, es=T0 + 1, id_=2),
            canal_ddl("items", DROP, es=T0 + 2, id_=3),
            canal_ddl("items", ADD, es=T0 + 3, id_=4),
        ],
    )
    assert project.ingest("silver").code == 0  # which reads nothing new from files
    # One change came of one message so far, and these are the messages of so many bytes.
    sizes = [(tmp_path / f"landing/shop{n}.jsonl").stat().st_size for n in (1, 2)]
    expected = round(sizes[1] / sizes[0])
    assert expected in (2, 3)
    assert planned(project)["source"] == [{**source, "new_files": 1, "estimated_events": expected}]
    assert project.ingest("bronze").code == 0
    assert planned(project)["source"] == [{**source, "to_decode": 3, "estimated_events": 3}]
    assert project.ingest("silver").code == 0
    coming = planned(project)
    assert coming["source"] == [{**source, "estimated_events": 1}]
    assert coming["table"] == [{**table, "action": "merge"}]
    assert [(c["action"], c["class"], c["statement"], c["proposed"]) for c in coming["ddl"]] == [
        ("review", "destructive", DROP, "ALTER TABLE gold.shop_items DROP COLUMN `name`"),
        ("apply", "additive", ADD, "ALTER TABLE gold.shop_items ADD COLUMNS (`note` string)"),
    ]
    people = [line.split() for line in project.ingest("plan").out.splitlines()]
    assert ["shop_items", "shop", "merged", "1"] in people
    assert [["pending,", "new"], ["applied", "additive"]] == [
        line[1:3] for line in people if "shop_items" in line[2:]
    ]
    assert project.ingest("gold").code == 0
    assert [(c["action"], c["statement"]) for c in planned(project)["ddl"]] == [("wait", DROP)]
    shutil.rmtree(project.folder / "warehouse/gold/shop_items")
    project.land("shop3.jsonl", [canal("items", "DELETE", CUP, es=T0 + 5, id_=5)])
    assert project.ingest("bronze").code == project.ingest("silver").code == 0
    [gone] = planned(project)["table"]
    assert (gone["action"], gone["why"].partition(",")[0]) == (
        "park",
        "the table gold.shop_items is gone",
    )
    assert project.ingest("plan", "--source", "shp").code == 2
    project.write("conf/sources/till.yml", SHOP.replace("shop", "till").replace("landing", "none"))
    answer = project.ingest("plan", "--source", "till", "--json")
    assert answer.code == 1
    assert "source till: reads" in answer.err and "but there is no" in answer.err
    assert [(r["new_files"], r["estimated_events"]) for r in answer.records] == [(None, None)]


@pytest.mark.parametrize(
    ("transport", "unread", "held"),
    [("files", 3, (3, None)), ("rabbitmq", 3, (None, 3)), ("rabbitmq", None, (None, None))],
)
def test_messages_of_queues_are_no_files(
    monkeypatch: pytest.MonkeyPatch, transport: str, unread: int | None, held: tuple[Any, Any]
) -> None:
    """And who cannot say how many there are is asked why."""
    told: list[str] = []

    def silent(source: Source, root: str) -> Reached:
        raise PlatformError(f"source {source.name}: nobody answers")

    made = Transport(FILES.append, silent, FILES.sample, lambda *_: unread)
    monkeypatch.setattr("pipelines.operations.plan.transport_of", lambda _: made)
    where = {"files": {"path": "in/*.jsonl"}, "rabbitmq": QUEUE}
    source = Source.model_validate({"name": "till", transport: where[transport]})
    found = beyond(tables_in(NOWHERE), source, lambda _, error: told.append(str(error)))
    assert found == (*held, (), held[1])
    assert told == (["source till: nobody answers"] if unread is None else [])


def test_a_topics_messages_are_counted(kafka: str, spark: SparkSession, warehouse: Path) -> None:
    tables = tables_in(warehouse, spark)
    create_topic(kafka, "plan.a", partitions=2)
    produce(kafka, "plan.a", [Record(b"a", partition=0), Record(b"b", partition=0)])

    def topic(**more: Any) -> Source:
        declared = {"bootstrap_servers": kafka, "topics": ["plan.a"], **more}
        return Source.model_validate({"name": "shop", "kafka": declared})

    assert waiting(tables, topic()) == [Waiting("plan.a", 0, 0, 2)]
    assert waiting(tables, topic(starting_offsets="latest")) == []
    begin = '{"plan.a": {"0": 1, "1": -1}}'
    assert waiting(tables, topic(starting_offsets=begin)) == [Waiting("plan.a", 0, 1, 2)]
    assert ingest_source(tables, topic()).messages == 2
    produce(kafka, "plan.a", [Record(b"c", partition=0), Record(b"d", partition=1)])
    before = files(warehouse)
    assert waiting(tables, topic()) == [Waiting("plan.a", 0, 2, 3), Waiting("plan.a", 1, 0, 1)]
    assert files(warehouse) == before


@pytest.mark.slow
def test_what_a_topic_lost_is_named(
    kafka: str, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    create_topic(kafka, "plan.b")
    topic = f"kafka: {{bootstrap_servers: '{kafka}', topics: [plan.b], lost: go_on}}\n"
    shop = "name: shop\nformat: canal\norder: source\n"
    project.write("conf/sources/shop.yml", f"{shop}{topic}")

    def send(*numbers: int) -> None:
        images = (canal("items", "INSERT", {**PEN, "id": str(n)}, es=T0, id_=n) for n in numbers)
        produce(kafka, "plan.b", [Record(orjson.dumps(image)) for image in images])

    def status() -> tuple[Any, ...]:
        answer = project.ingest("status", "--json")
        assert answer.code == 0, answer.err
        (row,) = (record for record in answer.records if record["kind"] == "source")
        return row["messages"], row["unread_messages"], row["gaps"], "2-2 were gone" in answer.err

    send(1, 2)
    assert project.ingest("run").code == 0
    send(3, 4)
    age_out(kafka, "plan.b", 3)
    assert status() == (2, 1, 0, False)
    assert project.ingest("status", "--check").code == 0
    answer = project.ingest("run")
    assert answer.code == 0
    assert "source shop: plan.b/0 lacks 2-2: gone before it was read" in answer.err
    assert status() == (4, 0, 1, True)
    looked = project.ingest("inspect", "--source", "shop", "--newest", "--limit", "1", "--json")
    assert [row["offset"] for row in looked.records if row["kind"] == "change"] == [3]
    rows = project.ingest("sql", "SELECT id FROM gold.shop_items ORDER BY id", "--json").records
    assert [row["id"] for row in rows] == [1, 2, 4]
    # It is not well, wherever one looks, until somebody says that it is known.
    assert re.search(r"^shop +1 gap +4\b", project.ingest("status").out, re.M)
    found = "source shop: 1 span of messages was gone before it was read; gaps allows 0"
    answer = project.ingest("status", "--check")
    assert (answer.code, answer.err) == (1, f"{found}\n")
    assert project.ingest("report", "--out", str(tmp_path / "report.html")).code == 0
    page = (tmp_path / "report.html").read_text()
    assert f"<li>{found}</li>" in page and '<span class="bad">1 gap</span>' in page
    project.write("conf/ingest.yml", "checks: {gaps: 1}\n")
    assert project.ingest("status", "--check").code == 0
    # Where a run would stop, who looks is told so, though nothing waits any more.
    project.write("conf/sources/shop.yml", f"{shop}{topic.replace('go_on', 'fail')}")
    send(5)
    age_out(kafka, "plan.b", 5)
    for verb in ("status", "plan", "run"):
        answer = project.ingest(verb)
        assert answer.code == 1 and "plan.b/0 lacks 4-4. To go on with what is" in answer.err
        assert verb != "status" or re.search(r"^shop +failing +4\b", answer.out, re.M)
