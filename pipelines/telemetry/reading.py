"""What a run had done at a moment, as plain values that other threads may look at."""

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

    `sources`: by name what was counted, and whether it fails now. `tables`: what was counted, by
    their names. `parked`, `freshness` (µs since 1970 UTC, of the newest change applied) and
    `pending`: every target's, whether or not it had changes; they are known where gold was
    `looked_through`. `ready`: a pass has ended, and nothing of the surroundings failed in the last.
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
