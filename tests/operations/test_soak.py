"""Thousands of small batches with schema changes, killed again and again: right, and no slower."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest

from tests.support.killing import POINTS
from tests.support.project import Project
from tests.support.soak import Life, configure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
SEED, BATCHES, KILLED_EVERY, ALTERATIONS = 7, 2_000, 50, 325
ADDED = "_pos, _event_time, _source, _source_table"
SLOWER = 1.2
"""How much more of the CPU the last batches may take than the first of a process as old."""


def lived(folder: Path, *, batches: int, killed_every: int) -> dict[int, dict[str, float]]:
    """A whole life, in processes that are killed; gives the seconds of each batch."""
    for number, first in enumerate(range(1, batches, killed_every)):
        point = POINTS[number % len(POINTS)]
        words = [SEED, ALTERATIONS / BATCHES, first, first + killed_every - 1, point]
        ended = subprocess.run(
            [sys.executable, "-m", "tests.support.soak", str(folder), *map(str, words)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr
    lines = (folder / "seconds.jsonl").read_text().splitlines()
    return {record["batch"]: record for record in map(json.loads, lines)}


@pytest.mark.long
def test_a_long_life_ends_right_and_stays_as_fast(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    configure(project)
    seconds = lived(tmp_path, batches=BATCHES, killed_every=KILLED_EVERY)
    life = Life(SEED, ALTERATIONS / BATCHES)
    for _ in range(BATCHES):
        list(life.batch())
    answer = project.ingest("run")
    assert answer.code == 0, answer.err
    wrong = []
    for table in life.tables:
        query = f"SELECT * EXCEPT ({ADDED}) FROM gold.shop_{table.name} ORDER BY id"
        found = project.ingest("--json", "sql", query).records
        expected = [table.rows[key] for key in sorted(table.rows)]
        compared = project.ingest("reconcile", f"shop_{table.name}")
        if found != expected or compared.code:
            wrong.append(f"{table.name}: got {found}\n not {expected}\n{compared.out}")
    assert wrong == [], "\n".join(wrong)
    # A process is warm after its first half; its last batch is killed.
    half = KILLED_EVERY // 2
    begun, ended = (
        median(seconds[number]["cpu"] for number in range(last - half, last))
        for last in (KILLED_EVERY, BATCHES)
    )
    assert ended <= SLOWER * begun, f"{ended:.2f} CPU s a batch at the end, {begun:.2f} before"
