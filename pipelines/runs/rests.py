"""How long what failed is left alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

Name = TypeVar("Name")
FIRST_REST, LONGEST_REST = 1.0, 300.0
"""Seconds until what failed is tried again; they double each time it fails once more."""


class Rest(NamedTuple):
    """Until when something is left alone that failed, by the monotonic clock."""

    error: Exception
    until: float
    seconds: float


class Rests(Generic[Name]):
    """How long sources whose messages could not be had, or targets that are parked, are left alone:
    a server that does not answer holds up the sources after it, and an attempt in vain costs as
    much as any other. At most one of each source or target."""

    def __init__(self) -> None:
        self._rests: dict[Name, Rest] = {}

    def __iter__(self) -> Iterator[Name]:
        return iter(list(self._rests))

    def __bool__(self) -> bool:
        return bool(self._rests)

    def of(self, name: Name) -> Rest | None:
        """The rest of one that is still to be left alone."""
        rest = self._rests.get(name)
        return rest if rest is not None and time.monotonic() < rest.until else None

    def failed(self, name: Name, error: Exception) -> None:
        """Let one rest that failed, twice as long as the last time if it did so before."""
        before = self._rests.get(name)
        seconds = FIRST_REST if before is None else min(before.seconds * 2, LONGEST_REST)
        self._rests[name] = Rest(error, time.monotonic() + seconds, seconds)

    def ended(self, name: Name) -> None:
        """It has not failed any more."""
        self._rests.pop(name, None)
