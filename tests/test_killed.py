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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ingest.config import load
from pipelines.results import records
from pipelines.tables import Warehouse
from tests.killing import DECISIONS, POINTS, REPAIRS
from tests.merge_scenarios import plain
from tests.project import Project, canal, canal_ddl

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent
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
    project = Project(folder, lambda: tuple(capsys.readouterr()))  # type: ignore[arg-type]
    project.write("conf/sources/shop.yml", SOURCE)
    _land(project, "1.jsonl", BEFORE, 0)
    assert project.ingest("run").code == 0
    _land(project, "2.jsonl", AFTER, len(BEFORE))
    return project


def _killed(project: Project, point: str, *words: str) -> None:
    """Run, or what `words` say, until the end at `point`; returns when the JVM is gone, too."""
    command = [sys.executable, "-m", "tests.killing", point, "--conf", str(project.folder / "conf")]
    process = subprocess.Popen(
        [*command, *(words or ["run"])],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL, said
        deadline = time.monotonic() + 60
        while _any_of(process.pid):
            assert time.monotonic() < deadline, f"{point}: the JVM outlived its process by a minute"
            time.sleep(0.1)
    finally:
        if _any_of(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


def _any_of(group: int) -> bool:
    """Whether a process of the group lives."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _tables(project: Project, spark: SparkSession) -> dict[str, list[str]]:
    """What all tables hold, without times of processing and numbers of appends."""
    warehouse = Warehouse(load(project.folder / "conf", environ={}).settings, spark)

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
