"""When a run counts as failed for what was set aside, though nothing broke."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.config.sources import Rejects
from pipelines.gold.run import Merged
from pipelines.operations.run import Source, spoilt_source, spoilt_target

NO_LIMIT = Rejects()
SEE = "`ingest rejects list --source shop` shows them"


def merged(**counts: int) -> Merged:
    told: dict[str, Any] = dict.fromkeys(Merged._fields, 0)
    return Merged(**{**told, "target": "items", "source": "shop", "error": None, **counts})


@pytest.mark.parametrize(
    ("done", "text"),
    [
        (Source(rows=9, decoded=9), None),
        (Source(rows=9, decoded=9, rejects=8, changes=1), None),
        (
            Source(rows=2, decoded=2, rejects=2),
            f"all 2 messages were set aside, none could be decoded: is its format right? {SEE}",
        ),
        (
            Source(rows=1, decoded=1, rejects=1),
            f"its one message was set aside, it could not be decoded: is its format right? {SEE}",
        ),
        # A heartbeat or a schema change among them is no change.
        (
            Source(rows=60_001, decoded=60_001, rejects=60_000),
            "60,000 of 60,001 messages were set aside and no change could be decoded: "
            f"is its format right? {SEE}",
        ),
    ],
)
def test_a_source_of_which_no_change_could_be_decoded(done: Source, text: str | None) -> None:
    said = f"source shop: {text}" if text is not None else None
    assert spoilt_source("shop", done, [], limit=NO_LIMIT) == said


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        ("50%", None),
        ("5%", "1 of 10 messages were set aside, more than rejects.fail_above allows (5%)"),
        ("15%", "gold set aside 2 of 9 changes, more than rejects.fail_above allows (15%)"),
        (2, "1 message and 2 changes were set aside, more than rejects.fail_above allows (2)"),
    ],
)
def test_a_source_that_exceeds_its_bound(bound: int | str, text: str | None) -> None:
    done = Source(rows=10, decoded=10, rejects=1, changes=9)
    tables = [merged(events=9, rejected=2, inserted=7)]
    said = f"source shop: {text}: {SEE}" if text is not None else None
    assert spoilt_source("shop", done, tables, limit=Rejects(fail_above=bound)) == said


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
    assert spoilt_target(merged(**counts)) == said
