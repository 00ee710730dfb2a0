"""Answers that are read from a socket, and do not take for ever."""

from __future__ import annotations

import time
from collections.abc import Callable

ANSWER_SECONDS = 60.0
"""How long an answer may take from its question to its last byte, however it comes."""

_A_PART = 1 << 20


def answer_deadline() -> float:
    """Until when the answer to a question of now may take, by `time.monotonic`."""
    return time.monotonic() + ANSWER_SECONDS


def read_exactly(
    read: Callable[[int], bytes], count: int, *, deadline: float, closed: str
) -> bytes:
    """`count` bytes, by as many calls of `read` as it takes, each of which may give fewer.

    Raises OSError where the deadline has passed or, as `closed` says it, the connection ends.
    """
    taken = bytearray()
    while len(taken) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no whole answer within {ANSWER_SECONDS:.0f} s")
        part = read(min(count - len(taken), _A_PART))
        if not part:
            raise ConnectionError(closed)
        taken += part
    return bytes(taken)
