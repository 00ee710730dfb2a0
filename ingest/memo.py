"""Results remembered by key, up to a bound, so that no stream of new keys fills memory."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memo(dict[K, V]):
    """A dict of at most `most` keys: when it is full, a new key replaces all that are there.

    Forgetting all of them at once costs a lookup nothing; what is asked for again is computed
    again.
    """

    def __init__(self, *, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self._most and key not in self:
            self.clear()
        super().__setitem__(key, value)
