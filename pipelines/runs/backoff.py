"""How long what failed is left alone before it is tried again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

Name = TypeVar("Name")
FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 300.0
"""Seconds until what failed is tried again; they double each time it fails once more."""


class Backoff(NamedTuple):
    """Until when, by the monotonic clock, something that failed is left alone."""

    error: Exception
    until: float
    seconds: float


class Backoffs(Generic[Name]):
    """How long sources that could not be read, or targets that are parked, are left alone.

    A server that does not answer would hold up the sources after it, and a vain attempt costs as
    much as any other. Each source or target has at most one backoff.
    """

    def __init__(self) -> None:
        self._backoffs: dict[Name, Backoff] = {}

    def __iter__(self) -> Iterator[Name]:
        return iter(list(self._backoffs))

    def __bool__(self) -> bool:
        return bool(self._backoffs)

    def of(self, name: Name) -> Backoff | None:
        """The backoff of something that is still to be left alone."""
        backoff = self._backoffs.get(name)
        return backoff if backoff is not None and time.monotonic() < backoff.until else None

    def failed(self, name: Name, error: Exception) -> None:
        """Note a failure: the backoff is twice as long as that of the failure before it."""
        before = self._backoffs.get(name)
        seconds = FIRST_BACKOFF if before is None else min(before.seconds * 2, LONGEST_BACKOFF)
        self._backoffs[name] = Backoff(error, time.monotonic() + seconds, seconds)

    def ended(self, name: Name) -> None:
        """Note that it does not fail any more."""
        self._backoffs.pop(name, None)
