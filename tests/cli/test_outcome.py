"""When a run counts as failed for what was set aside, though nothing broke."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ingest.config.modes import TargetContract
from ingest.config.sources import Source
from pipelines.cli.outcome import SOURCE, TABLE, show_outcome
from pipelines.gold.run import Merged
from pipelines.runs.outcome import Outcome, SourceOutcome, all_rejected, too_many_rejects
from pipelines.terminal.console import Console

SEE = "`ingest rejects list --source shop` shows them"
RIGHT = "is its format right? With another, run `ingest redecode --source shop`"
FRAMED = (
    f"{RIGHT}; with another framing `ingest reset --source shop --bronze --yes`, and the next run "
    f"reads its files again. {SEE}"
)


def declared(**more: Any) -> Source:
    return Source.model_validate({"name": "shop", "files": {"path": "x"}, **more})


def merged(**counts: Any) -> Merged:
    told: dict[str, Any] = dict.fromkeys(Merged._fields, 0)
    told |= {"target": "items", "source": "shop", "error": None, "contract": None}
    return Merged(**{**told, **counts})


@pytest.mark.parametrize(
    ("done", "text"),
    [
        (SourceOutcome(rows=9, decoded=9), None),
        (SourceOutcome(rows=9, decoded=9, rejects=8, changes=1), None),
        (
            SourceOutcome(rows=2, decoded=2, rejects=2),
            f"all 2 messages were set aside, none could be decoded: {FRAMED}",
        ),
        (
            SourceOutcome(rows=1, decoded=1, rejects=1),
            f"its one message was set aside, it could not be decoded: {FRAMED}",
        ),
        # A heartbeat or a schema change among them is no change.
        (
            SourceOutcome(rows=60_001, decoded=60_001, rejects=60_000),
            f"60,000 of 60,001 messages were set aside and no change could be decoded: {FRAMED}",
        ),
    ],
)
def test_a_source_of_which_no_change_could_be_decoded(
    done: SourceOutcome, text: str | None
) -> None:
    said = f"source shop: {text}" if text is not None else None
    assert too_many_rejects(declared(), done, []) == said


def test_a_source_that_was_decoded_before_is_declared_rightly() -> None:
    """Nothing else may have come since (semantics.md, 60)."""
    done = SourceOutcome(rows=2, decoded=2, rejects=2)
    assert too_many_rejects(declared(), done, [], decoded_before=True) is None
    bound = declared(rejects={"fail_above": 1})
    said = "2 of 2 messages were set aside, more than rejects.fail_above allows (1)"
    found = too_many_rejects(bound, done, [], decoded_before=True)
    assert found == f"source shop: {said}: {SEE}"


def test_only_files_are_cut_into_messages() -> None:
    kafka = {"files": None, "kafka": {"bootstrap_servers": "h:1", "topics": ["t"]}}
    said = too_many_rejects(declared(**kafka), SourceOutcome(rows=2, decoded=2, rejects=2), [])
    assert said is not None and said.endswith(f"none could be decoded: {RIGHT}. {SEE}")


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        ("50%", None),
        ("5%", "1 of 10 messages was set aside, more than rejects.fail_above allows (5%)"),
        ("15%", "gold set aside 2 of 9 changes, more than rejects.fail_above allows (15%)"),
        (2, "1 message and 2 changes were set aside, more than rejects.fail_above allows (2)"),
    ],
)
def test_a_source_that_exceeds_its_bound(bound: int | str, text: str | None) -> None:
    done = SourceOutcome(rows=10, decoded=10, rejects=1, changes=9)
    tables = [merged(events=9, rejected=2, inserted=7)]
    said = f"source shop: {text}: {SEE}" if text is not None else None
    assert too_many_rejects(declared(rejects={"fail_above": bound}), done, tables) == said


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ({"events": 3}, None),
        ({"events": 3, "rejected": 2, "inserted": 1}, None),
        ({"events": 3, "rejected": 3, "updated": 1}, None),
        ({"events": 3, "rejected": 3}, "all 3 changes were"),
        ({"events": 1, "rejected": 1}, "its one change was"),
        ({"events": 0, "rejected": 1}, None),
    ],
)
def test_a_target_of_which_every_change_was_set_aside(
    counts: dict[str, int], text: str | None
) -> None:
    see = "`ingest rejects list --source shop` shows why"
    said = f"table items: {text} set aside: {see}" if text is not None else None
    assert all_rejected(merged(**counts)) == said


ROWS = {
    "items": TargetContract("scd1", ("id",), ()),
    "marked": TargetContract("scd1", ("id",), (), "soft"),
    "versions": TargetContract("scd2", ("id",), ()),
}
RAN = Outcome(
    sources={"shop": SourceOutcome(messages=7, rows=8)},
    tables={
        ("shop", name): merged(
            **{"target": name, "events": 1200, "inserted": 3, "updated": 2, "seconds": 1.25},
            contract=contract,
        )
        for name, contract in ROWS.items()
    },
)


def printed(width: int, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The words of each line that people see."""
    monkeypatch.setenv("COLUMNS", str(width))
    show_outcome(Console(json=False), RAN, ("bronze", "silver", "gold"))
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_what_people_see_of_a_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts that are zero everywhere are left out, and what a MERGE updated is called what it
    was."""
    lines = printed(120, capsys, monkeypatch)
    assert lines[0] == ["source", "messages", "rows"]
    assert lines[2] == ["shop", "7", "8"]
    words = ["events", "inserted", "updated", "updated", "or", "marked", "ended", "seconds"]
    assert lines[4] == ["table", "source", *words]
    counts = ["shop", "1,200", "3", "2", "1.25"]
    assert lines[6:9] == [[name, *counts] for name in ROWS]


def test_a_narrow_screen_has_two_lines_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(64, capsys, monkeypatch)
    assert lines[4] == ["table", "source", "events", "seconds"]
    assert lines[6:] == [
        *(["items", "shop", "1,200", "1.25"], ["inserted=3", "updated=2"]),
        *(["marked", "shop", "1,200", "1.25"], ["inserted=3", "updated", "or", "marked=2"]),
        *(["versions", "shop", "1,200", "1.25"], ["inserted=3", "ended=2"]),
        [],
    ]


def test_programs_get_every_count_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    show_outcome(Console(json=True), RAN, ("bronze", "silver", "gold"))
    source, *tables = map(json.loads, capsys.readouterr().out.splitlines())
    assert tuple(source) == SOURCE
    assert [(tuple(row), row["updated"]) for row in tables] == [(TABLE, 2)] * 3
