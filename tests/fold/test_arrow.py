"""The fold over Arrow batches: each late key that a batch brings has a result in history (78)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.fold.arrow import Run, fold_history, judge_rows, judge_versions
from ingest.fold.fold import Change
from ingest.fold.key_groups import key_groups
from ingest.fold.lateness import LatenessBounds
from tests.fold.test_fold import arrived, halved
from tests.support.databases import Database

KEY, IMAGE = pa.list_(pa.string()), pa.map_(pa.string(), pa.string())
EVENTS = pa.schema(
    [
        *(("component", pa.string()), ("op", pa.string()), ("pos", pa.list_(pa.int64()))),
        *(("label", pa.string()), ("key", KEY), ("key_before", KEY), ("image", IMAGE)),
        *(("before", IMAGE), ("partial", pa.bool_()), ("event_time", pa.int64())),
        *(("tx", pa.string()), ("digest", pa.int64()), ("epoch", pa.int64())),
        *(("topic", pa.string()), ("partition", pa.int64()), ("offset", pa.int64())),
        *(("row", pa.int64()), ("fits", pa.bool_()), ("stored", pa.list_(pa.int64()))),
        *(("opened", pa.list_(pa.int64())), ("marked", pa.bool_()), ("of_another", pa.bool_())),
    ]
)


def _event(change: Change, component: str) -> dict[str, Any]:
    row = change._asdict()
    row |= {"component": component, "label": change.table, "tx": change.transaction}
    row |= {"fits": True, "marked": False, "of_another": False}
    row |= {"epoch": 0, "topic": "t", "partition": 0, "row": 0}
    for name in ("image", "before"):
        row[name] = {n: None if v is None else str(v) for n, v in (row[name] or {}).items()} or None
    return {name: row.get(name) for name in EVENTS.names}


def _results(run: Run, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    ordered = sorted(events, key=lambda event: str(event["component"]))
    read = pa.Table.from_pylist(ordered, EVENTS)
    return [row for batch in run(iter(read.to_batches())) for row in batch.to_pylist()]


def _named(run: Run, batch: Sequence[Change]) -> set[tuple[str, ...]]:
    found = _results(run, (_event(change, json.dumps(change.key)) for change in batch))
    return {tuple(row["key"]) for row in found if row["kind"] in ("late", "doubtful")}


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_78_history_has_every_late_key_of_a_batch(seed: int) -> None:
    """However little of the log has come, and however it is mixed."""
    chance = random.Random(seed)
    database = Database(chance, truncates=False)
    database.live(40)
    sent = [half for told in arrived([[database.changes]]) for half in halved(told, chance)]
    come = chance.sample(sent, chance.randrange(1, len(sent)))
    batch = chance.sample(come, chance.randrange(1, len(come) + 1))
    bounds = LatenessBounds(last_removal=max(change.pos for change in come))
    rows = judge_rows(soft=False, by_arrival=False, fresh=False, bounds=bounds)
    versions = judge_versions(
        by_arrival=False, bounds=bounds, truncates=(), new_truncates=(), again=False
    )
    for judge, kept in ((rows, False), (versions, True)):
        named = _named(judge, batch)
        moved = [(c.key_before, c.key) for c in come if c.key and c.key_before not in (None, c.key)]
        groups = key_groups(named, [(old, new) for old, new in moved if old is not None])
        told = (
            _event(c, str(groups[c.key])) for c in come if c.key is not None and c.key in groups
        )
        found = _results(fold_history(soft=False, by_arrival=False, versions=kept), told)
        assert named <= {tuple(row["key"]) for row in found}
