"""Backup and restore as docs/operations.md has it: whatever was lost, gold ends as if nothing had.

A warehouse with a source of files and one of Kafka, whose tables are kept as rows, as versions and
as every change, with a schema change approved and one refused. After two batches its folder is
copied; a third comes, something is lost and put back, a fourth comes. What stands there then is
compared with a warehouse that lost nothing. Every command that follows a loss is a process of its
own, as it is where folders are put back.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.kafka_broker import Record, create_topic, produce
from tests.support.project import Answer, Project, canal, canal_ddl

pytestmark = [pytest.mark.slow, pytest.mark.spark]
ROOT = Path(__file__).parents[2]
T0 = 1_700_000_000_000
SOURCES = {
    "shop": "name: shop\nformat: canal\norder: source\nfiles: {{path: 'landing/*.jsonl'}}\n",
    "till": "name: till\nformat: canal\n"
    "kafka: {{bootstrap_servers: '{servers}', topics: [{topic}]}}\n",
}
TABLES = {
    "shop": """
source: shop
tables:
  - from: '*'
  - {from: shop.person, target: persons, stored_as_scd_type: 2}
  - {from: shop.visit, target: visits, stored_as_scd_type: append}
""",
    "till": "source: till\ntables: [{from: '*', target: 'till_{table}'}]\n",
}
STATEMENTS: tuple[list[str], ...] = (
    ["ALTER TABLE item ADD COLUMN note varchar(20)"],
    ["ALTER TABLE item DROP COLUMN note", "ALTER TABLE item DROP COLUMN name"],
    [],
    [],
)
"""What each batch brings beside rows."""
SETTINGS = "ddl: {additive: apply, destructive: review}\n"
GOLD = ("shop_item", "persons", "visits", "till_item")
LAYERS = ("bronze", "silver")
TOPIC = "backup.items"
_EACH = "count(DISTINCT source, topic, `partition`, offset) AS messages"
COUNTS = (
    f"SELECT count(*) AS rows, {_EACH} FROM bronze.messages",
    f"SELECT count(*) AS rows, {_EACH} FROM silver.cdc WHERE row >= 0",
)
COMMANDS = """
import json, sys
from pathlib import Path
from tests.support.project import project_in

with project_in(Path(sys.argv[1])) as project:
    answers = [project.ingest(*words) for words in json.loads(sys.argv[2])]
