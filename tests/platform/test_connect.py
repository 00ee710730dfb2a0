"""Spark Connect, in processes of its own: the session, and files to gold as the command does it.

In one file, since the servers of both want the same port.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.project import Project, canal, canal_ddl

ROOT = Path(__file__).parents[2]
SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl', order: path}\norder: source\n"
TYPES = {"id": "int", "name": "varchar(20)", "price": "decimal(12,2)"}
MORE = {**TYPES, "stock": "int"}
BATCHES = (
    [
        canal("item", "INSERT", {"id": "1", "name": "pen", "price": "1.50"}, es=1001, id_=1),
        canal("item", "INSERT", {"id": "2", "name": "cup", "price": "4.00"}, es=1002, id_=1),
        canal("item", "DELETE", {"id": "2", "name": "cup", "price": "4.00"}, es=1009, id_=1),
        canal("item", "INSERT", {"id": "3", "name": "mat", "price": "x"}, es=1003, id_=1),
    ],
    [
        # Late: the row was deleted above it.
        canal(
            "item",
            "UPDATE",
            {"id": "2", "name": "mug", "price": "4.00"},
            es=1005,
            id_=1,
            old={"name": "cup"},
        ),
        canal_ddl("item", "ALTER TABLE item ADD COLUMN stock int", es=2000, id_=2),
        canal(
            "item",
            "UPDATE",
            {"id": "1", "name": "pen", "price": "1.75", "stock": "8"},
            es=2001,
            id_=2,
            old={"price": "1.50", "stock": None},
            types=MORE,
        ),
    ],
)
SCRIPT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from pipelines.cli.app import main

folder = Path(sys.argv[1])
for file in sorted((folder / "waiting").iterdir()):
    file.rename(folder / "landing" / file.name)
    main(["--conf", str(folder / "conf"), "run", "--json"])
for query in sys.argv[2:]:
    main(["--conf", str(folder / "conf"), "--json", "sql", query])
session = SparkSession.getActiveSession()
print(type(session).__module__, file=sys.stderr)
session.stop()
"""
QUERIES = (
    "SELECT id, name, price, stock, _source_table FROM gold.shop_item ORDER BY id",
    "SELECT code, status FROM gold._rejects",
    "SELECT class, status FROM gold._ddl",
    "SELECT op, id, name FROM history.shop_item ORDER BY pos",
    "SELECT late, keys_refolded FROM gold._progress WHERE target = 'shop_item' ORDER BY at",
)


def apart(
    folder: Path, script: str, *arguments: str, timeout: int
) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, which has Spark Connect; warnings are errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *arguments],
        env={**os.environ, "SPARK_REMOTE": "local[2]", "PYTHONPATH": str(ROOT)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


@pytest.mark.connect
@pytest.mark.slow
def test_files_to_gold(tmp_path: Path) -> None:
    project = Project(tmp_path, lambda: ("", ""))
    project.write("conf/sources/shop.yml", SOURCE)
    (tmp_path / "waiting").mkdir()
    for number, messages in enumerate(BATCHES, 1):
        lines = [json.dumps(message) for message in messages]
        project.write(f"waiting/{number}.jsonl", "\n".join(lines) + "\n")
    answer = apart(tmp_path, SCRIPT, str(tmp_path), *QUERIES, timeout=600)
    assert answer.returncode == 0, answer.stderr[-5000:]
    assert "pyspark.sql.connect.session" in answer.stderr
    printed: list[dict[str, Any]] = [json.loads(line) for line in answer.stdout.splitlines()]
    rows = [row for row in printed if "kind" not in row]
    assert [row["error"] for row in printed if "kind" in row] == [None] * 4
    assert rows == [
        {"id": 1, "name": "pen", "price": "1.75", "stock": 8, "_source_table": "shop.item"},
        {"code": "type_mismatch", "status": "open"},
        {"class": "additive", "status": "applied"},
        {"op": "insert", "id": 1, "name": "pen"},
        {"op": "insert", "id": 2, "name": "cup"},
        {"op": "insert", "id": 3, "name": "mat"},
        {"op": "update", "id": 2, "name": "mug"},
        {"op": "delete", "id": 2, "name": "cup"},
        {"op": "update", "id": 1, "name": "pen"},
        {"late": 0, "keys_refolded": 0},
        {"late": 1, "keys_refolded": 1},
    ]


SESSION_SCRIPT = """
import sys
from pathlib import Path
from pipelines.platform.session import connect_kafka, spark
from pyspark.errors import IllegalArgumentException

place = Path(sys.argv[1])
session = spark(warehouse=place)
session.range(2).write.format("delta").save(str(place / "t"))
session.sql(f"MERGE INTO delta.`{place}/t` t USING (SELECT 7L id) s ON t.id = s.id"
            " WHEN NOT MATCHED THEN INSERT *").collect()
connect_kafka(session)
try:
    session.read.format("kafka").load().schema
except IllegalArgumentException:
    known = True
rows = session.read.format("delta").load(str(place / "t")).orderBy("id").collect()
print(type(session).__module__, [row.id for row in rows], known, session.conf.get(
    "spark.sql.session.timeZone"))
session.stop()
"""


@pytest.mark.connect
@pytest.mark.slow
def test_spark_connect_with_a_server_of_its_own(tmp_path: Path) -> None:
    """In a process of its own: a process has one kind of session. Warnings are errors there too."""
    answer = apart(tmp_path, SESSION_SCRIPT, str(tmp_path / "warehouse"), timeout=240)
    assert answer.stdout == "pyspark.sql.connect.session [0, 1, 7] True UTC\n", answer.stderr[
        -3000:
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["warehouse"]
