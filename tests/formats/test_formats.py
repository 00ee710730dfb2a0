"""Golden folders: own messages in, complete silver rows out, from raw bytes, for every format.

`tests/formats/<format>/<scenario>/` holds `messages.jsonl` (one message a line) or
`messages.kcat.jsonl`, maybe `source.yml` (a source's YAML without name and transport), and
`silver.jsonl`: every column of every row but `silver_rows.APART` and batch, `extra` only where it
is not null. Adding a case needs no Python.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingest.formats import FORMATS
from tests.support.silver_rows import APART, golden_rows

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/*/silver.jsonl"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f"{f.parent.name}/{f.name}")
def test_golden(folder: Path) -> None:
    lines = (folder / "silver.jsonl").read_text().splitlines()
    expected = [_kept(json.loads(line)) for line in lines]
    got = golden_rows(folder)
    assert [_short(row) for row in got] == [_short(row) for row in expected]
    assert got == expected


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in APART}


def _short(row: dict[str, Any]) -> str:
    """What a failing test should show first."""
    return f"{row['offset']}.{row['row']} {row['kind']} {row['op']} {row['error_code']}"


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_golden_folders(name: str) -> None:
    assert any(folder.parent.name == name for folder in FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda f: f"{f.parent.name}/{f.name}")
def test_every_message_has_a_row(folder: Path) -> None:
    source = folder / "messages.jsonl"
    if not source.exists():
        source = folder / "messages.kcat.jsonl"
    messages = [line for line in source.read_bytes().split(b"\n") if line]
    coordinates = {(row["topic"], row["partition"], row["offset"]) for row in golden_rows(folder)}
    assert len(coordinates) == len(messages)
