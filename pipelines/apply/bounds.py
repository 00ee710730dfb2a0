"""How much of a target's changes the driver takes at once; everything above is left to Spark's
workers."""

from __future__ import annotations

CHANGES = 50_000
BYTES = 64 << 20
"""Of images."""
OF_A_ROW = 512
"""Bytes of a change beside its images."""
KEYS, KEY_BYTES = 50_000, 1_000
"""Keys, and the bytes of each."""
KEY_CHANGES = 100_000
