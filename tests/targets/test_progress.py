"""What a row of `gold._progress` holds of a target for the next run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import msgspec
import pytest

from ingest.config.modes import TargetContract
from ingest.sql.quoting import typed_columns
from pipelines.targets import progress as module
from pipelines.targets.progress import (
    PROGRESS,
    SOURCE_CURSOR,
    Horizon,
    Progress,
    SourceCursor,
    Watermarks,
    contract_in,
    create_progress,
    load_progress,
    source_cursor,
    spans,
)
from tests.support.tables import tables_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POS = (0, 1, 1_700_000_000_000, 2**62, 0, 0, 0, 0, 0, 0, 0)
WATERMARKS = Watermarks(
    applied=POS,
    last_removal=POS,
    truncates=(POS,),
    truncate_times=(None,),
    domain="mysql",
    spellings=("Größe", "größe"),
    horizons=(Horizon(POS, 7, None),),
    batch_high_positions=((3, POS), (4, POS)),
    changes=7,
    widest=12,
)
CONTRACT = TargetContract("scd2", ("id", "Größe"), (), "soft", "apply", ("email hash",))
FAR = Progress(
    target="t",
    source="s",
    events=5,
    watermarks={"shop.item": WATERMARKS},
    tables={("shop", None, "item"): 4, (None, None, "x"): 0},
    below=POS,
    partly_applied=9,
    contract=CONTRACT,
    untyped=("a",),
    declared={"a": "int"},
    unsent={"shop.item": ("b", "c")},
    columns=("a", "id"),
    outdated="unconfirmed",
)


def _stored(progress: Progress) -> str:
    row = progress.row(datetime.now(UTC))
    return str(row[[name for name, _ in PROGRESS].index("state")])


def test_all_of_it_comes_back() -> None:
    state = module._state(_stored(FAR))
    assert state.watermarks == FAR.watermarks
    assert {tuple(row[:3]): row[3] for row in state.tables} == FAR.tables
    named = ("below", "partly_applied", "contract", "untyped", "declared", "unsent", "columns")
    for name in (*named, "outdated", "parked_for"):
        assert getattr(state, name) == getattr(FAR, name), name
    assert contract_in(_stored(FAR)) == CONTRACT


def test_a_sources_row_tells_what_a_targets_does_not() -> None:
    cursor = SourceCursor(source="s", batch=4, redecoded=(3, 9), reached=7)
    assert (cursor.target, cursor.whole, cursor.uncounted()) == (SOURCE_CURSOR, 7, cursor)
    state = module._state(_stored(cursor))
    assert (state.redecoded, state.reached) == ((3, 9), 7)
    assert source_cursor({("s", SOURCE_CURSOR): cursor, ("s", "t"): FAR}, "s") is cursor


@pytest.mark.parametrize(
    ("moments", "found"),
    [
        ([7], [(7, 7)]),
        ([3, 1, 3, 2], [(1, 1), (2, 2), (3, 3)]),
        ([0, 1, 10, 12, 30], [(0, 1), (10, 12), (30, 30)]),
        (range(100), [(0, 0), (1, 1), (2, 99)]),
    ],
)
def test_spans_leave_out_the_longest_pauses(
    monkeypatch: pytest.MonkeyPatch, moments: list[int], found: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(module, "_SPANS", 3)
    assert spans(moments) == found


@pytest.mark.parametrize("long", [0, 5_000])
def test_the_newest_row_of_each_target_is_its_progress(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: int
) -> None:
    """Whenever it was written: the clock may have stepped back, and some targets rest for years."""
    monkeypatch.setattr(module, "_SPANS", 2)
    monkeypatch.setattr(module, "_LONG", long)
    chance = Random(3)
    written: dict[str, Progress] = {}
    rows = []
    for version in range(1, 9):
        for target in ("a", "b", "c", "resting", SOURCE_CURSOR):
            if target == "resting" and version > 1:
                continue
            at = datetime(2026, 3, 29, tzinfo=UTC) + timedelta(minutes=chance.randrange(60_000))
            kind = SourceCursor if target == SOURCE_CURSOR else Progress
            events = chance.randrange(2)
            row = kind(source="s", target=target, version=version, batch=version, events=events)
            rows.append(row.row(at))
            micros = module.micros_of(at) if events else None
            before = written[target].merged_at if target in written else None
            merged = max((m for m in (before, micros) if m is not None), default=None)
            written[target] = replace(row.uncounted(), merged_at=merged)
    warehouse = tables_in(tmp_path, session=spark)
    create_progress(warehouse)
    assert load_progress(warehouse) == {}
    frame = spark.createDataFrame(rows, typed_columns(PROGRESS)).repartition(4)
    warehouse.append(frame, "gold", "_progress")
    assert load_progress(warehouse) == {("s", target): row for target, row in written.items()}


def test_of_a_target_that_has_nothing_so_does_nothing() -> None:
    begun = Progress(target="t", source="s")
    assert module._state(_stored(begun)) == module._State() == module._state(None)
    assert msgspec.json.decode(_stored(begun))["contract"] is None


def test_what_a_run_counted_is_not_the_next_ones() -> None:
    assert FAR.uncounted().events == 0
    assert FAR.uncounted().watermarks == FAR.watermarks


def test_parked_for_something_until_it_is_in_order() -> None:
    masked = FAR.parked("expected masks", why="masks")
    assert (masked.uncounted().status, masked.uncounted().parked_for) == ("parked", "masks")
    again = masked.unparked()
    assert (again.status, again.error, again.parked_for) == ("ok", None, None)
