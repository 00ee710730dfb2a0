"""A source that cannot be reached is asked at growing intervals, and holds up no other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from ingest.config.load import load
from ingest.errors import TRY_AGAIN, LeaseHeld, PlatformError
from pipelines.bronze.transport import Bronze
from pipelines.gold import settled
from pipelines.gold.run import Merged
from pipelines.platform.signals import Stop
from pipelines.platform.warehouse import Warehouse
from pipelines.runs import backoff, run, sources, targets
from pipelines.runs.backoff import FIRST_BACKOFF, LONGEST_BACKOFF, Backoffs
from pipelines.runs.run import Run
from pipelines.silver import projects
from pipelines.terminal.console import Console

DEAD = PlatformError("source dead: no broker answers")


def _run(folder: Path, stage: str = "bronze") -> Run:
    """A run of one stage of two sources."""
    (folder / "sources").mkdir()
    for name in ("dead", "shop"):
        (folder / f"sources/{name}.yml").write_text(
            f"name: {name}\nformat: canal\nfiles: {{path: 'landing/{name}/*'}}\n"
        )
    config = load(folder, overrides={"checkpoints": str(folder / "checkpoints")})
    return Run(
        Warehouse(config, cast("SparkSession", None)),
        Console(json=True),
        sources=["dead", "shop"],
        targets=None,
        stages=(stage,),
        stop=Stop(),
    )


def test_backoffs_double_up_to_the_longest() -> None:
    dead, seconds = Backoffs[str](), []
    for _ in range(12):
        dead.failed("dead", DEAD)
        rest = dead.of("dead")
        assert rest is not None and rest.error is DEAD
        seconds.append(rest.seconds)
    assert seconds[:4] == [FIRST_BACKOFF * 2**n for n in range(4)]
    assert seconds[-2:] == [LONGEST_BACKOFF, LONGEST_BACKOFF]


def test_what_does_not_answer_is_not_waited_for_in_each_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, asked = [0.0], []

    def ingest_source(warehouse: Any, source: Any, **_: Any) -> Bronze:
        asked.append((source.name, clock[0]))
        if source.name == "dead" and clock[0] < 5:
            raise DEAD
        return Bronze(source.name, messages=int(clock[0] <= 7))

    def look(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(sources, "ingest_source", ingest_source)
    monkeypatch.setattr(backoff, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    at_work = _run(tmp_path)
    monkeypatch.setattr(at_work, "_compact", lambda: look(0.5))
    outcome = at_work.until_done()
    # Asked at 0, after 1 second, after 2 more and after 4 more, when it answers.
    assert [at for name, at in asked if name == "dead"] == [0.0, 1.0, 3.0, 7.0, 7.5]
    assert [at for name, at in asked if name == "shop"] == [n / 2 for n in range(16)]
    assert outcome.sources["dead"].error is None
    assert outcome.sources["shop"].messages == 15
    assert capsys.readouterr().err.count("no broker answers") == 1


def test_a_resting_source_still_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [2, 1, 0]

    def ingest_source(warehouse: Any, source: Any, **_: Any) -> Bronze:
        if source.name == "dead":
            raise DEAD
        return Bronze(source.name, messages=left.pop(0))

    monkeypatch.setattr(sources, "ingest_source", ingest_source)
    at_work = _run(tmp_path)
    monkeypatch.setattr(at_work, "_compact", lambda: None)
    outcome = at_work.until_done()
    assert (left, outcome.sources["dead"].error, outcome.code) == ([], "no broker answers", 1)


@pytest.mark.parametrize("messages", [0, 5])
def test_what_was_done_before_another_run_was_found_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, messages: int
) -> None:
    """Who only found another at work has no row in gold._runs."""
    left, noted = [messages, 0], []

    def ingest_source(warehouse: Any, source: Any, **_: Any) -> Bronze:
        if source.name == "dead":
            raise LeaseHeld("bronze of dead is held by process 1; run again when it is free")
        return Bronze(source.name, messages=left.pop(0))

    def record_run(_: Any, row: Any) -> bool:
        noted.append((row.exit_code, row.messages))
        return False

    monkeypatch.setattr(sources, "ingest_source", ingest_source)
    monkeypatch.setattr(run, "record_run", record_run)
    at_work = _run(tmp_path)
    monkeypatch.setattr(at_work, "_compact", lambda: None)
    assert at_work.until_done().code == TRY_AGAIN
    assert noted == ([(TRY_AGAIN, 5)] if messages else [])


def test_a_source_whose_note_could_not_be_written_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose project it is cannot be said while a disk is full: the others go on, and so does the
    source once it is said."""
    clock, noted, read = [0.0], [], []

    def take(_: Warehouse, source: str) -> None:
        if source == "dead":
            noted.append(clock[0])
            if clock[0] < 5:
                raise OSError("No space left on device")

    def ingest_source(_: Any, source: Any, **__: Any) -> Bronze:
        read.append((source.name, clock[0]))
        return Bronze(source.name, messages=0)

    def compact() -> None:
        clock[0] += 1.0
        if clock[0] == 9:
            at_work._stop.ask()

    at_work = _run(tmp_path)
    monkeypatch.setattr(projects, "take", take)
    monkeypatch.setattr(sources, "ingest_source", ingest_source)
    monkeypatch.setattr(backoff, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(run, "record_run", lambda *_: False)
    monkeypatch.setattr(run, "PAUSE", 0.0)
    monkeypatch.setattr(at_work, "_compact", compact)
    outcome = at_work.until_stopped()
    assert noted == [0.0, 1.0, 3.0, 7.0]
    assert [at for name, at in read if name == "shop"] == [float(n) for n in range(9)]
    assert [at for name, at in read if name == "dead"] == [7.0, 8.0]
    assert outcome.errors == []
    assert capsys.readouterr().err.count("no space is left on a disk") == 1


def test_a_parked_target_is_tried_at_growing_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it rests and nothing else is new, gold is not looked through; once it goes on, or is
    rebuilt, it is as any other."""
    clock, state, tried = [0.0], ["a"], []
    parked = SimpleNamespace(status="parked")
    progress = {("shop", "items"): parked}
    nothing = (0, 0, 0, 0, 0, 0, 0)
    why = Merged("items", "shop", *nothing, seconds=0.0, error="no key", contract=None)

    def merge(*_: Any, resting: Any, **__: Any) -> list[Merged]:
        tried.append((clock[0], sorted(resting)))
        return [] if resting or parked.status == "ok" else [why]

    at_work = _run(tmp_path, stage="gold")
    at_work._warehouse.exists = lambda *_: True  # type: ignore[method-assign]
    monkeypatch.setattr(backoff, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(targets, "merge_tables", merge)
    monkeypatch.setattr(targets, "load_progress", lambda _: progress)
    for name in ("waiting", "unmatched", "untyped", "misspelt"):
        monkeypatch.setattr(targets, name, lambda *_, **__: ())
    monkeypatch.setattr(targets, "publish", lambda *_: None)
    monkeypatch.setattr(run, "record_run", lambda *_: False)
    monkeypatch.setattr(run, "PAUSE", 0.0)
    for name, given in (
        ("silver_commit", lambda _: state[0]),
        ("unchanged", lambda *_: False),
        ("state", lambda *_: state[0]),
        ("remember", lambda *_, **__: None),
    ):
        monkeypatch.setattr(settled, name, given)

    def compact() -> None:
        clock[0] += 1.0
        if clock[0] == 40:
            # Something comes for another target.
            state[0] = "b"
        if clock[0] == 50:
            parked.status = "ok"
            state[0] = "c"
        if clock[0] == 60:
            at_work._stop.ask()

    monkeypatch.setattr(at_work, "_compact", compact)
    outcome = at_work.until_stopped()
    resting = [("shop", "items")]
    assert tried[:6] == [(at, []) for at in (0.0, 1.0, 3.0, 7.0, 15.0, 31.0)]
    assert tried[6] == (40.0, resting) and tried[7] == (50.0, [])
    assert not at_work._gold.parked and outcome.code == 0
    assert capsys.readouterr().err.count("is parked: no key") == 1


@pytest.mark.parametrize("text", ["reads x", "source dead: reads x", "source dead reads x"])
def test_a_source_that_failed_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    at_work = _run(tmp_path)
    at_work._journal.failed("dead", PlatformError(text))
    assert at_work.outcome.errors == ["source dead failed: reads x"]
