"""A target that is told to wait between merges waits in silver, and comes out as any other."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from ingest.config.cadence import Cadence
from ingest.config.routes import Route
from pipelines.gold import cadence
from pipelines.gold import run as gold
from pipelines.gold.advance import advance
from pipelines.operations.status import turn_told
from pipelines.runs import run
from pipelines.targets.progress import Progress, micros_of
from tests.support.project import Project, canal, canal_ddl

SECOND = 1_000_000
SOURCE = "name: shop\nformat: canal\nfiles: {path: 'landing/*.jsonl', order: path}\n"
TABLES = "source: shop\ntables: [{from: '*'}, {from: shop.item, merge_every: %s}]\n"
ADD = "ALTER TABLE item ADD COLUMN note varchar(9)"


@pytest.mark.parametrize(
    ("every", "merged_at", "events", "at", "resting"),
    [
        (None, 0, 1, 1, False),
        (Cadence(seconds=5), None, 1, 9, False),
        (Cadence(seconds=5), 10 * SECOND, 1, 10 * SECOND, True),
        (Cadence(seconds=5), 10 * SECOND, None, 15 * SECOND - 1, True),
        (Cadence(seconds=5), 10 * SECOND, 1, 15 * SECOND, False),
        # A clock that was set back.
        (Cadence(seconds=5), 10 * SECOND, 1, 9 * SECOND, False),
        (Cadence(events=3), 10 * SECOND, 2, 99 * SECOND, True),
        (Cadence(events=3), 10 * SECOND, 3, 10 * SECOND, False),
        # They are to be counted first.
        (Cadence(events=3), 10 * SECOND, None, 10 * SECOND, False),
        (Cadence(seconds=5, events=3), 10 * SECOND, 2, 11 * SECOND, True),
        (Cadence(seconds=5, events=3), 10 * SECOND, 2, 15 * SECOND, False),
        (Cadence(seconds=5, events=3), 10 * SECOND, 3, 11 * SECOND, False),
    ],
)
def test_when_a_target_rests(
    every: Cadence | None, merged_at: int | None, events: int | None, at: int, resting: bool
) -> None:
    route = cast("Route", SimpleNamespace(merge_every=every))
    progress = Progress(target="t", source="s", merged_at=merged_at)
    assert cadence.rests(route, progress, events=events, at=at) is resting
    parked = Progress(target="t", source="s", merged_at=merged_at, status="parked")
    assert not cadence.rests(route, parked, events=events, at=at)


NOON, MINUTE = datetime(2026, 1, 1, 12, tzinfo=UTC), timedelta(minutes=1)


@pytest.mark.parametrize(
    ("every", "merged_at", "since", "told"),
    [
        (Cadence(seconds=300), NOON, NOON + MINUTE, NOON + 5 * MINUTE),
        # Its time has been there before the change was.
        (Cadence(seconds=300), NOON, NOON + 9 * MINUTE, NOON + 9 * MINUTE),
        (Cadence(seconds=300), None, NOON, NOON),
        (Cadence(events=3), None, NOON, NOON),
        (Cadence(events=3), NOON, NOON + MINUTE, None),
        (Cadence(seconds=300), NOON, None, None),
    ],
)
def test_when_its_turn_comes(
    every: Cadence, merged_at: datetime | None, since: datetime | None, told: datetime | None
) -> None:
    turn = cadence.Turn(every, every.due_at(micros_of(merged_at)))
    assert turn_told(turn, since) == (str(every), told)


class Clock:
    """How far the clock by which targets wait is ahead of the real one."""

    def __init__(self) -> None:
        self._real = cadence.now
        self.ahead = 0.0

    def now(self) -> int:
        return self._real() + int(self.ahead * SECOND)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cadence, "now", clock.now)
    return clock


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    project = Project(tmp_path, capsys.readouterr)
    project.write("conf/sources/shop.yml", SOURCE)
    return project


def item(number: int, name: str, **more: str) -> dict[str, str | None]:
    return {"id": str(number), "name": name, "price": "1.10", **more}


@pytest.mark.slow
def test_it_waits_for_a_time_or_a_number_of_changes(
    spark: SparkSession, project: Project, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    project.write("conf/tables/shop.yml", TABLES % "1 hour | 4 events")
    looked: list[str] = []
    merge_source = gold._merge_source

    def watched(*about: Any, **more: Any) -> list[gold.Merged]:
        looked.append("gold")
        return merge_source(*about, **more)

    monkeypatch.setattr(gold, "_merge_source", watched)
    came = iter(range(1, 99))

    def comes(*names: str, table: str = "item", types: dict[str, str] | None = None) -> None:
        """Rows of the table, a new one for each name, with an update of the first row."""
        number = next(came)
        project.land(
            f"{number:02}.jsonl",
            [
                canal(
                    table,
                    "INSERT",
                    item(10 * number + i, name),
                    es=1_700_000_000_000 + number,
                    id_=number,
                )
                for i, name in enumerate(names)
            ],
        )

    def runs(*words: str) -> None:
        answer = project.ingest("run", *words)
        assert answer.code == 0, answer.err

    def has(table: str = "item") -> list[str]:
        query = f"SELECT name FROM gold.shop_{table} ORDER BY id"
        return [row["name"] for row in project.ingest("sql", "--json", query).records]

    def status() -> dict[str, Any]:
        rows = project.ingest("status", "--json").records
        return next(row for row in rows if row.get("table") == "shop_item")

    comes("a")
    comes("a", table="other")
    runs()
    assert (has(), has("other")) == (["a"], ["a"])
    # One that was never merged does not wait; now it does, and the other table does not.
    comes("b")
    comes("b", table="other")
    runs()
    assert (has(), has("other")) == (["a"], ["a", "b"])
    row = status()
    assert (row["merge_every"], row["parked"], row["lag_seconds"] >= 0) == (
        "1 hour | 4 events",
        False,
        True,
    )
    assert row["waiting"] == 1 and row["next_merge"] is not None
    [planned] = [r for r in project.ingest("plan", "--json").records if r["kind"] == "table"]
    assert (planned["table"], planned["action"], planned["events"]) == ("shop_item", "rest", 1)
    assert planned["why"].startswith("it is merged every 1 hour | 4 events, its next turn is at 2")
    # Nothing came, and nobody's turn has: gold is not looked through.
    looked.clear()
    runs()
    assert not looked
    # What waits is part of the history, not of the rows; and rows are compared as far as they are.
    [history] = project.ingest(
        "sql", "--json", "SELECT count(*) AS n FROM history.shop_item"
    ).records
    assert history == {"n": 2}
    assert project.ingest("reconcile", "shop_item").code == 0
    # A schema change on the way, and enough changes.
    number = next(came)
    project.land("05.jsonl", [canal_ddl("item", ADD, es=1_700_000_000_100, id_=number)])
    comes("c", "d")
    runs()
    assert has() == ["a"]
    comes("e")
    runs()
    assert has() == ["a", "b", "c", "d", "e"]
    assert status()["next_merge"] is None
    # The time has come, and nothing else did.
    comes("f")
    runs()
    assert has()[-1] == "e"
    clock.ahead = 3601
    runs()
    assert has()[-1] == "f"
    # Somebody asks for it, or another declaration lets it go on.
    clock.ahead = 0
    comes("g")
    runs("--table", "shop_item")
    assert has()[-1] == "g"
    row = status()
    assert (row["waiting"], row["lag_seconds"]) == (0, 0)
    comes("h")
    runs()
    assert has()[-1] == "g"
    project.write("conf/tables/shop.yml", "source: shop\ntables: [{from: '*'}]\n")
    runs()
    assert has() == list("abcdefgh")
    assert project.ingest("reconcile", "shop_item").code == 0


@pytest.mark.slow
def test_a_run_that_goes_on_takes_it_up_when_its_turn_comes(
    spark: SparkSession, project: Project, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Whether nothing else waits, or another target is parked meanwhile."""
    project.write("conf/tables/shop.yml", TABLES % "60 seconds")
    numbers = iter(range(1, 99))

    def comes(*tables: str) -> None:
        number = next(numbers)
        messages = [
            canal(table, "INSERT", item(number, "pen"), es=number, id_=number) for table in tables
        ]
        project.land(f"{number:02}.jsonl", messages)

    comes("item", "other")
    assert project.ingest("run").code == 0
    merged: list[tuple[str, float]] = []
    one_pass = run.Run._pass
    passes = iter(range(99))

    def advanced(ledger: Any, batch: Any, *about: Any, **more: Any) -> Any:
        merged.append((batch.route.target, clock.ahead))
        return advance(ledger, batch, *about, **more)

    def passed(self: run.Run, **more: Any) -> bool:
        number = next(passes)
        if number == 0:
            comes("item", "other")
        brought = one_pass(self, **more)
        clock.ahead += 20
        if number == 6:
            self._stop.ask()
        return brought

    monkeypatch.setattr(gold, "advance", advanced)
    monkeypatch.setattr(run.Run, "_pass", passed)
    monkeypatch.setattr(run, "PAUSE", 0.0)
    assert project.ingest("run", "--continuous").code == 0
    assert merged == [("shop_other", 0.0), ("shop_item", 60.0)]
    # The other is parked, and tried again by its own time.
    also = (
        "source: shop\ntables: [{from: '*', stored_as_scd_type: append}, {from: shop.item, %s}]\n"
    )
    project.write("conf/tables/shop.yml", also % "merge_every: 60 seconds")
    merged.clear()
    passes = iter(range(99))
    clock.ahead = 0
    assert project.ingest("run", "--continuous").code == 1
    assert [at for target, at in merged if target == "shop_item"] == [60.0]
    assert len([target for target, _ in merged if target == "shop_other"]) > 1
