"""Two drivers on one warehouse: one works, the other says who does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ingest.errors import TRY_AGAIN
from tests.support.project import Project, canal

ROOT = Path(__file__).parents[2]
SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl', order: path}\n"
ROUNDS = 50
COMMAND = "import sys; from pipelines.cli.app import main; main(sys.argv[1:])"


def at_once(project: Project) -> list[tuple[int, str]]:
    """Two runs, started together, neither of which waits: the exit code and errors of each."""
    words = [sys.executable, "-c", COMMAND, "--conf", str(project.folder / "conf")]
    begun = [
        subprocess.Popen(
            [*words, "run", "--no-wait"],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=600)[1] for process in begun]
    return [(process.returncode, err) for process, err in zip(begun, said, strict=True)]


@pytest.mark.long
def test_two_drivers_at_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    met = 0
    for number in range(ROUNDS):
        row = {"id": str(number), "name": "pen", "price": "1.10"}
        change = canal("item", "INSERT", row, es=1_700_000_000_000 + number, id_=number)
        project.land(f"{number:03}.jsonl", [change])
        ended = at_once(project)
        codes = [code for code, _ in ended]
        assert 0 in codes and set(codes) <= {0, TRY_AGAIN}, ended
        held = [err for code, err in ended if code == TRY_AGAIN]
        met += len(held)
        assert all(re.search(r"process \d+ on \S+ since ", err) for err in held), held
        # Who was turned away left nothing undone that the other has not done.
        assert project.ingest("run").code == 0
    assert met
    query = "SELECT id FROM gold.shop_item ORDER BY id"
    found = [row["id"] for row in project.ingest("sql", query, "--json").records]
    assert found == list(range(ROUNDS))
    sent = project.ingest("sql", "SELECT count(*) AS n FROM bronze.messages", "--json").records
    assert sent == [{"n": ROUNDS}]
    assert project.ingest("reconcile", "shop_item").code == 0
