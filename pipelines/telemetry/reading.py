"""What a run had done at a moment, as plain values that other threads may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pipelines.telemetry.latency import Latency

Table = tuple[str, str]
"""Source and target."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a run had done `at` a moment.

    - `sources`: by name, what was counted and whether the source fails now.
    - `tables`: by their names, what was counted.
    - `parked`, `freshness` (µs since 1970 UTC, of the newest change applied) and `pending`: of
      every target, with or without changes; they are known if gold was `looked_through`.
    - `ready`: a pass has ended, and nothing that the run depends on failed in the last one.
    """

    run: str
    at: datetime
    began: datetime
    passes: int = 0
    ready: bool = False
    looked_through: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    failing: Mapping[str, bool] = field(default_factory=dict)
    tables: Mapping[Table, Mapping[str, float]] = field(default_factory=dict)
    parked: Mapping[Table, bool] = field(default_factory=dict)
    freshness: Mapping[Table, int | None] = field(default_factory=dict)
    pending: Mapping[Table, int] = field(default_factory=dict)
    latency: Latency = field(default_factory=Latency)
    arrival_latency: Latency = field(default_factory=Latency)
