"""Messages that double in size: what a byte of them costs must not grow."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.figures import Bench, Figure
from tests.support.sizes import SHAPES, seconds, slope

_SMALL = 50_000
_TIMES = 16


def run(bench: Bench) -> Iterator[Figure]:
    """One figure for the steepest shape of a kind, the part of its name before the comma."""
    steepest: dict[str, tuple[float, str]] = {}
    small = bench.sized(_SMALL)
    for shape in SHAPES:
        kind = shape.name.partition(",")[0]
        found = slope(shape, small, times=_TIMES)
        numbers = f"{shape.name}: {seconds(shape, small * _TIMES) * 1e3:.0f} ms"
        steepest[kind] = max(steepest.get(kind, (0.0, "")), (found, numbers))
    for kind, (found, numbers) in steepest.items():
        yield Figure(f"a byte at {_TIMES} times the size, {kind}", 1.5, found, numbers)
