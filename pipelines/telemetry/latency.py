"""How long changes took to reach gold, from their source and from their arrival, by percentile.

Silver notes when the changes of a micro-batch happened and when they arrived (the timestamps of
their messages), as QUANTILES of these times. When gold has the changes, each quantile stands for
its part of the batch. Their ages are counted in buckets, each a fifth wider than the one before. So
there are at most some two hundred numbers, however many changes come, and a percentile is right to
a tenth of its value.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

QUANTILES = tuple((place + 0.5) / 100 for place in range(100))
"""The quantiles of a micro-batch's changes, by time, that are noted."""
BOUNDS = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0)
"""The upper bounds, in seconds, of the buckets that metrics show."""
_SHORTEST = 0.001
_WIDER = 1.2


class Latency:
    """The ages, in seconds, at which changes reached gold."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.below: Counter[int] = Counter()
        """By place in BOUNDS, how many took longer than the bound before and at most this one."""
        self.seconds = 0.0

    @property
    def count(self) -> int:
        """How many changes were measured."""
        return self._buckets.total()

    def add(self, now: int, changes: int, times: Sequence[int]) -> None:
        """Add changes that gold has `now` (µs since 1970 UTC), by the quantiles of their times.

        A time ahead of this machine's clock counts as now.
        """
        if not times:
            return
        whole, rest = divmod(changes, len(times))
        for place, time in enumerate(sorted(times)):
            number = whole + (place < rest)
            age = max((now - time) / 1e6, _SHORTEST)
            self._buckets[math.ceil(math.log(age / _SHORTEST, _WIDER))] += number
            self.below[bisect_left(BOUNDS, age)] += number
            self.seconds += age * number

    def percentile(self, part: float) -> float | None:
        """The seconds within which `part` of the changes (0 to 1) reached gold; None if there are
        none."""
        wanted, found = part * self.count, 0
        for bucket in sorted(self._buckets):
            found += self._buckets[bucket]
            if found >= wanted and found:
                # The middle of the bucket is the geometric mean of its bounds.
                return float(f"{_SHORTEST * _WIDER ** (bucket - 0.5):.3g}")
        return None

    def copy(self) -> Latency:
        """What has been measured so far."""
        return self._with(self._buckets.copy(), self.below.copy(), self.seconds)

    def since(self, earlier: Latency) -> Latency:
        """What was measured after `earlier`."""
        buckets, below = self._buckets - earlier._buckets, self.below - earlier.below
        return self._with(buckets, below, self.seconds - earlier.seconds)

    @staticmethod
    def _with(buckets: Counter[int], below: Counter[int], seconds: float) -> Latency:
        latency = Latency()
        latency._buckets, latency.below, latency.seconds = buckets, below, seconds
        return latency
