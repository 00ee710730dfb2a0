"""What a benchmark gives: a measured ratio, and the numbers it came from."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession


class Figure(NamedTuple):
    """One row of the table. `target` is the most that `measured` may be."""

    name: str
    target: float
    measured: float
    numbers: str
    unit: str = "x"

    @property
    def reached(self) -> bool:
        """Whether the target is met."""
        return self.measured <= self.target


class Bench(NamedTuple):
    """What a benchmark is given: a session, an empty folder, the size (1 = full), the seed."""

    session: SparkSession
    folder: Path
    scale: float
    seed: int

    def sized(self, count: int, *, least: int = 1000) -> int:
        """A full size at this run's scale."""
        return max(least, int(count * self.scale))


def ratio(mine: Sequence[float], other: Sequence[float]) -> float:
    """The median of ratios of runs that were made in turns."""
    return statistics.median(a / b for a, b in zip(mine, other, strict=True))
