"""Formats beyond the seeds against the samples of those who read them too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.events import Event
from tests.support.decoding import decoder, events_of

WORDS = {"insert": "+I", "snapshot": "+I", "update": "+U", "delete": "-D"}


def changelog(events: list[Event], columns: list[str]) -> list[list[Any]]:
    """The rows of a changelog: op and values, before first; numbers as Flink's FLOAT shows them."""
    found = []
    for event in events:
        for word, row in (
            ("-U" if event.op == "update" else "-D", event.before),
            (WORDS[event.op], event.after),
        ):
            if row is not None:
                found.append([word, *(_value(row[column]) for column in columns)])
    return found


def _value(text: str | None) -> Any:
    try:
        return round(float(text or ""), 4)
    except ValueError:
        return text


@pytest.mark.parametrize(
    ("name", "sample"),
    [("maxwell", "maxwell/flink-maxwell-data"), ("ogg", "ogg-json/flink-seatunnel-ogg")],
)
def test_changelogs(shared: Path, name: str, sample: str) -> None:
    file = shared / "samples" / "peers" / sample
    expected = json.loads(file.with_suffix(".expected.json").read_text())
    assert expected["kind"] == "changelog"
    events = events_of(decoder(name), file.with_suffix(".jsonl"))
    assert changelog(events, expected["columns"]) == expected["rows"]
