"""Reading an answer from a socket, within bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable

ANSWER_SECONDS = 60.0
"""How long an answer may take from the question to its last byte, however it arrives."""

_A_PART = 1 << 20


def answer_deadline() -> float:
    """Until when, by `time.monotonic`, the answer to a question asked now may take."""
    return time.monotonic() + ANSWER_SECONDS


def read_exactly(
    read: Callable[[int], bytes], count: int, *, deadline: float, closed: str
) -> bytes:
    """`count` bytes, by as many calls of `read` as needed; each may give fewer.

    Raises OSError if the deadline has passed or the connection ends; `closed` is its text then.
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
