"""What recognising a message has read, handed to the decoder that comes next.

Formats without a mark are recognised by reading a whole message; reading it once more to decode it
would cost as much again.
"""

from __future__ import annotations

from typing import Generic, TypeVar

_Read = TypeVar("_Read")


class Handover(Generic[_Read]):
    """Holds what was read from the last value, until it is taken."""

    def __init__(self) -> None:
        self._last: tuple[bytes, _Read] | None = None

    def put(self, value: bytes, found: _Read) -> None:
        """Keep what was read from `value`, and nothing else any more."""
        self._last = value, found

    def take(self, value: bytes) -> _Read | None:
        """What was read from this very object, once: decoding changes it."""
        last, self._last = self._last, None
        return last[1] if last is not None and last[0] is value else None
