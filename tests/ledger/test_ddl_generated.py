"""Tables whose columns change at random: gold is the source's table, however its changes came and
whenever they were approved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.altering import Altering
from tests.support.project import Project

pytestmark = pytest.mark.usefixtures("spark")

SOURCE = "name: shop\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl'}\n"
TABLES = "source: shop\ntables: [{from: '*'}]\n"
ROUNDS = 3
ADDED = "_pos, _event_time, _source, _source_table"
SEEDS = range(4, 10)
WAYS = ("once", "rounds", "decided", "late")
"""once: all messages in one batch. rounds: in three, decided at the end. decided: after each.
late: in three, of which each message comes in any, and its table's first message in the first."""


def _parts(way: str, table: Altering) -> list[list[dict[str, Any]]]:
    sent = table.messages
    if way == "once":
        return [sent, [], []]
    if way == "late":
        parts: list[list[dict[str, Any]]] = [sent[:1], [], []]
        for message in sent[1:]:
            parts[table.chance.randrange(ROUNDS)].append(message)
        for part in parts:
            table.chance.shuffle(part)
        return parts
    size = -(-len(sent) // ROUNDS)
    return [sent[size * n : size * (n + 1)] for n in range(ROUNDS)]


def _approve_all(project: Project, ways: tuple[str, ...]) -> list[str]:
    """Approve until nothing waits; what was answered when something did not work."""
    wrong: list[str] = []
    for _ in range(4):
        entries = project.ingest("ddl", "list", "--json").records
        ids = [
            entry["id"]
            for entry in entries
            if entry["status"] in ("pending", "failed") and entry["table"].startswith(ways)
        ]
        if not ids:
            return wrong
        answer = project.ingest("ddl", "approve", *ids)
        if answer.code:
            wrong.append(answer.err + answer.out)
    return wrong


@pytest.mark.long
def test_gold_is_the_table_of_the_source(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.write("conf/tables/shop.yml", TABLES)
    tables = {}
    for way in WAYS:
        for seed in SEEDS:
            table = tables[way, seed] = Altering(f"{way}_{seed}", seed)
            table.live(rows=6, changes=4)
    parts = {at: _parts(at[0], table) for at, table in tables.items()}
    said = []
    for number in range(ROUNDS):
        project.land(f"{number}.jsonl", [m for each in parts.values() for m in each[number]])
        answer = project.ingest("run")
        if answer.code:
            said.append(answer.err)
        said += _approve_all(project, ("decided",))
    said += _approve_all(project, WAYS)
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    wrong = []
    for (way, seed), table in tables.items():
        query = f"SELECT * EXCEPT ({ADDED}) FROM gold.shop_{table.name}"
        found = project.ingest("sql", query, "--json").records
        expected = [table.rows[key] for key in sorted(table.rows)]
        if sorted(found, key=lambda row: row["id"]) != expected:
            wrong.append(f"{way} {seed}: {table.statements}\n got {found}\n not {expected}")
    assert not wrong, "\n\n".join([*said, *wrong])
