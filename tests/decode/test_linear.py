"""Whatever a message holds, reading it takes time in proportion to its size (semantics.md, 72)."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.support.sizes import SHAPES, Shape, slope

SIZE = 20_000
STEEPEST = 3.0
"""Eight times the size takes eight times as long, and 64 times where a step is quadratic: a slope
of 8. What lies between is for a busy machine; a slope above it is measured again."""
MEMORY = 60
"""Bytes at the highest for a byte of a message."""


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_time_is_linear(shape: Shape) -> None:
    found = []
    for _ in range(3):
        found.append(slope(shape, SIZE))
        if found[-1] < STEEPEST:
            return
    raise AssertionError(f"{shape.name}: a byte costs {found} times as much at 8 times the size")


@pytest.mark.parametrize("shape", SHAPES[:8], ids=[shape.name for shape in SHAPES[:8]])
def test_memory_is_linear(shape: Shape) -> None:
    reader, message = shape.made(300_000)
    tracemalloc.start()
    try:
        reader.rows(message)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEMORY * len(message.value or b"")
