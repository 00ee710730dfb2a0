"""A long life of one warehouse.

Called as `python -m tests.support.soak FOLDER SEED ALTERATIONS FIRST LAST POINT`.

It plays the batches from FIRST to LAST, each a run of the command, and is killed at POINT in LAST.

What happens in which batch is drawn from the seed, so that every process of a life tells the same
story. Of each batch the CPU and wall seconds are appended to `FOLDER/seconds.jsonl`.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.bench.processes import measured
from tests.support.altering import Altering
from tests.support.project import Project

TABLES, TOUCHED, ROWS = 20, 3, 4
SOURCE = "name: shop\nformat: canal\norder: source\nfiles: {path: 'landing/*.jsonl'}\n"
SETTINGS = "ddl: {additive: apply, widening: apply, destructive: apply}\n"


class Life:
    """Tables whose rows and columns change; a batch has `alterations` schema changes on average."""

    def __init__(self, seed: int, alterations: float) -> None:
        self._chance = random.Random(seed)
        self._alterations = alterations
        self.tables = [Altering(f"t{number:02d}", seed + number) for number in range(TABLES)]

    def batch(self) -> Iterator[dict[str, object]]:
        """The messages of the next batch: a few tables change some rows, at times their columns."""
        for table in self._chance.sample(self.tables, TOUCHED):
            sent = len(table.messages)
            if self._chance.random() < self._alterations / TOUCHED:
                table.live(rows=ROWS // 2, changes=1)
            else:
                table.live(rows=ROWS, changes=0)
            yield from table.messages[sent:]


def configure(project: Project) -> None:
    """The one source, and schema changes of every class applied as they come."""
    project.write("conf/sources/shop.yml", SOURCE)
    project.write("conf/ingest.yml", SETTINGS)


def play(project: Project, life: Life, *, first: int, last: int, point: str) -> None:
    """Batches `first` to `last`, where this process ends; those before are done."""
    from tests.support.killing import arm

    for number in range(1, last + 1):
        messages = list(life.batch())
        if number < first:
            continue
        project.land(f"{number:05d}.jsonl", messages)
        if number == last:
            arm(point)
        cost = measured(lambda: project.ingest("run"))
        with (project.folder / "seconds.jsonl").open("a") as file:
            file.write(json.dumps({"batch": number, "cpu": cost.cpu, "wall": cost.clock}) + "\n")


if __name__ == "__main__":
    folder, seed, alterations, first, last, point = sys.argv[1:]
    play(
        Project(Path(folder), lambda: ("", "")),
        Life(int(seed), float(alterations)),
        first=int(first),
        last=int(last),
        point=point,
    )
