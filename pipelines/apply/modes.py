"""One batch of changes of a source table applied to its target, by the way the target keeps rows.

1. Where the statistics of the batch allow (`fast_suffices`) it is folded in SQL and written at
   once: every change is newer than what was applied, every image is whole.
2. Where they do not, or Spark meets on the way what they did not show (Surprise), it is applied
   exactly (`pipelines.apply.exact`): every key is judged, keys on time are folded from the batch,
   late ones again from history, and one MERGE writes both.

To add a mode:

1. What the YAML calls it: `ScdType` (`ingest.config.tables`), there too what may not be declared
   beside it, and the sentence on it in `pipelines/documentation/keys.py`.
2. `Mode`, the way from the one to the other, and a row in KEEPING (`ingest.config.modes`), which
   its table, its progress and what maintains it go by. `mode_of` there says what becomes of it
   where a table has no key.
3. A module here with the verbs of TargetMode, or of KeyedMode where its rows have keys, and its row
   in MODES or KEYED.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from ingest.config.modes import Mode
from ingest.fold.arrow import Run
from pipelines.apply import append, scd1, scd2
from pipelines.apply.batch import Applied, TableBatch
from pipelines.apply.exact import Refolded
from pipelines.apply.frames import Frames
from pipelines.apply.rejects import order_key_rejects, resolve_deletes
from pipelines.apply.surprise import Surprise
from pipelines.platform.warehouse import Warehouse


class TargetMode(Protocol):
    """The verbs of a mode."""

    def fast_suffices(self, batch: TableBatch) -> bool:
        """Whether one SQL query can fold the batch."""

    def fast(self, frames: Frames, batch: TableBatch) -> Applied:
        """Apply the batch by SQL alone; raises Surprise if that would be wrong."""

    def exact(self, frames: Frames, batch: TableBatch) -> Applied:
        """Apply any batch, whatever it holds."""

    def fast_history(self, frames: Frames, batch: TableBatch) -> str | None:
        """SQL of the rows that a whole history makes, folded in SQL for most keys; None if that
        holds for too few. Running it raises SURPRISE if the result would be wrong."""

    def exact_history(self, frames: Frames, batch: TableBatch) -> str:
        """SQL of these rows whatever the history holds."""


class KeyedMode(TargetMode, Protocol):
    """A mode whose rows have keys."""

    def history_run(self, batch: TableBatch) -> Run:
        """The function that folds the history of keys event by event."""

    def merge_folded(self, frames: Frames, batch: TableBatch, refolded: Refolded) -> Counter[str]:
        """Write the rows that the history of some keys led to; gives how many rows were inserted,
        updated and deleted. Rows of other keys stay, and so do those that another source table
        holds."""


KEYED: Mapping[Mode, KeyedMode] = {"scd1": scd1, "scd2": scd2}
MODES: Mapping[Mode, TargetMode] = {**KEYED, "append": append}


def apply(warehouse: Warehouse, batch: TableBatch) -> Applied:
    """Bring the target forward by the batch; applying one twice changes nothing."""
    mode = MODES[batch.mode]
    with Frames(warehouse) as frames:
        applied = _applied(mode, frames, batch)
        if batch.missing_order_keys:
            applied.counts["rejected"] += order_key_rejects(frames, batch)
        if batch.projection.sequence and batch.total("key_changes"):
            resolve_deletes(frames, batch)
    applied.counts["events"] = batch.total("changes")
    applied.counts["zero_dates"] = batch.total("zero_dates")
    return applied


def _applied(mode: TargetMode, frames: Frames, batch: TableBatch) -> Applied:
    if mode.fast_suffices(batch):
        with suppress(Surprise):
            return mode.fast(frames, batch)
    return mode.exact(frames, batch)
