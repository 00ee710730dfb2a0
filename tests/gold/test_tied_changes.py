"""Changes of a key that have one place in the source's log, delivered twice and out of order: which
of them is the last is told by which was delivered first (semantics.md, 43)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.project import Project, canal

pytestmark = pytest.mark.usefixtures("spark")

SOURCE = """name: shop
format: canal
order: source
files: {path: 'landing/*.jsonl', order: path}
"""
TABLES = """source: shop
tables:
  - from: '*'
  - {from: shop.marked, deletes: soft}
  - {from: shop.versions, stored_as_scd_type: 2}
  - {from: shop.images, stored_as_scd_type: append}
"""
NAMES = ("rows", "marked", "versions", "images")
KEYS, BATCHES, SEED = 150, 3, 20261130
TYPES = {"id": "int", "x": "varchar(20)"}


class Change(NamedTuple):
    """A change of one key: its place in the log, and its text of which there is no other."""

    op: str
    place: tuple[int, int]
    key: int
    text: str

    def message(self, table: str) -> dict[str, object]:
        es, number = self.place
        row = {"id": str(self.key), "x": self.text}
        return canal(table, self.op, row, es=1_700_000_000_000 + es, id_=number, types=TYPES)


def _changes(chance: random.Random) -> list[Change]:
    """A few changes of each key, most of which share their places with others."""
    return [
        Change(
            chance.choice(("INSERT", "UPDATE", "DELETE")),
            (chance.randint(1, 2), chance.randint(1, 2)),
            key,
            f"{key} {number}",
        )
        for key in range(KEYS)
        for number in range(chance.randint(1, 4))
    ]


def _delivered(changes: Sequence[Change], chance: random.Random) -> list[list[Change]]:
    """The changes, some of them twice, in batches in which they come in any order."""
    deliveries = [*changes, *chance.sample(changes, len(changes) // 2)]
    chance.shuffle(deliveries)
    return [deliveries[number::BATCHES] for number in range(BATCHES)]


def _in_order(batches: Sequence[Sequence[Change]]) -> list[Change]:
    """Each change once: by the log, then by its first delivery."""
    first: dict[Change, int] = {}
    for number, change in enumerate(change for batch in batches for change in batch):
        first.setdefault(change, number)
    return sorted(first, key=lambda change: (change.place, first[change]))


def _rows(changes: Sequence[Change]) -> list[dict[str, object]]:
    """What the table holds in the end."""
    held: dict[int, str] = {}
    for change in changes:
        if change.op == "DELETE":
            held.pop(change.key, None)
        else:
            held[change.key] = change.text
    return [{"id": key, "x": text} for key, text in sorted(held.items())]


CURRENT: Mapping[str, str] = {
    "rows": "true",
    "marked": "_deleted_at IS NULL",
    "versions": "_current",
}


def _check(project: Project, changes: Sequence[Change]) -> None:
    for name, current in CURRENT.items():
        query = f"SELECT id, x FROM gold.shop_{name} WHERE {current} ORDER BY id"
        assert project.ingest("sql", query, "--json").records == _rows(changes), name
    upserts = sorted(change.text for change in changes if change.op != "DELETE")
    for name in ("versions", "images"):
        query = f"SELECT x FROM gold.shop_{name} ORDER BY x"
        assert [row["x"] for row in project.ingest("sql", query, "--json").records] == upserts, name
    for name in NAMES:
        found = project.ingest("reconcile", f"shop_{name}")
        assert found.code == 0, found.out + found.err


@pytest.mark.slow
def test_the_first_delivered_of_tied_changes_comes_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    project.write("conf/tables/shop.yml", TABLES)
    chance = random.Random(SEED)
    batches = _delivered(_changes(chance), chance)
    for number, batch in enumerate(batches):
        messages = [change.message(table) for change in batch for table in NAMES]
        project.land(f"{number}.jsonl", messages)
        done = project.ingest("run")
        assert done.code == 0, done.err
    changes = _in_order(batches)
    _check(project, changes)
    for name in NAMES:
        done = project.ingest("rebuild", f"shop_{name}", "--yes")
        assert done.code == 0, done.err
    _check(project, changes)