print(json.dumps(answers))
"""


class Story:
    """The changes of a shop, the same however often they are told."""

    def __init__(self) -> None:
        self._chance = random.Random(11)
        self._number = 0

    def batch(self, changes: int) -> list[dict[str, Any]]:
        """Inserts, updates and deletes of three tables; one in ten comes late."""
        return [self._change() for _ in range(changes)]

    def statement(self, sql: str) -> dict[str, Any]:
        """A schema change of `item`."""
        self._number += 1
        return canal_ddl("item", sql, es=T0 + 1000 * self._number, id_=self._number)

    def _change(self) -> dict[str, Any]:
        self._number += 1
        table = self._chance.choice(("item", "item", "person", "visit"))
        row: dict[str, str | None] = {
            "id": str(self._chance.randrange(12)),
            "name": f"n{self._number}",
            "price": None if self._chance.random() < 0.2 else f"{self._number}.25",
        }
        kind = self._chance.choice(("INSERT", "UPDATE", "UPDATE", "DELETE"))
        old = {"name": "earlier"} if kind == "UPDATE" else None
        late = self._chance.choice((0,) * 9 + (20_000,))
        at = T0 + 1000 * self._number - late
        return canal(table, kind, row, es=at, id_=self._number, old=old)


class Copies(NamedTuple):
    """The project; a copy of its warehouse after two batches, and one after three, when something
    is lost; what gold holds after four where nothing was, and how many messages came."""

    project: Path
    backup: Path
    newest: Path
    expected: dict[str, Any]
    messages: int

    @property
    def warehouse(self) -> Path:
        return self.project / "warehouse"

    def put(self, copy: Path, part: str = ".") -> None:
        """Put a part of a copy in the place of what is there."""
        place = self.warehouse / part
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(copy / part, place)

    def lose(self, part: str) -> None:
        """Take a part of the warehouse away."""
        shutil.rmtree(self.warehouse / part)


def commands(folder: Path, *each: Sequence[str]) -> list[Answer]:
    """What these commands answer, in a process that begins with nothing in its memory."""
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, str(folder), json.dumps(each)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    return [Answer(*answer) for answer in json.loads(done.stdout)]


def contents(folder: Path, *first: Sequence[str]) -> dict[str, Any]:
    """What gold holds after these commands, each table as its own history says, and how many
    messages bronze and silver hold, and how many times."""
    asked = [("--json", "sql", f"SELECT * FROM gold.{name}") for name in GOLD]
    counts = [("--json", "sql", query) for query in COUNTS]
    compared = [("reconcile", name) for name in GOLD]
    answers = commands(folder, *first, *compared, *asked, *counts)
    assert [answer.code for answer in answers] == [0] * len(answers), answers
    tables = [answer.records for answer in answers[-len(asked) - len(counts) :]]
    for rows in tables:
        rows.sort(key=lambda row: json.dumps(row, sort_keys=True))
    return dict(zip([*GOLD, "bronze", "silver"], tables, strict=True))


def decide(folder: Path) -> None:
    """Approve the schema change that takes one column away, and refuse that of the other."""
    (listed,) = commands(folder, ("--json", "ddl", "list", "--status", "pending"))
    ids = {entry["statement"].split()[-1]: entry["id"] for entry in listed.records}
    refused = ("ddl", "reject", ids["name"], "--why", "still read")
    answers = commands(folder, ("ddl", "approve", ids["note"]), refused)
    assert [answer.code for answer in answers] == [0, 0], answers


@pytest.fixture(scope="module")
def copies(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Copies:
    create_topic(kafka, TOPIC, partitions=2)
    folder = tmp_path_factory.mktemp("backup")
    project = Project(folder, lambda: ("", ""))
    project.write("conf/ingest.yml", SETTINGS)
    for name, text in SOURCES.items():
        project.write(f"conf/sources/{name}.yml", text.format(servers=kafka, topic=TOPIC))
        project.write(f"conf/tables/{name}.yml", TABLES[name])
    story, sent = Story(), 0
    for number, statements in enumerate(STATEMENTS):
        if number == 2:
            decide(folder)
            shutil.copytree(folder / "warehouse", folder / "backup")
        messages = [*story.batch(60), *map(story.statement, statements)]
        project.land(f"{number}.jsonl", messages)
        of_till = [message for message in story.batch(60) if message["table"] == "item"]
        records = (Record(json.dumps(m).encode(), partition=n % 2) for n, m in enumerate(of_till))
        produce(kafka, TOPIC, records)
        sent += len(messages) + len(of_till)
        if number == 3:
            break
        (answer,) = commands(folder, ("run",))
        assert answer.code == 0, answer
    shutil.copytree(folder / "warehouse", folder / "newest")
    expected = contents(folder, ("run",))
    assert expected["bronze"] == expected["silver"] == [{"rows": sent, "messages": sent}]
    return Copies(folder, folder / "backup", folder / "newest", expected, sent)


def test_all_is_put_back(copies: Copies) -> None:
    """Nothing is lost and nothing doubled, not even on the way."""
    copies.put(copies.backup)
    assert contents(copies.project, ("run",)) == copies.expected


def test_the_warehouse_has_moved(copies: Copies) -> None:
    """Nothing is read twice, and the tables are where the settings say."""
    copies.put(copies.backup)
    settings, place = copies.project / "conf/ingest.yml", copies.project / "elsewhere/lake"
    place.parent.mkdir()
    copies.warehouse.rename(place)
    settings.write_text(f"{SETTINGS}warehouse: {place}\n")
    assert contents(copies.project, ("run",)) == copies.expected
    assert not copies.warehouse.exists()
    settings.write_text(SETTINGS)


def test_checkpoints_are_lost(copies: Copies) -> None:
    """What comes once more counts once."""
    copies.put(copies.backup)
    copies.lose("_checkpoints")
    found = contents(copies.project, ("run",))
    assert {name: found[name] for name in GOLD} == {n: copies.expected[n] for n in GOLD}
    assert found["silver"][0]["messages"] == copies.messages


@pytest.mark.parametrize("ahead", ["tables", "checkpoints"])
def test_tables_and_checkpoints_are_of_two_moments(copies: Copies, ahead: str) -> None:
    """Whichever is ahead: the run names the folders to remove, and the next one has all."""
    tables, checkpoints = copies.newest, copies.backup
    if ahead == "checkpoints":
        tables, checkpoints = checkpoints, tables
    copies.put(tables)
    copies.put(checkpoints, "_checkpoints")
    (answer,) = commands(copies.project, ("run",))
    assert answer.code == 1, answer
    named = re.findall(r"Remove the folder (\S+) and run again", " ".join(answer.err.split()))
    place = copies.warehouse / "_checkpoints"
    assert set(named) == {str(place / layer / of) for layer in LAYERS for of in SOURCES}, answer.err
    for folder in set(named):
        shutil.rmtree(folder)
    found = contents(copies.project, ("run",))
    assert {name: found[name] for name in GOLD} == {n: copies.expected[n] for n in GOLD}
    assert found["silver"][0]["messages"] == copies.messages


def test_gold_is_put_back_as_it_was_before(copies: Copies) -> None:
    copies.put(copies.newest)
    copies.put(copies.backup, "gold")
    assert contents(copies.project, ("run",)) == copies.expected


@pytest.mark.slow
def test_all_but_gold_is_put_back(copies: Copies) -> None:
    """Silver numbers its batches on above those that gold has come to: by the numbers of the copy,
    gold took what came then for applied."""
    copies.put(copies.newest)
    for part in (*LAYERS, "_checkpoints"):
        copies.put(copies.backup, part)
    assert contents(copies.project, ("run",)) == copies.expected


def test_tables_of_gold_are_lost(copies: Copies) -> None:
    copies.put(copies.newest)
    copies.lose("gold/shop_item")
    copies.lose("gold/persons")
    (answer,) = commands(copies.project, ("run",))
    assert answer.code == 1, answer
    for name in ("shop_item", "persons"):
        assert f"the table gold.{name} is gone" in answer.err, answer.err
    rebuilt = (("rebuild", "shop_item"), ("rebuild", "persons"))
    assert contents(copies.project, *rebuilt) == copies.expected


def test_all_of_gold_is_lost(copies: Copies) -> None:
    """With what was decided: the schema changes wait once more."""
    copies.put(copies.newest)
    copies.lose("gold")
    (answer,) = commands(copies.project, ("run",))
    assert answer.code == 0, answer
    decide(copies.project)
    assert contents(copies.project, ("run",)) == copies.expected
