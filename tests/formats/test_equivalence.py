"""One answer whatever the format: the same log, sent over every wire, is the same rows in silver.

Except for what the format's table of losses names, `FORMAT.losses`, which is tested to be true.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from ingest.formats import FORMATS
from ingest.wire.contract import Message
from tests.support.canonical import LARGE, LARGE_NULLS, NO_OPS, ZERO_DATES, image_of, lost_by
from tests.support.changes import Change
from tests.support.encoders import WIRES
from tests.support.farm import ADDED, COLUMNS, EDGES, Farm
from tests.support.truncates import TRUNCATES
from tests.support.wires import as_dicts, message_of, read, reader_of

SEEDS = range(4)
CHANGES = 40


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_change_is_the_models(wire: str, seed: int) -> None:
    farm = Farm(random.Random(seed))
    farm.live(CHANGES)
    rows = read(wire, *farm.log, columns_of={**COLUMNS, **ADDED})
    assert [(row["format"], row["error_code"]) for row in rows] == [
        (WIRES[wire].format, None) for _ in farm.log
    ]
    for change, row in zip(farm.log, rows, strict=True):
        found = {name: row[name] for name in ("op", "key_before", "key", "before", "after")}
        assert found == expected(change, lost_by(wire), row["unavailable"] or ())


def expected(change: Change, lost: Collection[str], unavailable: Collection[str]) -> dict[str, Any]:
    """What silver holds of a change, less what is lost."""
    before, after = (image_of(row, change.columns, lost) for row in (change.before, change.after))
    key_before = key_of(change.before) if change.op == "update" else None
    if change.op == "update" and before == after and NO_OPS in lost:
        before = key_before = None
    for name in unavailable:
        assert LARGE_NULLS in lost
        assert change.columns[name] in LARGE
        assert {image.pop(name) for image in (before, after) if image is not None} == {None}
    key = key_of(change.after if change.after is not None else change.before)
    return {
        "op": change.op,
        "key_before": key_before,
        "key": key,
        "before": before,
        "after": after,
    }


def key_of(row: Mapping[str, Any] | None) -> dict[str, str] | None:
    return None if row is None else {"id": str(row["id"])}


def test_the_logs_show_what_they_should() -> None:
    """Every edge of every type, keys that change, a column that is added."""
    logs = []
    for seed in SEEDS:
        farm = Farm(random.Random(seed))
        farm.live(CHANGES)
        logs += farm.log
    seen = {
        (t, row[n])
        for c in logs
        for row in (c.before, c.after)
        if row
        for n, t in c.columns.items()
    }
    assert {(type_, edge) for type_, edges in EDGES.items() for edge in edges} <= seen
    assert {(type_, None) for type_ in EDGES} <= seen
    updates = [(c.before or {}, c.after or {}) for c in logs if c.op == "update"]
    moves = [before["id"] for before, after in updates if before["id"] != after["id"]]
    assert len(moves) > 5
    assert {c.op for c in logs} == {"insert", "update", "delete"}
    assert any(row["late"] for c in logs for row in (c.before, c.after) if row and "late" in row)


def test_every_format_is_sent() -> None:
    assert {wire.format for wire in WIRES.values()} == FORMATS.keys()


BY_PARTS = ("dts", "ob_avro")
"""Formats whose dates are numbers by part: their golden folders show the zero ones."""


@pytest.mark.parametrize("wire", [name for name, w in WIRES.items() if w.format not in BY_PARTS])
def test_zero_dates(wire: str) -> None:
    """Text in silver, with a warning, but for producers that have no such date to send."""
    columns = {"id": "int", "day": "date", "made": "datetime"}
    row = {"id": 1, "day": "0000-00-00", "made": "0000-00-00 00:00:00"}
    if ZERO_DATES in lost_by(wire):
        row |= {"day": None, "made": None}
    [found] = read(wire, Change("insert", columns, None, row))
    assert found["after"] == {**row, "id": "1"}
    assert found["warnings"] == (None if ZERO_DATES in lost_by(wire) else ["zero_date"])


@pytest.mark.parametrize("wire", TRUNCATES)
def test_a_truncate_stands_where_it_happened(wire: str) -> None:
    columns = {"id": "int", "label": "varchar(200)"}
    kept, gone, emptied = (
        Change("insert", columns, None, {"id": 1, "label": "new"}, number=3),
        Change("insert", columns, None, {"id": 1, "label": "old"}, number=1),
        Change("truncate", columns, None, None, number=2),
    )
    reader = reader_of(wire, columns, order="source")
    messages = [
        message_of(wire, kept),
        Message(TRUNCATES[wire](emptied), offset=1),
        message_of(wire, gone, offset=2),
    ]
    rows = [as_dicts(reader.rows(message))[-1] for message in messages]
    rows.sort(key=lambda row: row["pos"])
    assert [(row["kind"], row["op"], row["after"]) for row in rows] == [
        ("change", "insert", {"id": "1", "label": "old"}),
        ("change", "truncate", None),
        ("change", "insert", {"id": "1", "label": "new"}),
    ]
    assert len({(row["db"], row["schema"], row["table"]) for row in rows}) == 1
