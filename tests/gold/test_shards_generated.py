"""Random tables in several shards that share a target, kept in every mode and delivered at random:
gold, as-of and what a rebuild makes are what the shards went through."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.gold.test_hostile_logs import MODES, differing, number_of, ordered
from tests.support.databases import delivered
from tests.support.debezium_log import captured
from tests.support.project import Project
from tests.support.shards import COLUMNS, KEY, START, ShardChange, Shards, ShardVersion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark", "short_spans")

SHARED: Mapping[str, Any] = {}
APART: Mapping[str, Any] = {"shard_column": "shard"}
SEQUENCED: Mapping[str, Any] = {"sequence_by": ["version"]}
KINDS = {"shared": SHARED, "apart": APART, "sequenced": SEQUENCED}
TIMES = {
    **{"rows": (), "marked": ("_deleted_at",), "versions": ("_valid_from", "_valid_to")},
    **{"ended": ("_valid_from", "_valid_to", "_deleted_at"), "appended": ("_event_time",)},
}
CHANGES, BATCHES, PARTITIONS = 50, 3, 3
Rows = list[tuple[Any, ...]]


class Target(NamedTuple):
    """A target, how it is kept, and the shards that feed it."""

    mode: str
    kind: str
    shards: Shards

    @property
    def entry(self) -> dict[str, Any]:
        """Its entry in the tables file."""
        name = self.shards.name
        fed = {"from": f"db?.{name}_?", "target": name, "keys": [*KEY], "columns": COLUMNS}
        return {**fed, **MODES[self.mode], **KINDS[self.kind]}

    def expected(self, until: int) -> Rows:
        """Its rows after change `until`."""
        if self.mode == "appended":
            images = [(c, c.logged) for c in self.shards.log if c.logged.number <= until]
            return ordered(
                [(*self._values(c.shard, t.after), t.number) for c, t in images if t.after]
            )
        found = [*self.shards.rows_at(self.mode, until)]
        begins = {(version.row, version.held.begin) for version, _ in found}
        rows: Rows = []
        for version, end in found:
            marked = None if (version.row, end) in begins else end
            begin = version.held.begin
            times = {"_valid_from": begin, "_valid_to": end, "_deleted_at": marked}
            rows.append((*self._held(version), *(times[name] for name in TIMES[self.mode])))
        return ordered(rows)

    def _held(self, version: ShardVersion) -> tuple[Any, ...]:
        return self._values(version.shard, version.held.row)

    def _values(self, shard: int, row: Mapping[str, Any]) -> tuple[Any, ...]:
        values = tuple(None if row[name] is None else str(row[name]) for name in COLUMNS)
        return (*([self.shards.label(shard)] if self.kind == "apart" else []), *values)

    def held(self, records: list[dict[str, Any]]) -> Rows:
        """Its rows as the command prints them, with the numbers of changes for times."""
        names = [*(["shard"] if self.kind == "apart" else []), *COLUMNS]
        rows: Rows = []
        for record in records:
            values = (None if record[name] is None else str(record[name]) for name in names)
            times = (number_of(record[name]) for name in TIMES[self.mode])
            rows.append((*values, *times))
        return ordered(rows)


def targets(chance: random.Random) -> list[Target]:
    """One of each mode and kind; without keys nothing is put in an order of its own."""
    made = []
    for mode in MODES:
        for kind in KINDS:
            if (mode, kind) == ("appended", "sequenced"):
                continue
            shards = Shards(
                chance=chance,
                name=f"{mode}_{kind}",
                shards=chance.choice([2, 3]),
                apart=kind == "apart",
                truncates=kind != "sequenced" and chance.random() < 0.6,
                partials=mode != "appended" and chance.random() < 0.6,
                moves=chance.random() < 0.7,
            )
            shards.live(CHANGES)
            made.append(Target(mode, kind, shards))
    return made


def batches(made: list[Target], chance: random.Random) -> list[list[str]]:
    """The lines of each file, as `kcat` prints them."""
    lines: list[list[str]] = [[] for _ in range(BATCHES)]
    for target in made:
        shards, offsets = target.shards, [0] * PARTITIONS
        arriving = delivered(shards.log, chance, partitions=PARTITIONS, batches=BATCHES)
        for number, batch in enumerate(arriving):
            for partition, lane in enumerate(batch):
                for change in lane:
                    assert isinstance(change, ShardChange)
                    lines[number].append(
                        captured(
                            shards.message(change),
                            topic=shards.name,
                            partition=partition,
                            offset=offsets[partition],
                        )
                    )
                    offsets[partition] += 1
    return lines


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_shards_are_one_table(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    chance = random.Random(seed)
    made = targets(chance)
    project = Project(tmp_path, capsys.readouterr)
    files = {"path": "landing/*.jsonl", "framing": "kcat", "order": "path"}
    source = {"name": "lab", "format": "debezium", "order": "source", "files": files}
    project.write("conf/sources/lab.yml", json.dumps(source))
    tables = {"source": "lab", "tables": [target.entry for target in made]}
    project.write("conf/tables/lab.yml", json.dumps(tables))
    for number, lines in enumerate(batches(made, chance)):
        file = tmp_path / f"landing/{number}.jsonl"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines))
        assert project.ingest("run").code == 0
    wrong = [said for target in made for said in differences(project, target, chance)]
    assert wrong == [], "\n".join(wrong)


def differences(project: Project, target: Target, chance: random.Random) -> list[str]:
    """How a target differs from what its shards went through: now, at some moment before, and when
    it is made anew."""
    name, last = target.shards.name, len(target.shards.log)
    until = chance.randrange(last)
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=START + until)
    query = ("sql", f"SELECT * FROM gold.{name}")
    wrong = []
    for words, number in (
        (query, last),
        (("as-of", name, "--time", moment.isoformat()), until),
        (("reconcile", name), None),
        (("rebuild", name), None),
        (query, last),
    ):
        answer = project.ingest("--json", *words)
        if number is None or answer.code:
            found = answer.err + answer.out if answer.code else None
        else:
            found = differing(target.held(answer.records), target.expected(number))
        if found is not None:
            wrong.append(f"{name}, {words[0]}: {found}")
    return wrong
