"""Which tables a run compacts, by the writes that it has counted."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.operations import compaction
from pipelines.operations.compaction import compact_written


def test_a_table_that_cannot_be_compacted_keeps_no_other_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again after as many writes, and the counts of all are kept."""
    tried: list[str] = []

    def compact(_: Any, layer: str, table: str) -> bool:
        tried.append(f"{layer}.{table}")
        if (layer, table) == ("bronze", "messages"):
            raise OSError("no space is left")
        return True

    monkeypatch.setattr(compaction, "WRITES", 2)
    monkeypatch.setattr(compaction, "having", lambda *_: nullcontext())
    monkeypatch.setattr(compaction, "_compact", compact)
    warehouse: Any = SimpleNamespace(session=None, checkpoint=lambda name: str(tmp_path / name))
    both = [("silver", "cdc"), ("bronze", "messages")]

    def counts() -> Any:
        return json.loads((tmp_path / "compaction.json").read_bytes())

    assert compact_written(warehouse, both) == []
    assert counts() == {"silver.cdc": 1, "bronze.messages": 1}
    with pytest.raises(OSError, match="no space is left"):
        compact_written(warehouse, both)
    assert tried == ["bronze.messages", "silver.cdc"]
    assert counts() == {"silver.cdc": 0, "bronze.messages": 0}
    assert compact_written(warehouse, both) == []
    assert len(tried) == 2
